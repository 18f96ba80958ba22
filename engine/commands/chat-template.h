/* chat-template.h: the chat template that the command line asks for, and its variables. */
#ifndef ENGINE_COMMANDS_CHAT_TEMPLATE_H
#define ENGINE_COMMANDS_CHAT_TEMPLATE_H

#include "commands/arguments.h"
#include "engine.h"

/* The template of --chat-template, else the model's. A word with a '/' or '.', or that no template has as its
 * name, is a file. */
int chat_template_open(const struct arguments *arguments, struct engine_model *model,
                       struct engine_template **template);

/* The variables of --template-arg and --chat-template-kwargs as a JSON object, NULL if there are none. The
 * caller frees it. */
int chat_template_variables(const struct arguments *arguments, char **json);

#endif
