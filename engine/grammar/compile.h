/* compile.h: what the files that make an automaton share. */
#ifndef ENGINE_GRAMMAR_COMPILE_H
#define ENGINE_GRAMMAR_COMPILE_H

#include "grammar/automaton.h"

struct compiler {
    const struct exprs *exprs;
    struct automaton *automaton;
    uint32_t *rule_starts; /* [n_rules] forks with one target, which are made first */
    int status;            /* the first error; after that, nothing is added */
    unsigned depth;
};

/* Counts steps; false: no more, or failed before. */
static inline bool compile_spend(struct compiler *compiler, uint64_t steps)
{
    return effort_spend(compiler->exprs->effort, steps, &compiler->status);
}

/* A node that takes one of the bytes of `edges` [count], sorted. 0: failed, now or before. */
uint32_t compile_bytes(struct compiler *compiler, const struct byte_edge *edges, size_t count);
/* A node that goes on with `a` or `b`. */
uint32_t compile_fork(struct compiler *compiler, uint32_t a, uint32_t b);

/* words.c: one of `words` [count], which is sorted here, and then `next`. Words that begin alike share their first
 * nodes, and words that end alike their last ones, so that one place in the automaton stands for all of them. */
uint32_t compile_words(struct compiler *compiler, struct engine_string *words, size_t count, uint32_t next);

#endif
