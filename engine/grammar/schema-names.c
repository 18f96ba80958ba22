/* schema-names.c: strings other than some, for properties that have no name in the schema and for "not".
 *
 * The names are a tree by their characters. At each place another character may come, and then anything. Each
 * character is written in one way only, so that no escape hides a name. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "grammar/pattern.h"

#define NAME_WORK 20 /* for each character of a name, as schema_spend counts */

/* Names [first, end), sorted, whose first `at` bytes are the same and have been written; `rule` is for the rest. */
struct name_task {
    size_t first, end, at;
    uint32_t rule;
};

struct name_tree {
    struct schema_reader *reader;
    const struct schema_name *names; /* sorted */
    struct name_task *tasks;         /* [n_tasks] what is still to be defined */
    size_t n_tasks;
};

static int by_name(const void *left, const void *right)
{
    const struct schema_name *a = left, *b = right;
    size_t length = a->length < b->length ? a->length : b->length;
    int order = length > 0 ? memcmp(a->text, b->text, length) : 0;
    return order ? order : (a->length > b->length) - (a->length < b->length);
}

/* What may come after the beginning that the names of a task share: a task for each of their next characters. */
static uint32_t rest_of(struct name_tree *tree, struct name_task task)
{
    const struct schema_name *names = tree->names;
    struct exprs *exprs = tree->reader->exprs;
    bool whole = false, beginning = false;
    size_t i = task.first, n_taken = 0;
    for (; i < task.end && names[i].length == task.at; i++) {
        whole = true;
        beginning |= names[i].beginning;
    }
    if (beginning) return expr_never(exprs);
    struct char_range *taken = calloc(task.end - task.first + 1, sizeof *taken);
    if (!taken) {
        exprs->status = error_memory("JSON schema");
        return 0;
    }
    uint32_t list = expr_alt(exprs);
    if (!whole) expr_add(exprs, list, expr_text(exprs, ""));
    while (i < task.end && !exprs->status) {
        const struct schema_name *name = &names[i];
        uint32_t character;
        size_t size = expr_read_utf8(name->text + task.at, name->length - task.at, &character), end = i + 1;
        while (end < task.end && names[end].length >= task.at + size &&
               !memcmp(names[end].text + task.at, name->text + task.at, size))
            end++;
        taken[n_taken++] = (struct char_range){character, character};
        struct name_task below = {i, end, task.at + size, expr_rule_new(exprs, "other-name")};
        tree->tasks[tree->n_tasks++] = below;
        expr_add(exprs, list,
                 EXPR_SEQ_OF(exprs, schema_characters(tree->reader, &taken[n_taken - 1], 1, false, true),
                             expr_rule(exprs, below.rule)));
        i = end;
    }
    expr_add(exprs, list,
             EXPR_SEQ_OF(exprs, schema_characters(tree->reader, taken, n_taken, true, false),
                         expr_repeat(exprs, schema_character(tree->reader, true), 0, EXPR_NO_LIMIT)));
    free(taken);
    return list;
}

uint32_t schema_other_string(struct schema_reader *reader, struct schema_name *names, size_t count)
{
    struct exprs *exprs = reader->exprs;
    size_t total = 1;
    for (size_t i = 0; i < count; i++) total += names[i].length + 1;
    struct name_tree tree = {
        .reader = reader, .names = names, .tasks = calloc(total + 1, sizeof *tree.tasks)};
    uint32_t rule = expr_rule_new(exprs, "other-name");
    if (!tree.tasks) {
        exprs->status = error_memory("JSON schema");
        return 0;
    }
    qsort(names, count, sizeof *names, by_name);
    tree.tasks[tree.n_tasks++] = (struct name_task){0, count, 0, rule};
    while (tree.n_tasks > 0 && !exprs->status) {
        struct name_task task = tree.tasks[--tree.n_tasks];
        if (schema_spend(reader, NAME_WORK + task.end - task.first))
            expr_define(exprs, task.rule, rest_of(&tree, task));
    }
    free(tree.tasks);
    return EXPR_SEQ_OF(exprs, expr_text(exprs, "\""), expr_rule(exprs, rule), expr_text(exprs, "\""));
}
