/* arch.h: families of models. A family reads its hyper-parameters from the metadata and builds the graph of a batch. One
 * file each; arch.c holds the table of them. */
#ifndef ENGINE_ARCH_ARCH_H
#define ENGINE_ARCH_ARCH_H

#include "graph/graph.h"
#include "model/model.h"

struct hparams {
    uint32_t n_vocab, n_context; /* the context that the model was trained for */
    uint32_t n_embd, n_layers, n_ff;
    uint32_t n_heads, n_kv_heads, head_dim;
    float norm_epsilon;
    uint32_t rope_dims;
    float rope_theta, rope_position_scale;
    uint32_t window; /* positions that a token sees, itself counted; 0: all */
};

struct architecture {
    const char *name; /* general.architecture */
    /* Fills *hparams; ENGINE_ERROR_DATA or ENGINE_ERROR_UNSUPPORTED with a message that names the file. */
    int (*read)(const struct model *model, struct hparams *hparams);
    /* Adds the nodes and sets graph->logits; errors are in graph->status. */
    void (*build)(struct graph *graph, const struct hparams *hparams);
};

/* The family of a model; NULL with a message if the engine doesn't know it. */
const struct architecture *architecture_of(const struct model *model);

/* Metadata for families: "KEY" of the architecture, so "llama.KEY". An array of equal numbers counts as that number.
 * Without the key, `fallback` is the value, or, for the _required ones, ENGINE_ERROR_DATA. */
int arch_integer_required(const struct model *model, const char *key, uint32_t *value);
int arch_integer(const struct model *model, const char *key, uint32_t fallback, uint32_t *value);
int arch_float(const struct model *model, const char *key, float fallback, float *value);
/* False if it isn't there. The text is ended by NUL and cut to `size`. */
bool arch_string(const struct model *model, const char *key, char *text, size_t size);

extern const struct architecture arch_llama;

#endif
