/* plan.c: see plan.h. Reads the options, opens the devices, surveys them, and places tensors until each
 * device's share fits its budget. */
#include <stdlib.h>

#include "base/error.h"
#include "common/assert.h"
#include "devices/measure.h"
#include "plan/internal.h"

/* What a part of a prompt has, or a token of a large model. */
#define ACTIVATIONS (1 << 16)

/* Seconds on the way to a device. */
static double reach_of(const struct device_link *link)
{
    return link->bandwidth > 0 ? link->latency + ACTIVATIONS / link->bandwidth : 0;
}

/* For assertions: whether everything has a device of the set. */
static bool is_placed(const struct engine_plan *plan)
{
    for (size_t i = 0; i < plan->n_entries; i++) ENGINE_ASSERT(plan->device[i] < plan->set.n_devices);
    ENGINE_ASSERT(plan->n_offloaded <= plan->info.n_layers);
    return true;
}

static void decide(struct engine_plan *plan)
{
    struct place_device devices[PLACE_MAX_DEVICES];
    for (uint32_t d = 0; d < plan->set.n_devices; d++) {
        const struct open_device *device = &plan->set.devices[d];
        const struct device_link *link = &device->link;
        devices[d] = (struct place_device){.name = device->name,
                                           .budget = device->budget,
                                           .activations = plan->activations[d] + plan->working[d],
                                           .speed = device->speed,
                                           .machine = link_process(link),
                                           .reach = reach_of(link)};
    }
    struct place_request request = {
        .devices = devices,
        .n_devices = plan->set.n_devices,
        .tensors = plan->entries,
        .n_tensors = plan->n_entries,
        .rules = plan->rules,
        .n_rules = plan->n_rules,
        .n_layers = plan->info.n_layers,
        .offload = plan->offload,
        .experts_stay = plan->offload_is_auto,
    };
    plan->n_offloaded = place_tensors(&request, plan->device, plan->used);
    ENGINE_ASSERT(is_placed(plan));
}

static void raise(uint64_t *value, uint64_t least)
{
    if (*value < least) *value = least;
}

/* Replaces the estimate of activations with what this placement needs. Sets *over if a device then exceeds
 * its budget. */
static int plan_measure(struct engine_plan *plan, bool *over)
{
    struct schedule *batch = NULL, *token = NULL, *texts = NULL;
    const struct shape_key most = plan_full_shape(plan, plan->n_batch, plan->max_outputs, false),
                           one = plan_full_shape(plan, 1, 1, false),
                           encoded = plan_full_shape(plan, plan->n_batch, 1, true);
    int status = plan_schedule(plan, &most, &batch);
    if (!status) status = plan_schedule(plan, &one, &token);
    if (!status && plan->info.has_source) status = plan_schedule(plan, &encoded, &texts);
    *over = false;
    if (!status) {
        for (uint32_t d = 0; d < plan->set.n_devices; d++) {
            uint64_t estimate = plan->used[d] ? plan->activations[d] + plan->working[d] : 0;
            const struct open_device *device = &plan->set.devices[d];
            plan->activations[d] = batch->arena[d];
            plan->working[d] = plan_working_memory(plan, batch->graph, d, false);
            raise(&plan->working[d], plan_working_memory(plan, token->graph, d, false));
            if (texts) raise(&plan->activations[d], texts->arena[d]);
            if (texts) raise(&plan->working[d], plan_working_memory(plan, texts->graph, d, false));
            ENGINE_ASSERT(d == 0 || plan->used[d] >= estimate); /* which it has counted */
            if (d > 0) plan->used[d] -= estimate;
            plan->used[d] += plan->activations[d] + plan->working[d];
            if (d > 0 && device->budget != PLACE_NO_LIMIT && plan->used[d] > device->budget) *over = true;
        }
        plan->n_copies = token->n_copies;
        plan->copy_bytes = token->copy_bytes;
    }
    schedule_destroy(batch);
    schedule_destroy(token);
    schedule_destroy(texts);
    return status;
}

int plan_place_listed(struct engine_plan *plan)
{
    uint32_t wanted = plan->offload;
    bool over = true;
    int status = ENGINE_OK;
    if (plan->set.n_devices == 1) plan->offload = 0;
    /* Each round offers fewer layers; with none left, only rules can fill a device, and the user chose
     * those. */
    while (!status && over) {
        decide(plan);
        status = plan_measure(plan, &over);
        if (status || !over || plan->offload == 0) break;
        plan->offload = plan->n_offloaded > 0 ? plan->n_offloaded - 1 : 0;
        status = plan_estimate_activations(plan);
    }
    plan->offload = wanted;
    return status;
}

/* Finds the family of the model, and lets it read its hyper-parameters. */
static int read_architecture(struct engine_plan *plan)
{
    plan->architecture = arch_of(plan->model->model);
    if (!plan->architecture) return ENGINE_ERROR_UNSUPPORTED;
    plan->hparams = calloc(1, plan->architecture->size);
    plan->derived = derived_create();
    if (!plan->hparams || !plan->derived) return error_memory("plan");
    plan->sees = plan->model->pictures != NULL;
    return arch_read(plan->architecture, plan->model->model, plan->hparams, &plan->info);
}

int engine_context_length(struct engine_model *model, const struct engine_context_options *given,
                          uint32_t *n_context)
{
    struct engine_context_options options;
    int status = plan_read_context_options(given, &options);
    if (status) return status;
    struct engine_plan *plan = calloc(1, sizeof *plan);
    if (!plan) return error_memory("plan");
    plan->model = model;
    status = read_architecture(plan);
    if (!status)
        *n_context = plan_grows(&plan->info, &options) ? plan_longest_context(&plan->info)
                                                       : plan_context_length(&plan->info, &options);
    engine_plan_destroy(plan);
    return status;
}

int engine_plan_create_on(struct engine_model *model, const struct engine_context_options *given,
                          const char *cluster, struct engine_plan **out)
{
    struct engine_context_options known, *options = &known;
    int status = plan_read_context_options(given, &known);
    if (status) return status;
    struct engine_plan *plan = calloc(1, sizeof *plan);
    if (!plan) return error_memory("plan");
    plan->model = model;
    status = read_architecture(plan);
    if (!status) status = plan_read_options(plan, options);
    if (!status) status = plan_read_adapters(plan, options);
    struct device_request request = plan_read_devices(model->engine, options);
    request.cluster = cluster;
    if (!status && cluster && options->backends)
        status = error_raise(ENGINE_ERROR_ARGUMENT,
                             "a plan for the devices of %s can't choose among backends here", cluster);
    if (!status) status = devices_open(model->engine, &request, &plan->set);
    plan->n_threads = request.n_threads ? request.n_threads : plan->set.devices[0].info.n_threads;
    for (uint32_t d = 0; d < plan->set.n_devices; d++)
        plan->alignment[d] = plan->set.devices[d].info.alignment ? plan->set.devices[d].info.alignment : 64;
    if (!status && plan->set.n_devices > 2 && plan->offload > 0) devices_measure(&plan->set);
    if (!status && !request.backends && !options->place && plan->offload > 0) devices_warn_slow(&plan->set);
    if (!status) status = plan_read_rules(plan, options->place);
    if (!status) status = plan_place(plan);
    if (status) {
        engine_plan_destroy(plan);
        return status;
    }
    report_plan(plan, request.backends != NULL);
    *out = plan;
    return ENGINE_OK;
}

int engine_plan_create(struct engine_model *model, const struct engine_context_options *options,
                       struct engine_plan **plan)
{
    return engine_plan_create_on(model, options, NULL, plan);
}

void engine_plan_destroy(struct engine_plan *plan)
{
    if (!plan) return;
    plan_forget(plan);
    for (size_t i = 0; i < plan->n_rules; i++) free((char *)(uintptr_t)plan->rules[i].pattern);
    devices_close(&plan->set);
    derived_destroy(plan->derived);
    free(plan->hparams);
    free(plan->adapters);
    free(plan->adapter_handles);
    free(plan->rules);
    free(plan);
}
