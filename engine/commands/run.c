/* run.c: `engine [run]`: reads a prompt, and prints it and the model's continuation as it is generated.
 * Standard output carries only the text. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands/commands.h"
#include "io/files.h"
#include "io/json.h"
#include "io/messages.h"
#include "io/npy.h"
#include "io/output.h"
#include "options/open.h"
#include "options/sampling.h"
#include "prompts/prompt.h"
#include "prompts/reasoning.h"
#include "prompts/results.h"

/* ---- --prompt-cache: what a prompt has in common with that of an earlier run --------------------------- */

/* Refuses options that don't go together, and a file that the command reads as something else. Before
 * anything is loaded. */
static int prompt_cache_check(const struct arguments *arguments, const struct engine *engine)
{
    bool from_input = arguments->prompt && strcmp(arguments->prompt, "-") == 0;
    const char *inputs[] = {path_of_model(arguments, engine), arguments->tokenizer, arguments->prompt_file,
                            from_input ? "-" : NULL,          arguments->draft,     arguments->tokens_file};
    const char *path = arguments->prompt_cache;
    if (!path && (arguments->prompt_cache_all || arguments->prompt_cache_ro))
        return command_error(ENGINE_ERROR_ARGUMENT, "%s goes with --prompt-cache FILE",
                             arguments->prompt_cache_all ? "--prompt-cache-all" : "--prompt-cache-ro");
    if (arguments->prompt_cache_all && arguments->prompt_cache_ro)
        return command_error(ENGINE_ERROR_ARGUMENT,
                             "--prompt-cache-all and --prompt-cache-ro can't be given together");
    if (path && !path[0]) return command_error(ENGINE_ERROR_ARGUMENT, "--prompt-cache: which file?");
    if (!path) return ENGINE_OK;
    int status = output_check(path, engine, inputs, sizeof inputs / sizeof *inputs);
    return status ? status : check_not_adapter(path, engine, arguments);
}

/* Whether the sequence begins with all of the tokens. */
static int compare_prompt(const struct engine_context *context, const int32_t *tokens, size_t count,
                          bool *covers)
{
    *covers = false;
    if (count > engine_sequence_length(context, 0)) return ENGINE_OK;
    int32_t *saved = malloc(count * sizeof *saved);
    if (!saved) return command_error(ENGINE_ERROR_MEMORY, "out of memory (prompt)");
    int status = engine_sequence_tokens(context, 0, 0, (uint32_t)count, saved);
    *covers = !status && memcmp(saved, tokens, count * sizeof *saved) == 0;
    free(saved);
    return status;
}

/* Fills sequence 0 with what the file has. A file that does not exist yet has nothing. *covers: it has the
 * whole prompt, or more. */
static int prompt_cache_read(const struct arguments *arguments, struct engine_context *context,
                             const int32_t *tokens, size_t count, bool *covers)
{
    *covers = false;
    if (!arguments->prompt_cache) return ENGINE_OK;
    int status = engine_sequence_load(context, 0, arguments->prompt_cache);
    if (status == ENGINE_ERROR_NOT_FOUND) return ENGINE_OK;
    return status ? status : compare_prompt(context, tokens, count, covers);
}

static int write_piece(void *user, const void *data, size_t size)
{
    const struct output *output = user;
    if (fwrite(data, 1, size, output->file) == size) return ENGINE_OK;
    return command_error(ENGINE_ERROR, "%s: %s", output->path, strerror(errno));
}

/* Writes sequence 0 to the file. */
static int prompt_cache_write(const struct arguments *arguments, struct engine_context *context)
{
    struct output output;
    int status = output_open(&output, arguments->prompt_cache);
    if (status) return status;
    status = engine_sequence_save(context, 0, write_piece, &output);
    int closed = output_close(&output, !status);
    return status ? status : closed;
}

/* ---- The command --------------------------------------------------------------------------------------- */

struct session {
    const struct arguments *arguments;
    struct engine *engine;
    struct engine_model *model;
    struct vocabulary vocabulary;
    bool shows_ids; /* instead of texts: the vocabulary cannot be read */
    struct engine_context *context;
    struct engine_context_info info;
    struct draft_model draft; /* with --draft */
    struct engine_queue *queue;
    struct reasoning_limit reasoning; /* --reasoning-budget */
    struct sampling sampling;
    struct text_list stop; /* --stop */
    struct constraint constraint;
    struct engine_grammar *grammar; /* NULL: any text */
    bool only_logprobs;             /* on standard output, without the text */
    struct output logprobs;
    char *prompt;
    size_t prompt_size;
    struct token_list tokens; /* of the prompt */
    bool is_cached;           /* the prompt cache has the whole prompt */
    uint64_t seed;

    /* What the queue reports. */
    struct engine_event last; /* of the last request; its text is gone */
    int status;               /* of printing */
    uint32_t n_cached;        /* tokens of the prompt that were in the prompt cache */
    uint32_t n_prefilled;     /* those that were computed; not all of the rest after Ctrl-C */
    double prefill_seconds;
    bool is_shown;           /* the prompt has been printed */
    uint32_t end;            /* enum engine_done_reason */
    struct text_buffer text; /* the model's, for --json */
    struct beam_options beam_options;
    bool searches; /* the request has beams */
    bool has_ids;  /* with shows_ids: the text has begun */
    json_t *beams; /* what they found */
};

static int read_prompt(struct session *s)
{
    const struct arguments *arguments = s->arguments;
    bool from_input = arguments->prompt && strcmp(arguments->prompt, "-") == 0;
    if (!!arguments->prompt + !!arguments->prompt_file + !!arguments->tokens_file > 1)
        return command_error(ENGINE_ERROR_ARGUMENT, "use one of --prompt, --file and --tokens-file");
    if (arguments->tokens_file) {
        int status = npy_read_integers(arguments->tokens_file, &s->tokens.ids, &s->tokens.count);
        s->tokens.capacity = s->tokens.count;
        if (status || s->tokens.count > 0) return status;
        return command_error(ENGINE_ERROR_ARGUMENT, "%s: there are no tokens", arguments->tokens_file);
    }
    if (arguments->prompt_file || from_input)
        return read_text_file(from_input ? "-" : arguments->prompt_file, &s->prompt, &s->prompt_size);
    s->prompt = strdup(arguments->prompt ? arguments->prompt : "");
    if (!s->prompt) return command_error(ENGINE_ERROR_MEMORY, "out of memory (prompt)");
    s->prompt_size = strlen(s->prompt);
    return ENGINE_OK;
}

static int encode_prompt(struct session *s)
{
    int status = ENGINE_OK;
    if (s->arguments->tokens_file)
        status = vocabulary_open_for_ids(s->model, &s->vocabulary);
    else
        status = vocabulary_open(s->model, &s->vocabulary);
    s->shows_ids = !s->vocabulary.api;
    if (!status && s->vocabulary.has_source && !s->arguments->prompt && !s->arguments->prompt_file &&
        !s->arguments->tokens_file)
        return command_error(ENGINE_ERROR_ARGUMENT,
                             "the model's encoder reads a text: name one with -p, -f or --tokens-file");
    if (!status && !s->arguments->tokens_file)
        status = prompt_encode(&s->vocabulary, s->prompt, s->prompt_size, s->arguments->special, &s->tokens);
    warn_of_bos(&s->tokens, NULL);
    if (!status && s->tokens.count == 0)
        return command_error(ENGINE_ERROR_ARGUMENT, "the prompt is empty, and this model needs one: use -p");
    return status;
}

/* Ids with a space before each, except at the very beginning. */
static int add_ids(struct text_buffer *text, const int32_t *ids, size_t count, bool begins)
{
    int status = ENGINE_OK;
    for (size_t i = 0; i < count && !status; i++) {
        struct id_text room;
        struct engine_string id = id_string(ids[i], &room);
        if (i > 0 || !begins) status = text_add(text, &(struct engine_string){" ", 1});
        if (!status) status = text_add(text, &id);
    }
    return status;
}

/* What the tokens of --tokens-file spell, to be shown as the prompt. The model has each of them. */
static int spell_prompt(struct session *s)
{
    const struct engine_tokenizer_api *api = s->vocabulary.api;
    struct engine_decoder *decoder = NULL;
    struct text_buffer text = {0};
    struct engine_string piece = {"", 0};
    if (!s->arguments->tokens_file) return ENGINE_OK;
    int status = s->shows_ids ? add_ids(&text, s->tokens.ids, s->tokens.count, true)
                              : api->decoder_create(s->vocabulary.tokenizer, s->arguments->special, &decoder);
    for (size_t i = 0; i < s->tokens.count && !status && decoder; i++) {
        if ((uint32_t)s->tokens.ids[i] >= s->vocabulary.info.n_tokens) continue; /* padding spells nothing */
        status = api->decode(decoder, s->tokens.ids[i], &piece);
        if (!status) status = text_add(&text, &piece);
    }
    if (!status && decoder) status = api->decode_end(decoder, &piece);
    if (!status) status = text_add(&text, &piece);
    if (decoder) api->decoder_destroy(decoder);
    s->prompt = text.data;
    s->prompt_size = text.size;
    return status;
}

static uint32_t limit_of(const struct session *s)
{
    return predict_limit(s->arguments, &s->vocabulary, s->tokens.count);
}

static int open_context(struct session *s)
{
    struct engine_context_options options;
    int32_t offload;
    context_options(s->arguments, &options, &offload);
    options.n_needed = s->tokens.count < UINT32_MAX ? (uint32_t)s->tokens.count : UINT32_MAX;
    int status = ENGINE_OK;
    if (wants_beams(s->arguments)) {
        options.n_sequences = s->arguments->n_beams;
        if (options.n_context > 0 && options.n_cache == 0)
            options.n_cache = beams_cache_size(s->arguments, options.n_context, limit_of(s));
    }
    if (!status) status = create_context(s->arguments, s->model, &options, &s->context);
    if (status) return status;
    s->info.struct_size = sizeof s->info;
    engine_context_get_info(s->context, &s->info);
    return check_tokens(s->arguments, s->context, s->tokens.ids, s->tokens.count);
}

static int open_queue(struct session *s)
{
    struct engine_queue_options queue = {.struct_size = sizeof queue};
    struct engine_context_options options;
    int32_t offload;
    context_options(s->arguments, &options, &offload);
    int status = guesses_open(s->arguments, s->engine, &options, s->context, &s->draft, &queue);
    return status ? status : engine_queue_create(s->context, &queue, &s->queue);
}

/* ---- Events ---- */

/* A long prompt has a bar. */
static void show_progress(const struct session *s, uint64_t n_read)
{
    if (s->tokens.count > s->info.n_batch) count_progress("prompt", n_read, s->tokens.count, "tokens");
}

/* Prints the prompt before anything that follows it, and after the progress of reading it. */
static void show_prompt(struct session *s)
{
    bool hidden = s->arguments->no_echo || s->arguments->json || s->only_logprobs || s->vocabulary.has_source;
    if (!s->is_shown && !hidden) print_text(s->prompt, s->prompt_size);
    s->is_shown = true;
}

/* Prints the model's text, or keeps it for --json. */
static int add_text(struct session *s, const struct engine_string *text)
{
    if (s->arguments->json) return text_add(&s->text, text);
    if (s->only_logprobs) return ENGINE_OK;
    print_text(text->data, text->length);
    return ENGINE_OK;
}

/* The same with the ids of tokens, where they have no text. */
static int add_tokens(struct session *s, const int32_t *ids, size_t count)
{
    struct text_buffer text = {0};
    bool begins = !s->has_ids && (s->arguments->no_echo || s->arguments->json || s->vocabulary.has_source);
    s->has_ids = true;
    int status = add_ids(&text, ids, count, begins);
    if (!status && text.size > 0) status = add_text(s, &(struct engine_string){text.data, text.size});
    free(text.data);
    return status;
}

static int write_logprobs(struct session *s, const struct engine_event *event)
{
    FILE *file = s->only_logprobs ? stdout : s->logprobs.file;
    json_t *json = logprobs_json(s->model, event);
    bool good = json && json_dumpf(json, file, JSON_COMPACT | JSON_REAL_PRECISION(7)) == 0 &&
                fputc('\n', file) != EOF && fflush(file) == 0;
    json_decref(json);
    if (good || interrupted) return ENGINE_OK;
    return command_error(ENGINE_ERROR, "writing the probabilities failed");
}

static const char *end_name(uint32_t reason)
{
    switch (reason) {
    case ENGINE_DONE_END: return "end";
    case ENGINE_DONE_STOP: return "stop";
    case ENGINE_DONE_CONTEXT: return "context";
    case ENGINE_DONE_CANCELLED: return "interrupted";
    default: return "limit";
    }
}

/* Beams have a bar until the best of them is known. */
static void take_beams(struct session *s, const struct engine_event *event)
{
    uint32_t limit = limit_of(s) < s->info.n_context ? limit_of(s) : s->info.n_context;
    bool done = event->kind == ENGINE_EVENT_DONE;
    count_progress("beams", done ? limit : event->n_generated, limit, "tokens");
    if (!done || event->n_beams == 0) return;
    show_prompt(s);
    s->beams = beam_results_json(event, true, "end", end_name);
    if (s->shows_ids && !s->status)
        s->status = add_tokens(s, event->beams[0].tokens, event->beams[0].n_tokens);
}

static void take_event(void *user, const struct engine_event *event)
{
    struct session *s = user;
    show_progress(s, event->kind == ENGINE_EVENT_PROMPT ? event->n_prompt : s->tokens.count);
    if (event->kind == ENGINE_EVENT_TOKEN) show_prompt(s);
    if (s->searches && event->kind != ENGINE_EVENT_PROMPT) take_beams(s, event);
    if (!s->status) s->status = add_text(s, &event->text);
    if (!s->status && s->shows_ids && event->kind == ENGINE_EVENT_TOKEN)
        s->status = add_tokens(s, &event->token, 1);
    if (!s->status && event->kind == ENGINE_EVENT_TOKEN && s->arguments->n_logprobs > 0)
        s->status = write_logprobs(s, event);
    s->last = *event;
    if (event->reason == ENGINE_DONE_FAILED) s->status = command_error(event->status, "%s", event->message);
    if (interrupted || s->status) engine_queue_cancel(s->queue, event->request);
}

/* ---- Requests ---- */

/* Goes on from the prompt, of which the queue computes only what the context does not have yet. */
static int run_request(struct session *s, uint32_t flags, uint32_t limit)
{
    struct engine_sampler_options sampler = sampling_options(&s->sampling, s->seed);
    struct engine_request request = {
        .struct_size = sizeof request,
        .tokens = s->tokens.ids,
        .n_tokens = s->tokens.count,
        .sampler = &sampler,
        .max_tokens = limit == UINT32_MAX ? 0 : limit,
        .flags = flags | ENGINE_REQUEST_PROGRESS | (s->shows_ids ? ENGINE_REQUEST_NO_TEXT : 0u),
        .stop = s->stop.items,
        .n_stop = s->stop.count,
        .event = take_event,
        .user = s,
        .grammar = flags & ENGINE_REQUEST_NO_TOKENS ? NULL : s->grammar,
        .n_logprobs = s->arguments->n_logprobs,
    };
    s->searches = wants_beams(s->arguments) && !(flags & ENGINE_REQUEST_NO_TOKENS);
    if (s->searches) {
        request.n_beams = s->beam_options.n_beams;
        request.length_penalty = s->beam_options.length_penalty;
        request.early_stopping = s->beam_options.early_stopping;
    }
    reasoning_limit_apply(&s->reasoning, (struct engine_string){s->prompt, s->prompt_size}, &request);
    int status = engine_queue_submit(s->queue, &request, NULL);
    if (!status) show_progress(s, engine_sequence_length(s->context, 0));
    if (!status) status = engine_queue_run(s->queue, ENGINE_QUEUE_IDLE);
    if (!status) status = s->status;
    s->prefill_seconds += s->last.prompt_seconds;
    s->end = interrupted ? ENGINE_DONE_CANCELLED : s->last.reason;
    return status;
}

/* Reads the prompt, for the prompt cache. */
static int read_into_cache(struct session *s)
{
    int status = run_request(s, ENGINE_REQUEST_NO_TOKENS | ENGINE_REQUEST_KEEP, 0);
    s->n_cached = s->last.n_reused;
    s->n_prefilled = s->last.n_prompt - s->last.n_reused;
    return status;
}

static int generate(struct session *s, bool keep)
{
    uint32_t limit = limit_of(s);
    uint32_t flags = limit == 0 ? ENGINE_REQUEST_NO_TOKENS : 0u;
    if (s->arguments->ignore_end) flags |= ENGINE_REQUEST_IGNORE_END;
    int status = run_request(s, flags | (keep ? ENGINE_REQUEST_KEEP : 0u), limit);
    if (status || (s->end != ENGINE_DONE_CONTEXT && !s->last.incomplete)) return status;
    show_prompt(s);
    end_text();
    bool in_context =
        (s->vocabulary.has_source ? 1 : s->tokens.count) + s->last.n_generated <= s->info.n_context;
    if (s->end == ENGINE_DONE_CONTEXT && s->searches && in_context)
        fprintf(stderr, "engine: the beams fill the cache of %u positions; enlarge it with --cache-size\n",
                s->arguments->n_cache > 0 ? s->arguments->n_cache : s->info.n_cache);
    else if (s->end == ENGINE_DONE_CONTEXT)
        fprintf(stderr, "engine: the context of %u tokens is full; enlarge it with %s\n", s->info.n_context,
                context_option(s->arguments, s->info.n_context));
    if (s->last.incomplete)
        fprintf(stderr, "engine: the text was cut after %s, before the grammar allowed it to end%s\n",
                count_text(s->last.n_generated, "token", "tokens").text,
                s->end == ENGINE_DONE_LIMIT ? "; -n sets the limit" : "");
    return ENGINE_OK;
}

/* The prompt cache is written once the prompt has been read; with --prompt-cache-all, once the text has
 * ended. */
static int run_session(struct session *s)
{
    const struct arguments *a = s->arguments;
    bool writes = a->prompt_cache && !a->prompt_cache_ro, at_end = writes && a->prompt_cache_all;
    bool first = writes && !at_end && !s->is_cached;
    int status = first ? read_into_cache(s) : ENGINE_OK;
    if (first && !status && s->last.sequence >= 0) status = prompt_cache_write(a, s->context);
    if (!status && !interrupted) status = generate(s, at_end);
    if (!first) {
        s->n_cached = s->last.n_reused;
        s->n_prefilled = s->last.n_prompt - s->last.n_reused;
    }
    if (!status && at_end && s->last.sequence >= 0) status = prompt_cache_write(a, s->context);
    if (!status) show_prompt(s);
    return status;
}

/* ---- Results ---- */

static void print_speed(const struct session *s)
{
    const struct engine_event *last = &s->last;
    end_text();
    fprintf(stderr, "prompt: %s, %.1f tokens/s; text: %s, %.1f tokens/s",
            count_text(s->n_prefilled, "token", "tokens").text,
            s->n_prefilled ? s->n_prefilled / s->prefill_seconds : 0.0,
            count_text(last->n_generated, "token", "tokens").text,
            last->n_generated ? last->n_generated / last->text_seconds : 0.0);
    if (s->n_cached > 0)
        fprintf(stderr, "; from the prompt cache: %s", count_text(s->n_cached, "token", "tokens").text);
    if (wants_guesses(s->arguments))
        fprintf(stderr, "; guessed: %s, %u of them right",
                count_text(last->n_guessed, "token", "tokens").text, last->n_accepted);
    /* Tell how to repeat a random text. */
    if (!s->arguments->seed_given && s->sampling.options.temperature > 0)
        fprintf(stderr, "; seed: %" PRIu64, s->seed);
    fputc('\n', stderr);
    if (s->beams) beam_results_print(s->beams, s->shows_ids, stderr);
}

static int print_json(const struct session *s)
{
    json_t *json = json_pack(
        "{s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:f, s:f}", "prompt",
        json_text(s->prompt ? s->prompt : "", s->prompt_size), "text", json_buffer(&s->text), "end",
        end_name(s->end), "prompt_tokens", json_count(s->n_cached + s->n_prefilled), "cached_tokens",
        json_count(s->n_cached), "text_tokens", json_count(s->last.n_generated), "guessed_tokens",
        json_count(s->last.n_guessed), "accepted_tokens", json_count(s->last.n_accepted), "prompt_seconds",
        s->prefill_seconds, "text_seconds", s->last.text_seconds);
    if (!s->searches && json) json_object_set_new(json, "seed", json_seed(s->seed));
    if (s->beams && json) json_object_set(json, "beams", s->beams);
    return json_print(json);
}

static void session_close(struct session *s)
{
    engine_queue_destroy(s->queue);
    guesses_close(&s->draft);
    engine_context_destroy(s->context);
    reasoning_limit_close(&s->reasoning);
    engine_grammar_destroy(s->grammar);
    engine_model_close(s->model);
    engine_close(s->engine);
    constraint_free(&s->constraint);
    sampling_free(&s->sampling);
    texts_free(&s->stop);
    free(s->prompt);
    free(s->text.data);
    free(s->tokens.ids);
    json_decref(s->beams);
}

static int check_logprobs(const struct arguments *a)
{
    if (a->logprobs_file && a->n_logprobs == 0)
        return command_error(ENGINE_ERROR_ARGUMENT, "--logprobs-file needs --logprobs");
    if (a->n_logprobs > 0 && !a->logprobs_file && a->json)
        return command_error(ENGINE_ERROR_ARGUMENT,
                             "--logprobs and --json both write to standard output; use "
                             "--logprobs-file");
    if (a->logprobs_file && a->prompt_cache && output_same(a->logprobs_file, a->prompt_cache))
        return command_error(ENGINE_ERROR_ARGUMENT, "--logprobs-file and --prompt-cache name the same file");
    return ENGINE_OK;
}

static int open_logprobs(struct session *s)
{
    const struct arguments *a = s->arguments;
    const char *inputs[] = {
        path_of_model(a, s->engine), a->tokenizer, a->draft, a->prompt_file, a->prompt_cache, a->tokens_file};
    s->only_logprobs = a->n_logprobs > 0 && !a->logprobs_file;
    if (!a->logprobs_file) return ENGINE_OK;
    int status = output_check(a->logprobs_file, s->engine, inputs, sizeof inputs / sizeof *inputs);
    if (!status) status = check_not_adapter(a->logprobs_file, s->engine, a);
    return status ? status : output_open(&s->logprobs, a->logprobs_file);
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
        if (arguments->prompt || arguments->prompt_file || arguments->tokens_file)
            return command_error(ENGINE_ERROR_ARGUMENT,
                                 "two prompts: '%s' and that of -p, -f or --tokens-file", words->items[next]);
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
    struct session s = {.arguments = arguments, .seed = given->seed_given ? given->seed : new_seed()};
    int status = take_words(arguments);
    if (!status) status = guesses_check(arguments);
    if (!status) status = sampling_read(arguments, &s.sampling);
    if (!status) status = texts_read(&arguments->stop, "stop", &s.stop);
    if (!status) status = constraint_read(arguments, &s.constraint);
    if (!status) status = check_logprobs(arguments);
    if (!status) status = beam_options_read(arguments, &s.sampling, &s.beam_options);
    if (!status && wants_beams(arguments) && wants_guesses(arguments))
        status = command_error(ENGINE_ERROR_ARGUMENT, "--beams and %s cannot be combined",
                               arguments->draft ? "--draft" : "--lookup");
    if (!status) status = read_prompt(&s);
    if (!status) status = open_engine(arguments, &s.engine);
    if (!status) status = prompt_cache_check(arguments, s.engine);
    if (!status) status = open_model(arguments, s.engine, &s.model);
    if (!status) status = sampling_adopt(arguments, s.model, &s.sampling);
    if (!status) status = encode_prompt(&s);
    if (!status) status = sampling_check_tokens(&s.sampling, s.vocabulary.info.n_tokens);
    if (!status) status = constraint_open(s.model, &s.constraint, &s.grammar);
    if (!status) status = reasoning_limit_open(arguments, s.model, &s.reasoning);
    if (!status) status = open_context(&s);
    if (!status) status = spell_prompt(&s);
    if (!status) status = prompt_cache_read(arguments, s.context, s.tokens.ids, s.tokens.count, &s.is_cached);
    if (!status) status = open_queue(&s);
    if (!status) status = open_logprobs(&s);
    if (!status) status = run_session(&s);
    if (s.logprobs.file) {
        int closed = output_close(&s.logprobs, !status);
        if (!status) status = closed;
    }
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
