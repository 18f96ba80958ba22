/* report.c: reports on a plan: warnings for options that could not be met, and the plan as a table, through
 * engine.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "common/sized.h"
#include "kv/cache.h"
#include "model/types.h"
#include "plan/internal.h"
#include "plugins/plugins.h"

/* Warns of each option that matches nothing, or asks for more than a device has. */
static void report_wishes(const struct engine_plan *plan)
{
    for (size_t r = 0; r < plan->n_rules; r++) {
        size_t i = 0, n = plan->n_entries;
        while (i < n && !place_matches(plan->rules[r].pattern, plan->entries[i].name)) i++;
        if (i == n)
            log_line(ENGINE_LOG_WARNING, "--place %s=%s: no tensor of the model matches",
                     plan->rules[r].pattern, plan->set.devices[plan->rules[r].device].name);
    }
    for (uint32_t d = 1; d < plan->set.n_devices; d++)
        if (plan->used[d] > plan->set.devices[d].budget)
            log_line(ENGINE_LOG_WARNING,
                     "%s: the tensors placed by --place take %" PRIu64
                     " bytes, more than its budget of %" PRIu64,
                     plan->set.devices[d].name, plan->used[d], plan->set.devices[d].budget);
}

/* Whether anything is placed on a device of the same plugin. */
static bool plugin_is_used(const struct engine_plan *plan, uint32_t device)
{
    for (uint32_t d = 1; d < plan->set.n_devices; d++)
        if (plan->set.devices[d].backend == plan->set.devices[device].backend && plan->used[d] > 0)
            return true;
    return false;
}

/* Layers go to the fastest device first. Prints one line if everything fits there and a backend that the user
 * named is left without work. */
static void report_idle(const struct engine_plan *plan)
{
    uint32_t idle = 0, first = 0;
    for (uint32_t d = 1; d < plan->set.n_devices; d++) {
        if (plan->used[d] > 0 && !first) first = d;
        if (!idle && !plugin_is_used(plan, d)) idle = d;
    }
    if (first && idle)
        log_line(ENGINE_LOG_WARNING,
                 "%s gets no layers: %s is faster and takes all those that leave the CPU; share them out "
                 "with --place or --memory",
                 plan->set.devices[idle].name, plan->set.devices[first].name);
}

/* Plugins with open devices have read their settings. Those that read them when they were loaded have been
 * reported then. */
static void report_settings(const struct engine_plan *plan)
{
    const struct engine *engine = plan->model->engine;
    for (size_t i = 0; i < plugins_count(engine->plugins); i++) {
        const struct plugin *plugin = plugins_at(engine->plugins, i);
        bool is_open = false;
        for (uint32_t d = 0; d < plan->set.n_devices && plugin->info; d++)
            is_open |= plan->set.devices[d].backend == plugin->info->backend;
        if (is_open && !plugin->has_read_settings) settings_report_unread(engine->config, plugin->name);
    }
}

void report_placement(const struct engine_plan *plan)
{
    for (size_t d = 0; d < plan->set.n_devices; d++) {
        struct engine_plan_device device;
        engine_plan_device_at(plan, d, &device);
        log_line(ENGINE_LOG_INFO,
                 "%s: %" PRIu32 " of %" PRIu32
                 " layers; %.1f MiB of weights, %.1f MiB of cache, %.1f MiB of activations",
                 device.name, device.n_layers, plan->info.n_layers, (double)device.weights / (1 << 20),
                 (double)device.cache / (1 << 20), (double)device.activations / (1 << 20));
    }
    report_settings(plan);
}

/* Whether a weight of the plan is this tensor, or comes from it. */
static bool is_used(const struct engine_plan *plan, const struct model_tensor *tensor)
{
    for (size_t i = 0; i < plan->n_weights; i++) {
        const struct model_tensor *weight = plan->weights[i].tensor;
        if (weight == tensor || weight->source == tensor) return true;
        for (size_t k = 0; k < weight->n_parts; k++)
            if (weight->parts[k] == tensor) return true;
    }
    return false;
}

/* Tensors in the file that no graph of the family reads: layers that predict further tokens, keys and values
 * of layers that read earlier ones', rope factors for other contexts, the classification head and dense
 * steps, which the queue computes, what converters fill in for RWKV 7's first layer, and what reads pictures
 * and sound. */
static bool is_left_out(const struct engine_plan *plan, const char *name)
{
    static const char *const starts[] = {"rope_f", "cls.", "dense_", "blk.0.time_mix_v", "v.", "a.", "mm."};
    unsigned layer;
    int at = 0;
    if (sscanf(name, "blk.%u.%n", &layer, &at) == 1 && at > 0) {
        const char *rest = name + at;
        bool is_kv = strncmp(rest, "attn_k", 6) == 0 || strncmp(rest, "attn_v", 6) == 0;
        if (layer >= plan->info.n_layers) return true;
        if (is_kv && layer >= plan->info.n_layers - plan->info.n_sharing) return true;
    }
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (strncmp(name, starts[i], strlen(starts[i])) == 0) return true;
    return false;
}

/* Prints one line if the file has tensors that the family doesn't know: it may be another kind of model. */
static void report_unused(const struct engine_plan *plan)
{
    const struct model *model = plan->model->model;
    const char *first = NULL;
    size_t count = 0;
    for (size_t i = 0; i < model_tensor_count(model); i++) {
        const struct model_tensor *tensor = model_tensor_at(model, i);
        if (is_used(plan, tensor) || is_left_out(plan, tensor->name)) continue;
        if (count++ == 0) first = tensor->name;
    }
    if (count == 1)
        log_line(ENGINE_LOG_WARNING, "%s: the tensor %s is not used: the model family has no use for it",
                 model_path(model), first);
    if (count > 1)
        log_line(ENGINE_LOG_WARNING,
                 "%s: %zu tensors are not used, the first is %s: the model family has no use for them",
                 model_path(model), count, first);
}

void report_plan(const struct engine_plan *plan, bool named)
{
    report_unused(plan);
    uint32_t n_layers = plan->info.n_layers;
    uint32_t wanted = plan->offload < n_layers ? plan->offload : n_layers;
    for (size_t i = 0; i < plan->n_weights; i++) {
        size_t r = 0;
        while (r < plan->n_rules && !place_matches(plan->rules[r].pattern, plan->entries[i].name)) r++;
        if (r < plan->n_rules && !place_can(&plan->entries[i], plan->rules[r].device))
            log_line(ENGINE_LOG_WARNING, "%s (%s) cannot run on %s; it stays on the CPU",
                     plan->entries[i].name, type_info(plan->weights[i].tensor->type)->name,
                     plan->set.devices[plan->rules[r].device].name);
    }
    report_wishes(plan);
    if (named) report_idle(plan);
    if (plan->set.n_devices == 1 || plan->n_offloaded == wanted) return;
    if (plan->n_offloaded == 0)
        log_line(ENGINE_LOG_WARNING, "no layer fits on %s%s; the model runs on the CPU",
                 plan->set.devices[1].name, plan->set.n_devices > 2 ? " or the other devices" : "");
    else
        log_line(plan->offload_is_auto ? ENGINE_LOG_INFO : ENGINE_LOG_WARNING,
                 "%u of %u layers fit on the devices; the others run on the CPU", plan->n_offloaded, wanted);
}

/* ---- The plan as a table ------------------------------------------------------------------------------- */

size_t engine_plan_tensor_count(const struct engine_plan *plan)
{
    return plan->n_entries;
}

void engine_plan_tensor_at(const struct engine_plan *plan, size_t index, struct engine_plan_tensor *out)
{
    const struct place_tensor *entry = &plan->entries[index];
    uint32_t device = plan->device[index];
    uint32_t type = ENGINE_TYPE_F32; /* of states; caches may be beside them */
    if (index < plan->n_weights) type = plan->weights[index].tensor->type;
    for (size_t c = 0; c < plan->n_caches; c++)
        if (plan->caches[c].entry == index && !plan->caches[c].is_state && plan->caches[c].pool != POOL_TEXT)
            type = plan->cache_type;
    *out = (struct engine_plan_tensor){
        .name = entry->name,
        .type_name = type_info(type)->name,
        .device = plan->set.devices[device].name,
        .bytes = place_bytes(plan->entries, plan->device, index),
    };
}

size_t engine_plan_device_count(const struct engine_plan *plan)
{
    return plan->set.n_devices;
}

void engine_plan_device_at(const struct engine_plan *plan, size_t index, struct engine_plan_device *out)
{
    const struct open_device *device = &plan->set.devices[index];
    *out = (struct engine_plan_device){
        .name = device->name,
        .description = device->info.description,
        .budget = device->budget,
        .activations = plan->activations[index] + plan->working[index],
    };
    for (size_t i = 0; i < engine_plan_tensor_count(plan); i++) {
        struct engine_plan_tensor tensor;
        if (plan->device[i] != index) continue;
        engine_plan_tensor_at(plan, i, &tensor);
        if (i < plan->n_weights) {
            out->weights += tensor.bytes;
        } else {
            out->cache += tensor.bytes;
            out->n_layers++;
        }
    }
}

void engine_plan_get_context(const struct engine_plan *plan, struct engine_plan_context *out)
{
    const struct engine_plan_context known = {
        .struct_size = sizeof known,
        .n_trained = plan->n_trained,
        .n_context = plan->n_context,
        .n_cache = plan->n_blocks * KV_BLOCK_SIZE,
        .limit = plan->limit,
        .device = plan->limit == ENGINE_CONTEXT_MEMORY ? plan->set.devices[plan->limiting_device].name : NULL,
        .growth = (plan->n_blocks - plan->n_ready_blocks) * plan_block_bytes(plan, 0),
    };
    sized_write(out, &known, sizeof known);
}

void engine_plan_get_totals(const struct engine_plan *plan, struct engine_plan_totals *out)
{
    *out = (struct engine_plan_totals){
        .n_layers = plan->info.n_layers,
        .copies = (uint32_t)plan->n_copies,
        .copy_bytes = plan->copy_bytes,
    };
    for (size_t i = 0; i < plan->n_weights; i++) {
        uint32_t device = plan->device[i];
        const struct plan_weight *weight = &plan->weights[i];
        uint64_t bytes = weight->uses ? plan->entries[i].bytes[device] : 0;
        if (weight->uses & ENGINE_WEIGHT_ROWS)
            out->read_bytes += weight->tensor->size / weight->tensor->ne[1];
        else
            out->read_bytes +=
                weight->matrices_read ? bytes / weight->tensor->ne[2] * weight->matrices_read : bytes;
    }
    for (size_t i = plan->n_weights; i < plan->n_entries; i++)
        out->cache += plan->entries[i].bytes[plan->device[i]];
}
