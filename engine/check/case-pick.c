/* case-pick.c: the positions that an indexer picks; see cases.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check/case-cache.h"
#include "check/formats.h"
#include "check/reference.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* With ties, tokens in turn have queries of zeros, and queries that read only the first value of keys, so
 * that half of the products are below zero. */
static void make_ties(const struct pick_case *c, uint32_t n_tokens, float *q)
{
    size_t n = (size_t)c->head_dim * c->n_heads;
    for (size_t t = 0; t < n_tokens; t++)
        for (size_t i = 0; i < n && t % 3 < 2; i++)
            if (t % 3 == 0 || i % c->head_dim > 0) q[t * n + i] = 0;
}

static int falling(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* Fails unless a token that sees n positions may pick these; their scores, in falling order, become `result`,
 * [n_picked]. */
static void check_token(struct fixture *fixture, const struct pick_case *c, const struct case_cache *k,
                        size_t first_row, size_t n, const float *q, const float *weights,
                        const int32_t *picked, float *result)
{
    struct expected *scores = fixture_room(fixture, n + 1, sizeof *scores);
    bool *is_zero = fixture_room(fixture, n + 1, sizeof *is_zero);
    for (size_t j = 0; j < n; j++)
        scores[j] =
            reference_score(q, weights, c->n_heads, k->kept + (first_row + j) * k->dim, k->dim, &is_zero[j]);
    if (!reference_pick_allows(scores, is_zero, n, picked, c->n_picked))
        fixture_fail(fixture, "pick: of %zu positions, a token may not pick %d, … %d", n, picked[0],
                     picked[c->n_picked - 1]);
    for (size_t i = 0; i < c->n_picked; i++) result[i] = picked[i] < 0 ? 0 : (float)scores[picked[i]].value;
    qsort(result, c->n_picked, sizeof *result, falling);
}

float *run_pick_case(struct fixture *fixture, const struct pick_case *c)
{
    const struct attention_case keys = {.k_type = c->k_type,
                                        .head_dim = c->head_dim,
                                        .n_heads = c->n_heads,
                                        .n_kv_heads = 1,
                                        .block_size = c->block_size,
                                        .n_sequences = c->n_sequences,
                                        .length = c->length,
                                        .tokens = c->tokens,
                                        .cache_gaps = c->cache_gaps,
                                        .leave_out = c->leave_out};
    uint64_t seed = c->head_dim + c->length * 17;
    struct case_batch batch = {0};
    fixture_describe(
        fixture, "%s, head size %u, %u heads, blocks of %u, %u sequences from %u, %u tokens, %u picked%s%s",
        format_of(c->k_type)->name, c->head_dim, c->n_heads, c->block_size, c->n_sequences, c->length,
        c->tokens, c->n_picked, c->leave_out ? ", some left out" : "", c->ties ? ", ties" : "");
    case_lay_out(fixture, &keys, &seed, &batch);
    case_choose_tokens(fixture, &keys, &batch);
    struct case_cache k = case_make_cache(fixture, &keys, &batch, c->k_type, c->head_dim, &seed, 0);
    size_t n_q = (size_t)c->head_dim * c->n_heads, n = (size_t)c->n_picked * batch.n_tokens;
    float *q = fixture_hold(fixture, random_floats(&seed, n_q * batch.n_tokens));
    float *weights = fixture_hold(fixture, random_floats(&seed, (size_t)c->n_heads * batch.n_tokens));
    if (c->ties) make_ties(c, batch.n_tokens, q);
    uint64_t table_ne[4] = {batch.max_blocks, c->n_sequences, 1, 1},
             picked_ne[4] = {c->n_picked, batch.n_tokens, 1, 1};
    const struct fixture_gaps table_gaps = {.row = c->table_gap}, gaps = {.row = c->gaps.row};
    struct engine_op_pick args = {
        .struct_size = sizeof args,
        .q = fixture_strided(fixture, c->head_dim, c->n_heads, batch.n_tokens, &c->gaps, q),
        .k = k.tensor,
        .weights = fixture_strided(fixture, c->n_heads, batch.n_tokens, 1, &gaps, weights),
        .block_table = fixture_view(fixture, ENGINE_TYPE_I32, table_ne, &table_gaps, batch.block_table),
        .sequences = fixture_i32(fixture, batch.n_tokens, 1, batch.sequences),
        .positions = fixture_i32(fixture, batch.n_tokens, 1, batch.positions),
        .picked = fixture_view(fixture, ENGINE_TYPE_I32, picked_ne, &gaps, NULL),
    };
    fixture_run(fixture, ENGINE_OP_PICK, &args);
    const int32_t *picked = fixture_hold(fixture, fixture_read_rows(fixture, args.picked));
    float *result = fixture_room(fixture, n, sizeof *result);
    for (size_t t = 0; t < batch.n_tokens; t++)
        check_token(fixture, c, &k, batch.starts[batch.sequences[t]], (size_t)batch.positions[t] + 1,
                    q + t * n_q, weights + t * c->n_heads, picked + t * c->n_picked,
                    result + t * c->n_picked);
    return fixture_release(fixture, result);
}

size_t pick_case_size(const struct pick_case *c)
{
    return (size_t)c->n_picked * c->tokens * c->n_sequences;
}

/* ---- Groups -------------------------------------------------------------------------------------------- */

static const struct pick_case cases[] = {
    {.head_dim = 64,
     .n_heads = 8,
     .block_size = 16,
     .n_sequences = 1,
     .length = 700,
     .tokens = 1,
     .n_picked = 64},
    {.head_dim = 32,
     .n_heads = 4,
     .block_size = 32,
     .n_sequences = 1,
     .length = 90,
     .tokens = 90,
     .n_picked = 20},
    {.head_dim = 96,
     .n_heads = 3,
     .block_size = 7,
     .n_sequences = 3,
     .length = 40,
     .tokens = 7,
     .n_picked = 9,
     .gaps = {8, 4, 0},
     .cache_gaps = {0, 12, 4},
     .table_gap = 8},
    {.head_dim = 128,
     .n_heads = 64,
     .block_size = 32,
     .n_sequences = 2,
     .length = 130,
     .tokens = 12,
     .n_picked = 50,
     .leave_out = true},
    {.head_dim = 32,
     .n_heads = 1,
     .block_size = 8,
     .n_sequences = 4,
     .length = 21,
     .tokens = 1,
     .n_picked = 30},
    {.head_dim = 32,
     .n_heads = 2,
     .block_size = 8,
     .n_sequences = 2,
     .length = 33,
     .tokens = 33,
     .n_picked = 1},
};

static void each_pick(const struct case_group *group, case_visitor *visit, void *user)
{
    static const uint32_t types[] = {ENGINE_TYPE_F32, ENGINE_TYPE_F16, ENGINE_TYPE_Q8_0};
    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t j = 0; j < COUNT(types); j++) {
            struct some_case c = {CASE_PICK, NULL, false, {.pick = cases[i]}};
            c.as.pick.k_type = types[j];
            c.as.pick.ties = group->argument;
            visit(user, &c);
            c.as.pick.n_sequences++;
            c.as.pick.length = cases[i].length / 3 + 1;
            if (c.as.pick.tokens > c.as.pick.length) c.as.pick.tokens = c.as.pick.length;
            c.again = true;
            visit(user, &c);
        }
}

static const struct case_group groups[] = {
    {"pick", "scores", each_pick, false},
    {"pick", "ties", each_pick, true},
};

void each_pick_group(group_visitor *visit, void *user)
{
    for (size_t i = 0; i < COUNT(groups); i++) visit(user, &groups[i]);
}
