/* saved.c: sequences in files. A file has a header, a table of the caches, the tokens, the blocks of each
 * cache in the order of the sequence, and a hash of everything before it. The caches have the layout of the
 * plugin API, so a sequence can be continued wherever the model's layers are then. Numbers are
 * little-endian. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "context/context.h"

#define MAGIC   "engine\x1aS"
#define VERSION 1

struct header {
    char magic[8];
    uint32_t version, block_size, cache_type, n_caches;
    uint64_t fingerprint; /* of the model */
    uint64_t file_size;
    uint32_t n_tokens, reserved;
    uint64_t hash; /* of everything before it */
};

/* A cache in the file. */
struct cache_entry {
    uint64_t block_bytes;
    uint32_t first_block; /* first block of the sequence in the file */
    uint32_t n_blocks;    /* number of blocks in the file */
};

static uint64_t block_bytes(const struct engine_plan *plan, size_t cache)
{
    return plan->caches[cache].size / plan->n_blocks;
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
    const struct engine_plan *plan = context->plan;
    uint32_t d = plan->device[plan->caches[cache].entry];
    return (struct place){device_at(context, d)->backend, context->executor.streams[d],
                          context->executor.caches[cache], (uint64_t)b * block_bytes(plan, cache)};
}

static struct header make_header(const struct engine_context *context, uint32_t n_tokens)
{
    const struct engine_plan *plan = context->plan;
    struct header header = {
        .magic = MAGIC,
        .version = VERSION,
        .block_size = KV_BLOCK_SIZE,
        .cache_type = plan->cache_type,
        .n_caches = (uint32_t)plan->n_caches,
        .fingerprint = context_fingerprint(context),
        .n_tokens = n_tokens,
    };
    header.file_size = sizeof header + plan->n_caches * sizeof(struct cache_entry) +
                       n_tokens * sizeof(int32_t) + sizeof(uint64_t);
    for (size_t i = 0; i < plan->n_caches; i++)
        header.file_size += kv_blocks_for(n_tokens) * block_bytes(plan, i);
    header.hash = hash_add(1, &header, offsetof(struct header, hash));
    return header;
}

static struct cache_entry make_entry(const struct engine_context *context, size_t cache, uint32_t n_tokens)
{
    return (struct cache_entry){block_bytes(context->plan, cache), 0, kv_blocks_for(n_tokens)};
}

/* Room for the largest block of a cache, or for the tokens. */
static void *make_room(const struct engine_plan *plan, uint32_t n_tokens)
{
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

static int put(struct writer *writer, const void *data, size_t size)
{
    writer->hash = hash_add(writer->hash, data, size);
    return writer->write(writer->user, data, size);
}

/* Wipes the positions of a block beyond the sequence: they may be another's. */
static void wipe(const struct plan_cache *cache, unsigned char *block, uint64_t size, uint32_t n_positions)
{
    uint64_t head = cache->row_size * KV_BLOCK_SIZE, used = cache->row_size * n_positions;
    for (uint64_t start = 0; start < size; start += head) memset(block + start + used, 0, head - used);
}

static int put_cache(struct writer *writer, struct engine_context *context, uint32_t sequence, size_t cache,
                     void *room)
{
    const int32_t *blocks = kv_blocks(context->kv, sequence);
    uint32_t length = kv_length(context->kv, sequence), n = kv_blocks_for(length);
    size_t size = block_bytes(context->plan, cache);
    int status = ENGINE_OK;
    for (uint32_t i = 0; i < n && !status; i++) {
        struct place place = place_of(context, cache, blocks[i]);
        status = place.backend->read(place.stream, place.buffer, place.offset, room, size);
        if (!status) status = place.backend->stream_wait(place.stream);
        if (status) return error_wrap(status, "reading the cache");
        if (i + 1 == n && length % KV_BLOCK_SIZE != 0)
            wipe(&context->plan->caches[cache], room, size, length % KV_BLOCK_SIZE);
        status = put(writer, room, size);
    }
    return status;
}

int engine_sequence_save(struct engine_context *context, uint32_t sequence,
                         int (*write)(void *user, const void *data, size_t size), void *user)
{
    const struct engine_plan *plan = context->plan;
    int status = check_sequence(context, sequence);
    if (status) return status;
    uint32_t length = kv_length(context->kv, sequence);
    struct writer writer = {write, user, 1};
    const struct header header = make_header(context, length);
    void *room = make_room(plan, length);
    if (!room) return ENGINE_ERROR_MEMORY;
    status = put(&writer, &header, sizeof header);
    for (size_t i = 0; i < plan->n_caches && !status; i++) {
        const struct cache_entry entry = make_entry(context, i, length);
        status = put(&writer, &entry, sizeof entry);
    }
    kv_tokens(context->kv, sequence, 0, length, room);
    if (!status) status = put(&writer, room, length * sizeof(int32_t));
    for (size_t i = 0; i < plan->n_caches && !status; i++)
        status = put_cache(&writer, context, sequence, i, room);
    uint64_t hash = writer.hash;
    if (!status) status = put(&writer, &hash, sizeof hash);
    free(room);
    return status;
}

/* ---- Reading ------------------------------------------------------------------------------------------ */

struct reader {
    FILE *file;
    const char *path;
    uint64_t hash;
};

static int get(struct reader *reader, void *data, size_t size)
{
    errno = 0;
    if (fread(data, 1, size, reader->file) != size)
        return error_raise(ENGINE_ERROR_DATA, "%s: %s", reader->path,
                           ferror(reader->file) ? strerror(errno) : "it ends too early");
    reader->hash = hash_add(reader->hash, data, size);
    return ENGINE_OK;
}

static int damaged(const struct reader *reader, const char *what)
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
    if (memcmp(header->magic, MAGIC, sizeof header->magic) != 0)
        return error_raise(ENGINE_ERROR_DATA, "%s: not a saved sequence", path);
    if (header->version != VERSION)
        return error_raise(ENGINE_ERROR_UNSUPPORTED,
                           "%s: a sequence saved in version %u of the format; this engine reads version %d",
                           path, header->version, VERSION);
    if (header->hash != hash_add(1, header, offsetof(struct header, hash)))
        return damaged(reader, "its header has changed");
    if (fstat(fileno(reader->file), &info) != 0)
        return error_raise(ENGINE_ERROR_DATA, "%s: %s", path, strerror(errno));
    if ((uint64_t)info.st_size != header->file_size)
        return error_raise(ENGINE_ERROR_DATA, "%s: it has %jd bytes, should have %" PRIu64, path,
                           (intmax_t)info.st_size, header->file_size);
    if (header->fingerprint != context_fingerprint(context))
        return error_raise(ENGINE_ERROR_DATA, "%s: a sequence of another model than %s, or of another -c",
                           path, model_path(plan->model->model));
    if (header->cache_type != plan->cache_type)
        return error_raise(ENGINE_ERROR_DATA, "%s: a sequence of another --cache-type", path);
    if (header->n_tokens > plan->n_context)
        return error_raise(ENGINE_ERROR_DATA,
                           "%s: a sequence of %u positions, the context takes %u; make it larger (-c)", path,
                           header->n_tokens, plan->n_context);
    const struct header expected = make_header(context, header->n_tokens);
    if (memcmp(header, &expected, sizeof expected) != 0)
        return damaged(reader, "its header doesn't go with the model");
    return ENGINE_OK;
}

/* Appends the file's tokens to the empty sequence. */
static int get_tokens(struct reader *reader, struct engine_context *context, uint32_t sequence,
                      uint32_t n_tokens, int32_t *tokens)
{
    memset(context->growth, 0, context->plan->n_sequences * sizeof *context->growth);
    context->growth[sequence] = n_tokens;
    if (kv_needed(context->kv, context->growth) > kv_free_count(context->kv))
        return error_raise(ENGINE_ERROR_MEMORY, "%s: the cache has no room for %u positions", reader->path,
                           n_tokens);
    int status = get(reader, tokens, n_tokens * sizeof *tokens);
    for (uint32_t i = 0; i < n_tokens && !status; i++) {
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= context->plan->info.n_vocab)
            return damaged(reader, "a token is none");
        kv_append(context->kv, sequence, tokens[i]);
    }
    return status;
}

static int get_cache(struct reader *reader, struct engine_context *context, uint32_t sequence, size_t cache,
                     void *room)
{
    const int32_t *blocks = kv_blocks(context->kv, sequence);
    uint32_t n = kv_blocks_for(kv_length(context->kv, sequence));
    size_t size = block_bytes(context->plan, cache);
    for (uint32_t i = 0; i < n; i++) {
        struct place place = place_of(context, cache, blocks[i]);
        int status = get(reader, room, size);
        if (status) return status;
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
                        uint32_t n_tokens, void *room)
{
    const struct engine_plan *plan = context->plan;
    int status = ENGINE_OK;
    for (size_t i = 0; i < plan->n_caches && !status; i++) {
        struct cache_entry entry;
        const struct cache_entry expected = make_entry(context, i, n_tokens);
        status = get(reader, &entry, sizeof entry);
        if (!status && memcmp(&entry, &expected, sizeof entry) != 0)
            return damaged(reader, "its caches are not the model's");
    }
    if (!status) status = get_tokens(reader, context, sequence, n_tokens, room);
    for (size_t i = 0; i < plan->n_caches && !status; i++)
        status = get_cache(reader, context, sequence, i, room);
    uint64_t hash = reader->hash, kept;
    if (!status) status = get(reader, &kept, sizeof kept);
    if (!status && kept != hash) status = damaged(reader, "its contents have changed");
    int waited = wait_for_devices(context);
    return status ? status : waited;
}

static int load(struct engine_context *context, uint32_t sequence, struct reader *reader)
{
    struct header header;
    struct stat info;
    if (fstat(fileno(reader->file), &info) != 0 || !S_ISREG(info.st_mode))
        return error_raise(ENGINE_ERROR_DATA, "%s: not a file", reader->path);
    if ((uint64_t)info.st_size < sizeof header)
        return error_raise(ENGINE_ERROR_DATA, "%s: not a saved sequence, or cut off", reader->path);
    int status = get(reader, &header, sizeof header);
    if (!status) status = check_header(context, reader, &header);
    if (status) return status;
    void *room = make_room(context->plan, header.n_tokens);
    if (!room) return ENGINE_ERROR_MEMORY;
    kv_truncate(context->kv, sequence, 0);
    status = get_contents(reader, context, sequence, header.n_tokens, room);
    if (status)
        kv_truncate(context->kv, sequence, 0);
    else
        kv_commit(context->kv);
    free(room);
    return status;
}

int engine_sequence_load(struct engine_context *context, uint32_t sequence, const char *path)
{
    int status = check_sequence(context, sequence);
    if (status) return status;
    struct reader reader = {fopen(path, "rbe"), path, 1};
    if (!reader.file)
        return error_raise(errno == ENOENT ? ENGINE_ERROR_NOT_FOUND : ENGINE_ERROR_DATA, "%s: %s", path,
                           strerror(errno));
    status = load(context, sequence, &reader);
    fclose(reader.file);
    return status;
}
