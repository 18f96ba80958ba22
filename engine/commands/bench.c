/* bench.c: `engine bench`: how fast a model runs here: prefill (many tokens at once) and decode (one by one),
 * and the memory bandwidth that decoding reaches. Uses random tokens, because their values don't affect the
 * time. Several sequences and guesses are in bench-queue.c. */
#include "commands/bench.h"

#include <stdlib.h>

#include "commands/commands.h"
#include "common/assert.h"
#include "common/clock.h"
#include "io/messages.h"
#include "options/open.h"
#include "prompts/prompt.h"

/* One sequence. */
struct single {
    struct bench *bench;
    struct engine_plan_totals plan;
    int32_t *tokens; /* [the longest of the two parts and the depth] */
    struct speed prefill, decode;
};

static int compare_speeds(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct speed bench_summary(double *speeds, uint32_t count)
{
    ENGINE_ASSERT(count > 0);
    qsort(speeds, count, sizeof *speeds, compare_speeds);
    double median = (speeds[(count - 1) / 2] + speeds[count / 2]) / 2;
    return (struct speed){median, speeds[0], speeds[count - 1]};
}

int32_t bench_token(struct bench *b)
{
    b->random = b->random * 1664525u + 1013904223u;
    return (int32_t)((b->random >> 8) % b->info.n_vocab);
}

int bench_open_context(struct bench *b, uint64_t needed, uint32_t n_sequences)
{
    const struct arguments *a = b->arguments;
    struct engine_context_options options;
    int32_t offload;
    context_options(a, &options, &offload);
    if (options.n_context == 0) options.n_context = needed < UINT32_MAX ? (uint32_t)needed : UINT32_MAX;
    options.n_sequences = n_sequences;
    int status = create_context(a, b->model, &options, &b->context);
    if (status) return status;
    b->info.struct_size = sizeof b->info;
    engine_context_get_info(b->context, &b->info);
    if (needed > b->info.n_context)
        return command_error(
            ENGINE_ERROR_ARGUMENT,
            "this needs a context of %llu tokens, but it has only %u: enlarge it with -c, or "
            "lower -p, -n or -d",
            (unsigned long long)needed, b->info.n_context);
    b->logits = malloc((size_t)n_sequences * b->info.n_vocab * sizeof *b->logits);
    b->speeds = calloc(a->repetitions, sizeof *b->speeds);
    if (!b->logits || !b->speeds) return command_error(ENGINE_ERROR_MEMORY, "out of memory (bench)");
    return ENGINE_OK;
}

/* ---- One sequence -------------------------------------------------------------------------------------- */

static int run_prefill(struct single *single, uint32_t count)
{
    struct bench *b = single->bench;
    int status = ENGINE_OK;
    for (uint32_t first = 0; first < count && !status && !interrupted;) {
        uint32_t rest = count - first, n = rest < b->info.n_batch ? rest : b->info.n_batch;
        struct engine_batch batch = {
            .struct_size = sizeof batch, .n_tokens = n, .tokens = single->tokens + first};
        status = engine_decode(b->context, &batch, n == rest ? b->logits : NULL);
        first += n;
    }
    return status;
}

static int run_decode(struct single *single, uint32_t count)
{
    struct bench *b = single->bench;
    int status = ENGINE_OK;
    for (uint32_t i = 0; i < count && !status && !interrupted; i++) {
        struct engine_batch batch = {
            .struct_size = sizeof batch, .n_tokens = 1, .tokens = &single->tokens[i]};
        status = engine_decode(b->context, &batch, b->logits);
    }
    return status;
}

/* Removes everything after the requested depth from the context. */
static int go_back(struct bench *b)
{
    return engine_sequence_truncate(b->context, 0, b->arguments->depth);
}

/* One part, `repetitions` times, after a short run that warms up caches and graphs. */
static int bench_measure(struct single *single, int (*run)(struct single *, uint32_t), uint32_t count,
                         struct speed *speed)
{
    struct bench *b = single->bench;
    uint32_t repetitions = b->arguments->repetitions;
    if (count == 0) return ENGINE_OK;
    int status = run(single, count < 16 ? count : run == run_decode ? 4 : count);
    for (uint32_t r = 0; r < repetitions && !status && !interrupted; r++) {
        status = go_back(b);
        double start = seconds_now();
        if (!status) status = run(single, count);
        b->speeds[r] = count / (seconds_now() - start);
    }
    if (!status) status = go_back(b);
    *speed = bench_summary(b->speeds, repetitions);
    return status;
}

/* Bytes that must move for one token: all weights, and the cache of the positions before it: the depth, and
 * on average half of the new ones. */
static uint64_t bytes_per_token(const struct single *single)
{
    const struct bench *b = single->bench;
    uint64_t positions = b->arguments->depth + (uint64_t)b->arguments->n_predict / 2;
    return single->plan.read_bytes + single->plan.cache / b->info.n_cache * positions;
}

static void print_part(const char *what, uint32_t tokens, const struct speed *speed)
{
    printf("%-8s %6u tokens  %10.2f tokens/s  (%.2f to %.2f)\n", what, tokens, speed->median, speed->min,
           speed->max);
}

static void print_for_people(const struct single *single)
{
    const struct arguments *a = single->bench->arguments;
    if (a->n_prompt) print_part("prefill", a->n_prompt, &single->prefill);
    if (a->n_predict) print_part("decode", a->n_predict, &single->decode);
    if (a->n_predict)
        printf("%s read per decoded token: %.2f GB/s\n", size_text(bytes_per_token(single)).text,
               (double)bytes_per_token(single) * single->decode.median * 1e-9);
    bench_print_method(single->bench);
}

static int print_json(const struct single *single)
{
    const struct arguments *a = single->bench->arguments;
    json_t *json = bench_json(single->bench);
    if (a->n_prompt) json_object_set_new(json, "prefill", bench_json_part(a->n_prompt, &single->prefill));
    if (a->n_predict) {
        json_object_set_new(json, "decode", bench_json_part(a->n_predict, &single->decode));
        json_object_set_new(json, "bytes_per_token", json_count(bytes_per_token(single)));
        json_object_set_new(json, "bandwidth_bytes_s",
                            json_real((double)bytes_per_token(single) * single->decode.median));
    }
    return json_print(json);
}

static int open_single(struct single *single)
{
    struct bench *b = single->bench;
    const struct arguments *a = b->arguments;
    uint32_t longest = a->n_prompt > a->n_predict ? a->n_prompt : a->n_predict;
    int status = bench_open_context(b, (uint64_t)a->depth + longest, 1);
    if (status) return status;
    engine_plan_get_totals(engine_context_plan(b->context), &single->plan);
    longest = a->depth > longest ? a->depth : longest;
    single->tokens = malloc(longest * sizeof *single->tokens);
    if (!single->tokens) return command_error(ENGINE_ERROR_MEMORY, "out of memory (bench)");
    for (uint32_t i = 0; i < longest; i++) single->tokens[i] = bench_token(b);
    return ENGINE_OK;
}

static int bench_single(struct bench *b, int *exit_status)
{
    const struct arguments *a = b->arguments;
    struct single single = {.bench = b};
    int status = open_single(&single);
    if (!status && a->depth) status = run_prefill(&single, a->depth);
    if (!status) status = bench_measure(&single, run_prefill, a->n_prompt, &single.prefill);
    if (!status) status = bench_measure(&single, run_decode, a->n_predict, &single.decode);
    if (!status && !interrupted && a->json)
        *exit_status = print_json(&single);
    else if (!status && !interrupted)
        print_for_people(&single);
    free(single.tokens);
    return status;
}

/* ---- What all have in common --------------------------------------------------------------------------- */

void bench_print_method(const struct bench *b)
{
    const struct arguments *a = b->arguments;
    if (a->repetitions == 1)
        printf("one run, ");
    else
        printf("median of %u runs, ", a->repetitions);
    printf("%s", count_text(b->info.n_threads, "thread", "threads").text);
    if (a->depth) printf(", after %s", count_text(a->depth, "token", "tokens").text);
    printf("\n");
}

json_t *bench_json_part(uint32_t tokens, const struct speed *speed)
{
    return json_pack("{s:i, s:{s:f, s:f, s:f}}", "tokens", (int)tokens, "tok_s", "median", speed->median,
                     "min", speed->min, "max", speed->max);
}

json_t *bench_json(const struct bench *b)
{
    const struct arguments *a = b->arguments;
    return json_pack("{s:o, s:i, s:i, s:i}", "model", json_line(b->path), "threads", (int)b->info.n_threads,
                     "depth", (int)a->depth, "repetitions", (int)a->repetitions);
}

static int check_lengths(const struct arguments *arguments)
{
    int status = bench_check_guesses(arguments);
    if (!status) status = bench_check_sequences(arguments);
    if (!status && arguments->n_prompt == 0 && arguments->n_predict == 0)
        status = command_error(ENGINE_ERROR_ARGUMENT, "bench: -p 0 and -n 0 leave nothing to measure");
    return status;
}

int command_bench(const struct arguments *arguments)
{
    struct bench b = {.arguments = arguments, .random = 1};
    int exit_status = 0;
    int status = check_lengths(arguments);
    if (!status) status = open_engine(arguments, &b.engine);
    if (!status) status = open_model(arguments, b.engine, &b.model);
    if (!status) status = refuse_source(b.model, "bench");
    if (!status) status = refuse_encoder(b.model);
    if (!status) {
        b.path = path_of_model(arguments, b.engine);
        status = arguments->sequences       ? bench_sequences(&b, &exit_status)
                 : wants_guesses(arguments) ? bench_guesses(&b, &exit_status)
                                            : bench_single(&b, &exit_status);
    }
    if (status && !interrupted) exit_status = command_fail();
    engine_context_destroy(b.context);
    engine_model_close(b.model);
    engine_close(b.engine);
    free(b.logits);
    free(b.speeds);
    return exit_status;
}
