/* eye.c: see eye.h. */
#include "arch/eye.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/decoder.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/half.h"
#include "common/assert.h"
#include "model/hf/config.h"

#define MAX_SIDE    65536 /* pixels */
#define MAX_PATCHES 256   /* of a piece's side */
#define MAX_MERGE   64

/* ---- Reading ------------------------------------------------------------------------------------------- */

static uint32_t eye_count(struct hparams *h, const char *key, uint32_t most)
{
    uint32_t count = hparams_count_required(h, key);
    if (count > most)
        hparams_fail(h, ENGINE_ERROR_DATA, "%s.%s is %u; at most %u are supported", h->prefix, key, count,
                     most);
    return h->status ? 1 : count;
}

static void check_merge(struct hparams *h, struct eye *eye)
{
    if (eye->merge == 0 || eye->merge > MAX_MERGE)
        hparams_fail(h, ENGINE_ERROR_DATA, "%u x %u patches cannot be merged", eye->merge, eye->merge);
    if (h->status) eye->merge = 1;
}

void eye_read(struct hparams *h, struct eye *eye, uint32_t merge, enum image_filter filter)
{
    *eye = (struct eye){.norm = ENGINE_NORM_LAYER, .n_frames = 1};
    eye->n_layers = eye_count(h, "vision.block_count", MAX_LAYERS);
    eye->n_embd = eye_count(h, "vision.embedding_length", 1 << 20);
    eye->n_heads = eye_count(h, "vision.attention.head_count", 65536);
    eye->n_ff = eye_count(h, "vision.feed_forward_length", 1 << 22);
    eye->patch = eye_count(h, "vision.patch_size", 1024);
    eye->image_size = eye_count(h, "vision.image_size", MAX_SIDE);
    eye->n_out = eye_count(h, "vision.projection_dim", 1 << 20);
    eye->epsilon = hparams_float_from_0(h, "vision.attention.layer_norm_epsilon", 1e-6f);
    eye->merge = hparams_count(h, "vision.spatial_merge_size", merge);
    eye->filter = hparams_count(h, "engine.filter", filter);
    if (eye->filter > IMAGE_LANCZOS)
        hparams_fail(h, ENGINE_ERROR_DATA, "%s.engine.filter is %u, which is no filter", h->prefix,
                     eye->filter);
    bool is_silu = hparams_flag(h, "use_silu", false);
    eye->activation =
        decoder_read_activation(h, is_silu ? ENGINE_ACTIVATION_SILU : ENGINE_ACTIVATION_GELU_TANH);
    for (uint32_t c = 0; c < 3; c++) {
        eye->mean[c] = hparams_number_in(h, "vision.image_mean", c, 0.5f);
        eye->std[c] = hparams_number_in(h, "vision.image_std", c, 0.5f);
        if (!(eye->std[c] > 0))
            hparams_fail(h, ENGINE_ERROR_DATA, "%s.vision.image_std is not above 0", h->prefix);
    }
    if (eye->n_embd % eye->n_heads != 0)
        hparams_fail(h, ENGINE_ERROR_DATA, "%u heads do not divide %u values", eye->n_heads, eye->n_embd);
    check_merge(h, eye);
}

void eye_check_side(struct hparams *h, struct eye *eye, uint32_t *side)
{
    check_merge(h, eye);
    if (*side == 0 || *side > MAX_PATCHES)
        hparams_fail(h, ENGINE_ERROR_DATA, "%u patches a side are not supported; 1 to %d are", *side,
                     MAX_PATCHES);
    if (h->status) *side = 1;
}

static uint32_t patch_width(const struct eye *eye)
{
    return 3 * eye->n_frames * eye->patch * eye->patch;
}

struct arch_info eye_info(const struct eye *eye, uint32_t n_patches)
{
    return (struct arch_info){.n_embd = eye->n_out,
                              .n_layers = eye->n_layers,
                              .n_context = n_patches,
                              .is_encoder = true,
                              .makes_vectors = true,
                              .row_width = patch_width(eye),
                              .n_merged = eye->merge * eye->merge};
}

/* ---- The graph ----------------------------------------------------------------------------------------- */

#define NAME_SIZE 96
static const char *full_name(const struct graph *g, const char *name, char full[NAME_SIZE])
{
    if (g->layer == NO_LAYER)
        snprintf(full, NAME_SIZE, "%s", name);
    else
        snprintf(full, NAME_SIZE, "v.blk.%u.%s", g->layer, name);
    return full;
}

static bool has(const struct graph *g, const char *name)
{
    char full[NAME_SIZE];
    return graph_find(g, "%s.weight", full_name(g, name, full)) != NULL;
}

static struct value *add_bias(struct graph *g, const char *full, struct value *x)
{
    struct value *bias = x ? graph_values_optional(g, x->tensor.ne[0], 1, "%s.bias", full) : NULL;
    return bias ? graph_add(g, x, bias) : x;
}

struct value *eye_linear(struct graph *g, const char *name, uint64_t n_in, uint64_t n_out, struct value *x)
{
    char full[NAME_SIZE];
    full_name(g, name, full);
    return add_bias(g, full, graph_matmul(g, graph_weight(g, n_in, n_out, "%s.weight", full), x));
}

struct value *eye_transposed(struct graph *g, uint64_t n_out, uint64_t n_in, const char *name)
{
    char own[NAME_SIZE];
    uint32_t *index = malloc((size_t)n_in * sizeof *index);
    if (!index) {
        if (!g->status) g->status = error_memory("graph");
        return NULL;
    }
    for (uint32_t i = 0; i < n_in; i++) index[i] = i;
    snprintf(own, sizeof own, "%s.transposed", name);
    struct value *matrix = graph_values_by_index(g, n_out, n_in, name, index, n_in, own);
    free(index);
    return matrix;
}

struct value *eye_norm(struct graph *g, const struct eye *eye, const char *name, struct value *x)
{
    char full[NAME_SIZE];
    full_name(g, name, full);
    uint64_t n = x ? x->tensor.ne[0] : 0;
    return graph_norm(g, x, graph_values(g, n, 1, "%s.weight", full),
                      graph_values_optional(g, n, 1, "%s.bias", full), eye->norm, eye->epsilon);
}

/* A convolution's weights as a matrix: [patch, patch, 3, n] in GGUF files, whose first part is of all frames
 * in directories. */
static struct value *patch_matrix(struct graph *g, const struct eye *eye, const char *name)
{
    const struct model_tensor *tensor = graph_find(g, "%s", name);
    uint64_t side = eye->patch, width = 3 * side * side;
    const uint64_t conv[4] = {side, side, 3, eye->n_embd};
    if (!tensor || tensor->ne[0] != side || memcmp(tensor->ne, conv, sizeof conv) != 0)
        return graph_weight(g, width * eye->n_frames, eye->n_embd, "%s", name);
    return graph_values(g, width, eye->n_embd, "%s", name);
}

struct value *eye_embed_rows(struct graph *g, const struct eye *eye, struct value *rows)
{
    g->layer = NO_LAYER;
    struct value *x = graph_matmul(g, patch_matrix(g, eye, "v.patch_embd.weight"), rows);
    /* GGUF files have the two frames of a video apart; a picture is both. */
    if (graph_find(g, "v.patch_embd.weight.1"))
        x = graph_add(g, x, graph_matmul(g, patch_matrix(g, eye, "v.patch_embd.weight.1"), rows));
    return add_bias(g, "v.patch_embd", x);
}

struct value *eye_embed(struct graph *g, const struct eye *eye)
{
    return eye_embed_rows(g, eye, graph_input(g, INPUT_ROWS));
}

struct value *eye_places(struct graph *g, const struct eye *eye, uint64_t n)
{
    struct value *table = graph_weight(g, eye->n_embd, n, "v.position_embd.weight");
    return graph_get_rows(g, table, graph_input(g, INPUT_POSITION_ROWS));
}

/* Queries, keys or values: rows `first` … of attn_qkv, or a matrix of their own. */
static struct value *project(struct graph *g, const struct eye *eye, const char *name, uint64_t number,
                             struct value *x)
{
    char full[NAME_SIZE], own[NAME_SIZE + 8];
    const uint64_t n = eye->n_embd;
    if (!has(g, "attn_qkv")) return eye_linear(g, name, n, n, x);
    const struct model_tensor *fused = graph_find(g, "%s.weight", full_name(g, "attn_qkv", full));
    const struct model_tensor *bias = graph_find(g, "%s.bias", full);
    full_name(g, name, full);
    snprintf(own, sizeof own, "%s.weight", full);
    x = graph_matmul(g, graph_rows(g, fused, number * n, n, n, own), x);
    if (!bias) return x;
    snprintf(own, sizeof own, "%s.bias", full);
    return graph_add(g, x, graph_values_part(g, bias, number * n, n, own));
}

/* A layer's cache: the first layer's, as nothing outlives a layer. */
static struct value *eye_cache(struct graph *g, const struct eye *eye, size_t number)
{
    uint64_t head_dim = eye->n_embd / eye->n_heads;
    return g->layer == 0 ? graph_cache(g, head_dim, eye->n_heads, false) : graph_cache_of(g, 0, number);
}

struct value *eye_attention(struct graph *g, const struct eye *eye, struct value *x,
                            struct value *(*rotate)(struct graph *g, const struct eye *eye, struct value *x))
{
    const uint64_t n = eye->n_heads, dim = eye->n_embd / n, n_tokens = g->shape.n_tokens;
    static const char *const names[] = {"attn_q", "attn_k", "attn_v"};
    struct value *heads[3];
    for (uint64_t i = 0; i < 3; i++) {
        heads[i] = graph_reshape(g, project(g, eye, names[i], i, x), dim, n, n_tokens);
        if (rotate && i < 2) heads[i] = rotate(g, eye, heads[i]);
    }
    struct value *k = eye_cache(g, eye, 0), *v = eye_cache(g, eye, 1);
    graph_cache_write(g, k, heads[1]);
    graph_cache_write(g, v, heads[2]);
    const struct attention_options options = {.scale = 1 / sqrtf((float)dim), .both_ways = true};
    struct value *out = graph_attention(g, heads[0], k, v, &options);
    return eye_linear(g, "attn_out", eye->n_embd, eye->n_embd,
                      graph_reshape(g, out, eye->n_embd, n_tokens, 1));
}

struct value *eye_feed_forward(struct graph *g, const struct eye *eye, struct value *x)
{
    struct value *up = eye_linear(g, "ffn_up", eye->n_embd, eye->n_ff, x);
    struct value *gate = has(g, "ffn_gate") ? eye_linear(g, "ffn_gate", eye->n_embd, eye->n_ff, x) : up;
    up = graph_activate(g, gate, gate == up ? NULL : up, eye->activation);
    return eye_linear(g, "ffn_down", eye->n_ff, eye->n_embd, up);
}

/* A block's output by the layer's scales, if it has some. */
static struct value *scale_block(struct graph *g, const struct eye *eye, const char *name, struct value *x)
{
    struct value *scales = graph_values_optional(g, eye->n_embd, 1, "v.blk.%u.%s.weight", g->layer, name);
    return scales ? graph_mul(g, x, scales) : x;
}

struct value *eye_layer(struct graph *g, const struct eye *eye, struct value *x,
                        struct value *(*rotate)(struct graph *g, const struct eye *eye, struct value *x))
{
    struct value *heads = eye_attention(g, eye, eye_norm(g, eye, "ln1", x), rotate);
    x = graph_add(g, x, scale_block(g, eye, "ls1", heads));
    struct value *block = eye_feed_forward(g, eye, eye_norm(g, eye, "ln2", x));
    return graph_add(g, x, scale_block(g, eye, "ls2", block));
}

struct value *eye_layers(struct graph *g, const struct eye *eye, struct value *x,
                         struct value *(*rotate)(struct graph *g, const struct eye *eye, struct value *x))
{
    for (g->layer = 0; g->layer < eye->n_layers; g->layer++) x = eye_layer(g, eye, x, rotate);
    g->layer = NO_LAYER;
    return x;
}

/* ---- Rotations in two dimensions ---- */

struct turn {
    const struct eye *eye;
    uint32_t axis;
};

/* What rope divides angles by, with a base of 1. */
static void fill_turn(const void *user, float *values, uint64_t n)
{
    const struct turn *turn = user;
    const uint64_t half = n / 2;
    for (uint64_t i = 0; i < n; i++) {
        bool is_column = i >= half;
        double power =
            2 * (double)(i - (is_column ? half : 0)) + (is_column && turn->eye->is_staggered ? 1 : 0);
        values[i] = is_column == (turn->axis == 1) ? (float)pow((double)turn->eye->theta, power / (double)n)
                                                   : NOT_ROTATED;
    }
}

struct value *eye_rotate(struct graph *g, const struct eye *eye, struct value *x)
{
    const uint32_t head_dim = eye->n_embd / eye->n_heads;
    if (head_dim % 4 != 0) {
        graph_fail(g, "heads of %u values cannot be rotated in two dimensions", head_dim);
        return NULL;
    }
    for (uint32_t axis = 0; axis < 2; axis++) {
        char name[96];
        const struct turn turn = {eye, axis};
        snprintf(name, sizeof name, "v.turn_%u_%u_%a_%d", axis, head_dim, (double)eye->theta,
                 eye->is_staggered);
        const struct rope_options options = {
            .n_dims = head_dim,
            .pairs = ENGINE_ROPE_HALVES,
            .theta = 1,
            .factors = graph_numbers(g, head_dim / 2, name, fill_turn, &turn),
            .positions = (enum graph_input)(INPUT_AXES + 1 + axis),
        };
        x = graph_rope(g, x, &options);
    }
    return x;
}

/* ---- Tensors whose numbers are read ---- */

bool eye_has_values(struct graph *g, const char *name, uint64_t n)
{
    const struct model_tensor *tensor = graph_find(g, "%s", name);
    uint64_t count = 1;
    for (int i = 0; tensor && i < 4; i++)
        if (checked_mul(count, tensor->ne[i], &count)) count = UINT64_MAX;
    if (tensor && is_float_type(tensor->type) && count == n) return true;
    graph_fail(g, "the tensor %s is missing, or has not %" PRIu64 " values of a float type", name, n);
    return false;
}

void eye_read_values(const struct model_tensor *tensor, float *values)
{
    const uint64_t n_rows = tensor->ne[1] * tensor->ne[2] * tensor->ne[3], width = tensor->ne[0];
    /* Rows of stored types are at most as long as those of float32, so each is read where it goes. */
    for (uint64_t row = 0; row < n_rows; row++) {
        float *to = values + row * width;
        model_tensor_read(tensor, row, 1, (uint8_t *)to);
        for (uint64_t i = width; i-- > 0;) to[i] = float_at(tensor->type, to, i);
    }
}

float *eye_row(struct graph *g, uint64_t n)
{
    float *row = malloc((size_t)n * sizeof *row);
    if (!row && !g->status) g->status = error_memory("graph");
    return row;
}

struct unfolded {
    const struct model_tensor *tensor;
    uint64_t n_each; /* patches of a row */
    float *row;      /* [tensor->ne[0]], what is being unfolded */
};

static void fill_unfolded(const void *user, float *values, uint64_t n)
{
    const struct unfolded *unfolded = user;
    const uint64_t n_each = unfolded->n_each, width = unfolded->tensor->ne[0], n_embd = width / n_each;
    eye_read_values(unfolded->tensor, values);
    for (float *at = values; at < values + n; at += width) {
        memcpy(unfolded->row, at, (size_t)width * sizeof *unfolded->row);
        for (uint64_t i = 0; i < width; i++) at[i % n_each * n_embd + i / n_each] = unfolded->row[i];
    }
}

struct value *eye_unfolded(struct graph *g, const struct eye *eye, const char *name)
{
    char own[NAME_SIZE];
    const uint64_t n_each = (uint64_t)eye->merge * eye->merge, width = eye->n_embd * n_each;
    struct unfolded unfolded = {graph_find(g, "%s", name), n_each, NULL};
    if (!eye_has_values(g, name, width * eye->n_embd)) return NULL;
    if (unfolded.tensor->ne[0] != width) {
        graph_fail(g, "the tensor %s has rows of %" PRIu64 " values; expected %" PRIu64, name,
                   unfolded.tensor->ne[0], width);
        return NULL;
    }
    snprintf(own, sizeof own, "%s.merged", name);
    unfolded.row = eye_row(g, width);
    struct value *matrix =
        unfolded.row ? graph_number_rows(g, width, eye->n_embd, own, fill_unfolded, &unfolded) : NULL;
    free(unfolded.row);
    return matrix;
}

struct value *eye_merge(struct graph *g, const struct eye *eye, struct value *x)
{
    uint64_t n = (uint64_t)eye->merge * eye->merge;
    return x ? graph_reshape(g, x, x->tensor.ne[0] * n, x->tensor.ne[1] / n, 1) : NULL;
}

void eye_end(struct graph *g, const struct eye *eye, struct value *x)
{
    g->layer = NO_LAYER;
    graph_watch(g, WATCH_STATES, eye->n_layers, x);
}

/* ---- Pictures ------------------------------------------------------------------------------------------ */

int sight_create(struct sight *sight, uint32_t n_pieces)
{
    *sight = (struct sight){.pieces = calloc(n_pieces, sizeof *sight->pieces), .n_pieces = n_pieces};
    return sight->pieces ? ENGINE_OK : error_memory("picture");
}

void sight_free(struct sight *sight)
{
    for (uint32_t i = 0; sight->pieces && i < sight->n_pieces; i++) {
        struct sight_piece *piece = &sight->pieces[i];
        free(piece->patches);
        free(piece->places);
        free(piece->axes[0]);
        free(piece->axes[1]);
        free(piece->positions);
        free(piece->lasts);
    }
    free(sight->pieces);
    free(sight->text);
    *sight = (struct sight){0};
}

int sight_write(struct sight *sight, const char *format, ...)
{
    char more[256];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(more, sizeof more, format, args);
    va_end(args);
    ENGINE_ASSERT(length >= 0 && (size_t)length < sizeof more);
    size_t before = sight->text ? strlen(sight->text) : 0;
    char *grown = realloc(sight->text, before + (size_t)length + 1);
    if (!grown) return error_memory("picture");
    memcpy(grown + before, more, (size_t)length + 1);
    sight->text = grown;
    return ENGINE_OK;
}

int sight_repeat(struct sight *sight, const char *text, uint32_t n)
{
    size_t before = sight->text ? strlen(sight->text) : 0, length = strlen(text);
    char *grown = realloc(sight->text, before + length * n + 1);
    if (!grown) return error_memory("picture");
    for (uint32_t i = 0; i < n; i++) memcpy(grown + before + i * length, text, length);
    grown[before + n * length] = '\0';
    sight->text = grown;
    return ENGINE_OK;
}

/* The number of the patch that is at a row and a column of a picture of `columns` patches. */
static size_t patch_number(const struct eye *eye, uint32_t row, uint32_t column, uint32_t columns)
{
    uint32_t m = eye->merge;
    size_t group = (size_t)(row / m) * (columns / m) + column / m;
    return group * m * m + (size_t)(row % m) * m + column % m;
}

int eye_cut(const struct eye *eye, const struct image *image, struct sight_piece *piece)
{
    const uint32_t p = eye->patch, rows = image->height / p, columns = image->width / p, m = eye->merge;
    const size_t n = (size_t)rows * columns, width = patch_width(eye),
                 plane = (size_t)image->width * image->height;
    ENGINE_ASSERT(rows * p == image->height && columns * p == image->width && rows % m == 0 &&
                  columns % m == 0);
    ENGINE_ASSERT(n > 0 && n <= INT32_MAX);
    float *floats = malloc(3 * plane * sizeof *floats);
    piece->n_patches = (uint32_t)n;
    piece->n_rows = (uint32_t)(n / m / m);
    piece->patches = malloc(n * width * sizeof *piece->patches);
    for (int a = 0; a < 2; a++) piece->axes[a] = malloc(n * sizeof *piece->axes[a]);
    if (!floats || !piece->patches || !piece->axes[0] || !piece->axes[1]) {
        free(floats);
        return error_memory("picture");
    }
    image_floats(image, 1 / 255.0f, eye->mean, eye->std, floats);
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t column = 0; column < columns; column++) {
            size_t number = patch_number(eye, row, column, columns);
            float *to = piece->patches + number * width;
            piece->axes[0][number] = (int32_t)row;
            piece->axes[1][number] = (int32_t)column;
            for (uint32_t c = 0; c < 3; c++)
                for (uint32_t f = 0; f < eye->n_frames; f++)
                    for (uint32_t y = 0; y < p; y++, to += p)
                        memcpy(to,
                               floats + c * plane + ((size_t)row * p + y) * image->width + (size_t)column * p,
                               p * sizeof *to);
        }
    free(floats);
    return ENGINE_OK;
}

int eye_number(struct sight_piece *piece, uint32_t n_columns)
{
    piece->places = malloc(piece->n_patches * sizeof *piece->places);
    if (!piece->places) return error_memory("picture");
    for (uint32_t i = 0; i < piece->n_patches; i++)
        piece->places[i] = piece->axes[0][i] * (int32_t)n_columns + piece->axes[1][i];
    return ENGINE_OK;
}

int eye_add_patch(const struct eye *eye, struct sight_piece *piece)
{
    const size_t n = (size_t)piece->n_patches + 1, width = patch_width(eye);
    float *patches = realloc(piece->patches, n * width * sizeof *patches);
    if (patches) piece->patches = patches;
    bool whole = patches != NULL;
    int32_t **lists[] = {&piece->places, &piece->axes[0], &piece->axes[1]};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        int32_t *list = *lists[i] ? realloc(*lists[i], n * sizeof *list) : NULL;
        if (!*lists[i]) continue;
        whole &= list != NULL;
        if (list) *lists[i] = list;
        if (list) list[n - 1] = 0;
    }
    if (!whole) return error_memory("picture");
    memset(patches + (n - 1) * width, 0, width * sizeof *patches);
    piece->n_patches++;
    return ENGINE_OK;
}

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

const struct hf_module eye_siglip_modules[] = {
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.out_proj", "attn_out"},
    {"layer_norm1", "ln1"},
    {"layer_norm2", "ln2"},
    {"mlp.fc1", "ffn_up"},
    {"mlp.fc2", "ffn_down"},
    {0},
};

void eye_put_filter(struct hf_config *config, enum image_filter preset)
{
    /* PIL's numbers of filters */
    static const struct {
        uint32_t number;
        enum image_filter filter;
    } known[] = {{1, IMAGE_LANCZOS}, {2, IMAGE_BILINEAR}, {3, IMAGE_BICUBIC}};
    if (!hf_get(config->processor, "resample")) {
        hf_put_count(config, "engine.filter", preset);
        return;
    }
    uint32_t number = hf_count(config, config->processor, "resample", 0);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].number == number) {
            hf_put_count(config, "engine.filter", known[i].filter);
            return;
        }
    hf_fail(config, ENGINE_ERROR_UNSUPPORTED, "the filter of number %u (resample) is not supported", number);
}

void eye_put_activation(struct hf_config *config, const char *preset)
{
    const char *name = hf_text(config, config->json, "hidden_act|hidden_activation");
    hf_put_text(config, "hidden_activation", name ? name : preset);
}

void eye_refuse_projectors(struct hf_config *config)
{
    const json_t *layer = hf_get(config->root, "vision_feature_layer");
    const char *activation = hf_text(config, config->root, "projector_hidden_act");
    hf_refuse(config, layer && json_integer_value(layer) != -1, "a vision_feature_layer but the last");
    hf_refuse(config, activation && strcmp(activation, "gelu") != 0, "a projector_hidden_act but gelu");
}
