/* place.c: see place.h. */
#include "graph/place.h"

#include <fnmatch.h>
#include <stdbool.h>
#include <string.h>

#include "common/assert.h"

#define UNPLACED UINT32_MAX
#define ALIKE    0.9 /* of a speed: what is faster may be so by chance */
#define FAR      2   /* times as far as the nearest: the same */

struct state {
    const struct place_request *request;
    uint32_t *device; /* [n_tensors] */
    uint64_t *used;   /* [n_devices] */
    /* [n_devices - 1] the order in which devices other than the CPU are filled */
    uint32_t order[PLACE_MAX_DEVICES];
};

/* The bytes that tensor i adds to device d, beyond those that the first `n` entries already have there of the
 * same data. */
static uint64_t extra_bytes(const struct place_tensor *tensors, const uint32_t *device, size_t n, size_t i,
                            uint32_t d)
{
    uint64_t there = 0;
    for (size_t k = tensors[i].group; k < n; k++)
        if (k != i && device[k] == d && tensors[k].group == tensors[i].group && tensors[k].bytes[d] > there)
            there = tensors[k].bytes[d];
    return tensors[i].bytes[d] > there ? tensors[i].bytes[d] - there : 0;
}

uint64_t place_bytes(const struct place_tensor *tensors, const uint32_t *device, size_t i)
{
    return extra_bytes(tensors, device, i, i, device[i]);
}

static uint64_t place_add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* The bytes that a tensor and its followers add to device d. */
static uint64_t cost(const struct state *state, size_t i, uint32_t d)
{
    const struct place_tensor *tensors = state->request->tensors;
    uint64_t sum = 0;
    for (; i != PLACE_NONE; i = tensors[i].next)
        sum = place_add(sum, extra_bytes(tensors, state->device, state->request->n_tensors, i, d));
    return sum;
}

static bool leads(const struct place_request *request, size_t i)
{
    return request->tensors[i].leader == i;
}

static void place_put(struct state *state, size_t i, uint32_t d)
{
    ENGINE_ASSERT(leads(state->request, i) && state->device[i] == UNPLACED);
    ENGINE_ASSERT(d < state->request->n_devices && place_can(&state->request->tensors[i], d));
    if (state->used[d] == 0 && d > 0) state->used[d] = state->request->devices[d].activations;
    state->used[d] = place_add(state->used[d], cost(state, i, d));
    for (; i != PLACE_NONE; i = state->request->tensors[i].next) state->device[i] = d;
}

/* Which tensors of a part are placed. */
enum share { WHOLE, BUT_EXPERTS, EXPERTS };

/* Whether tensor i has no place yet, belongs to the share, and can be on device d. */
static bool may_go(const struct state *state, size_t i, enum place_part part, uint32_t layer,
                   enum share share, uint32_t d)
{
    const struct place_tensor *tensor = &state->request->tensors[i];
    bool meant = share == WHOLE || tensor->experts == (share == EXPERTS);
    bool belongs = tensor->part == part && (part != PLACE_LAYER || tensor->layer == layer);
    return meant && belongs && state->device[i] == UNPLACED && leads(state->request, i) &&
           place_can(tensor, d);
}

/* Puts the unplaced tensors of a part on device d, as far as it can run them, if all of those fit. */
static bool put_part(struct state *state, enum place_part part, uint32_t layer, enum share share, uint32_t d)
{
    const struct place_request *request = state->request;
    uint64_t budget = request->devices[d].budget;
    uint64_t total = state->used[d] ? state->used[d] : request->devices[d].activations;
    bool any = false;
    for (size_t i = 0; i < request->n_tensors; i++) {
        if (!may_go(state, i, part, layer, share, d)) continue;
        total = place_add(total, cost(state, i, d));
        any = true;
    }
    if (!any || (budget != PLACE_NO_LIMIT && total > budget)) return false;
    for (size_t i = 0; i < request->n_tensors; i++)
        if (may_go(state, i, part, layer, share, d)) place_put(state, i, d);
    return true;
}

bool place_matches(const char *pattern, const char *name)
{
    return fnmatch(pattern, name, 0) == 0;
}

static void apply_rules(struct state *state)
{
    const struct place_request *request = state->request;
    for (size_t i = 0; i < request->n_tensors; i++) {
        for (size_t r = 0; r < request->n_rules && state->device[i] == UNPLACED && leads(request, i); r++) {
            const struct place_rule *rule = &request->rules[r];
            if (!place_matches(rule->pattern, request->tensors[i].name)) continue;
            place_put(state, i, place_can(&request->tensors[i], rule->device) ? rule->device : 0);
        }
    }
}

/* Faster devices before slower ones; of equals, later before earlier. */
static void find_order(struct state *state)
{
    const struct place_device *devices = state->request->devices;
    for (uint32_t d = state->request->n_devices; d-- > 1;) {
        uint32_t i = state->request->n_devices - 1 - d;
        for (; i > 0 && devices[d].speed > devices[state->order[i - 1]].speed; i--)
            state->order[i] = state->order[i - 1];
        state->order[i] = d;
    }
}

/* Of order[start … end), whose speeds are alike, takes machine after machine: each time the one with the
 * fastest device, of those that are not much further away than the nearest. */
static void take_machines(struct state *state, uint32_t start, uint32_t end)
{
    const struct place_device *devices = state->request->devices;
    uint32_t *order = state->order;
    while (start < end) {
        double nearest = devices[order[start]].reach;
        for (uint32_t i = start; i < end; i++)
            if (devices[order[i]].reach < nearest) nearest = devices[order[i]].reach;
        uint32_t i = start;
        while (devices[order[i]].reach > FAR * nearest) i++;
        const uint32_t machine = devices[order[i]].machine;
        for (; i < end; i++) {
            const uint32_t d = order[i];
            if (devices[d].machine != machine) continue;
            memmove(&order[start + 1], &order[start], (i - start) * sizeof *order);
            order[start++] = d;
        }
    }
}

/* A token then goes over the network as rarely as possible, and measuring again changes little. */
static void keep_machines_together(struct state *state)
{
    const struct place_device *devices = state->request->devices;
    const uint32_t n = state->request->n_devices - 1;
    for (uint32_t start = 0, end; start < n; start = end) {
        const double least = ALIKE * devices[state->order[start]].speed;
        for (end = start + 1; end < n && devices[state->order[end]].speed >= least;) end++;
        take_machines(state, start, end);
    }
}

static void put_somewhere(struct state *state, enum place_part part)
{
    for (uint32_t i = 0; i + 1 < state->request->n_devices; i++)
        if (put_part(state, part, 0, WHOLE, state->order[i])) return;
}

/* Whether rules have left any of a layer unplaced. */
static bool has_unplaced(const struct state *state, uint32_t layer, enum share share)
{
    for (size_t i = 0; i < state->request->n_tensors; i++)
        if (may_go(state, i, PLACE_LAYER, layer, share, 0)) return true;
    return false;
}

/* The device that any of a layer is on; 0: rules have left it to the CPU. */
static uint32_t device_of_layer(const struct state *state, uint32_t layer)
{
    const struct place_request *request = state->request;
    for (size_t i = 0; i < request->n_tensors; i++)
        if (request->tensors[i].part == PLACE_LAYER && request->tensors[i].layer == layer &&
            state->device[i] != UNPLACED && state->device[i] != 0)
            return state->device[i];
    return 0;
}

/* With the last layer, so that a token doesn't go to another device once more; else anywhere. */
static void put_output(struct state *state)
{
    const uint32_t last = device_of_layer(state, state->request->n_layers - 1);
    if (last == 0 || !put_part(state, PLACE_OUTPUT, 0, WHOLE, last)) put_somewhere(state, PLACE_OUTPUT);
}

/* With the first layer, so that a token, or a part of a prompt, doesn't go to a later device before it; else
 * anywhere. */
static void put_embedding(struct state *state)
{
    const uint32_t first = device_of_layer(state, 0);
    if (first != 0 && !put_part(state, PLACE_EMBEDDING, 0, WHOLE, first))
        put_somewhere(state, PLACE_EMBEDDING);
}

/* Offloads layers from the last to the first, so the first device in order holds the end of the model. The
 * walk advances over layers and devices together: it never returns to a full device, and skips layers that
 * rules have placed entirely. Then come the output and, last because a token reads just one row of it, the
 * embedding. */
static uint32_t offload_layers(struct state *state, enum share share)
{
    const struct place_request *request = state->request;
    uint32_t wanted = request->offload < request->n_layers ? request->offload : request->n_layers;
    uint32_t i = 0, done = 0;
    while (done < wanted && i + 1 < request->n_devices) {
        uint32_t layer = request->n_layers - 1 - done;
        if (!has_unplaced(state, layer, share) || put_part(state, PLACE_LAYER, layer, share, state->order[i]))
            done++;
        else
            i++;
    }
    if (done > 0) put_output(state);
    if (request->offload == PLACE_ALL && done == request->n_layers) put_embedding(state);
    return done;
}

/* Places the experts of offloaded layers, last layer first, while devices have room for those of a layer. */
static void offload_experts(struct state *state, uint32_t n_layers)
{
    const struct place_request *request = state->request;
    uint32_t i = 0, done = 0;
    while (done < n_layers && i + 1 < request->n_devices) {
        uint32_t layer = request->n_layers - 1 - done;
        if (!has_unplaced(state, layer, EXPERTS) ||
            put_part(state, PLACE_LAYER, layer, EXPERTS, state->order[i]))
            done++;
        else
            i++;
    }
}

/* Starts over from the rules alone. */
static void place_start(struct state *state)
{
    memset(state->used, 0, sizeof *state->used * PLACE_MAX_DEVICES);
    for (size_t i = 0; i < state->request->n_tensors; i++) state->device[i] = UNPLACED;
    apply_rules(state);
}

static bool has_experts(const struct place_request *request)
{
    for (size_t i = 0; i < request->n_tensors; i++)
        if (request->tensors[i].experts) return true;
    return false;
}

/* What place.h says of a request. */
static void check_request(const struct place_request *request)
{
    ENGINE_ASSERT(request->n_devices > 0 && request->n_devices <= PLACE_MAX_DEVICES);
    for (size_t r = 0; r < request->n_rules; r++)
        ENGINE_ASSERT(request->rules[r].device < request->n_devices);
    for (size_t i = 0; i < request->n_tensors; i++) {
        const struct place_tensor *tensor = &request->tensors[i];
        ENGINE_ASSERT(place_can(tensor, 0));
        ENGINE_ASSERT(tensor->part != PLACE_LAYER || tensor->layer < request->n_layers);
        ENGINE_ASSERT(tensor->group <= i && request->tensors[tensor->group].group == tensor->group);
        ENGINE_ASSERT(tensor->leader < request->n_tensors && leads(request, tensor->leader));
        ENGINE_ASSERT(tensor->next == PLACE_NONE || request->tensors[tensor->next].leader == tensor->leader);
    }
}

uint32_t place_tensors(const struct place_request *request, uint32_t *device,
                       uint64_t used[PLACE_MAX_DEVICES])
{
    check_request(request);
    struct state state = {.request = request, .device = device, .used = used};
    find_order(&state);
    keep_machines_together(&state);
    place_start(&state);
    uint32_t layers = request->n_devices > 1 ? offload_layers(&state, WHOLE) : 0;
    if (layers < request->n_layers && layers < request->offload && request->experts_stay &&
        has_experts(request)) {
        place_start(&state);
        layers = offload_layers(&state, BUT_EXPERTS);
        offload_experts(&state, layers);
    }
    for (size_t i = 0; i < request->n_tensors; i++)
        if (device[i] == UNPLACED && leads(request, i)) place_put(&state, i, 0);
    for (size_t i = 0; i < request->n_tensors; i++)
        ENGINE_ASSERT(device[i] == device[request->tensors[i].leader]);
    return layers;
}
