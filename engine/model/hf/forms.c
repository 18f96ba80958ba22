/* forms.c: how stored matrices become GGUF's: cut, put together, transposed, and their rows in another
 * order. The pieces of a tensor are listed first; hf_assemble makes the tensor whose rows are copied from
 * them when it is loaded. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/half.h"
#include "common/assert.h"
#include "model/hf/internal.h"
#include "model/types.h"

/* ---- Forms --------------------------------------------------------------------------------------------- */

#define MAX_SEGMENTS 5 /* pieces of a tensor with factors */

/* Families have others before these. */
static const struct hf_form usual[] = {
    {.tensor = "ffn_gate_up", .kind = FORM_HALVES, .outputs = {"ffn_gate", "ffn_up"}},
    {.tensor = "ffn_gate_up_exps", .kind = FORM_HALVES, .outputs = {"ffn_gate_exps", "ffn_up_exps"}},
    {.tensor = "ffn_gate_up_shexp", .kind = FORM_HALVES, .outputs = {"ffn_gate_shexp", "ffn_up_shexp"}},
    {0},
};

static const struct hf_form *find_form(const struct hf_form *forms, const char *tensor)
{
    for (; forms && forms->tensor; forms++)
        if (strcmp(forms->tensor, tensor) == 0) return forms;
    return NULL;
}

const struct hf_form *hf_find_form(const struct hf_family *family, const struct hf_name *name)
{
    static const struct hf_form same = {.kind = FORM_SAME};
    char base[64];
    const char *tensor = name->layer == HF_NO_NUMBER ? NULL : strchr(name->tensor + strlen("blk."), '.');
    if (!tensor) return &same;
    snprintf(base, sizeof base, "%s", tensor + 1);
    *strchrnul(base, '.') = '\0';
    const struct hf_form *form = find_form(family->forms, base);
    if (!form) form = find_form(usual, base);
    return form ? form : &same;
}

void hf_view_quantised(const uint64_t dims[3], struct hf_matrices *m)
{
    m->k = m->row_step = dims[0];
    m->n_rows = dims[1];
    m->n = dims[2];
    m->step = 1;
    m->matrix_step = dims[0] * dims[1];
}

int hf_view_matrices(const struct hf_form_input *of, const struct hf_entry *entry, bool is_transposed,
                     struct hf_matrices *m)
{
    const struct safetensors_tensor *stored = entry->stored;
    uint64_t dims[3] = {1, 1, 1}; /* from the last on */
    uint32_t n = stored->n_dims;
    const bool is_patches = n > 3 && stored->size > 0 && of->config->architecture->kind == ARCH_EYE;
    if (is_patches) { /* a convolution over patches: a row for each output */
        m->k = m->step = m->n = 1;
        for (uint32_t i = 1; i < n; i++) m->k *= stored->ne[i];
        m->n_rows = stored->ne[0];
        m->row_step = m->k;
        m->matrix_step = m->k * m->n_rows;
        return ENGINE_OK;
    }
    while (n > 1 && stored->ne[stored->n_dims - n] == 1 && entry->is_bias) n--; /* [1, n] */
    bool has_channels = n == 3 && stored->ne[1] == 1; /* a convolution's weights: [channels, 1, taps] */
    if (n > 3 || stored->size == 0)
        return error_raise(ENGINE_ERROR_DATA, "%s: %s has %u dimensions, or no values", of->path,
                           stored->name, stored->n_dims);
    for (uint32_t i = 0; i < n; i++) dims[i] = stored->ne[stored->n_dims - 1 - i];
    if (has_channels) dims[1] = dims[2], dims[2] = 1;
    if (entry->is_bias || n <= 1) { /* [n, rows] */
        m->k = m->step = 1;
        m->n_rows = dims[0];
        m->n = dims[1] * dims[2];
        m->row_step = 1;
    } else if (is_transposed) { /* [n, k, rows] */
        m->k = dims[1];
        m->n_rows = dims[0];
        m->n = dims[2];
        m->step = dims[0];
        m->row_step = 1;
    } else { /* [n, rows, k] */
        m->k = dims[0];
        m->n_rows = dims[1];
        m->n = dims[2];
        m->step = 1;
        m->row_step = dims[0];
    }
    m->matrix_step = m->k * m->n_rows;
    return ENGINE_OK;
}

/* ---- Pieces -------------------------------------------------------------------------------------------- */

static void add_piece(struct hf_output *output, const struct hf_matrices *m, uint64_t first_row,
                      const uint64_t ne[4], const uint64_t stride[4])
{
    ENGINE_ASSERT(output->n < output->room);
    struct hf_piece *piece = &output->pieces[output->n++];
    *piece = (struct hf_piece){.source = m->source, .start = first_row * m->row_step};
    memcpy(piece->ne, ne, sizeof piece->ne);
    memcpy(piece->stride, stride, sizeof piece->stride);
}

static void set_shape(struct hf_output *output, uint64_t k, uint64_t n_rows, uint64_t n)
{
    output->ne[0] = k;
    output->ne[1] = n_rows;
    output->ne[2] = n;
}

static int refuse_rows(const struct hf_form_input *of, const struct hf_entry *entry,
                       const struct hf_matrices *m)
{
    return error_raise(ENGINE_ERROR_DATA,
                       "%s: %s has %" PRIu64 " rows in %" PRIu64
                       " matrices, which do not suit config.json's heads",
                       of->path, entry->stored->name, m->n_rows, m->n);
}

/* Heads whose pairs of halves are made adjacent. */
static int add_pairs(const struct hf_form_input *of, const struct hf_entry *entry,
                     const struct hf_matrices *m, uint64_t n_heads, struct hf_output *output)
{
    uint64_t head = m->n_rows / n_heads, r = m->row_step;
    if (head * n_heads != m->n_rows || head % 2 != 0 || m->n != 1) return refuse_rows(of, entry, m);
    add_piece(output, m, 0, (const uint64_t[4]){m->k, 2, head / 2, n_heads},
              (const uint64_t[4]){m->step, head / 2 * r, r, head * r});
    set_shape(output, m->k, m->n_rows, m->n);
    return ENGINE_OK;
}

/* Groups of some queries, a key and a value. */
struct groups {
    uint64_t n, n_queries; /* groups; queries of each */
    uint64_t head;         /* rows of a head */
    uint64_t row, step;    /* from a row to the next, from a group to the next */
};

static int find_groups(const struct hf_form_input *of, const struct hf_entry *entry,
                       const struct hf_matrices *m, struct groups *groups)
{
    uint64_t n_heads = of->config->n_heads, n = of->config->n_kv_heads, n_queries = n_heads / n;
    uint64_t head = m->n_rows / (n * (n_queries + 2));
    *groups = (struct groups){n, n_queries, head, m->row_step, (n_queries + 2) * head * m->row_step};
    if (head * (n_queries + 2) * n != m->n_rows || n_queries * n != n_heads || m->n != 1)
        return refuse_rows(of, entry, m);
    return ENGINE_OK;
}

/* All queries, keys and values in one tensor. */
static int add_groups(const struct hf_form_input *of, const struct hf_entry *entry,
                      const struct hf_matrices *m, struct hf_output *output)
{
    struct groups g;
    int status = find_groups(of, entry, m, &g);
    if (status) return status;
    add_piece(output, m, 0, (const uint64_t[4]){m->k, g.head, g.n_queries, g.n},
              (const uint64_t[4]){m->step, g.row, g.head * g.row, g.step});
    for (uint64_t i = 0; i < 2; i++)
        add_piece(output, m, (g.n_queries + i) * g.head, (const uint64_t[4]){m->k, g.head, g.n, 1},
                  (const uint64_t[4]){m->step, g.row, g.step, 0});
    set_shape(output, m->k, m->n_rows, m->n);
    return ENGINE_OK;
}

/* Queries, keys and values as three tensors, the pairs of queries and keys made adjacent. */
static int add_qkv(const struct hf_form_input *of, const struct hf_entry *entry, const struct hf_matrices *m,
                   struct hf_output outputs[HF_MAX_PARTS])
{
    struct groups g;
    int status = find_groups(of, entry, m, &g);
    if (!status && g.head % 2 != 0) status = refuse_rows(of, entry, m);
    if (status) return status;
    for (uint64_t i = 0; i < g.n; i++)
        add_piece(&outputs[0], m, i * (g.n_queries + 2) * g.head,
                  (const uint64_t[4]){m->k, 2, g.head / 2, g.n_queries},
                  (const uint64_t[4]){m->step, g.head / 2 * g.row, g.row, g.head * g.row});
    add_piece(&outputs[1], m, g.n_queries * g.head, (const uint64_t[4]){m->k, 2, g.head / 2, g.n},
              (const uint64_t[4]){m->step, g.head / 2 * g.row, g.row, g.step});
    add_piece(&outputs[2], m, (g.n_queries + 1) * g.head, (const uint64_t[4]){m->k, g.head, g.n, 1},
              (const uint64_t[4]){m->step, g.row, g.step, 0});
    set_shape(&outputs[0], m->k, g.n * g.n_queries * g.head, 1);
    set_shape(&outputs[1], m->k, g.n * g.head, 1);
    set_shape(&outputs[2], m->k, g.n * g.head, 1);
    return ENGINE_OK;
}

/* The groups of a delta net: a query, a key, and some values and gates. */
static int add_qkvz(const struct hf_form_input *of, const struct hf_entry *entry, const struct hf_matrices *m,
                    struct hf_output outputs[HF_MAX_PARTS])
{
    const struct hf_config *c = of->config;
    uint64_t n = c->n_key_heads, key = c->key_dim, values = (uint64_t)c->n_value_heads / n * c->value_dim;
    uint64_t r = m->row_step, group = 2 * key + 2 * values;
    if (n * group != m->n_rows || m->n != 1) return refuse_rows(of, entry, m);
    const uint64_t firsts[4] = {0, key, 2 * key, 2 * key + values}, lengths[4] = {key, key, values, values};
    for (size_t i = 0; i < 4; i++)
        add_piece(&outputs[i < 3 ? 0 : 1], m, firsts[i], (const uint64_t[4]){m->k, lengths[i], n, 1},
                  (const uint64_t[4]){m->step, r, group * r, 0});
    set_shape(&outputs[0], m->k, n * (2 * key + values), 1);
    set_shape(&outputs[1], m->k, n * values, 1);
    return ENGINE_OK;
}

/* The value heads of a delta net from row `first` on, see FORM_TILED. */
static int add_tiled(const struct hf_form_input *of, const struct hf_entry *entry,
                     const struct hf_matrices *m, uint64_t first, struct hf_output *output)
{
    uint64_t n = of->config->n_key_heads, n_each = of->config->n_value_heads / n, r = m->row_step;
    uint64_t head = first < m->n_rows ? (m->n_rows - first) / (n * n_each) : 0; /* rows of a head */
    if (head == 0 || first + head * n * n_each != m->n_rows || m->n != 1) return refuse_rows(of, entry, m);
    if (first > 0)
        add_piece(output, m, 0, (const uint64_t[4]){m->k, first, 1, 1},
                  (const uint64_t[4]){m->step, r, 0, 0});
    add_piece(output, m, first, (const uint64_t[4]){m->k, head, n, n_each},
              (const uint64_t[4]){m->step, r, n_each * head * r, head * r});
    set_shape(output, m->k, m->n_rows, 1);
    return ENGINE_OK;
}

/* The same of columns. */
static int add_tiled_columns(const struct hf_form_input *of, const struct hf_entry *entry,
                             const struct hf_matrices *m, struct hf_output *output)
{
    uint64_t n_heads = of->config->n_value_heads;
    if (m->k % n_heads != 0 || m->n != 1) return refuse_rows(of, entry, m);
    add_piece(output, m, 0, (const uint64_t[4]){m->k, m->n_rows, 1, 1},
              (const uint64_t[4]){m->step, m->row_step, 0, 0});
    if (n_heads != of->config->n_key_heads) {
        output->pieces[output->n - 1].chunk = m->k / n_heads;
        output->pieces[output->n - 1].n_groups = of->config->n_key_heads;
    }
    set_shape(output, m->k, m->n_rows, 1);
    return ENGINE_OK;
}

/* Each of the two takes half of the rows. */
static int add_halves(const struct hf_form_input *of, const struct hf_entry *entry,
                      const struct hf_matrices *m, bool interleaved, struct hf_output outputs[HF_MAX_PARTS])
{
    uint64_t half = m->n_rows / 2, r = m->row_step;
    if (m->n_rows % 2 != 0) return refuse_rows(of, entry, m);
    for (uint64_t i = 0; i < 2; i++) {
        add_piece(&outputs[i], m, interleaved ? i : i * half, (const uint64_t[4]){m->k, half, m->n, 1},
                  (const uint64_t[4]){m->step, interleaved ? 2 * r : r, m->matrix_step, 0});
        set_shape(&outputs[i], m->k, half, m->n);
    }
    return ENGINE_OK;
}

/* Each head has rows for the keys and then for the values of a latent vector; matrices for each head map
 * queries to it, and it to values. */
static int add_latent(const struct hf_form_input *of, const struct hf_entry *entry,
                      const struct hf_matrices *m, struct hf_output outputs[HF_MAX_PARTS])
{
    uint64_t nope = of->config->n_nope, value = of->config->n_value, r = m->row_step;
    uint64_t n_heads = of->config->n_heads, head = (nope + value) * r;
    if (n_heads * (nope + value) != m->n_rows || m->n != 1) return refuse_rows(of, entry, m);
    add_piece(&outputs[0], m, 0, (const uint64_t[4]){nope, m->k, n_heads, 1},
              (const uint64_t[4]){r, m->step, head, 0});
    add_piece(&outputs[1], m, nope, (const uint64_t[4]){m->k, value, n_heads, 1},
              (const uint64_t[4]){m->step, r, head, 0});
    set_shape(&outputs[0], nope, m->k, n_heads);
    set_shape(&outputs[1], m->k, value, n_heads);
    return ENGINE_OK;
}

/* Experts in one stored matrix: some rows each, or with `by_columns` some columns (of what is stored
 * transposed). */
static int add_experts(const struct hf_form_input *of, const struct hf_entry *entry,
                       const struct hf_matrices *m, bool by_columns, struct hf_output *output)
{
    uint64_t n = of->config->n_experts, all = by_columns ? m->k : m->n_rows, each = n ? all / n : 0;
    uint64_t k = by_columns ? each : m->k, n_rows = by_columns ? m->n_rows : each;
    if (each == 0 || each * n != all || m->n != 1) return refuse_rows(of, entry, m);
    add_piece(output, m, 0, (const uint64_t[4]){k, n_rows, n, 1},
              (const uint64_t[4]){m->step, m->row_step, each * (by_columns ? m->step : m->row_step), 0});
    set_shape(output, k, n_rows, n);
    return ENGINE_OK;
}

/* Whether a factor of config.json is for this tensor. */
static bool is_for(const struct hf_factor *factor, const struct hf_name *name)
{
    char full[80];
    if (name->layer == HF_NO_NUMBER)
        snprintf(full, sizeof full, "%s.weight", factor->tensor);
    else
        snprintf(full, sizeof full, "blk.%u.%s.weight", name->layer, factor->tensor);
    return strcmp(full, name->tensor) == 0;
}

bool hf_has_factors(const struct hf_form_input *of, const struct hf_name *name)
{
    const struct hf_factor *factor = of->config->factors_of_rows;
    for (; factor && factor->tensor; factor++)
        if (is_for(factor, name)) return true;
    return false;
}

/* Rows of a matrix, each of which is multiplied by a factor: a piece for each factor. */
static int add_multiplied(const struct hf_form_input *of, const struct hf_entry *entry,
                          const struct hf_matrices *m, struct hf_output *output)
{
    uint64_t at = 0;
    for (const struct hf_factor *factor = of->config->factors_of_rows; factor->tensor; factor++) {
        if (!is_for(factor, &entry->name)) continue;
        uint64_t end = factor->end ? factor->end : m->n_rows;
        if (factor->first != at || end < at || end > m->n_rows || m->n != 1) return refuse_rows(of, entry, m);
        if (end == at) continue;
        add_piece(output, m, at, (const uint64_t[4]){m->k, end - at, 1, 1},
                  (const uint64_t[4]){m->step, m->row_step, 0, 0});
        output->pieces[output->n - 1].factor = factor->factor == 1 ? 0 : factor->factor;
        at = end;
    }
    if (at != m->n_rows) return refuse_rows(of, entry, m);
    set_shape(output, m->k, m->n_rows, 1);
    return ENGINE_OK;
}

/* Zeros for the rows of the table of layers' inputs that are not stored: those of pictures and sounds. */
static int add_missing_rows(const struct hf_form_input *of, const struct hf_entry *entry,
                            const struct hf_matrices *m, struct hf_output *output)
{
    static const uint8_t zero[4];
    static const struct hf_source zeros[] = {
        {.data = zero, .size = sizeof zero, .type = ENGINE_TYPE_F32},
        {.data = zero, .size = sizeof zero, .type = ENGINE_TYPE_F16},
        {.data = zero, .size = sizeof zero, .type = ENGINE_TYPE_BF16},
    };
    uint64_t n = of->config->n_table_rows;
    if (n <= m->n_rows || strcmp(entry->name.tensor, "per_layer_token_embd.weight") != 0) return ENGINE_OK;
    struct hf_matrices none = *m;
    none.source = NULL;
    for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++)
        if (zeros[i].type == m->source->type) none.source = (struct hf_source *)(uintptr_t)&zeros[i];
    if (!none.source || m->source->decode || m->n != 1) return refuse_rows(of, entry, m);
    add_piece(output, &none, 0, (const uint64_t[4]){m->k, n - m->n_rows, 1, 1}, (const uint64_t[4]){0});
    set_shape(output, m->k, n, 1);
    return ENGINE_OK;
}

int hf_add_pieces(const struct hf_form_input *of, const struct hf_entry *entry, const struct hf_form *form,
                  const struct hf_matrices *m, struct hf_output outputs[HF_MAX_PARTS])
{
    switch (form->kind) {
    case FORM_HALVES: return add_halves(of, entry, m, false, outputs);
    case FORM_INTERLEAVED: return add_halves(of, entry, m, true, outputs);
    case FORM_LATENT: return add_latent(of, entry, m, outputs);
    case FORM_EXPERTS: return add_experts(of, entry, m, form->is_transposed, outputs);
    case FORM_QKV: return add_qkv(of, entry, m, outputs);
    case FORM_QKVZ: return add_qkvz(of, entry, m, outputs);
    case FORM_TILED: return add_tiled(of, entry, m, 0, outputs);
    case FORM_TILED_VALUES:
        return add_tiled(of, entry, m, 2 * (uint64_t)of->config->n_key_heads * of->config->key_dim, outputs);
    case FORM_TILED_COLUMNS: return add_tiled_columns(of, entry, m, outputs);
    case FORM_SAME: break;
    }
    if (hf_has_factors(of, &entry->name)) return add_multiplied(of, entry, m, outputs);
    if (entry->name.rows == HF_ROWS_GROUPS) return add_groups(of, entry, m, outputs);
    if (entry->name.rows == HF_ROWS_QUERIES) return add_pairs(of, entry, m, of->config->n_heads, outputs);
    if (entry->name.rows == HF_ROWS_KEYS) return add_pairs(of, entry, m, of->config->n_kv_heads, outputs);
    uint64_t first = strcmp(entry->name.tensor, "position_embd.weight") == 0 ? of->config->n_unused_rows : 0;
    if (first >= m->n_rows) return refuse_rows(of, entry, m);
    add_piece(outputs, m, first, (const uint64_t[4]){m->k, m->n_rows - first, m->n, 1},
              (const uint64_t[4]){m->step, m->row_step, m->matrix_step, 0});
    set_shape(outputs, m->k, m->n_rows - first, m->n);
    return add_missing_rows(of, entry, m, outputs);
}

size_t hf_most_pieces(const struct hf_form_input *of, const struct hf_form *form)
{
    return form->kind == FORM_QKV ? (size_t)of->config->n_kv_heads : MAX_SEGMENTS;
}

/* ---- Tensors made of pieces ---------------------------------------------------------------------------- */

struct assembly {
    struct model_maker maker;
    const struct hf_piece *pieces;
    size_t n_pieces;
    uint64_t row_size; /* bytes */
};
_Static_assert(offsetof(struct assembly, maker) == 0, "a maker is its struct assembly");

static uint64_t rows_of(const struct hf_piece *piece)
{
    return piece->ne[1] * piece->ne[2] * piece->ne[3];
}

static uint64_t bytes_of(const struct hf_source *source, uint64_t n)
{
    const struct type_info *info = type_info(source->type);
    return n / info->block_length * info->block_size;
}

/* Multiplies values in place, rounding to their type. */
static void forms_multiply(uint32_t type, float factor, uint64_t n, uint8_t *values)
{
    for (uint64_t i = 0; i < n; i++) {
        float value;
        uint16_t half;
        if (type == ENGINE_TYPE_F32) {
            memcpy(&value, values + 4 * i, sizeof value);
            value *= factor;
            memcpy(values + 4 * i, &value, sizeof value);
            continue;
        }
        memcpy(&half, values + 2 * i, sizeof half);
        if (type == ENGINE_TYPE_F16)
            half = engine_f32_to_f16(engine_f16_to_f32(half) * factor);
        else
            half = bfloat_from_float(engine_bf16_to_f32(half) * factor);
        memcpy(values + 2 * i, &half, sizeof half);
    }
}

/* Copies n values of a row that begins at `row`, from its value `first` on. */
static void copy_values(const struct hf_piece *piece, uint64_t row, uint64_t first, uint64_t n, uint8_t *to)
{
    const struct hf_source *source = piece->source;
    uint64_t at = row + first * piece->stride[0], size = bytes_of(source, 1);
    if (source->decode && piece->stride[0] == 1) {
        source->decode(source, at, n, to);
    } else if (source->decode) {
        for (uint64_t i = 0; i < n; i++) source->decode(source, at + i * piece->stride[0], 1, to + i * size);
    } else if (piece->stride[0] == 1) {
        memcpy(to, source->data + at * size, (size_t)bytes_of(source, n));
    } else {
        for (uint64_t i = 0; i < n; i++)
            memcpy(to + i * size, source->data + (at + i * piece->stride[0]) * size, (size_t)size);
    }
}

static void copy_row(const struct hf_piece *piece, uint64_t row, uint8_t *to)
{
    uint64_t at = piece->start + row % piece->ne[1] * piece->stride[1] +
                  row / piece->ne[1] % piece->ne[2] * piece->stride[2] +
                  row / piece->ne[1] / piece->ne[2] * piece->stride[3];
    uint64_t chunk = piece->n_groups ? piece->chunk : piece->ne[0], n = piece->ne[0] / chunk;
    uint64_t n_groups = piece->n_groups ? piece->n_groups : 1, n_each = n / n_groups;
    for (uint64_t i = 0; i < n; i++)
        copy_values(piece, at, (i % n_groups * n_each + i / n_groups) * chunk, chunk,
                    to + bytes_of(piece->source, i * chunk));
}

static void make_rows(const struct model_maker *maker, uint64_t first, uint64_t n, uint8_t *rows)
{
    const struct assembly *assembly = (const struct assembly *)maker;
    for (size_t i = 0; i < assembly->n_pieces && n > 0; i++) {
        const struct hf_piece *piece = &assembly->pieces[i];
        uint64_t end = rows_of(piece);
        for (; first < end && n > 0; first++, n--) {
            copy_row(piece, first, rows);
            if (piece->factor != 0) forms_multiply(piece->source->type, piece->factor, piece->ne[0], rows);
            rows += assembly->row_size;
        }
        first -= first < end ? first : end;
    }
}

/* Whether a piece's values are where they should be, and aligned. */
static bool is_dense(const struct hf_piece *piece)
{
    uint64_t stride = 1;
    if (piece->source->decode || piece->factor != 0 || piece->n_groups > 0) return false;
    for (int i = 0; i < 4; i++) {
        if (piece->ne[i] != 1 && piece->stride[i] != stride) return false;
        stride *= piece->ne[i];
    }
    uintptr_t size = (uintptr_t)bytes_of(piece->source, 1);
    return ((uintptr_t)piece->source->data + piece->start * size) % size == 0;
}

int hf_assemble(struct metadata *metadata, const struct hf_piece *pieces, size_t n_pieces,
                const uint64_t ne[4], struct model_tensor *tensor)
{
    const struct hf_source *first = pieces[0].source;
    uint64_t row_size;
    tensor->type = first->type;
    tensor->is_exact = first->decode && first->type != ENGINE_TYPE_F32;
    tensor->n_dims = 1;
    for (uint32_t i = 0; i < 4; i++) {
        tensor->ne[i] = ne[i];
        if (ne[i] > 1) tensor->n_dims = i + 1;
    }
    if (!type_row_size(first->type, ne[0], &row_size) ||
        checked_mul(row_size, ne[1] * ne[2] * ne[3], &tensor->size))
        return error_raise(ENGINE_ERROR_DATA, "%s has rows of %llu values, which are not whole blocks",
                           tensor->name, (unsigned long long)ne[0]);
    if (n_pieces == 1 && is_dense(pieces)) {
        tensor->data = first->data + bytes_of(first, pieces->start);
        return ENGINE_OK;
    }
    struct assembly *assembly = metadata_allocate(metadata, sizeof *assembly);
    struct model_bytes *sources = metadata_allocate(metadata, n_pieces * sizeof *sources);
    if (!assembly || !sources) return error_memory("tensor list");
    for (size_t i = 0; i < n_pieces; i++)
        sources[i] = (struct model_bytes){pieces[i].source->data, pieces[i].source->size};
    *assembly = (struct assembly){.maker = {.make = make_rows, .sources = sources, .n_sources = n_pieces},
                                  .pieces = pieces,
                                  .n_pieces = n_pieces,
                                  .row_size = row_size};
    tensor->maker = &assembly->maker;
    return ENGINE_OK;
}
