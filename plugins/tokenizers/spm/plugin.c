/* plugin.c: the tokenizer plugin `spm`: SentencePiece's BPE with byte fallback (Kudo, Richardson,
 * arXiv 1808.06226), GGUF's tokenizer.ggml.model "llama". */
#include <string.h>

#include "common/decoder.h"
#include "common/memory.h"
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

static int create(const struct engine_metadata *metadata, struct engine_tokenizer **tokenizer)
{
    return tokenizer_create(&kind, metadata, tokenizer);
}

static const char *const models[] = {"llama", NULL};

static const struct engine_tokenizer_api api = {
    .struct_size = sizeof api,
    .models = models,
    .create = create,
    .destroy = tokenizer_destroy,
    .info = tokenizer_info,
    .encode = tokenizer_encode,
    .piece = tokenizer_piece,
    .attributes = tokenizer_attributes,
    .decoder_create = decoder_create,
    .decoder_destroy = decoder_destroy,
    .decode = decoder_decode,
    .decode_end = decoder_end,
};

static const struct engine_plugin plugin = {
    .struct_size = sizeof plugin,
    .abi_major = ENGINE_ABI_MAJOR,
    .abi_minor = ENGINE_ABI_MINOR,
    .kind = ENGINE_PLUGIN_TOKENIZER,
    .name = "spm",
    .version = "0.1.0",
    .license = "MIT",
    .description = "SentencePiece BPE with byte fallback (Llama, Phi-3, Baichuan)",
    .tokenizers = &api,
};

const struct engine_plugin *engine_plugin_entry(const struct engine_host *services)
{
    host = services;
    return &plugin;
}
