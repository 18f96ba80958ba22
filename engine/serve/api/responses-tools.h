/* responses-tools.h: the tools of OpenAI's Responses API as the model gets them. */
#ifndef ENGINE_SERVE_API_RESPONSES_TOOLS_H
#define ENGINE_SERVE_API_RESPONSES_TOOLS_H

#include "serve/generate/ask.h"

/* Offers the tools of `tools` (NULL or null: none), and those that items of `input` add. False: an error. */
bool responses_tools(struct params *params, const json_t *tools, const json_t *input,
                     struct api_error *error);

#endif
