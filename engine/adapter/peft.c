/* peft.c: adapters in folders of Hugging Face's PEFT: adapter_config.json and adapter_model.safetensors, with
 * the tensors base_model.model.MODULE.lora_A.weight [r, n_in] and .lora_B.weight [n_out, r], and for
 * embeddings .lora_embedding_A [r, n_rows] and .lora_embedding_B [n_values, r]; their last dimension is that
 * of adjacent values. They are copied, with rows in the order of GGUF files and the matrices of experts put
 * together.
 *
 * Experts may also be one parameter of a module (target_parameters), [n, rows, columns] or, on families
 * that store it so, [n, columns, rows]. Then A is [n r, n_in], a matrix below the other, and B [n_out, r
 * n], where column k n + e is column k of expert e. Releases of PEFT that take the first order for the
 * second (0.17) have them in each other's place: A is [n r, n_out] and B [n_in, r n]. The names lack the
 * parameter's: PEFT wraps the module once for each of its parameters, so the first one of "mlp.experts"
 * has the factors of "mlp.experts.base_layer". */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "adapter/internal.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/half.h"
#include "model/hf/names.h"
#include "model/safetensors.h"
#include "model/types.h"

#define PREFIX "base_model.model."

/* What PEFT calls the factors. */
static const struct factor_name {
    const char *suffix;
    bool is_b, is_rows;
} factor_names[] = {
    {".lora_A.weight", false, false},
    {".lora_B.weight", true, false},
    {".lora_embedding_A", false, true},
    {".lora_embedding_B", true, true},
};

/* A module with its two factors. */
struct module {
    char *name;      /* owned by the adapter */
    const char *key; /* what patterns see: the name, or the parameter's; owned by the adapter */
    struct hf_name hf;
    const struct safetensors_tensor *a, *b; /* NULL: not seen */
    bool is_rows;
    uint64_t n_matrices; /* of a parameter with the matrices of all experts; otherwise 1 */
    bool turned;         /* of such a parameter: its factors have changed places */
    float scale;
};

struct reader {
    struct adapter *adapter;
    const struct model *model;
    char family[64]; /* general.architecture */
    const struct hf_family *hf;
    struct peft_config config;
    struct safetensors *file;
    struct module *modules; /* [n_modules] */
    size_t n_modules;
};

/* ---- The list of modules ------------------------------------------------------------------------------- */

/* The factor that a tensor's name ends with, or NULL. */
static const struct factor_name *factor_of(const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof factor_names / sizeof *factor_names; i++) {
        size_t n = strlen(factor_names[i].suffix);
        if (length > n && strcmp(name + length - n, factor_names[i].suffix) == 0) return &factor_names[i];
    }
    return NULL;
}

/* PEFT may store the embedding that it has not changed along with its factors. One with other rows has been
 * changed: the vocabulary has grown. */
static bool is_unchanged_embedding(const struct reader *reader, const struct safetensors_tensor *tensor)
{
    static const char suffix[] = ".base_layer.weight";
    size_t length = strlen(tensor->name), n = sizeof suffix - 1;
    const struct model_tensor *embedding = model_tensor_find(reader->model, "token_embd.weight");
    return length > n && strcmp(tensor->name + length - n, suffix) == 0 && embedding && tensor->n_dims == 2 &&
           tensor->ne[0] == embedding->ne[1] && tensor->ne[1] == embedding->ne[0];
}

static int peft_refuse(const struct reader *reader, const struct safetensors_tensor *tensor)
{
    const char *why = "it is not a factor of a low-rank adapter (lora_A, lora_B)";
    if (strstr(tensor->name, "lora_magnitude_vector")) why = "DoRA is not supported";
    if (strstr(tensor->name, ".bias")) why = "trained biases are not supported";
    if (strstr(tensor->name, "modules_to_save") || strstr(tensor->name, "embed_tokens.weight") ||
        strstr(tensor->name, "lm_head.weight"))
        why = "whole trained modules are not supported";
    if (strstr(tensor->name, ".base_layer.weight"))
        why = "the model has been changed or its vocabulary resized";
    return error_raise(ENGINE_ERROR_UNSUPPORTED, "%s: the tensor %s cannot be applied: %s",
                       reader->adapter->path, tensor->name, why);
}

/* NAME.SUFFIX, owned by the adapter; NULL: out of memory. */
static char *join_name(struct adapter *adapter, const char *name, const char *suffix)
{
    size_t size = strlen(name) + strlen(suffix) + 1;
    char *joined = adapter_allocate(adapter, size);
    if (joined) snprintf(joined, size, "%s%s", name, suffix);
    return joined;
}

/* Finds the parameter of a module whose factors these are. False: none that is known. */
static bool find_parameter(const struct reader *reader, const char *module, struct hf_name *hf, char key[256])
{
    static const char *const parameters[] = {"gate_up_proj", "down_proj"}; /* in the order of modules */
    static const char wrapped[] = ".base_layer";
    struct {
        struct hf_name hf;
        char key[256];
    } named[2] = {0};
    size_t n = 0, depth = 0, length = strlen(module);
    for (; length > sizeof wrapped &&
           strncmp(module + length + 1 - sizeof wrapped, wrapped, strlen(wrapped)) == 0;
         depth++)
        length -= strlen(wrapped);
    for (size_t i = 0; i < 2 && length < 200; i++) {
        snprintf(named[n].key, sizeof named[n].key, "%.*s.%s", (int)length, module, parameters[i]);
        if (!peft_config_targets(&reader->config, named[n].key)) continue;
        if (!hf_name(reader->hf, named[n].key, &named[n].hf)) continue;
        if (strstr(named[n].hf.tensor, "_exps.")) n++;
    }
    if (depth >= n) return false;
    *hf = named[n - 1 - depth].hf;
    memcpy(key, named[n - 1 - depth].key, sizeof named->key);
    return true;
}

/* Finds what a module is called in GGUF files, and in patterns. *found: whether it is a matrix that is
 * known. */
static int find_module(struct reader *reader, struct module *module, bool *found)
{
    char key[256];
    *found = true;
    module->n_matrices = 1;
    module->key = module->name;
    if (!hf_name(reader->hf, module->name, &module->hf)) {
        *found = find_parameter(reader, module->name, &module->hf, key);
        if (!*found) return ENGINE_OK;
    } else {
        snprintf(key, sizeof key, "%.240s.weight", module->name);
        if (!peft_config_targets(&reader->config, key)) return ENGINE_OK;
    }
    module->key = join_name(reader->adapter, key, "");
    return module->key ? ENGINE_OK : ENGINE_ERROR_MEMORY;
}

/* Adds a module with one of its factors. */
static int add_tensor(struct reader *reader, const struct safetensors_tensor *tensor)
{
    const char *path = reader->adapter->path;
    const struct factor_name *factor = factor_of(tensor->name);
    size_t prefix = sizeof PREFIX - 1;
    if (!factor && is_unchanged_embedding(reader, tensor)) return ENGINE_OK;
    if (!factor || strncmp(tensor->name, PREFIX, prefix) != 0) return peft_refuse(reader, tensor);
    size_t length = strlen(tensor->name) - strlen(factor->suffix);
    if (length <= prefix) return peft_refuse(reader, tensor);
    if (tensor->type == SAFETENSORS_OTHER_TYPE)
        return error_raise(ENGINE_ERROR_UNSUPPORTED, "%s: %s is %s; it must be F32, F16 or BF16", path,
                           tensor->name, tensor->type_name);
    if (tensor->n_dims != 2 || tensor->ne[0] == 0 || tensor->ne[1] == 0)
        return error_raise(ENGINE_ERROR_DATA, "%s: %s is not a matrix", path, tensor->name);

    struct module *module = &reader->modules[reader->n_modules++];
    char *name = adapter_allocate(reader->adapter, length - prefix + 1);
    if (!name) return ENGINE_ERROR_MEMORY;
    memcpy(name, tensor->name + prefix, length - prefix);
    *module = (struct module){.name = name, .is_rows = factor->is_rows};
    if (factor->is_b)
        module->b = tensor;
    else
        module->a = tensor;
    bool found;
    int status = find_module(reader, module, &found);
    if (status) return status;
    if (!found)
        return error_raise(ENGINE_ERROR_UNSUPPORTED,
                           "%s: it changes %s, which is not a known matrix of the family %s: an adapter of "
                           "another model?",
                           path, name, reader->family);
    if (factor->is_rows != module->hf.is_embedding)
        return error_raise(ENGINE_ERROR_DATA, "%s: %s is %s embedding's factor, but its module is %s", path,
                           tensor->name, factor->is_rows ? "an" : "no",
                           module->hf.is_embedding ? "one" : "none");
    return ENGINE_OK;
}

static int compare_names(const void *a, const void *b)
{
    const struct module *left = a, *right = b;
    int order = strcmp(left->name, right->name);
    return order ? order : (left->b != NULL) - (right->b != NULL);
}

static int compare_targets(const void *a, const void *b)
{
    const struct module *left = a, *right = b;
    int order = strcmp(left->hf.tensor, right->hf.tensor);
    if (order) return order;
    return (left->hf.expert > right->hf.expert) - (left->hf.expert < right->hf.expert);
}

/* The model's number of a key that may have one for each layer; `fallback` if it has none. */
static uint64_t model_number(const struct reader *reader, const char *key, uint32_t layer, uint64_t fallback)
{
    char full[128];
    int64_t value;
    snprintf(full, sizeof full, "%s.%s", reader->family, key);
    const struct metadata_entry *entry = metadata_find(model_metadata(reader->model), full);
    bool found = entry && metadata_entry_integer(entry, entry->is_array ? layer : 0, &value);
    return found && value > 0 ? (uint64_t)value : fallback;
}

/* A parameter with the matrices of all experts has factors for each. */
static int count_matrices(const struct reader *reader, struct module *module)
{
    if (!strstr(module->hf.tensor, "_exps.") || module->hf.expert != HF_NO_NUMBER) return ENGINE_OK;
    module->n_matrices = model_number(reader, "expert_count", module->hf.layer, 0);
    if (module->n_matrices > 0 && module->a->ne[0] % module->n_matrices == 0) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_DATA,
                       "%s: %s does not suit the model's %" PRIu64 " experts: an adapter of another model?",
                       reader->adapter->path, module->key, module->n_matrices);
}

/* Joins the two factors of each module. */
static int pair_factors(struct reader *reader)
{
    const char *path = reader->adapter->path;
    size_t n = reader->n_modules;
    qsort(reader->modules, n, sizeof *reader->modules, compare_names);
    reader->n_modules = 0;
    for (size_t i = 0; i < n; i += 2) {
        struct module *module = &reader->modules[reader->n_modules++], *next = &reader->modules[i + 1];
        *module = reader->modules[i];
        if (i + 1 == n || strcmp(module->name, next->name) != 0 || !module->a || !next->b)
            return error_raise(ENGINE_ERROR_DATA, "%s: %s has only one of its two factors", path,
                               module->name);
        module->b = next->b;
        if (module->a->ne[0] != module->b->ne[1])
            return error_raise(ENGINE_ERROR_DATA,
                               "%s: the factors of %s have the ranks %" PRIu64 " and %" PRIu64, path,
                               module->name, module->a->ne[0], module->b->ne[1]);
        int status = count_matrices(reader, module);
        if (!status)
            status = peft_config_scale(&reader->config, module->key, module->a->ne[0] / module->n_matrices,
                                       &module->scale);
        if (status) return status;
    }
    return ENGINE_OK;
}

static int list_modules(struct reader *reader)
{
    size_t n = safetensors_count(reader->file);
    reader->modules = calloc(n + 1, sizeof *reader->modules);
    if (!reader->modules) return error_memory("adapter");
    for (size_t i = 0; i < n; i++) {
        int status = add_tensor(reader, safetensors_at(reader->file, i));
        if (status) return status;
    }
    int status = pair_factors(reader);
    qsort(reader->modules, reader->n_modules, sizeof *reader->modules, compare_targets);
    for (size_t i = 1; i < reader->n_modules && !status; i++)
        if (compare_targets(&reader->modules[i - 1], &reader->modules[i]) == 0)
            status = error_raise(ENGINE_ERROR_DATA, "%s: %s and %s are the same matrix",
                                 reader->adapter->path, reader->modules[i - 1].name, reader->modules[i].name);
    return status;
}

/* ---- Rows ---------------------------------------------------------------------------------------------- */

/* How the rows of B are ordered in GGUF files. */
struct row_order {
    enum hf_rows rows;
    uint64_t n_heads; /* of the matrix; GROUPS: of the queries */
    uint64_t n_kv;    /* GROUPS: the number of groups */
    uint64_t head;    /* rows of a head */
};

/* ENGINE_ERROR_DATA: the matrix's rows are not those of the model's heads. */
static int find_row_order(const struct reader *reader, const struct module *module, struct row_order *order)
{
    uint64_t n_heads = model_number(reader, "attention.head_count", module->hf.layer, 0);
    uint64_t n_kv = model_number(reader, "attention.head_count_kv", module->hf.layer, n_heads);
    uint64_t n_rows = module->b->ne[0], n = n_heads;
    bool groups = module->hf.rows == HF_ROWS_GROUPS;
    if (module->hf.rows == HF_ROWS_KEYS) n = n_kv;
    if (groups) n = n_heads + 2 * n_kv;
    *order = (struct row_order){module->hf.rows, groups ? n_heads : n, n_kv, n > 0 ? n_rows / n : 0};
    if (order->rows == HF_ROWS_SAME) return ENGINE_OK;
    bool fits = n > 0 && n_rows % n == 0 && (groups ? n_heads % n_kv == 0 : order->head % 2 == 0);
    if (fits) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_DATA,
                       "%s: %s has %" PRIu64 " rows, which do not suit %" PRIu64
                       " heads: an adapter of another model?",
                       reader->adapter->path, module->name, n_rows, n);
}

/* The row of Hugging Face's matrix that becomes row `row` of GGUF's. */
static uint64_t source_row(const struct row_order *order, uint64_t row)
{
    uint64_t head = order->head, h = head > 0 ? row / head : 0, i = head > 0 ? row % head : 0;
    if (order->rows == HF_ROWS_SAME) return row;
    if (order->rows != HF_ROWS_GROUPS) return h * head + i % 2 * (head / 2) + i / 2;
    uint64_t per_group = order->n_heads / order->n_kv; /* queries of a group; its key and value follow */
    uint64_t group = h < order->n_heads ? h / per_group : (h - order->n_heads) % order->n_kv;
    uint64_t place = h < order->n_heads ? h % per_group : per_group + (h - order->n_heads) / order->n_kv;
    return (group * (per_group + 2) + place) * head + i;
}

/* ---- Factors ------------------------------------------------------------------------------------------- */

static float number_at(const struct safetensors_tensor *tensor, uint64_t index)
{
    return float_at(tensor->type, tensor->data, index);
}

/* Some rows of a matrix. */
struct rows {
    uint64_t first, step, n;
};

/* A matrix's factors for some of its rows, with their own type. */
static int copy_matrix(struct reader *reader, const struct module *module, const struct rows *rows,
                       struct adapter_part *part)
{
    struct row_order order;
    uint64_t rank = module->a->ne[0], row_size;
    int status = find_row_order(reader, module, &order);
    if (!status)
        status = adapter_make_tensor(reader->adapter, part->a.name, module->a->type,
                                     (uint64_t[3]){module->a->ne[1], rank, 1}, &part->a);
    if (!status)
        status = adapter_make_tensor(reader->adapter, part->b.name, module->b->type,
                                     (uint64_t[3]){rank, rows->n, 1}, &part->b);
    if (status) return status;
    memcpy((void *)(uintptr_t)part->a.data, module->a->data, (size_t)module->a->size);
    type_row_size(module->b->type, rank, &row_size);
    for (uint64_t i = 0; i < rows->n; i++)
        memcpy((uint8_t *)(uintptr_t)part->b.data + i * row_size,
               (const uint8_t *)module->b->data + source_row(&order, rows->first + i * rows->step) * row_size,
               (size_t)row_size);
    part->scale = module->scale;
    return ENGINE_OK;
}

/* An embedding's: A is transposed, so that a token's values are adjacent. */
static int copy_rows(struct reader *reader, const struct module *module, struct adapter_part *part)
{
    uint64_t rank = module->a->ne[0], n_rows = module->a->ne[1];
    uint64_t size = module->a->size / rank / n_rows; /* of a value */
    int status = adapter_make_tensor(reader->adapter, part->a.name, module->a->type,
                                     (uint64_t[3]){rank, n_rows, 1}, &part->a);
    if (!status)
        status = adapter_make_tensor(reader->adapter, part->b.name, module->b->type,
                                     (uint64_t[3]){rank, module->b->ne[0], 1}, &part->b);
    if (status) return status;
    for (uint64_t row = 0; row < n_rows; row++)
        for (uint64_t k = 0; k < rank; k++)
            memcpy((uint8_t *)(uintptr_t)part->a.data + (row * rank + k) * size,
                   (const uint8_t *)module->a->data + (k * n_rows + row) * size, (size_t)size);
    memcpy((void *)(uintptr_t)part->b.data, module->b->data, (size_t)module->b->size);
    part->is_rows = true;
    part->scale = module->scale;
    return ENGINE_OK;
}

/* The matrices of a layer's experts, `n` of them, as float32: experts without an adapter have zeros, and
 * smaller ranks are filled up. The scales are in B. */
static int copy_experts(struct reader *reader, const struct module *modules, size_t n,
                        struct adapter_part *part)
{
    const struct module *first = modules;
    uint64_t n_in = first->a->ne[1], n_out = first->b->ne[0], most = 0;
    uint64_t n_experts = model_number(reader, "expert_count", first->hf.layer, 0);
    for (size_t i = 0; i < n; i++) {
        const struct module *module = &modules[i];
        if (module->a->ne[0] > most) most = module->a->ne[0];
        if (module->hf.expert >= n_experts || module->a->ne[1] != n_in || module->b->ne[0] != n_out)
            return error_raise(ENGINE_ERROR_DATA,
                               "%s: %s does not suit the model's %" PRIu64
                               " experts: an adapter of another model?",
                               reader->adapter->path, module->name, n_experts);
    }
    int status = adapter_make_tensor(reader->adapter, part->a.name, ENGINE_TYPE_F32,
                                     (uint64_t[3]){n_in, most, n_experts}, &part->a);
    if (!status)
        status = adapter_make_tensor(reader->adapter, part->b.name, ENGINE_TYPE_F32,
                                     (uint64_t[3]){most, n_out, n_experts}, &part->b);
    if (status) return status;
    for (size_t i = 0; i < n; i++) {
        const struct module *module = &modules[i];
        uint64_t rank = module->a->ne[0];
        float *a = (float *)(uintptr_t)part->a.data + module->hf.expert * most * n_in;
        float *b = (float *)(uintptr_t)part->b.data + module->hf.expert * n_out * most;
        for (uint64_t k = 0; k < rank * n_in; k++) a[k] = number_at(module->a, k);
        for (uint64_t row = 0; row < n_out; row++)
            for (uint64_t k = 0; k < rank; k++)
                b[row * most + k] = module->scale * number_at(module->b, row * rank + k);
    }
    part->scale = 1;
    return ENGINE_OK;
}

/* Rows of a parameter with the matrices of all experts, as float32. */
static int copy_parameter(struct reader *reader, const struct module *module, const struct rows *rows,
                          struct adapter_part *part)
{
    bool turned = module->turned;
    uint64_t n = module->n_matrices, rank = module->a->ne[0] / n;
    uint64_t n_in = turned ? module->b->ne[0] : module->a->ne[1], width = module->a->ne[1];
    int status = adapter_make_tensor(reader->adapter, part->a.name, ENGINE_TYPE_F32,
                                     (uint64_t[3]){n_in, rank, n}, &part->a);
    if (!status)
        status = adapter_make_tensor(reader->adapter, part->b.name, ENGINE_TYPE_F32,
                                     (uint64_t[3]){rank, rows->n, n}, &part->b);
    if (status) return status;
    float *a = (float *)(uintptr_t)part->a.data, *b = (float *)(uintptr_t)part->b.data;
    for (uint64_t e = 0; e < n; e++)
        for (uint64_t k = 0; k < rank; k++)
            for (uint64_t i = 0; i < n_in; i++)
                *a++ = turned ? number_at(module->b, (i * rank + k) * n + e)
                              : number_at(module->a, (e * rank + k) * n_in + i);
    for (uint64_t e = 0; e < n; e++)
        for (uint64_t i = 0; i < rows->n; i++)
            for (uint64_t k = 0; k < rank; k++) {
                uint64_t row = rows->first + i * rows->step;
                *b++ = turned ? number_at(module->a, (e * rank + k) * width + row)
                              : number_at(module->b, (row * rank + k) * n + e);
            }
    part->scale = module->scale;
    return ENGINE_OK;
}

/* A new part for a tensor, with names only; NULL: out of memory. */
static struct adapter_part *name_part(struct adapter *adapter, const char *tensor)
{
    struct adapter_part *part = &adapter->parts[adapter->n_parts]; /* two for each module at most */
    part->target = join_name(adapter, tensor, "");
    part->a.name = join_name(adapter, tensor, ".lora_a");
    part->b.name = join_name(adapter, tensor, ".lora_b");
    return part->target && part->a.name && part->b.name ? part : NULL;
}

/* The two tensors that most models have in place of one matrix with gate and up; NULL: this one has it
 * whole. */
static const char *const *halves_of(const struct reader *reader, const struct hf_name *name)
{
    const struct hf_form *form = hf_find_form(reader->hf, name);
    bool is_cut = form->kind == FORM_HALVES || form->kind == FORM_INTERLEAVED;
    return is_cut && !model_tensor_find(reader->model, name->tensor) ? form->outputs : NULL;
}

/* Whether the factors of a parameter fit only in each other's place. `tensor`: the model's. */
static bool is_turned(const struct reader *reader, const struct module *module, const char *tensor)
{
    const struct model_tensor *target = model_tensor_find(reader->model, tensor);
    return target && module->a->ne[1] != target->ne[0] && module->b->ne[0] == target->ne[0];
}

/* The part of a matrix, or of a parameter with the matrices of all experts; or two parts, for gate and up. */
static int make_matrix_parts(struct reader *reader, struct module *module)
{
    struct adapter *adapter = reader->adapter;
    const char *tensor = module->hf.tensor, *const *halves = halves_of(reader, &module->hf);
    bool is_parameter = strstr(tensor, "_exps.") != NULL;
    char half[64];
    snprintf(half, sizeof half, "blk.%u.%s.weight", module->hf.layer, halves ? halves[0] : "");
    module->turned = is_parameter && is_turned(reader, module, halves ? half : tensor);
    uint64_t n_rows = module->turned ? module->a->ne[1] : module->b->ne[0];
    bool alternate = hf_find_form(reader->hf, &module->hf)->kind == FORM_INTERLEAVED;
    struct rows rows = {0, 1, n_rows};
    for (uint64_t i = 0; i < (halves ? 2 : 1); i++) {
        snprintf(half, sizeof half, "blk.%u.%s.weight", module->hf.layer, halves ? halves[i] : "");
        if (halves && n_rows % 2 != 0)
            return error_raise(ENGINE_ERROR_DATA, "%s: %s has %" PRIu64 " rows, which cannot be gate and up",
                               adapter->path, module->key, n_rows);
        if (halves) rows = (struct rows){alternate ? i : i * (n_rows / 2), alternate ? 2 : 1, n_rows / 2};
        struct adapter_part *part = name_part(adapter, halves ? half : tensor);
        if (!part) return ENGINE_ERROR_MEMORY;
        int status = is_parameter ? copy_parameter(reader, module, &rows, part)
                                  : copy_matrix(reader, module, &rows, part);
        if (status) return status;
        adapter->n_parts++;
    }
    return ENGINE_OK;
}

/* Whether the value heads of a delta net have another order in the model. */
static bool is_tiled(const struct reader *reader, const struct module *module)
{
    enum hf_form_kind kind = hf_find_form(reader->hf, &module->hf)->kind;
    return kind >= FORM_TILED && kind <= FORM_TILED_COLUMNS &&
           model_number(reader, "ssm.group_count", module->hf.layer, 1) !=
               model_number(reader, "ssm.time_step_rank", module->hf.layer, 1);
}

/* Refuses changes of matrices that are not in the model as they are in Hugging Face's: their factors no
 * longer fit. */
static int check_form(const struct reader *reader, const struct module *module)
{
    const char *tensor = module->hf.tensor, *why = NULL;
    bool is_whole = model_tensor_find(reader->model, tensor) != NULL;
    if (reader->hf->scales_all_but && !strstr(tensor, reader->hf->scales_all_but))
        why = "was multiplied by factors of config.json";
    else if (!is_whole && (strstr(tensor, ".attn_kv_b.") || strstr(tensor, ".attn_qkvz.")))
        why = "was divided, and its rows ordered anew,";
    else if (is_tiled(reader, module))
        why = "had its heads ordered anew";
    if (!why) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_UNSUPPORTED,
                       "%s: it changes %s, which %s when the model was converted: its factors no longer fit",
                       reader->adapter->path, module->name, why);
}

/* Makes a part of each group of modules with the same target: the experts of a layer, else one module. */
static int make_parts(struct reader *reader)
{
    struct adapter *adapter = reader->adapter;
    adapter->parts = calloc(2 * reader->n_modules + 1, sizeof *adapter->parts);
    if (!adapter->parts) return error_memory("adapter");
    for (size_t i = 0, n; i < reader->n_modules; i += n) {
        struct module *module = &reader->modules[i];
        const char *target = module->hf.tensor;
        for (n = 1; i + n < reader->n_modules && strcmp(module[n].hf.tensor, target) == 0; n++) continue;
        int status = check_form(reader, module);
        if (status) return status;
        if (module->hf.expert == HF_NO_NUMBER && !module->is_rows) {
            status = make_matrix_parts(reader, module);
        } else {
            struct adapter_part *part = name_part(adapter, target);
            if (!part) return ENGINE_ERROR_MEMORY;
            status =
                module->is_rows ? copy_rows(reader, module, part) : copy_experts(reader, module, n, part);
            if (!status) adapter->n_parts++;
        }
        if (status) return status;
    }
    return ENGINE_OK;
}

/* ---- Folders ------------------------------------------------------------------------------------------- */

static bool peft_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

static int open_files(struct reader *reader)
{
    struct adapter *adapter = reader->adapter;
    char *config = join_name(adapter, adapter->path, "/adapter_config.json");
    char *weights = join_name(adapter, adapter->path, "/adapter_model.safetensors");
    char *pickled = join_name(adapter, adapter->path, "/adapter_model.bin");
    if (!config || !weights || !pickled) return ENGINE_ERROR_MEMORY;
    if (!peft_exists(config))
        return error_raise(ENGINE_ERROR_NOT_FOUND,
                           "%s is not an adapter: the folder has no adapter_config.json", adapter->path);
    int status = peft_config_read(config, &reader->config);
    if (status) return status;
    if (!peft_exists(weights) && peft_exists(pickled))
        return error_raise(ENGINE_ERROR_UNSUPPORTED,
                           "%s: adapter_model.bin is not supported: save the adapter as safetensors",
                           adapter->path);
    return safetensors_open(weights, &reader->file);
}

int adapter_read_peft(const struct model *model, struct adapter *adapter)
{
    struct reader reader = {.adapter = adapter, .model = model};
    struct engine_string family = {0};
    adapter->format = "PEFT";
    metadata_string(model_metadata(model), "general.architecture", &family);
    snprintf(reader.family, sizeof reader.family, "%.*s", (int)(family.length > 63 ? 63 : family.length),
             family.length ? family.data : "");
    const struct architecture *architecture = arch_named(reader.family);
    static const struct hf_family usual;
    reader.hf = architecture ? &architecture->hf : &usual;
    int status = open_files(&reader);
    if (!status) status = list_modules(&reader);
    if (!status) status = make_parts(&reader);
    free(reader.modules);
    safetensors_close(reader.file);
    peft_config_free(&reader.config);
    return status;
}
