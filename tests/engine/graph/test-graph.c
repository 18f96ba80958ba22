/* test-graph.c: the builder of graphs: shapes that don't go together end in a message that names the tensor
 * or the operation; derived weights, views and caches are what they should be. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "base/error.h"
#include "gguf-writer.h"
#include "graph/graph.h"

static struct model *model;
static struct derived *derived;
static struct graph *graph;

static void open_model(void)
{
    char path[] = "/tmp/engine-graph-XXXXXX";
    int file = mkstemp(path);
    cr_assert_geq(file, 0);
    struct tiny_llama config = {.seed = 1, .type = ENGINE_TYPE_Q8_0};
    cr_assert(write_tiny_llama(path, &config));
    cr_assert_eq(model_open(path, NULL, &model), ENGINE_OK);
    remove(path);
    derived = derived_create();
    struct graph_shape shape = {.n_tokens = 5,
                                .n_outputs = 2,
                                .n_sequences = 1,
                                .table_width = 4,
                                .cache_type = ENGINE_TYPE_F16,
                                .block_size = 32,
                                .n_blocks = 4,
                                .n_context = 128};
    graph = graph_create(model, derived, &shape);
}

static void close_model(void)
{
    graph_destroy(graph);
    derived_destroy(derived);
    model_close(model);
}

TestSuite(graph, .init = open_model, .fini = close_model);

/* A value [64, 5] to work on. */
static struct value *embedding(void)
{
    return graph_get_rows(graph, graph_weight(graph, 64, 320, "token_embd.weight"),
                          graph_input(graph, INPUT_TOKENS));
}

static void expect_failure(const struct value *value, const char *words)
{
    cr_assert_null(value);
    cr_assert_eq(graph->status, ENGINE_ERROR_DATA);
    cr_assert_not_null(strstr(error_message(), words), "%s, should have '%s'", error_message(), words);
}

/* ---- Refusals ---- */

Test(graph, a_tensor_that_is_missing_is_named)
{
    expect_failure(graph_weight(graph, 64, 64, "blk.7.attn_q.weight"), "blk.7.attn_q.weight is missing");
}

Test(graph, an_optional_tensor_is_absent_without_an_error)
{
    cr_assert_null(graph_weight_optional(graph, 64, 64, "blk.7.attn_q.weight"));
    cr_assert_null(graph_values_optional(graph, 64, 1, "blk.0.attn_q.bias"));
    cr_assert_eq(graph->status, ENGINE_OK);
}

Test(graph, a_tensor_of_another_shape_is_named)
{
    expect_failure(graph_weight(graph, 64, 65, "blk.0.attn_q.weight"), "blk.0.attn_q.weight is 64 x 64");
}

Test(graph, an_operand_that_is_absent_is_no_crash)
{
    expect_failure(graph_matmul(graph, graph_weight_optional(graph, 64, 64, "nothing"), embedding()),
                   "matmul");
}

Test(graph, products_and_sums_of_other_shapes_are_refused)
{
    struct value *x = embedding(), *down = graph_weight(graph, 96, 64, "blk.0.ffn_down.weight");
    expect_failure(graph_matmul(graph, down, x), "blk.0.ffn_down.weight of 96 x 64");
    cr_assert_not_null(strstr(error_message(), "weight [96, 64], input [64, 5], output [64, 5]"), "%s",
                       error_message());
}

Test(graph, sums_want_the_same_shape_a_row_or_a_number_for_each)
{
    struct value *x = embedding();
    struct value *up = graph_matmul(graph, graph_weight(graph, 64, 96, "blk.0.ffn_up.weight"), x);
    expect_failure(graph_add(graph, x, up), "add");
}

Test(graph, norms_of_another_width_are_refused)
{
    struct value *weight = graph_values(graph, 64, 1, "blk.0.attn_norm.weight");
    struct value *x = graph_matmul(graph, graph_weight(graph, 64, 96, "blk.0.ffn_up.weight"), embedding());
    graph->layer = 3;
    expect_failure(graph_norm(graph, x, weight, NULL, ENGINE_NORM_RMS, 1e-5f),
                   "layer 3: norm: blk.0.attn_norm.weight");
}

Test(graph, heads_share_those_of_the_keys_evenly)
{
    graph->layer = 0;
    struct value *k = graph_cache(graph, 16, 3, false), *q = graph_reshape(graph, embedding(), 16, 4, 5);
    const struct attention_options options = {.scale = 1};
    expect_failure(graph_attention(graph, q, k, k, &options), "attention: the heads cannot share");
}

Test(graph, views_stay_within_what_they_show)
{
    struct value *x = embedding();
    cr_assert_null(graph_slice(graph, x, 60, 5));
    cr_assert_eq(graph->status, ENGINE_ERROR_DATA);
}

Test(graph, a_reshape_keeps_the_count)
{
    struct value *x = embedding();
    cr_assert_null(graph_reshape(graph, x, 16, 4, 6));
    cr_assert_eq(graph->status, ENGINE_ERROR_DATA);
}

Test(graph, rows_outside_a_tensor_are_refused)
{
    const struct model_tensor *q = graph_find(graph, "blk.%u.attn_q.weight", 0);
    expect_failure(graph_rows(graph, q, 40, 64, 32, "part"), "blk.0.attn_q.weight");
}

Test(graph, tokens_go_to_some_of_the_experts_there_are)
{
    const struct route_options options = {.n_used = 65};
    const struct routes routes = graph_route(graph, embedding(), &options);
    expect_failure(routes.ids, "route: more experts would be used than there are: logits [64, 5]");
}

/* ---- What comes of it ---- */

Test(graph, rows_of_a_tensor_are_its_bytes_and_made_once)
{
    const struct model_tensor *q = graph_find(graph, "blk.%u.attn_q.weight", 0);
    struct value *part = graph_rows(graph, q, 16, 64, 32, "blk.0.part.weight");
    cr_assert_eq(graph->status, ENGINE_OK);
    const struct model_tensor *tensor = graph->weights[part->index].tensor;
    cr_assert_eq(tensor->data, (const uint8_t *)q->data + (size_t)16 * 2 * 34);
    cr_assert_eq(tensor->size, 32u * 2 * 34);
    struct value *again = graph_rows(graph, q, 16, 64, 32, "blk.0.part.weight");
    cr_assert_eq(graph->weights[again->index].tensor, tensor);
}

Test(graph, a_stack_has_the_bytes_of_all_its_parts)
{
    const struct model_tensor *parts[] = {graph_find(graph, "blk.0.ffn_up.weight"),
                                          graph_find(graph, "blk.1.ffn_up.weight")};
    struct value *stack = graph_stack(graph, parts, 64, 96, 2, "stack");
    cr_assert_eq(graph->status, ENGINE_OK);
    const struct model_tensor *tensor = graph->weights[stack->index].tensor;
    const void *bytes;
    void *gathered;
    cr_assert_eq(model_tensor_gather(tensor, 1, &bytes, &gathered), ENGINE_OK);
    const uint8_t *data = bytes;
    cr_assert_eq(tensor->size, 2 * parts[0]->size);
    cr_assert_arr_eq(data, parts[0]->data, parts[0]->size);
    cr_assert_arr_eq(data + parts[0]->size, parts[1]->data, parts[1]->size);
    free(gathered);
}

Test(graph, a_factor_goes_into_the_product_that_nothing_has_read)
{
    struct value *w = graph_weight(graph, 64, 64, "blk.0.attn_q.weight"), *x = embedding();
    struct value *y = graph_matmul(graph, w, x);
    cr_assert_eq(graph_scale(graph, graph_scale(graph, y, 0.5f), 3), y);
    cr_assert_float_eq(graph->nodes[graph->n_nodes - 1].args.matmul.scale, 1.5f, 0);
    graph_add(graph, y, y);
    struct value *scaled = graph_scale(graph, y, 2);
    cr_assert_neq(scaled, y);
    cr_assert_eq(graph->nodes[graph->n_nodes - 1].op, ENGINE_OP_MUL);
    cr_assert_eq(graph->status, ENGINE_OK);
}

Test(graph, slices_keep_strides_and_split_into_heads)
{
    struct value *x = embedding(), *part = graph_slice(graph, x, 32, 16);
    struct value *heads = graph_reshape(graph, part, 8, 2, 5);
    cr_assert_eq(graph->status, ENGINE_OK);
    cr_assert_eq(heads->root, x);
    cr_assert_eq(heads->view_offset, 32 * sizeof(float));
    cr_assert_eq(heads->tensor.nb[1], 8 * sizeof(float));
    cr_assert_eq(heads->tensor.nb[2], 64 * sizeof(float));
}

Test(graph, caches_are_declared_with_their_own_shapes)
{
    for (graph->layer = 0; graph->layer < 2; graph->layer++) {
        graph_cache(graph, 24 + 8 * graph->layer, 1, false);
        graph_cache(graph, 16, 3, false);
    }
    cr_assert_eq(graph->n_caches, 4);
    cr_assert_eq(graph->caches[2].layer, 1);
    cr_assert_eq(graph->caches[2].value->tensor.ne[0], 32);
    cr_assert_eq(graph->caches[3].value->tensor.ne[2], 3);
    /* The first values of each key, as latent attention reads them. */
    struct value *latent = graph_slice(graph, graph->caches[2].value, 0, 8);
    cr_assert_eq(latent->tensor.nb[1], graph->caches[2].value->tensor.nb[1]);
    cr_assert_eq(latent->root, graph->caches[2].value);
}
