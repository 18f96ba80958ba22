/* analyse.c: from which nodes a rule's end can be reached, at all and without any text, and whether a rule
 * begins with itself. All in time linear in the automaton, because grammars come from strangers. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "grammar/internal.h"

/* The nodes that depend on each node: a list of lists, in one array. */
struct dependents {
    uint32_t *first; /* [n_nodes + 1] */
    uint32_t *items;
    uint32_t *work; /* [n_nodes] */
};

/* Calls `each` with the nodes that a node depends on. BYTES and TOKEN count only if `consuming`. */
#define EACH_SUCCESSOR(automaton, node, consuming, target, body)                                             \
    switch ((node)->kind) {                                                                                  \
    case NODE_BYTES:                                                                                         \
        for (uint32_t e_ = 0; (consuming) && e_ < (node)->count; e_++) {                                     \
            uint32_t target = (automaton)->edges[(node)->first + e_].target;                                 \
            body;                                                                                            \
        }                                                                                                    \
        break;                                                                                               \
    case NODE_FORK:                                                                                          \
        for (uint32_t e_ = 0; e_ < (node)->count; e_++) {                                                    \
            uint32_t target = (automaton)->targets[(node)->first + e_];                                      \
            body;                                                                                            \
        }                                                                                                    \
        break;                                                                                               \
    case NODE_CALL:                                                                                          \
    case NODE_LOOP: {                                                                                        \
        uint32_t target = (node)->first;                                                                     \
        body;                                                                                                \
        target = (node)->next;                                                                               \
        body;                                                                                                \
        break;                                                                                               \
    }                                                                                                        \
    case NODE_TOKEN:                                                                                         \
        if (consuming) {                                                                                     \
            uint32_t target = (node)->next;                                                                  \
            body;                                                                                            \
        }                                                                                                    \
        break;                                                                                               \
    }

static bool node_holds(const struct automaton *automaton, uint32_t at, bool nullable)
{
    return nullable ? automaton->nodes[at].nullable : automaton->nodes[at].fruitful;
}

/* Whether a node has the property, by what is known of its successors. */
static bool evaluate_node(const struct automaton *automaton, uint32_t at, bool nullable)
{
    const struct node *node = &automaton->nodes[at];
    switch (node->kind) {
    case NODE_RETURN: return true;
    case NODE_CALL:
        return node_holds(automaton, node->first, nullable) && node_holds(automaton, node->next, nullable);
    case NODE_LOOP:
        return (node->least == 0 || node_holds(automaton, node->first, nullable)) &&
               node_holds(automaton, node->next, nullable);
    default:
        EACH_SUCCESSOR(automaton, node, !nullable, target,
                       if (node_holds(automaton, target, nullable)) return true);
    }
    return false;
}

static int make_dependents(const struct automaton *automaton, struct dependents *dependents)
{
    uint32_t n = automaton->n_nodes;
    dependents->first = calloc((size_t)n + 2, sizeof *dependents->first);
    dependents->work = calloc((size_t)n + 1, sizeof *dependents->work);
    if (!dependents->first || !dependents->work) return error_memory("grammar");
    for (uint32_t at = 0; at < n; at++)
        EACH_SUCCESSOR(automaton, &automaton->nodes[at], true, target, dependents->first[target + 2]++);
    for (uint32_t at = 0; at < n; at++) dependents->first[at + 2] += dependents->first[at + 1];
    dependents->items = calloc((size_t)dependents->first[n + 1] + 1, sizeof *dependents->items);
    if (!dependents->items) return error_memory("grammar");
    for (uint32_t at = 0; at < n; at++)
        EACH_SUCCESSOR(automaton, &automaton->nodes[at], true, target,
                       dependents->items[dependents->first[target + 1]++] = at);
    return ENGINE_OK;
}

static void propagate(struct automaton *automaton, const struct dependents *dependents, bool nullable)
{
    uint32_t n_work = 0;
    dependents->work[n_work++] = 0;
    if (nullable)
        automaton->nodes[0].nullable = true;
    else
        automaton->nodes[0].fruitful = true;
    /* Other nodes hold only because of a successor that does, and all chains of successors end in node 0. */
    while (n_work > 0) {
        uint32_t changed = dependents->work[--n_work];
        for (uint32_t i = dependents->first[changed]; i < dependents->first[changed + 1]; i++) {
            uint32_t at = dependents->items[i];
            if (node_holds(automaton, at, nullable) || !evaluate_node(automaton, at, nullable)) continue;
            if (nullable)
                automaton->nodes[at].nullable = true;
            else
                automaton->nodes[at].fruitful = true;
            dependents->work[n_work++] = at;
        }
    }
}

/* ---- Rules that begin with themselves ---- */

/* Tarjan's strongly connected components over the steps that take no text. */
struct search {
    uint32_t *index, *low, *component; /* [n_nodes]; index 0: not seen */
    uint32_t *stack, *path, *edge;     /* [n_nodes]; edge: the next successor of each node on the path */
    uint32_t n_stack, n_path, n_seen;
};

/* The i-th node that may come next without text; UINT32_MAX: there are no more. */
static uint32_t silent_successor(const struct automaton *automaton, uint32_t at, uint32_t i)
{
    const struct node *node = &automaton->nodes[at];
    switch (node->kind) {
    case NODE_FORK: return i < node->count ? automaton->targets[node->first + i] : UINT32_MAX;
    case NODE_CALL:
    case NODE_LOOP: {
        bool over = automaton->nodes[node->first].nullable || (node->kind == NODE_LOOP && node->least == 0);
        return i == 0 ? node->first : i == 1 && over ? node->next : UINT32_MAX;
    }
    default: return UINT32_MAX;
    }
}

static void enter_node(struct search *search, uint32_t at)
{
    search->index[at] = search->low[at] = ++search->n_seen;
    search->stack[search->n_stack++] = at;
    search->edge[search->n_path] = 0;
    search->path[search->n_path++] = at;
}

static void visit_node(const struct automaton *automaton, struct search *search, uint32_t start)
{
    enter_node(search, start);
    while (search->n_path > 0) {
        uint32_t at = search->path[search->n_path - 1];
        uint32_t target = silent_successor(automaton, at, search->edge[search->n_path - 1]++);
        if (target != UINT32_MAX) {
            if (!search->index[target])
                enter_node(search, target);
            else if (!search->component[target] && search->index[target] < search->low[at])
                search->low[at] = search->index[target];
            continue;
        }
        search->n_path--;
        if (search->n_path > 0) {
            uint32_t above = search->path[search->n_path - 1];
            if (search->low[at] < search->low[above]) search->low[above] = search->low[at];
        }
        if (search->low[at] != search->index[at]) continue;
        uint32_t member;
        do {
            member = search->stack[--search->n_stack];
            search->component[member] = at + 1;
        } while (member != at);
    }
}

static int refuse_left_recursion(const struct automaton *automaton, const struct exprs *exprs,
                                 const uint32_t *rule_starts)
{
    uint32_t n = automaton->n_nodes;
    uint32_t *memory = calloc((size_t)n * 6 + 1, sizeof *memory);
    int status = ENGINE_OK;
    if (!memory) return error_memory("grammar");
    struct search search = {.index = memory,
                            .low = memory + n,
                            .component = memory + 2 * (size_t)n,
                            .stack = memory + 3 * (size_t)n,
                            .path = memory + 4 * (size_t)n,
                            .edge = memory + 5 * (size_t)n};
    for (uint32_t at = 0; at < n; at++)
        if (!search.index[at]) visit_node(automaton, &search, at);
    for (uint32_t at = 0; at < n && !status; at++) {
        const struct node *node = &automaton->nodes[at];
        if (node->kind != NODE_CALL || search.component[at] != search.component[node->first]) continue;
        size_t rule = 0;
        while (rule_starts[rule] != node->first) rule++;
        if (exprs->is_schema)
            status =
                error_raise(ENGINE_ERROR_DATA,
                            "JSON schema: a \"$ref\" leads back to its own schema with nothing in between");
        else
            status =
                error_raise(ENGINE_ERROR_DATA,
                            "grammar: the rule \"%.60s\" can begin with itself (left recursion); begin it "
                            "with something else and repeat that",
                            exprs->rules[rule].name);
    }
    free(memory);
    return status;
}

int automaton_analyse(struct automaton *automaton, const struct exprs *exprs, const uint32_t *rule_starts)
{
    struct dependents dependents = {0};
    int status = make_dependents(automaton, &dependents);
    if (!status) {
        propagate(automaton, &dependents, false);
        propagate(automaton, &dependents, true);
    }
    free(dependents.first);
    free(dependents.items);
    free(dependents.work);
    if (!status) status = refuse_left_recursion(automaton, exprs, rule_starts);
    if (!status && !automaton->nodes[automaton->start].fruitful)
        status = error_raise(ENGINE_ERROR_DATA, "%s: no text of finite length fits",
                             exprs->is_schema ? "JSON schema" : "grammar");
    return status;
}
