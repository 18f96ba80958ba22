/* line-reader.h: reads a file line by line, whatever its lines contain. */
#ifndef ENGINE_COMMANDS_LINE_READER_H
#define ENGINE_COMMANDS_LINE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define LINE_MOST ((size_t)64 << 20) /* bytes of a line */

/* A line, at most LINE_MOST bytes of it. Zeroed before the first one; the caller frees the text. */
struct line {
    char *text; /* [length], and a NUL; NULL: nothing has been read yet */
    size_t length, capacity;
    bool whole;    /* ends with a newline */
    bool too_long; /* text is only its beginning */
    uint64_t hash; /* of the whole line, without the newline (hash.h) */
};

/* Reads the next line. False at the end of the file, or after a failure, which *status then says. */
bool line_read(FILE *file, struct line *line, int *status);

/* Whether a line has nothing but spaces. */
bool line_is_blank(const struct line *line);

#endif
