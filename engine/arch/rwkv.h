/* rwkv.h: what RWKV 6 and 7 share. A layer has two blocks, each of which mixes a token's input with that
 * of the token before it: the time mix, whose heads have the recurrence (ENGINE_OP_SCAN), and the channel
 * mix, a feed-forward network. Values are [n_embd, columns] unless noted otherwise. */
#ifndef ENGINE_ARCH_RWKV_H
#define ENGINE_ARCH_RWKV_H

#include "arch/decoder.h"

struct rwkv {
    struct decoder decoder;
    uint32_t head, n_heads, n_ff;
    uint32_t rescale; /* every so many layers, the sum is halved; 0: never */
};

void rwkv_read(struct hparams *h, struct rwkv *rwkv, struct arch_info *info);

/* The input of the token before, minus the token's own; before the first token there are zeros. */
struct value *rwkv_shift(struct graph *g, const struct rwkv *rwkv, struct value *x);
/* x + shift * "blk.N.NAME.weight" */
struct value *rwkv_mix(struct graph *g, const struct rwkv *rwkv, const char *name, struct value *x,
                       struct value *shift);
/* Row i of time_mix_lerp_fused [n_embd, n]. */
struct value *rwkv_share(struct graph *g, const struct rwkv *rwkv, uint32_t i, uint32_t n);
/* NAME2 x activation(NAME1 x input): matrices of a low rank, that of the file. */
struct value *rwkv_low_rank(struct graph *g, const struct rwkv *rwkv, const char *name, uint32_t activation,
                            struct value *input);
/* As heads: [head, n_heads, n_tokens]. */
struct value *rwkv_heads(struct graph *g, const struct rwkv *rwkv, struct value *x);
struct value *rwkv_scan(struct graph *g, const struct rwkv *rwkv, const struct scan_operands *operands);
/* The norm of each head's output, with time_mix_ln. */
struct value *rwkv_head_norm(struct graph *g, const struct rwkv *rwkv, struct value *heads);
/* The product with a matrix [n_embd, n_embd]. */
struct value *rwkv_linear(struct graph *g, const struct rwkv *rwkv, const char *name, struct value *x);

/* The second half of a layer: the channel mix, which gets the normed input and returns only the columns
 * that are wanted, see decoder_layer_output. */
typedef struct value *(*rwkv_block)(struct graph *g, const struct rwkv *rwkv, struct value *x);
struct value *rwkv_layer_end(struct graph *g, const struct rwkv *rwkv, struct value *x,
                             rwkv_block channel_mix);

#endif
