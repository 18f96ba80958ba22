/* plugin.c: the tokenizer plugin `bpe`: byte-level byte-pair encoding as GPT-2 brought it up (Radford et al.
 * 2019), GGUF's tokenizer.ggml.model "gpt2", and its offspring over characters, "gemma4". */
#include "common/plugin.h"
#include "bpe/model.h"
#include "bpe/pretokenizers.h"

static size_t bpe_spell(const struct engine_tokenizer *tokenizer, int32_t id, char *text)
{
    const struct bpe_model *model = tokenizer->model;
    if (model->flags & PRE_CHARACTERS) return decoder_spell_marked(tokenizer, id, text);
    return spell_piece(tokenizer->vocab.pieces[id], text);
}

static const struct tokenizer_kind kind = {
    .defaults = bpe_defaults,
    .create = bpe_create,
    .destroy = bpe_destroy,
    .scratch_create = bpe_scratch_create,
    .scratch_destroy = bpe_scratch_destroy,
    .encode = bpe_encode,
    .spell = bpe_spell,
};

TOKENIZER_PLUGIN(kind, "bpe", "Byte-level BPE (GPT-2, Llama 3, Qwen, Falcon, DeepSeek and many others)",
                 "gpt2", "gemma4")
