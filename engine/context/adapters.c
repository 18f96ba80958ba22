/* adapters.c: the scales of a context's adapters. They are numbers in the operations of its graphs, so the
 * prepared graphs go when one changes, and what was computed with others can't be continued. */
#include <string.h>

#include "base/error.h"
#include "context/context.h"

int context_set_scales(struct engine_context *context, const float *scales)
{
    struct engine_plan *plan = context->plan;
    bool changed = false;
    for (size_t i = 0; i < plan->n_adapters; i++) {
        float scale = scales ? scales[i] : 1;
        int status = plan_check_scale(scale);
        if (status) return status;
        if (scale != plan->adapters[i].scale) changed = true;
    }
    if (!changed) return ENGINE_OK;
    for (size_t i = 0; i < plan->n_adapters; i++) plan->adapters[i].scale = scales ? scales[i] : 1;
    prepared_forget(context);
    for (uint32_t s = 0; s < plan->n_sequences; s++) kv_truncate(context->kv, s, 0);
    kv_set_variant(context->kv, context_adapters_hash(context));
    return ENGINE_OK;
}

int engine_context_set_adapter_scales(struct engine_context *context, const float *scales, size_t n_scales)
{
    if (n_scales != context->plan->n_adapters)
        return error_raise(ENGINE_ERROR_ARGUMENT, "%zu scales for %zu adapters", n_scales,
                           context->plan->n_adapters);
    return context_set_scales(context, scales);
}

const struct engine_adapter *engine_context_adapter(const struct engine_context *context, size_t index,
                                                    float *scale)
{
    const struct engine_plan *plan = context->plan;
    if (index >= plan->n_adapters) return NULL;
    *scale = plan->adapters[index].scale;
    return plan->adapter_handles[index];
}
