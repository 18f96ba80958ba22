/* batches.c: whether batches of several sequences give the logits that each sequence has alone. Every
 * sequence gets random tokens of its own. First come prompts of different lengths in one batch, then steps in
 * which all sequences get one token and one of them more, as when a server decodes and reads a prompt
 * together. The reference is each sequence alone, all at once, on the same devices.
 *
 *   batches-error MODEL.gguf BACKEND OFFLOAD SEQUENCES,… [REFERENCE.gguf]
 *
 * Prints a line for each number of sequences: the number, the relative error ||x - r|| / ||r|| of all logits,
 * and the largest one of a single token. If a value isn't finite, the error is "nan" or "inf". REFERENCE.gguf
 * is another model to compare with. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

enum { LENGTH = 40, MAX_SEQUENCES = 64, MAX_TOKENS = MAX_SEQUENCES * LENGTH, EXTRA = 3 };

struct side {
    struct engine_model *model;
    struct engine_context *context;
};

static uint32_t n_vocab;
static int32_t streams[MAX_SEQUENCES][LENGTH];
static float *expected; /* [MAX_SEQUENCES, LENGTH, n_vocab] */
static float *got;      /* [MAX_TOKENS, n_vocab] */

static void check(int status)
{
    if (status == ENGINE_OK) return;
    fprintf(stderr, "batches-error: %s\n", engine_error_message());
    exit(1);
}

static void open_side(struct engine *engine, const char *path, const char *backend, const char *offload,
                      uint32_t n_sequences, struct side *side)
{
    int32_t layers = strcmp(offload, "all") == 0 ? ENGINE_OFFLOAD_ALL : (int32_t)strtol(offload, NULL, 10);
    struct engine_context_options options = {.struct_size = sizeof options,
                                             .n_context = LENGTH,
                                             .n_sequences = n_sequences,
                                             .cache_type = "f32",
                                             .backends = backend,
                                             .offload = &layers};
    check(engine_model_open(engine, path, NULL, &side->model));
    check(engine_context_create(side->model, &options, &side->context));
}

static void close_side(struct side *side)
{
    engine_context_destroy(side->context);
    engine_model_close(side->model);
}

static void fill_expected(struct engine *engine, const char *path, const char *backend, const char *offload,
                          uint32_t n_sequences)
{
    struct side side;
    struct engine_context_info info = {.struct_size = sizeof info};
    uint8_t wanted[LENGTH];
    uint32_t random = 1;
    open_side(engine, path, backend, offload, 1, &side);
    check(engine_context_get_info(side.context, &info));
    n_vocab = info.n_vocab;
    expected = malloc((size_t)n_sequences * LENGTH * n_vocab * sizeof *expected);
    got = malloc((size_t)n_sequences * LENGTH * n_vocab * sizeof *got);
    if (!expected || !got) {
        fprintf(stderr, "batches-error: out of memory\n");
        exit(1);
    }
    memset(wanted, 1, sizeof wanted);
    for (uint32_t s = 0; s < n_sequences; s++) {
        for (size_t i = 0; i < LENGTH; i++) {
            random = random * 1664525u + 1013904223u;
            streams[s][i] = (int32_t)((random >> 8) % n_vocab);
        }
        struct engine_batch batch = {
            .struct_size = sizeof batch, .n_tokens = LENGTH, .tokens = streams[s], .wanted = wanted};
        check(engine_decode(side.context, &batch, expected + (size_t)s * LENGTH * n_vocab));
        check(engine_sequence_truncate(side.context, 0, 0));
    }
    close_side(&side);
}

/* Sums of squares; `worst`: the largest relative error of a token, squared. */
struct error {
    double difference, reference, worst;
};

static void compare(const float *x, const float *r, struct error *error)
{
    double difference = 0, reference = 0;
    for (uint32_t i = 0; i < n_vocab; i++) {
        double d = (double)x[i] - (double)r[i];
        difference += d * d;
        reference += (double)r[i] * (double)r[i];
    }
    error->difference += difference;
    error->reference += reference;
    /* Not `>` alone, which is false for a NaN. */
    if (!(difference / reference <= error->worst)) error->worst = difference / reference;
}

/* One batch: the next counts[s] tokens of each sequence, in turn. */
static void run_batch(const struct side *side, uint32_t n, size_t *lengths, const size_t *counts,
                      struct error *error)
{
    static int32_t tokens[MAX_TOKENS], sequences[MAX_TOKENS];
    static uint8_t wanted[MAX_TOKENS];
    size_t filled = 0;
    for (uint32_t s = 0; s < n; s++)
        for (size_t i = 0; i < counts[s]; i++) {
            tokens[filled] = streams[s][lengths[s] + i];
            sequences[filled] = (int32_t)s;
            wanted[filled++] = 1;
        }
    struct engine_batch batch = {.struct_size = sizeof batch,
                                 .n_tokens = filled,
                                 .tokens = tokens,
                                 .sequences = sequences,
                                 .wanted = wanted};
    if (filled == 0) return;
    check(engine_decode(side->context, &batch, got));
    const float *row = got;
    for (uint32_t s = 0; s < n; s++)
        for (size_t i = 0; i < counts[s]; i++, row += n_vocab)
            compare(row, expected + (s * (size_t)LENGTH + lengths[s]++) * n_vocab, error);
}

static void measure(const struct side *side, uint32_t n)
{
    struct error error = {0};
    size_t lengths[MAX_SEQUENCES] = {0}, counts[MAX_SEQUENCES];
    for (uint32_t s = 0; s < n; s++) counts[s] = 1 + 7 * s % 30;
    run_batch(side, n, lengths, counts, &error);
    for (uint32_t step = 0; step < LENGTH; step++) {
        for (uint32_t s = 0; s < n; s++) {
            size_t left = LENGTH - lengths[s], count = s == step % n ? 1 + EXTRA : 1;
            counts[s] = count < left ? count : left;
        }
        run_batch(side, n, lengths, counts, &error);
    }
    for (uint32_t s = 0; s < n; s++) check(engine_sequence_truncate(side->context, s, 0));
    printf("%u %.3g %.3g\n", n, sqrt(error.difference / error.reference), sqrt(error.worst));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc != 5 && argc != 6) {
        fprintf(stderr, "usage: batches-error MODEL.gguf BACKEND OFFLOAD SEQUENCES,... [REFERENCE.gguf]\n");
        return 2;
    }
    uint32_t widths[MAX_SEQUENCES], count = 0, most = 0;
    for (char *at = argv[4]; *at; at += *at == ',') {
        unsigned long n = strtoul(at, &at, 10);
        if (n < 1 || n > MAX_SEQUENCES || count == MAX_SEQUENCES || (*at && *at != ',')) {
            fprintf(stderr, "batches-error: '%s' must be numbers from 1 to %d, separated by commas\n",
                    argv[4], MAX_SEQUENCES);
            return 2;
        }
        widths[count++] = (uint32_t)n;
        if (n > most) most = (uint32_t)n;
    }
    struct engine *engine;
    struct side side;
    check(engine_open(NULL, &engine));
    fill_expected(engine, argc > 5 ? argv[5] : argv[1], argv[2], argv[3], most);
    open_side(engine, argv[1], argv[2], argv[3], most, &side);
    struct engine_context_info info = {.struct_size = sizeof info};
    check(engine_context_get_info(side.context, &info));
    if (info.n_vocab != n_vocab) {
        fprintf(stderr, "batches-error: the models have %u and %u tokens\n", info.n_vocab, n_vocab);
        return 1;
    }
    for (uint32_t i = 0; i < count; i++) measure(&side, widths[i]);
    close_side(&side);
    engine_close(engine);
    free(expected);
    free(got);
    return 0;
}
