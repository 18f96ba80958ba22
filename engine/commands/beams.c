/* beams.c: see beams.h. */
#include "commands/beams.h"

#include <stdlib.h>
#include <string.h>

#include "commands/common.h"
#include "commands/json.h"
#include "commands/sampling.h"
#include "commands/table.h"

#define BLOCK ((uint64_t)32) /* positions that the cache gives at once (docs/beams.md) */

uint32_t early_stopping_of(const char *word)
{
    if (strcmp(word, "true") == 0) return ENGINE_EARLY_STOPPING_TRUE;
    return strcmp(word, "never") == 0 ? ENGINE_EARLY_STOPPING_NEVER : ENGINE_EARLY_STOPPING_FALSE;
}

static int refuse(const char *option)
{
    return command_error(ENGINE_ERROR_ARGUMENT, "--beams and %s cannot be combined", option);
}

/* What draws tokens, or depends on a text that is not there yet. The queue refuses it too, but not as a mistake of the
 * command line. */
static int check_sampling(const struct sampling *sampling)
{
    const struct engine_sampler_options *o = &sampling->options;
    bool repeats = o->penalty_repeat != 0 && o->penalty_repeat != 1;
    bool penalties = repeats || o->penalty_frequency != 0 || o->penalty_presence != 0;
    if (o->mirostat > 0) return refuse("Mirostat");
    if (o->dynatemp_range > 0) return refuse("a temperature above 0");
    if (penalties && o->penalty_last_n > 0) return refuse("penalties");
    if (o->dry_multiplier > 0 && o->dry_penalty_last_n > 0) return refuse("DRY");
    if (o->xtc_probability > 0) return refuse("XTC");
    if (o->n_ban > 0) return refuse("banned texts");
    return ENGINE_OK;
}

int beam_options_read(const struct arguments *a, const struct sampling *sampling,
                      struct beam_options *options)
{
    *options = (struct beam_options){.n_beams = a->n_beams, .length_penalty = a->length_penalty};
    if (a->early_stopping) options->early_stopping = early_stopping_of(a->early_stopping);
    if (!wants_beams(a) && (a->length_penalty_given || a->early_stopping))
        return command_error(ENGINE_ERROR_ARGUMENT, "%s goes with --beams N, of 2 or more",
                             a->early_stopping ? "--early-stopping" : "--length-penalty");
    if (!wants_beams(a)) return ENGINE_OK;
    if (a->temperature_given && a->temperature > 0) return refuse("a temperature above 0");
    if (a->stop.count > 0) return refuse("--stop");
    if (a->n_logprobs > 0) return refuse("--logprobs");
    if (a->prompt_cache_all) return refuse("--prompt-cache-all");
    return check_sampling(sampling);
}

uint32_t beams_cache_size(const struct arguments *a, uint32_t limit)
{
    uint64_t context = a->n_context > 0 ? a->n_context : DEFAULT_CONTEXT;
    context = (context + BLOCK - 1) / BLOCK * BLOCK;
    /* up to where the prompt's last block ends, and in one of its own */
    uint64_t each = limit + 2 * BLOCK < context ? limit + 2 * BLOCK : context;
    uint64_t positions = context + (a->n_beams - 1) * each;
    return positions < UINT32_MAX ? (uint32_t)positions : UINT32_MAX;
}

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
