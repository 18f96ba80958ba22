/* parser.h: shared by the two halves of the parser: statements (parser.c) and expressions
 * (parser-expression.c). */
#ifndef ENGINE_TEMPLATE_PARSER_H
#define ENGINE_TEMPLATE_PARSER_H

#include "template/lexer.h"
#include "template/syntax.h"

struct parser {
    struct task *task;
    const struct token *token; /* the current one */
    struct syntax *syntax;
    bool used[SYMBOL_KNOWN]; /* names that the innermost macro has used so far */
    size_t loops;            /* around the current statement, within the innermost macro */
    /* The first filter or test that doesn't exist, NULL: all do. As in Jinja, those of a condition's branches don't
     * count before they are reached. */
    const struct node *unknown;
    bool conditional; /* within such a branch; what has variables of its own in it doesn't count as within */
};

struct node *parser_node(struct parser *parser, enum node_kind kind);
void parser_add(struct parser *parser, struct node_list *list, struct node *node);
/* Accounts for the height of a node's child; returns the child. */
struct node *parser_child(struct parser *parser, struct node *node, struct node *child);
uint32_t parser_symbol(struct parser *parser, const struct text *name);

/* Remembers a filter or test that doesn't exist, if that is a mistake even where it isn't reached. */
void parser_note_unknown(struct parser *parser, const struct node *node, bool known);

bool parser_sees(const struct parser *parser, const char *operator);
bool parser_sees_name(const struct parser *parser, const char *name);
bool parser_skip(struct parser *parser, const char *operator); /* whether it was there */
bool parser_skip_name(struct parser *parser, const char *name);
void parser_expect(struct parser *parser, const char *operator);
void parser_expect_name(struct parser *parser, const char *name);
const struct text *parser_name(struct parser *parser); /* any */
_Noreturn void parser_fail(struct parser *parser);     /* the current token is unexpected */

/* An expression; without `condition`, "if" ends it. */
struct node *parser_expression(struct parser *parser, bool condition);
/* Expressions, a tuple if there are commas. `end`: a name that also ends it, or NULL. */
struct node *parser_tuple(struct parser *parser, bool condition, const char *end, bool empty);
/* Names to assign to; with `attributes`, also those of namespaces. */
struct node *parser_target(struct parser *parser, const char *end, bool attributes);
/* Filters after `node`, with which `|` begins; `node` may be NULL. */
struct node *parser_filters(struct parser *parser, struct node *node, bool first);
struct node *parser_unary(struct parser *parser, bool filters);

#endif
