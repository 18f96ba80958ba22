/* compile.c: expressions to an automaton.
 *
 * Each expression is compiled with the node that comes after it, so parts are compiled from the last to the
 * first. A class of characters becomes a small tree over the bytes of their UTF-8. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"
#include "common/assert.h"
#include "grammar/internal.h"

#define MAX_NODES   8000000
#define CLASS_STEPS 16 /* that a class takes to compile */
/* Classes worth a table over the vocabulary (token-masks.c): so many characters at least, repeated so often
 * at least, and so many classes. */
#define RUN_CHARACTERS 20
#define RUN_ROUNDS     16
#define MAX_RUNS       16
#define RUN_LOOKS      32 /* expressions among which a class is looked for */

struct compiler {
    const struct exprs *exprs;
    struct automaton *automaton;
    uint32_t *rule_starts; /* [n_rules] forks with one target, which are made first */
    int status;            /* the first error; after that, nothing is added */
    unsigned depth;
};

/* Counts steps; false: no more, or failed before. */
static inline bool compile_spend(struct compiler *compiler, uint64_t steps)
{
    return effort_spend(compiler->exprs->effort, steps, &compiler->status);
}

/* ---- Tables ---- */

enum { NODES, EDGES, TARGETS, CLASSES };

/* Room for `more` items; false: failed, now or before. */
static bool compile_grow(struct compiler *compiler, int which, void **items, size_t count, size_t more,
                         size_t size)
{
    if (!compiler->status && count + more > MAX_NODES)
        compiler->status = error_raise(ENGINE_ERROR_UNSUPPORTED, "the grammar is too large");
    if (!compile_spend(compiler, more)) return false;
    return array_reserve(items, &compiler->automaton->capacities[which], count + more, size) ||
           grammar_lacks_memory(&compiler->status);
}

static uint32_t compile_add_node(struct compiler *compiler, struct node node)
{
    struct automaton *automaton = compiler->automaton;
    if (!compile_grow(compiler, NODES, (void **)&automaton->nodes, automaton->n_nodes, 1, sizeof node))
        return 0;
    if (node.kind != NODE_FORK && node.kind != NODE_LOOP) node.run = NO_CLASS;
    automaton->nodes[automaton->n_nodes] = node;
    return automaton->n_nodes++;
}

/* A node that takes one of the bytes of `edges` [count], sorted. 0: failed, now or before. */
static uint32_t compile_bytes(struct compiler *compiler, const struct byte_edge *edges, size_t count)
{
    struct automaton *automaton = compiler->automaton;
    for (size_t i = 1; i < count; i++) ENGINE_ASSERT(edges[i - 1].high < edges[i].low);
    if (!compile_grow(compiler, EDGES, (void **)&automaton->edges, automaton->n_edges, count, sizeof *edges))
        return 0;
    if (count > 0) memcpy(automaton->edges + automaton->n_edges, edges, count * sizeof *edges);
    uint32_t first = automaton->n_edges;
    automaton->n_edges += (uint32_t)count;
    return compile_add_node(compiler,
                            (struct node){.kind = NODE_BYTES, .first = first, .count = (uint32_t)count});
}

static uint32_t add_targets(struct compiler *compiler, size_t count)
{
    struct automaton *automaton = compiler->automaton;
    if (!compile_grow(compiler, TARGETS, (void **)&automaton->targets, automaton->n_targets, count,
                      sizeof *automaton->targets))
        return 0;
    uint32_t first = automaton->n_targets;
    automaton->n_targets += (uint32_t)count;
    return first;
}

/* A node that goes on with `a` or `b`. */
static uint32_t compile_fork(struct compiler *compiler, uint32_t a, uint32_t b)
{
    uint32_t first = add_targets(compiler, 2);
    if (compiler->status) return 0;
    compiler->automaton->targets[first] = a;
    compiler->automaton->targets[first + 1] = b;
    return compile_add_node(compiler,
                            (struct node){.kind = NODE_FORK, .first = first, .count = 2, .run = NO_CLASS});
}

/* ---- Characters ---- */

/* A class being compiled: its ranges, and nodes for 1 to 3 continuation bytes of any value, made on
 * demand. */
struct class_compiler {
    struct compiler *compiler;
    const struct char_range *ranges;
    size_t count;
    uint32_t next;
    uint32_t any[4];
};

static uint32_t any_tail(struct class_compiler *class, unsigned n)
{
    if (n == 0) return class->next;
    if (!class->any[n]) {
        struct byte_edge edge = {0x80, 0xbf, any_tail(class, n - 1)};
        class->any[n] = compile_bytes(class->compiler, &edge, 1);
    }
    return class->any[n];
}

static void join_edge(struct byte_edge *edges, size_t *count, struct byte_edge edge)
{
    struct byte_edge *last = *count > 0 ? &edges[*count - 1] : NULL;
    if (last && last->target == edge.target && last->high + 1 == edge.low)
        last->high = edge.high;
    else
        edges[(*count)++] = edge;
}

/* Appends edges over bytes low … high, each followed by n continuation bytes; the first stands for the
 * characters from `base` on. */
static void tail_edges(struct class_compiler *class, uint32_t base, unsigned n, unsigned low, unsigned high,
                       struct byte_edge *edges, size_t *count)
{
    uint32_t size = (uint32_t)1 << (6 * n);
    for (unsigned byte = low; byte <= high && !class->compiler->status; byte++, base += size) {
        size_t at = char_ranges_find(class->ranges, class->count, base);
        if (at == class->count || class->ranges[at].low > base + size - 1) continue;
        struct byte_edge edge = {(uint8_t)byte, (uint8_t)byte, 0};
        if (n == 0 || (class->ranges[at].low <= base && class->ranges[at].high >= base + size - 1)) {
            edge.target = any_tail(class, n);
        } else {
            struct byte_edge below[64];
            size_t n_below = 0;
            tail_edges(class, base, n - 1, 0x80, 0xbf, below, &n_below);
            edge.target = compile_bytes(class->compiler, below, n_below);
        }
        join_edge(edges, count, edge);
    }
}

static uint32_t compile_text(struct compiler *compiler, const char *bytes, size_t length, uint32_t next)
{
    for (size_t i = length; i-- > 0;) {
        struct byte_edge edge = {(uint8_t)bytes[i], (uint8_t)bytes[i], next};
        next = compile_bytes(compiler, &edge, 1);
    }
    return next;
}

static uint32_t compile_character(struct compiler *compiler, uint32_t character, uint32_t next)
{
    char bytes[4];
    return compile_text(compiler, bytes, expr_utf8(character, bytes), next);
}

static uint32_t compile_class(struct compiler *compiler, const struct expr *expr, uint32_t next)
{
    if (expr->b == 0) return compile_bytes(compiler, NULL, 0);
    const struct char_range *first = compiler->exprs->ranges + expr->a;
    if (expr->b == 1 && first->low == first->high) return compile_character(compiler, first->low, next);
    if (!compile_spend(compiler, CLASS_STEPS)) return 0;
    struct class_compiler class = {.compiler = compiler, .ranges = first, .count = expr->b, .next = next};
    struct byte_edge edges[256];
    size_t count = 0;
    tail_edges(&class, 0, 0, 0, 0x7f, edges, &count);
    /* No range holds the characters below 0x80 written with two bytes, and so on. */
    tail_edges(&class, 0x80, 1, 0xc2, 0xdf, edges, &count);
    size_t at = char_ranges_find(class.ranges, class.count, 0x800);
    if (at < class.count) {
        struct byte_edge below[64];
        size_t n_below = 0;
        tail_edges(&class, 0x800, 1, 0xa0, 0xbf, below, &n_below);
        if (n_below > 0)
            join_edge(edges, &count, (struct byte_edge){0xe0, 0xe0, compile_bytes(compiler, below, n_below)});
        tail_edges(&class, 0x1000, 2, 0xe1, 0xef, edges, &count);
        n_below = 0;
        tail_edges(&class, 0x10000, 2, 0x90, 0xbf, below, &n_below);
        if (n_below > 0)
            join_edge(edges, &count, (struct byte_edge){0xf0, 0xf0, compile_bytes(compiler, below, n_below)});
        tail_edges(&class, 0x40000, 3, 0xf1, 0xf3, edges, &count);
        n_below = 0;
        tail_edges(&class, 0x100000, 2, 0x80, 0x8f, below, &n_below);
        if (n_below > 0)
            join_edge(edges, &count, (struct byte_edge){0xf4, 0xf4, compile_bytes(compiler, below, n_below)});
    }
    return compile_bytes(compiler, edges, count);
}

/* ---- Runs ---- */

/* The class that an expression is: its own, or that of one of its alternatives. NULL: none has been found
 * among the first `left` expressions. */
static const struct expr *class_of(const struct compiler *compiler, uint32_t at, unsigned *left)
{
    const struct expr *expr = &compiler->exprs->items[at], *best = NULL;
    if (*left == 0) return NULL;
    --*left;
    switch (expr->kind) {
    case EXPR_CLASS: return expr;
    case EXPR_RULE: return class_of(compiler, compiler->exprs->rules[expr->a].body, left);
    case EXPR_SEQ:
        return expr->first && expr->first == expr->last ? class_of(compiler, expr->first, left) : NULL;
    case EXPR_ALT: {
        for (uint32_t part = expr->first; part && !best && *left > 0;
             part = compiler->exprs->items[part].next)
            best = class_of(compiler, part, left);
        return best;
    }
    default: return NULL;
    }
}

static uint16_t run_of(struct compiler *compiler, uint32_t part, uint32_t most)
{
    struct automaton *automaton = compiler->automaton;
    unsigned left = RUN_LOOKS;
    const struct expr *expr = class_of(compiler, part, &left);
    if (!compile_spend(compiler, RUN_LOOKS - left) || !expr || most < RUN_ROUNDS) return NO_CLASS;
    const struct char_range *ranges = compiler->exprs->ranges + expr->a;
    uint64_t total = 0;
    for (uint32_t i = 0; i < expr->b; i++) total += ranges[i].high - ranges[i].low + 1;
    if (total < RUN_CHARACTERS) return NO_CLASS;
    for (uint32_t i = 0; i < automaton->n_classes; i++)
        if (automaton->classes[i].n_ranges == expr->b &&
            !memcmp(automaton->classes[i].ranges, ranges, expr->b * sizeof *ranges))
            return (uint16_t)i;
    if (automaton->n_classes == MAX_RUNS) return NO_CLASS;
    if (!compile_grow(compiler, CLASSES, (void **)&automaton->classes, automaton->n_classes, 1,
                      sizeof *automaton->classes))
        return NO_CLASS;
    automaton->classes[automaton->n_classes] = (struct run_class){ranges, expr->b};
    return (uint16_t)automaton->n_classes++;
}

/* ---- Words ---- */

/* Many words as an automaton that is as small as it can be, such as the values of an "enum".
 *
 * Words are added in order of their bytes. What follows the bytes that a word shares with the next one is
 * complete then, and becomes nodes from the end on, each only if there is no such node yet (Daciuk, Mihov,
 * Watson, Watson: Incremental construction of minimal acyclic finite-state automata, 2000). */

/* A place within the last word: what else may follow there. */
struct place {
    size_t first; /* of its edges, which end where those of the next place begin */
    bool ends;    /* a word ends here */
};

/* A node in the table; 0: free. Its hash stands beside it, because a look at the node itself mostly waits for
 * memory. */
struct known {
    uint32_t node, hash;
};

struct word_compiler {
    struct compiler *compiler;
    uint32_t next;           /* after the words */
    struct place *places;    /* [n_places] one for each byte of the last word, and one more */
    struct byte_edge *edges; /* [n_edges] */
    struct known *table;     /* [n_table] nodes by their edges */
    uint64_t seed;           /* of their hashes */
    size_t n_places, n_edges, n_table, n_known, place_capacity, edge_capacity;
};

static int by_bytes(const void *left, const void *right)
{
    const struct engine_string *a = left, *b = right;
    size_t length = a->length < b->length ? a->length : b->length;
    int order = length > 0 ? memcmp(a->data, b->data, length) : 0;
    return order ? order : (a->length > b->length) - (a->length < b->length);
}

/* The NODE_BYTES of a node that compile_words has made. */
static const struct node *bytes_of(const struct word_compiler *words, uint32_t at)
{
    const struct automaton *automaton = words->compiler->automaton;
    const struct node *node = &automaton->nodes[at];
    return node->kind == NODE_FORK ? &automaton->nodes[automaton->targets[node->first]] : node;
}

/* Targets are consecutive numbers and bytes are few, so each bit has to reach all others: nodes whose hashes
 * lie beside each other would make a search as long as the table. */
static uint32_t hash_edges(uint64_t seed, const struct byte_edge *edges, size_t count, bool ends)
{
    uint64_t hash = seed + ends;
    for (size_t i = 0; i < count; i++) {
        hash ^= (uint64_t)edges[i].target << 16 | (uint64_t)edges[i].low << 8 | edges[i].high;
        hash *= 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    return (uint32_t)hash;
}

static bool grow_words(struct word_compiler *words)
{
    if (words->n_known * 2 < words->n_table) return true;
    size_t size = words->n_table ? words->n_table * 2 : 256;
    struct known *table = calloc(size, sizeof *table);
    if (!table) {
        words->compiler->status = error_memory("grammar");
        return false;
    }
    for (size_t i = 0; i < words->n_table; i++) {
        if (!words->table[i].node) continue;
        size_t at = words->table[i].hash & (size - 1);
        while (table[at].node) at = (at + 1) & (size - 1);
        table[at] = words->table[i];
    }
    free(words->table);
    words->table = table;
    words->n_table = size;
    return true;
}

static bool has_edges(const struct word_compiler *words, uint32_t at, const struct byte_edge *edges,
                      size_t count, bool ends)
{
    const struct automaton *automaton = words->compiler->automaton;
    const struct node *node = bytes_of(words, at);
    const struct byte_edge *others = automaton->edges + node->first;
    bool same = node->count == count && (automaton->nodes[at].kind == NODE_FORK) == ends;
    for (size_t i = 0; i < count && same; i++)
        same = edges[i].low == others[i].low && edges[i].high == others[i].high &&
               edges[i].target == others[i].target;
    return same;
}

/* The node with these edges, after which a word may end. */
static uint32_t node_with(struct word_compiler *words, const struct byte_edge *edges, size_t count, bool ends)
{
    if (count == 0) return words->next;
    if (words->compiler->status || !grow_words(words)) return 0;
    uint32_t hash = hash_edges(words->seed, edges, count, ends);
    size_t mask = words->n_table - 1, at = hash & mask;
    for (; words->table[at].node; at = (at + 1) & mask)
        if (words->table[at].hash == hash && has_edges(words, words->table[at].node, edges, count, ends))
            return words->table[at].node;
    uint32_t made = compile_bytes(words->compiler, edges, count);
    if (ends) made = compile_fork(words->compiler, made, words->next);
    words->table[at] = (struct known){made, hash};
    words->n_known++;
    return made;
}

/* Makes nodes of the places after the first `keep` bytes of `word`, the last one that was added. */
static void close_places(struct word_compiler *words, struct engine_string word, size_t keep)
{
    while (words->n_places > keep + 1 && !words->compiler->status) {
        struct place place = words->places[--words->n_places];
        uint32_t node =
            node_with(words, words->edges + place.first, words->n_edges - place.first, place.ends);
        uint8_t byte = (uint8_t)word.data[words->n_places - 1];
        words->n_edges = place.first;
        struct byte_edge *last = words->n_edges > words->places[words->n_places - 1].first
                                     ? &words->edges[words->n_edges - 1]
                                     : NULL;
        if (last && last->target == node && last->high + 1 == byte)
            last->high = byte;
        else
            words->edges[words->n_edges++] = (struct byte_edge){byte, byte, node};
    }
}

static void add_word(struct word_compiler *words, struct engine_string last, struct engine_string word)
{
    size_t same = 0;
    while (same < last.length && same < word.length && last.data[same] == word.data[same]) same++;
    close_places(words, last, same);
    /* One edge for each open place is enough beside those that are there. */
    if (!GRAMMAR_RESERVE(&words->compiler->status, words->places, words->place_capacity, word.length + 1) ||
        !GRAMMAR_RESERVE(&words->compiler->status, words->edges, words->edge_capacity,
                         words->n_edges + word.length + 1))
        return;
    while (words->n_places <= word.length)
        words->places[words->n_places++] = (struct place){.first = words->n_edges};
    words->places[word.length].ends = true;
}

/* One of `words` [count], which is sorted here, and then `next`. Words that begin alike share their first
 * nodes, and words that end alike their last ones, so that one place in the automaton stands for all of
 * them. */
static uint32_t compile_words(struct compiler *compiler, struct engine_string *list, size_t count,
                              uint32_t next)
{
    struct word_compiler words = {.compiler = compiler, .next = next};
    /* Nobody can choose words whose nodes have the same hash without knowing this. Without it, all goes
     * on. */
    if (getrandom(&words.seed, sizeof words.seed, GRND_NONBLOCK) != sizeof words.seed) words.seed = 1;
    struct engine_string last = {"", 0};
    uint32_t found = 0;
    qsort(list, count, sizeof *list, by_bytes);
    for (size_t i = 0; i < count && !compiler->status; i++) {
        add_word(&words, last, list[i]);
        last = list[i];
    }
    if (!compiler->status) close_places(&words, last, 0);
    if (!compiler->status) found = node_with(&words, words.edges, words.n_edges, words.places[0].ends);
    free(words.places);
    free(words.edges);
    free(words.table);
    return found;
}

/* ---- Expressions ---- */

static uint32_t compile_expr(struct compiler *compiler, uint32_t at, uint32_t next);

static uint32_t compile_sequence(struct compiler *compiler, const uint32_t *parts, uint32_t count,
                                 uint32_t next)
{
    for (uint32_t i = count; i-- > 0 && !compiler->status;) next = compile_expr(compiler, parts[i], next);
    return next;
}

/* Moves the parts that are texts to `words`; returns how many others are left. */
static uint32_t take_words(const struct compiler *compiler, uint32_t *parts, uint32_t count,
                           struct engine_string *words, uint32_t *n_words)
{
    const struct exprs *exprs = compiler->exprs;
    uint32_t left = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct expr *part = &exprs->items[parts[i]];
        while (part->kind == EXPR_SEQ && part->first && part->first == part->last)
            part = &exprs->items[part->first];
        if (part->kind == EXPR_LITERAL)
            words[(*n_words)++] = (struct engine_string){(const char *)exprs->bytes + part->a, part->b};
        else if (part->kind == EXPR_EMPTY || (part->kind == EXPR_SEQ && !part->first))
            words[(*n_words)++] = (struct engine_string){"", 0};
        else
            parts[left++] = parts[i];
    }
    return left;
}

static uint32_t compile_alternatives(struct compiler *compiler, uint32_t *parts, uint32_t count,
                                     uint32_t next)
{
    uint32_t n_words = 0;
    struct engine_string *words = malloc(count * sizeof *words);
    if (!words) {
        compiler->status = error_memory("grammar");
        return 0;
    }
    count = take_words(compiler, parts, count, words, &n_words);
    for (uint32_t i = 0; i < n_words; i++) compile_spend(compiler, 1 + words[i].length);
    for (uint32_t i = 0; i < count && !compiler->status; i++)
        parts[i] = compile_expr(compiler, parts[i], next);
    if (n_words > 0 && !compiler->status) parts[count++] = compile_words(compiler, words, n_words, next);
    free(words);
    if (count == 1 || compiler->status) return parts[0];
    uint32_t first = add_targets(compiler, count);
    if (compiler->status) return 0;
    memcpy(compiler->automaton->targets + first, parts, count * sizeof *parts);
    return compile_add_node(
        compiler, (struct node){.kind = NODE_FORK, .first = first, .count = count, .run = NO_CLASS});
}

static uint32_t compile_list(struct compiler *compiler, const struct expr *expr, uint32_t next)
{
    const struct expr *items = compiler->exprs->items;
    uint32_t count = 0;
    for (uint32_t part = expr->first; part; part = items[part].next) count++;
    if (count == 0 && expr->kind == EXPR_ALT) return compile_bytes(compiler, NULL, 0);
    if (count == 0) return next;
    if (count == 1) return compile_expr(compiler, expr->first, next);
    uint32_t *parts = malloc(count * sizeof *parts);
    if (!parts) {
        compiler->status = error_memory("grammar");
        return 0;
    }
    count = 0;
    for (uint32_t part = expr->first; part; part = items[part].next) parts[count++] = part;
    uint32_t found = expr->kind == EXPR_SEQ ? compile_sequence(compiler, parts, count, next)
                                            : compile_alternatives(compiler, parts, count, next);
    free(parts);
    return found;
}

static uint32_t compile_repeat(struct compiler *compiler, const struct expr *expr, uint32_t next)
{
    uint32_t least = expr->a, most = expr->b;
    if (most == 0) return next;
    if (least == 1 && most == 1) return compile_expr(compiler, expr->first, next);
    if (least == 0 && most == 1)
        return compile_fork(compiler, compile_expr(compiler, expr->first, next), next);
    uint16_t run = run_of(compiler, expr->first, most);
    if (least <= 1 && most == EXPR_NO_LIMIT) {
        uint32_t loop = compile_fork(compiler, 0, next);
        uint32_t part = compile_expr(compiler, expr->first, loop);
        if (compiler->status) return 0;
        compiler->automaton->targets[compiler->automaton->nodes[loop].first] = part;
        compiler->automaton->nodes[loop].run = run;
        return least == 0 ? loop : part;
    }
    uint32_t part = compile_expr(compiler, expr->first, 0);
    return compile_add_node(
        compiler,
        (struct node){
            .kind = NODE_LOOP, .run = run, .first = part, .next = next, .least = least, .most = most});
}

static uint32_t compile_expr(struct compiler *compiler, uint32_t at, uint32_t next)
{
    const struct expr *expr = &compiler->exprs->items[at];
    if (compiler->status) return 0;
    if (++compiler->depth > 4 * EXPR_MAX_DEPTH) {
        compiler->status = error_raise(ENGINE_ERROR_UNSUPPORTED, "the grammar is nested too deep");
        return 0;
    }
    uint32_t found = next;
    switch (expr->kind) {
    case EXPR_EMPTY: break;
    case EXPR_LITERAL:
        found = compile_text(compiler, (const char *)compiler->exprs->bytes + expr->a, expr->b, next);
        break;
    case EXPR_CLASS: found = compile_class(compiler, expr, next); break;
    case EXPR_SEQ:
    case EXPR_ALT: found = compile_list(compiler, expr, next); break;
    case EXPR_REPEAT: found = compile_repeat(compiler, expr, next); break;
    case EXPR_RULE:
        found = compile_add_node(
            compiler,
            (struct node){.kind = NODE_CALL, .first = compiler->rule_starts[expr->a], .next = next});
        break;
    case EXPR_TOKEN:
        found = compile_add_node(
            compiler, (struct node){.kind = NODE_TOKEN, .first = expr->a, .least = expr->b, .next = next});
        break;
    }
    compiler->depth--;
    return found;
}

static void find_groups(struct automaton *automaton)
{
    bool begins[257] = {true};
    for (uint32_t i = 0; i < automaton->n_edges; i++) {
        begins[automaton->edges[i].low] = true;
        begins[automaton->edges[i].high + 1] = true;
    }
    for (unsigned byte = 0; byte < 256; byte++) {
        automaton->n_groups += begins[byte];
        automaton->groups[byte] = (uint8_t)(automaton->n_groups - 1);
    }
}

/* Rules first get a node each, so that calls can be compiled in any order. */
static void compile_rules(struct compiler *compiler)
{
    const struct exprs *exprs = compiler->exprs;
    struct automaton *automaton = compiler->automaton;
    compile_add_node(compiler, (struct node){.kind = NODE_RETURN});
    for (size_t i = 0; i < exprs->n_rules; i++) {
        uint32_t first = add_targets(compiler, 1);
        compiler->rule_starts[i] = compile_add_node(
            compiler, (struct node){.kind = NODE_FORK, .first = first, .count = 1, .run = NO_CLASS});
    }
    for (size_t i = 0; i < exprs->n_rules && !compiler->status; i++) {
        uint32_t body = compile_expr(compiler, exprs->rules[i].body, 0);
        if (!compiler->status) automaton->targets[automaton->nodes[compiler->rule_starts[i]].first] = body;
    }
    automaton->start = compiler->rule_starts[0];
}

int automaton_create(const struct exprs *exprs, struct automaton *automaton)
{
    *automaton = (struct automaton){0};
    struct compiler compiler = {.exprs = exprs, .automaton = automaton};
    compiler.rule_starts = calloc(exprs->n_rules + 1, sizeof *compiler.rule_starts);
    if (!compiler.rule_starts) return error_memory("grammar");
    compile_rules(&compiler);
    if (!compiler.status) compiler.status = automaton_analyse(automaton, exprs, compiler.rule_starts);
    free(compiler.rule_starts);
    if (!compiler.status) {
        find_groups(automaton);
        automaton->ranges = malloc((exprs->n_ranges + 1) * sizeof *automaton->ranges);
        if (!automaton->ranges) compiler.status = error_memory("grammar");
    }
    if (compiler.status) {
        automaton_destroy(automaton);
        return compiler.status;
    }
    /* The expressions may go now. */
    if (exprs->n_ranges > 0)
        memcpy(automaton->ranges, exprs->ranges, exprs->n_ranges * sizeof *automaton->ranges);
    for (uint32_t i = 0; i < automaton->n_classes; i++)
        automaton->classes[i].ranges = automaton->ranges + (automaton->classes[i].ranges - exprs->ranges);
    return ENGINE_OK;
}

void automaton_destroy(struct automaton *automaton)
{
    free(automaton->nodes);
    free(automaton->edges);
    free(automaton->targets);
    free(automaton->ranges);
    free(automaton->classes);
    *automaton = (struct automaton){0};
}
