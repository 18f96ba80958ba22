/* tokenizer-scan.h: finds and reads plain values in the text of a tokenizer.json, for those that Jansson would take long for. */
#ifndef ENGINE_MODEL_HF_TOKENIZER_SCAN_H
#define ENGINE_MODEL_HF_TOKENIZER_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "plugin-api.h"

struct scan {
    const char *at, *end;
};

void scan_space(struct scan *c);

/* Skips white space, and takes a character if it is the next. */
bool scan_take(struct scan *c, char wanted);

/* From the beginning of an object to the value of a key that is spelled so. */
bool scan_enter(struct scan *c, const char *key);

/* A string, written to *to, which has room for as many bytes as the text. False if it is none, or has an escape of U+0000
 * or of half a pair. Nothing shows that it is UTF-8. */
bool scan_string(struct scan *c, char **to, struct engine_string *string);

/* The text with what is between `first` and c->at replaced, of *rest bytes, which the caller frees; or NULL. */
char *scan_without(const char *text, size_t first, const struct scan *c, const char *instead, size_t *rest);

#endif
