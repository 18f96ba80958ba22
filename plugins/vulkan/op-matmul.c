/* op-matmul.c: ENGINE_OP_MATMUL as dispatches of shaders/matmul.comp: one for each part of a weight that can
 * be bound. Forms that multiply integers need the input rounded first, which products of the same input
 * share. With chosen experts, columns are first grouped by expert, and the experts' results are mixed
 * afterwards. */
#include "builder.h"

/* Columns and panels that workgroups of shaders/matmul-*.glsl take. */
#define TILED_TOKENS       32
#define TILED_PANELS       2
#define COOPERATIVE_TOKENS 64
#define ADDRESS_TOKENS     8

#define GROUP_LANES 128 /* invocations of shaders/group.comp */

#define ROUNDED_CHUNK 80 /* bytes of 32 values that shaders/round.comp has rounded */

/* Bytes of the experts' results before they are mixed; beyond that, tokens are processed in several
 * rounds. */
#define MAX_PRODUCT (64u << 20)

/* A form of shaders/matmul.comp. */
struct matmul_form {
    enum shader shader;
    uint32_t tokens, panels; /* of a workgroup */
    uint32_t parts;          /* workgroups for those, 1 … MAX_PARTS */
    uint32_t rows;           /* of a workgroup of shaders/matmul-few.glsl, else 0 */
    bool integers;           /* the input is rounded by shaders/round.comp */
};

/* A power of two: at least n, if `most` is. */
static uint32_t rounded_up(uint64_t n, uint32_t most)
{
    uint32_t power = 1;
    while (power < n && power < most) power *= 2;
    return power;
}

/* How workgroups find their matrix and columns: MATRICES of shaders/matmul.comp. */
enum matrices { SINGLE, BY_HEAD, BY_COLUMN, BY_GROUP };

/* A matmul of one matrix or several. Its operands are views; their dimension 1 is that of heads or experts if
 * there are several matrices, otherwise that of tokens. */
struct product {
    const struct gpu_call *call;
    struct gpu_view input, experts, mix, output, residual;
    enum matrices matrices;
    uint32_t n_slots, tokens; /* heads or experts of a token */
    uint64_t n_panels;        /* of one matrix */
    struct matmul_form form;
    bool whole;     /* columns of the input are whole chunks of 32 and start at multiples of 16 bytes */
    uint64_t tiles; /* of columns: workgroups in dimension 1 */
    /* Scratch memory: what the experts have made, from groups_at on the groups, from rounded_at on the
     * rounded input. */
    uint64_t groups_at, rounded_at, scratch;
};

/* Bytes of shared memory of shaders/matmul-few.glsl: sums of at most four columns at once, and with integers
 * a table of values by pairs of their numbers. */
static uint32_t few_shared(const struct matmul_form *form, bool gated, bool looks_up)
{
    return (gated ? 2 : 1) * least(form->tokens, 4) * FEW_SHARES * form->rows * 4 + (looks_up ? 256 * 4 : 0);
}

/* For few columns: the more there are, the more rows share what is read of them. But workgroups should not be
 * fewer than a large GPU has processors. */
static struct matmul_form few_form(const struct engine_device *device, const struct weight_type *type,
                                   uint64_t columns, bool gated, uint64_t panels, bool integers)
{
    enum { LEAST_ROWS = 8, PROCESSORS = 128, GATED_ROWS = 16 };
    struct matmul_form form = {type->first + (integers ? MATMUL_FEW_INTEGERS : MATMUL_FEW),
                               rounded_up(columns, MAX_FEW_COLUMNS),
                               1,
                               1,
                               LEAST_ROWS,
                               integers};
    uint32_t most = device->few_rows, shared = device->physical->properties.limits.maxComputeSharedMemorySize;
    bool looks_up = integers && (type->type == ENGINE_TYPE_IQ4_NL || type->type == ENGINE_TYPE_IQ4_XS ||
                                 type->type == ENGINE_TYPE_MXFP4);
    /* With a gate, 16 columns take more than the 128 registers that invocations have in workgroups of 512. */
    if (gated && form.tokens == MAX_FEW_COLUMNS && most > GATED_ROWS) most = GATED_ROWS;
    while (form.rows < most && form.rows < 4 * form.tokens &&
           panels * PANEL_ROWS / (UINT64_C(2) * form.rows) >= PROCESSORS)
        form.rows *= 2;
    while (form.rows > LEAST_ROWS && few_shared(&form, gated, looks_up) > shared) form.rows /= 2;
    ENGINE_ASSERT(few_shared(&form, gated, looks_up) <= shared);
    form.parts = PANEL_ROWS / form.rows;
    return form;
}

/* The form for so many columns of each matrix of a product. `panels`: of all matrices. */
static struct matmul_form matmul_form(const struct engine_device *device, const struct product *product,
                                      uint64_t columns, uint64_t panels)
{
    const struct gpu_view *v = product->call->views;
    uint32_t type = v[OPERAND(matmul, weight)].type;
    enum shader first = weight_type(type)->first;
    if (device->addresses)
        return (struct matmul_form){
            first + MATMUL_ADDRESS, rounded_up(columns, ADDRESS_TOKENS), 1, 1, 0, false};
    bool integers = device->dot && shader_codes[first + MATMUL_FEW_INTEGERS].words;
    if (columns == 1 && device->shuffles)
        return (struct matmul_form){
            first + (integers ? MATMUL_SUBGROUPS_INTEGERS : MATMUL_SUBGROUPS), 1, 1, MAX_PARTS, 0, integers};
    if (columns == 1 || ((product->whole || integers) && columns <= device->few_columns))
        return few_form(device, weight_type(type), columns, v[OPERAND(matmul, gate)].present, panels,
                        integers);
    if (device->cooperative && type != ENGINE_TYPE_F32)
        return (struct matmul_form){
            first + MATMUL_COOPERATIVE, COOPERATIVE_TOKENS, TILED_PANELS, 1, 0, false};
    enum shader tiled = first + MATMUL_TILED;
    if (device->dot && type == ENGINE_TYPE_Q8_0)
        tiled = SHADER_MATMUL_Q8_0_DOT;
    else if (device->dot && type == ENGINE_TYPE_Q4_0)
        tiled = SHADER_MATMUL_Q4_0_DOT;
    else if (device->half && type != ENGINE_TYPE_F32 &&
             type != ENGINE_TYPE_F16) /* those are exact as they are */
        tiled = first + MATMUL_HALF;
    return (struct matmul_form){tiled, TILED_TOKENS, TILED_PANELS, 1, 0, false};
}

/* The constants of shaders/matmul-few.glsl. */
static void set_few(struct builder *builder, const struct matmul_form *form)
{
    struct pipeline_key *key = &builder->dispatch.key;
    key->constants[0] = form->rows * FEW_SHARES;
    key->constants[6] = form->tokens;
    key->constants[7] = form->rows;
    key->constants[8] = builder->device->shuffles ? builder->device->physical->subgroup / 8 : 1;
}

/* The constants of shaders/matmul-cooperative.glsl. */
static void set_cooperative(struct builder *builder)
{
    const struct cooperative *sizes = &builder->device->physical->cooperative;
    struct pipeline_key *key = &builder->dispatch.key;
    key->constants[6] = sizes->rows;
    key->constants[7] = sizes->columns;
    key->constants[8] = sizes->depth;
    key->constants[9] = sizes->region_rows;
    key->constants[10] = sizes->region_columns;
    key->full_subgroups = 1;
    key->subgroup_size = sizes->subgroup;
}

/* Where a binding begins; 0 if shaders don't use addresses. */
static uint64_t address_of(const struct builder *builder, int number)
{
    const struct binding *binding = &builder->dispatch.bindings[number];
    return binding->address ? binding->address + binding->offset : 0;
}

/* The part of a tensor that belongs to some of the tokens. */
static struct gpu_view of_tokens(const struct gpu_view *view, int dimension, uint32_t first, uint32_t count)
{
    struct gpu_view part = *view;
    if (!view->present || view->ne[dimension] == count) return part;
    part.offset += first * view->nb[dimension];
    part.bytes -= (view->ne[dimension] - count) * view->nb[dimension];
    part.ne[dimension] = count;
    return part;
}

static uint64_t aligned_size(uint64_t size)
{
    return (size + 255) & ~(uint64_t)255;
}

/* Tokens that are taken at once. */
static uint32_t most_tokens(const struct gpu_call *call)
{
    const struct gpu_view *experts = &call->views[OPERAND(matmul, experts)];
    uint64_t tokens = call->views[OPERAND(matmul, input)].ne[2];
    if (!call->views[OPERAND(matmul, mix)].present) return (uint32_t)tokens;
    uint64_t most = MAX_PRODUCT / (call->views[OPERAND(matmul, weight)].ne[1] * experts->ne[0] * 4);
    return least(tokens, most > 0 ? (uint32_t)most : 1);
}

static bool is_whole(const struct gpu_view *input)
{
    bool whole = input->ne[0] % 32 == 0 && input->offset % 16 == 0;
    for (int i = 1; i < 3; i++) whole = whole && (input->ne[i] == 1 || input->nb[i] % 16 == 0);
    return whole;
}

/* Experts take columns in groups, each with a matrix, where those have two columns or more on average; else
 * every column has workgroups of its own, of the form for one. Tiles have room for twice the average. */
static void group_columns(const struct engine_device *device, uint64_t n_experts, struct product *product)
{
    uint64_t columns = (uint64_t)product->tokens * product->n_slots, panels = product->n_panels * n_experts;
    if (columns < 2 * n_experts || product->tokens == 1) {
        product->matrices = BY_COLUMN;
        product->form = matmul_form(device, product, 1, panels);
        product->tiles = columns;
        return;
    }
    product->matrices = BY_GROUP;
    product->form = matmul_form(device, product, least(2 * columns / n_experts, product->tokens), panels);
    product->tiles = columns / product->form.tokens + least(columns, (uint32_t)n_experts);
}

/* The size of the input where it is rounded, else 0. */
static uint64_t rounded_size(const struct product *product)
{
    const uint64_t *ne = product->input.ne;
    return product->form.integers ? aligned_size(ne[0] / 32 * ne[1] * ne[2] * ROUNDED_CHUNK) : 0;
}

/* Some of the tokens of a matmul. */
static struct product make_product(const struct engine_device *device, const struct gpu_call *call,
                                   uint32_t first, uint32_t count)
{
    const struct gpu_view *v = call->views, *weight = &v[OPERAND(matmul, weight)];
    struct product product = {.call = call, .n_slots = 1, .tokens = count};
    int dimension = call->matrices == OP_ONE_MATRIX ? 1 : 2;
    product.input = of_tokens(&v[OPERAND(matmul, input)], dimension, first, count);
    product.output =
        of_tokens(&v[OPERAND(matmul, output)], v[OPERAND(matmul, mix)].present ? 1 : dimension, first, count);
    product.residual = of_tokens(&v[OPERAND(matmul, residual)], 1, first, count);
    product.experts = of_tokens(&v[OPERAND(matmul, experts)], 1, first, count);
    product.mix = of_tokens(&v[OPERAND(matmul, mix)], 1, first, count);
    product.n_panels = (weight->ne[1] + PANEL_ROWS - 1) / PANEL_ROWS;
    product.whole = is_whole(&product.input);
    if (call->matrices == OP_MATRIX_PER_EXPERT) {
        product.n_slots = (uint32_t)product.experts.ne[0];
        group_columns(device, weight->ne[2], &product);
        uint64_t columns = (uint64_t)count * product.n_slots;
        if (product.mix.present) product.groups_at = aligned_size(columns * weight->ne[1] * 4);
        product.rounded_at = product.groups_at;
        if (product.matrices == BY_GROUP)
            product.rounded_at += aligned_size((3 * product.tiles + columns) * 4);
        product.scratch = product.rounded_at + rounded_size(&product);
        return product;
    }
    if (call->matrices == OP_MATRIX_PER_HEAD) {
        product.matrices = BY_HEAD;
        product.n_slots = (uint32_t)weight->ne[2];
    }
    product.form = matmul_form(device, &product, count, product.n_panels * product.n_slots);
    product.tiles = (count + (uint64_t)product.form.tokens - 1) / product.form.tokens * product.n_slots;
    product.scratch = rounded_size(&product);
    return product;
}

/* The most tokens, up to `most`, with which an expert has `each` columns or fewer as group_columns counts. */
static uint32_t tokens_for(const struct gpu_call *call, uint64_t each, uint32_t most)
{
    uint64_t n_experts = call->views[OPERAND(matmul, weight)].ne[2],
             n_slots = call->views[OPERAND(matmul, experts)].ne[0];
    uint64_t tokens = ((each + 1) * n_experts - 1) / (2 * n_slots);
    return least(tokens > each ? tokens : each, most);
}

/* Enough for any number of tokens up to the call's: of experts' products the last round has fewer than the
 * others, and plans are made for the largest batch. More tokens take more where their form is the same, but
 * the input of few is rounded where that of many is not. So the largest are among those with the most tokens
 * of each form. */
uint64_t op_matmul_scratch(const struct engine_device *device, const struct gpu_call *call)
{
    bool has_experts = call->matrices == OP_MATRIX_PER_EXPERT;
    uint32_t most = (uint32_t)call->views[OPERAND(matmul, input)].ne[call->matrices == OP_ONE_MATRIX ? 1 : 2];
    if (has_experts) most = most_tokens(call);
    uint64_t size = make_product(device, call, 0, most).scratch;
    for (uint32_t each = 1; each <= MAX_FEW_COLUMNS; each++) {
        uint32_t tokens = has_experts ? tokens_for(call, each, most) : least(each, most);
        uint64_t other = make_product(device, call, 0, tokens).scratch;
        if (other > size) size = other;
        if (tokens == most) break;
    }
    return size;
}

/* ---- Several matrices ---------------------------------------------------------------------------------- */

/* Groups columns by their experts, in scratch memory: tiles, then the list of columns. */
static int group(const struct builder *builder, const struct product *product,
                 const struct memory_range *scratch)
{
    struct builder first = {.device = builder->device, .commands = builder->commands};
    first.dispatch.key = (struct pipeline_key){.shader = SHADER_GROUP, .constants = {GROUP_LANES}};
    struct group_parameters p = {.n = (uint32_t)product->call->views[OPERAND(matmul, weight)].ne[2],
                                 .n_tokens = product->tokens,
                                 .n_used = product->n_slots,
                                 .experts_stride = stride(&product->experts, 1),
                                 .tile_columns = product->form.tokens,
                                 .n_tiles = (uint32_t)product->tiles};
    p.experts_offset = bind_view(&first, 0, &product->experts, ACCESS_READ);
    SET_PARAMETERS(&first, p);
    bind_range(&first, 1, scratch, product->groups_at, product->rounded_at - product->groups_at,
               ACCESS_WRITE);
    first.dispatch.groups[0] = first.dispatch.groups[1] = 1;
    return add(&first);
}

/* Sums up what a token's experts have made. */
static int mix(const struct builder *builder, const struct product *product,
               const struct memory_range *scratch)
{
    struct builder last = {.device = builder->device, .commands = builder->commands};
    last.dispatch.key.shader = SHADER_MIX;
    last.dispatch.key.constants[1] = product->residual.present;
    struct mix_parameters p = {.rows = (uint32_t)product->output.ne[0],
                               .n_tokens = product->tokens,
                               .n_used = product->n_slots,
                               .mix_stride = stride(&product->mix, 1),
                               .output_stride = stride(&product->output, 1)};
    p.mix_offset = bind_view(&last, 1, &product->mix, ACCESS_READ);
    p.output_offset = bind_view(&last, 2, &product->output, ACCESS_WRITE);
    if (product->residual.present) {
        p.residual_offset = bind_view(&last, 3, &product->residual, ACCESS_READ);
        p.residual_stride = stride(&product->residual, 1);
    }
    SET_PARAMETERS(&last, p);
    bind_range(&last, 0, scratch, 0, product->groups_at, ACCESS_READ);
    spread(&last, product->output.ne[0] * product->tokens);
    return add(&last);
}

/* Rounds the input, in scratch memory, unless it is there from the product before. */
static int round_input(const struct builder *builder, const struct product *product,
                       const struct memory_range *scratch)
{
    struct builder first = {.device = builder->device, .commands = builder->commands};
    const struct gpu_view *input = &product->input;
    struct round_parameters p = {.n_chunks = (uint32_t)(input->ne[0] / 32),
                                 .n1 = (uint32_t)input->ne[1],
                                 .n2 = (uint32_t)input->ne[2]};
    first.dispatch.key.shader = SHADER_ROUND_COLUMNS;
    first.dispatch.key.constants[1] = product->whole;
    BIND_ROWS(&first, 0, input, ACCESS_READ, p, input);
    SET_PARAMETERS(&first, p);
    bind_range(&first, 1, scratch, product->rounded_at, rounded_size(product), ACCESS_WRITE);
    const uint32_t shape[MAX_SHAPE] = {(uint32_t)input->ne[0], p.n1, p.n2};
    memcpy(first.dispatch.shape, shape, sizeof shape);
    spread(&first, (uint64_t)p.n_chunks * p.n1 * p.n2);
    return commands_dispatch_once(builder->commands, &first.dispatch);
}

/* ---- The products themselves --------------------------------------------------------------------------- */

/* What a dispatch with so many panels does. Of several matrices it reads no more than there are columns. */
static void set_work(struct builder *builder, const struct product *product, uint64_t panels)
{
    const struct gpu_view *v = product->call->views, *input = &product->input;
    const struct engine_weight *weight = v[OPERAND(matmul, weight)].weight;
    uint64_t n_weights = v[OPERAND(matmul, gate)].present ? 2 : 1, rows = panels * PANEL_ROWS,
             columns = product->tokens * (product->matrices == SINGLE ? UINT64_C(1) : product->n_slots);
    if (rows > product->output.ne[0]) rows = product->output.ne[0];
    bool is_chosen = product->matrices == BY_COLUMN || product->matrices == BY_GROUP;
    if (is_chosen && panels > weight->matrix_panels * columns) panels = weight->matrix_panels * columns;
    builder->dispatch.flops = 2 * input->ne[0] * rows * columns * n_weights;
    builder->dispatch.bytes = panels * (weight->panel_size + weight->scale_size) * n_weights + input->bytes +
                              rows * columns * sizeof(float);
    const uint32_t shape[MAX_SHAPE] = {(uint32_t)input->ne[0], (uint32_t)rows, product->tokens,
                                       product->matrices == SINGLE ? 0 : product->n_slots};
    memcpy(builder->dispatch.shape, shape, sizeof shape);
}

/* Adds the dispatches of a matmul that is complete except for its weights: one for each part that can be
 * bound. A part writes other rows than those before it, yet waits for them: that costs little compared to
 * reading a binding full of weights. With several matrices each part has the workgroups of all; those skip
 * what isn't bound. */
static int add_parts(struct builder *builder, const struct product *product, struct matmul_parameters *p)
{
    const struct gpu_view *v = product->call->views;
    const struct engine_weight *weight = v[OPERAND(matmul, weight)].weight,
                               *gate = v[OPERAND(matmul, gate)].weight;
    uint64_t part = panels_in_part(builder->device, weight);
    for (uint64_t panel = 0; panel < weight->n_panels; panel += part) {
        uint64_t count = weight->n_panels - panel < part ? weight->n_panels - panel : part;
        uint64_t panels = product->matrices == SINGLE ? count : weight->matrix_panels;
        bind_panels(builder, 0, weight, panel, count);
        if (gate) bind_panels(builder, 2, gate, panel, count);
        set_work(builder, product, count);
        p->first_row = (uint32_t)(panel * PANEL_ROWS);
        p->first_panel = (uint32_t)panel;
        p->n_panels = (uint32_t)count;
        builder->dispatch.groups[0] =
            (uint32_t)((panels + product->form.panels - 1) / product->form.panels) * product->form.parts;
        p->weight = address_of(builder, 0);
        p->weight_scales = address_of(builder, 1);
        p->gate = address_of(builder, 2);
        p->gate_scales = address_of(builder, 3);
        p->inputs = address_of(builder, 4);
        SET_PARAMETERS(builder, *p);
        int status = add(builder);
        if (status) return status;
    }
    return ENGINE_OK;
}

/* Binds the output of a product, or scratch memory if it is to be mixed. */
static void bind_output(struct builder *builder, const struct product *product,
                        const struct memory_range *scratch, struct matmul_parameters *p)
{
    const struct gpu_view *output = &product->output;
    if (product->mix.present) {
        bind_range(builder, 5, scratch, 0, product->groups_at, ACCESS_WRITE);
        p->output_slots = (uint32_t)output->ne[0];
        p->output_stride = p->output_slots * product->n_slots;
        return;
    }
    p->output_offset = bind_view(builder, 5, output, ACCESS_WRITE);
    p->output_stride = product->matrices == SINGLE ? stride(output, 1) : stride(output, 2);
    p->output_slots = stride(output, 1);
}

/* Binds the input, or what it was rounded to, whose places are counted in chunks of 32 values. */
static void bind_input(struct builder *builder, const struct product *product,
                       const struct memory_range *scratch, struct matmul_parameters *p)
{
    const struct gpu_view *input = &product->input;
    if (product->form.integers) {
        uint32_t n_chunks = (uint32_t)(input->ne[0] / 32);
        bind_range(builder, 4, scratch, product->rounded_at, rounded_size(product), ACCESS_READ);
        p->input_slots = input->ne[1] == 1 ? 0 : n_chunks;
        p->input_stride = product->matrices == SINGLE ? n_chunks : (uint32_t)input->ne[1] * n_chunks;
        return;
    }
    p->input_offset = bind_view(builder, 4, input, ACCESS_READ);
    p->input_slots = stride(input, 1);
    p->input_stride = product->matrices == SINGLE ? p->input_slots : stride(input, 2);
}

static int append(struct builder *builder, const struct product *product, const struct memory_range *scratch)
{
    const struct gpu_view *v = product->call->views, *input = &product->input;
    const struct gpu_view *residual = &product->residual, *bias = &v[OPERAND(matmul, bias)];
    const struct engine_op_matmul *args = &product->call->args.matmul;
    const struct engine_weight *weight = v[OPERAND(matmul, weight)].weight;
    const struct matmul_form *form = &product->form;
    bool adds = residual->present && !product->mix.present;

    enum shader first = weight_type(weight->base.type)->first;
    struct pipeline_key *key = &builder->dispatch.key;
    *key = (struct pipeline_key){.shader = form->shader,
                                 .constants = {[1] = product->whole,
                                               v[OPERAND(matmul, gate)].present,
                                               bias->present,
                                               adds,
                                               args->activation,
                                               builder->device->unrolled,
                                               [11] = product->matrices}};
    if (form->shader == first + MATMUL_COOPERATIVE) set_cooperative(builder);
    if (form->shader == first + MATMUL_SUBGROUPS || form->shader == first + MATMUL_SUBGROUPS_INTEGERS)
        key->full_subgroups = 1;
    if (form->shader == first + MATMUL_ADDRESS) key->constants[6] = form->tokens;
    if (form->rows > 0) set_few(builder, form);
    struct matmul_parameters p = {
        .k = (uint32_t)input->ne[0],
        .rows = (uint32_t)product->output.ne[0],
        .tokens = product->tokens,
        .scale = args->scale == 0 ? 1 : args->scale,
        .n_slots = product->n_slots,
        .head_tiles = (uint32_t)(product->tiles / product->n_slots),
        .matrix_panels = (uint32_t)weight->matrix_panels,
    };
    bind_input(builder, product, scratch, &p);
    bind_output(builder, product, scratch, &p);
    if (adds) {
        p.residual_offset = bind_view(builder, 7, residual, ACCESS_READ);
        p.residual_stride = stride(residual, 1);
    }
    if (bias->present) bind_values(builder, 6, bias);
    if (product->matrices == BY_COLUMN) {
        p.choice_offset = bind_view(builder, 7, &product->experts, ACCESS_READ);
        p.choice_step = stride(&product->experts, 1);
    } else if (product->matrices == BY_GROUP) {
        bind_range(builder, 7, scratch, product->groups_at, product->rounded_at - product->groups_at,
                   ACCESS_READ);
        p.choice_step = (uint32_t)(3 * product->tiles);
    }

    if (product->tiles > builder->device->max_groups[1])
        return vulkan_host->fail(ENGINE_ERROR_UNSUPPORTED, "matmul: %u columns are too many",
                                 product->tokens);
    builder->dispatch.groups[1] = (uint32_t)product->tiles;
    return add_parts(builder, product, &p);
}

int op_matmul(struct builder *builder, const struct gpu_call *call)
{
    const struct memory_range *scratch = NULL;
    uint64_t size = op_matmul_scratch(builder->device, call);
    uint32_t tokens =
        (uint32_t)call->views[OPERAND(matmul, input)].ne[call->matrices == OP_ONE_MATRIX ? 1 : 2];
    uint32_t most = call->matrices == OP_MATRIX_PER_EXPERT ? most_tokens(call) : tokens;
    int status = size > 0 ? scratch_get(builder->device, size, &scratch) : ENGINE_OK;
    for (uint32_t first = 0; first < tokens && !status; first += most) {
        struct builder each = {.device = builder->device, .commands = builder->commands};
        struct product product = make_product(builder->device, call, first, least(tokens - first, most));
        if (product.matrices == BY_GROUP) status = group(builder, &product, scratch);
        if (!status && product.form.integers) status = round_input(builder, &product, scratch);
        if (!status) status = append(&each, &product, scratch);
        if (!status && product.mix.present) status = mix(builder, &product, scratch);
    }
    return status;
}
