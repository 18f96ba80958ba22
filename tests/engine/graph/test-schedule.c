/* test-schedule.c: schedules of graphs that are spread over devices at random. The test runs them on paper:
 * every activation's bytes carry the number of the node that made them, and each node must find the right
 * numbers where it reads. That shows wrong lifetimes, wrong aliases, and copies that are missing or in the
 * wrong place. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "gguf-writer.h"
#include "graph/schedule.h"

#define N_DEVICES  4
#define N_GRAPHS   300
#define FROM_INPUT 1000000 /* + enum graph_input: what an input's bytes carry */

static const uint32_t alignment[PLACE_MAX_DEVICES] = {64, 256, 16, 4096};

struct paper {
    const struct schedule *schedule;
    uint32_t (*expected)[OP_MAX_OPERANDS]; /* [n_nodes] who made what each operand reads */
    uint32_t logits;                       /* who made them */
    uint32_t *memory[N_DEVICES];           /* one number for 4 bytes */
};

static struct model *open_tiny(bool tied)
{
    char path[] = "/tmp/engine-schedule-XXXXXX";
    struct model *model = NULL;
    int file = mkstemp(path);
    cr_assert_geq(file, 0);
    struct tiny_llama config = {.seed = 1, .type = ENGINE_TYPE_F32, .tied = tied};
    cr_assert(write_tiny_llama(path, &config));
    cr_assert_eq(model_open(path, NULL, &model), ENGINE_OK);
    remove(path);
    return model;
}

static struct graph *build(const struct model *model, uint32_t n_tokens, uint32_t watch)
{
    struct graph_shape shape = {.n_tokens = n_tokens,
                                .n_outputs = 1,
                                .n_sequences = 1,
                                .table_width = 4,
                                .cache_type = ENGINE_TYPE_F16,
                                .block_size = 32,
                                .n_blocks = 4,
                                .watch = watch,
                                .watch_n_layers = UINT32_MAX};
    const struct architecture *architecture = arch_of(model);
    void *hparams = calloc(1, architecture->size);
    struct arch_info info;
    cr_assert_eq(arch_read(architecture, model, hparams, &info), ENGINE_OK);
    struct graph *graph = graph_create(model, NULL, &shape);
    architecture->build(graph, hparams);
    cr_assert_eq(graph->status, ENGINE_OK);
    free(hparams);
    return graph;
}

static bool maybe(void *user, uint32_t device, uint32_t op, const union op_args *args)
{
    (void)device, (void)op, (void)args;
    return random_next(user) % 4 != 0;
}

/* ---- On paper ---- */

static const struct storage *storage_of(const struct schedule *schedule, const struct engine_tensor *tensor)
{
    for (size_t i = 0; i < schedule->n_storages; i++)
        if (schedule->storages[i].value == value_of(tensor)->root) return &schedule->storages[i];
    return NULL;
}

static void write_number(struct paper *paper, const struct storage *storage, uint32_t number)
{
    cr_assert_leq(storage->offset + storage->size, paper->schedule->arena[storage->device]);
    cr_assert_eq(storage->offset % alignment[storage->device], 0);
    for (uint64_t i = 0; i < storage->size / 4; i++)
        paper->memory[storage->device][storage->offset / 4 + i] = number;
}

static void run_node(struct paper *paper, size_t now)
{
    struct node *node = &paper->schedule->graph->nodes[now];
    const struct op_info *info = op_info(node->op);
    for (int i = 0; info->operands[i].name; i++) {
        const struct engine_tensor *tensor = op_given(&node->args, &info->operands[i]);
        const struct storage *storage =
            tensor && info->operands[i].role & OP_IN ? storage_of(paper->schedule, tensor) : NULL;
        if (!storage) continue;
        cr_assert_eq(storage->device, node->device, "%s reads from another device", info->name);
        for (uint64_t k = 0; k < storage->size / 4; k++)
            cr_assert_eq(paper->memory[storage->device][storage->offset / 4 + k], paper->expected[now][i],
                         "node %zu (%s), operand %d", now, info->name, i);
    }
    for (int i = 0; info->operands[i].name; i++) {
        const struct engine_tensor *tensor = op_given(&node->args, &info->operands[i]);
        const struct storage *output =
            tensor && info->operands[i].role & OP_OUT ? storage_of(paper->schedule, tensor) : NULL;
        if (!output) continue;
        cr_assert_eq(output->device, node->device);
        write_number(paper, output, (uint32_t)now + 1);
    }
}

static void run_on_paper(struct paper *paper)
{
    const struct schedule *schedule = paper->schedule;
    size_t next = 0, copies = 0, watches = 0;
    for (int d = 0; d < N_DEVICES; d++) paper->memory[d] = calloc(schedule->arena[d] / 4 + 1, 4);
    for (size_t i = 0; i < schedule->n_storages; i++)
        if (schedule->storages[i].value->kind == VALUE_INPUT)
            write_number(paper, &schedule->storages[i], FROM_INPUT + schedule->storages[i].value->index);
    for (size_t s = 0; s < schedule->n_steps; s++) {
        const struct schedule_step *step = &schedule->steps[s];
        if (step->kind == SCHEDULE_COPY) {
            const struct storage *source = &schedule->storages[step->source],
                                 *target = &schedule->storages[step->target];
            cr_assert_neq(source->device, target->device);
            cr_assert_eq(source->size, target->size);
            write_number(paper, target, paper->memory[source->device][source->offset / 4]);
            copies++;
            continue;
        }
        if (step->kind == SCHEDULE_WATCH) { /* what the last node made, where it is still */
            const struct storage *watched = &schedule->storages[step->source];
            cr_assert_eq(watched->value, schedule->graph->watches[step->target].value);
            cr_assert_eq(paper->memory[watched->device][watched->offset / 4], next);
            watches++;
            continue;
        }
        cr_assert_eq(step->first_node, next);
        for (size_t i = 0; i < step->n_nodes; i++, next++) {
            cr_assert_eq(schedule->graph->nodes[next].device, step->device);
            run_node(paper, next);
        }
    }
    cr_assert_eq(next, schedule->graph->n_nodes);
    cr_assert_eq(copies, schedule->n_copies);
    cr_assert_eq(watches, schedule->graph->n_watches);
    const struct storage *logits = storage_of(schedule, &schedule->graph->logits->tensor);
    cr_assert_eq(paper->memory[logits->device][logits->offset / 4], paper->logits);
    for (int d = 0; d < N_DEVICES; d++) free(paper->memory[d]);
}

/* Who makes the root of each operand, before the schedule changes the operands. */
static void note_expected(struct paper *paper, struct graph *graph)
{
    uint32_t *maker = calloc(graph->n_values, sizeof *maker);
    paper->expected = calloc(graph->n_nodes, sizeof *paper->expected);
    for (size_t now = 0; now < graph->n_nodes; now++) {
        struct node *node = &graph->nodes[now];
        const struct op_info *info = op_info(node->op);
        for (int i = 0; info->operands[i].name; i++) {
            const struct engine_tensor *tensor = op_given(&node->args, &info->operands[i]);
            if (!tensor || !(info->operands[i].role & OP_IN)) continue;
            const struct value *root = value_of(tensor)->root;
            paper->expected[now][i] = root->kind == VALUE_INPUT ? FROM_INPUT + root->index : maker[root->id];
        }
        for (int i = 0; info->operands[i].name; i++) {
            const struct engine_tensor *tensor = op_given(&node->args, &info->operands[i]);
            if (tensor && info->operands[i].role & OP_OUT)
                maker[value_of(tensor)->root->id] = (uint32_t)now + 1;
        }
    }
    paper->logits = maker[graph->logits->root->id];
    free(maker);
}

Test(schedule, every_node_reads_what_it_should)
{
    uint64_t random = 7;
    for (int tied = 0; tied < 2; tied++) {
        struct model *model = open_tiny(tied);
        for (int i = 0; i < N_GRAPHS; i++) {
            struct graph *graph = build(model, 1 + (uint32_t)(random_next(&random) % 9), (uint32_t)i % 8);
            uint32_t devices = 1 + (uint32_t)(random_next(&random) % N_DEVICES);
            uint32_t device = 0;
            for (size_t n = 0; n < graph->n_nodes; n++) {
                if (random_next(&random) % 3 == 0) device = (uint32_t)(random_next(&random) % devices);
                graph->nodes[n].device = device;
            }
            cr_assert_eq(graph_fuse(graph, maybe, &random), ENGINE_OK);
            struct paper paper;
            note_expected(&paper, graph);
            struct schedule *schedule = NULL;
            cr_assert_eq(schedule_create(graph, alignment, &schedule), ENGINE_OK);
            paper.schedule = schedule;
            run_on_paper(&paper);
            if (devices == 1 && i % 8 == 0) cr_assert_eq(schedule->n_steps, 1);
            schedule_destroy(schedule);
            free(paper.expected);
        }
        model_close(model);
    }
}

static bool always(void *user, uint32_t device, uint32_t op, const union op_args *args)
{
    (void)user, (void)device, (void)op, (void)args;
    return true;
}

static bool never(void *user, uint32_t device, uint32_t op, const union op_args *args)
{
    (void)user, (void)device, (void)op, (void)args;
    return false;
}

static size_t count_ops(const struct graph *graph, uint32_t op)
{
    size_t count = 0;
    for (size_t i = 0; i < graph->n_nodes; i++) count += graph->nodes[i].op == op;
    return count;
}

Test(fuse, gate_and_residual_go_into_the_products)
{
    struct model *model = open_tiny(false);
    struct graph *graph = build(model, 3, 0);
    size_t matmuls = count_ops(graph, ENGINE_OP_MATMUL);
    cr_assert_eq(graph_fuse(graph, always, NULL), ENGINE_OK);
    cr_assert_eq(count_ops(graph, ENGINE_OP_ACTIVATE), 0);
    cr_assert_eq(count_ops(graph, ENGINE_OP_ADD), 0);
    cr_assert_eq(count_ops(graph, ENGINE_OP_MATMUL), matmuls - 2, "one for each of the two layers' gates");
    graph_destroy(graph);
    model_close(model);
}

Test(fuse, nothing_changes_where_the_device_says_no)
{
    struct model *model = open_tiny(false);
    struct graph *graph = build(model, 3, 0);
    size_t nodes = graph->n_nodes;
    cr_assert_eq(graph_fuse(graph, never, NULL), ENGINE_OK);
    cr_assert_eq(graph->n_nodes, nodes);
    graph_destroy(graph);
    model_close(model);
}
