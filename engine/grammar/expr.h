/* expr.h: a grammar as expressions: what gbnf.c and schema.c make of a text, and compile.c makes an automaton
 * of.
 *
 * Expressions are numbers into one table. Each is used once, as a part of one other or as the body of a rule;
 * what is used more often is a rule. After the first error all functions return the empty expression and
 * change nothing, so that a builder checks `status` now and then instead of after each call. */
#ifndef ENGINE_GRAMMAR_EXPR_H
#define ENGINE_GRAMMAR_EXPR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "grammar/effort.h"

#define EXPR_NO_LIMIT   UINT32_MAX
#define EXPR_MOST_DEPTH 500 /* parts within parts */

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

#endif
