/* font.h: a font for pictures: printable ASCII, 5 by 8 dots. */
#ifndef ENGINE_COMMANDS_FONT_H
#define ENGINE_COMMANDS_FONT_H

#include <stdint.h>

enum { FONT_WIDTH = 5, FONT_HEIGHT = 8, FONT_ADVANCE = 6 /* from one character to the next */ };

/* The rows of a character from the top, bit 4 being the leftmost dot. A box for anything that isn't printable
 * ASCII. */
const uint8_t *font_glyph(unsigned char character);

#endif
