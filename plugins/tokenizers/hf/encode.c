/* encode.c: text to ids. See pipeline.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/cache.h"
#include "common/explain.h"
#include "common/memory.h"
#include "hf/pieces.h"
#include "hf/pipeline.h"

struct workspace {
    struct normalizer_workspace normalizer;
    struct regex_workspace regex;
    struct pieces pieces;
    struct model_workspace model;
    struct cache cache;
    struct text_buffer words; /* for explanations: those of a stretch, one after the other */
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
    text_buffer_free(&workspace->words);
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
    size_t first; /* bytes of the part at hand that come from the text's first character */
    /* For explanations: words become no ids, they are only added to workspace->words. */
    bool gathers;
};

/* The ids of a piece, through the cache. `readable`: bytes from its beginning on that may be read. */
static int put_piece(const struct encoding *encoding, struct engine_string piece, size_t readable)
{
    const struct model *model = &encoding->pipeline->model;
    struct workspace *work = encoding->workspace;
    struct output *output = &work->output;
    /* With byte fallback a prefix or suffix may become any number of ids. */
    bool unbounded = model->byte_fallback && model->prefix_length + model->suffix_length;
    if (encoding->gathers) return text_append(&work->words, piece.data, piece.length);
    if (output->explanation) {
        explain_word(output->explanation, piece.data, piece.length);
        return model_encode(model, &work->model, piece, output);
    }
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

/* An added token in the normalized text, which is a word of its own. */
static int put_added(const struct encoding *encoding, struct engine_string text, int32_t id)
{
    struct workspace *work = encoding->workspace;
    struct explanation *explanation = work->output.explanation;
    if (encoding->gathers) return text_append(&work->words, text.data, text.length);
    if (explanation) explain_word(explanation, text.data, text.length);
    model_put(&work->output, text, id, NAN);
    return work->output.stopped;
}

/* Plain text, normalized. */
static int encode_normalized(void *user, struct engine_string text, int32_t id)
{
    struct encoding *encoding = user;
    struct workspace *work = encoding->workspace;
    if (id >= 0) {
        encoding->first = 0;
        return put_added(encoding, text, id);
    }
    int status = pieces_begin(&work->pieces, text, encoding->first);
    encoding->first = 0;
    if (!status) status = pretokenizer_apply(&encoding->pipeline->pretokenizer, &work->pieces, &work->regex);
    for (size_t i = 0; !status && i < work->pieces.count; i++) {
        struct piece piece = work->pieces.list[i];
        struct engine_string part = {work->pieces.text.data + piece.start, piece.end - piece.start};
        status = put_piece(encoding, part, work->pieces.text.length - piece.start);
        if (!status) status = work->output.stopped;
    }
    return status;
}

static int encode_stretch(struct encoding *encoding, struct engine_string normalized)
{
    return added_split(&encoding->pipeline->added.sets[1], normalized, encoding->special, encode_normalized,
                       encoding);
}

/* Reports what the stretch `text` becomes, before its words: these are found once to know their text, which
 * is not the normalized one where the pre-tokenizer leaves something out or spells it otherwise. */
static int explain_stretch(const struct encoding *encoding, struct engine_string text,
                           struct engine_string normalized)
{
    struct explanation *explanation = encoding->workspace->output.explanation;
    struct text_buffer *words = &encoding->workspace->words;
    struct encoding gathering = *encoding;
    gathering.gathers = true;
    words->size = 0;
    int status = encode_stretch(&gathering, normalized);
    if (status) return status;
    if (words->size != normalized.length ||
        (words->size && memcmp(words->data, normalized.data, words->size) != 0))
        explain_normalized(explanation, text, normalized);
    explain_text(explanation, text, (struct engine_string){words->data, words->size});
    return encoding->workspace->output.stopped;
}

/* How many bytes of a normalized text come from the first character of the text: what that alone becomes,
 * unless what follows changes it. Text before it leaves none. Metaspace asks for it. */
static int find_first(const struct pipeline *pipeline, struct workspace *work, struct engine_string text,
                      struct engine_string *alone, char *buffer, size_t size)
{
    uint32_t character;
    *alone = (struct engine_string){buffer, 0};
    if (!text.length || !pretokenizer_marks_first(&pipeline->pretokenizer)) return ENGINE_OK;
    text.length = unicode_read(text.data, text.length, &character);
    struct engine_string result;
    int status = normalizer_apply(&pipeline->normalizer, &work->normalizer, text, &result);
    if (status || result.length > size) return status;
    if (result.length) memcpy(buffer, result.data, result.length);
    alone->length = result.length;
    return ENGINE_OK;
}

/* Text as it was given. */
static int encode_raw(void *user, struct engine_string text, int32_t id)
{
    struct encoding *encoding = user;
    struct workspace *work = encoding->workspace;
    struct engine_string normalized = {NULL, 0};
    if (id >= 0) {
        output_put(&work->output, id);
        if (work->output.explanation) explain_special(work->output.explanation, text, id);
        encoding->first = 0;
        return work->output.stopped;
    }
    char buffer[64];
    struct engine_string alone = {buffer, 0};
    int status = encoding->first ? find_first(encoding->pipeline, work, text, &alone, buffer, sizeof buffer)
                                 : ENGINE_OK;
    if (!status)
        status = normalizer_apply(&encoding->pipeline->normalizer, &work->normalizer, text, &normalized);
    if (work->normalizer.cut) encoding->first = 0;
    if (encoding->first && alone.length && alone.length <= normalized.length &&
        memcmp(alone.data, normalized.data, alone.length) == 0)
        encoding->first = alone.length;
    if (!status && work->output.explanation) status = explain_stretch(encoding, text, normalized);
    if (!status) status = encode_stretch(encoding, normalized);
    encoding->first = 0;
    return status;
}

/* What the post-processor adds at `place`, before or after the text. */
static void put_list(struct output *output, const char *place, const struct id_list *list)
{
    output_put_all(output, list->ids, list->count);
    for (size_t i = 0; output->explanation && i < list->count; i++)
        explain_special(output->explanation, (struct engine_string){place, 0}, list->ids[i]);
}

/* `explanation` is NULL for hf_encode. */
static int encode(const struct engine_tokenizer *tokenizer, struct engine_string text, uint32_t flags,
                  engine_token_sink sink, void *user, struct explanation *explanation)
{
    if (flags & ~(uint32_t)(ENGINE_ENCODE_BOS_EOS | ENGINE_ENCODE_SPECIAL))
        return host->fail(ENGINE_ERROR_UNSUPPORTED, "unknown flags for encoding: %#x", flags);
    const struct pipeline *pipeline = pipeline_of(tokenizer);
    struct workspace *workspace = NULL;
    int status = workspace_take(tokenizer, &workspace);
    if (status) return status;
    struct encoding encoding = {pipeline, workspace, (flags & ENGINE_ENCODE_SPECIAL) != 0, 1, false};
    struct output *output = &workspace->output;
    output->sink = sink;
    output->user = user;
    output->explanation = explanation;
    output->stopped = 0;
    output->count = 0;
    if (explanation) explanation->output = output;
    if (flags & ENGINE_ENCODE_BOS_EOS) put_list(output, text.data, &pipeline->before);
    if (text.length)
        status = added_split(&pipeline->added.sets[0], text, encoding.special, encode_raw, &encoding);
    if (!status && (flags & ENGINE_ENCODE_BOS_EOS))
        put_list(output, text.length ? text.data + text.length : text.data, &pipeline->after);
    if (!status) {
        output_flush(output);
        status = output->stopped;
    }
    workspace_destroy(atomic_exchange(idle_of(tokenizer), workspace));
    return status;
}

int hf_encode(const struct engine_tokenizer *tokenizer, const char *text, size_t length, uint32_t flags,
              engine_token_sink sink, void *user)
{
    return encode(tokenizer, (struct engine_string){text, length}, flags, sink, user, NULL);
}

int hf_explain(const struct engine_tokenizer *tokenizer, const char *text, size_t length, uint32_t flags,
               engine_explain_sink sink, void *user)
{
    struct explanation explanation = {.tokenizer = tokenizer, .sink = sink, .user = user, .text = text};
    int status =
        encode(tokenizer, (struct engine_string){text, length}, flags, output_drop, NULL, &explanation);
    explain_free(&explanation);
    return status;
}
