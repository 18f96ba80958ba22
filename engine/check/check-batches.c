/* check-batches.c: a device with ENGINE_DEVICE_BATCH_INVARIANT gives each token the same bits, whatever else
 * is in the batch. All tokens run together; then a few of them, alone; then all, but with other values in
 * every second token. */
#include <stdio.h>
#include <string.h>

#include "check/cases.h"
#include "check/formats.h"
#include "check/suite.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { N_TOKENS = 40 };

/* Which of the N_TOKENS run. */
struct selection {
    uint32_t first, count;
    bool others; /* odd ones have other values */
};

/* An operation on a selection. Returns its output, `size` floats for each token, in held memory. */
struct operation {
    const float *(*run)(struct suite *suite, const struct operation *op, const struct selection *selection);
    uint32_t type; /* of weights or of the cache */
    uint32_t n_experts;
    size_t size;
    struct selection selection;
};

static void expect_invariance(struct suite *suite, const void *args)
{
    const struct operation *op = args;
    const struct selection all = {0, N_TOKENS, false}, *some = &op->selection;
    struct fixture *fixture = &suite->fixture;
    struct engine_device_info info = {.struct_size = sizeof info};
    fixture_must(fixture, fixture->api->device_info(suite->device, &info), "device_info");
    if (!(info.flags & ENGINE_DEVICE_BATCH_INVARIANT)) fixture->stop(fixture, FIXTURE_UNCLAIMED, "");
    const float *expected = op->run(suite, op, &all), *got = op->run(suite, op, some);
    uint32_t step = some->others ? 2 : 1;
    for (uint32_t t = 0; t < some->count; t += step)
        for (size_t i = 0; i < op->size; i++) {
            float a = expected[(some->first + t) * op->size + i], b = got[t * op->size + i];
            uint32_t a_bits, b_bits;
            memcpy(&a_bits, &a, sizeof a);
            memcpy(&b_bits, &b, sizeof b);
            if (a_bits == b_bits) continue;
            fixture_fail(fixture,
                         "ENGINE_DEVICE_BATCH_INVARIANT: value %zu of token %u is %.9g among %d tokens, and "
                         "%.9g %s",
                         i, some->first + t, (double)a, N_TOKENS, (double)b,
                         some->others ? "with other values in every second one" : "among those that ran now");
        }
}

/* The same random numbers for each token, except where others are asked for. */
static const float *inputs(struct fixture *fixture, const struct selection *selection, size_t n)
{
    uint64_t seed = 3, other = 4;
    float *values = fixture_hold(fixture, random_floats(&seed, N_TOKENS * n));
    for (size_t i = 0; selection->others && i < N_TOKENS * n; i++)
        if (i / n % 2) values[i] = 100 * random_normal(&other);
    return values + selection->first * n;
}

static const float *read_held(struct fixture *fixture, const struct engine_tensor *tensor)
{
    return fixture_hold(fixture, fixture_read(fixture, tensor));
}

static void batches_describe(struct fixture *fixture, const struct selection *selection)
{
    fixture_describe_more(fixture, ": tokens %u to %u of %d%s", selection->first,
                          selection->first + selection->count - 1, N_TOKENS,
                          selection->others ? ", odd ones with other values" : "");
}

/* ---- Matmul ---------------------------------------------------------------------------------------- */

enum { K = 512, ROWS = 70, N_USED = 2 };

/* Different experts for each token. */
static const int32_t *experts(struct fixture *fixture, const struct operation *op)
{
    int32_t *ids = fixture_room(fixture, (size_t)N_TOKENS * N_USED, sizeof *ids);
    for (uint32_t t = 0; t < N_TOKENS; t++)
        for (uint32_t i = 0; i < N_USED; i++)
            ids[t * N_USED + i] = (int32_t)((t * t + i * (1 + t % 3)) % op->n_experts);
    return ids;
}

static const float *batches_multiply(struct suite *suite, const struct operation *op,
                                     const struct selection *s)
{
    struct fixture *fixture = &suite->fixture;
    uint64_t seed = 7, n = op->n_experts ? op->n_experts : 1;
    const void *data = fixture_hold(fixture, random_weight(&seed, op->type, K, ROWS * n));
    fixture_describe(fixture, "%s [%d, %d]", format_of(op->type)->name, K, ROWS);
    batches_describe(fixture, s);
    struct engine_op_matmul matmul = {.struct_size = sizeof matmul};
    const float *values = inputs(fixture, s, K);
    if (op->n_experts) {
        matmul.weight = fixture_matrices(fixture, op->type, K, ROWS, n, false, data);
        matmul.input = fixture_f32(fixture, K, 1, s->count, values);
        matmul.output = fixture_strided(fixture, ROWS, N_USED, s->count, &(struct fixture_gaps){0}, NULL);
        matmul.experts =
            fixture_i32(fixture, N_USED, s->count, experts(fixture, op) + (size_t)s->first * N_USED);
    } else {
        matmul.weight = fixture_weight(fixture, op->type, K, ROWS, ENGINE_WEIGHT_MATMUL, false, data);
        matmul.input = fixture_f32(fixture, K, s->count, 1, values);
        matmul.output = fixture_strided(fixture, ROWS, s->count, 1, &(struct fixture_gaps){0}, NULL);
    }
    fixture_run(fixture, ENGINE_OP_MATMUL, &matmul);
    return read_held(fixture, matmul.output);
}

/* ---- Attention ------------------------------------------------------------------------------------- */

enum { HEAD = 64, HEADS = 4, KV_HEADS = 2, BLOCK = 32, SEQUENCES = 3, MAX_BLOCKS = 8 };

/* Tokens take turns among sequences of about 250, 120 and 40 positions. */
static const float *batches_attend(struct suite *suite, const struct operation *op, const struct selection *s)
{
    static const int32_t lengths[SEQUENCES] = {250, 120, 40};
    const uint64_t n_blocks = (uint64_t)MAX_BLOCKS * SEQUENCES, ne[4] = {HEAD, BLOCK, KV_HEADS, n_blocks};
    struct fixture *fixture = &suite->fixture;
    int32_t table[MAX_BLOCKS * SEQUENCES], sequences[N_TOKENS], positions[N_TOKENS];
    uint64_t seed = 9;
    for (int32_t i = 0; i < MAX_BLOCKS * SEQUENCES; i++)
        table[i] = i * 5 % (MAX_BLOCKS * SEQUENCES); /* a permutation: 5 and 24 have no common divisor */
    for (int32_t t = 0; t < N_TOKENS; t++) {
        sequences[t] = t % SEQUENCES;
        positions[t] = lengths[t % SEQUENCES] - N_TOKENS / SEQUENCES + t / SEQUENCES - 1;
    }
    fixture_describe(fixture, "%s cache", format_of(op->type)->name);
    batches_describe(fixture, s);
    const void *k = fixture_hold(fixture, random_weight(&seed, op->type, HEAD, n_blocks * BLOCK * KV_HEADS));
    const void *v = fixture_hold(fixture, random_weight(&seed, op->type, HEAD, n_blocks * BLOCK * KV_HEADS));
    struct engine_op_attention attention = {
        .struct_size = sizeof attention,
        .q = fixture_f32(fixture, HEAD, HEADS, s->count, inputs(fixture, s, (size_t)HEAD * HEADS)),
        .k = fixture_tensor(fixture, op->type, ne, k),
        .v = fixture_tensor(fixture, op->type, ne, v),
        .block_table = fixture_i32(fixture, MAX_BLOCKS, SEQUENCES, table),
        .sequences = fixture_i32(fixture, s->count, 1, sequences + s->first),
        .positions = fixture_i32(fixture, s->count, 1, positions + s->first),
        .output = fixture_strided(fixture, HEAD, HEADS, s->count, &(struct fixture_gaps){0}, NULL),
        .scale = 0.125f};
    fixture_run(fixture, ENGINE_OP_ATTENTION, &attention);
    return read_held(fixture, attention.output);
}

/* ---- Rows ------------------------------------------------------------------------------------------ */

static void check_operation(struct suite *suite, const char *what, struct operation op)
{
    static const uint32_t counts[] = {1, 2, 3, 4, 5, 8, 9, 16, 17, 33};
    suite_begin(suite, "batches", "%s", what);
    for (size_t i = 0; i < COUNT(counts); i++)
        for (uint32_t end = 0; end < 2; end++) {
            op.selection = (struct selection){end ? N_TOKENS - counts[i] : 0, counts[i], false};
            suite_try(suite, expect_invariance, &op);
        }
    for (int others = 0; others < 2; others++) { /* again, and with others */
        op.selection = (struct selection){0, N_TOKENS, others};
        suite_try(suite, expect_invariance, &op);
    }
    suite_end(suite);
}

void check_batches(struct suite *suite)
{
    static const uint32_t experts_of[] = {ENGINE_TYPE_F32, ENGINE_TYPE_Q8_0, ENGINE_TYPE_Q4_K},
                          caches[] = {ENGINE_TYPE_F32, ENGINE_TYPE_F16, ENGINE_TYPE_Q8_0};
    char what[40];
    for (size_t i = 0; format_at(i); i++) {
        if (!format_at(i)->is_weight) continue;
        snprintf(what, sizeof what, "matmul %s", format_at(i)->name);
        check_operation(
            suite, what,
            (struct operation){.run = batches_multiply, .type = format_at(i)->type, .size = ROWS});
    }
    for (size_t i = 0; i < COUNT(experts_of); i++) {
        snprintf(what, sizeof what, "experts %s", format_of(experts_of[i])->name);
        check_operation(suite, what,
                        (struct operation){.run = batches_multiply,
                                           .type = experts_of[i],
                                           .n_experts = 8,
                                           .size = (size_t)ROWS * N_USED});
    }
    for (size_t i = 0; i < COUNT(caches); i++) {
        snprintf(what, sizeof what, "attention %s", format_of(caches[i])->name);
        check_operation(
            suite, what,
            (struct operation){.run = batches_attend, .type = caches[i], .size = (size_t)HEAD * HEADS});
    }
}
