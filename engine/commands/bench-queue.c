/* bench-queue.c: what `engine bench` measures through a queue: --sequences, many texts at once; and --lookup
 * and --draft, decode with and without guesses, in turns, at temperature 0. How much guesses gain depends on
 * the text, so the prompt may come from a file. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "commands/bench.h"
#include "common/clock.h"
#include "io/files.h"
#include "io/messages.h"
#include "io/npy.h"
#include "options/open.h"
#include "prompts/prompt.h"

/* ---- Several sequences --------------------------------------------------------------------------------- */

enum { MAX_WIDTHS = 64, MAX_SEQUENCES = 1024, WARM_STEPS = 2 };

/* The numbers of sequences to measure. */
struct widths {
    uint32_t n[MAX_WIDTHS], count, most;
};

struct width_speed {
    struct speed prefill, decode;
};

/* A batch that is being filled. */
struct filling {
    size_t n, n_batch;
    int32_t *tokens, *sequences; /* [n_batch] */
    uint8_t *wanted;             /* [n_batch] */
};

struct bench_run {
    struct bench *bench;
    struct filling filling;
    uint32_t n_deep;            /* sequences that have the tokens of --depth */
    double *prefills, *decodes; /* [repetitions] */
};

static int read_widths(const char *text, struct widths *widths)
{
    *widths = (struct widths){0};
    for (const char *at = text;; at++) {
        char *end = NULL;
        unsigned long n = isdigit((unsigned char)*at) ? strtoul(at, &end, 10) : 0;
        if (n < 1 || n > MAX_SEQUENCES || (*end != ',' && *end != '\0'))
            return command_error(ENGINE_ERROR_ARGUMENT,
                                 "--sequences: '%.100s' must be numbers from 1 to %d, separated by commas",
                                 text, MAX_SEQUENCES);
        if (widths->count == MAX_WIDTHS)
            return command_error(ENGINE_ERROR_ARGUMENT, "--sequences: more than %d numbers", MAX_WIDTHS);
        widths->n[widths->count++] = (uint32_t)n;
        if (n > widths->most) widths->most = (uint32_t)n;
        at = end;
        if (*at == '\0') return ENGINE_OK;
    }
}

int bench_check_sequences(const struct arguments *arguments)
{
    struct widths widths;
    return arguments->sequences ? read_widths(arguments->sequences, &widths) : ENGINE_OK;
}

/* ---- Running ------------------------------------------------------------------------------------------- */

static int bench_flush(struct bench_run *run)
{
    struct filling *f = &run->filling;
    struct engine_batch batch = {.struct_size = sizeof batch,
                                 .n_tokens = f->n,
                                 .tokens = f->tokens,
                                 .sequences = f->sequences,
                                 .wanted = f->wanted};
    if (f->n == 0) return ENGINE_OK;
    f->n = 0;
    return engine_decode(run->bench->context, &batch, run->bench->logits);
}

static int bench_put(struct bench_run *run, uint32_t sequence, bool wanted)
{
    struct filling *f = &run->filling;
    f->tokens[f->n] = bench_token(run->bench);
    f->sequences[f->n] = (int32_t)sequence;
    f->wanted[f->n] = wanted;
    return ++f->n == f->n_batch ? bench_flush(run) : ENGINE_OK;
}

/* `count` tokens of each sequence from `first` on, one sequence after the other, in full batches; no more
 * than `most` tokens in all. */
static int bench_fill(struct bench_run *run, uint32_t first, uint32_t end, uint32_t count, uint64_t most)
{
    int status = ENGINE_OK;
    for (uint32_t s = first; s < end; s++)
        for (uint32_t i = 0; i < count && most > 0 && !status && !interrupted; i++, most--)
            status = bench_put(run, s, i + 1 == count);
    return status ? status : bench_flush(run);
}

static int bench_step(struct bench_run *run, uint32_t n, uint32_t steps)
{
    int status = ENGINE_OK;
    for (uint32_t i = 0; i < steps && !status && !interrupted; i++) {
        for (uint32_t s = 0; s < n && !status; s++) status = bench_put(run, s, true);
        if (!status) status = bench_flush(run);
    }
    return status;
}

static int go_back(struct bench_run *run, uint32_t n)
{
    int status = ENGINE_OK;
    for (uint32_t s = 0; s < n && !status; s++)
        status = engine_sequence_truncate(run->bench->context, s, run->bench->arguments->depth);
    return status;
}

/* A short run prepares what depends on the shapes of batches. */
static int warm_up(struct bench_run *run, uint32_t n)
{
    const struct arguments *a = run->bench->arguments;
    int status = ENGINE_OK;
    if (run->n_deep < n) status = bench_fill(run, run->n_deep, n, a->depth, UINT64_MAX);
    if (run->n_deep < n) run->n_deep = n;
    if (!status) status = bench_fill(run, 0, n, a->n_prompt, run->filling.n_batch);
    if (!status) status = bench_step(run, n, a->n_predict < WARM_STEPS ? a->n_predict : WARM_STEPS);
    return status ? status : go_back(run, n);
}

static int measure_sequences(struct bench_run *run, uint32_t n, struct width_speed *speed)
{
    const struct arguments *a = run->bench->arguments;
    int status = warm_up(run, n);
    for (uint32_t r = 0; r < a->repetitions && !status && !interrupted; r++) {
        double begin = seconds_now();
        status = bench_fill(run, 0, n, a->n_prompt, UINT64_MAX);
        double middle = seconds_now();
        if (!status) status = bench_step(run, n, a->n_predict);
        double end = seconds_now();
        if (!status) status = go_back(run, n);
        run->prefills[r] = (double)n * a->n_prompt / (middle - begin);
        run->decodes[r] = (double)n * a->n_predict / (end - middle);
    }
    speed->prefill = bench_summary(run->prefills, a->repetitions);
    speed->decode = bench_summary(run->decodes, a->repetitions);
    return status;
}

/* ---- Printing ------------------------------------------------------------------------------------------ */

static void print_heading(const struct arguments *a)
{
    printf("sequences");
    if (a->n_prompt) printf("  prefill %6u tokens each, tokens/s", a->n_prompt);
    if (a->n_predict) printf("  decode  %6u tokens each, tokens/s", a->n_predict);
    printf("\n");
}

static void print_speed(const struct speed *speed)
{
    char range[40];
    snprintf(range, sizeof range, "(%.2f to %.2f)", speed->min, speed->max);
    printf("  %10.2f  %-21s", speed->median, range);
}

static void print_width(const struct arguments *a, uint32_t n, const struct width_speed *speed)
{
    printf("%9u", n);
    if (a->n_prompt) print_speed(&speed->prefill);
    if (a->n_predict) print_speed(&speed->decode);
    printf("\n");
    fflush(stdout);
}

static json_t *json_of_width(const struct arguments *a, uint32_t n, const struct width_speed *speed)
{
    json_t *json = json_pack("{s:i}", "sequences", (int)n);
    if (a->n_prompt) json_object_set_new(json, "prefill", bench_json_part(a->n_prompt, &speed->prefill));
    if (a->n_predict) json_object_set_new(json, "decode", bench_json_part(a->n_predict, &speed->decode));
    return json;
}

/* ---- All of it ----------------------------------------------------------------------------------------- */

static int open_run(struct bench_run *run, const struct widths *widths)
{
    struct bench *b = run->bench;
    const struct arguments *a = b->arguments;
    int status = bench_open_context(b, (uint64_t)a->depth + a->n_prompt + a->n_predict, widths->most);
    if (status) return status;
    struct filling *f = &run->filling;
    f->n_batch = b->info.n_batch;
    f->tokens = malloc(f->n_batch * sizeof *f->tokens);
    f->sequences = malloc(f->n_batch * sizeof *f->sequences);
    f->wanted = malloc(f->n_batch);
    run->prefills = calloc(a->repetitions, sizeof *run->prefills);
    run->decodes = calloc(a->repetitions, sizeof *run->decodes);
    if (f->tokens && f->sequences && f->wanted && run->prefills && run->decodes) return ENGINE_OK;
    return command_error(ENGINE_ERROR_MEMORY, "out of memory (bench)");
}

int bench_sequences(struct bench *b, int *exit_status)
{
    const struct arguments *a = b->arguments;
    struct bench_run run = {.bench = b};
    struct widths widths;
    json_t *rows = json_array(), *json;
    int status = read_widths(a->sequences, &widths);
    if (!status) status = open_run(&run, &widths);
    if (!status && !a->json) print_heading(a);
    for (uint32_t i = 0; i < widths.count && !status && !interrupted; i++) {
        struct width_speed speed;
        status = measure_sequences(&run, widths.n[i], &speed);
        if (status || interrupted) break;
        if (a->json)
            json_array_append_new(rows, json_of_width(a, widths.n[i], &speed));
        else
            print_width(a, widths.n[i], &speed);
    }
    if (!status && !interrupted && a->json) {
        json = bench_json(b);
        json_object_set(json, "sequences", rows);
        *exit_status = json_print(json);
    } else if (!status && !interrupted) {
        bench_print_method(b);
    }
    json_decref(rows);
    free(run.filling.tokens);
    free(run.filling.sequences);
    free(run.filling.wanted);
    free(run.prefills);
    free(run.decodes);
    return status;
}

/* ---- Guesses ------------------------------------------------------------------------------------------- */

/* One request, from its first token to its last. */
struct text {
    double first, last; /* when those came, seconds */
    uint32_t n_generated, n_guessed, n_accepted;
    struct engine_queue *queue;
    int status;
};

struct guessing {
    struct bench *bench;
    struct token_list prompt;
    struct draft_model draft;
    struct engine_queue_options with;
    double *plain, *guessed; /* [repetitions] tokens/s */
    struct text last;        /* the last one with guesses */
};

/* Otherwise it is random. */
static bool has_prompt(const struct arguments *arguments)
{
    return arguments->prompt_file || arguments->tokens_file;
}

int bench_check_guesses(const struct arguments *arguments)
{
    int status = guesses_check(arguments);
    if (status) return status;
    if (!wants_guesses(arguments) && has_prompt(arguments))
        return command_error(ENGINE_ERROR_ARGUMENT, "bench: --%s needs --lookup or --draft",
                             arguments->prompt_file ? "file" : "tokens-file");
    if (arguments->prompt_file && arguments->tokens_file)
        return command_error(ENGINE_ERROR_ARGUMENT, "use either --file or --tokens-file");
    if (!wants_guesses(arguments)) return ENGINE_OK;
    const char *option = arguments->lookup ? "lookup" : "draft";
    if (arguments->sequences)
        return command_error(ENGINE_ERROR_ARGUMENT, "--sequences and --%s cannot be combined", option);
    if (arguments->depth)
        return command_error(ENGINE_ERROR_ARGUMENT,
                             "--depth and --%s cannot be combined: decoding begins after the prompt (-p)",
                             option);
    if (arguments->n_predict < 2)
        return command_error(ENGINE_ERROR_ARGUMENT, "--%s: -n must be 2 or more", option);
    return ENGINE_OK;
}

static int read_text(struct guessing *g)
{
    struct vocabulary vocabulary;
    char *text = NULL;
    size_t size;
    const struct arguments *a = g->bench->arguments;
    if (a->tokens_file) {
        int read = npy_read_integers(a->tokens_file, &g->prompt.ids, &g->prompt.count);
        g->prompt.capacity = g->prompt.count;
        return read;
    }
    int status = read_text_file(a->prompt_file, &text, &size);
    if (!status) status = vocabulary_open(g->bench->model, &vocabulary);
    if (!status) status = prompt_encode(&vocabulary, text, size, false, &g->prompt);
    free(text);
    return status;
}

static int draw_prompt(struct guessing *g)
{
    const struct arguments *a = g->bench->arguments;
    int status = ENGINE_OK;
    for (uint32_t i = 0; i < a->n_prompt && !status; i++) {
        int32_t token = bench_token(g->bench);
        status = token_list_add(&g->prompt, &token, 1);
    }
    return status;
}

static int open_guessing(struct guessing *g)
{
    struct bench *b = g->bench;
    const struct arguments *a = b->arguments;
    struct engine_context_options options;
    int32_t offload;
    int status = has_prompt(a) ? read_text(g) : ENGINE_OK;
    uint64_t n_prompt = has_prompt(a) ? g->prompt.count : a->n_prompt;
    if (!status && n_prompt == 0)
        return command_error(ENGINE_ERROR_ARGUMENT,
                             "bench: the prompt is empty; -p, -f or --tokens-file must give one");
    if (!status) status = bench_open_context(b, n_prompt + a->n_predict, 1);
    if (!status && !has_prompt(a)) status = draw_prompt(g);
    if (!status) status = check_tokens(b->arguments, b->context, g->prompt.ids, g->prompt.count);
    if (status) return status;
    context_options(a, &options, &offload);
    options.n_context = b->info.n_context;
    g->with.struct_size = sizeof g->with;
    status = guesses_open(a, b->engine, &options, b->context, &g->draft, &g->with);
    if (status) return status;
    g->plain = calloc(a->repetitions, sizeof *g->plain);
    g->guessed = calloc(a->repetitions, sizeof *g->guessed);
    return g->plain && g->guessed ? ENGINE_OK : command_error(ENGINE_ERROR_MEMORY, "out of memory (bench)");
}

static void take_event(void *user, const struct engine_event *event)
{
    struct text *text = user;
    text->last = seconds_now();
    if (event->n_generated == 1 && text->first == 0) text->first = text->last;
    text->n_generated = event->n_generated;
    text->n_guessed = event->n_guessed;
    text->n_accepted = event->n_accepted;
    if (event->reason == ENGINE_DONE_FAILED)
        text->status = command_error(event->status, "%s", event->message);
    else if (event->reason == ENGINE_DONE_CONTEXT)
        text->status =
            command_error(ENGINE_ERROR, "the context of %u tokens is full after %u: enlarge it with -c",
                          event->n_prompt + event->n_generated, event->n_generated);
    if (interrupted) engine_queue_cancel(text->queue, event->request);
}

/* One text in a queue of its own, which knows nothing of earlier texts. */
static int run_text(const struct guessing *g, const struct engine_queue_options *options, struct text *text)
{
    const struct bench *b = g->bench;
    *text = (struct text){0};
    struct engine_request request = {
        .struct_size = sizeof request,
        .tokens = g->prompt.ids,
        .n_tokens = g->prompt.count,
        .max_tokens = b->arguments->n_predict,
        .flags = ENGINE_REQUEST_IGNORE_END | ENGINE_REQUEST_NO_TEXT,
        .event = take_event,
        .user = text,
    };
    int status = engine_queue_create(b->context, options, &text->queue);
    if (!status) status = engine_queue_submit(text->queue, &request, NULL);
    if (!status) status = engine_queue_run(text->queue, ENGINE_QUEUE_IDLE);
    engine_queue_destroy(text->queue);
    return status ? status : text->status;
}

static double speed_of(const struct text *text)
{
    return (text->n_generated - 1) / (text->last - text->first);
}

static int measure_guesses(struct guessing *g)
{
    struct text text;
    int status = run_text(g, NULL, &text); /* warms up, and leaves the prompt in the cache */
    for (uint32_t r = 0; r < g->bench->arguments->repetitions && !status && !interrupted; r++) {
        status = run_text(g, NULL, &text);
        if (!status) g->plain[r] = speed_of(&text);
        if (!status && !interrupted) status = run_text(g, &g->with, &g->last);
        if (!status) g->guessed[r] = speed_of(&g->last);
    }
    return status;
}

static void print_line(const char *what, uint32_t tokens, const struct speed *speed)
{
    printf("%-16s %6u tokens  %10.2f tokens/s  (%.2f to %.2f)\n", what, tokens, speed->median, speed->min,
           speed->max);
}

int bench_guesses(struct bench *b, int *exit_status)
{
    const struct arguments *a = b->arguments;
    struct guessing g = {.bench = b};
    int status = open_guessing(&g);
    if (!status) status = measure_guesses(&g);
    if (status || interrupted) goto cleanup;

    struct speed plain = bench_summary(g.plain, a->repetitions);
    struct speed guessed = bench_summary(g.guessed, a->repetitions);
    double ratio = guessed.median / plain.median;
    if (a->json) {
        json_t *json = bench_json(b);
        json_object_set_new(json, "prompt_tokens", json_count(g.prompt.count));
        json_object_set_new(json, "decode", bench_json_part(a->n_predict, &plain));
        json_object_set_new(json, "decode_with_guesses", bench_json_part(a->n_predict, &guessed));
        json_object_set_new(json, "ratio", json_real(ratio));
        json_object_set_new(json, "guessed_tokens", json_count(g.last.n_guessed));
        json_object_set_new(json, "accepted_tokens", json_count(g.last.n_accepted));
        *exit_status = json_print(json);
        goto cleanup;
    }
    print_line("decode", a->n_predict, &plain);
    print_line("with guesses", a->n_predict, &guessed);
    printf("%.2f times as fast; guessed: %s, %u of them right\n", ratio,
           count_text(g.last.n_guessed, "token", "tokens").text, g.last.n_accepted);
    printf("after a prompt of %s, ", count_text(g.prompt.count, "token", "tokens").text);
    bench_print_method(b);

cleanup:
    guesses_close(&g.draft);
    free(g.prompt.ids);
    free(g.plain);
    free(g.guessed);
    return status;
}
