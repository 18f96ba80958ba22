/* logits-print.c: see logits-print.h. */
#include "commands/logits-print.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/display.h"
#include "io/json.h"
#include "io/messages.h"
#include "prompts/prompt.h"
#include "prompts/results.h"

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

int print_logits(const struct arguments *arguments, struct engine_model *model,
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
