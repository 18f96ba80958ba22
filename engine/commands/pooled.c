/* pooled.c: see pooled.h. */
#include "commands/pooled.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/json-read.h"
#include "io/files.h"
#include "io/messages.h"
#include "io/npy.h"
#include "options/open.h"
#include "prompts/embedding.h"

/* ---- The texts ----------------------------------------------------------------------------------------- */

/* Where texts come from, and what makes tokens of them. */
struct source {
    const struct arguments *arguments;
    struct engine_model *model;
    struct vocabulary vocabulary;
    struct engine_string prompt; /* before each text */
    size_t n_most;               /* tokens of a pair; 0: no limit */
};

/* The next text, empty; NULL: out of memory. */
static struct embed_text *add_text(struct embed_texts *texts, uint64_t line)
{
    if (!ARRAY_RESERVE(texts->items, texts->capacity, texts->count + 1)) {
        command_error(ENGINE_ERROR_MEMORY, "out of memory (texts)");
        return NULL;
    }
    struct embed_text *text = &texts->items[texts->count++];
    *text = (struct embed_text){.line = line};
    return text;
}

static int collect_pair(void *user, const int32_t *ids, const int32_t *types, size_t count)
{
    struct embed_text *text = user;
    int status = token_list_add(&text->ids, ids, count);
    if (status) return status;
    text->types = calloc(count + 1, sizeof *text->types);
    if (!text->types) return command_error(ENGINE_ERROR_MEMORY, "out of memory (texts)");
    memcpy(text->types, types, count * sizeof *types);
    return ENGINE_OK;
}

static int encode_pair(const struct source *source, const char *text, size_t size, struct embed_text *to)
{
    const char *query = source->arguments->query;
    char *copy = malloc(size + 1);
    if (!copy) return command_error(ENGINE_ERROR_MEMORY, "out of memory (texts)");
    memcpy(copy, text, size);
    to->text = (struct engine_string){copy, size};
    /* cppcheck-suppress memleak ; the text keeps the copy */
    return engine_model_encode_pair_within(source->model, (struct engine_string){query, strlen(query)},
                                           to->text, source->n_most, collect_pair, to);
}

static int encode_text(const struct source *source, const char *text, size_t size, struct embed_text *to)
{
    const struct vocabulary *vocabulary = &source->vocabulary;
    const struct arguments *a = source->arguments;
    if (a->query) return encode_pair(source, text, size, to);
    uint32_t how = ENGINE_ENCODE_BOS_EOS | (a->special ? ENGINE_ENCODE_SPECIAL : 0u);
    size_t n_prompt = source->prompt.length;
    char *both = malloc(n_prompt + size + 1);
    if (!both) return command_error(ENGINE_ERROR_MEMORY, "out of memory (texts)");
    if (n_prompt > 0) memcpy(both, source->prompt.data, n_prompt);
    if (size > 0) memcpy(both + n_prompt, text, size);
    int status =
        vocabulary->api->encode(vocabulary->tokenizer, both, n_prompt + size, how, token_list_sink, &to->ids);
    token_list_drop_bos(&vocabulary->info, &to->ids, 0);
    free(both);
    return status;
}

/* The prompt of the command line, or the model's. */
static int find_prompt(struct source *source)
{
    const struct arguments *a = source->arguments;
    if (a->query) return ENGINE_OK;
    if (a->prompt && a->prompt_name)
        return command_error(ENGINE_ERROR_ARGUMENT, "give --prompt or --prompt-name, not both");
    if (a->prompt) {
        source->prompt = (struct engine_string){a->prompt, strlen(a->prompt)};
        return ENGINE_OK;
    }
    if (a->task && !a->prompt_name) return embed_prompt_of_task(source->model, a->task, &source->prompt);
    return embed_prompt_find(source->model, a->prompt_name, &source->prompt);
}

static int read_words(const struct source *source, struct embed_texts *texts)
{
    const struct arguments *a = source->arguments;
    int status = ENGINE_OK;
    for (size_t i = 0; i < a->words.count && !status; i++) {
        const char *word = a->words.items[i];
        struct embed_text *text = add_text(texts, 0);
        status = text ? encode_text(source, word, strlen(word), text) : ENGINE_ERROR_MEMORY;
    }
    return status;
}

/* A line of JSON: {"text": TEXT, "id": …}. */
static int read_json(const struct source *source, const char *line, size_t size, struct embed_text *text)
{
    const char *path = source->arguments->prompt_file;
    json_error_t error;
    json_t *json = json_read(line, size, JSON_REJECT_DUPLICATES, &error);
    const json_t *given = json_object_get(json, "text");
    int status;
    if (!json)
        status = command_error(ENGINE_ERROR_DATA, "%s: line %" PRIu64 ": %s", path, text->line, error.text);
    else if (!json_is_string(given))
        status = command_error(ENGINE_ERROR_DATA, "%s: line %" PRIu64 ": not an object with a `text`", path,
                               text->line);
    else
        status = encode_text(source, json_string_value(given), json_string_length(given), text);
    text->id = json_incref(json_object_get(json, "id"));
    json_decref(json);
    return status;
}

/* Empty lines are texts too; a file of JSON lines may have some between. */
static int read_lines(const struct source *source, struct embed_texts *texts)
{
    const struct arguments *a = source->arguments;
    char *data = NULL;
    size_t size = 0;
    bool is_json = has_ending(a->prompt_file, ".jsonl");
    int status = read_text_file(a->prompt_file, &data, &size);
    uint64_t number = 0;
    for (size_t at = 0; at < size && !status;) {
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
                status = is_json ? read_json(source, data + at, length, text)
                                 : encode_text(source, data + at, length, text);
        }
        at = next;
    }
    free(data);
    return status;
}

/* The types of a pair's tokens. An empty pair shows them: those after the first separator may have another
 * one. */
static int find_types(struct engine_model *model, struct embed_text *text)
{
    struct embed_text empty = {0};
    struct engine_string nothing = {"", 0};
    int status = engine_model_encode_pair(model, nothing, nothing, collect_pair, &empty);
    size_t n = empty.ids.count, first = 0, at = 0;
    while (!status && first < n && empty.types[first] == 0) first++;
    if (!status && first > 0 && first < n) {
        text->types = calloc(text->ids.count + 1, sizeof *text->types);
        if (!text->types) status = command_error(ENGINE_ERROR_MEMORY, "out of memory (texts)");
        while (at < text->ids.count && text->ids.ids[at] != empty.ids.ids[first - 1]) at++;
        for (size_t i = at + 1; i < text->ids.count && text->types; i++) text->types[i] = empty.types[first];
    }
    free(empty.ids.ids);
    free(empty.types);
    return status;
}

static int read_tokens(const struct source *source, struct embed_texts *texts)
{
    struct embed_text *text = add_text(texts, 0);
    if (!text) return ENGINE_ERROR_MEMORY;
    int status = npy_read_integers(source->arguments->tokens_file, &text->ids.ids, &text->ids.count);
    text->ids.capacity = text->ids.count;
    if (!status && texts->pairs) status = find_types(source->model, text);
    return status;
}

/* Where a text comes from, for messages: "line 3", or "text 2". */
struct place {
    char words[32];
};

static const char *name_place(const struct embed_texts *texts, size_t i, struct place *place)
{
    uint64_t line = texts->items[i].line;
    snprintf(place->words, sizeof place->words, line ? "line %" PRIu64 : "text %" PRIu64,
             line ? line : (uint64_t)i + 1);
    return place->words;
}

int embed_texts_read(const struct arguments *a, struct engine_model *model, struct embed_texts *texts)
{
    struct source source = {.arguments = a, .model = model, .n_most = a->truncate ? texts->n_most : 0};
    int given = (a->words.count > 0) + !!a->prompt_file + !!a->tokens_file;
    if (given != 1)
        return command_error(ENGINE_ERROR_ARGUMENT,
                             given ? "give the texts in one way: as words, with -f, or with --tokens-file"
                                   : "there are no texts: give some, or -f FILE");
    if (a->tokens_file && a->prompt_name)
        return command_error(ENGINE_ERROR_ARGUMENT, "--tokens-file has all tokens, so there is no prompt");
    int status = a->tokens_file ? read_tokens(&source, texts) : vocabulary_open(model, &source.vocabulary);
    if (!status && !a->tokens_file) status = find_prompt(&source);
    if (!status && !a->tokens_file && a->truncate)
        status = source.vocabulary.api->encode(source.vocabulary.tokenizer, "", 0, ENGINE_ENCODE_BOS_EOS,
                                               token_list_sink, &texts->around);
    if (!status && a->words.count > 0) status = read_words(&source, texts);
    if (!status && a->prompt_file) status = read_lines(&source, texts);
    if (!status && texts->count == 0)
        status = command_error(ENGINE_ERROR_DATA, "%s: there are no texts", a->prompt_file);
    struct place place;
    bool told_of_bos = false;
    for (size_t i = 0; i < texts->count && !status; i++) {
        warn_of_bos(&texts->items[i].ids, &told_of_bos);
        if (texts->items[i].ids.count == 0)
            status = command_error(ENGINE_ERROR_DATA, "%s has no tokens", name_place(texts, i, &place));
        if (texts->items[i].ids.count > texts->n_longest) texts->n_longest = texts->items[i].ids.count;
    }
    return status;
}

int embed_texts_check(struct embed_texts *texts, uint32_t n_context, bool cuts)
{
    for (size_t i = 0; i < texts->count; i++) {
        struct embed_text *text = &texts->items[i];
        struct place place;
        if (cuts) token_list_cut(&text->ids, &texts->around, n_context);
        if (text->ids.count > n_context)
            return command_error(
                ENGINE_ERROR,
                "%s has %zu tokens, but the model reads at most %u: shorten it, or cut it with "
                "--truncate",
                name_place(texts, i, &place), text->ids.count, n_context);
    }
    if (texts->n_longest > n_context) texts->n_longest = n_context;
    return ENGINE_OK;
}

void embed_texts_free(struct embed_texts *texts)
{
    for (size_t i = 0; i < texts->count; i++) {
        json_decref(texts->items[i].id);
        free(texts->items[i].ids.ids);
        free(texts->items[i].types);
        free((char *)(size_t)texts->items[i].text.data);
    }
    free(texts->items);
    free(texts->around.ids);
    *texts = (struct embed_texts){0};
}

/* ---- Their vectors ------------------------------------------------------------------------------------- */

#define WAITING_EACH 8 /* requests that wait, for each of --parallel */

/* What a request's events belong to. */
struct pooled_text {
    struct pooled *pooled;
    size_t number;
};

int pooled_open(struct pooled *p, uint32_t n_context)
{
    struct engine_context_options options;
    const struct engine_queue_options queue = {.struct_size = sizeof queue,
                                               .n_waiting = p->arguments->n_parallel * WAITING_EACH};
    int32_t offload;
    context_options(p->arguments, &options, &offload);
    if (!options.cache_type)
        options.cache_type = "f32"; /* a decoder, too, needs it only while it reads a text */
    int status = embed_texts_check(p->texts, options.n_context ? options.n_context : n_context,
                                   p->arguments->truncate);
    if (status) return status;
    uint32_t longest = p->texts->n_longest < INT32_MAX ? (uint32_t)p->texts->n_longest : INT32_MAX;
    if (options.n_context == 0) options.n_context = longest;
    options.n_sequences = p->arguments->n_parallel;
    if (options.n_sequences > p->texts->count) options.n_sequences = (uint32_t)p->texts->count;
    p->running = calloc(p->texts->count, sizeof *p->running);
    if (!p->running) return command_error(ENGINE_ERROR_MEMORY, "out of memory (texts)");
    status = create_context(p->arguments, p->model, &options, &p->context);
    return status ? status : engine_queue_create(p->context, &queue, &p->queue);
}

static void take_event(void *user, const struct engine_event *event)
{
    const struct pooled_text *text = user;
    struct pooled *p = text->pooled;
    if (event->kind != ENGINE_EVENT_DONE) return;
    p->n_done++;
    if (p->status) return;
    if (event->embedding)
        p->status = p->take(p->user, text->number, event->embedding, event->n_rows, event->n_embd);
    else if (event->reason == ENGINE_DONE_FAILED)
        p->status = command_error(event->status, "%s", event->message);
    else
        p->status =
            command_error(ENGINE_ERROR, "text %zu does not fit into the cache; enlarge it with --cache-size",
                          text->number + 1);
}

/* Fills the queue, as far as it lets requests wait. */
static int submit_some(struct pooled *p)
{
    size_t most = (size_t)p->arguments->n_parallel * WAITING_EACH;
    int status = ENGINE_OK;
    while (!status && p->n_submitted - p->n_done < most && p->n_submitted < p->texts->count) {
        const struct embed_text *text = &p->texts->items[p->n_submitted];
        p->running[p->n_submitted] = (struct pooled_text){p, p->n_submitted};
        const struct engine_request request = {
            .struct_size = sizeof request,
            .tokens = text->ids.ids,
            .n_tokens = text->ids.count,
            .flags = ENGINE_REQUEST_NO_TOKENS | ENGINE_REQUEST_NO_TEXT,
            .event = take_event,
            .user = &p->running[p->n_submitted],
            .pooling = p->pooling,
            .token_types = text->types,
        };
        status = engine_queue_submit(p->queue, &request, NULL);
        p->n_submitted += !status;
    }
    return status;
}

int pooled_run(struct pooled *p)
{
    size_t total = p->texts->count;
    while (!p->status && !interrupted && p->n_done < total) {
        int status = submit_some(p);
        if (!status) status = engine_queue_run(p->queue, ENGINE_QUEUE_STEP);
        if (!p->status) p->status = status;
        count_progress(p->verb, p->n_done, total, "texts");
    }
    count_progress(p->verb, total, total, "texts");
    return p->status;
}

void pooled_close(struct pooled *p)
{
    engine_queue_destroy(p->queue);
    engine_context_destroy(p->context);
    free(p->running);
}
