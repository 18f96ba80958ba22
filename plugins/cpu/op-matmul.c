/* op-matmul.c: matrix products: checks the arguments and makes steps of them, see matmul.h. */
#include "activations.h"
#include "matmul.h"
#include "ops.h"

/* The operands that were found. Views are [k or rows, slots, tokens] for tensors of any dimensions. */
struct matmul_operands {
    struct view input, output, residual, mix;      /* data NULL: absent, or planning */
    const struct engine_weight *weights[MATRICES]; /* weight, gate */
    const float *bias;
    struct columns columns;
};

/* ---- Checks ---------------------------------------------------------------------------------------- */

/* A view [n, slots, tokens] of a tensor of that shape, or of [n, tokens] if `flat`. */
static int slots_check(const struct request *request, const struct engine_tensor *tensor, const char *name,
                       bool flat, struct view *view)
{
    int status = view_check(request, tensor, name, VIEW_F32, view);
    if (status || !flat) return status;
    view->ne[2] = view->ne[1], view->ne[1] = 1;
    view->nb[2] = view->nb[1];
    return ENGINE_OK;
}

/* Which experts, and how they are mixed. */
static int check_experts(const struct request *request, const struct engine_op_matmul *args,
                         struct matmul_operands *found)
{
    struct columns *columns = &found->columns;
    int status = view_check(request, args->experts, "experts", VIEW_I32, &columns->experts);
    if (!status && args->mix) status = view_check(request, args->mix, "mix", VIEW_F32, &found->mix);
    if (status) return status;
    columns->n_slots = columns->experts.ne[0], columns->n_tokens = columns->experts.ne[1];
    columns->shared = args->input->ne[1] == 1;
    if (columns->n_slots * columns->n_tokens <= UINT32_MAX) return ENGINE_OK;
    return refuse(request, ENGINE_ERROR_UNSUPPORTED,
                  "matmul: %zu experts for each of %zu tokens are too many", columns->n_slots,
                  columns->n_tokens);
}

static int check(const struct request *request, const struct engine_op_matmul *args,
                 struct matmul_operands *found)
{
    enum op_matrices matrices = op_matrices(args);
    bool plain = matrices == OP_ONE_MATRIX;
    size_t n = args->weight->ne[2];
    uint32_t use = plain ? ENGINE_WEIGHT_MATMUL : ENGINE_WEIGHT_MATRICES;
    if (!activation_is_plain(args->activation))
        return refuse(request, ENGINE_ERROR_UNSUPPORTED, "matmul: activation %u is unknown or has parameters",
                      args->activation);
    found->columns =
        (struct columns){.n_matrices = n, .n_slots = n, .n_tokens = args->input->ne[plain ? 1 : 2]};
    int status = ENGINE_OK;
    if (matrices == OP_MATRIX_PER_EXPERT) status = check_experts(request, args, found);
    if (!status) status = slots_check(request, args->input, "input", plain, &found->input);
    if (!status) status = slots_check(request, args->output, "output", plain || args->mix, &found->output);
    if (!status && args->residual)
        status = slots_check(request, args->residual, "residual", true, &found->residual);
    if (!status) status = weight_check(request, args->weight, "weight", use, &found->weights[0]);
    if (!status && args->gate) status = weight_check(request, args->gate, "gate", use, &found->weights[1]);
    return status ? status : values_check(request, args->bias, "bias", &found->bias);
}

/* ---- The operation --------------------------------------------------------------------------------- */

/* The rows of a view as it was found. */
static struct rows rows_of(const struct view *view)
{
    return (struct rows){view->data, view->ne[1] == 1 ? 0 : view->nb[1], view->nb[2]};
}

/* The matrices, with their inputs prepared. Returns false after host->fail. */
static bool add_inputs(const struct request *request, struct list *list, const struct matmul_operands *found,
                       struct matmul_step *step)
{
    for (int i = 0; i < MATRICES && found->weights[i]; i++) {
        const struct engine_weight *weight = found->weights[i];
        const struct weight_type *type = weight->packed_type;
        struct matrix *matrix = &step->matrices[i];
        size_t panel_size = weight_panel_size(type, step->k);
        *matrix = (struct matrix){.type = type,
                                  .panels = weight->packed,
                                  .matrix_size = n_parts(step->rows, PANEL) * panel_size,
                                  .panel_size = panel_size,
                                  .chunk_size = type->chunk_size(type, CHUNK),
                                  .slot = SLOT_INPUT_0};
        if (type->kind == TILE_F32 && step->columns.n_tokens == 1)
            matrix->input = rows_of(&found->input);
        else if (!matmul_prepare(request, list, type, &step->columns, &found->input,
                                 i > 0 && !step->matrices[0].input.data ? &step->matrices[0].slot : NULL,
                                 &matrix->slot))
            return false;
    }
    return true;
}

/* What the step that was just added reads and writes. */
static void declare(struct list *list, const struct matmul_operands *found, const struct matmul_step *step)
{
    bool reads_input = false;
    for (int i = 0; i < MATRICES && step->matrices[i].type; i++)
        if (step->matrices[i].input.data)
            reads_input = true;
        else
            list_reads_slot(list, step->matrices[i].slot);
    if (reads_input) list_reads(list, &found->input);
    if (columns_sorted(&step->columns))
        list_reads_slot(list, SLOT_EXPERTS);
    else if (step->columns.experts.data)
        list_reads(list, &step->columns.experts);
    if (step->residual.data) list_reads(list, &found->residual);
    if (step->mixed)
        list_writes_slot(list, SLOT_PRODUCTS);
    else
        list_writes(list, &found->output);
}

int op_matmul(const struct request *request, const void *arguments, struct list *list)
{
    const struct engine_op_matmul *args = arguments;
    struct matmul_operands found = {0};
    int status = check(request, args, &found);
    if (status || request->planning) return status;

    const struct columns *columns = &found.columns;
    size_t rows = found.output.ne[0];
    struct matmul_step step = {
        .columns = *columns,
        .k = found.input.ne[0],
        .rows = rows,
        .bias = found.bias,
        .bias_stride = rows,
        .output = rows_of(&found.output),
        .mixed = args->mix,
        .scale = args->scale == 0 ? 1 : args->scale,
        .activation = args->activation,
    };
    if (args->residual && !args->mix) step.residual = rows_of(&found.residual);
    if (columns_sorted(columns) && !matmul_sort(list, columns)) return ENGINE_ERROR_MEMORY;
    if (!add_inputs(request, list, &found, &step) || !matmul_multiply(request, list, &step))
        return ENGINE_ERROR_MEMORY;
    declare(list, &found, &step);
    if (!args->mix) return ENGINE_OK;
    const struct mixing mixing = {.columns = *columns,
                                  .n_rows = rows,
                                  .mix = found.mix,
                                  .residual = found.residual,
                                  .output = found.output};
    return matmul_mix(list, &mixing) ? ENGINE_OK : ENGINE_ERROR_MEMORY;
}
