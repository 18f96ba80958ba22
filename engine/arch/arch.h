/* arch.h: families of models. A family reads its hyper-parameters from the metadata and builds the graph of a batch. One
 * file each, named after it; llama.c is the one to read first. decoder.h has what they share, arch.c the table of them. */
#ifndef ENGINE_ARCH_ARCH_H
#define ENGINE_ARCH_ARCH_H

#include "arch/hparams.h"
#include "graph/graph.h"
#include "model/model.h"

/* What the host needs to know of a model, whatever its family. */
struct arch_info {
    uint32_t n_vocab;
    uint32_t n_layers;
    uint32_t n_context;   /* the context that the model was trained for */
    uint32_t n_positions; /* there are no others: learnt positions end there; 0: any number */
    /* What INPUT_QUERY_SCALES holds for a position; NULL where the graph has no such input. */
    float (*query_scale)(const void *hparams, uint32_t position);
};

struct architecture {
    const char *name; /* general.architecture */
    size_t size;      /* bytes of its hyper-parameters, which start as zeros */
    /* Fills its hyper-parameters and *info; the first error is kept in *reader. */
    void (*read)(struct hparams *reader, void *hparams, struct arch_info *info);
    /* Adds the nodes and sets graph->logits; errors are in graph->status. */
    void (*build)(struct graph *graph, const void *hparams);
};

/* The family of a model; NULL with a message if the engine doesn't know it. */
const struct architecture *arch_of(const struct model *model);

/* Has the family read the model's metadata into `hparams` [architecture->size] and *info. ENGINE_ERROR_DATA or
 * ENGINE_ERROR_UNSUPPORTED with a message that names the file. */
int arch_read(const struct architecture *architecture, const struct model *model, void *hparams,
              struct arch_info *info);

#endif
