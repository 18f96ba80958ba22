/* quoted.c: see quoted.h. */
#include "commands/quoted.h"

#include <stdbool.h>
#include <string.h>

size_t quoted_character(const unsigned char *text, size_t left)
{
    if (*text < 0x80) return *text >= ' ' && *text != 127;
    size_t length = *text >= 0xC2 && *text < 0xE0   ? 2
                    : *text >= 0xE0 && *text < 0xF0 ? 3
                    : *text < 0xF5                  ? 4
                                                    : 0;
    if (*text < 0xC2 || !length || length > left) return 0;
    for (size_t i = 1; i < length; i++)
        if (text[i] < 0x80 || text[i] > 0xBF) return 0;
    if ((*text == 0xE0 && text[1] < 0xA0) || (*text == 0xED && text[1] > 0x9F) ||
        (*text == 0xF0 && text[1] < 0x90) || (*text == 0xF4 && text[1] > 0x8F))
        return 0;
    return *text == 0xC2 && text[1] < 0xA0 ? 0 : length; /* U+0080 to U+009F are control characters */
}

size_t quoted_print(struct engine_string quoted, FILE *out)
{
    const unsigned char *text = (const unsigned char *)quoted.data;
    size_t width = 2;
    fputc('"', out);
    for (size_t i = 0; i < quoted.length;) {
        size_t length = quoted_character(text + i, quoted.length - i);
        if (length) {
            bool escaped = text[i] == '"' || text[i] == '\\';
            if (escaped) fputc('\\', out);
            fwrite(text + i, 1, length, out);
            width += escaped ? 2 : 1;
            i += length;
            continue;
        }
        const char *name = text[i] ? strchr("\nn\tt\rr", text[i]) : NULL;
        if (name && *name < ' ')
            width += (size_t)fprintf(out, "\\%c", name[1]);
        else
            width += (size_t)fprintf(out, "\\x%02X", text[i]);
        i++;
    }
    fputc('"', out);
    return width;
}
