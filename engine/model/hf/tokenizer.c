/* tokenizer.c: see tokenizer.h. Files, messages, and the metadata that the parts become. */
#include "model/hf/tokenizer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "common/json-read.h"
#include "common/printable.h"
#include "model/file.h"
#include "model/hf/internal.h"
#include "model/hf/json.h"
#include "model/hf/tokenizer-parts.h"

int hf_tokenizer_fail(const struct hf_tokenizer *work, int status, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    printable_make(text);
    return error_raise(status, "%s/%s: %s", work->directory, work->file, text);
}

char *hf_tokenizer_path(const char *directory, const char *name)
{
    size_t length = strlen(directory) + strlen(name) + 2;
    char *path = malloc(length);
    if (path) snprintf(path, length, "%s/%s", directory, name);
    return path;
}

/* Maps a file if it is there (*found): *size is 0 and *data NULL if not, or if it is empty. A link that
 * leads nowhere is an error: a download that isn't complete. */
static int map_file(const char *path, uint64_t limit, const uint8_t **data, uint64_t *size, bool *found)
{
    struct stat status;
    *found = false;
    *data = NULL;
    *size = 0;
    if (lstat(path, &status) != 0) {
        if (errno == ENOENT || errno == ENOTDIR) return ENGINE_OK;
        return error_raise(ENGINE_ERROR, "%s: %s", path, strerror(errno));
    }
    *found = true;
    int mapped = model_map_file(path, data, size);
    if (mapped || *size <= limit) return mapped;
    model_unmap_file(*data, *size);
    return error_raise(ENGINE_ERROR_DATA, "%s has %llu bytes; at most %llu are read", path,
                       (unsigned long long)*size, (unsigned long long)limit);
}

/* The deepest nesting of brackets. */
static unsigned json_depth(const char *text, size_t size)
{
    unsigned depth = 0, deepest = 0;
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (quoted) {
            if (c == '\\') i++;
            if (c == '"') quoted = false;
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            if (++depth > deepest) deepest = depth;
        } else if ((c == '}' || c == ']') && depth) {
            depth--;
        }
    }
    return deepest;
}

/* Text that may be another one without some of its parts. */
struct text {
    const char *data;
    size_t size;
    char *own;
};

static void tokenizer_shorten(struct text *text, char *without, const size_t *rest)
{
    if (!without) return;
    free(text->own);
    *text = (struct text){without, *rest, without};
}

/* Without the parts that can be taken out, if `taken` is not NULL; else, and for messages, the whole text. */
static json_t *load_json(const char *data, size_t size, size_t flags, struct hf_taken *taken, bool *deep,
                         json_error_t *error)
{
    struct text text = {data, size, NULL};
    size_t rest = 0;
    if (taken) {
        tokenizer_shorten(&text, hf_merges_take(text.data, text.size, &rest, &taken->merges), &rest);
        tokenizer_shorten(&text, hf_words_take(text.data, text.size, &rest, &taken->words), &rest);
    }
    *deep = json_depth(text.data, text.size) > HF_JSON_DEPTH;
    json_t *json = *deep ? NULL : json_read(text.data, text.size, flags, error);
    bool shortened = text.own != NULL;
    free(text.own);
    if (json || !shortened) return json;
    hf_tokenizer_taken_free(taken);
    return load_json(data, size, flags, NULL, deep, error);
}

void hf_tokenizer_taken_free(struct hf_taken *taken)
{
    hf_merges_free(&taken->merges);
    hf_words_free(&taken->words);
}

/* `flags`: Jansson's for decoding. `taken`: see load_json. */
static int read_json(const char *directory, const char *name, size_t flags, struct hf_taken *taken,
                     json_t **json)
{
    const uint8_t *data;
    uint64_t size;
    *json = NULL;
    char *path = hf_tokenizer_path(directory, name);
    if (!path) return error_memory("tokenizer");
    bool found;
    int status = map_file(path, HF_JSON_MAX, &data, &size, &found);
    if (!status && found && !size)
        status = error_raise(ENGINE_ERROR_DATA, "%s is empty: it was not downloaded whole", path);
    if (!status && size) {
        json_error_t error;
        bool deep = false;
        const char *text = (const char *)data;
        size_t length = (size_t)size;
        char *copy = NULL;
        status = text_begin(path, &text, &length);
        if (!status && !taken) status = hf_json_hide_infinity(text, length, &copy);
        if (copy) text = copy;
        if (!status) *json = load_json(text, length, JSON_REJECT_DUPLICATES | flags, taken, &deep, &error);
        free(copy);
        if (status)
            ; /* the encoding differs */
        else if (deep)
            status = error_raise(ENGINE_ERROR_DATA, "%s: more than %d brackets in each other", path,
                                 HF_JSON_DEPTH);
        else if (!*json) {
            printable_make(error.text);
            status = error_raise(ENGINE_ERROR_DATA, "%s is not valid JSON: line %d: %s", path, error.line,
                                 error.text);
        } else if (!json_is_object(*json)) {
            json_decref(*json);
            *json = NULL;
            status = error_raise(ENGINE_ERROR_DATA, "%s is not a JSON object", path);
        }
        model_unmap_file(data, size);
    }
    free(path);
    return status;
}

int hf_tokenizer_json(const char *directory, const char *name, json_t **json)
{
    return read_json(directory, name, JSON_ALLOW_NUL, NULL, json);
}

int hf_tokenizer_json_taking(const char *directory, const char *name, struct hf_taken *taken, json_t **json)
{
    return read_json(directory, name, JSON_ALLOW_NUL, taken, json);
}

int hf_tokenizer_text(const struct hf_tokenizer *work, const char *name, uint64_t limit, const char **text,
                      size_t *length)
{
    const uint8_t *data;
    uint64_t size;
    *text = NULL;
    *length = 0;
    char *path = hf_tokenizer_path(work->directory, name);
    if (!path) return error_memory("tokenizer");
    bool found;
    int status = map_file(path, limit, &data, &size, &found);
    if (!status && size) {
        const char *begin = (const char *)data;
        size_t rest = (size_t)size;
        status = text_begin(path, &begin, &rest);
        char *copy = status ? NULL : metadata_allocate(work->metadata, rest + 1);
        if (copy) memcpy(copy, begin, rest);
        if (!status && !copy) status = error_memory("tokenizer");
        *text = copy;
        *length = copy ? rest : 0;
        model_unmap_file(data, size);
    }
    free(path);
    return status;
}

/* ---- Metadata ---- */

/* Ids that nothing has, and those up to the rows of the embedding. */
static int fill_up(struct hf_tokenizer *work, uint64_t n_tokens)
{
    if (n_tokens > HF_TOKENS_MAX || n_tokens < work->n_tokens) n_tokens = work->n_tokens;
    size_t grown = (size_t)n_tokens;
    struct engine_string *tokens = metadata_allocate(work->metadata, grown * sizeof *tokens + 1);
    int32_t *types = metadata_allocate(work->metadata, grown * sizeof *types + 1);
    double *scores = metadata_allocate(work->metadata, grown * sizeof *scores + 1);
    if (!tokens || !types || !scores) return error_memory("vocabulary");
    for (size_t id = 0; id < grown; id++) {
        bool there = id < work->n_tokens && work->types[id] != HF_TOKEN_NONE;
        tokens[id] = there ? work->tokens[id] : (struct engine_string){NULL, 0};
        types[id] = there ? work->types[id] : HF_TOKEN_UNUSED;
        scores[id] = there && work->scores ? work->scores[id] : 0;
        if (there) continue;
        char *name = metadata_allocate(work->metadata, 24);
        if (!name) return error_memory("vocabulary");
        tokens[id].length = (size_t)snprintf(name, 24, "[PAD%zu]", id);
        tokens[id].data = name;
    }
    work->tokens = tokens;
    work->types = types;
    if (work->scores) work->scores = scores;
    work->n_tokens = (uint32_t)grown;
    return ENGINE_OK;
}

static int add_array(const struct hf_tokenizer *work, const char *key, enum metadata_type type, size_t count,
                     const void *values)
{
    return metadata_add(work->metadata, &(struct metadata_entry){key, type, true, count, values});
}

/* Scores as float32, which GGUF has, and as they are if that is not the same. */
static int add_scores(const struct hf_tokenizer *work)
{
    if (!work->scores) return ENGINE_OK;
    float *scores = metadata_allocate(work->metadata, work->n_tokens * sizeof *scores + 1);
    if (!scores) return error_memory("vocabulary");
    bool exact = true;
    for (uint32_t i = 0; i < work->n_tokens; i++) {
        scores[i] = (float)work->scores[i];
        exact = exact && (double)scores[i] == work->scores[i];
    }
    int status = add_array(work, "tokenizer.ggml.scores", METADATA_F32, work->n_tokens, scores);
    if (status || exact) return status;
    return add_array(work, "tokenizer.hf.scores", METADATA_U8, work->n_tokens * sizeof *work->scores,
                     work->scores);
}

/* The tokens as GGUF has them. For BERT's, "##" at the beginning of those within a word gives way to a
 * mark at the beginning of the others; what tokenizer.json has is kept for the plugin. */
static int add_tokens(const struct hf_tokenizer *work)
{
    static const char mark[] = "\xE2\x96\x81";
    const size_t length = sizeof mark - 1;
    size_t size = 0;
    if (!work->marks_words)
        return add_array(work, "tokenizer.ggml.tokens", METADATA_STRING, work->n_tokens, work->tokens);
    for (uint32_t id = 0; id < work->n_tokens; id++) size += work->tokens[id].length + length;
    struct engine_string *tokens = metadata_allocate(work->metadata, work->n_tokens * sizeof *tokens + 1);
    char *at = metadata_allocate(work->metadata, size + 1);
    if (!tokens || !at) return error_memory("vocabulary");
    for (uint32_t id = 0; id < work->n_tokens; id++) {
        struct engine_string token = work->tokens[id];
        tokens[id] = token;
        if (work->types[id] != HF_TOKEN_NORMAL) continue;
        bool within = token.length >= 2 && memcmp(token.data, "##", 2) == 0;
        tokens[id].data = at;
        if (!within) memcpy(at, mark, length);
        at += within ? 0 : length;
        memcpy(at, token.data + (within ? 2 : 0), token.length - (within ? 2 : 0));
        at += token.length - (within ? 2 : 0);
        tokens[id].length = (size_t)(at - tokens[id].data);
    }
    int status = add_array(work, "tokenizer.ggml.tokens", METADATA_STRING, work->n_tokens, tokens);
    if (!status)
        status =
            metadata_add_boolean(work->metadata, "tokenizer.ggml.normalizer.lowercase", work->lowers_case);
    if (status) return status;
    return add_array(work, "tokenizer.hf.tokens", METADATA_STRING, work->n_tokens, work->tokens);
}

/* "left right" of each merge, as GGUF has them. Spaces in tokens would be taken for the separator: they
 * become U+0120, which is a space in byte-level vocabularies. */
static int add_merges(const struct hf_tokenizer *work)
{
    size_t size = 0;
    struct engine_string *merges = metadata_allocate(work->metadata, work->n_merges * sizeof *merges + 1);
    for (size_t i = 0; i < work->n_merges; i++)
        size += work->tokens[work->merges[3 * i]].length + work->tokens[work->merges[3 * i + 1]].length;
    char *at = metadata_allocate(work->metadata, 2 * size + work->n_merges + 1);
    if (!merges || !at) return error_memory("merges");
    for (size_t i = 0; i < work->n_merges; i++) {
        merges[i].data = at;
        for (size_t side = 0; side < 2; side++) {
            struct engine_string token = work->tokens[work->merges[3 * i + side]];
            if (side) *at++ = ' ';
            for (size_t k = 0; k < token.length; k++) {
                if (token.data[k] == ' ') *at++ = '\xC4';
                *at++ = token.data[k] == ' ' ? '\xA0' : token.data[k];
            }
        }
        merges[i].length = (size_t)(at - merges[i].data);
    }
    return add_array(work, "tokenizer.ggml.merges", METADATA_STRING, work->n_merges, merges);
}

static int add_description(const struct hf_tokenizer *work)
{
    char *dumped = json_dumps(work->description, JSON_COMPACT);
    size_t length = dumped ? strlen(dumped) : 0;
    char *copy = dumped ? metadata_allocate(work->metadata, length + 1) : NULL;
    struct engine_string *text = metadata_allocate(work->metadata, sizeof *text);
    int status = copy && text ? ENGINE_OK : error_memory("tokenizer");
    if (!status) {
        memcpy(copy, dumped, length);
        *text = (struct engine_string){copy, length};
        status = metadata_add(work->metadata,
                              &(struct metadata_entry){"tokenizer.hf.json", METADATA_STRING, false, 1, text});
    }
    free(dumped);
    if (!status) status = metadata_add_string(work->metadata, "tokenizer.engine.model", "hf");
    if (!status && work->n_merges)
        status = add_array(work, "tokenizer.hf.merges", METADATA_U32, 3 * work->n_merges, work->merges);
    return status;
}

/* Lower case before all else, as sentence-transformers does it (do_lower_case). */
static int lower_case(const struct hf_tokenizer *work)
{
    bool lowers;
    int status = hf_lowers_case(work->directory, &lowers);
    if (status || !lowers || !work->description) return status;
    json_t *normalizer = json_object_get(work->description, "normalizer");
    json_t *lower = json_pack("{s:s}", "type", "Lowercase");
    json_t *both = normalizer && !json_is_null(normalizer)
                       ? json_pack("{s:s, s:[o, O]}", "type", "Sequence", "normalizers", lower, normalizer)
                       : lower;
    if (!both || json_object_set_new(work->description, "normalizer", both)) return error_memory("tokenizer");
    return ENGINE_OK;
}

static int tokenizer_describe(struct hf_tokenizer *work)
{
    struct metadata *metadata = work->metadata;
    int status = metadata_add_string(metadata, "tokenizer.ggml.model", work->kind ? work->kind : "hf");
    if (!status && work->pre) status = metadata_add_string(metadata, "tokenizer.ggml.pre", work->pre);
    if (!status) status = add_tokens(work);
    if (!status)
        status = add_array(work, "tokenizer.ggml.token_type", METADATA_I32, work->n_tokens, work->types);
    if (!status) status = add_scores(work);
    if (!status && work->kind && !strcmp(work->kind, "gpt2")) status = add_merges(work);
    if (!status && work->charsmap)
        status = add_array(work, "tokenizer.ggml.precompiled_charsmap", METADATA_U8, work->charsmap_size,
                           work->charsmap);
    if (!status && work->add_space_prefix >= 0)
        status =
            metadata_add_boolean(metadata, "tokenizer.ggml.add_space_prefix", work->add_space_prefix != 0);
    if (!status && work->remove_extra_whitespaces >= 0)
        status = metadata_add_boolean(metadata, "tokenizer.ggml.remove_extra_whitespaces",
                                      work->remove_extra_whitespaces != 0);
    if (!status) status = hf_tokenizer_configure(work);
    if (!status && work->description) status = add_description(work);
    return status;
}

int hf_tokenizer_read(const char *directory, uint64_t n_tokens, struct metadata *metadata, bool *found)
{
    struct hf_tokenizer work = {
        .directory = directory,
        .file = "tokenizer.json",
        .metadata = metadata,
        .add_bos = -1,
        .add_eos = -1,
        .add_space_prefix = -1,
        .remove_extra_whitespaces = -1,
        .bos = -1,
        .eos = -1,
        .unknown = -1,
        .padding = -1,
    };
    json_t *root = NULL;
    *found = false;
    /* Its model_max_length may be any number; no other of its numbers is read. */
    int status = read_json(directory, "tokenizer_config.json", JSON_DECODE_INT_AS_REAL, NULL, &work.config);
    if (!status) status = hf_tokenizer_json(directory, "special_tokens_map.json", &work.map);
    if (!status) status = hf_tokenizer_json(directory, "generation_config.json", &work.generation);
    if (!status) status = hf_tokenizer_json(directory, "config.json", &work.model);
    if (!status) status = hf_tokenizer_open(&work, &root);
    if (!status && root) {
        *found = true;
        status = hf_tokenizer_take_json(&work, root);
    } else if (!status) {
        status = hf_sentencepiece_read(&work, found);
    }
    hf_tokenizer_taken_free(&work.taken);
    json_decref(root); /* frees the vocabulary before it is written again */
    if (!status && *found) status = fill_up(&work, n_tokens);
    if (!status && *found) status = lower_case(&work);
    if (!status && *found) status = tokenizer_describe(&work);
    if (!status && !*found) status = hf_tokenizer_add_ends(&work, n_tokens);
    if (!status) status = hf_tokenizer_add_templates(&work);
    if (!status) status = hf_tokenizer_add_sampling(&work);
    json_decref(work.description);
    json_decref(work.config);
    json_decref(work.map);
    json_decref(work.generation);
    json_decref(work.model);
    return status;
}
