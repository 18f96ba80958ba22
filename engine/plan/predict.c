/* predict.c: the functions of engine.h that predict (see predict.h). */
#include "plan/predict.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sized.h"
#include "common/array.h"
#include "common/sized.h"
#include "devices/cluster.h"
#include "devices/measure.h"
#include "kv/cache.h"
#include "plan/steps.h"

#define DEFAULT_PROMPT 512

#define LEAST_PART 20 /* the part of all bytes that a type has whose pace matters */

/* The types of the plan's matrices, those with the most bytes first. */
static size_t find_types(const struct engine_plan *plan, uint32_t types[PACE_TYPES])
{
    uint64_t bytes[PACE_TYPES] = {0}, all = 0;
    size_t n = 0;
    for (size_t i = 0; i < plan->n_weights; i++) {
        const struct plan_weight *weight = &plan->weights[i];
        size_t k = 0;
        if (!(weight->uses & ENGINE_WEIGHT_MATMUL)) continue;
        while (k < n && types[k] != weight->tensor->type) k++;
        if (k == PACE_TYPES) continue;
        if (k == n) types[n++] = weight->tensor->type;
        bytes[k] += weight->tensor->size;
        all += weight->tensor->size;
        for (; k > 0 && bytes[k] > bytes[k - 1]; k--) {
            uint64_t size = bytes[k];
            uint32_t type = types[k];
            bytes[k] = bytes[k - 1], bytes[k - 1] = size;
            types[k] = types[k - 1], types[k - 1] = type;
        }
    }
    while (n > 0 && bytes[n - 1] < all / LEAST_PART) n--;
    return n;
}

/* The graph of n tokens from `position` on. */
static int schedule_batch(const struct engine_plan *plan, uint32_t n, uint64_t position,
                          struct schedule **schedule)
{
    struct shape_key key = plan_full_shape(plan, n, 1, false);
    uint64_t last = position + n < plan->n_context ? position + n : plan->n_context;
    key.table_width = plan_table_width(plan, kv_blocks_for((uint32_t)last));
    return plan_schedule(plan, &key, schedule);
}

/* Adds the product of a node to those of its type, as often as a token goes through such matrices, while
 * these are fewer bytes than tell the pace. *bytes: of all so far. */
static int add_product(struct trial_chain *token, const struct node *node, uint64_t *bytes)
{
    const struct engine_op_matmul *args = &node->args.matmul;
    if (node->op != ENGINE_OP_MATMUL || value_of(args->weight)->kind != VALUE_WEIGHT ||
        args->weight->type != token->type)
        return ENGINE_OK;
    const struct trial_matrix matrix = {args->weight->ne[0], args->weight->ne[1], args->gate != NULL};
    const uint64_t times = args->experts ? args->experts->ne[0] : args->weight->ne[2];
    for (uint64_t i = 0; i < times && *bytes < PACE_BYTES; i++) {
        if (!ARRAY_GROW(token->matrices, token->n)) return error_memory("prediction");
        token->matrices[token->n++] = matrix;
        *bytes += trial_bytes(token->type, &matrix);
    }
    return ENGINE_OK;
}

/* Measures the devices with the products of a token. */
static int measure(struct engine_plan *plan)
{
    uint32_t types[PACE_TYPES];
    struct trial_chain tokens[PACE_TYPES] = {0};
    struct schedule *schedule = NULL;
    const size_t n = find_types(plan, types);
    int status = schedule_batch(plan, 1, 0, &schedule);
    for (size_t t = 0; t < n && !status; t++) {
        uint64_t bytes = 0;
        tokens[t] = (struct trial_chain){.type = types[t], .columns = 1};
        for (size_t i = 0; i < schedule->graph->n_nodes && !status; i++)
            status = add_product(&tokens[t], &schedule->graph->nodes[i], &bytes);
    }
    if (!status) status = devices_measure_pace(&plan->set, tokens, n);
    for (size_t t = 0; t < n; t++) free(tokens[t].matrices);
    schedule_destroy(schedule);
    return status;
}

/* As engine_decode cuts a prompt. Parts of one length share a graph, that of the last of them. */
static int predict_prompt(struct engine_plan *plan, uint32_t n_prompt, bool with_time)
{
    struct plan_phase *phase = &plan->prefill;
    struct schedule *whole = NULL, *rest = NULL;
    const uint32_t most = plan_part(plan, n_prompt), n = (n_prompt + most - 1) / most;
    struct plan_batch *batches = calloc(n, sizeof *batches);
    int status = batches ? ENGINE_OK : error_memory("prediction");
    if (!status) status = schedule_batch(plan, n_prompt - (n - 1) * most, (uint64_t)(n - 1) * most, &rest);
    if (!status && n > 1) status = schedule_batch(plan, most, (uint64_t)(n - 2) * most, &whole);
    for (uint32_t i = 0; i < n && !status; i++) {
        const bool is_last = i == n - 1;
        batches[i] = (struct plan_batch){is_last ? rest : whole, is_last ? n_prompt - i * most : most,
                                         (uint64_t)i * most, is_last};
    }
    *phase = (struct plan_phase){.n_tokens = n_prompt};
    if (!status) status = predict_run(plan, batches, n, with_time, phase->shares, &phase->seconds);
    schedule_destroy(whole);
    schedule_destroy(rest);
    free(batches);
    return status;
}

static int predict_token(struct engine_plan *plan, uint32_t position, bool with_time)
{
    struct plan_phase *phase = &plan->decode;
    struct plan_batch batch = {NULL, 1, position, true};
    struct schedule *schedule = NULL;
    *phase = (struct plan_phase){.n_tokens = 1, .position = position};
    int status = schedule_batch(plan, 1, position, &schedule);
    batch.schedule = schedule;
    if (!status) status = predict_run(plan, &batch, 1, with_time, phase->shares, &phase->seconds);
    schedule_destroy(schedule);
    return status;
}

int engine_plan_predict(struct engine_plan *plan, uint32_t n_prompt, uint32_t with_time)
{
    const uint32_t most = plan->n_context > 1 ? plan->n_context - 1 : 1;
    if (n_prompt == 0) n_prompt = most < DEFAULT_PROMPT ? most : DEFAULT_PROMPT;
    if (plan->info.is_encoder || plan->info.has_source)
        return error_raise(ENGINE_ERROR_UNSUPPORTED, "%s: only decoders' speed can be predicted",
                           plan->architecture->name);
    if (n_prompt > most)
        return error_raise(ENGINE_ERROR_ARGUMENT,
                           "a prompt of %u tokens and one more don't fit into a context of %u (-c)", n_prompt,
                           plan->n_context);
    int status = with_time ? measure(plan) : ENGINE_OK;
    if (!status) status = predict_prompt(plan, n_prompt, with_time != 0);
    if (!status) status = predict_token(plan, n_prompt, with_time != 0);
    return status;
}

static const struct plan_phase *phase_of(const struct engine_plan *plan, uint32_t phase)
{
    return phase == ENGINE_PREFILL ? &plan->prefill : &plan->decode;
}

int engine_plan_get_phase(const struct engine_plan *plan, uint32_t phase, struct engine_plan_phase *out)
{
    int status = SIZED_CHECK(out, engine_plan_phase, seconds);
    if (status) return status;
    const struct plan_phase *known = phase_of(plan, phase);
    const struct engine_plan_phase answer = {.struct_size = sizeof answer,
                                             .n_tokens = known->n_tokens,
                                             .position = known->position,
                                             .seconds = known->seconds};
    sized_write(out, &answer, sizeof answer);
    return ENGINE_OK;
}

int engine_plan_get_share(const struct engine_plan *plan, uint32_t phase, size_t device,
                          struct engine_plan_share *out)
{
    int status = SIZED_CHECK(out, engine_plan_share, message_bytes);
    if (status) return status;
    if (device >= plan->set.n_devices)
        return error_raise(ENGINE_ERROR_ARGUMENT, "the plan has no device %zu", device);
    const struct plan_share *share = &phase_of(plan, phase)->shares[device];
    const struct engine_plan_share answer = {
        .struct_size = sizeof answer,
        .reading = share->reading,
        .computing = share->computing,
        .overhead = share->overhead,
        .messages = share->messages,
        .n_messages = share->n_messages,
        .message_bytes = share->bytes,
    };
    sized_write(out, &answer, sizeof answer);
    return ENGINE_OK;
}

int engine_plan_write_cluster(struct engine_plan *plan, const char *path)
{
    int status = measure(plan);
    return status ? status : cluster_write(&plan->set, path);
}
