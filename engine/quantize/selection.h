/* selection.h: which tensors of a model get which type: a mix by name, and patterns with types of their own. */
#ifndef ENGINE_QUANTIZE_SELECTION_H
#define ENGINE_QUANTIZE_SELECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/model.h"
#include "quantize/mix.h"

struct selection {
    const struct mix *mix;
    struct mix_wish *wishes; /* [n_wishes] */
    size_t n_wishes;
    const struct model_tensor **tensors; /* [n], in the order of mix_sort */
    uint32_t *types;                     /* [n] */
    size_t n;
};

/* Chooses the types of all tensors. `only`: "PATTERN=TYPE", …, NULL; or NULL. Each tensor can be turned into its
 * type by values_convert, or has it already. What a directory of Hugging Face has quantised to blocks of 4 bits
 * stays so, unless F32, F16 or BF16 is asked for and it isn't MXFP4; its small tables become F32, as in files
 * of llama.cpp's converter. ENGINE_ERROR_ARGUMENT; ENGINE_ERROR_UNSUPPORTED: a matrix is quantised already.
 * selection_free is to be called in any case. */
int selection_make(const struct model *model, const char *type, const char *const *only, bool pure,
                   struct selection *selection);
void selection_free(struct selection *selection);

#endif
