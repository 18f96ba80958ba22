/* tensors.c: see tensors.h. Each stored tensor is entered under the name of the tensor that it becomes or
 * belongs to; those of one name (a layer's experts) then become one tensor, or two (gate and up). */
#include "model/hf/tensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/half.h"
#include "base/log.h"
#include "model/file.h"
#include "model/hf/config.h"
#include "model/hf/names.h"
#include "model/hf/pieces.h"
#include "model/hf/quantised.h"
#include "model/safetensors.h"
#include "model/types.h"

struct entry {
    struct hf_name name; /* of the tensor; a bias has its own */
    const struct safetensors_tensor *stored;
    bool is_bias, is_quantised;
};

struct reader {
    struct model *model;
    const struct hf_config *config;
    const char *family;    /* GGUF's name */
    struct entry *entries; /* [n_entries] */
    size_t n_entries;
    size_t n_quantised, n_floats;     /* stored matrices that are quantised; those that become F32 */
    uint64_t stored_size, float_size; /* bytes of the latter, then and now */
    uint32_t n_stored_layers;         /* if more than config.json has, else 0 */
};

/* ---- Names --------------------------------------------------------------------------------------------- */

/* Tensors that checkpoints have besides the text model's weights: its constants, and other models. */
static bool is_left_out(const char *family, const char *name)
{
    static const char *const ends[] = {"rotary_emb.inv_freq",    ".attn.bias",
                                       ".attn.masked_bias",      ".attention.bias",
                                       ".attention.masked_bias", "embeddings.position_ids"};
    static const char *const others[] = {"vision_",
                                         "model.vision_",
                                         "visual.",
                                         "model.visual.",
                                         "multi_modal_projector",
                                         "model.multi_modal_projector",
                                         "audio_",
                                         "model.audio_",
                                         "cls.predictions.",
                                         "cls.seq_relationship.",
                                         "vocab_transform.",
                                         "vocab_layer_norm.",
                                         "vocab_projector.",
                                         "qa_outputs.",
                                         "mtp."};
    size_t length = strlen(name);
    /* T5's embedding under its other names. */
    if (strcmp(name, "encoder.embed_tokens.weight") == 0 || strcmp(name, "decoder.embed_tokens.weight") == 0)
        return strncmp(family, "t5", 2) == 0;
    /* RoBERTa's head for hidden words; decoders have a tensor of this name that is used. */
    if (strcmp(family, "bert") == 0 && strncmp(name, "lm_head.", 8) == 0) return true;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (length >= strlen(ends[i]) && strcmp(name + length - strlen(ends[i]), ends[i]) == 0) return true;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strncmp(name, others[i], strlen(others[i])) == 0) return true;
    return false;
}

/* Removes a suffix from a name. */
static bool cut(char *name, const char *suffix)
{
    size_t length = strlen(name), n = strlen(suffix);
    if (length <= n || strcmp(name + length - n, suffix) != 0) return false;
    name[length - n] = '\0';
    return true;
}

/* Finds what a stored tensor becomes. False: unknown. */
static bool name_tensor(const struct reader *reader, const struct safetensors_tensor *stored,
                        struct entry *entry)
{
    char module[512];
    if (strlen(stored->name) >= sizeof module - 1) return false; /* .weight is longer than .gamma */
    strcpy(module, stored->name);
    /* What norms of BERT were called before transformers 3. */
    if (cut(module, ".LayerNorm.gamma")) strcat(module, ".LayerNorm.weight");
    if (cut(module, ".LayerNorm.beta")) strcat(module, ".LayerNorm.bias");
    bool known = false;
    const char *codes = hf_quantised_suffix(reader->config, stored);
    entry->is_quantised = codes != NULL;
    entry->is_bias = !codes && cut(module, ".bias");
    if (codes) cut(module, *codes ? codes : ".weight");
    if (!entry->is_bias && !codes) {
        cut(module, ".weight");
        known = hf_name(reader->family, module, &entry->name); /* also names without a suffix */
        entry->is_bias = !known && cut(module, "_bias");
    }
    if (!known) known = hf_name(reader->family, module, &entry->name);
    if (known && cut(entry->name.tensor, ".bias")) entry->is_bias = true; /* named as a bias */
    char *shared = known && reader->config->shared_is_dense ? strstr(entry->name.tensor, "_shexp") : NULL;
    if (shared) memmove(shared, shared + strlen("_shexp"), strlen(shared + strlen("_shexp")) + 1);
    if (known && entry->is_bias) {
        cut(entry->name.tensor, ".weight");
        strncat(entry->name.tensor, ".bias", sizeof entry->name.tensor - strlen(entry->name.tensor) - 1);
    }
    return known;
}

/* Unknown tensors keep their names, so that a warning names them if the family has no use for them. */
static void enter(struct reader *reader, const struct safetensors_tensor *stored)
{
    struct entry *entry = &reader->entries[reader->n_entries];
    *entry = (struct entry){.stored = stored};
    if (is_left_out(reader->family, stored->name) || hf_is_companion(reader->config, stored->name)) return;
    if (!name_tensor(reader, stored, entry)) {
        entry->name = (struct hf_name){.layer = HF_NO_NUMBER, .expert = HF_NO_NUMBER};
        if (strlen(stored->name) >= sizeof entry->name.tensor || stored->n_dims > 3) return;
        strcpy(entry->name.tensor, stored->name);
        if (stored->type == SAFETENSORS_OTHER_TYPE || stored->size == 0) return;
    }
    if (!reader->config->is_classifier && strncmp(entry->name.tensor, "cls.", 4) == 0) return;
    /* Only BERT's own classifiers read the pooler; RoBERTa's checkpoints may have one left over. */
    bool has_pooler = strcmp(reader->config->family->type, "bert") == 0;
    if (!has_pooler && strstr(stored->name, "pooler.dense.")) return;
    /* Layers after the last predict further tokens. */
    if (entry->name.layer != HF_NO_NUMBER && entry->name.layer >= reader->config->n_layers) {
        if (entry->name.layer >= reader->n_stored_layers) reader->n_stored_layers = entry->name.layer + 1;
        return;
    }
    if (reader->config->is_tied && strcmp(entry->name.tensor, "output.weight") == 0) return;
    reader->n_entries++;
}

/* linear.weight and linear.bias of a dense step. */
static int enter_dense(struct reader *reader, const struct safetensors_tensor *stored, size_t number)
{
    struct entry *entry = &reader->entries[reader->n_entries++];
    *entry = (struct entry){.stored = stored, .is_bias = strcmp(stored->name, "linear.bias") == 0};
    if (!entry->is_bias && strcmp(stored->name, "linear.weight") != 0)
        return error_raise(ENGINE_ERROR_UNSUPPORTED, "%s: a Dense with the tensor %.100s is not supported",
                           reader->model->path, stored->name);
    entry->name = (struct hf_name){.layer = HF_NO_NUMBER, .expert = HF_NO_NUMBER};
    snprintf(entry->name.tensor, sizeof entry->name.tensor, "dense_%zu.%s", number + 2,
             entry->is_bias ? "bias" : "weight");
    return ENGINE_OK;
}

static int compare_entries(const void *a, const void *b)
{
    const struct entry *left = a, *right = b;
    int order = strcmp(left->name.tensor, right->name.tensor);
    if (order) return order;
    return (left->name.expert > right->name.expert) - (left->name.expert < right->name.expert);
}

/* ---- Shapes -------------------------------------------------------------------------------------------- */

/* What becomes of a stored matrix besides the order of its rows. */
enum form {
    FORM_SAME,
    FORM_HALVES,      /* two tensors: the first half of the rows, the second */
    FORM_INTERLEAVED, /* two tensors: even rows, odd rows */
    FORM_LATENT,      /* two tensors: DeepSeek's keys, transposed, and values */
    FORM_EXPERTS,     /* the experts' matrices, one below the other (Nomic) */
    FORM_QKV,         /* three tensors: from groups, rope's pairs made adjacent (InternLM 2) */
    FORM_QKVZ,        /* two tensors: from groups, queries, keys and values; gates (Qwen 3 Next) */
};

static const struct shape_rule {
    const char *family; /* NULL: any */
    const char *tensor; /* after "blk.N." */
    enum form form;
    bool is_transposed; /* stored with the inputs as rows */
    const char *outputs[3];
} rules[] = {
    {"gpt2", "attn_qkv", FORM_SAME, true, {NULL}},
    {"gpt2", "attn_output", FORM_SAME, true, {NULL}},
    {"gpt2", "ffn_up", FORM_SAME, true, {NULL}},
    {"gpt2", "ffn_down", FORM_SAME, true, {NULL}},
    {"gpt-oss", "ffn_gate_up_exps", FORM_INTERLEAVED, true, {"ffn_gate_exps", "ffn_up_exps"}},
    {"gpt-oss", "ffn_down_exps", FORM_SAME, true, {NULL}},
    {"llama4", "ffn_gate_up_exps", FORM_HALVES, true, {"ffn_gate_exps", "ffn_up_exps"}},
    {"llama4", "ffn_down_exps", FORM_SAME, true, {NULL}},
    {"deepseek2", "attn_kv_b", FORM_LATENT, false, {"attn_k_b", "attn_v_b"}},
    {"internlm2", "attn_qkv", FORM_QKV, false, {"attn_q", "attn_k", "attn_v"}},
    {"jina-bert-v2", "ffn_gate_up", FORM_HALVES, false, {"ffn_gate", "ffn_up"}},
    {"jina-bert-v2", "ffn_up_gate", FORM_HALVES, false, {"ffn_up", "ffn_gate"}},
    {"nomic-bert-moe", "ffn_up_exps", FORM_EXPERTS, false, {NULL}},
    {"nomic-bert-moe", "ffn_down_exps", FORM_EXPERTS, true, {NULL}},
    {"qwen3next", "attn_qkvz", FORM_QKVZ, false, {"attn_qkv", "attn_gate"}},
    {NULL, "ffn_gate_up", FORM_HALVES, false, {"ffn_gate", "ffn_up"}},
    {NULL, "ffn_gate_up_exps", FORM_HALVES, false, {"ffn_gate_exps", "ffn_up_exps"}},
    {NULL, "ffn_gate_up_shexp", FORM_HALVES, false, {"ffn_gate_shexp", "ffn_up_shexp"}},
};

static const struct shape_rule *find_rule(const struct reader *reader, const struct hf_name *name)
{
    static const struct shape_rule same = {.form = FORM_SAME};
    char base[64];
    const char *tensor = name->layer == HF_NO_NUMBER ? NULL : strchr(name->tensor + strlen("blk."), '.');
    if (!tensor) return &same;
    snprintf(base, sizeof base, "%s", tensor + 1);
    *strchrnul(base, '.') = '\0';
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(rules[i].tensor, base) == 0 &&
            (!rules[i].family || strcmp(rules[i].family, reader->family) == 0))
            return &rules[i];
    return &same;
}

/* A stored tensor as matrices: value (i, row, m) is number i * step + row * row_step + m * matrix_step. A
 * bias has rows of one value. */
struct matrices {
    struct hf_source *source;
    uint64_t k, n_rows, n;
    uint64_t step, row_step, matrix_step;
};

static void view_quantised(const uint64_t dims[3], struct matrices *m)
{
    m->k = m->row_step = dims[0];
    m->n_rows = dims[1];
    m->n = dims[2];
    m->step = 1;
    m->matrix_step = dims[0] * dims[1];
}

static int view_matrices(const struct reader *reader, const struct entry *entry, bool is_transposed,
                         struct matrices *m)
{
    const struct safetensors_tensor *stored = entry->stored;
    uint64_t dims[3] = {1, 1, 1}; /* from the last on */
    uint32_t n = stored->n_dims;
    while (n > 1 && stored->ne[stored->n_dims - n] == 1 && entry->is_bias) n--; /* [1, n] */
    bool has_channels = n == 3 && stored->ne[1] == 1; /* a convolution's weights: [channels, 1, taps] */
    if (n > 3 || stored->size == 0)
        return error_raise(ENGINE_ERROR_DATA, "%s: %s has %u dimensions, or no values", reader->model->path,
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

#define MAX_PARTS    3
#define MAX_SEGMENTS 5 /* pieces of a tensor with factors */

/* The pieces of up to three tensors that come from stored ones of the same name. */
struct output {
    struct hf_piece *pieces; /* [capacity] */
    size_t n, capacity;
    uint64_t ne[3]; /* of what one stored tensor gives */
};

static void add_piece(struct output *output, const struct matrices *m, uint64_t first_row,
                      const uint64_t ne[4], const uint64_t stride[4])
{
    struct hf_piece *piece = &output->pieces[output->n++];
    *piece = (struct hf_piece){.source = m->source, .start = first_row * m->row_step};
    memcpy(piece->ne, ne, sizeof piece->ne);
    memcpy(piece->stride, stride, sizeof piece->stride);
}

static void set_shape(struct output *output, uint64_t k, uint64_t n_rows, uint64_t n)
{
    output->ne[0] = k;
    output->ne[1] = n_rows;
    output->ne[2] = n;
}

static int refuse_rows(const struct reader *reader, const struct entry *entry, const struct matrices *m)
{
    return error_raise(ENGINE_ERROR_DATA,
                       "%s: %s has %" PRIu64 " rows in %" PRIu64
                       " matrices, which do not suit config.json's heads",
                       reader->model->path, entry->stored->name, m->n_rows, m->n);
}

/* Heads whose pairs of halves are made adjacent. */
static int add_pairs(const struct reader *reader, const struct entry *entry, const struct matrices *m,
                     uint64_t n_heads, struct output *output)
{
    uint64_t head = m->n_rows / n_heads, r = m->row_step;
    if (head * n_heads != m->n_rows || head % 2 != 0 || m->n != 1) return refuse_rows(reader, entry, m);
    add_piece(output, m, 0, (const uint64_t[4]){m->k, 2, head / 2, n_heads},
              (const uint64_t[4]){m->step, head / 2 * r, r, head * r});
    set_shape(output, m->k, m->n_rows, m->n);
    return ENGINE_OK;
}

/* Groups of some queries, a key and a value: all queries, keys and values, in one tensor. */
static int add_groups(const struct reader *reader, const struct entry *entry, const struct matrices *m,
                      struct output *output)
{
    uint64_t n_groups = reader->config->n_kv_heads, per_group = reader->config->n_heads / n_groups;
    uint64_t head = m->n_rows / (n_groups * (per_group + 2)), r = m->row_step,
             group = (per_group + 2) * head * r;
    if (head * (per_group + 2) * n_groups != m->n_rows || per_group * n_groups != reader->config->n_heads ||
        m->n != 1)
        return refuse_rows(reader, entry, m);
    add_piece(output, m, 0, (const uint64_t[4]){m->k, head, per_group, n_groups},
              (const uint64_t[4]){m->step, r, head * r, group});
    for (uint64_t i = 0; i < 2; i++)
        add_piece(output, m, (per_group + i) * head, (const uint64_t[4]){m->k, head, n_groups, 1},
                  (const uint64_t[4]){m->step, r, group, 0});
    set_shape(output, m->k, m->n_rows, m->n);
    return ENGINE_OK;
}

/* The same as three tensors, the pairs of queries and keys made adjacent. */
static int add_qkv(const struct reader *reader, const struct entry *entry, const struct matrices *m,
                   struct output outputs[MAX_PARTS])
{
    uint64_t n_groups = reader->config->n_kv_heads, per_group = reader->config->n_heads / n_groups;
    uint64_t head = m->n_rows / (n_groups * (per_group + 2)), r = m->row_step,
             group = (per_group + 2) * head * r;
    if (head * (per_group + 2) * n_groups != m->n_rows || per_group * n_groups != reader->config->n_heads ||
        m->n != 1 || head % 2 != 0)
        return refuse_rows(reader, entry, m);
    for (uint64_t i = 0; i < n_groups; i++)
        add_piece(&outputs[0], m, i * (per_group + 2) * head,
                  (const uint64_t[4]){m->k, 2, head / 2, per_group},
                  (const uint64_t[4]){m->step, head / 2 * r, r, head * r});
    add_piece(&outputs[1], m, per_group * head, (const uint64_t[4]){m->k, 2, head / 2, n_groups},
              (const uint64_t[4]){m->step, head / 2 * r, r, group});
    add_piece(&outputs[2], m, (per_group + 1) * head, (const uint64_t[4]){m->k, head, n_groups, 1},
              (const uint64_t[4]){m->step, r, group, 0});
    set_shape(&outputs[0], m->k, n_groups * per_group * head, 1);
    set_shape(&outputs[1], m->k, n_groups * head, 1);
    set_shape(&outputs[2], m->k, n_groups * head, 1);
    return ENGINE_OK;
}

/* The groups of a delta net: a query, a key, and some values and gates. */
static int add_qkvz(const struct reader *reader, const struct entry *entry, const struct matrices *m,
                    struct output outputs[MAX_PARTS])
{
    const struct hf_config *c = reader->config;
    uint64_t n = c->n_key_heads, key = c->key_dim, values = (uint64_t)c->n_value_heads / n * c->value_dim;
    uint64_t r = m->row_step, group = 2 * key + 2 * values;
    if (n * group != m->n_rows || m->n != 1) return refuse_rows(reader, entry, m);
    const uint64_t firsts[4] = {0, key, 2 * key, 2 * key + values}, lengths[4] = {key, key, values, values};
    for (size_t i = 0; i < 4; i++)
        add_piece(&outputs[i < 3 ? 0 : 1], m, firsts[i], (const uint64_t[4]){m->k, lengths[i], n, 1},
                  (const uint64_t[4]){m->step, r, group * r, 0});
    set_shape(&outputs[0], m->k, n * (2 * key + values), 1);
    set_shape(&outputs[1], m->k, n * values, 1);
    return ENGINE_OK;
}

/* Each of the two takes half of the rows. */
static int add_halves(const struct reader *reader, const struct entry *entry, const struct matrices *m,
                      bool interleaved, struct output outputs[MAX_PARTS])
{
    uint64_t half = m->n_rows / 2, r = m->row_step;
    if (m->n_rows % 2 != 0) return refuse_rows(reader, entry, m);
    for (uint64_t i = 0; i < 2; i++) {
        add_piece(&outputs[i], m, interleaved ? i : i * half, (const uint64_t[4]){m->k, half, m->n, 1},
                  (const uint64_t[4]){m->step, interleaved ? 2 * r : r, m->matrix_step, 0});
        set_shape(&outputs[i], m->k, half, m->n);
    }
    return ENGINE_OK;
}

/* Each head has rows for the keys and then for the values of a latent vector; matrices for each head map
 * queries to it, and it to values. */
static int add_latent(const struct reader *reader, const struct entry *entry, const struct matrices *m,
                      struct output outputs[MAX_PARTS])
{
    uint64_t nope = reader->config->n_nope, value = reader->config->n_value, r = m->row_step;
    uint64_t n_heads = reader->config->n_heads, head = (nope + value) * r;
    if (n_heads * (nope + value) != m->n_rows || m->n != 1) return refuse_rows(reader, entry, m);
    add_piece(&outputs[0], m, 0, (const uint64_t[4]){nope, m->k, n_heads, 1},
              (const uint64_t[4]){r, m->step, head, 0});
    add_piece(&outputs[1], m, nope, (const uint64_t[4]){m->k, value, n_heads, 1},
              (const uint64_t[4]){m->step, r, head, 0});
    set_shape(&outputs[0], nope, m->k, n_heads);
    set_shape(&outputs[1], m->k, value, n_heads);
    return ENGINE_OK;
}

/* Experts in one stored matrix: some rows each, or with `by_columns` some columns (of what is stored transposed). */
static int add_experts(const struct reader *reader, const struct entry *entry, const struct matrices *m,
                       bool by_columns, struct output *output)
{
    uint64_t n = reader->config->n_experts, all = by_columns ? m->k : m->n_rows, each = n ? all / n : 0;
    uint64_t k = by_columns ? each : m->k, n_rows = by_columns ? m->n_rows : each;
    if (each == 0 || each * n != all || m->n != 1) return refuse_rows(reader, entry, m);
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

static bool has_factors(const struct reader *reader, const struct hf_name *name)
{
    const struct hf_factor *factor = reader->config->factors_of_rows;
    for (; factor && factor->tensor; factor++)
        if (is_for(factor, name)) return true;
    return false;
}

/* Rows of a matrix, each of which is multiplied by a factor: a piece for each factor. */
static int add_multiplied(const struct reader *reader, const struct entry *entry, const struct matrices *m,
                          struct output *output)
{
    uint64_t at = 0;
    for (const struct hf_factor *factor = reader->config->factors_of_rows; factor->tensor; factor++) {
        if (!is_for(factor, &entry->name)) continue;
        uint64_t end = factor->end ? factor->end : m->n_rows;
        if (factor->first != at || end < at || end > m->n_rows || m->n != 1)
            return refuse_rows(reader, entry, m);
        if (end == at) continue;
        add_piece(output, m, at, (const uint64_t[4]){m->k, end - at, 1, 1},
                  (const uint64_t[4]){m->step, m->row_step, 0, 0});
        output->pieces[output->n - 1].factor = factor->factor == 1 ? 0 : factor->factor;
        at = end;
    }
    if (at != m->n_rows) return refuse_rows(reader, entry, m);
    set_shape(output, m->k, m->n_rows, 1);
    return ENGINE_OK;
}

/* Adds the pieces of one stored tensor. */
static int add_entry(const struct reader *reader, const struct entry *entry, const struct shape_rule *rule,
                     const struct matrices *m, struct output outputs[MAX_PARTS])
{
    if (rule->form == FORM_HALVES || rule->form == FORM_INTERLEAVED)
        return add_halves(reader, entry, m, rule->form == FORM_INTERLEAVED, outputs);
    if (rule->form == FORM_EXPERTS) return add_experts(reader, entry, m, rule->is_transposed, outputs);
    if (rule->form == FORM_LATENT) return add_latent(reader, entry, m, outputs);
    if (rule->form == FORM_QKV) return add_qkv(reader, entry, m, outputs);
    if (rule->form == FORM_QKVZ) return add_qkvz(reader, entry, m, outputs);
    if (has_factors(reader, &entry->name)) return add_multiplied(reader, entry, m, outputs);
    if (entry->name.rows == HF_ROWS_GROUPS) return add_groups(reader, entry, m, outputs);
    if (entry->name.rows == HF_ROWS_QUERIES)
        return add_pairs(reader, entry, m, reader->config->n_heads, outputs);
    if (entry->name.rows == HF_ROWS_KEYS)
        return add_pairs(reader, entry, m, reader->config->n_kv_heads, outputs);
    uint64_t first =
        strcmp(entry->name.tensor, "position_embd.weight") == 0 ? reader->config->n_unused_rows : 0;
    if (first >= m->n_rows) return refuse_rows(reader, entry, m);
    add_piece(outputs, m, first, (const uint64_t[4]){m->k, m->n_rows - first, m->n, 1},
              (const uint64_t[4]){m->step, m->row_step, m->matrix_step, 0});
    set_shape(outputs, m->k, m->n_rows - first, m->n);
    return ENGINE_OK;
}

/* ---- Tensors ------------------------------------------------------------------------------------------- */

/* The rates of a recurrence, stored as logarithms: GGUF has -exp(x). */
static bool is_log(const char *name)
{
    return hf_ends_with(name, ".ssm_a");
}

/* Lists of Mamba 2 that have two dimensions in GGUF: [1, heads] and [values of a group, groups]. */
static void split_list(const struct hf_config *config, struct model_tensor *tensor)
{
    uint64_t n = tensor->ne[0], n_rows = 1;
    if (config->n_groups == 0) return;
    if (is_log(tensor->name) || hf_ends_with(tensor->name, ".ssm_d")) n_rows = n;
    if (hf_ends_with(tensor->name, ".ssm_norm.weight")) n_rows = config->n_groups;
    if (hf_ends_with(tensor->name, ".ssm_norm.weight")) tensor->n_dims = 2;
    if (n_rows == 1 || n % n_rows != 0) return;
    tensor->ne[0] = n / n_rows, tensor->ne[1] = n_rows;
    tensor->n_dims = 2;
}

/* Norms, biases and the like, which graphs read as numbers. */
static bool is_values(const char *name)
{
    return strstr(name, "norm") || strstr(name, ".bias") || strstr(name, "attn_sinks") || is_log(name) ||
           strstr(name, ".ssm_d") || strstr(name, ".ssm_conv1d.") || strstr(name, ".shortconv.conv.");
}

/* Makes a tensor's numbers now, as F32, with 1 added where the family's norms do. */
static int make_values(struct reader *reader, struct model_tensor *tensor)
{
    uint64_t n = tensor->ne[0] * tensor->ne[1] * tensor->ne[2] * tensor->ne[3];
    if (tensor->type != ENGINE_TYPE_F32 && tensor->type != ENGINE_TYPE_F16 &&
        tensor->type != ENGINE_TYPE_BF16)
        return error_raise(ENGINE_ERROR_DATA, "%s: %s is quantised, which it cannot be", reader->model->path,
                           tensor->name);
    float *values = metadata_allocate(reader->model->metadata, (size_t)n * sizeof *values);
    const void *stored;
    void *gathered;
    if (!values) return error_memory("tensor list");
    int status = model_tensor_gather(tensor, &stored, &gathered);
    if (status) return status;
    const uint8_t *data = stored;
    bool is_norm = strstr(tensor->name, "norm") && !strstr(tensor->name, ".bias") &&
                   !hf_ends_with(tensor->name, ".ssm_norm.weight");
    float addend = reader->config->family->adds_one && is_norm ? 1 : 0;
    for (uint64_t i = 0; i < n; i++) {
        uint16_t half;
        if (tensor->type == ENGINE_TYPE_F32) {
            memcpy(&values[i], data + 4 * i, sizeof values[i]);
        } else {
            memcpy(&half, data + 2 * i, sizeof half);
            values[i] = tensor->type == ENGINE_TYPE_F16 ? engine_f16_to_f32(half) : engine_bf16_to_f32(half);
        }
        values[i] += addend;
        if (is_log(tensor->name)) values[i] = -expf(values[i]);
    }
    free(gathered);
    tensor->type = ENGINE_TYPE_F32;
    tensor->size = n * sizeof *values;
    tensor->data = values;
    tensor->maker = NULL;
    return ENGINE_OK;
}

/* "blk.3.ffn_up_exps.weight" from "blk.3.ffn_gate_up_exps.weight" and "ffn_up_exps"; owned by the metadata. */
static char *output_name(const struct reader *reader, const struct entry *entry, const char *output)
{
    char name[128];
    if (output)
        snprintf(name, sizeof name, "blk.%u.%s.%s", entry->name.layer, output,
                 entry->is_bias ? "bias" : "weight");
    else
        snprintf(name, sizeof name, "%s", entry->name.tensor);
    char *copy = metadata_allocate(reader->model->metadata, strlen(name) + 1);
    return copy ? strcpy(copy, name) : NULL;
}

/* `is_list`: its rows have one value each; its shape then begins with the number of rows. */
static int add_tensor(struct reader *reader, const char *name, const struct output *output,
                      const uint64_t ne[4], bool is_list)
{
    struct model_tensor *tensor = &reader->model->tensors[reader->model->n_tensors];
    if (!name) return error_memory("tensor list");
    *tensor = (struct model_tensor){.name = name};
    int status = hf_assemble(reader->model->metadata, output->pieces, output->n, ne, tensor);
    if (!status && (is_list || is_values(name))) status = make_values(reader, tensor);
    if (!status && is_list) {
        tensor->ne[0] = ne[1], tensor->ne[1] = ne[2], tensor->ne[2] = 1;
        tensor->n_dims = ne[2] > 1 ? 2 : 1;
        split_list(reader->config, tensor);
    } else if (!status && tensor->n_dims < 2) {
        tensor->n_dims = 2; /* a matrix of one row */
    }
    if (!status) reader->model->n_tensors++;
    return status;
}

/* Finds how to read a stored tensor. */
static int view_entry(struct reader *reader, const struct entry *entry, const struct shape_rule *rule,
                      struct matrices *m)
{
    const struct safetensors_tensor *stored = entry->stored;
    uint64_t dims[3];
    if (entry->is_quantised) {
        int status = hf_quantised_read(reader->model, reader->config, stored, &m->source, dims);
        if (!status) view_quantised(dims, m);
        return status;
    }
    if (stored->type == SAFETENSORS_OTHER_TYPE)
        return error_raise(ENGINE_ERROR_UNSUPPORTED, "%s: %s has the type %s, which is not supported here",
                           reader->model->path, stored->name, stored->type_name);
    m->source = metadata_allocate(reader->model->metadata, sizeof *m->source);
    if (!m->source) return error_memory("tensor list");
    *m->source = (struct hf_source){.data = stored->data, .size = stored->size, .type = stored->type};
    return view_matrices(reader, entry, rule->is_transposed, m);
}

/* Stored tensors of one name, which have to be alike, and the experts of a layer. */
static int view_entries(struct reader *reader, const struct entry *entries, size_t n,
                        const struct shape_rule *rule, struct matrices *m)
{
    /* Rows that are cut or multiplied can't stay in blocks. */
    bool same_types = rule->form != FORM_LATENT && !has_factors(reader, &entries->name);
    for (size_t i = 0; i < n; i++) {
        const struct safetensors_tensor *stored = entries[i].stored, *first = entries[0].stored;
        bool is_like_first = strcmp(stored->type_name, first->type_name) == 0 &&
                             stored->n_dims == first->n_dims &&
                             memcmp(stored->ne, first->ne, sizeof stored->ne) == 0;
        if (!is_like_first || (n > 1 && entries[i].name.expert != i))
            return error_raise(ENGINE_ERROR_DATA,
                               "%s: %s does not go with %s: another shape or type, a gap, or the same tensor",
                               reader->model->path, stored->name, first->name);
        int status = view_entry(reader, &entries[i], rule, &m[i]);
        if (status) return status;
        same_types = same_types && m[i].source->type == m[0].source->type;
    }
    for (size_t i = 0; i < n; i++) {
        if (!entries[i].is_quantised) continue;
        if (!same_types) hf_quantised_as_float(m[i].source);
        reader->n_quantised++;
        if (m[i].source->type != ENGINE_TYPE_F32 || m[i].source->is_small) continue;
        reader->n_floats++;
        reader->stored_size += m[i].source->size;
        reader->float_size += m[i].k * m[i].n_rows * m[i].n * sizeof(float);
    }
    return ENGINE_OK;
}

static void tell_of_floats(const struct reader *reader)
{
    const double mib = 1024 * 1024;
    if (reader->n_floats)
        log_line(ENGINE_LOG_WARNING,
                 "%s: %zu of %zu quantised matrices fit no type of the engine and become F32: %.1f MiB "
                 "instead "
                 "of %.1f MiB. --load-type and `engine quantize` make them smaller",
                 reader->model->path, reader->n_floats, reader->n_quantised, (double)reader->float_size / mib,
                 (double)reader->stored_size / mib);
}

/* The most pieces that a stored tensor gives one output. */
static size_t most_pieces(const struct reader *reader, const struct shape_rule *rule)
{
    return rule->form == FORM_QKV ? (size_t)reader->config->n_kv_heads : MAX_SEGMENTS;
}

/* Makes the tensors that come from `n` stored ones of the same name. */
static int make_tensors(struct reader *reader, const struct entry *entries, size_t n)
{
    const struct shape_rule *rule = find_rule(reader, &entries->name);
    struct metadata *metadata = reader->model->metadata;
    struct matrices *m = metadata_allocate(metadata, n * sizeof *m);
    struct output outputs[MAX_PARTS] = {0};
    if (!m) return error_memory("tensor list");
    for (size_t i = 0; i < MAX_PARTS && (i == 0 || rule->outputs[i]); i++) {
        outputs[i].pieces =
            metadata_allocate(metadata, n * most_pieces(reader, rule) * sizeof(struct hf_piece));
        if (!outputs[i].pieces) return error_memory("tensor list");
    }
    int status = view_entries(reader, entries, n, rule, m);
    for (size_t i = 0; i < n && !status; i++) status = add_entry(reader, &entries[i], rule, &m[i], outputs);
    bool is_numbered = entries->name.expert != HF_NO_NUMBER;
    for (size_t i = 0; i < MAX_PARTS && outputs[i].n > 0 && !status; i++) {
        const uint64_t ne[4] = {outputs[i].ne[0], outputs[i].ne[1], outputs[i].ne[2] * (is_numbered ? n : 1),
                                1};
        bool is_list = !entries->is_quantised && (entries->is_bias || entries->stored->n_dims <= 1);
        status = add_tensor(reader, output_name(reader, entries, rule->outputs[i]), &outputs[i], ne, is_list);
    }
    return status;
}

/* ---- Whether config.json and the weights go together ---------------------------------------------------- */

static const struct model_tensor *find_listed(const struct model *model, const char *name)
{
    for (size_t i = 0; i < model->n_tensors; i++)
        if (strcmp(model->tensors[i].name, name) == 0) return &model->tensors[i];
    return NULL;
}

/* Where transformers goes on with a warning, so does the engine. */
static int check_config(struct reader *reader, struct hf_config *config)
{
    const char *path = reader->model->path;
    const struct model_tensor *embedding = find_listed(reader->model, "token_embd.weight");
    uint32_t vocabulary = hf_count(config, config->json, "vocab_size", 0);
    uint32_t multiple = hf_count(config, config->json, "pad_vocab_size_multiple", 1);
    uint32_t further = hf_count(config, config->json, "num_nextn_predict_layers|num_mtp_layers", 0);
    uint64_t padded = multiple ? ((uint64_t)vocabulary + multiple - 1) / multiple * multiple : vocabulary;
    if (config->status) return config->status;
    if (embedding && hf_get(config->json, "vocab_size") && embedding->ne[1] != vocabulary &&
        embedding->ne[1] != padded)
        return error_raise(ENGINE_ERROR_DATA, "%s: vocab_size is %u, but the embedding has %" PRIu64 " rows",
                           config->path, vocabulary, embedding->ne[1]);
    if (reader->n_stored_layers > config->n_layers + further)
        log_line(ENGINE_LOG_WARNING,
                 "%s: %u layers are stored; the first %u, which config.json names, are used", path,
                 reader->n_stored_layers, config->n_layers);
    bool is_generator = !config->is_classifier && !strstr(reader->family, "bert") &&
                        !strstr(reader->family, "t5") && strcmp(reader->family, "gemma-embedding") != 0;
    bool is_untied = json_is_false(hf_get(config->root, "tie_word_embeddings")) ||
                     json_is_false(hf_get(config->json, "tie_word_embeddings"));
    if (is_generator && is_untied && !config->is_tied && embedding &&
        !find_listed(reader->model, "output.weight"))
        log_line(ENGINE_LOG_WARNING,
                 "%s: lm_head.weight is missing, though tie_word_embeddings is false; the embedding takes "
                 "its place",
                 path);
    return ENGINE_OK;
}

/* ---- Factors that config.json has ---------------------------------------------------------------------- */

static void add_factors(struct reader *reader, const char *name, const float *values)
{
    uint64_t n = reader->config->n_rope / 2;
    if (!values) return;
    reader->model->tensors[reader->model->n_tensors++] = (struct model_tensor){.name = name,
                                                                               .type = ENGINE_TYPE_F32,
                                                                               .n_dims = 1,
                                                                               .ne = {n, 1, 1, 1},
                                                                               .data = values,
                                                                               .size = n * sizeof(float)};
}

int hf_list_tensors(struct model *model, struct hf_config *config)
{
    struct reader reader = {.model = model, .config = config, .family = config->family->architecture};
    size_t n = 0;
    for (size_t i = 0; i < model->n_shards; i++) n += safetensors_count(model->shards[i]);
    reader.entries = calloc(n + 1, sizeof *reader.entries);
    if (!reader.entries) return error_memory("tensor list");
    size_t first_dense = model->n_shards - config->n_dense;
    int status = ENGINE_OK;
    for (size_t i = 0; i < model->n_shards; i++)
        for (size_t k = 0; k < safetensors_count(model->shards[i]) && !status; k++) {
            const struct safetensors_tensor *stored = safetensors_at(model->shards[i], k);
            if (i < first_dense)
                enter(&reader, stored);
            else
                status = enter_dense(&reader, stored, i - first_dense);
        }
    qsort(reader.entries, reader.n_entries, sizeof *reader.entries, compare_entries);
    if (!status) status = model_reserve_tensors(model, MAX_PARTS * reader.n_entries + 4);
    for (size_t i = 0, same; i < reader.n_entries && !status; i += same) {
        for (same = 1; i + same < reader.n_entries; same++)
            if (strcmp(reader.entries[i].name.tensor, reader.entries[i + same].name.tensor) != 0) break;
        status = make_tensors(&reader, &reader.entries[i], same);
    }
    free(reader.entries);
    if (!status) status = check_config(&reader, config);
    if (status) return status;
    tell_of_floats(&reader);
    add_factors(&reader, "rope_freqs.weight", config->factors);
    add_factors(&reader, "rope_factors_long.weight", config->factors_long);
    add_factors(&reader, "rope_factors_short.weight", config->factors_short);
    return ENGINE_OK;
}
