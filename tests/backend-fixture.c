/* backend-fixture.c: see backend-fixture.h. */
#include "backend-fixture.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend-types.h"

/* ---- The host -------------------------------------------------------------------------------------- */

static _Thread_local char message[512];

static int host_fail(int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return status;
}

static void host_log(enum engine_log_level level, const char *format, ...)
{
    (void)level, (void)format;
}

static const char *host_setting(const char *plugin, const char *key)
{
    (void)plugin, (void)key;
    return NULL;
}

static const char *host_cache_folder(void)
{
    return NULL;
}

static const struct engine_host host = {
    .struct_size = sizeof host,
    .abi_major = ENGINE_ABI_MAJOR,
    .abi_minor = ENGINE_ABI_MINOR,
    .fail = host_fail,
    .log = host_log,
    .setting = host_setting,
    .cache_folder = host_cache_folder,
};

const char *fixture_message(void)
{
    static _Thread_local char last[sizeof message];
    memcpy(last, message, sizeof last);
    message[0] = 0;
    return last;
}

/* ---- Opening and closing --------------------------------------------------------------------------- */

struct fixture_owned {
    struct fixture_owned *next;
    struct engine_tensor tensor;
    struct engine_buffer *buffer;
    struct engine_weight *weight;
};

bool fixture_try_load(struct fixture *fixture, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.so", TEST_PLUGIN_DIR, name);
    *fixture = (struct fixture){.library = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    cr_assert(fixture->library, "%s", dlerror());
    const struct engine_plugin *(*entry)(const struct engine_host *);
    *(void **)&entry = dlsym(fixture->library, ENGINE_ENTRY_SYMBOL);
    cr_assert(entry);
    fixture->plugin = entry(&host);
    if (!fixture->plugin) return false;
    cr_assert_eq(fixture->plugin->abi_major, ENGINE_ABI_MAJOR);
    cr_assert_eq(fixture->plugin->kind, ENGINE_PLUGIN_BACKEND);
    fixture->api = fixture->plugin->backend;
    cr_assert(fixture->api);
    return true;
}

void fixture_load(struct fixture *fixture, const char *name)
{
    cr_assert(fixture_try_load(fixture, name), "%s", message);
}

void fixture_open(struct fixture *fixture, const char *name, uint32_t index, uint32_t n_threads,
                  uint64_t memory_limit)
{
    fixture_load(fixture, name);
    uint32_t count = 0;
    cr_assert_eq(fixture->api->device_count(&count), ENGINE_OK);
    cr_assert_lt(index, count);
    struct engine_device_options options = {sizeof options, n_threads, memory_limit};
    cr_assert_eq(fixture->api->device_open(index, &options, &fixture->device), ENGINE_OK, "%s", message);
    cr_assert_eq(fixture->api->stream_create(fixture->device, &fixture->stream), ENGINE_OK, "%s", message);
}

void fixture_close(struct fixture *fixture)
{
    fixture->api->stream_destroy(fixture->stream);
    for (struct fixture_owned *next; fixture->owned; fixture->owned = next) {
        next = fixture->owned->next;
        fixture->api->buffer_destroy(fixture->owned->buffer);
        fixture->api->weight_destroy(fixture->owned->weight);
        free(fixture->owned);
    }
    if (fixture->device) fixture->api->device_close(fixture->device);
    dlclose(fixture->library);
}

/* ---- Tensors --------------------------------------------------------------------------------------- */

static struct fixture_owned *own(struct fixture *fixture)
{
    struct fixture_owned *owned = calloc(1, sizeof *owned);
    cr_assert(owned);
    owned->tensor.struct_size = sizeof owned->tensor;
    owned->next = fixture->owned;
    fixture->owned = owned;
    return owned;
}

/* A tensor with strides, its buffer filled with `filling`. */
static struct engine_tensor *tensor_in_buffer(struct fixture *fixture, uint32_t type, const uint64_t ne[4],
                                              uint64_t gap, uint8_t filling, const void *data)
{
    struct fixture_owned *owned = own(fixture);
    struct engine_tensor *tensor = &owned->tensor;
    uint64_t row = type_bytes(type, ne[0]), rows = ne[1] * ne[2] * ne[3], size = (row + gap) * rows;
    tensor->type = type;
    tensor->nb[0] = test_type(type)->block_size;
    for (int i = 0; i < 4; i++) tensor->ne[i] = ne[i];
    tensor->nb[1] = row + gap;
    for (int i = 2; i < 4; i++) tensor->nb[i] = tensor->nb[i - 1] * ne[i - 1];
    const struct engine_backend *api = fixture->api;
    cr_assert_eq(api->buffer_create(fixture->device, size, &owned->buffer), ENGINE_OK, "%s", message);
    tensor->buffer = owned->buffer;
    uint8_t *bytes = malloc(size);
    cr_assert(bytes);
    memset(bytes, filling, size);
    for (uint64_t i = 0; i < rows && data; i++)
        memcpy(bytes + i * (row + gap), (const uint8_t *)data + i * row, row);
    cr_assert_eq(api->write(fixture->stream, owned->buffer, 0, bytes, size), ENGINE_OK, "%s", message);
    free(bytes);
    return tensor;
}

struct engine_tensor *fixture_tensor(struct fixture *fixture, uint32_t type, const uint64_t ne[4],
                                     const void *data)
{
    return tensor_in_buffer(fixture, type, ne, 0, 0, data);
}

struct engine_tensor *fixture_f32(struct fixture *fixture, uint64_t ne0, uint64_t ne1, uint64_t ne2,
                                  const float *data)
{
    return fixture_tensor(fixture, ENGINE_TYPE_F32, (uint64_t[]){ne0, ne1, ne2, 1}, data);
}

struct engine_tensor *fixture_i32(struct fixture *fixture, uint64_t ne0, uint64_t ne1, const int32_t *data)
{
    return fixture_tensor(fixture, ENGINE_TYPE_I32, (uint64_t[]){ne0, ne1, 1, 1}, data);
}

struct engine_tensor *fixture_strided(struct fixture *fixture, uint64_t ne0, uint64_t ne1, uint64_t ne2,
                                      uint64_t gap, const float *data)
{
    return tensor_in_buffer(fixture, ENGINE_TYPE_F32, (uint64_t[]){ne0, ne1, ne2, 1}, gap, 0xff, data);
}

struct engine_tensor *fixture_weight(struct fixture *fixture, uint32_t type, uint64_t k, uint64_t rows,
                                     uint32_t uses, bool data_is_kept, const void *data)
{
    struct fixture_owned *owned = own(fixture);
    struct engine_tensor *tensor = &owned->tensor;
    struct engine_weight_desc desc = {
        .struct_size = sizeof desc,
        .name = "test.weight",
        .type = type,
        .type_name = "test",
        .ne = {k, rows, 1, 1},
        .uses = uses,
        .data_is_kept = data_is_kept,
        .data = data,
        .data_size = type_bytes(type, k) * rows,
    };
    int status = fixture->api->weight_create(fixture->device, &desc, &owned->weight);
    cr_assert_eq(status, ENGINE_OK, "%s", message);
    tensor->type = type;
    tensor->nb[0] = test_type(type)->block_size;
    tensor->nb[1] = type_bytes(type, k);
    tensor->nb[2] = tensor->nb[3] = tensor->nb[1] * rows;
    memcpy(tensor->ne, desc.ne, sizeof tensor->ne);
    tensor->weight = owned->weight;
    return tensor;
}

/* ---- Operations ------------------------------------------------------------------------------------ */

/* Where the tensor pointers of each operation's struct are: behind struct_size, one after the other. */
static size_t n_tensors(uint32_t op)
{
    static const uint8_t counts[] = {
        [ENGINE_OP_MATMUL] = 6, [ENGINE_OP_ATTENTION] = 7, [ENGINE_OP_CACHE_WRITE] = 3,
        [ENGINE_OP_ROPE] = 4,   [ENGINE_OP_NORM] = 3,      [ENGINE_OP_GET_ROWS] = 3,
        [ENGINE_OP_ADD] = 3,    [ENGINE_OP_MUL] = 3,       [ENGINE_OP_ACTIVATE] = 3,
    };
    return op < sizeof counts ? counts[op] : 0;
}

bool fixture_supports(struct fixture *fixture, uint32_t op, const void *args)
{
    struct engine_tensor bare[8];
    union {
        size_t struct_size;
        const struct engine_tensor *pointers[32];
    } copy;
    size_t size = *(const size_t *)args;
    cr_assert_leq(size, sizeof copy);
    memcpy(&copy, args, size);
    for (size_t i = 0; i < n_tensors(op); i++) {
        const struct engine_tensor **tensor = &copy.pointers[1 + i];
        if (!*tensor) continue;
        bare[i] = **tensor;
        bare[i].buffer = NULL;
        bare[i].weight = NULL;
        *tensor = &bare[i];
    }
    return fixture->api->supports(fixture->device, op, &copy);
}

int fixture_enqueue(struct fixture *fixture, uint32_t op, const void *args)
{
    return fixture->api->enqueue(fixture->stream, op, args);
}

void fixture_run(struct fixture *fixture, uint32_t op, const void *args)
{
    cr_assert(fixture_supports(fixture, op, args), "operation %u isn't supported", op);
    cr_assert_eq(fixture_enqueue(fixture, op, args), ENGINE_OK, "%s", message);
    cr_assert_eq(fixture->api->stream_wait(fixture->stream), ENGINE_OK, "%s", message);
}

float *fixture_read(struct fixture *fixture, const struct engine_tensor *tensor)
{
    const uint64_t *ne = tensor->ne, *nb = tensor->nb;
    float *values = malloc(ne[0] * ne[1] * ne[2] * ne[3] * sizeof *values), *row = values;
    cr_assert(values);
    for (uint64_t i3 = 0; i3 < ne[3]; i3++)
        for (uint64_t i2 = 0; i2 < ne[2]; i2++)
            for (uint64_t i1 = 0; i1 < ne[1]; i1++, row += ne[0]) {
                uint64_t offset = tensor->offset + i1 * nb[1] + i2 * nb[2] + i3 * nb[3];
                int status =
                    fixture->api->read(fixture->stream, tensor->buffer, offset, row, ne[0] * sizeof *row);
                cr_assert_eq(status, ENGINE_OK, "%s", message);
            }
    cr_assert_eq(fixture->api->stream_wait(fixture->stream), ENGINE_OK, "%s", message);
    return values;
}
