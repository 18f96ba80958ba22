/* order.h: blocks in the order in which they are to be given up; each knows its neighbours. */
#ifndef ENGINE_KV_ORDER_H
#define ENGINE_KV_ORDER_H

#include <stdint.h>

#define NO_BLOCK (-1)

struct order_link {
    int32_t older, newer; /* NO_BLOCK: there is none */
};

/* Has oldest = newest = NO_BLOCK at first. The links are the caller's, and count only for blocks in the order. */
struct order {
    struct order_link *links; /* [n_blocks] */
    int32_t oldest, newest;
    uint32_t n; /* its length */
};

/* The block is not in the order. */
void order_add_newest(struct order *order, int32_t block);
void order_add_oldest(struct order *order, int32_t block);
/* The block is in it. */
void order_remove(struct order *order, int32_t block);

#endif
