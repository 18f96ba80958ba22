/* idefics3-eye.c: the eye of Idefics 3 (arXiv 2408.12637) and SmolVLM: SigLIP on tiles of one size and a
 * thumbnail; a matrix takes blocks of patches, one behind the other. The prompt says each tile's row and
 * column. */
#include <math.h>
#include <stdlib.h>

#include "arch/eye.h"
#include "arch/families.h"
#include "base/error.h"
#include "common/assert.h"
#include "model/hf/config.h"

struct idefics3_eye {
    struct eye eye;
    uint32_t side;    /* patches of a tile's side */
    uint32_t longest; /* pixels to which the longer side of a picture is scaled */
    bool splits;      /* else a picture is its thumbnail alone */
};

#define MAX_LONGEST 4096 /* pixels, a limit of the processor */

static void idefics3_eye_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct idefics3_eye *idefics = hparams;
    struct eye *eye = &idefics->eye;
    eye_read(h, eye, 1, IMAGE_LANCZOS);
    idefics->side = eye->image_size / eye->patch;
    idefics->longest = hparams_count(h, "vision.preproc_image_size", 4 * eye->image_size);
    idefics->splits = hparams_flag(h, "engine.splits", true);
    eye->merge = hparams_count(h, "vision.projector.scale_factor", 2);
    if (eye->merge == 0 || idefics->side == 0 || idefics->side % eye->merge != 0 ||
        idefics->side * eye->patch != eye->image_size)
        hparams_fail(h, ENGINE_ERROR_DATA, "tiles of %u pixels are not whole blocks of %u x %u patches of %u",
                     eye->image_size, eye->merge, eye->merge, eye->patch);
    if (idefics->longest == 0 || idefics->longest > MAX_LONGEST)
        hparams_fail(h, ENGINE_ERROR_UNSUPPORTED,
                     "pictures scaled to %u pixels are not supported; at most %d are", idefics->longest,
                     MAX_LONGEST);
    eye_check_side(h, eye, &idefics->side);
    *info = eye_info(eye, idefics->side * idefics->side);
}

static void idefics3_eye_build(struct graph *g, const void *hparams)
{
    const struct idefics3_eye *idefics = hparams;
    const struct eye *eye = &idefics->eye;
    const uint64_t width = (uint64_t)eye->n_embd * eye->merge * eye->merge;
    struct value *x =
        graph_add(g, eye_embed(g, eye), eye_places(g, eye, (uint64_t)idefics->side * idefics->side));
    x = eye_norm(g, eye, "v.post_ln", eye_layers(g, eye, x, NULL));
    eye_end(g, eye, eye_linear(g, "mm.model.fc", width, eye->n_out, eye_merge(g, eye, x)));
}

/* ---- Pictures ------------------------------------------------------------------------------------------ */

/* The size of a picture whose longer side has `longest` pixels; the shorter one is even. */
static void size_by_longest(const struct image *image, uint32_t longest, uint32_t *width, uint32_t *height)
{
    double ratio = (double)image->width / image->height;
    *width = *height = longest;
    if (image->width >= image->height) {
        *height = (uint32_t)(longest / ratio);
        *height += *height % 2;
    } else {
        *width = (uint32_t)(longest * ratio);
        *width += *width % 2;
    }
    if (*width == 0) *width = 1;
    if (*height == 0) *height = 1;
}

/* Whole tiles, as many as the longer side needs; those of the other side follow from the ratio. */
static void size_by_tiles(uint32_t tile, uint32_t *width, uint32_t *height)
{
    double ratio = (double)*width / *height;
    if (*width >= *height) {
        *width = (*width + tile - 1) / tile * tile;
        *height = (uint32_t)(*width / ratio);
    } else {
        *height = (*height + tile - 1) / tile * tile;
        *width = (uint32_t)(*height * ratio);
    }
    *width = (*width + tile - 1) / tile * tile;
    *height = (*height + tile - 1) / tile * tile;
}

/* The learnt position of a patch in a row or column of n: by the float32 numbers of the published code, which
 * may find the one before. */
static int32_t bucket(uint32_t at, uint32_t n, uint32_t n_table)
{
    float place = (float)at * (1.0f / (float)n);
    int32_t count = 0;
    if (place > 1 - 1e-6f) place = 1 - 1e-6f;
    for (double step = 1.0 / n_table; count < (int32_t)n_table - 1; count++)
        if (!((float)(step + count * step) <= place)) break;
    return count;
}

static int add_tile(const struct idefics3_eye *idefics, const struct image *tile, struct sight_piece *piece)
{
    int status = eye_cut(&idefics->eye, tile, piece);
    if (status) return status;
    piece->places = malloc(piece->n_patches * sizeof *piece->places);
    if (!piece->places) return error_memory("picture");
    for (uint32_t i = 0; i < piece->n_patches; i++)
        piece->places[i] =
            bucket((uint32_t)piece->axes[0][i], idefics->side, idefics->side) * (int32_t)idefics->side +
            bucket((uint32_t)piece->axes[1][i], idefics->side, idefics->side);
    return ENGINE_OK;
}

static const char row_token[] = "<image>";

/* The tiles of a picture of whole ones, and the texts before their rows. */
static int add_tiles(const struct idefics3_eye *idefics, const struct image *whole, struct sight *sight)
{
    const uint32_t size = idefics->eye.image_size, n_rows = whole->height / size,
                   n_columns = whole->width / size;
    int status = ENGINE_OK;
    for (uint32_t row = 0; row < n_rows && !status; row++) {
        for (uint32_t column = 0; column < n_columns && !status; column++) {
            struct image tile = {0};
            struct sight_piece *piece = &sight->pieces[row * n_columns + column];
            status = image_cut(whole, (int64_t)column * size, (int64_t)row * size, size, size, &tile);
            if (!status) status = add_tile(idefics, &tile, piece);
            if (!status)
                status = sight_write(sight, "<fake_token_around_image><row_%u_col_%u>", row + 1, column + 1);
            if (!status) status = sight_repeat(sight, row_token, piece->n_rows);
            image_free(&tile);
        }
        if (!status) status = sight_write(sight, "\n");
    }
    return status ? status : sight_write(sight, "\n");
}

static int idefics3_eye_look(const void *hparams, const struct image *image, struct sight *sight)
{
    const struct idefics3_eye *idefics = hparams;
    const struct eye *eye = &idefics->eye;
    const enum image_filter filter = (enum image_filter)eye->filter;
    struct image first = {0}, whole = {0}, thumbnail = {0};
    uint32_t width, height, size = eye->image_size;
    size_by_longest(image, idefics->longest, &width, &height);
    int status = image_scale(image, width, height, filter, IMAGE_AS_TORCH, &first);
    if (idefics->splits) size_by_tiles(size, &width, &height);
    if (!status && idefics->splits)
        status = image_scale(&first, width, height, filter, IMAGE_AS_TORCH, &whole);
    bool has_tiles = idefics->splits && (width > size || height > size);
    uint32_t n_tiles = has_tiles ? width / size * (height / size) : 0;
    if (!status) status = sight_create(sight, n_tiles + 1);
    if (!status && has_tiles) status = add_tiles(idefics, &whole, sight);
    if (!status)
        status =
            image_scale(idefics->splits ? &whole : &first, size, size, filter, IMAGE_AS_TORCH, &thumbnail);
    if (!status) status = add_tile(idefics, &thumbnail, &sight->pieces[n_tiles]);
    if (!status) status = sight_write(sight, "<fake_token_around_image><global-img>");
    if (!status) status = sight_repeat(sight, row_token, sight->pieces[n_tiles].n_rows);
    if (!status) status = sight_write(sight, "<fake_token_around_image>");
    image_free(&first);
    image_free(&whole);
    image_free(&thumbnail);
    return status;
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static void idefics3_eye_read_config(struct hf_config *config)
{
    const json_t *size = hf_get(config->processor, "size"),
                 *tile = hf_get(config->processor, "max_image_size");
    uint32_t image_size = hf_count(config, config->json, "image_size", 224);
    hf_put_count(config, "vision.projector.scale_factor", hf_count(config, config->root, "scale_factor", 2));
    hf_put_count(config, "vision.preproc_image_size", hf_count(config, size, "longest_edge", 4 * 364));
    hf_put_flag(config, "engine.splits", hf_flag(config, config->processor, "do_image_splitting", true));
    eye_put_filter(config, IMAGE_LANCZOS);
    hf_refuse(config, hf_count(config, tile, "longest_edge", image_size) != image_size,
              "a processor's max_image_size that is not the eye's image_size");
    eye_put_activation(config, "gelu_pytorch_tanh");
}

#define IDEFICS3_EYE(NAME)                                                                                   \
    {                                                                                                        \
        .name = NAME, .width = 1152, .layers = 12, .heads = 16, .ff = 3072, .context = 32, .window = 224,    \
        .read = idefics3_eye_read_config                                                                     \
    }

static const struct hf_type idefics3_eye_types[] = {IDEFICS3_EYE("idefics3"), IDEFICS3_EYE("smolvlm"), {0}};

static const struct hf_module idefics3_eye_outer[] = {
    {"embeddings.patch_embedding", "v.patch_embd"},
    {"embeddings.position_embedding", "v.position_embd"},
    {"post_layernorm", "v.post_ln"},
    {"connector.modality_projection.proj", "mm.model.fc"},
    {0},
};

static const struct arch_eye idefics3_sees = {
    .mark = "<image>",
    .row = row_token,
    .look = idefics3_eye_look,
};

const struct architecture arch_idefics3_eye = {
    .name = "clip",
    .models = "Idefics 3, SmolVLM, SmolVLM 2",
    .kind = ARCH_EYE,
    .projector = "idefics3",
    .eye = &idefics3_sees,
    .size = sizeof(struct idefics3_eye),
    .read = idefics3_eye_read,
    .build = idefics3_eye_build,
    .hf = {.types = idefics3_eye_types,
           .modules = eye_siglip_modules,
           .outer = idefics3_eye_outer,
           .prefix = "v."},
};
