/* predict-run.c: a run of batches, step by step as graph/execute.c does it, with a clock for the host and one
 * for each process that has devices (see predict.h). Commands collect for each process until one of its
 * devices is flushed, and are done there one after the other; the host goes on meanwhile. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/array.h"
#include "plan/plan.h"

enum command_kind { COMPUTE, SEND, TAKE };

struct command {
    enum command_kind kind;
    double seconds; /* COMPUTE */
    uint32_t other; /* SEND: the device that it goes to; TAKE: the process that it comes from */
    uint64_t size;
};

/* One that has devices: this one, or another. */
struct process {
    double clock;             /* when what it has been told is done */
    struct command *commands; /* [n_commands] that have not been sent */
    size_t n_commands, capacity;
    uint64_t bytes; /* of them */
    bool sends, takes;
};

/* Bytes that a process has handed to another. */
struct handed {
    uint32_t from, to;
    double arrival;
};

struct run {
    const struct engine_plan *plan;
    struct plan_share *shares;                   /* [n_devices] */
    double clock;                                /* the host's */
    struct process processes[PLACE_MAX_DEVICES]; /* at the number of its first device */
    uint32_t process_of[PLACE_MAX_DEVICES];
    bool is_dirty[PLACE_MAX_DEVICES], is_unflushed[PLACE_MAX_DEVICES];
    uint64_t to_read[PLACE_MAX_DEVICES]; /* bytes, since the device was last flushed */
    double replied[PLACE_MAX_DEVICES];   /* when the last answer is here */
    struct handed *handed;               /* [n_handed], those that have not been taken */
    size_t n_handed, capacity;
    int status;
};

static bool is_remote(const struct run *run, uint32_t device)
{
    return run->plan->set.devices[device].link.bandwidth > 0;
}

static const struct device_link *link_of(const struct run *run, uint32_t device)
{
    return &run->plan->set.devices[device].link;
}

/* Whether an array has grown; the run fails if not. */
static bool has_room(struct run *run, bool grown)
{
    if (!grown) run->status = error_memory("prediction");
    return grown;
}

static void add_command(struct run *run, uint32_t device, struct command command)
{
    struct process *process = &run->processes[run->process_of[device]];
    if (has_room(run, ARRAY_RESERVE(process->commands, process->capacity, process->n_commands + 1)))
        process->commands[process->n_commands++] = command;
}

/* A message of so many bytes between a device and the host: the time that it takes. */
static double add_message(struct run *run, uint32_t device, uint64_t bytes)
{
    const struct device_link *link = link_of(run, device);
    const double seconds = link->latency + (double)bytes / link->bandwidth;
    struct plan_share *share = &run->shares[device];
    share->n_messages++;
    share->bytes += bytes;
    share->messages += seconds;
    return seconds;
}

/* What a process hands to a device of another goes by the slower of their links. */
static void hand_over(struct run *run, uint32_t from, const struct command *command, double clock)
{
    const struct device_link *one = link_of(run, from), *other = link_of(run, command->other);
    const uint64_t bytes = other->traffic.between + command->size;
    const double seconds =
        (one->latency > other->latency ? one->latency : other->latency) +
        (double)bytes / (one->bandwidth < other->bandwidth ? one->bandwidth : other->bandwidth);
    struct plan_share *share = &run->shares[command->other];
    share->n_messages++;
    share->bytes += bytes;
    share->messages += seconds;
    if (has_room(run, ARRAY_RESERVE(run->handed, run->capacity, run->n_handed + 1)))
        run->handed[run->n_handed++] =
            (struct handed){from, run->process_of[command->other], clock + seconds};
}

/* When the next bytes that a process has handed to another are there. */
static double take_handed(struct run *run, uint32_t from, uint32_t to)
{
    for (size_t i = 0; i < run->n_handed; i++) {
        if (run->handed[i].from != from || run->handed[i].to != to) continue;
        double arrival = run->handed[i].arrival;
        memmove(&run->handed[i], &run->handed[i + 1], (--run->n_handed - i) * sizeof *run->handed);
        return arrival;
    }
    return 0;
}

/* Sends what has collected for a process, with a message to one of its devices; *bytes: beyond commands. */
static void send_commands(struct run *run, uint32_t device, uint64_t bytes)
{
    const uint32_t number = run->process_of[device];
    struct process *process = &run->processes[number];
    double arrival =
        run->clock + add_message(run, device, link_of(run, device)->traffic.message + process->bytes + bytes);
    if (arrival > process->clock) process->clock = arrival;
    for (size_t i = 0; i < process->n_commands; i++) {
        const struct command *command = &process->commands[i];
        if (command->kind == COMPUTE) process->clock += command->seconds;
        if (command->kind == SEND) hand_over(run, number, command, process->clock);
        if (command->kind != TAKE) continue;
        double there = take_handed(run, command->other, number);
        if (there > process->clock) process->clock = there;
    }
    process->n_commands = 0;
    process->bytes = 0;
    process->sends = process->takes = false;
}

static void flush(struct run *run, uint32_t device)
{
    const struct device_link *link = link_of(run, device);
    const uint32_t number = run->process_of[device];
    if (!is_remote(run, device) || !run->is_dirty[device]) return;
    /* What is taken has to be sent before. */
    for (uint32_t p = 0; p < run->plan->set.n_devices && run->processes[number].takes; p++)
        if (p != number && run->processes[p].sends) send_commands(run, p, 0);
    send_commands(run, device, link->traffic.wait);
    run->replied[device] =
        run->processes[number].clock + add_message(run, device, link->traffic.answer + run->to_read[device]);
    run->to_read[device] = 0;
    run->is_dirty[device] = false;
}

static void wait_for(struct run *run, uint32_t device)
{
    flush(run, device);
    const double done =
        is_remote(run, device) ? run->replied[device] : run->processes[run->process_of[device]].clock;
    if (done > run->clock) run->clock = done;
}

static void flush_others(struct run *run, uint32_t device)
{
    for (uint32_t d = 0; d < run->plan->set.n_devices; d++) {
        if (d == device || !run->is_unflushed[d]) continue;
        flush(run, d);
        run->is_unflushed[d] = false;
    }
}

/* Bytes of a command and its data. */
static void add_bytes(struct run *run, uint32_t device, uint64_t bytes)
{
    run->processes[run->process_of[device]].bytes += bytes;
    run->is_dirty[device] = true;
}

static void write_to(struct run *run, uint32_t device, uint64_t size)
{
    if (is_remote(run, device)) add_bytes(run, device, link_of(run, device)->traffic.write + size);
}

static void read_from(struct run *run, uint32_t device, uint64_t size)
{
    run->is_unflushed[device] = true;
    if (!is_remote(run, device)) return;
    add_bytes(run, device, link_of(run, device)->traffic.read);
    run->to_read[device] += size;
}

/* Between devices of other processes, these copy; otherwise it goes through the host's memory. */
static void copy(struct run *run, uint32_t source, uint32_t target, uint64_t size)
{
    const struct engine_traffic *one = &link_of(run, source)->traffic,
                                *other = &link_of(run, target)->traffic;
    const uint32_t from = run->process_of[source], to = run->process_of[target];
    if (!is_remote(run, source) || !is_remote(run, target)) {
        if (is_remote(run, source)) read_from(run, source, size);
        wait_for(run, source);
        write_to(run, target, size);
        return;
    }
    if (from == to) {
        add_bytes(run, source, one->pass);
    } else {
        add_bytes(run, source, one->send);
        add_bytes(run, target, other->send);
        add_command(run, source, (struct command){SEND, 0, target, size});
        add_command(run, target, (struct command){TAKE, 0, from, size});
        run->processes[from].sends = run->processes[to].takes = true;
    }
    run->is_dirty[source] = run->is_dirty[target] = true;
    run->is_unflushed[source] = run->is_unflushed[target] = true;
}

static void compute(struct run *run, const struct plan_batch *batch, const struct step *step, bool with_time)
{
    const uint32_t device = step->device;
    double seconds = 0;
    flush_others(run, device);
    if (with_time) seconds = predict_operations(run->plan, batch, step, &run->shares[device]);
    run->is_unflushed[device] = true;
    if (is_remote(run, device)) {
        add_bytes(run, device, link_of(run, device)->traffic.replay);
        add_command(run, device, (struct command){COMPUTE, seconds, 0, 0});
        return;
    }
    double *clock = &run->processes[run->process_of[device]].clock;
    *clock = (*clock > run->clock ? *clock : run->clock) + seconds;
    /* The CPU's operations run in the thread that flushes them. */
    if (device == 0) run->clock = *clock;
}

static void add_batch(struct run *run, const struct plan_batch *batch, bool with_time)
{
    const struct schedule *schedule = batch->schedule;
    const struct storage *result = NULL;
    size_t n_steps = batch->has_logits ? schedule->n_steps : schedule_lasting(schedule);
    for (size_t i = 0; i < schedule->n_storages; i++) {
        const struct storage *storage = &schedule->storages[i];
        if (storage->value == schedule->graph->logits) result = storage;
        if (storage->value->kind == VALUE_INPUT) write_to(run, storage->device, storage->size);
    }
    for (size_t i = 0; i < n_steps; i++) {
        const struct step *step = &schedule->steps[i];
        if (step->kind == STEP_RUN) compute(run, batch, step, with_time);
        if (step->kind != STEP_COPY) continue;
        const struct storage *source = &schedule->storages[step->source];
        copy(run, source->device, step->device, source->size);
    }
    if (batch->has_logits && result) read_from(run, result->device, result->size);
    flush_others(run, PLACE_MAX_DEVICES);
}

int predict_run(const struct engine_plan *plan, const struct plan_batch *batches, size_t n, bool with_time,
                struct plan_share *shares, double *seconds)
{
    struct run *run = calloc(1, sizeof *run);
    if (!run) return error_memory("prediction");
    run->plan = plan;
    run->shares = shares;
    for (uint32_t d = 0; d < plan->set.n_devices; d++) {
        const struct device_link *link = link_of(run, d);
        uint32_t p = 0;
        while (p < d && (link->bandwidth == 0 || link_of(run, p)->bandwidth == 0 ||
                         link_of(run, p)->traffic.peer != link->traffic.peer))
            p++;
        run->process_of[d] = p;
    }
    for (size_t i = 0; i < n && !run->status; i++) add_batch(run, &batches[i], with_time);
    for (uint32_t d = 0; d < plan->set.n_devices; d++) wait_for(run, d);
    *seconds = run->clock;
    int status = run->status;
    for (uint32_t p = 0; p < plan->set.n_devices; p++) free(run->processes[p].commands);
    free(run->handed);
    free(run);
    return status;
}
