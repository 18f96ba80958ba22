/* report.c: what a plan tells: warnings of wishes that could not be met, and the plan as a table, through engine.h. */
#include <inttypes.h>

#include "base/log.h"
#include "model/types.h"
#include "plan/steps.h"

/* One line for each wish that names nothing, or more than a device has. */
static void report_wishes(const struct engine_plan *plan)
{
    for (size_t r = 0; r < plan->n_rules; r++) {
        size_t i = 0, n = plan->n_entries;
        while (i < n && !place_matches(plan->rules[r].pattern, plan->entries[i].name)) i++;
        if (i == n)
            log_line(ENGINE_LOG_WARNING, "--place %s=%s: the model has nothing of such a name",
                     plan->rules[r].pattern, plan->set.devices[plan->rules[r].device].name);
    }
    for (uint32_t d = 1; d < plan->set.n_devices; d++)
        if (plan->used[d] > plan->set.devices[d].budget)
            log_line(ENGINE_LOG_WARNING,
                     "%s: what --place puts there takes %" PRIu64 " bytes, more than its budget of %" PRIu64,
                     plan->set.devices[d].name, plan->used[d], plan->set.devices[d].budget);
}

void report_plan(const struct engine_plan *plan)
{
    uint32_t n_layers = plan->info.n_layers;
    uint32_t wanted = plan->offload < n_layers ? plan->offload : n_layers;
    for (size_t i = 0; i < plan->n_weights; i++) {
        size_t r = 0;
        while (r < plan->n_rules && !place_matches(plan->rules[r].pattern, plan->entries[i].name)) r++;
        if (r < plan->n_rules && !(plan->entries[i].can & 1u << plan->rules[r].device))
            log_line(ENGINE_LOG_WARNING, "%s (%s) can't run on %s; it stays on the CPU",
                     plan->entries[i].name, type_info(plan->weights[i].tensor->type)->name,
                     plan->set.devices[plan->rules[r].device].name);
    }
    report_wishes(plan);
    if (plan->set.n_devices == 1 || plan->n_offloaded == wanted) return;
    if (plan->n_offloaded == 0)
        log_line(ENGINE_LOG_WARNING, "no layer fits on %s%s; the model runs on the CPU",
                 plan->set.devices[1].name, plan->set.n_devices > 2 ? " or the other devices" : "");
    else
        log_line(plan->offload_is_auto ? ENGINE_LOG_INFO : ENGINE_LOG_WARNING,
                 "%u of %u layers fit on the devices; the others run on the CPU", plan->n_offloaded, wanted);
}

/* ---- The plan as a table ----------------------------------------------------------------------------------------- */

size_t engine_plan_tensor_count(const struct engine_plan *plan)
{
    return plan->n_entries;
}

void engine_plan_tensor_at(const struct engine_plan *plan, size_t index, struct engine_plan_tensor *out)
{
    const struct place_tensor *entry = &plan->entries[index];
    uint32_t device = plan->device[index];
    *out = (struct engine_plan_tensor){
        .name = entry->name,
        .type_name =
            type_info(index < plan->n_weights ? plan->weights[index].tensor->type : plan->cache_type)->name,
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
