/* quoted.h: texts of tokens, in quotes. */
#ifndef ENGINE_COMMANDS_QUOTED_H
#define ENGINE_COMMANDS_QUOTED_H

#include <stdio.h>

#include "engine.h"

/* Bytes of the UTF-8 character that the text begins with if it is printable as it is, otherwise 0. */
size_t quoted_character(const unsigned char *text, size_t left);

/* Prints a text in quotes, so that blanks are visible, with unprintable bytes as escapes. Returns its width:
 * characters, with the quotes. */
size_t quoted_print(struct engine_string text, FILE *out);

#endif
