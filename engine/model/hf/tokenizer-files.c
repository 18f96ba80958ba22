/* tokenizer-files.c: tokenizer.json, or a value like its own made of older files: vocab.json with merges.txt
 * (byte-level BPE) or vocab.txt (BERT's WordPiece), by the class that tokenizer_config.json names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/hf/tokenizer-parts.h"

#define TEXT_MAX (64u << 20)

static const char qwen2_split[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
    "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

static const char *const special_names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                            "pad_token", "cls_token", "mask_token"};

static bool flag_of(const struct hf_tokenizer *work, const char *name, bool preset)
{
    const json_t *value = json_object_get(work->config, name);
    return json_is_boolean(value) ? json_is_true(value) : preset;
}

static bool is_class(const struct hf_tokenizer *work, const char *name)
{
    const char *class = json_string_value(json_object_get(work->config, "tokenizer_class"));
    return class && strncmp(class, name, strlen(name)) == 0; /* NAME or NAMEFast */
}

/* ---- Added tokens ---- */

/* The contents of added tokens, as the keys of an object: there may be thousands. To be released; NULL:
 * out of memory. */
static json_t *contents_of(const json_t *list)
{
    size_t i;
    const json_t *token;
    json_t *contents = json_object();
    json_array_foreach(list, i, token)
    {
        const char *text = json_string_value(json_object_get(token, "content"));
        if (!text || !contents || json_object_set_new(contents, text, json_true()) == 0) continue;
        json_decref(contents);
        contents = NULL;
    }
    return contents;
}

/* Appends tokenizer_config.json's added_tokens_decoder, {"0": {"content": …}, …}, as far as it is new. */
static int add_decoder(const struct hf_tokenizer *work, json_t *list)
{
    const char *key;
    json_t *value, *known = contents_of(list);
    int status = known ? ENGINE_OK : error_memory("tokenizer");
    json_object_foreach(json_object_get(work->config, "added_tokens_decoder"), key, value)
    {
        char *end;
        long id = strtol(key, &end, 10);
        const char *content = json_string_value(json_object_get(value, "content"));
        if (status || !content || *end || id < 0 || json_object_get(known, content)) continue;
        json_t *token = json_copy(value);
        if (!token || json_object_set_new(token, "id", json_integer(id)) || json_array_append(list, token) ||
            json_object_set_new(known, content, json_true()))
            status = error_memory("tokenizer");
        json_decref(token);
    }
    json_decref(known);
    return status;
}

/* Appends the special tokens that the vocabulary has under their names. */
static int add_special(const struct hf_tokenizer *work, const json_t *vocabulary, json_t *list,
                       const char *const *presets)
{
    json_t *known = contents_of(list);
    int status = known ? ENGINE_OK : error_memory("tokenizer");
    for (size_t i = 0; i < sizeof special_names / sizeof *special_names && !status; i++) {
        const char *text = hf_tokenizer_special(work, special_names[i]);
        if (!text) text = presets[i];
        const json_t *id = text ? json_object_get(vocabulary, text) : NULL;
        if (!id || json_object_get(known, text)) continue;
        json_t *token =
            json_pack("{s:O,s:s,s:b,s:b,s:b,s:b,s:b}", "id", id, "content", text, "special", 1, "normalized",
                      0, "lstrip", strcmp(special_names[i], "mask_token") == 0 && presets[6] == NULL,
                      "rstrip", 0, "single_word", 0);
        if (!token || json_array_append_new(list, token) || json_object_set_new(known, text, json_true()))
            status = error_memory("tokenizer");
    }
    json_decref(known);
    return status;
}

/* added_tokens.json: {"<|im_end|>": 151645} */
static int add_file(const struct hf_tokenizer *work, json_t *list)
{
    json_t *added = NULL, *known = contents_of(list);
    const char *text;
    json_t *id;
    int status = known ? ENGINE_OK : error_memory("tokenizer");
    if (!status) status = hf_tokenizer_json(work->directory, "added_tokens.json", &added);
    json_object_foreach(added, text, id) /* keys, so that each is there once */
    {
        if (status || json_object_get(known, text)) continue;
        json_t *token =
            json_pack("{s:O,s:s,s:b,s:b}", "id", id, "content", text, "special", 0, "normalized", 1);
        if (!token || json_array_append_new(list, token)) status = error_memory("tokenizer");
    }
    json_decref(known);
    json_decref(added);
    return status;
}

/* ---- vocab.json and merges.txt ---- */

/* The lines of merges.txt, as strings; those with "#version" at their beginning are none. */
static json_t *read_merges(const char *text, size_t length)
{
    json_t *merges = json_array();
    for (size_t at = 0; merges && at < length;) {
        const char *newline = memchr(text + at, '\n', length - at);
        size_t end = newline ? (size_t)(newline - text) : length, line = end - at;
        if (line && text[at + line - 1] == '\r') line--;
        bool is_merge = line && !(line >= 8 && memcmp(text + at, "#version", 8) == 0);
        if (is_merge && json_array_append_new(merges, json_stringn(text + at, line))) {
            json_decref(merges);
            return NULL;
        }
        at = end + 1;
    }
    return merges;
}

/* A pre-tokenizer and what else depends on the class. */
static json_t *make_bpe(const struct hf_tokenizer *work, json_t *vocabulary, json_t *merges)
{
    bool prefix = flag_of(work, "add_prefix_space", false), qwen = is_class(work, "Qwen2Tokenizer");
    json_t *bytes =
        json_pack("{s:s,s:b,s:b}", "type", "ByteLevel", "add_prefix_space", prefix, "use_regex", !qwen);
    json_t *steps = bytes;
    if (qwen)
        steps =
            json_pack("{s:s,s:[{s:s,s:{s:s},s:s,s:b},o]}", "type", "Sequence", "pretokenizers", "type",
                      "Split", "pattern", "Regex", qwen2_split, "behavior", "Isolated", "invert", 0, bytes);
    return json_pack("{s:{s:s,s:O,s:O},s:[],s:o,s:{s:s},s:o}", "model", "type", "BPE", "vocab", vocabulary,
                     "merges", merges, "added_tokens", "pre_tokenizer", steps, "decoder", "type", "ByteLevel",
                     "normalizer", qwen ? json_pack("{s:s}", "type", "NFC") : json_null());
}

/* RoBERTa's texts are between two tokens. */
static int add_processor(const struct hf_tokenizer *work, json_t *root, const json_t *vocabulary)
{
    const char *cls = hf_tokenizer_special(work, "cls_token"), *sep = hf_tokenizer_special(work, "sep_token");
    if (!is_class(work, "RobertaTokenizer") && !is_class(work, "BartTokenizer")) return ENGINE_OK;
    if (!cls) cls = "<s>";
    if (!sep) sep = "</s>";
    json_t *cls_id = json_object_get(vocabulary, cls), *sep_id = json_object_get(vocabulary, sep);
    if (!cls_id || !sep_id)
        return hf_tokenizer_fail(work, ENGINE_ERROR_DATA, "it lacks %s or %s, which are put around texts",
                                 cls, sep);
    json_t *processor = json_pack("{s:s,s:[s,O],s:[s,O]}", "type", "RobertaProcessing", "cls", cls, cls_id,
                                  "sep", sep, sep_id);
    return processor && !json_object_set_new(root, "post_processor", processor) ? ENGINE_OK
                                                                                : error_memory("tokenizer");
}

static int open_bpe(struct hf_tokenizer *work, json_t **root)
{
    static const char *const presets[7] = {NULL};
    const char *text = NULL;
    size_t length = 0;
    json_t *vocabulary = NULL, *merges = NULL;
    work->file = "vocab.json";
    int status = hf_tokenizer_json(work->directory, "vocab.json", &vocabulary);
    if (!status && vocabulary) status = hf_tokenizer_text(work, "merges.txt", TEXT_MAX, &text, &length);
    if (status || !vocabulary) goto cleanup;
    if (!text) {
        status = hf_tokenizer_fail(work, ENGINE_ERROR_DATA, "merges.txt, which belongs to it, is missing");
        goto cleanup;
    }
    if (is_class(work, "CLIPTokenizer") || is_class(work, "CTRLTokenizer")) {
        status = hf_tokenizer_fail(work, ENGINE_ERROR_UNSUPPORTED,
                                   "its class in tokenizer_config.json is known only from a tokenizer.json");
        goto cleanup;
    }
    merges = read_merges(text, length);
    if (merges) *root = make_bpe(work, vocabulary, merges);
    if (!*root)
        status = hf_tokenizer_fail(work, ENGINE_ERROR_DATA, "merges.txt is no UTF-8, or memory is out");
    json_t *list = json_object_get(*root, "added_tokens");
    if (!status) status = add_decoder(work, list);
    if (!status) status = add_special(work, vocabulary, list, presets);
    if (!status) status = add_file(work, list);
    if (!status) status = add_processor(work, *root, vocabulary);
cleanup:
    json_decref(vocabulary);
    json_decref(merges);
    return status;
}

/* ---- vocab.txt ---- */

static int read_lines(const struct hf_tokenizer *work, const char *text, size_t length, json_t *vocabulary)
{
    int64_t id = 0;
    for (size_t at = 0; at < length; id++) {
        const char *newline = memchr(text + at, '\n', length - at);
        size_t end = newline ? (size_t)(newline - text) : length, line = end - at;
        while (line && strchr(" \t\r\v\f", text[at + line - 1])) line--;
        if (json_object_getn(vocabulary, text + at, line))
            return hf_tokenizer_fail(work, ENGINE_ERROR_DATA, "line %lld is there twice", (long long)id + 1);
        if (json_object_setn_new(vocabulary, text + at, line, json_integer(id)))
            return hf_tokenizer_fail(work, ENGINE_ERROR_DATA, "line %lld is no UTF-8, or memory is out",
                                     (long long)id + 1);
        at = end + 1;
    }
    return ENGINE_OK;
}

static int open_word_piece(struct hf_tokenizer *work, json_t **root)
{
    static const char *const presets[] = {NULL, NULL, "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"};
    const char *text = NULL;
    size_t length = 0;
    work->file = "vocab.txt";
    int status = hf_tokenizer_text(work, "vocab.txt", TEXT_MAX, &text, &length);
    if (status || !text) return status;
    json_t *vocabulary = json_object();
    if (!vocabulary) return error_memory("tokenizer");
    status = read_lines(work, text, length, vocabulary);
    const char *cls = hf_tokenizer_special(work, "cls_token"), *sep = hf_tokenizer_special(work, "sep_token");
    const char *unknown = hf_tokenizer_special(work, "unk_token");
    if (!cls) cls = "[CLS]";
    if (!sep) sep = "[SEP]";
    json_t *cls_id = json_object_get(vocabulary, cls), *sep_id = json_object_get(vocabulary, sep);
    const json_t *accents = json_object_get(work->config, "strip_accents");
    if (!status && (!cls_id || !sep_id))
        status = hf_tokenizer_fail(work, ENGINE_ERROR_DATA, "it lacks %s or %s, which are put around texts",
                                   cls, sep);
    if (!status) {
        *root = json_pack(
            "{s:{s:s,s:O,s:s,s:s,s:i},s:[],s:{s:s,s:b,s:b,s:O,s:b},s:{s:s},s:{s:s,s:[s,O],s:[s,O]},s:{s:s,s:"
            "s,s:b}}",
            "model", "type", "WordPiece", "vocab", vocabulary, "unk_token", unknown ? unknown : "[UNK]",
            "continuing_subword_prefix", "##", "max_input_chars_per_word", 100, "added_tokens", "normalizer",
            "type", "BertNormalizer", "clean_text", 1, "handle_chinese_chars",
            flag_of(work, "tokenize_chinese_chars", true), "strip_accents", accents ? accents : json_null(),
            "lowercase", flag_of(work, "do_lower_case", true), "pre_tokenizer", "type", "BertPreTokenizer",
            "post_processor", "type", "BertProcessing", "sep", sep, sep_id, "cls", cls, cls_id, "decoder",
            "type", "WordPiece", "prefix", "##", "cleanup", 1);
        if (!*root) status = error_memory("tokenizer");
    }
    json_t *list = json_object_get(*root, "added_tokens");
    if (!status) status = add_decoder(work, list);
    if (!status) status = add_special(work, vocabulary, list, presets);
    if (!status) status = add_file(work, list);
    json_decref(vocabulary);
    return status;
}

/* ---- The first that is there ---- */

static bool has_file(const struct hf_tokenizer *work, const char *name)
{
    char *path = hf_tokenizer_path(work->directory, name);
    FILE *file = path ? fopen(path, "rb") : NULL;
    free(path);
    if (file) fclose(file);
    return file != NULL;
}

int hf_tokenizer_open(struct hf_tokenizer *work, json_t **root)
{
    *root = NULL;
    work->file = "tokenizer.json";
    int status = hf_tokenizer_json_taking(work->directory, work->file, &work->taken, root);
    if (status) return status;
    if (*root) {
        json_t *list = json_object_get(*root, "added_tokens");
        if (list && !json_is_array(list) && !json_is_null(list))
            return hf_tokenizer_fail(work, ENGINE_ERROR_DATA, "/added_tokens is not an array");
        if (!json_is_array(list) && json_object_set_new(*root, "added_tokens", json_array()))
            return error_memory("tokenizer");
        return add_decoder(work, json_object_get(*root, "added_tokens"));
    }
    if (has_file(work, "tokenizer.model")) return ENGINE_OK;
    status = open_bpe(work, root);
    return status || *root ? status : open_word_piece(work, root);
}
