/* names.h: finds the index of a name among many: metadata keys, tensor names. */
#ifndef ENGINE_MODEL_NAMES_H
#define ENGINE_MODEL_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* Sorted rather than hashed, so that a file cannot choose names that make it slow. */
struct names {
    struct name {
        const char *text; /* NUL-terminated; not owned */
        size_t position;
    } * items; /* [count], sorted by text */
    size_t count, capacity;
};

/* names_add adds up to `capacity` names; names_sort then makes them searchable. */
int names_create(struct names *names, size_t capacity); /* ENGINE_ERROR_MEMORY */
void names_destroy(struct names *names);
void names_add(struct names *names, const char *text, size_t position);

/* A name that was added twice, or NULL. */
const char *names_sort(struct names *names);

bool names_find(const struct names *names, const char *text, size_t *position);

#endif
