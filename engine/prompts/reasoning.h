/* reasoning.h: --reasoning-budget of the commands that go on from a prompt as it is (run, batch): what
 * follows is read as a reply in the format of the model's template. */
#ifndef ENGINE_PROMPTS_REASONING_H
#define ENGINE_PROMPTS_REASONING_H

#include "engine.h"
#include "options/arguments.h"

/* All zero: no limit. */
struct reasoning_limit {
    uint32_t most;                         /* tokens */
    struct engine_template *chat_template; /* NULL: no limit */
    struct engine_reply_options reading;
};

/* Opens the model's template if a limit is given. */
int reasoning_limit_open(const struct arguments *arguments, struct engine_model *model,
                         struct reasoning_limit *limit);
void reasoning_limit_close(struct reasoning_limit *limit);

/* Limits a request for text that goes on from `prompt`, which lives until it is submitted. Its text has the
 * marks around the reasoning, since they are control tokens in most vocabularies. */
void reasoning_limit_apply(struct reasoning_limit *limit, struct engine_string prompt,
                           struct engine_request *request);

#endif
