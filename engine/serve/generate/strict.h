/* strict.h: schemas with "strict": true may have no keyword that would be ignored. Grammars ignore those that
 * they don't know (docs/grammars.md), because that is what JSON schema says; "requried" then restricts
 * nothing. */
#ifndef ENGINE_SERVE_GENERATE_STRICT_H
#define ENGINE_SERVE_GENERATE_STRICT_H

#include <jansson.h>

#include "serve/generate/mistake.h"

/* Whether all keywords of a schema, and of those within it, are known, apart from those that begin with
 * "x-". */
bool strict_check(const json_t *schema, const char *param, struct api_error *error);
/* The same of a "response_format", in chat's form or in that of Responses, if it has "strict". */
bool strict_check_format(const json_t *format, const char *param, struct api_error *error);

#endif
