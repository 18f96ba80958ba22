/* order.c: see order.h. */
#include "template/order.h"

#include <string.h>

/* Whether b has to go before a, which is before it now. */
static bool is_before(struct task *task, struct value b, struct value a, bool reverse)
{
    int order;
    if (!value_order(task, b, a, &order)) {
        value_need(task, b);
        value_need(task, a);
        task_fail(task, "'<' not supported between instances of '%s' and '%s'", value_type(b), value_type(a));
    }
    return reverse ? order == 1 : order < 0;
}

/* A merge sort, bottom up. */
size_t *order_values(struct task *task, const struct value *keys, size_t count, bool reverse)
{
    size_t *order = task_array(task, count + 1, sizeof *order),
           *other = task_array(task, count + 1, sizeof *other);
    for (size_t i = 0; i < count; i++) order[i] = i;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t from = 0; from < count; from += 2 * width) {
            size_t middle = from + width < count ? from + width : count;
            size_t to = middle + width < count ? middle + width : count;
            size_t a = from, b = middle;
            for (size_t at = from; at < to; at++) {
                bool second =
                    a == middle || (b < to && is_before(task, keys[order[b]], keys[order[a]], reverse));
                other[at] = second ? order[b++] : order[a++];
            }
        }
        size_t *sorted = other;
        other = order;
        order = sorted;
    }
    return order;
}

size_t *order_pairs(struct task *task, const struct dict *dict)
{
    struct value *keys = task_array(task, dict->count + 1, sizeof *keys);
    for (size_t i = 0; i < dict->count; i++) keys[i] = dict->pairs[i].key;
    return order_values(task, keys, dict->count, false);
}
