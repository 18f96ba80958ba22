/* quoted.h: texts from models, such as those of tokens, so that nothing in them is hidden or moves the cursor. */
#ifndef ENGINE_COMMANDS_QUOTED_H
#define ENGINE_COMMANDS_QUOTED_H

#include <stdio.h>

#include "engine.h"

/* Bytes of the UTF-8 character that the text begins with if it is printable as it is, otherwise 0. */
size_t quoted_character(const unsigned char *text, size_t left);

/* Prints a text in quotes, so that blanks are visible, with unprintable bytes as escapes. Returns its width:
 * characters, with the quotes. */
size_t quoted_print(struct engine_string text, FILE *out);

/* Prints a text on one line and without quotes, line ends and tabs as spaces, other unprintable bytes as escapes. */
void quoted_print_line(struct engine_string line, FILE *out);

#endif
