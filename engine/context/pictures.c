/* pictures.c: pictures in batches. A token below 0 is a row of a picture that the model's eye has made: the
 * row takes the place of the embedding, and in some models it has a position of three dimensions and sees the
 * rest of its picture. Called by batch.c. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/assert.h"
#include "context/context.h"
#include "picture/picture.h"

static uint32_t sequence_of(const struct engine_batch *batch, size_t i)
{
    return batch->sequences ? (uint32_t)batch->sequences[i] : 0;
}

static struct pictures *pictures_of(const struct engine_context *context)
{
    return context->plan->sees ? context->plan->model->pictures : NULL;
}

int batch_check_row(const struct engine_context *context, const struct engine_batch *batch, size_t i)
{
    struct pictures *pictures = pictures_of(context);
    if (!pictures)
        return error_raise(ENGINE_ERROR_ARGUMENT,
                           "token %zu is %d, but the vocabulary has %u tokens, and the model had no eye when "
                           "the context was created",
                           i, batch->tokens[i], context->plan->info.n_vocab);
    if (!pictures_have(pictures, batch->tokens[i]))
        return error_raise(ENGINE_ERROR_ARGUMENT,
                           "token %zu is %d, which is no row of a picture that is open", i, batch->tokens[i]);
    if (!context->plan->info.sees_spans) return ENGINE_OK;
    /* What a row sees has to come with it. */
    uint32_t rest = pictures_rest(pictures, batch->tokens[i]);
    if (rest == 0) return ENGINE_OK;
    bool goes_on = i + 1 < batch->n_tokens && batch->tokens[i + 1] == batch->tokens[i] - 1 &&
                   sequence_of(batch, i + 1) == sequence_of(batch, i);
    if (!goes_on)
        return error_raise(ENGINE_ERROR_ARGUMENT,
                           "the batch ends within a picture, whose tokens see each other: %u are missing",
                           rest);
    size_t n_wanted = 0;
    for (size_t k = i; batch->wanted && k <= i + rest && k < batch->n_tokens; k++)
        n_wanted += batch->wanted[k] != 0;
    if (n_wanted > context->plan->max_outputs)
        return error_raise(
            ENGINE_ERROR_ARGUMENT,
            "the logits of at most %u tokens can be had at once, and those of a picture see each "
            "other",
            context->plan->max_outputs);
    if (rest >= context->plan->n_batch)
        return error_raise(
            ENGINE_ERROR_ARGUMENT,
            "a picture has more tokens, which see each other, than a batch of %u: make it larger "
            "(option -b, n_batch)",
            context->plan->n_batch);
    return ENGINE_OK;
}

uint32_t batch_whole_pictures(const struct engine_context *context, const int32_t *tokens, size_t n_tokens,
                              uint32_t count)
{
    if (!context->plan->info.sees_spans || count >= n_tokens || count == 0) return count;
    struct pictures *pictures = pictures_of(context);
    uint32_t whole = count;
    if (tokens[count - 1] >= 0 || !pictures) return count;
    while (whole > 0 && tokens[whole - 1] < 0 && pictures_rest(pictures, tokens[whole - 1]) > 0) whole--;
    return whole > 0 ? whole : count + pictures_rest(pictures, tokens[count - 1]);
}

size_t engine_batch_length(const struct engine_context *context, const int32_t *tokens, size_t n_tokens,
                           size_t most)
{
    if (n_tokens <= most) return n_tokens;
    size_t n = most <= UINT32_MAX ? batch_whole_pictures(context, tokens, n_tokens, (uint32_t)most) : most;
    return n < n_tokens ? n : n_tokens; /* the rest of a picture may be missing */
}

int batch_make_rows(struct engine_context *context)
{
    const struct engine_plan *plan = context->plan;
    if (context->has_rows) return ENGINE_OK;
    int32_t *rows = calloc((size_t)plan->n_batch * plan->info.row_width, sizeof *rows);
    if (!rows) return error_memory("inputs");
    free(context->inputs[INPUT_ROWS]);
    context->inputs[INPUT_ROWS] = rows;
    context->has_rows = true;
    return ENGINE_OK;
}

/* The rows of pictures, and zeros for tokens. */
static int write_rows(struct engine_context *context, const struct engine_batch *batch, size_t first,
                      uint32_t count)
{
    const uint32_t width = context->plan->info.row_width;
    int status = batch_make_rows(context);
    for (uint32_t i = 0; i < count && !status; i++) {
        const int32_t token = batch->tokens[first + i];
        float *row = (float *)(void *)context->inputs[INPUT_ROWS] + (size_t)i * width;
        const float is_token = token >= 0;
        memcpy(&context->inputs[INPUT_IS_TOKEN][i], &is_token, sizeof is_token);
        if (token >= 0)
            memset(row, 0, width * sizeof *row);
        else if (!pictures_row(pictures_of(context), token, row, width))
            status = error_raise(ENGINE_ERROR_ARGUMENT, "a picture was closed while it was needed");
    }
    return status;
}

/* The positions of the part's tokens that are a sequence's. Sets bits of enum graph_pictures. */
static int write_axes(struct engine_context *context, uint32_t sequence, uint32_t count, uint32_t *bits)
{
    int32_t *const *inputs = context->inputs;
    const uint32_t length = kv_length(context->kv, sequence);
    struct picture_walk walk = {0};
    int32_t *tokens = malloc((size_t)length * sizeof *tokens);
    if (!tokens) return error_memory("positions");
    kv_tokens(context->kv, sequence, 0, length, tokens);
    for (uint32_t i = 0, at = 0; i < count; i++) {
        int32_t axes[GRAPH_AXES];
        if (inputs[INPUT_SEQUENCES][i] != (int32_t)sequence) continue;
        ENGINE_ASSERT(inputs[INPUT_POSITIONS][i] >= (int32_t)at &&
                      inputs[INPUT_POSITIONS][i] < (int32_t)length);
        const uint32_t end = (uint32_t)inputs[INPUT_POSITIONS][i] + 1;
        pictures_walk(pictures_of(context), &walk, tokens + at, end - at, axes);
        at = end;
        for (int a = 0; a < GRAPH_AXES; a++) inputs[INPUT_AXES + a][i] = axes[a];
        if (axes[0] != axes[1] || axes[0] != axes[2]) *bits |= PICTURES_AXES;
        if (axes[0] != inputs[INPUT_POSITIONS][i]) *bits |= PICTURES_MOVED;
    }
    free(tokens);
    return ENGINE_OK;
}

int batch_write_pictures(struct engine_context *context, const struct engine_batch *batch, size_t first,
                         uint32_t count, uint32_t *bits)
{
    *bits = 0;
    if (!pictures_of(context)) return ENGINE_OK;
    for (uint32_t i = 0; i < count; i++)
        if (batch->tokens[first + i] < 0) *bits = PICTURES_ROWS;
    if (*bits && context->plan->info.sees_spans) *bits |= PICTURES_SPANS;
    int status = *bits ? write_rows(context, batch, first, count) : ENGINE_OK;
    if (!context->plan->info.has_axes) return status;
    /* Each sequence once: no position is below 0. */
    for (uint32_t i = 0; i < count; i++) context->inputs[INPUT_AXES][i] = -1;
    for (uint32_t i = 0; i < count && !status; i++)
        if (context->inputs[INPUT_AXES][i] < 0)
            status = write_axes(context, (uint32_t)context->inputs[INPUT_SEQUENCES][i], count, bits);
    return status;
}

void batch_write_spans(const struct engine_context *context, const struct engine_batch *batch, size_t first,
                       uint32_t count, uint32_t n)
{
    int32_t *reach = context->inputs[INPUT_REACH];
    for (uint32_t i = 0; i < n; i++) {
        int32_t token = i < count ? batch->tokens[first + i] : 0;
        uint32_t rest = token < 0 ? pictures_rest(pictures_of(context), token) : 0;
        reach[i] = context->inputs[INPUT_POSITIONS][i];
        reach[n + i] = reach[i] < 0 ? -1 : reach[i] + (int32_t)rest;
    }
}
