/* expr.c: the expressions of a grammar (internal.h). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"
#include "common/assert.h"
#include "grammar/internal.h"

/* A grammar that needs more than this is no longer one that somebody wrote. */
#define MAX_EXPRS 2000000
#define MAX_RULES 200000

/* ---- Tables ---- */

static void exprs_fail(struct exprs *exprs, int status)
{
    if (!exprs->status) exprs->status = status;
}

static uint32_t expr_append(struct exprs *exprs, enum expr_kind kind, uint32_t a, uint32_t b)
{
    if (!exprs->status && exprs->count >= MAX_EXPRS)
        exprs_fail(exprs,
                   error_raise(ENGINE_ERROR_UNSUPPORTED, "the grammar has more than %d parts", MAX_EXPRS));
    if (!exprs_spend(exprs, 1)) return 0;
    if (!GRAMMAR_RESERVE(&exprs->status, exprs->items, exprs->capacity, exprs->count + 1)) return 0;
    exprs->items[exprs->count] = (struct expr){.kind = kind, .a = a, .b = b};
    return (uint32_t)exprs->count++;
}

void exprs_create(struct exprs *exprs, const char *root, struct effort *effort)
{
    *exprs = (struct exprs){.effort = effort};
    /* Nobody can choose names with the same hash without knowing this. Without it, all goes on. */
    if (getrandom(&exprs->seed, sizeof exprs->seed, GRND_NONBLOCK) != sizeof exprs->seed) exprs->seed = 1;
    expr_append(exprs, EXPR_EMPTY, 0, 0);
    expr_rule_named(exprs, root, strlen(root), 0);
}

void exprs_destroy(struct exprs *exprs)
{
    for (size_t i = 0; i < exprs->n_rules; i++) free(exprs->rules[i].name);
    free(exprs->items);
    free(exprs->rules);
    free(exprs->rule_table);
    free(exprs->bytes);
    free(exprs->ranges);
    *exprs = (struct exprs){0};
}

/* ---- Rules ---- */

/* Each byte has to reach all bits before the next one comes, and the seed has to be known for two names to
 * meet. */
static uint32_t hash_name(uint64_t seed, const char *name, size_t length)
{
    uint64_t hash = seed;
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (unsigned char)name[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    return (uint32_t)hash;
}

static uint32_t *rule_slot(const struct exprs *exprs, const char *name, size_t length)
{
    size_t mask = exprs->n_rule_table - 1, at = hash_name(exprs->seed, name, length) & mask;
    for (; exprs->rule_table[at]; at = (at + 1) & mask) {
        const char *other = exprs->rules[exprs->rule_table[at] - 1].name;
        if (strlen(other) == length && !memcmp(other, name, length)) break;
    }
    return &exprs->rule_table[at];
}

static bool grow_rule_table(struct exprs *exprs)
{
    if (exprs->n_rules * 2 < exprs->n_rule_table) return true;
    uint32_t *old = exprs->rule_table;
    size_t size = exprs->n_rule_table ? exprs->n_rule_table * 2 : 64;
    exprs->rule_table = calloc(size, sizeof *exprs->rule_table);
    if (!exprs->rule_table) {
        exprs->rule_table = old;
        exprs_fail(exprs, error_memory("grammar"));
        return false;
    }
    exprs->n_rule_table = size;
    free(old);
    for (size_t i = 0; i < exprs->n_rules; i++)
        *rule_slot(exprs, exprs->rules[i].name, strlen(exprs->rules[i].name)) = (uint32_t)i + 1;
    return true;
}

uint32_t expr_rule_named(struct exprs *exprs, const char *name, size_t length, uint32_t where)
{
    if (exprs->status || !grow_rule_table(exprs)) return 0;
    uint32_t *slot = rule_slot(exprs, name, length);
    if (*slot) return *slot - 1;
    if (exprs->n_rules >= MAX_RULES) {
        exprs_fail(exprs,
                   error_raise(ENGINE_ERROR_UNSUPPORTED, "the grammar has more than %d rules", MAX_RULES));
        return 0;
    }
    char *copy = strndup(name, length);
    if (!copy) exprs_fail(exprs, error_memory("grammar"));
    if (!GRAMMAR_RESERVE(&exprs->status, exprs->rules, exprs->rule_capacity, exprs->n_rules + 1)) {
        free(copy);
        return 0;
    }
    exprs->rules[exprs->n_rules] = (struct expr_rule){.name = copy, .where = where};
    *slot = (uint32_t)++exprs->n_rules;
    return *slot - 1;
}

/* A space cannot be part of a name in a text, so this one is new. */
uint32_t expr_rule_new(struct exprs *exprs, const char *base)
{
    char name[96];
    int length = snprintf(name, sizeof name, "%.60s %zu", base, exprs->n_rules);
    return expr_rule_named(exprs, name, (size_t)length, 0);
}

void expr_define(struct exprs *exprs, uint32_t rule, uint32_t body)
{
    if (exprs->status) return;
    exprs->rules[rule].body = body;
    exprs->rules[rule].defined = true;
}

/* ---- Expressions ---- */

uint32_t expr_literal(struct exprs *exprs, const char *bytes, size_t length)
{
    if (length == 0) return expr_append(exprs, EXPR_EMPTY, 0, 0);
    if (!exprs_spend(exprs, length / 8)) return 0;
    if (!GRAMMAR_RESERVE(&exprs->status, exprs->bytes, exprs->byte_capacity, exprs->n_bytes + length))
        return 0;
    memcpy(exprs->bytes + exprs->n_bytes, bytes, length);
    exprs->n_bytes += length;
    return expr_append(exprs, EXPR_LITERAL, (uint32_t)(exprs->n_bytes - length), (uint32_t)length);
}

uint32_t expr_text(struct exprs *exprs, const char *text)
{
    return expr_literal(exprs, text, strlen(text));
}

static int by_low(const void *left, const void *right)
{
    uint32_t a = ((const struct char_range *)left)->low, b = ((const struct char_range *)right)->low;
    return (a > b) - (a < b);
}

static void append_range(struct exprs *exprs, uint32_t low, uint32_t high)
{
    if (low > high) return;
    if (GRAMMAR_RESERVE(&exprs->status, exprs->ranges, exprs->range_capacity, exprs->n_ranges + 1))
        exprs->ranges[exprs->n_ranges++] = (struct char_range){low, high};
}

/* Without the surrogates, which UTF-8 doesn't have. */
static void append_characters(struct exprs *exprs, uint32_t low, uint32_t high)
{
    append_range(exprs, low, high < 0xd7ff ? high : 0xd7ff);
    append_range(exprs, low > 0xe000 ? low : 0xe000, high < 0x10ffff ? high : 0x10ffff);
}

uint32_t expr_class(struct exprs *exprs, const struct char_range *ranges, size_t count, bool negated)
{
    if (!exprs_spend(exprs, count)) return 0;
    struct char_range *sorted = calloc(count + 1, sizeof *sorted);
    if (!sorted) {
        exprs_fail(exprs, error_memory("grammar"));
        return 0;
    }
    if (count > 0) memcpy(sorted, ranges, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_low);
    size_t first = exprs->n_ranges;
    uint32_t next = 0; /* the first character after the ranges so far */
    for (size_t i = 0; i < count;) {
        uint32_t low = sorted[i].low, high = sorted[i].high;
        for (i++; i < count && sorted[i].low <= high + 1; i++)
            if (sorted[i].high > high) high = sorted[i].high;
        if (!negated)
            append_characters(exprs, low, high);
        else if (low > next)
            append_characters(exprs, next, low - 1);
        next = high + 1;
    }
    if (negated) append_characters(exprs, next, 0x10ffff);
    free(sorted);
    return expr_append(exprs, EXPR_CLASS, (uint32_t)first, (uint32_t)(exprs->n_ranges - first));
}

uint32_t expr_char(struct exprs *exprs, uint32_t low, uint32_t high)
{
    return expr_class(exprs, &(struct char_range){low, high}, 1, false);
}

uint32_t expr_never(struct exprs *exprs)
{
    return expr_class(exprs, NULL, 0, false);
}

uint32_t expr_rule(struct exprs *exprs, uint32_t rule)
{
    return expr_append(exprs, EXPR_RULE, rule, 0);
}

uint32_t expr_token(struct exprs *exprs, uint32_t token, bool negated)
{
    return expr_append(exprs, EXPR_TOKEN, token, negated);
}

uint32_t expr_repeat(struct exprs *exprs, uint32_t part, uint32_t least, uint32_t most)
{
    uint32_t list = expr_append(exprs, EXPR_REPEAT, least, most);
    expr_add(exprs, list, part);
    return list;
}

uint32_t expr_seq(struct exprs *exprs)
{
    return expr_append(exprs, EXPR_SEQ, 0, 0);
}

uint32_t expr_alt(struct exprs *exprs)
{
    return expr_append(exprs, EXPR_ALT, 0, 0);
}

void expr_add(struct exprs *exprs, uint32_t list, uint32_t part)
{
    if (exprs->status) return;
    struct expr *to = &exprs->items[list];
    ENGINE_ASSERT(list > 0 && list < exprs->count && part > 0 && part < exprs->count);
    ENGINE_ASSERT(to->kind == EXPR_SEQ || to->kind == EXPR_ALT || (to->kind == EXPR_REPEAT && !to->last));
    ENGINE_ASSERT(exprs->items[part].next == 0 && part != to->last /* each is used once */);
    if (to->last)
        exprs->items[to->last].next = part;
    else
        to->first = part;
    to->last = part;
}

uint32_t expr_seq_of(struct exprs *exprs, size_t count, const uint32_t *parts)
{
    uint32_t list = expr_seq(exprs);
    for (size_t i = 0; i < count; i++) expr_add(exprs, list, parts[i]);
    return list;
}

/* ---- UTF-8 ---- */

size_t expr_utf8(uint32_t character, char *bytes)
{
    if (character < 0x80) return bytes[0] = (char)character, 1;
    size_t length = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = length - 1; i > 0; i--, character >>= 6) bytes[i] = (char)(0x80 | (character & 0x3f));
    bytes[0] = (char)(lead[length] | character);
    return length;
}

size_t expr_read_utf8(const char *text, size_t length, uint32_t *character)
{
    const unsigned char *bytes = (const unsigned char *)text;
    if (length == 0) return 0;
    if (bytes[0] < 0x80) return *character = bytes[0], 1;
    size_t size = bytes[0] >= 0xf0 ? 4 : bytes[0] >= 0xe0 ? 3 : 2;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (bytes[0] < 0xc2 || bytes[0] > 0xf4 || size > length) return 0;
    uint32_t value = bytes[0] & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        if ((bytes[i] & 0xc0) != 0x80) return 0;
        value = value << 6 | (bytes[i] & 0x3f);
    }
    if (value < least[size] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return 0;
    return *character = value, size;
}
