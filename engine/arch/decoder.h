/* decoder.h: what decoders share: the hyper-parameters that nearly all have, and the blocks that their graphs are made
 * of. A family fills a struct decoder (decoder_read takes the usual keys, the family changes what is particular to it),
 * and its build function puts blocks together. Tensors have GGUF's names; of the layer graph->layer: "blk.N.NAME.weight".
 *
 *   decoder.c       reading, the embedding, norms, matrices, logits, the usual layer
 *   rope.c          rotary positions and their scalings
 *   attention.c     queries, keys and values, the cache, attention
 *   feed-forward.c  feed-forward networks      experts.c  mixtures of them */
#ifndef ENGINE_ARCH_DECODER_H
#define ENGINE_ARCH_DECODER_H

#include "arch/arch.h"

#define MAX_LAYERS 1024

/* Rotary positions. The angle of pair i at position p is p * position_scale * theta^(-2i / n_dims) / factor i. */
struct rope {
    uint32_t n_dims; /* the first so many values of a head turn */
    uint32_t pairs;  /* enum engine_rope_pairs */
    float theta, position_scale, magnitude;
    /* Where factors come from; all absent: there are none. */
    const char *factors;       /* a tensor of the file */
    const char *factors_long;  /* another, for contexts of more than n_original positions */
    uint32_t n_original;       /* the context before it was extended */
    float yarn;                /* by how much YaRN (arXiv 2309.00071) extends it; 0: it doesn't */
    float yarn_low, yarn_high; /* between these pairs angles go over from their own to the extended ones */
    bool yarn_between; /* those lie between whole pairs, where the file doesn't say; set before reading */
};

struct decoder_layer {
    uint32_t n_heads, n_kv_heads;
    uint32_t n_ff;   /* of a feed-forward network that is no mixture */
    uint32_t window; /* positions that a token sees, itself counted; 0: all */
    uint32_t chunk;  /* a token sees its own chunk of so many positions; 0: there are none */
    bool slides;     /* one of the layers that have a window where others don't */
    bool is_mixture;
    const struct rope *rope; /* NULL: none in this layer */
};

struct experts {
    uint32_t n, n_used, n_ff;
    uint32_t n_ff_shared; /* of those that serve all tokens, taken as one; 0: there are none */
    uint32_t function;    /* enum engine_route_function */
    uint32_t n_groups, n_groups_used, group_score; /* as in engine_op_route */
    bool normalise;
    float floor, scale;
    bool weigh_input;    /* weights are factors of what an expert reads, not of what it makes */
    uint32_t activation; /* enum engine_activation */
    float limit, alpha;  /* of activations that take them */
};

/* Where a layer's norms stand: before each of its blocks, on what the blocks add, or both. */
enum norm_places { NORMS_BEFORE, NORMS_AFTER, NORMS_AROUND };

struct decoder {
    uint32_t n_vocab, n_context, n_embd, n_layers;
    uint32_t n_positions;         /* that have a row in position_embd; 0: there is no such tensor */
    uint32_t head_dim, value_dim; /* of a head's keys and queries, and of its values */
    uint32_t norm;                /* enum engine_norm_kind */
    float epsilon;
    enum norm_places norms;
    const char *ffn_norm; /* the tensor before the feed-forward network: "ffn_norm" */
    uint32_t activation;  /* enum engine_activation, of the feed-forward network */
    struct rope rope;     /* of all layers, unless they are told otherwise */

    float attention_scale;   /* of q . k */
    float attention_softcap; /* 0: none */
    float clamp_qkv;         /* 0: none */
    float alibi_bias;        /* the largest; 0: no ALiBi (arXiv 2108.12409) */
    bool norm_after_rope;    /* of queries and keys, where they have norms */

    float embedding_scale, residual_scale, logit_scale;
    float logit_softcap; /* 0: none */

    struct experts experts;
    struct decoder_layer layers[MAX_LAYERS]; /* [n_layers] */
};

/* ---- Reading ------------------------------------------------------------------------------------------------------ */

/* The usual keys: sizes, heads, feed-forward lengths, epsilon of the norm of this kind, rope (halves or adjacent: enum
 * engine_rope_pairs), experts. Scales are 1, the attention's 1 / sqrt(head_dim), the activation is SiLU. */
void decoder_read(struct hparams *h, struct decoder *d, uint32_t norm, uint32_t pairs);

/* What the host needs of it. */
struct arch_info decoder_info(const struct decoder *d);

/* Sliding windows: attention.sliding_window, in the layers that attention.sliding_window_pattern names. Without it, of
 * every `period` layers the last has no window, or the first (`full_first`); period 1: all have it, 0: none. */
void decoder_read_windows(struct hparams *h, struct decoder *d, uint32_t period, bool full_first);

/* Rope without factors and scaling for the layers that slide, with this base. `rope` is kept in the family's struct. */
void decoder_local_rope(struct decoder *d, struct rope *rope, float theta);

/* A warning: what the file does not say and the logits depend on. */
void decoder_warn(const struct hparams *h, const char *format, ...) ENGINE_PRINTF(2, 3);

/* rope.c: rope.* keys, and the factors that a file may bring. */
void rope_read(struct hparams *h, const struct decoder *d, uint32_t pairs, struct rope *rope);

/* experts.c: expert_* keys, and which layers are mixtures. The router is a softmax over all experts, its choice
 * normalised, where the file doesn't say. */
void experts_read(struct hparams *h, struct decoder *d);
/* How the router weighs and chooses, again, in a family where that is otherwise: enum engine_route_function. */
void experts_read_router(struct hparams *h, struct decoder *d, uint32_t function, bool normalise);

/* ---- Blocks: values are [n, columns] unless told otherwise -------------------------------------------------------- */

/* Rows of token_embd.weight for the tokens, scaled; where the model has them, plus position_embd's of their positions, and
 * normed by token_embd_norm. */
struct value *decoder_embed(struct graph *g, const struct decoder *d);

/* weight x input, plus the bias that some models have: "blk.N.NAME.weight", or "NAME.weight" outside layers. */
struct value *decoder_linear(struct graph *g, const char *name, uint64_t n_in, uint64_t n_out,
                             struct value *input);

/* The norm of the decoder's kind with NAME's weight and, where there is one, its bias. */
struct value *decoder_norm(struct graph *g, const struct decoder *d, const char *name, struct value *input);
/* Whether this layer has NAME.weight. */
bool decoder_has_weight(const struct graph *g, const char *name);

/* x + residual_scale * block. */
struct value *decoder_add_block(struct graph *g, const struct decoder *d, struct value *x,
                                struct value *block);

/* In the last layer, the columns of the tokens whose logits are wanted: from attention on nobody needs the others. */
struct value *decoder_layer_output(struct graph *g, const struct decoder *d, struct value *x);

/* The angles' factors of this layer's rope, or NULL; once a layer for all that turns in it. */
struct value *rope_factors(struct graph *g, const struct rope *rope);
/* Turns heads [head_dim, n_heads, n_tokens]; rope NULL: as they are. */
struct value *decoder_rotate(struct graph *g, const struct rope *rope, struct value *factors,
                             struct value *heads);

/* What attention works on: heads [dim, n, n_tokens]. */
struct heads {
    struct value *q, *k, *v;
};
/* Queries, keys and values of this layer: split or fused matrices, clamped, normed, turned, as the decoder says. */
struct heads decoder_attention_heads(struct graph *g, const struct decoder *d, struct value *x);
/* Writes keys and values to the cache and attends: [value_dim * n_heads, n_tokens], in the last layer the wanted ones. */
struct value *decoder_attend(struct graph *g, const struct decoder *d, const struct heads *heads);
/* Queries [head_dim, n_heads, n_tokens] attend to what caches hold: the result as above. */
struct value *decoder_attend_to(struct graph *g, const struct decoder *d, struct value *q,
                                struct value *k_cache, struct value *v_cache);
/* ALiBi's slopes [n_heads], or NULL where the decoder has none. */
struct value *decoder_alibi_slopes(struct graph *g, const struct decoder *d, uint32_t n_heads);
/* All of that, and the output matrix: x [n_embd, n_tokens] becomes [n_embd, columns], see decoder_layer_output. */
struct value *decoder_attention(struct graph *g, const struct decoder *d, struct value *x);

/* down(activation(gate) * up), or down(activation(up)) where the model has no gate; names begin with "ffn". */
struct value *decoder_feed_forward(struct graph *g, const struct decoder *d, struct value *x);
/* The same with other tensors and lengths: "ffn_gate_shexp" and so on with the suffix "_shexp". */
struct value *decoder_feed_forward_named(struct graph *g, const struct decoder *d, const char *suffix,
                                         uint64_t n_ff, struct value *x);

/* The mixture of experts with the shared one that it may have. */
struct value *decoder_mixture(struct graph *g, const struct decoder *d, struct value *x);
/* The router's choice; logits [n, columns]. Its bias "exp_probs_b" counts where the file has it. */
struct routes decoder_route(struct graph *g, const struct decoder *d, struct value *logits);
/* What the chosen experts make of x ([n_embd, columns]); `mix`: weighed and summed up. */
struct value *decoder_run_experts(struct graph *g, const struct decoder *d, const struct routes *routes,
                                  struct value *x);

/* feed_forward or mixture, as the layer is. */
struct value *decoder_feed_forward_or_mixture(struct graph *g, const struct decoder *d, struct value *x);

/* output_norm, output.weight (or the embedding, where that is tied), scaled and capped. Sets graph->logits. */
void decoder_build_logits(struct graph *g, const struct decoder *d, struct value *x);

/* A layer whose blocks read the same x (GPT-J): x + attention(a) + feed-forward(f), a and f being norms of x. */
struct value *decoder_parallel_layer(struct graph *g, const struct decoder *d, struct value *x,
                                     struct value *a, struct value *f);

/* All layers like that, with one norm for both blocks, "attn_norm"; and the logits. */
void decoder_build_parallel(struct graph *g, const void *decoder);

/* The layers of most decoders: x + attention(norm(x)), then x + feed-forward(norm(x)), norms placed as the decoder says,
 * and the logits. `decoder`: a struct decoder, or one that begins with it. */
void decoder_build(struct graph *g, const void *decoder);

#endif
