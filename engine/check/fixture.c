/* fixture.c: see fixture.h. */
#include "check/fixture.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/formats.h"
#include "common/ops.h"

/* ---- The host -------------------------------------------------------------------------------------- */

static _Thread_local char message[512];
static const char *cache;

static int ENGINE_PRINTF(2, 3) host_fail(int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return status;
}

static void ENGINE_PRINTF(2, 3) host_log(enum engine_log_level level, const char *format, ...)
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
    return cache;
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

const struct engine_host *check_host(void)
{
    return &host;
}

void check_host_cache(const char *folder)
{
    cache = folder;
}

const char *check_host_message(void)
{
    static _Thread_local char last[sizeof message];
    memcpy(last, message, sizeof last);
    message[0] = 0;
    return last;
}

/* ---- Ending ---------------------------------------------------------------------------------------- */

void fixture_describe(struct fixture *fixture, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fixture->tried, sizeof fixture->tried, format, arguments);
    va_end(arguments);
}

void fixture_describe_more(struct fixture *fixture, const char *format, ...)
{
    size_t used = strlen(fixture->tried);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fixture->tried + used, sizeof fixture->tried - used, format, arguments);
    va_end(arguments);
}

_Noreturn void fixture_fail(struct fixture *fixture, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fixture->stop(fixture, FIXTURE_FAILED, text);
}

void fixture_must(struct fixture *fixture, int status, const char *what)
{
    if (status == ENGINE_OK) return;
    const char *reason = check_host_message();
    fixture_fail(fixture, "%s: status %d, %s", what, status, reason[0] ? reason : "without a message");
}

/* ---- The fixture's memory and tensors ------------------------------------------------------------- */

struct fixture_owned {
    struct fixture_owned *next;
    struct engine_tensor tensor;
    struct engine_buffer *buffer;
    uint8_t *written; /* [size] the contents of the buffer; NULL once an operation may have changed them */
    uint64_t size;    /* bytes of the buffer or weight */
    struct engine_weight *weight;
    void *memory;
};

/* A new entry, which owns `memory`. */
static struct fixture_owned *own(struct fixture *fixture, void *memory)
{
    struct fixture_owned *owned = calloc(1, sizeof *owned);
    if (owned) {
        owned->tensor.struct_size = sizeof owned->tensor;
        owned->memory = memory;
        owned->next = fixture->owned;
        fixture->owned = owned;
        return owned;
    }
    free(memory);
    fixture_fail(fixture, "out of memory");
}

void *fixture_hold(struct fixture *fixture, void *memory)
{
    if (!memory) fixture_fail(fixture, "out of memory");
    return own(fixture, memory)->memory;
}

void *fixture_room(struct fixture *fixture, size_t n, size_t size)
{
    return fixture_hold(fixture, calloc(n ? n : 1, size));
}

void *fixture_release(struct fixture *fixture, void *memory)
{
    for (struct fixture_owned *owned = fixture->owned; owned; owned = owned->next)
        if (owned->memory == memory) owned->memory = NULL;
    return memory;
}

void fixture_clear(struct fixture *fixture)
{
    fixture->tried[0] = fixture->operands[0] = 0;
    for (struct fixture_owned *next; fixture->owned; fixture->owned = next) {
        next = fixture->owned->next;
        if (fixture->owned->buffer) fixture->api->buffer_destroy(fixture->owned->buffer);
        if (fixture->owned->weight) fixture->api->weight_destroy(fixture->owned->weight);
        free(fixture->owned->written);
        free(fixture->owned->memory);
        free(fixture->owned);
    }
}

#define GUARD   ((uint64_t)64) /* bytes after a tensor that nobody may touch */
#define FILLING 0xff           /* of gaps and guards: NaNs, and ids out of range */

/* How far after `lead` the next tensor begins: a view need only be aligned to 4 bytes. */
static uint64_t view_shift(struct fixture *fixture)
{
    if (!fixture->views) return 0;
    uint32_t bits = random_bits(&fixture->views);
    return bits >> 31 ? 4 * (1 + (bits >> 8) % 31) : 0;
}

/* The offset of row `i` of a tensor in its buffer. */
static uint64_t row_offset(const struct engine_tensor *tensor, uint64_t i)
{
    const uint64_t *ne = tensor->ne, *nb = tensor->nb;
    return tensor->offset + i % ne[1] * nb[1] + i / ne[1] % ne[2] * nb[2] + i / ne[1] / ne[2] * nb[3];
}

/* A tensor with strides; gaps after its rows and guards around all of it are filled with FILLING. */
static struct engine_tensor *tensor_in_buffer(struct fixture *fixture, uint32_t type, const uint64_t ne[4],
                                              const struct fixture_gaps *gaps, bool zeros, const void *data)
{
    struct fixture_owned *owned = own(fixture, NULL);
    struct engine_tensor *tensor = &owned->tensor;
    uint64_t row = format_bytes(type, ne[0]), rows = ne[1] * ne[2] * ne[3];
    tensor->type = type;
    for (int i = 0; i < 4; i++) tensor->ne[i] = ne[i];
    tensor->nb[0] = format_of(type)->block_size;
    tensor->nb[1] = row + gaps->row;
    tensor->nb[2] = tensor->nb[1] * ne[1] + gaps->plane;
    tensor->nb[3] = tensor->nb[2] * ne[2] + gaps->volume;
    tensor->offset = fixture->lead + view_shift(fixture);
    uint64_t size = tensor->offset + tensor->nb[3] * ne[3] + GUARD;
    const struct engine_backend *api = fixture->api;
    fixture_must(fixture, api->buffer_create(fixture->device, size, &owned->buffer), "buffer_create");
    tensor->buffer = owned->buffer;
    uint8_t *bytes = fixture_hold(fixture, malloc(size));
    memset(bytes, FILLING, size);
    for (uint64_t i = 0; i < rows; i++) {
        uint8_t *at = bytes + row_offset(tensor, i);
        if (data) memcpy(at, (const uint8_t *)data + i * row, row);
        if (!data && zeros) memset(at, 0, row); /* otherwise NaNs, which must all be overwritten */
    }
    owned->written = malloc(size);
    owned->size = size;
    if (!owned->written) fixture_fail(fixture, "out of memory");
    memcpy(owned->written, bytes, size);
    fixture_must(fixture, api->write(fixture->stream, owned->buffer, 0, bytes, size), "write");
    memset(bytes, 0x55, size); /* `source` may be reused once write has returned */
    free(fixture_release(fixture, bytes));
    return tensor;
}

static const struct fixture_gaps dense;

struct engine_tensor *fixture_tensor(struct fixture *fixture, uint32_t type, const uint64_t ne[4],
                                     const void *data)
{
    return tensor_in_buffer(fixture, type, ne, &dense, true, data);
}

struct engine_tensor *fixture_view(struct fixture *fixture, uint32_t type, const uint64_t ne[4],
                                   const struct fixture_gaps *gaps, const void *data)
{
    return tensor_in_buffer(fixture, type, ne, gaps, true, data);
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

struct engine_tensor *fixture_output(struct fixture *fixture, uint32_t type, const uint64_t ne[4],
                                     const struct fixture_gaps *gaps)
{
    return tensor_in_buffer(fixture, type, ne, gaps, false, NULL);
}

struct engine_tensor *fixture_strided(struct fixture *fixture, uint64_t ne0, uint64_t ne1, uint64_t ne2,
                                      const struct fixture_gaps *gaps, const float *data)
{
    return tensor_in_buffer(fixture, ENGINE_TYPE_F32, (uint64_t[]){ne0, ne1, ne2, 1}, gaps, false, data);
}

static struct engine_weight_desc describe_weight(uint32_t type, uint64_t k, uint64_t rows, uint64_t n,
                                                 uint32_t uses, bool data_is_kept)
{
    return (struct engine_weight_desc){.struct_size = sizeof(struct engine_weight_desc),
                                       .name = "check.weight",
                                       .type = type,
                                       .type_name = format_of(type)->name,
                                       .ne = {k, rows, n, 1},
                                       .uses = uses,
                                       .data_is_kept = data_is_kept,
                                       .data_size = format_bytes(type, k) * rows * n};
}

/* The bytes that the plugin says it takes. Unclaimed if it doesn't take it. */
static uint64_t size_of_weight(struct fixture *fixture, const struct engine_weight_desc *desc)
{
    uint64_t bytes;
    int status = fixture->api->weight_size(fixture->device, desc, &bytes);
    if (status == ENGINE_ERROR_UNSUPPORTED) fixture->stop(fixture, FIXTURE_UNCLAIMED, "weight_size");
    fixture_must(fixture, status, "weight_size");
    return bytes;
}

void fixture_claim_matrices(struct fixture *fixture, uint32_t type, uint64_t k, uint64_t rows, uint64_t n)
{
    const struct engine_weight_desc desc =
        describe_weight(type, k, rows, n ? n : 1, n ? ENGINE_WEIGHT_MATRICES : ENGINE_WEIGHT_MATMUL, false);
    size_of_weight(fixture, &desc);
}

static struct engine_tensor *weight_of(struct fixture *fixture, uint32_t type, uint64_t k, uint64_t rows,
                                       uint64_t n, uint32_t uses, bool data_is_kept, const void *data)
{
    struct fixture_owned *owned = own(fixture, NULL);
    struct engine_tensor *tensor = &owned->tensor;
    struct engine_weight_desc desc = describe_weight(type, k, rows, n, uses, data_is_kept);
    const uint64_t bytes = size_of_weight(fixture, &desc);
    desc.data = data;
    owned->size = bytes;
    if (fixture->note) fixture->note(fixture);
    fixture_must(fixture, fixture->api->weight_create(fixture->device, &desc, &owned->weight),
                 "weight_create");
    if (!owned->weight) fixture_fail(fixture, "weight_create: ENGINE_OK, but no weight");
    tensor->type = type;
    tensor->nb[0] = format_of(type)->block_size;
    tensor->nb[1] = format_bytes(type, k);
    tensor->nb[2] = tensor->nb[1] * rows;
    tensor->nb[3] = tensor->nb[2] * n;
    memcpy(tensor->ne, desc.ne, sizeof tensor->ne);
    tensor->weight = owned->weight;
    return tensor;
}

struct engine_tensor *fixture_weight(struct fixture *fixture, uint32_t type, uint64_t k, uint64_t rows,
                                     uint32_t uses, bool data_is_kept, const void *data)
{
    return weight_of(fixture, type, k, rows, 1, uses, data_is_kept, data);
}

struct engine_tensor *fixture_matrices(struct fixture *fixture, uint32_t type, uint64_t k, uint64_t rows,
                                       uint64_t n, bool data_is_kept, const void *data)
{
    return weight_of(fixture, type, k, rows, n, ENGINE_WEIGHT_MATRICES, data_is_kept, data);
}

/* ---- Operations ------------------------------------------------------------------------------------ */

const struct engine_tensor **fixture_operand(uint32_t op, void *args, size_t i)
{
    const struct op_operand *known = op_operands(op);
    size_t n = 0;
    while (n < i && known[n].name) n++;
    if (!known[n].name || *(const size_t *)args < known[n].offset + sizeof(void *)) return NULL;
    return op_tensor(args, &known[n]);
}

static const struct engine_tensor *operand(uint32_t op, const void *args, size_t i)
{
    const struct engine_tensor **at = fixture_operand(op, (void *)(uintptr_t)args, i);
    return at ? *at : NULL;
}

/* Appends to a text, truncating it if needed. */
static void ENGINE_PRINTF(3, 4) add_text(char *text, size_t size, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

/* "F32 [64, 5], strides [4, 268], at 132". */
static void describe_tensor(char *text, size_t size, const struct engine_tensor *tensor)
{
    const struct format *format = format_of(tensor->type);
    unsigned n = 4;
    bool is_dense = !format || tensor->nb[1] == format_bytes(tensor->type, tensor->ne[0]);
    while (n > 1 && tensor->ne[n - 1] == 1) n--;
    for (unsigned i = 2; i < n && format; i++)
        is_dense = is_dense && tensor->nb[i] == tensor->nb[i - 1] * tensor->ne[i - 1];
    add_text(text, size, "%s [", format ? format->name : "?");
    for (unsigned i = 0; i < n; i++)
        add_text(text, size, "%s%llu", i ? ", " : "", (unsigned long long)tensor->ne[i]);
    add_text(text, size, "]");
    for (unsigned i = 0; i < n && !is_dense; i++)
        add_text(text, size, "%s%llu%s", i ? ", " : " strides [", (unsigned long long)tensor->nb[i],
                 i + 1 < n ? "" : "]");
    if (tensor->offset) add_text(text, size, " at %llu", (unsigned long long)tensor->offset);
}

void fixture_describe_operands(struct fixture *fixture, uint32_t op, const void *args)
{
    const struct op_info *info = op_info(op);
    const size_t size = sizeof fixture->operands;
    snprintf(fixture->operands, size, "%s", info ? info->title : "");
    for (size_t i = 0; i < OP_MAX_OPERANDS; i++) {
        const struct engine_tensor *tensor = operand(op, args, i);
        if (!tensor) continue;
        add_text(fixture->operands, size, "%s%s ", i ? ", " : " of ", op_operands(op)[i].name);
        describe_tensor(fixture->operands, size, tensor);
    }
    if (fixture->note) fixture->note(fixture);
}

/* An operation's arguments as used for planning: without buffers, offsets and weights. */
struct planned {
    struct engine_tensor bare[OP_MAX_OPERANDS];
    union {
        size_t struct_size;
        unsigned char bytes[256];
    } args;
};

static void plan(struct fixture *fixture, uint32_t op, const void *args, struct planned *planned)
{
    size_t size = *(const size_t *)args;
    if (size > sizeof planned->args) fixture_fail(fixture, "arguments of %zu bytes", size);
    memcpy(&planned->args, args, size);
    for (size_t i = 0; i < OP_MAX_OPERANDS; i++) {
        const struct engine_tensor **tensor = fixture_operand(op, &planned->args, i);
        if (!tensor || !*tensor) continue;
        planned->bare[i] = **tensor;
        planned->bare[i].buffer = NULL;
        planned->bare[i].offset = 0;
        planned->bare[i].weight = NULL;
        *tensor = &planned->bare[i];
    }
}

bool fixture_supports(struct fixture *fixture, uint32_t op, const void *args)
{
    struct planned planned;
    plan(fixture, op, args, &planned);
    return fixture->api->supports(fixture->device, op, &planned.args);
}

uint64_t fixture_op_memory(struct fixture *fixture, uint32_t op, const void *args)
{
    const struct engine_backend *api = fixture->api;
    struct planned planned;
    uint64_t bytes[2] = {UINT64_MAX, UINT64_MAX};
    if (!ENGINE_HAS(api, op_memory) || !api->op_memory) return 0;
    plan(fixture, op, args, &planned);
    for (int i = 0; i < 2; i++)
        fixture_must(fixture, api->op_memory(fixture->device, op, &planned.args, &bytes[i]), "op_memory");
    if (bytes[0] != bytes[1] || bytes[0] == UINT64_MAX)
        fixture_fail(fixture, "op_memory says %llu bytes, then %llu", (unsigned long long)bytes[0],
                     (unsigned long long)bytes[1]);
    return bytes[0];
}

uint64_t fixture_memory(const struct fixture *fixture)
{
    uint64_t sum = 0;
    for (const struct fixture_owned *owned = fixture->owned; owned; owned = owned->next) sum += owned->size;
    return sum;
}

void fixture_fill(struct fixture *fixture, uint64_t size)
{
    struct fixture_owned *owned = own(fixture, NULL);
    fixture_must(fixture, fixture->api->buffer_create(fixture->device, size, &owned->buffer),
                 "a buffer that the limit leaves room for");
    owned->size = size;
}

/* The entry of an operand's buffer; NULL: the operand is absent, a weight, or in no buffer of the fixture. */
static struct fixture_owned *owner_of(const struct fixture *fixture, const struct engine_tensor *operand)
{
    if (!operand || !operand->buffer) return NULL;
    struct fixture_owned *owned = fixture->owned;
    while (owned && owned->buffer != operand->buffer) owned = owned->next;
    return owned;
}

int fixture_enqueue(struct fixture *fixture, uint32_t op, const void *args)
{
    for (size_t i = 0; i < OP_MAX_OPERANDS; i++) {
        struct fixture_owned *owned =
            op_operands(op)[i].role & OP_OUT ? owner_of(fixture, operand(op, args, i)) : NULL;
        if (!owned) continue;
        free(owned->written);
        owned->written = NULL;
    }
    return fixture->api->enqueue(fixture->stream, op, args);
}

/* The buffers of an operation's operands must be as they were written, except those of its outputs. */
static void check_inputs(struct fixture *fixture, uint32_t op, const void *args)
{
    for (size_t i = 0; i < OP_MAX_OPERANDS; i++) {
        const struct fixture_owned *owned = owner_of(fixture, operand(op, args, i));
        if (!owned || !owned->written) continue;
        uint8_t *bytes = fixture_hold(fixture, malloc(owned->size));
        fixture_must(fixture, fixture->api->read(fixture->stream, owned->buffer, 0, bytes, owned->size),
                     "read");
        fixture_must(fixture, fixture->api->stream_wait(fixture->stream), "stream_wait");
        for (uint64_t j = 0; j < owned->size; j++)
            if (bytes[j] != owned->written[j])
                fixture_fail(fixture, "byte %lld of `%s`, which is only read, was changed",
                             (long long)j - (long long)owned->tensor.offset, op_operands(op)[i].name);
        free(fixture_release(fixture, bytes));
    }
}

void fixture_run(struct fixture *fixture, uint32_t op, const void *args)
{
    fixture_describe_operands(fixture, op, args);
    if (!fixture_supports(fixture, op, args)) fixture->stop(fixture, FIXTURE_UNCLAIMED, "supports");
    fixture_op_memory(fixture, op, args);
    if (fixture->before) fixture->before(fixture, op, args);
    fixture_must(fixture, fixture_enqueue(fixture, op, args), "enqueue");
    fixture_must(fixture, fixture->api->stream_wait(fixture->stream), "stream_wait");
    check_inputs(fixture, op, args);
}

uint8_t *fixture_read_rows(struct fixture *fixture, const struct engine_tensor *tensor)
{
    const uint64_t *ne = tensor->ne, rows = ne[1] * ne[2] * ne[3], row = format_bytes(tensor->type, ne[0]);
    const struct fixture_owned *owned = owner_of(fixture, tensor);
    const uint64_t size = owned ? owned->size : 0;
    if (size == 0) fixture_fail(fixture, "the tensor isn't the fixture's");
    uint8_t *bytes = fixture_hold(fixture, malloc(size));
    uint8_t *result = fixture_room(fixture, rows, row);
    fixture_must(fixture, fixture->api->read(fixture->stream, tensor->buffer, 0, bytes, size), "read");
    fixture_must(fixture, fixture->api->stream_wait(fixture->stream), "stream_wait");
    for (uint64_t i = 0; i < rows; i++) {
        uint8_t *at = bytes + row_offset(tensor, i);
        memcpy(result + i * row, at, row);
        memset(at, FILLING, row);
    }
    /* Bytes before, between and after the rows must be as tensor_in_buffer has filled them. */
    for (uint64_t i = 0; i < size; i++)
        if (bytes[i] != FILLING)
            fixture_fail(fixture,
                         "byte %lld from the start of the output's tensor isn't part of it and was changed",
                         (long long)i - (long long)tensor->offset);
    free(fixture_release(fixture, bytes));
    return fixture_release(fixture, result);
}

float *fixture_read(struct fixture *fixture, const struct engine_tensor *tensor)
{
    return (float *)(void *)fixture_read_rows(fixture, tensor);
}

void fixture_compare(struct fixture *fixture, const char *what, const float *got,
                     const struct expected *expected, size_t n)
{
    double squares = 0;
    for (size_t i = 0; i < n; i++) squares += expected[i].value * expected[i].value;
    fixture->measure.n_values += n;
    double size = sqrt(squares / (double)(n ? n : 1));
    for (size_t i = 0; i < n; i++) {
        double difference = fabs((double)got[i] - expected[i].value), bound = expected[i].bound;
        if (!(difference <= bound)) /* also catches NaNs */
            fixture_fail(fixture, "%s: value %zu is %.9g, not %.9g within %.3g", what, i, (double)got[i],
                         expected[i].value, bound);
        if (size > 0) fixture->measure.error = fmax(fixture->measure.error, difference / size);
        if (bound > 0) fixture->measure.share = fmax(fixture->measure.share, difference / bound);
    }
}
