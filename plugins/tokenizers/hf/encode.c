/* encode.c: text to ids. See pipeline.h. */
#include <stdlib.h>
#include <string.h>

#include "common/cache.h"
#include "common/memory.h"
#include "hf/pieces.h"
#include "hf/pipeline.h"

struct workspace {
    struct normalizer_workspace normalizer;
    struct regex_workspace regex;
    struct pieces pieces;
    struct model_workspace model;
    struct cache cache;
    struct output output;
};

void workspace_destroy(struct workspace *workspace)
{
    if (!workspace) return;
    normalizer_workspace_free(&workspace->normalizer);
    regex_workspace_destroy(&workspace->regex);
    pieces_free(&workspace->pieces);
    model_workspace_free(&workspace->model);
    cache_destroy(&workspace->cache);
    free(workspace);
}

static void *_Atomic *idle_of(const struct engine_tokenizer *tokenizer)
{
    /* The slot is the one thing in a tokenizer that changes, and it is atomic. */
    return (void *_Atomic *)&((struct engine_tokenizer *)(uintptr_t)tokenizer)->idle;
}

static int workspace_take(const struct engine_tokenizer *tokenizer, struct workspace **workspace)
{
    struct workspace *taken = atomic_exchange(idle_of(tokenizer), NULL);
    int status = ENGINE_OK;
    if (!taken) {
        taken = allocate_zeroed(1, sizeof *taken);
        if (!taken) return fail_memory("tokenizer");
        status = regex_workspace_create(&taken->regex);
        if (!status) status = cache_create(&taken->cache);
        taken->normalizer.regex = &taken->regex;
    }
    if (status)
        workspace_destroy(taken);
    else
        *workspace = taken;
    return status;
}

/* One call of encode. */
struct encoding {
    const struct pipeline *pipeline;
    struct workspace *workspace;
    bool special;
    bool first; /* nothing precedes the part at hand */
};

/* The ids of a piece, through the cache. `readable`: bytes from its beginning on that may be read. */
static int put_piece(const struct encoding *encoding, struct engine_string piece, size_t readable)
{
    const struct model *model = &encoding->pipeline->model;
    struct workspace *work = encoding->workspace;
    struct output *output = &work->output;
    /* With byte fallback a prefix or suffix may become any number of ids. */
    bool unbounded = model->byte_fallback && model->prefix_length + model->suffix_length;
    if (piece.length > CACHE_WORD_SIZE || unbounded) return model_encode(model, &work->model, piece, output);
    struct cache_key key = cache_key(piece.data, piece.length, readable);
    struct cache_slot *slot = cache_slot(&work->cache, &key);
    if (OUTPUT_SIZE - output->count < (size_t)2 * CACHE_WORD_SIZE) output_flush(output);
    if (cache_holds(slot, &key)) {
        memcpy(output->ids + output->count, slot->ids, sizeof slot->ids);
        output->count += slot->count;
        return ENGINE_OK;
    }
    size_t before = output->count;
    int status = model_encode(model, &work->model, piece, output);
    size_t count = output->count - before;
    if (!status && count <= CACHE_IDS) {
        slot->key = key;
        slot->count = (uint32_t)count;
        memcpy(slot->ids, output->ids + before, count * sizeof *slot->ids);
    }
    return status;
}

/* Plain text, normalized. */
static int encode_normalized(void *user, struct engine_string text, int32_t id)
{
    struct encoding *encoding = user;
    struct workspace *work = encoding->workspace;
    if (id >= 0) {
        output_put(&work->output, id);
        encoding->first = false;
        return work->output.stopped;
    }
    int status = pieces_begin(&work->pieces, text, encoding->first);
    encoding->first = false;
    if (!status) status = pretokenizer_apply(&encoding->pipeline->pretokenizer, &work->pieces, &work->regex);
    for (size_t i = 0; !status && i < work->pieces.count; i++) {
        struct piece piece = work->pieces.list[i];
        struct engine_string part = {work->pieces.text.data + piece.start, piece.end - piece.start};
        status = put_piece(encoding, part, work->pieces.text.length - piece.start);
        if (!status) status = work->output.stopped;
    }
    return status;
}

/* Text as it was given. */
static int encode_raw(void *user, struct engine_string text, int32_t id)
{
    struct encoding *encoding = user;
    struct workspace *work = encoding->workspace;
    struct engine_string normalized = {NULL, 0};
    if (id >= 0) return encode_normalized(user, text, id);
    int status = normalizer_apply(&encoding->pipeline->normalizer, &work->normalizer, text, &normalized);
    if (work->normalizer.cut) encoding->first = false;
    if (!status)
        status = added_split(&encoding->pipeline->added.sets[1], normalized, encoding->special,
                             encode_normalized, encoding);
    encoding->first = false;
    return status;
}

int hf_encode(const struct engine_tokenizer *tokenizer, const char *text, size_t length, uint32_t flags,
              engine_token_sink sink, void *user)
{
    if (flags & ~(uint32_t)(ENGINE_ENCODE_BOS_EOS | ENGINE_ENCODE_SPECIAL))
        return host->fail(ENGINE_ERROR_UNSUPPORTED, "unknown flags for encoding: %#x", flags);
    const struct pipeline *pipeline = pipeline_of(tokenizer);
    struct workspace *workspace = NULL;
    int status = workspace_take(tokenizer, &workspace);
    if (status) return status;
    struct encoding encoding = {pipeline, workspace, (flags & ENGINE_ENCODE_SPECIAL) != 0, true};
    struct output *output = &workspace->output;
    output->sink = sink;
    output->user = user;
    output->stopped = 0;
    output->count = 0;
    if (flags & ENGINE_ENCODE_BOS_EOS) output_put_all(output, pipeline->before.ids, pipeline->before.count);
    if (length)
        status = added_split(&pipeline->added.sets[0], (struct engine_string){text, length}, encoding.special,
                             encode_raw, &encoding);
    if (!status && (flags & ENGINE_ENCODE_BOS_EOS))
        output_put_all(output, pipeline->after.ids, pipeline->after.count);
    if (!status) {
        output_flush(output);
        status = output->stopped;
    }
    workspace_destroy(atomic_exchange(idle_of(tokenizer), workspace));
    return status;
}
