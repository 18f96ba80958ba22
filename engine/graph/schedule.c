/* schedule.c: see schedule.h. Three passes: give each operand a storage on the device that reads it (adding
 * copies), find how long each storage is needed, and lay them out in arenas so that storages with separate
 * lifetimes share memory. */
#include "graph/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "common/array.h"
#include "common/assert.h"

#define NONE UINT32_MAX

/* When a storage is first written and last read, counted in nodes. */
struct lifetime {
    size_t birth, death;
    uint32_t alias; /* the storage whose bytes it reuses, or NONE */
};

struct build {
    struct schedule *schedule;
    struct lifetime *lifetimes; /* [capacity of storages] */
    uint32_t n_devices;         /* that nodes run on, and those before them */
    uint32_t *stored;           /* [n_values before copies, n_devices]: storage, or NONE */
    uint32_t *home;        /* [n_values before copies]: device where the value is made, NONE for inputs */
    struct value **copied; /* [n_values before copies, n_devices]: this value's copy on a device */
};

static bool is_stored(const struct value *value)
{
    return value->root->kind == VALUE_ACTIVATION || value->root->kind == VALUE_INPUT;
}

static uint64_t dense_size(const struct value *value)
{
    return value->tensor.nb[3] * value->tensor.ne[3];
}

/* ---- Operands, copies ---------------------------------------------------------------------------------- */

/* A second value like `value`, for another device. The graph's array of values owns it. */
static struct value *clone_value(struct graph *graph, const struct value *value)
{
    struct value *clone = malloc(sizeof *clone);
    if (!clone || !ARRAY_GROW(graph->values, graph->n_values)) {
        free(clone);
        error_memory("graph");
        return NULL;
    }
    *clone = *value;
    clone->root = clone;
    clone->id = (uint32_t)graph->n_values;
    graph->values[graph->n_values++] = clone;
    return clone;
}

static uint32_t add_storage(struct build *build, struct value *root, uint32_t device, size_t birth)
{
    struct schedule *schedule = build->schedule;
    uint32_t number = (uint32_t)schedule->n_storages++;
    schedule->storages[number] = (struct storage){.value = root, .device = device, .size = dense_size(root)};
    build->lifetimes[number] = (struct lifetime){birth, birth, NONE};
    return number;
}

static int add_step(struct schedule *schedule, const struct schedule_step *step)
{
    if (!ARRAY_GROW(schedule->steps, schedule->n_steps)) return error_memory("schedule");
    schedule->steps[schedule->n_steps++] = *step;
    return ENGINE_OK;
}

/* Makes sure that the root of a value is on `device` before node `now` and puts its storage's number into
 * *storage. */
static int store_root(struct build *build, struct value *root, uint32_t device, size_t now, uint32_t *storage)
{
    ENGINE_ASSERT(device < build->n_devices);
    ENGINE_ASSERT(root->root == root);
    uint32_t *slot = &build->stored[root->id * build->n_devices + device];
    if (*slot == NONE) {
        uint32_t home = build->home[root->id];
        bool first = home == NONE || home == device;
        for (uint32_t d = 0; first && root->kind == VALUE_INPUT && d < build->n_devices; d++)
            if (build->stored[root->id * build->n_devices + d] != NONE) first = false;
        struct value *there = first ? root : clone_value(build->schedule->graph, root);
        if (!there) return ENGINE_ERROR_MEMORY;
        build->copied[root->id * build->n_devices + device] = there;
        *slot = add_storage(build, there, device, root->kind == VALUE_INPUT ? 0 : now);
        if (root->kind == VALUE_ACTIVATION && home != device) {
            uint32_t source = build->stored[root->id * build->n_devices + home];
            ENGINE_ASSERT(source != NONE); /* whoever makes a value stores it */
            build->lifetimes[source].death = now;
            build->schedule->n_copies++;
            build->schedule->copy_bytes += build->schedule->storages[*slot].size;
            int status =
                add_step(build->schedule,
                         &(struct schedule_step){
                             .kind = SCHEDULE_COPY, .device = device, .source = source, .target = *slot});
            if (status) return status;
        }
    }
    if (build->lifetimes[*slot].death < now) build->lifetimes[*slot].death = now;
    *storage = *slot;
    return ENGINE_OK;
}

/* Points an operand of a node at the value's copy on the node's device, including through views. */
static int bind_operand(struct build *build, const struct engine_tensor **operand, uint32_t device,
                        size_t now)
{
    struct value *value = value_of(*operand), *root = value->root;
    uint32_t storage;
    if (!is_stored(value)) return ENGINE_OK;
    int status = store_root(build, root, device, now, &storage);
    if (status) return status;
    struct value *root_there = build->copied[root->id * build->n_devices + device];
    struct value **there = &build->copied[value->id * build->n_devices + device];
    if (!*there) {
        *there = root_there == root ? value : clone_value(build->schedule->graph, value);
        if (!*there) return ENGINE_ERROR_MEMORY;
        (*there)->root = root_there;
    }
    *operand = &(*there)->tensor;
    return ENGINE_OK;
}

/* Hands out a value that a node has just made: nothing has been able to reuse its bytes yet. */
static int add_watches(struct build *build, const struct value *root, uint32_t device)
{
    const struct graph *graph = build->schedule->graph;
    int status = ENGINE_OK;
    for (size_t i = 0; i < graph->n_watches && !status; i++)
        if (graph->watches[i].value == root)
            status = add_step(
                build->schedule,
                &(struct schedule_step){.kind = SCHEDULE_WATCH,
                                        .device = device,
                                        .source = build->stored[root->id * build->n_devices + device],
                                        .target = i});
    return status;
}

/* Adds the node to the last step if that runs on the same device. */
static int add_run(struct schedule *schedule, const struct node *node, size_t now)
{
    struct schedule_step *last = schedule->n_steps ? &schedule->steps[schedule->n_steps - 1] : NULL;
    if (last && last->kind == SCHEDULE_RUN && last->device == node->device) {
        last->n_nodes++;
        return ENGINE_OK;
    }
    return add_step(schedule, &(struct schedule_step){SCHEDULE_RUN, node->device, now, 1, 0, 0});
}

/* Hands out the input of a product with a weight of the model: the operation may overwrite it. Factors of
 * adapters are none. */
static int add_input_watch(struct build *build, const struct node *node, size_t now)
{
    const struct graph *graph = build->schedule->graph;
    if (!(graph->shape.watch & WATCH_INPUTS) || node->op != ENGINE_OP_MATMUL) return ENGINE_OK;
    const struct value *weight = value_of(node->args.matmul.weight);
    if (weight->kind != VALUE_WEIGHT || graph->weights[weight->index].changes != NO_WEIGHT) return ENGINE_OK;
    return add_step(build->schedule, &(struct schedule_step){SCHEDULE_INPUT, node->device, now, 1, 0, 0});
}

static int add_node(struct build *build, size_t now)
{
    struct schedule *schedule = build->schedule;
    struct node *node = &schedule->graph->nodes[now];
    const struct op_operand *operands = op_operands(node->op), *operand;
    int status = ENGINE_OK;
    for (operand = operands; operand->name && !status; operand++) {
        const struct engine_tensor **tensor = op_tensor(&node->args, operand);
        if (operand->role == OP_IN && *tensor) status = bind_operand(build, tensor, node->device, now);
    }
    for (operand = operands; operand->name && !status; operand++) {
        const struct engine_tensor **tensor = op_tensor(&node->args, operand);
        if (!(operand->role & OP_OUT) || !*tensor) continue;
        build->home[value_of(*tensor)->root->id] = node->device;
        status = bind_operand(build, tensor, node->device, now);
    }
    if (!status) status = add_input_watch(build, node, now);
    if (!status) status = add_run(schedule, node, now);
    for (operand = operands; operand->name && !status; operand++) {
        const struct engine_tensor *tensor = op_given(&node->args, operand);
        if (operand->role & OP_OUT && tensor)
            status = add_watches(build, value_of(tensor)->root, node->device);
    }
    return status;
}

/* ---- Memory -------------------------------------------------------------------------------------------- */

static uint32_t storage_of(const struct build *build, const struct engine_tensor *tensor)
{
    const struct value *root = value_of(tensor)->root;
    const struct schedule *schedule = build->schedule;
    for (uint32_t i = 0; i < schedule->n_storages; i++)
        if (schedule->storages[i].value == root) return i;
    return NONE;
}

/* Whether the node reads the storage through just one operand. */
static bool read_once(const struct node *node, const struct value *root)
{
    int reads = 0;
    for (const struct op_operand *operand = op_operands(node->op); operand->name; operand++) {
        const struct engine_tensor *tensor = op_given(&node->args, operand);
        reads += operand->role & OP_IN && tensor && value_of(tensor)->root == root;
    }
    return reads == 1;
}

/* The first output of a node, which may have the bytes of an operand with OP_IN_PLACE. */
static const struct value *first_output(const struct node *node)
{
    const struct op_operand *operand = op_operands(node->op);
    while (!(operand->role & OP_OUT)) operand++;
    return value_of(op_given(&node->args, operand));
}

/* Lets outputs reuse the bytes of an input that the node making them is the last to read. */
static void alias_in_place(struct build *build, const uint32_t *number_of_root)
{
    struct schedule *schedule = build->schedule;
    for (size_t now = 0; now < schedule->graph->n_nodes; now++) {
        const struct node *node = &schedule->graph->nodes[now];
        const struct value *output = first_output(node);
        if (!is_stored(output)) continue;
        ENGINE_ASSERT(number_of_root[output->root->id] != NONE);
        uint32_t target = number_of_root[output->root->id];
        for (const struct op_operand *operand = op_operands(node->op); operand->name; operand++) {
            const struct engine_tensor *tensor = op_given(&node->args, operand);
            if (!(operand->flags & OP_IN_PLACE) || !tensor) continue;
            if (value_of(tensor)->root->kind != VALUE_ACTIVATION) continue;
            uint32_t source = number_of_root[value_of(tensor)->root->id];
            if (build->lifetimes[source].death != now || build->lifetimes[target].alias != NONE) continue;
            if (schedule->storages[source].size != schedule->storages[target].size) continue;
            if (!read_once(node, value_of(tensor)->root)) continue;
            ENGINE_ASSERT(schedule->storages[source].device == schedule->storages[target].device);
            build->lifetimes[target].alias = source;
            /* From now on the bytes belong to the target; whoever looks up the source's end gets the
             * target's. */
            build->lifetimes[source].death = SIZE_MAX;
        }
    }
}

static uint32_t resolve(const struct build *build, uint32_t storage)
{
    while (build->lifetimes[storage].alias != NONE) {
        ENGINE_ASSERT(build->lifetimes[storage].alias < storage); /* what is reused is older: no circles */
        storage = build->lifetimes[storage].alias;
    }
    return storage;
}

/* First fit, in order of birth: each storage gets the lowest gap among those alive at the same time. */
static int lay_out(struct build *build, const uint32_t alignment[PLACE_MAX_DEVICES])
{
    struct schedule *schedule = build->schedule;
    size_t n = schedule->n_storages;
    uint32_t *placed = malloc((n + 1) * sizeof *placed); /* numbers of those laid out, by offset */
    if (!placed) return error_memory("schedule");
    size_t n_placed = 0;
    int status = ENGINE_OK;
    for (uint32_t i = 0; i < n; i++) { /* storages are created in order of birth; inputs live from 0 */
        struct storage *storage = &schedule->storages[i];
        const struct lifetime *life = &build->lifetimes[i];
        if (life->alias != NONE) {
            storage->offset = schedule->storages[resolve(build, i)].offset;
            continue;
        }
        uint64_t start = 0, end;
        size_t at = 0;
        for (size_t k = 0; k < n_placed; k++) {
            const struct storage *other = &schedule->storages[placed[k]];
            const struct lifetime *theirs = &build->lifetimes[placed[k]];
            if (other->device != storage->device) continue;
            if (theirs->death < life->birth || life->death < theirs->birth) continue;
            if (other->offset >= start && other->offset - start >= storage->size) break;
            if (other->offset + other->size > start) start = other->offset + other->size;
            if (checked_align(start, alignment[storage->device], &start))
                status = error_memory("activations");
        }
        if (checked_add(start, storage->size, &end)) status = error_memory("activations");
        if (status) break;
        ENGINE_ASSERT(start % alignment[storage->device] == 0);
        storage->offset = start;
        if (end > schedule->arena[storage->device]) schedule->arena[storage->device] = end;
        while (at < n_placed && schedule->storages[placed[at]].offset <= start) at++;
        memmove(&placed[at + 1], &placed[at], (n_placed - at) * sizeof *placed);
        placed[at] = i;
        n_placed++;
    }
    free(placed);
    return status;
}

static int assign_memory(struct build *build, const uint32_t alignment[PLACE_MAX_DEVICES])
{
    struct schedule *schedule = build->schedule;
    const struct graph *graph = schedule->graph;
    uint32_t *number_of_root = malloc(graph->n_values * sizeof *number_of_root);
    if (!number_of_root) return error_memory("schedule");
    memset(number_of_root, 0xff, graph->n_values * sizeof *number_of_root);
    for (uint32_t i = 0; i < schedule->n_storages; i++) number_of_root[schedule->storages[i].value->id] = i;

    /* Inputs are written before the run, and logits are read after it. */
    for (uint32_t i = 0; i < schedule->n_storages; i++)
        if (schedule->storages[i].value->kind == VALUE_INPUT) build->lifetimes[i].death = graph->n_nodes;
    if (graph->logits) build->lifetimes[storage_of(build, &graph->logits->tensor)].death = graph->n_nodes;

    alias_in_place(build, number_of_root);
    for (uint32_t i = 0; i < schedule->n_storages;
         i++) { /* a chain of aliases lives as long as its last link */
        if (build->lifetimes[i].alias == NONE) continue;
        struct lifetime *first = &build->lifetimes[resolve(build, i)];
        size_t death = build->lifetimes[i].death;
        if (death != SIZE_MAX) first->death = death;
    }
    free(number_of_root);
    return lay_out(build, alignment);
}

/* -------------------------------------------------------------------------------------------------------- */

int schedule_create(struct graph *graph, const uint32_t alignment[PLACE_MAX_DEVICES], struct schedule **out)
{
    struct build build = {.schedule = calloc(1, sizeof *build.schedule), .n_devices = 1};
    struct schedule *schedule = build.schedule;
    if (!schedule) {
        graph_destroy(graph);
        return error_memory("schedule");
    }
    for (size_t i = 0; i < graph->n_nodes; i++) {
        ENGINE_ASSERT(graph->nodes[i].device < PLACE_MAX_DEVICES);
        if (graph->nodes[i].device >= build.n_devices) build.n_devices = graph->nodes[i].device + 1;
    }
    size_t n = graph->n_values, table = n * build.n_devices; /* copies add to graph->n_values */
    int status = ENGINE_OK;
    schedule->graph = graph;
    schedule->storages = malloc(table * sizeof *schedule->storages);
    build.stored = malloc(table * sizeof *build.stored);
    build.copied = calloc(table, sizeof *build.copied);
    build.home = malloc(n * sizeof *build.home);
    build.lifetimes = malloc(table * sizeof *build.lifetimes);
    if (!schedule->storages || !build.stored || !build.copied || !build.home || !build.lifetimes) {
        status = error_memory("schedule");
        goto cleanup;
    }
    memset(build.stored, 0xff, table * sizeof *build.stored);
    memset(build.home, 0xff, n * sizeof *build.home);
    for (size_t now = 0; now < graph->n_nodes && !status; now++) status = add_node(&build, now);
    if (!status) status = assign_memory(&build, alignment);

cleanup:
    free(build.stored);
    free(build.copied);
    free(build.home);
    free(build.lifetimes);
    ENGINE_ASSERT(schedule->n_storages <= table);
    if (status)
        schedule_destroy(schedule);
    else
        *out = schedule;
    return status;
}

static bool writes_cache(const struct schedule *schedule, const struct schedule_step *step)
{
    for (size_t i = 0; step->kind == SCHEDULE_RUN && i < step->n_nodes; i++)
        if (op_has(schedule->graph->nodes[step->first_node + i].op, OP_CACHE | OP_STATE, OP_OUT)) return true;
    return false;
}

size_t schedule_lasting(const struct schedule *schedule)
{
    const struct graph *graph = schedule->graph;
    size_t n = schedule->n_steps;
    if (!graph->logits || graph->n_watches > 0 || graph->shape.watch) return n;
    while (n > 0 && !writes_cache(schedule, &schedule->steps[n - 1])) n--;
    return n;
}

void schedule_destroy(struct schedule *schedule)
{
    if (!schedule) return;
    graph_destroy(schedule->graph);
    free(schedule->steps);
    free(schedule->storages);
    free(schedule);
}
