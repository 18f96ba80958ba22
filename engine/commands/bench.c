/* bench.c: `engine bench`: how fast a model runs here: prefill (many tokens at once) and decode (one by one),
 * and the memory bandwidth that decoding reaches. Uses random tokens, because their values don't affect the
 * time. */
#include <stdlib.h>

#include "commands/common.h"
#include "commands/json.h"

/* Tokens per second of the runs. */
struct speed {
    double median, min, max;
};

struct bench {
    const struct arguments *arguments;
    const char *path; /* of the model */
    struct engine_context *context;
    struct engine_context_info info;
    struct engine_plan_totals plan;
    int32_t *tokens; /* [the longer of the two parts, plus the depth] */
    float *logits;   /* [n_vocab] */
    double *speeds;  /* [repetitions] scratch */
    struct speed prefill, decode;
};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct speed summary(double *speeds, uint32_t count)
{
    qsort(speeds, count, sizeof *speeds, compare);
    double median = (speeds[(count - 1) / 2] + speeds[count / 2]) / 2;
    return (struct speed){median, speeds[0], speeds[count - 1]};
}

static int run_prefill(struct bench *b, uint32_t count)
{
    return prefill(b->context, b->tokens, count, b->logits, NULL);
}

static int run_decode(struct bench *b, uint32_t count)
{
    int status = ENGINE_OK;
    for (uint32_t i = 0; i < count && !status && !interrupted; i++) {
        struct engine_batch batch = {.struct_size = sizeof batch, .n_tokens = 1, .tokens = &b->tokens[i]};
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
static int measure(struct bench *b, int (*run)(struct bench *, uint32_t), uint32_t count, struct speed *speed)
{
    uint32_t repetitions = b->arguments->repetitions;
    if (count == 0) return ENGINE_OK;
    int status = run(b, count < 16 ? count : run == run_decode ? 4 : count);
    for (uint32_t r = 0; r < repetitions && !status && !interrupted; r++) {
        status = go_back(b);
        double start = seconds_now();
        if (!status) status = run(b, count);
        b->speeds[r] = count / (seconds_now() - start);
    }
    if (!status) status = go_back(b);
    *speed = summary(b->speeds, repetitions);
    return status;
}

/* Bytes that must move for one token: all weights, and the cache of the positions before it: the depth, and
 * on average half of the new ones. */
static uint64_t bytes_per_token(const struct bench *b)
{
    uint64_t positions = b->arguments->depth + (uint64_t)b->arguments->n_predict / 2;
    return b->plan.read_bytes + b->plan.cache / b->info.n_cache * positions;
}

static void print_for_people(const struct bench *b)
{
    const struct arguments *a = b->arguments;
    if (a->n_prompt)
        printf("prefill  %6u tokens  %10.2f tokens/s  (%.2f to %.2f)\n", a->n_prompt, b->prefill.median,
               b->prefill.min, b->prefill.max);
    if (a->n_predict)
        printf("decode   %6u tokens  %10.2f tokens/s  (%.2f to %.2f)\n", a->n_predict, b->decode.median,
               b->decode.min, b->decode.max);
    if (a->n_predict)
        printf("%s read per decoded token: %.2f GB/s\n", size_text(bytes_per_token(b)).text,
               (double)bytes_per_token(b) * b->decode.median * 1e-9);
    printf("median of %u runs, %u threads", a->repetitions, b->info.n_threads);
    if (a->depth) printf(", after %u tokens", a->depth);
    printf("\n");
}

static json_t *part(uint32_t tokens, const struct speed *speed)
{
    return json_pack("{s:i, s:{s:f, s:f, s:f}}", "tokens", (int)tokens, "tok_s", "median", speed->median,
                     "min", speed->min, "max", speed->max);
}

static int print_json(const struct bench *b)
{
    const struct arguments *a = b->arguments;
    json_t *json =
        json_pack("{s:o, s:i, s:i, s:i}", "model", json_line(b->path), "threads", (int)b->info.n_threads,
                  "depth", (int)a->depth, "repetitions", (int)a->repetitions);
    if (a->n_prompt) json_object_set_new(json, "prefill", part(a->n_prompt, &b->prefill));
    if (a->n_predict) {
        json_object_set_new(json, "decode", part(a->n_predict, &b->decode));
        json_object_set_new(json, "bytes_per_token", json_count(bytes_per_token(b)));
        json_object_set_new(json, "bandwidth_bytes_s",
                            json_real((double)bytes_per_token(b) * b->decode.median));
    }
    return json_print(json);
}

static int open_context(struct bench *b, struct engine_model *model)
{
    const struct arguments *a = b->arguments;
    struct engine_context_options options;
    int32_t offload;
    uint32_t longest = a->n_prompt > a->n_predict ? a->n_prompt : a->n_predict;
    context_options(a, &options, &offload);
    if (options.n_context == 0) options.n_context = a->depth + (longest ? longest : 1);
    longest = a->depth > longest ? a->depth : longest;
    int status = engine_context_create(model, &options, &b->context);
    if (status) return status;
    b->info.struct_size = sizeof b->info;
    engine_context_get_info(b->context, &b->info);
    engine_plan_get_totals(engine_context_plan(b->context), &b->plan);
    b->tokens = malloc((longest + 1) * sizeof *b->tokens);
    b->logits = malloc(b->info.n_vocab * sizeof *b->logits);
    b->speeds = calloc(a->repetitions, sizeof *b->speeds);
    if (!b->tokens || !b->logits || !b->speeds)
        return command_error(ENGINE_ERROR_MEMORY, "out of memory (bench)");
    uint32_t random = 1;
    for (uint32_t i = 0; i < longest; i++) {
        random = random * 1664525u + 1013904223u;
        b->tokens[i] = (int32_t)((random >> 8) % b->info.n_vocab);
    }
    return ENGINE_OK;
}

int command_bench(const struct arguments *arguments)
{
    struct bench b = {.arguments = arguments};
    struct engine *engine = NULL;
    struct engine_model *model = NULL;
    int exit_status = 0;
    int status = open_engine(arguments, &engine);
    if (!status) status = open_model(arguments, engine, &model);
    if (!status) b.path = path_of_model(arguments, engine);
    if (!status) status = open_context(&b, model);
    if (!status && arguments->depth) status = run_prefill(&b, arguments->depth);
    if (!status) status = measure(&b, run_prefill, arguments->n_prompt, &b.prefill);
    if (!status) status = measure(&b, run_decode, arguments->n_predict, &b.decode);
    if (status && !interrupted)
        exit_status = command_fail();
    else if (!interrupted && arguments->json)
        exit_status = print_json(&b);
    else if (!interrupted)
        print_for_people(&b);
    engine_context_destroy(b.context);
    engine_model_close(model);
    engine_close(engine);
    free(b.tokens);
    free(b.logits);
    free(b.speeds);
    return exit_status;
}
