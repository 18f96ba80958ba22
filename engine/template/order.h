/* order.h: sorting, stable as Python's. */
#ifndef ENGINE_TEMPLATE_ORDER_H
#define ENGINE_TEMPLATE_ORDER_H

#include "template/value.h"

/* The indices of `keys` in ascending order, descending if `reverse`; equal ones stay in their order. Fails if two
 * can't be compared. */
size_t *order_values(struct task *task, const struct value *keys, size_t count, bool reverse);
/* The indices of a dict's pairs by their keys. */
size_t *order_pairs(struct task *task, const struct dict *dict);

#endif
