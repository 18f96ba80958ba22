/* predict-operations.c: the time of a batch's operations (see predict.h). An operation takes as long as its
 * device needs to read its weights and caches, or to compute, whichever is longer, and a moment to start. */
#include "devices/measure.h"
#include "model/types.h"
#include "plan/plan.h"

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

double predict_operations(const struct engine_plan *plan, const struct plan_batch *batch,
                          const struct step *step, struct plan_share *share)
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
