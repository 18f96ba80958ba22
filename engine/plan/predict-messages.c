/* predict-messages.c: the messages of a batch, counted as graph/execute.c makes backends send them (see predict.h):
 * commands collect for each process until one of its devices is flushed. */
#include "plan/plan.h"

struct walk {
    const struct engine_plan *plan;
    struct plan_share *shares;           /* [n_devices] */
    uint64_t pending[PLACE_MAX_DEVICES]; /* bytes of commands, at the first device of each process */
    uint64_t read[PLACE_MAX_DEVICES];    /* bytes that the next answer has */
    bool is_dirty[PLACE_MAX_DEVICES];    /* something was added since the device was last flushed */
    bool was_given[PLACE_MAX_DEVICES];   /* by another process: the commands were there before */
};

static const struct device_link *link_of(const struct walk *walk, uint32_t device)
{
    return &walk->plan->set.devices[device].link;
}

static bool is_remote(const struct walk *walk, uint32_t device)
{
    return link_of(walk, device)->bandwidth > 0;
}

static uint32_t first_of_process(const struct walk *walk, uint32_t device)
{
    uint32_t d = 0;
    while (!is_remote(walk, d) || link_of(walk, d)->traffic.peer != link_of(walk, device)->traffic.peer) d++;
    return d;
}

static void add_command(struct walk *walk, uint32_t device, uint64_t bytes)
{
    if (!is_remote(walk, device)) return;
    walk->pending[first_of_process(walk, device)] += bytes;
    walk->is_dirty[device] = true;
}

/* A message, and its answer. Nobody waits for a message that is there before what it is about, nor for an answer that
 * has nothing in it. */
static void flush(struct walk *walk, uint32_t device)
{
    const struct device_link *link = link_of(walk, device);
    struct plan_share *share = &walk->shares[device];
    if (!is_remote(walk, device) || !walk->is_dirty[device]) return;
    uint64_t *pending = &walk->pending[first_of_process(walk, device)];
    const uint64_t there = link->traffic.message + *pending + link->traffic.wait;
    const uint64_t back = link->traffic.answer + walk->read[device];
    share->n_messages += 2;
    share->bytes += there + back;
    if (!walk->was_given[device]) share->messages += link->latency + (double)there / link->bandwidth;
    if (walk->read[device] > 0) share->messages += link->latency + (double)back / link->bandwidth;
    *pending = walk->read[device] = 0;
    walk->is_dirty[device] = walk->was_given[device] = false;
}

static void write_to(struct walk *walk, uint32_t device, uint64_t size)
{
    add_command(walk, device, link_of(walk, device)->traffic.write + size);
}

static void read_from(struct walk *walk, uint32_t device, uint64_t size)
{
    add_command(walk, device, link_of(walk, device)->traffic.read);
    walk->read[device] += size;
}

/* Processes hand on what they have computed themselves. */
static void copy(struct walk *walk, uint32_t source, uint32_t target, uint64_t size)
{
    const struct device_link *from = link_of(walk, source), *to = link_of(walk, target);
    if (!is_remote(walk, source) || !is_remote(walk, target)) {
        read_from(walk, source, size);
        flush(walk, source);
        write_to(walk, target, size);
    } else if (from->traffic.peer == to->traffic.peer) {
        add_command(walk, source, from->traffic.pass);
        walk->is_dirty[target] = true;
    } else {
        const uint64_t bytes = to->traffic.between + size;
        const double latency = from->latency > to->latency ? from->latency : to->latency;
        const double bandwidth = from->bandwidth < to->bandwidth ? from->bandwidth : to->bandwidth;
        struct plan_share *share = &walk->shares[target];
        add_command(walk, source, from->traffic.send);
        add_command(walk, target, to->traffic.send);
        share->n_messages++;
        share->bytes += bytes;
        share->messages += latency + (double)bytes / bandwidth;
        walk->was_given[target] = true;
    }
}

void predict_messages(const struct engine_plan *plan, const struct schedule *schedule,
                      struct plan_share *shares)
{
    struct walk walk = {.plan = plan, .shares = shares};
    const struct storage *result = NULL;
    for (size_t i = 0; i < schedule->n_storages; i++) {
        const struct storage *storage = &schedule->storages[i];
        if (storage->value == schedule->graph->logits) result = storage;
        if (storage->value->kind == VALUE_INPUT) write_to(&walk, storage->device, storage->size);
    }
    bool has_run[PLACE_MAX_DEVICES] = {false};
    for (size_t i = 0; i < schedule->n_steps; i++) {
        const struct step *step = &schedule->steps[i];
        if (step->kind == STEP_COPY)
            copy(&walk, schedule->storages[step->source].device, step->device,
                 schedule->storages[step->source].size);
        if (step->kind != STEP_RUN) continue;
        for (uint32_t d = 0; d < plan->set.n_devices; d++)
            if (d != step->device && has_run[d]) flush(&walk, d);
        has_run[step->device] = true;
        add_command(&walk, step->device, link_of(&walk, step->device)->traffic.replay);
    }
    if (result) read_from(&walk, result->device, result->size);
    for (uint32_t d = 0; d < plan->set.n_devices; d++) flush(&walk, d);
}
