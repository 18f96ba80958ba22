/* utf8.c: see utf8.h. */
#include "commands/utf8.h"

size_t utf8_next(const char *text, size_t left, bool *whole)
{
    const unsigned char *bytes = (const unsigned char *)text;
    unsigned char lead = bytes[0], low = 0x80, high = 0xbf; /* of the second byte: Unicode, table 3-7 */
    size_t length = lead < 0x80   ? 1
                    : lead < 0xc2 ? 0
                    : lead < 0xe0 ? 2
                    : lead < 0xf0 ? 3
                    : lead < 0xf5 ? 4
                                  : 0;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
    *whole = length > 0;
    for (size_t i = 1; i < length; i++) {
        if (i == left || bytes[i] < low || bytes[i] > high) {
            *whole = false;
            return i;
        }
        low = 0x80;
        high = 0xbf;
    }
    return length > 0 ? length : 1;
}
