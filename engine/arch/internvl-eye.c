/* internvl-eye.c: the eye of InternVL 2.5 and later (arXiv 2412.05271): a vision transformer with scaled
 * blocks and a class token, on as many tiles as suit the picture's shape, and a thumbnail; 2 x 2 patches
 * one behind the other, a norm, and an MLP. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arch/eye.h"
#include "arch/families.h"
#include "base/error.h"
#include "model/hf/config.h"

#define MAX_TILES 64

struct internvl_eye {
    struct eye eye;
    uint32_t side; /* patches of a tile's side */
    uint32_t n_tiles_least, n_tiles_most;
    bool splits; /* else a picture is one tile */
};

static void internvl_eye_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct internvl_eye *internvl = hparams;
    struct eye *eye = &internvl->eye;
    eye_read(h, eye, 1, IMAGE_BICUBIC);
    internvl->side = eye->image_size / eye->patch;
    internvl->n_tiles_least = hparams_count(h, "engine.tiles_least", 1);
    internvl->n_tiles_most = hparams_count(h, "engine.tiles_most", 12);
    internvl->splits = hparams_flag(h, "engine.splits", true);
    eye->merge = hparams_count(h, "vision.projector.scale_factor", 2);
    if (eye->merge == 0 || internvl->side == 0 || internvl->side % eye->merge != 0 ||
        internvl->side * eye->patch != eye->image_size)
        hparams_fail(h, ENGINE_ERROR_DATA, "tiles of %u pixels are not whole blocks of %u x %u patches of %u",
                     eye->image_size, eye->merge, eye->merge, eye->patch);
    if (internvl->n_tiles_least == 0 || internvl->n_tiles_least > internvl->n_tiles_most ||
        internvl->n_tiles_most > MAX_TILES)
        hparams_fail(h, ENGINE_ERROR_UNSUPPORTED, "%u to %u tiles are not supported; 1 to %d are",
                     internvl->n_tiles_least, internvl->n_tiles_most, MAX_TILES);
    eye_check_side(h, eye, &internvl->side);
    *info = eye_info(eye, internvl->side * internvl->side + eye->merge * eye->merge);
}

/* The class token's vector; llama.cpp's name has no end. */
static const char *class_name(const struct graph *g)
{
    return graph_find(g, "v.class_embd") ? "v.class_embd" : "v.class_embd.weight";
}

struct places {
    const struct graph *g;
    uint64_t width;
    float *row; /* [width], what is being added */
};

/* The class token is a patch of zeros behind the others: its place has its vector, less the patches' bias. */
static void fill_places(const void *user, float *values, uint64_t n)
{
    const struct places *places = user;
    const struct graph *g = places->g;
    const struct model_tensor *bias = graph_find(g, "v.patch_embd.bias");
    (void)n;
    eye_read_values(graph_find(g, "v.position_embd.weight"), values);
    eye_read_values(graph_find(g, "%s", class_name(g)), places->row);
    for (uint64_t i = 0; i < places->width; i++) values[i] += places->row[i];
    if (!bias) return;
    eye_read_values(bias, places->row);
    for (uint64_t i = 0; i < places->width; i++) values[i] -= places->row[i];
}

static struct value *internvl_places(struct graph *g, const struct internvl_eye *internvl)
{
    const uint64_t width = internvl->eye.n_embd, n = (uint64_t)internvl->side * internvl->side + 1;
    if (!eye_has_values(g, "v.position_embd.weight", width * n) || !eye_has_values(g, class_name(g), width))
        return NULL;
    if (graph_find(g, "v.patch_embd.bias") && !eye_has_values(g, "v.patch_embd.bias", width)) return NULL;
    struct places places = {g, width, eye_row(g, width)};
    if (!places.row) return NULL;
    struct value *table = graph_number_rows(g, width, n, "v.position_embd.whole", fill_places, &places);
    free(places.row);
    return graph_get_rows(g, table, graph_input(g, INPUT_POSITION_ROWS));
}

static void internvl_eye_build(struct graph *g, const void *hparams)
{
    const struct internvl_eye *internvl = hparams;
    const struct eye *eye = &internvl->eye;
    const uint64_t width = (uint64_t)eye->n_embd * eye->merge * eye->merge;
    struct value *x = graph_add(g, eye_embed(g, eye), internvl_places(g, internvl));
    x = eye_merge(g, eye, eye_layers(g, eye, x, NULL));
    x = graph_norm(g, x, graph_values(g, width, 1, "mm.model.mlp.0.weight"),
                   graph_values(g, width, 1, "mm.model.mlp.0.bias"), ENGINE_NORM_LAYER, 1e-5f);
    x = eye_linear(g, "mm.model.mlp.1", width, eye->n_out, x);
    x = graph_activate(g, x, NULL, ENGINE_ACTIVATION_GELU_ERF);
    eye_end(g, eye, eye_linear(g, "mm.model.mlp.3", eye->n_out, eye->n_out, x));
}

/* ---- Pictures ------------------------------------------------------------------------------------------ */

/* The columns and rows of tiles whose shape is nearest to the picture's: of equally near ones the largest, as
 * long as the picture has more than half of its pixels. */
static void choose_tiles(const struct internvl_eye *internvl, const struct image *image, uint32_t *n_columns,
                         uint32_t *n_rows)
{
    const double ratio = (double)image->width / image->height, area = (double)image->width * image->height,
                 tile = (double)internvl->eye.image_size * internvl->eye.image_size;
    double best = DBL_MAX;
    *n_columns = *n_rows = 1;
    for (uint32_t n = internvl->n_tiles_least; n <= internvl->n_tiles_most; n++)
        for (uint32_t columns = 1; columns <= n; columns++) {
            if (n % columns != 0) continue;
            const uint32_t rows = n / columns;
            double difference = fabs(ratio - (double)columns / rows);
            bool is_larger = difference <= best && area > 0.5 * tile * n;
            if (!(difference < best) && !is_larger) continue;
            best = difference;
            *n_columns = columns;
            *n_rows = rows;
        }
}

/* A tile with its class token. */
static int add_tile(const struct internvl_eye *internvl, const struct image *tile, struct sight_piece *piece)
{
    const struct eye *eye = &internvl->eye;
    int status = eye_cut(eye, tile, piece);
    if (!status) status = eye_number(piece, internvl->side);
    if (!status) status = eye_add_patch(eye, piece);
    for (uint32_t i = 0; i < piece->n_patches && !status; i++)
        piece->places[i] = i + 1 < piece->n_patches ? piece->places[i] + 1 : 0;
    return status;
}

static int internvl_eye_look(const void *hparams, const struct image *image, struct sight *sight)
{
    const struct internvl_eye *internvl = hparams;
    const struct eye *eye = &internvl->eye;
    const enum image_filter filter = (enum image_filter)eye->filter;
    const uint32_t size = eye->image_size;
    uint32_t n_columns = 1, n_rows = 1;
    struct image whole = {0}, thumbnail = {0};
    if (internvl->splits) choose_tiles(internvl, image, &n_columns, &n_rows);
    const uint32_t n = n_columns * n_rows;
    int status = sight_create(sight, n > 1 ? n + 1 : 1);
    if (!status) status = image_scale(image, n_columns * size, n_rows * size, filter, IMAGE_AS_TORCH, &whole);
    for (uint32_t i = 0; i < n && !status; i++) {
        struct image tile = {0};
        status = image_cut(&whole, (int64_t)(i % n_columns) * size, (int64_t)(i / n_columns) * size, size,
                           size, &tile);
        if (!status) status = add_tile(internvl, &tile, &sight->pieces[i]);
        image_free(&tile);
    }
    if (!status && n > 1) status = image_scale(image, size, size, filter, IMAGE_AS_TORCH, &thumbnail);
    if (!status && n > 1) status = add_tile(internvl, &thumbnail, &sight->pieces[n]);
    if (!status) status = sight_write(sight, "<img>");
    if (!status) status = sight_repeat(sight, "<IMG_CONTEXT>", sight->pieces[0].n_rows * sight->n_pieces);
    if (!status) status = sight_write(sight, "</img>");
    image_free(&whole);
    image_free(&thumbnail);
    return status;
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static void internvl_eye_read_config(struct hf_config *config)
{
    const json_t *processor = config->processor;
    const char *norm = hf_text(config, config->json, "norm_type");
    double ratio = hf_number(config, config->root, "downsample_ratio", 0.5);
    hf_put_count(config, "vision.projector.scale_factor", ratio > 0.01 ? (uint32_t)(1 / ratio) : 0);
    hf_put_count(config, "engine.tiles_least", hf_count(config, processor, "min_patches", 1));
    hf_put_count(config, "engine.tiles_most", hf_count(config, processor, "max_patches", 12));
    hf_put_flag(config, "engine.splits", hf_flag(config, processor, "crop_to_patches", false));
    eye_refuse_projectors(config);
    hf_refuse(config, norm && strcmp(norm, "layer_norm") != 0, "a norm_type but layer_norm");
    hf_refuse(config, hf_flag(config, config->json, "use_qk_norm", false), "use_qk_norm");
    hf_refuse(config, !hf_flag(config, config->json, "use_mean_pooling", true),
              "an eye without use_mean_pooling");
    hf_refuse(config, !hf_flag(config, config->json, "use_absolute_position_embeddings", true),
              "an eye without use_absolute_position_embeddings");
    eye_put_filter(config, IMAGE_BICUBIC);
    eye_put_activation(config, "gelu");
}

static const struct hf_type internvl_eye_types[] = {
    {.name = "internvl",
     .width = 1024,
     .layers = 24,
     .heads = 16,
     .ff = 4096,
     .context = 14,
     .window = 448,
     .read = internvl_eye_read_config},
    {0},
};

static const struct hf_module internvl_eye_modules[] = {
    {"attention.q_proj", "attn_q"},
    {"attention.k_proj", "attn_k"},
    {"attention.v_proj", "attn_v"},
    {"attention.projection_layer", "attn_out"},
    {"layernorm_before", "ln1"},
    {"layernorm_after", "ln2"},
    {"mlp.fc1", "ffn_up"},
    {"mlp.fc2", "ffn_down"},
    {"lambda_1", "ls1"},
    {"lambda_2", "ls2"},
    {0},
};

static const struct hf_module internvl_eye_outer[] = {
    {"patch_embeddings.projection", "v.patch_embd"},
    {"embeddings.position_embeddings", "v.position_embd"},
    {"embeddings.cls_token", "v.class_embd"},
    {"multi_modal_projector.layer_norm", "mm.model.mlp.0"},
    {"multi_modal_projector.linear_1", "mm.model.mlp.1"},
    {"multi_modal_projector.linear_2", "mm.model.mlp.3"},
    {0},
};

static const struct arch_eye internvl_sees = {
    .mark = "<IMG_CONTEXT>",
    .row = "<IMG_CONTEXT>",
    .look = internvl_eye_look,
};

const struct architecture arch_internvl_eye = {
    .name = "clip",
    .models = "InternVL 2.5, 3, 3.5",
    .kind = ARCH_EYE,
    .projector = "internvl",
    .eye = &internvl_sees,
    .size = sizeof(struct internvl_eye),
    .read = internvl_eye_read,
    .build = internvl_eye_build,
    .hf = {.types = internvl_eye_types,
           .modules = internvl_eye_modules,
           .outer = internvl_eye_outer,
           .prefix = "v."},
};
