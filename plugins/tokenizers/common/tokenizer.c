/* tokenizer.c: see tokenizer.h. */
#include "common/tokenizer.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "common/explain.h"
#include "common/memory.h"

/* What one call of encode works in. The last one to finish leaves it for the next. */
struct workspace {
    void *scratch; /* the kind's */
    struct special_workspace special;
    struct output output;
};

static void workspace_destroy(const struct tokenizer_kind *kind, struct workspace *workspace)
{
    if (!workspace) return;
    kind->scratch_destroy(workspace->scratch);
    special_workspace_free(&workspace->special);
    free(workspace);
}

static int workspace_take(const struct engine_tokenizer *tokenizer, struct workspace **workspace)
{
    /* The slot is the one thing in a tokenizer that changes, and it is atomic. */
    void *_Atomic *idle = (void *_Atomic *)&((struct engine_tokenizer *)(uintptr_t)tokenizer)->idle;
    struct workspace *taken = atomic_exchange(idle, NULL);
    if (!taken) {
        taken = allocate_zeroed(1, sizeof *taken);
        if (!taken) return fail_memory("tokenizer");
        int status = tokenizer->kind->scratch_create(tokenizer, &taken->scratch);
        if (status) {
            free(taken);
            return status;
        }
    }
    *workspace = taken;
    return ENGINE_OK;
}

static void workspace_leave(const struct engine_tokenizer *tokenizer, struct workspace *workspace)
{
    void *_Atomic *idle = (void *_Atomic *)&((struct engine_tokenizer *)(uintptr_t)tokenizer)->idle;
    workspace_destroy(tokenizer->kind, atomic_exchange(idle, workspace));
}

int tokenizer_create(const struct tokenizer_kind *kind, const struct engine_metadata *metadata,
                     struct engine_tokenizer **tokenizer)
{
    struct engine_tokenizer *created = allocate_zeroed(1, sizeof *created);
    if (!created) return fail_memory("tokenizer");
    created->kind = kind;
    struct vocab_defaults defaults = {-1, -1, -1, -1, -1, false, false, false, false, NULL};
    int status = kind->defaults(metadata, &defaults);
    if (!status) status = vocab_open(&created->vocab, metadata, &defaults);
    const uint32_t asked_for = ENGINE_TOKEN_CONTROL | ENGINE_TOKEN_UNKNOWN;
    if (!status)
        status = special_create(&created->always, &created->vocab, ENGINE_TOKEN_USER_DEFINED, asked_for);
    if (!status)
        status = special_create(&created->all, &created->vocab, ENGINE_TOKEN_USER_DEFINED | asked_for, 0);
    if (!status) status = kind->create(created, metadata);
    if (status)
        tokenizer_destroy(created);
    else
        *tokenizer = created;
    return status;
}

void tokenizer_destroy(struct engine_tokenizer *tokenizer)
{
    if (!tokenizer) return;
    workspace_destroy(tokenizer->kind, tokenizer->idle);
    tokenizer->kind->destroy(tokenizer);
    special_destroy(&tokenizer->always);
    special_destroy(&tokenizer->all);
    vocab_close(&tokenizer->vocab);
    free(tokenizer);
}

int tokenizer_info(const struct engine_tokenizer *tokenizer, struct engine_tokenizer_info *info)
{
    const struct vocab *vocab = &tokenizer->vocab;
    struct engine_tokenizer_info all = {
        .struct_size = info->struct_size,
        .n_tokens = vocab->n_tokens,
        .bos = vocab->bos,
        .eos = vocab->eos,
        .unknown = vocab->unknown,
        .separator = vocab->separator,
        .padding = vocab->padding,
        .end_of_turn = vocab->end_of_turn,
        .add_bos = vocab->add_bos,
        .add_eos = vocab->add_eos,
        .add_separator = vocab->add_separator,
    };
    memcpy(info, &all, info->struct_size < sizeof all ? info->struct_size : sizeof all);
    return ENGINE_OK;
}

/* One call of encode, for special_split's visits. */
struct encoding {
    const struct engine_tokenizer *tokenizer;
    struct workspace *workspace;
    bool first; /* nothing, or a special token, precedes the next stretch */
};

static int encode_part(void *user, struct engine_string text, int32_t id)
{
    struct encoding *encoding = user;
    struct workspace *workspace = encoding->workspace;
    ENGINE_ASSERT(text.length > 0 && id < (int64_t)encoding->tokenizer->vocab.n_tokens);
    if (id >= 0) {
        output_put(&workspace->output, id);
        if (workspace->output.explanation) explain_special(workspace->output.explanation, text, id);
        encoding->first = true;
    } else {
        int status = encoding->tokenizer->kind->encode(encoding->tokenizer, workspace->scratch, text,
                                                       encoding->first, &workspace->output);
        if (status) return status;
        encoding->first = false;
    }
    return workspace->output.stopped;
}

/* A token that is added at `place`, before or after the text. */
static void put_added(struct output *output, const char *place, int32_t id)
{
    output_put(output, id);
    if (output->explanation) explain_special(output->explanation, (struct engine_string){place, 0}, id);
}

/* `explanation` is NULL for tokenizer_encode. */
static int tokenizer_encode_text(const struct engine_tokenizer *tokenizer, struct engine_string text,
                                 uint32_t flags, engine_token_sink sink, void *user,
                                 struct explanation *explanation)
{
    if (flags & ~(uint32_t)(ENGINE_ENCODE_BOS_EOS | ENGINE_ENCODE_SPECIAL))
        return host->fail(ENGINE_ERROR_UNSUPPORTED, "unknown flags for encoding: %#x", flags);
    struct workspace *workspace = NULL;
    int status = workspace_take(tokenizer, &workspace);
    if (status) return status;

    const struct vocab *vocab = &tokenizer->vocab;
    const struct special_set *set = flags & ENGINE_ENCODE_SPECIAL ? &tokenizer->all : &tokenizer->always;
    struct encoding encoding = {tokenizer, workspace, true};
    struct output *output = &workspace->output;
    output->sink = sink;
    output->user = user;
    output->explanation = explanation;
    output->stopped = 0;
    output->count = 0;
    if (explanation) explanation->output = output;
    if ((flags & ENGINE_ENCODE_BOS_EOS) && vocab->add_bos) put_added(output, text.data, vocab->bos);
    if (text.length) status = special_split(set, vocab, text, &workspace->special, encode_part, &encoding);
    if (!status && (flags & ENGINE_ENCODE_BOS_EOS)) {
        const char *end = text.length ? text.data + text.length : text.data;
        if (vocab->add_eos) put_added(output, end, vocab->eos);
        if (vocab->add_separator) put_added(output, end, vocab->separator);
    }
    if (!status) {
        output_flush(output);
        status = output->stopped;
    }
    workspace_leave(tokenizer, workspace);
    return status;
}

int tokenizer_encode(const struct engine_tokenizer *tokenizer, const char *text, size_t length,
                     uint32_t flags, engine_token_sink sink, void *user)
{
    return tokenizer_encode_text(tokenizer, (struct engine_string){text, length}, flags, sink, user, NULL);
}

int tokenizer_explain(const struct engine_tokenizer *tokenizer, const char *text, size_t length,
                      uint32_t flags, engine_explain_sink sink, void *user)
{
    struct explanation explanation = {.tokenizer = tokenizer, .sink = sink, .user = user, .text = text};
    int status = tokenizer_encode_text(tokenizer, (struct engine_string){text, length}, flags, output_drop,
                                       NULL, &explanation);
    explain_free(&explanation);
    return status;
}

int tokenizer_piece(const struct engine_tokenizer *tokenizer, int32_t id, struct engine_string *piece)
{
    if (id < 0 || (uint32_t)id >= tokenizer->vocab.n_tokens)
        return host->fail(ENGINE_ERROR_ARGUMENT, "there is no token %d: the vocabulary ends at %u", id,
                          tokenizer->vocab.n_tokens - 1);
    *piece = tokenizer->vocab.pieces[id];
    return ENGINE_OK;
}

uint32_t tokenizer_attributes(const struct engine_tokenizer *tokenizer, int32_t id)
{
    if (id < 0 || (uint32_t)id >= tokenizer->vocab.n_tokens) return 0;
    return tokenizer->vocab.attributes[id] & VOCAB_PUBLIC;
}
