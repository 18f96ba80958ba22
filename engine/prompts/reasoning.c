/* reasoning.c: see reasoning.h. */
#include "prompts/reasoning.h"

#include "common/assert.h"

static void reasoning_ignore_piece(void *user, const struct engine_reply_piece *piece)
{
    (void)user, (void)piece;
}

int reasoning_limit_open(const struct arguments *arguments, struct engine_model *model,
                         struct reasoning_limit *limit)
{
    *limit = (struct reasoning_limit){.most = arguments->reasoning_budget};
    if (limit->most == UINT32_MAX) return ENGINE_OK;
    int status = engine_template_create(model, NULL, &limit->chat_template);
    limit->reading = (struct engine_reply_options){.struct_size = sizeof limit->reading,
                                                   .chat_template = limit->chat_template,
                                                   .piece = reasoning_ignore_piece};
    return status;
}

void reasoning_limit_close(struct reasoning_limit *limit)
{
    engine_template_destroy(limit->chat_template);
    *limit = (struct reasoning_limit){0};
}

void reasoning_limit_apply(struct reasoning_limit *limit, struct engine_string prompt,
                           struct engine_request *request)
{
    const uint32_t no_text = ENGINE_REQUEST_NO_TEXT | ENGINE_REQUEST_NO_TOKENS;
    if (!limit->chat_template || request->flags & no_text || request->n_beams > 0) return;
    ENGINE_ASSERT(limit->most < UINT32_MAX);
    limit->reading.prompt = prompt;
    request->reply = &limit->reading;
    request->max_reasoning = limit->most;
    request->flags |= ENGINE_REQUEST_SPECIAL;
}
