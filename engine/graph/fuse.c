/* fuse.c: rewrites a graph so that matrix products also do the operations after them in the same pass:
 * activation(gate) * up, bias, activation, residual. A rewrite happens only if one device runs all the parts
 * and says that it supports the whole. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/assert.h"
#include "graph/graph.h"

struct fuse {
    struct graph *graph;
    fuse_question supports;
    void *user;
    uint32_t *uses;         /* [n_values] how many operands and watches refer to the root's storage */
    struct node **producer; /* [n_values] the node whose output the root is, or NULL */
};

static bool same_shape(const struct engine_tensor *a, const struct engine_tensor *b)
{
    return memcmp(a->ne, b->ne, sizeof a->ne) == 0;
}

/* Whether two operands are the same part of the same value. */
static bool same_operand(const struct engine_tensor *a, const struct engine_tensor *b)
{
    const struct value *x = value_of(a), *y = value_of(b);
    return x->root == y->root && x->view_offset == y->view_offset && same_shape(a, b) &&
           memcmp(a->nb, b->nb, sizeof a->nb) == 0;
}

/* The matmul that makes this operand, if nothing else uses its result and it runs on `device`. */
static struct node *matmul_behind(const struct fuse *fuse, const struct engine_tensor *tensor,
                                  uint32_t device)
{
    if (!tensor || value_of(tensor)->kind != VALUE_ACTIVATION) return NULL;
    uint32_t id = value_of(tensor)->root->id;
    struct node *node = fuse->producer[id];
    bool ours = node && node->op == ENGINE_OP_MATMUL && node->device == device && fuse->uses[id] == 1;
    return ours && same_shape(node->args.matmul.output, tensor) ? node : NULL;
}

/* Turns `node` into `args` of a matmul if the device agrees; `absorbed` and `absorbed2` then disappear. */
static void fuse_replace(const struct fuse *fuse, struct node *node, const struct engine_op_matmul *args,
                         struct node *absorbed, struct node *absorbed2)
{
    union op_args fused = {.matmul = *args};
    ENGINE_ASSERT(absorbed->device == node->device && (!absorbed2 || absorbed2->device == node->device));
    ENGINE_ASSERT(!op_misfit(ENGINE_OP_MATMUL, &fused));
    if (!fuse->supports(fuse->user, node->device, ENGINE_OP_MATMUL, &fused)) return;
    node->op = ENGINE_OP_MATMUL;
    node->args = fused;
    absorbed->op = 0;
    if (absorbed2) absorbed2->op = 0;
}

static bool is_plain(const struct engine_op_matmul *args)
{
    return !args->gate && !args->bias && !args->residual && !args->activation && args->scale == 0 &&
           !args->mix;
}

/* One matrix for each head: nothing can be fused with it. */
static bool is_per_head(const struct engine_op_matmul *args)
{
    return args->weight->ne[2] > 1 && !args->experts;
}

/* Cannot follow a matrix product. */
static bool stands_alone(uint32_t activation)
{
    return activation == ENGINE_ACTIVATION_CLAMP || activation == ENGINE_ACTIVATION_SOFTCAP ||
           activation == ENGINE_ACTIVATION_SWIGLU_CLAMPED || activation == ENGINE_ACTIVATION_EXP ||
           activation == ENGINE_ACTIVATION_SILU_CLAMPED || activation == ENGINE_ACTIVATION_XIELU;
}

/* activation(gate x input) * (up x input) */
static void fuse_gate(const struct fuse *fuse, struct node *node)
{
    const struct engine_op_activate *activate = &node->args.activate;
    struct node *gate = matmul_behind(fuse, activate->input, node->device);
    struct node *up = matmul_behind(fuse, activate->factor, node->device);
    if (!gate || !up || gate == up || stands_alone(activate->activation)) return;
    const struct engine_op_matmul *g = &gate->args.matmul, *u = &up->args.matmul;
    if (!same_operand(g->input, u->input) || g->experts != u->experts || !same_shape(g->weight, u->weight))
        return;
    if (!is_plain(g) || !is_plain(u) || is_per_head(g)) return;
    struct engine_op_matmul args = up->args.matmul;
    args.gate = gate->args.matmul.weight;
    args.activation = activate->activation;
    args.output = activate->output;
    fuse_replace(fuse, node, &args, gate, up);
}

/* activation(matmul), with its bias */
static void fuse_activation(const struct fuse *fuse, struct node *node)
{
    const struct engine_op_activate *activate = &node->args.activate;
    struct node *matmul = matmul_behind(fuse, activate->input, node->device);
    if (!matmul || stands_alone(activate->activation)) return;
    struct engine_op_matmul args = matmul->args.matmul;
    if (args.gate || args.residual || args.activation || args.mix || is_per_head(&args)) return;
    args.activation = activate->activation;
    args.output = activate->output;
    fuse_replace(fuse, node, &args, matmul, NULL);
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
    if (is_per_head(&args) || (args.experts && !args.mix)) return;
    if (value_of(b)->kind == VALUE_WEIGHT) {
        if (!is_plain(&args) || args.experts) return;
        args.bias = b;
    } else {
        if (!same_shape(b, args.output)) return;
        args.residual = b;
    }
    args.output = node->args.binary.output;
    fuse_replace(fuse, node, &args, matmul, NULL);
}

int graph_fuse(struct graph *graph, fuse_question supports, void *user)
{
    struct fuse fuse = {graph, supports, user, calloc(graph->n_values, sizeof *fuse.uses),
                        calloc(graph->n_values, sizeof *fuse.producer)};
    int status = ENGINE_OK;
    if (!fuse.uses || !fuse.producer) {
        status = error_memory("graph");
        goto cleanup;
    }
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const struct node *node = &graph->nodes[i];
        for (const struct op_operand *operand = op_operands(node->op); operand->name; operand++) {
            const struct engine_tensor *tensor = op_given(&node->args, operand);
            if (tensor && operand->role & OP_IN) fuse.uses[value_of(tensor)->root->id]++;
        }
    }
    for (size_t i = 0; i < graph->n_watches; i++) fuse.uses[graph->watches[i].value->id]++;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        struct node *node = &graph->nodes[i];
        bool activates = node->op == ENGINE_OP_ACTIVATE;
        if (activates && node->args.activate.factor) fuse_gate(&fuse, node);
        if (activates && !node->args.activate.factor) fuse_activation(&fuse, node);
        if (node->op == ENGINE_OP_ADD) fuse_add(&fuse, node);
        for (const struct op_operand *operand = op_operands(node->op); operand->name; operand++) {
            const struct engine_tensor *tensor = op_given(&node->args, operand);
            if (tensor && operand->role & OP_OUT) fuse.producer[value_of(tensor)->root->id] = node;
        }
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
