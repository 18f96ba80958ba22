/* logits-lens.c: `engine logits --lens`: the likeliest next tokens after each layer. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands/logits.h"
#include "io/display.h"
#include "io/json.h"
#include "io/messages.h"
#include "options/open.h"
#include "prompts/prompt.h"
#include "prompts/results.h"

#define DEFAULT_TOP 3
#define MOST_SHOWN  31 /* tokens of a layer in a table, which has 64 columns at most */

struct lens {
    size_t n_top, n_vocab, n_layers;
    bool shows_ids;        /* instead of texts: the vocabulary cannot be read */
    struct likely *layers; /* [n_layers + 1], n_top tokens each */
    struct likely_token *tokens;
    int status;
};

/* The highest logits of a layer. */
static int keep_top(struct lens *lens, size_t layer, const float *logits)
{
    return likely_read(&lens->layers[layer], logits, (uint32_t)lens->n_vocab, "layer", layer);
}

/* A context's `watched`. */
static int collect(void *user, const struct engine_watched *value)
{
    struct lens *lens = user;
    lens->status = keep_top(lens, value->layer, value->data);
    return lens->status || interrupted ? 1 : 0;
}

static double probability_of(const struct likely *layer, size_t i)
{
    return exp((double)layer->top[i].logit - layer->log_total);
}

/* The text of a token, null if it cannot be read; NULL for want of memory. */
static json_t *text_of(const struct lens *lens, struct engine_model *model, int32_t token)
{
    if (lens->shows_ids) return json_null();
    struct engine_string text = prompt_token_text(model, token);
    return json_text(text.data, text.length);
}

static int print_json(const struct lens *lens, struct engine_model *model, size_t token)
{
    json_t *layers = json_array();
    for (size_t layer = 0; layer <= lens->n_layers; layer++) {
        json_t *top = json_array();
        for (size_t i = 0; i < lens->n_top; i++) {
            int32_t id = lens->layers[layer].top[i].id;
            json_array_append_new(top, json_pack("{s:i, s:o, s:f}", "id", (int)id, "text",
                                                 text_of(lens, model, id), "probability",
                                                 probability_of(&lens->layers[layer], i)));
        }
        json_array_append_new(layers, json_pack("{s:o, s:o}", "layer", json_count(layer), "top", top));
    }
    return json_print(json_pack("{s:o, s:o}", "token", json_count(token), "layers", layers));
}

/* A row for each layer: the tokens in quotes, which JSON's escapes keep on one line, or as ids. */
static int print_table(const struct lens *lens, struct engine_model *model)
{
    char alignment[2 * MOST_SHOWN + 2] = "r";
    size_t n_shown = lens->n_top;
    for (size_t i = 0; i < n_shown; i++) memcpy(alignment + 1 + 2 * i, "lr", 3);
    struct table table = {.n_columns = 1 + 2 * n_shown, .alignment = alignment};
    table_add(&table, "LAYER");
    for (size_t i = 0; i < n_shown; i++) {
        table_add(&table, i == 0 ? "LIKELIEST" : "NEXT");
        table_add(&table, "P");
    }
    for (size_t layer = 0; layer <= lens->n_layers; layer++) {
        table_add(&table, "%zu", layer);
        for (size_t i = 0; i < n_shown; i++) {
            int32_t id = lens->layers[layer].top[i].id;
            json_t *text = lens->shows_ids ? json_integer(id) : text_of(lens, model, id);
            char *quoted = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
            table_add(&table, "%s", quoted ? quoted : "?");
            table_add(&table, "%.4f", probability_of(&lens->layers[layer], i));
            free(quoted);
            json_decref(text);
        }
    }
    return table_print(&table, "no layers", stdout);
}

static int make_room(struct lens *lens, size_t n_top, size_t n_vocab, size_t n_layers)
{
    lens->n_top = n_top < n_vocab ? n_top : n_vocab;
    lens->n_vocab = n_vocab;
    lens->n_layers = n_layers;
    lens->layers = calloc(n_layers + 1, sizeof *lens->layers);
    lens->tokens = calloc((n_layers + 1) * lens->n_top, sizeof *lens->tokens);
    if (!lens->layers || !lens->tokens) return command_error(ENGINE_ERROR_MEMORY, "out of memory (lens)");
    for (size_t i = 0; i <= n_layers; i++)
        lens->layers[i] =
            (struct likely){.n_most = (uint32_t)lens->n_top, .top = lens->tokens + i * lens->n_top};
    return ENGINE_OK;
}

/* Runs the tokens up to the chosen one. */
static int run(struct engine_context *context, const struct token_list *tokens, size_t chosen,
               struct lens *lens)
{
    float *logits = malloc(lens->n_vocab * sizeof *logits);
    const struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = chosen + 1, .tokens = tokens->ids};
    int status = logits ? ENGINE_OK : command_error(ENGINE_ERROR_MEMORY, "out of memory (logits)");
    if (!status) status = engine_decode(context, &batch, logits);
    if (!status) status = keep_top(lens, lens->n_layers, logits);
    free(logits);
    return status;
}

int logits_lens(const struct arguments *arguments, struct engine_model *model,
                const struct token_list *tokens, const struct engine_context_options *options)
{
    struct lens lens = {0};
    struct engine_context_options own = *options;
    struct vocabulary vocabulary;
    struct engine_context *context = NULL;
    struct engine_plan_totals totals = {0};
    struct engine_context_info info = {.struct_size = sizeof info};
    size_t chosen;
    if (arguments->n_top > MOST_SHOWN && !arguments->json)
        return command_error(ENGINE_ERROR_ARGUMENT,
                             "--lens --top %u: a table has room for %d tokens of a layer; --json takes more",
                             arguments->n_top, MOST_SHOWN);
    int status = vocabulary_open_for_ids(model, &vocabulary);
    if (status) return status;
    lens.shows_ids = !vocabulary.api;
    status = token_input_choose(arguments, model, tokens, &chosen);
    own.watch = ENGINE_WATCH_LENS;
    own.watched = collect;
    own.watch_user = &lens;
    if (!status) status = create_context(arguments, model, &own, &context);
    if (!status) status = check_tokens(arguments, context, tokens->ids, tokens->count);
    if (!status) {
        engine_context_get_info(context, &info);
        engine_plan_get_totals(engine_context_plan(context), &totals);
        status = make_room(&lens, arguments->n_top > 0 ? arguments->n_top : DEFAULT_TOP, info.n_vocab,
                           totals.n_layers);
    }
    if (!status) status = run(context, tokens, chosen, &lens);
    if (!status && !interrupted)
        status = (arguments->json ? print_json(&lens, model, chosen) : print_table(&lens, model))
                     ? ENGINE_ERROR
                     : ENGINE_OK;
    engine_context_destroy(context);
    free(lens.layers);
    free(lens.tokens);
    return status;
}
