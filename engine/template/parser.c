/* parser.c: tokens to a tree: statements (syntax.h). */
#include "template/syntax.h"

#include <string.h>

struct node *parser_node(struct parser *parser, enum node_kind kind)
{
    struct node *node = task_allocate(parser->task, sizeof *node);
    node->kind = kind;
    node->line = parser->token->line;
    return node;
}

void parser_add(struct parser *parser, struct node_list *list, struct node *node)
{
    list->items = task_grow(parser->task, list->items, list->count, &list->capacity, sizeof *list->items);
    list->items[list->count++] = node;
}

struct node *parser_child(struct parser *parser, struct node *node, struct node *child)
{
    if (child && child->height >= node->height) node->height = child->height + 1;
    if (node->height > TASK_MAX_DEPTH / 2)
        task_fail(parser->task, "more than %d expressions within each other", TASK_MAX_DEPTH / 2);
    return child;
}

uint32_t parser_symbol(struct parser *parser, const struct text *name)
{
    struct dict *symbols = parser->syntax->symbols;
    const struct value *known = dict_find_text(parser->task, symbols, name);
    uint32_t symbol = known ? (uint32_t)known->integer : (uint32_t)symbols->count;
    if (!known) dict_set(parser->task, symbols, value_text(name), value_integer(symbol));
    if (symbol < SYMBOL_KNOWN) parser->used[symbol] = true;
    return symbol;
}

void parser_note_unknown(struct parser *parser, const struct node *node, bool known)
{
    if (!known && !parser->unknown && !parser->conditional) parser->unknown = node;
}

/* ---- Tokens -------------------------------------------------------------------------------------------- */

static void parser_advance(struct parser *parser)
{
    if (parser->token->kind != TOKEN_END) parser->token++;
    parser->task->line = parser->token->line;
}

static bool token_is(const struct parser *parser, enum token_kind kind, const char *text)
{
    return parser->token->kind == kind && text_is(parser->token->text, text);
}

bool parser_sees(const struct parser *parser, const char *operator)
{
    return token_is(parser, TOKEN_OPERATOR, operator);
}

bool parser_sees_name(const struct parser *parser, const char *name)
{
    return token_is(parser, TOKEN_NAME, name);
}

bool parser_skip(struct parser *parser, const char *operator)
{
    bool found = parser_sees(parser, operator);
    if (found) parser_advance(parser);
    return found;
}

bool parser_skip_name(struct parser *parser, const char *name)
{
    bool found = parser_sees_name(parser, name);
    if (found) parser_advance(parser);
    return found;
}

void parser_fail(struct parser *parser)
{
    const struct token *token = parser->token;
    parser->task->line = token->line;
    switch (token->kind) {
    case TOKEN_NAME:
    case TOKEN_OPERATOR: task_fail(parser->task, "unexpected '%.*s'", TEXT_SHOWN(token->text));
    case TOKEN_STRING: task_fail(parser->task, "unexpected string");
    case TOKEN_NUMBER: task_fail(parser->task, "unexpected number");
    case TOKEN_END: task_fail(parser->task, "unexpected end of the template");
    default: task_fail(parser->task, "unexpected end of the tag");
    }
}

void parser_expect(struct parser *parser, const char *operator)
{
    if (!parser_skip(parser, operator)) parser_fail(parser);
}

void parser_expect_name(struct parser *parser, const char *name)
{
    if (!parser_skip_name(parser, name)) parser_fail(parser);
}

const struct text *parser_name(struct parser *parser)
{
    if (parser->token->kind != TOKEN_NAME) parser_fail(parser);
    const struct text *name = parser->token->text;
    parser_advance(parser);
    return name;
}

static void expect_end(struct parser *parser)
{
    if (parser->token->kind != TOKEN_BLOCK_END) parser_fail(parser);
    parser_advance(parser);
}

/* ---- Statements ---------------------------------------------------------------------------------------- */

static struct node *parse_statement(struct parser *parser);

static bool sees_one_of(const struct parser *parser, const char *const *names)
{
    for (; names && *names; names++)
        if (parser_sees_name(parser, *names)) return true;
    return false;
}

/* Statements up to a tag with one of the names, at which the parser then is. NULL: up to the end. */
static struct node_list parse_body(struct parser *parser, const char *const *ends)
{
    struct node_list body = {0};
    task_enter(parser->task);
    for (;;) {
        struct node *node;
        switch (parser->token->kind) {
        case TOKEN_DATA:
            node = parser_node(parser, NODE_DATA);
            node->value = value_text(parser->token->text);
            parser_advance(parser);
            parser_add(parser, &body, node);
            break;
        case TOKEN_PRINT:
            parser_advance(parser);
            node = parser_node(parser, NODE_PRINT);
            node->a = parser_tuple(parser, true, NULL, false);
            if (parser->token->kind != TOKEN_PRINT_END) parser_fail(parser);
            parser_advance(parser);
            parser_add(parser, &body, node);
            break;
        case TOKEN_BLOCK:
            parser_advance(parser);
            if (sees_one_of(parser, ends)) {
                task_leave(parser->task);
                return body;
            }
            node = parse_statement(parser);
            expect_end(parser);
            if (node) parser_add(parser, &body, node);
            break;
        default:
            if (ends) task_fail(parser->task, "unexpected end of the template: '%s' is missing", ends[0]);
            task_leave(parser->task);
            return body;
        }
    }
}

/* The same for what has variables of its own. */
static struct node_list parse_inner(struct parser *parser, const char *const *ends)
{
    bool conditional = parser->conditional;
    parser->conditional = false;
    struct node_list body = parse_body(parser, ends);
    parser->conditional = conditional;
    return body;
}

/* The rest of the tag, and then statements up to the tag `end`, whose name is skipped. */
static struct node_list parse_block(struct parser *parser, const char *end)
{
    const char *const ends[] = {end, NULL};
    expect_end(parser);
    struct node_list body = parse_inner(parser, ends);
    parser_expect_name(parser, end);
    return body;
}

static struct node *parse_if(struct parser *parser)
{
    static const char *const ends[] = {"endif", "elif", "else", NULL};
    struct node *first = parser_node(parser, NODE_IF), *node = first;
    bool conditional = parser->conditional;
    parser->conditional = true;
    for (;;) {
        node->a = parser_tuple(parser, false, NULL, false);
        expect_end(parser);
        node->body = parse_body(parser, ends);
        if (!parser_skip_name(parser, "elif")) break;
        struct node *next = parser_node(parser, NODE_IF);
        parser_add(parser, &node->other, next);
        node = next;
    }
    if (parser_skip_name(parser, "else")) {
        expect_end(parser);
        node->other = parse_body(parser, (const char *const[]){"endif", NULL});
    }
    parser_expect_name(parser, "endif");
    parser->conditional = conditional;
    return first;
}

static struct node *parse_for(struct parser *parser)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    struct node *node = parser_node(parser, NODE_FOR);
    node->a = parser_target(parser, "in", false);
    parser_expect_name(parser, "in");
    node->b = parser_tuple(parser, false, "recursive", false);
    if (parser_skip_name(parser, "if")) node->c = parser_expression(parser, true);
    node->flag = parser_skip_name(parser, "recursive");
    expect_end(parser);
    parser->loops++;
    node->body = parse_inner(parser, ends);
    parser->loops--;
    if (parser_skip_name(parser, "else"))
        node->other = parse_block(parser, "endfor");
    else
        parser_expect_name(parser, "endfor");
    return node;
}

static struct node *parse_set(struct parser *parser)
{
    struct node *node = parser_node(parser, NODE_SET);
    node->a = parser_target(parser, NULL, true);
    if (parser_skip(parser, "=")) {
        node->b = parser_tuple(parser, true, NULL, false);
        return node;
    }
    node->kind = NODE_SET_BLOCK;
    if (parser_sees(parser, "|")) node->b = parser_filters(parser, NULL, false);
    node->body = parse_block(parser, "endset");
    return node;
}

static struct node *parse_with(struct parser *parser)
{
    struct node *node = parser_node(parser, NODE_WITH);
    while (parser->token->kind != TOKEN_BLOCK_END) {
        if (node->items.count) parser_expect(parser, ",");
        parser_add(parser, &node->items, parser_target(parser, NULL, false));
        parser_expect(parser, "=");
        parser_add(parser, &node->items, parser_expression(parser, true));
    }
    node->body = parse_block(parser, "endwith");
    return node;
}

/* "(NAME, NAME = DEFAULT, …)" */
static void parse_parameters(struct parser *parser, struct node_macro *macro)
{
    parser_expect(parser, "(");
    while (!parser_sees(parser, ")")) {
        if (macro->n_parameters) parser_expect(parser, ",");
        macro->parameters = task_grow(parser->task, macro->parameters, macro->n_parameters, &macro->capacity,
                                      sizeof *macro->parameters);
        struct node_parameter *parameter = &macro->parameters[macro->n_parameters++];
        parameter->name = parser_name(parser);
        parameter->symbol = parser_symbol(parser, parameter->name);
        if (parser_skip(parser, "="))
            parameter->fallback = parser_expression(parser, true);
        else if (macro->n_parameters > 1 && parameter[-1].fallback)
            task_fail(parser->task, "a parameter without default after one with a default");
    }
    parser_expect(parser, ")");
}

/* The body of a macro up to `end`; what it uses outside of it doesn't count. */
static void parse_macro_body(struct parser *parser, struct node_macro *macro, const char *end)
{
    bool used[SYMBOL_KNOWN];
    size_t loops = parser->loops;
    memcpy(used, parser->used, sizeof used);
    memset(parser->used, 0, sizeof parser->used);
    parser->loops = 0;
    macro->body = parse_block(parser, end);
    macro->uses_caller = parser->used[SYMBOL_CALLER];
    macro->uses_items = parser->used[SYMBOL_ITEMS];
    macro->uses_named = parser->used[SYMBOL_NAMED];
    parser->loops = loops;
    for (size_t i = 0; i < SYMBOL_KNOWN; i++) parser->used[i] = parser->used[i] || used[i];
}

static struct node *parse_macro(struct parser *parser)
{
    struct node *node = parser_node(parser, NODE_MACRO);
    node->macro = task_allocate(parser->task, sizeof *node->macro);
    node->macro->name = parser_name(parser);
    node->symbol = parser_symbol(parser, node->macro->name);
    parse_parameters(parser, node->macro);
    parse_macro_body(parser, node->macro, "endmacro");
    return node;
}

static struct node *parse_call(struct parser *parser)
{
    struct node *node = parser_node(parser, NODE_CALL_BLOCK);
    node->macro = task_allocate(parser->task, sizeof *node->macro);
    node->macro->name = text_constant(parser->task, "caller");
    if (parser_sees(parser, "(")) parse_parameters(parser, node->macro);
    node->a = parser_expression(parser, true);
    if (node->a->kind != NODE_CALL) task_fail(parser->task, "expected call");
    parse_macro_body(parser, node->macro, "endcall");
    return node;
}

static struct node *parse_filter_block(struct parser *parser)
{
    struct node *node = parser_node(parser, NODE_FILTER_BLOCK);
    node->a = parser_filters(parser, NULL, true);
    node->body = parse_block(parser, "endfilter");
    return node;
}

static struct node *parse_generation(struct parser *parser)
{
    struct node *node = parser_node(parser, NODE_SCOPE);
    size_t loops = parser->loops;
    parser->loops = 0;
    node->body = parse_block(parser, "endgeneration");
    parser->loops = loops;
    return node;
}

/* {% print a, b %} prints each. */
static struct node *parse_print(struct parser *parser)
{
    struct node *node = parser_node(parser, NODE_JOIN), *print = parser_node(parser, NODE_PRINT);
    while (parser->token->kind != TOKEN_BLOCK_END) {
        if (node->items.count) parser_expect(parser, ",");
        parser_add(parser, &node->items, parser_child(parser, node, parser_expression(parser, true)));
    }
    print->a = node;
    return print;
}

/* {% autoescape false %}: nothing is ever escaped here. */
static struct node *parse_autoescape(struct parser *parser)
{
    struct node *node = parser_node(parser, NODE_SCOPE);
    struct node *on = parser_expression(parser, true);
    if (on->kind != NODE_CONSTANT || value_truth(on->value))
        task_fail(parser->task, "escaping of HTML is not supported: only {%% autoescape false %%}");
    node->body = parse_block(parser, "endautoescape");
    return node;
}

static struct node *parse_jump(struct parser *parser, enum node_kind kind, const char *name)
{
    if (!parser->loops) task_fail(parser->task, "'%s' outside of a loop", name);
    return parser_node(parser, kind);
}

static struct node *parse_statement(struct parser *parser)
{
    static const char *const missing[] = {"block", "extends", "include", "import",
                                          "from",  "do",      "trans",   NULL};
    const struct token *token = parser->token;
    if (sees_one_of(parser, missing))
        task_fail(parser->task, "the tag '%.*s' is not supported", TEXT_SHOWN(token->text));
    if (parser_skip_name(parser, "if")) return parse_if(parser);
    if (parser_skip_name(parser, "for")) return parse_for(parser);
    if (parser_skip_name(parser, "set")) return parse_set(parser);
    if (parser_skip_name(parser, "with")) return parse_with(parser);
    if (parser_skip_name(parser, "macro")) return parse_macro(parser);
    if (parser_skip_name(parser, "call")) return parse_call(parser);
    if (parser_skip_name(parser, "filter")) return parse_filter_block(parser);
    if (parser_skip_name(parser, "generation")) return parse_generation(parser);
    if (parser_skip_name(parser, "print")) return parse_print(parser);
    if (parser_skip_name(parser, "autoescape")) return parse_autoescape(parser);
    if (parser_skip_name(parser, "break")) return parse_jump(parser, NODE_BREAK, "break");
    if (parser_skip_name(parser, "continue")) return parse_jump(parser, NODE_CONTINUE, "continue");
    if (token->kind != TOKEN_NAME) parser_fail(parser);
    task_fail(parser->task, "unknown tag '%.*s'", TEXT_SHOWN(token->text));
}

struct syntax *syntax_parse(struct task *task, const char *source, size_t length)
{
    static const char *const known[SYMBOL_KNOWN] = {"loop", "caller", "varargs", "kwargs"};
    struct parser parser = {.task = task};
    size_t count;
    parser.syntax = task_allocate(task, sizeof *parser.syntax);
    parser.syntax->symbols = dict_create(task);
    for (size_t i = 0; i < SYMBOL_KNOWN; i++) parser_symbol(&parser, text_constant(task, known[i]));
    parser.token = lexer_read(task, source, length, &count);
    task->line = 1;
    parser.syntax->body = parse_body(&parser, NULL);
    if (parser.unknown) {
        task->line = parser.unknown->line;
        task_fail(task, "No %s named '%.*s'.", parser.unknown->kind == NODE_FILTER ? "filter" : "test",
                  TEXT_SHOWN(parser.unknown->text));
    }
    return parser.syntax;
}
