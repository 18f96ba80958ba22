/* batch.c: `engine batch`: many prompts from a file of JSON lines, many at once; the results in the order of
 * the input, one line each, written as they are finished. Written results are kept: after a kill, the same
 * command resumes after them. They are recognised by their keys, and a torn last line is cut off. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands/batch.h"
#include "commands/commands.h"
#include "common/clock.h"
#include "common/json-read.h"
#include "io/files.h"
#include "io/json.h"
#include "io/messages.h"
#include "io/output.h"
#include "options/options.h"
#include "prompts/prompt.h"
#include "prompts/results.h"

/* ---- Resuming ---- */

uint64_t batch_key(const struct batch *b)
{
    return hash_bytes(b->fingerprint, &b->line.hash, sizeof b->line.hash);
}

static void hash_more(void *user, const void *bytes, size_t size)
{
    struct batch *b = user;
    b->fingerprint = hash_bytes(b->fingerprint, bytes, size);
}

/* What the model's metadata was told to be instead. */
static void hash_overrides(struct batch *b)
{
    const struct arguments *a = b->arguments;
    const float rope[] = {a->rope_scale,           a->rope_freq_base,  a->rope_freq_scale,
                          (float)a->yarn_orig_ctx, a->yarn_ext_factor, a->yarn_attn_factor,
                          a->yarn_beta_slow,       a->yarn_beta_fast};
    bool is_given = a->yarn_ext_factor_given;
    for (size_t i = 0; i < sizeof rope / sizeof *rope; i++) is_given |= rope[i] > 0;
    if (is_given) hash_more(b, rope, sizeof rope);
    if (a->rope_scaling) hash_more(b, a->rope_scaling, strlen(a->rope_scaling));
    for (size_t i = 0; i < a->override_kv.count; i++)
        hash_more(b, a->override_kv.items[i], strlen(a->override_kv.items[i]) + 1);
}

int batch_take_fingerprint(struct batch *b)
{
    const struct arguments *a = b->arguments;
    struct engine_model_info model = {.struct_size = sizeof model};
    char text[1024];
    struct engine_context_options wish;
    int32_t offload;
    uint32_t n_context;
    batch_context_options(b, &wish, &offload);
    int status = engine_context_length(b->model, &wish, &n_context);
    if (status) return status;
    b->n_longest = n_context;
    const struct engine_sampler_options *o = &b->sampling.options;
    engine_model_get_info(b->model, &model);
    int n = snprintf(text, sizeof text,
                     "%s|%.200s|%" PRIu64 "|%" PRIu64 "|%u|%d|%g|%u|%g|%g|%g|%g|%g|%g|%u|%" PRIu64
                     "|%u|%s|%d|%d|%d",
                     model.architecture, model.name, model.file_size, model.n_parameters, a->n_predict,
                     a->n_predict_given, (double)o->temperature, o->top_k, (double)o->top_p, (double)o->min_p,
                     (double)o->typical_p, (double)o->penalty_repeat, (double)o->penalty_frequency,
                     (double)o->penalty_presence, o->penalty_last_n, b->seed, n_context,
                     a->cache_type ? a->cache_type : "", a->special, a->ids, a->ignore_end);
    b->fingerprint = hash_bytes(HASH_BASIS, text, (size_t)n < sizeof text ? (size_t)n : sizeof text);
    sampling_hash(&b->sampling, hash_more, b);
    if (a->load_type) hash_more(b, a->load_type, strlen(a->load_type));
    hash_overrides(b);
    if (b->arguments->n_logprobs > 0)
        hash_more(b, &b->arguments->n_logprobs, sizeof b->arguments->n_logprobs);
    if (a->reasoning_budget < UINT32_MAX) hash_more(b, &a->reasoning_budget, sizeof a->reasoning_budget);
    if (wants_beams(a)) hash_more(b, &b->beams, sizeof b->beams);
    for (size_t i = 0; i < b->stop.count; i++) {
        hash_more(b, "|stop", 5);
        hash_more(b, b->stop.items[i].data, b->stop.items[i].length);
    }
    if (b->constraint.kind) {
        hash_more(b, &b->constraint.kind, sizeof b->constraint.kind);
        hash_more(b, b->constraint.text, b->constraint.size);
    }
    status = hash_file(path_of_model(a, b->engine), &b->fingerprint);
    if (!status && a->tokenizer) status = hash_file(a->tokenizer, &b->fingerprint);
    return status ? status : hash_adapters(a, &b->fingerprint);
}

static int foreign(const struct batch *b, uint64_t number)
{
    return command_error(ENGINE_ERROR_ARGUMENT,
                         "%s: line %" PRIu64
                         " is not the result of that line of %s with this model and these "
                         "options; give the output another name, or begin anew with --restart",
                         b->out_path, number + 1, b->in_path);
}

/* Whether a line of the output is the result of the current line of the input. */
static bool belongs(struct batch *b, const struct line *result)
{
    char key[17];
    json_t *json = json_read(result->text ? result->text : "", result->length, JSON_ALLOW_NUL, NULL);
    snprintf(key, sizeof key, "%016" PRIx64, batch_key(b));
    const char *theirs = json_string_value(json_object_get(json, "key"));
    const json_t *index = json_object_get(json, "index");
    bool same = theirs && strcmp(theirs, key) == 0 && json_is_integer(index) &&
                (uint64_t)json_integer_value(index) == b->n_read;
    if (same && json_object_get(json, "error")) b->n_bad++;
    json_decref(json);
    return same;
}

/* Whether an incomplete last line looks like a result; otherwise it belongs to something else. */
static bool is_torn(const struct batch *b, const struct line *result)
{
    char begin[64];
    size_t n = (size_t)snprintf(begin, sizeof begin, "{\"index\": %" PRIu64 ", ", b->n_read);
    return memcmp(result->text, begin, result->length < n ? result->length : n) == 0;
}

/* Reads the results of an earlier run along with the input, and cuts off a torn last line. */
static int go_on(struct batch *b)
{
    struct line result = {0};
    FILE *file = fdopen(dup(fileno(b->out)), "rb");
    off_t good = 0;
    if (!file) return command_error(ENGINE_ERROR, "%s: %s", b->out_path, strerror(errno));
    while (!b->status && line_read(file, &result, &b->status) && !b->status && result.whole) {
        if (!batch_next_line(b) || !belongs(b, &result)) {
            if (!b->status) b->status = foreign(b, b->n_read);
            break;
        }
        b->n_read++;
        b->n_written++;
        b->n_found++;
        good = ftello(file);
    }
    if (!b->status && result.length > 0 && !result.whole && !is_torn(b, &result))
        b->status = foreign(b, b->n_read);
    fclose(file);
    free(result.text);
    if (!b->status && (ftruncate(fileno(b->out), good) != 0 || fseeko(b->out, good, SEEK_SET) != 0))
        b->status = command_error(ENGINE_ERROR, "%s: %s", b->out_path, strerror(errno));
    return b->status;
}

int batch_open_output(struct batch *b)
{
    const struct arguments *a = b->arguments;
    const char *inputs[] = {b->in_path, path_of_model(a, b->engine), a->draft, a->tokenizer};
    if (!b->out_path) {
        b->out = stdout;
        return ENGINE_OK;
    }
    int status = output_check(b->out_path, b->engine, inputs, sizeof inputs / sizeof *inputs);
    if (!status) status = check_not_adapter(b->out_path, b->engine, a);
    if (status) return status;
    /* A pipe that is open for reading too would take results with nobody to read them. */
    struct stat info;
    bool is_file = stat(b->out_path, &info) != 0 || S_ISREG(info.st_mode);
    int file = open(b->out_path, (is_file ? O_RDWR | O_CREAT : O_WRONLY) | O_CLOEXEC, 0666);
    if (file < 0 || fstat(file, &info) != 0 || !(b->out = fdopen(file, is_file ? "r+b" : "wb")))
        return command_error(ENGINE_ERROR, "%s: %s", b->out_path, strerror(errno));
    if (!S_ISREG(info.st_mode)) return ENGINE_OK;
    if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return command_error(ENGINE_ERROR, "%s: another engine is writing it", b->out_path);
    if (!a->restart) return go_on(b);
    if (ftruncate(file, 0) != 0) return command_error(ENGINE_ERROR, "%s: %s", b->out_path, strerror(errno));
    return ENGINE_OK;
}

/* ---- Results ------------------------------------------------------------------------------------------- */

static void set_field(json_t *object, const char *name, json_t *value)
{
    /* out of memory: noticed when it is written */
    if (object && json_object_set_new(object, name, value) != 0) json_object_clear(object);
}

static json_t *begin_result(const struct job *job)
{
    json_t *result = json_object();
    set_field(result, "index", json_count(job->index));
    if (job->id) json_object_set(result, "id", job->id);
    return result;
}

static void end_result(struct job *job, json_t *result)
{
    char key[17];
    snprintf(key, sizeof key, "%016" PRIx64, job->key);
    set_field(result, "key", json_string(key));
    job->result = result;
    if (!result) job->batch->status = command_error(ENGINE_ERROR_MEMORY, "out of memory (a result)");
}

void job_finish_with_error(struct job *job, const char *message)
{
    json_t *result = begin_result(job);
    set_field(result, "error", json_line(message));
    end_result(job, result);
}

/* Another machine would give another result, so there is none: the batch ends. */
static int batch_fail_for_memory(const struct job *job)
{
    return command_error(ENGINE_ERROR_MEMORY,
                         "line %" PRIu64 ": there is memory for texts of %u tokens only, and this one has "
                         "more; -c limits the length of all texts",
                         job->index + 1, job->batch->n_fitting);
}

static const char *reason_name(uint32_t reason)
{
    switch (reason) {
    case ENGINE_DONE_END:
    case ENGINE_DONE_STOP: return "stop";
    case ENGINE_DONE_LIMIT: return "length";
    default: return "context";
    }
}

static void batch_finish(struct job *job, const struct engine_event *event)
{
    json_t *result = begin_result(job);
    if (job->batch->vocabulary.api) set_field(result, "text", json_buffer(&job->text));
    if (job->batch->arguments->ids && !job->searches) {
        json_t *ids = json_array();
        for (size_t i = 0; i < job->tokens.count; i++)
            json_array_append_new(ids, json_integer(job->tokens.ids[i]));
        set_field(result, "tokens", ids);
    }
    if (job->logprobs) set_field(result, "logprobs", json_incref(job->logprobs));
    if (job->searches)
        set_field(result, "beams",
                  beam_results_json(event, job->batch->arguments->ids, "finish_reason", reason_name));
    set_field(result, "finish_reason", json_string(reason_name(event->reason)));
    if (event->incomplete) set_field(result, "incomplete", json_true());
    set_field(result, "prompt_tokens", json_count(event->n_prompt));
    set_field(result, "text_tokens", json_count(event->n_generated));
    if (job->sampler.temperature > 0) set_field(result, "seed", json_seed(job->sampler.seed));
    end_result(job, result);
    job->batch->n_tokens += event->n_generated;
}

void job_take_event(void *user, const struct engine_event *event)
{
    struct job *job = user;
    struct batch *b = job->batch;
    int status = text_add(&job->text, &event->text);
    if (!status && event->kind == ENGINE_EVENT_TOKEN && b->arguments->ids)
        status = token_list_add(&job->tokens, &event->token, 1);
    if (!status && event->kind == ENGINE_EVENT_TOKEN && job->logprobs &&
        json_array_append_new(job->logprobs, logprobs_json(b->model, event)) != 0)
        status = command_error(ENGINE_ERROR_MEMORY, "out of memory (probabilities)");
    if (status) b->status = status;
    if (b->status || interrupted) engine_queue_stop(b->queue, 1);
    if (event->kind != ENGINE_EVENT_DONE || event->reason == ENGINE_DONE_CANCELLED) return;
    if (event->reason == ENGINE_DONE_CONTEXT && b->n_fitting > 0)
        b->status = b->status ? b->status : batch_fail_for_memory(job);
    else if (event->reason != ENGINE_DONE_FAILED)
        batch_finish(job, event);
    else if (event->status == ENGINE_ERROR_DATA)
        job_finish_with_error(job, event->message);
    else if (!b->status)
        b->status = command_error(event->status, "%s", event->message);
}

void batch_drop_first(struct batch *b)
{
    struct job *job = b->first;
    b->first = job->next;
    if (!b->first) b->last = NULL;
    b->n_jobs--;
    json_decref(job->result);
    json_decref(job->id);
    json_decref(job->logprobs);
    free(job->tokens.ids);
    free(job->text.data);
    free(job);
}

void batch_write_results(struct batch *b)
{
    struct job *job;
    while (!b->status && (job = b->first) && job->result) {
        if (json_object_get(job->result, "error")) b->n_bad++;
        char *text = json_exact_text(job->result, 0); /* its id is the client's */
        if (!text || !json_object_get(job->result, "key"))
            b->status = command_error(ENGINE_ERROR_MEMORY, "out of memory (a result)");
        /* One write for each line, so that a kill leaves whole lines and at most one torn one. */
        else if (fprintf(b->out, "%s\n", text) < 0 || fflush(b->out) != 0)
            b->status = command_error(ENGINE_ERROR, "%s: %s", b->out_path ? b->out_path : "standard output",
                                      strerror(errno));
        free(text);
        b->n_written++;
        batch_drop_first(b);
    }
}

#define DEFAULT_POSITIONS 2048 /* of the cache, for each of --parallel */

/* ---- Opening ---- */

/* The byte order mark of the input, in its first line. */
static void skip_mark(struct batch *b)
{
    size_t mark = 0;
    if (!b->line.text) return;
    b->status = text_mark(strcmp(b->in_path, "-") == 0 ? "standard input" : b->in_path, b->line.text,
                          b->line.length, &mark);
    b->line.length -= mark;
    memmove(b->line.text, b->line.text + mark, b->line.length + 1);
}

/* The next line of the input that isn't blank. */
bool batch_next_line(struct batch *b)
{
    while (!b->status && line_read(b->in, &b->line, &b->status) && !b->status) {
        if (!b->begun && !b->line.too_long) skip_mark(b);
        b->begun = true;
        if (!b->status && !line_is_blank(&b->line)) return true;
    }
    b->ended = true;
    return false;
}

void batch_context_options(const struct batch *b, struct engine_context_options *wish, int32_t *offload)
{
    const struct arguments *a = b->arguments;
    context_options(a, wish, offload);
    wish->n_sequences = a->n_beams > a->n_parallel ? a->n_beams : a->n_parallel;
    if (wish->n_cache > 0 || wish->n_context == 0) return;
    /* The same length however many texts run at once: it may change results. */
    uint64_t positions = (uint64_t)wish->n_sequences * DEFAULT_POSITIONS;
    if (positions < wish->n_context) positions = wish->n_context;
    wish->n_cache = (uint32_t)positions;
}

/* Counts the lines, for the bar, if the input can be read twice. */
static void count_lines(struct batch *b)
{
    struct stat info;
    if (fstat(fileno(b->in), &info) != 0 || !S_ISREG(info.st_mode) || ftello(b->in) != 0) return;
    while (batch_next_line(b)) b->n_total++;
    b->begun = b->ended = false;
    rewind(b->in);
}

static int open_input(struct batch *b)
{
    bool standard = strcmp(b->in_path, "-") == 0;
    b->in = standard ? stdin : fopen(b->in_path, "rb");
    if (!b->in) return command_error(ENGINE_ERROR_DATA, "%s: %s", b->in_path, strerror(errno));
    count_lines(b);
    return b->status;
}

static int open_context(struct batch *b)
{
    const struct arguments *a = b->arguments;
    struct engine_context_options wish;
    int32_t offload;
    batch_context_options(b, &wish, &offload);
    b->n_sequences = wish.n_sequences;
    int status = create_context(a, b->model, &wish, &b->context);
    struct engine_plan_context chosen = {.struct_size = sizeof chosen};
    if (!status) engine_plan_get_context(engine_context_plan(b->context), &chosen);
    if (!status && chosen.limit == ENGINE_CONTEXT_MEMORY) b->n_fitting = chosen.n_context;
    b->n_jobs_most = (size_t)a->n_parallel * 16 + 64;
    struct engine_queue_options queue = {.struct_size = sizeof queue,
                                         .n_waiting = (uint32_t)b->n_jobs_most + 1};
    if (!status) status = guesses_open(a, b->engine, &wish, b->context, &b->draft, &queue);
    return status ? status : engine_queue_create(b->context, &queue, &b->queue);
}

/* ---- Running ---- */

/* A seed for each line, far from those of its neighbours (splitmix64), short enough to type. */
static uint32_t seed_of_line(uint64_t seed, uint64_t index)
{
    uint64_t x = seed + (index + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((x ^ (x >> 31)) >> 32);
}

/* The grammar of a line. Lines one after the other often have the same. */
static int open_grammar(struct batch *b, struct batch_line *line, struct engine_grammar **grammar)
{
    struct constraint *own = &line->options.constraint, *last = &b->last_constraint;
    *grammar = b->grammar;
    if (!line->options.constrained) return ENGINE_OK;
    *grammar = NULL;
    if (!own->kind) return ENGINE_OK;
    if (own->kind != last->kind || own->size != last->size || memcmp(own->text, last->text, own->size) != 0) {
        engine_grammar_destroy(b->last_grammar);
        b->last_grammar = NULL;
        constraint_free(last);
        int status = constraint_open(b->model, own, &b->last_grammar);
        if (status) return status;
        *last = *own;
        *own = (struct constraint){0};
    }
    *grammar = b->last_grammar;
    return ENGINE_OK;
}

/* Submits a line. If it has a mistake, that becomes its result. */
static int batch_submit(struct batch *b, struct job *job, struct batch_line *line)
{
    struct token_list prompt = {0};
    char message[512] = "";
    int status = ENGINE_OK;
    if (line->prompt && !b->vocabulary.api)
        status = vocabulary_open(b->model, &b->vocabulary);
    else if (line->prompt)
        status =
            prompt_encode(&b->vocabulary, line->prompt, line->prompt_size, b->arguments->special, &prompt);
    warn_of_bos(&prompt, &b->told_of_bos);
    size_t n_tokens = line->tokens ? line->n_tokens : prompt.count;
    bool set =
        line->options.max_tokens != UINT32_MAX; /* in the line, where 0 is "no limit" as in a request */
    uint32_t limit = set ? line->options.max_tokens : predict_limit(b->arguments, &b->vocabulary, n_tokens);
    uint32_t flags = ENGINE_REQUEST_PROGRESS; /* so that each step has an event that may end the batch */
    if (line->options.ignore_end) flags |= ENGINE_REQUEST_IGNORE_END;
    if (!b->vocabulary.api) flags |= ENGINE_REQUEST_NO_TEXT;
    if (!set && limit == 0) flags |= ENGINE_REQUEST_NO_TOKENS;
    if (!line->options.seed_given) line->options.sampler.seed = seed_of_line(b->seed, job->index);
    job->searches = line->beams.n_beams > 1 && !(flags & ENGINE_REQUEST_NO_TOKENS);
    if (job->searches && !line->options.temperature_given && !b->arguments->temperature_given)
        line->options.sampler.temperature = 0;
    job->sampler = line->options.sampler;
    struct engine_request request = {
        .struct_size = sizeof request,
        .tokens = line->tokens ? line->tokens : prompt.ids,
        .n_tokens = n_tokens,
        .sampler = &job->sampler,
        .max_tokens = limit == UINT32_MAX ? 0 : limit,
        .flags = flags,
        .priority = line->options.priority,
        .stop = line->options.stop ? line->options.stop : b->stop.items,
        .n_stop = line->options.stop ? line->options.n_stop : b->stop.count,
        .event = job_take_event,
        .user = job,
        .n_logprobs = line->options.n_logprobs,
        .n_beams = job->searches ? line->beams.n_beams : 0,
        .length_penalty = line->beams.length_penalty,
        .early_stopping = line->beams.early_stopping,
    };
    reasoning_limit_apply(&b->reasoning, (struct engine_string){line->prompt, line->prompt_size}, &request);
    if (!status) status = open_grammar(b, line, &request.grammar);
    const bool lacks_memory = !status && b->n_fitting > 0 && n_tokens > b->n_fitting;
    if (lacks_memory && n_tokens <= b->n_longest) {
        free(prompt.ids);
        return batch_fail_for_memory(job);
    }
    if (line->options.n_logprobs > 0) job->logprobs = json_array();
    if (lacks_memory) /* and so would any machine: the error is the line's, in the queue's words */
        snprintf(message, sizeof message,
                 "the prompt has %zu tokens, the context takes %u: make it larger (-c) or the prompt shorter",
                 n_tokens, b->n_longest);
    else if (request.n_beams > b->n_sequences)
        snprintf(message, sizeof message, "%u beams need --parallel %u or more", request.n_beams,
                 request.n_beams);
    else if (job->searches && line->options.n_logprobs > 0)
        snprintf(message, sizeof message, "\"beams\" and \"logprobs\" cannot be combined");
    if (message[0]) {
        free(prompt.ids);
        job_finish_with_error(job, message);
        return ENGINE_OK;
    }
    if (!status) status = engine_queue_submit(b->queue, &request, NULL);
    free(prompt.ids);
    if (!status) return ENGINE_OK;
    snprintf(message, sizeof message, "%s", engine_error_message());
    if (status == ENGINE_ERROR_MEMORY) return status;
    job_finish_with_error(job, message);
    return ENGINE_OK;
}

/* The current line of the input. */
static int take_line(struct batch *b)
{
    const struct arguments *a = b->arguments;
    struct job *job = calloc(1, sizeof *job);
    char error[256];
    if (!job) return command_error(ENGINE_ERROR_MEMORY, "out of memory (batch)");
    job->batch = b;
    job->index = b->n_read++;
    job->key = batch_key(b);
    if (b->last)
        b->last->next = job;
    else
        b->first = job;
    b->last = job;
    b->n_jobs++;
    const struct batch_line defaults = {.options = {.max_tokens = UINT32_MAX,
                                                    .n_logprobs = a->n_logprobs,
                                                    .sampler = sampling_options(&b->sampling, 0),
                                                    .ignore_end = a->ignore_end},
                                        .beams = b->beams};
    struct batch_line line = defaults;
    int status = ENGINE_OK;
    bool good = !b->line.too_long && batch_line_read(b->line.text, b->line.length, &line, error);
    if (good && line.beams.n_beams > 1) { /* read again, without what the model recommends for sampling */
        batch_line_free(&line);
        line = defaults;
        line.options.sampler = b->sampling.typed;
        good = batch_line_read(b->line.text, b->line.length, &line, error);
    }
    if (b->line.too_long) {
        job_finish_with_error(job, "the line is longer than 64 MiB");
    } else if (good) {
        job->id = json_incref(line.id);
        status = batch_submit(b, job, &line);
    } else if (strcmp(error, TEXT_OPTION_NO_MEMORY) == 0) {
        status = command_error(ENGINE_ERROR_MEMORY, "%s", error);
    } else {
        job->id = json_incref(line.id);
        job_finish_with_error(job, error);
    }
    batch_line_free(&line);
    return status;
}

static void run_batch(struct batch *b)
{
    double start = seconds_now();
    /* otherwise the bar would mix with the results */
    bool bar = b->n_total > 0 && (b->out_path || !isatty(STDOUT_FILENO));
    while (!b->status && !interrupted) {
        while (!b->status && !b->ended && b->n_jobs < b->n_jobs_most && batch_next_line(b))
            b->status = take_line(b);
        if (b->n_jobs == 0) break;
        int status = b->status ? ENGINE_OK : engine_queue_run(b->queue, ENGINE_QUEUE_DONE);
        if (!b->status) b->status = status; /* unless an event has set it meanwhile */
        batch_write_results(b);
        char items[80];
        snprintf(items, sizeof items, "lines, %.1f tokens/s", (double)b->n_tokens / (seconds_now() - start));
        if (bar) count_progress("batch", b->n_written, b->n_total, items);
    }
    if (bar) count_progress("batch", b->n_total, b->n_total, "lines");
    if (!b->status && b->out_path && fsync(fileno(b->out)) != 0 && errno != EINVAL && errno != EROFS)
        b->status = command_error(ENGINE_ERROR, "%s: %s", b->out_path, strerror(errno));
}

static int print_end(const struct batch *b)
{
    const char *name = b->out_path ? b->out_path : "the output";
    if (interrupted)
        fprintf(stderr, "engine: stopped after %" PRIu64 " lines%s\n", b->n_written,
                b->out_path ? "; the same command goes on from there" : "");
    else if (b->n_found > 0)
        fprintf(stderr, "engine: %s: %s, %" PRIu64 " of them from an earlier run\n", name,
                count_text(b->n_written, "line", "lines").text, b->n_found);
    if (b->queue && wants_guesses(b->arguments)) {
        struct engine_queue_info info = {.struct_size = sizeof info};
        engine_queue_get_info(b->queue, &info);
        fprintf(stderr, "engine: guessed: %s, %" PRIu64 " of them right\n",
                count_text(info.n_guessed, "token", "tokens").text, info.n_accepted);
    }
    if (b->n_bad == 0) return 0;
    fprintf(stderr, "engine: %s of %" PRIu64 " failed; %s says why (\"error\")\n",
            count_text(b->n_bad, "line", "lines").text, b->n_written, name);
    return 1;
}

static void batch_close(struct batch *b)
{
    engine_queue_destroy(b->queue);
    while (b->first) batch_drop_first(b);
    guesses_close(&b->draft);
    engine_context_destroy(b->context);
    reasoning_limit_close(&b->reasoning);
    engine_grammar_destroy(b->grammar);
    engine_grammar_destroy(b->last_grammar);
    engine_model_close(b->model);
    engine_close(b->engine);
    if (b->in && b->in != stdin) fclose(b->in);
    if (b->out && b->out != stdout) fclose(b->out);
    constraint_free(&b->constraint);
    constraint_free(&b->last_constraint);
    sampling_free(&b->sampling);
    texts_free(&b->stop);
    free(b->line.text);
}

int command_batch(const struct arguments *arguments)
{
    struct batch b = {.arguments = arguments,
                      .in_path = arguments->words.items[0],
                      .out_path = path_of_output(arguments),
                      .seed = arguments->seed};
    if (arguments->seed == OPTION_RANDOM && !arguments->seed_given) {
        b.seed = new_seed();
        fprintf(stderr,
                "engine: the seed is %" PRIu64 "; to go on after an interruption, add --seed %" PRIu64 "\n",
                b.seed, b.seed);
    }
    int status = guesses_check(arguments);
    if (!status) status = sampling_read(arguments, &b.sampling);
    if (!status) status = beam_options_read(arguments, &b.sampling, &b.beams);
    if (!status) status = texts_read(&arguments->stop, "stop", &b.stop);
    if (!status) status = constraint_read(arguments, &b.constraint);
    if (!status) status = open_engine(arguments, &b.engine);
    if (!status) status = open_model(arguments, b.engine, &b.model);
    if (!status) status = sampling_adopt(arguments, b.model, &b.sampling);
    if (!status && arguments->ids)
        status = vocabulary_open_for_ids(b.model, &b.vocabulary);
    else if (!status)
        status = vocabulary_open(b.model, &b.vocabulary);
    if (!status) status = sampling_check_tokens(&b.sampling, b.vocabulary.info.n_tokens);
    if (!status) status = constraint_open(b.model, &b.constraint, &b.grammar);
    if (!status) status = reasoning_limit_open(arguments, b.model, &b.reasoning);
    if (!status) status = batch_take_fingerprint(&b);
    if (!status) status = open_input(&b);
    if (!status) status = batch_open_output(&b);
    bool complete = !status && b.n_total > 0 && b.n_read == b.n_total;
    if (!status && !complete) status = open_context(&b);
    if (!status && !complete) {
        run_batch(&b);
        status = b.status;
    }
    int exit_status = status && !interrupted ? command_fail() : status ? 0 : print_end(&b);
    batch_close(&b);
    return exit_status;
}
