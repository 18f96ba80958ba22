/* adapter.h: low-rank adapters (LoRA, Hu et al., arXiv 2106.09685): changes to matrices of a model. A
 * matrix W [n_in, n_out] becomes W + scale * B A, which is never computed: y = W x + scale * B (A x).
 * adapter.c reads the files of llama.cpp's converter, peft.c the folders of Hugging Face's PEFT, tasks.c
 * those that a model has for its tasks, in its own directory. graph/adapters.c applies them. */
#ifndef ENGINE_ADAPTER_ADAPTER_H
#define ENGINE_ADAPTER_ADAPTER_H

#include <stdbool.h>

#include "model/model.h"

/* The change of one matrix, or of the matrices of all experts (n of them, otherwise 1), of rank r. */
struct adapter_part {
    const char *target; /* the tensor that it changes: "blk.0.attn_q.weight"; "output.weight" even if tied */
    /* Of a table whose rows are looked up (token_embd, position_embd, token_types): row i grows by
     * scale * B A[i]. */
    bool is_rows;
    struct model_tensor a; /* [n_in, r, n]; rows: [r, n_rows] */
    struct model_tensor b; /* [r, n_out, n]; rows: [r, n_values] */
    float scale;           /* alpha / r, usually; multiplied by the scale that the user gives the adapter */
};

struct adapter {
    char *path;
    const char *format;         /* "GGUF", "PEFT" */
    struct adapter_part *parts; /* [n_parts], sorted by target, each target once */
    size_t n_parts;
    struct model *file; /* GGUF: has the data and the names; else NULL */
    void **memory;      /* [n_memory] PEFT: data and names; owned */
    size_t n_memory;
};

/* Opens a GGUF file, a PEFT folder, or DIRECTORY/TASK of a model that is a directory. `model`: what it will
 * be applied to, for its family and heads; shapes are checked when a graph is built. ENGINE_ERROR_DATA,
 * ENGINE_ERROR_UNSUPPORTED with a message that names the adapter. */
int adapter_open(const struct model *model, const char *path, struct adapter **adapter);
void adapter_close(struct adapter *adapter);

/* The part that changes a tensor; NULL: none. */
const struct adapter_part *adapter_find(const struct adapter *adapter, const char *target);

/* The rank of a part. */
static inline uint64_t adapter_rank(const struct adapter_part *part)
{
    return part->b.ne[0];
}

#endif
