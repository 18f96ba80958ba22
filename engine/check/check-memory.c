/* check-memory.c: devices, buffers, weights, and what happens when memory runs out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/cases.h"
#include "check/formats.h"
#include "check/suite.h"
#include "common/printable.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* A buffer that the suite destroys; stops if there is none. */
static struct engine_buffer *new_buffer(struct suite *suite, struct fixture *fixture, uint64_t size)
{
    struct engine_buffer *buffer = NULL;
    fixture_must(&suite->fixture, fixture->api->buffer_create(fixture->device, size, &buffer),
                 "buffer_create");
    SUITE_EXPECT(suite, buffer, "buffer_create: ENGINE_OK, but no buffer");
    return buffer;
}

/* ---- Devices --------------------------------------------------------------------------------------- */

static void describes_itself(struct suite *suite, const void *args)
{
    const struct engine_backend *api = suite->fixture.api;
    struct engine_device_info info = {.struct_size = sizeof info, .flags = UINT32_MAX};
    (void)args;
    fixture_must(&suite->fixture, api->device_info(suite->device, &info), "device_info");
    SUITE_EXPECT(suite, (info.flags & ~(uint32_t)ENGINE_DEVICE_BATCH_INVARIANT) == 0,
                 "flags 0x%x that plugin-api.h doesn't have", info.flags);
    SUITE_EXPECT(suite, info.struct_size == sizeof info,
                 "device_info changed struct_size, which is the caller's");
    SUITE_EXPECT(suite, memchr(info.id, 0, sizeof info.id), "the id doesn't end");
    SUITE_EXPECT(suite, memchr(info.description, 0, sizeof info.description), "the description doesn't end");
    SUITE_EXPECT(suite, memchr(info.pci_address, 0, sizeof info.pci_address), "the PCI address doesn't end");
    SUITE_EXPECT(suite,
                 info.id[strspn(info.id, "0123456789.abcdefghijklmnopqrstuvwxyz_-")] == 0 &&
                     (!info.id[0] || strchr("0123456789.", info.id[0])),
                 "the id '%s' is not of digits and dots, with letters only after them", info.id);
    SUITE_EXPECT(suite, info.description[0], "there is no description");
    SUITE_EXPECT(suite, printable_is(info.description, strnlen(info.description, sizeof info.description)),
                 "a control character in the description");
    SUITE_EXPECT(suite, info.kind >= ENGINE_DEVICE_CPU && info.kind <= ENGINE_DEVICE_ACCELERATOR,
                 "kind %u is not one of enum engine_device_kind", info.kind);
    SUITE_EXPECT(suite, info.memory_free > 0, "no memory is free");
    SUITE_EXPECT(suite, info.memory_total == 0 || info.memory_free <= info.memory_total,
                 "more memory is free than there is");
    SUITE_EXPECT(suite, (info.alignment & (info.alignment - 1)) == 0, "alignment %u is not a power of two",
                 info.alignment);
}

static void respects_struct_size(struct suite *suite, const void *args)
{
    struct engine_device_info info;
    (void)args;
    memset(&info, 0x55, sizeof info);
    info.struct_size = offsetof(struct engine_device_info, memory_total);
    fixture_must(&suite->fixture, suite->fixture.api->device_info(suite->device, &info), "device_info");
    SUITE_EXPECT(suite, info.memory_total == 0x5555555555555555u && info.n_threads == 0x55555555u,
                 "device_info wrote past the end of a struct from an earlier version");
}

static void refuses_other_devices(struct suite *suite, const void *args)
{
    const struct engine_backend *api = suite->fixture.api;
    struct engine_device_info info = {.struct_size = sizeof info};
    struct engine_device_options options = {.struct_size = sizeof options};
    struct engine_device *device = NULL;
    uint32_t count = 0, again = 0;
    (void)args;
    fixture_must(&suite->fixture, api->device_count(&count), "device_count");
    fixture_must(&suite->fixture, api->device_count(&again), "device_count");
    SUITE_EXPECT(suite, count == again, "device_count says %u, then %u", count, again);
    suite_expect_error(suite, api->device_info(count, &info), ENGINE_ERROR_ARGUMENT,
                       "device_info past the last device");
    suite_expect_error(suite, api->device_open(count, &options, &device), ENGINE_ERROR_ARGUMENT,
                       "device_open past the last device");
    SUITE_EXPECT(suite, !device, "device_open failed, and changed its output parameter");
}

/* Without options, and with those of a version without fields: both give the defaults. */
static void opens_by_default(struct suite *suite, const void *args)
{
    const struct engine_backend *api = suite->fixture.api;
    const struct engine_device_options empty = {
        .struct_size = offsetof(struct engine_device_options, n_threads), /* nobody may read beyond this */
        .n_threads = UINT32_MAX,
        .memory_limit = 1};
    const struct engine_device_options *options[] = {NULL, &empty};
    (void)args;
    for (int i = 0; i < 2; i++) {
        struct fixture fixture = suite->fixture;
        fixture_must(&suite->fixture, api->device_open(suite->device, options[i], &fixture.device),
                     "device_open");
        struct engine_buffer *buffer = new_buffer(suite, &fixture, 4096);
        api->buffer_destroy(buffer);
        api->device_close(fixture.device);
    }
}

void check_devices(struct suite *suite)
{
    suite_single(suite, "devices", "description", describes_itself, NULL);
    suite_single(suite, "devices", "structs of earlier versions", respects_struct_size, NULL);
    suite_single(suite, "devices", "no options, and earlier ones", opens_by_default, NULL);
    suite_single(suite, "devices", "there are no others", refuses_other_devices, NULL);
}

/* ---- Buffers --------------------------------------------------------------------------------------- */

static void must_read(struct suite *suite, struct engine_buffer *buffer, uint64_t offset, void *target,
                      uint64_t size)
{
    struct fixture *fixture = &suite->fixture;
    fixture_must(fixture, fixture->api->read(fixture->stream, buffer, offset, target, size), "read");
    fixture_must(fixture, fixture->api->stream_wait(fixture->stream), "stream_wait");
}

static void buffers_are_zero(struct suite *suite, const void *args)
{
    static const uint64_t sizes[] = {1, 3, 100, 4096, 1 << 20, 5000001};
    (void)args;
    for (int round = 0; round < 2; round++) /* the second time in reused memory */
        for (size_t i = 0; i < COUNT(sizes); i++) {
            struct engine_buffer *buffer = new_buffer(suite, &suite->fixture, sizes[i]);
            uint8_t *bytes = fixture_room(&suite->fixture, sizes[i], 1);
            memset(bytes, 0xaa, sizes[i]);
            must_read(suite, buffer, 0, bytes, sizes[i]);
            for (uint64_t j = 0; j < sizes[i]; j++)
                SUITE_EXPECT(suite, bytes[j] == 0, "byte %llu of a new buffer isn't 0",
                             (unsigned long long)j);
            memset(bytes, 0x77, sizes[i]);
            fixture_must(&suite->fixture,
                         suite->fixture.api->write(suite->fixture.stream, buffer, 0, bytes, sizes[i]),
                         "write");
            fixture_must(&suite->fixture, suite->fixture.api->stream_wait(suite->fixture.stream),
                         "stream_wait");
            suite->fixture.api->buffer_destroy(buffer);
        }
}

enum { SIZE = 10007 }; /* bytes of the buffers of transfers */

/* Random writes, copies and reads of any offset and size, and the same in host memory. */
static void transfers(struct suite *suite, const void *args)
{
    struct fixture *fixture = &suite->fixture;
    const struct engine_backend *api = fixture->api;
    struct engine_buffer *buffers[2] = {new_buffer(suite, fixture, SIZE), new_buffer(suite, fixture, SIZE)};
    uint8_t *own[2] = {fixture_room(fixture, SIZE, 1), fixture_room(fixture, SIZE, 1)};
    uint8_t *got = fixture_room(fixture, SIZE, 1), *source = fixture_room(fixture, SIZE, 1);
    uint64_t seed = 5;
    uint64_t step = *(const unsigned *)args; /* offsets and sizes are multiples of it */
    for (int i = 0; i < 300; i++) {
        uint64_t most = i % 3 ? 100 : SIZE / 2, size = random_bits(&seed) % most / step * step;
        uint64_t from = random_bits(&seed) % (SIZE - size + 1) / step * step;
        uint64_t to = random_bits(&seed) % (SIZE - size + 1) / step * step;
        uint32_t a = random_bits(&seed) & 1, b = random_bits(&seed) & 1;
        if (i % 2) {
            random_bytes(&seed, source, size);
            fixture_must(fixture, api->write(fixture->stream, buffers[a], to, source, size), "write");
            memcpy(own[a] + to, source, size);
            memset(source, 0x55, size); /* may be reused once write has returned */
        } else if (a != b || from + size <= to || to + size <= from) {
            fixture_must(fixture, api->copy(fixture->stream, buffers[a], to, buffers[b], from, size), "copy");
            memmove(own[a] + to, own[b] + from, size);
        }
        if (i % 10) continue;
        must_read(suite, buffers[a], from, got, size);
        SUITE_EXPECT(suite, memcmp(got, own[a] + from, size) == 0,
                     "after %d transfers %llu bytes from %llu on differ", i, (unsigned long long)size,
                     (unsigned long long)from);
    }
    for (int i = 0; i < 2; i++) {
        must_read(suite, buffers[i], 0, got, SIZE);
        SUITE_EXPECT(suite, memcmp(got, own[i], SIZE) == 0,
                     "transfers of %u bytes and multiples left other bytes", (unsigned)step);
        api->buffer_destroy(buffers[i]);
    }
}

static void transfers_beyond_the_end(struct suite *suite, const void *args)
{
    struct fixture *fixture = &suite->fixture;
    const struct engine_backend *api = fixture->api;
    struct engine_buffer *a = new_buffer(suite, fixture, 64), *b = new_buffer(suite, fixture, 64);
    uint8_t bytes[128] = {0};
    int wanted = ENGINE_ERROR_ARGUMENT;
    (void)args;
    suite_expect_error(suite, api->write(fixture->stream, a, 4, bytes, 64), wanted, "write beyond the end");
    suite_expect_error(suite, api->read(fixture->stream, a, UINT64_MAX - 3, bytes, 8), wanted,
                       "read at the end of numbers");
    suite_expect_error(suite, api->read(fixture->stream, a, 0, bytes, 65), wanted, "read beyond the end");
    suite_expect_error(suite, api->copy(fixture->stream, a, 0, b, 32, 36), wanted,
                       "copy from beyond the end");
    suite_expect_error(suite, api->copy(fixture->stream, a, 32, b, 0, 36), wanted, "copy to beyond the end");
    fixture_must(fixture, api->copy(fixture->stream, a, 32, b, 0, 32), "copy to the end");
    fixture_must(fixture, api->write(fixture->stream, a, 64, bytes, 0), "write of nothing at the end");
    fixture_must(fixture, api->stream_wait(fixture->stream), "stream_wait");
    api->buffer_destroy(a);
    api->buffer_destroy(b);
}

static void pointers(struct suite *suite, const void *args)
{
    struct fixture *fixture = &suite->fixture;
    const struct engine_backend *api = fixture->api;
    (void)args;
    if (!ENGINE_HAS(api, buffer_pointer) || !api->buffer_pointer)
        fixture->stop(fixture, FIXTURE_UNCLAIMED, "");
    struct engine_buffer *buffer = new_buffer(suite, fixture, 1000);
    uint8_t *pointer = api->buffer_pointer(buffer), bytes[4];
    if (!pointer) {
        api->buffer_destroy(buffer);
        fixture->stop(fixture, FIXTURE_UNCLAIMED, "");
    }
    uint32_t alignment = suite->alignment ? suite->alignment : 64;
    SUITE_EXPECT(suite, (uintptr_t)pointer % (alignment < 64 ? alignment : 64) == 0,
                 "the memory isn't aligned");
    fixture_must(fixture, api->write(fixture->stream, buffer, 996, "abcd", 4), "write");
    fixture_must(fixture, api->stream_wait(fixture->stream), "stream_wait");
    SUITE_EXPECT(suite, memcmp(pointer + 996, "abcd", 4) == 0, "what was written isn't at the pointer");
    memcpy(pointer + 8, "efgh", 4);
    must_read(suite, buffer, 8, bytes, 4);
    SUITE_EXPECT(suite, memcmp(bytes, "efgh", 4) == 0, "what was put at the pointer isn't read");
    api->buffer_destroy(buffer);
}

static void impossible_buffers(struct suite *suite, const void *args)
{
    const struct engine_backend *api = suite->fixture.api;
    struct engine_buffer *buffer = NULL, *other = new_buffer(suite, &suite->fixture, 64);
    (void)args; /* the other one: sums of sizes must not overflow either */
    suite_expect_error(suite, api->buffer_create(suite->fixture.device, UINT64_MAX, &buffer),
                       ENGINE_ERROR_MEMORY, "a buffer of 2^64 - 1 bytes");
    suite_expect_error(suite, api->buffer_create(suite->fixture.device, (uint64_t)1 << 62, &buffer),
                       ENGINE_ERROR_MEMORY, "a buffer of 2^62 bytes");
    SUITE_EXPECT(suite, !buffer, "buffer_create failed, and changed its output parameter");
    api->buffer_destroy(other);
    api->buffer_destroy(NULL);
    api->weight_destroy(NULL);
    api->stream_destroy(NULL);
}

void check_buffers(struct suite *suite)
{
    suite_single(suite, "buffers", "new ones are zero", buffers_are_zero, NULL);
    suite_single(suite, "buffers", "transfers of words", transfers, &(unsigned){4});
    suite_single(suite, "buffers", "transfers of bytes", transfers, &(unsigned){1});
    suite_single(suite, "buffers", "transfers beyond the end", transfers_beyond_the_end, NULL);
    suite_single(suite, "buffers", "pointers", pointers, NULL);
    suite_single(suite, "buffers", "impossible ones", impossible_buffers, NULL);
}

/* ---- Weights --------------------------------------------------------------------------------------- */

/* A description of a weight of a type, for the first use that the backend accepts; false if there is none. */
static bool describe_weight(struct suite *suite, const struct format *format, struct engine_weight_desc *desc)
{
    static const uint32_t uses[] = {ENGINE_WEIGHT_MATMUL, ENGINE_WEIGHT_ROWS, ENGINE_WEIGHT_VALUES};
    uint64_t bytes;
    *desc = (struct engine_weight_desc){.struct_size = sizeof *desc,
                                        .name = "check.weight",
                                        .type = format->type,
                                        .type_name = format->name,
                                        .ne = {256, 40, 1, 1},
                                        .data_size = format_bytes(format->type, 256) * 40};
    for (size_t i = 0; i < COUNT(uses); i++) {
        desc->uses = uses[i];
        int status = suite->fixture.api->weight_size(suite->fixture.device, desc, &bytes);
        if (status == ENGINE_OK) return true;
        if (status != ENGINE_ERROR_UNSUPPORTED) fixture_must(&suite->fixture, status, "weight_size");
    }
    return false;
}

static void weight_of(struct suite *suite, const void *args)
{
    const struct format *format = args;
    struct fixture *fixture = &suite->fixture;
    struct engine_weight_desc desc;
    if (!describe_weight(suite, format, &desc)) fixture->stop(fixture, FIXTURE_UNCLAIMED, "");
    uint64_t seed = 1, bytes;
    fixture_describe(fixture, "[256, 40], use %u", desc.uses);
    desc.data = fixture_hold(fixture, random_weight(&seed, format->type, 256, 40));
    struct engine_weight_desc bad = desc;
    struct engine_weight *weight = NULL;
    bad.data_size--;
    suite_expect_error(suite, fixture->api->weight_create(fixture->device, &bad, &weight),
                       ENGINE_ERROR_ARGUMENT, "a weight with a byte too few");
    SUITE_EXPECT(suite, !weight, "weight_create failed, and changed its output parameter");
    if (format->block_length > 1) {
        bad = desc, bad.ne[0]--;
        SUITE_EXPECT(suite, fixture->api->weight_size(fixture->device, &bad, &bytes) != ENGINE_OK,
                     "rows that end within a block are taken");
    }
    for (int i = 0; i < 4; i++) {
        bad = desc, bad.ne[i] = UINT64_MAX / 256 * 256, bad.data = NULL;
        SUITE_EXPECT(suite, fixture->api->weight_size(fixture->device, &bad, &bytes) != ENGINE_OK,
                     "2^64 - 256 values in dimension %d are taken", i);
    }
    for (int i = 0; i < 20; i++) {
        fixture_must(fixture, fixture->api->weight_create(fixture->device, &desc, &weight), "weight_create");
        fixture->api->weight_destroy(weight);
    }
}

static void unknown_types(struct suite *suite, const void *args)
{
    static const uint32_t types[] = {4, 5, 36, 999, UINT32_MAX}; /* withdrawn, or never used */
    struct engine_weight_desc desc = {.struct_size = sizeof desc,
                                      .name = "check.weight",
                                      .type_name = "NEVER",
                                      .ne = {256, 4, 1, 1},
                                      .uses = ENGINE_WEIGHT_MATMUL};
    uint64_t bytes;
    (void)args;
    for (size_t i = 0; i < COUNT(types); i++) {
        desc.type = types[i];
        int status = suite->fixture.api->weight_size(suite->fixture.device, &desc, &bytes);
        SUITE_EXPECT(suite, status == ENGINE_ERROR_UNSUPPORTED, "weight_size of type %u: status %d", types[i],
                     status);
    }
    desc.type = ENGINE_TYPE_F32;
    desc.uses = 0;
    SUITE_EXPECT(suite, suite->fixture.api->weight_size(suite->fixture.device, &desc, &bytes) != ENGINE_OK,
                 "weight_size for no use: ENGINE_OK");
    desc.uses = ENGINE_WEIGHT_MATMUL | 1u << 30;
    SUITE_EXPECT(suite, suite->fixture.api->weight_size(suite->fixture.device, &desc, &bytes) != ENGINE_OK,
                 "weight_size for a use that nobody knows: ENGINE_OK");
}

void check_weights(struct suite *suite)
{
    const struct format *format;
    for (size_t i = 0; (format = format_at(i)); i++)
        if (format->is_weight) suite_single(suite, "weights", format->name, weight_of, format);
    suite_single(suite, "weights", "unknown types and uses", unknown_types, NULL);
}

/* ---- Out of memory --------------------------------------------------------------------------------- */

enum { LIMIT = 8 << 20 };

/* Allocates buffers until memory runs out, twice: everything given back must be available again. */
static void take_all(struct suite *suite, struct fixture *fixture, uint64_t each)
{
    for (int round = 0; round < 2; round++) {
        struct engine_buffer *buffers[64] = {NULL};
        size_t n = 0;
        int status = ENGINE_OK;
        check_host_message();
        while (n < COUNT(buffers) &&
               !(status = fixture->api->buffer_create(fixture->device, each, &buffers[n])))
            n++;
        SUITE_EXPECT(suite, n * each <= LIMIT, "buffers of %llu bytes in a device with a limit of %d",
                     (unsigned long long)(n * each), LIMIT);
        suite_expect_error(suite, status, ENGINE_ERROR_MEMORY, "a buffer over the limit");
        SUITE_EXPECT(suite, n * each >= LIMIT / 2, "only %llu bytes of buffers under a limit of %d",
                     (unsigned long long)(n * each), LIMIT);
        while (n > 0) fixture->api->buffer_destroy(buffers[--n]);
    }
}

static void keeps_to_its_limit(struct suite *suite, const void *args)
{
    struct fixture fixture = {0};
    (void)args;
    suite_open(suite, &fixture, 1, LIMIT);
    take_all(suite, &fixture, 1 << 20);
    struct engine_buffer *buffer = NULL;
    suite_expect_error(suite, fixture.api->buffer_create(fixture.device, LIMIT + 1, &buffer),
                       ENGINE_ERROR_MEMORY, "a buffer larger than the limit");
    suite_close(&fixture);
}

static void weights_count_too(struct suite *suite, const void *args)
{
    struct fixture fixture = {0};
    uint64_t k = 1024, rows = 4096;
    struct engine_weight_desc desc = {.struct_size = sizeof desc,
                                      .name = "check.weight",
                                      .type = ENGINE_TYPE_F32,
                                      .type_name = "F32",
                                      .ne = {k, rows, 1, 1},
                                      .uses = ENGINE_WEIGHT_MATMUL,
                                      .data_size = k * rows * 4};
    uint64_t bytes;
    (void)args;
    if (suite->fixture.api->weight_size(suite->fixture.device, &desc, &bytes) != ENGINE_OK)
        suite->fixture.stop(&suite->fixture, FIXTURE_UNCLAIMED, "");
    desc.data = fixture_room(&suite->fixture, k * rows, 4);
    suite_open(suite, &fixture, 1, LIMIT);
    struct engine_weight *weight = NULL;
    suite_expect_error(suite, fixture.api->weight_create(fixture.device, &desc, &weight), ENGINE_ERROR_MEMORY,
                       "a weight larger than the limit");
    SUITE_EXPECT(suite, !weight, "weight_create failed, and changed its output parameter");
    free(run_matmul_case(&fixture,
                         &(struct matmul_case){.type = ENGINE_TYPE_F32, .k = 64, .rows = 20, .tokens = 3}));
    suite_close(&fixture);
    suite_open(suite, &fixture, 1, bytes + LIMIT);
    fixture_must(&suite->fixture, fixture.api->weight_create(fixture.device, &desc, &weight),
                 "a weight of weight_size's bytes and a limit beyond them");
    fixture.api->weight_destroy(weight);
    suite_close(&fixture);
}

/* An operation under a limit far above the fixture's tensors and weights: it must run with no more memory
 * left than the backend says it needs in addition, and run again, because that memory isn't allocated twice.
 * Everything else stays allocated. */
static void at_the_limit(struct fixture *fixture, uint32_t op, const void *args)
{
    const struct engine_backend *api = fixture->api;
    struct engine_buffer *more = NULL;
    uint64_t besides = fixture_op_memory(fixture, op, args);
    fixture_fill(fixture, LIMIT - fixture_memory(fixture) - besides);
    for (int i = 0; i < 2; i++) {
        fixture_must(fixture, fixture_enqueue(fixture, op, args),
                     "enqueue where nothing is left but what op_memory says");
        fixture_must(fixture, api->stream_wait(fixture->stream),
                     "stream_wait where nothing is left but what op_memory says");
    }
    suite_expect_error(fixture->owner, api->buffer_create(fixture->device, besides + 1, &more),
                       ENGINE_ERROR_MEMORY, "a buffer over the limit, after an operation");
}

/* Cases whose output isn't one of the inputs, so that they can be repeated. */
static const struct limited {
    const char *name;
    struct some_case c;
} limited_cases[] = {
    {"matmul",
     {CASE_MATMUL, NULL, false, {.matmul = {.type = ENGINE_TYPE_F32, .k = 96, .rows = 70, .tokens = 50}}}},
    {"experts",
     {CASE_MATMUL,
      NULL,
      false,
      {.matmul = {.type = ENGINE_TYPE_Q8_0,
                  .k = 96,
                  .rows = 70,
                  .tokens = 50,
                  .n_matrices = 7,
                  .n_used = 3,
                  .mix = true,
                  .uneven = true}}}},
    {"many experts",
     {CASE_MATMUL,
      NULL,
      false,
      {.matmul = {.type = ENGINE_TYPE_Q8_0,
                  .k = 32,
                  .rows = 5,
                  .tokens = 70,
                  .n_matrices = 300,
                  .n_used = 24,
                  .mix = true}}}},
    {"attention",
     {CASE_ATTENTION,
      NULL,
      false,
      {.attention = {.k_type = ENGINE_TYPE_F16,
                     .v_type = ENGINE_TYPE_F16,
                     .head_dim = 32,
                     .n_heads = 4,
                     .n_kv_heads = 2,
                     .block_size = 32,
                     .n_sequences = 1,
                     .length = 900,
                     .tokens = 2}}}},
    {"rope",
     {CASE_ROPE,
      NULL,
      false,
      {.rope =
           {.head_dim = 64, .n_heads = 3, .tokens = 7, .n_dims = 64, .theta = 10000, .most_position = 999}}}},
    {"norm",
     {CASE_ROWS,
      NULL,
      false,
      {.rows = {.op = ENGINE_OP_NORM, .n = 100, .tokens = 5, .planes = 1, .epsilon = 1e-5f}}}},
    {"route", {CASE_ROUTE, NULL, false, {.route = {.n_experts = 100, .n_used = 6, .tokens = 50}}}},
};

static void operations_count_too(struct suite *suite, const void *args)
{
    const struct some_case *c = args;
    struct fixture fixture = {0};
    free(run_some_case(&suite->fixture, c)); /* whether it is claimed */
    suite_open(suite, &fixture, 1, LIMIT);
    fixture.before = at_the_limit;
    free(run_some_case(&fixture, c));
    suite_close(&fixture);
}

void check_memory_limit(struct suite *suite)
{
    suite_single(suite, "memory limit", "buffers", keeps_to_its_limit, NULL);
    suite_single(suite, "memory limit", "weights", weights_count_too, NULL);
    for (size_t i = 0; i < sizeof limited_cases / sizeof *limited_cases; i++)
        suite_single(suite, "memory limit", limited_cases[i].name, operations_count_too, &limited_cases[i].c);
}
