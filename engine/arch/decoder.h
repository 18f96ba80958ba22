/* decoder.h: shared by decoders: the hyper-parameters that nearly all of them have, and the blocks of their
 * graphs. A family fills a struct decoder: decoder_read reads the usual keys, the family changes what
 * differs. Its build function combines the blocks. Tensors have GGUF's names, in layer graph->layer
 * "blk.N.NAME.weight".
 *
 *   decoder.c       reading, the embedding, norms, matrices, logits, the usual layer
 *   rope.c          rotary positions and their scaling
 *   attention.c     queries, keys and values, the cache, attention
 *   feed-forward.c  feed-forward networks      experts.c  mixtures of experts */
#ifndef ENGINE_ARCH_DECODER_H
#define ENGINE_ARCH_DECODER_H

#include "arch/arch.h"
#include "arch/hparams.h"
#include "graph/graph.h"
#include "model/model.h"

#define MAX_LAYERS 1024

/* A pair whose angle is divided by this is not rotated in float32, at any position. */
#define NOT_ROTATED 1e30f

/* Rotary positions. The angle of pair i at position p is
 * p * position_scale * theta^(-2i / n_dims) / factors[i]. */
struct rope {
    uint32_t n_dims; /* the number of values of a head that rotate */
    uint32_t pairs;  /* enum engine_rope_pairs */
    float theta, position_scale, magnitude;
    /* Sources of factors. If all are missing, there are none. */
    const char *factors;       /* a tensor of the file */
    const char *factors_long;  /* used instead for contexts longer than n_original */
    uint32_t n_original;       /* the context before it was extended */
    float yarn;                /* how much YaRN (arXiv 2309.00071) extends it; 0: not at all */
    float yarn_low, yarn_high; /* angles blend from their own to the extended ones between these pairs */
    float yarn_mix;            /* how much of their own angles the pairs before keep; 1: all */
    /* Those bounds may fall between whole pairs if the file does not say. Set before reading. */
    bool yarn_between;
    /* How many pairs rotate by each dimension of positions that have several (M-RoPE, arXiv 2409.12191): the
     * first ones by time, then some by row, then some by column; or in turns, as far as they go, the pairs
     * left over by time. All 0: positions have one dimension. */
    uint32_t sections[GRAPH_AXES];
    bool in_turns;
};

struct decoder_layer {
    uint32_t n_heads, n_kv_heads;
    uint32_t head_dim, value_dim; /* the decoder's, unless layers differ */
    uint32_t n_ff;                /* of a dense feed-forward network */
    uint32_t window;              /* positions that a token sees, including its own; 0: all */
    uint32_t chunk;               /* positions of a chunk, if a token sees only its own chunk; 0: no chunks */
    bool slides;                  /* has a window in a model where other layers have none */
    bool is_recurrent;            /* has states instead of attention */
    bool is_mixture;
    uint32_t n_back;         /* reads the keys and values of the layer so many before it; 0: its own */
    const struct rope *rope; /* NULL: no rope in this layer */
};

struct experts {
    uint32_t n, n_used, n_ff;
    uint32_t n_ff_shared; /* of the shared experts, combined; 0: none */
    uint32_t n_latent;    /* experts read and write vectors of this length, see ffn_latent_down; 0: n_embd */
    uint32_t function;    /* enum engine_route_function */
    uint32_t n_groups, n_groups_used, group_score; /* as in engine_op_route */
    bool normalise;
    float floor, scale;
    float near; /* SparseMixer: how much lower, relative to it, a logit near another may be; 0: not used */
    bool averages_shared; /* half of the sum of the shared expert and the others */
    bool has_no_gates;    /* an expert is down(activation(up)) */
    bool weigh_input;     /* weights scale the input of an expert instead of its output */
    uint32_t activation;  /* enum engine_activation */
    float limit, alpha;   /* parameters of the activation, if it has any */
};

/* The position of a layer's norms: before each block, on each block's output, or both. */
enum norm_places { NORMS_BEFORE, NORMS_AFTER, NORMS_AROUND };

struct decoder {
    uint32_t n_vocab, n_context, n_embd, n_layers;
    bool has_dynamic_rope;        /* see struct arch_info */
    uint32_t n_positions;         /* rows of position_embd; 0: there is no such tensor */
    uint32_t head_dim, value_dim; /* head_dim: keys and queries of a head; value_dim: its values */
    uint32_t n_types;             /* rows of token_types; 0: there is no such tensor */
    bool both_ways;               /* an encoder's attention, see encoder.h */
    /* Layers without keys and values (attention.head_count_kv) are recurrent. Set before reading. */
    bool is_hybrid;
    uint32_t norm; /* enum engine_norm_kind */
    float epsilon;
    enum norm_places norms;
    const char *ffn_norm;    /* the tensor before the feed-forward network: "ffn_norm" */
    const char *output_norm; /* the one before the logits: "output_norm" */
    uint32_t activation;     /* of the feed-forward network, enum engine_activation */
    struct rope rope;        /* of all layers without their own */

    float attention_scale;   /* of q . k */
    float attention_softcap; /* 0: none */
    float clamp_qkv;         /* 0: none */
    bool clamp_after_norm;   /* of queries and keys, else before it */
    float alibi_bias;        /* the largest slope bias; 0: no ALiBi (arXiv 2108.12409) */
    bool norm_after_rope;    /* of queries and keys, if they have norms */
    /* Of the gate on what attention gives, "attn_gate", if the layer has one: enum engine_activation; 0: no
     * layer has */
    uint32_t attention_gate;
    bool norms_values;    /* of each head, without weights */
    bool keys_are_values; /* of layers without attn_v: before their norm */

    float embedding_scale, residual_scale, logit_scale;
    float logit_softcap; /* 0: none */
    uint32_t n_deep;     /* layers, the first ones, after which more of a picture is added */
    bool sees_spans;     /* tokens of a picture see each other */

    struct experts experts;
    struct decoder_layer layers[MAX_LAYERS]; /* [n_layers] */
};

/* ---- Reading ------------------------------------------------------------------------------------------- */

/* Reads the usual keys: sizes, heads, feed-forward lengths, epsilon of the norm of this kind, rope (halves or
 * adjacent: enum engine_rope_pairs), experts. Sets scales to 1, the attention scale to 1 / sqrt(head_dim) and
 * the activation to SiLU. */
void decoder_read(struct hparams *h, struct decoder *d, uint32_t norm, uint32_t pairs);

/* The same without heads, feed-forward networks and rope. */
void decoder_read_without_attention(struct hparams *h, struct decoder *d, uint32_t norm);

/* The activation of the feed-forward network: hidden_activation, which files seldom have, or the family's. */
uint32_t decoder_read_activation(struct hparams *h, uint32_t activation);

/* What the host needs to know about the model. Call it once all layers are read. */
struct arch_info decoder_info(const struct decoder *d);

/* Reads sliding windows: attention.sliding_window, for the layers given by attention.sliding_window_pattern.
 * Without the pattern, one of every `period` layers has no window: the last, or the first with `full_first`.
 * Period 1: all layers have windows, 0: none. Layers with windows may have heads of other sizes. */
void decoder_read_windows(struct hparams *h, struct decoder *d, uint32_t period, bool full_first);

/* Gives sliding layers a rope with this base and without factors and scaling. `rope` is stored in the
 * family's struct. Their heads may have another size, and be rotated in another part. */
void decoder_local_rope(struct hparams *h, struct decoder *d, struct rope *rope, float theta);

/* Reads rope.dimension_sections, of models whose positions have dimensions; `in_turns`: see struct rope. */
void decoder_read_sections(struct hparams *h, struct decoder *d, bool in_turns);

/* Refuses layers without a rope, for families that have no such layers. */
void decoder_need_rope(struct hparams *h, const struct decoder *d);

/* Reads attention.shared_kv_layers: so many layers at the end read the keys and values of the last layer
 * before them that also has a window, or also has none. */
void decoder_read_shared_caches(struct hparams *h, struct decoder *d);

/* Warns of something that the file does not say and the logits depend on. */
void decoder_warn(const struct hparams *h, const char *format, ...) ENGINE_PRINTF(2, 3);

/* rope.c: reads rope.* keys, and the factors that a file may have. */
void rope_read(struct hparams *h, const struct decoder *d, uint32_t pairs, struct rope *rope);
/* The same with another base than the file's. */
void rope_read_by_base(struct hparams *h, const struct decoder *d, uint32_t pairs, float theta,
                       struct rope *rope);
/* Fails unless heads of this size can be rotated. */
void rope_check(struct hparams *h, const struct rope *rope, uint32_t head_dim);

/* YaRN's magnitude if the file says it as a whole, else 0. */
float rope_read_yarn_magnitude(struct hparams *h);
/* The positions that a model trained with n_context reaches: more if its rope is stretched beyond. */
uint32_t rope_reach(struct hparams *h, const struct rope *rope, uint32_t n_context);

/* experts.c: reads expert_* keys and which layers are mixtures. If the file does not say, the router is a
 * softmax over all experts with normalised weights. */
void experts_read(struct hparams *h, struct decoder *d);
/* Reads the router's function (enum engine_route_function) and weights again, with a family's own
 * defaults. */
void experts_read_router(struct hparams *h, struct decoder *d, uint32_t function, bool normalise);

/* ---- Blocks: values are [n, columns] unless noted otherwise -------------------------------------------- */

/* Rows of token_embd.weight for the tokens, scaled. If the model has them, adds rows of position_embd for
 * their positions, and applies token_embd_norm. */
struct value *decoder_embed(struct graph *g, const struct decoder *d);

/* weight x input, plus a bias if the model has one: "blk.N.NAME.weight", or "NAME.weight" outside layers. */
struct value *decoder_linear(struct graph *g, const char *name, uint64_t n_in, uint64_t n_out,
                             struct value *input);

/* The decoder's kind of norm with NAME's weight and, if present, its bias. */
struct value *decoder_norm(struct graph *g, const struct decoder *d, const char *name, struct value *input);
/* Whether this layer has NAME.weight. */
bool decoder_has_weight(const struct graph *g, const char *name);

/* x + residual_scale * block. */
struct value *decoder_add_block(struct graph *g, const struct decoder *d, struct value *x,
                                struct value *block);

/* In the last layer, selects the columns of the tokens whose logits are wanted. Nothing after attention needs
 * the others, unless hidden states are watched. */
struct value *decoder_layer_output(struct graph *g, const struct decoder *d, struct value *x);

/* The angle factors of this layer's rope, or NULL. Call it once per layer and share the result. */
struct value *rope_factors(struct graph *g, const struct rope *rope);
/* Rotates heads [head_dim, n_heads, n_tokens]. With rope NULL it returns them unchanged. */
struct value *decoder_rotate(struct graph *g, const struct rope *rope, struct value *factors,
                             struct value *heads);
/* The same by other positions than the tokens'. */
struct value *decoder_rotate_at(struct graph *g, const struct rope *rope, struct value *factors,
                                struct value *heads, enum graph_input positions);

/* The inputs of attention: heads [dim, n, n_tokens]. */
struct heads {
    struct value *q, *k, *v; /* k, v: NULL in a layer that reads those of an earlier one */
};
/* Queries, keys and values of this layer, from split or fused matrices; clamped, normed and rotated as the
 * decoder specifies. */
struct heads decoder_attention_heads(struct graph *g, const struct decoder *d, struct value *x);
/* Queries [head_dim, n_heads, n_tokens] times INPUT_QUERY_SCALES. */
struct value *decoder_scale_queries(struct graph *g, const struct decoder *d, struct value *q);
/* Writes keys and values to the cache, unless the layer reads those of an earlier one, and attends. Returns
 * [value_dim * n_heads, n_tokens], in the last layer only the wanted columns. */
struct value *decoder_attend(struct graph *g, const struct decoder *d, const struct heads *heads);
/* Attends with queries [head_dim, n_heads, n_tokens] to caches already written, in sparse attention only to
 * the picked positions (graph_pick; NULL: to all). Returns the same. */
struct value *decoder_attend_to(struct graph *g, const struct decoder *d, struct value *q,
                                struct value *k_cache, struct value *v_cache, struct value *picked);
/* ALiBi's slopes [n_heads], or NULL if the decoder has none. */
struct value *decoder_alibi_slopes(struct graph *g, const struct decoder *d, uint32_t n_heads);
/* The whole attention block, including the output matrix: from x [n_embd, n_tokens] to [n_embd, columns], see
 * decoder_layer_output. */
struct value *decoder_attention(struct graph *g, const struct decoder *d, struct value *x);

/* down(activation(gate) * up), or down(activation(up)) if the model has no gate. Names begin with "ffn". */
struct value *decoder_feed_forward(struct graph *g, const struct decoder *d, struct value *x);
/* The same with other tensors and lengths: suffix "_shexp" selects "ffn_gate_shexp" and so on. */
struct value *decoder_feed_forward_named(struct graph *g, const struct decoder *d, const char *suffix,
                                         uint64_t n_ff, struct value *x);

/* The mixture of experts, with the shared expert if there is one. */
struct value *decoder_mixture(struct graph *g, const struct decoder *d, struct value *x);
/* The router's choice from logits [n, columns], with the bias "exp_probs_b" if the file has it. */
struct routes decoder_route(struct graph *g, const struct decoder *d, struct value *logits);
/* sparse-mixer.c: the same by SparseMixer, of two experts. */
struct routes decoder_route_sparsely(struct graph *g, const struct experts *e, struct value *logits);
/* The output of the chosen experts for x [n_embd, columns]; with `mix`, their weighted sum. */
struct value *decoder_run_experts(struct graph *g, const struct decoder *d, const struct routes *routes,
                                  struct value *x);

/* decoder_feed_forward or decoder_mixture, depending on the layer. */
struct value *decoder_feed_forward_or_mixture(struct graph *g, const struct decoder *d, struct value *x);

/* Ends a layer: hands out its hidden state, and what the logit lens makes of it, if they are watched. Returns
 * x. */
struct value *decoder_layer_end(struct graph *g, const struct decoder *d, struct value *x);

/* Applies output_norm and output.weight (or the tied embedding), scales and caps. Sets graph->logits. */
void decoder_build_logits(struct graph *g, const struct decoder *d, struct value *x);

/* A layer whose blocks read the same x (GPT-J): x + attention(a) + feed-forward(f), where a and f are norms
 * of x. */
struct value *decoder_parallel_layer(struct graph *g, const struct decoder *d, struct value *x,
                                     struct value *a, struct value *f);

/* Builds a model of such layers with one norm for both blocks, "attn_norm", and the logits. */
void decoder_build_parallel(struct graph *g, const void *decoder);

/* Builds the embedding and the layers of most decoders, x + attention(norm(x)), then x +
 * feed-forward(norm(x)), with norms placed as the decoder specifies. Returns [n_embd, columns], without
 * the norm of the output. */
struct value *decoder_build_layers(struct graph *g, const struct decoder *d);

/* The same with the logits. `decoder`: a struct decoder, or one that begins with it. */
void decoder_build(struct graph *g, const void *decoder);

/* The same with a block of the family's own in the place of attention: from x [n_embd, n_tokens] to
 * [n_embd, columns], see decoder_layer_output. */
typedef struct value *(*decoder_mixer)(struct graph *g, const struct decoder *d, struct value *x);
void decoder_build_mixed(struct graph *g, const void *decoder, decoder_mixer mix);

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

/* The names of norms behind blocks, and before them if they are there too. */
extern const struct hf_module decoder_norms_behind[];

#endif
