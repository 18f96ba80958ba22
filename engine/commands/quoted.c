/* quoted.c: see quoted.h. */
#include "commands/quoted.h"

#include <stdbool.h>
#include <string.h>

#include "commands/utf8.h"
#include "common/printable.h"

size_t quoted_character(const unsigned char *text, size_t left)
{
    bool whole;
    size_t length = utf8_next((const char *)text, left, &whole);
    return whole && !printable_control((const char *)text, left) ? length : 0;
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

void quoted_print_line(struct engine_string line, FILE *out)
{
    const unsigned char *text = (const unsigned char *)line.data;
    for (size_t i = 0, length; i < line.length; i += length ? length : 1) {
        length = quoted_character(text + i, line.length - i);
        if (length)
            fwrite(text + i, 1, length, out);
        else if (text[i] == '\n' || text[i] == '\t' || text[i] == '\r')
            fputc(' ', out);
        else
            fprintf(out, "\\x%02X", text[i]);
    }
}
