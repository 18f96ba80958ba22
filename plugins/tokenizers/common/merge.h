/* merge.h: byte-pair encoding in its general form. Among all neighbouring symbols that form a pair, the pair
 * of the lowest rank, of equals the leftmost, becomes one symbol; this repeats until no pair is left
 * (Sennrich, Haddow, Birch, arXiv 1508.07909; SentencePiece, arXiv 1808.06226, ranks by the score of the
 * result). Linear in the length of the text except for contrived vocabularies, see merge.c. */
#ifndef TOKENIZERS_COMMON_MERGE_H
#define TOKENIZERS_COMMON_MERGE_H

#include <stddef.h>
#include <stdint.h>

#include "common/pairs.h"

struct explanation;

/* A symbol of the result; it ends where the next one starts. */
struct merge_token {
    uint32_t symbol;
    uint32_t start; /* index of its first initial symbol */
};

/* The memory of merging, kept from word to word; zeroed at first. */
struct merge_workspace {
    uint32_t *initial; /* [n_initial] the word; see merge_reserve */
    size_t n_initial, initial_capacity;
    struct merge_token *tokens; /* [n_tokens] the result */
    size_t n_tokens, tokens_capacity;
    struct merge_place *places; /* for long blocks: the symbols while they are passed over, */
    size_t places_capacity;
    struct merge_node *nodes; /* then the symbols, */
    size_t nodes_capacity;
    struct merge_event *heap; /* and possible merges, best first */
    size_t heap_capacity;
    uint64_t *known_pairs; /* [KNOWN_PAIRS] left << 32 | right: neighbours with a known answer, */
    uint8_t *known_apart;  /* [KNOWN_PAIRS] and the answer */
    /* Each merge is reported here, in the order of the definition; NULL unless somebody asked. */
    struct explanation *explanation;
};
void merge_workspace_free(struct merge_workspace *workspace);

/* Begins a word. */
static inline void merge_clear(struct merge_workspace *workspace)
{
    workspace->n_initial = 0;
}

/* Makes room for `count` more initial symbols, at most UINT32_MAX in all; the caller writes them to
 * initial[n_initial++]. ENGINE_ERROR_MEMORY. */
int merge_reserve(struct merge_workspace *workspace, size_t count);

/* initial -> tokens. ENGINE_ERROR_MEMORY. */
int merge_run(const struct pairs *pairs, struct merge_workspace *workspace);

#endif
