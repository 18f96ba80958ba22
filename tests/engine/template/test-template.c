/* Templates against what jinja2 made of them (tools/templates/record), limits, and whose each byte is. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "template/template.h"

#define DATA TEST_SOURCE_DIR "/data/templates/"

static json_t *load(const char *name)
{
    char path[512];
    json_error_t error;
    snprintf(path, sizeof path, DATA "%s", name);
    json_t *json = json_load_file(path, JSON_ALLOW_NUL, &error);
    cr_assert(json, "%s: %s, line %d", path, error.text, error.line);
    return json;
}

static char *read_text(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    cr_assert(file, "%s", path);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(*size + 1);
    cr_assert(text && fread(text, 1, *size, file) == *size);
    fclose(file);
    text[*size] = '\0';
    return text;
}

/* Renders with the variables of a JSON object; NULL: it failed, with error_message(). The caller frees it. */
static struct template_output *render(const char *source, size_t length, const char *variables)
{
    struct template *template = NULL;
    struct template_output *output = NULL;
    if (template_create("test", source, length, &template) != ENGINE_OK) return NULL;
    const struct template_variable all[] = {
        {.name = "trusted", .json = {"<|end|>", 7}, .what = "trusted", .trusted = true},
        {.json = {variables, strlen(variables)}, .what = "variables"},
    };
    int status = template_render(template, all, 2, 1753500000, &output);
    template_destroy(template);
    return status == ENGINE_OK ? output : NULL;
}

/* Compares a recorded case; returns whether it is as recorded. */
static bool check(const char *name, const json_t *expected, const char *source, size_t length,
                  const char *variables)
{
    const json_t *text = json_object_get(expected, "text");
    struct template_output *output = render(source, length, variables);
    struct engine_string got = output ? template_output_text(output) : (struct engine_string){"", 0};
    bool good = text ? output && got.length == json_string_length(text) &&
                           memcmp(got.data, json_string_value(text), got.length) == 0
                     : !output;
    if (!good)
        fprintf(stderr, "%s\n  expected: %s%s\n  got: %s%s\n", name,
                text ? json_string_value(text) : "error: ",
                text ? "" : json_string_value(json_object_get(expected, "error")),
                output ? got.data : "error: ", output ? "" : error_message());
    if (!output)
        cr_expect(error_message()[0] && !strchr(error_message(), '\n'), "%s: %s", name, error_message());
    template_output_free(output);
    return good;
}

Test(template, constructs_are_jinjas)
{
    json_t *data = load("constructs.json");
    char *variables = json_dumps(json_object_get(data, "variables"), 0);
    size_t index, wrong = 0;
    json_t *one;
    json_array_foreach(json_object_get(data, "cases"), index, one)
    {
        const json_t *source = json_object_get(one, "template");
        wrong += !check(json_string_value(source), one, json_string_value(source), json_string_length(source),
                        variables);
    }
    cr_expect(index > 200);
    cr_expect(wrong == 0, "%zu of %zu constructs differ", wrong, index);
    free(variables);
    json_decref(data);
}

Test(template, styles_are_jinjas)
{
    json_t *data = load("styles.json");
    size_t index, wrong = 0;
    json_t *one;
    json_array_foreach(json_object_get(data, "cases"), index, one)
    {
        char path[512], name[256];
        size_t size;
        const char *style = json_string_value(json_object_get(one, "style"));
        const char *conversation = json_string_value(json_object_get(one, "conversation"));
        snprintf(path, sizeof path, DATA "%s", style);
        snprintf(name, sizeof name, "%s %s", style, conversation);
        char *source = read_text(path, &size);
        char *variables =
            json_dumps(json_object_get(json_object_get(data, "conversations"), conversation), 0);
        wrong += !check(name, one, source, size, variables);
        free(source);
        free(variables);
    }
    cr_expect(wrong == 0, "%zu of %zu conversations differ", wrong, index);
    json_decref(data);
}

/* What jinja2 refuses in transformers' sandbox, and llama.cpp's templates rely on. */
Test(template, lists_can_grow)
{
    static const char *const cases[][2] = {
        {"{% set n = namespace(ids=[]) %}{% set _ = n.ids.append('a') %}{% set _ = n.ids.append(1) %}"
         "{{ n.ids }}{{ n.ids.pop(0) }}{{ n.ids }}{{ n.ids.pop() }}{{ n.ids }}",
         "['a', 1]a[1]1[]"},
        {"{% set a = [1] %}{% set b = a %}{% set c = a.copy() %}{% set d = a | list %}{% set e = a[:] %}"
         "{% set _ = a.append(2) %}{{ b }}{{ c }}{{ d }}{{ e }}{{ a.pop(-2) }}{{ b }}",
         "[1, 2][1][1][1]1[2]"},
        {"{% set a = [1] %}{% for x in a %}{{ x }}{% if x < 3 %}{% set _ = a.append(x + 1) %}{% endif %}"
         "{% endfor %}",
         "123"},
        {"{% set a = [] %}{{ a.append is defined }}{{ a.pop(0) if a else 'none' }}", "Falsenone"},
        {"{{ [{'f': 1}, {'f': 2}] | map(attribute='f') | tojson }}", "[1, 2]"},
        {"{{ [].pop() }}", NULL},
        {"{{ [1].pop(3) }}", NULL},
        {"{% set a = [] %}{% set _ = a.append(a) %}{{ a }}", NULL},
        {"{% set a = [] %}{% set b = [a] %}{% set _ = a.append(b) %}{{ a == [b] }}{{ a | tojson }}", NULL},
        {"{% set a = [1] %}{% for x in a %}{% set _ = a.append(x) %}{% endfor %}", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct template_output *output = render(cases[i][0], strlen(cases[i][0]), "{}");
        const char *text = output ? template_output_text(output).data : NULL;
        cr_expect((!text && !cases[i][1]) || (text && cases[i][1] && strcmp(text, cases[i][1]) == 0),
                  "%s: %s", cases[i][0], text ? text : error_message());
        template_output_free(output);
    }
}

/* ---- Whose bytes --------------------------------------------------------------------------------------- */

Test(template, knows_whose_each_byte_is)
{
    static const char *const cases[][3] = {
        /* template, text, marks */
        {"a{{ u }}b", "aUSERb", ".uuuu."},
        {"{{ 'x' + u + 'y' }}", "xUSERy", ".uuuu."},
        {"{{ 'x' ~ u ~ 1 }}", "xUSER1", ".uuuu."},
        {"{{ (' ' ~ u ~ ' ') | trim }}", "USER", "uuuu"},
        {"{{ ('<' ~ u ~ '>')[1:3] }}", "US", "uu"},
        {"{{ ('<' ~ u ~ '>')[::-1] }}", ">RESU<", ".uuuu."},
        {"{{ ('<' ~ u ~ '>') | upper | lower }}", "<user>", ".uuuu."},
        {"{{ u.replace('S', '--') }}", "U--ER", "u..uu"},
        {"{{ 'aXb'.replace('X', u) }}", "aUSERb", ".uuuu."},
        {"{{ ('a,' ~ u).split(',')[1] }}", "USER", "uuuu"},
        {"{{ [u, 'x'] | join('|') }}", "USER|x", "uuuu.."},
        {"{{ u | tojson }}", "\"USER\"", ".uuuu."},
        {"{{ [u] }}", "['USER']", "..uuuu.."},
        {"{{ '%s!' % u }}", "USER!", "uuuu."},
        {"{{ '{}!'.format(u) }}", "USER!", "uuuu."},
        {"{{ u | indent(1, true) }}", " USER", ".uuuu"},
        {"{% set x %}[{{ u }}]{% endset %}{{ x }}", "[USER]", ".uuuu."},
        {"{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m(u) }}", "[USER]", ".uuuu."},
        {"{% for c in u %}{{ c }}-{% endfor %}", "U-S-E-R-", "u.u.u.u."},
        {"{{ trusted }}{{ u * 2 }}", "<|end|>USERUSER", ".......uuuuuuuu"},
        {"{% filter lower %}A{{ u }}{% endfilter %}", "auser", ".uuuu"},
        {"{% set ns = namespace(t='') %}{% for i in [1, 2] %}{% set ns.t = ns.t + '<' + u %}{% endfor %}{{ "
         "ns.t }}",
         "<USER<USER", ".uuuu.uuuu"},
        {"{{ {'a': u}.a }}{{ o.k }}{{ o | first }}", "USERvk", "uuuuuu"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct template_output *output =
            render(cases[i][0], strlen(cases[i][0]), "{\"u\": \"USER\", \"o\": {\"k\": \"v\"}}");
        cr_assert(output, "%s: %s", cases[i][0], error_message());
        struct engine_string text = template_output_text(output);
        char marks[64] = "";
        for (size_t k = 0; k < text.length && k < 63; k++)
            marks[k] = template_output_marks(output)[k] ? 'u' : '.';
        cr_expect_str_eq(text.data, cases[i][1], "%s: %s", cases[i][0], text.data);
        cr_expect_str_eq(marks, cases[i][2], "%s: %s, not %s", cases[i][0], marks, cases[i][2]);
        template_output_free(output);
    }
}

Test(template, roles_that_are_words_count_as_the_templates)
{
    struct template *template = NULL;
    struct template_output *output = NULL;
    const char *source = "{% for m in messages %}{{ m.role ~ m.content ~ (m.x or {}).role }}|{% endfor %}";
    const char *json =
        "[{\"role\": \"user\", \"content\": \"u\", \"x\": {\"role\": \"r\"}}, {\"role\": \"a|b\"}]";
    cr_assert(template_create("test", source, strlen(source), &template) == ENGINE_OK);
    const struct template_variable variable = {
        .name = "messages", .json = {json, strlen(json)}, .what = "messages", .word_key = "role"};
    cr_assert(template_render(template, &variable, 1, 1, &output) == ENGINE_OK, "%s", error_message());
    struct engine_string text = template_output_text(output);
    static const char expected[] = "....uu.uuu.";
    cr_assert_str_eq(text.data, "userur|a|b|");
    for (size_t i = 0; i < text.length; i++)
        cr_expect(template_output_marks(output)[i] == (expected[i] == 'u'), "byte %zu", i);
    template_output_free(output);
    template_destroy(template);
}

/* ---- Limits -------------------------------------------------------------------------------------------- */

static void fails(const char *source, size_t length, const char *reason)
{
    struct template_output *output = render(source, length, "{\"x\": 1}");
    cr_expect(!output, "%.80s", source);
    if (!output) cr_expect(strstr(error_message(), reason), "%.80s: %s", source, error_message());
    template_output_free(output);
}

Test(template, hostile_templates_end_with_one_line)
{
    static const char *const cases[][2] = {
        {"\n{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
         "test, line 2: it takes more steps"},
        {"{{ 'x' * 1000000000000 }}", "test, line 1: it takes more"},
        {"{{ [1] * 1000000000000 }}", "it takes more"},
        {"{% macro m() %}\n{{ m() }}{% endmacro %}{{ m() }}", "line 2: more than"},
        {"{% set ns = namespace(s='xxxxxxxxxxxxxxxx') %}{% for i in range(99999) %}{% set ns.s = ns.s + ns.s "
         "%}{% endfor %}",
         "it takes more"},
        {"{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = [ns.l, ns.l] %}{% endfor "
         "%}{{ ns.l }}",
         "within each other"},
        {"{{ '%1000000000d' % 5 }}", "a width of more than"},
        {"{{ 'x' | center(1000000000000) }}", "it takes more"},
        {"{{ 2 ** 64 }}", "larger than 64 bits"},
        {"{{ 'a' | indent(9999999999) }}", "it takes more"},
        {"{{ range(99999) | join('x' * 100000) }}", "it takes more"},
        {"{{ range(100001) }}", "range too big"},
        {"{{ ('a' * 1000000).strip('b' * 1000000 ~ 'a') }}", "it takes more steps"},
        {"{{ ('a' * 100000) | replace('a', 'b' * 100000) }}", "it takes more"},
        {"{% set ns = namespace(s='\"') %}{% for i in range(99) %}{% set ns.s = ns.s | tojson %}{% endfor %}",
         "it takes more"},
        {"{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ "
         "ns.l | tojson }}",
         "it takes more"},
        {"{% set s = 'a ' * 500000 %}{% for i in range(999) %}{% set x = s | title %}{% endfor %}",
         "it takes more"},
        {"{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(99) }}",
         "it takes more"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        fails(cases[i][0], strlen(cases[i][0]), cases[i][1]);
}

Test(template, deep_nesting_ends_with_one_line)
{
    static const char *const parts[][4] = {
        /* before, repeated, repeated after that, end */
        {"{{ ", "(", ")", "}}"},     {"{{ ", "[", "]", "}}"},          {"{{ ", "-", "", "1 }}"},
        {"{{ ", "not ", "", "1 }}"}, {"{{ 1", "+1", "", "}}"},         {"{{ x", ".x", "", "}}"},
        {"{{ x", "|e", "", "}}"},    {"{{ ", "{1:", "}", "}}"},        {"{{ ", "1 if 1 else ", "", "1 }}"},
        {"{{ x", "()", "", "}}"},    {"{{ x", "[0]", "", "}}"},        {"{% set ", "(", ")", "%}"},
        {"", "{% if 1 %}", "", ""},  {"", "{% for a in b %}", "", ""}, {"", "{% filter e %}", "", ""},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        size_t count = 100000 / strlen(parts[i][1]);
        char *text = malloc(300000), *end = stpcpy(text, parts[i][0]);
        for (size_t k = 0; k < count; k++) end = stpcpy(end, parts[i][1]);
        for (size_t k = 0; k < count; k++) end = stpcpy(end, parts[i][2]);
        end = stpcpy(end, parts[i][3]);
        fails(text, (size_t)(end - text), "within each other");
        free(text);
    }
}

Test(template, long_chains_are_fine)
{
    char *text = malloc(400000), *end = stpcpy(text, "{% if x == 2 %}");
    for (int i = 0; i < 9999; i++) end = stpcpy(end, "{% elif x == 3 %}");
    end = stpcpy(end, "{% else %}{{ 1");
    for (int i = 0; i < 9999; i++) end = stpcpy(end, "~1");
    end = stpcpy(end, "}}{% endif %}");
    struct template_output *output = render(text, (size_t)(end - text), "{\"x\": 1}");
    cr_assert(output, "%s", error_message());
    cr_expect(template_output_text(output).length == 10000);
    template_output_free(output);
    free(text);
}

Test(template, bad_variables_are_refused)
{
    struct template *template = NULL;
    struct template_output *output = NULL;
    cr_assert(template_create("test", "{{ messages }}", 14, &template) == ENGINE_OK);
    static const char *const bad[][2] = {
        {"", "messages: not JSON"},
        {"{", "messages: not JSON"},
        {"[1]", "not an array of JSON objects"},
        {"\"x\"", "not an array of JSON objects"},
        {"[{\"a\": 99999999999999999999999, \"b\": 1e999}]", "a number above 1.8e308, the largest double"},
        {"[{\"a\": \"\xff\"}]", "not JSON"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const struct template_variable variable = {.name = "messages",
                                                   .json = {bad[i][0], strlen(bad[i][0])},
                                                   .what = "messages",
                                                   .is = TEMPLATE_OBJECTS};
        cr_expect(template_render(template, &variable, 1, 1, &output) == ENGINE_ERROR_DATA, "%s", bad[i][0]);
        cr_expect(strstr(error_message(), bad[i][1]), "%s: %s", bad[i][0], error_message());
    }
    template_destroy(template);
    cr_expect(template_create("test", "a\xff", 2, &template) == ENGINE_ERROR_DATA);
    cr_expect(strstr(error_message(), "not UTF-8"));
}

/* As Python prints the double. */
Test(template, large_integers_are_doubles)
{
    const char *source = "{{ a }} {{ b }} {{ c | tojson }}";
    struct template *template = NULL;
    struct template_output *output = NULL;
    static const char json[] =
        "{\"a\": 9223372036854775807, \"b\": 18446744073709551615, \"c\": [-9223372036854775809]}";
    const struct template_variable variable = {.json = {json, sizeof json - 1}, .what = "variables"};
    cr_assert(template_create("test", source, strlen(source), &template) == ENGINE_OK);
    cr_assert(template_render(template, &variable, 1, 1, &output) == ENGINE_OK, "%s", error_message());
    cr_expect_str_eq(template_output_text(output).data,
                     "9223372036854775807 1.8446744073709552e+19 [-9.223372036854776e+18]");
    template_output_free(output);
    template_destroy(template);
}

Test(template, dates_are_those_of_the_time_given)
{
    setenv("TZ", "UTC", 1);
    const char *source = "{{ strftime_now('%d %b %Y, %H:%M %%%-d') }}";
    struct template_output *output = render(source, strlen(source), "{}");
    cr_assert(output, "%s", error_message());
    cr_expect_str_eq(template_output_text(output).data, "26 Jul 2025, 03:20 %26");
    template_output_free(output);
}

/* The named templates against llama.cpp's (tools/templates/record-named). */
Test(template, named_as_in_llama_cpp)
{
    json_t *record = load("named.json"), *conversation, *texts;
    const char *name;
    size_t i, count = 0;
    json_object_foreach(json_object_get(record, "texts"), name, texts)
    {
        const struct named_template *named = named_template_find(name);
        cr_assert(named, "%s", name);
        json_array_foreach(json_object_get(record, "conversations"), i, conversation)
        {
            const char *wanted = json_string_value(json_array_get(texts, i));
            if (!wanted) continue; /* differs on purpose */
            json_t *variables = json_copy(conversation);
            json_object_set(variables, "eos_token", json_object_get(json_object_get(record, "eos"), name));
            char *json = json_dumps(variables, 0);
            struct template_output *output = render(named->source, strlen(named->source), json);
            cr_assert(output, "%s: %s", name, error_message());
            struct engine_string got = template_output_text(output);
            cr_expect(got.length == strlen(wanted) && !memcmp(got.data, wanted, got.length),
                      "%s, conversation %zu:\n%.*s\ninstead of\n%s", name, i, (int)got.length, got.data,
                      wanted);
            template_output_free(output);
            free(json);
            json_decref(variables);
            count++;
        }
    }
    cr_assert_geq(count, 200);
    json_decref(record);
}

/* What is left of "<U>q<A>TEXT\n<E>" and more when it ends in its last message; NULL: it is refused. */
static char *end_in_last(const char *shown, const char *messages)
{
    char source[256];
    snprintf(source, sizeof source,
             "<U>{{ 'so be it' }}{%% for m in messages %%}<{{ m.role }}>%s<E>\n{%% endfor %%}<A>", shown);
    char variables[512];
    snprintf(variables, sizeof variables, "{\"messages\": %s}", messages);
    struct template_output *output = render(source, strlen(source), variables);
    cr_assert(output, "%s", error_message());
    int status = template_output_end_in_last(output, (struct engine_string){messages, strlen(messages)});
    char *text = status == ENGINE_OK ? strdup(template_output_text(output).data) : NULL;
    if (text) cr_expect_eq(strlen(text), template_output_text(output).length);
    template_output_free(output);
    return text;
}

static void expect_end(const char *shown, const char *messages, const char *expected)
{
    char *text = end_in_last(shown, messages);
    cr_expect(text && expected ? strcmp(text, expected) == 0 : text == expected, "%s as %s: %s", messages,
              shown, text ? text : error_message());
    free(text);
}

#define BEFORE "[{\"role\": \"user\", \"content\": \"so be it\"}, "

Test(template, a_conversation_ends_within_its_last_message)
{
    const char *start = "<U>so be it<user>so be it<E>\n<assistant>";
    char expected[256];
    snprintf(expected, sizeof expected, "%sso ", start);
    expect_end("{{ m.content }}", BEFORE "{\"role\": \"assistant\", \"content\": \"so \"}]", expected);
    snprintf(expected, sizeof expected, "%sso", start); /* what the template leaves out is left out */
    expect_end("{{ m.content | trim }}", BEFORE "{\"role\": \"assistant\", \"content\": \" so \"}]",
               expected);
    snprintf(expected, sizeof expected, "%s<think></think>so be it", start);
    expect_end("{% if m.role != 'user' %}<think></think>{% endif %}{{ m.content }}",
               BEFORE "{\"role\": \"assistant\", \"content\": \"so be it\"}]", expected);
    /* What the template writes itself is not the message. */
    expect_end("{{ 'no' }}", "[{\"role\": \"assistant\", \"content\": \"so be it\"}]", NULL);
    expect_end("{{ m.content }}", "[{\"role\": \"assistant\", \"content\": \" \"}]", NULL);
    expect_end("{{ m.content }}", "[{\"role\": \"user\", \"content\": \"so\"}]", NULL);
    expect_end("{{ m.content }}", "[{\"role\": \"assistant\", \"content\": null}]", NULL);
    expect_end("{{ m.content }}", "[]", NULL);
}
