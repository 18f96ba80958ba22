/* deepseek2.h: multi-head latent attention, for the families that have it: deepseek2.c, and deepseek32.c,
 * where an indexer picks the positions that tokens attend to. */
#ifndef ENGINE_ARCH_DEEPSEEK2_H
#define ENGINE_ARCH_DEEPSEEK2_H

#include "arch/decoder.h"

/* Scores the positions of a text by keys of its own, so that attention reads only the best. */
struct indexer {
    uint32_t n_heads, dim;    /* n_heads 0: attention is not sparse */
    uint32_t n_picked;        /* positions that a token attends to */
    bool is_full[MAX_LAYERS]; /* layers with an indexer; the others take what the one before them picked */
};

struct deepseek2 {
    struct decoder decoder;
    uint32_t n_q_latent; /* length of the vector that queries are computed from; 0: there is none */
    uint32_t n_latent;   /* length of the vector that keys and values are computed from */
    /* in a head: values of a key that aren't rotated, that are rotated, values of a value */
    uint32_t n_nope, n_rope, n_value;
    bool absorbs; /* the file has separate matrices for each head, so attention runs on latent vectors */
    struct indexer indexer;
};

/* The `read` and `build` of a family's descriptor. */
void deepseek2_read(struct hparams *h, void *hparams, struct arch_info *info);
void deepseek2_build(struct graph *g, const void *hparams);

/* What config.json says beside `numbers`. */
void deepseek2_read_config(struct hf_config *config);
extern const struct hf_module deepseek2_modules[];
extern const struct hf_form deepseek2_forms[];

/* deepseek32.c: the positions that this layer's tokens attend to, from its input x [n_embd, n_tokens] and the
 * latent vector of its queries; NULL: to all, since the tables hold no more than are picked. `rope` and
 * `factors` are those of the layer. */
struct value *deepseek32_pick(struct graph *g, const struct deepseek2 *m, struct value *x,
                              struct value *q_latent, const struct rope *rope, struct value *factors);

#endif
