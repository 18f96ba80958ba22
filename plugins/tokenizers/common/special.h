/* special.h: cuts a text at the special tokens that are spelled in it. */
#ifndef TOKENIZERS_COMMON_SPECIAL_H
#define TOKENIZERS_COMMON_SPECIAL_H

#include "common/trie.h"
#include "common/vocab.h"
#include "plugin-api.h"

/* A set of tokens to look for: longer ones win over shorter ones wherever they overlap. */
struct special_set {
    uint32_t count;
    int32_t *ids;     /* [count]; the longest first, then the lowest id */
    struct trie trie; /* piece -> index in ids */
};

/* The tokens that have any attribute of `any` and no attribute of `none`. A set that is zeroed or failed to be
 * made may be destroyed. ENGINE_ERROR_MEMORY. */
int special_create(struct special_set *set, const struct vocab *vocab, uint32_t any, uint32_t none);
void special_destroy(struct special_set *set);

/* Receives the parts of a text in order: a stretch of plain text (never empty; id -1), or a token (text of
 * length 0). Returns 0 to go on. */
typedef int (*special_visit)(void *user, struct engine_string text, int32_t id);

/* A part of a region in which no token has been found yet. */
struct special_gap {
    size_t start, end;
};

/* What special_split keeps from call to call; zeroed at first. */
struct special_workspace {
    uint32_t *marks; /* what became of each byte of the region at hand */
    size_t marks_capacity;
    struct special_gap *gaps, *next_gaps; /* [n_gaps] those before a token is looked for, and those after */
    size_t n_gaps, gaps_capacity, n_next_gaps, next_gaps_capacity;
    uint32_t *found; /* indices of the tokens that occur in it, each once */
    size_t n_found, found_capacity;
    uint64_t *seen; /* [(count + 63) / 64] bit i: index i is in `found` */
    size_t seen_capacity;
};
void special_workspace_free(struct special_workspace *workspace);

/* Returns what `visit` returned to stop, or ENGINE_ERROR_MEMORY. */
int special_split(const struct special_set *set, const struct vocab *vocab, struct engine_string text,
                  struct special_workspace *workspace, special_visit visit, void *user);

#endif
