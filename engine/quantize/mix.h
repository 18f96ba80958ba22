/* mix.h: chooses the type of each tensor when a model is quantised: a mix by name, and patterns with types
 * of their own. */
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

/* ---- Which tensors get which type ---------------------------------------------------------------------- */

struct selection {
    const struct mix *mix;
    struct mix_wish *wishes; /* [n_wishes] */
    size_t n_wishes;
    const struct model_tensor **tensors; /* [n], in the order of mix_sort */
    uint32_t *types;                     /* [n] */
    size_t n;
};

/* Chooses the types of all tensors. `only`: "PATTERN=TYPE", …, NULL; or NULL. Each tensor can be turned
 * into its type by values_convert, or has it already. What a Hugging Face directory has quantised to
 * blocks of 4 bits stays unchanged, unless F32, F16 or BF16 is asked for and it isn't MXFP4; its small tables
 * become F32, as in files of llama.cpp's converter. ENGINE_ERROR_ARGUMENT; ENGINE_ERROR_UNSUPPORTED: a
 * matrix is quantised already. selection_free is to be called in any case. */
int selection_make(const struct model *model, const char *type, const char *const *only, bool pure,
                   struct selection *selection);
void selection_free(struct selection *selection);

#endif
