/* sequences.c: how fast several sequences go at once; prints a line of JSON for each number of them:
 * {"sequences", "prefill", "decode"}, tokens per second of all sequences together.
 *
 *   sequences MODEL.gguf SEQUENCES,… [THREADS [PROMPT [PREDICT]]]
 *
 * As llama-batched-bench does it: every sequence gets a prompt of its own (128 tokens), then each step takes one token
 * of every sequence (32 steps) and gives the logits of all of them. Random tokens: what they say doesn't matter to the
 * time. One context serves all numbers, in the order given; a short run of each warms up what is made for its shapes.
 *
 *   cc -O2 -I include -I . -o /tmp/sequences tools/bench/sequences.c -L build/lib -Wl,-rpath,$PWD/build/lib -lengine */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "engine.h"

enum { BATCH = 512, WARM_STEPS = 2 };

struct run {
    struct engine_context *context;
    uint32_t n_vocab, n_prompt, n_predict;
    uint32_t random;
    float *logits; /* [sequences][n_vocab] */
    int32_t tokens[BATCH], sequences[BATCH];
    uint8_t wanted[BATCH];
};

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void check(int status)
{
    if (status == ENGINE_OK) return;
    fprintf(stderr, "sequences: %s\n", engine_error_message());
    exit(1);
}

static void decode(struct run *run, size_t n)
{
    struct engine_batch batch = {.struct_size = sizeof batch,
                                 .n_tokens = n,
                                 .tokens = run->tokens,
                                 .sequences = run->sequences,
                                 .wanted = run->wanted};
    if (n) check(engine_decode(run->context, &batch, run->logits));
}

static void put(struct run *run, size_t i, uint32_t sequence, int wanted)
{
    run->random = run->random * 1664525u + 1013904223u;
    run->tokens[i] = (int32_t)((run->random >> 8) % run->n_vocab);
    run->sequences[i] = (int32_t)sequence;
    run->wanted[i] = (uint8_t)wanted;
}

/* The prompts of all sequences, one behind the other, in batches as full as can be. */
static void prefill(struct run *run, uint32_t n)
{
    size_t filled = 0;
    for (uint32_t s = 0; s < n; s++)
        for (uint32_t i = 0; i < run->n_prompt; i++) {
            put(run, filled++, s, i + 1 == run->n_prompt);
            if (filled == BATCH) decode(run, filled), filled = 0;
        }
    decode(run, filled);
}

static void predict(struct run *run, uint32_t n, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++) {
        for (uint32_t s = 0; s < n; s++) put(run, s, s, 1);
        decode(run, n);
    }
}

static void forget(struct run *run, uint32_t n)
{
    for (uint32_t s = 0; s < n; s++) check(engine_sequence_truncate(run->context, s, 0));
}

static void measure(struct run *run, uint32_t n)
{
    prefill(run, n);
    predict(run, n, WARM_STEPS);
    forget(run, n);
    double begin = seconds_now();
    prefill(run, n);
    double middle = seconds_now();
    predict(run, n, run->n_predict);
    double end = seconds_now();
    forget(run, n);
    printf("{\"sequences\": %u, \"prefill\": %.1f, \"decode\": %.1f}\n", n,
           n * run->n_prompt / (middle - begin), n * run->n_predict / (end - middle));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: sequences MODEL.gguf SEQUENCES,... [THREADS [PROMPT [PREDICT]]]\n");
        return 2;
    }
    static struct run run = {.random = 1};
    uint32_t most = 0;
    for (char *at = argv[2]; *at; at += *at == ',') {
        uint32_t n = (uint32_t)strtoul(at, &at, 10);
        if (n < 1 || n > BATCH || (*at && *at != ',')) {
            fprintf(stderr, "sequences: '%s' must be numbers from 1 to %d with commas between\n", argv[2],
                    BATCH);
            return 2;
        }
        most = n > most ? n : most;
    }
    run.n_prompt = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 128;
    run.n_predict = argc > 5 ? (uint32_t)strtoul(argv[5], NULL, 10) : 32;

    struct engine *engine;
    struct engine_model *model;
    struct engine_context_info info = {.struct_size = sizeof info};
    check(engine_open(NULL, &engine));
    check(engine_model_open(engine, argv[1], NULL, &model));
    struct engine_context_options options = {.struct_size = sizeof options,
                                             .n_context = run.n_prompt + run.n_predict + WARM_STEPS,
                                             .n_batch = BATCH,
                                             .n_sequences = most,
                                             .n_threads =
                                                 argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0};
    check(engine_context_create(model, &options, &run.context));
    check(engine_context_get_info(run.context, &info));
    run.n_vocab = info.n_vocab;
    run.logits = malloc((size_t)most * run.n_vocab * sizeof *run.logits);
    if (!run.logits) {
        fprintf(stderr, "sequences: no memory for logits\n");
        return 1;
    }
    for (char *at = argv[2]; *at; at += *at == ',') measure(&run, (uint32_t)strtoul(at, &at, 10));
    free(run.logits);
    engine_context_destroy(run.context);
    engine_model_close(model);
    engine_close(engine);
    return 0;
}
