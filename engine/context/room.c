/* room.c: the blocks of a grown cache (plan/grow.c) beyond those that weights were placed with room for. The
 * CPU commits memory when a block is first written to, and others may have taken it since the plan was made:
 * such blocks are closed until they are needed, and opened only as far as memory is free. What the CPU says
 * is free includes the blocks that were opened and not yet written to, so the contexts of an engine keep one
 * account of them (struct claims). Devices that commit all memory at once have it from the beginning. */
#include "common/assert.h"
#include "common/clock.h"
#include "context/context.h"
#include "kv/cache.h"

#define SECONDS_KNOWN 0.1 /* how long an answer about memory counts */
#define SPARE_BLOCKS  32  /* opened together with those that are needed */

static struct claims *claims_of(const struct engine_context *context)
{
    return &context->plan->model->engine->claims;
}

/* With the lock of the claims, as the two functions after it. */
static void claims_ask(struct claims *claims, const struct open_device *cpu)
{
    struct engine_device_info info = {.struct_size = sizeof info};
    const double now = seconds_now();
    if (claims->asked > 0 && now - claims->asked < SECONDS_KNOWN) return;
    claims->asked = now;
    if (cpu->backend->device_info(0, &info)) return;
    const uint64_t budget = devices_default_budget(&info);
    claims->left = budget > claims->unwritten ? budget - claims->unwritten : 0;
}

/* How many closed blocks may be opened. */
static uint32_t fitting(const struct engine_context *context, const struct claims *claims)
{
    const uint32_t n_closed = kv_closed_count(context->kv);
    const uint64_t block = plan_block_bytes(context->plan, 0);
    const uint64_t more = claims->max_grown > claims->grown ? claims->max_grown - claims->grown : 0;
    const uint64_t left = claims->left < more ? claims->left : more;
    return block == 0 || left / block >= n_closed ? n_closed : (uint32_t)(left / block);
}

/* Blocks that were unwritten, and have been written to since, are the CPU's to count. */
static void claims_update(struct engine_context *context, struct claims *claims)
{
    const uint64_t unwritten = kv_unwritten_count(context->kv) * plan_block_bytes(context->plan, 0);
    ENGINE_ASSERT(claims->unwritten >= context->room.unwritten);
    claims->unwritten = claims->unwritten - context->room.unwritten + unwritten;
    context->room.unwritten = unwritten;
}

void room_claim(struct engine_context *context)
{
    struct claims *claims = claims_of(context);
    pthread_mutex_lock(&claims->lock);
    claims_update(context, claims);
    claims->asked = 0;
    pthread_mutex_unlock(&claims->lock);
}

void room_give_up(struct engine_context *context)
{
    struct claims *claims = claims_of(context);
    pthread_mutex_lock(&claims->lock);
    ENGINE_ASSERT(claims->unwritten >= context->room.unwritten && claims->grown >= context->room.grown);
    claims->unwritten -= context->room.unwritten;
    claims->grown -= context->room.grown;
    claims->asked = 0;
    pthread_mutex_unlock(&claims->lock);
    context->room = (struct room){0};
}

uint32_t room_openable(const struct engine_context *context)
{
    struct claims *claims = claims_of(context);
    if (kv_closed_count(context->kv) == 0) return 0;
    pthread_mutex_lock(&claims->lock);
    claims_ask(claims, &context->plan->set.devices[0]);
    const uint32_t n = fitting(context, claims);
    pthread_mutex_unlock(&claims->lock);
    return n;
}

/* Opens up to n blocks. */
static void room_open(struct engine_context *context, struct claims *claims, uint32_t wanted)
{
    claims_ask(claims, &context->plan->set.devices[0]);
    uint32_t n = fitting(context, claims);
    if (n > wanted) n = wanted;
    const uint64_t bytes = n * plan_block_bytes(context->plan, 0);
    kv_open(context->kv, n);
    claims->left -= bytes < claims->left ? bytes : claims->left;
    claims->grown += bytes;
    context->room.grown += bytes;
}

bool room_make(struct engine_context *context, const uint32_t *growth)
{
    const uint32_t needed = kv_needed(context->kv, growth), empty = kv_empty_count(context->kv);
    const bool opens = needed > empty && kv_closed_count(context->kv) > 0;
    const uint64_t unwritten = kv_unwritten_count(context->kv) * plan_block_bytes(context->plan, 0);
    if (opens || unwritten != context->room.unwritten) {
        struct claims *claims = claims_of(context);
        pthread_mutex_lock(&claims->lock);
        if (opens) room_open(context, claims, needed - empty + SPARE_BLOCKS);
        claims_update(context, claims);
        pthread_mutex_unlock(&claims->lock);
    }
    return needed <= kv_free_count(context->kv);
}

uint64_t engine_limit_growth(struct engine *engine, uint64_t bytes)
{
    pthread_mutex_lock(&engine->claims.lock);
    engine->claims.max_grown = bytes;
    const uint64_t grown = engine->claims.grown;
    pthread_mutex_unlock(&engine->claims.lock);
    return grown;
}
