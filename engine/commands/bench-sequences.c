/* bench-sequences.c: `engine bench --sequences`: the speed of several sequences at once, as
 * llama-batched-bench measures it. Each sequence gets a prompt of its own; then each step runs one token of
 * every sequence and gives the logits of all. One context serves all numbers of sequences, in the order
 * given. */
#include <ctype.h>
#include <stdlib.h>

#include "commands/bench.h"
#include "common/clock.h"
#include "io/messages.h"

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

struct run {
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

static int flush(struct run *run)
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

static int put(struct run *run, uint32_t sequence, bool wanted)
{
    struct filling *f = &run->filling;
    f->tokens[f->n] = bench_token(run->bench);
    f->sequences[f->n] = (int32_t)sequence;
    f->wanted[f->n] = wanted;
    return ++f->n == f->n_batch ? flush(run) : ENGINE_OK;
}

/* `count` tokens of each sequence from `first` on, one sequence after the other, in full batches; no more
 * than `most` tokens in all. */
static int fill(struct run *run, uint32_t first, uint32_t end, uint32_t count, uint64_t most)
{
    int status = ENGINE_OK;
    for (uint32_t s = first; s < end; s++)
        for (uint32_t i = 0; i < count && most > 0 && !status && !interrupted; i++, most--)
            status = put(run, s, i + 1 == count);
    return status ? status : flush(run);
}

static int step(struct run *run, uint32_t n, uint32_t steps)
{
    int status = ENGINE_OK;
    for (uint32_t i = 0; i < steps && !status && !interrupted; i++) {
        for (uint32_t s = 0; s < n && !status; s++) status = put(run, s, true);
        if (!status) status = flush(run);
    }
    return status;
}

static int go_back(struct run *run, uint32_t n)
{
    int status = ENGINE_OK;
    for (uint32_t s = 0; s < n && !status; s++)
        status = engine_sequence_truncate(run->bench->context, s, run->bench->arguments->depth);
    return status;
}

/* A short run prepares what depends on the shapes of batches. */
static int warm_up(struct run *run, uint32_t n)
{
    const struct arguments *a = run->bench->arguments;
    int status = ENGINE_OK;
    if (run->n_deep < n) status = fill(run, run->n_deep, n, a->depth, UINT64_MAX);
    if (run->n_deep < n) run->n_deep = n;
    if (!status) status = fill(run, 0, n, a->n_prompt, run->filling.n_batch);
    if (!status) status = step(run, n, a->n_predict < WARM_STEPS ? a->n_predict : WARM_STEPS);
    return status ? status : go_back(run, n);
}

static int measure(struct run *run, uint32_t n, struct width_speed *speed)
{
    const struct arguments *a = run->bench->arguments;
    int status = warm_up(run, n);
    for (uint32_t r = 0; r < a->repetitions && !status && !interrupted; r++) {
        double begin = seconds_now();
        status = fill(run, 0, n, a->n_prompt, UINT64_MAX);
        double middle = seconds_now();
        if (!status) status = step(run, n, a->n_predict);
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

static int open_run(struct run *run, const struct widths *widths)
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
    struct run run = {.bench = b};
    struct widths widths;
    json_t *rows = json_array(), *json;
    int status = read_widths(a->sequences, &widths);
    if (!status) status = open_run(&run, &widths);
    if (!status && !a->json) print_heading(a);
    for (uint32_t i = 0; i < widths.count && !status && !interrupted; i++) {
        struct width_speed speed;
        status = measure(&run, widths.n[i], &speed);
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
