/* bench.h: what the parts of `engine bench` share. */
#ifndef ENGINE_COMMANDS_BENCH_H
#define ENGINE_COMMANDS_BENCH_H

#include "engine.h"
#include "io/json.h"
#include "options/arguments.h"

/* Tokens per second of the runs. */
struct speed {
    double median, min, max;
};

struct bench {
    const struct arguments *arguments;
    const char *path; /* of the model */
    struct engine *engine;
    struct engine_model *model;
    struct engine_context *context;
    struct engine_context_info info;
    float *logits;   /* [sequences, n_vocab] */
    double *speeds;  /* [repetitions] of one part */
    uint32_t random; /* state of bench_token */
};

/* Opens the context with room for `needed` tokens in each sequence, unless -c names another length. */
int bench_open_context(struct bench *bench, uint64_t needed, uint32_t n_sequences);

/* A random token: its value does not affect the time. */
int32_t bench_token(struct bench *bench);

struct speed bench_summary(double *speeds, uint32_t count);

/* What all results have in common, and one part of them; NULL: out of memory. */
json_t *bench_json(const struct bench *bench);
json_t *bench_json_part(uint32_t tokens, const struct speed *speed);

/* "median of 3 runs, 2 threads, after 10 tokens" */
void bench_print_method(const struct bench *bench);

/* --sequences: measures and prints. They set *exit_status if only printing fails. */
int bench_check_sequences(const struct arguments *arguments);
int bench_sequences(struct bench *bench, int *exit_status);

/* --lookup and --draft: the same. */
int bench_check_guesses(const struct arguments *arguments);
int bench_guesses(struct bench *bench, int *exit_status);

#endif
