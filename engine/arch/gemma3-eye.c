/* gemma3-eye.c: the eye of Gemma 3: SigLIP on pictures of one size, whose patches become rows by their mean
 * over blocks, a norm and a matrix. The rows of a picture see each other in the text. arXiv 2503.19786. */
#include <math.h>

#include "arch/eye.h"
#include "arch/families.h"
#include "model/hf/config.h"

struct gemma3_eye {
    struct eye eye;
    uint32_t side; /* patches of a side */
};

static void gemma3_eye_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct gemma3_eye *gemma = hparams;
    struct eye *eye = &gemma->eye;
    eye_read(h, eye, 1, IMAGE_BILINEAR);
    gemma->side = eye->image_size / eye->patch;
    /* As many rows as are published, unless a directory says otherwise. */
    uint32_t n_rows = hparams_count(h, "engine.rows", 256);
    uint32_t n_side = (uint32_t)sqrt(n_rows + 0.5);
    eye->merge = n_side > 0 ? gemma->side / n_side : 0;
    if (n_side * n_side != n_rows || eye->merge == 0 || eye->merge * n_side != gemma->side ||
        gemma->side * eye->patch != eye->image_size)
        hparams_fail(h, ENGINE_ERROR_DATA, "%u rows do not suit pictures of %u pixels in patches of %u",
                     n_rows, eye->image_size, eye->patch);
    eye_check_side(h, eye, &gemma->side);
    *info = eye_info(eye, gemma->side * gemma->side);
}

/* The mean of the patches of each block, which follow each other: from [n, n_tokens] to [n, n_rows]. */
static struct value *mean_of_blocks(struct graph *g, const struct eye *eye, struct value *x)
{
    const uint64_t n = eye->n_embd, n_each = (uint64_t)eye->merge * eye->merge;
    x = eye_merge(g, eye, x);
    struct value *sum = graph_slice(g, x, 0, n);
    for (uint64_t i = 1; i < n_each; i++) sum = graph_add(g, sum, graph_slice(g, x, i * n, n));
    return graph_scale(g, sum, 1 / (float)n_each);
}

static void gemma3_eye_build(struct graph *g, const void *hparams)
{
    const struct gemma3_eye *gemma = hparams;
    const struct eye *eye = &gemma->eye;
    struct value *x =
        graph_add(g, eye_embed(g, eye), eye_places(g, eye, (uint64_t)gemma->side * gemma->side));
    x = eye_norm(g, eye, "v.post_ln", eye_layers(g, eye, x, NULL));
    x = graph_norm(g, mean_of_blocks(g, eye, x), graph_values(g, eye->n_embd, 1, "mm.soft_emb_norm.weight"),
                   NULL, ENGINE_NORM_RMS, eye->epsilon);
    eye_end(g, eye,
            graph_matmul(g, eye_transposed(g, eye->n_out, eye->n_embd, "mm.input_projection.weight"), x));
}

static int gemma3_eye_look(const void *hparams, const struct image *image, struct sight *sight)
{
    const struct gemma3_eye *gemma = hparams;
    const struct eye *eye = &gemma->eye;
    struct image scaled = {0};
    int status = sight_create(sight, 1);
    if (!status)
        status = image_scale(image, eye->image_size, eye->image_size, (enum image_filter)eye->filter,
                             IMAGE_AS_TORCH, &scaled);
    if (!status) status = eye_cut(eye, &scaled, &sight->pieces[0]);
    if (!status) status = eye_number(&sight->pieces[0], gemma->side);
    if (!status) status = sight_write(sight, "\n\n<start_of_image>");
    if (!status) status = sight_repeat(sight, "<image_soft_token>", sight->pieces[0].n_rows);
    if (!status) status = sight_write(sight, "<end_of_image>\n\n");
    image_free(&scaled);
    return status;
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static void gemma3_eye_read_config(struct hf_config *config)
{
    const json_t *size = hf_get(config->processor, "size");
    uint32_t image_size = hf_count(config, config->json, "image_size", config->type.window);
    hf_put_count(config, "engine.rows", hf_count(config, config->root, "mm_tokens_per_image", 256));
    eye_put_filter(config, IMAGE_BILINEAR);
    hf_refuse(config,
              hf_count(config, size, "height", image_size) != image_size ||
                  hf_count(config, size, "width", image_size) != image_size,
              "a processor's size that is not the eye's image_size");
    hf_refuse(config, hf_flag(config, config->processor, "do_pan_and_scan", false), "do_pan_and_scan");
    eye_put_activation(config, "gelu_pytorch_tanh");
}

static const struct hf_type gemma3_eye_types[] = {
    {.name = "gemma3",
     .width = 768,
     .layers = 12,
     .heads = 12,
     .ff = 3072,
     .context = 16,
     .window = 224,
     .read = gemma3_eye_read_config},
    {0},
};

static const struct hf_module gemma3_eye_outer[] = {
    {"embeddings.patch_embedding", "v.patch_embd"},
    {"embeddings.position_embedding", "v.position_embd"},
    {"post_layernorm", "v.post_ln"},
    {"mm_soft_emb_norm", "mm.soft_emb_norm"},
    {"multi_modal_projector.mm_input_projection_weight", "mm.input_projection"},
    {0},
};

static const struct arch_eye gemma3_sees = {
    .mark = "<start_of_image>",
    .row = "<image_soft_token>",
    .look = gemma3_eye_look,
};

const struct architecture arch_gemma3_eye = {
    .name = "clip",
    .models = "Gemma 3",
    .kind = ARCH_EYE,
    .projector = "gemma3",
    .eye = &gemma3_sees,
    .size = sizeof(struct gemma3_eye),
    .read = gemma3_eye_read,
    .build = gemma3_eye_build,
    .hf = {.types = gemma3_eye_types,
           .modules = eye_siglip_modules,
           .outer = gemma3_eye_outer,
           .prefix = "v.",
           .norms_add_one = true},
};
