/* messages-tools.h: the tools of Anthropic's Messages API as the model gets them. */
#ifndef ENGINE_SERVE_API_MESSAGES_TOOLS_H
#define ENGINE_SERVE_API_MESSAGES_TOOLS_H

#include "serve/generate/ask.h"

/* Offers the tools of an array. False: an error. */
bool messages_tools(struct params *params, const json_t *tools, struct api_error *error);

#endif
