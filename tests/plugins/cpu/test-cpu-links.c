/* test-cpu-links.c: operations on rows that the CPU plugin runs as one step (op-rows.c) give what they give
 * one by one, to the bit, whatever memory they share; and enough do become one step. Chains of random
 * operations over random parts of one buffer; a wrong answer says its seed. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "backend-fixture.h"
#include "sample.h"

enum {
    TOKENS = 61,
    WIDTH = 1024, /* floats from a token's to the next one's */
    EXTRA = 3,    /* tokens behind: parts may begin later */
    FLOATS = (TOKENS + EXTRA) * WIDTH,
    N_OPS = 7, /* of a chain */
    N_CHAINS = 300,
    N_TRIES = 40 /* to find operands for an operation */
};

static struct fixture fixture;
static struct engine_tensor *memory, *weight;
static uint64_t seed;

static uint32_t below(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

/* A part of the memory: 16 heads of 8, 2 of 64 or a row of 128 of each token, in rows of tokens or dense; or
 * one row. */
static struct engine_tensor part(uint64_t ne0)
{
    static const uint64_t columns[] = {0, 128, 192, 512};
    const bool is_dense = below(4) == 0;
    struct engine_tensor t = *memory;
    t.ne[0] = ne0, t.ne[1] = 128 / ne0, t.ne[2] = TOKENS;
    t.nb[1] = ne0 * sizeof(float), t.nb[2] = (is_dense ? 128 : WIDTH) * sizeof(float);
    if (ne0 == 128) t.ne[1] = TOKENS, t.ne[2] = 1, t.nb[1] = t.nb[2];
    t.nb[3] = t.ne[2] * t.nb[2];
    uint64_t token = below(3) == 0 ? below(EXTRA + 1) : 0;
    t.offset += (token * WIDTH + columns[below(4)]) * sizeof(float);
    return t;
}

/* Marks the floats of a tensor; false: one is marked already. */
static bool mark(const struct engine_tensor *t, bool *marks, bool only_look)
{
    for (uint64_t i = 0; i < t->ne[1] * t->ne[2]; i++) {
        uint64_t at = t->offset - memory->offset + i % t->ne[1] * t->nb[1] + i / t->ne[1] * t->nb[2];
        for (uint64_t j = 0; j < t->ne[0]; j++) {
            bool *m = &marks[at / sizeof(float) + j];
            if (only_look && *m) return false;
            *m = true;
        }
    }
    return true;
}

static bool overlap(const struct engine_tensor *a, const struct engine_tensor *b)
{
    static bool marks[FLOATS];
    memset(marks, 0, sizeof marks);
    mark(a, marks, false);
    return !mark(b, marks, true);
}

static bool is_same(const struct engine_tensor *a, const struct engine_tensor *b)
{
    return a->offset == b->offset && memcmp(a->ne, b->ne, sizeof a->ne) == 0 &&
           memcmp(a->nb, b->nb, sizeof a->nb) == 0;
}

struct operation {
    uint32_t op;
    struct engine_tensor a, b, out;
};

/* An output is an input, or apart from all of them. */
static bool find_operation(struct operation *o)
{
    static const uint32_t ops[] = {ENGINE_OP_ADD, ENGINE_OP_MUL, ENGINE_OP_ACTIVATE, ENGINE_OP_NORM};
    static const uint64_t lengths[] = {8, 64, 128};
    const uint64_t ne0 = lengths[below(3)];
    o->op = ops[below(4)];
    for (int i = 0; i < N_TRIES; i++) {
        o->a = o->out = part(ne0);
        o->b = part(ne0);
        if (below(3) > 0) o->out = part(ne0);
        const uint32_t kind = below(4);
        const bool is_binary = o->op == ENGINE_OP_ADD || o->op == ENGINE_OP_MUL;
        if (is_binary && kind == 1) o->b.ne[1] = o->b.ne[2] = 1;
        if (is_binary && kind == 2) o->b.ne[0] = 1;
        if (is_binary && kind == 3) o->b = *weight, o->b.ne[0] = 128;
        bool apart = is_same(&o->a, &o->out) || !overlap(&o->a, &o->out);
        if (o->op == ENGINE_OP_NORM || (is_binary && kind == 3 && ne0 == 128)) {
            if (apart) return true;
        } else if (apart && kind != 3) {
            if (is_same(&o->b, &o->out) || !overlap(&o->b, &o->out)) return true;
        }
    }
    return false;
}

static void enqueue(const struct operation *o)
{
    const struct engine_op_binary binary = {sizeof binary, &o->a, &o->b, &o->out};
    const struct engine_op_activate activate = {.struct_size = sizeof activate,
                                                .input = &o->a,
                                                .factor = &o->b,
                                                .output = &o->out,
                                                .activation = ENGINE_ACTIVATION_TANH};
    const struct engine_op_norm norm = {.struct_size = sizeof norm,
                                        .input = &o->a,
                                        .output = &o->out,
                                        .kind = ENGINE_NORM_RMS,
                                        .epsilon = 1e-5F};
    const void *args = o->op == ENGINE_OP_ACTIVATE ? (const void *)&activate
                       : o->op == ENGINE_OP_NORM   ? (const void *)&norm
                                                   : (const void *)&binary;
    cr_assert_eq(fixture_enqueue(&fixture, o->op, args), ENGINE_OK, "%s", fixture_message());
}

/* The bits that the memory holds after the operations. */
static uint32_t *run(const struct operation *operations, size_t n, const float *start, bool one_by_one)
{
    const struct engine_backend *api = fixture.api;
    cr_assert_eq(api->write(fixture.stream, memory->buffer, memory->offset, start, FLOATS * sizeof *start),
                 ENGINE_OK);
    for (size_t i = 0; i < n; i++) {
        enqueue(&operations[i]);
        if (one_by_one) cr_assert_eq(api->stream_wait(fixture.stream), ENGINE_OK);
    }
    uint32_t *end = malloc(FLOATS * sizeof *end);
    cr_assert(end);
    cr_assert_eq(api->read(fixture.stream, memory->buffer, memory->offset, end, FLOATS * sizeof *end),
                 ENGINE_OK);
    cr_assert_eq(api->stream_wait(fixture.stream), ENGINE_OK);
    return end;
}

static void try_chains(uint32_t n_threads, unsigned n_chains)
{
    static float start[FLOATS];
    for (size_t i = 0; i < FLOATS; i++) start[i] = (float)below(2000) / 1000 - 1;
    fixture_open(&fixture, "cpu", 0, n_threads, 0);
    memory = fixture_f32(&fixture, WIDTH, TOKENS + EXTRA, 1, start);
    weight = fixture_weight(&fixture, ENGINE_TYPE_F32, 128, 1, ENGINE_WEIGHT_VALUES, false, start);
    const atomic_ulong *joined = dlsym(fixture.library, "cpu_rows_joined");
    cr_assert(joined, "%s", dlerror());
    unsigned long before = atomic_load(joined);
    for (unsigned chain = 0; chain < n_chains; chain++) {
        struct operation operations[N_OPS];
        seed = chain;
        size_t n = 0;
        while (n < N_OPS && find_operation(&operations[n])) n++;
        uint32_t *want = run(operations, n, start, true), *got = run(operations, n, start, false);
        for (size_t i = 0; i < FLOATS; i++)
            cr_assert(got[i] == want[i],
                      "chain %u of %zu operations, %u threads: column %zu of token %zu is %08x, not %08x",
                      chain, n, n_threads, i % WIDTH, i / WIDTH, got[i], want[i]);
        free(want);
        free(got);
    }
    cr_assert_gt(atomic_load(joined) - before, n_chains / 2,
                 "%lu operations of %u chains are run in the step of another", atomic_load(joined) - before,
                 n_chains);
    fixture_close(&fixture);
}

Test(cpu_links, give_what_operations_give_one_by_one)
{
    try_chains(3, all_unless(SANITIZED || EMULATED, N_CHAINS, N_CHAINS / 10));
}

Test(cpu_links, of_one_thread)
{
    try_chains(1, all_unless(SANITIZED || EMULATED, N_CHAINS / 3, N_CHAINS / 30));
}
