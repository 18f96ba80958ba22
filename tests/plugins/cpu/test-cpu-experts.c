/* test-cpu-experts.c: the CPU plugin's matmuls with weights of several matrices: each column of each slot
 * must come out as the matmul with that one matrix gives it, to the bit, on odd sizes, for each instruction
 * set. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend-fixture.h"
#include "cpu-settings.h"
#include "operation-cases.h"
#include "sample.h"

struct experts_case {
    uint32_t type, k, rows, n, used, tokens; /* used 0: a matrix for each head */
    bool shared, bias, gate, mix, residual, in_place;
    uint32_t gate_type; /* 0: type */
    uint32_t activation;
    float scale;
    struct fixture_gaps gaps;
};

/* Data of a case. The first tokens and matrices are the same however many there are. */
struct experts_data {
    uint8_t *weight, *gate;
    float *input, *bias, *residual, *mix;
    int32_t *experts;
};

static uint32_t slots_of(const struct experts_case *c)
{
    return c->used ? c->used : c->n;
}

static uint32_t gate_type_of(const struct experts_case *c)
{
    return c->gate_type ? c->gate_type : c->type;
}

/* Different experts for each token, unevenly: the last ones are rarely chosen. */
static int32_t *random_experts(uint64_t *seed, const struct experts_case *c)
{
    int32_t *experts = malloc((size_t)c->used * c->tokens * sizeof *experts);
    for (uint32_t t = 0; t < c->tokens; t++)
        for (uint32_t s = 0; s < c->used; s++) {
            int32_t *chosen = experts + (size_t)t * c->used, e;
            bool taken;
            do {
                e = (int32_t)(random_bits(seed) % c->n);
                if (e > 2 && random_bits(seed) % 2) e /= 2;
                taken = false;
                for (uint32_t i = 0; i < s; i++) taken = taken || chosen[i] == e;
            } while (taken);
            chosen[s] = e;
        }
    return experts;
}

static struct experts_data experts_data(struct fixture *fixture, const struct experts_case *c)
{
    uint64_t seeds[] = {c->type + 1, c->k, c->rows, c->n, 5, 6, 7};
    size_t n_inputs = (size_t)c->tokens * (c->shared ? 1 : slots_of(c));
    return (struct experts_data){
        fixture_hold(fixture, random_weight(&seeds[0], c->type, c->k, (uint64_t)c->rows * c->n)),
        fixture_hold(fixture, random_weight(&seeds[1], gate_type_of(c), c->k, (uint64_t)c->rows * c->n)),
        fixture_hold(fixture, random_floats(&seeds[2], n_inputs * c->k)),
        fixture_hold(fixture, random_floats(&seeds[3], (size_t)c->rows * c->n)),
        fixture_hold(fixture, random_floats(&seeds[4], (size_t)c->rows * c->tokens)),
        fixture_hold(fixture, random_floats(&seeds[5], (size_t)c->tokens * slots_of(c))),
        c->used ? fixture_hold(fixture, random_experts(&seeds[6], c)) : NULL,
    };
}

/* ---- Weights of three dimensions ------------------------------------------------------------------- */

struct matrices {
    struct engine_tensor tensor;
    struct engine_weight *weight;
};

static void make_matrices(struct fixture *fixture, uint32_t type, const struct experts_case *c,
                          const void *data, struct matrices *made)
{
    struct engine_weight_desc desc = {.struct_size = sizeof desc,
                                      .name = "experts",
                                      .type = type,
                                      .type_name = format_of(type)->name,
                                      .ne = {c->k, c->rows, c->n, 1},
                                      .uses = ENGINE_WEIGHT_MATRICES,
                                      .data = data,
                                      .data_size = format_bytes(type, c->k) * c->rows * c->n};
    cr_assert_eq(fixture->api->weight_create(fixture->device, &desc, &made->weight), ENGINE_OK, "%s",
                 fixture_message());
    uint64_t row = format_bytes(type, c->k);
    made->tensor =
        (struct engine_tensor){.struct_size = sizeof made->tensor,
                               .type = type,
                               .weight = made->weight,
                               .ne = {c->k, c->rows, c->n, 1},
                               .nb = {format_of(type)->block_size, row, row * c->rows, row * c->rows * c->n}};
}

/* ---- Both ways ------------------------------------------------------------------------------------- */

/* The operation itself; its output dense, to be freed. */
static float *run_experts(struct fixture *fixture, const struct experts_case *c,
                          const struct experts_data *data)
{
    struct matrices weight, gate = {0};
    make_matrices(fixture, c->type, c, data->weight, &weight);
    if (c->gate) make_matrices(fixture, gate_type_of(c), c, data->gate, &gate);
    uint32_t n_slots = slots_of(c);
    struct engine_tensor *residual =
        c->residual ? fixture_strided(fixture, c->rows, c->tokens, 1, &c->gaps, data->residual) : NULL;
    struct engine_tensor *output = residual;
    if (!c->in_place && c->mix)
        output = fixture_strided(fixture, c->rows, c->tokens, 1, &c->gaps, NULL);
    else if (!c->in_place)
        output = fixture_strided(fixture, c->rows, n_slots, c->tokens, &c->gaps, NULL);
    struct engine_op_matmul args = {
        .struct_size = sizeof args,
        .weight = &weight.tensor,
        .input = fixture_strided(fixture, c->k, c->shared ? 1 : n_slots, c->tokens, &c->gaps, data->input),
        .output = output,
        .gate = c->gate ? &gate.tensor : NULL,
        .bias = c->bias ? fixture_weight(fixture, ENGINE_TYPE_F32, c->rows, c->n, ENGINE_WEIGHT_VALUES, false,
                                         data->bias)
                        : NULL,
        .residual = residual,
        .activation = c->activation,
        .scale = c->scale,
        .experts = c->used ? fixture_i32(fixture, c->used, c->tokens, data->experts) : NULL,
        .mix = c->mix ? fixture_f32(fixture, c->used, c->tokens, 1, data->mix) : NULL,
    };
    fixture_run(fixture, ENGINE_OP_MATMUL, &args);
    float *result = fixture_read(fixture, output);
    fixture->api->weight_destroy(weight.weight);
    fixture->api->weight_destroy(gate.weight);
    return result;
}

/* Every column times matrix e alone: [rows, inputs, tokens], to be freed. */
static float *run_one(struct fixture *fixture, const struct experts_case *c, const struct experts_data *data,
                      uint32_t e)
{
    size_t size = format_bytes(c->type, c->k) * c->rows,
           gate_size = format_bytes(gate_type_of(c), c->k) * c->rows;
    uint32_t n_inputs = c->tokens * (c->shared ? 1 : slots_of(c));
    struct engine_op_matmul args = {
        .struct_size = sizeof args,
        .weight = fixture_weight(fixture, c->type, c->k, c->rows, ENGINE_WEIGHT_MATMUL, false,
                                 data->weight + e * size),
        .input = fixture_f32(fixture, c->k, n_inputs, 1, data->input),
        .output = fixture_f32(fixture, c->rows, n_inputs, 1, NULL),
        .gate = c->gate ? fixture_weight(fixture, gate_type_of(c), c->k, c->rows, ENGINE_WEIGHT_MATMUL, false,
                                         data->gate + e * gate_size)
                        : NULL,
        .bias = c->bias ? fixture_weight(fixture, ENGINE_TYPE_F32, c->rows, 1, ENGINE_WEIGHT_VALUES, false,
                                         data->bias + (size_t)e * c->rows)
                        : NULL,
        .activation = c->activation,
        .scale = c->scale};
    fixture_run(fixture, ENGINE_OP_MATMUL, &args);
    return fixture_read(fixture, args.output);
}

/* What the slots of a token should come to: rows values each, one after the other. */
static void expect_token(const struct experts_case *c, const struct experts_data *data, float *const *each,
                         uint32_t t, float *wanted)
{
    uint32_t n_slots = slots_of(c);
    for (uint32_t s = 0; s < n_slots; s++) {
        uint32_t e = c->used ? (uint32_t)data->experts[t * c->used + s] : s;
        size_t column = c->shared ? t : (size_t)t * n_slots + s;
        memcpy(wanted + (size_t)s * c->rows, each[e] + column * c->rows, c->rows * sizeof *wanted);
    }
}

static void compare_mixed(const struct experts_case *c, const struct experts_data *data, const float *slots,
                          uint32_t t, const float *got)
{
    for (uint32_t m = 0; m < c->rows; m++) {
        double sum = 0, size = 1;
        for (uint32_t s = 0; s < c->used; s++) {
            double term = (double)data->mix[t * c->used + s] * (double)slots[(size_t)s * c->rows + m];
            sum += term, size += fabs(term);
        }
        if (c->residual) sum += (double)data->residual[(size_t)t * c->rows + m];
        cr_assert(fabs(sum - (double)got[m]) <= 1e-6 * (size + fabs(sum)), "token %u, row %u: %g, not %g", t,
                  m, (double)got[m], sum);
    }
}

static void compare_on(struct fixture *fixture, const char *isa, const struct experts_case *c)
{
    struct experts_data data = experts_data(fixture, c);
    float **each = fixture_room(fixture, c->n, sizeof *each);
    for (uint32_t e = 0; e < c->n; e++) each[e] = fixture_hold(fixture, run_one(fixture, c, &data, e));
    size_t n_slots = slots_of(c), per_token = (c->mix ? 1 : n_slots) * c->rows;
    float *wanted = fixture_room(fixture, n_slots * c->rows, sizeof *wanted);
    float *got = fixture_hold(fixture, run_experts(fixture, c, &data));
    for (uint32_t t = 0; t < c->tokens; t++) {
        expect_token(c, &data, each, t, wanted);
        if (c->mix)
            compare_mixed(c, &data, wanted, t, got + t * per_token);
        else
            cr_assert(memcmp(wanted, got + t * per_token, per_token * sizeof *wanted) == 0,
                      "%s: %s, [%u, %u, %u], token %u of %u differs from what its matrices alone give", isa,
                      format_of(c->type)->name, c->k, c->rows, c->n, t, c->tokens);
    }
    fixture_clear(fixture);
}

/* Cases of a test, on every available instruction set, with several threads and alone; emulated, a third
 * of them, only with several. */
static void compare(const struct experts_case *cases, size_t n)
{
    static size_t n_calls;
    const size_t step = all_unless(SANITIZED || EMULATED, 1, 3), first = n_calls++ % step % n;
    for (size_t i = 0; i < N_CPU_ISAS; i++)
        for (uint32_t threads = all_unless(EMULATED, 1, 3); threads <= 3; threads += 2) {
            struct fixture fixture;
            if (!cpu_open(&fixture, cpu_isas[i], threads)) break;
            for (size_t j = first; j < n; j += step) compare_on(&fixture, cpu_isas[i], &cases[j]);
            fixture_close(&fixture);
        }
}

static uint32_t whole_blocks(uint32_t k, uint32_t type)
{
    uint32_t length = (uint32_t)format_of(type)->block_length;
    return (k + length - 1) / length * length;
}

/* ---- Tests ----------------------------------------------------------------------------------------- */

Test(cpu_experts, every_type)
{
    for (size_t i = 0; i < COUNT(weight_types); i++) {
        uint32_t type = weight_types[i], k = whole_blocks(i % 2 ? 64 : 288, type);
        struct experts_case cases[] = {
            {type, k, 20, 5, 2, 1, .shared = true},   {type, k, 20, 5, 2, 1, .shared = false},
            {type, k, 20, 5, 2, 2, .shared = true},   {type, k, 33, 7, 3, 40, .shared = true},
            {type, k, 33, 7, 3, 40, .shared = false}, {type, k, 17, 4, 0, 1, .shared = false},
            {type, k, 17, 4, 0, 30, .scale = -0.5f},
        };
        compare(cases, COUNT(cases));
    }
}

Test(cpu_experts, types_that_stay_as_in_the_file)
{
    const struct format *format;
    for (size_t i = 0; (format = format_at(i)); i++) {
        if (!format->is_weight) continue;
        struct experts_case cases[] = {
            {format->type, whole_blocks(32, format->type), 17, 3, 2, 9, .shared = true}};
        compare(cases, 1);
    }
}

Test(cpu_experts, options)
{
    uint32_t silu = ENGINE_ACTIVATION_SILU, types[] = {ENGINE_TYPE_F16, ENGINE_TYPE_Q4_0, ENGINE_TYPE_Q6_K};
    for (size_t i = 0; i < COUNT(types); i++)
        for (uint32_t tokens = 1; tokens < 40; tokens = tokens * 3 + 4) {
            uint32_t type = types[i], k = whole_blocks(96, type);
            struct experts_case cases[] = {
                {type, k, 50, 6, 4, tokens, .shared = true, .bias = true, .scale = 3, .gaps = {12, 4, 0}},
                {type, k, 50, 6, 4, tokens, .bias = true, .activation = silu, .gaps = {64, 0, 0}},
                {type, k, 50, 6, 4, tokens, .shared = true, .gate = true, .activation = silu},
                {type, k, 50, 6, 4, tokens, .gate = true},
                {type, k, 50, 6, 4, tokens, .mix = true},
                {type, k, 50, 6, 4, tokens, .mix = true, .residual = true, .gaps = {20, 0, 0}},
                {type, k, 64, 6, 4, tokens, .mix = true, .residual = true, .in_place = true, .bias = true},
                {type, k, 1100, 2, 2, tokens, .shared = true, .mix = true, .gate = true, .activation = silu},
                {type, k, 50, 6, 1, tokens, .mix = true},
                {type, k, 50, 6, 6, tokens, .shared = true},
                {type, k, 50, 1, 1, tokens, .shared = false},
                {type, k, 50, 1, 0, tokens, .shared = false},
                {type, k, 50, 6, 0, tokens, .gaps = {8, 40, 0}},
            };
            compare(cases, COUNT(cases));
        }
}

Test(cpu_experts, a_gate_of_another_type)
{
    struct experts_case cases[] = {
        {ENGINE_TYPE_Q4_0, 64, 50, 5, 2, 1, .shared = true, .gate = true, .gate_type = ENGINE_TYPE_F16},
        {ENGINE_TYPE_Q4_0, 64, 50, 5, 2, 30, .shared = true, .gate = true, .gate_type = ENGINE_TYPE_F16},
        {ENGINE_TYPE_BF16, 64, 50, 5, 2, 30, .gate = true, .gate_type = ENGINE_TYPE_Q8_0},
    };
    compare(cases, COUNT(cases));
}

/* More columns for an expert than meet a tile at once; experts that nobody chose. */
Test(cpu_experts, many_tokens)
{
    struct experts_case cases[] = {
        {ENGINE_TYPE_Q4_0, 64, 40, 3, 2, 300, .shared = true},
        {ENGINE_TYPE_Q8_0, 2080, 20, 3, 2, 150, .shared = false},
        {ENGINE_TYPE_F32, 33, 20, 100, 2, 20, .shared = true},
        {ENGINE_TYPE_F16, 2100, 20, 3, 2, 20, .shared = true},
        {ENGINE_TYPE_Q4_0, 32, 20, 300, 8, 3, .shared = true},
        {ENGINE_TYPE_Q4_K, 256, 20, 3, 0, 210, .shared = false},
    };
    compare(cases, COUNT(cases));
}

/* Among how many others a token is computed changes nothing, mixed or not. */
Test(cpu_experts, a_token_gives_the_same_in_any_batch)
{
    enum { MOST = 70 };
    for (size_t i = 0; i < N_CPU_ISAS; i++) {
        struct fixture fixture;
        if (!cpu_open(&fixture, cpu_isas[i], 2)) continue;
        for (size_t t = 0; t < COUNT(weight_types); t += all_unless(SANITIZED || EMULATED, 1, 3))
            for (int mix = 0; mix < 2; mix++) {
                uint32_t type = weight_types[t], k = whole_blocks(288, type);
                struct experts_case c = {type,
                                         k,
                                         40,
                                         6,
                                         3,
                                         MOST,
                                         .shared = !mix,
                                         .mix = mix,
                                         .residual = mix,
                                         .gate = true,
                                         .activation = ENGINE_ACTIVATION_SILU};
                struct experts_data data = experts_data(&fixture, &c);
                float *all = fixture_hold(&fixture, run_experts(&fixture, &c, &data));
                size_t per_token = (size_t)(mix ? 1 : 3) * 40 * sizeof *all;
                for (c.tokens = 1; c.tokens < MOST; c.tokens += c.tokens < 14 ? 1 : 17) {
                    float *some = run_experts(&fixture, &c, &data);
                    cr_assert(memcmp(some, all, c.tokens * per_token) == 0, "%s: %s, %u tokens", cpu_isas[i],
                              format_of(type)->name, c.tokens);
                    free(some);
                }
                fixture_clear(&fixture);
            }
        fixture_close(&fixture);
    }
}

/* Matmuls of one input in one stream: by a choice, by another one, and by a third that was written where the
 * first lay. */
Test(cpu_experts, a_choice_that_changes_is_sorted_anew)
{
    struct experts_case c = {ENGINE_TYPE_Q4_0, 64, 20, 5, 2, 8, .shared = true};
    struct fixture fixture;
    fixture_open(&fixture, "cpu", 0, 2, 0);
    struct experts_data data = experts_data(&fixture, &c);
    struct matrices weight;
    make_matrices(&fixture, c.type, &c, data.weight, &weight);
    size_t n = (size_t)c.used * c.tokens;
    int32_t *choices[3];
    struct engine_tensor *ids[3], *outputs[3], *input = fixture_f32(&fixture, c.k, 1, c.tokens, data.input);
    for (int32_t i = 0; i < 3; i++) {
        choices[i] = fixture_room(&fixture, n, sizeof *choices[i]);
        for (size_t j = 0; j < n; j++) choices[i][j] = (data.experts[j] + i) % (int32_t)c.n;
        ids[i] = fixture_i32(&fixture, c.used, c.tokens, choices[i]);
        outputs[i] = fixture_f32(&fixture, c.rows, c.used, c.tokens, NULL);
    }
    /* ACTIVATE without an activation copies whatever bits. */
    struct engine_tensor from = *ids[2], to = *ids[0];
    from.type = to.type = ENGINE_TYPE_F32;
    struct engine_op_activate copy = {.struct_size = sizeof copy, .input = &from, .output = &to};
    for (int i = 0; i < 3; i++) {
        struct engine_op_matmul args = {.struct_size = sizeof args,
                                        .weight = &weight.tensor,
                                        .input = input,
                                        .output = outputs[i],
                                        .experts = ids[i % 2]};
        if (i == 2)
            cr_assert_eq(fixture_enqueue(&fixture, ENGINE_OP_ACTIVATE, &copy), ENGINE_OK, "%s",
                         fixture_message());
        cr_assert_eq(fixture_enqueue(&fixture, ENGINE_OP_MATMUL, &args), ENGINE_OK, "%s", fixture_message());
    }
    cr_assert_eq(fixture.api->stream_wait(fixture.stream), ENGINE_OK, "%s", fixture_message());
    for (int i = 0; i < 3; i++) {
        float *got = fixture_hold(&fixture, fixture_read(&fixture, outputs[i]));
        data.experts = choices[i];
        float *wanted = fixture_hold(&fixture, run_experts(&fixture, &c, &data));
        cr_assert(memcmp(got, wanted, n * c.rows * sizeof *got) == 0, "choice %d", i);
    }
    fixture.api->weight_destroy(weight.weight);
    fixture_close(&fixture);
}

/* As of a router in the same stream: until it has run, there are no numbers of experts. They come at the end
 * of a long row that is copied, by one thread. */
Test(cpu_experts, a_choice_is_waited_for)
{
    enum { LENGTH = 1 << 21 };
    for (uint32_t tokens = 1; tokens < 10; tokens += 8) {
        struct experts_case c = {ENGINE_TYPE_Q4_0, 2080, 20, 5, 2, tokens, .shared = false};
        struct fixture fixture;
        fixture_open(&fixture, "cpu", 0, 2, 0);
        struct experts_data data = experts_data(&fixture, &c);
        struct matrices weight;
        make_matrices(&fixture, c.type, &c, data.weight, &weight);
        size_t n = (size_t)c.used * c.tokens, size = n * sizeof *data.experts;
        int32_t *none = fixture_room(&fixture, n, sizeof *none);
        for (size_t i = 0; i < n; i++) none[i] = -1;
        float *zeros = fixture_room(&fixture, LENGTH, sizeof *zeros);
        struct engine_op_activate copy = {.struct_size = sizeof copy,
                                          .input = fixture_f32(&fixture, LENGTH, 1, 1, zeros),
                                          .output = fixture_f32(&fixture, LENGTH, 1, 1, zeros)};
        const struct engine_tensor *from = copy.input, *to = copy.output;
        struct engine_tensor ids = *fixture_i32(&fixture, c.used, c.tokens, none);
        ids.buffer = to->buffer;
        ids.offset = to->offset + LENGTH * sizeof *zeros - size;
        fixture.api->write(fixture.stream, from->buffer, from->offset + LENGTH * sizeof *zeros - size,
                           data.experts, size);
        struct engine_op_matmul args = {.struct_size = sizeof args,
                                        .weight = &weight.tensor,
                                        .input = fixture_f32(&fixture, c.k, c.used, c.tokens, data.input),
                                        .output = fixture_f32(&fixture, c.rows, c.used, c.tokens, NULL),
                                        .experts = &ids};
        for (int i = 0; i < 20; i++) {
            fixture.api->write(fixture.stream, ids.buffer, ids.offset, none, size);
            fixture_enqueue(&fixture, ENGINE_OP_ACTIVATE, &copy);
            fixture_enqueue(&fixture, ENGINE_OP_MATMUL, &args);
            cr_assert_eq(fixture.api->stream_wait(fixture.stream), ENGINE_OK, "%s", fixture_message());
        }
        fixture.api->weight_destroy(weight.weight);
        fixture_close(&fixture);
    }
}

Test(cpu_experts, a_number_out_of_range_is_an_error)
{
    for (uint32_t tokens = 1; tokens < 6; tokens += 4)
        for (int bad = -1; bad <= 5; bad += 6) {
            struct experts_case c = {ENGINE_TYPE_Q4_0, 64, 20, 5, 2, tokens, .shared = true};
            struct fixture fixture;
            fixture_open(&fixture, "cpu", 0, 2, 0);
            struct experts_data data = experts_data(&fixture, &c);
            data.experts[c.used * tokens - 1] = bad;
            struct matrices weight;
            make_matrices(&fixture, c.type, &c, data.weight, &weight);
            struct engine_op_matmul args = {.struct_size = sizeof args,
                                            .weight = &weight.tensor,
                                            .input = fixture_f32(&fixture, c.k, 1, c.tokens, data.input),
                                            .output = fixture_f32(&fixture, c.rows, c.used, c.tokens, NULL),
                                            .experts = fixture_i32(&fixture, c.used, c.tokens, data.experts)};
            fixture_enqueue(&fixture, ENGINE_OP_MATMUL, &args);
            cr_assert_eq(fixture.api->stream_wait(fixture.stream), ENGINE_ERROR_ARGUMENT);
            fixture.api->weight_destroy(weight.weight);
            fixture_close(&fixture);
        }
}
