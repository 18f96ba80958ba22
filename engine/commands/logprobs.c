/* logprobs.c: see logprobs.h. The names are those of OpenAI's API. */
#include "commands/logprobs.h"

#include <math.h>

#include "commands/json.h"
#include "commands/prompt.h"

/* JSON has no infinity: an impossible token's logarithm is null. */
static json_t *token_json(struct engine_model *model, int32_t token, float logprob)
{
    struct engine_string text = prompt_token_text(model, token);
    json_t *bytes = json_array();
    for (size_t i = 0; i < text.length && bytes; i++)
        json_array_append_new(bytes, json_integer((unsigned char)text.data[i]));
    return json_pack("{s:o, s:i, s:o, s:o}", "token", json_text(text.data, text.length), "id", (int)token,
                     "bytes", bytes, "logprob", isfinite(logprob) ? json_real((double)logprob) : json_null());
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
