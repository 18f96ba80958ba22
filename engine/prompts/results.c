/* results.c: see results.h. */
#include "prompts/results.h"

#include <math.h>
#include <stdlib.h>

#include "common/assert.h"
#include "io/display.h"
#include "io/json.h"
#include "io/messages.h"
#include "prompts/prompt.h"

/* ---- Logits to probabilities ---- */

static void results_insert(struct likely *likely, int32_t id, float logit)
{
    struct likely_token *top = likely->top;
    uint32_t at = likely->n < likely->n_most ? likely->n++ : likely->n - 1;
    for (; at > 0 && top[at - 1].logit < logit; at--) top[at] = top[at - 1];
    top[at] = (struct likely_token){id, logit};
}

int likely_read(struct likely *likely, const float *logits, uint32_t n_vocab, const char *what, size_t number)
{
    double total = 0;
    bool good = n_vocab > 0;
    ENGINE_ASSERT(likely->n_most > 0);
    likely->n = 0;
    for (uint32_t id = 0; id < n_vocab; id++) {
        good = good && logits[id] < INFINITY; /* false for NaN */
        if (likely->n < likely->n_most || logits[id] > likely->top[likely->n - 1].logit)
            results_insert(likely, (int32_t)id, logits[id]);
    }
    if (!good || !isfinite(likely->top[0].logit))
        return command_error(ENGINE_ERROR_DATA,
                             "the logits after %s %zu are not all numbers: the model's weights are damaged",
                             what, number);
    double highest = (double)likely->top[0].logit;
    for (uint32_t id = 0; id < n_vocab; id++) total += exp((double)logits[id] - highest);
    likely->log_total = highest + log(total);
    return ENGINE_OK;
}

/* ---- Log-probabilities of tokens. The names are those of OpenAI's API. ---- */

/* JSON has no infinity: an impossible token's logarithm is null. */
static json_t *token_json(struct engine_model *model, int32_t token, float logprob)
{
    struct engine_string text = prompt_token_text(model, token);
    json_t *bytes = json_array();
    for (size_t i = 0; i < text.length && bytes; i++)
        json_array_append_new(bytes, json_integer((unsigned char)text.data[i]));
    return json_pack("{s:o, s:i, s:o, s:o}", "token", json_text(text.data, text.length), "id", (int)token,
                     "bytes", bytes, "logprob",
                     isfinite(logprob) ? json_rounded((double)logprob, 7) : json_null());
}

json_t *logprobs_top_json(struct engine_model *model, const struct engine_event *event)
{
    json_t *top = json_array();
    for (uint32_t i = 0; i < event->n_top; i++)
        json_array_append_new(top, token_json(model, event->top[i].token, event->top[i].logprob));
    return top;
}

json_t *logprobs_json(struct engine_model *model, const struct engine_event *event)
{
    json_t *json = token_json(model, event->token, event->logprob);
    json_object_set_new(json, "top", logprobs_top_json(model, event));
    return json;
}

/* ---- Beam search ---- */

static json_t *ids_json(const struct engine_beam *beam)
{
    json_t *ids = json_array();
    for (size_t i = 0; i < beam->n_tokens; i++) json_array_append_new(ids, json_integer(beam->tokens[i]));
    return ids;
}

json_t *beam_results_json(const struct engine_event *event, bool tokens, const char *end,
                          const char *(*name_of)(uint32_t reason))
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < event->n_beams; i++) {
        const struct engine_beam *beam = &event->beams[i];
        json_t *json =
            json_pack("{s:o, s:f, s:f, s:s}", "text", json_text(beam->text.data, beam->text.length), "score",
                      beam->score, "logprob", beam->logprob, end, name_of(beam->reason));
        if (tokens && json) json_object_set_new(json, "tokens", ids_json(beam));
        json_array_append_new(array, json);
    }
    return array;
}

void beam_results_print(const json_t *beams, bool shows_ids, FILE *out)
{
    struct table table = {.n_columns = 5, .alignment = "rrrrl"};
    static const char *const heads[] = {"BEAM", "SCORE", "LOGPROB", "TOKENS", "TEXT"};
    for (size_t i = 0; i < table.n_columns; i++) table_add(&table, "%s", heads[i]);
    size_t i;
    const json_t *beam;
    json_array_foreach(beams, i, beam)
    {
        const json_t *tokens = json_object_get(beam, "tokens");
        const json_t *shown = shows_ids ? tokens : json_object_get(beam, "text");
        char *text = json_dumps(shown, JSON_ENCODE_ANY);
        table_add(&table, "%zu", i + 1);
        table_add(&table, "%.4f", json_number_value(json_object_get(beam, "score")));
        table_add(&table, "%.4f", json_number_value(json_object_get(beam, "logprob")));
        table_add(&table, "%zu", json_array_size(tokens));
        table_add(&table, "%s", text ? text : "?");
        free(text);
    }
    table_print(&table, "no beams", out);
}
