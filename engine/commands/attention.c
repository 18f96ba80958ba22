/* attention.c: `engine attention`: what each token of a text looks at, by layer and head. */
#include "commands/attention.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "commands/common.h"
#include "commands/npy.h"
#include "commands/output.h"
#include "commands/prompt.h"
#include "commands/token-input.h"

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
        map->first_layer = layer ? number_of(layer) : ATTENTION_LAST_LAYER;
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

/* The queries to show: all, or for a table one. */
static int choose_queries(const struct arguments *arguments, enum form form, struct attention_map *map)
{
    bool one = form == FORM_TABLE || token_input_chooses(arguments);
    map->n_queries = one ? 1 : map->tokens->count;
    map->first_query = 0;
    return one ? token_input_choose(arguments, map->model, map->tokens, &map->first_query) : ENGINE_OK;
}

/* ---- Running ---- */

static bool is_interrupted(void *user)
{
    (void)user;
    return interrupted;
}

static int run(const struct arguments *arguments, struct attention_map *map)
{
    struct engine_context_options options;
    struct engine_context *context = NULL;
    const struct token_list *tokens = map->tokens;
    int32_t offload;
    context_options(arguments, &options, &offload);
    map->stops = is_interrupted;
    attention_watch(map, &options);
    int status = create_context(arguments, map->model, &options, &context);
    if (status == ENGINE_ERROR_ARGUMENT && arguments->layer) /* which layers there are is known only now */
        status = command_adopt_error(status);
    if (!status) status = check_tokens(arguments, context, tokens->ids, tokens->count);
    if (!status) status = attention_run(map, context);
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
    if (!status) status = refuse_source(map.model, "attention");
    if (!status) status = token_input_text(arguments, map.model, &tokens);
    /* Shows the texts of tokens, unless it writes numbers only. */
    struct vocabulary vocabulary;
    if (!status && form != FORM_NPY) {
        status = vocabulary_open_for_ids(map.model, &vocabulary);
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
    attention_free(&map);
    free(tokens.ids);
    return exit_status;
}
