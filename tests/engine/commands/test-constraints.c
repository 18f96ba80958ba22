/* test-constraints.c: grammars and JSON schemas on the command line and in the lines of a batch. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program-model.h"
#include "program.h"

static char *in;

static void begin(void)
{
    begin_model();
    in = strdup(files_path(folder, "in"));
}

static void end(void)
{
    end_model();
    free(in);
}

TestSuite(constraints, .init = begin, .fini = end);

#define RUN(...) PROGRAM("-m", model, "-p", "a b", "--seed", "1", "--no-echo", __VA_ARGS__)

static void prints(struct program_result result, const char *text, const char *message)
{
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_expect_str_eq(result.out, text);
    cr_expect(strstr(result.err, message), "%s", result.err);
    program_free(&result);
}

Test(constraints, of_run)
{
    prints(RUN("--grammar", "root ::= \" xy\" \"z\"{3}", "-n", "50"), " xyzzz", "");
    files_write_text(in, "root ::= \"from\" # a file\n  | \"from\"\n");
    prints(RUN("--grammar-file", in), "from", "");
    prints(RUN("--json-schema", "{\"const\": {\"a\": [1, null]}}"), "{\"a\":[1,null]}", "");
    files_write_text(in, "{\"enum\": [\"\xc3\xa9\"]}");
    prints(RUN("--json-schema-file", in), "\"\xc3\xa9\"", "");
    struct program_result result = RUN("--json-object", "-n", "100");
    cr_assert_eq(result.status, 0);
    cr_expect_eq(result.out[0], '{');
    program_free(&result);
}

/* A text that the limit cuts is told from one that has ended. */
Test(constraints, cut)
{
    struct program_result result = RUN("--grammar", "root ::= [a-c]{300}", "-n", "7");
    cr_assert_eq(result.status, 0);
    cr_expect(strstr(result.err, "the text was cut after 7 tokens, before the grammar allowed it to end; -n"),
              "%s", result.err);
    program_free(&result);
    result = RUN("--grammar", "root ::= [a-c]+", "-n", "7");
    cr_expect_not(strstr(result.err, "cut"), "%s", result.err);
    program_free(&result);
}

/* Guesses change nothing. */
Test(constraints, with_guesses)
{
    struct program_result plain =
        RUN("--json-schema", "{\"items\":{\"enum\":[12,13]},\"minItems\":9,\"maxItems\":12}", "-n", "90");
    struct program_result guessed =
        RUN("--json-schema", "{\"items\":{\"enum\":[12,13]},\"minItems\":9,\"maxItems\":12}", "-n", "90",
            "--lookup", "--draft-min", "3", "--draft-max", "3");
    cr_assert_eq(plain.status, 0, "%s", plain.err);
    cr_expect_str_eq(plain.out, guessed.out);
    program_free(&plain);
    program_free(&guessed);
}

Test(constraints, mistakes)
{
    program_fails(RUN("--grammar", "root ::= \"a\"", "--json-object"), 2,
                  "--grammar and --json-object: a text can have one of them");
    program_fails(RUN("--grammar", "root ::= \"a"), 2, "grammar, line 1: a string isn't closed");
    program_fails(RUN("--json-schema", "{\"contains\": {}, \"maxContains\": 200}"), 1,
                  "\"contains\" is supported");
    program_fails(RUN("--json-schema-file", files_path(folder, "none")), 1, "none");
}

static json_t *line_of(const char *text, int number)
{
    for (int i = 0; i < number; i++) text = strchr(text, '\n') + 1;
    json_t *json = json_loadb(text, strcspn(text, "\n"), 0, NULL);
    cr_assert(json, "%s", text);
    return json;
}

static void expect(const char *text, int number, const char *key, const char *value)
{
    json_t *json = line_of(text, number);
    const char *found = json_string_value(json_object_get(json, key));
    cr_expect(found && strstr(found, value), "line %d: %s", number, found ? found : "none");
    json_decref(json);
}

/* A limit for reasoning ends it as soon as the grammar allows. */
Test(constraints, reasoning_budget)
{
    static const char thinks[] = "root ::= \"<think>\" [b-d]{0,200} \"</think>So.\"";
    prints(RUN("--grammar", thinks, "-n", "400", "--reasoning-budget", "0"), "<think></think>So.", "");
    struct program_result result = RUN("--grammar", thinks, "-n", "400", "--reasoning-budget", "2");
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_expect(strlen(result.out) < 40 && strstr(result.out, "</think>So."), "%s", result.out);
    program_free(&result);
    files_write_text(in, "{\"prompt\": \"a b\"}\n{\"prompt\": \"a <think>b\"}\n");
    result = PROGRAM("batch", "-m", model, in, "--seed", "1", "-n", "400", "--reasoning-budget", "0",
                     "--grammar", thinks);
    cr_assert_eq(result.status, 0, "%s", result.err);
    const char *first = strstr(result.out, "<think></think>So.");
    cr_expect(first && strstr(first + 1, "<think></think>So."), "%s", result.out);
    program_free(&result);
}

Test(constraints, of_batches)
{
    files_write_text(
        in,
        "{\"prompt\": \"a\"}\n"
        "{\"prompt\": \"a\", \"grammar\": \"root ::= \\\"xyz\\\"\"}\n"
        "{\"prompt\": \"a\", \"json_schema\": {\"const\": [1, 0.1]}}\n"
        "{\"prompt\": \"a\", \"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"schema\": "
        "{\"const\": 5}}}}\n"
        "{\"prompt\": \"a\", \"response_format\": {\"type\": \"json_object\", \"schema\": {\"const\": {}}}}\n"
        "{\"prompt\": \"a\", \"response_format\": {\"type\": \"json_object\"}, \"max_tokens\": 1}\n"
        "{\"prompt\": \"a\", \"response_format\": {\"type\": \"text\"}, \"max_tokens\": 4, \"temperature\": "
        "0}\n"
        "{\"prompt\": \"a\", \"grammar\": \"root ::= x\"}\n"
        "{\"prompt\": \"a\", \"response_format\": {\"type\": \"xml\"}}\n"
        "{\"prompt\": \"a\", \"json_schema\": 5}\n"
        "{\"prompt\": \"a\", \"json_schema\": {}, \"grammar\": \"root ::= \\\"a\\\"\"}\n");
    struct program_result result = PROGRAM("batch", "-m", model, in, "--grammar", "root ::= \"default\"");
    cr_assert_eq(result.status, 1, "%s", result.err);
    expect(result.out, 0, "text", "default");
    expect(result.out, 1, "text", "xyz");
    expect(result.out, 2, "text", "[1,0.1]");
    expect(result.out, 3, "text", "5");
    expect(result.out, 4, "text", "{}");
    expect(result.out, 5, "text", "{");
    json_t *cut = line_of(result.out, 5);
    cr_expect(json_is_true(json_object_get(cut, "incomplete")));
    json_decref(cut);
    expect(result.out, 6, "finish_reason", "length");
    expect(result.out, 7, "error", "there is no rule \"x\"");
    expect(result.out, 8, "error", "\"response_format\" should be");
    expect(result.out, 9, "error", "\"json_schema\" should be a schema");
    expect(result.out, 10, "error", "two of");
    program_free(&result);
}
