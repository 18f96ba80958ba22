/* plugin.c: the tokenizer plugin `hf`: what Hugging Face's tokenizer.json says, part by part. It serves
 * models whose metadata have tokenizer.engine.model "hf"; the model's directory is read into them. */
#include "plugin-api.h"

#include <stdlib.h>

#include "common/memory.h"
#include "hf/pipeline.h"

static void hf_destroy(struct engine_tokenizer *tokenizer)
{
    if (!tokenizer) return;
    workspace_destroy(tokenizer->idle);
    pipeline_destroy(tokenizer->model);
    vocab_close(&tokenizer->vocab);
    free(tokenizer);
}

static int hf_create(const struct engine_metadata *metadata, struct engine_tokenizer **tokenizer)
{
    struct engine_tokenizer *created = allocate_zeroed(1, sizeof *created);
    if (!created) return fail_memory("tokenizer");
    struct vocab_defaults defaults = {-1, -1, -1, -1, -1, false, false, false, false, "tokenizer.hf.tokens"};
    int status = vocab_open(&created->vocab, metadata, &defaults);
    if (!status) status = pipeline_create(created, metadata);
    if (status)
        hf_destroy(created);
    else
        *tokenizer = created;
    return status;
}

static const char *const models[] = {"hf", NULL};

static const struct engine_tokenizer_api api = {
    .struct_size = sizeof api,
    .models = models,
    .create = hf_create,
    .destroy = hf_destroy,
    .info = tokenizer_info,
    .encode = hf_encode,
    .piece = tokenizer_piece,
    .attributes = tokenizer_attributes,
    .decoder_create = hf_decoder_create,
    .decoder_destroy = hf_decoder_destroy,
    .decode = hf_decode,
    .decode_end = hf_decode_end,
    .explain = hf_explain,
};

const struct engine_plugin *engine_plugin_entry(const struct engine_host *services)
{
    static const struct engine_plugin plugin = {
        .struct_size = sizeof plugin,
        .abi_major = ENGINE_ABI_MAJOR,
        .abi_minor = ENGINE_ABI_MINOR,
        .kind = ENGINE_PLUGIN_TOKENIZER,
        .name = "hf",
        .version = "0.1.0",
        .license = "MIT",
        .description = "Hugging Face's tokenizer.json, part by part",
        .tokenizers = &api,
    };
    host = services;
    return &plugin;
}
