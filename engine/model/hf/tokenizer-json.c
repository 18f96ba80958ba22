/* tokenizer-json.c: the parts of tokenizer.json that are large: the vocabulary, merges, added tokens, the
 * character map. What remains of it is the description, which the plugin `hf` reads. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/array.h"
#include "common/base64.h"
#include "model/hf/tokenizer-parts.h"

/* ---- Text of the metadata's ---- */

static int copy_text(const struct hf_tokenizer *work, const char *text, size_t length,
                     struct engine_string *copy)
{
    char *memory = metadata_allocate(work->metadata, length + 1);
    if (!memory) return error_memory("vocabulary");
    memcpy(memory, text, length);
    *copy = (struct engine_string){memory, length};
    return ENGINE_OK;
}

/* One piece of memory for the text of all tokens. */
struct arena {
    char *at, *end;
};

static int arena_create(const struct hf_tokenizer *work, size_t size, struct arena *arena)
{
    arena->at = metadata_allocate(work->metadata, size + 1);
    if (!arena->at) return error_memory("vocabulary");
    arena->end = arena->at + size;
    return ENGINE_OK;
}

static struct engine_string arena_copy(struct arena *arena, const char *text, size_t length)
{
    struct engine_string copy = {arena->at, length};
    memcpy(arena->at, text, length);
    arena->at += length;
    return copy;
}

/* ---- The vocabulary ---- */

static int set_size(struct hf_tokenizer *work, uint64_t n_tokens)
{
    if (n_tokens > HF_TOKENS_MAX)
        return hf_tokenizer_fail(work, ENGINE_ERROR_DATA, "ids of more than %u are not read", HF_TOKENS_MAX);
    work->n_tokens = (uint32_t)n_tokens;
    work->tokens = metadata_allocate(work->metadata, n_tokens * sizeof *work->tokens + 1);
    work->types = metadata_allocate(work->metadata, n_tokens * sizeof *work->types + 1);
    if (!work->tokens || !work->types) return error_memory("vocabulary");
    memset(work->tokens, 0, n_tokens * sizeof *work->tokens);
    memset(work->types, 0, n_tokens * sizeof *work->types);
    return ENGINE_OK;
}

/* Bytes of a word in a message. */
static int shown_length(const struct hf_word *word)
{
    return word->text.length < 40 ? (int)word->text.length : 40;
}

/* The largest id of all, plus one. */
static int count_ids(const struct hf_tokenizer *work, const struct hf_words *words, const json_t *added,
                     uint64_t *count)
{
    const json_t *id;
    size_t i;
    *count = 0;
    for (i = 0; i < words->n; i++) {
        const struct hf_word *word = &words->items[i];
        if (word->id < 0 || word->id >= HF_TOKENS_MAX)
            return hf_tokenizer_fail(work, ENGINE_ERROR_DATA, "/model/vocab: \"%.*s\" has no id below %u",
                                     shown_length(word), word->text.data, HF_TOKENS_MAX);
        if ((uint64_t)word->id >= *count) *count = (uint64_t)word->id + 1;
    }
    json_array_foreach(added, i, id)
    {
        json_t *number = json_object_get(id, "id"), *content = json_object_get(id, "content");
        if (!json_is_integer(number) || json_integer_value(number) < 0 ||
            json_integer_value(number) >= HF_TOKENS_MAX || !json_is_string(content))
            return hf_tokenizer_fail(work, ENGINE_ERROR_DATA,
                                     "/added_tokens/%zu has no content or no id below %u", i, HF_TOKENS_MAX);
        if ((uint64_t)json_integer_value(number) >= *count) *count = (uint64_t)json_integer_value(number) + 1;
    }
    return ENGINE_OK;
}

static int take_words(struct hf_tokenizer *work, const struct hf_words *words)
{
    size_t total = 0;
    struct arena arena;
    for (size_t i = 0; i < words->n; i++) total += words->items[i].text.length;
    int status = arena_create(work, total, &arena);
    if (status) return status;
    for (size_t i = 0; i < words->n; i++) {
        const struct hf_word *word = &words->items[i];
        struct engine_string *token = &work->tokens[word->id];
        if (token->data)
            return hf_tokenizer_fail(work, ENGINE_ERROR_DATA,
                                     "/model/vocab: \"%.*s\" has an id that another token has",
                                     shown_length(word), word->text.data);
        *token = arena_copy(&arena, word->text.data, word->text.length);
        work->types[word->id] = HF_TOKEN_NORMAL;
    }
    return ENGINE_OK;
}

/* Unigram's: [["▁the", -3.2], …] */
static int take_array(struct hf_tokenizer *work, json_t *vocabulary)
{
    size_t i, total = 0;
    json_t *pair;
    struct arena arena;
    json_array_foreach(vocabulary, i, pair) total += json_string_length(json_array_get(pair, 0));
    int status = arena_create(work, total, &arena);
    if (status) return status;
    work->scores = metadata_allocate(work->metadata, work->n_tokens * sizeof *work->scores + 1);
    if (!work->scores) return error_memory("vocabulary");
    for (i = 0; i < work->n_tokens; i++) work->scores[i] = 0;
    json_array_foreach(vocabulary, i, pair)
    {
        const json_t *text = json_array_get(pair, 0), *score = json_array_get(pair, 1);
        if (!json_is_string(text) || !json_is_number(score))
            return hf_tokenizer_fail(work, ENGINE_ERROR_DATA, "/model/vocab/%zu is not a piece with a score",
                                     i);
        work->tokens[i] = arena_copy(&arena, json_string_value(text), json_string_length(text));
        work->types[i] = HF_TOKEN_NORMAL;
        work->scores[i] = json_number_value(score);
    }
    return ENGINE_OK;
}

/* ---- Merges ---- */

/* "left right", or ["left", "right"]. */
static bool read_merge(const json_t *merge, struct engine_string *left, struct engine_string *right)
{
    if (json_is_string(merge)) {
        const char *text = json_string_value(merge);
        size_t length = json_string_length(merge);
        const char *space = memchr(text, ' ', length);
        if (!space || memchr(space + 1, ' ', length - (size_t)(space - text) - 1)) return false;
        *left = (struct engine_string){text, (size_t)(space - text)};
        *right = (struct engine_string){space + 1, length - left->length - 1};
        return true;
    }
    const json_t *first = json_array_get(merge, 0), *second = json_array_get(merge, 1);
    if (!json_is_string(first) || !json_is_string(second) || json_array_size(merge) != 2) return false;
    *left = (struct engine_string){json_string_value(first), json_string_length(first)};
    *right = (struct engine_string){json_string_value(second), json_string_length(second)};
    return true;
}

/* The text of the token that two others merge to; `prefix` is left out between them. */
struct joined {
    char *text;
    size_t capacity;
};

static bool json_join(struct joined *joined, struct engine_string left, struct engine_string right)
{
    size_t length = left.length + right.length;
    if (!ARRAY_RESERVE(joined->text, joined->capacity, length)) return false;
    if (left.length) memcpy(joined->text, left.data, left.length);
    if (right.length) memcpy(joined->text + left.length, right.data, right.length);
    return true;
}

static int take_merges(struct hf_tokenizer *work, const json_t *merges, size_t prefix_length)
{
    const struct hf_merges *texts = &work->taken.merges;
    const struct hf_words *words = &work->taken.words;
    size_t count = texts->taken ? texts->n : json_array_size(merges);
    struct joined joined = {NULL, 0};
    int status = ENGINE_OK;
    work->merges = metadata_allocate(work->metadata, count * 3 * sizeof *work->merges + 1);
    if (!work->merges) return error_memory("merges");
    for (size_t i = 0; i < count; i++) {
        struct engine_string left = {NULL, 0}, right = {NULL, 0};
        bool valid = texts->taken || read_merge(json_array_get(merges, i), &left, &right);
        if (texts->taken) left = texts->pairs[i][0], right = texts->pairs[i][1];
        int64_t ids[3] = {-1, -1, -1};
        if (valid) {
            ids[0] = hf_words_find(words, left.data, left.length);
            ids[1] = hf_words_find(words, right.data, right.length);
            size_t skipped = right.length < prefix_length ? right.length : prefix_length;
            right.data += skipped;
            right.length -= skipped;
            if (!json_join(&joined, left, right)) {
                status = error_memory("merges");
                break;
            }
            ids[2] = hf_words_find(words, joined.text, left.length + right.length);
        }
        if (ids[0] < 0 || ids[1] < 0 || ids[2] < 0) {
            status = hf_tokenizer_fail(work, ENGINE_ERROR_DATA, "/model/merges/%zu %s", i,
                                       valid ? "merges what the vocabulary doesn't have" : "is not a merge");
            break;
        }
        for (int k = 0; k < 3; k++) work->merges[3 * i + (size_t)k] = (uint32_t)ids[k];
    }
    free(joined.text);
    work->n_merges = status ? 0 : count;
    return status;
}

/* ---- Added tokens ---- */

static bool is_byte(struct engine_string token)
{
    return token.length == 6 && memcmp(token.data, "<0x", 3) == 0 && token.data[5] == '>' &&
           strchr("0123456789ABCDEF", token.data[3]) && strchr("0123456789ABCDEF", token.data[4]);
}

/* A token that the model has keeps the model's id; "outside" tells the plugin that it has it not. */
static int take_added(struct hf_tokenizer *work, json_t *list)
{
    size_t i;
    json_t *token;
    json_array_foreach(list, i, token)
    {
        const json_t *content = json_object_get(token, "content");
        const char *text = json_string_value(content);
        size_t length = json_string_length(content);
        int64_t id = json_integer_value(json_object_get(token, "id"));
        int64_t inside = hf_words_find(&work->taken.words, text, length);
        if (inside >= 0) {
            id = inside;
        } else if (work->tokens[id].data) {
            if (work->tokens[id].length == length && !memcmp(work->tokens[id].data, text, length)) continue;
            return hf_tokenizer_fail(work, ENGINE_ERROR_DATA,
                                     "/added_tokens/%zu: \"%.40s\" has the id of another token", i, text);
        } else {
            int status = copy_text(work, text, length, &work->tokens[id]);
            if (status) return status;
        }
        bool special = json_is_true(json_object_get(token, "special"));
        work->types[id] = special ? HF_TOKEN_CONTROL : HF_TOKEN_USER_DEFINED;
        if (json_object_set_new(token, "id", json_integer(id)) ||
            (inside < 0 && json_object_set_new(token, "outside", json_true())))
            return error_memory("vocabulary");
    }
    return ENGINE_OK;
}

/* Types that follow from the model: the unknown token, and bytes. */
static void take_types(struct hf_tokenizer *work, const json_t *model)
{
    const json_t *unknown = json_object_get(model, "unk_token"),
                 *unknown_id = json_object_get(model, "unk_id");
    int64_t id = -1;
    if (json_is_string(unknown) && json_is_object(json_object_get(model, "vocab")))
        id = hf_words_find(&work->taken.words, json_string_value(unknown), json_string_length(unknown));
    if (json_is_integer(unknown_id)) id = json_integer_value(unknown_id);
    if (id >= 0 && id < work->n_tokens) work->types[id] = HF_TOKEN_UNKNOWN;
    if (!json_is_true(json_object_get(model, "byte_fallback"))) return;
    for (uint32_t i = 0; i < work->n_tokens; i++)
        if (work->types[i] != HF_TOKEN_NONE && work->types[i] != HF_TOKEN_USER_DEFINED &&
            is_byte(work->tokens[i]))
            work->types[i] = HF_TOKEN_BYTE;
}

/* ---- The character map ---- */

static int take_charsmap(struct hf_tokenizer *work, json_t *step)
{
    const json_t *text = json_object_get(step, "precompiled_charsmap");
    if (!text || json_is_null(text)) return ENGINE_OK;
    size_t length = json_string_length(text), size = 0;
    const char *data = json_string_value(text);
    if (!data) return hf_tokenizer_fail(work, ENGINE_ERROR_DATA, "a precompiled_charsmap is not a string");
    uint8_t *bytes = metadata_allocate(work->metadata, base64_room(length));
    if (!bytes) return error_memory("vocabulary");
    if (!base64_read(data, length, bytes, &size))
        return hf_tokenizer_fail(work, ENGINE_ERROR_DATA, "a precompiled_charsmap is not base64");
    if (work->charsmap && (work->charsmap_size != size || memcmp(work->charsmap, bytes, size) != 0))
        return hf_tokenizer_fail(work, ENGINE_ERROR_UNSUPPORTED,
                                 "/normalizer has two different character maps");
    if (!size) return ENGINE_OK;
    work->charsmap = bytes;
    work->charsmap_size = size;
    json_object_del(step, "precompiled_charsmap");
    return ENGINE_OK;
}

/* The maps of a normalizer, and of those that it is a sequence of. */
static int take_charsmaps(struct hf_tokenizer *work, json_t *normalizer)
{
    int status = take_charsmap(work, normalizer);
    json_t *list = json_object_get(normalizer, "normalizers"), *step;
    size_t i;
    json_array_foreach(list, i, step)
    {
        if (!status) status = take_charsmaps(work, step);
    }
    return status;
}

/* ---- All of it ---- */

/* Older files don't name the model's type. */
static const char *guess_type(const json_t *model)
{
    const char *type = json_string_value(json_object_get(model, "type"));
    if (type) return type;
    if (json_is_array(json_object_get(model, "vocab"))) return "Unigram";
    if (json_object_get(model, "merges")) return "BPE";
    return json_object_get(model, "continuing_subword_prefix") ? "WordPiece" : "WordLevel";
}

/* What is left of tokenizer.json without the large parts. */
static int json_describe(struct hf_tokenizer *work, json_t *root, json_t *model)
{
    static const char *const members[] = {"normalizer", "pre_tokenizer", "post_processor", "decoder",
                                          "added_tokens"};
    work->description = json_object();
    int failed = !work->description;
    failed = failed || json_object_set_new(model, "type", json_string(guess_type(model)));
    json_object_del(model, "vocab");
    json_object_del(model, "merges");
    failed = failed || json_object_set(work->description, "model", model);
    for (size_t i = 0; !failed && i < sizeof members / sizeof *members; i++) {
        json_t *value = json_object_get(root, members[i]);
        if (value) failed = json_object_set(work->description, members[i], value);
    }
    return failed ? error_memory("tokenizer") : ENGINE_OK;
}

int hf_tokenizer_take_json(struct hf_tokenizer *work, json_t *root)
{
    json_t *model = json_object_get(root, "model"), *vocabulary = json_object_get(model, "vocab");
    json_t *added = json_object_get(root, "added_tokens"), *merges = json_object_get(model, "merges");
    struct hf_words *words = &work->taken.words;
    uint64_t count = 0;
    if (!json_is_object(model)) return hf_tokenizer_fail(work, ENGINE_ERROR_DATA, "/model is not an object");
    if (!json_is_object(vocabulary) && !json_is_array(vocabulary))
        return hf_tokenizer_fail(work, ENGINE_ERROR_DATA, "/model/vocab is neither an object nor an array");
    if (added && !json_is_array(added) && !json_is_null(added))
        return hf_tokenizer_fail(work, ENGINE_ERROR_DATA, "/added_tokens is not an array");
    if (merges && !json_is_array(merges))
        return hf_tokenizer_fail(work, ENGINE_ERROR_DATA, "/model/merges is not an array");
    bool is_bpe = strcmp(guess_type(model), "BPE") == 0;
    if (is_bpe && !json_is_object(vocabulary))
        return hf_tokenizer_fail(work, ENGINE_ERROR_DATA, "/model/vocab is not an object");

    if (!words->taken && !hf_words_list(vocabulary, words)) return error_memory("vocabulary");
    int status = count_ids(work, words, added, &count);
    if (!status && json_array_size(vocabulary) > count) count = json_array_size(vocabulary);
    if (!status) status = set_size(work, count);
    if (!status) status = json_is_object(vocabulary) ? take_words(work, words) : take_array(work, vocabulary);
    size_t prefix = json_string_length(json_object_get(model, "continuing_subword_prefix"));
    if (!status && is_bpe) status = take_merges(work, merges, prefix);
    if (!status) status = take_added(work, added);
    if (!status) take_types(work, model);
    if (!status) status = take_charsmaps(work, json_object_get(root, "normalizer"));
    if (!status) hf_tokenizer_name(work, root);
    return status ? status : json_describe(work, root, model);
}
