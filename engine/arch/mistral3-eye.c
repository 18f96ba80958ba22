/* mistral3-eye.c: the eye of Mistral 3, Pixtral's (arXiv 2410.07073): pictures of any size up to a longest
 * side, positions by rotation in two dimensions, 2 x 2 patches merged by a matrix, and an MLP. In the
 * prompt a token ends each row of the picture. */
#include <math.h>
#include <string.h>

#include "arch/eye.h"
#include "arch/families.h"
#include "model/hf/config.h"

struct mistral3_eye {
    struct eye eye;
    uint32_t longest; /* pixels of the longer side, at most */
    float projector_epsilon;
};

static void mistral3_eye_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct mistral3_eye *mistral = hparams;
    struct eye *eye = &mistral->eye;
    eye_read(h, eye, 2, IMAGE_BICUBIC);
    eye->norm = ENGINE_NORM_RMS;
    eye->theta = hparams_float_above_0(h, "engine.rope_theta", 10000);
    eye->is_staggered = true;
    mistral->longest = hparams_count(h, "engine.longest", eye->image_size);
    mistral->projector_epsilon = hparams_float_from_0(h, "engine.projector_epsilon", 1e-5f);
    uint32_t block = eye->patch * eye->merge, side = mistral->longest / block;
    if (side == 0 || side > 1024)
        hparams_fail(h, ENGINE_ERROR_DATA, "pictures of up to %u pixels do not suit blocks of %u",
                     mistral->longest, block);
    side = (mistral->longest + block - 1) / block * eye->merge;
    eye_check_side(h, eye, &side);
    *info = eye_info(eye, side * side);
}

static void mistral3_eye_build(struct graph *g, const void *hparams)
{
    const struct mistral3_eye *mistral = hparams;
    const struct eye *eye = &mistral->eye;
    struct value *x = eye_norm(g, eye, "v.pre_ln", eye_embed(g, eye));
    x = eye_layers(g, eye, x, eye_rotate);
    x = graph_norm(g, x, graph_values(g, eye->n_embd, 1, "mm.input_norm.weight"), NULL, ENGINE_NORM_RMS,
                   mistral->projector_epsilon);
    x = graph_matmul(g, eye_unfolded(g, eye, "mm.patch_merger.weight"), eye_merge(g, eye, x));
    x = eye_linear(g, "mm.1", eye->n_embd, eye->n_out, x);
    x = graph_activate(g, x, NULL, ENGINE_ACTIVATION_GELU_ERF);
    eye_end(g, eye, eye_linear(g, "mm.2", eye->n_out, eye->n_out, x));
}

static int mistral3_eye_look(const void *hparams, const struct image *image, struct sight *sight)
{
    const struct mistral3_eye *mistral = hparams;
    const struct eye *eye = &mistral->eye;
    struct image scaled = {0};
    uint32_t block = eye->patch * eye->merge, width = image->width, height = image->height;
    double longest = mistral->longest, ratio = fmax(height / longest, width / longest);
    if (ratio > 1) {
        height = (uint32_t)floor(height / ratio);
        width = (uint32_t)floor(width / ratio);
    }
    const uint32_t n_rows = height > 0 ? (height - 1) / block + 1 : 1,
                   n_columns = width > 0 ? (width - 1) / block + 1 : 1;
    int status = sight_create(sight, 1);
    if (!status)
        status = image_scale(image, n_columns * block, n_rows * block, (enum image_filter)eye->filter,
                             IMAGE_AS_TORCH, &scaled);
    if (!status) status = eye_cut(eye, &scaled, &sight->pieces[0]);
    for (uint32_t row = 0; row < n_rows && !status; row++) {
        status = sight_repeat(sight, "[IMG]", n_columns);
        if (!status) status = sight_write(sight, row + 1 < n_rows ? "[IMG_BREAK]" : "[IMG_END]");
    }
    image_free(&scaled);
    return status;
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static void mistral3_eye_read_config(struct hf_config *config)
{
    const json_t *text = hf_get(config->root, "text_config"), *rope = hf_get(config->json, "rope_parameters");
    hf_put_count(config, "vision.spatial_merge_size",
                 hf_count(config, config->root, "spatial_merge_size", 2));
    hf_put_count(config, "engine.longest",
                 hf_count(config, hf_get(config->processor, "size"), "longest_edge", 1024));
    hf_put_float(config, "engine.rope_theta",
                 hf_number(config, rope ? rope : config->json, "rope_theta", 1e4));
    hf_put_float(config, "engine.projector_epsilon", hf_number(config, text, "rms_norm_eps", 1e-6));
    eye_refuse_projectors(config);
    eye_put_filter(config, IMAGE_BICUBIC);
    eye_put_activation(config, "gelu");
}

static const struct hf_type mistral3_eye_types[] = {
    {.name = "mistral3",
     .width = 1024,
     .layers = 24,
     .heads = 16,
     .ff = 4096,
     .context = 16,
     .window = 1024,
     .epsilon = 1e-5,
     .read = mistral3_eye_read_config},
    {0},
};

static const struct hf_module mistral3_eye_modules[] = {
    {"attention.q_proj", "attn_q"},
    {"attention.k_proj", "attn_k"},
    {"attention.v_proj", "attn_v"},
    {"attention.o_proj", "attn_out"},
    {"attention_norm", "ln1"},
    {"ffn_norm", "ln2"},
    {"feed_forward.gate_proj", "ffn_gate"},
    {"feed_forward.up_proj", "ffn_up"},
    {"feed_forward.down_proj", "ffn_down"},
    {0},
};

static const struct hf_module mistral3_eye_outer[] = {
    {"patch_conv", "v.patch_embd"},
    {"ln_pre", "v.pre_ln"},
    {"patch_merger.merging_layer", "mm.patch_merger"},
    {"multi_modal_projector.norm", "mm.input_norm"},
    {"multi_modal_projector.linear_1", "mm.1"},
    {"multi_modal_projector.linear_2", "mm.2"},
    {0},
};

static const struct arch_eye mistral3_sees = {.mark = "[IMG]", .row = "[IMG]", .look = mistral3_eye_look};

const struct architecture arch_mistral3_eye = {
    .name = "clip",
    .models = "Mistral 3",
    .kind = ARCH_EYE,
    .projector = "pixtral",
    .eye = &mistral3_sees,
    .size = sizeof(struct mistral3_eye),
    .read = mistral3_eye_read,
    .build = mistral3_eye_build,
    .hf = {.types = mistral3_eye_types,
           .modules = mistral3_eye_modules,
           .outer = mistral3_eye_outer,
           .prefix = "v."},
};
