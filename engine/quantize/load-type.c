/* load-type.c: engine_model_open_with of engine.h: a model whose matrices become another type while they are
 * loaded.
 *
 * Each such tensor gets a maker that reads the stored values, piece by piece, and encodes them. Plans see
 * the new types and sizes. The types are those that engine_model_quantize chooses, and blocks depend on
 * their values alone, so the result is that of its file. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/threads.h"
#include "internal.h"
#include "model/types.h"
#include "quantize/mix.h"
#include "quantize/values.h"

#define PIECE    ((size_t)1 << 18)    /* values; a multiple of every block length */
#define READ     ((uint64_t)16 << 20) /* bytes of the stored tensor between two releases of its pages */
#define SOME_ROW ((size_t)1 << 16)    /* values, when only some rows are made */

/* A tensor as it is stored, and what its rows become. */
struct converted {
    struct model_maker maker;
    struct model_tensor from;
    struct model_bytes source; /* of `from`, if it need not be made */
    const struct model *model;
    uint32_t type, n_threads;
};
_Static_assert(offsetof(struct converted, maker) == 0, "a maker is its struct converted");

/* A number of values of one tensor, which threads share. */
struct work {
    const struct converted *converted;
    uint64_t first, n;    /* values */
    uint8_t *bytes;       /* of all n */
    pthread_mutex_t lock; /* protects what follows */
    uint64_t taken, read; /* values taken; bytes read since pages were released */
    enum values_result result;
};

/* Takes the next piece; false if there is none. *release: it is time to release pages. */
static bool loading_take(struct work *work, uint64_t *at, size_t *n, bool *release)
{
    pthread_mutex_lock(&work->lock);
    *at = work->taken;
    *n = work->n - *at < PIECE ? (size_t)(work->n - *at) : PIECE;
    if (work->result != VALUES_OK) *n = 0;
    work->taken += *n;
    work->read += values_size(work->converted->from.type, *n);
    *release = work->read >= READ;
    if (*release) work->read = 0;
    pthread_mutex_unlock(&work->lock);
    return *n > 0;
}

static void *loading_convert(void *argument)
{
    struct work *work = argument;
    const struct converted *converted = work->converted;
    float *x = malloc(PIECE * sizeof *x);
    enum values_result result = x ? VALUES_OK : VALUES_NO_MEMORY;
    uint64_t at;
    size_t n;
    for (bool release; result == VALUES_OK && loading_take(work, &at, &n, &release);) {
        /* Others may be reading these pages; they come back. */
        if (release) model_tensor_release(converted->model, &converted->from);
        result = values_convert(&converted->from, converted->type, NULL, work->first + at, n, x,
                                work->bytes + values_size(converted->type, at));
    }
    pthread_mutex_lock(&work->lock);
    if (work->result == VALUES_OK) work->result = result;
    pthread_mutex_unlock(&work->lock);
    free(x);
    return NULL;
}

static int load_rows(const struct model_maker *maker, uint64_t first, uint64_t n, uint8_t *rows)
{
    const struct converted *converted = (const struct converted *)maker;
    const struct model_tensor *from = &converted->from;
    struct work work = {
        .converted = converted, .first = first * from->ne[0], .n = n * from->ne[0], .bytes = rows};
    pthread_mutex_init(&work.lock, NULL);
    int status = threads_run(converted->n_threads, (work.n + PIECE - 1) / PIECE, loading_convert, &work);
    pthread_mutex_destroy(&work.lock);
    model_tensor_release(converted->model, from);
    if (status) return status;
    if (work.result == VALUES_NO_MEMORY) return error_memory(from->name);
    if (work.result == VALUES_WRONG)
        return error_raise(ENGINE_ERROR_DATA, "%s: %s has values that are not finite, or too large for %s",
                           model_path(converted->model), from->name, type_info(converted->type)->name);
    return ENGINE_OK;
}

/* Some rows, for fingerprints. Values that no block can have were refused when the tensor was loaded. */
static void make_rows(const struct model_maker *maker, uint64_t first, uint64_t n, uint8_t *rows)
{
    const struct converted *converted = (const struct converted *)maker;
    uint64_t start = first * converted->from.ne[0], total = n * converted->from.ne[0];
    float *x = malloc(SOME_ROW * sizeof *x);
    memset(rows, 0, values_size(converted->type, total));
    for (uint64_t at = 0; x && at < total; at += SOME_ROW) {
        size_t some = total - at < SOME_ROW ? (size_t)(total - at) : SOME_ROW;
        values_convert(&converted->from, converted->type, NULL, start + at, some, x,
                       rows + values_size(converted->type, at));
    }
    free(x);
}

static int convert_tensors(struct model *model, const struct selection *selection, uint32_t n_threads)
{
    for (size_t i = 0; i < selection->n; i++) {
        const struct model_tensor *tensor = selection->tensors[i];
        if (selection->types[i] == tensor->type) continue;
        struct converted *converted = model_allocate(model, sizeof *converted);
        if (!converted) return error_memory("model");
        *converted = (struct converted){.maker = {.make = make_rows, .load = load_rows},
                                        .from = *tensor,
                                        .source = {tensor->data, tensor->size},
                                        .model = model,
                                        .type = selection->types[i],
                                        .n_threads = n_threads};
        converted->maker.sources = tensor->maker ? tensor->maker->sources : &converted->source;
        converted->maker.n_sources = tensor->maker ? tensor->maker->n_sources : 1;
        model_tensor_convert(model, tensor, converted->type, &converted->maker);
    }
    return ENGINE_OK;
}

int engine_model_open_with(struct engine *engine, const char *path,
                           const struct engine_model_options *options, struct engine_model **model)
{
    struct engine_model_options known = {0};
    int status = SIZED_CHECK(options, engine_model_options, n_threads);
    if (status) return status;
    sized_read(&known, sizeof known, options);
    status = engine_model_open_changed(engine, path, known.tokenizer_path, known.overrides, model);
    if (status || !known.load_type) return status;
    struct selection selection;
    status = selection_make((*model)->model, known.load_type, NULL, false, &selection);
    if (!status)
        status = convert_tensors((*model)->model, &selection, threads_count(engine, known.n_threads));
    model_allow_rounding((*model)->model); /* of tensors that keep their types: as the file's would be */
    selection_free(&selection);
    (*model)->is_converted = true;
    if (!status) return ENGINE_OK;
    engine_model_close(*model);
    *model = NULL;
    return status;
}
