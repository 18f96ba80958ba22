/* room.c: the blocks of a grown cache (plan/grow.c) beyond those that weights were placed with room for. The
 * CPU commits memory when a block is first written to, and others may have taken it since the plan was made:
 * such blocks are closed until they are needed, and opened only as far as memory is free. Devices that commit
 * all memory at once have it from the beginning. */
#include "common/clock.h"
#include "context/context.h"
#include "kv/cache.h"

#define SECONDS_KNOWN 0.1 /* how long an answer about memory counts */
#define SPARE_BLOCKS  32  /* opened together with those that are needed */

static void room_query(const struct engine_plan *plan, struct room *room)
{
    const struct open_device *cpu = &plan->set.devices[0];
    struct engine_device_info info = {.struct_size = sizeof info};
    const double now = seconds_now();
    if (room->asked > 0 && now - room->asked < SECONDS_KNOWN) return;
    room->asked = now;
    if (cpu->backend->device_info(0, &info) == ENGINE_OK) room->bytes = devices_default_budget(&info);
}

static uint32_t fitting(const struct engine_context *context)
{
    const uint32_t n_closed = kv_closed_count(context->kv);
    const uint64_t bytes = plan_block_bytes(context->plan, 0);
    if (bytes == 0 || context->room->bytes / bytes >= n_closed) return n_closed;
    return (uint32_t)(context->room->bytes / bytes);
}

uint32_t room_openable(const struct engine_context *context)
{
    if (kv_closed_count(context->kv) == 0) return 0;
    room_query(context->plan, context->room);
    return fitting(context);
}

bool room_make(struct engine_context *context, const uint32_t *growth)
{
    const uint32_t needed = kv_needed(context->kv, growth), empty = kv_empty_count(context->kv);
    if (needed > empty && kv_closed_count(context->kv) > 0) {
        const uint32_t wanted = needed - empty + SPARE_BLOCKS;
        if (context->room->asked == 0) room_query(context->plan, context->room);
        uint32_t n = fitting(context);
        if (n > wanted) n = wanted;
        const uint64_t bytes = n * plan_block_bytes(context->plan, 0);
        kv_open(context->kv, n);
        context->room->bytes -= bytes < context->room->bytes ? bytes : context->room->bytes;
    }
    return needed <= kv_free_count(context->kv);
}
