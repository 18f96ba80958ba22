/* logits.c: `engine logits`: the logits of every position of a list of tokens, and the hidden states behind
 * them, as NumPy files; the highest of each position (--top); or the most likely next tokens after each layer
 * (--lens). */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "commands/commands.h"
#include "io/display.h"
#include "io/files.h"
#include "io/json.h"
#include "io/messages.h"
#include "io/npy.h"
#include "io/output.h"
#include "options/open.h"
#include "prompts/prompt.h"
#include "prompts/results.h"

/* ---- --top: the highest logits of each position -------------------------------------------------------- */

struct printer {
    const struct arguments *arguments;
    struct engine_model *model;
    FILE *file;
    struct engine_context_info info;
    struct likely likely;
    struct table table;
    json_t *rows; /* with --json: [positions][n_top] */
};

static json_t *token_row_json(const struct printer *p, int32_t id, double logit, double probability)
{
    struct engine_string text = prompt_token_text(p->model, id);
    return json_pack("{s:i, s:o, s:o, s:o}", "id", (int)id, "text", json_text(text.data, text.length),
                     "logit", isfinite(logit) ? json_real(logit) : json_null(), "probability",
                     json_real(probability));
}

static void add_row(struct printer *p, size_t position, int32_t id, double logit, double probability)
{
    struct engine_string text = prompt_token_text(p->model, id);
    json_t *json = json_text(text.data, text.length);
    char *quoted = json ? json_dumps(json, JSON_ENCODE_ANY) : NULL;
    table_add(&p->table, "%zu", position);
    table_add(&p->table, "%d", id);
    table_add(&p->table, "%s", quoted ? quoted : "?");
    table_add(&p->table, "%.4f", logit);
    table_add(&p->table, "%.3f %%", probability * 100);
    free(quoted);
    json_decref(json);
}

/* The highest logits of a position. */
static int take_best(struct printer *p, size_t position, const float *logits)
{
    int status = likely_read(&p->likely, logits, p->info.n_vocab, "token", position);
    if (status) return status;
    json_t *row = p->rows ? json_array() : NULL;
    for (uint32_t i = 0; i < p->likely.n; i++) {
        const struct likely_token *token = &p->likely.top[i];
        double logit = (double)token->logit, probability = exp(logit - p->likely.log_total);
        if (row)
            json_array_append_new(row, token_row_json(p, token->id, logit, probability));
        else
            add_row(p, position, token->id, logit, probability);
    }
    if (row) json_array_append_new(p->rows, row);
    return ENGINE_OK;
}

static int run_and_print(struct printer *p, struct engine_context *context, const int32_t *tokens,
                         size_t count, size_t *done)
{
    float *logits = malloc((size_t)p->info.n_batch * p->info.n_vocab * sizeof *logits);
    uint8_t *wanted = malloc(p->info.n_batch);
    int status = logits && wanted ? ENGINE_OK : command_error(ENGINE_ERROR_MEMORY, "out of memory (logits)");
    if (wanted) memset(wanted, 1, p->info.n_batch);
    for (size_t first = 0, n; first < count && !status && !interrupted; first += n) {
        n = count - first < p->info.n_batch ? count - first : p->info.n_batch;
        struct engine_batch batch = {
            .struct_size = sizeof batch, .n_tokens = n, .tokens = tokens + first, .wanted = wanted};
        *done = first;
        status = engine_decode(context, &batch, logits);
        for (size_t i = 0; i < n && !status; i++)
            status = take_best(p, first + i, logits + i * p->info.n_vocab);
    }
    free(logits);
    free(wanted);
    return status;
}

static void begin_print(struct printer *p)
{
    static const char *const titles[] = {"POSITION", "ID", "TOKEN", "LOGIT", "PROBABILITY"};
    p->table = (struct table){.n_columns = 5, .alignment = "rrlrr"};
    if (p->arguments->json) p->rows = json_array();
    for (size_t i = 0; i < p->table.n_columns && !p->rows; i++) table_add(&p->table, "%s", titles[i]);
}

static int end_print(struct printer *p, size_t count)
{
    int failed = 0;
    if (p->rows) {
        json_t *json = json_pack("{s:o, s:o, s:o}", "tokens", json_count(count), "vocabulary",
                                 json_count(p->info.n_vocab), "top", p->rows);
        failed = !json || json_dumpf(json, p->file, JSON_INDENT(2)) != 0 || fputc('\n', p->file) == EOF;
        json_decref(json);
    } else {
        failed = table_print(&p->table, "", p->file);
    }
    if (!failed && !ferror(p->file)) return ENGINE_OK;
    return command_error(ENGINE_ERROR, "cannot write the logits: %s", strerror(errno));
}

/* Runs tokens and prints the n_top highest logits after each, with --json as JSON. *done is the number of
 * tokens before the batch that runs. Returns an enum engine_status, with command_error's message. */
static int print_logits(const struct arguments *arguments, struct engine_model *model,
                        struct engine_context *context, const int32_t *tokens, size_t count, FILE *file,
                        size_t *done)
{
    struct printer p = {
        .arguments = arguments, .model = model, .file = file, .likely = {.n_most = arguments->n_top}};
    p.info.struct_size = sizeof p.info;
    engine_context_get_info(context, &p.info);
    p.likely.top = calloc(p.likely.n_most, sizeof *p.likely.top);
    if (!p.likely.top) return command_error(ENGINE_ERROR_MEMORY, "out of memory (logits)");
    const struct engine_tokenizer_api *api;
    struct engine_tokenizer *tokenizer;
    /* Without a vocabulary, tokens have no text. */
    int status = engine_model_tokenizer(model, &api, &tokenizer);
    if (status != ENGINE_ERROR_MEMORY) {
        begin_print(&p);
        status = run_and_print(&p, context, tokens, count, done);
    }
    if (!status && !interrupted) status = end_print(&p, count);
    free(p.likely.top);
    return status;
}

/* ---- --lens: the most likely next tokens after each layer ---------------------------------------------- */

#define DEFAULT_TOP 3
#define MAX_SHOWN   31 /* tokens of a layer in a table, which has 64 columns at most */

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
static int collect_lens(void *user, const struct engine_watched *value)
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
    char alignment[2 * MAX_SHOWN + 2] = "r";
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
static int run_logits(struct engine_context *context, const struct token_list *tokens, size_t chosen,
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

/* Runs the tokens and prints the most likely next tokens after each layer, as a table or as JSON. `options`
 * are those from the command line. Returns an enum engine_status. */
static int logits_lens(const struct arguments *arguments, struct engine_model *model,
                       const struct token_list *tokens, const struct engine_context_options *options)
{
    struct lens lens = {0};
    struct engine_context_options own = *options;
    struct vocabulary vocabulary;
    struct engine_context *context = NULL;
    struct engine_plan_totals totals = {0};
    struct engine_context_info info = {.struct_size = sizeof info};
    size_t chosen;
    if (arguments->n_top > MAX_SHOWN && !arguments->json)
        return command_error(ENGINE_ERROR_ARGUMENT,
                             "--lens --top %u: a table has room for %d tokens of a layer; --json takes more",
                             arguments->n_top, MAX_SHOWN);
    int status = vocabulary_open_for_ids(model, &vocabulary);
    if (status) return status;
    lens.shows_ids = !vocabulary.api;
    status = token_input_choose(arguments, model, tokens, &chosen);
    own.watch = ENGINE_WATCH_LENS;
    own.watched = collect_lens;
    own.watch_user = &lens;
    if (!status) status = create_context(arguments, model, &own, &context);
    if (!status) status = check_tokens(arguments, context, tokens->ids, tokens->count);
    if (!status) {
        engine_context_get_info(context, &info);
        engine_plan_get_totals(engine_context_plan(context), &totals);
        status = make_room(&lens, arguments->n_top > 0 ? arguments->n_top : DEFAULT_TOP, info.n_vocab,
                           totals.n_layers);
    }
    if (!status) status = run_logits(context, tokens, chosen, &lens);
    if (!status && !interrupted)
        status = (arguments->json ? print_json(&lens, model, chosen) : print_table(&lens, model))
                     ? ENGINE_ERROR
                     : ENGINE_OK;
    engine_context_destroy(context);
    free(lens.layers);
    free(lens.tokens);
    return status;
}

/* ---- The command --------------------------------------------------------------------------------------- */

/* ---- The logits ---- */

/* The same as JSON; a value that is not finite, which JSON can't express, becomes null. */
static int write_json_rows(FILE *file, const float *logits, size_t rows, size_t columns, bool first)
{
    for (size_t row = 0; row < rows; row++) {
        fputs(first && row == 0 ? "\n[" : ",\n[", file);
        for (size_t i = 0; i < columns; i++, logits++) {
            if (i > 0) fputs(", ", file);
            if (isfinite(*logits))
                fprintf(file, "%.9g", (double)*logits);
            else
                fputs("null", file);
        }
        fputc(']', file);
    }
    return ferror(file) ? -1 : 0;
}

static int write_begin(FILE *file, bool json, size_t count, uint32_t n_vocab)
{
    if (!json) return npy_write_header(file, count, n_vocab);
    return fprintf(file, "{\"tokens\": %zu, \"vocabulary\": %u, \"logits\": [", count, n_vocab) < 0 ? -1 : 0;
}

static int write_rows(FILE *file, bool json, const float *logits, size_t rows, size_t columns, bool first)
{
    if (json) return write_json_rows(file, logits, rows, columns, first);
    return fwrite(logits, sizeof *logits * columns, rows, file) == rows ? 0 : -1;
}

/* Runs the tokens batch by batch and writes each batch's logits before the next one runs. *done is the number
 * of tokens before the batch that runs. */
static int write_logits(struct engine_context *context, const int32_t *tokens, size_t count, FILE *file,
                        bool json, size_t *done)
{
    struct engine_context_info info = {.struct_size = sizeof info};
    engine_context_get_info(context, &info);
    float *logits = malloc((size_t)info.n_batch * info.n_vocab * sizeof *logits);
    uint8_t *wanted = malloc(info.n_batch);
    int status = logits && wanted ? ENGINE_OK : command_error(ENGINE_ERROR_MEMORY, "out of memory (logits)");
    if (wanted) memset(wanted, 1, info.n_batch);
    if (!status && write_begin(file, json, count, info.n_vocab) != 0)
        status = command_error(ENGINE_ERROR, "cannot write the logits: %s", strerror(errno));
    for (size_t first = 0; first < count && !status && !interrupted;) {
        size_t n = count - first < info.n_batch ? count - first : info.n_batch;
        struct engine_batch batch = {
            .struct_size = sizeof batch, .n_tokens = n, .tokens = tokens + first, .wanted = wanted};
        *done = first;
        status = engine_decode(context, &batch, logits);
        if (!status && write_rows(file, json, logits, n, info.n_vocab, first == 0) != 0)
            status = command_error(ENGINE_ERROR, "cannot write the logits: %s", strerror(errno));
        first += n;
    }
    if (!status && !interrupted && json && fputs("\n]}\n", file) < 0)
        status = command_error(ENGINE_ERROR, "cannot write the logits: %s", strerror(errno));
    free(logits);
    free(wanted);
    return status;
}

/* ---- Hidden states ---- */

struct hidden {
    size_t n_tokens, n_layers, n_embd;
    size_t done;   /* tokens before the batch that runs */
    float *states; /* [n_layers + 1, n_tokens, n_embd]; NULL until the first one comes */
};

/* A context's `watched`. */
static int collect_hidden(void *user, const struct engine_watched *value)
{
    struct hidden *hidden = user;
    if (!hidden->states) {
        hidden->n_embd = (size_t)value->ne[0];
        hidden->states = calloc((hidden->n_layers + 1) * hidden->n_tokens, hidden->n_embd * sizeof(float));
        if (!hidden->states) command_error(ENGINE_ERROR_MEMORY, "out of memory (hidden states)");
    }
    if (!hidden->states || interrupted) return 1;
    memcpy(hidden->states + (value->layer * hidden->n_tokens + hidden->done + value->first) * hidden->n_embd,
           value->data, (size_t)value->ne[1] * hidden->n_embd * sizeof(float));
    return 0;
}

static int write_hidden(const struct hidden *hidden, const char *path)
{
    const size_t shape[] = {hidden->n_layers + 1, hidden->n_tokens, hidden->n_embd};
    const size_t count = shape[0] * shape[1] * shape[2];
    struct output output;
    int status = output_open(&output, path);
    if (status) return status;
    if (npy_write_header_of(output.file, shape, 3) != 0 ||
        fwrite(hidden->states, sizeof *hidden->states, count, output.file) != count)
        status = command_error(ENGINE_ERROR, "cannot write the hidden states: %s", strerror(errno));
    int closed = output_close(&output, !status);
    return status ? status : closed;
}

/* ---- The command ---- */

static int write_or_print(const struct arguments *arguments, struct engine_model *model,
                          struct engine_context *context, const struct token_list *tokens, FILE *file,
                          size_t *done)
{
    if (arguments->n_top > 0)
        return print_logits(arguments, model, context, tokens->ids, tokens->count, file, done);
    return write_logits(context, tokens->ids, tokens->count, file, arguments->json, done);
}

/* Writes the logits where -o says. Without -o, but with --hidden, they aren't wanted. */
static int run_to_output(const struct arguments *arguments, struct engine_model *model,
                         struct engine_context *context, const struct token_list *tokens, size_t *done)
{
    const char *path = path_of_output(arguments);
    struct output output;
    if (arguments->hidden && !arguments->output && !arguments->json && arguments->n_top == 0) {
        const struct engine_batch batch = {
            .struct_size = sizeof batch, .n_tokens = tokens->count, .tokens = tokens->ids};
        return engine_decode(context, &batch, NULL);
    }
    if (!path) return write_or_print(arguments, model, context, tokens, stdout, done);
    int status = output_open(&output, path);
    if (status) return status;
    status = write_or_print(arguments, model, context, tokens, output.file, done);
    int closed = output_close(&output, !status && !interrupted);
    return status ? status : closed;
}

/* A model with an encoder and a decoder needs two texts, all others one. */
static int check_decoder_tokens(const struct arguments *arguments, const struct engine_context_info *info)
{
    if (info->has_source && !arguments->decoder_tokens_file)
        return command_error(ENGINE_ERROR_ARGUMENT,
                             "the model has an encoder and a decoder: name the decoder's tokens "
                             "with --decoder-tokens-file");
    if (!info->has_source && arguments->decoder_tokens_file)
        return command_error(
            ENGINE_ERROR_ARGUMENT,
            "--decoder-tokens-file is for models with an encoder and a decoder; this one has only one "
            "text: use --tokens-file");
    return ENGINE_OK;
}

/* Reads the decoder's tokens, if there are any. */
static int read_decoder_tokens(const struct arguments *arguments, struct token_list *tokens)
{
    const char *path = arguments->decoder_tokens_file;
    if (!path) return ENGINE_OK;
    if (arguments->lens || arguments->hidden)
        return command_error(ENGINE_ERROR_ARGUMENT,
                             "--decoder-tokens-file cannot be combined with --lens and --hidden");
    int status = npy_read_integers(path, &tokens->ids, &tokens->count);
    if (!status && tokens->count == 0)
        status = command_error(ENGINE_ERROR_ARGUMENT, "%s: there are no tokens", path);
    return status;
}

/* Lets the encoder read the source text. */
static int encode_texts(const struct arguments *arguments, struct engine_context *context,
                        const struct token_list *source)
{
    const struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = source->count, .tokens = source->ids};
    int status = check_tokens(arguments, context, source->ids, source->count);
    return status ? status : engine_encode(context, &batch);
}

/* `source`: the encoder's tokens; NULL: the model has one text only. */
static int run_tokens(const struct arguments *arguments, struct engine_model *model,
                      const struct token_list *tokens, const struct token_list *source)
{
    struct engine_context_options options;
    struct engine_context *context = NULL;
    struct engine_plan_totals totals;
    struct hidden hidden = {.n_tokens = tokens->count};
    int32_t offload;
    context_options(arguments, &options, &offload);
    size_t longest = source && source->count > tokens->count ? source->count : tokens->count;
    if (options.n_context == 0 && longest <= INT32_MAX) options.n_context = (uint32_t)longest;
    options.n_needed = longest < UINT32_MAX ? (uint32_t)longest : UINT32_MAX;
    if (arguments->lens) return logits_lens(arguments, model, tokens, &options);
    options.watch = arguments->hidden ? ENGINE_WATCH_HIDDEN : 0;
    options.watched = collect_hidden;
    options.watch_user = &hidden;
    int status = create_context(arguments, model, &options, &context);
    if (status) return status;
    struct engine_context_info info = {.struct_size = sizeof info};
    engine_context_get_info(context, &info);
    status = check_decoder_tokens(arguments, &info);
    if (!status) status = check_tokens(arguments, context, tokens->ids, tokens->count);
    if (!status && source) status = encode_texts(arguments, context, source);
    engine_plan_get_totals(engine_context_plan(context), &totals);
    hidden.n_layers = totals.n_layers;
    if (!status) status = run_to_output(arguments, model, context, tokens, &hidden.done);
    if (!status && arguments->hidden && !interrupted) status = write_hidden(&hidden, arguments->hidden);
    engine_context_destroy(context);
    free(hidden.states);
    return status;
}

/* Before anything is loaded. */
static int check_outputs(const struct arguments *arguments, const struct engine *engine)
{
    const char *inputs[] = {path_of_model(arguments, engine), arguments->tokenizer, arguments->tokens_file,
                            arguments->prompt_file, arguments->decoder_tokens_file};
    const char *paths[] = {path_of_output(arguments), arguments->hidden};
    int status = ENGINE_OK;
    for (size_t i = 0; i < sizeof paths / sizeof *paths && !status; i++)
        if (paths[i]) status = output_check(paths[i], engine, inputs, sizeof inputs / sizeof *inputs);
    for (size_t i = 0; i < sizeof paths / sizeof *paths && !status; i++)
        if (paths[i]) status = check_not_adapter(paths[i], engine, arguments);
    if (!status && paths[0] && paths[1] && output_same(paths[0], paths[1]))
        status = command_error(ENGINE_ERROR_ARGUMENT, "-o and --hidden name the same file");
    return status;
}

int command_logits(const struct arguments *arguments)
{
    struct engine *engine = NULL;
    struct engine_model *model = NULL;
    struct token_list tokens = {0}, decoded = {0};
    if (arguments->lens && (arguments->output || arguments->hidden))
        return command_usage("logits: --lens writes no file; use either it or -o and --hidden");
    if (arguments->output ? !arguments->output[0]
                          : !arguments->json && !arguments->n_top && !arguments->hidden && !arguments->lens)
        return command_usage("logits: no output file; name one with -o, or use --top, --lens or --json");
    if (arguments->hidden && !has_ending(arguments->hidden, ".npy"))
        return command_usage("logits: --hidden %s: the name must end in .npy", arguments->hidden);
    if (token_input_chooses(arguments) && !arguments->lens)
        return command_usage("logits: --token goes with --lens");
    int status = token_input_ids(arguments, &tokens);
    if (!status) status = read_decoder_tokens(arguments, &decoded);
    if (!status) status = open_engine(arguments, &engine);
    if (!status) status = check_outputs(arguments, engine);
    if (!status) status = open_model(arguments, engine, &model);
    if (!status) status = token_input_text(arguments, model, &tokens);
    if (!status && decoded.count > 0)
        status = run_tokens(arguments, model, &decoded, &tokens);
    else if (!status)
        status = run_tokens(arguments, model, &tokens, NULL);
    int exit_status = status && !interrupted ? command_fail() : 0;
    engine_model_close(model);
    engine_close(engine);
    free(tokens.ids);
    free(decoded.ids);
    return exit_status;
}
