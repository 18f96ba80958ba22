/* test-spm.c: the tokenizer plugin spm, against ids from llama.cpp, against its own definition carried out
 * naively, and with vocabularies that no one should make. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "gguf-writer.h"
#include "harness.h"

static const struct engine_tokenizer_api *api;

static void load(void)
{
    api = load_tokenizers("spm");
}

TestSuite(spm, .init = load, .timeout = 600);

/* ---- Ids of llama.cpp ---- */

Test(spm, shared_llama)
{
    expect_shared_ids("spm", "llama-spm", true);
}

Test(spm, shared_phi_3)
{
    expect_shared_ids("spm", "phi-3", true);
}

Test(spm, shared_spm4k)
{
    expect_shared_ids("spm", "spm4k", true);
}

Test(spm, shared_baichuan)
{
    expect_shared_ids("spm", "baichuan", true);
}

/* ---- A small vocabulary ---- */

enum {
    MARK = 259, /* ▁ */
    A,
    B,
    AB,
    BA,
    MARK_A,
    USER,
    TURN_END
};

static void make_small(struct fake_vocab *vocab)
{
    fake_add_basics(vocab);
    fake_piece(vocab, "▁", -10, NORMAL);
    fake_piece(vocab, "a", -11, NORMAL);
    fake_piece(vocab, "b", -12, NORMAL);
    fake_piece(vocab, "ab", -1, NORMAL);
    fake_piece(vocab, "ba", -2, NORMAL);
    fake_piece(vocab, "▁a", -3, NORMAL);
    fake_piece(vocab, "<user>", 0, USER_DEFINED);
    fake_piece(vocab, "<|im_end|>", 0, CONTROL);
}

Test(spm, merges_by_score)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "", 0, "");
    expect_ids(api, tokenizer, "a", 0, "264");                 /* ▁a */
    expect_ids(api, tokenizer, "ab", 0, "259 262");            /* ▁ ab: -1 is better than -3 */
    expect_ids(api, tokenizer, "aba", 0, "259 262 260");       /* ▁ ab a, not ▁a ba */
    expect_ids(api, tokenizer, "b a", 0, "259 261 264");       /* ▁ b ▁a */
    expect_ids(api, tokenizer, "bbaab", 0, "259 261 263 262"); /* ▁ b ba ab */
    api->destroy(tokenizer);
    fake_free(&vocab);
}

Test(spm, bytes_where_there_is_no_token)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "é", 0, "259 198 172"); /* C3 A9, from id 3 on */
    expect_ids(api, tokenizer,
               "a\xFF"
               "a",
               0, "264 258 100"); /* FF claims four */
    expect_ids(api, tokenizer, "\xE2", 0, "259 229");
    /* A lead byte takes the bytes that follow for its character, spaces as U+2581 included. */
    expect_ids(api, tokenizer, "\xE2 ab", 0, "259 229 229 153 132 262");
    api->destroy(tokenizer);
    fake_free(&vocab);
}

Test(spm, unknown_where_there_is_no_byte)
{
    struct fake_vocab vocab = {0};
    fake_piece(&vocab, "<unk>", 0, UNKNOWN);
    fake_piece(&vocab, "<s>", 0, CONTROL);
    fake_piece(&vocab, "</s>", 0, CONTROL);
    fake_piece(&vocab, "▁", -1, NORMAL);
    fake_piece(&vocab, "ab", -2, NORMAL); /* a and b are no tokens: characters without one may still merge */
    fake_piece(&vocab, "\xC3", -3, NORMAL);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "ab", 0, "3 4");
    expect_ids(api, tokenizer, "a", 0, "3 0");
    expect_ids(api, tokenizer, "xaby", 0, "3 0 4 0");
    expect_ids(api, tokenizer, "é", 0, "3 0");
    expect_ids(api, tokenizer, "\xC3", 0, "3 5");
    api->destroy(tokenizer);
    fake_free(&vocab);
}

Test(spm, special_tokens)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    /* User-defined ones are always found, and the text after them gets a space before it. */
    expect_ids(api, tokenizer, "a<user>b", 0, "264 265 259 261");
    expect_ids(api, tokenizer, "<user><user>", 0, "265 265");
    /* Control tokens if asked for. '<' is 63, 's' 118, '>' 65. */
    expect_ids(api, tokenizer, "<s>", 0, "259 63 118 65");
    expect_ids(api, tokenizer, "<s>a</s>", ENGINE_ENCODE_SPECIAL, "1 264 2");
    expect_ids(api, tokenizer, "<unk>", ENGINE_ENCODE_SPECIAL, "0");
    expect_ids(api, tokenizer, "a<|im_end|>", ENGINE_ENCODE_SPECIAL, "264 266");
    expect_ids(api, tokenizer, "a", ENGINE_ENCODE_BOS_EOS, "1 264");
    expect_ids(api, tokenizer, "", ENGINE_ENCODE_BOS_EOS, "1");

    struct engine_tokenizer_info info = {.struct_size = sizeof info};
    cr_assert(api->info(tokenizer, &info) == ENGINE_OK);
    cr_expect(info.n_tokens == 267 && info.bos == 1 && info.eos == 2 && info.unknown == 0);
    cr_expect(info.end_of_turn == TURN_END && info.add_bos == 1 && info.add_eos == 0);
    cr_expect(info.separator == -1 && info.padding == -1 && info.add_separator == 0);
    cr_expect(api->attributes(tokenizer, 2) == (ENGINE_TOKEN_CONTROL | ENGINE_TOKEN_END));
    cr_expect(api->attributes(tokenizer, TURN_END) == (ENGINE_TOKEN_CONTROL | ENGINE_TOKEN_END));
    cr_expect(api->attributes(tokenizer, 1) == ENGINE_TOKEN_CONTROL);
    cr_expect(api->attributes(tokenizer, 0) == ENGINE_TOKEN_UNKNOWN);
    cr_expect(api->attributes(tokenizer, 10) == ENGINE_TOKEN_BYTE);
    cr_expect(api->attributes(tokenizer, USER) == ENGINE_TOKEN_USER_DEFINED);
    cr_expect(api->attributes(tokenizer, A) == 0);
    cr_expect(api->attributes(tokenizer, -1) == 0 && api->attributes(tokenizer, 267) == 0);

    struct engine_string piece;
    cr_expect(api->piece(tokenizer, MARK_A, &piece) == ENGINE_OK);
    cr_expect(piece.length == 4 && memcmp(piece.data, "▁a", 4) == 0);
    cr_expect(api->piece(tokenizer, 267, &piece) == ENGINE_ERROR_ARGUMENT);
    cr_expect(api->piece(tokenizer, -1, &piece) == ENGINE_ERROR_ARGUMENT);
    api->destroy(tokenizer);
    fake_free(&vocab);
}

Test(spm, metadata_are_heeded)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    fake_boolean(&vocab, "tokenizer.ggml.add_bos_token", false);
    fake_boolean(&vocab, "tokenizer.ggml.add_eos_token", true);
    fake_boolean(&vocab, "tokenizer.ggml.add_space_prefix", false);
    fake_integer(&vocab, "tokenizer.ggml.eos_token_id", TURN_END);
    fake_integer(&vocab, "tokenizer.ggml.bos_token_id", 5000000000); /* out of range: the default holds */
    fake_integer(&vocab, "tokenizer.ggml.padding_token_id", 0);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "ab a<user>a", ENGINE_ENCODE_BOS_EOS, "262 264 265 260 266");
    struct engine_tokenizer_info info = {.struct_size = sizeof info};
    cr_assert(api->info(tokenizer, &info) == ENGINE_OK);
    cr_expect(info.bos == 1 && info.eos == TURN_END && info.padding == 0 && !info.add_bos && info.add_eos);
    struct engine_tokenizer_info narrow = {.struct_size = offsetof(struct engine_tokenizer_info, eos)};
    narrow.eos = 77;
    cr_assert(api->info(tokenizer, &narrow) == ENGINE_OK);
    cr_expect(narrow.bos == 1 && narrow.eos == 77, "fields beyond struct_size are left alone");
    expect_lossless(api, tokenizer, " a", 2);
    api->destroy(tokenizer);
    fake_free(&vocab);
}

Test(spm, white_space_behind_special_tokens)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    fake_string(&vocab, "engine.tokenizer.strip_right_but", "<s> <none>  <unk> ");
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "a<user> \n\t a", 0, "264 265 264");
    expect_ids(api, tokenizer, "a <user>  ", 0, "264 259 265");
    expect_ids(api, tokenizer, "<s>  a", ENGINE_ENCODE_SPECIAL, "1 259 259 264"); /* not this one */
    api->destroy(tokenizer);
    fake_free(&vocab);
}

Test(spm, white_space_before_special_tokens)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    fake_string(&vocab, "engine.tokenizer.strip_left", " <none> <user>");
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "a \n <user> a", 0, "264 265 259 264");
    expect_ids(api, tokenizer, "a <s>a", ENGINE_ENCODE_SPECIAL, "264 259 1 264"); /* not this one */
    api->destroy(tokenizer);
    fake_free(&vocab);
}

Test(spm, longer_special_tokens_win)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    fake_string(&vocab, "engine.tokenizer.strip_right_but", "<s>");
    int32_t x = fake_piece(&vocab, "xx", 0, USER_DEFINED), xyz = fake_piece(&vocab, "xyyz", 0, USER_DEFINED);
    int32_t yx = fake_piece(&vocab, "yxx", 0, USER_DEFINED),
            lines = fake_piece(&vocab, "\n\n", 0, USER_DEFINED);
    cr_assert(x == 267 && xyz == 268 && yx == 269 && lines == 270);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    /* 'x' is 123, 'y' 124, newline 13 */
    expect_ids(api, tokenizer, "xxyyz", 0, "259 123 268");
    expect_ids(api, tokenizer, "xxxxx", 0, "267 267 259 123");
    expect_ids(api, tokenizer, "yxxyyz", 0, "259 124 123 268");
    expect_ids(api, tokenizer, "xyxxx", 0, "259 123 269 259 123");
    /* All white space behind a token goes, also what another token could have been. */
    expect_ids(api, tokenizer, "\n\n\nxx\n\n\na", 0, "270 267 264");
    api->destroy(tokenizer);
    fake_free(&vocab);
}

/* ---- The definition, naively ---- */

struct symbol {
    size_t start, length;
};

static int find_piece(const struct fake_vocab *vocab, const char *text, size_t length)
{
    for (size_t i = 0; i < vocab->n_tokens; i++) {
        if (vocab->pieces[i].length == length && memcmp(vocab->pieces[i].data, text, length) == 0)
            return (int)i;
    }
    return -1;
}

/* Of all neighbours that together are a token, those of the highest score, of equals the leftmost, merge. */
static void naive_encode(const struct fake_vocab *vocab, const char *text, size_t length,
                         struct id_list *list)
{
    struct symbol *symbols = calloc(length + 1, sizeof *symbols);
    size_t count = 0;
    for (size_t at = 0; at < length; count++) {
        unsigned char lead = (unsigned char)text[at];
        size_t size = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
        symbols[count] = (struct symbol){at, size < length - at ? size : length - at};
        at += symbols[count].length;
    }
    for (;;) {
        int best = -1;
        size_t where = 0;
        for (size_t i = 0; i + 1 < count; i++) {
            int id = find_piece(vocab, text + symbols[i].start, symbols[i].length + symbols[i + 1].length);
            if (id >= 0 && (best < 0 || vocab->scores[id] > vocab->scores[best])) {
                best = id;
                where = i;
            }
        }
        if (best < 0) break;
        symbols[where].length += symbols[where + 1].length;
        memmove(symbols + where + 1, symbols + where + 2, (--count - where - 1) * sizeof *symbols);
    }
    list->count = 0;
    list->ids = realloc(list->ids, (length + 1) * sizeof *list->ids);
    for (size_t i = 0; i < count; i++) {
        int id = find_piece(vocab, text + symbols[i].start, symbols[i].length);
        for (size_t j = 0; id < 0 && j < symbols[i].length; j++)
            list->ids[list->count++] = 3 + (unsigned char)text[symbols[i].start + j];
        if (id >= 0) list->ids[list->count++] = id;
    }
    free(symbols);
}

/* Random vocabularies over few characters, with equal scores among them, and texts that are all one word. */
Test(spm, agrees_with_the_definition)
{
    static const char *const characters[] = {"a", "b", "c", "é", "▁", "語", "\xC3", "\x80"};
    uint64_t seed = 20240607;
    for (int round = 0; round < 60; round++) {
        struct fake_vocab vocab = {0};
        fake_add_basics(&vocab);
        fake_boolean(&vocab, "tokenizer.ggml.add_space_prefix", false);
        size_t n_characters = 2 + random_next(&seed) % 7, n_pieces = 5 + random_next(&seed) % 60;
        for (size_t i = 0; i < n_pieces; i++) {
            char piece[64] = "";
            size_t n = 1 + random_next(&seed) % (random_next(&seed) % 4 ? 4 : 12);
            while (n--) strcat(piece, characters[random_next(&seed) % n_characters]);
            if (find_piece(&vocab, piece, strlen(piece)) < 0)
                fake_piece(&vocab, piece, -(float)(random_next(&seed) % (round % 2 ? 8 : 1000)), NORMAL);
        }
        struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
        struct id_list expected = {0}, list = {0};
        for (int i = 0; i < 25; i++) {
            struct text text = {0};
            size_t n = 1 + random_next(&seed) % (i % 5 ? 40 : 420);
            while (n--) {
                const char *character = characters[random_next(&seed) % n_characters];
                size_t repeat = random_next(&seed) % 16 ? 1 : 1 + random_next(&seed) % 30;
                while (repeat--) text_add(&text, character, strlen(character));
            }
            naive_encode(&vocab, text.data, text.length, &expected);
            encode(api, tokenizer, text.data, text.length, 0, &list);
            cr_assert(list.count == expected.count &&
                          memcmp(list.ids, expected.ids, list.count * sizeof *list.ids) == 0,
                      "round %d, text %d: \"%.*s\"", round, i, (int)text.length, text.data);
            text_free(&text);
        }
        id_list_free(&expected);
        id_list_free(&list);
        api->destroy(tokenizer);
        fake_free(&vocab);
    }
}

/* Long runs exercise the cuts of long words. */
Test(spm, a_megabyte_of_one_letter)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    int32_t last = A;
    char piece[64] = "a";
    for (int i = 0; i < 4; i++) {
        size_t half = strlen(piece);
        memmove(piece + half, piece, half + 1);
        last = fake_piece(&vocab, piece, -(float)i, NORMAL);
    }
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    size_t length = 1 << 20;
    char *text = malloc(length);
    memset(text, 'a', length);
    struct id_list list = {0};
    encode(api, tokenizer, text, length, 0, &list);
    cr_expect(list.count == length / 16 + 1);
    cr_expect(list.ids[0] == MARK, "aa merges before ▁a");
    for (size_t i = 1; i < list.count; i++) cr_assert(list.ids[i] == last);
    expect_lossless(api, tokenizer, text, length);
    id_list_free(&list);
    free(text);
    api->destroy(tokenizer);
    fake_free(&vocab);
}

/* ---- Decoding ---- */

Test(spm, random_bytes_come_back)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    fake_piece(&vocab, "é", -5, NORMAL);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    uint64_t seed = 5;
    for (int i = 0; i < 3000; i++) {
        char text[96];
        size_t length = random_next(&seed) % sizeof text;
        for (size_t j = 0; j < length; j++) {
            uint64_t r = random_next(&seed);
            text[j] = r % 4 ? "ab \xC3\xA9\xE2\x96\x81"[r / 4 % 8] : (char)(r / 4);
        }
        /* A literal U+2581 is what a space becomes, so it can't come back. */
        if (!memmem(text, length, "▁", 3)) expect_lossless(api, tokenizer, text, length);
    }
    expect_lossless(api, tokenizer, "  a<user> b<user>c  ", 20);
    api->destroy(tokenizer);
    fake_free(&vocab);
}

Test(spm, decoding_waits_for_whole_characters)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    struct engine_decoder *decoder = NULL;
    cr_assert(api->decoder_create(tokenizer, 0, &decoder) == ENGINE_OK);
    struct engine_string text;
    const struct {
        int32_t id;
        const char *text;
    } steps[] = {{1, ""},
                 {MARK_A, "a"},
                 {3 + 0xF0, ""},
                 {3 + 0x9F, ""},
                 {3 + 0x98, ""},
                 {3 + 0x80, "😀"},
                 {3 + 0xC3, ""},
                 {A, "\xC3"
                     "a"},
                 {3 + 0xE2, ""},
                 {3 + 0x82, ""},
                 {3 + 0xC3, "\xE2\x82"},
                 {3 + 0xA9, "é"},
                 {3 + 0x80, "\x80"},
                 {3 + 0xFF, "\xFF"},
                 {3 + 0xED, ""},
                 {3 + 0xA0, "\xED\xA0"},
                 {MARK_A, " a"},
                 {2, ""},
                 {3 + 0xE2, ""}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        cr_assert(api->decode(decoder, steps[i].id, &text) == ENGINE_OK);
        cr_expect(text.length == strlen(steps[i].text) && memcmp(text.data, steps[i].text, text.length) == 0,
                  "step %zu: \"%.*s\" instead of \"%s\"", i, (int)text.length, text.data, steps[i].text);
    }
    cr_assert(api->decode_end(decoder, &text) == ENGINE_OK);
    cr_expect(text.length == 1 && (unsigned char)text.data[0] == 0xE2);
    cr_assert(api->decode(decoder, MARK_A, &text) == ENGINE_OK);
    cr_expect(text.length == 1 && text.data[0] == 'a', "a new text begins");
    cr_expect(api->decode(decoder, 100000, &text) == ENGINE_ERROR_ARGUMENT);
    api->decoder_destroy(decoder);
    api->destroy(tokenizer);
    fake_free(&vocab);
}

Test(spm, control_tokens_are_spelled_if_asked_for)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    struct id_list list = {0};
    struct text text = {0};
    encode(api, tokenizer, "a b<|im_end|>a", 14, ENGINE_ENCODE_SPECIAL | ENGINE_ENCODE_BOS_EOS, &list);
    decode(api, tokenizer, &list, true, &text);
    cr_expect(text.length == 17 && memcmp(text.data, "<s>a b<|im_end|>a", 17) == 0);
    decode(api, tokenizer, &list, false, &text);
    cr_expect(text.length == 4 && memcmp(text.data, "a ba", 4) == 0);
    id_list_free(&list);
    text_free(&text);
    api->destroy(tokenizer);
    fake_free(&vocab);
}

/* ---- Calls ---- */

static int stop_at_second(void *user, const int32_t *ids, size_t count)
{
    (void)ids, (void)count;
    return ++*(int *)user == 2 ? 77 : 0;
}

Test(spm, the_sink_can_stop)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    size_t length = 100000;
    char *text = malloc(length);
    for (size_t i = 0; i < length; i++) text[i] = "ab "[i % 3];
    int calls = 0;
    cr_expect(api->encode(tokenizer, text, length, 0, stop_at_second, &calls) == 77);
    cr_expect(calls == 2);
    cr_expect(api->encode(tokenizer, text, 1, 0x100, stop_at_second, &calls) == ENGINE_ERROR_UNSUPPORTED);
    free(text);
    api->destroy(tokenizer);
    fake_free(&vocab);
}

/* ---- Vocabularies that no one should make ---- */

Test(spm, wrong_vocabularies_are_refused)
{
    struct fake_vocab none = {0};
    fake_refused(api, &none, ENGINE_ERROR_DATA, "no vocabulary");

    struct fake_vocab vocab = {0};
    make_small(&vocab);
    vocab.n_scores--;
    fake_refused(api, &vocab, ENGINE_ERROR_DATA, "tokenizer.ggml.scores has 266 elements");
    vocab.n_scores = 267;
    vocab.n_types++;
    fake_refused(api, &vocab, ENGINE_ERROR_DATA, "tokenizer.ggml.token_type has 268 elements");
    vocab.n_types = 267;
    vocab.scores[5] = NAN;
    fake_refused(api, &vocab, ENGINE_ERROR_DATA, "score of token 5");
    vocab.scores[5] = -INFINITY;
    vocab.types[A] = BYTE;
    api->destroy(fake_open(api, &vocab)); /* a byte by itself is fine */
    vocab.types[AB] = BYTE;
    fake_refused(api, &vocab, ENGINE_ERROR_DATA, "is a byte but");
    vocab.types[AB] = 99;
    api->destroy(fake_open(api, &vocab)); /* types yet unknown are plain text */
    int32_t twin = fake_piece(&vocab, "ab", -7, NORMAL);
    fake_refused(api, &vocab, ENGINE_ERROR_DATA, "tokens 262 and 267 have the same spelling");
    vocab.pieces[twin].length = 0; /* takes a name of its own */
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    struct engine_string piece;
    cr_expect(api->piece(tokenizer, twin, &piece) == ENGINE_OK);
    cr_expect(piece.length == 11 && memcmp(piece.data, "[EMPTY_267]", 11) == 0);
    api->destroy(tokenizer);
    fake_free(&vocab);

    struct fake_vocab lone = {0};
    fake_piece(&lone, "x", 0, NORMAL);
    fake_refused(api, &lone, ENGINE_ERROR_DATA, "beginning of text");
    fake_boolean(&lone, "tokenizer.ggml.add_bos_token", false);
    api->destroy(fake_open(api, &lone));
    fake_boolean(&lone, "tokenizer.ggml.add_eos_token", true);
    fake_refused(api, &lone, ENGINE_ERROR_DATA, "end of text");
    fake_free(&lone);
}

Test(spm, strange_vocabularies_work)
{
    struct fake_vocab vocab = {0};
    fake_add_basics(&vocab);
    vocab.no_scores = true;
    size_t length = 300000;
    char *piece = malloc(length);
    memset(piece, 'x', length);
    fake_add(&vocab, piece, length, 0, NORMAL);
    for (size_t i = 1; i <= 300; i++) fake_add(&vocab, piece, i, 0, NORMAL);
    fake_add(&vocab, "\0", 1, 0, NORMAL);
    fake_add(&vocab, "\xFF\xFE\xE2\x96", 4, 0, USER_DEFINED);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_lossless(api, tokenizer, piece, length);
    expect_lossless(api, tokenizer, "\0\0x\xFF\xFE\xE2\x96\0", 8);
    free(piece);
    api->destroy(tokenizer);
    fake_free(&vocab);
}

/* Random metadata: whatever comes, either a tokenizer that encodes, or an error. */
Test(spm, random_vocabularies)
{
    uint64_t seed = 11;
    int made = 0;
    for (int round = 0; round < 400; round++) {
        struct fake_vocab vocab = {0};
        size_t n = 1 + random_next(&seed) % 40;
        for (size_t i = 0; i < n; i++) {
            char piece[8];
            size_t length = random_next(&seed) % 6;
            for (size_t j = 0; j < length; j++)
                piece[j] = (char)(random_next(&seed) % 3 ? "ab<>\xE2\x96\x81 "[random_next(&seed) % 8]
                                                         : (char)random_next(&seed));
            fake_add(&vocab, piece, length, (float)(random_next(&seed) % 5), NORMAL);
            vocab.types[i] = (int64_t)(random_next(&seed) % 6); /* no bytes: those would be refused */
        }
        const char *const keys[] = {"bos", "eos", "unknown", "eot", "fim_pad", "padding", "seperator"};
        char names[7][64];
        for (size_t i = 0; i < 7; i++) {
            snprintf(names[i], sizeof names[i], "tokenizer.ggml.%s_token_id", keys[i]);
            if (random_next(&seed) % 2)
                fake_integer(&vocab, names[i], (int64_t)(random_next(&seed) % 50) - 5);
        }
        if (random_next(&seed) % 2) fake_string(&vocab, "engine.tokenizer.strip_right_but", "a <b  ");
        made += fake_survives(api, &vocab, "ab<>\xE2\x96\x81 \xFF", 9, 50, &seed);
        fake_free(&vocab);
    }
    cr_expect(made > 50, "only %d of 400 could be made", made);
}
