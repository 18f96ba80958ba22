/* values.c: see values.h.
 *
 * All tensors to be converted are cut into pieces of PIECE values (a multiple of every block length, so that
 * rows don't matter), numbered from the first tensor to the last. Threads take the next number, convert the
 * piece into its slot of a ring, and wait while the ring is full; the caller's thread writes the slots in
 * order. */
#include "quantize/values.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/error.h"
#include "base/threads.h"
#include "common/assert.h"
#include "internal.h"
#include "model/types.h"
#include "quantize/encode.h"

#define PIECE       ((size_t)1 << 16) /* values */
#define SLOT_SIZE   (PIECE * 4)       /* bytes; no value takes more than 4 */
#define COPIED      ((size_t)1 << 20) /* bytes copied between two checks of `progress` */
#define MAX_THREADS 1024

enum slot_state { SLOT_EMPTY, SLOT_READY, SLOT_WRONG, SLOT_NO_MEMORY };

/* ---- Runs of values ------------------------------------------------------------------------------------ */

uint64_t values_count(const struct model_tensor *tensor)
{
    const uint64_t *ne = tensor->ne; /* their product was checked when the file was read */
    return ne[0] * ne[1] * ne[2] * ne[3];
}

size_t values_size(uint32_t type, uint64_t n)
{
    const struct type_info *info = type_info(type);
    return (size_t)(n / info->block_length * info->block_size);
}

/* A tensor that has to be made gives whole rows. False: out of memory. */
static bool values_decode(const struct model_tensor *tensor, uint64_t at, size_t n, float *x)
{
    if (tensor->data) {
        quantize_decode(tensor->type, (const uint8_t *)tensor->data + values_size(tensor->type, at), n, x);
        return true;
    }
    uint64_t row = tensor->ne[0], first = at / row, n_rows = (at + n - 1) / row - first + 1;
    uint8_t *rows = malloc(values_size(tensor->type, n_rows * row));
    if (!rows) return false;
    model_tensor_read(tensor, first, n_rows, rows);
    quantize_decode(tensor->type, rows + values_size(tensor->type, at - first * row), n, x);
    free(rows);
    return true;
}

/* Row by row, since all rows of a matrix have the same weights. */
static void encode_weighted_rows(const struct model_tensor *tensor, uint32_t type, const float *weights,
                                 uint64_t at, size_t n, const float *x, uint8_t *bytes)
{
    uint64_t n_columns = tensor->ne[0], size = n_columns * tensor->ne[1];
    for (size_t i = 0; i < n;) {
        uint64_t column = (at + i) % n_columns, matrix = (at + i) / size;
        size_t some = n_columns - column < n - i ? (size_t)(n_columns - column) : n - i;
        quantize_encoder(type)(x + i, weights + matrix * n_columns + column, some,
                               bytes + values_size(type, i));
        i += some;
    }
}

enum values_result values_convert(const struct model_tensor *tensor, uint32_t type, const float *weights,
                                  uint64_t at, size_t n, float *x, uint8_t *bytes)
{
    ENGINE_ASSERT(n <= values_count(tensor) && at <= values_count(tensor) - n);
    ENGINE_ASSERT(at % type_info(type)->block_length == 0 && n % type_info(type)->block_length == 0);
    if (!values_decode(tensor, at, n, x)) return VALUES_NO_MEMORY;
    float largest = encode_largest(type);
    bool good = true;
    for (size_t i = 0; i < n; i++) good &= fabsf(x[i]) <= largest; /* false for NaN */
    if (!good) return VALUES_WRONG;
    if (weights)
        encode_weighted_rows(tensor, type, weights, at, n, x, bytes);
    else
        quantize_encoder(type)(x, NULL, n, bytes);
    return quantize_encoded_is_finite(type, bytes, n) ? VALUES_OK : VALUES_WRONG;
}

/* ---- Whole tensors ------------------------------------------------------------------------------------- */

uint32_t threads_count(const struct engine *engine, uint32_t wanted)
{
    const char *text = engine_setting(engine, "", "threads");
    cpu_set_t set;
    if (wanted) return wanted;
    if (text) return (uint32_t)strtoul(text, NULL, 10); /* config.c has checked the value */
    if (sched_getaffinity(0, sizeof set, &set) == 0) return (uint32_t)CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint32_t)online : 1;
}

struct slot {
    enum slot_state state;
    uint8_t *bytes; /* [SLOT_SIZE] */
};

struct converter {
    const struct conversion *conversions; /* [n] */
    uint64_t *first;                      /* [n + 1]: the number of each conversion's first piece; the end */
    size_t n;
    const struct model *model;
    const struct convert_calls *calls;
    uint64_t done; /* bytes read */

    pthread_mutex_t lock; /* protects everything below */
    pthread_cond_t ready; /* a slot has been filled */
    pthread_cond_t empty; /* a slot has been written */
    struct slot *slots;   /* [n_slots]; piece p goes to slot p % n_slots */
    size_t n_slots;
    uint64_t taken, written; /* pieces */
    bool stop;
};

static bool is_copied(const struct conversion *conversion)
{
    return conversion->type == conversion->from->type;
}

/* ---- Threads ---- */

/* The values of a piece: sets *at to the first, returns their number. */
static size_t piece_of(const struct converter *converter, size_t c, uint64_t piece, uint64_t *at)
{
    uint64_t rest;
    *at = (piece - converter->first[c]) * PIECE;
    rest = values_count(converter->conversions[c].from) - *at;
    return rest < PIECE ? (size_t)rest : PIECE;
}

/* x: [PIECE], scratch. */
static enum slot_state convert_piece(const struct converter *converter, size_t c, uint64_t piece, float *x,
                                     uint8_t *bytes)
{
    static const enum slot_state states[] = {SLOT_READY, SLOT_WRONG, SLOT_NO_MEMORY}; /* of values_result */
    const struct conversion *conversion = &converter->conversions[c];
    uint64_t at;
    size_t n = piece_of(converter, c, piece, &at);
    return states[values_convert(conversion->from, conversion->type, conversion->weights, at, n, x, bytes)];
}

static void *values_work(void *argument)
{
    struct converter *converter = argument;
    float *x = malloc(PIECE * sizeof *x);
    size_t c = 0;
    pthread_mutex_lock(&converter->lock);
    while (!converter->stop && converter->taken < converter->first[converter->n]) {
        uint64_t piece = converter->taken++;
        struct slot *slot = &converter->slots[piece % converter->n_slots];
        while (!converter->stop && piece >= converter->written + converter->n_slots)
            pthread_cond_wait(&converter->empty, &converter->lock);
        if (converter->stop) break;
        pthread_mutex_unlock(&converter->lock);
        while (piece >= converter->first[c + 1]) c++;
        ENGINE_ASSERT(c < converter->n);
        enum slot_state state = SLOT_NO_MEMORY;
        if (x) state = convert_piece(converter, c, piece, x, slot->bytes);
        pthread_mutex_lock(&converter->lock);
        slot->state = state;
        pthread_cond_signal(&converter->ready);
    }
    pthread_mutex_unlock(&converter->lock);
    free(x);
    return NULL;
}

/* ---- The caller's thread ---- */

/* Bytes of a tensor that have been read may leave memory, because they aren't needed again. */
static void release(const struct converter *converter, const struct model_tensor *tensor, uint64_t at,
                    uint64_t size)
{
    struct model_tensor part = *tensor;
    if (!tensor->data) return; /* made: released as a whole */
    part.data = (const uint8_t *)tensor->data + at;
    part.size = size;
    model_tensor_release(converter->model, &part);
}

static int values_report(struct converter *converter, uint64_t bytes)
{
    const struct convert_calls *calls = converter->calls;
    converter->done += bytes;
    if (calls->progress && calls->progress(calls->user, calls->before + converter->done, calls->total) != 0)
        return error_raise(ENGINE_ERROR, "stopped by the caller");
    return ENGINE_OK;
}

/* Copies a tensor whose rows have to be made, some at a time. */
static int copy_made(struct converter *converter, const struct conversion *conversion)
{
    const struct model_tensor *tensor = conversion->from;
    uint64_t n_rows = tensor->ne[1] * tensor->ne[2] * tensor->ne[3], row_size = tensor->size / n_rows;
    uint64_t most = row_size < COPIED ? COPIED / row_size : 1;
    uint8_t *rows = malloc((size_t)(most * row_size));
    int status = rows ? ENGINE_OK : error_memory("pieces");
    for (uint64_t row = 0, n; row < n_rows && !status; row += n) {
        n = n_rows - row < most ? n_rows - row : most;
        model_tensor_read(tensor, row, n, rows);
        status = converter->calls->write(converter->calls->user, rows, (size_t)(n * row_size));
        if (!status) status = values_report(converter, n * row_size);
    }
    free(rows);
    return status;
}

static int copy_tensor(struct converter *converter, const struct conversion *conversion)
{
    const uint8_t *data = conversion->from->data;
    int status = ENGINE_OK;
    if (!data && conversion->size > 0) return copy_made(converter, conversion);
    for (uint64_t at = 0; at < conversion->size && !status;) {
        size_t n = conversion->size - at < COPIED ? (size_t)(conversion->size - at) : COPIED;
        status = converter->calls->write(converter->calls->user, data + at, n);
        if (!status) status = values_report(converter, n);
        release(converter, conversion->from, at, n);
        at += n;
    }
    return status;
}

static int write_pieces(struct converter *converter, size_t c)
{
    const struct conversion *conversion = &converter->conversions[c];
    int status = ENGINE_OK;
    for (uint64_t piece = converter->first[c]; piece < converter->first[c + 1] && !status; piece++) {
        struct slot *slot = &converter->slots[piece % converter->n_slots];
        uint64_t at;
        size_t n = piece_of(converter, c, piece, &at);
        pthread_mutex_lock(&converter->lock);
        while (slot->state == SLOT_EMPTY) pthread_cond_wait(&converter->ready, &converter->lock);
        enum slot_state state = slot->state;
        pthread_mutex_unlock(&converter->lock);
        if (state == SLOT_NO_MEMORY) return error_memory("pieces");
        if (state == SLOT_WRONG)
            return error_raise(
                ENGINE_ERROR_DATA, "%s: %s has values that are not finite, or too large for %s",
                model_path(converter->model), conversion->from->name, type_info(conversion->type)->name);
        size_t read = values_size(conversion->from->type, n);
        status =
            converter->calls->write(converter->calls->user, slot->bytes, values_size(conversion->type, n));
        if (!status) status = values_report(converter, read);
        release(converter, conversion->from, values_size(conversion->from->type, at), read);
        pthread_mutex_lock(&converter->lock);
        slot->state = SLOT_EMPTY;
        converter->written++;
        pthread_cond_broadcast(&converter->empty);
        pthread_mutex_unlock(&converter->lock);
    }
    return status;
}

int quantize_write_zeros(const struct convert_calls *calls, uint64_t n)
{
    static const uint8_t zeros[4096];
    int status = ENGINE_OK;
    while (n > 0 && !status) {
        size_t part = n < sizeof zeros ? (size_t)n : sizeof zeros;
        status = calls->write(calls->user, zeros, part);
        n -= part;
    }
    return status;
}

static int write_tensors(struct converter *converter)
{
    int status = values_report(converter, 0);
    for (size_t c = 0; c < converter->n && !status; c++) {
        const struct conversion *conversion = &converter->conversions[c];
        status = is_copied(conversion) ? copy_tensor(converter, conversion) : write_pieces(converter, c);
        /* Again, for the whole tensor: reading pages also brings in their neighbours. */
        model_tensor_release(converter->model, conversion->from);
        if (!status) status = quantize_write_zeros(converter->calls, conversion->after);
    }
    return status;
}

/* ---- All ---- */

static int values_prepare(struct converter *converter, uint32_t n_threads)
{
    converter->first = calloc(converter->n + 1, sizeof *converter->first);
    if (!converter->first) return error_memory("tensors");
    for (size_t c = 0; c < converter->n; c++) {
        const struct conversion *conversion = &converter->conversions[c];
        uint64_t pieces = is_copied(conversion) ? 0 : (values_count(conversion->from) + PIECE - 1) / PIECE;
        converter->first[c + 1] = converter->first[c] + pieces;
    }
    converter->n_slots = (size_t)n_threads * 2 + 2;
    converter->slots = calloc(converter->n_slots, sizeof *converter->slots);
    if (!converter->slots) return error_memory("pieces");
    for (size_t s = 0; s < converter->n_slots; s++) {
        converter->slots[s].bytes = malloc(SLOT_SIZE);
        if (!converter->slots[s].bytes) return error_memory("pieces");
    }
    return ENGINE_OK;
}

int quantize_convert(const struct model *model, const struct conversion *conversions, size_t n,
                     uint32_t n_threads, const struct convert_calls *calls)
{
    struct converter converter = {.conversions = conversions, .n = n, .model = model, .calls = calls};
    uint32_t wanted = n_threads < MAX_THREADS ? n_threads : MAX_THREADS, started = 0;
    pthread_t *threads = calloc(wanted, sizeof *threads);
    pthread_mutex_init(&converter.lock, NULL);
    pthread_cond_init(&converter.ready, NULL);
    pthread_cond_init(&converter.empty, NULL);
    int status = threads ? values_prepare(&converter, wanted) : error_memory("threads");
    if (status) goto cleanup;
    started = threads_start(threads, wanted, values_work, &converter);
    if (started == 0) {
        status = error_raise(ENGINE_ERROR, "cannot start a thread: %s", strerror(errno));
        goto cleanup;
    }
    status = write_tensors(&converter);

cleanup:
    pthread_mutex_lock(&converter.lock);
    converter.stop = true;
    pthread_cond_broadcast(&converter.empty);
    pthread_mutex_unlock(&converter.lock);
    for (uint32_t t = 0; t < started; t++) pthread_join(threads[t], NULL);
    for (size_t s = 0; converter.slots && s < converter.n_slots; s++) free(converter.slots[s].bytes);
    free(converter.slots);
    free(converter.first);
    free(threads);
    pthread_cond_destroy(&converter.empty);
    pthread_cond_destroy(&converter.ready);
    pthread_mutex_destroy(&converter.lock);
    return status;
}
