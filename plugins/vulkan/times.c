/* times.c: see times.h. A command buffer has pairs of queries, which it resets itself, so that a recording's
 * queries serve each of its replays. Their results are taken before the buffer is submitted or recorded
 * again, and added up in rows: one for each kernel, shape and number of operations. */
#include "times.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/assert.h"

#define PAIRS 64 /* of queries in a pool */

struct launch {
    enum shader shader;
    uint32_t shape[MAX_SHAPE];
    uint64_t flops, bytes;
};

struct timing {
    VkQueryPool *pools;
    uint32_t n_pools;
    struct launch *launches;
    uint32_t n_launches, n_barriers;
    bool is_due;
};

/* Launches of one kind. */
struct times_row {
    struct launch launch;
    uint64_t count;
    double seconds;
};

struct times {
    struct times_row *rows;
    uint32_t n_rows;
    uint64_t n_launches, n_barriers, n_missed; /* those that left no time */
    double between;                            /* seconds from one launch to the next in a command buffer */
};

static bool times_are_wanted(void)
{
    const char *text = getenv("ENGINE_VULKAN_TIMES");
    return text && *text && strcmp(text, "0") != 0;
}

int times_setup(struct engine_device *device)
{
    if (!times_are_wanted()) return ENGINE_OK;
    if (device->physical->time_bits == 0) {
        vulkan_host->log(ENGINE_LOG_WARNING, "no times: the queue of %s has no time stamps",
                         device->physical->properties.deviceName);
        return ENGINE_OK;
    }
    device->times = calloc(1, sizeof *device->times);
    return device->times ? ENGINE_OK : vulkan_host->fail(ENGINE_ERROR_MEMORY, "out of memory (times)");
}

/* ---- Recording ----------------------------------------------------------------------------------------- */

static struct timing *need_timing(struct commands *commands)
{
    if (!commands->timing) commands->timing = calloc(1, sizeof *commands->timing);
    return commands->timing;
}

static int add_query_pool(const struct engine_device *device, struct timing *timing)
{
    VkQueryPoolCreateInfo create = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                    .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                    .queryCount = 2 * PAIRS};
    if (!ARRAY_GROW(timing->pools, timing->n_pools))
        return vulkan_host->fail(ENGINE_ERROR_MEMORY, "out of memory (times)");
    VkResult result = vk.vkCreateQueryPool(device->handle, &create, NULL, &timing->pools[timing->n_pools]);
    if (result == VK_SUCCESS) timing->n_pools++;
    return vulkan_error(result, "times");
}

/* Writes a stamp when everything before it has run. */
static void write_stamp(const struct commands *commands, uint32_t launch, uint32_t which)
{
    vk.vkCmdWriteTimestamp(commands->handle, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT,
                           commands->timing->pools[launch / PAIRS], launch % PAIRS * 2 + which);
}

int times_begin(struct commands *commands, const struct dispatch *dispatch)
{
    struct timing *timing = need_timing(commands);
    if (!timing || !ARRAY_GROW(timing->launches, timing->n_launches))
        return vulkan_host->fail(ENGINE_ERROR_MEMORY, "out of memory (times)");
    uint32_t number = timing->n_launches;
    if (number / PAIRS == timing->n_pools) {
        int status = add_query_pool(commands->device, timing);
        if (status) return status;
    }
    if (number % PAIRS == 0)
        vk.vkCmdResetQueryPool(commands->handle, timing->pools[number / PAIRS], 0, 2 * PAIRS);
    struct launch *launch = &timing->launches[timing->n_launches++];
    *launch = (struct launch){
        .shader = dispatch->key.shader, .flops = dispatch->flops, .bytes = dispatch_bytes(dispatch)};
    memcpy(launch->shape, dispatch->shape, sizeof launch->shape);
    if (launch->shape[0] == 0) memcpy(launch->shape, dispatch->groups, sizeof dispatch->groups);
    VkMemoryBarrier all = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                           .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                           .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
    vk.vkCmdPipelineBarrier(commands->handle, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                            VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &all, 0, NULL, 0, NULL);
    write_stamp(commands, number, 0);
    return ENGINE_OK;
}

void times_end(struct commands *commands)
{
    ENGINE_ASSERT(commands->timing->n_launches > 0);
    write_stamp(commands, commands->timing->n_launches - 1, 1);
}

void times_barrier(struct commands *commands)
{
    if (!commands->device->times) return;
    struct timing *timing = need_timing(commands);
    if (timing) timing->n_barriers++;
}

void times_reset(struct commands *commands)
{
    if (!commands->timing) return;
    commands->timing->n_launches = commands->timing->n_barriers = 0;
    commands->timing->is_due = false;
}

void times_drop(struct commands *commands)
{
    struct timing *timing = commands->timing;
    if (!timing) return;
    for (uint32_t i = 0; i < timing->n_pools; i++)
        vk.vkDestroyQueryPool(commands->device->handle, timing->pools[i], NULL);
    free(timing->pools);
    free(timing->launches);
    free(timing);
    commands->timing = NULL;
}

/* ---- Results ------------------------------------------------------------------------------------------- */

void times_run(struct commands *commands)
{
    if (commands->timing) commands->timing->is_due = true;
}

bool times_are_due(const struct commands *commands)
{
    return commands->timing && commands->timing->is_due;
}

static bool is_alike(const struct launch *a, const struct launch *b)
{
    return a->shader == b->shader && a->flops == b->flops && a->bytes == b->bytes &&
           memcmp(a->shape, b->shape, sizeof a->shape) == 0;
}

/* NULL: no memory for a new one. */
static struct times_row *row_of(struct times *times, const struct launch *launch)
{
    for (uint32_t i = 0; i < times->n_rows; i++)
        if (is_alike(&times->rows[i].launch, launch)) return &times->rows[i];
    if (!ARRAY_GROW(times->rows, times->n_rows)) return NULL;
    struct times_row *row = &times->rows[times->n_rows++];
    *row = (struct times_row){.launch = *launch};
    return row;
}

/* Stamps have physical->time_bits bits, and begin again at 0. */
static double seconds_between(const struct physical_device *physical, uint64_t from, uint64_t to)
{
    uint64_t mask = UINT64_MAX >> (64 - physical->time_bits);
    return (double)((to - from) & mask) * (double)physical->properties.limits.timestampPeriod * 1e-9;
}

static void take_pool(struct commands *commands, uint32_t pool, uint64_t *before)
{
    const struct engine_device *device = commands->device;
    const struct timing *timing = commands->timing;
    struct times *times = device->times;
    uint64_t stamps[PAIRS][2];
    uint32_t first = pool * PAIRS, count = timing->n_launches - first;
    if (count > PAIRS) count = PAIRS;
    VkResult result =
        vk.vkGetQueryPoolResults(device->handle, timing->pools[pool], 0, 2 * count, sizeof stamps, stamps,
                                 sizeof stamps[0][0], VK_QUERY_RESULT_64_BIT);
    if (result != VK_SUCCESS) times->n_missed += count;
    for (uint32_t i = 0; result == VK_SUCCESS && i < count; i++) {
        struct times_row *row = row_of(times, &timing->launches[first + i]);
        if (first + i > 0) times->between += seconds_between(device->physical, *before, stamps[i][0]);
        *before = stamps[i][1];
        if (!row) {
            times->n_missed++;
            continue;
        }
        row->count++;
        row->seconds += seconds_between(device->physical, stamps[i][0], stamps[i][1]);
    }
}

void times_take(struct commands *commands)
{
    struct timing *timing = commands->timing;
    if (!times_are_due(commands)) return;
    struct times *times = commands->device->times;
    uint64_t before = 0;
    for (uint32_t pool = 0; pool * PAIRS < timing->n_launches; pool++) take_pool(commands, pool, &before);
    times->n_launches += timing->n_launches;
    times->n_barriers += timing->n_barriers;
    timing->is_due = false;
}

static int compare_rows(const void *a, const void *b)
{
    const struct times_row *x = a, *y = b;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

static void write_row(const struct times_row *row)
{
    const struct launch *launch = &row->launch;
    char shape[64];
    int length = 0;
    for (int i = 0; i < MAX_SHAPE && launch->shape[i] > 0; i++)
        length += snprintf(shape + length, sizeof shape - (size_t)length, "%s%" PRIu32, i > 0 ? "x" : "",
                           launch->shape[i]);
    double mean = row->seconds / (double)row->count, rate = mean > 0 ? 1 / mean : 0;
    vulkan_host->log(ENGINE_LOG_WARNING, "times: %-32s %-24s %8" PRIu64 " %10.2f %9.2f %9.4f",
                     shader_codes[launch->shader].name, shape, row->count, mean * 1e6,
                     (double)launch->bytes * rate * 1e-9, (double)launch->flops * rate * 1e-12);
}

static void write_table(const struct engine_device *device)
{
    struct times *times = device->times;
    double seconds = 0;
    qsort(times->rows, times->n_rows, sizeof *times->rows, compare_rows);
    for (uint32_t i = 0; i < times->n_rows; i++) seconds += times->rows[i].seconds;
    vulkan_host->log(ENGINE_LOG_WARNING,
                     "times of %s: %" PRIu64 " launches, %" PRIu64 " barriers; %.3f ms in launches, %.3f ms "
                     "between them%s",
                     device->physical->properties.deviceName, times->n_launches, times->n_barriers,
                     seconds * 1e3, times->between * 1e3, times->n_missed ? "; some are missing" : "");
    vulkan_host->log(ENGINE_LOG_WARNING, "times: %-32s %-24s %8s %10s %9s %9s", "kernel", "shape", "count",
                     "us", "GB/s", "TFLOPS");
    for (uint32_t i = 0; i < times->n_rows; i++) write_row(&times->rows[i]);
}

void times_teardown(struct engine_device *device)
{
    if (!device->times) return;
    if (device->times->n_launches > 0) write_table(device);
    free(device->times->rows);
    free(device->times);
    device->times = NULL;
}
