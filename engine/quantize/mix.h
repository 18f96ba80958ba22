/* mix.h: chooses the type of each tensor when a model is quantised. */
#ifndef ENGINE_QUANTIZE_MIX_H
#define ENGINE_QUANTIZE_MIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/model.h"

/* The meaning of a name on the command line: a type for most of the matrices, and rules for the others. */
struct mix {
    const char *name;   /* "Q4_K_M" */
    uint32_t type;      /* enum engine_type */
    uint32_t file_type; /* general.file_type of such files */
};

/* By name, upper or lower case; NULL if there is none. */
const struct mix *mix_by_name(const char *name);
/* All names, "F32, F16, …", for messages. */
const char *mix_names(void);

struct mix_wish {
    const char *pattern; /* with * and ?, as in fnmatch */
    uint32_t type;
};

/* Whether a wish applies to a tensor of this name. */
bool mix_matches(const struct mix_wish *wish, const struct model_tensor *tensor);

/* Chooses the types of n tensors, given in the order of mix_sort. `pure`: all that may be quantised get the
 * mix's type. The first wish whose pattern matches such a tensor overrides the mix. If a row is not a
 * multiple of a type's block length, a type with shorter blocks replaces it, and the log says so. */
void mix_choose(const struct mix *mix, bool pure, const struct mix_wish *wishes, size_t n_wishes,
                const struct metadata *metadata, const struct model_tensor *const *tensors, size_t n,
                uint32_t *types);

/* Sorts tensors as llama-quantize does: those outside layers by name, then layer by layer. */
void mix_sort(const struct model_tensor **tensors, size_t n);

/* Whether a tensor is a matrix that tolerates rounding: not a norm, a bias, a router, or a small table. */
bool mix_may_quantize(const struct model_tensor *tensor);

#endif
