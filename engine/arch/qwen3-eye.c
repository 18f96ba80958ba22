/* qwen3-eye.c: the eye of Qwen 3-VL and 3.5: pictures of any size within a budget of pixels, learnt
 * positions interpolated to their grid and rotation in two dimensions, 2 x 2 patches merged by an MLP.
 * Qwen 3-VL's rows also have what its first layers' patches become, for the text's first layers
 * (DeepStack, arXiv 2406.04334). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/eye.h"
#include "arch/families.h"
#include "base/error.h"
#include "common/assert.h"
#include "model/hf/config.h"

#define MAX_PATCHES 16384
#define MAX_RATIO   200 /* of a picture's sides */
#define MAX_DEEP    16

struct qwen3_eye {
    struct eye eye;
    uint32_t side; /* of the grid of learnt positions */
    uint32_t n_deep;
    uint32_t deep[MAX_DEEP];            /* [n_deep] layers, ascending */
    uint32_t pixels_least, pixels_most; /* of a scaled picture, unless it is thin */
    uint32_t n_patches;                 /* at most */
};

/* Patches of the largest picture that choose_size gives. Sides are whole blocks: a thin picture has more
 * pixels than the budget, one that is made larger up to a block more on each side. */
static uint32_t most_patches(const struct qwen3_eye *qwen)
{
    const double patch = qwen->eye.patch, block = patch * qwen->eye.merge;
    const double most = qwen->pixels_most, least = qwen->pixels_least;
    double thin = block * sqrt(MAX_RATIO * most);
    double grown = least + block * sqrt(least) * (sqrt(MAX_RATIO) + 1) + block * block;
    return (uint32_t)fmin(MAX_PATCHES, fmax(most, fmax(thin, grown)) / (patch * patch));
}

static void qwen3_eye_read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct qwen3_eye *qwen = hparams;
    struct eye *eye = &qwen->eye;
    eye_read(h, eye, 2, IMAGE_BICUBIC);
    eye->theta = 10000;
    eye->n_frames = hparams_count(h, "engine.frames", 1);
    qwen->side = hparams_count(h, "engine.side", eye->image_size / eye->patch);
    for (uint32_t i = 0; i < eye->n_layers && !h->status; i++) {
        if (!hparams_count_in(h, "vision.is_deepstack_layers", i)) continue;
        if (qwen->n_deep == MAX_DEEP)
            hparams_fail(h, ENGINE_ERROR_UNSUPPORTED, "more than %d deepstack layers", MAX_DEEP);
        else
            qwen->deep[qwen->n_deep++] = i;
    }
    qwen->pixels_least = hparams_count(h, "engine.pixels_least", 65536);
    uint32_t most = hparams_count(h, "engine.pixels_most", 16777216), area = eye->patch * eye->patch;
    if (qwen->pixels_least > most)
        hparams_fail(h, ENGINE_ERROR_DATA, "pictures of at least %u pixels and at most %u",
                     qwen->pixels_least, most);
    if (most / area > MAX_PATCHES) most = MAX_PATCHES * area;
    qwen->pixels_most = most;
    if (qwen->side == 0 || qwen->side > 1024 || eye->n_frames == 0 || eye->n_frames > 16 ||
        most < (uint64_t)area * eye->merge * eye->merge)
        hparams_fail(h, ENGINE_ERROR_DATA, "%u positions a side and %u pixels do not suit patches of %u",
                     qwen->side, most, eye->patch);
    qwen->n_patches = h->status ? 1 : most_patches(qwen);
    *info = eye_info(eye, qwen->n_patches);
    info->row_width += qwen->side * qwen->side; /* how much of each learnt position a patch has */
    info->n_embd = eye->n_out * (1 + qwen->n_deep);
}

/* What the patches of a row become: `norm` is of each patch, or of all of a row. */
static struct value *merge_rows(struct graph *g, const struct eye *eye, const char *fc1, const char *fc2,
                                struct value *x)
{
    const uint64_t width = (uint64_t)eye->n_embd * eye->merge * eye->merge;
    x = graph_activate(g, eye_linear(g, fc1, width, width, x), NULL, ENGINE_ACTIVATION_GELU_ERF);
    return eye_linear(g, fc2, width, eye->n_out, x);
}

static struct value *deep_rows(struct graph *g, const struct eye *eye, uint32_t number, struct value *x)
{
    char norm[48], fc1[48], fc2[48];
    const uint32_t layer = g->layer;
    snprintf(norm, sizeof norm, "v.deepstack.%u.norm", number);
    snprintf(fc1, sizeof fc1, "v.deepstack.%u.fc1", number);
    snprintf(fc2, sizeof fc2, "v.deepstack.%u.fc2", number);
    g->layer = NO_LAYER;
    x = merge_rows(g, eye, fc1, fc2, eye_norm(g, eye, norm, eye_merge(g, eye, x)));
    g->layer = layer;
    return x;
}

static void qwen3_eye_build(struct graph *g, const void *hparams)
{
    const struct qwen3_eye *qwen = hparams;
    const struct eye *eye = &qwen->eye;
    const uint64_t n_places = (uint64_t)qwen->side * qwen->side;
    struct value *rows = graph_input(g, INPUT_ROWS), *parts[1 + MAX_DEEP];
    const uint64_t width = g->shape.row_width - n_places;
    struct value *places = graph_matmul(g, eye_transposed(g, eye->n_embd, n_places, "v.position_embd.weight"),
                                        graph_slice(g, rows, width, n_places));
    struct value *x = graph_add(g, eye_embed_rows(g, eye, graph_slice(g, rows, 0, width)), places);
    uint32_t n = 1;
    for (g->layer = 0; g->layer < eye->n_layers; g->layer++) {
        x = eye_layer(g, eye, x, eye_rotate);
        if (n <= qwen->n_deep && qwen->deep[n - 1] == g->layer) {
            parts[n] = deep_rows(g, eye, n - 1, x);
            n++;
        }
    }
    g->layer = NO_LAYER;
    parts[0] = merge_rows(g, eye, "mm.0", "mm.2", eye_merge(g, eye, eye_norm(g, eye, "v.post_ln", x)));
    eye_end(g, eye, graph_join(g, parts, n));
}

/* ---- Pictures ------------------------------------------------------------------------------------------ */

/* As many pixels as the budget allows, in whole blocks, near the picture's shape. */
static int choose_size(const struct qwen3_eye *qwen, const struct image *image, uint32_t *width,
                       uint32_t *height)
{
    const double w = image->width, h = image->height, block = (double)qwen->eye.patch * qwen->eye.merge;
    if (fmax(w, h) / fmin(w, h) > MAX_RATIO)
        return error_raise(ENGINE_ERROR_UNSUPPORTED, "a picture of %u x %u pixels is too thin", image->width,
                           image->height);
    double x = nearbyint(w / block) * block, y = nearbyint(h / block) * block; /* halves to even */
    if (x * y > qwen->pixels_most) {
        double beta = sqrt(h * w / qwen->pixels_most);
        y = fmax(block, floor(h / beta / block) * block);
        x = fmax(block, floor(w / beta / block) * block);
    } else if (x * y < qwen->pixels_least) {
        double beta = sqrt(qwen->pixels_least / (h * w));
        y = ceil(h * beta / block) * block;
        x = ceil(w * beta / block) * block;
    }
    x = fmax(block, x);
    y = fmax(block, y);
    *width = (uint32_t)x;
    *height = (uint32_t)y;
    if (x / qwen->eye.patch * (y / qwen->eye.patch) <= qwen->n_patches) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_UNSUPPORTED, "a picture of %u x %u pixels has too many patches",
                       image->width, image->height);
}

/* Where a patch of n lies between `side` learnt positions: linspace in float32, from both ends. */
static void place_of(uint32_t at, uint32_t n, uint32_t side, uint32_t *low, float *fraction)
{
    float step = n > 1 ? (float)(side - 1) / (float)(n - 1) : 0, end = (float)(side - 1);
    float place = at < n / 2 ? step * (float)at : end - step * (float)(n - 1 - at);
    if (n == 1) place = 0;
    *low = (uint32_t)place;
    *fraction = place - (float)*low;
}

/* Adds to each patch's numbers how much of each learnt position it has. */
static int add_places(const struct qwen3_eye *qwen, uint32_t n_rows, uint32_t n_columns,
                      struct sight_piece *piece)
{
    const size_t side = qwen->side, n_places = side * side, p = qwen->eye.patch,
                 width = p * p * 3 * qwen->eye.n_frames;
    float *patches = calloc(piece->n_patches * (width + n_places), sizeof *patches);
    if (!patches) return error_memory("picture");
    for (uint32_t i = 0; i < piece->n_patches; i++) {
        float *to = patches + i * (width + n_places), y, x;
        uint32_t row, column;
        memcpy(to, piece->patches + i * width, width * sizeof *to);
        place_of((uint32_t)piece->axes[0][i], n_rows, qwen->side, &row, &y);
        place_of((uint32_t)piece->axes[1][i], n_columns, qwen->side, &column, &x);
        const uint32_t below = row + 1 < side ? row + 1 : row,
                       right = column + 1 < side ? column + 1 : column;
        to[width + row * side + column] += (1 - y) * (1 - x);
        to[width + row * side + right] += (1 - y) * x;
        to[width + below * side + column] += y * (1 - x);
        to[width + below * side + right] += y * x;
    }
    free(piece->patches);
    piece->patches = patches;
    return ENGINE_OK;
}

static int qwen3_eye_look(const void *hparams, const struct image *image, struct sight *sight)
{
    const struct qwen3_eye *qwen = hparams;
    const struct eye *eye = &qwen->eye;
    struct image scaled = {0};
    uint32_t width = 0, height = 0;
    int status = choose_size(qwen, image, &width, &height);
    if (!status) status = sight_create(sight, 1);
    if (!status)
        status = image_scale(image, width, height, (enum image_filter)eye->filter, IMAGE_AS_TORCH, &scaled);
    if (!status) status = eye_cut(eye, &scaled, &sight->pieces[0]);
    if (!status) status = add_places(qwen, height / eye->patch, width / eye->patch, &sight->pieces[0]);
    if (!status) status = sight_repeat(sight, "<|image_pad|>", sight->pieces[0].n_rows);
    if (!status) {
        sight->grid[0] = height / eye->patch / eye->merge;
        sight->grid[1] = width / eye->patch / eye->merge;
    }
    image_free(&scaled);
    return status;
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

static void qwen3_eye_read_config(struct hf_config *config)
{
    const json_t *size = hf_get(config->processor, "size"), *deep, *number;
    uint32_t flags[HF_MAX_LAYERS] = {0}, n = hf_count(config, config->json, "num_position_embeddings", 2304),
             side = (uint32_t)sqrt(n + 0.5);
    size_t i;
    deep = hf_get(config->json, "deepstack_visual_indexes");
    json_array_foreach((json_t *)(uintptr_t)deep, i, number)
    {
        json_int_t layer = json_is_integer(number) ? json_integer_value(number) : -1;
        if (layer < 0 || layer >= (json_int_t)config->n_layers)
            hf_fail(config, ENGINE_ERROR_DATA, "deepstack_visual_indexes has something else than layers");
        else
            flags[layer] = 1;
    }
    hf_put_counts(config, "vision.is_deepstack_layers", flags, config->n_layers);
    hf_refuse(config, side * side != n, "num_position_embeddings that are no square");
    hf_put_count(config, "engine.side", side);
    hf_put_count(config, "vision.spatial_merge_size",
                 hf_count(config, config->json, "spatial_merge_size", 2));
    hf_put_count(config, "engine.frames", hf_count(config, config->json, "temporal_patch_size", 2));
    hf_put_count(config, "engine.pixels_least", hf_count(config, size, "shortest_edge", 65536));
    hf_put_count(config, "engine.pixels_most", hf_count(config, size, "longest_edge", 16777216));
    eye_put_filter(config, IMAGE_BICUBIC);
    eye_put_activation(config, "gelu_pytorch_tanh");
}

#define QWEN3_EYE(NAME)                                                                                      \
    {                                                                                                        \
        .name = NAME, .keys = {.layers = "depth", .heads = "num_heads"}, .width = 1152, .layers = 27,        \
        .heads = 16, .ff = 4304, .context = 16, .window = 768, .read = qwen3_eye_read_config                 \
    }

static const struct hf_type qwen3_eye_types[] = {
    QWEN3_EYE("qwen3_vl"), QWEN3_EYE("qwen3_5"), QWEN3_EYE("qwen3_5_moe"), {0}};

static const struct hf_module qwen3_eye_modules[] = {
    {"attn.qkv", "attn_qkv"},
    {"attn.proj", "attn_out"},
    {"norm1", "ln1"},
    {"norm2", "ln2"},
    {"mlp.linear_fc1", "ffn_up"},
    {"mlp.linear_fc2", "ffn_down"},
    {0},
};

#define DEEP(N)                                                                                              \
    {"deepstack_merger_list." #N ".norm", "v.deepstack." #N ".norm"},                                        \
        {"deepstack_merger_list." #N ".linear_fc1", "v.deepstack." #N ".fc1"},                               \
    {                                                                                                        \
        "deepstack_merger_list." #N ".linear_fc2", "v.deepstack." #N ".fc2"                                  \
    }

static const struct hf_module qwen3_eye_outer[] = {
    {"patch_embed.proj", "v.patch_embd"},
    {"visual.pos_embed", "v.position_embd"},
    {"merger.norm", "v.post_ln"},
    {"merger.linear_fc1", "mm.0"},
    {"merger.linear_fc2", "mm.2"},
    DEEP(0),
    DEEP(1),
    DEEP(2),
    DEEP(3),
    {0},
};

static const struct arch_eye qwen3_sees = {
    .mark = "<|image_pad|>",
    .row = "<|image_pad|>",
    .look = qwen3_eye_look,
};

const struct architecture arch_qwen3_eye = {
    .name = "clip",
    .models = "Qwen 3-VL, 3.5",
    .kind = ARCH_EYE,
    .projector = "qwen3vl_merger",
    .eye = &qwen3_sees,
    .size = sizeof(struct qwen3_eye),
    .read = qwen3_eye_read,
    .build = qwen3_eye_build,
    .hf = {.types = qwen3_eye_types, .modules = qwen3_eye_modules, .outer = qwen3_eye_outer, .prefix = "v."},
};
