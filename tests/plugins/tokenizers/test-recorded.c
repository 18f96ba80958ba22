/* test-recorded.c: all vocabularies of ../shared/tokenizers, with texts made here (texts.h), against what
 * other programs gave for the same texts: llama.cpp, SentencePiece, HF tokenizers. tools/tokenizers/record
 * wrote that down. And whether texts come back. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "gguf-writer.h"
#include "harness.h"
#include "model/metadata.h"
#include "texts.h"

TestSuite(recorded, .timeout = 600);

/* A vocabulary of ../shared/tokenizers and the plugin for it. */
struct vocabulary {
    const char *plugin;
    const struct engine_tokenizer_api *api;
    struct engine_tokenizer *tokenizer;
    struct model *model;
};

static const char *plugin_for(const char *name)
{
    static const struct {
        const char *model, *plugin;
    } plugins[] = {{"llama", "spm"}, {"gpt2", "bpe"}, {"bert", "wpm"}, {"t5", "ugm"}, {"rwkv", "rwkv"}};
    char path[512];
    snprintf(path, sizeof path, "%s/tokenizers/%s.gguf", TEST_SHARED_DIR, name);
    FILE *file = fopen(path, "rb");
    if (!file) cr_skip_test("%s is not here", path);
    fclose(file);
    struct model *model = NULL;
    struct engine_metadata metadata = {0};
    struct engine_string kind = {"", 0};
    const char *plugin = NULL;
    cr_assert(model_open(path, NULL, &model) == ENGINE_OK, "%s", error_message());
    metadata_getters(model_metadata(model), &metadata);
    metadata.get_string(metadata.context, "tokenizer.ggml.model", &kind);
    for (size_t i = 0; i < sizeof plugins / sizeof *plugins; i++)
        if (strlen(plugins[i].model) == kind.length && !memcmp(kind.data, plugins[i].model, kind.length))
            plugin = plugins[i].plugin;
    model_close(model);
    cr_assert(plugin, "%s has a tokenizer that no plugin serves", name);
    return plugin;
}

static void open_vocabulary(struct vocabulary *vocabulary, const char *name)
{
    vocabulary->plugin = plugin_for(name);
    vocabulary->api = load_tokenizers(vocabulary->plugin);
    vocabulary->tokenizer = open_shared(vocabulary->api, name, &vocabulary->model);
}

static void close_vocabulary(struct vocabulary *vocabulary)
{
    vocabulary->api->destroy(vocabulary->tokenizer);
    model_close(vocabulary->model);
}

/* ---- What others gave ---- */

/* FNV-1a over the ids as "1 2 3\n". */
static void hash_ids(uint64_t *hash, const struct id_list *list)
{
    char number[16];
    for (size_t i = 0; i <= list->count; i++) {
        if (i == list->count)
            snprintf(number, sizeof number, "\n");
        else
            snprintf(number, sizeof number, i ? " %d" : "%d", list->ids[i]);
        for (const char *at = number; *at; at++) *hash = (*hash ^ (unsigned char)*at) * 0x100000001b3u;
    }
}

/* Checks a line: "PROGRAM VOCABULARY FLAGS SEED COUNT HASH [TEXT …]"; texts of these numbers are left out. */
static void check_line(char *line)
{
    char *rest = line, *words[6];
    for (size_t i = 0; i < 6; i++) cr_assert((words[i] = strsep(&rest, " \n")) && *words[i], "a bad line");
    struct vocabulary vocabulary = {0};
    open_vocabulary(&vocabulary, words[1]);
    uint32_t flags = (uint32_t)strtoul(words[2], NULL, 10);
    uint64_t seed = strtoull(words[3], NULL, 10), expected = strtoull(words[5], NULL, 16);
    unsigned long count = strtoul(words[4], NULL, 10);
    unsigned long left_out = rest && *rest ? strtoul(rest, &rest, 10) : count;
    uint64_t hash = 0xcbf29ce484222325u;
    struct id_list list = {0};
    for (unsigned long i = 0; i < count; i++) {
        char text[TEXT_MAX];
        size_t length = make_text(&seed, false, text);
        if (i == left_out) {
            left_out = *rest && *rest != '\n' ? strtoul(rest, &rest, 10) : count;
            continue;
        }
        encode(vocabulary.api, vocabulary.tokenizer, text, length, flags, &list);
        hash_ids(&hash, &list);
    }
    cr_expect(hash == expected, "%s, flags %u: not the ids of %s; see tools/tokenizers/compare", words[1],
              flags, words[0]);
    id_list_free(&list);
    close_vocabulary(&vocabulary);
}

static void check_file(const char *name)
{
    char path[512], line[8192];
    snprintf(path, sizeof path, "%s/plugins/tokenizers/recorded/%s.txt", TEST_SOURCE_DIR, name);
    FILE *file = fopen(path, "r");
    cr_assert(file, "%s can't be read", path);
    int n_lines = 0;
    for (; fgets(line, sizeof line, file); n_lines++) check_line(line);
    fclose(file);
    cr_expect(n_lines > 5);
}

Test(recorded, llama_cpp)
{
    check_file("llama.cpp");
}

Test(recorded, originals)
{
    check_file("originals");
}

/* ---- Texts come back ---- */

static bool comes_back(const struct vocabulary *vocabulary, const char *text, size_t length)
{
    struct id_list list = {0};
    struct text back = {0};
    encode(vocabulary->api, vocabulary->tokenizer, text, length, 0, &list);
    decode(vocabulary->api, vocabulary->tokenizer, &list, false, &back);
    bool same = back.length == length && memcmp(back.data, text, length) == 0;
    id_list_free(&list);
    text_free(&back);
    return same;
}

/* What can't come back, found by asking. */
struct loss {
    bool normalizes; /* the tokenizer changes texts */
    size_t n_bytes;  /* bytes that have no token of their own, */
    bool bytes[256]; /* and which */
};

static void find_loss(const struct vocabulary *vocabulary, struct loss *loss)
{
    static const char *const texts[] = {"Ab", "a  b", " a ", "\xEF\xAC\x81", "e\xCC\x81"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        loss->normalizes = loss->normalizes || !comes_back(vocabulary, texts[i], strlen(texts[i]));
    for (int byte = 0; byte < 256; byte++) {
        char text[2] = {'x', (char)byte};
        loss->bytes[byte] = !comes_back(vocabulary, text, 2);
        loss->n_bytes += loss->bytes[byte];
    }
}

/* All texts that can come back do: those of cases.nul, and random bytes. */
static void expect_texts_back(const struct vocabulary *vocabulary, const char *name, const struct loss *loss,
                              const struct text *cases)
{
    for (size_t at = 0, length; at < cases->length; at += length + 1) {
        const char *text = cases->data + at;
        bool lost = false;
        for (length = 0; text[length]; length++) lost = lost || loss->bytes[(unsigned char)text[length]];
        cr_expect(lost || comes_back(vocabulary, text, length), "%s: \"%s\"", name, text);
    }
    uint64_t seed = 17;
    for (int i = 0; i < 60; i++) {
        char text[700];
        size_t length = 1 + random_next(&seed) % sizeof text;
        for (size_t j = 0; j < length; j++) {
            text[j] = (char)random_next(&seed);
            if (loss->bytes[(unsigned char)text[j]]) text[j] = 'x';
        }
        cr_expect(comes_back(vocabulary, text, length), "%s: random bytes, text %d", name, i);
    }
}

/* How many vocabularies express all texts, lack bytes, normalize texts. */
struct tally {
    int lossless, lacking, normalizing;
};

static void check_folder(const char *folder, const struct text *cases, struct tally *tally)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tokenizers/%s", TEST_SHARED_DIR, folder);
    DIR *listing = opendir(path);
    if (!listing) cr_skip_test("%s is not here", path);
    for (struct dirent *entry; (entry = readdir(listing));) {
        size_t length = strlen(entry->d_name);
        if (length < 6 || strcmp(entry->d_name + length - 5, ".gguf") != 0) continue;
        char name[300];
        snprintf(name, sizeof name, "%s%.*s", folder, (int)length - 5, entry->d_name);
        struct vocabulary vocabulary = {0};
        struct loss loss = {0};
        open_vocabulary(&vocabulary, name);
        find_loss(&vocabulary, &loss);
        if (!loss.normalizes) expect_texts_back(&vocabulary, name, &loss, cases);
        if (loss.normalizes)
            cr_log_info("%s normalizes texts", name), tally->normalizing++;
        else if (loss.n_bytes)
            cr_log_info("%s has no token for %zu bytes", name, loss.n_bytes), tally->lacking++;
        else
            tally->lossless++;
        close_vocabulary(&vocabulary);
    }
    closedir(listing);
}

/* The two that normalize are bert-bge and ugm4k; the seven that lack bytes were made for UTF-8, where most of
 * these don't occur, or have them as tokens of another text (docs/tokenizers.md). */
Test(recorded, texts_come_back)
{
    struct text cases = {0};
    struct tally tally = {0};
    char path[512], buffer[4096];
    snprintf(path, sizeof path, "%s/tokenizers/cases.nul", TEST_SHARED_DIR);
    FILE *file = fopen(path, "rb");
    if (!file) cr_skip_test("%s is not here", path);
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, file)) > 0;) text_add(&cases, buffer, n);
    fclose(file);
    check_folder("", &cases, &tally);
    check_folder("pre/", &cases, &tally);
    cr_expect(tally.lossless == 42 && tally.lacking == 7 && tally.normalizing == 2, "%d, %d, %d",
              tally.lossless, tally.lacking, tally.normalizing);
    text_free(&cases);
}
