/* test-hf.c: tokenizers of Hugging Face's directories, by the reader of the engine and the plugin hf: ids
 * against those that the library gave (tools/hf/make-tokenizers), texts back, other files than
 * tokenizer.json, and refusals. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "check/explanation.h"
#include "harness.h"
#include "hf-directory.h"
#include "model/hf/tokenizer.h"
#include "steps.h"
#include "texts.h"

#define DATA    TEST_DATA_DIR "/hf-tokenizers"
#define SEED    20
#define N_TEXTS 400

static const struct engine_tokenizer_api *api;

static void load(void)
{
    api = load_tokenizers("hf");
}

TestSuite(hf, .init = load, .timeout = 120);

/* ---- Recorded ids ---- */

static uint64_t hash_texts(const struct engine_tokenizer *tokenizer, uint32_t flags)
{
    uint64_t state = SEED, hash = 0xcbf29ce484222325u;
    struct id_list list = {0};
    char text[TEXT_MAX], number[16];
    for (int i = 0; i < N_TEXTS; i++) {
        size_t length = make_text(&state, false, text);
        encode(api, tokenizer, text, length, flags, &list);
        for (size_t k = 0; k <= list.count; k++) {
            if (k < list.count)
                snprintf(number, sizeof number, k ? " %d" : "%d", list.ids[k]);
            else
                strcpy(number, "\n");
            for (const char *at = number; *at; at++) hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
        }
    }
    id_list_free(&list);
    return hash;
}

Test(hf, recorded)
{
    FILE *file = fopen(DATA "/recorded.txt", "r");
    cr_assert(file);
    char name[64], path[256];
    uint64_t ids, plain;
    int n = 0;
    while (fscanf(file, "%63s %" SCNx64 " %" SCNx64, name, &ids, &plain) == 3) {
        snprintf(path, sizeof path, DATA "/%s", name);
        struct opened opened = hf_test_open(api, path);
        uint64_t found = hash_texts(opened.tokenizer, ENGINE_ENCODE_BOS_EOS | ENGINE_ENCODE_SPECIAL);
        cr_expect_eq(found, ids, "%s: other ids than the library's", name);
        cr_expect_eq(hash_texts(opened.tokenizer, 0), plain, "%s: other ids without special tokens", name);
        hf_test_close(api, &opened);
        n++;
    }
    fclose(file);
    cr_assert_geq(n, 40);
}

/* Byte-level ones without a normalizer give the text back. */
Test(hf, there_and_back)
{
    static const char *const names[] = {"gpt2",     "llama3", "gpt4o",  "kimi",
                                        "deepseek", "bloom",  "digits", "falcon"};
    char path[256], text[TEXT_MAX];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, DATA "/%s", names[i]);
        struct opened opened = hf_test_open(api, path);
        uint64_t state = 7;
        for (int k = 0; k < 100; k++) {
            size_t length = make_text(&state, true, text);
            expect_lossless(api, opened.tokenizer, text, length);
        }
        hf_test_close(api, &opened);
    }
}

/* ---- Other files ---- */

static const char vocabulary[] =
    "{\"h\":0,\"e\":1,\"l\":2,\"o\":3,\"\xC4\xA0\":4,\"he\":5,\"ll\":6,\"hell\":7,\"hello\":8,"
    "\"<s>\":9,\"</s>\":10}";

Test(hf, vocab_and_merges)
{
    const char *directory = hf_test_folder();
    hf_test_write(directory, "vocab.json", vocabulary);
    hf_test_write(directory, "merges.txt", "#version: 0.2\nh e\nl l\nhe ll\nhell o\n");
    hf_test_write(directory, "tokenizer_config.json",
                  "{\"bos_token\":\"<s>\",\"eos_token\":{\"content\":\"</s>\"},\"model_max_length\":1e30}");
    struct opened opened = hf_test_open(api, directory);
    expect_ids(api, opened.tokenizer, "hello hello</s>", ENGINE_ENCODE_SPECIAL | ENGINE_ENCODE_BOS_EOS,
               "8 4 8 10");
    struct engine_tokenizer_info info = {.struct_size = sizeof info};
    cr_assert_eq(api->info(opened.tokenizer, &info), ENGINE_OK);
    cr_assert_eq(info.bos, 9);
    cr_assert_eq(info.eos, 10);
    cr_assert_eq(info.add_bos, 0);
    cr_assert(api->attributes(opened.tokenizer, 10) & ENGINE_TOKEN_END);
    hf_test_close(api, &opened);

    hf_test_write(
        directory, "tokenizer_config.json",
        "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\",\"add_bos_token\":true,\"add_prefix_space\":true}");
    opened = hf_test_open(api, directory);
    expect_ids(api, opened.tokenizer, "hello", ENGINE_ENCODE_BOS_EOS, "9 4 8");
    hf_test_close(api, &opened);
    hf_test_remove(directory);
}

Test(hf, word_pieces)
{
    const char *directory = hf_test_folder();
    hf_test_write(directory, "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhel\n##lo\nworld\n##s\n!\n");
    struct opened opened = hf_test_open(api, directory);
    expect_ids(api, opened.tokenizer, "H\xC3\xA9llo worlds! xyz",
               ENGINE_ENCODE_BOS_EOS | ENGINE_ENCODE_SPECIAL, "2 5 6 7 8 9 1 3");
    expect_ids(api, opened.tokenizer, "hello [MASK]", ENGINE_ENCODE_SPECIAL, "5 6 4");

    /* Under GGUF's names, for programs that don't know tokenizer.json */
    const struct engine_tokenizer_api *wpm = load_tokenizers("wpm");
    struct engine_metadata getters;
    struct engine_tokenizer *other;
    struct engine_string kind;
    cr_assert(metadata_string(opened.metadata, "tokenizer.ggml.model", &kind));
    cr_assert(kind.length == 4 && memcmp(kind.data, "bert", 4) == 0);
    metadata_getters(opened.metadata, &getters);
    cr_assert_eq(wpm->create(&getters, &other), ENGINE_OK, "%s", error_message());
    expect_ids(wpm, other, "H\xC3\xA9llo worlds! xyz", ENGINE_ENCODE_SPECIAL, "5 6 7 8 9 1");
    wpm->destroy(other);
    hf_test_close(api, &opened);
    hf_test_remove(directory);
}

Test(hf, templates_sampling_and_padding)
{
    const char *directory = hf_test_folder();
    hf_test_write(directory, "vocab.json", vocabulary);
    hf_test_write(directory, "merges.txt", "h e\n");
    hf_test_write(directory, "generation_config.json",
                  "{\"do_sample\":true,\"temperature\":0.6,\"top_k\":20,\"eos_token_id\":[10,8]}");
    hf_test_write(directory, "tokenizer_config.json",
                  "{\"chat_template\":[{\"name\":\"default\",\"template\":\"A\"},{\"name\":\"tool_use\","
                  "\"template\":\"B\"}]}");
    struct opened opened;
    struct engine_string text;
    double number;
    int64_t integer;
    cr_assert_eq(hf_test_try(api, directory, 16, &opened), ENGINE_OK, "%s", error_message());
    cr_assert(metadata_string(opened.metadata, "tokenizer.chat_template", &text) && *text.data == 'A');
    cr_assert(metadata_string(opened.metadata, "tokenizer.chat_template.tool_use", &text) &&
              *text.data == 'B');
    cr_assert(metadata_float(opened.metadata, "general.sampling.temp", &number));
    cr_assert_float_eq(number, 0.6, 1e-6);
    cr_assert(metadata_integer(opened.metadata, "general.sampling.top_k", &integer) && integer == 20);
    cr_assert(api->attributes(opened.tokenizer, 8) & ENGINE_TOKEN_END);
    cr_assert(api->attributes(opened.tokenizer, 15) & ENGINE_TOKEN_UNUSED);
    cr_assert_eq(api->piece(opened.tokenizer, 15, &text), ENGINE_OK);
    cr_assert_eq(memcmp(text.data, "[PAD15]", 7), 0);
    hf_test_close(api, &opened);
    hf_test_write(directory, "chat_template.jinja", "C");
    opened = hf_test_open(api, directory);
    cr_assert(metadata_string(opened.metadata, "tokenizer.chat_template", &text) && *text.data == 'C');
    hf_test_close(api, &opened);
    char folder[256]; /* of templates with names; one for "default" replaces the others */
    snprintf(folder, sizeof folder, "%s/additional_chat_templates", directory);
    cr_assert_eq(mkdir(folder, 0755), 0);
    hf_test_write(directory, "additional_chat_templates/default.jinja", "D");
    opened = hf_test_open(api, directory);
    cr_assert(metadata_string(opened.metadata, "tokenizer.chat_template", &text) && *text.data == 'D');
    hf_test_close(api, &opened);
    hf_test_remove(directory);
}

/* ---- SentencePiece ---- */

/* A piece of a ModelProto: field 1 with text, score and type. */
static void add_piece(struct text *model, const char *piece, float score, char type)
{
    char field[64];
    size_t length = strlen(piece);
    field[0] = 0x0A;
    field[1] = (char)(2 + length + 5 + 2);
    field[2] = 0x0A;
    field[3] = (char)length;
    memcpy(field + 4, piece, length);
    field[4 + length] = 0x15;
    memcpy(field + 5 + length, &score, 4);
    field[9 + length] = 0x18;
    field[10 + length] = type;
    text_add(model, field, 11 + length);
}

Test(hf, sentencepiece)
{
    const char *directory = hf_test_folder();
    struct text model = {0};
    add_piece(&model, "<unk>", 0, 2);
    add_piece(&model, "<s>", 0, 3);
    add_piece(&model, "</s>", 0, 3);
    add_piece(&model, "\xE2\x96\x81", -3, 1);
    add_piece(&model, "a", -2, 1);
    add_piece(&model,
              "\xE2\x96\x81"
              "a",
              -1, 1);
    text_add(&model, "\x12\x02\x18\x02\x1A\x04\x18\x01\x20\x00", 10); /* BPE; prefix, no removing of spaces */
    char path[128];
    snprintf(path, sizeof path, "%s/tokenizer.model", directory);
    FILE *file = fopen(path, "wb");
    cr_assert(file && fwrite(model.data, 1, model.length, file) == model.length && fclose(file) == 0);
    text_free(&model);

    struct metadata *metadata;
    struct engine_metadata getters;
    struct engine_tokenizer *tokenizer;
    bool found;
    cr_assert_eq(metadata_create(&metadata), ENGINE_OK);
    cr_assert_eq(hf_tokenizer_read(directory, 0, metadata, &found), ENGINE_OK, "%s", error_message());
    cr_assert(found && metadata_finish(metadata) == ENGINE_OK);
    metadata_getters(metadata, &getters);
    const struct engine_tokenizer_api *spm = load_tokenizers("spm");
    cr_assert_eq(spm->create(&getters, &tokenizer), ENGINE_OK, "%s", error_message());
    expect_ids(spm, tokenizer, "a aa", ENGINE_ENCODE_BOS_EOS, "1 5 5 4");
    spm->destroy(tokenizer);
    metadata_destroy(metadata);
    hf_test_remove(directory);
}

/* ---- Explanations ---- */

/* The steps of a text with the tokenizer.json given. */
static void expect_json_steps(const char *json, const char *text, uint32_t flags, const char *steps)
{
    const char *directory = hf_test_folder();
    hf_test_write(directory, "tokenizer.json", json);
    struct opened opened = hf_test_open(api, directory);
    struct engine_tokenizer_info info = {.struct_size = sizeof info};
    cr_assert_eq(api->info(opened.tokenizer, &info), ENGINE_OK);
    expect_steps(api, opened.tokenizer, info.n_tokens, text, flags, steps);
    hf_test_close(api, &opened);
    hf_test_remove(directory);
}

/* An added token of the text, one of the normalized text, bytes, merges, what the post-processor adds. */
Test(hf, explains_merges)
{
    expect_json_steps(
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"\xC4\xA0\":2,\"ab\":3,"
        "\"<s>\":4,\"<x>\":5,\"!Y\":6},\"merges\":[\"a b\"]},"
        "\"added_tokens\":[{\"id\":4,\"content\":\"<s>\",\"special\":true},"
        "{\"id\":5,\"content\":\"<x>\",\"special\":true},"
        "{\"id\":6,\"content\":\"!Y\",\"special\":false,\"normalized\":true}],"
        "\"normalizer\":{\"type\":\"Lowercase\"},"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
        "\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"<s>\",4],\"sep\":[\"<x>\",5]}}",
        "AB<x> a!Ya?", ENGINE_ENCODE_BOS_EOS | ENGINE_ENCODE_SPECIAL,
        "special 0-0  =4\n"
        "text 0-2 ab\n"
        "word 0-2 ab\n"
        "merge 0-1-2 ab 0+1 =3 rank 0\n"
        "token 0-2 ab =3\n"
        "special 2-5 <x> =5\n"
        "normalized 5-11  a!ya?\n"
        "text 5-11 \xC4\xA0"
        "a!ya?\n"
        "word 0-3 \xC4\xA0"
        "a\n"
        "token 0-2 \xC4\xA0 =2\n"
        "token 2-3 a =0\n"
        "word 3-5 !y\n"
        "token 0-2 !y =6\n"
        "word 5-6 a\n"
        "token 0-1 a =0\n"
        "word 6-7 ?\n"
        "token 0-1 ? =-1\n"
        "special 11-11  =5\n");
}

/* The unknown token waits while the tokens of "\xC3\xA9" and the suffix come; then no byte is left for it. */
Test(hf, explains_symbols_without_bytes)
{
    expect_json_steps(
        "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"fuse_unk\":true,\"byte_fallback\":true,"
        "\"end_of_word_suffix\":\".\",\"vocab\":{\"?\":0,\"<0xC3>\":1,\"<0xA9>\":2,\"<0x2E>\":3,"
        "\"a\":4,\"a?\":5,\"b.\":6},\"merges\":[]}}",
        "axy\xC3\xA9", 0,
        "text 0-5 axy\xC3\xA9\n"
        "word 0-5 axy\xC3\xA9\n"
        "token 0-1 a =4\n"
        "token 1-4 xy\xC3 =1\n"
        "token 4-5 \xA9 =2\n"
        "token 5-5  =3\n"
        "token 5-5  =0\n");
}

Test(hf, explains_the_best_path)
{
    expect_json_steps(
        "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"\xE2\x96\x81\",-2],"
        "[\"a\",-3],[\"b\",-3],[\"ab\",-4]]},"
        "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\","
        "\"prepend_scheme\":\"first\"}}",
        "ab xy", 0,
        "normalized 0-5 ab xy\n"
        "text 0-5 \xE2\x96\x81"
        "ab\xE2\x96\x81"
        "xy\n"
        "word 0-5 \xE2\x96\x81"
        "ab\n"
        "candidate 0-3 \xE2\x96\x81 =1 score -2 sum -2\n"
        "best 0-3 \xE2\x96\x81 =1 sum -2\n"
        "candidate 3-4 a =2 score -3 sum -5\n"
        "candidate 3-5 ab =4 score -4 sum -6\n"
        "best 3-4 a =2 sum -5\n"
        "candidate 4-5 b =3 score -3 sum -8\n"
        "best 3-5 ab =4 sum -6\n"
        "token 0-3 \xE2\x96\x81 =1 sum -2\n"
        "token 3-5 ab =4 sum -6\n"
        "word 5-10 \xE2\x96\x81xy\n"
        "candidate 0-3 \xE2\x96\x81 =1 score -2 sum -2\n"
        "best 0-3 \xE2\x96\x81 =1 sum -2\n"
        "candidate 3-4 x =0 score -14 sum -16\n"
        "best 3-4 x =0 sum -16\n"
        "candidate 4-5 y =0 score -14 sum -30\n"
        "best 4-5 y =0 sum -30\n"
        "token 0-3 \xE2\x96\x81 =1 sum -2\n"
        "token 3-5 xy =0 sum -30\n");
}

Test(hf, explains_words)
{
    expect_json_steps(
        "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"[UNK]\":0,\"u\":1,\"un\":2,\"##aff\":3}},"
        "\"normalizer\":{\"type\":\"BertNormalizer\"},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}}",
        "\xC3\x9Cnaff  unx", 0,
        "normalized 0-11 unaff  unx\n"
        "text 0-11 unaffunx\n"
        "word 0-5 unaff\n"
        "candidate 0-1 u =1\n"
        "candidate 0-2 un =2\n"
        "token 0-2 un =2\n"
        "candidate 2-5 aff =3\n"
        "token 2-5 aff =3\n"
        "word 5-8 unx\n"
        "candidate 0-1 u =1\n"
        "candidate 0-2 un =2\n"
        "token 0-3 unx =0\n");
    expect_json_steps("{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"one\":1}},"
                      "\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"}}",
                      " one two ", 0,
                      "normalized 0-9  one two \n"
                      "text 0-9 onetwo\n"
                      "word 0-3 one\n"
                      "token 0-3 one =1\n"
                      "word 3-6 two\n"
                      "token 0-3 two =0\n");
}

/* All kinds of tokenizers on many texts: the steps fit together and give encode's ids. */
Test(hf, explanations_fit)
{
    FILE *file = fopen(DATA "/recorded.txt", "r");
    cr_assert(file);
    char name[64], path[256], text[TEXT_MAX], why[EXPLANATION_WHY];
    struct id_list ids = {0};
    while (fscanf(file, "%63s %*s %*s", name) == 1) {
        snprintf(path, sizeof path, DATA "/%s", name);
        struct opened opened = hf_test_open(api, path);
        struct engine_tokenizer_info info = {.struct_size = sizeof info};
        cr_assert_eq(api->info(opened.tokenizer, &info), ENGINE_OK);
        uint64_t state = SEED;
        for (uint32_t i = 0; i < 60; i++) {
            size_t length = make_text(&state, false, text);
            encode(api, opened.tokenizer, text, length, i % 4, &ids);
            cr_expect(explanation_check(api, opened.tokenizer, (struct engine_string){text, length}, i % 4,
                                        ids.ids, ids.count, info.n_tokens, why),
                      "%s, text %u: %s", name, i, why);
        }
        hf_test_close(api, &opened);
    }
    fclose(file);
    id_list_free(&ids);
}

/* ---- Refusals ---- */

static void expect_refused(const char *json, const char *words)
{
    struct opened opened;
    const char *directory = hf_test_folder();
    hf_test_write(directory, "tokenizer.json", json);
    int status = hf_test_try(api, directory, 0, &opened);
    cr_expect(status == ENGINE_ERROR_DATA || status == ENGINE_ERROR_UNSUPPORTED, "accepted: %s", json);
    cr_expect(strstr(error_message(), words), "\"%s\" lacks \"%s\"", error_message(), words);
    hf_test_close(api, &opened);
    hf_test_remove(directory);
}

#define MODEL "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}"

/* Files that are no JSON, or no files. */
Test(hf, refuses_files)
{
    expect_refused("{\"model\":NaN}", "not valid JSON");
    expect_refused("{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",1e999]]}}", "not valid JSON");
    static const char *const targets[] = {"tokenizer.json", "nowhere", "/dev/zero", "."};
    static const char *const words[] = {"symbolic links", "No such file", "not a regular file",
                                        "not a regular file"};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        struct opened opened;
        char path[256];
        const char *directory = hf_test_folder();
        snprintf(path, sizeof path, "%s/tokenizer.json", directory);
        cr_assert_eq(symlink(targets[i], path), 0);
        cr_expect_neq(hf_test_try(api, directory, 0, &opened), ENGINE_OK);
        cr_expect(strstr(error_message(), words[i]), "%s", error_message());
        hf_test_close(api, &opened);
        hf_test_remove(directory);
    }
}

Test(hf, refusals)
{
    expect_refused("{\"model\":{\"vocab\":{\"a\":0,\"a\":1}}}", "duplicate");
    expect_refused("{}", "/model");
    expect_refused("[]", "not a JSON object");
    expect_refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1}}}", "/model/vocab");
    expect_refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":99999999999}}}", "/model/vocab");
    expect_refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0}}}", "/model/vocab");
    expect_refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a c\"]}}",
                   "/model/merges/0");
    expect_refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[5]}}", "/model/merges/0");
    expect_refused("{\"model\":{\"type\":\"Magic\",\"vocab\":{\"a\":0}}}", "Magic");
    expect_refused("{" MODEL ",\"added_tokens\":[{\"id\":1,\"content\":\"x\"}]}", "/added_tokens/0");
    expect_refused("{" MODEL ",\"normalizer\":{\"type\":\"Shout\"}}",
                   "/normalizer: no tokenizer plugin knows");
    expect_refused("{" MODEL
                   ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"},"
                   "{\"type\":\"UnicodeScripts\"}]}}",
                   "/pre_tokenizer/pretokenizers/1");
    expect_refused("{" MODEL ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a)\\\\1\"},"
                   "\"behavior\":\"Isolated\"}}",
                   "reference");
    expect_refused("{" MODEL ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},"
                   "\"behavior\":\"Isolated\"}}",
                   "/pre_tokenizer");
#define BYTES "{\"type\":\"ByteLevel\",\"use_regex\":false}"
    expect_refused("{" MODEL ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[" BYTES "," BYTES
                   "," BYTES "," BYTES "," BYTES "]}}",
                   "/pre_tokenizer/pretokenizers/4: more than 4 ByteLevel");
    expect_refused("{" MODEL ",\"decoder\":{\"type\":\"CTC\"}}", "CTC");
    expect_refused("{" MODEL
                   ",\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"a\",9],\"sep\":[\"a\",0]}}",
                   "/post_processor/cls/1");
    char deep[1100];
    memset(deep, '[', sizeof deep);
    memcpy(deep, "{\"a\":", 5);
    deep[sizeof deep - 1] = '\0';
    expect_refused(deep, "brackets");
}

/* Expressions whose translation would take long. */
Test(hf, expressions_that_grow)
{
    static const struct {
        const char *begin, *part, *end, *message;
        size_t n;
    } cases[] = {{"a", "*", "", "more than 100 repetitions of each other", 60000},
                 {"a", "{1}", "", "more than 100 repetitions of each other", 20000},
                 {"[", "\\\\w", "]", "more than 200000 ranges of characters", 30000},
                 {"(?i)[", "[\\\\w]", "]", "more than 200000 ranges of characters", 15000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *json = calloc(1, 1 << 18);
        cr_assert(json);
        size_t at = (size_t)sprintf(
            json, "{" MODEL ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s",
            cases[i].begin);
        for (size_t k = 0; k < cases[i].n; k++) at += (size_t)sprintf(json + at, "%s", cases[i].part);
        sprintf(json + at, "%s\"},\"behavior\":\"Isolated\",\"invert\":false}}", cases[i].end);
        expect_refused(json, cases[i].message);
        free(json);
    }
}

/* Each expression is short, but there are many. */
Test(hf, many_expressions)
{
    static const struct {
        const char *expression, *message;
        size_t n_parts, n;
    } cases[] = {{"a", "more than 64 regular expressions", 1, 65},
                 {"a|", "regular expressions up to here have more than 65536 bytes", 10000, 4},
                 {"[\\\\w]", "more than 200000 ranges of characters", 60, 60}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *json = calloc(1, 1 << 18);
        cr_assert(json);
        size_t at = (size_t)sprintf(json, "{" MODEL ",\"pre_tokenizer\":{\"type\":\"Sequence\","
                                          "\"pretokenizers\":[");
        for (size_t k = 0; k < cases[i].n; k++) {
            at += (size_t)sprintf(json + at, "%s{\"type\":\"Split\",\"pattern\":{\"Regex\":\"",
                                  k > 0 ? "," : "");
            for (size_t j = 0; j < cases[i].n_parts; j++)
                at += (size_t)sprintf(json + at, "%s", cases[i].expression);
            at += (size_t)sprintf(json + at, "\"},\"behavior\":\"Isolated\",\"invert\":false}");
        }
        sprintf(json + at, "]}}");
        expect_refused(json, cases[i].message);
        free(json);
    }
}

static int take_nothing(void *user, const int32_t *ids, size_t count)
{
    (void)user, (void)ids, (void)count;
    return ENGINE_OK;
}

static void expect_growth_refused(const char *json, const char *text)
{
    const char *directory = hf_test_folder();
    hf_test_write(directory, "tokenizer.json", json);
    struct opened opened = hf_test_open(api, directory);
    cr_expect_neq(api->encode(opened.tokenizer, text, strlen(text), 0, take_nothing, NULL), ENGINE_OK);
    cr_expect(strstr(error_message(), "64 times as long"), "%s", error_message());
    hf_test_close(api, &opened);
    hf_test_remove(directory);
}

/* Each of four replacements would make a letter 10,000 of them; each ByteLevel makes two characters of
 * one. */
Test(hf, texts_grow_within_bounds)
{
    enum { TIMES = 10000, LEVELS = 24 };
    char *json = malloc(5 * TIMES), *at = json;
    at += sprintf(at, "{" MODEL ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
    char *steps = at;
    for (int i = 0; i < 4; i++) {
        at += sprintf(at, "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"",
                      i ? "," : "");
        memset(at, 'a', TIMES);
        at += TIMES;
        at += sprintf(at, "\"}");
    }
    sprintf(at, "]}}");
    expect_growth_refused(json, "aaa");
    at = steps;
    for (int i = 0; i < LEVELS; i++) at += sprintf(at, "%s{\"type\":\"ByteLevel\"}", i ? "," : "");
    sprintf(at, "]}}");
    expect_growth_refused(json, "\xC3\xA9");
    free(json);
}

/* A post-processor may part texts by a token that no other file names. */
Test(hf, separators_that_no_file_names)
{
    const char *directory = hf_test_folder();
    hf_test_write(
        directory, "tokenizer.json",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"<s>\":1,\"</s>\":2},\"merges\":[]},"
        "\"post_processor\":{\"type\":\"RobertaProcessing\",\"cls\":[\"<s>\",1],\"sep\":[\"</s>\",2]}}");
    struct opened opened = hf_test_open(api, directory);
    expect_ids(api, opened.tokenizer, "a", ENGINE_ENCODE_BOS_EOS, "1 0 2");
    hf_test_close(api, &opened);
    hf_test_remove(directory);
}

/* ---- What expressions name ---- */

static char *spell(char *text, uint32_t c)
{
    if (c < 0x80) return *text = (char)c, text + 1;
    unsigned bits = c < 0x800 ? 6 : c < 0x10000 ? 12 : 18;
    *text++ = (char)((0xF0u << (3 - bits / 6) & 0xFF) | c >> bits);
    while (bits) *text++ = (char)(0x80 | (c >> (bits -= 6) & 0x3F));
    return text;
}

/* A text of the characters that the expressions are asked about; but a and b, which the answer is spelled
 * in. */
static size_t many_characters(char *text)
{
    static const uint32_t ranges[][2] = {
        {0x20, 0x3000}, {0xA000, 0xAC00}, {0x10000, 0x11000}, {0x1D000, 0x1F300}};
    char *at = text;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        for (uint32_t c = ranges[i][0]; c < ranges[i][1]; c++)
            if (c != 'a' && c != 'b') at = spell(at, c);
    return (size_t)(at - text);
}

/* Counts and hashes of the matches, as the library has them. */
Test(hf, names_of_sets)
{
    static const struct {
        const char *expression;
        size_t count;
        uint64_t hash;
    } cases[] = {
        {"[[:alnum:]]", 13854, 0x4980d97f0410a7b5},     {"[[:alpha:]]", 13364, 0xd2782dfa6439357f},
        {"[[:blank:]]", 16, 0x38e5f390179986fb},        {"[[:cntrl:]]", 33, 0x21f058e034a29d4a},
        {"[[:digit:]]", 490, 0x2041a1036073f683},       {"[[:graph:]]", 20680, 0x8d07ad18f20eb5b1},
        {"[[:lower:]]", 2465, 0xe895293cbc0ed1ca},      {"[[:print:]]", 20696, 0x30436144dcc33a5b},
        {"[[:punct:]]", 5489, 0x1501c234c3160568},      {"[[:space:]]", 19, 0xf10ffa7726509a1e},
        {"[[:upper:]]", 1888, 0xb7ef1ac9ddcfa371},      {"[[:word:]]", 14546, 0xd1956750700284af},
        {"[[:xdigit:]]", 20, 0x46a44771539bb575},       {"[[:ascii:]]", 94, 0x2b8c35199b05cd03},
        {"[[:^punct:]]", 22893, 0x0d23c3d1a4230862},    {"(?i)[[:upper:]]", 3246, 0x201c4fd939b1d221},
        {"\\\\w", 14552, 0x6e80719f6ea68b91},           {"[\\\\w]", 14546, 0xd1956750700284af},
        {"[^\\\\W]", 14546, 0xd1956750700284af},        {"\\\\p{Punct}", 560, 0x949e43cb6cbda805},
        {"\\\\p{Alnum}", 13854, 0x4980d97f0410a7b5},    {"\\\\p{Alphabetic}", 13364, 0xd2782dfa6439357f},
        {"\\\\p{Blank}", 16, 0x38e5f390179986fb},       {"\\\\p{Graph}", 20680, 0x8d07ad18f20eb5b1},
        {"\\\\p{Lower}", 2465, 0xe895293cbc0ed1ca},     {"\\\\p{Print}", 20696, 0x30436144dcc33a5b},
        {"\\\\p{Uppercase}", 1888, 0xb7ef1ac9ddcfa371}, {"\\\\p{Word}", 14552, 0x6e80719f6ea68b91},
    };
    char *text = malloc(4 * 0x8000), json[512];
    size_t length = many_characters(text);
    struct id_list ids = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(json, sizeof json,
                 "{" MODEL ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":["
                 "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"%s\"},\"content\":\"a\"},"
                 "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"[^a]\"},\"content\":\"b\"}]},"
                 "\"pre_tokenizer\":{\"type\":\"FixedLength\",\"length\":1}}",
                 cases[i].expression);
        const char *directory = hf_test_folder();
        hf_test_write(directory, "tokenizer.json", json);
        struct opened opened = hf_test_open(api, directory);
        encode(api, opened.tokenizer, text, length, 0, &ids);
        size_t count = 0;
        uint64_t hash = 0xcbf29ce484222325u;
        for (size_t k = 0; k < ids.count; k++) {
            count += ids.ids[k] == 0;
            hash = (hash ^ (ids.ids[k] == 0)) * 0x100000001b3u;
        }
        cr_expect(count == cases[i].count && hash == cases[i].hash, "%s: %zu characters", cases[i].expression,
                  count);
        hf_test_close(api, &opened);
        hf_test_remove(directory);
    }
    id_list_free(&ids);
    free(text);
}

/* U+FDFA becomes words with blanks between them. Metaspace marks all that come from the first character. */
Test(hf, first_characters_that_become_words)
{
    const char *directory = hf_test_folder();
    hf_test_write(
        directory, "tokenizer.json",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"x\":0,\"\u2581\":1,\"y\":2},\"unk_token\":\"x\"},"
        "\"normalizer\":{\"type\":\"NFKD\"},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
        "{\"type\":\"WhitespaceSplit\"},{\"type\":\"Metaspace\",\"replacement\":\"\u2581\","
        "\"prepend_scheme\":\"first\",\"split\":true}]}}");
    struct opened opened = hf_test_open(api, directory);
    expect_ids(api, opened.tokenizer, "\uFDFAy y", 0, "1 0 0 0 1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 2 2");
    expect_ids(api, opened.tokenizer, "y\uFDFA y", 0, "1 2 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 2");
    expect_ids(api, opened.tokenizer, "y y", 0, "1 2 2");
    hf_test_close(api, &opened);
    hf_test_remove(directory);
}
