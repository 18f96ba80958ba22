/* saved.c: sequences in files. A file has a header, a table of the caches, the tokens, the blocks of each
 * cache in the order of the sequence, and a hash of everything before it. The caches have the layout of the
 * plugin API, so a sequence can be continued wherever the model's layers are then. Layers with a window have
 * only the last blocks; a state counts as one block. Numbers are little-endian. The model is named by a
 * fingerprint: a hash of what its caches depend on, which are the family's metadata, and the names, shapes,
 * types and samples of the tensors. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "common/assert.h"
#include "context/context.h"

/* ---- Fingerprints -------------------------------------------------------------------------------------- */

#define SAMPLE 64 /* bytes at the beginning, middle and end of a tensor */

uint64_t hash_add(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    uint64_t word;
    for (size_t i = 0; i < size; i += sizeof word) {
        word = 0;
        memcpy(&word, bytes + i, size - i < sizeof word ? size - i : sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return (hash ^ size) * 0xff51afd7ed558ccdu;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
    return hash_add(hash, text, strlen(text));
}

/* A tensor without data of its own: samples of its first and last row; parts have their own names. */
static uint64_t hash_made(uint64_t hash, const struct model_tensor *tensor)
{
    uint64_t n_rows = tensor->ne[1] * tensor->ne[2] * tensor->ne[3];
    size_t row_size = n_rows > 0 ? (size_t)(tensor->size / n_rows) : 0;
    uint8_t *row = tensor->maker && row_size > 0 ? malloc(row_size) : NULL;
    if (!row) return hash;
    model_tensor_read(tensor, 0, 1, row);
    hash = hash_add(hash, row, row_size);
    model_tensor_read(tensor, n_rows - 1, 1, row);
    hash = hash_add(hash, row, row_size);
    free(row);
    return hash;
}

static uint64_t hash_tensor(uint64_t hash, const struct model_tensor *tensor)
{
    hash = hash_text(hash, tensor->name);
    hash = hash_add(hash, &tensor->type, sizeof tensor->type);
    hash = hash_add(hash, tensor->ne, sizeof tensor->ne);
    if (!tensor->data) return hash_made(hash, tensor);
    const unsigned char *data = tensor->data;
    if (tensor->size <= (uint64_t)3 * SAMPLE) return hash_add(hash, data, (size_t)tensor->size);
    hash = hash_add(hash, data, SAMPLE);
    hash = hash_add(hash, data + tensor->size / 2, SAMPLE);
    return hash_add(hash, data + tensor->size - SAMPLE, SAMPLE);
}

static uint64_t hash_entry(uint64_t hash, const struct metadata_entry *entry)
{
    hash = hash_text(hash, entry->key);
    if (entry->type != METADATA_STRING)
        return hash_add(hash, entry->values, entry->count * metadata_element_size(entry->type));
    const struct engine_string *texts = entry->values;
    for (size_t i = 0; i < entry->count; i++) hash = hash_add(hash, texts[i].data, texts[i].length);
    return hash;
}

uint64_t context_adapters_hash(const struct engine_context *context)
{
    const struct engine_plan *plan = context->plan;
    uint64_t hash = 0;
    for (size_t i = 0; i < plan->n_adapters; i++) {
        const struct graph_adapter *used = &plan->adapters[i];
        if (used->scale == 0) continue;
        hash = hash_add(hash ? hash : 1, &used->scale, sizeof used->scale);
        for (size_t k = 0; k < used->adapter->n_parts; k++) {
            const struct adapter_part *part = &used->adapter->parts[k];
            hash = hash_text(hash, part->target);
            hash = hash_add(hash, &part->scale, sizeof part->scale);
            hash = hash_tensor(hash_tensor(hash, &part->a), &part->b);
        }
    }
    return hash;
}

uint64_t context_fingerprint(const struct engine_context *context)
{
    const struct engine_plan *plan = context->plan;
    const struct model *model = plan->model->model;
    const struct metadata *metadata = model_metadata(model);
    const char *family = plan->architecture->name;
    uint64_t hash = hash_text(1, family);
    for (size_t i = 0; i < metadata_count(metadata); i++) {
        const struct metadata_entry *entry = metadata_at(metadata, i);
        if (strncmp(entry->key, family, strlen(family)) == 0) hash = hash_entry(hash, entry);
    }
    for (size_t i = 0; i < model_tensor_count(model); i++)
        hash = hash_tensor(hash, model_tensor_at(model, i));
    /* The context's length may decide which of them are used (rope factors, for example). */
    for (size_t i = 0; i < plan->n_weights; i++)
        if (!plan->weights[i].is_factor) hash = hash_tensor(hash, plan->weights[i].tensor);
    uint64_t adapters = context_adapters_hash(context);
    return adapters ? hash_add(hash, &adapters, sizeof adapters) : hash;
}

/* ---- The format ---------------------------------------------------------------------------------------- */

#define VERSION 1

static const char magic[8] = {'e', 'n', 'g', 'i', 'n', 'e', '\x1a', 'S'};

struct header {
    char magic[8];
    uint32_t version, block_size, cache_type, n_caches;
    uint64_t fingerprint; /* of the model */
    uint64_t file_size;
    uint32_t n_tokens, n_source; /* n_source: tokens of the text that it is about */
    uint64_t hash;               /* of everything before it */
};

/* A cache in the file. */
struct cache_entry {
    uint64_t block_bytes;
    uint32_t first_block; /* first block of the sequence in the file: the same for all layers with a window */
    uint32_t n_blocks;    /* number of blocks in the file */
};

static uint64_t block_bytes(const struct engine_plan *plan, size_t cache)
{
    return plan->caches[cache].size / plan->caches[cache].n_blocks;
}

/* Where block `b` of a cache is. */
struct place {
    const struct engine_backend *backend;
    struct engine_stream *stream;
    struct engine_buffer *buffer;
    uint64_t offset;
};

static struct place place_of(const struct engine_context *context, size_t cache, int32_t b)
{
    if (context->plan->caches[cache].windowed)
        b = kv_window_slot(context->kv, b * KV_BLOCK_SIZE) / KV_BLOCK_SIZE;
    const struct engine_plan *plan = context->plan;
    ENGINE_ASSERT(b >= 0 && (uint64_t)b < plan->caches[cache].n_blocks);
    uint32_t d = plan->device[plan->caches[cache].entry];
    return (struct place){device_at(context, d)->backend, context->executor.streams[d],
                          context->executor.caches[cache], (uint64_t)b * block_bytes(plan, cache)};
}

/* What there is of a sequence: tokens, tokens of its source, and the first block of layers with a window. */
struct extent {
    uint32_t n_tokens, n_source, window_first;
};

static struct extent extent_of(const struct engine_context *context, uint32_t sequence)
{
    return (struct extent){kv_length(context->kv, sequence),
                           context->sources ? kv_length(context->sources, sequence) : 0,
                           kv_window_first(context->kv, sequence)};
}

static struct cache_entry make_entry(const struct engine_context *context, size_t cache,
                                     const struct extent *extent)
{
    const struct plan_cache *entry = &context->plan->caches[cache];
    uint32_t first = entry->windowed ? extent->window_first : 0;
    uint32_t n_blocks = entry->is_state              ? extent->n_tokens > 0
                        : entry->pool == POOL_TEXT   ? 0
                        : entry->pool == POOL_SOURCE ? kv_blocks_for(extent->n_source)
                                                     : kv_blocks_for(extent->n_tokens) - first;
    return (struct cache_entry){block_bytes(context->plan, cache), first, n_blocks};
}

static struct header make_header(const struct engine_context *context, const struct extent *extent)
{
    const struct engine_plan *plan = context->plan;
    struct header header = {
        .version = VERSION,
        .block_size = KV_BLOCK_SIZE,
        .cache_type = plan->cache_type,
        .n_caches = (uint32_t)plan->n_caches,
        .fingerprint = context_fingerprint(context),
        .n_tokens = extent->n_tokens,
        .n_source = extent->n_source,
    };
    memcpy(header.magic, magic, sizeof magic);
    header.file_size = sizeof header + plan->n_caches * sizeof(struct cache_entry) +
                       ((uint64_t)extent->n_tokens + extent->n_source) * sizeof(int32_t) + sizeof(uint64_t);
    for (size_t i = 0; i < plan->n_caches; i++) {
        const struct cache_entry entry = make_entry(context, i, extent);
        header.file_size += entry.n_blocks * entry.block_bytes;
    }
    header.hash = hash_add(1, &header, offsetof(struct header, hash));
    return header;
}

/* Room for the largest block of a cache, or for the tokens. */
static void *make_room(const struct engine_plan *plan, const struct extent *extent)
{
    uint32_t n_tokens = extent->n_tokens > extent->n_source ? extent->n_tokens : extent->n_source;
    uint64_t most = n_tokens * sizeof(int32_t) + 1;
    for (size_t i = 0; i < plan->n_caches; i++)
        if (block_bytes(plan, i) > most) most = block_bytes(plan, i);
    void *room = malloc(most);
    if (!room) error_memory("sequence");
    return room;
}

/* ---- Writing ------------------------------------------------------------------------------------------ */

struct writer {
    int (*write)(void *user, const void *data, size_t size);
    void *user;
    uint64_t hash;
};

static int saved_write(struct writer *writer, const void *data, size_t size)
{
    writer->hash = hash_add(writer->hash, data, size);
    return writer->write(writer->user, data, size);
}

/* Wipes the positions of a block beyond the sequence: they may be another's. */
static void wipe(const struct plan_cache *cache, unsigned char *block, uint64_t size, uint32_t n_positions)
{
    ENGINE_ASSERT(n_positions <= KV_BLOCK_SIZE);
    uint64_t head = cache->row_size * cache->n_rows,
             used = cache->row_size * (n_positions * cache->n_rows / KV_BLOCK_SIZE);
    for (uint64_t start = 0; start < size; start += head) memset(block + start + used, 0, head - used);
}

/* Whether a sequence keeps nothing in block `i`: a pooled row of several blocks is in the last of them. */
static bool is_unused(const struct plan_cache *cache, uint32_t i)
{
    const uint32_t step = cache->period / KV_BLOCK_SIZE;
    return step > 1 && (i + 1) % step != 0;
}

/* The numbers of a sequence's blocks in a cache, in order. */
static const int32_t *blocks_of(const struct engine_context *context, size_t cache, uint32_t sequence,
                                int32_t *state, uint32_t *n)
{
    struct extent extent = extent_of(context, sequence);
    extent.window_first = 0;
    *state = (int32_t)sequence;
    *n = make_entry(context, cache, &extent).n_blocks;
    if (context->plan->caches[cache].is_state) return state;
    return kv_blocks(context->plan->caches[cache].pool == POOL_SOURCE ? context->sources : context->kv,
                     sequence);
}

static int put_cache(struct writer *writer, struct engine_context *context, uint32_t sequence, size_t cache,
                     uint32_t first, void *room)
{
    int32_t state;
    const struct extent extent = extent_of(context, sequence);
    bool is_source = context->plan->caches[cache].pool == POOL_SOURCE;
    uint32_t length = is_source ? extent.n_source : extent.n_tokens, n;
    const int32_t *blocks = blocks_of(context, cache, sequence, &state, &n);
    size_t size = block_bytes(context->plan, cache);
    int status = ENGINE_OK;
    for (uint32_t i = first; i < n && !status; i++) {
        struct place place = place_of(context, cache, blocks[i]);
        status = place.backend->read(place.stream, place.buffer, place.offset, room, size);
        if (!status) status = place.backend->stream_wait(place.stream);
        if (status) return error_wrap(status, "reading the cache");
        if (i + 1 == n && length % KV_BLOCK_SIZE != 0 && !context->plan->caches[cache].is_state)
            wipe(&context->plan->caches[cache], room, size, length % KV_BLOCK_SIZE);
        if (is_unused(&context->plan->caches[cache], i)) memset(room, 0, size);
        status = saved_write(writer, room, size);
    }
    return status;
}

/* The numbers of pictures' rows mean nothing outside this process. */
static int check_saved(const struct engine_context *context, uint32_t sequence, uint32_t n_tokens,
                       int32_t *tokens)
{
    kv_tokens(context->kv, sequence, 0, n_tokens, tokens);
    for (uint32_t i = 0; i < n_tokens; i++)
        if (tokens[i] < 0)
            return error_raise(ENGINE_ERROR_UNSUPPORTED, "a sequence with pictures can't be saved");
    return ENGINE_OK;
}

int engine_sequence_save(struct engine_context *context, uint32_t sequence,
                         int (*write)(void *user, const void *data, size_t size), void *user)
{
    const struct engine_plan *plan = context->plan;
    int status = check_sequence(context, sequence);
    if (status) return status;
    const struct extent extent = extent_of(context, sequence);
    struct writer writer = {write, user, 1};
    const struct header header = make_header(context, &extent);
    void *room = make_room(plan, &extent);
    if (!room) return ENGINE_ERROR_MEMORY;
    status = check_saved(context, sequence, extent.n_tokens, room);
    if (!status) status = saved_write(&writer, &header, sizeof header);
    for (size_t i = 0; i < plan->n_caches && !status; i++) {
        const struct cache_entry entry = make_entry(context, i, &extent);
        status = saved_write(&writer, &entry, sizeof entry);
    }
    kv_tokens(context->kv, sequence, 0, extent.n_tokens, room);
    if (!status) status = saved_write(&writer, room, extent.n_tokens * sizeof(int32_t));
    if (extent.n_source > 0) kv_tokens(context->sources, sequence, 0, extent.n_source, room);
    if (!status) status = saved_write(&writer, room, extent.n_source * sizeof(int32_t));
    for (size_t i = 0; i < plan->n_caches && !status; i++)
        status = put_cache(&writer, context, sequence, i, plan->caches[i].windowed ? extent.window_first : 0,
                           room);
    uint64_t hash = writer.hash;
    if (!status) status = saved_write(&writer, &hash, sizeof hash);
    free(room);
    return status;
}

/* ---- Reading ------------------------------------------------------------------------------------------ */

struct reader {
    FILE *file;
    const char *path;
    uint64_t hash;
};

static int saved_read(struct reader *reader, void *data, size_t size)
{
    errno = 0;
    if (fread(data, 1, size, reader->file) != size)
        return error_raise(ENGINE_ERROR_DATA, "%s: %s", reader->path,
                           ferror(reader->file) ? strerror(errno) : "it ends too early");
    reader->hash = hash_add(reader->hash, data, size);
    return ENGINE_OK;
}

static int saved_damaged(const struct reader *reader, const char *what)
{
    return error_raise(ENGINE_ERROR_DATA, "%s: the file is damaged: %s", reader->path, what);
}

/* Whether the file is a saved sequence, complete, and of this model and its settings. */
static int check_header(const struct engine_context *context, const struct reader *reader,
                        const struct header *header)
{
    const struct engine_plan *plan = context->plan;
    const char *path = reader->path;
    struct stat info;
    if (memcmp(header->magic, magic, sizeof magic) != 0)
        return error_raise(ENGINE_ERROR_DATA, "%s: not a saved sequence", path);
    if (header->version != VERSION)
        return error_raise(ENGINE_ERROR_UNSUPPORTED,
                           "%s: a sequence saved in version %u of the format; this engine reads version %d",
                           path, header->version, VERSION);
    if (header->hash != hash_add(1, header, offsetof(struct header, hash)))
        return saved_damaged(reader, "its header has changed");
    if (fstat(fileno(reader->file), &info) != 0)
        return error_raise(ENGINE_ERROR_DATA, "%s: %s", path, strerror(errno));
    if ((uint64_t)info.st_size != header->file_size)
        return error_raise(ENGINE_ERROR_DATA, "%s: it has %jd bytes, should have %" PRIu64, path,
                           (intmax_t)info.st_size, header->file_size);
    if (header->fingerprint != context_fingerprint(context))
        return error_raise(ENGINE_ERROR_DATA,
                           "%s: a sequence of another model than %s, of other adapters, or of another -c",
                           path, model_path(plan->model->model));
    if (header->cache_type != plan->cache_type)
        return error_raise(ENGINE_ERROR_DATA, "%s: a sequence of another --cache-type", path);
    if (header->n_tokens > plan->n_context || header->n_source > plan->n_context)
        return error_raise(ENGINE_ERROR_DATA,
                           "%s: a sequence of %u positions, the context takes %u; make it larger (%s)", path,
                           header->n_tokens > header->n_source ? header->n_tokens : header->n_source,
                           plan->n_context, plan_context_option(plan));
    struct header expected = make_header(context, &(struct extent){header->n_tokens, header->n_source, 0});
    bool needs_source = context->sources && header->n_tokens > 0;
    expected.file_size = header->file_size; /* depends on the table of the caches, see get_entries */
    expected.hash = header->hash;
    if (memcmp(header, &expected, sizeof expected) != 0 || (header->n_source > 0 && !context->sources) ||
        (header->n_source == 0 && needs_source))
        return saved_damaged(reader, "its header doesn't go with the model");
    return ENGINE_OK;
}

/* Reads the table of the caches. *window_first becomes the first block of layers with a window. */
static int get_entries(struct reader *reader, const struct engine_context *context,
                       const struct header *header, uint32_t *window_first)
{
    const struct engine_plan *plan = context->plan;
    struct extent extent = {header->n_tokens, header->n_source, 0};
    bool seen = false;
    *window_first = 0;
    for (size_t i = 0; i < plan->n_caches; i++) {
        struct cache_entry entry;
        int status = saved_read(reader, &entry, sizeof entry);
        if (status) return status;
        if (plan->caches[i].windowed && !seen) *window_first = entry.first_block;
        seen |= plan->caches[i].windowed;
        if (*window_first > kv_window_required(context->kv, extent.n_tokens))
            return saved_damaged(reader, "layers with a window lack some of it");
        extent.window_first = *window_first;
        const struct cache_entry expected = make_entry(context, i, &extent);
        if (memcmp(&entry, &expected, sizeof entry) != 0)
            return saved_damaged(reader, "its caches are not the model's");
    }
    extent.window_first = *window_first;
    if (header->file_size != make_header(context, &extent).file_size)
        return saved_damaged(reader, "its size doesn't go with its caches");
    return ENGINE_OK;
}

/* Makes the file's tokens the empty sequence's. *window_first is raised if layers with a window have not as
 * much room. */
static int get_tokens(struct reader *reader, struct engine_context *context, uint32_t sequence,
                      uint32_t n_tokens, int32_t *tokens, uint32_t *window_first)
{
    memset(context->growth, 0, context->plan->n_sequences * sizeof *context->growth);
    context->growth[sequence] = n_tokens;
    if (!room_make(context, context->growth))
        return error_raise(ENGINE_ERROR_MEMORY, "%s: the cache has no room for %u positions", reader->path,
                           n_tokens);
    int status = saved_read(reader, tokens, n_tokens * sizeof *tokens);
    for (uint32_t i = 0; i < n_tokens && !status; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= context->plan->info.n_vocab)
            return saved_damaged(reader, "a token does not exist");
    if (!status && !kv_restore(context->kv, sequence, tokens, n_tokens, window_first))
        status = error_raise(ENGINE_ERROR_MEMORY, "%s: the cache has no room for its windows", reader->path);
    return status;
}

/* The same for the tokens of its source, for which there is always room. */
static int get_source(struct reader *reader, struct engine_context *context, uint32_t sequence,
                      uint32_t n_tokens, int32_t *tokens)
{
    int status = saved_read(reader, tokens, n_tokens * sizeof *tokens);
    for (uint32_t i = 0; i < n_tokens && !status; i++) {
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= context->plan->info.n_vocab)
            return saved_damaged(reader, "a token does not exist");
        kv_append(context->sources, sequence, tokens[i]);
    }
    return status;
}

/* Reads the blocks first … of a cache, and skips those before block `begin`. */
static int get_cache(struct reader *reader, struct engine_context *context, uint32_t sequence, size_t cache,
                     uint32_t first, uint32_t begin, void *room)
{
    int32_t state;
    uint32_t n;
    const int32_t *blocks = blocks_of(context, cache, sequence, &state, &n);
    size_t size = block_bytes(context->plan, cache);
    for (uint32_t i = first; i < n; i++) {
        int status = saved_read(reader, room, size);
        if (status) return status;
        if (i < begin) continue;
        struct place place = place_of(context, cache, blocks[i]);
        status = place.backend->write(place.stream, place.buffer, place.offset, room, size);
        if (status) return error_wrap(status, "writing the cache");
    }
    return ENGINE_OK;
}

/* Waits for all devices. */
static int wait_for_devices(const struct engine_context *context)
{
    int status = ENGINE_OK;
    for (uint32_t d = 0; d < context->plan->set.n_devices; d++) {
        if (!context->executor.streams[d]) continue;
        int waited = device_at(context, d)->backend->stream_wait(context->executor.streams[d]);
        if (!status) status = waited;
    }
    return status ? error_wrap(status, "writing the cache") : ENGINE_OK;
}

/* Reads everything after the header. */
static int get_contents(struct reader *reader, struct engine_context *context, uint32_t sequence,
                        const struct header *header, void *room)
{
    const struct engine_plan *plan = context->plan;
    uint32_t window_first, window_begin;
    int status = get_entries(reader, context, header, &window_first);
    window_begin = window_first;
    if (!status) status = get_tokens(reader, context, sequence, header->n_tokens, room, &window_begin);
    if (!status) status = get_source(reader, context, sequence, header->n_source, room);
    for (size_t i = 0; i < plan->n_caches && !status; i++) {
        bool windowed = plan->caches[i].windowed;
        status = get_cache(reader, context, sequence, i, windowed ? window_first : 0,
                           windowed ? window_begin : 0, room);
    }
    uint64_t hash = reader->hash, kept;
    if (!status) status = saved_read(reader, &kept, sizeof kept);
    if (!status && kept != hash) status = saved_damaged(reader, "its contents have changed");
    int waited = wait_for_devices(context);
    return status ? status : waited;
}

static void empty(struct engine_context *context, uint32_t sequence)
{
    kv_truncate(context->kv, sequence, 0);
    if (context->sources) kv_truncate(context->sources, sequence, 0);
}

static int saved_load(struct engine_context *context, uint32_t sequence, struct reader *reader)
{
    struct header header;
    struct stat info;
    if (fstat(fileno(reader->file), &info) != 0 || !S_ISREG(info.st_mode))
        return error_raise(ENGINE_ERROR_DATA, "%s: not a file", reader->path);
    if ((uint64_t)info.st_size < sizeof header)
        return error_raise(ENGINE_ERROR_DATA, "%s: not a saved sequence, or cut off", reader->path);
    int status = saved_read(reader, &header, sizeof header);
    if (!status) status = check_header(context, reader, &header);
    if (status) return status;
    void *room = make_room(context->plan, &(struct extent){header.n_tokens, header.n_source, 0});
    if (!room) return ENGINE_ERROR_MEMORY;
    empty(context, sequence);
    status = get_contents(reader, context, sequence, &header, room);
    if (status)
        empty(context, sequence);
    else if (!context->sources)
        kv_commit(context->kv);
    free(room);
    return status;
}

/* Doesn't wait for the other end of a pipe. */
static FILE *open_saved(const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    FILE *stream = file >= 0 ? fdopen(file, "rb") : NULL;
    if (file >= 0 && !stream) close(file);
    return stream;
}

int engine_sequence_load(struct engine_context *context, uint32_t sequence, const char *path)
{
    int status = check_sequence(context, sequence);
    if (status) return status;
    struct reader reader = {open_saved(path), path, 1};
    if (!reader.file)
        return error_raise(errno == ENOENT ? ENGINE_ERROR_NOT_FOUND : ENGINE_ERROR_DATA, "%s: %s", path,
                           strerror(errno));
    status = saved_load(context, sequence, &reader);
    fclose(reader.file);
    return status;
}
