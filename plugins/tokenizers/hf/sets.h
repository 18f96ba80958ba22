/* sets.h: sets of characters, for regular expressions: those that expressions name, and their unions. */
#ifndef TOKENIZERS_HF_SETS_H
#define TOKENIZERS_HF_SETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct set_range {
    uint32_t first, last;
};

/* After set_finish the ranges ascend and neither touch nor overlap. Zeroed at first. */
struct set {
    struct set_range *ranges; /* [count] */
    size_t count, capacity;
};

void set_free(struct set *set);

/* Adds characters; set_finish must follow. ENGINE_ERROR_MEMORY. */
int set_add(struct set *set, uint32_t first, uint32_t last);
/* Adds a finished set, or all characters that it lacks. */
int set_add_all(struct set *set, const struct set *other, bool negated);
/* Sorts and joins. */
void set_finish(struct set *set);
/* Keeps only what a finished set has as well; both finished. */
int set_intersect(struct set *set, const struct set *other);

bool set_has(const struct set *set, uint32_t character);

/* Where an expression names a set. Oniguruma's \w alone has the superscripts and fractions of Latin 1, which
 * it has not within brackets. */
enum set_place { SET_ALONE, SET_IN_BRACKETS };

/* Adds a property by the name that \p{NAME} has, in any case, with or without "_", " " and "-".
 * *found: whether there is one. */
int set_add_property(struct set *set, const char *name, size_t length, bool negated, enum set_place place,
                     bool *found);
/* The same for [:NAME:], which knows fewer names, and others by them. */
int set_add_posix(struct set *set, const char *name, size_t length, bool negated, bool *found);

/* \w, \s, \d, \h by their letter. */
int set_add_escape(struct set *set, char letter, bool negated, enum set_place place);

/* Adds the other cases of the characters in a finished set, which is finished after that, too. */
int set_add_cases(struct set *set);

#endif
