/* test-hf.c: tokenizers of Hugging Face's directories, by the reader of the engine and the plugin hf: ids against
 * those that the library gave (tools/hf/make-tokenizers), texts back, other files than tokenizer.json, and refusals. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "harness.h"
#include "model/hf/tokenizer.h"
#include "model/metadata.h"
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

/* ---- Directories ---- */

struct opened {
    struct metadata *metadata;
    struct engine_metadata getters;
    struct engine_tokenizer *tokenizer;
};

static int try_open(const char *directory, uint64_t n_tokens, struct opened *opened)
{
    bool found = false;
    *opened = (struct opened){0};
    cr_assert_eq(metadata_create(&opened->metadata), ENGINE_OK);
    int status = hf_tokenizer_read(directory, n_tokens, opened->metadata, &found);
    if (!status) status = metadata_finish(opened->metadata);
    if (!status) cr_assert(found, "%s", directory);
    metadata_getters(opened->metadata, &opened->getters);
    return status ? status : api->create(&opened->getters, &opened->tokenizer);
}

static void close_opened(struct opened *opened)
{
    if (opened->tokenizer) api->destroy(opened->tokenizer);
    metadata_destroy(opened->metadata);
}

static struct opened open_directory(const char *directory)
{
    struct opened opened;
    cr_assert_eq(try_open(directory, 0, &opened), ENGINE_OK, "%s: %s", directory, error_message());
    return opened;
}

/* A folder that the test fills; removed by the system. */
static const char *folder(void)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/engine-hf-XXXXXX");
    cr_assert(mkdtemp(path));
    return path;
}

static void write_file(const char *directory, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "wb");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void remove_folder(const char *directory)
{
    static const char *const names[] = {"tokenizer.json",      "tokenizer_config.json",
                                        "vocab.json",          "merges.txt",
                                        "vocab.txt",           "generation_config.json",
                                        "chat_template.jinja", "special_tokens_map.json",
                                        "tokenizer.model",     "config.json"};
    char path[256];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        unlink(path);
    }
    rmdir(directory);
}

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
        struct opened opened = open_directory(path);
        uint64_t found = hash_texts(opened.tokenizer, ENGINE_ENCODE_BOS_EOS | ENGINE_ENCODE_SPECIAL);
        cr_expect_eq(found, ids, "%s: other ids than the library's", name);
        cr_expect_eq(hash_texts(opened.tokenizer, 0), plain, "%s: other ids without special tokens", name);
        close_opened(&opened);
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
        struct opened opened = open_directory(path);
        uint64_t state = 7;
        for (int k = 0; k < 100; k++) {
            size_t length = make_text(&state, true, text);
            expect_lossless(api, opened.tokenizer, text, length);
        }
        close_opened(&opened);
    }
}

/* ---- Other files ---- */

static const char vocabulary[] =
    "{\"h\":0,\"e\":1,\"l\":2,\"o\":3,\"\xC4\xA0\":4,\"he\":5,\"ll\":6,\"hell\":7,\"hello\":8,"
    "\"<s>\":9,\"</s>\":10}";

Test(hf, vocab_and_merges)
{
    const char *directory = folder();
    write_file(directory, "vocab.json", vocabulary);
    write_file(directory, "merges.txt", "#version: 0.2\nh e\nl l\nhe ll\nhell o\n");
    write_file(directory, "tokenizer_config.json",
               "{\"bos_token\":\"<s>\",\"eos_token\":{\"content\":\"</s>\"},\"model_max_length\":1e30}");
    struct opened opened = open_directory(directory);
    expect_ids(api, opened.tokenizer, "hello hello</s>", ENGINE_ENCODE_SPECIAL | ENGINE_ENCODE_BOS_EOS,
               "8 4 8 10");
    struct engine_tokenizer_info info = {.struct_size = sizeof info};
    cr_assert_eq(api->info(opened.tokenizer, &info), ENGINE_OK);
    cr_assert_eq(info.bos, 9);
    cr_assert_eq(info.eos, 10);
    cr_assert_eq(info.add_bos, 0);
    cr_assert(api->attributes(opened.tokenizer, 10) & ENGINE_TOKEN_END);
    close_opened(&opened);

    write_file(
        directory, "tokenizer_config.json",
        "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\",\"add_bos_token\":true,\"add_prefix_space\":true}");
    opened = open_directory(directory);
    expect_ids(api, opened.tokenizer, "hello", ENGINE_ENCODE_BOS_EOS, "9 4 8");
    close_opened(&opened);
    remove_folder(directory);
}

Test(hf, word_pieces)
{
    const char *directory = folder();
    write_file(directory, "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhel\n##lo\nworld\n##s\n!\n");
    struct opened opened = open_directory(directory);
    expect_ids(api, opened.tokenizer, "H\xC3\xA9llo worlds! xyz",
               ENGINE_ENCODE_BOS_EOS | ENGINE_ENCODE_SPECIAL, "2 5 6 7 8 9 1 3");
    expect_ids(api, opened.tokenizer, "hello [MASK]", ENGINE_ENCODE_SPECIAL, "5 6 4");
    close_opened(&opened);
    remove_folder(directory);
}

Test(hf, templates_sampling_and_padding)
{
    const char *directory = folder();
    write_file(directory, "vocab.json", vocabulary);
    write_file(directory, "merges.txt", "h e\n");
    write_file(directory, "generation_config.json",
               "{\"do_sample\":true,\"temperature\":0.6,\"top_k\":20,\"eos_token_id\":[10,8]}");
    write_file(directory, "tokenizer_config.json",
               "{\"chat_template\":[{\"name\":\"default\",\"template\":\"A\"},{\"name\":\"tool_use\","
               "\"template\":\"B\"}]}");
    struct opened opened;
    struct engine_string text;
    double number;
    int64_t integer;
    cr_assert_eq(try_open(directory, 16, &opened), ENGINE_OK, "%s", error_message());
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
    close_opened(&opened);
    write_file(directory, "chat_template.jinja", "C");
    opened = open_directory(directory);
    cr_assert(metadata_string(opened.metadata, "tokenizer.chat_template", &text) && *text.data == 'C');
    close_opened(&opened);
    remove_folder(directory);
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
    const char *directory = folder();
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
    remove_folder(directory);
}

/* ---- Refusals ---- */

static void expect_refused(const char *json, const char *words)
{
    struct opened opened;
    const char *directory = folder();
    write_file(directory, "tokenizer.json", json);
    int status = try_open(directory, 0, &opened);
    cr_expect(status == ENGINE_ERROR_DATA || status == ENGINE_ERROR_UNSUPPORTED, "accepted: %s", json);
    cr_expect(strstr(error_message(), words), "\"%s\" lacks \"%s\"", error_message(), words);
    close_opened(&opened);
    remove_folder(directory);
}

#define MODEL "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}"

Test(hf, refusals)
{
    expect_refused("{\"model\":{\"vocab\":{\"a\":0,\"a\":1}}}", "duplicate");
    expect_refused("{}", "/model");
    expect_refused("[]", "no object");
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
