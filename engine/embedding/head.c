/* head.c: see head.h. The forms are those of transformers' …ForSequenceClassification; tensors and the key
 * classifier.output_labels are named as in llama.cpp's files. */
#include "embedding/head.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* ---- What it is ---------------------------------------------------------------------------------------- */

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

static void normalise(const struct head *head, double *x)
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
    if (head->dense) {
        for (uint32_t i = 0; i < head->n_dense; i++)
            head->between[i] = head->activation(matrices_row(head->dense, head->dense_bias, n, i, state));
        if (head->norm) normalise(head, head->between);
        x = head->between;
        n = head->n_dense;
    }
    for (uint32_t i = 0; i < head->n_labels; i++)
        scores[i] = (float)(head->output ? matrices_row(head->output, head->output_bias, n, i, x) : x[i]);
}
