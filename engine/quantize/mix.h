/* mix.h: which type each tensor of a model gets when it is quantised. */
#ifndef ENGINE_QUANTIZE_MIX_H
#define ENGINE_QUANTIZE_MIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/model.h"

/* What a name on the command line stands for: a type for most of the matrices, and rules for the others. */
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

/* Whether a wish is meant for a tensor of this name. */
bool mix_matches(const struct mix_wish *wish, const struct model_tensor *tensor);

/* Decides on the types of n tensors, which are in the order of mix_sort. `pure`: the mix's type for all that may be
 * quantised. The first of the wishes whose pattern matches such a tensor counts more than the mix. Where a row is no
 * multiple of a type's block length, a type with shorter blocks takes its place, and the log
 * says so. */
void mix_choose(const struct mix *mix, bool pure, const struct mix_wish *wishes, size_t n_wishes,
                const struct metadata *metadata, const struct model_tensor *const *tensors, size_t n,
                uint32_t *types);

/* Puts tensors into the order that llama-quantize gives them: those outside layers by name, then layer by layer. */
void mix_sort(const struct model_tensor **tensors, size_t n);

/* Whether a tensor is a matrix whose rounding does little harm: not a norm, a bias, a router, or a small table. */
bool mix_may_quantize(const struct model_tensor *tensor);

#endif
