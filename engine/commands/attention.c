/* attention.c: `engine attention`: what each token of a text looks at, by layer and head. */
#include "commands/attention.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands/common.h"
#include "commands/npy.h"
#include "commands/output.h"
#include "commands/token-input.h"

#define MOST_BYTES ((uint64_t)1 << 32) /* of weights kept */
#define LAST_LAYER UINT32_MAX          /* as in engine_context_options.watch_layer */

/* ---- Choices ---- */

enum form { FORM_TABLE, FORM_NPY, FORM_PNG, FORM_HTML };

static int read_form(const struct arguments *arguments, enum form *form)
{
    static const char *const endings[] = {[FORM_NPY] = ".npy", [FORM_PNG] = ".png", [FORM_HTML] = ".html"};
    const char *path = arguments->output;
    *form = FORM_TABLE;
    if (!path) return ENGINE_OK;
    for (int i = FORM_NPY; i <= FORM_HTML; i++)
        if (has_ending(path, endings[i])) *form = (enum form)i;
    if (*form == FORM_TABLE)
        return command_error(ENGINE_ERROR_ARGUMENT, "-o %s: the name must end in .npy, .png or .html", path);
    if (arguments->json) return command_error(ENGINE_ERROR_ARGUMENT, "use either -o or --json");
    if (token_input_chooses(arguments) && *form != FORM_NPY)
        return command_error(ENGINE_ERROR_ARGUMENT,
                             "--token has no effect on a picture or a page, which show all tokens");
    return ENGINE_OK;
}

/* A number that parsing has checked: at most INT32_MAX. */
static uint32_t number_of(const char *text)
{
    return (uint32_t)strtoul(text, NULL, 10);
}

/* Arrays and pages take everything unless told otherwise; tables and pictures one map, the most telling. */
static void read_choices(const struct arguments *arguments, enum form form, struct attention_map *map)
{
    const char *layer = arguments->layer, *head = arguments->head;
    bool whole = form == FORM_NPY || form == FORM_HTML;
    if (layer ? strcmp(layer, "all") != 0 : !whole) {
        map->first_layer = layer ? number_of(layer) : LAST_LAYER;
        map->n_layers = 1;
    }
    map->choice = whole ? HEAD_ALL : HEAD_MEAN;
    if (!head) return;
    map->choice = strcmp(head, "all") == 0    ? HEAD_ALL
                  : strcmp(head, "mean") == 0 ? HEAD_MEAN
                  : strcmp(head, "max") == 0  ? HEAD_MAX
                                              : HEAD_ONE;
    if (map->choice == HEAD_ONE) map->head = number_of(head);
}

struct engine_string attention_token(const struct attention_map *map, size_t token, struct id_text *room)
{
    if (map->shows_ids) return id_string(map->tokens->ids[token], room);
    return token_input_piece(map->model, map->tokens, token);
}

/* The queries to show: all, or for a table one. */
static int choose_queries(const struct arguments *arguments, enum form form, struct attention_map *map)
{
    bool one = form == FORM_TABLE || token_input_chooses(arguments);
    map->n_queries = one ? 1 : map->tokens->count;
    map->first_query = 0;
    return one ? token_input_choose(arguments, map->model, map->tokens, &map->first_query) : ENGINE_OK;
}

/* ---- Collecting ---- */

const char *attention_head_text(const struct attention_map *map, size_t head, char text[HEAD_TEXT_SIZE])
{
    unsigned n = map->heads_of_layer;
    if (map->choice == HEAD_MEAN || map->choice == HEAD_MAX)
        snprintf(text, HEAD_TEXT_SIZE, "%s of %u head%s", map->choice == HEAD_MEAN ? "mean" : "maximum", n,
                 n == 1 ? "" : "s");
    else
        snprintf(text, HEAD_TEXT_SIZE, "head %zu", map->choice == HEAD_ONE ? map->head : head);
    return text;
}

/* Makes room once the number of heads is known. */
static int make_room(struct attention_map *map, uint32_t n_heads)
{
    size_t n = map->tokens->count;
    if (map->choice == HEAD_ONE && map->head >= n_heads)
        return command_error(ENGINE_ERROR_ARGUMENT, "there is no head %u; a layer has %u, from 0 to %u",
                             map->head, n_heads, n_heads - 1);
    map->heads_of_layer = n_heads;
    map->n_heads = map->choice == HEAD_ALL ? n_heads : 1;
    double bytes = (double)map->n_layers * (double)map->n_heads * (double)map->n_queries * (double)n * 4;
    if (bytes > (double)MOST_BYTES)
        return command_error(ENGINE_ERROR_MEMORY,
                             "the weights would take %.1f GiB, more than 4; choose one with --layer and "
                             "--head, or a shorter text",
                             bytes / 0x1p30);
    map->weights = calloc(map->n_layers * map->n_heads, map->n_queries * n * sizeof *map->weights);
    return map->weights ? ENGINE_OK : command_error(ENGINE_ERROR_MEMORY, "out of memory (weights)");
}

/* Adds a head's weights of one token to the map. */
static int collect_row(const struct attention_map *map, size_t layer, size_t head, size_t query,
                       const float *from)
{
    size_t n = query + map->first_query + 1; /* a token sees no later ones */
    float *row = attention_row(map, layer - map->first_layer, map->choice == HEAD_ALL ? head : 0, query);
    for (size_t j = 0; j < n; j++)
        if (!isfinite(from[j]))
            return command_error(
                ENGINE_ERROR_DATA,
                "the attention weights of layer %zu are not all numbers: the model's weights "
                "are damaged",
                layer);
    for (size_t j = 0; j < n; j++) switch (map->choice) {
        case HEAD_MEAN: row[j] += from[j] / (float)map->heads_of_layer; break;
        case HEAD_MAX: row[j] = fmaxf(row[j], from[j]); break;
        default: row[j] = from[j];
        }
    return ENGINE_OK;
}

/* A context's `watched`. */
static int collect(void *user, const struct engine_watched *value)
{
    struct attention_map *map = user;
    size_t n_keys = value->ne[0], n_heads = value->ne[1];
    if (interrupted) return 1;
    if (!map->weights && make_room(map, (uint32_t)n_heads)) return 1;
    if (n_heads != map->heads_of_layer) {
        command_error(ENGINE_ERROR_ARGUMENT, "layers have %u and %zu heads; choose one with --layer",
                      map->heads_of_layer, n_heads);
        return 1;
    }
    for (size_t t = 0; t < value->ne[2]; t++) {
        size_t token = value->first + t;
        if (token < map->first_query || token >= map->first_query + map->n_queries) continue;
        for (size_t head = 0; head < n_heads; head++)
            if ((map->choice != HEAD_ONE || head == map->head) &&
                collect_row(map, value->layer, head, token - map->first_query,
                            value->data + (t * n_heads + head) * n_keys))
                return 1;
    }
    return 0;
}

static int run(const struct arguments *arguments, struct attention_map *map)
{
    struct engine_context_options options;
    struct engine_context *context = NULL;
    const struct token_list *tokens = map->tokens;
    int32_t offload;
    context_options(arguments, &options, &offload);
    if (options.n_context == 0 && tokens->count <= INT32_MAX) options.n_context = (uint32_t)tokens->count;
    options.n_needed = tokens->count < UINT32_MAX ? (uint32_t)tokens->count : UINT32_MAX;
    options.watch = ENGINE_WATCH_ATTENTION;
    options.watch_layer = map->first_layer;
    options.watch_n_layers = map->n_layers;
    options.watched = collect;
    options.watch_user = map;
    int status = create_context(arguments, map->model, &options, &context);
    if (status == ENGINE_ERROR_ARGUMENT && arguments->layer) /* which layers there are is known only now */
        status = command_adopt_error(status);
    if (!status) status = check_tokens(arguments, context, tokens->ids, tokens->count);
    struct engine_plan_totals totals = {0};
    if (!status) engine_plan_get_totals(engine_context_plan(context), &totals);
    if (map->first_layer == LAST_LAYER) map->first_layer = totals.n_layers - 1;
    if (map->n_layers == 0) map->n_layers = totals.n_layers;
    const struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = tokens->count, .tokens = tokens->ids};
    if (!status) status = engine_decode(context, &batch, NULL);
    engine_context_destroy(context);
    return status;
}

/* ---- Showing ---- */

int attention_write_npy(const struct attention_map *map, FILE *file)
{
    size_t n = map->tokens->count, count = map->n_layers * map->n_heads * map->n_queries * n;
    const size_t shape[] = {map->n_layers, map->n_heads, map->n_queries, n};
    if (npy_write_header_of(file, shape, 4) == 0 &&
        fwrite(map->weights, sizeof *map->weights, count, file) == count)
        return ENGINE_OK;
    return command_error(ENGINE_ERROR, "cannot write the weights: %s", strerror(errno));
}

static int write_file(const struct arguments *arguments, const struct attention_map *map, enum form form)
{
    struct output output;
    int status = output_open(&output, arguments->output);
    if (status) return status;
    status = form == FORM_NPY   ? attention_write_npy(map, output.file)
             : form == FORM_PNG ? attention_write_png(map, output.file)
                                : attention_write_html(map, output.file);
    int closed = output_close(&output, !status && !interrupted);
    return status ? status : closed;
}

int command_attention(const struct arguments *arguments)
{
    struct engine *engine = NULL;
    struct token_list tokens = {0};
    struct attention_map map = {.tokens = &tokens};
    enum form form = FORM_TABLE;
    int exit_status = 0, status = read_form(arguments, &form);
    read_choices(arguments, form, &map);
    if (!status) status = token_input_ids(arguments, &tokens);
    if (!status) status = open_engine(arguments, &engine);
    if (!status && arguments->output) {
        const char *inputs[] = {path_of_model(arguments, engine), arguments->tokenizer,
                                arguments->tokens_file, arguments->prompt_file};
        status = output_check(arguments->output, engine, inputs, sizeof inputs / sizeof *inputs);
        if (!status) status = check_not_adapter(arguments->output, engine, arguments);
    }
    if (!status) status = open_model(arguments, engine, &map.model);
    if (!status) status = token_input_text(arguments, map.model, &tokens);
    /* Shows the texts of tokens, unless it writes numbers only. */
    struct vocabulary vocabulary;
    if (!status && form != FORM_NPY) {
        vocabulary_open_for_ids(map.model, &vocabulary);
        map.shows_ids = !vocabulary.api;
    }
    if (!status) status = choose_queries(arguments, form, &map);
    if (!status) status = run(arguments, &map);
    if (!status && form != FORM_TABLE) status = write_file(arguments, &map, form);
    if (!status && form == FORM_TABLE)
        exit_status = arguments->json ? attention_print_json(&map) : attention_print_table(&map);
    if (status && !interrupted) exit_status = command_fail();
    engine_model_close(map.model);
    engine_close(engine);
    free(map.weights);
    free(tokens.ids);
    return exit_status;
}
