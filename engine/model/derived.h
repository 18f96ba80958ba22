/* derived.h: weights that no file contains as such: rows of a fused tensor, several tensors as one, numbers
 * that the engine computes. Each is a struct model_tensor with a name and is made only once, although graphs
 * are built many times. */
#ifndef ENGINE_MODEL_DERIVED_H
#define ENGINE_MODEL_DERIVED_H

#include "model/model.h"

struct derived;

struct derived *derived_create(void); /* NULL: out of memory */
void derived_destroy(struct derived *derived);

/* The derived tensor of this name, or NULL. */
const struct model_tensor *derived_find(const struct derived *derived, const char *name);

/* The functions below return NULL if they are out of memory. Names are copied. */

/* A tensor's elements from row `first` on, with shape `ne` (3 dimensions). They are within the source, whose
 * data is shared, and rows are whole blocks. */
const struct model_tensor *derived_view(struct derived *derived, const struct model_tensor *source,
                                        uint64_t first, const uint64_t ne[3], const char *name);

/* `n_parts` matrices of the same type and shape [k, rows] as one tensor [k, rows, n_parts]. */
const struct model_tensor *derived_stack(struct derived *derived, const struct model_tensor *const *parts,
                                         size_t n_parts, const char *name);

/* F32 [ne0, ne1]. The caller writes the numbers to *values. `source`: the tensor that they are computed from,
 * or NULL. */
const struct model_tensor *derived_numbers(struct derived *derived, const struct model_tensor *source,
                                           uint64_t ne0, uint64_t ne1, const char *name, float **values);

#endif
