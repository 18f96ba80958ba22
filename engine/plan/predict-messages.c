/* predict-messages.c: the messages of a batch, counted as graph/execute.c makes backends send them (see predict.h):
 * commands collect for each process until one of its devices is waited for. */
#include "plan/plan.h"

struct walk {
    const struct engine_plan *plan;
    struct plan_share *shares;           /* [n_devices] */
    uint64_t pending[PLACE_MAX_DEVICES]; /* bytes of commands, at the first device of each process */
    bool is_dirty[PLACE_MAX_DEVICES];    /* something was added since the device was last waited for */
};

static const struct device_link *link_of(const struct walk *walk, uint32_t device)
{
    return &walk->plan->set.devices[device].link;
}

static uint32_t first_of_process(const struct walk *walk, uint32_t device)
{
    uint32_t d = 0;
    while (link_of(walk, d)->bandwidth == 0 ||
           link_of(walk, d)->traffic.peer != link_of(walk, device)->traffic.peer)
        d++;
    return d;
}

static void add_command(struct walk *walk, uint32_t device, uint64_t bytes)
{
    if (link_of(walk, device)->bandwidth == 0) return;
    walk->pending[first_of_process(walk, device)] += bytes;
    walk->is_dirty[device] = true;
}

/* Waits for a device, whose answer has so many bytes of data. */
static void wait_for(struct walk *walk, uint32_t device, uint64_t data)
{
    const struct device_link *link = link_of(walk, device);
    struct plan_share *share = &walk->shares[device];
    if (link->bandwidth == 0 || !walk->is_dirty[device]) return;
    uint64_t *pending = &walk->pending[first_of_process(walk, device)];
    const uint64_t bytes =
        link->traffic.message + *pending + link->traffic.wait + link->traffic.answer + data;
    share->n_messages += 2;
    share->bytes += bytes;
    share->messages += 2 * link->latency + (double)bytes / link->bandwidth;
    *pending = 0;
    walk->is_dirty[device] = false;
}

static void write_to(struct walk *walk, uint32_t device, uint64_t size)
{
    add_command(walk, device, link_of(walk, device)->traffic.write + size);
}

static void read_from(struct walk *walk, uint32_t device, uint64_t size)
{
    add_command(walk, device, link_of(walk, device)->traffic.read);
    wait_for(walk, device, size);
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
    for (size_t i = 0; i < schedule->n_steps; i++) {
        const struct step *step = &schedule->steps[i];
        if (step->kind == STEP_RUN)
            add_command(&walk, step->device, link_of(&walk, step->device)->traffic.replay);
        if (step->kind != STEP_COPY) continue;
        const struct storage *source = &schedule->storages[step->source];
        read_from(&walk, source->device, source->size);
        write_to(&walk, step->device, source->size);
    }
    if (result) read_from(&walk, result->device, result->size);
    for (uint32_t d = 0; d < plan->set.n_devices; d++) wait_for(&walk, d, 0);
}
