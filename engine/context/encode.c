/* encode.c: gives sequences of a model with an encoder and a decoder their source texts: runs the encoder,
 * whose graph keeps what the decoder's layers attend to. */
#include <string.h>

#include "base/error.h"
#include "common/assert.h"
#include "context/context.h"

static uint32_t sequence_of(const struct engine_batch *batch, size_t i)
{
    return batch->sequences ? (uint32_t)batch->sequences[i] : 0;
}

/* The tokens of the text that begins with token `first`. */
static size_t text_length(const struct engine_batch *batch, size_t first)
{
    size_t end = first + 1;
    while (end < batch->n_tokens && sequence_of(batch, end) == sequence_of(batch, first)) end++;
    return end - first;
}

static int check_text(const struct engine_context *context, const struct engine_batch *batch, size_t first,
                      size_t length)
{
    const struct engine_plan *plan = context->plan;
    uint32_t sequence = sequence_of(batch, first);
    int status = check_sequence(context, sequence);
    if (status) return status;
    if (context->growth[sequence]++)
        return error_raise(
            ENGINE_ERROR_ARGUMENT,
            "the source of sequence %u goes on at token %zu: its tokens must follow each other", sequence,
            first);
    if (length > plan->n_context)
        return error_raise(
            ENGINE_ERROR_ARGUMENT,
            "the source text has %zu tokens, the context takes %u: make it larger (%s) or the text shorter",
            length, plan->n_context, plan_context_option(plan));
    for (size_t i = first; i < first + length; i++)
        if (batch->tokens[i] < 0 || (uint32_t)batch->tokens[i] >= plan->info.n_vocab)
            return error_raise(ENGINE_ERROR_ARGUMENT, "token %zu is %d, but the vocabulary has %u tokens", i,
                               batch->tokens[i], plan->info.n_vocab);
    return ENGINE_OK;
}

/* Checks the whole batch before anything runs. */
static int check_batch(const struct engine_context *context, const struct engine_batch *batch)
{
    if (!context->sources)
        return error_raise(ENGINE_ERROR_UNSUPPORTED,
                           "only a model with an encoder and a decoder takes source texts");
    memset(context->growth, 0, context->plan->n_sequences * sizeof *context->growth);
    for (size_t first = 0; first < batch->n_tokens;) {
        size_t length = text_length(batch, first);
        int status = check_text(context, batch, first, length);
        if (status) return status;
        first += length;
    }
    return ENGINE_OK;
}

/* Forgets the sources of a part's sequences. */
static void encode_forget(struct engine_context *context, const struct engine_batch *batch, size_t first,
                          size_t count)
{
    for (size_t i = first; i < first + count; i++) {
        kv_truncate(context->kv, sequence_of(batch, i), 0);
        kv_truncate(context->sources, sequence_of(batch, i), 0);
    }
}

/* The largest number of whole texts from `first` on that one batch takes; *n_blocks: of the longest one. */
static uint32_t count_texts(const struct engine_plan *plan, const struct engine_batch *batch, size_t first,
                            uint32_t *n_blocks)
{
    uint32_t count = 0;
    *n_blocks = 1;
    while (first + count < batch->n_tokens) {
        uint32_t length = (uint32_t)text_length(batch, first + count);
        if (length > plan->n_batch - count) break;
        if (kv_blocks_for(length) > *n_blocks) *n_blocks = kv_blocks_for(length);
        count += length;
    }
    return count;
}

/* Writes the inputs of a text whose tokens are number `at` … `at + length - 1` of a part and whose blocks, in
 * the caches of the encoder, begin with `block`. */
static void write_text(const struct engine_context *context, const struct shape_key *key, uint32_t sequence,
                       const int32_t *tokens, uint32_t at, uint32_t length, uint32_t block)
{
    int32_t *const *inputs = context->inputs,
                   *table = inputs[INPUT_BLOCK_TABLE] + (size_t)sequence * key->table_width;
    for (uint32_t i = 0; i < kv_blocks_for(length); i++) table[i] = (int32_t)(block + i);
    for (uint32_t i = 0; i < length; i++) {
        inputs[INPUT_TOKENS][at + i] = tokens[i];
        inputs[INPUT_SEQUENCES][at + i] = (int32_t)sequence;
        inputs[INPUT_POSITIONS][at + i] = inputs[INPUT_REACH][at + i] = (int32_t)i;
        inputs[INPUT_REACH][key->n_tokens + at + i] = (int32_t)length - 1;
        inputs[INPUT_SLOTS][at + i] = (int32_t)(block * KV_BLOCK_SIZE + i);
        inputs[INPUT_SOURCE_SLOTS][at + i] = kv_append(context->sources, sequence, tokens[i]);
        ENGINE_ASSERT(inputs[INPUT_SOURCE_SLOTS][at + i] >= 0); /* there is room for all sources */
    }
}

/* Runs the texts of tokens first … first + count - 1. `n_blocks`: of the longest one. */
static int run_part(struct engine_context *context, const struct engine_batch *batch, size_t first,
                    uint32_t count, uint32_t n_blocks)
{
    struct shape_key key = shape_for(context->plan, count, 1);
    key.table_width = plan_table_width(context->plan, n_blocks);
    key.source_width = 1; /* the encoder does not look there */
    key.encodes = 1;
    encode_forget(context, batch, first, count);
    for (uint32_t at = 0, block = 0; at < count;) {
        uint32_t length = (uint32_t)text_length(batch, first + at);
        write_text(context, &key, sequence_of(batch, first + at), batch->tokens + first + at, at, length,
                   block);
        at += length;
        block += kv_blocks_for(length);
    }
    fill_shape(context->inputs, count, 0, &key);
    for (uint32_t i = count; i < key.n_tokens; i++)
        context->inputs[INPUT_REACH][i] = context->inputs[INPUT_REACH][key.n_tokens + i] = -1;
    struct prepared *prepared;
    int status = prepared_for(context, &key, &prepared);
    if (!status)
        status =
            prepared_run(&context->executor, prepared, (const void *const *)context->inputs, NULL, 0, NULL);
    if (status) encode_forget(context, batch, first, count);
    return status;
}

int engine_encode(struct engine_context *context, const struct engine_batch *batch)
{
    struct engine_batch known;
    int status = SIZED_CHECK(batch, engine_batch, wanted);
    if (status) return status;
    sized_read(&known, sizeof known, batch);
    status = check_batch(context, &known);
    for (size_t first = 0; first < known.n_tokens && !status;) {
        uint32_t n_blocks, count = count_texts(context->plan, &known, first, &n_blocks);
        status = run_part(context, &known, first, count, n_blocks);
        first += count;
    }
    return status;
}

uint32_t engine_sequence_source_length(const struct engine_context *context, uint32_t sequence)
{
    return !context->sources || check_sequence(context, sequence) ? 0 : kv_length(context->sources, sequence);
}
