/* names.c: see names.h. */
#include "model/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/assert.h"

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct name *)a)->text, ((const struct name *)b)->text);
}

int names_create(struct names *names, size_t capacity)
{
    struct name *items = calloc(capacity ? capacity : 1, sizeof *items);
    if (!items) return error_memory("index of names");
    *names = (struct names){.items = items, .capacity = capacity};
    return ENGINE_OK;
}

void names_destroy(struct names *names)
{
    free(names->items);
    *names = (struct names){0};
}

void names_add(struct names *names, const char *text, size_t position)
{
    ENGINE_ASSERT(names->count < names->capacity);
    names->items[names->count++] = (struct name){text, position};
}

const char *names_sort(struct names *names)
{
    qsort(names->items, names->count, sizeof *names->items, compare_names);
    for (size_t i = 1; i < names->count; i++)
        if (compare_names(&names->items[i - 1], &names->items[i]) == 0) return names->items[i].text;
    return NULL;
}

bool names_find(const struct names *names, const char *text, size_t *position)
{
    if (names->count == 0) return false;
    struct name key = {.text = text};
    const struct name *found = bsearch(&key, names->items, names->count, sizeof *names->items, compare_names);
    if (!found) return false;
    *position = found->position;
    return true;
}
