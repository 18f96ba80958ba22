/* fuse.c: rewrites a graph so that matrix products do what follows them in the same pass: activation(gate) * up, bias,
 * residual. A rewrite happens only where one device runs all the parts and says that it supports the whole. */
#include <stdlib.h>

#include "base/error.h"
#include "graph/graph.h"

struct fuse {
    struct graph *graph;
    fuse_question supports;
    void *user;
    uint32_t *uses;         /* [n_values] how many operands refer to the root's storage */
    struct node **producer; /* [n_values] the node whose output the root is, or NULL */
};

/* The matmul that makes this operand, if nothing else uses its result and it runs on `device`. */
static struct node *matmul_behind(const struct fuse *fuse, const struct engine_tensor *tensor,
                                  uint32_t device)
{
    if (!tensor || value_of(tensor)->kind != VALUE_ACTIVATION) return NULL;
    uint32_t id = value_of(tensor)->root->id;
    struct node *node = fuse->producer[id];
    bool ours = node && node->op == ENGINE_OP_MATMUL && node->device == device && fuse->uses[id] == 1;
    return ours ? node : NULL;
}

/* Turns `node` into `args` of a matmul if the device agrees; `absorbed` and `absorbed2` then vanish. */
static void replace(const struct fuse *fuse, struct node *node, const struct engine_op_matmul *args,
                    struct node *absorbed, struct node *absorbed2)
{
    union op_args fused = {.matmul = *args};
    if (!fuse->supports(fuse->user, node->device, ENGINE_OP_MATMUL, &fused)) return;
    node->op = ENGINE_OP_MATMUL;
    node->args = fused;
    absorbed->op = 0;
    if (absorbed2) absorbed2->op = 0;
}

static bool is_plain(const struct engine_op_matmul *args)
{
    return !args->gate && !args->bias && !args->residual && !args->activation && args->scale == 0;
}

/* activation(gate x input) * (up x input) */
static void fuse_gate(const struct fuse *fuse, struct node *node)
{
    const struct engine_op_activate *activate = &node->args.activate;
    struct node *gate = matmul_behind(fuse, activate->input, node->device);
    struct node *up = matmul_behind(fuse, activate->factor, node->device);
    if (!gate || !up || gate == up || gate->args.matmul.input != up->args.matmul.input) return;
    if (!is_plain(&gate->args.matmul) || !is_plain(&up->args.matmul)) return;
    struct engine_op_matmul args = up->args.matmul;
    args.gate = gate->args.matmul.weight;
    args.activation = activate->activation;
    args.output = activate->output;
    replace(fuse, node, &args, gate, up);
}

/* matmul + bias, matmul + residual, residual + matmul */
static void fuse_add(const struct fuse *fuse, struct node *node)
{
    const struct engine_tensor *a = node->args.binary.a, *b = node->args.binary.b;
    struct node *matmul = matmul_behind(fuse, a, node->device);
    if (!matmul && b->ne[1] == a->ne[1]) {
        matmul = matmul_behind(fuse, b, node->device);
        b = a;
    }
    if (!matmul || matmul->args.matmul.residual) return;
    struct engine_op_matmul args = matmul->args.matmul;
    if (value_of(b)->kind == VALUE_WEIGHT) {
        if (!is_plain(&args)) return;
        args.bias = b;
    } else {
        args.residual = b;
    }
    args.output = node->args.binary.output;
    replace(fuse, node, &args, matmul, NULL);
}

int graph_fuse(struct graph *graph, fuse_question supports, void *user)
{
    struct fuse fuse = {graph, supports, user, calloc(graph->n_values, sizeof *fuse.uses),
                        calloc(graph->n_values, sizeof *fuse.producer)};
    int status = ENGINE_OK;
    if (!fuse.uses || !fuse.producer) {
        status = fail_memory("graph");
        goto cleanup;
    }
    for (size_t i = 0; i < graph->n_nodes; i++) {
        struct node *node = &graph->nodes[i];
        for (const struct op_operand *input = op_info(node->op)->inputs; input->offset; input++) {
            const struct engine_tensor *tensor = *op_tensor(&node->args, input->offset);
            if (tensor) fuse.uses[value_of(tensor)->root->id]++;
        }
    }
    for (size_t i = 0; i < graph->n_nodes; i++) {
        struct node *node = &graph->nodes[i];
        if (node->op == ENGINE_OP_ACTIVATE && node->args.activate.factor) fuse_gate(&fuse, node);
        if (node->op == ENGINE_OP_ADD) fuse_add(&fuse, node);
        const struct engine_tensor *output = *op_tensor(&node->args, op_info(node->op)->output);
        fuse.producer[value_of(output)->root->id] = node;
    }

    size_t kept = 0;
    for (size_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op) graph->nodes[kept++] = graph->nodes[i];
    graph->n_nodes = kept;

cleanup:
    free(fuse.uses);
    free(fuse.producer);
    return status;
}
