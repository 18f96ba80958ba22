/* run.c: `engine [run]`: reads a prompt, and prints it and the model's continuation as it is generated.
 * Standard output carries only the text. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "commands/common.h"
#include "commands/guesses.h"
#include "commands/json.h"
#include "commands/prompt-cache.h"
#include "commands/prompt.h"

/* Why a text ended. */
enum end { END_LIMIT, END_MODEL, END_CONTEXT, END_INTERRUPTED };

struct session {
    const struct arguments *arguments;
    struct engine *engine;
    struct engine_model *model;
    struct vocabulary vocabulary;
    struct engine_decoder *decoder;
    struct engine_context *context;
    struct engine_context_info info;
    /* With --lookup or --draft */
    struct draft_model draft;
    struct engine_queue *queue;
    uint32_t n_guessed, n_accepted;
    int status; /* of printing */
    struct engine_sampler *sampler;
    char *prompt;
    size_t prompt_size;
    struct token_list tokens;          /* of the prompt */
    float *logits;                     /* [n_vocab] */
    uint32_t n_prefilled, n_generated; /* tokens; not all of the prompt after Ctrl-C */
    uint32_t n_cached;                 /* tokens of the prompt that were in the prompt cache */
    bool is_cached;                    /* the prompt cache has the whole prompt */
    uint64_t seed;
    double prefill_seconds, decode_seconds;
    enum end end;
    char *text; /* [text_size] the model's text, for --json */
    size_t text_size, text_capacity;
};

static int read_prompt(struct session *s)
{
    const struct arguments *arguments = s->arguments;
    bool from_input = arguments->prompt && strcmp(arguments->prompt, "-") == 0;
    if (arguments->prompt && arguments->prompt_file)
        return command_error(ENGINE_ERROR_ARGUMENT, "--prompt and --file cannot be combined");
    if (arguments->prompt_file || from_input)
        return read_file(from_input ? "-" : arguments->prompt_file, &s->prompt, &s->prompt_size);
    s->prompt = strdup(arguments->prompt ? arguments->prompt : "");
    if (!s->prompt) return command_error(ENGINE_ERROR_MEMORY, "out of memory (prompt)");
    s->prompt_size = strlen(s->prompt);
    return ENGINE_OK;
}

static int encode_prompt(struct session *s)
{
    int status = vocabulary_open(s->model, &s->vocabulary);
    if (!status)
        status = prompt_encode(&s->vocabulary, s->prompt, s->prompt_size, s->arguments->special, &s->tokens);
    if (!status && s->tokens.count == 0)
        return command_error(ENGINE_ERROR_ARGUMENT, "the prompt is empty, and this model needs one: use -p");
    return status;
}

static int open_context(struct session *s)
{
    struct engine_context_options options;
    int32_t offload;
    context_options(s->arguments, &options, &offload);
    options.n_needed = s->tokens.count < UINT32_MAX ? (uint32_t)s->tokens.count : UINT32_MAX;
    int status = engine_context_create(s->model, &options, &s->context);
    if (status) return status;
    s->info.struct_size = sizeof s->info;
    engine_context_get_info(s->context, &s->info);
    status = check_tokens(s->context, s->tokens.ids, s->tokens.count);
    if (status) return status;
    s->logits = malloc(s->info.n_vocab * sizeof *s->logits);
    return s->logits ? ENGINE_OK : command_error(ENGINE_ERROR_MEMORY, "out of memory (logits)");
}

/* A seed that no other run has had, short enough to type: the nanoseconds of the current time. */
static uint32_t new_seed(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (uint32_t)((uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec);
}

static int open_sampler(struct session *s)
{
    const struct arguments *a = s->arguments;
    s->seed = a->seed_given ? a->seed : new_seed();
    struct engine_sampler_options options = sampler_options(a, s->seed);
    /* A model may have more rows than tokens, to round their number, and a file more tokens than rows. */
    uint32_t n_tokens = s->vocabulary.info.n_tokens;
    if (n_tokens > s->info.n_vocab) n_tokens = s->info.n_vocab;
    return engine_sampler_create(&options, n_tokens, &s->sampler);
}

/* Passes the prompt to the decoder, so that the generated text is spaced as a continuation; the prompt itself
 * has been printed as given. */
static int prime_decoder(struct session *s)
{
    int status = s->vocabulary.api->decoder_create(s->vocabulary.tokenizer, 0, &s->decoder);
    for (size_t i = 0; i < s->tokens.count && !status; i++) {
        struct engine_string text;
        status = s->vocabulary.api->decode(s->decoder, s->tokens.ids[i], &text);
        engine_sampler_accept(s->sampler, s->tokens.ids[i]);
    }
    return status;
}

static int run_prompt(struct session *s)
{
    double start = seconds_now();
    int status = prompt_cache_read(s->arguments, s->context, s->tokens.ids, s->tokens.count, &s->n_cached,
                                   &s->is_cached);
    if (!status)
        status = prefill(s->context, s->tokens.ids + s->n_cached, s->tokens.count - s->n_cached, s->logits,
                         "prompt");
    s->prefill_seconds = seconds_now() - start;
    s->n_prefilled = engine_sequence_length(s->context, 0) - s->n_cached;
    return status;
}

/* Saves the prompt once it has run; with --prompt-cache-all, the text once it has ended. */
static int keep_prompt(struct session *s, bool at_end)
{
    const struct arguments *a = s->arguments;
    if (!a->prompt_cache || a->prompt_cache_ro || a->prompt_cache_all != at_end) return ENGINE_OK;
    return s->is_cached && !at_end ? ENGINE_OK : prompt_cache_write(a, s->context);
}

/* Prints the model's text, or keeps it for --json. */
static int add_text(struct session *s, const char *text, size_t length)
{
    if (!s->arguments->json) print_text(text, length);
    if (!s->arguments->json || length == 0) return ENGINE_OK;
    if (length > s->text_capacity - s->text_size) {
        size_t capacity = s->text_capacity * 2 + length;
        char *grown = realloc(s->text, capacity);
        if (!grown) return command_error(ENGINE_ERROR_MEMORY, "out of memory (text)");
        s->text = grown;
        s->text_capacity = capacity;
    }
    memcpy(s->text + s->text_size, text, length);
    s->text_size += length;
    return ENGINE_OK;
}

static int print_token(struct session *s, int32_t token)
{
    struct engine_string text;
    int status = s->vocabulary.api->decode(s->decoder, token, &text);
    if (status) return status;
    return add_text(s, text.data, text.length);
}

static bool ends_text(const struct session *s, int32_t token)
{
    return token == s->vocabulary.info.bos ||
           s->vocabulary.api->attributes(s->vocabulary.tokenizer, token) & ENGINE_TOKEN_END;
}

/* Samples, prints and decodes tokens until the text ends or is long enough. */
static int generate(struct session *s)
{
    uint32_t limit = predict_limit(s->arguments, &s->vocabulary, s->tokens.count);
    double start = seconds_now();
    int status = ENGINE_OK;
    while (s->n_generated < limit && !interrupted) {
        int32_t token;
        status = engine_sample(s->sampler, s->logits, &token);
        if (!status && ends_text(s, token)) s->end = END_MODEL;
        if (status || s->end == END_MODEL) break;
        engine_sampler_accept(s->sampler, token);
        s->n_generated++;
        status = print_token(s, token);
        if (status || s->n_generated == limit) break;
        if (engine_sequence_length(s->context, 0) == s->info.n_context) {
            s->end = END_CONTEXT;
            end_text();
            fprintf(stderr, "engine: the context of %u tokens is full; enlarge it with -c\n",
                    s->info.n_context);
            break;
        }
        struct engine_batch batch = {.struct_size = sizeof batch, .n_tokens = 1, .tokens = &token};
        status = engine_decode(s->context, &batch, s->logits);
        if (status) break;
    }
    s->decode_seconds = seconds_now() - start;
    struct engine_string rest = {0};
    if (!status) status = s->vocabulary.api->decode_end(s->decoder, &rest);
    if (!status) status = add_text(s, rest.data, rest.length);
    if (interrupted) s->end = END_INTERRUPTED;
    return status;
}

/* ---- With guesses ---- */

static int check_guesses(const struct arguments *arguments)
{
    int status = guesses_check(arguments);
    if (status || !wants_guesses(arguments) || !arguments->prompt_cache_all) return status;
    return command_error(ENGINE_ERROR_ARGUMENT,
                         "--prompt-cache-all and --%s cannot be combined: guessing keeps no text at its end",
                         arguments->lookup ? "lookup" : "draft");
}

static void take_event(void *user, const struct engine_event *event)
{
    struct session *s = user;
    if (!s->status) s->status = add_text(s, event->text.data, event->text.length);
    s->n_generated = event->n_generated;
    s->n_guessed = event->n_guessed;
    s->n_accepted = event->n_accepted;
    s->decode_seconds = event->text_seconds;
    if (event->reason == ENGINE_DONE_END) s->end = END_MODEL;
    if (event->reason == ENGINE_DONE_CONTEXT) s->end = END_CONTEXT;
    if (event->reason == ENGINE_DONE_FAILED) s->status = command_error(event->status, "%s", event->message);
    if (interrupted || s->status) engine_queue_cancel(s->queue, event->request);
}

static int open_queue(struct session *s)
{
    struct engine_queue_options queue = {.struct_size = sizeof queue};
    struct engine_context_options options;
    int32_t offload;
    context_options(s->arguments, &options, &offload);
    int status = guesses_open(s->arguments, s->engine, &options, &s->draft, &queue);
    /* The queue begins with an empty sequence. It finds the prompt in the cache, except its last few
     * tokens. */
    if (!status) status = engine_sequence_truncate(s->context, 0, 0);
    return status ? status : engine_queue_create(s->context, &queue, &s->queue);
}

/* The same as generate(), but through a queue, which makes guesses. */
static int generate_with_guesses(struct session *s)
{
    struct engine_sampler_options sampler = sampler_options(s->arguments, s->seed);
    uint32_t limit = predict_limit(s->arguments, &s->vocabulary, s->tokens.count);
    struct engine_request request = {
        .struct_size = sizeof request,
        .tokens = s->tokens.ids,
        .n_tokens = s->tokens.count,
        .sampler = &sampler,
        .max_tokens = limit == UINT32_MAX ? 0 : limit,
        .flags = limit == 0 ? ENGINE_REQUEST_NO_TOKENS : 0u,
        .event = take_event,
        .user = s,
    };
    int status = engine_queue_submit(s->queue, &request, NULL);
    if (!status) status = engine_queue_run(s->queue, ENGINE_QUEUE_IDLE);
    if (!status) status = s->status;
    if (interrupted) s->end = END_INTERRUPTED;
    if (!status && s->end == END_CONTEXT) {
        end_text();
        fprintf(stderr, "engine: the context of %u tokens is full; enlarge it with -c\n", s->info.n_context);
    }
    return status;
}

static void print_speed(const struct session *s)
{
    end_text();
    fprintf(stderr, "prompt: %s, %.1f tokens/s; text: %s, %.1f tokens/s",
            count_text(s->n_prefilled, "token", "tokens").text, s->n_prefilled / s->prefill_seconds,
            count_text(s->n_generated, "token", "tokens").text,
            s->n_generated ? s->n_generated / s->decode_seconds : 0.0);
    if (s->n_cached > 0)
        fprintf(stderr, "; from the prompt cache: %s", count_text(s->n_cached, "token", "tokens").text);
    if (wants_guesses(s->arguments))
        fprintf(stderr, "; guessed: %s, %u of them right", count_text(s->n_guessed, "token", "tokens").text,
                s->n_accepted);
    /* Tell how to repeat a random text. */
    if (!s->arguments->seed_given && s->arguments->temperature > 0)
        fprintf(stderr, "; seed: %" PRIu64, s->seed);
    fputc('\n', stderr);
}

static int print_json(const struct session *s)
{
    static const char *const ends[] = {[END_LIMIT] = "limit",
                                       [END_MODEL] = "end",
                                       [END_CONTEXT] = "context",
                                       [END_INTERRUPTED] = "interrupted"};
    return json_print(json_pack(
        "{s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:f, s:f, s:o}", "prompt",
        json_text(s->prompt, s->prompt_size), "text", json_text(s->text ? s->text : "", s->text_size), "end",
        ends[s->end], "prompt_tokens", json_count(s->n_cached + s->n_prefilled), "cached_tokens",
        json_count(s->n_cached), "text_tokens", json_count(s->n_generated), "guessed_tokens",
        json_count(s->n_guessed), "accepted_tokens", json_count(s->n_accepted), "prompt_seconds",
        s->prefill_seconds, "text_seconds", s->decode_seconds, "seed", json_count(s->seed)));
}

static void session_close(struct session *s)
{
    engine_queue_destroy(s->queue);
    guesses_close(&s->draft);
    engine_sampler_destroy(s->sampler);
    engine_context_destroy(s->context);
    if (s->decoder) s->vocabulary.api->decoder_destroy(s->decoder);
    engine_model_close(s->model);
    engine_close(s->engine);
    free(s->prompt);
    free(s->text);
    free(s->tokens.ids);
    free(s->logits);
}

/* The words without an option: a model, a prompt, or both. */
static int take_words(struct arguments *arguments)
{
    const struct argument_list *words = &arguments->words;
    size_t next = 0;
    if (next < words->count && is_model_name(words->items[next])) {
        if (arguments->model)
            return command_error(ENGINE_ERROR_ARGUMENT, "two models: -m %s and %s; name one",
                                 arguments->model, words->items[next]);
        arguments->model = words->items[next++];
    }
    if (next < words->count) {
        if (arguments->prompt || arguments->prompt_file)
            return command_error(ENGINE_ERROR_ARGUMENT, "two prompts: '%s' and that of -p or -f",
                                 words->items[next]);
        arguments->prompt = words->items[next++];
    }
    if (next < words->count)
        return command_error(ENGINE_ERROR_ARGUMENT, "run: unexpected '%.100s'; see engine run --help",
                             words->items[next]);
    return ENGINE_OK;
}

int command_run(const struct arguments *given)
{
    struct arguments own = *given, *arguments = &own;
    struct session s = {.arguments = arguments};
    int status = take_words(arguments);
    if (!status) status = check_guesses(arguments);
    if (!status) status = read_prompt(&s);
    if (!status) status = open_engine(arguments, &s.engine);
    if (!status) status = prompt_cache_check(arguments, s.engine);
    if (!status) status = open_model(arguments, s.engine, &s.model);
    if (!status) status = encode_prompt(&s);
    if (!status) status = open_context(&s);
    if (!status) status = open_sampler(&s);
    if (!status) status = prime_decoder(&s);
    if (!status) status = run_prompt(&s); /* with a bar, which would be drawn over the prompt */
    if (!status) status = keep_prompt(&s, false);
    if (!status && wants_guesses(arguments)) status = open_queue(&s);
    if (!status && !arguments->no_echo && !arguments->json) print_text(s.prompt, s.prompt_size);
    if (!status) status = wants_guesses(arguments) ? generate_with_guesses(&s) : generate(&s);
    if (!status) status = keep_prompt(&s, true);
    int exit_status = 0;
    if (!status && arguments->json)
        exit_status = print_json(&s);
    else if (!status)
        print_speed(&s);
    else if (!interrupted)
        exit_status = command_fail();
    session_close(&s);
    return exit_status;
}
