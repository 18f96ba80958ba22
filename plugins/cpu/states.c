/* states.c: see states.h. */
#include "states.h"

#include "common/assert.h"

int states_check(const struct request *request, const struct engine_tensor *positions,
                 const struct engine_tensor *states, const struct engine_tensor *state, int n_dims,
                 struct states_view *view)
{
    int status = view_check(request, positions, "positions", VIEW_I32, &view->positions);
    if (!status) status = view_check(request, states, "states", VIEW_I32, &view->states);
    if (!status) status = view_check(request, state, "state", VIEW_F32, &view->state);
    if (status) return status;
    const struct view *s = &view->state;
    ENGINE_ASSERT(n_dims == 2 || n_dims == 3);
    view->n_states = s->ne[n_dims];
    view->state_bytes = s->ne[0] * s->ne[1] * (n_dims == 3 ? s->ne[2] : 1) * sizeof(float);
    size_t size = sizeof(float);
    for (size_t i = 0; i < 4 && !status; size *= s->ne[i++])
        if (s->ne[i] > 1 && s->nb[i] != size)
            return refuse(request, ENGINE_ERROR_UNSUPPORTED, "%s: 'state' must be dense", request->op);
    return status;
}

void states_declare(struct list *list, const struct states_view *view)
{
    list_reads(list, &view->positions);
    list_reads(list, &view->states);
    list_writes(list, &view->state);
}

bool states_next(const struct work *work, const struct states_view *view, struct states_run *run)
{
    const int32_t *states = (const int32_t *)(const void *)view->states.data;
    const int32_t *positions = (const int32_t *)(const void *)view->positions.data;
    size_t n_tokens = view->states.ne[0];
    run->first += run->n;
    if (run->first == n_tokens) return false;
    for (run->n = 1; run->first + run->n < n_tokens; run->n++)
        if (states[run->first + run->n] != states[run->first]) break;
    size_t number = (size_t)states[run->first];
    run->has_state = states[run->first] >= 0 && number < view->n_states;
    if (!run->has_state && states[run->first] != -1) work_fail(work, "a state is out of range");
    run->begins = positions[run->first] == 0;
    run->state = run->has_state ? view->state.data + number * view->state_bytes : NULL;
    return true;
}
