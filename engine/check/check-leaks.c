/* check-leaks.c: destroyed objects must be given back: buffers, weights, streams, recordings, devices; and
 * work that is done must leave nothing. Creating and destroying them repeatedly must leave nothing that grows
 * from round to round: memory of the process (its pages, and allocations in its heap), memory that the device
 * reports as free, files, threads. Drivers keep caches: so only growth in every one of several rounds counts.
 * Other processes use the device's memory at the same time: of it only what is lost in a round and not in an
 * equally long pause counts, and only when it is lost again some time later. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check/cases.h"
#include "check/formats.h"
#include "check/heap.h"
#include "check/suite.h"
#include "common/clock.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define MIB          ((int64_t)1 << 20)

/* ---- Measurements ---------------------------------------------------------------------------------- */

/* Resources in use. Each may be 0 throughout: then it isn't known here. */
struct in_use {
    int64_t resident, heap, device, files, threads;
};

static int64_t resident_bytes(void)
{
    long long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file) return 0;
    if (fscanf(file, "%lld %lld", &size, &resident) != 2) resident = 0;
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

static int64_t count_entries(const char *path)
{
    int64_t n = 0;
    DIR *folder = opendir(path);
    while (folder && readdir(folder)) n++;
    if (folder) closedir(folder);
    return n;
}

static struct in_use leaks_measure(struct suite *suite)
{
    struct engine_device_info info = {.struct_size = sizeof info};
    fixture_must(&suite->fixture, suite->fixture.api->device_info(suite->device, &info), "device_info");
    return (struct in_use){.resident = resident_bytes(),
                           .heap = heap_in_use(),
                           .device = -(int64_t)info.memory_free,
                           .files = count_entries("/proc/self/fd"),
                           .threads = count_entries("/proc/self/task")};
}

/* Makes something and destroys it. */
typedef void round_trip(struct suite *suite, const void *args);

/* Something to be given back: `bytes` that it takes at least, 0: a handle. */
struct trip {
    const char *what; /* "weights" */
    round_trip *make;
    unsigned n; /* how often in a round */
    int64_t bytes;
    const void *args;
    int64_t heap; /* bytes of the heap that each may leave allocated; 0: none */
    bool is_work;
};

enum {
    ROUNDS = 5,
    ATTEMPTS = 4,      /* at rounds in which the device's memory shrinks */
    HANDLE = 16,       /* bytes of a handle, at least */
    LEFT_BEHIND = 4096 /* bytes that work done may not leave in use */
};

/* Bytes of memory that a trip may lose: noise. */
static int64_t memory_share(const struct trip *trip)
{
    return trip->bytes ? trip->bytes / 2 : INT64_MAX / trip->n;
}

static void expect_no_growth(struct suite *suite, const struct trip *trip, const struct in_use *least)
{
    const struct {
        const char *name;
        int64_t grown, share;
    } all[] = {{"bytes of memory", least->resident, memory_share(trip)},
               {"bytes in the heap", least->heap, HANDLE + trip->heap},
               {"bytes of the device's memory", least->device, memory_share(trip)},
               {"open files", least->files, 1},
               {"threads", least->threads, 1}};
    for (size_t i = 0; i < COUNT(all); i++)
        SUITE_EXPECT(suite, all[i].grown < trip->n * all[i].share,
                     "%u %s were %s, and at least %lld %s stayed in use, in each of %d rounds", trip->n,
                     trip->what, trip->is_work ? "done" : "destroyed", (long long)all[i].grown, all[i].name,
                     ROUNDS);
}

static int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The least growth of the rounds. Each is followed by a pause of the same length, in which nothing is
 * created: what the device has more or less memory then is due to others. */
static struct in_use least_growth(struct suite *suite, const struct trip *trip)
{
    struct in_use least = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    for (int round = 0; round < ROUNDS; round++) {
        const struct in_use before = leaks_measure(suite);
        const double start = seconds_now();
        for (unsigned i = 0; i < trip->n; i++) trip->make(suite, trip->args);
        const struct in_use after = leaks_measure(suite);
        usleep((useconds_t)(1e6 * (seconds_now() - start)));
        const int64_t others = leaks_measure(suite).device - after.device;
        least.resident = least_of(least.resident, after.resident - before.resident);
        least.heap = least_of(least.heap, after.heap - before.heap);
        least.files = least_of(least.files, after.files - before.files);
        least.threads = least_of(least.threads, after.threads - before.threads);
        least.device = least_of(least.device, after.device - before.device - llabs(others));
    }
    return least;
}

static void are_given_back(struct suite *suite, const void *args)
{
    const struct trip *trip = args;
    struct in_use least;
    fixture_describe(&suite->fixture, "%d rounds of %u", ROUNDS, trip->n);
    trip->make(suite, trip->args); /* also shows whether it is claimed */
    for (unsigned i = 0; i < trip->n; i++) trip->make(suite, trip->args);
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        if (attempt) sleep(1);
        least = least_growth(suite, trip);
        if (least.device < trip->n * memory_share(trip)) break;
    }
    expect_no_growth(suite, trip, &least);
}

/* ---- Objects --------------------------------------------------------------------------------------- */

static void make_buffer(struct suite *suite, const void *args)
{
    struct fixture *fixture = &suite->fixture;
    const uint64_t size = *(const uint64_t *)args;
    struct engine_buffer *buffer = NULL;
    fixture_must(fixture, fixture->api->buffer_create(fixture->device, size, &buffer), "buffer_create");
    uint8_t *bytes = fixture_hold(fixture, malloc(size));
    memset(bytes, 1, size);
    fixture_must(fixture, fixture->api->write(fixture->stream, buffer, 0, bytes, size), "write");
    fixture_must(fixture, fixture->api->stream_wait(fixture->stream), "stream_wait");
    fixture->api->buffer_destroy(buffer);
    fixture_clear(fixture); /* including the entry that holds `bytes` */
}

/* Fills in the first of the uses, and a type, that the plugin takes for a weight of this shape; stops if
 * there is none. */
static void choose_weight(struct fixture *fixture, struct engine_weight_desc *desc, const uint32_t *uses,
                          size_t n_uses)
{
    const struct format *format;
    uint64_t bytes;
    for (size_t i = 0; (format = format_at(i)); i++)
        for (size_t use = 0; use < n_uses; use++) {
            if (!format->is_weight) continue;
            desc->type = format->type, desc->type_name = format->name, desc->uses = uses[use];
            desc->data_size = format_bytes(format->type, desc->ne[0]) * desc->ne[1];
            if (fixture->api->weight_size(fixture->device, desc, &bytes) == ENGINE_OK) return;
        }
    fixture->stop(fixture, FIXTURE_UNCLAIMED, "");
}

/* Of the shape in the argument, [k, rows]. */
static void make_weight(struct suite *suite, const void *args)
{
    static const uint32_t uses[] = {ENGINE_WEIGHT_MATMUL, ENGINE_WEIGHT_ROWS, ENGINE_WEIGHT_VALUES};
    const uint64_t *shape = args;
    struct fixture *fixture = &suite->fixture;
    struct engine_weight_desc desc = {
        .struct_size = sizeof desc, .name = "check.weight", .ne = {shape[0], shape[1], 1, 1}};
    struct engine_weight *weight = NULL;
    choose_weight(fixture, &desc, uses, COUNT(uses));
    desc.data = fixture_room(fixture, desc.data_size, 1);
    fixture_must(fixture, fixture->api->weight_create(fixture->device, &desc, &weight), "weight_create");
    fixture->api->weight_destroy(weight);
    fixture_clear(fixture);
}

/* With work that nobody has waited for. */
static void make_stream(struct suite *suite, const void *args)
{
    struct fixture *fixture = &suite->fixture;
    const struct engine_backend *api = fixture->api;
    struct engine_stream *stream = NULL;
    struct engine_buffer *buffer = NULL;
    (void)args;
    fixture_must(fixture, api->buffer_create(fixture->device, 64, &buffer), "buffer_create");
    fixture_must(fixture, api->stream_create(fixture->device, &stream), "stream_create");
    fixture_must(fixture, api->write(stream, buffer, 0, "abcd", 4), "write");
    api->stream_destroy(stream);
    api->buffer_destroy(buffer);
}

static void make_recording(struct suite *suite, const void *args)
{
    struct fixture *fixture = &suite->fixture;
    (void)args;
    programs_claim_recordings(suite);
    programs_record_and_destroy(fixture);
    fixture_clear(fixture);
}

/* Work that is done leaves nothing behind, either. The argument is the weight's shape, [k, rows]. */
static void make_product(struct suite *suite, const void *args)
{
    static const uint32_t use = ENGINE_WEIGHT_MATMUL;
    const uint64_t *shape = args;
    struct fixture *fixture = &suite->fixture;
    struct engine_weight_desc desc = {
        .struct_size = sizeof desc, .name = "check.weight", .ne = {shape[0], shape[1], 1, 1}};
    choose_weight(fixture, &desc, &use, 1);
    const struct matmul_case c = {.type = desc.type,
                                  .k = (uint32_t)shape[0],
                                  .rows = (uint32_t)shape[1],
                                  .tokens = 1,
                                  .input_rounding = 0x1p-8};
    free(run_matmul_case(fixture, &c));
    fixture_clear(fixture);
}

static void make_transfer(struct suite *suite, const void *args)
{
    struct fixture *fixture = &suite->fixture;
    (void)args;
    const struct engine_tensor *tensor = fixture_f32(fixture, 16, 1, 1, NULL);
    free(fixture_read(fixture, tensor));
    fixture_clear(fixture);
}

static void make_device(struct suite *suite, const void *args)
{
    struct fixture fixture = {0};
    (void)args;
    suite_open(suite, &fixture, 1, 0);
    suite_close(&fixture);
}

void check_leaks(struct suite *suite)
{
    static const uint64_t large = (uint64_t)4 << 20, small = 100, large_shape[] = {1024, 1024},
                          small_shape[] = {256, 1};
    static const struct {
        const char *area, *name;
        struct trip trip;
    } rows[] = {
        {"buffers", "are given back", {"buffers", make_buffer, 10, 4 * MIB, &large, 0, false}},
        {"buffers", "small ones are given back", {"buffers", make_buffer, 100, 0, &small, 0, false}},
        {"weights", "are given back", {"weights", make_weight, 10, MIB / 2, large_shape, 0, false}},
        {"weights", "small ones are given back", {"weights", make_weight, 50, 0, small_shape, 0, false}},
        {"streams", "are given back", {"streams", make_stream, 50, 0, NULL, 0, false}},
        {"streams", "transfers leave nothing", {"transfers", make_transfer, 256, LEFT_BEHIND, NULL, 0, true}},
        {"streams",
         "operations leave nothing",
         {"operations", make_product, 256, LEFT_BEHIND, small_shape, 0, true}},
        {"recordings", "are given back", {"recordings", make_recording, 10, 0, NULL, 0, false}},
        /* Software drivers lose a few kilobytes with each device. */
        {"opening", "devices are given back", {"devices", make_device, 4, 0, NULL, 65536, false}},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        suite_single(suite, rows[i].area, rows[i].name, are_given_back, &rows[i].trip);
}
