/* parser-expression.c: tokens to a tree: expressions, by Jinja's precedences (syntax.h). */
#include "template/machine.h"

/* The same text, which nothing is appended to in place: the tree is read by several threads. */
static const struct text *sealed(struct parser *parser, const struct text *text)
{
    return text_make(parser->task, text->bytes, text->length, false);
}

/* A node of two children. */
static struct node *pair_node(struct parser *parser, enum node_kind kind, int line, struct node *a,
                              struct node *b)
{
    struct node *node = parser_node(parser, kind);
    node->line = line;
    node->a = parser_child(parser, node, a);
    node->b = parser_child(parser, node, b);
    return node;
}

static void add_child(struct parser *parser, struct node *node, struct node *child)
{
    parser_add(parser, &node->items, parser_child(parser, node, child));
}

/* ---- Calls, filters, tests ----------------------------------------------------------------------------- */

static bool sees_named(const struct parser *parser)
{
    const struct token *next = parser->token + 1;
    return parser->token->kind == TOKEN_NAME && next->kind == TOKEN_OPERATOR && text_is(next->text, "=");
}

/* "(…)" as arguments of `node`. */
static struct node_call *parse_arguments(struct parser *parser, struct node *node)
{
    struct node_call *call = task_allocate(parser->task, sizeof *call);
    parser_expect(parser, "(");
    bool first = true;
    while (!parser_sees(parser, ")")) {
        if (!first) {
            parser_expect(parser, ",");
            if (parser_sees(parser, ")")) break;
        }
        first = false;
        if (parser_sees(parser, "*") || parser_sees(parser, "**")) {
            bool named = parser_sees(parser, "**");
            struct node **target = named ? &call->more_named : &call->more_items;
            if (*target || (!named && call->more_named)) parser_fail(parser);
            parser_skip(parser, named ? "**" : "*");
            *target = parser_child(parser, node, parser_expression(parser, true));
        } else if (sees_named(parser)) {
            if (call->more_named) parser_fail(parser);
            call->named = task_grow(parser->task, call->named, call->n_named, &call->named_capacity,
                                    sizeof *call->named);
            struct node_named *argument = &call->named[call->n_named++];
            argument->name = parser_name(parser);
            parser_expect(parser, "=");
            argument->value = parser_child(parser, node, parser_expression(parser, true));
        } else {
            if (call->n_named || call->more_items || call->more_named) parser_fail(parser);
            parser_add(parser, &call->items, parser_child(parser, node, parser_expression(parser, true)));
        }
    }
    parser_expect(parser, ")");
    return call;
}

static struct node *parse_call(struct parser *parser, struct node *called)
{
    struct node *node = parser_node(parser, NODE_CALL);
    node->a = parser_child(parser, node, called);
    node->call = parse_arguments(parser, node);
    return node;
}

/* "a" or "a.b". */
static const struct text *dotted_name(struct parser *parser)
{
    const struct text *name = parser_name(parser);
    while (parser_skip(parser, ".")) {
        name = text_join(parser->task, name, text_constant(parser->task, "."));
        name = text_join(parser->task, name, parser_name(parser));
    }
    return sealed(parser, name);
}

struct node *parser_filters(struct parser *parser, struct node *node, bool first)
{
    while (first || parser_skip(parser, "|")) {
        struct node *filter = parser_node(parser, NODE_FILTER);
        filter->text = dotted_name(parser);
        parser_note_unknown(parser, filter, builtin_has_filter(filter->text));
        filter->a = parser_child(parser, filter, node);
        if (parser_sees(parser, "("))
            filter->call = parse_arguments(parser, filter);
        else
            filter->call = task_allocate(parser->task, sizeof *filter->call);
        node = filter;
        first = false;
    }
    return node;
}

static struct node *parse_primary(struct parser *parser);
static struct node *parse_postfix(struct parser *parser, struct node *node);

/* After "is". */
static struct node *parse_test(struct parser *parser, struct node *tested)
{
    bool negated = parser_skip_name(parser, "not");
    struct node *node = parser_node(parser, NODE_TEST);
    node->a = parser_child(parser, node, tested);
    node->text = dotted_name(parser);
    parser_note_unknown(parser, node, builtin_has_test(node->text));
    enum token_kind kind = parser->token->kind;
    bool ends =
        parser_sees_name(parser, "else") || parser_sees_name(parser, "or") || parser_sees_name(parser, "and");
    node->call = task_allocate(parser->task, sizeof *node->call);
    if (parser_sees(parser, "(")) {
        node->call = parse_arguments(parser, node);
    } else if (parser_sees_name(parser, "is")) {
        task_fail(parser->task, "tests with 'is' can't be chained");
    } else if (((kind == TOKEN_NAME && !ends && !parser_sees_name(parser, "if")) || kind == TOKEN_STRING ||
                kind == TOKEN_NUMBER || parser_sees(parser, "[") || parser_sees(parser, "{"))) {
        parser_add(parser, &node->call->items,
                   parser_child(parser, node, parse_postfix(parser, parse_primary(parser))));
    }
    return negated ? pair_node(parser, NODE_NOT, node->line, node, NULL) : node;
}

/* ---- Values -------------------------------------------------------------------------------------------- */

static struct node *constant_node(struct parser *parser, struct value value)
{
    struct node *node = parser_node(parser, NODE_CONSTANT);
    node->value = value;
    return node;
}

static struct node *parse_name(struct parser *parser)
{
    struct node *node = parser_node(parser, NODE_NAME);
    node->text = parser_name(parser);
    if (text_is(node->text, "true") || text_is(node->text, "True"))
        return constant_node(parser, value_boolean(true));
    if (text_is(node->text, "false") || text_is(node->text, "False"))
        return constant_node(parser, value_boolean(false));
    if (text_is(node->text, "none") || text_is(node->text, "None"))
        return constant_node(parser, value_none());
    node->symbol = parser_symbol(parser, node->text);
    return node;
}

static void skip_token(struct parser *parser)
{
    parser->token++;
    parser->task->line = parser->token->line;
}

static struct node *parse_string(struct parser *parser)
{
    const struct text *text = parser->token->text;
    struct node *node = constant_node(parser, value_text(text));
    for (skip_token(parser); parser->token->kind == TOKEN_STRING; skip_token(parser))
        text = text_join(parser->task, text, parser->token->text);
    node->value = value_text(sealed(parser, text));
    return node;
}

static struct node *parse_list(struct parser *parser)
{
    struct node *node = parser_node(parser, NODE_LIST);
    parser_expect(parser, "[");
    while (!parser_sees(parser, "]")) {
        if (node->items.count) parser_expect(parser, ",");
        if (parser_sees(parser, "]")) break;
        add_child(parser, node, parser_expression(parser, true));
    }
    parser_expect(parser, "]");
    return node;
}

static struct node *parse_dict(struct parser *parser)
{
    struct node *node = parser_node(parser, NODE_DICT);
    parser_expect(parser, "{");
    while (!parser_sees(parser, "}")) {
        if (node->items.count) parser_expect(parser, ",");
        if (parser_sees(parser, "}")) break;
        add_child(parser, node, parser_expression(parser, true));
        parser_expect(parser, ":");
        add_child(parser, node, parser_expression(parser, true));
    }
    parser_expect(parser, "}");
    return node;
}

static struct node *parse_primary(struct parser *parser)
{
    struct node *node;
    if (parser->token->kind == TOKEN_NAME) return parse_name(parser);
    if (parser->token->kind == TOKEN_STRING) return parse_string(parser);
    if (parser->token->kind == TOKEN_NUMBER) {
        node = constant_node(parser, parser->token->number);
        skip_token(parser);
        return node;
    }
    if (parser_sees(parser, "[")) return parse_list(parser);
    if (parser_sees(parser, "{")) return parse_dict(parser);
    parser_expect(parser, "(");
    node = parser_tuple(parser, true, NULL, true);
    parser_expect(parser, ")");
    return node;
}

/* One part of "[a, b:c]": an index or a slice, whose NODE_SLICE has no `a` yet. */
static struct node *parse_subscript(struct parser *parser)
{
    struct node *slice = parser_node(parser, NODE_SLICE), *part = NULL;
    bool is_slice = false;
    for (int i = 0; i < 3; i++) {
        part = parser_sees(parser, ":") || parser_sees(parser, "]") || parser_sees(parser, ",")
                   ? NULL
                   : parser_expression(parser, true);
        add_child(parser, slice, part);
        if (i == 2 || !parser_skip(parser, ":")) break;
        is_slice = true;
    }
    if (!is_slice && !part) parser_fail(parser);
    while (is_slice && slice->items.count < 3) add_child(parser, slice, NULL);
    return is_slice ? slice : part;
}

static struct node *parse_brackets(struct parser *parser, struct node *of)
{
    int line = parser->token->line;
    parser_expect(parser, "[");
    struct node *index = parse_subscript(parser);
    if (parser_sees(parser, ",")) {
        struct node *tuple = parser_node(parser, NODE_TUPLE);
        add_child(parser, tuple, index);
        while (parser_skip(parser, ",")) add_child(parser, tuple, parse_subscript(parser));
        for (size_t i = 0; i < tuple->items.count; i++)
            if (tuple->items.items[i]->kind == NODE_SLICE && !tuple->items.items[i]->a)
                task_fail(parser->task, "slices of several dimensions are not supported");
        index = tuple;
    }
    parser_expect(parser, "]");
    if (index->kind == NODE_SLICE && !index->a) {
        index->a = parser_child(parser, index, of);
        return index;
    }
    return pair_node(parser, NODE_ITEM, line, of, index);
}

static struct node *parse_postfix(struct parser *parser, struct node *node)
{
    for (;;) {
        int line = parser->token->line;
        if (parser_skip(parser, ".")) {
            if (parser->token->kind == TOKEN_NUMBER && VALUE_IS(parser->token->number, INTEGER)) {
                struct node *index = constant_node(parser, parser->token->number);
                skip_token(parser);
                node = pair_node(parser, NODE_ITEM, line, node, index);
                continue;
            }
            struct node *attribute = pair_node(parser, NODE_ATTRIBUTE, line, node, NULL);
            attribute->text = parser_name(parser);
            node = attribute;
        } else if (parser_sees(parser, "[")) {
            node = parse_brackets(parser, node);
        } else if (parser_sees(parser, "(")) {
            node = parse_call(parser, node);
        } else {
            return node;
        }
    }
}

/* ---- Operators, from the tightest to the loosest ------------------------------------------------------- */

struct node *parser_unary(struct parser *parser, bool filters)
{
    struct node *node;
    int line = parser->token->line;
    task_enter(parser->task);
    if (parser_skip(parser, "-"))
        node = pair_node(parser, NODE_NEGATIVE, line, parser_unary(parser, false), NULL);
    else if (parser_skip(parser, "+"))
        node = pair_node(parser, NODE_POSITIVE, line, parser_unary(parser, false), NULL);
    else
        node = parse_primary(parser);
    node = parse_postfix(parser, node);
    for (bool more = filters; more;) {
        if (parser_sees(parser, "|"))
            node = parser_filters(parser, node, false);
        else if (parser_skip_name(parser, "is"))
            node = parse_test(parser, node);
        else if (parser_sees(parser, "("))
            node = parse_call(parser, node);
        else
            more = false;
    }
    task_leave(parser->task);
    return node;
}

struct operator_name {
    const char *name;
    enum node_operator op;
};

static const struct operator_name powers[] = {{"**", OPERATOR_POWER}, {NULL, 0}};
static const struct operator_name products[] = {{"*", OPERATOR_MULTIPLY},
                                                {"/", OPERATOR_DIVIDE},
                                                {"//", OPERATOR_FLOOR},
                                                {"%", OPERATOR_MODULO},
                                                {NULL, 0}};
static const struct operator_name sums[] = {{"+", OPERATOR_ADD}, {"-", OPERATOR_SUBTRACT}, {NULL, 0}};
static const struct operator_name comparisons[] = {{"==", OPERATOR_EQUAL},
                                                   {"!=", OPERATOR_UNEQUAL},
                                                   {"<", OPERATOR_LESS},
                                                   {"<=", OPERATOR_LESS_EQUAL},
                                                   {">", OPERATOR_GREATER},
                                                   {">=", OPERATOR_GREATER_EQUAL},
                                                   {NULL, 0}};

static const struct operator_name *skip_operator(struct parser *parser, const struct operator_name *names)
{
    for (; names->name; names++)
        if (parser_skip(parser, names->name)) return names;
    return NULL;
}

/* a op b op c, from left to right. */
static struct node *parse_binary(struct parser *parser, const struct operator_name *names)
{
    struct node *node = names == powers     ? parser_unary(parser, true)
                        : names == products ? parse_binary(parser, powers)
                                            : NULL;
    for (;;) {
        int line = parser->token->line;
        const struct operator_name *found = skip_operator(parser, names);
        if (!found) return node;
        struct node *right = names == powers ? parser_unary(parser, true) : parse_binary(parser, powers);
        node = pair_node(parser, NODE_BINARY, line, node, right);
        node->op = found->op;
    }
}

static struct node *parse_join(struct parser *parser)
{
    struct node *first = parse_binary(parser, products);
    if (!parser_sees(parser, "~")) return first;
    struct node *node = parser_node(parser, NODE_JOIN);
    add_child(parser, node, first);
    while (parser_skip(parser, "~")) add_child(parser, node, parse_binary(parser, products));
    return node;
}

static struct node *parse_sum(struct parser *parser)
{
    struct node *node = parse_join(parser);
    for (;;) {
        int line = parser->token->line;
        const struct operator_name *found = skip_operator(parser, sums);
        if (!found) return node;
        node = pair_node(parser, NODE_BINARY, line, node, parse_join(parser));
        node->op = found->op;
    }
}

static bool skip_comparison(struct parser *parser, enum node_operator *op)
{
    const struct token *next = parser->token + 1;
    const struct operator_name *found = skip_operator(parser, comparisons);
    if (found) {
        *op = found->op;
        return true;
    }
    if (parser_skip_name(parser, "in")) {
        *op = OPERATOR_IN;
        return true;
    }
    if (!parser_sees_name(parser, "not") || next->kind != TOKEN_NAME || !text_is(next->text, "in"))
        return false;
    parser_expect_name(parser, "not");
    parser_expect_name(parser, "in");
    *op = OPERATOR_NOT_IN;
    return true;
}

static struct node *parse_comparison(struct parser *parser)
{
    struct node *first = parse_sum(parser), *node = NULL;
    enum node_operator op;
    size_t count = 0, capacity = 0;
    while (skip_comparison(parser, &op)) {
        if (!node) {
            node = parser_node(parser, NODE_COMPARE);
            add_child(parser, node, first);
        }
        node->operators = task_grow(parser->task, node->operators, count, &capacity, sizeof *node->operators);
        node->operators[count++] = op;
        add_child(parser, node, parse_sum(parser));
    }
    return node ? node : first;
}

static struct node *parse_not(struct parser *parser)
{
    int line = parser->token->line;
    if (!parser_skip_name(parser, "not")) return parse_comparison(parser);
    task_enter(parser->task);
    struct node *node = pair_node(parser, NODE_NOT, line, parse_not(parser), NULL);
    task_leave(parser->task);
    return node;
}

static struct node *parse_and(struct parser *parser)
{
    struct node *node = parse_not(parser);
    for (int line = parser->token->line; parser_skip_name(parser, "and"); line = parser->token->line)
        node = pair_node(parser, NODE_AND, line, node, parse_not(parser));
    return node;
}

static struct node *parse_or(struct parser *parser)
{
    struct node *node = parse_and(parser);
    for (int line = parser->token->line; parser_skip_name(parser, "or"); line = parser->token->line)
        node = pair_node(parser, NODE_OR, line, node, parse_and(parser));
    return node;
}

struct node *parser_expression(struct parser *parser, bool condition)
{
    task_enter(parser->task);
    const struct node *unknown = parser->unknown;
    struct node *node = parse_or(parser);
    while (condition && parser_skip_name(parser, "if")) {
        struct node *choice = parser_node(parser, NODE_CONDITION);
        choice->b = parser_child(parser, choice, node);
        choice->a = parser_child(parser, choice, parse_or(parser));
        if (parser_skip_name(parser, "else"))
            choice->c = parser_child(parser, choice, parser_expression(parser, true));
        parser->unknown = unknown;
        node = choice;
    }
    task_leave(parser->task);
    return node;
}

/* ---- Tuples and targets -------------------------------------------------------------------------------- */

static bool tuple_ends(const struct parser *parser, const char *end)
{
    enum token_kind kind = parser->token->kind;
    return kind == TOKEN_PRINT_END || kind == TOKEN_BLOCK_END || parser_sees(parser, ")") ||
           (end && parser_sees_name(parser, end));
}

struct node *parser_tuple(struct parser *parser, bool condition, const char *end, bool empty)
{
    struct node *tuple = parser_node(parser, NODE_TUPLE);
    bool commas = false;
    while (!tuple_ends(parser, end)) {
        add_child(parser, tuple, parser_expression(parser, condition));
        if (!parser_skip(parser, ",")) break;
        commas = true;
    }
    if (tuple->items.count == 1 && !commas) return tuple->items.items[0];
    if (!tuple->items.count && !empty) parser_fail(parser);
    return tuple;
}

/* A name, or names in brackets. */
static struct node *parse_target(struct parser *parser, bool attributes)
{
    if (parser_skip(parser, "(")) {
        task_enter(parser->task);
        struct node *node = parser_target(parser, NULL, false);
        task_leave(parser->task);
        parser_expect(parser, ")");
        return node;
    }
    struct node *node = parse_name(parser);
    if (node->kind != NODE_NAME) task_fail(parser->task, "can't assign to a constant");
    if (!attributes && node->symbol == SYMBOL_LOOP)
        task_fail(parser->task, "can't assign to special loop variable");
    if (attributes && parser_sees(parser, ".")) return parse_postfix(parser, node);
    return node;
}

struct node *parser_target(struct parser *parser, const char *end, bool attributes)
{
    struct node *tuple = parser_node(parser, NODE_TUPLE);
    bool commas = false;
    while (!tuple_ends(parser, end) && !parser_sees(parser, "=")) {
        struct node *target = parse_target(parser, attributes);
        if (target->kind != NODE_NAME && target->kind != NODE_TUPLE &&
            (target->kind != NODE_ATTRIBUTE || target->a->kind != NODE_NAME))
            task_fail(parser->task, "can't assign to this");
        add_child(parser, tuple, target);
        if (!parser_skip(parser, ",")) break;
        commas = true;
    }
    if (tuple->items.count == 1 && !commas) return tuple->items.items[0];
    if (!tuple->items.count) parser_fail(parser);
    return tuple;
}
