/* gemma-embedding.c: EmbeddingGemma: Gemma 3 whose attention sees the whole text, in five of six layers
 * half of attention.sliding_window to either side. The matrices dense_2 and dense_3 follow the pooling
 * (engine/embedding/embedding.h). arXiv 2509.20354. */
#include <math.h>

#include "arch/encoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

struct gemma_embedding {
    struct decoder decoder;
    struct rope local; /* of the layers with a sliding window */
};

static void gemma_embedding_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct gemma_embedding *gemma = hparams;
    struct decoder *d = &gemma->decoder;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    d->both_ways = true;
    d->norms = NORMS_AROUND;
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_TANH);
    d->embedding_scale = sqrtf((float)d->n_embd);
    decoder_read_windows(h, d, 6, false);
    for (uint32_t i = 0; i < d->n_layers; i++)
        if (d->layers[i].window > 0) d->layers[i].window = d->layers[i].window / 2 + 1;
    decoder_local_rope(h, d, &gemma->local, hparams_float_above_0(h, "rope.freq_base_swa", 10000));
    *info = encoder_info(d);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static bool gemma_embedding_applies(const struct hf_config *config)
{
    return json_is_true(hf_get(config->json, "use_bidirectional_attention"));
}

static void gemma_embedding_read_config(struct hf_config *config)
{
    gemma_read_query_scale(config);
    hf_refuse(config, hf_get(config->json, "attn_logit_softcapping") != NULL, "attn_logit_softcapping");
    hf_put_flag(config, "attention.causal", false);
}

static const struct hf_type gemma_embedding_types[] = {
    {.name = "gemma3_text",
     .applies = gemma_embedding_applies,
     .when = "with `use_bidirectional_attention`",
     .keys = {.activation = "hidden_activation",
              .local_theta = "rope_local_base_freq",
              .window_period = "sliding_window_pattern",
              .layer_types = "layer_types"},
     .width = 2304,
     .layers = 26,
     .heads = 8,
     .kv_heads = 4,
     .head_dim = 256,
     .ff = 9216,
     .context = 131072,
     .activation = "gelu_pytorch_tanh",
     .is_tied = true,
     .theta = 1e6,
     .local_theta = 1e4,
     .windows = HF_WINDOWS_PERIOD,
     .window = 4096,
     .window_period = 6,
     .options = {HF_ATTENTION_BIAS},
     .read = gemma_embedding_read_config},
    {0},
};

const struct architecture arch_gemma_embedding = {
    .name = "gemma-embedding",
    .models = "EmbeddingGemma; `dense_2` and `dense_3` follow the pooling",
    .kind = ARCH_ENCODER,
    .size = sizeof(struct gemma_embedding),
    .read = gemma_embedding_read,
    .build = encoder_build_as_decoder,
    .hf = {.types = gemma_embedding_types, .modules = decoder_norms_behind, .norms_add_one = true},
};
