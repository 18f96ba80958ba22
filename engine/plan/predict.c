/* predict.c: what a token and a prompt cost under a plan: messages and their bytes, counted as the executor
 * sends them, and seconds, from how fast devices and links are. First the time of a batch's operations; then
 * a run of batches, step by step; then the functions of engine.h. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/array.h"
#include "common/sized.h"
#include "devices/cluster.h"
#include "devices/measure.h"
#include "kv/cache.h"
#include "model/types.h"
#include "plan/internal.h"

/* ---- Operations ----------------------------------------------------------------------------------- */

/* An operation takes as long as its device needs to read its weights and caches, or to compute, whichever is
 * longer, and a moment to start. */

/* Tokens that are computed together. */
struct plan_batch {
    const struct schedule *schedule;
    uint64_t n_tokens, position; /* position of the first */
    bool has_logits;
};

/* What an operation reads, in bytes, and computes, with weights of a type. */
struct work {
    double bytes, operations;
    uint32_t type;
    double prepared; /* weights that several columns are multiplied with */
};

static double elements(const struct engine_tensor *tensor)
{
    double n = 1;
    for (int d = 0; tensor && d < 4; d++) n *= (double)tensor->ne[d];
    return tensor ? n : 0;
}

/* Of experts, those that tokens are routed to: each token to others, if there are enough. */
static struct work matmul_work(const struct engine_plan *plan, const struct engine_op_matmul *args)
{
    const struct value *weight = value_of(args->weight);
    const struct engine_tensor *tensor = args->weight;
    const double matrices = (double)tensor->ne[2], gates = args->gate ? 2 : 1;
    const double size = (double)tensor->ne[0] * (double)tensor->ne[1];
    double bytes = 0, columns = elements(args->output) / (double)tensor->ne[1], used = matrices;
    if (weight->kind == VALUE_WEIGHT) bytes = (double)plan->weights[weight->index].tensor->size;
    if (args->experts) {
        columns = elements(args->experts);
        if (columns < matrices) used = columns;
        bytes *= used / matrices;
    }
    return (struct work){gates * bytes, gates * 2 * size * columns, tensor->type,
                         columns > used ? gates * size * used : 0};
}

static double row_bytes(const struct engine_tensor *cache)
{
    const struct type_info *info = type_info(cache->type);
    const uint64_t bytes = cache->ne[0] / info->block_length * info->block_size;
    return (double)bytes;
}

/* A token sees the positions before it, or those of the window. */
static struct work attention_work(const struct engine_op_attention *args, const struct plan_batch *batch)
{
    const double n = (double)batch->n_tokens, first = (double)batch->position;
    const double heads = (double)args->q->ne[1], window = (double)args->window;
    double seen = n * first + n * (n + 1) / 2, positions = first + n;
    if (args->window && seen > n * window) seen = n * window;
    if (args->window && positions > window + n) positions = window + n;
    /* Rows that stand for blocks of positions are as many fewer as a block of the cache has. */
    const double share = (double)args->k->ne[1] / KV_BLOCK_SIZE;
    seen *= share, positions *= share;
    return (struct work){positions * (double)args->k->ne[2] * (row_bytes(args->k) + row_bytes(args->v)),
                         2 * heads * (double)(args->k->ne[0] + args->v->ne[0]) * seen, ENGINE_TYPE_F32, 0};
}

/* Everything else reads and writes its operands, and computes little. */
static struct work other_work(const struct node *node)
{
    struct work work = {0, 0, ENGINE_TYPE_F32, 0};
    for (const struct op_operand *operand = op_operands(node->op); operand->name; operand++) {
        const struct engine_tensor *tensor = op_given(&node->args, operand);
        if (!tensor) continue;
        enum value_kind kind = value_of(tensor)->root->kind;
        if (operand->role & OP_OUT || kind == VALUE_ACTIVATION) work.bytes += 4 * elements(tensor);
    }
    if (node->op == ENGINE_OP_CACHE_WRITE) work.bytes = 8 * elements(node->args.cache_write.input);
    return work;
}

/* The time of a step's operations, which is added to its device's share. */
static double predict_operations(const struct engine_plan *plan, const struct plan_batch *batch,
                                 const struct schedule_step *step, struct plan_share *share)
{
    const struct device_pace *pace = &plan->set.devices[step->device].pace;
    double seconds = 0;
    for (size_t i = 0; i < step->n_nodes; i++) {
        const struct node *node = &batch->schedule->graph->nodes[step->first_node + i];
        struct work work;
        if (node->op == ENGINE_OP_MATMUL)
            work = matmul_work(plan, &node->args.matmul);
        else if (node->op == ENGINE_OP_ATTENTION)
            work = attention_work(&node->args.attention, batch);
        else
            work = other_work(node);
        const struct pace_of_type of = pace_for(pace, work.type);
        const double reading = work.bytes / of.bandwidth;
        const double computing = work.operations / of.computation + work.prepared * of.preparation;
        const double longer = reading > computing ? reading : computing;
        *(reading > computing ? &share->reading : &share->computing) += longer;
        share->overhead += pace->overhead;
        seconds += longer + pace->overhead;
    }
    return seconds;
}

/* ---- A run ---------------------------------------------------------------------------------------- */

/* As graph/execute.c does it, with a clock for the host and one for each process that has devices. Commands
 * collect for each process until one of its devices is flushed, and are done there one after the other; the
 * host goes on meanwhile. */

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

struct prediction {
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

static bool is_remote(const struct prediction *run, uint32_t device)
{
    return run->plan->set.devices[device].link.bandwidth > 0;
}

static const struct device_link *link_of(const struct prediction *run, uint32_t device)
{
    return &run->plan->set.devices[device].link;
}

/* Whether an array has grown: otherwise memory is out. */
static bool has_grown(struct prediction *run, bool grown)
{
    if (!grown) run->status = error_memory("prediction");
    return grown;
}

static void add_command(struct prediction *run, uint32_t device, struct command command)
{
    struct process *process = &run->processes[run->process_of[device]];
    if (has_grown(run, ARRAY_RESERVE(process->commands, process->capacity, process->n_commands + 1)))
        process->commands[process->n_commands++] = command;
}

/* A message of so many bytes between a device and the host: the time that it takes. */
static double add_message(struct prediction *run, uint32_t device, uint64_t bytes)
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
static void hand_over(struct prediction *run, uint32_t from, const struct command *command, double clock)
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
    if (has_grown(run, ARRAY_RESERVE(run->handed, run->capacity, run->n_handed + 1)))
        run->handed[run->n_handed++] =
            (struct handed){from, run->process_of[command->other], clock + seconds};
}

/* When the next bytes that a process has handed to another are there. */
static double take_handed(struct prediction *run, uint32_t from, uint32_t to)
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
static void send_commands(struct prediction *run, uint32_t device, uint64_t bytes)
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

static void predict_flush(struct prediction *run, uint32_t device)
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

static void wait_for(struct prediction *run, uint32_t device)
{
    predict_flush(run, device);
    const double done =
        is_remote(run, device) ? run->replied[device] : run->processes[run->process_of[device]].clock;
    if (done > run->clock) run->clock = done;
}

static void flush_others(struct prediction *run, uint32_t device)
{
    for (uint32_t d = 0; d < run->plan->set.n_devices; d++) {
        if (d == device || !run->is_unflushed[d]) continue;
        predict_flush(run, d);
        run->is_unflushed[d] = false;
    }
}

/* Bytes of a command and its data. */
static void add_bytes(struct prediction *run, uint32_t device, uint64_t bytes)
{
    run->processes[run->process_of[device]].bytes += bytes;
    run->is_dirty[device] = true;
}

static void write_to(struct prediction *run, uint32_t device, uint64_t size)
{
    if (is_remote(run, device)) add_bytes(run, device, link_of(run, device)->traffic.write + size);
}

static void read_from(struct prediction *run, uint32_t device, uint64_t size)
{
    run->is_unflushed[device] = true;
    if (!is_remote(run, device)) return;
    add_bytes(run, device, link_of(run, device)->traffic.read);
    run->to_read[device] += size;
}

/* Between devices of other processes, these copy; otherwise it goes through the host's memory. */
static void predict_copy(struct prediction *run, uint32_t source, uint32_t target, uint64_t size)
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

static void compute(struct prediction *run, const struct plan_batch *batch, const struct schedule_step *step,
                    bool with_time)
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

static void add_batch(struct prediction *run, const struct plan_batch *batch, bool with_time)
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
        const struct schedule_step *step = &schedule->steps[i];
        if (step->kind == SCHEDULE_RUN) compute(run, batch, step, with_time);
        if (step->kind != SCHEDULE_COPY) continue;
        const struct storage *source = &schedule->storages[step->source];
        predict_copy(run, source->device, step->device, source->size);
    }
    if (batch->has_logits && result) read_from(run, result->device, result->size);
    flush_others(run, PLACE_MAX_DEVICES);
}

/* Runs batches one after the other, as fast as devices and links are, and waits for all. Adds to
 * shares[n_devices]. Without time, only messages count. */
static int predict_run(const struct engine_plan *plan, const struct plan_batch *batches, size_t n,
                       bool with_time, struct plan_share *shares, double *seconds)
{
    struct prediction *run = calloc(1, sizeof *run);
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

/* ---- Predictions ---------------------------------------------------------------------------------- */

#define DEFAULT_PROMPT 512

#define LEAST_PART 20 /* the part of all bytes that a type has whose pace matters */

/* The types of the plan's matrices, those with the most bytes first. */
static size_t find_types(const struct engine_plan *plan, uint32_t types[PACE_TYPES])
{
    uint64_t bytes[PACE_TYPES] = {0}, all = 0;
    size_t n = 0;
    for (size_t i = 0; i < plan->n_weights; i++) {
        const struct plan_weight *weight = &plan->weights[i];
        size_t k = 0;
        if (!(weight->uses & ENGINE_WEIGHT_MATMUL)) continue;
        while (k < n && types[k] != weight->tensor->type) k++;
        if (k == PACE_TYPES) continue;
        if (k == n) types[n++] = weight->tensor->type;
        bytes[k] += weight->tensor->size;
        all += weight->tensor->size;
        for (; k > 0 && bytes[k] > bytes[k - 1]; k--) {
            uint64_t size = bytes[k];
            uint32_t type = types[k];
            bytes[k] = bytes[k - 1], bytes[k - 1] = size;
            types[k] = types[k - 1], types[k - 1] = type;
        }
    }
    while (n > 0 && bytes[n - 1] < all / LEAST_PART) n--;
    return n;
}

/* The graph of n tokens from `position` on. */
static int schedule_batch(const struct engine_plan *plan, uint32_t n, uint64_t position,
                          struct schedule **schedule)
{
    struct shape_key key = plan_full_shape(plan, n, 1, false);
    uint64_t last = position + n < plan->n_context ? position + n : plan->n_context;
    key.table_width = plan_table_width(plan, kv_blocks_for((uint32_t)last));
    return plan_schedule(plan, &key, schedule);
}

/* Adds the product of a node to those of its type, as often as a token goes through such matrices, while
 * these are fewer bytes than tell the pace. *bytes: of all so far. */
static int add_product(struct trial_chain *token, const struct node *node, uint64_t *bytes)
{
    const struct engine_op_matmul *args = &node->args.matmul;
    if (node->op != ENGINE_OP_MATMUL || value_of(args->weight)->kind != VALUE_WEIGHT ||
        args->weight->type != token->type)
        return ENGINE_OK;
    const struct trial_matrix matrix = {args->weight->ne[0], args->weight->ne[1], args->gate != NULL};
    const uint64_t times = args->experts ? args->experts->ne[0] : args->weight->ne[2];
    for (uint64_t i = 0; i < times && *bytes < PACE_BYTES; i++) {
        if (!ARRAY_GROW(token->matrices, token->n)) return error_memory("prediction");
        token->matrices[token->n++] = matrix;
        *bytes += trial_bytes(token->type, &matrix);
    }
    return ENGINE_OK;
}

/* Measures the devices with the products of a token. */
static int predict_measure(struct engine_plan *plan)
{
    uint32_t types[PACE_TYPES];
    struct trial_chain tokens[PACE_TYPES] = {0};
    struct schedule *schedule = NULL;
    const size_t n = find_types(plan, types);
    int status = schedule_batch(plan, 1, 0, &schedule);
    for (size_t t = 0; t < n && !status; t++) {
        uint64_t bytes = 0;
        tokens[t] = (struct trial_chain){.type = types[t], .columns = 1};
        for (size_t i = 0; i < schedule->graph->n_nodes && !status; i++)
            status = add_product(&tokens[t], &schedule->graph->nodes[i], &bytes);
    }
    if (!status) status = devices_measure_pace(&plan->set, tokens, n);
    for (size_t t = 0; t < n; t++) free(tokens[t].matrices);
    schedule_destroy(schedule);
    return status;
}

/* As engine_decode cuts a prompt. Parts of one length share a graph, that of the last of them. */
static int predict_prompt(struct engine_plan *plan, uint32_t n_prompt, bool with_time)
{
    struct plan_phase *phase = &plan->prefill;
    struct schedule *whole = NULL, *rest = NULL;
    const uint32_t most = plan_part(plan, n_prompt), n = (n_prompt + most - 1) / most;
    struct plan_batch *batches = calloc(n, sizeof *batches);
    int status = batches ? ENGINE_OK : error_memory("prediction");
    if (!status) status = schedule_batch(plan, n_prompt - (n - 1) * most, (uint64_t)(n - 1) * most, &rest);
    if (!status && n > 1) status = schedule_batch(plan, most, (uint64_t)(n - 2) * most, &whole);
    for (uint32_t i = 0; i < n && !status; i++) {
        const bool is_last = i == n - 1;
        batches[i] = (struct plan_batch){is_last ? rest : whole, is_last ? n_prompt - i * most : most,
                                         (uint64_t)i * most, is_last};
    }
    *phase = (struct plan_phase){.n_tokens = n_prompt};
    if (!status) status = predict_run(plan, batches, n, with_time, phase->shares, &phase->seconds);
    schedule_destroy(whole);
    schedule_destroy(rest);
    free(batches);
    return status;
}

static int predict_token(struct engine_plan *plan, uint32_t position, bool with_time)
{
    struct plan_phase *phase = &plan->decode;
    struct plan_batch batch = {NULL, 1, position, true};
    struct schedule *schedule = NULL;
    *phase = (struct plan_phase){.n_tokens = 1, .position = position};
    int status = schedule_batch(plan, 1, position, &schedule);
    batch.schedule = schedule;
    if (!status) status = predict_run(plan, &batch, 1, with_time, phase->shares, &phase->seconds);
    schedule_destroy(schedule);
    return status;
}

int engine_plan_predict(struct engine_plan *plan, uint32_t n_prompt, uint32_t with_time)
{
    const uint32_t most = plan->n_context > 1 ? plan->n_context - 1 : 1;
    if (n_prompt == 0) n_prompt = most < DEFAULT_PROMPT ? most : DEFAULT_PROMPT;
    if (plan->info.is_encoder || plan->info.has_source)
        return error_raise(ENGINE_ERROR_UNSUPPORTED, "%s: only decoders' speed can be predicted",
                           plan->architecture->name);
    if (n_prompt > most)
        return error_raise(ENGINE_ERROR_ARGUMENT,
                           "a prompt of %u tokens and one more don't fit into a context of %u (-c)", n_prompt,
                           plan->n_context);
    int status = with_time ? predict_measure(plan) : ENGINE_OK;
    if (!status) status = predict_prompt(plan, n_prompt, with_time != 0);
    if (!status) status = predict_token(plan, n_prompt, with_time != 0);
    return status;
}

static const struct plan_phase *phase_of(const struct engine_plan *plan, uint32_t phase)
{
    return phase == ENGINE_PREFILL ? &plan->prefill : &plan->decode;
}

int engine_plan_get_phase(const struct engine_plan *plan, uint32_t phase, struct engine_plan_phase *out)
{
    int status = SIZED_CHECK(out, engine_plan_phase, seconds);
    if (status) return status;
    const struct plan_phase *known = phase_of(plan, phase);
    const struct engine_plan_phase answer = {.struct_size = sizeof answer,
                                             .n_tokens = known->n_tokens,
                                             .position = known->position,
                                             .seconds = known->seconds};
    sized_write(out, &answer, sizeof answer);
    return ENGINE_OK;
}

int engine_plan_get_share(const struct engine_plan *plan, uint32_t phase, size_t device,
                          struct engine_plan_share *out)
{
    int status = SIZED_CHECK(out, engine_plan_share, message_bytes);
    if (status) return status;
    if (device >= plan->set.n_devices)
        return error_raise(ENGINE_ERROR_ARGUMENT, "the plan has no device %zu", device);
    const struct plan_share *share = &phase_of(plan, phase)->shares[device];
    const struct engine_plan_share answer = {
        .struct_size = sizeof answer,
        .reading = share->reading,
        .computing = share->computing,
        .overhead = share->overhead,
        .messages = share->messages,
        .n_messages = share->n_messages,
        .message_bytes = share->bytes,
    };
    sized_write(out, &answer, sizeof answer);
    return ENGINE_OK;
}

int engine_plan_write_cluster(struct engine_plan *plan, const char *path)
{
    int status = predict_measure(plan);
    return status ? status : cluster_write(&plan->set, path);
}
