#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "commands/line-reader.h"
#include "io/files.h"
#include "io/messages.h"

bool line_read(FILE *file, struct line *line, int *status)
{
    int c;
    line->length = 0;
    line->whole = line->too_long = false;
    line->hash = HASH_BASIS;
    while ((c = getc_unlocked(file)) != EOF) {
        unsigned char byte = (unsigned char)c;
        if ((line->whole = c == '\n')) break;
        line->hash = hash_bytes(line->hash, &byte, 1);
        if (line->length == LINE_MOST) line->too_long = true;
        if (line->too_long) continue;
        if (line->capacity - line->length < 2) {
            size_t capacity = line->capacity * 2 + 4096;
            char *grown = realloc(line->text, capacity);
            if (!grown) {
                *status = command_error(ENGINE_ERROR_MEMORY, "out of memory (a line of the input)");
                return false;
            }
            line->text = grown;
            line->capacity = capacity;
        }
        line->text[line->length++] = (char)c;
    }
    if (line->text) line->text[line->length] = '\0';
    if (ferror(file)) *status = command_error(ENGINE_ERROR, "reading failed: %s", strerror(errno));
    return line->whole || line->length > 0 || line->too_long;
}

bool line_is_blank(const struct line *line)
{
    for (size_t i = 0; i < line->length; i++)
        if (!strchr(" \t\r", line->text[i]) || line->text[i] == '\0') return false;
    return !line->too_long;
}
