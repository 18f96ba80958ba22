/* plugin.c: the tokenizer plugin `wpm`: BERT's WordPiece (Devlin, Chang, Lee, Toutanova, arXiv 1810.04805),
 * GGUF's tokenizer.ggml.model "bert". */
#include "common/plugin.h"

#include <stdlib.h>

#include "wpm/model.h"

static int defaults(const struct engine_metadata *metadata, struct vocab_defaults *out)
{
    (void)metadata;
    out->bos = 101; /* [CLS] */
    out->unknown = 100;
    out->separator = 102;
    out->padding = 0;
    out->add_bos = true;
    out->add_separator = true;
    return ENGINE_OK;
}

static bool flag(const struct engine_metadata *metadata, const char *key, bool preset)
{
    int value;
    return metadata->get_boolean(metadata->context, key, &value) ? preset : value != 0;
}

static int create_model(struct engine_tokenizer *tokenizer, const struct engine_metadata *metadata)
{
    struct vocab *vocab = &tokenizer->vocab;
    struct wpm_model *model = allocate_zeroed(1, sizeof *model);
    if (!model) return fail_memory("vocabulary");
    tokenizer->model = model;
    if (vocab->unknown < 0) return host->fail(ENGINE_ERROR_DATA, "the vocabulary has no unknown token");
    vocab->add_space_prefix = true; /* every word has a leading space, so decoding drops the first one's */
    model->lowercase = flag(metadata, "tokenizer.ggml.normalizer.lowercase", true);
    model->strip_accents = flag(metadata, "tokenizer.ggml.normalizer.strip_accents", model->lowercase);

    size_t bytes = 0;
    for (uint32_t id = 0; id < vocab->n_tokens; id++) bytes += vocab->pieces[id].length;
    int status = wpm_assign_roles(model);
    if (!status) status = longest_create(&model->longest, bytes);
    for (uint32_t id = 0; !status && id < vocab->n_tokens; id++)
        status = trie_insert(&model->longest.trie, vocab->pieces[id].data, vocab->pieces[id].length, false,
                             id, NULL);
    return status ? status : longest_link(&model->longest, vocab->n_tokens);
}

static void destroy_model(struct engine_tokenizer *tokenizer)
{
    struct wpm_model *model = tokenizer->model;
    if (!model) return;
    longest_destroy(&model->longest);
    free(model->roles);
    free(model);
}

static const struct tokenizer_kind kind = {
    .defaults = defaults,
    .create = create_model,
    .destroy = destroy_model,
    .scratch_create = wpm_scratch_create,
    .scratch_destroy = wpm_scratch_destroy,
    .encode = wpm_encode,
    .spell = decoder_spell_marked,
    .marks_spaces = true,
};

TOKENIZER_PLUGIN(kind, "wpm", "BERT's WordPiece", "bert")
