/* phi2.c: Phi 1, 1.5 and 2: blocks that read the same norm of x, rotary positions on a part of each head,
 * biases everywhere. Li et al., arXiv 2309.05463. */
#include <stdio.h>

#include "arch/decoder.h"
#include "arch/families.h"
#include "model/hf/config.h"

static void phi2_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_LAYER, ENGINE_ROPE_HALVES);
    d->activation = decoder_read_activation(h, ENGINE_ACTIVATION_GELU_TANH);
    /* Converters always write 4 * n_embd as the feed-forward length; the matrix has the true one. */
    for (uint32_t i = 0; i < d->n_layers; i++) {
        char name[48];
        snprintf(name, sizeof name, "blk.%u.ffn_up.weight", i);
        const struct model_tensor *up = model_tensor_find(h->model, name);
        if (up && up->ne[1] <= INT32_MAX) d->layers[i].n_ff = (uint32_t)up->ne[1];
    }
    *info = decoder_info(d);
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static void phi2_read_config(struct hf_config *config)
{
    hf_refuse(config, hf_flag(config, config->json, "qk_layernorm", false), "Phi with qk_layernorm");
}

static const struct hf_module phi2_modules[] = {
    {"self_attn.dense", "attn_output"},
    {"mlp.fc1", "ffn_up"},
    {"mlp.fc2", "ffn_down"},
    {0},
};

static const struct hf_type phi2_types[] = {
    {.name = "phi",
     .width = 2048,
     .layers = 24,
     .heads = 32,
     .ff = 8192,
     .context = 2048,
     .epsilon = 1e-5,
     .activation = "gelu_new",
     .rotary = 0.5,
     .read = phi2_read_config},
    {0},
};

static const struct arch_missing phi2_missing[] = {
    {"feed-forward length", "the shape of the matrix: converters write 4 · n_embd", ""},
    {0},
};

const struct architecture arch_phi2 = {
    .name = "phi2",
    .models = "Phi 1 to 2",
    .missing = phi2_missing,
    .size = sizeof(struct decoder),
    .read = phi2_read,
    .build = decoder_build_parallel,
    .hf = {.types = phi2_types, .modules = phi2_modules, .has_layer_norms = true},
};
