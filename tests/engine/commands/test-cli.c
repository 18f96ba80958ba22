/* test-cli.c: the program from outside: help, exit statuses, plugins and devices. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "program.h"

#define BUILT TEST_BINARY_DIR "/fixtures/plugins/built"

/* One line on standard error that begins with "engine: ", nothing on standard output. */
static void one_line_of_error(const struct program_result *result, const char *line)
{
    cr_assert_str_empty(result->out);
    cr_assert_str_eq(result->err, line);
}

Test(cli, version)
{
    struct program_result result = PROGRAM("--version");
    cr_assert_eq(result.status, 0);
    cr_assert_eq(strncmp(result.out, "engine ", 7), 0);
    cr_assert(strstr(result.out, "\nplugin ABI "));
    cr_assert_str_empty(result.err);
    program_free(&result);
}

/* Each command that `engine --help` lists has a help of its own. */
Test(cli, help_of_every_command)
{
    struct program_result all = PROGRAM("--help");
    cr_assert_eq(all.status, 0);
    cr_assert_str_empty(all.err);
    char *commands = strstr(all.out, "Commands:\n"), *end = strstr(all.out, "\n\nGeneral:");
    size_t n_commands = 0;
    cr_assert(commands && end);
    *end = '\0';
    for (char *line = strtok(commands + 10, "\n"); line; line = strtok(NULL, "\n")) {
        char name[32], usage[64];
        if (line[2] == ' ') continue; /* the rest of a summary */
        cr_assert_eq(sscanf(line, " %31s", name), 1);
        struct program_result one = PROGRAM(name, "--help");
        snprintf(usage, sizeof usage, "Usage: engine %s", name);
        cr_assert_eq(one.status, 0, "%s", name);
        cr_assert_eq(strncmp(one.out, usage, strlen(usage)), 0, "%s", one.out);
        cr_assert(strstr(one.out, "\nExamples:\n  engine "), "%s", name);
        cr_assert_str_empty(one.err);
        program_free(&one);
        n_commands++;
    }
    cr_assert_geq(n_commands, 2);
    program_free(&all);
}

Test(cli, mistakes_end_with_status_2)
{
    struct program_result result = PROGRAM("plugins", "--jsn");
    cr_assert_eq(result.status, 2);
    one_line_of_error(&result, "engine: unknown option --jsn; did you mean --json?\n");
    program_free(&result);

    result = PROGRAM("plugin");
    cr_assert_eq(result.status, 2);
    one_line_of_error(&result, "engine: unknown command 'plugin'; did you mean plugins?\n");
    program_free(&result);

    result = PROGRAM("devices", "stray");
    cr_assert_eq(result.status, 2);
    one_line_of_error(&result, "engine: devices: unexpected 'stray'; see engine devices --help\n");
    program_free(&result);
}

Test(cli, failures_end_with_status_1)
{
    struct program_result result = PROGRAM("plugins", "--plugin-dir", FILES_ABSENT);
    cr_assert_eq(result.status, 1);
    one_line_of_error(&result, "engine: plugin folder " FILES_ABSENT ": No such file or directory\n");
    program_free(&result);

    result = PROGRAM("devices", "--config", FILES_ABSENT);
    cr_assert_eq(result.status, 1);
    one_line_of_error(&result, "engine: " FILES_ABSENT ": No such file or directory\n");
    program_free(&result);
}

/* An option's value is a mistake where it is typed, and a failure where a file has it. */
Test(cli, values_and_files_that_cannot_be)
{
    char *folder = files_folder();
    char *grammar = strdup(files_path(folder, "grammar.gbnf")),
         *lines = strdup(files_path(folder, "in.jsonl"));
    files_write_text(grammar, "root ::= x\n");
    files_write_text(lines, "{\"prompt\": 5}\n");
    const struct {
        int status;
        const char *arguments[8];
    } all[] = {
        {2, {"run", "--place", "x"}},
        {2, {"run", "--memory", "cpu"}},
        {2, {"run", "--grammar", "root ::= x"}},
        {1, {"run", "--grammar-file", grammar}},
        {2, {"logits", "--tokens", "99999999", "--top", "1"}},
        {2, {"score", "-p", "a"}},
        {1, {"score", "-f", lines}},
        {1, {"score", "-p", "a b c", "--answer", "d", "-c", "2"}},
        {1, {"perplexity", "-f", lines}}, /* too short */
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct program_result result = program_run(all[i].arguments, NULL, 0);
        cr_expect_eq(result.status, all[i].status, "%s %s: %d, %s", all[i].arguments[0], all[i].arguments[1],
                     result.status, result.err);
        program_free(&result);
    }
    free(grammar), free(lines);
    files_remove(folder);
    free(folder);
}

Test(cli, a_full_disk_is_a_failure)
{
    FILE *full = fopen("/dev/full", "w");
    if (!full) cr_skip_test("there is no /dev/full here");
    fclose(full);
    cr_assert_eq(system(TEST_ENGINE " --help > /dev/full 2> /dev/null"), 256);
}

Test(cli, a_reader_that_goes_away_is_none)
{
    /* The status of the program, not that of the pipe's end. */
    int status = system("bash -c '" TEST_ENGINE " --help 2>&1 | true; [ ${PIPESTATUS[0]} -eq 0 ]'");
    cr_assert_eq(status, 0);
}

/* ---- Plugins and devices ------------------------------------------------------------------------------- */

static json_t *parse(const struct program_result *result)
{
    json_error_t error;
    json_t *json = json_loads(result->out, 0, &error);
    cr_assert(json, "%s: %s", error.text, result->out);
    return json;
}

static const char *text(json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    cr_assert(value, "no text %s", key);
    return value;
}

/* The element of an array whose `key` is `value`, or NULL. */
static json_t *find(json_t *array, const char *key, const char *value)
{
    size_t index;
    json_t *item;
    cr_assert(json_is_array(array));
    json_array_foreach(array, index, item)
    {
        const char *found = json_string_value(json_object_get(item, key));
        if (found && strcmp(found, value) == 0) return item;
    }
    return NULL;
}

static char *folder_of_plugins(void)
{
    static const char *const names[] = {"bytes.so", "idle.so", "bad-major.so"};
    char *folder = files_folder();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        files_copy(files_path(BUILT, names[i]), files_path(folder, names[i]), SIZE_MAX);
    }
    return folder;
}

Test(cli, plugins)
{
    char *folder = folder_of_plugins();
    struct program_result result = PROGRAM("plugins", "--plugin-dir", folder);
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert_str_empty(result.err); /* what is refused is in the list */
    cr_assert(strstr(result.out, "test-bytes  tokenizer  1.2.3"), "%s", result.out);
    cr_assert(strstr(result.out, "not used: "));
    program_free(&result);

    result = PROGRAM("plugins", "--json", "--plugin-dir", folder);
    cr_assert_eq(result.status, 0);
    json_t *json = parse(&result);
    json_t *idle = find(json_object_get(json, "plugins"), "name", "idle");
    cr_assert(idle);
    cr_assert_str_eq(text(idle, "kind"), "backend");
    cr_assert_str_eq(text(idle, "version"), "0.9");
    cr_assert_str_eq(text(idle, "license"), "MIT");
    cr_assert_str_eq(text(idle, "abi"), text(json, "abi"));
    cr_assert_str_eq(text(idle, "path"), files_path(folder, "idle.so"));
    cr_assert_str_eq(text(idle, "description"), "Devices that do nothing, for tests");
    json_t *refused = find(json_object_get(json, "refused"), "path", files_path(folder, "bad-major.so"));
    cr_assert(refused);
    cr_assert(strstr(text(refused, "reason"), "was built for plugin ABI"));
    cr_assert(json_is_null(json_object_get(refused, "name")));
    json_decref(json);
    program_free(&result);
    files_remove(folder);
    free(folder);
}

Test(cli, devices)
{
    char *folder = folder_of_plugins();
    struct program_result result = PROGRAM("devices", "--plugin-dir", folder);
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert(strstr(result.err, "engine: warning: idle: device 3 is not used"), "%s", result.err);
    cr_assert(strstr(result.out, "12.0 GiB  16.0 GiB  Idle device"), "%s", result.out);
    cr_assert(strstr(result.out, "12.0 GiB   unknown  Idle device"), "%s", result.out);
    program_free(&result);

    result = PROGRAM("devices", "--json", "--plugin-dir", folder);
    cr_assert_eq(result.status, 0);
    json_t *json = parse(&result);
    json_t *first = find(json_object_get(json, "devices"), "name", "idle0");
    json_t *second = find(json_object_get(json, "devices"), "name", "idle1.5");
    cr_assert(first && second);
    cr_assert_str_eq(text(first, "plugin"), "idle");
    cr_assert_str_eq(text(first, "kind"), "gpu");
    cr_assert_eq(json_integer_value(json_object_get(first, "memory_free")), (json_int_t)12 << 30);
    cr_assert_eq(json_integer_value(json_object_get(first, "memory_total")), (json_int_t)16 << 30);
    cr_assert(json_is_null(json_object_get(second, "memory_total")));
    cr_assert(find(json_object_get(json, "refused"), "path", files_path(folder, "bad-major.so")));
    json_decref(json);
    program_free(&result);
    files_remove(folder);
    free(folder);
}

Test(cli, other_commands_warn_of_refused_plugins)
{
    char *folder = folder_of_plugins();
    struct program_result result = PROGRAM("plugins", "-v", "--plugin-dir", folder);
    cr_assert(strstr(result.err, "engine: warning: "), "%s", result.err);
    cr_assert(strstr(result.err, "engine: plugin idle 0.9: "), "%s", result.err);
    program_free(&result);
    files_remove(folder);
    free(folder);
}

Test(cli, messages_move_no_cursor)
{
    struct program_result result = PROGRAM("plugins", "\033[2Jx\n\xc2\x9b"
                                                      "2J");
    cr_assert_eq(result.status, 2);
    one_line_of_error(&result, "engine: plugins: unexpected ' [2Jx   2J'; see engine plugins --help\n");
    program_free(&result);
}
