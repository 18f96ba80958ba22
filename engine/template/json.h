/* json.h: values from JSON. */
#ifndef ENGINE_TEMPLATE_JSON_H
#define ENGINE_TEMPLATE_JSON_H

#include <jansson.h>

#include "template/value.h"

/* The texts in it are the user's, except those of `word_key` in an array's objects if they are single words (ASCII
 * letters, digits, "_" and "-"). `word_key` may be NULL. Fails if it is too deep. */
struct value json_to_value(struct task *task, const json_t *json, const char *word_key);

#endif
