/* eye.h: shared by eyes: the hyper-parameters that nearly all of them have, the blocks of their graphs,
 * and how pictures are cut. An eye is an encoder whose tokens are the patches of a picture
 * (context/see.c). Its tensors and keys have the names of llama.cpp's mmproj files:
 * "v.blk.N.attn_q.weight", "mm.2.weight", clip.vision.block_count. A family fills a struct eye: eye_read
 * reads the usual keys, the family changes what differs; its graph combines the blocks; its `look` cuts
 * pictures as its processor in transformers does. */
#ifndef ENGINE_ARCH_EYE_H
#define ENGINE_ARCH_EYE_H

#include "arch/arch.h"
#include "arch/hparams.h"
#include "arch/sight.h"
#include "graph/graph.h"

struct eye {
    uint32_t n_layers, n_embd, n_heads, n_ff;
    uint32_t patch;      /* pixels of a patch's side */
    uint32_t image_size; /* pixels of a side; of eyes that take any size, that of the learnt positions */
    uint32_t n_frames;   /* a patch is repeated so often in a row, as a video's frames; 1: it isn't */
    uint32_t merge;      /* a side of the patches that become one row */
    uint32_t n_out;      /* numbers of a row that the text model takes */
    uint32_t norm;       /* enum engine_norm_kind */
    uint32_t activation; /* enum engine_activation */
    float epsilon;
    float mean[3], std[3]; /* of red, green and blue, from 0 to 1 */
    uint32_t filter;       /* enum image_filter */
    /* Of rotations in two dimensions: half of the pairs turn by row, the others by column, at angles of
     * theta^(-4i / head_dim); `is_staggered`: those of columns are between those of rows. */
    float theta;
    bool is_staggered;
};

/* Reads the usual keys. Sets layer norms, GELU, and no frames. `merge`, `filter`: the defaults. After a
 * failure every number is one that can be computed with. */
void eye_read(struct hparams *h, struct eye *eye, uint32_t merge, enum image_filter filter);

/* Refuses more patches in a row or a column than a piece may have, and more of them in a block. What was
 * refused becomes 1. */
void eye_check_side(struct hparams *h, struct eye *eye, uint32_t *side);

/* What the host needs to know. n_patches: the most of a piece. */
struct arch_info eye_info(const struct eye *eye, uint32_t n_patches);

/* ---- The graph: values are [n, n_tokens] unless noted otherwise ---- */

/* The product with "NAME.weight" and its bias, if there is one; in layers "v.blk.N.NAME". */
struct value *eye_linear(struct graph *g, const char *name, uint64_t n_in, uint64_t n_out, struct value *x);
/* A matrix that is stored with its inputs as rows, [n_out, n_in], as F32 [n_in, n_out]. */
struct value *eye_transposed(struct graph *g, uint64_t n_out, uint64_t n_in, const char *name);
/* The norm of this name, of the eye's kind. */
struct value *eye_norm(struct graph *g, const struct eye *eye, const char *name, struct value *x);

/* The patches as vectors: v.patch_embd, and the bias if there is one. */
struct value *eye_embed(struct graph *g, const struct eye *eye);
/* The same of patches that are a part of the rows. */
struct value *eye_embed_rows(struct graph *g, const struct eye *eye, struct value *rows);
/* The learnt position of each patch (sight_piece.places), of a table of n rows. */
struct value *eye_places(struct graph *g, const struct eye *eye, uint64_t n);

/* Attention of all patches to each other, from normed x: attn_q, attn_k, attn_v or attn_qkv, attn_out.
 * `rotate` changes queries and keys [head_dim, n_heads, n_tokens]; NULL: they stay as they are. */
struct value *eye_attention(struct graph *g, const struct eye *eye, struct value *x,
                            struct value *(*rotate)(struct graph *g, const struct eye *eye, struct value *x));
/* ffn_up, ffn_down, and ffn_gate if there is one. */
struct value *eye_feed_forward(struct graph *g, const struct eye *eye, struct value *x);
/* All layers of a vision transformer with norms before the blocks (ln1, ln2), whose outputs may be scaled
 * (ls1, ls2); `rotate` as above. */
struct value *eye_layers(struct graph *g, const struct eye *eye, struct value *x,
                         struct value *(*rotate)(struct graph *g, const struct eye *eye, struct value *x));
/* One of them, the graph's current one. */
struct value *eye_layer(struct graph *g, const struct eye *eye, struct value *x,
                        struct value *(*rotate)(struct graph *g, const struct eye *eye, struct value *x));
/* Rotates by rows and columns (sight_piece.axes), pairs of halves. */
struct value *eye_rotate(struct graph *g, const struct eye *eye, struct value *x);
/* The matrix of merged patches that is stored as a convolution unfolds them, the patches of each value beside
 * each other; as F32, for what eye_merge gives. */
struct value *eye_unfolded(struct graph *g, const struct eye *eye, const char *name);

/* Whether a tensor has so many values of a float type; else that is an error. The values, as float32. */
bool eye_has_values(struct graph *g, const char *name, uint64_t n);
void eye_read_values(const struct model_tensor *tensor, float *values);
/* Room for n numbers while a weight is filled; the caller frees it. NULL: out of memory, which fails the
 * graph. */
float *eye_row(struct graph *g, uint64_t n);

/* The patches of each row, which follow each other, in one: [n * merge^2, n_rows]. */
struct value *eye_merge(struct graph *g, const struct eye *eye, struct value *x);

/* Ends the graph: hands out the rows. */
void eye_end(struct graph *g, const struct eye *eye, struct value *x);

/* ---- Pictures ---- */

/* Cuts a piece of whole groups of merge x merge patches into patches, the groups in rows, the patches of a
 * group in rows too, with axes and normalised values, colour by colour. ENGINE_ERROR_MEMORY. */
int eye_cut(const struct eye *eye, const struct image *image, struct sight_piece *piece);

/* Sets the learnt positions of a piece, row by row of a table with so many columns. ENGINE_ERROR_MEMORY. */
int eye_number(struct sight_piece *piece, uint32_t n_columns);

/* Adds a patch of zeros behind the others, which becomes no row. ENGINE_ERROR_MEMORY. */
int eye_add_patch(const struct eye *eye, struct sight_piece *piece);

/* Makes room for pieces, all zero. ENGINE_ERROR_MEMORY. */
int sight_create(struct sight *sight, uint32_t n_pieces);
/* Adds text, printf-like, and a text n times. ENGINE_ERROR_MEMORY. */
int sight_write(struct sight *sight, const char *format, ...) ENGINE_PRINTF(2, 3);
int sight_repeat(struct sight *sight, const char *text, uint32_t n);

/* ---- Hugging Face directories ---- */

struct hf_config;
/* Write how the processor scales (resample), and what the layers' networks have (hidden_act): the keys
 * engine.filter and hidden_activation. */
void eye_put_filter(struct hf_config *config, enum image_filter preset);
void eye_put_activation(struct hf_config *config, const char *preset);
/* Refuses projectors that take other layers than the last, or that have another activation than GELU. */
void eye_refuse_projectors(struct hf_config *config);

/* Modules of SigLIP's layers. */
extern const struct hf_module eye_siglip_modules[];

#endif
