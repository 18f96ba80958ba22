/* names.h: finds the position of a name among many: metadata keys, tensor names. */
#ifndef ENGINE_MODEL_NAMES_H
#define ENGINE_MODEL_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* Sorted, not hashed: a file can't choose names that make it slow. */
struct names {
    struct name {
        const char *text; /* ended by NUL; not owned */
        size_t position;
    } * items; /* [count], by text */
    size_t count;
};

/* names_add puts names in, then names_sort makes them findable. */
int names_create(struct names *names, size_t capacity); /* ENGINE_ERROR_MEMORY */
void names_destroy(struct names *names);
void names_add(struct names *names, const char *text, size_t position);

/* A name that was added twice, or NULL. */
const char *names_sort(struct names *names);

bool names_find(const struct names *names, const char *text, size_t *position);

#endif
