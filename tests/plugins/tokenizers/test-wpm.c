/* test-wpm.c: the tokenizer plugin wpm, against ids from llama.cpp, against its own definition carried out
 * plainly, and with vocabularies that no one should make. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "gguf-writer.h"
#include "harness.h"

static const struct engine_tokenizer_api *api;

static void load(void)
{
    api = load_tokenizers("wpm");
}

TestSuite(wpm, .init = load, .timeout = 600);

Test(wpm, shared_bert_bge)
{
    expect_shared_ids("wpm", "bert-bge", false);
}

/* ---- A small vocabulary ---- */

enum { PAD, UNK, CLS, SEP, UN, AFF, ABLE, A, COMMA, PLUS, CJK, ACCENT, E_WORD, CAPITAL, JAMO, USER };

static void make_small(struct fake_vocab *vocab)
{
    fake_piece(vocab, "[PAD]", 0, CONTROL);
    fake_piece(vocab, "[UNK]", 0, CONTROL);
    fake_piece(vocab, "[CLS]", 0, CONTROL);
    fake_piece(vocab, "[SEP]", 0, CONTROL);
    fake_piece(vocab, "▁un", 0, NORMAL);
    fake_piece(vocab, "aff", 0, NORMAL);
    fake_piece(vocab, "able", 0, NORMAL);
    fake_piece(vocab, "▁a", 0, NORMAL);
    fake_piece(vocab, "▁,", 0, NORMAL);
    fake_piece(vocab, "▁+", 0, NORMAL);
    fake_piece(vocab, "▁語", 0, NORMAL);
    fake_piece(vocab, "▁é", 0, NORMAL);
    fake_piece(vocab, "▁e", 0, NORMAL);
    fake_piece(vocab, "▁A", 0, NORMAL);
    fake_piece(vocab, "▁ᄀ", 0, NORMAL);
    fake_piece(vocab, "<user>", 0, USER_DEFINED);
    fake_integer(vocab, "tokenizer.ggml.bos_token_id", CLS);
    fake_integer(vocab, "tokenizer.ggml.seperator_token_id", SEP);
    fake_integer(vocab, "tokenizer.ggml.unknown_token_id", UNK);
}

Test(wpm, words)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "", 0, "");
    expect_ids(api, tokenizer, "unaffable", 0, "4 5 6");
    expect_ids(api, tokenizer, "UNaffABLE", 0, "4 5 6");
    expect_ids(api, tokenizer, " \t a\n\xE3\x80\x80un\xC2\xA0 ", 0, "7 4");
    expect_ids(api, tokenizer, "aff", 0, "1"); /* does not begin words */
    expect_ids(api, tokenizer, "unx", 0, "1"); /* unknown as a whole */
    expect_ids(api, tokenizer, "unaffa x a", 0, "1 1 7");
    expect_ids(api, tokenizer, "a,,a+a", 0, "7 8 8 7 9 7");
    expect_ids(api, tokenizer, "a語語un", 0, "7 10 10 4");
    expect_ids(api, tokenizer, "a。a", 0, "7 1 7"); /* punctuation beyond ASCII stands alone as well … */
    expect_ids(api, tokenizer, "a×", 0, "1");       /* … symbols don't */
    api->destroy(tokenizer);
    fake_free(&vocab);
}

Test(wpm, normalization)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "É Ё e\xCC\x81", 0, "12 1 12");
    expect_ids(api, tokenizer, "ÀUN", 0, "1");
    expect_ids(api, tokenizer, "À Å \xE2\x84\xAB", 0, "7 7 7"); /* Å, U+00C5, and the Ångström sign */
    expect_ids(api, tokenizer, "가", 0, "14");                  /* the first Jamo alone */
    expect_ids(api, tokenizer,
               "u\x01n \xE2\x80\x8B"
               "a\xEF\xBF\xBD\x7F",
               0, "4 7"); /* controls, U+200B, U+FFFD */
    expect_ids(api, tokenizer, "\xCC\x81 \x02", 0, "");
    /* What is no UTF-8 is dropped: stray bytes, overlong forms, characters past the end, or cut off. */
    expect_ids(api, tokenizer,
               "u\xFFn \xC0\xA0"
               "a \x80 \xF4\x90\x80\x80 a\xE3\x80",
               0, "4 7 7");
    expect_ids(api, tokenizer, "a\xED\xA0\x80", 0, "7");
    struct id_list list = {0};
    encode(api, tokenizer, "u\0n\0", 4, 0, &list);
    cr_expect(list.count == 1 && list.ids[0] == UN);
    id_list_free(&list);
    api->destroy(tokenizer);

    fake_boolean(&vocab, "tokenizer.ggml.normalizer.lowercase", false);
    tokenizer = fake_open(api, &vocab); /* accents then stay too */
    expect_ids(api, tokenizer, "A é É a e\xCC\x81", 0, "13 11 1 7 1");
    api->destroy(tokenizer);
    fake_boolean(&vocab, "tokenizer.ggml.normalizer.strip_accents", true);
    tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "A À é e\xCC\x81", 0, "13 13 12 12");
    api->destroy(tokenizer);
    fake_free(&vocab);

    make_small(&vocab);
    fake_boolean(&vocab, "tokenizer.ggml.normalizer.strip_accents", false);
    tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "A É é", 0, "7 11 11");
    api->destroy(tokenizer);
    fake_free(&vocab);
}

Test(wpm, special_tokens)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "a", ENGINE_ENCODE_BOS_EOS, "2 7 3");
    expect_ids(api, tokenizer, "", ENGINE_ENCODE_BOS_EOS, "2 3");
    expect_ids(api, tokenizer, "a[SEP]un", ENGINE_ENCODE_SPECIAL | ENGINE_ENCODE_BOS_EOS, "2 7 3 4 3");
    expect_ids(api, tokenizer, "a[SEP]", 0, "7 1 1 1");
    expect_ids(api, tokenizer, "un<user>affable", 0, "4 15 1");
    expect_ids(api, tokenizer, "<USER>", 0, "1 1 1");
    struct engine_tokenizer_info info = {.struct_size = sizeof info};
    cr_assert(api->info(tokenizer, &info) == ENGINE_OK);
    cr_expect(info.bos == CLS && info.eos == -1 && info.separator == SEP && info.unknown == UNK &&
              info.padding == PAD);
    cr_expect(info.add_bos && !info.add_eos && info.add_separator);
    api->destroy(tokenizer);

    fake_boolean(&vocab, "tokenizer.ggml.add_sep_token", false);
    tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "a", ENGINE_ENCODE_BOS_EOS, "2 7");
    api->destroy(tokenizer);
    fake_free(&vocab);
}

Test(wpm, decoding)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_lossless(api, tokenizer, "unaffable 語 a", 15);
    struct id_list list = {0};
    struct text text = {0};
    static const char cut[] = "[CLS]A  unaffable,語[SEP]";
    encode(api, tokenizer, cut, sizeof cut - 1, ENGINE_ENCODE_SPECIAL, &list);
    decode(api, tokenizer, &list, false, &text);
    cr_expect(text.length == 17 && memcmp(text.data, "a unaffable , 語", 17) == 0, "\"%.*s\"",
              (int)text.length, text.data);
    decode(api, tokenizer, &list, true, &text);
    cr_expect(text.length == 27 && memcmp(text.data, "[CLS]a unaffable , 語[SEP]", 27) == 0);
    id_list_free(&list);
    text_free(&text);
    api->destroy(tokenizer);
    fake_free(&vocab);
}

/* ---- The definition, plainly ---- */

/* For texts of lower-case letters and spaces. */
static void plain_encode(const struct fake_vocab *vocab, const char *text, size_t length,
                         struct id_list *list)
{
    list->count = 0;
    list->ids = realloc(list->ids, (length + 1) * 3 * sizeof *list->ids);
    char *word = malloc(length + 3);
    for (size_t at = 0; at < length;) {
        size_t end = at;
        while (end < length && text[end] != ' ') end++;
        if (end > at) {
            size_t size = 3 + end - at, first = list->count;
            memcpy(word, "▁", 3);
            memcpy(word + 3, text + at, end - at);
            for (size_t i = 0; i < size;) {
                size_t best = vocab->n_tokens;
                for (size_t id = 0; id < vocab->n_tokens; id++) {
                    struct engine_string piece = vocab->pieces[id];
                    bool fits = piece.length <= size - i && memcmp(piece.data, word + i, piece.length) == 0;
                    if (fits && (best == vocab->n_tokens || piece.length > vocab->pieces[best].length))
                        best = id;
                }
                if (best == vocab->n_tokens) {
                    list->count = first;
                    list->ids[list->count++] = UNK;
                    break;
                }
                list->ids[list->count++] = (int32_t)best;
                i += vocab->pieces[best].length;
            }
        }
        at = end + 1;
    }
    free(word);
}

static bool has_piece(const struct fake_vocab *vocab, const char *piece)
{
    for (size_t id = 0; id < vocab->n_tokens; id++)
        if (vocab->pieces[id].length == strlen(piece) &&
            !memcmp(vocab->pieces[id].data, piece, strlen(piece)))
            return true;
    return false;
}

Test(wpm, agrees_with_the_definition)
{
    static const char *const parts[] = {"a", "b", "c", "ab", "abc", "▁", "\xE2\x96", "é"};
    uint64_t seed = 99;
    for (int round = 0; round < 100; round++) {
        struct fake_vocab vocab = {0};
        make_small(&vocab);
        size_t wanted = 2 + random_next(&seed) % 50;
        for (size_t i = 0; i < wanted; i++) {
            char piece[128] = "";
            if (random_next(&seed) % 2) strcat(piece, "▁");
            size_t n = random_next(&seed) % (i % 8 ? 4 : 12);
            while (n--) strcat(piece, parts[random_next(&seed) % (random_next(&seed) % 8 ? 5 : 8)]);
            if (*piece && !has_piece(&vocab, piece)) fake_piece(&vocab, piece, 0, NORMAL);
        }
        struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
        struct id_list expected = {0}, list = {0};
        for (int i = 0; i < 40; i++) {
            struct text text = {0};
            size_t n = 1 + random_next(&seed) % (i % 8 ? 30 : 500);
            while (n--) text_add(&text, &"aaabbbccc "[random_next(&seed) % (i % 3 ? 10 : 9)], 1);
            plain_encode(&vocab, text.data, text.length, &expected);
            encode(api, tokenizer, text.data, text.length, 0, &list);
            cr_assert(list.count == expected.count &&
                          (!list.count || memcmp(list.ids, expected.ids, list.count * sizeof *list.ids) == 0),
                      "round %d, text %d: \"%.*s\"", round, i, (int)text.length, text.data);
            text_free(&text);
        }
        id_list_free(&expected);
        id_list_free(&list);
        api->destroy(tokenizer);
        fake_free(&vocab);
    }
}

Test(wpm, a_megabyte_of_one_letter)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    size_t length = 1 << 20;
    char *text = malloc(length);
    memset(text, 'a', length);
    fake_piece(&vocab, "aaa", 0, NORMAL);
    fake_piece(&vocab, "a", 0, NORMAL);
    text[50000] = 'b';
    fake_add(&vocab, text, 50001, 0, NORMAL); /* almost matches everywhere */
    text[50000] = 'a';
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    struct id_list list = {0};
    encode(api, tokenizer, text, length, 0, &list);
    cr_expect(list.count == 1 + (length - 1) / 3 && list.ids[0] == A && list.ids[1] == USER + 1);
    text[length - 1] = '~' + 1; /* a control character: dropped */
    encode(api, tokenizer, text, length, 0, &list);
    cr_expect(list.count == 1 + (length - 2) / 3 + (length - 2) % 3);
    text[length - 1] = 'z';
    encode(api, tokenizer, text, length, 0, &list);
    cr_expect(list.count == 1 && list.ids[0] == UNK);
    id_list_free(&list);
    free(text);
    api->destroy(tokenizer);
    fake_free(&vocab);
}

/* ---- Vocabularies that no one should make ---- */

Test(wpm, wrong_vocabularies_are_refused)
{
    struct fake_vocab none = {0};
    fake_refused(api, &none, ENGINE_ERROR_DATA, "no vocabulary");
    struct fake_vocab vocab = {0};
    fake_piece(&vocab, "[UNK]", 0, CONTROL);
    fake_refused(api, &vocab, ENGINE_ERROR_DATA,
                 "beginning of text"); /* [CLS] is 101 where nothing is said */
    fake_boolean(&vocab, "tokenizer.ggml.add_bos_token", false);
    fake_refused(api, &vocab, ENGINE_ERROR_DATA, "separator");
    fake_boolean(&vocab, "tokenizer.ggml.add_sep_token", false);
    fake_refused(api, &vocab, ENGINE_ERROR_DATA, "no unknown token");
    fake_integer(&vocab, "tokenizer.ggml.unknown_token_id", 0);
    api->destroy(fake_open(api, &vocab));
    fake_free(&vocab);
}

/* Whatever comes: a tokenizer that encodes, or an error. */
Test(wpm, random_vocabularies)
{
    uint64_t seed = 14;
    int made = 0;
    for (int round = 0; round < 150; round++) {
        struct fake_vocab vocab = {0};
        size_t n = 4 + random_next(&seed) % 40;
        for (size_t i = 0; i < n; i++) {
            char piece[8];
            size_t length = random_next(&seed) % 7;
            for (size_t j = 0; j < length; j++)
                piece[j] = random_next(&seed) % 8 ? "ab,\xE2\x96\x81\xC3\xA9"[random_next(&seed) % 8]
                                                  : (char)random_next(&seed);
            fake_add(&vocab, piece, length, 0, NORMAL);
            vocab.types[i] = (int64_t)(random_next(&seed) % 6);
        }
        fake_integer(&vocab, "tokenizer.ggml.unknown_token_id", (int64_t)(random_next(&seed) % n));
        fake_integer(&vocab, "tokenizer.ggml.bos_token_id", (int64_t)(random_next(&seed) % n));
        fake_integer(&vocab, "tokenizer.ggml.seperator_token_id", (int64_t)(random_next(&seed) % n));
        made += fake_survives(api, &vocab, "ab, \xE2\x96\x81\xC3\xA9\xFF", 10, 100, &seed);
        fake_free(&vocab);
    }
    cr_expect(made > 20, "only %d of 150 could be made", made);
}
