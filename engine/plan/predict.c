/* predict.c: the functions of engine.h that predict (see predict.h). */
#include "plan/predict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sized.h"
#include "common/sized.h"
#include "devices/cluster.h"
#include "devices/pace.h"
#include "kv/cache.h"
#include "plan/steps.h"

#define DEFAULT_PROMPT 512

/* The types of the plan's matrices, those with the most bytes first. */
static size_t find_types(const struct engine_plan *plan, uint32_t types[PACE_TYPES])
{
    uint64_t bytes[PACE_TYPES] = {0};
    size_t n = 0;
    for (size_t i = 0; i < plan->n_weights; i++) {
        const struct plan_weight *weight = &plan->weights[i];
        size_t k = 0;
        if (!(weight->uses & ENGINE_WEIGHT_MATMUL)) continue;
        while (k < n && types[k] != weight->tensor->type) k++;
        if (k == PACE_TYPES) continue;
        if (k == n) types[n++] = weight->tensor->type;
        bytes[k] += weight->tensor->size;
        for (; k > 0 && bytes[k] > bytes[k - 1]; k--) {
            uint64_t size = bytes[k];
            uint32_t type = types[k];
            bytes[k] = bytes[k - 1], bytes[k - 1] = size;
            types[k] = types[k - 1], types[k - 1] = type;
        }
    }
    return n;
}

/* Adds a batch of n tokens from `position` on, `times` of them. */
static int add_batch(const struct engine_plan *plan, uint32_t n, uint64_t position, uint64_t times,
                     bool with_time, struct plan_phase *phase)
{
    struct plan_share shares[PLACE_MAX_DEVICES] = {{0}};
    struct plan_batch batch = {NULL, n, position};
    struct schedule *schedule = NULL;
    struct shape_key key = plan_full_shape(plan, n, 1, false);
    uint64_t last = position + n < plan->n_context ? position + n : plan->n_context;
    key.table_width = plan_table_width(plan, kv_blocks_for((uint32_t)last));
    int status = plan_schedule(plan, &key, &schedule);
    if (status) return status;
    batch.schedule = schedule;
    if (with_time) predict_operations(plan, &batch, shares);
    predict_messages(plan, schedule, shares);
    schedule_destroy(schedule);
    for (uint32_t d = 0; d < plan->set.n_devices; d++) {
        struct plan_share *sum = &phase->shares[d];
        const struct plan_share *share = &shares[d];
        sum->reading += (double)times * share->reading;
        sum->computing += (double)times * share->computing;
        sum->overhead += (double)times * share->overhead;
        sum->messages += (double)times * share->messages;
        sum->n_messages += times * share->n_messages;
        sum->bytes += times * share->bytes;
        if (with_time)
            phase->seconds +=
                (double)times * (share->reading + share->computing + share->overhead + share->messages);
    }
    return ENGINE_OK;
}

/* A prompt runs in batches, and these in parts; on average they see half of the prompt. While one device has a part, the
 * others have other parts of the batch. */
static int predict_prefill(struct engine_plan *plan, uint32_t n_prompt, bool with_time)
{
    const uint32_t n_batch = n_prompt < plan->n_batch ? n_prompt : plan->n_batch;
    const uint32_t part = plan_part(plan, n_batch) < n_batch ? plan_part(plan, n_batch) : n_batch;
    const uint32_t whole = n_prompt / part, rest = n_prompt % part;
    const double n_parts = whole + (rest > 0), n_batches = ceil((double)n_prompt / n_batch);
    double slowest = 0;
    struct plan_phase *phase = &plan->prefill;
    *phase = (struct plan_phase){.n_tokens = n_prompt};
    int status = add_batch(plan, part, (uint64_t)(whole - 1) * part / 2, whole, with_time, phase);
    if (!status && rest > 0) status = add_batch(plan, rest, (uint64_t)whole * part, 1, with_time, phase);
    for (uint32_t d = 0; d < plan->set.n_devices; d++) {
        const struct plan_share *share = &phase->shares[d];
        const double seconds = share->reading + share->computing + share->overhead + share->messages;
        if (seconds > slowest) slowest = seconds;
    }
    phase->seconds = (phase->seconds * n_batches + slowest * (n_parts - n_batches)) / n_parts;
    return status;
}

int engine_plan_predict(struct engine_plan *plan, uint32_t n_prompt, uint32_t with_time)
{
    uint32_t types[PACE_TYPES];
    const uint32_t most = plan->n_context > 1 ? plan->n_context - 1 : 1;
    if (n_prompt == 0) n_prompt = most < DEFAULT_PROMPT ? most : DEFAULT_PROMPT;
    if (plan->info.is_encoder || plan->info.has_source)
        return error_raise(ENGINE_ERROR_UNSUPPORTED, "%s: only decoders' speed can be predicted",
                           plan->architecture->name);
    if (n_prompt > most)
        return error_raise(ENGINE_ERROR_ARGUMENT,
                           "a prompt of %u tokens and one more don't fit into a context of %u (-c)", n_prompt,
                           plan->n_context);
    int status = with_time ? devices_measure_pace(&plan->set, types, find_types(plan, types)) : ENGINE_OK;
    if (!status) status = predict_prefill(plan, n_prompt, with_time != 0);
    plan->decode = (struct plan_phase){.n_tokens = 1, .position = n_prompt};
    if (!status) status = add_batch(plan, 1, n_prompt, 1, with_time != 0, &plan->decode);
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
    uint32_t types[PACE_TYPES];
    int status = devices_measure_pace(&plan->set, types, find_types(plan, types));
    return status ? status : cluster_write(&plan->set, path);
}
