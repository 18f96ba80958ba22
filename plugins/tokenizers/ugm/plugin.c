/* plugin.c: the tokenizer plugin `ugm`: SentencePiece's unigram language models (Kudo, arXiv 1804.10959),
 * GGUF's tokenizer.ggml.model "t5". */
#include "common/plugin.h"

#include <stdlib.h>
#include <string.h>

#include "ugm/model.h"

static int defaults(const struct engine_metadata *metadata, struct vocab_defaults *out)
{
    (void)metadata;
    out->eos = 1;
    out->unknown = 2;
    out->padding = 0;
    out->add_eos = true;
    return ENGINE_OK;
}

static int create_model(struct engine_tokenizer *tokenizer, const struct engine_metadata *metadata)
{
    struct vocab *vocab = &tokenizer->vocab;
    struct ugm_model *model = allocate_zeroed(1, sizeof *model);
    if (!model) return fail_memory("vocabulary");
    tokenizer->model = model;
    if (vocab->unknown < 0) return host->fail(ENGINE_ERROR_DATA, "the vocabulary has no unknown token");

    int merge_spaces;
    const char *key = "tokenizer.ggml.remove_extra_whitespaces";
    model->add_space = vocab->add_space_prefix;
    model->merge_spaces =
        metadata->get_boolean(metadata->context, key, &merge_spaces) == ENGINE_OK && merge_spaces;
    vocab->add_space_prefix = model->add_space || model->merge_spaces; /* merging adds a leading one too */

    vocab_byte_tokens(vocab, model->bytes);
    model->has_bytes = true;
    for (int byte = 0; byte < 256; byte++)
        if (model->bytes[byte] < 0 || !(vocab->attributes[model->bytes[byte]] & ENGINE_TOKEN_BYTE))
            model->has_bytes = false;

    struct engine_string charsmap;
    int status = ENGINE_OK;
    memset(model->charsmap.plain + 1, true, sizeof model->charsmap.plain - 1);
    if (metadata->get_bytes(metadata->context, "tokenizer.ggml.precompiled_charsmap", &charsmap) == ENGINE_OK)
        status = charsmap_open(&model->charsmap, charsmap);
    for (int c = 0; c < 128; c++)
        model->plain[c] = model->charsmap.plain[c] &&
                          (!tokenizer->always.count || tokenizer->always.trie.first[c] == TRIE_NONE);
    return status ? status : ugm_build(vocab, model);
}

static void destroy_model(struct engine_tokenizer *tokenizer)
{
    struct ugm_model *model = tokenizer->model;
    if (!model) return;
    charsmap_close(&model->charsmap);
    trie_destroy(&model->trie);
    free(model->nodes);
    free(model);
}

static int scratch_create(const struct engine_tokenizer *tokenizer, void **scratch)
{
    (void)tokenizer;
    struct ugm_scratch *created = allocate_zeroed(1, sizeof *created);
    if (!created) return fail_memory("tokenizer");
    int status = cache_create(&created->cache);
    if (status)
        free(created);
    else
        *scratch = created;
    return status;
}

static void scratch_destroy(void *scratch)
{
    struct ugm_scratch *destroyed = scratch;
    if (!destroyed) return;
    free(destroyed->text);
    free(destroyed->best);
    cache_destroy(&destroyed->cache);
    free(destroyed);
}

static const struct tokenizer_kind kind = {
    .defaults = defaults,
    .create = create_model,
    .destroy = destroy_model,
    .scratch_create = scratch_create,
    .scratch_destroy = scratch_destroy,
    .encode = ugm_encode,
    .spell = decoder_spell_marked,
    .marks_spaces = true,
};

TOKENIZER_PLUGIN(kind, "ugm", "SentencePiece unigram (T5, XLM-RoBERTa)", "t5")
