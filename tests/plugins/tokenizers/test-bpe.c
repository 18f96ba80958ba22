/* test-bpe.c: the tokenizer plugin bpe, against ids from llama.cpp and against its own definition carried out
 * naively. How it cuts texts into words is in test-splits.c. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "gguf-writer.h"
#include "harness.h"

static const struct engine_tokenizer_api *api;

static void load(void)
{
    api = load_tokenizers("bpe");
}

TestSuite(bpe, .init = load, .timeout = 600);

/* ---- Ids of llama.cpp ---- */

Test(bpe, shared_gpt_neox)
{
    expect_shared_ids("bpe", "gpt-neox", true);
}

/* One vocabulary under each of many names of pre-tokenizers. */
Test(bpe, shared_pretokenizers)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tokenizers/pre", TEST_SHARED_DIR);
    DIR *folder = opendir(path);
    if (!folder) cr_skip_test("%s is not here", path);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        size_t length = strlen(entry->d_name);
        if (length < 6 || strcmp(entry->d_name + length - 5, ".gguf") != 0) continue;
        char name[300];
        snprintf(name, sizeof name, "pre/%.*s", (int)length - 5, entry->d_name);
        expect_shared_ids("bpe", name, true);
        count++;
    }
    closedir(folder);
    cr_expect(count > 0);
}

/* Of these vocabularies the ids are given as a hash: over the ids that llama.cpp 0.7.0 gives for cases.nul,
 * printed as in the .ids files. */
Test(bpe, shared_whole_vocabularies)
{
    static const struct {
        const char *name;
        uint64_t hash;
    } vocabularies[] = {{"deepseek-coder", 0xcbcfbc66f1d090a9u},
                        {"deepseek-llm", 0x8431f2467497360au},
                        {"falcon", 0xcd3a57d91c186fdau},
                        {"gpt-2", 0xa0cc24fd9199cc99u},
                        {"mpt", 0x6f67be2ea2114a68u},
                        {"refact", 0x4bb8a88a6952166du},
                        {"starcoder", 0x8d6094aab3de6cbbu}};
    for (size_t i = 0; i < sizeof vocabularies / sizeof *vocabularies; i++) {
        struct model *model;
        struct engine_tokenizer *tokenizer = open_shared(api, vocabularies[i].name, &model);
        bool lossless = strcmp(vocabularies[i].name, "falcon") != 0; /* it lacks 28 of the bytes */
        uint64_t hash = hash_of_shared_cases(api, tokenizer, lossless);
        cr_expect(hash == vocabularies[i].hash, "%s: %#lx", vocabularies[i].name, (unsigned long)hash);
        api->destroy(tokenizer);
        model_close(model);
    }
}

/* ---- A small vocabulary ---- */

/* The piece of one byte: printable ones are themselves, others from U+0100 on. */
static void byte_piece(unsigned byte, char piece[3])
{
    unsigned character = byte, others = 0;
    for (unsigned i = 0; i <= byte; i++) {
        bool itself = (i >= 0x21 && i <= 0x7E) || (i >= 0xA1 && i <= 0xAC) || i >= 0xAE;
        if (i == byte && !itself) character = 0x100 + others;
        others += !itself;
    }
    if (character < 0x80)
        snprintf(piece, 3, "%c", (int)character);
    else
        snprintf(piece, 3, "%c%c", (int)(0xC0 | character >> 6), (int)(0x80 | (character & 0x3F)));
}

/* The bytes under their own numbers. */
static void add_bytes(struct fake_vocab *vocab)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char piece[3];
        byte_piece(byte, piece);
        fake_piece(vocab, piece, 0, NORMAL);
    }
}

static struct engine_string merge(const char *text)
{
    return (struct engine_string){text, strlen(text)};
}

static void make_small(struct fake_vocab *vocab, struct engine_string merges[5])
{
    add_bytes(vocab);
    fake_piece(vocab, "ab", 0, NORMAL);             /* 256 */
    fake_piece(vocab, "Ġa", 0, NORMAL);             /* 257 */
    fake_piece(vocab, "bc", 0, NORMAL);             /* 258 */
    fake_piece(vocab, "Ġabc", 0, NORMAL);           /* 259 */
    fake_piece(vocab, "<|endoftext|>", 0, CONTROL); /* 260 */
    fake_piece(vocab, "  ", 0, USER_DEFINED);       /* 261 */
    fake_piece(vocab, "xyz", 0, NORMAL);            /* 262: no merges lead there */
    merges[0] = merge("b c");
    merges[1] = merge("a b");
    merges[2] = merge("Ġ a");
    merges[3] = merge("Ġa bc");
    merges[4] = merge("x y"); /* leads to no token */
    vocab->merges = merges;
    vocab->n_merges = 5;
    vocab->no_scores = true;
    fake_string(vocab, "tokenizer.ggml.pre", "gpt-2");
    fake_integer(vocab, "tokenizer.ggml.eos_token_id", 260);
}

Test(bpe, merges_by_rank)
{
    struct fake_vocab vocab = {0};
    struct engine_string merges[5];
    make_small(&vocab, merges);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "", 0, "");
    expect_ids(api, tokenizer, "ab", 0, "256");
    expect_ids(api, tokenizer, "abc", 0, "97 258");
    expect_ids(api, tokenizer, " abc abc", 0, "259 259");
    expect_ids(api, tokenizer, " abab", 0, "32 256 256"); /* "a b" comes before "Ġ a" */
    expect_ids(api, tokenizer, "a bc", 0, "97 32 258");
    expect_ids(api, tokenizer, "xyz", 0, "120 121 122"); /* "xy" is no token: its bytes */
    expect_ids(api, tokenizer, "a  b", 0, "97 261 98");
    expect_ids(api, tokenizer, "a<|endoftext|>", ENGINE_ENCODE_SPECIAL, "97 260");
    expect_ids(api, tokenizer, "\xC3\xA9\xFF", 0, "195 169 255"); /* bytes that are not UTF-8 are kept */
    struct engine_tokenizer_info info = {.struct_size = sizeof info};
    cr_assert(api->info(tokenizer, &info) == ENGINE_OK);
    cr_expect(info.bos == 11 && info.eos == 260 && info.unknown == -1 && !info.add_bos && !info.add_eos);
    cr_expect(info.end_of_turn == 260 && (api->attributes(tokenizer, 260) & ENGINE_TOKEN_END));
    api->destroy(tokenizer);
    fake_free(&vocab);
}

Test(bpe, pre_tokenizers_bring_their_ways)
{
    struct fake_vocab vocab = {0};
    struct engine_string merges[5];
    make_small(&vocab, merges);
    vocab.values[0].string = "llama-bpe";
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "xyz", ENGINE_ENCODE_BOS_EOS, "11 262"); /* whole words, and BOS */
    api->destroy(tokenizer);
    vocab.values[0].string = "gpt-3";
    fake_refused(api, &vocab, ENGINE_ERROR_UNSUPPORTED, "unknown pre-tokenizer \"gpt-3\"");
    vocab.values[0].string = "";
    tokenizer = fake_open(api, &vocab); /* "default" */
    expect_ids(api, tokenizer, "a=b1234", 0, "97 61 98 49 50 51 52");
    api->destroy(tokenizer);
    fake_free(&vocab);
}

Test(bpe, random_bytes_come_back)
{
    struct fake_vocab vocab = {0};
    struct engine_string merges[5];
    make_small(&vocab, merges);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    uint64_t seed = 9;
    for (int i = 0; i < 3000; i++) {
        char text[80];
        size_t length = random_next(&seed) % sizeof text;
        for (size_t j = 0; j < length; j++) {
            uint64_t r = random_next(&seed);
            text[j] = r % 3 ? "abc  \xC3\xA9\xE4"[r / 4 % 8] : (char)(r / 4);
        }
        expect_lossless(api, tokenizer, text, length);
    }
    api->destroy(tokenizer);
    fake_free(&vocab);
}

/* ---- The definition, naively ---- */

struct part {
    char bytes[256];
};

/* Of all neighbours that are merges, the first merge, the leftmost of equals, is carried out. One word. */
static void naive_encode(const struct fake_vocab *vocab, const char *text, size_t length,
                         struct id_list *list)
{
    struct part *parts = calloc(length + 1, sizeof *parts);
    size_t count = length;
    for (size_t i = 0; i < length; i++) parts[i].bytes[0] = text[i];
    for (;;) {
        size_t best = vocab->n_merges, where = 0;
        for (size_t i = 0; i + 1 < count; i++) {
            char both[600];
            snprintf(both, sizeof both, "%s %s", parts[i].bytes, parts[i + 1].bytes);
            for (size_t rank = 0; rank < best; rank++) {
                if (strcmp(vocab->merges[rank].data, both) == 0) {
                    best = rank;
                    where = i;
                }
            }
        }
        if (best == vocab->n_merges) break;
        memcpy(parts[where].bytes + strlen(parts[where].bytes), parts[where + 1].bytes,
               strlen(parts[where + 1].bytes) + 1);
        memmove(parts + where + 1, parts + where + 2, (--count - where - 1) * sizeof *parts);
    }
    list->count = 0;
    list->ids = realloc(list->ids, (length + 1) * sizeof *list->ids);
    for (size_t i = 0; i < count; i++) {
        int32_t id = -1;
        for (size_t j = 0; j < vocab->n_tokens; j++) {
            size_t size = vocab->pieces[j].length;
            if (strlen(parts[i].bytes) == size && memcmp(vocab->pieces[j].data, parts[i].bytes, size) == 0)
                id = (int32_t)j;
        }
        if (id >= 0) list->ids[list->count++] = id;
        for (const char *byte = parts[i].bytes; id < 0 && *byte; byte++)
            list->ids[list->count++] = (unsigned char)*byte;
    }
    free(parts);
}

Test(bpe, agrees_with_the_definition)
{
    uint64_t seed = 4711;
    for (int round = 0; round < 40; round++) {
        struct fake_vocab vocab = {0};
        add_bytes(&vocab);
        vocab.no_scores = true;
        fake_string(&vocab, "tokenizer.ggml.pre", "gpt-2");
        struct engine_string merges[60];
        char texts[60][64];
        static char parts[64][32];
        size_t n_parts = 2 + random_next(&seed) % 3;
        for (size_t i = 0; i < n_parts; i++) snprintf(parts[i], sizeof parts[i], "%c", (int)('a' + i));
        for (size_t i = 0; i < 60 && n_parts < 64; i++) {
            const char *left = parts[random_next(&seed) % n_parts],
                       *right = parts[random_next(&seed) % n_parts];
            snprintf(texts[i], sizeof texts[i], "%s %s", left, right);
            merges[i] = merge(texts[i]);
            vocab.n_merges = i + 1;
            char both[64];
            snprintf(both, sizeof both, "%s%s", left, right);
            bool known = strlen(both) >= 32;
            for (size_t j = 0; j < n_parts; j++) known = known || strcmp(parts[j], both) == 0;
            if (known) continue;
            strcpy(parts[n_parts++], both);
            if (random_next(&seed) % 8) fake_piece(&vocab, both, 0, NORMAL);
        }
        vocab.merges = merges;
        struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
        struct id_list expected = {0}, list = {0};
        for (int i = 0; i < 12; i++) {
            char text[250];
            size_t n = 1 + random_next(&seed) % (i % 3 ? 40 : sizeof text);
            for (size_t j = 0; j < n; j++)
                text[j] =
                    j && random_next(&seed) % 3 == 0 ? text[j - 1] : (char)('a' + random_next(&seed) % 4);
            naive_encode(&vocab, text, n, &expected);
            encode(api, tokenizer, text, n, 0, &list);
            cr_assert(list.count == expected.count &&
                          memcmp(list.ids, expected.ids, list.count * sizeof *list.ids) == 0,
                      "round %d, text %d: \"%.*s\"", round, i, (int)n, text);
        }
        id_list_free(&expected);
        id_list_free(&list);
        api->destroy(tokenizer);
        fake_free(&vocab);
    }
}

/* ---- Vocabularies over characters ---- */

Test(bpe, characters)
{
    struct fake_vocab vocab = {0};
    fake_add_basics(&vocab);
    const char *const pieces[] = {"▁", "a", "é", "▁a", "\n", "\n\n", "aé", "▁▁"}; /* from 259 on */
    for (size_t i = 0; i < 8; i++) fake_piece(&vocab, pieces[i], 0, NORMAL);
    struct engine_string merges[] = {merge("▁ a"), merge("a é"), merge("▁ ▁"), merge("é é")};
    vocab.merges = merges;
    vocab.n_merges = 4;
    fake_string(&vocab, "tokenizer.ggml.pre", "sarvam-moe");
    fake_integer(&vocab, "tokenizer.ggml.bos_token_id", 1);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "aé a", ENGINE_ENCODE_BOS_EOS, "265 262");
    expect_ids(api, tokenizer, "aaé  a", 0, "260 265 259 262"); /* "▁ a" comes first */
    expect_ids(api, tokenizer, "\n\nx", 0, "263 263 123");
    expect_ids(api, tokenizer, "éé", 0, "198 172 198 172"); /* they merge, but into no token */
    expect_ids(api, tokenizer, "a\xE2 \xFF", 0, "260 229 259 258");
    expect_lossless(api, tokenizer, "  a\n é\xE2 \xFFx\0\n\n", 13);
    api->destroy(tokenizer);

    vocab.values[0].string = "gemma4";
    tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "\n\na", ENGINE_ENCODE_BOS_EOS, "1 264 260");
    expect_ids(api, tokenizer, "\n\n\n", 0, "263 263 263");
    api->destroy(tokenizer);

    vocab.values[0].string = "mmbert";
    tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "a  a\na\n", 0, "262 259 262 263 262 263"); /* no "▁▁": each begins a word */
    api->destroy(tokenizer);

    vocab.values[0].string = "no such name";
    fake_string(&vocab, "tokenizer.ggml.model", "gemma4");
    tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "a", ENGINE_ENCODE_BOS_EOS, "1 260");
    api->destroy(tokenizer);
    vocab.values[1].key = "not.there";
    fake_refused(api, &vocab, ENGINE_ERROR_DATA, "beginning of text");
    fake_free(&vocab);
}

/* ---- Vocabularies that no one should make ---- */

Test(bpe, strange_merges)
{
    struct fake_vocab vocab = {0};
    struct engine_string merges[5];
    make_small(&vocab, merges);
    vocab.merges = NULL;
    fake_refused(api, &vocab, ENGINE_ERROR_DATA, "no merges");
    vocab.merges = merges;
    vocab.n_merges = 0;
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "ab", 0, "97 98");
    api->destroy(tokenizer);

    vocab.n_merges = 5;
    merges[0] = merge("");
    merges[1] = merge("a");
    merges[2] = merge(" a");
    merges[3] = merge("a ");
    merges[4] = merge("字 a"); /* stands for no bytes */
    tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "ab", 0, "97 98");
    api->destroy(tokenizer);
    fake_free(&vocab);
}

/* A vocabulary without all bytes: what is missing is left out, even if there is a token for the unknown,
 * which in published vocabularies may well be the end of the text. */
Test(bpe, missing_bytes)
{
    struct fake_vocab vocab = {0};
    fake_piece(&vocab, "a", 0, NORMAL);
    fake_piece(&vocab, "?", 0, UNKNOWN);
    struct engine_string merges[1] = {merge("a a")};
    vocab.merges = merges;
    vocab.n_merges = 1;
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "aba", 0, "0 0");
    api->destroy(tokenizer);
    fake_integer(&vocab, "tokenizer.ggml.unknown_token_id", 1);
    tokenizer = fake_open(api, &vocab);
    expect_ids(api, tokenizer, "aba", 0, "0 0");
    api->destroy(tokenizer);
    fake_free(&vocab);
}

Test(bpe, random_vocabularies)
{
    static const char *const pres[] = {"gpt-2",    "llama-bpe", "deepseek-v3", "afmoe",     "chameleon",
                                       "superbpe", "viking",    "mmbert",      "sarvam-moe"};
    uint64_t seed = 31;
    int made = 0;
    for (int round = 0; round < 300; round++) {
        struct fake_vocab vocab = {0};
        char texts[40][12];
        struct engine_string merges[40];
        size_t n = 1 + random_next(&seed) % 40;
        for (size_t i = 0; i < n; i++) {
            size_t length = random_next(&seed) % 8;
            for (size_t j = 0; j < length; j++)
                texts[i][j] = random_next(&seed) % 4 ? "ab \xC4\xA0\xFF<"[random_next(&seed) % 7]
                                                     : (char)random_next(&seed);
            merges[i] = (struct engine_string){texts[i], length};
            fake_add(&vocab, texts[i], random_next(&seed) % 8, 0, NORMAL);
            vocab.types[i] = (int64_t)(random_next(&seed) % 6);
        }
        vocab.merges = merges;
        vocab.n_merges = n;
        fake_string(&vocab, "tokenizer.ggml.pre", pres[random_next(&seed) % 9]);
        struct engine_metadata metadata = fake_metadata(&vocab);
        struct engine_tokenizer *tokenizer = NULL;
        int status = api->create(&metadata, &tokenizer);
        cr_assert(status == ENGINE_OK || status == ENGINE_ERROR_DATA);
        if (status == ENGINE_OK) {
            made++;
            struct id_list list = {0};
            struct text text = {0};
            for (int i = 0; i < 20; i++) {
                char bytes[60];
                for (size_t j = 0; j < sizeof bytes; j++)
                    bytes[j] =
                        random_next(&seed) % 4 ? "ab 1<\n"[random_next(&seed) % 6] : (char)random_next(&seed);
                encode(api, tokenizer, bytes, sizeof bytes, (uint32_t)(random_next(&seed) % 4), &list);
                for (size_t j = 0; j < list.count; j++)
                    cr_assert(list.ids[j] >= 0 && (size_t)list.ids[j] < vocab.n_tokens);
                decode(api, tokenizer, &list, true, &text);
            }
            id_list_free(&list);
            text_free(&text);
            api->destroy(tokenizer);
        }
        fake_free(&vocab);
    }
    cr_expect(made > 30, "only %d of 300 could be made", made);
}
