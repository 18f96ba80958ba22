/* embed-input.c: see embed-input.h. */
#include "commands/embed-input.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands/common.h"
#include "commands/npy.h"

/* The next text, empty; NULL: out of memory. */
static struct embed_text *add_text(struct embed_texts *texts, uint64_t line)
{
    if (texts->count == texts->capacity) {
        size_t capacity = texts->capacity * 2 + 16;
        struct embed_text *grown = realloc(texts->items, capacity * sizeof *grown);
        if (!grown) {
            command_error(ENGINE_ERROR_MEMORY, "out of memory (texts)");
            return NULL;
        }
        texts->items = grown;
        texts->capacity = capacity;
    }
    struct embed_text *text = &texts->items[texts->count++];
    *text = (struct embed_text){.line = line};
    return text;
}

static int collect(void *user, const int32_t *ids, size_t count)
{
    return token_list_add(user, ids, count);
}

static int encode(const struct arguments *a, const struct vocabulary *vocabulary, const char *text,
                  size_t size, struct embed_text *to)
{
    uint32_t how = ENGINE_ENCODE_BOS_EOS | (a->special ? ENGINE_ENCODE_SPECIAL : 0u);
    return vocabulary->api->encode(vocabulary->tokenizer, text, size, how, collect, &to->ids);
}

static int read_words(const struct arguments *a, const struct vocabulary *vocabulary,
                      struct embed_texts *texts)
{
    int status = ENGINE_OK;
    for (size_t i = 0; i < a->words.count && !status; i++) {
        const char *word = a->words.items[i];
        struct embed_text *text = add_text(texts, 0);
        status = text ? encode(a, vocabulary, word, strlen(word), text) : ENGINE_ERROR_MEMORY;
    }
    return status;
}

/* A line of JSON: {"text": TEXT, "id": …}. */
static int read_json(const struct arguments *a, const struct vocabulary *vocabulary, const char *line,
                     size_t size, struct embed_text *text)
{
    json_error_t error;
    json_t *json = json_loadb(line, size, JSON_REJECT_DUPLICATES, &error);
    const json_t *given = json_object_get(json, "text");
    int status;
    if (!json)
        status = command_error(ENGINE_ERROR_DATA, "%s: line %" PRIu64 ": %s", a->prompt_file, text->line,
                               error.text);
    else if (!json_is_string(given))
        status = command_error(ENGINE_ERROR_DATA, "%s: line %" PRIu64 ": not an object with a `text`",
                               a->prompt_file, text->line);
    else
        status = encode(a, vocabulary, json_string_value(given), json_string_length(given), text);
    text->id = json_incref(json_object_get(json, "id"));
    json_decref(json);
    return status;
}

/* Empty lines are texts too; a file of JSON lines may have some between. */
static int read_lines(const struct arguments *a, const struct vocabulary *vocabulary,
                      struct embed_texts *texts)
{
    char *data = NULL;
    size_t size = 0;
    bool is_json = has_ending(a->prompt_file, ".jsonl");
    int status = read_file(a->prompt_file, &data, &size);
    uint64_t number = 0;
    for (size_t at = status ? 0 : bom_length(data, size); at < size && !status;) {
        const char *end = memchr(data + at, '\n', size - at);
        size_t length = end ? (size_t)(end - data) - at : size - at, next = at + length + 1;
        number++;
        if (length > 0 && data[at + length - 1] == '\r') length--;
        bool is_empty = strspn(data + at, " \t\r") >= length;
        if (!is_json || !is_empty) {
            struct embed_text *text = add_text(texts, number);
            if (!text)
                status = ENGINE_ERROR_MEMORY;
            else
                status = is_json ? read_json(a, vocabulary, data + at, length, text)
                                 : encode(a, vocabulary, data + at, length, text);
        }
        at = next;
    }
    free(data);
    return status;
}

static int read_tokens(const struct arguments *a, struct embed_texts *texts)
{
    struct embed_text *text = add_text(texts, 0);
    if (!text) return ENGINE_ERROR_MEMORY;
    int status = npy_read_integers(a->tokens_file, &text->ids.ids, &text->ids.count);
    text->ids.capacity = text->ids.count;
    return status;
}

int embed_texts_read(const struct arguments *a, struct engine_model *model, struct embed_texts *texts)
{
    struct vocabulary vocabulary = {0};
    int given = (a->words.count > 0) + !!a->prompt_file + !!a->tokens_file;
    if (given != 1)
        return command_error(ENGINE_ERROR_ARGUMENT,
                             given ? "give the texts in one way: as words, with -f, or with --tokens-file"
                                   : "there are no texts: give some, -f FILE, or --tokens-file FILE");
    int status = a->tokens_file ? read_tokens(a, texts) : vocabulary_open(model, &vocabulary);
    if (!status && a->words.count > 0) status = read_words(a, &vocabulary, texts);
    if (!status && a->prompt_file) status = read_lines(a, &vocabulary, texts);
    if (!status && texts->count == 0)
        status = command_error(ENGINE_ERROR_DATA, "%s: there are no texts", a->prompt_file);
    for (size_t i = 0; i < texts->count && !status; i++) {
        if (texts->items[i].ids.count == 0)
            status = command_error(ENGINE_ERROR_DATA, "text %zu has no tokens, so no embedding", i + 1);
        if (texts->items[i].ids.count > texts->n_longest) texts->n_longest = texts->items[i].ids.count;
    }
    return status;
}

void embed_texts_free(struct embed_texts *texts)
{
    for (size_t i = 0; i < texts->count; i++) {
        json_decref(texts->items[i].id);
        free(texts->items[i].ids.ids);
    }
    free(texts->items);
    *texts = (struct embed_texts){0};
}
