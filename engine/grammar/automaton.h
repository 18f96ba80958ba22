/* automaton.h: a grammar as a pushdown automaton over bytes: nodes with edges, and a stack of where to go on
 * after a rule or a counted repetition. machine.c runs it.
 *
 * Characters are sequences of UTF-8 bytes here, so a token may end within one. Repetitions with counts are one
 * node each, whatever the counts: how often is on the stack. */
#ifndef ENGINE_GRAMMAR_AUTOMATON_H
#define ENGINE_GRAMMAR_AUTOMATON_H

#include "grammar/expr.h"

enum node_kind {
    NODE_RETURN, /* the end of a rule or of a repetition's part: what is on the stack goes on */
    NODE_BYTES,  /* one of `count` edges from `first`, sorted, apart from each other */
    NODE_FORK,   /* one of `count` targets from `first` */
    NODE_CALL,   /* `first`: where the rule starts, `next`: where to go on after it */
    NODE_LOOP,   /* `first`: the part, `next`: after it, least and most: how often */
    NODE_TOKEN   /* token `first` (least not 0: one of text other than that), then `next` */
};

#define NO_CLASS UINT16_MAX

struct node {
    uint8_t kind;
    bool fruitful; /* some text leads from here to the end of the rule */
    bool nullable; /* the empty text does */
    uint16_t run;  /* FORK, LOOP: each character of this class is one round; NO_CLASS: not known of any */
    uint32_t first, count, next;
    uint32_t least, most; /* LOOP; most EXPR_NO_LIMIT: without limit */
};

struct byte_edge {
    uint8_t low, high;
    uint32_t target;
};

/* Characters that may be repeated: see mask.c. */
struct run_class {
    const struct char_range *ranges; /* [n_ranges] */
    size_t n_ranges;
};

struct automaton {
    struct node *nodes; /* [n_nodes]; node 0 is NODE_RETURN */
    uint32_t n_nodes;
    struct byte_edge *edges; /* [n_edges] */
    uint32_t n_edges;
    uint32_t *targets; /* [n_targets] */
    uint32_t n_targets;
    uint32_t start;
    struct char_range *ranges; /* of all classes */
    struct run_class *classes; /* [n_classes] */
    uint32_t n_classes;
    /* Bytes that no edge tells apart have the same group; groups increase with bytes. */
    uint8_t groups[256];
    uint32_t n_groups;
    size_t capacities[4]; /* of nodes, edges, targets, classes */
};

/* ENGINE_ERROR_DATA: a rule begins with itself, or no text fits. */
int automaton_create(const struct exprs *exprs, struct automaton *automaton);
void automaton_destroy(struct automaton *automaton);

/* analyse.c: sets fruitful and nullable; refuses rules that begin with themselves. */
int automaton_analyse(struct automaton *automaton, const struct exprs *exprs, const uint32_t *rule_starts);

#endif
