/* dense.c: see dense.h. */
#include "embedding/dense.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"

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
        if (dense->n_steps == DENSE_MOST)
            return error_raise(ENGINE_ERROR_UNSUPPORTED, "%s: more than %d dense steps",
                               model_path(model->model), DENSE_MOST);
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
        for (uint32_t row = 0; row < step->n_out; row++)
            to[row] = step->activation(matrices_row(step->weight, step->bias, step->n_in, row, state));
        state = to;
    }
    for (uint32_t n = 0; n < dense->n_out; n++) values[n] = (float)state[n];
}
