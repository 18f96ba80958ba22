/* feed-forward.c: feed-forward networks, with and without a gate, their matrices split or fused. See
 * decoder.h. */
#include <stdio.h>

#include "arch/decoder.h"

/* The product with the rows of gate (part 0) or up (1), which some families have in one tensor "ffn_up",
 * and its bias. */
static struct value *fused_part(struct graph *g, const struct decoder *d, const char *suffix,
                                const struct model_tensor *fused, uint64_t part, uint64_t n_ff,
                                struct value *x)
{
    char name[96];
    snprintf(name, sizeof name, "blk.%u.%s%s.weight", g->layer, part ? "ffn_up" : "ffn_gate", suffix);
    x = graph_matmul(g, graph_rows(g, fused, part * n_ff, d->n_embd, n_ff, name), x);
    const struct model_tensor *bias = graph_find(g, "blk.%u.ffn_up%s.bias", g->layer, suffix);
    if (!bias) return x;
    snprintf(name, sizeof name, "blk.%u.%s%s.bias.part", g->layer, part ? "ffn_up" : "ffn_gate", suffix);
    return graph_add(g, x, graph_values_part(g, bias, part * n_ff, n_ff, name));
}

struct value *decoder_feed_forward_named(struct graph *g, const struct decoder *d, const char *suffix,
                                         uint64_t n_ff, struct value *x)
{
    char gate_name[48], up_name[48], down_name[48];
    snprintf(gate_name, sizeof gate_name, "ffn_gate%s", suffix);
    snprintf(up_name, sizeof up_name, "ffn_up%s", suffix);
    snprintf(down_name, sizeof down_name, "ffn_down%s", suffix);
    const struct model_tensor *up = graph_find(g, "blk.%u.%s.weight", g->layer, up_name);
    struct value *hidden;
    if (decoder_has_weight(g, gate_name)) {
        struct value *gate = decoder_linear(g, gate_name, d->n_embd, n_ff, x);
        hidden = graph_activate(g, gate, decoder_linear(g, up_name, d->n_embd, n_ff, x), d->activation);
    } else if (up && up->ne[1] == 2 * n_ff) {
        struct value *gate = fused_part(g, d, suffix, up, 0, n_ff, x);
        hidden = graph_activate(g, gate, fused_part(g, d, suffix, up, 1, n_ff, x), d->activation);
    } else {
        hidden = graph_activate(g, decoder_linear(g, up_name, d->n_embd, n_ff, x), NULL, d->activation);
    }
    return decoder_linear(g, down_name, n_ff, d->n_embd, hidden);
}

struct value *decoder_feed_forward(struct graph *g, const struct decoder *d, struct value *x)
{
    uint32_t n_ff = d->layers[g->layer].n_ff;
    if (n_ff == 0) graph_fail(g, "feed_forward_length is missing from the metadata, or 0");
    return decoder_feed_forward_named(g, d, "", n_ff, x);
}
