/* plugin.c: the tokenizer plugin `spm`: SentencePiece's BPE with byte fallback (Kudo, Richardson,
 * arXiv 1808.06226), GGUF's tokenizer.ggml.model "llama". */
#include <string.h>

#include "common/plugin.h"
#include "common/utf8.h"
#include "spm/model.h"

static int defaults(const struct engine_metadata *metadata, struct vocab_defaults *out)
{
    (void)metadata;
    out->unknown = 0;
    out->bos = 1;
    out->eos = 2;
    out->add_bos = true;
    out->add_space_prefix = true;
    return ENGINE_OK;
}

static const struct tokenizer_kind kind = {
    .defaults = defaults,
    .create = spm_create,
    .destroy = spm_destroy,
    .scratch_create = spm_scratch_create,
    .scratch_destroy = spm_scratch_destroy,
    .encode = spm_encode,
    .spell = decoder_spell_marked,
    .marks_spaces = true,
};

TOKENIZER_PLUGIN(kind, "spm", "SentencePiece BPE with byte fallback (Llama, Phi-3, Baichuan)", "llama")
