/* internal.h: what the files of grammars share: expressions, the automaton that they become, its states, and
 * the masks of tokens. schema.h is for JSON schemas. */
#ifndef ENGINE_GRAMMAR_INTERNAL_H
#define ENGINE_GRAMMAR_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "common/array.h"
#include "grammar/grammar.h"

/* Counts steps. False: there have been too many, the caller gives up, or *status has an error already; then
 * it has one. */
static inline bool effort_spend(struct effort *effort, uint64_t steps, int *status)
{
    if (*status) return false;
    effort->steps += steps;
    if (effort->steps < effort->look) return true;
    effort->look = effort->steps + EFFORT_LOOKS;
    if (effort->steps > EFFORT_MAX) {
        effort->look = 0;
        *status = error_raise(ENGINE_ERROR_UNSUPPORTED,
                              "the grammar takes more than %d steps to read; make it smaller", EFFORT_MAX);
    } else if (effort->gives_up && effort->gives_up(effort->user)) {
        effort->look = 0;
        *status = error_raise(ENGINE_ERROR, "the grammar is no longer wanted");
    }
    return !*status;
}

/* Records that memory ran out. */
static inline bool grammar_lacks_memory(int *status)
{
    *status = error_memory("grammar");
    return false;
}

/* Room for `needed` items in an array. False: *status has an error already, or gets that of running out of
 * memory. */
#define GRAMMAR_RESERVE(status, items, capacity, needed)                                                     \
    (!*(status) && (ARRAY_RESERVE(items, capacity, needed) || grammar_lacks_memory(status)))

/* ---- Expressions (expr.c) ---- */

/* A grammar as expressions: what gbnf.c and schema.c make of a text, and compile.c makes an automaton of.
 *
 * Expressions are numbers into one table. Each is used once, as a part of one other or as the body of a rule;
 * what is used more often is a rule. After the first error all functions return the empty expression and
 * change nothing, so that a builder checks `status` now and then instead of after each call. */

#define EXPR_NO_LIMIT  UINT32_MAX
#define EXPR_MAX_DEPTH 500 /* parts within parts */

enum expr_kind {
    EXPR_EMPTY,   /* the empty text */
    EXPR_LITERAL, /* bytes[a …+b] */
    EXPR_CLASS,   /* one character of ranges[a …+b]; of none, if b is 0: matches nothing */
    EXPR_SEQ,     /* its parts, one after the other */
    EXPR_ALT,     /* one of its parts */
    EXPR_REPEAT,  /* its part, a to b times; b EXPR_NO_LIMIT: without limit */
    EXPR_RULE,    /* rule a */
    EXPR_TOKEN    /* token a; with b not 0, a token of text other than a */
};

struct expr {
    enum expr_kind kind;
    uint32_t first, last,
        next; /* parts, and the next part of the expression that this is a part of; 0: none */
    uint32_t a, b;
};

/* Code points, both ends included. */
struct char_range {
    uint32_t low, high;
};

/* The first of ascending ranges [count] that ends at `character` or later; `count`: none does. */
static inline size_t char_ranges_find(const struct char_range *ranges, size_t count, uint32_t character)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges[middle].high < character)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct expr_rule {
    char *name;
    uint32_t body; /* an expression */
    bool defined;
    uint32_t where; /* the line that first names it, for messages; 0: unknown */
};

struct exprs {
    int status; /* the first error; its message is this thread's error_message() */
    struct effort *effort;
    bool is_schema;     /* for messages: made of a JSON schema */
    struct expr *items; /* [count]; items[0] is the empty expression */
    size_t count, capacity;
    struct expr_rule *rules; /* [n_rules]; rule 0 is where a text starts */
    size_t n_rules, rule_capacity;
    uint32_t *rule_table; /* [n_rule_table] rules by the hash of their names, plus 1; 0: free */
    size_t n_rule_table;
    uint64_t seed;        /* of the hashes */
    unsigned char *bytes; /* [n_bytes] */
    size_t n_bytes, byte_capacity;
    struct char_range *ranges; /* [n_ranges] */
    size_t n_ranges, range_capacity;
};

/* With rule 0 of that name. `effort` outlives them. */
void exprs_create(struct exprs *exprs, const char *root, struct effort *effort);
void exprs_destroy(struct exprs *exprs);

/* Counts steps; false: no more, see effort_spend. */
static inline bool exprs_spend(struct exprs *exprs, uint64_t steps)
{
    return effort_spend(exprs->effort, steps, &exprs->status);
}

/* The rule of a name, which is made if there is none. */
uint32_t expr_rule_named(struct exprs *exprs, const char *name, size_t length, uint32_t where);
/* A rule without a name of its own: "BASE NUMBER". */
uint32_t expr_rule_new(struct exprs *exprs, const char *base);
void expr_define(struct exprs *exprs, uint32_t rule, uint32_t body);

uint32_t expr_literal(struct exprs *exprs, const char *bytes, size_t length);
uint32_t expr_text(struct exprs *exprs, const char *text); /* a literal that ends with NUL */
/* `ranges` in any order, overlapping or not. Surrogates are never matched. */
uint32_t expr_class(struct exprs *exprs, const struct char_range *ranges, size_t count, bool negated);
uint32_t expr_char(struct exprs *exprs, uint32_t low, uint32_t high);
uint32_t expr_never(struct exprs *exprs);
uint32_t expr_rule(struct exprs *exprs, uint32_t rule);
uint32_t expr_token(struct exprs *exprs, uint32_t token, bool negated);
uint32_t expr_repeat(struct exprs *exprs, uint32_t part, uint32_t least, uint32_t most);

/* Empty lists of parts, to be filled by expr_add. */
uint32_t expr_seq(struct exprs *exprs);
uint32_t expr_alt(struct exprs *exprs);
void expr_add(struct exprs *exprs, uint32_t list, uint32_t part);
/* A sequence of `count` parts. */
uint32_t expr_seq_of(struct exprs *exprs, size_t count, const uint32_t *parts);
#define EXPR_SEQ_OF(exprs, ...)                                                                              \
    expr_seq_of((exprs), sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), (uint32_t[]){__VA_ARGS__})

/* UTF-8 of a character into bytes [4]; returns their number. */
size_t expr_utf8(uint32_t character, char *bytes);
/* The character that a text begins with, and its bytes; 0: it isn't UTF-8. */
size_t expr_read_utf8(const char *text, size_t length, uint32_t *character);

/* ---- GBNF, llama.cpp's syntax (gbnf.c) ---- */

/* Fills `exprs`, which exprs_create(…, "root", …) has made. ENGINE_ERROR_DATA with the line and the reason
 * where the text is wrong. `vocab` is for tokens by their text. */
int gbnf_read(struct exprs *exprs, const struct grammar_vocab *vocab, const char *text, size_t length);

/* ---- Automatons (compile.c, analyse.c) ---- */

/* A grammar as a pushdown automaton over bytes: nodes with edges, and a stack of where to go on after a rule
 * or a counted repetition.
 *
 * Characters are sequences of UTF-8 bytes here, so a token may end within one. Repetitions with counts are
 * one node each, for any counts: the count is on the stack. */

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

/* Characters that may be repeated: see token-masks.c. */
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

/* Sets fruitful and nullable; refuses rules that begin with themselves. `rule_starts` [exprs->n_rules]: the
 * node where each rule begins. */
int automaton_analyse(struct automaton *automaton, const struct exprs *exprs, const uint32_t *rule_starts);

/* ---- The states of an automaton (automaton.c) ---- */

/* Runs an automaton. A state is a set of positions, each a node and a stack; states get numbers, and what a
 * byte leads to is remembered, so that bytes cost a look into a table once a state is known.
 *
 * Stacks are lists that share their lower parts; equal stacks have equal numbers. What is remembered is
 * thrown away when it becomes too large (machine_trim), except states that are in use. */

#define STATE_DEAD    0u
#define STATE_UNKNOWN UINT32_MAX /* also: failed */

struct position {
    uint32_t node, frame; /* frame 0: an empty stack */
};

/* What is on a stack: the node to go on with, and above a NODE_LOOP, how often its part was there. */
struct frame {
    uint32_t node, count, below;
};

struct state {
    uint32_t first, count; /* positions: NODE_BYTES and NODE_TOKEN only, sorted */
    uint32_t hash;
    bool complete; /* the text may end here */
    bool tokens;   /* some positions are NODE_TOKEN */
    uint16_t run;  /* run_count characters of this class may follow; NO_CLASS: none known */
    uint32_t run_count;
    uint64_t *mask; /* what token-masks.c has worked out; NULL: nothing yet */
};

/* A set of 64-bit keys that is emptied by counting `round` up. */
struct key_set {
    uint64_t *keys;
    uint32_t *rounds, *values;
    size_t size, used;
    uint32_t round;
};

struct machine {
    const struct automaton *automaton;
    size_t mask_size;     /* bytes of a mask */
    struct frame *frames; /* [n_frames] */
    uint32_t n_frames, n_frame_table, *frame_table;
    struct position *positions; /* [n_positions] */
    uint32_t n_positions;
    struct state *states; /* [n_states] */
    uint32_t n_states, n_state_table, *state_table;
    uint32_t *next; /* [n_states, n_groups]; STATE_UNKNOWN: not worked out */
    size_t frame_capacity, position_capacity, state_capacity;
    size_t n_masks;

    /* The closure being made. */
    struct position *work, *found;
    size_t n_work, work_capacity, n_found, found_capacity;
    struct key_set seen, entered;
    bool complete;
    uint16_t run;
    uint32_t run_count;

    uint64_t effort; /* since machine_begin */
    int status;      /* why STATE_UNKNOWN was returned */
};

int machine_create(struct machine *machine, const struct automaton *automaton, size_t mask_size);
void machine_destroy(struct machine *machine);

/* Before a series of steps, one token or one mask: limits their effort together. */
void machine_begin(struct machine *machine);
uint32_t machine_start(struct machine *machine);
/* The state after a byte; STATE_DEAD: it cannot follow; STATE_UNKNOWN: machine->status says why not. */
uint32_t machine_step(struct machine *machine, uint32_t state, uint8_t byte);
/* The state after a token, of which `bytes` is where its text leads. */
uint32_t machine_token(struct machine *machine, uint32_t state, uint32_t token, bool is_text, uint32_t bytes);
/* The same as machine_step, where it is known already. */
static inline uint32_t machine_known(const struct machine *machine, uint32_t state, uint8_t byte)
{
    return machine->next[(size_t)state * machine->automaton->n_groups + machine->automaton->groups[byte]];
}

/* Whether machine_trim should be called. */
bool machine_is_full(const struct machine *machine);
/* Forgets all but `states` [count], and replaces them by their new numbers. Any failure leaves the machine as
 * it was. */
int machine_trim(struct machine *machine, uint32_t *states, size_t count);

/* ---- The tokens that may follow (token-masks.c) ---- */

/* For each class of automaton->classes and each node of the trie: how many characters the longest way below
 * the node has, if all ways consist of whole characters of the class, else RUN_NEVER. Element 0 is the
 * root. */
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
