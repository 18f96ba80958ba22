/* batch.c: checks a batch, cuts it into parts that fit, and runs them through prepared graphs. The watched
 * values of a part are handed out without what only fills its shape. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/assert.h"
#include "context/context.h"

/* ---- Watched values ------------------------------------------------------------------------------------ */

struct part_watcher {
    struct watcher watcher; /* first: a watcher is a part_watcher */
    const struct plan_watch *watch;
    size_t first, first_wanted; /* of its tokens among the batch's, of those wanted among all wanted */
    uint32_t n_tokens, n_wanted;
    float *states; /* of the whole batch; NULL: not wanted */
};
_Static_assert(offsetof(struct part_watcher, watcher) == 0, "a watcher is a part_watcher");

static int hand_out(const struct part_watcher *part, const struct engine_watched *value)
{
    int stopped = part->watch->take(part->watch->user, value);
    return stopped ? error_raise(ENGINE_ERROR, "the batch was stopped") : ENGINE_OK;
}

static int take_watched(const struct watcher *watcher, const struct graph_watch *watch, const float *data)
{
    const struct part_watcher *part = (const struct part_watcher *)(const void *)watcher;
    bool lens = watch->kind == WATCH_LENS;
    if (watch->kind == WATCH_STATES) {
        if (!part->states) return ENGINE_OK;
        size_t n_embd = (size_t)watch->value->tensor.ne[0];
        memcpy(part->states + part->first * n_embd, data, part->n_tokens * n_embd * sizeof *data);
        return ENGINE_OK;
    }
    struct engine_watched known = {
        .struct_size = sizeof known,
        .kind = watch->kind,
        .layer = watch->layer,
        .data = data,
        .first = lens ? part->first_wanted : part->first,
    };
    memcpy(known.ne, watch->value->tensor.ne, sizeof known.ne);
    /* without what only fills the shape */
    known.ne[watch->kind == WATCH_ATTENTION ? 2 : 1] = lens ? part->n_wanted : part->n_tokens;
    return lens && part->n_wanted == 0 ? ENGINE_OK : hand_out(part, &known);
}

/* Whether a weight is a matrix whose rows were split, so that each part has an input of its own. */
static bool is_split(const struct model_tensor *tensor)
{
    const struct model_tensor *whole = tensor->source;
    return whole && tensor->ne[2] > 1 && whole->ne[2] == 1 && tensor->ne[1] * tensor->ne[2] == whole->ne[1];
}

/* The tensor of the model that a weight is, or NULL if it is rows of a matrix but not the first: they have
 * the same input. */
static const struct model_tensor *matrix_of(const struct model_tensor *tensor)
{
    const struct model_tensor *whole = tensor->source;
    if (!whole) return tensor;
    bool first = tensor->ne[0] == whole->ne[0] && (tensor->ne[2] == whole->ne[2] || is_split(tensor)) &&
                 tensor->type == whole->type && tensor->first_row == whole->first_row;
    return first ? whole : NULL;
}

/* Copies the rows of an input that lie apart. */
static int pack(const struct engine_tensor *tensor, uint64_t n_rows, const uint8_t *data, float **packed)
{
    uint64_t row = tensor->ne[0] * sizeof(float);
    uint8_t *to = malloc((size_t)(row * n_rows));
    *packed = (float *)(void *)to;
    if (!to) return error_memory("watched values");
    for (uint64_t i = 0; i < n_rows; i++)
        memcpy(to + i * row, data + i % tensor->ne[1] * tensor->nb[1] + i / tensor->ne[1] * tensor->nb[2],
               (size_t)row);
    return ENGINE_OK;
}

/* Hands out what each part of a split matrix reads, as inputs of the one matrix that it is in the model. */
static int hand_out_split(const struct part_watcher *part, const struct engine_tensor *input,
                          const uint8_t *data, const struct engine_watched *whole)
{
    int status = ENGINE_OK;
    struct engine_tensor row = *input;
    row.ne[1] = 1;
    for (uint64_t r = 0; r < whole->ne[1] && !status; r++) {
        struct engine_watched known = *whole;
        float *packed;
        status = pack(&row, whole->ne[2], data + r * input->nb[1], &packed);
        if (status) break;
        known.ne[1] = known.n_matrices = 1;
        known.data = packed;
        status = hand_out(part, &known);
        free(packed);
    }
    return status;
}

static int take_input(const struct watcher *watcher, const struct graph *graph, const struct node *node,
                      const uint8_t *data, const int32_t *experts)
{
    const struct part_watcher *part = (const struct part_watcher *)(const void *)watcher;
    const struct engine_op_matmul *args = &node->args.matmul;
    const struct engine_tensor *input = args->input, *weights[] = {args->weight, args->gate};
    bool wanted = node->layer == NO_LAYER && graph->logits,
         per_matrix = args->experts || args->weight->ne[2] > 1;
    uint64_t n = wanted ? part->n_wanted : part->n_tokens, n_rows = per_matrix ? input->ne[1] : 1;
    float *packed = NULL;
    if (n == 0) return ENGINE_OK;
    bool dense = input->nb[1] == input->ne[0] * sizeof(float) && input->nb[2] == input->nb[1] * input->ne[1];
    int status = dense ? ENGINE_OK : pack(input, n * n_rows, data, &packed);
    for (size_t i = 0; i < 2 && weights[i] && !status; i++) {
        const struct model_tensor *tensor = graph->weights[value_of(weights[i])->index].tensor,
                                  *matrix = matrix_of(tensor);
        const struct engine_watched known = {
            .struct_size = sizeof known,
            .kind = WATCH_INPUTS,
            .layer = node->layer,
            .ne = {input->ne[0], n_rows, n},
            .data = packed ? packed : (const float *)(const void *)data,
            .first = wanted ? part->first_wanted : part->first,
            .weight = matrix ? matrix->name : NULL,
            .n_matrices = weights[i]->ne[2],
            .experts = experts,
            .n_used = experts ? (uint32_t)args->experts->ne[0] : 0,
        };
        if (!matrix) continue;
        status = is_split(tensor) ? hand_out_split(part, input, data, &known) : hand_out(part, &known);
    }
    free(packed);
    return status;
}

/* ---- Checks -------------------------------------------------------------------------------------------- */

static uint32_t sequence_of(const struct engine_batch *batch, size_t i)
{
    return batch->sequences ? (uint32_t)batch->sequences[i] : 0;
}

static bool is_wanted(const struct engine_batch *batch, size_t i)
{
    return batch->wanted ? batch->wanted[i] != 0 : i + 1 == batch->n_tokens;
}

/* An encoder computes a text at once, so its tokens have to follow each other. */
static int check_text(const struct engine_batch *batch, size_t i, uint32_t length)
{
    if (length == 0 || sequence_of(batch, i - 1) == sequence_of(batch, i)) return ENGINE_OK;
    return error_raise(
        ENGINE_ERROR_ARGUMENT,
        "token %zu continues sequence %u, but the model is an encoder: the tokens of a text must "
        "follow each other",
        i, sequence_of(batch, i));
}

static int check_type(const struct engine_plan *plan, const struct engine_batch *batch, size_t i)
{
    int32_t type = batch->token_types ? batch->token_types[i] : 0;
    if (type == 0 || (type > 0 && (uint32_t)type < plan->info.n_types)) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_ARGUMENT, "token %zu has the type %d, but the model has %u types", i,
                       type, plan->info.n_types);
}

static int check_room(const struct engine_context *context, uint32_t position)
{
    const struct engine_plan *plan = context->plan;
    if (position < plan->n_context) return ENGINE_OK;
    if (plan->info.is_encoder)
        return error_raise(ENGINE_ERROR_ARGUMENT, "a text has more than %u tokens, which is the context",
                           plan->n_context);
    return error_raise(ENGINE_ERROR_ARGUMENT,
                       "the context of %u tokens is full; enlarge it (option -c, n_context)",
                       plan->n_context);
}

/* Only texts about a source can be decoded, where the model has one. */
static int check_source(const struct engine_context *context, uint32_t sequence)
{
    if (!context->sources || kv_length(context->sources, sequence) > 0) return ENGINE_OK;
    return error_raise(
        ENGINE_ERROR_ARGUMENT,
        "sequence %u has no source text: the model's encoder has to read one first (engine_encode)",
        sequence);
}

/* Checks the whole batch before anything runs. */
static int check_batch(struct engine_context *context, const struct engine_batch *batch)
{
    const struct engine_plan *plan = context->plan;
    uint32_t *growth = context->growth;
    memset(growth, 0, plan->n_sequences * sizeof *growth);
    for (size_t i = 0; i < batch->n_tokens; i++) {
        uint32_t sequence = sequence_of(batch, i);
        if (sequence >= plan->n_sequences)
            return error_raise(ENGINE_ERROR_ARGUMENT,
                               "token %zu belongs to sequence %d, but there are %u sequences", i,
                               (int)sequence, plan->n_sequences);
        if (batch->tokens[i] < 0) {
            int status = batch_check_row(context, batch, i);
            if (status) return status;
        } else if ((uint32_t)batch->tokens[i] >= plan->info.n_vocab)
            return error_raise(ENGINE_ERROR_ARGUMENT, "token %zu is %d, but the vocabulary has %u tokens", i,
                               batch->tokens[i], plan->info.n_vocab);
        uint32_t position = kv_length(context->kv, sequence) + growth[sequence]++;
        if (batch->positions && (uint32_t)batch->positions[i] != position)
            return error_raise(ENGINE_ERROR_ARGUMENT,
                               "token %zu is at position %d of its sequence; it must be at %u", i,
                               batch->positions[i], position);
        int status = check_source(context, sequence);
        if (!status) status = check_room(context, position);
        if (!status) status = check_type(plan, batch, i);
        if (!status && plan->info.is_encoder) status = check_text(batch, i, position);
        if (status) return status;
    }
    if (plan->info.is_encoder) return ENGINE_OK; /* its cache takes any part, see count_part */
    if (!room_make(context, growth))
        return error_raise(
            ENGINE_ERROR_MEMORY,
            "the cache of %u tokens for all sequences is full; enlarge it (option --cache-size, n_cache)",
            plan->n_blocks * KV_BLOCK_SIZE);
    return ENGINE_OK;
}

/* ---- Parts --------------------------------------------------------------------------------------------- */

/* Whether anything reads the tables: states have none. */
static bool has_tables(const struct engine_plan *plan)
{
    for (size_t c = 0; c < plan->n_caches; c++)
        if (!plan->caches[c].is_state) return true;
    return false;
}

/* Block tables are as wide as the longest sequence needs. Without tables, texts of any length have the same
 * graphs. */
static uint32_t table_width(const struct engine_context *context, const struct kv_cache *kv)
{
    uint32_t longest = 1;
    for (uint32_t s = 0; s < context->plan->n_sequences && has_tables(context->plan); s++)
        if (kv_length(kv, s) > longest) longest = kv_length(kv, s);
    return plan_table_width(context->plan, kv_blocks_for(longest));
}

/* The tokens of the text that begins with token `first`. */
static uint32_t text_length(const struct engine_batch *batch, size_t first)
{
    size_t end = first + 1;
    while (end < batch->n_tokens && sequence_of(batch, end) == sequence_of(batch, first)) end++;
    return (uint32_t)(end - first);
}

/* The same for an encoder: whole texts. */
static uint32_t count_texts(const struct engine_plan *plan, const struct engine_batch *batch, size_t first)
{
    uint32_t count = 0;
    while (first + count < batch->n_tokens) {
        uint32_t length = text_length(batch, first + count);
        if (length > plan->n_batch - count) break;
        count += length;
    }
    return count;
}

/* How many tokens from `first` on go through the graph together: at most `most`, and no more logits than
 * fit. */
static uint32_t count_part(const struct engine_context *context, const struct engine_batch *batch,
                           size_t first, uint32_t most, bool logits)
{
    const struct engine_plan *plan = context->plan;
    if (plan->info.is_encoder) return count_texts(plan, batch, first);
    uint32_t count = 0, n_outputs = 0;
    memset(context->growth, 0, plan->n_sequences * sizeof *context->growth);
    while (count < most && first + count < batch->n_tokens) {
        /* Tokens of a sequence with a state must be adjacent. */
        uint32_t sequence = sequence_of(batch, first + count);
        if (plan->n_states > 0 && context->growth[sequence] > 0 &&
            sequence_of(batch, first + count - 1) != sequence)
            break;
        context->growth[sequence]++;
        if (logits && is_wanted(batch, first + count) && n_outputs++ == plan->max_outputs) break;
        count++;
    }
    return batch_whole_pictures(context, batch->tokens + first, batch->n_tokens - first, count);
}

/* Writes the factor of the family's queries at a position, if its graphs take that as an input. */
static void write_query_scale(const struct engine_plan *plan, uint32_t position, int32_t *input)
{
    if (!plan->info.query_scale) return;
    float scale = plan->info.query_scale(plan->hparams, position);
    memcpy(input, &scale, sizeof scale); /* inputs of every type are stored as 32-bit numbers */
}

int context_copy_states(struct engine_context *context)
{
    const struct engine_plan *plan = context->plan;
    size_t count;
    const struct kv_state_copy *copies = kv_state_copies(context->kv, &count);
    for (size_t i = 0; i < plan->n_caches && count > 0; i++) {
        if (!plan->caches[i].is_state) continue;
        uint32_t d = plan->device[plan->caches[i].entry];
        const struct engine_backend *backend = device_at(context, d)->backend;
        struct engine_buffer *states = context->executor.caches[i];
        uint64_t size = plan->caches[i].size / plan->n_states;
        for (size_t c = 0; c < count; c++) {
            ENGINE_ASSERT(copies[c].from < plan->n_states && copies[c].to < plan->n_states);
            int status = backend->copy(context->executor.streams[d], states, copies[c].to * size, states,
                                       copies[c].from * size, size);
            if (status) return error_wrap(status, "%s: states", device_at(context, d)->name);
        }
    }
    kv_states_made(context->kv);
    return ENGINE_OK;
}

/* Gives each sequence that continues inside a shared block its own copy of it, in all caches of its
 * positions. */
static int copy_blocks(struct engine_context *context)
{
    const struct engine_plan *plan = context->plan;
    size_t count;
    const struct kv_copy *copies = kv_copies(context->kv, &count);
    for (size_t i = 0; i < plan->n_caches && count > 0; i++) {
        if (plan->caches[i].is_state || plan->caches[i].pool != POOL_SEQUENCES) continue;
        uint32_t d = plan->device[plan->caches[i].entry];
        const struct engine_backend *backend = device_at(context, d)->backend;
        struct engine_buffer *cache = context->executor.caches[i];
        bool windowed = plan->caches[i].windowed;
        uint64_t size = plan->caches[i].size / plan->caches[i].n_blocks;
        for (size_t c = 0; c < count; c++) {
            uint64_t from = (uint64_t)(windowed ? copies[c].window_from : copies[c].from) * size;
            uint64_t to = (uint64_t)(windowed ? copies[c].window_to : copies[c].to) * size;
            ENGINE_ASSERT(from <= plan->caches[i].size - size && to <= plan->caches[i].size - size);
            int status = backend->copy(context->executor.streams[d], cache, to, cache, from, size);
            if (status) return error_wrap(status, "%s: cache", device_at(context, d)->name);
        }
    }
    kv_copied(context->kv);
    return context_copy_states(context);
}

void fill_shape(int32_t *const *inputs, uint32_t n_tokens, uint32_t n_wanted, const struct shape_key *key)
{
    ENGINE_ASSERT(n_tokens > 0); /* the last one fills up */
    for (uint32_t i = n_tokens; i < key->n_tokens; i++) {
        for (int input = 0; input < INPUT_COUNT; input++)
            if (input != INPUT_BLOCK_TABLE && input != INPUT_WINDOW_TABLE && input != INPUT_SOURCE_TABLE &&
                input != INPUT_OUTPUT_ROWS && input != INPUT_REACH && input != INPUT_ROWS &&
                (input < INPUT_POOLED_TABLE || input >= INPUT_POOLED_TABLE + GRAPH_PERIODS))
                inputs[input][i] = inputs[input][n_tokens - 1];
        inputs[INPUT_POSITIONS][i] = inputs[INPUT_SLOTS][i] = inputs[INPUT_WINDOW_SLOTS][i] = -1;
        inputs[INPUT_STATES][i] = inputs[INPUT_SOURCE_SLOTS][i] = inputs[INPUT_SOURCE_LAST][i] = -1;
        for (int k = 0; k < GRAPH_PERIODS; k++)
            inputs[INPUT_POOLED_SLOTS + k][i] = inputs[INPUT_POOLED_LAST + k][i] = -1;
    }
    for (uint32_t i = n_wanted; i < key->n_outputs; i++) inputs[INPUT_OUTPUT_ROWS][i] = 0;
}

/* Of a token at a position and in a slot: where pooled rows are kept, and which it sees. */
static void write_pooled(const struct engine_context *context, uint32_t i, int32_t position, int32_t slot)
{
    int32_t *const *inputs = context->inputs;
    for (int k = 0; k < GRAPH_PERIODS; k++) {
        const int32_t period = (int32_t)context->plan->info.periods[k];
        if (period == 0) continue;
        const int32_t rows = period < KV_BLOCK_SIZE ? KV_BLOCK_SIZE / period : 1,
                      place = period < KV_BLOCK_SIZE ? slot % KV_BLOCK_SIZE / period : 0;
        inputs[INPUT_POOLED_SLOTS + k][i] =
            (position + 1) % period == 0 ? slot / KV_BLOCK_SIZE * rows + place : -1;
        inputs[INPUT_POOLED_LAST + k][i] = (position + 1) / period - 1;
        inputs[INPUT_POOLED_STARTS + k][i] = position - position % period;
    }
}

/* The blocks that pooled rows of longer periods are in: those of the last position of each. */
static void write_pooled_table(const struct engine_context *context, const struct shape_key *key,
                               uint32_t sequence)
{
    const int32_t *blocks = kv_blocks(context->kv, sequence);
    for (int k = 0; k < GRAPH_PERIODS; k++) {
        const size_t step = context->plan->info.periods[k] / KV_BLOCK_SIZE;
        if (step < 2) continue;
        const size_t width = key->table_width / step > 0 ? key->table_width / step : 1,
                     n = kv_blocks_for(kv_length(context->kv, sequence)) / step;
        int32_t *row = &context->inputs[INPUT_POOLED_TABLE + k][(size_t)sequence * width];
        for (size_t i = 0; i < n; i++) row[i] = blocks[(i + 1) * step - 1];
    }
}

/* Writes each sequence's blocks. Entries that no token sees keep older numbers of blocks. */
static void write_tables(const struct engine_context *context, const struct shape_key *key)
{
    const struct engine_plan *plan = context->plan;
    for (uint32_t s = 0; s < plan->n_sequences && has_tables(plan); s++) {
        size_t row = (size_t)s * key->table_width, n = kv_blocks_for(kv_length(context->kv, s));
        ENGINE_ASSERT(n <= key->table_width);
        memcpy(&context->inputs[INPUT_BLOCK_TABLE][row], kv_blocks(context->kv, s), n * sizeof(int32_t));
        write_pooled_table(context, key, s);
        if (plan->n_window_blocks > 0)
            kv_window_table(context->kv, s, &context->inputs[INPUT_WINDOW_TABLE][row]);
        if (context->sources)
            memcpy(&context->inputs[INPUT_SOURCE_TABLE][(size_t)s * key->source_width],
                   kv_blocks(context->sources, s),
                   kv_blocks_for(kv_length(context->sources, s)) * sizeof(int32_t));
    }
}

/* Writes how far the tokens of an encoder see. `n`: tokens of the shape, of which the last ones may only fill
 * it. */
static void write_reach(const struct engine_context *context, uint32_t count, uint32_t n)
{
    int32_t *const *inputs = context->inputs, *reach = inputs[INPUT_REACH];
    int32_t ahead =
        context->plan->info.n_ahead < INT32_MAX ? (int32_t)context->plan->info.n_ahead : INT32_MAX;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t sequence = (uint32_t)inputs[INPUT_SEQUENCES][i];
        int32_t last = i < count ? (int32_t)kv_length(context->kv, sequence) - 1 : -1;
        int32_t position = i < count ? inputs[INPUT_POSITIONS][i] : -1;
        inputs[INPUT_LAST_POSITIONS][i] = last;
        reach[i] = position;
        reach[n + i] = ahead < last - position ? position + ahead : last;
    }
}

/* Empties the sequences of a part: an encoder's texts can't be continued. */
static void forget_texts(struct engine_context *context, const struct engine_batch *batch, size_t first,
                         uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) kv_truncate(context->kv, sequence_of(batch, first + i), 0);
}

/* Starts tokens first … first+count-1, see count_part. Advances *logits past what will be written, and
 * *n_done by its number of rows. */
static int start_part(struct engine_context *context, const struct engine_batch *batch, size_t first,
                      uint32_t count, float **logits, size_t *n_done)
{
    const struct engine_plan *plan = context->plan;
    int32_t **inputs = context->inputs;
    uint32_t n_wanted = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t sequence = sequence_of(batch, first + i);
        inputs[INPUT_TOKENS][i] = batch->tokens[first + i] >= 0 ? batch->tokens[first + i] : 0;
        inputs[INPUT_SEQUENCES][i] = inputs[INPUT_STATES][i] = (int32_t)sequence;
        inputs[INPUT_POSITIONS][i] = (int32_t)kv_length(context->kv, sequence);
        inputs[INPUT_POSITION_ROWS][i] = inputs[INPUT_POSITIONS][i];
        inputs[INPUT_TOKEN_TYPES][i] = batch->token_types ? batch->token_types[first + i] : 0;
        write_query_scale(plan, kv_length(context->kv, sequence), &inputs[INPUT_QUERY_SCALES][i]);
        inputs[INPUT_SLOTS][i] = kv_append(context->kv, sequence, batch->tokens[first + i]);
        ENGINE_ASSERT(inputs[INPUT_SLOTS][i] >= 0); /* check_batch has made sure of room */
        write_pooled(context, i, inputs[INPUT_POSITIONS][i], inputs[INPUT_SLOTS][i]);
        if (context->sources)
            inputs[INPUT_SOURCE_LAST][i] = (int32_t)kv_length(context->sources, sequence) - 1;
        if (plan->n_window_blocks > 0)
            inputs[INPUT_WINDOW_SLOTS][i] = kv_window_slot(context->kv, inputs[INPUT_SLOTS][i]);
        if (*logits && is_wanted(batch, first + i)) inputs[INPUT_OUTPUT_ROWS][n_wanted++] = (int32_t)i;
    }
    struct shape_key key = shape_for(plan, count, n_wanted);
    ENGINE_ASSERT(count <= key.n_tokens && n_wanted <= key.n_outputs);
    key.table_width = table_width(context, context->kv);
    if (context->sources) key.source_width = table_width(context, context->sources);
    if (batch->states && !plan->info.is_encoder) key.watch = WATCH_STATES; /* an encoder always has them */
    int status = batch_write_pictures(context, batch, first, count, &key.pictures);
    fill_shape(inputs, count, n_wanted, &key);
    if (key.pictures & PICTURES_SPANS) batch_write_spans(context, batch, first, count, key.n_tokens);
    if (plan->info.is_encoder) write_reach(context, count, key.n_tokens);
    write_tables(context, &key);
    struct prepared *prepared = NULL;
    if (!status) status = prepared_for(context, &key, &prepared);
    if (!status) status = copy_blocks(context);
    struct part_watcher watcher = {.watcher = {take_watched, take_input},
                                   .watch = &plan->watch,
                                   .first = first,
                                   .first_wanted = *n_done,
                                   .n_tokens = count,
                                   .n_wanted = n_wanted,
                                   .states = batch->states};
    if (!status)
        status = prepared_start(&context->executor, prepared, (const void *const *)inputs, *logits, n_wanted,
                                &watcher.watcher);
    if (plan->info.is_encoder) forget_texts(context, batch, first, count);
    if (!status && n_wanted > 0) *logits += (size_t)n_wanted * plan->info.n_vocab;
    *n_done += n_wanted;
    return status;
}

/* Waits for the parts that were started. `status`: of the last one. */
static int finish_parts(struct engine_context *context, int status)
{
    int waited = executor_wait(&context->executor);
    if (!status) status = waited;
    /* With sources, what is computed depends on more than the tokens before. */
    if (!status && !context->plan->info.is_encoder && !context->sources) kv_commit(context->kv);
    return status;
}

/* Starts a checked batch, in parts of at most `most` tokens. A window's pool has room for one batch until its
 * parts are committed. */
static int start_parts(struct engine_context *context, const struct engine_batch *batch, uint32_t most,
                       float *logits)
{
    const struct engine_plan *plan = context->plan;
    int status = ENGINE_OK;
    size_t n_done = 0, n_started = 0;
    for (size_t first = 0; first < batch->n_tokens && !status;) {
        uint32_t count = count_part(context, batch, first, most, logits != NULL);
        ENGINE_ASSERT(count > 0 && count <= plan->n_batch);
        if (plan->n_window_blocks > 0 && n_started > 0 && n_started + count > plan->n_batch) {
            status = finish_parts(context, ENGINE_OK);
            n_started = 0;
        }
        if (!status) status = start_part(context, batch, first, count, &logits, &n_done);
        n_started += count;
        first += count;
    }
    return status;
}

/* Checks a batch, and sets *known to what the caller's struct says. */
static int read_batch(struct engine_context *context, const struct engine_batch *batch, const float *logits,
                      struct engine_batch *known)
{
    int status = SIZED_CHECK(batch, engine_batch, wanted);
    if (status) return status;
    sized_read(known, sizeof *known, batch);
    if (context->plan->info.is_encoder && logits)
        return error_raise(ENGINE_ERROR_UNSUPPORTED, "%s", ENCODER_WRITES_NOTHING);
    return check_batch(context, known);
}

/* Restores the state before a batch, as far as possible. */
static void restore(struct engine_context *context, const uint32_t *lengths)
{
    for (uint32_t s = 0; s < context->plan->n_sequences; s++) kv_truncate(context->kv, s, lengths[s]);
}

int engine_decode(struct engine_context *context, const struct engine_batch *batch, float *logits)
{
    const struct engine_plan *plan = context->plan;
    struct engine_batch known;
    int status = read_batch(context, batch, logits, &known);
    if (status) return status;
    for (uint32_t s = 0; s < plan->n_sequences; s++) context->lengths[s] = kv_length(context->kv, s);
    kv_begin(context->kv, context->growth);
    ENGINE_ASSERT(context->n_flights == 0); /* those are finished first */
    uint32_t most = known.states ? plan->n_batch : plan_part(plan, known.n_tokens);
    status = finish_parts(context, start_parts(context, &known, most, logits));
    if (!status) return ENGINE_OK;
    restore(context, context->lengths);
    kv_copies_failed(context->kv);
    return status;
}

/* ---- Several batches at once --------------------------------------------------------------------------- */

/* Gives up the first `count` batches that were started. The message stays. */
static int give_up(struct engine_context *context, uint32_t count, int status)
{
    char message[512];
    strncpy(message, error_message(), sizeof message - 1);
    message[sizeof message - 1] = '\0';
    executor_wait(&context->executor);
    for (uint32_t i = 0; i < count; i++) restore(context, context->flights[i].lengths);
    kv_copies_failed(context->kv);
    context->n_flights = 0;
    return error_raise(status, "%s", message);
}

/* For assertions: whether the checked batch has none of the sequences of batches that are being computed. */
static bool is_apart(const struct engine_context *context)
{
    for (uint32_t i = 0; i < context->n_flights; i++)
        for (uint32_t s = 0; s < context->plan->n_sequences; s++)
            if (context->growth[s] > 0 && context->flights[i].lengths[s] != UINT32_MAX) return false;
    return true;
}

int context_start(struct engine_context *context, const struct engine_batch *batch, float *logits)
{
    struct engine_batch known;
    int status = read_batch(context, batch, logits, &known);
    if (status) return status;
    ENGINE_ASSERT(context->n_flights < PLAN_MAX_GROUPS);
    ENGINE_ASSERT(!known.states);
    ENGINE_ASSERT(is_apart(context));
    struct flight *flight = &context->flights[context->n_flights];
    for (uint32_t s = 0; s < context->plan->n_sequences; s++)
        flight->lengths[s] = context->growth[s] > 0 ? kv_length(context->kv, s) : UINT32_MAX;
    kv_begin(context->kv, context->growth);
    status = start_parts(context, &known, context->plan->n_batch, logits);
    if (!status) status = executor_mark(&context->executor, flight->marks);
    if (status) return give_up(context, context->n_flights + 1, status);
    context->n_flights++;
    return ENGINE_OK;
}

int context_finish(struct engine_context *context)
{
    ENGINE_ASSERT(context->n_flights > 0);
    struct flight done = context->flights[0];
    int status = executor_wait_for(&context->executor, done.marks);
    if (status) return give_up(context, context->n_flights, status);
    context->n_flights--;
    memmove(&context->flights[0], &context->flights[1], context->n_flights * sizeof done);
    context->flights[context->n_flights] = done;
    if (context->sources) return ENGINE_OK; /* see finish_parts */
    for (uint32_t s = 0; s < context->plan->n_sequences; s++) {
        context->is_pending[s] = false;
        for (uint32_t i = 0; i < context->n_flights; i++)
            context->is_pending[s] |= context->flights[i].lengths[s] != UINT32_MAX;
    }
    kv_commit_except(context->kv, context->is_pending);
    return ENGINE_OK;
}
