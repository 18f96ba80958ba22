/* test-ugm.c: the tokenizer plugin ugm, against ids from llama.cpp, against its own definition carried out
 * plainly, with character maps made here, and with vocabularies that no one should make. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "charsmap.h"
#include "gguf-writer.h"
#include "harness.h"

static const struct engine_tokenizer_api *api;

static void load(void)
{
    api = load_tokenizers("ugm");
}

TestSuite(ugm, .init = load, .timeout = 600);

Test(ugm, shared_ugm4k)
{
    expect_shared_ids("ugm", "ugm4k", false);
}

/* ---- A small vocabulary ---- */

enum { PAD, END, UNK, MARK, A, B, AB, MARK_A, ABA, E_ACUTE, USER };

static void make_special(struct fake_vocab *vocab)
{
    fake_piece(vocab, "<pad>", 0, CONTROL);
    fake_piece(vocab, "</s>", 0, CONTROL);
    fake_piece(vocab, "<unk>", 0, UNKNOWN);
}

static void make_small(struct fake_vocab *vocab)
{
    make_special(vocab);
    fake_piece(vocab, "▁", -2, NORMAL);
    fake_piece(vocab, "a", -3, NORMAL);
    fake_piece(vocab, "b", -3, NORMAL);
    fake_piece(vocab, "ab", -4, NORMAL);
    fake_piece(vocab, "▁a", -4, NORMAL);
    fake_piece(vocab, "aba", -9, NORMAL);
    fake_piece(vocab, "é", -5, NORMAL);
    fake_piece(vocab, "<user>", -100, USER_DEFINED);
}

Test(ugm, likeliest_tokens)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "", 0, "");
    expect_ids(api, tokenizer, "a", 0, "4");
    expect_ids(api, tokenizer, "ab", 0, "6");    /* -4, not -6 */
    expect_ids(api, tokenizer, "aba", 0, "6 4"); /* -7, not -9 */
    expect_ids(api, tokenizer, " a", 0, "7");    /* -4, not -5 */
    expect_ids(api, tokenizer, " ab", 0, "3 6"); /* -6, not -7 */
    expect_ids(api, tokenizer, "a b", 0, "4 3 5");
    expect_ids(api, tokenizer, "a", ENGINE_ENCODE_BOS_EOS, "4 1");
    expect_ids(api, tokenizer, "", ENGINE_ENCODE_BOS_EOS, "1");
    api->destroy(tokenizer);

    vocab.scores[ABA] = -7; /* as likely as ab a: the way with the longer last token is kept */
    tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "aba", 0, "8");
    vocab.scores[A] = vocab.scores[B] = -2;
    api->destroy(tokenizer);
    tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "ab", 0, "6");
    api->destroy(tokenizer);
    fake_free(&vocab);
}

Test(ugm, unknown_characters_become_one_token)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "x", 0, "2");
    expect_ids(api, tokenizer, "xyz語é", 0, "2 9");
    expect_ids(api, tokenizer, "xayx", 0, "2 4 2");
    expect_ids(api, tokenizer, "\xFF\xC3", 0, "2");
    expect_ids(api, tokenizer, "\xC3\xA9\xA9", 0, "9 2");
    /* Also where the text is written out in between. */
    char text[4000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    expect_ids(api, tokenizer, text, 0, "2");
    api->destroy(tokenizer);
    fake_free(&vocab);
}

Test(ugm, byte_fallback)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    for (unsigned byte = 0; byte < 256; byte++) {
        char piece[8];
        snprintf(piece, sizeof piece, "<0x%02X>", byte);
        if (byte == 255) { /* only if there is a token for every byte */
            struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
            expect_ids(api, tokenizer, "ax", 0, "4 2");
            api->destroy(tokenizer);
        }
        fake_piece(&vocab, piece, 0, BYTE);
    }
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "axya", 0, "4 131 132 4"); /* bytes from id 11 on */
    expect_ids(api, tokenizer, "\xE8\xAA\x9E", 0, "243 181 169");
    expect_ids(api, tokenizer, "\x9E", 0, "250 202 200"); /* U+FFFD */
    expect_ids(api, tokenizer, "\xC0\xA0", 0, "250 202 200 250 202 200");
    expect_ids(api, tokenizer, "<0x41>", 0, "71 59 131 63 60 73");
    static const char text[] = "a語  xyz ab\n😀é ";
    expect_lossless(api, tokenizer, text, sizeof text - 1);
    api->destroy(tokenizer);
    fake_free(&vocab);
}

Test(ugm, white_space)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    fake_boolean(&vocab, "tokenizer.ggml.add_space_prefix", true);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "b", 0, "3 5");
    expect_ids(api, tokenizer, " b", 0, "3 3 5");
    expect_ids(api, tokenizer, "  b  ", 0, "3 3 3 5 3 3");
    expect_ids(api, tokenizer, "  ", 0, "3 3"); /* none in front of nothing */
    expect_ids(api, tokenizer, "b  b", 0, "3 5 3 3 5");
    expect_ids(api, tokenizer, "b▁b", 0, "3 5 3 5");
    expect_lossless(api, tokenizer, "  b a  ", 7);
    api->destroy(tokenizer);

    fake_boolean(&vocab, "tokenizer.ggml.remove_extra_whitespaces", true);
    tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "b", 0, "3 5");
    expect_ids(api, tokenizer, "  b  a  ", 0, "3 5 7");
    expect_ids(api, tokenizer, "  ", 0, "");
    expect_ids(api, tokenizer, "b▁ ▁b", 0, "3 5 3 3 3 5");
    expect_lossless(api, tokenizer, "b a", 3);
    api->destroy(tokenizer);

    vocab.n_values = 0;
    fake_boolean(&vocab, "tokenizer.ggml.remove_extra_whitespaces", true);
    tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, " b  a ", 0, "3 5 7"); /* merging puts one in front all the same */
    expect_ids(api, tokenizer, "b", 0, "3 5");
    expect_lossless(api, tokenizer, "b a", 3);
    api->destroy(tokenizer);
    fake_free(&vocab);
}

Test(ugm, special_tokens)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    fake_boolean(&vocab, "tokenizer.ggml.add_space_prefix", true);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    /* Each part is a text of its own. */
    expect_ids(api, tokenizer, "b<user>b<user><user> b", 0, "3 5 10 3 5 10 10 3 3 5");
    expect_ids(api, tokenizer, "b</s>", ENGINE_ENCODE_SPECIAL, "3 5 1");
    expect_ids(api, tokenizer, "<unk>b", ENGINE_ENCODE_SPECIAL, "2 3 5");
    expect_ids(api, tokenizer, "</s>", 0, "3 2");
    struct engine_tokenizer_info info = {.struct_size = sizeof info};
    cr_assert(api->info(tokenizer, &info) == ENGINE_OK);
    cr_expect(info.bos == -1 && info.eos == END && info.unknown == UNK && info.padding == PAD);
    cr_expect(!info.add_bos && info.add_eos && !info.add_separator);
    api->destroy(tokenizer);
    fake_free(&vocab);
}

Test(ugm, decoding)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    struct id_list list = {0};
    struct text text = {0};
    encode(api, tokenizer, " a b<user>é xé</s>", 20, ENGINE_ENCODE_SPECIAL, &list);
    decode(api, tokenizer, &list, false, &text);
    cr_expect(text.length == 15 && memcmp(text.data, " a b<user>é é", 15) == 0, "\"%.*s\"", (int)text.length,
              text.data);
    decode(api, tokenizer, &list, true, &text);
    cr_expect(text.length == 24 && memcmp(text.data, " a b<user>é <unk>é</s>", 24) == 0);
    id_list_free(&list);
    text_free(&text);
    api->destroy(tokenizer);
    fake_free(&vocab);
}

/* ---- Character maps ---- */

static struct charsmap_writer *make_map(struct fake_vocab *vocab)
{
    struct charsmap_writer *map = charsmap_create();
    charsmap_add(map, "A", "a");
    charsmap_add(map, "\t", " ");
    charsmap_add(map, "\x01", "");
    charsmap_add(map, "e\xCC\x81", "é");
    charsmap_add(map, "Ⅷ", "a  b");
    charsmap_add(map, "bb", "x");
    charsmap_add(map, "bbbb", "é");
    vocab->charsmap = charsmap_bytes(map);
    return map;
}

Test(ugm, characters_are_replaced)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    struct charsmap_writer *map = make_map(&vocab);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "AbA", 0, "6 4");
    expect_ids(api, tokenizer, "a\tb", 0, "4 3 5");
    expect_ids(api, tokenizer,
               "a\x01"
               "b",
               0, "6");
    expect_ids(api, tokenizer, "\x01", 0, "");
    expect_ids(api, tokenizer,
               "e\xCC\x81"
               "e",
               0, "9 2");
    expect_ids(api, tokenizer, "e\xCC", 0, "2"); /* the text ends inside a key */
    expect_ids(api, tokenizer, "Ⅷ", 0, "4 3 3 5");
    expect_ids(api, tokenizer, "bbb", 0, "2 5"); /* x b: the longest key that fits */
    expect_ids(api, tokenizer, "bbbbb", 0, "9 5");
    api->destroy(tokenizer);

    fake_boolean(&vocab, "tokenizer.ggml.remove_extra_whitespaces", true);
    tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "\tⅧ\t", 0, "7 3 5");
    api->destroy(tokenizer);
    charsmap_destroy(map);
    fake_free(&vocab);
}

/* What may become a user-defined token is not replaced. */
Test(ugm, user_defined_tokens_stay_as_they_are)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    struct charsmap_writer *map = make_map(&vocab);
    fake_piece(&vocab, "bA", 0, USER_DEFINED);
    fake_piece(&vocab, "A", -3, NORMAL);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "bA", 0, "11");
    expect_ids(api, tokenizer, "AbAA", 0, "4 11 4");
    expect_ids(api, tokenizer, "bbb", 0, "5 5 5");
    api->destroy(tokenizer);
    charsmap_destroy(map);
    fake_free(&vocab);
}

/* Every byte of a map damaged in several ways: refused, or it replaces something by something. */
Test(ugm, damaged_maps)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    struct charsmap_writer *map = make_map(&vocab);
    struct engine_string whole = vocab.charsmap;
    char *copy = malloc(whole.length);
    uint64_t seed = 5;
    int refused = 0;
    for (int round = 0; round < 6000; round++) {
        size_t length = whole.length;
        memcpy(copy, whole.data, length);
        size_t at = random_next(&seed) % length;
        if (round % 7 == 0) length = at;
        for (size_t i = 0; i < (size_t)round % 5; i++) {
            copy[at] = (char)random_next(&seed);
            at = random_next(&seed) % whole.length;
        }
        vocab.charsmap = (struct engine_string){memcpy(malloc(length + !length), copy, length), length};
        struct engine_metadata metadata = fake_metadata(&vocab);
        struct engine_tokenizer *tokenizer = NULL;
        int status = api->create(&metadata, &tokenizer);
        cr_assert(status == ENGINE_OK || status == ENGINE_ERROR_DATA);
        refused += status == ENGINE_ERROR_DATA;
        if (!status) {
            struct id_list list = {0};
            static const char text[] = "AbA e\xCC\x81 Ⅷ\t\x01 bbbbb\xFF xyz";
            encode(api, tokenizer, text, sizeof text, 0, &list);
            id_list_free(&list);
            api->destroy(tokenizer);
        }
        free((void *)(uintptr_t)vocab.charsmap.data);
    }
    cr_expect(refused > 100, "%d", refused);
    free(copy);
    charsmap_destroy(map);
    fake_free(&vocab);
}

Test(ugm, wrong_maps_are_refused)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    static const struct {
        const char *bytes;
        size_t length;
        const char *words;
    } wrong[] = {
        {"\0\0\0", 3, "it has no size"},
        {"\0\0\0\0", 4, "it is truncated"},
        {"\4\0\0\0\0\0\0\0", 8, "it is truncated"},
        {"\xFF\xFF\xFF\xFF\0", 5, "it is truncated"},
        {"\0\0\0\0x", 5, "no end"},
        /* The root's children are at 0 ^ byte; unit 1 is reached by byte 1 and ends a key whose value is in
         * unit 1 ^ 1024 (beyond the end) or in unit 0. */
        {"\10\0\0\0\0\0\0\0\1\5\20\0\0", 13, "a key ends outside"},
        {"\10\0\0\0\0\0\0\0\1\1\20\0\0", 13, "a key ends outside"},
        {"\14\0\0\0\0\0\0\0\1\015\0\0\7\0\0\x80\0", 17, "a replacement begins outside"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        vocab.charsmap = (struct engine_string){wrong[i].bytes, wrong[i].length};
        fake_refused(api, &vocab, ENGINE_ERROR_DATA, wrong[i].words);
    }
    vocab.charsmap = (struct engine_string){"\0\0\0\0", 5}; /* an empty map is one */
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "ab", 0, "6");
    api->destroy(tokenizer);
    fake_free(&vocab);
}

/* ---- The definition, plainly ---- */

struct place {
    double score;
    int32_t id;
    size_t from;
};

/* Texts here need no normalizing. */
static void plain_encode(const struct fake_vocab *vocab, double unknown_score, const char *text,
                         size_t length, struct id_list *list)
{
    struct place *best = calloc(length + 1, sizeof *best);
    for (size_t i = 1; i <= length; i++) best[i] = (struct place){-DBL_MAX, UNK, 0};
    for (size_t at = 0, size; at < length; at += size) {
        unsigned char lead = (unsigned char)text[at];
        size = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
        if (size > length - at) size = length - at;
        bool single = false;
        for (size_t end = at + 1; end <= length && end - at < 64; end++) {
            for (size_t id = UNK + 1; id < vocab->n_tokens; id++) {
                struct engine_string piece = vocab->pieces[id];
                if (piece.length != end - at || memcmp(piece.data, text + at, piece.length) != 0) continue;
                single = single || piece.length == size;
                double score = best[at].score + (double)vocab->scores[id];
                if (score > best[end].score) best[end] = (struct place){score, (int32_t)id, at};
            }
        }
        double score = best[at].score + unknown_score;
        if (!single && score > best[at + size].score) best[at + size] = (struct place){score, UNK, at};
    }
    list->count = 0;
    list->ids = realloc(list->ids, (length + 1) * sizeof *list->ids);
    for (size_t at = length; at > 0; at = best[at].from) {
        bool repeats = list->count && list->ids[list->count - 1] == UNK && best[at].id == UNK;
        if (!repeats) list->ids[list->count++] = best[at].id;
    }
    for (size_t i = 0; i < list->count / 2; i++) {
        int32_t id = list->ids[i];
        list->ids[i] = list->ids[list->count - 1 - i];
        list->ids[list->count - 1 - i] = id;
    }
    free(best);
}

/* Random vocabularies over few characters, with scores that are equal, round, or neither; texts long enough
 * to be written out in parts. */
Test(ugm, agrees_with_the_definition)
{
    static const char *const characters[] = {"a", "b", "c", "é", "▁", "語", "😀"};
    uint64_t seed = 321;
    for (int round = 0; round < 120; round++) {
        struct fake_vocab vocab = {0};
        make_special(&vocab);
        size_t n_characters = 1 + random_next(&seed) % 7, wanted = 1 + random_next(&seed) % 50;
        float least = FLT_MAX;
        for (size_t i = 0; i < wanted; i++) {
            char piece[64] = "";
            size_t n = 1 + random_next(&seed) % (random_next(&seed) % 4 ? 3 : 12);
            while (n--) strcat(piece, characters[random_next(&seed) % n_characters]);
            bool there = false;
            for (size_t id = 0; id < vocab.n_tokens; id++)
                there = there || (vocab.pieces[id].length == strlen(piece) &&
                                  memcmp(vocab.pieces[id].data, piece, strlen(piece)) == 0);
            if (there) continue;
            float score = -(float)(random_next(&seed) % 1000) / (round % 3 == 0 ? 7.0f : 100.0f);
            if (round % 3 == 1) score = -(float)(random_next(&seed) % 3);
            fake_piece(&vocab, piece, score, NORMAL);
            if (score < least) least = score;
        }
        struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
        struct id_list expected = {0}, list = {0};
        for (int i = 0; i < 25; i++) {
            struct text text = {0};
            size_t n = 1 + random_next(&seed) % (i % 5 ? 40 : 700);
            while (n--) {
                const char *character = characters[random_next(&seed) % 7];
                size_t repeat = random_next(&seed) % 16 ? 1 : 1 + random_next(&seed) % 30;
                while (repeat--) text_add(&text, character, strlen(character));
            }
            plain_encode(&vocab, least - 10.0f, text.data, text.length, &expected);
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

Test(ugm, a_megabyte_of_one_letter)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    size_t length = 1 << 20;
    char *text = malloc(length);
    for (size_t i = 2; i <= 64; i++) {
        memset(text, 'b', i);
        fake_add(&vocab, text, i, -2.5f, NORMAL);
    }
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    memset(text, 'b', length);
    struct id_list list = {0};
    encode(api, tokenizer, text, length, 0, &list);
    cr_expect(list.count == length / 64);
    id_list_free(&list);
    free(text);
    api->destroy(tokenizer);
    fake_free(&vocab);
}

/* ---- Vocabularies that no one should make ---- */

Test(ugm, wrong_vocabularies_are_refused)
{
    struct fake_vocab none = {0};
    fake_refused(api, &none, ENGINE_ERROR_DATA, "no vocabulary");
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    vocab.scores[AB] = -INFINITY;
    fake_refused(api, &vocab, ENGINE_ERROR_DATA, "score of token 6 is infinite");
    vocab.scores[AB] = NAN;
    fake_refused(api, &vocab, ENGINE_ERROR_DATA, "score of token 6 is not a number");
    fake_free(&vocab);

    struct fake_vocab two = {0};
    fake_piece(&two, "a", 0, NORMAL);
    fake_piece(&two, "b", 0, NORMAL);
    fake_refused(api, &two, ENGINE_ERROR_DATA, "no unknown token");
    fake_free(&two);
}

/* Whatever comes: a tokenizer that encodes, or an error. */
Test(ugm, random_vocabularies)
{
    uint64_t seed = 13;
    int made = 0;
    for (int round = 0; round < 400; round++) {
        struct fake_vocab vocab = {0};
        size_t n = 3 + random_next(&seed) % 40;
        for (size_t i = 0; i < n; i++) {
            char piece[8];
            size_t length = random_next(&seed) % 6;
            for (size_t j = 0; j < length; j++)
                piece[j] = random_next(&seed) % 8 ? "ab<>\xE2\x96\x81 "[random_next(&seed) % 8]
                                                  : (char)random_next(&seed);
            fake_add(&vocab, piece, length, (float)(random_next(&seed) % 9) * 1e37f - 3e37f, NORMAL);
            vocab.types[i] = (int64_t)(random_next(&seed) % 6);
        }
        fake_integer(&vocab, "tokenizer.ggml.unknown_token_id", (int64_t)(random_next(&seed) % n));
        fake_boolean(&vocab, "tokenizer.ggml.add_space_prefix", random_next(&seed) % 2);
        fake_boolean(&vocab, "tokenizer.ggml.remove_extra_whitespaces", random_next(&seed) % 2);
        made += fake_survives(api, &vocab, "ab<>\xE2\x96\x81 \xFF", 9, 400, &seed);
        fake_free(&vocab);
    }
    cr_expect(made > 50, "only %d of 400 could be made", made);
}
