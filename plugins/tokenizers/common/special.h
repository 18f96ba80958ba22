/* special.h: cuts a text at the special tokens that are spelled in it. */
#ifndef TOKENIZERS_COMMON_SPECIAL_H
#define TOKENIZERS_COMMON_SPECIAL_H

#include "common/trie.h"
#include "common/vocab.h"
#include "plugin-api.h"

/* A token by its rank: the longest come first, then the lowest id. */
struct special_token {
    int32_t id;
    uint32_t length;  /* bytes */
    uint32_t shorter; /* rank of the longest other token that this one ends with, or TRIE_NONE */
    uint32_t jump;    /* of one farther down the chain of shorter ones, or TRIE_NONE */
    uint32_t level;   /* tokens in the chain */
};

/* A node of the trie as a state of the automaton: the text read so far ends with its string. */
struct special_node {
    uint32_t fallback; /* the node of the longest string that this one ends with */
    uint32_t token;    /* rank of the longest token that it ends with, or is, or TRIE_NONE */
    uint32_t depth;    /* bytes */
};

/* A set of tokens to look for: longer ones win over shorter ones wherever they overlap. */
struct special_set {
    uint32_t count;
    uint32_t strip;               /* VOCAB_STRIP_…, those that any of them has */
    struct special_token *tokens; /* [count] */
    struct trie trie;             /* piece -> rank */
    struct special_node *nodes;   /* [trie.n_nodes] */
};

/* The tokens that have any attribute of `any` and no attribute of `none`. A set that is zeroed, or whose
 * creation failed, may be destroyed. ENGINE_ERROR_MEMORY. */
int special_create(struct special_set *set, const struct vocab *vocab, uint32_t any, uint32_t none);
void special_destroy(struct special_set *set);

/* Receives the parts of a text in order: a stretch of plain text (never empty; id -1), or a token, with the
 * text that it takes. Returns 0 to continue. */
typedef int (*special_visit)(void *user, struct engine_string text, int32_t id);

/* A place where tokens end, and the longest of them that has not been rejected. */
struct special_end {
    size_t end;
    uint32_t rank;
};

/* A placed token, with the white space that it swallows. */
struct special_place {
    size_t start, end;
    int32_t id;
};

/* Memory that special_split keeps from call to call; zeroed at first. All of it is about the current
 * region. */
struct special_workspace {
    struct special_end *ends; /* [n_ends] where tokens end; then a heap of them */
    size_t n_ends, ends_capacity;
    struct special_place *places; /* [n_places] in the order in which they were found */
    size_t n_places, places_capacity;
    size_t *owners; /* [bytes] 1 + index of the place that a byte belongs to; 0: free */
    size_t owners_capacity;
};
void special_workspace_free(struct special_workspace *workspace);

/* Returns what `visit` returned to stop, or ENGINE_ERROR_MEMORY. */
int special_split(const struct special_set *set, const struct vocab *vocab, struct engine_string text,
                  struct special_workspace *workspace, special_visit visit, void *user);

#endif
