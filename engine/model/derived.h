/* derived.h: weights that no file has as they are: some rows of a fused tensor, several tensors as one, numbers that the
 * engine works out. Each is a struct model_tensor of its own, with a name, and is made once: graphs are built many times. */
#ifndef ENGINE_MODEL_DERIVED_H
#define ENGINE_MODEL_DERIVED_H

#include "model/model.h"

struct derived;

struct derived *derived_create(void); /* NULL: out of memory */
void derived_destroy(struct derived *derived);

/* The one of this name, or NULL. */
const struct model_tensor *derived_find(const struct derived *derived, const char *name);

/* The functions below return NULL after a failure for lack of memory. Names are copied. */

/* A tensor's elements from row `first` on, as `ne` (3 dimensions) lays them out; they lie within the source, whose data
 * is shared, and rows are whole blocks. */
const struct model_tensor *derived_view(struct derived *derived, const struct model_tensor *source,
                                        uint64_t first, const uint64_t ne[3], const char *name);

/* `n_parts` matrices of one type and shape [k, rows] as one tensor [k, rows, n_parts]. */
const struct model_tensor *derived_stack(struct derived *derived, const struct model_tensor *const *parts,
                                         size_t n_parts, const char *name);

/* F32 [ne0, ne1]; *values receives where to write them. `source`: the tensor that they are made of, or NULL. */
const struct model_tensor *derived_numbers(struct derived *derived, const struct model_tensor *source,
                                           uint64_t ne0, uint64_t ne1, const char *name, float **values);

#endif
