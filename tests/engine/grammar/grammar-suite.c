/* grammar-suite.c: asks grammars of schemas about the instances of JSON-Schema-Test-Suite: `grammar-suite
 * FILE.json…`, such as those of tests/draft2020-12 of github.com/json-schema-org/JSON-Schema-Test-Suite.
 * Grammars are narrower than schemas by design (docs/grammars.md): properties have an order, which is tried
 * in all ways here, and an object with "properties" has no others. So a valid instance may be counted as
 * narrower. One that is accepted though it is invalid is wrong: it is printed, and makes the status 1. With
 * -v narrower ones are printed too, and why schemas are refused. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/json-read.h"
#include "grammar-fixture.h"

#define MAX_ORDERS 5040

static bool verbose;
static struct counts {
    unsigned right, narrower, wrong, refused; /* instances */
    unsigned schemas, refused_schemas;
} all;

/* ---- Orders of properties ---- */

/* How many there are, of all objects in a value. */
static size_t count_orders(const json_t *value)
{
    const json_t *inner;
    const char *name;
    size_t i = 0, count = 1;
    json_array_foreach(value, i, inner) count *= count_orders(inner);
    i = 0;
    json_object_foreach((json_t *)(size_t)value, name, inner)
    {
        count *= ++i * count_orders(inner);
        if (count > MAX_ORDERS) return MAX_ORDERS;
    }
    return count < MAX_ORDERS ? count : MAX_ORDERS;
}

/* A copy in the order that *number chooses, from which what is used is divided. */
static json_t *in_order(const json_t *value, size_t *number)
{
    const json_t *inner;
    const char *names[64], *name;
    size_t count = 0, i;
    if (json_is_array(value)) {
        json_t *copy = json_array();
        json_array_foreach(value, i, inner) json_array_append_new(copy, in_order(inner, number));
        return copy;
    }
    if (!json_is_object(value)) return json_incref((json_t *)(size_t)value);
    json_object_foreach((json_t *)(size_t)value, name, inner)
    {
        if (count == 64) break;
        names[count++] = name;
    }
    json_t *copy = json_object();
    for (size_t left = count; left > 0; left--) {
        size_t at = *number % left;
        *number /= left;
        json_object_set_new(copy, names[at], in_order(json_object_get(value, names[at]), number));
        memmove(names + at, names + at + 1, (left - 1 - at) * sizeof *names);
    }
    return copy;
}

static bool takes(struct grammar *grammar, const json_t *value)
{
    size_t n = count_orders(value);
    bool fits = false;
    for (size_t i = 0; i < n && !fits; i++) {
        size_t number = i;
        json_t *ordered = in_order(value, &number);
        for (size_t digits = 15; digits <= 17 && !fits; digits++) {
            char *text = json_dumps(ordered, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
            fits = grammar_takes(grammar, text);
            free(text);
        }
        json_decref(ordered);
    }
    return fits;
}

/* ---- The suite ---- */

static void say(const char *what, const char *path, const json_t *group, const json_t *test)
{
    char *schema = json_dumps(json_object_get(group, "schema"), JSON_COMPACT | JSON_ENCODE_ANY),
         *data = test ? json_dumps(json_object_get(test, "data"), JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    printf("%s: %s: %s\n  %s\n  %s\n", what, path, json_string_value(json_object_get(group, "description")),
           schema, data ? data : error_message());
    free(schema);
    free(data);
}

static void try_group(const char *path, const json_t *group)
{
    char *schema = json_dumps(json_object_get(group, "schema"), JSON_COMPACT | JSON_ENCODE_ANY);
    const json_t *tests = json_object_get(group, "tests"), *test;
    struct grammar *grammar = NULL;
    size_t i;
    int status = grammar_create(grammar_bytes(), GRAMMAR_SCHEMA, schema, strlen(schema), &grammar);
    bool never = status && strstr(error_message(), "no text of finite length");
    free(schema);
    all.schemas++;
    if (status && !never) {
        if (verbose) say("refused", path, group, NULL);
        all.refused_schemas++;
        all.refused += (unsigned)json_array_size(tests);
        return;
    }
    json_array_foreach(tests, i, test)
    {
        bool valid = json_is_true(json_object_get(test, "valid"));
        bool fits = !never && takes(grammar, json_object_get(test, "data"));
        all.right += fits == valid;
        all.narrower += valid && !fits;
        all.wrong += fits && !valid;
        if (fits && !valid) say("wrong", path, group, test);
        if (valid && !fits && verbose) say("narrower", path, group, test);
    }
    grammar_destroy(grammar);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        json_error_t error;
        const json_t *group;
        size_t j;
        if (!strcmp(argv[i], "-v")) {
            verbose = true;
            continue;
        }
        FILE *file = fopen(argv[i], "rb");
        char *text = calloc(1, 1 << 22);
        size_t length = file && text ? fread(text, 1, (1 << 22) - 1, file) : 0;
        json_t *groups = json_read(text, length, JSON_ALLOW_NUL, &error);
        if (file) fclose(file);
        free(text);
        if (!groups) {
            fprintf(stderr, "grammar-suite: %s: %s\n", argv[i], error.text);
            return 2;
        }
        json_array_foreach(groups, j, group) try_group(argv[i], group);
        json_decref(groups);
    }
    printf("%u instances right, %u valid ones rejected, %u invalid ones accepted, %u of refused schemas (%u "
           "of %u)\n",
           all.right, all.narrower, all.wrong, all.refused, all.refused_schemas, all.schemas);
    return all.wrong > 0;
}
