/* syntax.h: from a template's text to a tree: tokens (lexer.c), statements (parser.c) and expressions
 * (parser-expression.c). */
#ifndef ENGINE_TEMPLATE_SYNTAX_H
#define ENGINE_TEMPLATE_SYNTAX_H

#include "template/value.h"

/* ---- Tokens (lexer.c) ---------------------------------------------------------------------------------- */

/* Jinja's rules of white space hold: trim_blocks and lstrip_blocks are on, as transformers sets them. */

enum token_kind {
    TOKEN_DATA,      /* text outside of tags */
    TOKEN_BLOCK,     /* {% */
    TOKEN_BLOCK_END, /* %} */
    TOKEN_PRINT,     /* {{ */
    TOKEN_PRINT_END, /* }} */
    TOKEN_NAME,
    TOKEN_STRING,
    TOKEN_NUMBER,
    TOKEN_OPERATOR, /* and brackets and separators: in `text` */
    TOKEN_END
};

struct token {
    enum token_kind kind;
    int line;
    const struct text *text; /* of data, names, operators; a string's value */
    struct value number;
};

/* [*count] tokens, the last of which is TOKEN_END. `source` is valid UTF-8. */
struct token *lexer_read(struct task *task, const char *source, size_t length, size_t *count);

/* ---- The tree ------------------------------------------------------------------------------------------ */

/* Which fields a node uses depends on its kind. */

enum node_kind {
    /* ---- Expressions ---- */
    NODE_CONSTANT,  /* value */
    NODE_NAME,      /* symbol, text */
    NODE_TUPLE,     /* items */
    NODE_LIST,      /* items */
    NODE_DICT,      /* items: keys and values in turns */
    NODE_ATTRIBUTE, /* a.text */
    NODE_ITEM,      /* a[b] */
    NODE_SLICE,     /* a[items[0]:items[1]:items[2]], each may be NULL */
    NODE_CALL,      /* a(call) */
    NODE_FILTER,    /* a|text(call); a is NULL in a block: what the block wrote */
    NODE_TEST,      /* a is text(call) */
    NODE_CONDITION, /* b if a else c; c may be NULL */
    NODE_AND,       /* a and b */
    NODE_OR,        /* a or b */
    NODE_NOT,       /* not a */
    NODE_COMPARE,   /* items, compared by operators[0 … count-2] */
    NODE_BINARY,    /* a op b */
    NODE_JOIN,      /* items, joined by ~ */
    NODE_NEGATIVE,  /* -a */
    NODE_POSITIVE,  /* +a */
    /* ---- Statements ---- */
    NODE_DATA,         /* value: the text */
    NODE_PRINT,        /* a */
    NODE_IF,           /* if a: body; else: other, which may be another NODE_IF of elif */
    NODE_FOR,          /* for a in b if c: body; else: other; flag: recursive */
    NODE_SET,          /* a = b */
    NODE_SET_BLOCK,    /* a = body, through the filter b unless it is NULL */
    NODE_WITH,         /* items: targets and values in turns; body */
    NODE_MACRO,        /* macro, symbol */
    NODE_CALL_BLOCK,   /* the call a with `macro` as its caller */
    NODE_FILTER_BLOCK, /* body through the filter a */
    NODE_SCOPE,        /* body, of generation: variables set in it end with it */
    NODE_BREAK,
    NODE_CONTINUE
};

enum node_operator {
    OPERATOR_ADD,
    OPERATOR_SUBTRACT,
    OPERATOR_MULTIPLY,
    OPERATOR_DIVIDE,
    OPERATOR_FLOOR,
    OPERATOR_MODULO,
    OPERATOR_POWER,
    OPERATOR_EQUAL,
    OPERATOR_UNEQUAL,
    OPERATOR_LESS,
    OPERATOR_LESS_EQUAL,
    OPERATOR_GREATER,
    OPERATOR_GREATER_EQUAL,
    OPERATOR_IN,
    OPERATOR_NOT_IN
};

struct node;

struct node_list {
    struct node **items; /* [count] */
    size_t count, capacity;
};

struct node_named {
    const struct text *name;
    struct node *value;
};

struct node_call {
    struct node_list items;
    struct node_named *named; /* [n_named] */
    size_t n_named, named_capacity;
    struct node *more_items, *more_named; /* *items and **named, or NULL */
};

struct node_parameter {
    uint32_t symbol;
    const struct text *name;
    struct node *fallback; /* its default, or NULL */
};

struct node_macro {
    const struct text *name;
    struct node_parameter *parameters; /* [n_parameters] */
    size_t n_parameters, capacity;
    struct node_list body;
    bool uses_caller, uses_items, uses_named; /* caller, varargs, kwargs */
};

struct node {
    enum node_kind kind;
    enum node_operator op;
    int line;
    uint32_t symbol;
    uint32_t height; /* of nested expressions */
    bool flag;
    const struct text *text;
    struct value value;
    struct node *a, *b, *c;
    struct node_list items, body, other;
    enum node_operator *operators;
    struct node_call *call;
    struct node_macro *macro;
};

/* Names of variables, as numbers from 0. The first are SYMBOL_…. */
enum { SYMBOL_LOOP, SYMBOL_CALLER, SYMBOL_ITEMS, SYMBOL_NAMED, SYMBOL_KNOWN };

struct syntax {
    struct node_list body;
    struct dict *symbols; /* name -> number */
};

/* Parses a template within the task, to which everything belongs. `source` is valid UTF-8. */
struct syntax *syntax_parse(struct task *task, const char *source, size_t length);

/* ---- The parser ---------------------------------------------------------------------------------------- */

/* Shared by its two halves, statements and expressions. */

struct parser {
    struct task *task;
    const struct token *token; /* the current one */
    struct syntax *syntax;
    bool used[SYMBOL_KNOWN]; /* names that the innermost macro has used so far */
    size_t loops;            /* around the current statement, within the innermost macro */
    /* The first filter or test that doesn't exist, NULL: all do. As in Jinja, those of a condition's branches
     * don't count before they are reached. */
    const struct node *unknown;
    bool conditional; /* within such a branch; what has variables of its own in it doesn't count as within */
};

struct node *parser_node(struct parser *parser, enum node_kind kind);
void parser_add(struct parser *parser, struct node_list *list, struct node *node);
/* Accounts for the height of a node's child; returns the child. */
struct node *parser_child(struct parser *parser, struct node *node, struct node *child);
uint32_t parser_symbol(struct parser *parser, const struct text *name);

/* Remembers a filter or test that doesn't exist, if that is an error even where it isn't reached. */
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
