/* test-rwkv.c: the tokenizer plugin rwkv, against ids from llama.cpp, against its own definition carried out
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
    api = load_tokenizers("rwkv");
}

TestSuite(rwkv, .init = load, .timeout = 600);

Test(rwkv, shared_rwkv4k)
{
    expect_shared_ids("rwkv", "rwkv4k", true);
}

/* ---- A small vocabulary ---- */

/* <s> is 0, byte b is b + 1, as in RWKV World. */
static void add_bytes(struct fake_vocab *vocab)
{
    fake_piece(vocab, "<s>", 0, CONTROL);
    for (unsigned byte = 0; byte < 256; byte++) {
        char piece[8];
        snprintf(piece, sizeof piece, "\\x%02x", byte);
        fake_piece(vocab, piece, 0, NORMAL);
    }
}

enum { ABCD = 257, AB, BCE, TAB_LINE, BACKSLASH, QUOTE, E_ACUTE, CUT, USER };

static void make_small(struct fake_vocab *vocab)
{
    add_bytes(vocab);
    fake_piece(vocab, "abcd", 0, NORMAL);
    fake_piece(vocab, "ab", 0, NORMAL);
    fake_piece(vocab, "bce", 0, NORMAL);
    fake_piece(vocab, "\\t\\n\\r", 0, NORMAL);
    fake_piece(vocab, "\\\\x", 0, NORMAL);
    fake_piece(vocab, "\\'\\\"", 0, NORMAL);
    fake_piece(vocab, "\\xc3\\xA9", 0, NORMAL);
    fake_piece(vocab, "\\xa9\\xe2\\x82", 0, NORMAL);
    fake_piece(vocab, "<user>", 0, USER_DEFINED);
}

Test(rwkv, longest_first)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "", 0, "");
    expect_ids(api, tokenizer, "abcd", 0, "257");
    expect_ids(api, tokenizer, "abc", 0, "258 100");      /* ab c: the text ends */
    expect_ids(api, tokenizer, "abce", 0, "258 100 102"); /* ab c e, not a bce */
    expect_ids(api, tokenizer, "aabce", 0, "98 258 100 102");
    expect_ids(api, tokenizer, "bcabcd", 0, "99 100 257");
    expect_ids(api, tokenizer, "bceb", 0, "259 99");
    api->destroy(tokenizer);
    fake_free(&vocab);
}

Test(rwkv, escapes)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "\t\n\r\t", 0, "260 10");
    expect_ids(api, tokenizer, "\\x", 0, "261");
    expect_ids(api, tokenizer, "'\"'", 0, "262 40");
    expect_ids(api, tokenizer, "\xC3\xA9\xC3", 0, "263 196");
    struct engine_string piece;
    cr_expect(api->piece(tokenizer, E_ACUTE, &piece) == ENGINE_OK);
    cr_expect(piece.length == 8 && memcmp(piece.data, "\\xc3\\xA9", 8) == 0,
              "pieces are as the file has them");
    api->destroy(tokenizer);
    fake_free(&vocab);
}

Test(rwkv, special_tokens)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    fake_piece(&vocab, "<end>", 0, CONTROL);
    fake_integer(&vocab, "tokenizer.ggml.bos_token_id", 0);
    fake_integer(&vocab, "tokenizer.ggml.eos_token_id", USER + 1);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "ab<user>ab", 0, "258 265 258");
    /* Control tokens too are in the set that is matched; in RWKV there is no other way to find them. */
    expect_ids(api, tokenizer, "a<end>", 0, "98 266");
    expect_ids(api, tokenizer, "a<end>", ENGINE_ENCODE_SPECIAL, "98 266");
    expect_ids(api, tokenizer, "a", ENGINE_ENCODE_BOS_EOS, "98");
    struct engine_tokenizer_info info = {.struct_size = sizeof info};
    cr_assert(api->info(tokenizer, &info) == ENGINE_OK);
    cr_expect(info.n_tokens == 267 && info.bos == 0 && info.eos == 266 && info.unknown == -1);
    cr_expect(!info.add_bos && !info.add_eos && !info.add_separator);
    cr_expect(api->attributes(tokenizer, 266) == (ENGINE_TOKEN_CONTROL | ENGINE_TOKEN_END));
    api->destroy(tokenizer);

    fake_boolean(&vocab, "tokenizer.ggml.add_bos_token", true);
    tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "a", ENGINE_ENCODE_BOS_EOS, "0 98");
    api->destroy(tokenizer);
    fake_free(&vocab);
}

/* Characters that are spread over tokens come out whole. */
Test(rwkv, streaming)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    struct engine_decoder *decoder;
    cr_assert(api->decoder_create(tokenizer, 0, &decoder) == ENGINE_OK);
    struct engine_string part;
    const struct {
        int32_t id;
        const char *text;
    } steps[] = {{0xC3 + 1, ""},
                 {CUT, "\xC3\xA9"},
                 {0xAC + 1, "\xE2\x82\xAC"},
                 {0xF0 + 1, ""},
                 {AB, "\xF0"
                      "ab"},
                 {0, ""},
                 {QUOTE, "'\""},
                 {0xE2 + 1, ""}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        cr_assert(api->decode(decoder, steps[i].id, &part) == ENGINE_OK);
        cr_expect(part.length == strlen(steps[i].text) && memcmp(part.data, steps[i].text, part.length) == 0,
                  "step %zu", i);
    }
    cr_assert(api->decode_end(decoder, &part) == ENGINE_OK);
    cr_expect(part.length == 1 && part.data[0] == '\xE2');
    api->decoder_destroy(decoder);

    uint64_t seed = 77;
    for (int round = 0; round < 300; round++) {
        char text[64];
        for (size_t i = 0; i < sizeof text; i++)
            text[i] = round % 3 ? "abcde\t\n\r\\x'\"\xC3\xA9\xE2\x82\xAC\0"[random_next(&seed) % 18]
                                : (char)random_next(&seed);
        expect_lossless(api, tokenizer, text, random_next(&seed) % (sizeof text + 1));
    }
    api->destroy(tokenizer);
    fake_free(&vocab);
}

Test(rwkv, unknown_bytes)
{
    struct fake_vocab vocab = {0};
    fake_piece(&vocab, "abc", 0, NORMAL);
    fake_piece(&vocab, "b", 0, NORMAL);
    fake_refused(api, &vocab, ENGINE_ERROR_DATA, "no token for byte 0 and no unknown token");
    int32_t unknown = fake_piece(&vocab, "?", 0, UNKNOWN);
    cr_assert(unknown == 2);
    fake_integer(&vocab, "tokenizer.ggml.unknown_token_id", unknown);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "abcabab", 0, "0 2 1 2 1");
    expect_ids(api, tokenizer, "\xFF?", 0, "2 2");
    api->destroy(tokenizer);
    fake_free(&vocab);
}

/* ---- The definition, plainly ---- */

struct token {
    char bytes[40];
    size_t length;
};

static void plain_encode(const struct token *tokens, size_t n_tokens, const char *text, size_t length,
                         struct id_list *list)
{
    list->count = 0;
    list->ids = realloc(list->ids, (length + 1) * sizeof *list->ids);
    for (size_t at = 0; at < length;) {
        int32_t best = -1;
        for (size_t id = 0; id < n_tokens; id++) {
            size_t size = tokens[id].length;
            if (size <= length - at && memcmp(tokens[id].bytes, text + at, size) == 0 &&
                (best < 0 || size >= tokens[best].length))
                best = (int32_t)id;
        }
        cr_assert(best >= 0);
        list->ids[list->count++] = best;
        at += tokens[best].length;
    }
}

static bool is_there(const struct token *tokens, size_t n_tokens, const struct token *token)
{
    for (size_t id = 0; id < n_tokens; id++)
        if (tokens[id].length == token->length && !memcmp(tokens[id].bytes, token->bytes, token->length))
            return true;
    return false;
}

/* Random vocabularies over few bytes, with tokens that repeat each other; texts made of their parts. */
Test(rwkv, agrees_with_the_definition)
{
    uint64_t seed = 4711;
    for (int round = 0; round < 150; round++) {
        size_t letters = 1 + random_next(&seed) % 3, n_tokens = 0;
        struct token tokens[60];
        struct fake_vocab vocab = {0};
        size_t wanted = letters + random_next(&seed) % 50;
        for (size_t i = 0; i < wanted; i++) {
            struct token token = {.length = i < letters ? 1 : 1 + random_next(&seed) % (round % 2 ? 6 : 38)};
            for (size_t j = 0; j < token.length; j++)
                token.bytes[j] = "abc"[i < letters ? i : random_next(&seed) % letters];
            if (is_there(tokens, n_tokens, &token)) continue;
            tokens[n_tokens++] = token;
            fake_add(&vocab, token.bytes, token.length, 0, NORMAL);
        }
        fake_integer(&vocab, "tokenizer.ggml.unknown_token_id", 0);
        struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
        struct id_list expected = {0}, list = {0};
        for (int i = 0; i < 40; i++) {
            struct text text = {0};
            size_t n = 1 + random_next(&seed) % (i % 8 ? 12 : 3000);
            while (n--) {
                const struct token *token = &tokens[random_next(&seed) % n_tokens];
                text_add(&text, token->bytes, random_next(&seed) % (token->length + 1));
            }
            plain_encode(tokens, n_tokens, text.data, text.length, &expected);
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

/* Two spellings of the same bytes: the last token counts. */
Test(rwkv, twins)
{
    struct fake_vocab vocab = {0};
    make_small(&vocab);
    int32_t twin = fake_piece(&vocab, "\\x61b", 0, NORMAL);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    cr_assert(twin == 266);
    expect_ids(api, tokenizer, "ab", 0, "266");
    api->destroy(tokenizer);
    fake_free(&vocab);
}

/* ---- Vocabularies that no one should make ---- */

/* Failing at the end of a long token, again and again, must not mean reading it again and again. */
Test(rwkv, long_tokens_that_never_match)
{
    struct fake_vocab vocab = {0};
    add_bytes(&vocab);
    size_t length = 200000;
    char *text = malloc(length);
    memset(text, 'a', length);
    text[length - 1] = 'b';
    fake_add(&vocab, text, length, 0, NORMAL);
    text[1000] = 'c';
    fake_add(&vocab, text, length / 2, 0, NORMAL);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    struct id_list list = {0};
    memset(text, 'a', length);
    for (int i = 0; i < 5; i++) {
        encode(api, tokenizer, text, length - (size_t)i, 0, &list);
        cr_assert(list.count == length - (size_t)i);
    }
    text[length - 1] = 'b';
    encode(api, tokenizer, text, length, 0, &list);
    cr_assert(list.count == 1 && list.ids[0] == 257);
    id_list_free(&list);
    free(text);
    api->destroy(tokenizer);
    fake_free(&vocab);
}

Test(rwkv, wrong_escapes_are_refused)
{
    static const char *const wrong[] = {"\\", "a\\", "\\x", "\\x1", "\\xg1", "\\x1g", "ab\\x\\x41"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct fake_vocab vocab = {0};
        make_small(&vocab);
        fake_piece(&vocab, wrong[i], 0, NORMAL);
        fake_refused(api, &vocab, ENGINE_ERROR_DATA, "token 266 is misspelt");
        fake_free(&vocab);
    }
    struct fake_vocab none = {0};
    fake_refused(api, &none, ENGINE_ERROR_DATA, "no vocabulary");
}

/* Whatever comes: a tokenizer that encodes, or an error. */
Test(rwkv, random_vocabularies)
{
    uint64_t seed = 12;
    int made = 0;
    for (int round = 0; round < 400; round++) {
        struct fake_vocab vocab = {0};
        size_t n = 1 + random_next(&seed) % 40;
        for (size_t i = 0; i < n; i++) {
            char piece[10];
            size_t length = random_next(&seed) % sizeof piece;
            for (size_t j = 0; j < length; j++)
                piece[j] =
                    random_next(&seed) % 8 ? "aab<>01"[random_next(&seed) % 7] : (char)random_next(&seed);
            if (length > 4 && round % 2) memcpy(piece, "\\x61", 4);
            fake_add(&vocab, piece, length, 0, NORMAL);
            vocab.types[i] = (int64_t)(random_next(&seed) % 6);
        }
        fake_integer(&vocab, "tokenizer.ggml.unknown_token_id", (int64_t)(random_next(&seed) % 50) - 2);
        made += fake_survives(api, &vocab, "aab<>01\xFF", 8, 50, &seed);
        fake_free(&vocab);
    }
    cr_expect(made > 50, "only %d of 400 could be made", made);
}
