/* json-nul.h: texts of JSON with a NUL. Names, roles, types and the like are compared as C's texts, which end there, so
 * "demo\0x" would be "demo". Only prose, whose length is known everywhere, may have one. */
#ifndef ENGINE_COMMANDS_JSON_NUL_H
#define ENGINE_COMMANDS_JSON_NUL_H

#include <jansson.h>
#include <stdbool.h>

#define JSON_NUL_WHERE 160 /* bytes for a place: "messages[0].role" */

/* Whether a request, or a line of a file, has a text with a NUL that may not have one; `where` gets the place of the first. */
bool json_has_nul(const json_t *json, char where[JSON_NUL_WHERE]);

#endif
