/* classes.h: a text as a row of character classes, one byte each, so that expressions need not know
 * Unicode. */
#ifndef TOKENIZERS_COMMON_CLASSES_H
#define TOKENIZERS_COMMON_CLASSES_H

#include <stddef.h>
#include <stdint.h>

#include "plugin-api.h"

/* Scratch memory for one text at a time; zeroed at first. */
struct class_text {
    uint8_t *classes; /* [n] class of each character, */
    uint8_t *lengths; /* [n] and its bytes */
    size_t classes_capacity, lengths_capacity;
};

/* Fills `into` with the classes of a text's characters (unicode_read); *n: their number. table:
 * [UNICODE_SIZE] class of each code point; the class of an ASCII character is the character itself. Returns
 * an enum engine_status. */
int class_text_read(struct class_text *into, const uint8_t *table, struct engine_string text, size_t *n);
void class_text_free(struct class_text *text);

#endif
