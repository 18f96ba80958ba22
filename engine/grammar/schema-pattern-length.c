/* schema-pattern-length.c: the strings of a regular expression that have so many characters at least and at
 * most.
 *
 * The expression becomes a graph: a node for each character in it, which is followed by others. A rule stands
 * for "this node's character was the last one, and so many have come". */
#include <stdlib.h>

#include "base/error.h"
#include "grammar/schema.h"

#define MAX_NODES  20000
#define MAX_STEPS  150000 /* from one rule to another */
#define MAX_LENGTH 1000000

enum graph_kind {
    GRAPH_END,
    GRAPH_CHARACTER, /* rule a, then b */
    GRAPH_FORK       /* a or b */
};

struct graph_node {
    enum graph_kind kind;
    uint32_t a, b;
    uint32_t seen; /* the last round of follow that came here */
};

/* The rule of what comes after a character that was the last of `length`. */
struct length_rule {
    uint32_t node, length; /* node 0: free */
    uint32_t rule;
};

struct graph {
    struct schema_reader *reader;
    struct exprs *exprs;
    struct graph_node *nodes; /* [n_nodes]; node 0 is the end */
    size_t n_nodes, node_capacity;
    uint32_t round;
    uint32_t *work, *found; /* [n_nodes] for follow */
    size_t n_found;
    bool ends;
    uint32_t least, most, cap; /* lengths are told apart up to `cap` */
    struct length_rule *table; /* [n_table] */
    size_t n_table, n_rules;
    struct graph_task {
        uint32_t node, length, rule;
    } * tasks; /* [n_tasks] rules to be defined */
    size_t n_tasks, task_capacity, n_steps;
};

static uint32_t too_large(struct graph *graph)
{
    return schema_refuse(
        graph->reader,
        "\"minLength\" and \"maxLength\" are not supported beside a \"pattern\" or \"format\" "
        "as long as this: put the length into the pattern, such as {%u,%u}",
        graph->least, graph->most == EXPR_NO_LIMIT ? graph->least + 100 : graph->most);
}

/* ---- The graph ---- */

static uint32_t graph_add_node(struct graph *graph, enum graph_kind kind, uint32_t a, uint32_t b)
{
    if (graph->n_nodes >= MAX_NODES) return too_large(graph);
    if (!GRAMMAR_RESERVE(&graph->exprs->status, graph->nodes, graph->node_capacity, graph->n_nodes + 1))
        return 0;
    graph->nodes[graph->n_nodes] = (struct graph_node){.kind = kind, .a = a, .b = b};
    return (uint32_t)graph->n_nodes++;
}

static uint32_t graph_add_expr(struct graph *graph, uint32_t at, uint32_t next);

/* A list of parts. */
static uint32_t graph_add_sequence(struct graph *graph, uint32_t at, uint32_t next)
{
    const struct exprs *exprs = graph->exprs;
    size_t count = 0;
    for (uint32_t part = exprs->items[at].first; part; part = exprs->items[part].next) count++;
    uint32_t *parts = calloc(count + 1, sizeof *parts);
    if (!parts) return graph->exprs->status = error_memory("JSON schema"), 0;
    count = 0;
    for (uint32_t part = exprs->items[at].first; part; part = exprs->items[part].next) parts[count++] = part;
    while (count-- > 0 && !exprs->status) next = graph_add_expr(graph, parts[count], next);
    free(parts);
    return next;
}

/* More rounds than characters may come are as good as any number of them: a round without a character adds
 * nothing. */
static uint32_t graph_add_repeat(struct graph *graph, const struct expr *repeat, uint32_t next)
{
    uint32_t least = repeat->a, most = repeat->b, part = repeat->first;
    if (graph->most != EXPR_NO_LIMIT && most > graph->most) most = EXPR_NO_LIMIT;
    if (graph->most != EXPR_NO_LIMIT && least > graph->most) least = graph->most + 1;
    uint32_t from = next;
    if (most == EXPR_NO_LIMIT) {
        from = graph_add_node(graph, GRAPH_FORK, 0, next);
        uint32_t round = graph_add_expr(graph, part, from);
        if (graph->exprs->status) return 0;
        graph->nodes[from].a = round;
        if (least > 0) from = round, least--;
    } else {
        for (uint32_t i = least; i < most && !graph->exprs->status; i++)
            from = graph_add_node(graph, GRAPH_FORK, graph_add_expr(graph, part, from), next);
    }
    for (uint32_t i = 0; i < least && !graph->exprs->status; i++) from = graph_add_expr(graph, part, from);
    return from;
}

/* The node where an expression begins that `next` comes after. */
static uint32_t graph_add_expr(struct graph *graph, uint32_t at, uint32_t next)
{
    const struct expr expr = graph->exprs->items[at]; /* a copy: the table may move */
    if (!exprs_spend(graph->exprs, 1)) return 0;
    switch (expr.kind) {
    case EXPR_RULE: return graph_add_node(graph, GRAPH_CHARACTER, expr.a, next);
    case EXPR_SEQ: return graph_add_sequence(graph, at, next);
    case EXPR_REPEAT: return graph_add_repeat(graph, &expr, next);
    case EXPR_ALT: {
        uint32_t from = graph_add_expr(graph, expr.first, next);
        for (uint32_t part = graph->exprs->items[expr.first].next; part && !graph->exprs->status;
             part = graph->exprs->items[part].next)
            from = graph_add_node(graph, GRAPH_FORK, from, graph_add_expr(graph, part, next));
        return from;
    }
    default: return next; /* empty */
    }
}

/* The characters that may come at a node, and whether nothing need come. */
static void graph_follow(struct graph *graph, uint32_t from)
{
    size_t n_work = 0;
    graph->round++;
    graph->n_found = 0;
    graph->ends = false;
    graph->nodes[from].seen = graph->round;
    graph->work[n_work++] = from;
    while (n_work > 0 && exprs_spend(graph->exprs, 1)) {
        const struct graph_node *node = &graph->nodes[graph->work[--n_work]];
        if (node->kind == GRAPH_END) graph->ends = true;
        if (node->kind == GRAPH_CHARACTER) graph->found[graph->n_found++] = (uint32_t)(node - graph->nodes);
        if (node->kind != GRAPH_FORK) continue;
        const uint32_t next[] = {node->b, node->a};
        for (size_t i = 0; i < 2; i++)
            if (graph->nodes[next[i]].seen != graph->round) {
                graph->nodes[next[i]].seen = graph->round;
                graph->work[n_work++] = next[i];
            }
    }
}

/* ---- Rules ---- */

static struct length_rule *find_rule(const struct graph *graph, uint32_t node, uint32_t length)
{
    uint64_t hash = ((uint64_t)node << 32 | length) * 0x9e3779b97f4a7c15u;
    size_t mask = graph->n_table - 1, at = (size_t)(hash >> 32) & mask;
    while (graph->table[at].node && (graph->table[at].node != node || graph->table[at].length != length))
        at = (at + 1) & mask;
    return &graph->table[at];
}

static bool grow_length_table(struct graph *graph)
{
    struct length_rule *old = graph->table;
    size_t n_old = graph->n_table;
    if (graph->n_rules * 2 < n_old) return true;
    graph->n_table = n_old ? n_old * 2 : 256;
    graph->table = calloc(graph->n_table, sizeof *graph->table);
    if (!graph->table) {
        graph->table = old;
        graph->n_table = n_old;
        graph->exprs->status = error_memory("JSON schema");
        return false;
    }
    for (size_t i = 0; i < n_old; i++)
        if (old[i].node) *find_rule(graph, old[i].node, old[i].length) = old[i];
    free(old);
    return true;
}

/* The rule of what comes after a character that was the last of `length`. */
static uint32_t rule_after(struct graph *graph, uint32_t at, uint32_t length)
{
    int *status = &graph->exprs->status;
    if (!grow_length_table(graph)) return 0;
    struct length_rule *rule = find_rule(graph, at, length);
    if (!rule->node && GRAMMAR_RESERVE(status, graph->tasks, graph->task_capacity, graph->n_tasks + 1)) {
        *rule = (struct length_rule){at, length, expr_rule_new(graph->exprs, "length")};
        graph->tasks[graph->n_tasks++] = (struct graph_task){graph->nodes[at].b, length, rule->rule};
        graph->n_rules++;
    }
    return rule->rule;
}

/* What may come at a node after `length` characters. */
static uint32_t rest_from(struct graph *graph, uint32_t at, uint32_t length)
{
    struct exprs *exprs = graph->exprs;
    uint32_t list = expr_alt(exprs), next = length < graph->cap ? length + 1 : graph->cap;
    graph_follow(graph, at);
    if (graph->ends && length >= graph->least) expr_add(exprs, list, expr_text(exprs, ""));
    for (size_t i = 0; i < graph->n_found && length < graph->most && !exprs->status; i++) {
        if (++graph->n_steps > MAX_STEPS) return too_large(graph);
        uint32_t character = graph->nodes[graph->found[i]].a;
        uint32_t rule = rule_after(graph, graph->found[i], next);
        expr_add(exprs, list, EXPR_SEQ_OF(exprs, expr_rule(exprs, character), expr_rule(exprs, rule)));
    }
    return list;
}

uint32_t schema_pattern_between(struct schema_reader *reader, const char *pattern, size_t length,
                                uint32_t least, uint32_t most)
{
    struct graph graph = {.reader = reader,
                          .exprs = reader->exprs,
                          .least = least,
                          .most = most,
                          .cap = most == EXPR_NO_LIMIT ? least : most};
    uint32_t found = 0;
    if (graph.cap > MAX_LENGTH) return too_large(&graph);
    struct pattern read = schema_pattern_of_rules(reader, pattern, length);
    graph_add_node(&graph, GRAPH_END, 0, 0);
    uint32_t start = graph.exprs->status ? 0 : graph_add_expr(&graph, read.expr, 0);
    graph.work = calloc(graph.n_nodes + 1, sizeof *graph.work);
    graph.found = calloc(graph.n_nodes + 1, sizeof *graph.found);
    if ((!graph.work || !graph.found) && !graph.exprs->status)
        graph.exprs->status = error_memory("JSON schema");
    if (!graph.exprs->status) found = rest_from(&graph, start, 0);
    while (graph.n_tasks > 0 && !graph.exprs->status) {
        struct graph_task task = graph.tasks[--graph.n_tasks];
        if (schema_spend(reader, 1))
            expr_define(graph.exprs, task.rule, rest_from(&graph, task.node, task.length));
    }
    free(graph.nodes);
    free(graph.work);
    free(graph.found);
    free(graph.table);
    free(graph.tasks);
    return found;
}
