/* embedding.c: see embedding.h. And what a model's file says about embeddings. */
#include "embedding/embedding.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "arch/hparams.h"
#include "base/error.h"
#include "common/assert.h"
#include "internal.h"
#include "model/model.h"
#include "quantize/values.h"

/* ---- Matrices ------------------------------------------------------------------------------------------ */

#define MATRICES_ACTIVATIONS "identity, tanh, gelu, relu, silu, sigmoid"
#define MAX_VALUES           ((uint64_t)1 << 28) /* of a matrix */

static double identity(double x)
{
    return x;
}

static double relu(double x)
{
    return x > 0 ? x : 0;
}

static double gelu(double x)
{
    return x * 0.5 * (1 + erf(x * 0.70710678118654752));
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double embedding_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* identity, tanh, gelu (with erf), relu, silu, sigmoid; NULL: no such name. */
static activation_function *matrices_activation(const char *name)
{
    static const struct {
        const char *name;
        activation_function *compute;
    } all[] = {{"identity", identity}, {"tanh", tanh}, {"gelu", gelu},
               {"relu", relu},         {"silu", silu}, {"sigmoid", embedding_sigmoid}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(name, all[i].name) == 0) return all[i].compute;
    return NULL;
}

/* A matrix or vector, NULL if the model has none; anything but `columns` columns is an error of the
 * reader's. */
static const struct model_tensor *matrices_find(struct hparams *h, const char *name, uint64_t columns)
{
    const struct model_tensor *tensor = model_tensor_find(h->model, name);
    if (!tensor) return NULL;
    bool is_small = tensor->ne[0] > 0 && tensor->ne[1] > 0 && tensor->ne[0] <= MAX_VALUES / tensor->ne[1] &&
                    tensor->ne[2] == 1 && tensor->ne[3] == 1;
    if (tensor->ne[0] == columns && is_small) return tensor;
    hparams_fail(h, ENGINE_ERROR_DATA,
                 "the tensor %s has %" PRIu64 " x %" PRIu64 " values; %" PRIu64 " columns were expected",
                 name, tensor->ne[0], tensor->ne[1], columns);
    return NULL;
}

/* New memory with the values of a tensor, NULL if the model has none. ENGINE_ERROR_DATA,
 * ENGINE_ERROR_MEMORY. */
static int matrices_load(const struct engine_model *model, const char *name, float **values)
{
    const struct model_tensor *tensor = model_tensor_find(model->model, name);
    *values = NULL;
    if (!tensor) return ENGINE_OK;
    size_t n = (size_t)values_count(tensor);
    float *loaded = malloc(n * sizeof *loaded), *scratch = malloc(n * sizeof *scratch);
    enum values_result result = VALUES_NO_MEMORY;
    if (loaded && scratch)
        result = values_convert(tensor, ENGINE_TYPE_F32, NULL, 0, n, scratch, (uint8_t *)loaded);
    free(scratch);
    *values = loaded;
    if (result == VALUES_OK) return ENGINE_OK;
    return result == VALUES_WRONG
               ? error_raise(ENGINE_ERROR_DATA, "%s: the tensor %s has values that are not finite",
                             model_path(model->model), name)
               : error_memory("matrix of the model's embeddings");
}

/* A row's sum: matrix [rows, n], bias [rows] or NULL, x [n]. */
static double matrices_row(const float *matrix, const float *bias, uint32_t n, uint32_t row, const double *x)
{
    const float *weights = matrix + (size_t)row * n;
    double sum = bias ? (double)bias[row] : 0;
    for (uint32_t i = 0; i < n; i++) sum += (double)weights[i] * x[i];
    return sum;
}

/* ---- Dense steps --------------------------------------------------------------------------------------- */

struct names {
    char weight[32], bias[32], activation[40];
};

static struct names names_of(uint32_t step)
{
    struct names names;
    snprintf(names.weight, sizeof names.weight, "dense_%u.weight", DENSE_FIRST + step);
    snprintf(names.bias, sizeof names.bias, "dense_%u.bias", DENSE_FIRST + step);
    snprintf(names.activation, sizeof names.activation, "engine.dense_%u.activation", DENSE_FIRST + step);
    return names;
}

/* Files of llama.cpp's converter have no activations, since it writes only steps without. */
static void read_step(struct hparams *h, uint32_t number, struct dense *dense)
{
    const struct names names = names_of(number);
    struct dense_step *step = &dense->steps[number];
    char activation[32] = "identity";
    const struct model_tensor *weight = matrices_find(h, names.weight, dense->n_out);
    if (!weight) return; /* an error is recorded */
    matrices_find(h, names.bias, weight->ne[1]);
    hparams_text(h, names.activation, activation, sizeof activation);
    step->activation = matrices_activation(activation);
    if (!step->activation)
        hparams_fail(h, ENGINE_ERROR_UNSUPPORTED,
                     "the activation of dense_%u is not supported (supported: " MATRICES_ACTIVATIONS ")",
                     DENSE_FIRST + number);
    step->n_in = dense->n_out;
    step->n_out = dense->n_out = (uint32_t)weight->ne[1];
}

int dense_describe(const struct engine_model *model, struct dense *dense)
{
    struct hparams h = {.model = model->model};
    struct arch_info arch = {0};
    *dense = (struct dense){0};
    const struct architecture *family = arch_of(model->model);
    if (!family || !hparams_family(model->model, h.prefix)) return ENGINE_OK; /* reported where it is run */
    void *hparams = calloc(1, family->size);
    if (!hparams) return error_memory("dense steps");
    int status = arch_read(family, model->model, hparams, &arch);
    free(hparams);
    if (status) return status;
    dense->n_out = arch.n_embd;
    while (!h.status && model_tensor_find(model->model, names_of(dense->n_steps).weight)) {
        if (dense->n_steps == MAX_DENSE)
            return error_raise(ENGINE_ERROR_UNSUPPORTED, "%s: more than %d dense steps",
                               model_path(model->model), MAX_DENSE);
        read_step(&h, dense->n_steps++, dense);
    }
    return h.status;
}

int dense_create(const struct engine_model *model, struct dense **out)
{
    struct dense described;
    size_t most = 1;
    *out = NULL;
    int status = dense_describe(model, &described);
    if (status || described.n_steps == 0) return status;
    struct dense *dense = malloc(sizeof *dense);
    if (!dense) return error_memory("dense steps");
    *dense = described;
    for (uint32_t i = 0; i < dense->n_steps && !status; i++) {
        const struct names names = names_of(i);
        status = matrices_load(model, names.weight, &dense->steps[i].weight);
        if (!status) status = matrices_load(model, names.bias, &dense->steps[i].bias);
        if (dense->steps[i].n_out > most) most = dense->steps[i].n_out;
    }
    for (int i = 0; i < 2 && !status; i++)
        if (!(dense->between[i] = calloc(most, sizeof(double)))) status = error_memory("dense steps");
    if (status)
        dense_free(dense);
    else
        *out = dense;
    return status;
}

void dense_free(struct dense *dense)
{
    if (!dense) return;
    for (uint32_t i = 0; i < dense->n_steps; i++) free(dense->steps[i].weight), free(dense->steps[i].bias);
    free(dense->between[0]), free(dense->between[1]);
    free(dense);
}

void dense_apply(const struct dense *dense, const double *state, float *values)
{
    for (uint32_t i = 0; i < dense->n_steps; i++) {
        const struct dense_step *step = &dense->steps[i];
        double *to = dense->between[i % 2];
        ENGINE_ASSERT(i == 0 || step->n_in == dense->steps[i - 1].n_out);
        for (uint32_t row = 0; row < step->n_out; row++)
            to[row] = step->activation(matrices_row(step->weight, step->bias, step->n_in, row, state));
        state = to;
    }
    for (uint32_t n = 0; n < dense->n_out; n++) values[n] = (float)state[n];
}

/* ---- Classification heads ---- */

/* The forms are those of transformers' …ForSequenceClassification; tensors and the key
 * classifier.output_labels are named as in llama.cpp's files. */

static void read_activation(struct hparams *h, const struct architecture *family, struct head *head)
{
    char name[32];
    const char *preset = family->classifier.activation ? family->classifier.activation : "tanh";
    bool given = hparams_text(h, "engine.classifier.activation", name, sizeof name);
    head->activation = matrices_activation(given ? name : preset);
    if (!head->activation)
        hparams_fail(
            h, ENGINE_ERROR_UNSUPPORTED,
            "the activation of the classification head is not supported (supported: " MATRICES_ACTIVATIONS
            ")");
}

/* Files of llama.cpp's converter do not say which state; these are llama.cpp's choices. */
static void read_pooling(struct hparams *h, const struct architecture *family, bool is_encoder,
                         struct head *head)
{
    uint32_t preset = !is_encoder                     ? ENGINE_POOLING_LAST
                      : family->classifier.takes_mean ? ENGINE_POOLING_MEAN
                                                      : ENGINE_POOLING_FIRST;
    head->pooling = hparams_count(h, "engine.classifier.pooling", preset);
    if (head->pooling < ENGINE_POOLING_MEAN || head->pooling > ENGINE_POOLING_LAST)
        hparams_fail(h, ENGINE_ERROR_DATA, "engine.classifier.pooling is %u; it must be 1, 2 or 3",
                     head->pooling);
}

/* What a label's score is made to, as transformers' pipeline does it if the configuration does not say. */
static void read_scores(struct hparams *h, struct head *head)
{
    uint32_t preset = head->n_labels > 1 ? ENGINE_LABELS_SOFTMAX : ENGINE_LABELS_SIGMOID;
    head->label_scores = hparams_count(h, "engine.classifier.scores", preset);
    if (head->label_scores > ENGINE_LABELS_SIGMOID)
        hparams_fail(h, ENGINE_ERROR_DATA, "engine.classifier.scores is %u; it must be 0, 1 or 2",
                     head->label_scores);
}

static void read_shapes(struct hparams *h, struct head *head)
{
    const struct model_tensor *dense = matrices_find(h, "cls.weight", head->n_embd);
    uint64_t n_dense = dense ? dense->ne[1] : 0;
    const struct model_tensor *output = matrices_find(h, "cls.output.weight", dense ? n_dense : head->n_embd);
    uint64_t n_labels = output ? output->ne[1] : n_dense;
    if (n_dense > INT32_MAX || n_labels > INT32_MAX)
        hparams_fail(h, ENGINE_ERROR_DATA, "the classification head is too large");
    matrices_find(h, "cls.bias", n_dense);
    matrices_find(h, "cls.norm.weight", n_dense);
    matrices_find(h, "cls.norm.bias", n_dense);
    matrices_find(h, "cls.output.bias", n_labels);
    head->n_dense = (uint32_t)n_dense;
    head->n_labels = (uint32_t)n_labels;
}

bool head_describe(const struct engine_model *model, struct head *head, int *status)
{
    struct hparams h = {.model = model->model};
    struct arch_info arch = {0};
    *head = (struct head){0};
    *status = ENGINE_OK;
    bool has_head =
        model_tensor_find(model->model, "cls.weight") || model_tensor_find(model->model, "cls.output.weight");
    const struct architecture *family = has_head ? arch_of(model->model) : NULL;
    if (!family) return false;
    void *hparams = calloc(1, family->size);
    if (!hparams) {
        *status = error_memory("classification head");
        return false;
    }
    *status = arch_read(family, model->model, hparams, &arch);
    free(hparams);
    if (*status || !hparams_family(model->model, h.prefix)) return false;
    head->n_embd = arch.n_embd;
    read_shapes(&h, head);
    read_activation(&h, family, head);
    read_pooling(&h, family, arch.is_encoder, head);
    read_scores(&h, head);
    head->epsilon = (double)hparams_float_from_0(&h, "attention.layer_norm_epsilon", 1e-5F);
    *status = h.status;
    return !*status;
}

/* ---- Its weights --------------------------------------------------------------------------------------- */

int head_create(const struct engine_model *model, struct head **out)
{
    struct head described;
    int status;
    *out = NULL;
    if (!head_describe(model, &described, &status)) return status;
    struct head *head = malloc(sizeof *head);
    if (!head) return error_memory("classification head");
    *head = described;
    head->between = calloc((size_t)head->n_dense + 1, sizeof *head->between);
    if (!head->between) status = error_memory("classification head");
    if (!status) status = matrices_load(model, "cls.weight", &head->dense);
    if (!status) status = matrices_load(model, "cls.bias", &head->dense_bias);
    if (!status) status = matrices_load(model, "cls.norm.weight", &head->norm);
    if (!status) status = matrices_load(model, "cls.norm.bias", &head->norm_bias);
    if (!status) status = matrices_load(model, "cls.output.weight", &head->output);
    if (!status) status = matrices_load(model, "cls.output.bias", &head->output_bias);
    if (status)
        head_free(head);
    else
        *out = head;
    return status;
}

void head_free(struct head *head)
{
    if (!head) return;
    free(head->dense), free(head->dense_bias);
    free(head->norm), free(head->norm_bias);
    free(head->output), free(head->output_bias);
    free(head->between);
    free(head);
}

/* ---- Computing ----------------------------------------------------------------------------------------- */

static void embedding_normalise(const struct head *head, double *x)
{
    double mean = 0, variance = 0, n = head->n_dense;
    for (uint32_t i = 0; i < head->n_dense; i++) mean += x[i] / n;
    for (uint32_t i = 0; i < head->n_dense; i++) variance += (x[i] - mean) * (x[i] - mean) / n;
    double scale = 1 / sqrt(variance + head->epsilon);
    for (uint32_t i = 0; i < head->n_dense; i++)
        x[i] = (x[i] - mean) * scale * (double)head->norm[i] +
               (head->norm_bias ? (double)head->norm_bias[i] : 0);
}

void head_apply(const struct head *head, const double *state, float *scores)
{
    const double *x = state;
    uint32_t n = head->n_embd;
    ENGINE_ASSERT(head->dense || head->output);
    ENGINE_ASSERT(head->output || head->n_labels <= head->n_dense);
    if (head->dense) {
        for (uint32_t i = 0; i < head->n_dense; i++)
            head->between[i] = head->activation(matrices_row(head->dense, head->dense_bias, n, i, state));
        if (head->norm) embedding_normalise(head, head->between);
        x = head->between;
        n = head->n_dense;
    }
    for (uint32_t i = 0; i < head->n_labels; i++)
        scores[i] = (float)(head->output ? matrices_row(head->output, head->output_bias, n, i, x) : x[i]);
}

/* ---- What the file says -------------------------------------------------------------------------------- */

/* GGUF's pooling_type: 0 none, then the values of enum engine_pooling; 4 ranks pairs of texts. */
static uint32_t pooling_of(const struct model *model, bool is_encoder, bool has_head)
{
    struct hparams reader = {.model = model};
    uint32_t otherwise = is_encoder ? ENGINE_POOLING_MEAN : ENGINE_POOLING_LAST;
    if (!hparams_family(model, reader.prefix)) return otherwise;
    uint32_t type = hparams_count(&reader, "pooling_type", 0);
    if (type == ENGINE_POOLING_RANK && has_head) return type;
    return type >= ENGINE_POOLING_MEAN && type <= ENGINE_POOLING_LAST ? type : otherwise;
}

/* Tokens that a text may have: sentence-transformers' max_seq_length, or all that the model was made for. */
static uint32_t longest_text(const struct model *model, const struct arch_info *arch)
{
    struct hparams reader = {.model = model};
    uint32_t n =
        arch->n_positions > 0 && arch->n_positions < arch->n_context ? arch->n_positions : arch->n_context;
    uint32_t length =
        hparams_family(model, reader.prefix) ? hparams_count(&reader, "engine.text_length", 0) : 0;
    return length > 0 && length < n ? length : n;
}

int engine_model_embedding_info(struct engine_model *model, struct engine_embedding_info *info)
{
    int status = SIZED_CHECK(info, engine_embedding_info, is_encoder);
    if (status) return status;
    const struct architecture *architecture = arch_of(model->model);
    if (!architecture) return ENGINE_ERROR_UNSUPPORTED;
    void *hparams = calloc(1, architecture->size);
    struct arch_info arch = {0};
    if (!hparams) return error_memory("model");
    status = arch_read(architecture, model->model, hparams, &arch);
    free(hparams);
    if (status) return status;
    struct head head;
    struct dense dense;
    bool has_head = head_describe(model, &head, &status);
    if (!status) status = dense_describe(model, &dense);
    if (status) return status;
    const struct engine_embedding_info known = {
        .struct_size = sizeof known,
        .is_encoder = arch.is_encoder,
        .pooling = pooling_of(model->model, arch.is_encoder, has_head),
        .n_embd = arch.n_embd,
        .has_source = arch.has_source,
        .n_context = longest_text(model->model, &arch),
        .n_labels = head.n_labels,
        .label_scores = head.label_scores,
        .n_values = dense.n_out,
    };
    sized_write(info, &known, sizeof known);
    return ENGINE_OK;
}

int engine_model_label(const struct engine_model *model, uint32_t index, struct engine_string *label)
{
    const struct engine_metadata *metadata = &model->getters;
    char key[128];
    size_t count = 0;
    snprintf(key, sizeof key, "%.80s.classifier.output_labels", model->architecture);
    if (metadata->get_count(metadata->context, key, &count) != ENGINE_OK || index >= count)
        return error_raise(ENGINE_ERROR_NOT_FOUND, "the model's file has no name for label %u", index);
    return metadata->get_strings(metadata->context, key, index, 1, label);
}
