/* arch.h: model families. A family reads its hyper-parameters from the metadata and builds the graph of a
 * batch. Each has a file named after it; read llama.c first. decoder.h has what they share, arch.c the table
 * of families. */
#ifndef ENGINE_ARCH_ARCH_H
#define ENGINE_ARCH_ARCH_H

#include "arch/hparams.h"
#include "graph/graph.h"
#include "model/model.h"

/* What the host needs to know about a model of any family. */
struct arch_info {
    uint32_t n_vocab;
    uint32_t n_embd; /* numbers of a hidden state */
    uint32_t n_layers;
    uint32_t n_context;    /* the context that the model was trained with */
    uint32_t n_positions;  /* learnt positions end here; 0: any position works */
    bool has_dynamic_rope; /* which changes beyond n_context */
    uint32_t window; /* the most positions that a token sees in a layer with a window; 0: no such layer */
    /* Of an encoder: positions after its own that a token sees in a layer with a window, see INPUT_REACH. */
    uint32_t n_ahead;
    uint32_t n_types;   /* of tokens, as in BERT; 0: they have none */
    bool is_encoder;    /* tokens see their whole text, and there are no logits */
    bool makes_vectors; /* an encoder, or made for embeddings or labels: the file names a pooling or labels */
    bool has_states;    /* the graph declares states: graph_state */
    /* An encoder reads a source text for each of the decoder's sequences; the family has the graphs of both, see
     * graph_shape.encodes. The decoder's text begins with this token. */
    bool has_source;
    int32_t start_token;
    /* The value of INPUT_QUERY_SCALES for a position; NULL if the graph has no such input. */
    float (*query_scale)(const void *hparams, uint32_t position);
};

struct architecture {
    const char *name; /* general.architecture */
    size_t size;      /* bytes of its hyper-parameters, initially zero */
    /* Fills its hyper-parameters and *info. *reader keeps the first error. */
    void (*read)(struct hparams *reader, void *hparams, struct arch_info *info);
    /* Adds the nodes and sets graph->logits, or in an encoder watches the last states (WATCH_STATES). Errors are in
     * graph->status. */
    void (*build)(struct graph *graph, const void *hparams);
};

/* The family of a model; NULL with a message if the engine does not know it. */
const struct architecture *arch_of(const struct model *model);

/* Lets the family read the model's metadata into `hparams` [architecture->size] and *info. ENGINE_ERROR_DATA
 * or ENGINE_ERROR_UNSUPPORTED with a message that names the file. */
int arch_read(const struct architecture *architecture, const struct model *model, void *hparams,
              struct arch_info *info);

#endif
