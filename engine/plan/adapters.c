/* adapters.c: the adapters of a plan: taken from the caller's options, and checked against the model's graph. */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "plan/steps.h"

int plan_check_scale(float scale)
{
    if (isfinite(scale)) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_ARGUMENT, "an adapter's scale must be a finite number");
}

int plan_read_adapters(struct engine_plan *plan, const struct engine_context_options *options)
{
    if (options->n_adapters == 0) return ENGINE_OK;
    plan->adapters = calloc(options->n_adapters, sizeof *plan->adapters);
    plan->adapter_handles = calloc(options->n_adapters, sizeof *plan->adapter_handles);
    if (!plan->adapters || !plan->adapter_handles) return error_memory("adapters");
    for (size_t i = 0; i < options->n_adapters; i++) {
        const struct engine_adapter *adapter = options->adapters[i];
        if (adapter->model != plan->model)
            return error_raise(ENGINE_ERROR_ARGUMENT, "%s was opened for another model than %s",
                               adapter->adapter->path, model_path(plan->model->model));
        int status = options->adapter_scales ? plan_check_scale(options->adapter_scales[i]) : ENGINE_OK;
        if (status) return status;
        plan->adapter_handles[i] = adapter;
        plan->adapters[plan->n_adapters++] = (struct graph_adapter){adapter->adapter, 1};
    }
    return ENGINE_OK;
}

static bool is_used(const struct engine_plan *plan, const struct adapter_part *part)
{
    for (size_t i = 0; i < plan->n_weights; i++)
        if (plan->weights[i].tensor == &part->a) return true;
    return false;
}

int plan_check_adapters(const struct engine_plan *plan)
{
    const struct model *model = plan->model->model;
    for (size_t i = 0; i < plan->n_adapters; i++) {
        const struct adapter *adapter = plan->adapters[i].adapter;
        for (size_t k = 0; k < adapter->n_parts; k++) {
            const char *target = adapter->parts[k].target;
            if (is_used(plan, &adapter->parts[k])) continue;
            if (!model_tensor_find(model, target))
                return error_raise(ENGINE_ERROR_DATA,
                                   "%s is an adapter of another model: it changes %s, which %s does not have",
                                   adapter->path, target, model_path(model));
            return error_raise(
                ENGINE_ERROR_UNSUPPORTED,
                "%s: changes of %s are not supported: in %s it is no matrix that is multiplied "
                "as a whole",
                adapter->path, target, model_path(model));
        }
    }
    return ENGINE_OK;
}
