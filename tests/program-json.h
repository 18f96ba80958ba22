/* program-json.h: what the program `engine` prints with --json. */
#ifndef TESTS_PROGRAM_JSON_H
#define TESTS_PROGRAM_JSON_H

#include <jansson.h>

#include "program.h"

/* The JSON on standard output; drop it with json_decref. Frees the result. Ends the test unless the program
 * succeeded without a word on standard error. */
json_t *program_json(struct program_result result);

#endif
