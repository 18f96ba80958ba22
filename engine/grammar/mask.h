/* mask.h: which tokens may follow in a state of a machine. */
#ifndef ENGINE_GRAMMAR_MASK_H
#define ENGINE_GRAMMAR_MASK_H

#include "grammar/machine.h"
#include "grammar/vocab.h"

/* For each class of automaton->classes and each node of the trie: how many characters the longest way below the
 * node has, if all ways consist of whole characters of the class, else RUN_NEVER. Element 0 is the root. */
#define RUN_NEVER 255

struct masks {
    const struct grammar_vocab *vocab;
    struct machine *machine;
    uint8_t **runs;   /* [n_classes] each [n_nodes + 1] */
    uint32_t *path;   /* [deepest + 1] states on the way to a node */
    uint64_t *ranked; /* [n_ranked bits] the mask being made, by rank */
    size_t n_words;   /* of a mask by token */
};

int masks_create(struct masks *masks, const struct grammar_vocab *vocab, struct machine *machine);
void masks_destroy(struct masks *masks);

/* The mask of a state [n_words], a bit for each token, in `mask`. `strip`: the space that the first token may
 * begin with is no part of the text. On failure machine->status says why. */
int masks_make(struct masks *masks, uint32_t state, bool strip, uint64_t *mask);

#endif
