/* order.c: see order.h. */
#include "kv/order.h"

/* Makes two neighbours of each other, either of which may be the end of the order. */
static void join(struct order *order, int32_t older, int32_t newer)
{
    if (older != NO_BLOCK)
        order->links[older].newer = newer;
    else
        order->oldest = newer;
    if (newer != NO_BLOCK)
        order->links[newer].older = older;
    else
        order->newest = older;
}

static void add(struct order *order, int32_t older, int32_t block, int32_t newer)
{
    join(order, older, block);
    join(order, block, newer);
    order->n++;
}

void order_add_newest(struct order *order, int32_t block)
{
    add(order, order->newest, block, NO_BLOCK);
}

void order_add_oldest(struct order *order, int32_t block)
{
    add(order, NO_BLOCK, block, order->oldest);
}

void order_remove(struct order *order, int32_t block)
{
    join(order, order->links[block].older, order->links[block].newer);
    order->n--;
}
