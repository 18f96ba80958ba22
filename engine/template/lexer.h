/* lexer.h: a template's text as tokens, with Jinja's rules of white space: trim_blocks and lstrip_blocks are on,
 * as transformers sets them. */
#ifndef ENGINE_TEMPLATE_LEXER_H
#define ENGINE_TEMPLATE_LEXER_H

#include "template/value.h"

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

#endif
