/* tensors.c: the tensors of a directory under GGUF's names, in GGUF's order and shape. Each stored tensor
 * is entered under the name of the tensor that it becomes or belongs to; those of one name (a layer's
 * experts) then become one tensor, or two (gate and up). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/half.h"
#include "base/log.h"
#include "model/file.h"
#include "model/hf/internal.h"
#include "model/safetensors.h"
#include "model/types.h"

struct reader {
    struct model *model;
    struct hf_config *config;
    const struct hf_family *family;
    struct hf_form_input of;
    struct hf_entry *entries; /* [n_entries] */
    size_t n_entries;
    size_t n_quantised, n_floats;     /* stored matrices that are quantised; those that become F32 */
    uint64_t stored_size, float_size; /* bytes of the latter, then and now */
    const char *off;                  /* the key that leaves out stored tensors; NULL: none */
    uint32_t n_stored_layers;         /* if more than config.json has, else 0 */
};

/* ---- Names --------------------------------------------------------------------------------------------- */

static bool begins_with_one(const char *name, const char *const *starts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strncmp(name, starts[i], strlen(starts[i])) == 0) return true;
    return false;
}

/* What reads pictures and sound. */
static bool is_of_senses(const char *name)
{
    static const char *const starts[] = {"vision_",
                                         "model.vision_",
                                         "visual.",
                                         "model.visual.",
                                         "multi_modal_projector",
                                         "model.multi_modal_projector",
                                         "model.connector.",
                                         "audio_",
                                         "model.audio_",
                                         "model.embed_vision.",
                                         "model.embed_audio."};
    return begins_with_one(name, starts, sizeof starts / sizeof *starts);
}

/* Tensors that checkpoints have besides the text model's weights: its constants, and other models. */
static bool is_left_out(const struct hf_family *family, const char *name)
{
    static const char *const ends[] = {"rotary_emb.inv_freq",    ".attn.bias",
                                       ".attn.masked_bias",      ".attention.bias",
                                       ".attention.masked_bias", "embeddings.position_ids",
                                       ".weight.0.lora_A",       ".weight.0.lora_B"}; /* of tasks, adapter/ */
    static const char *const others[] = {"cls.predictions.",
                                         "cls.seq_relationship.",
                                         "vocab_transform.",
                                         "vocab_layer_norm.",
                                         "vocab_projector.",
                                         "qa_outputs.",
                                         "mtp.",
                                         "model.mtp."};
    size_t length = strlen(name);
    for (const char *const *own = family->left_out; own && *own; own++) {
        size_t n = strlen(*own);
        if ((*own)[n - 1] == '.' ? strncmp(name, *own, n) == 0 : strcmp(name, *own) == 0) return true;
    }
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (length >= strlen(ends[i]) && strcmp(name + length - strlen(ends[i]), ends[i]) == 0) return true;
    return is_of_senses(name) || begins_with_one(name, others, sizeof others / sizeof *others);
}

/* Removes a suffix from a name. */
static bool tensors_cut(char *name, const char *suffix)
{
    size_t length = strlen(name), n = strlen(suffix);
    if (length <= n || strcmp(name + length - n, suffix) != 0) return false;
    name[length - n] = '\0';
    return true;
}

/* Finds what a stored tensor becomes. False: unknown. */
static bool name_tensor(const struct reader *reader, const struct safetensors_tensor *stored,
                        struct hf_entry *entry)
{
    char module[512];
    if (strlen(stored->name) >= sizeof module - 1) return false; /* .weight is longer than .gamma */
    strcpy(module, stored->name);
    /* What norms of BERT were called before transformers 3. */
    if (tensors_cut(module, ".LayerNorm.gamma")) strcat(module, ".LayerNorm.weight");
    if (tensors_cut(module, ".LayerNorm.beta")) strcat(module, ".LayerNorm.bias");
    const char *codes = hf_quantised_suffix(reader->config, stored);
    /* The whole name of a bias, which may be of another tensor than the module's others. */
    bool known = !codes && !reader->family->name && hf_ends_with(module, ".bias") &&
                 hf_name(reader->family, module, &entry->name);
    entry->is_quantised = codes != NULL;
    entry->is_bias = !known && !codes && tensors_cut(module, ".bias");
    if (codes) tensors_cut(module, *codes ? codes : ".weight");
    if (!known && !entry->is_bias && !codes) {
        tensors_cut(module, ".weight");
        known = hf_name(reader->family, module, &entry->name); /* also names without a suffix */
        entry->is_bias = !known && tensors_cut(module, "_bias");
    }
    if (!known) known = hf_name(reader->family, module, &entry->name);
    if (known && tensors_cut(entry->name.tensor, ".bias")) entry->is_bias = true; /* named as a bias */
    char *shared = known && reader->config->shared_is_dense ? strstr(entry->name.tensor, "_shexp") : NULL;
    if (shared) memmove(shared, shared + strlen("_shexp"), strlen(shared + strlen("_shexp")) + 1);
    if (known && entry->is_bias) {
        tensors_cut(entry->name.tensor, ".weight");
        strncat(entry->name.tensor, ".bias", sizeof entry->name.tensor - strlen(entry->name.tensor) - 1);
    }
    return known;
}

/* Unknown tensors keep their names, so that a warning names them if the family doesn't use them. */
static void tensors_enter(struct reader *reader, const struct safetensors_tensor *stored)
{
    struct hf_entry *entry = &reader->entries[reader->n_entries];
    *entry = (struct hf_entry){.stored = stored};
    uint32_t layer;
    const bool is_of_eye = reader->config->architecture->kind == ARCH_EYE;
    reader->model->has_senses |= is_of_senses(stored->name);
    if (is_of_eye) { /* the text model's tensors, and those of ears and heads */
        if (is_of_senses(stored->name) && name_tensor(reader, stored, entry)) reader->n_entries++;
        return;
    }
    if (is_left_out(reader->family, stored->name) ||
        hf_is_companion(reader->model, reader->config, stored->name))
        return;
    if (hf_layer_number_key(reader->family, stored->name, &layer)) return;
    if (!name_tensor(reader, stored, entry)) {
        entry->name = (struct hf_name){.layer = HF_NO_NUMBER, .expert = HF_NO_NUMBER};
        if (strlen(stored->name) >= sizeof entry->name.tensor || stored->n_dims > 3) return;
        strcpy(entry->name.tensor, stored->name);
        if (stored->type == SAFETENSORS_OTHER_TYPE || stored->size == 0) return;
    }
    /* Of no shared expert, transformers writes matrices without rows. */
    if (stored->size == 0 && strstr(entry->name.tensor, "_shexp.")) return;
    if (!reader->config->is_classifier && strncmp(entry->name.tensor, "cls.", 4) == 0) return;
    /* A checkpoint whose classifier doesn't read a pooler may have one left over. */
    if (!reader->config->type.has_pooler && strstr(stored->name, "pooler.dense.")) return;
    /* Layers after the last predict further tokens. */
    if (entry->name.layer != HF_NO_NUMBER && entry->name.layer >= reader->config->n_layers) {
        if (entry->name.layer >= reader->n_stored_layers) reader->n_stored_layers = entry->name.layer + 1;
        return;
    }
    const char *off = hf_option_is_off(reader->config, entry->name.tensor);
    if (off) reader->off = off;
    if (!off) reader->n_entries++;
}

static struct hf_entry *find_entry(struct reader *reader, const char *tensor)
{
    for (size_t i = 0; i < reader->n_entries; i++)
        if (strcmp(reader->entries[i].name.tensor, tensor) == 0) return &reader->entries[i];
    return NULL;
}

static bool are_equal(const struct hf_entry *a, const struct hf_entry *b)
{
    const struct safetensors_tensor *left = a->stored, *right = b->stored;
    return !a->is_quantised && !b->is_quantised && strcmp(left->type_name, right->type_name) == 0 &&
           left->size == right->size && memcmp(left->ne, right->ne, sizeof left->ne) == 0 &&
           memcmp(left->data, right->data, (size_t)left->size) == 0;
}

/* The output matrix and the embedding of models that have one for both. As in transformers 5, either may
 * be stored; if both are and differ, they are two. */
static void tie(struct reader *reader)
{
    struct hf_entry *head = find_entry(reader, "output.weight"),
                    *embedding = find_entry(reader, "token_embd.weight");
    if (!reader->config->is_tied) return;
    if (head && embedding && are_equal(head, embedding))
        *head = reader->entries[--reader->n_entries];
    else if (head && embedding)
        log_line(ENGINE_LOG_WARNING,
                 "%s: %s is not the embedding, though tie_word_embeddings is true; it is used",
                 reader->model->path, head->stored->name);
    else if (head) {
        strcpy(head->name.tensor, "token_embd.weight");
        head->name.is_embedding = true;
    } else if (embedding && hf_has_factors(&reader->of, &embedding->name)) {
        /* The factors of both differ. */
        head = &reader->entries[reader->n_entries++];
        *head = *embedding;
        strcpy(head->name.tensor, "output.weight");
        head->name.is_embedding = false;
    }
}

/* linear.weight and linear.bias of a dense step. */
static int enter_dense(struct reader *reader, const struct safetensors_tensor *stored, size_t number)
{
    struct hf_entry *entry = &reader->entries[reader->n_entries++];
    *entry = (struct hf_entry){.stored = stored, .is_bias = strcmp(stored->name, "linear.bias") == 0};
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
    const struct hf_entry *left = a, *right = b;
    int order = strcmp(left->name.tensor, right->name.tensor);
    if (order) return order;
    return (left->name.expert > right->name.expert) - (left->name.expert < right->name.expert);
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
    bool is_of_streams = strstr(name, "hc_") && (strstr(name, "_base.") || strstr(name, "_scale."));
    return is_of_streams || strstr(name, "_ape.") || strstr(name, "norm") || strstr(name, ".bias") ||
           strstr(name, "attn_sinks") || is_log(name) || strstr(name, ".ssm_d") ||
           strstr(name, ".ssm_conv1d.") || strstr(name, ".shortconv.conv.");
}

/* Makes a tensor's numbers now, as F32, with 1 added where the family's norms do. */
static int make_values(struct reader *reader, struct model_tensor *tensor)
{
    uint64_t n = tensor->ne[0] * tensor->ne[1] * tensor->ne[2] * tensor->ne[3];
    if (!is_float_type(tensor->type))
        return error_raise(ENGINE_ERROR_DATA, "%s: %s is quantised, which it cannot be", reader->model->path,
                           tensor->name);
    float *values = metadata_allocate(reader->model->metadata, (size_t)n * sizeof *values);
    const void *stored;
    void *gathered;
    if (!values) return error_memory("tensor list");
    int status = model_tensor_gather(tensor, 1, &stored, &gathered);
    if (status) return status;
    bool is_norm = strstr(tensor->name, "norm") && !strstr(tensor->name, ".bias") &&
                   !hf_ends_with(tensor->name, ".ssm_norm.weight");
    float addend = reader->family->norms_add_one && is_norm ? 1 : 0;
    for (uint64_t i = 0; i < n; i++) {
        values[i] = float_at(tensor->type, stored, i) + addend;
        if (is_log(tensor->name)) values[i] = -expf(values[i]);
    }
    free(gathered);
    tensor->type = ENGINE_TYPE_F32;
    tensor->size = n * sizeof *values;
    tensor->data = values;
    tensor->maker = NULL;
    return ENGINE_OK;
}

/* "blk.3.ffn_up_exps.weight" from "blk.3.ffn_gate_up_exps.weight" and "ffn_up_exps"; owned by the
 * metadata. */
static char *output_name(const struct reader *reader, const struct hf_entry *entry, const char *output)
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
static int add_tensor(struct reader *reader, const char *name, const struct hf_output *output,
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

/* Whether matrices are stored with the inputs as rows. */
static bool is_transposed(const struct reader *reader, const struct hf_entry *entry,
                          const struct hf_form *form)
{
    const struct safetensors_tensor *stored = entry->stored;
    if (!form->is_either || stored->n_dims != 3) return form->is_transposed;
    bool is_down = strcmp(form->tensor, "ffn_down_exps") == 0; /* the outputs have the model's width */
    return stored->ne[is_down ? 1 : 2] != reader->config->n_embd;
}

/* A table of whole numbers, which GGUF files have as I32. */
static int view_whole_numbers(struct reader *reader, const struct safetensors_tensor *stored,
                              struct hf_source **source)
{
    const bool is_wide = strcmp(stored->type_name, "I64") == 0;
    const uint64_t n = stored->size / (is_wide ? sizeof(int64_t) : sizeof(int32_t));
    int32_t *numbers = metadata_allocate(reader->model->metadata, (size_t)n * sizeof *numbers);
    *source = metadata_allocate(reader->model->metadata, sizeof **source);
    if (!numbers || !*source) return error_memory("tensor list");
    for (uint64_t i = 0; i < n; i++) {
        int64_t number;
        if (is_wide)
            memcpy(&number, (const uint8_t *)stored->data + i * sizeof number, sizeof number);
        else
            number = (int32_t)engine_load_u32((const uint8_t *)stored->data + i * sizeof(int32_t));
        if (number < INT32_MIN || number > INT32_MAX)
            return error_raise(ENGINE_ERROR_DATA, "%s: %s has the number %lld", reader->model->path,
                               stored->name, (long long)number);
        numbers[i] = (int32_t)number;
    }
    **source = (struct hf_source){
        .data = (const uint8_t *)numbers, .size = n * sizeof *numbers, .type = ENGINE_TYPE_I32};
    return ENGINE_OK;
}

/* Finds how to read a stored tensor. */
static int view_entry(struct reader *reader, const struct hf_entry *entry, const struct hf_form *form,
                      struct hf_matrices *m)
{
    const struct safetensors_tensor *stored = entry->stored;
    uint64_t dims[3];
    if (entry->is_quantised) {
        int status = hf_quantised_read(reader->model, reader->config, stored, &m->source, dims);
        if (!status) hf_view_quantised(dims, m);
        return status;
    }
    if (strcmp(stored->type_name, "I64") == 0 || strcmp(stored->type_name, "I32") == 0) {
        int status = view_whole_numbers(reader, stored, &m->source);
        return status ? status : hf_view_matrices(&reader->of, entry, false, m);
    }
    if (stored->type == SAFETENSORS_OTHER_TYPE)
        return error_raise(ENGINE_ERROR_UNSUPPORTED, "%s: %s has the type %s, which is not supported here",
                           reader->model->path, stored->name, stored->type_name);
    m->source = metadata_allocate(reader->model->metadata, sizeof *m->source);
    if (!m->source) return error_memory("tensor list");
    *m->source = (struct hf_source){.data = stored->data, .size = stored->size, .type = stored->type};
    return hf_view_matrices(&reader->of, entry, is_transposed(reader, entry, form), m);
}

/* Stored tensors of one name, which have to be alike, and the experts of a layer. */
static int view_entries(struct reader *reader, const struct hf_entry *entries, size_t n,
                        const struct hf_form *form, struct hf_matrices *m)
{
    /* Rows that are cut or multiplied can't stay in blocks. */
    bool same_types = form->kind != FORM_LATENT && !hf_has_factors(&reader->of, &entries->name);
    for (size_t i = 0; i < n; i++) {
        const struct safetensors_tensor *stored = entries[i].stored, *first = entries[0].stored;
        bool is_like_first = strcmp(stored->type_name, first->type_name) == 0 &&
                             stored->n_dims == first->n_dims &&
                             memcmp(stored->ne, first->ne, sizeof stored->ne) == 0;
        if (!is_like_first || (n > 1 && entries[i].name.expert != i))
            return error_raise(ENGINE_ERROR_DATA,
                               "%s: %s does not go with %s: another shape or type, a gap, or the same tensor",
                               reader->model->path, stored->name, first->name);
        int status = view_entry(reader, &entries[i], form, &m[i]);
        if (status) return status;
        same_types = same_types && m[i].source->type == m[0].source->type;
        if (form->kind == FORM_TILED_COLUMNS)
            same_types =
                same_types && m[i].k % reader->config->n_value_heads == 0 &&
                m[i].k / reader->config->n_value_heads % type_info(m[i].source->type)->block_length == 0;
    }
    for (size_t i = 0; i < n; i++) {
        if (!entries[i].is_quantised) continue;
        if (!same_types && !hf_quantised_as_float(m[i].source))
            return error_raise(ENGINE_ERROR_UNSUPPORTED,
                               "%s: %s cannot be MXFP4: its rows are cut or multiplied", reader->model->path,
                               entries[i].stored->name);
        reader->n_quantised++;
        if (m[i].source->type != ENGINE_TYPE_F32) continue;
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
                 "instead of %.1f MiB. --load-type and `engine quantize` make them smaller",
                 reader->model->path, reader->n_floats, reader->n_quantised, (double)reader->float_size / mib,
                 (double)reader->stored_size / mib);
}

/* Makes the tensors that come from `n` stored ones of the same name. */
static int make_tensors(struct reader *reader, const struct hf_entry *entries, size_t n)
{
    const struct hf_form *form = hf_find_form(reader->family, &entries->name);
    struct metadata *metadata = reader->model->metadata;
    struct hf_matrices *m = metadata_allocate(metadata, n * sizeof *m);
    struct hf_output outputs[HF_MAX_PARTS] = {0};
    if (!m) return error_memory("tensor list");
    for (size_t i = 0; i < HF_MAX_PARTS && (i == 0 || form->outputs[i]); i++) {
        outputs[i].room = n * hf_most_pieces(&reader->of, form);
        outputs[i].pieces = metadata_allocate(metadata, outputs[i].room * sizeof(struct hf_piece));
        if (!outputs[i].pieces) return error_memory("tensor list");
    }
    int status = view_entries(reader, entries, n, form, m);
    for (size_t i = 0; i < n && !status; i++)
        status = hf_add_pieces(&reader->of, &entries[i], form, &m[i], outputs);
    bool is_numbered = entries->name.expert != HF_NO_NUMBER;
    for (size_t i = 0; i < HF_MAX_PARTS && outputs[i].n > 0 && !status; i++) {
        const uint64_t ne[4] = {outputs[i].ne[0], outputs[i].ne[1], outputs[i].ne[2] * (is_numbered ? n : 1),
                                1};
        bool is_list = !entries->is_quantised && (entries->is_bias || entries->stored->n_dims <= 1);
        status = add_tensor(reader, output_name(reader, entries, form->outputs[i]), &outputs[i], ne, is_list);
    }
    return status;
}

/* ---- Numbers of layers --------------------------------------------------------------------------------- */

/* Finds the numbers of one key, in values [n_layers]. */
static int find_layer_numbers(const struct reader *reader, const char *key, float *values)
{
    uint32_t n_layers = reader->config->n_layers, n_found = 0, layer;
    for (size_t i = 0; i < reader->model->n_shards; i++)
        for (size_t k = 0; k < safetensors_count(reader->model->shards[i]); k++) {
            const struct safetensors_tensor *stored = safetensors_at(reader->model->shards[i], k);
            const char *own = hf_layer_number_key(reader->family, stored->name, &layer);
            if (!own || strcmp(own, key) != 0 || layer >= n_layers) continue;
            if (!is_float_type(stored->type) || stored->size != (stored->type == ENGINE_TYPE_F32 ? 4 : 2))
                return error_raise(ENGINE_ERROR_DATA, "%s: %s is not one number", reader->model->path,
                                   stored->name);
            values[layer] = float_at(stored->type, stored->data, 0);
            n_found++;
        }
    if (n_found == n_layers) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_DATA, "%s: %u of %u layers have the number that becomes %s",
                       reader->model->path, n_found, n_layers, key);
}

static int add_layer_numbers(const struct reader *reader)
{
    struct metadata *metadata = reader->model->metadata;
    uint32_t n_layers = reader->config->n_layers;
    for (const struct hf_module *row = reader->family->layer_numbers; row && row->name; row++) {
        float *values = metadata_allocate(metadata, n_layers * sizeof *values);
        if (!values) return error_memory("tensor list");
        int status = find_layer_numbers(reader, row->tensor, values);
        if (!status)
            status = metadata_add(metadata, &(struct metadata_entry){.key = row->tensor,
                                                                     .type = METADATA_F32,
                                                                     .is_array = true,
                                                                     .count = n_layers,
                                                                     .values = values});
        if (status) return status;
    }
    return ENGINE_OK;
}

/* ---- Whether config.json and the weights go together --------------------------------------------------- */

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
    if (reader->off)
        log_line(ENGINE_LOG_WARNING, "%s: stored tensors are not used, since %s is false", path, reader->off);
    if (reader->n_stored_layers > config->n_layers + further)
        log_line(ENGINE_LOG_WARNING,
                 "%s: %u layers are stored; the first %u, which config.json names, are used", path,
                 reader->n_stored_layers, config->n_layers);
    bool is_generator = !config->is_classifier && config->architecture->kind == ARCH_DECODER;
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
    struct reader reader = {
        .model = model, .config = config, .family = &config->architecture->hf, .of = {model->path, config}};
    size_t n = 0;
    for (size_t i = 0; i < model->n_shards; i++) n += safetensors_count(model->shards[i]);
    reader.entries = calloc(n + 2, sizeof *reader.entries); /* `enter` writes one further, `tie` adds one */
    if (!reader.entries) return error_memory("tensor list");
    size_t first_dense = model->n_shards - config->n_dense;
    int status = ENGINE_OK;
    for (size_t i = 0; i < model->n_shards; i++)
        for (size_t k = 0; k < safetensors_count(model->shards[i]) && !status; k++) {
            const struct safetensors_tensor *stored = safetensors_at(model->shards[i], k);
            if (i < first_dense)
                tensors_enter(&reader, stored);
            else
                status = enter_dense(&reader, stored, i - first_dense);
        }
    tie(&reader);
    qsort(reader.entries, reader.n_entries, sizeof *reader.entries, compare_entries);
    if (!status) status = model_reserve_tensors(model, HF_MAX_PARTS * reader.n_entries + 4);
    for (size_t i = 0, same; i < reader.n_entries && !status; i += same) {
        for (same = 1; i + same < reader.n_entries; same++)
            if (strcmp(reader.entries[i].name.tensor, reader.entries[i + same].name.tensor) != 0) break;
        status = make_tensors(&reader, &reader.entries[i], same);
    }
    free(reader.entries);
    if (!status) status = add_layer_numbers(&reader);
    if (!status) status = check_config(&reader, config);
    if (status) return status;
    tell_of_floats(&reader);
    add_factors(&reader, "rope_freqs.weight", config->factors);
    add_factors(&reader, "rope_factors_long.weight", config->factors_long);
    add_factors(&reader, "rope_factors_short.weight", config->factors_short);
    return ENGINE_OK;
}
