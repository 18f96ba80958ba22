/* check.c: `engine plugins check FILE.so`: the results of the conformance suite, as a table or JSON. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/commands.h"
#include "common/array.h"
#include "common/printable.h"
#include "io/display.h"
#include "io/json.h"
#include "io/messages.h"
#include "io/signals.h"

/* An unclaimed case: those of a row come before it. */
struct unclaimed {
    size_t row;
    char text[160];
};

struct results {
    struct engine_check_row *rows; /* [count] */
    size_t count, passed, failed, unclaimed;
    struct unclaimed *cases; /* [n_cases] of partly claimed rows */
    size_t n_cases;
    bool out_of_memory, shows_progress;
};

/* The check that is running, on a terminal: some devices take a minute. */
static void show_progress(const struct results *results, const struct engine_check_row *row)
{
    if (results->shows_progress)
        fprintf(stderr, "\r%zu checks: %s%s%s %s\033[K", results->count, row->device,
                row->device[0] ? " " : "", row->area, row->what);
}

static void keep_case(void *user, const struct engine_check_row *row)
{
    struct results *results = user;
    if (!ARRAY_GROW(results->cases, results->n_cases)) {
        results->out_of_memory = true;
        return;
    }
    struct unclaimed *new = &results->cases[results->n_cases++];
    new->row = results->count;
    snprintf(new->text, sizeof new->text, "#%u%s%.140s", row->number, row->tried[0] ? ": " : "", row->tried);
}

static void keep_row(void *user, const struct engine_check_row *row)
{
    struct results *results = user;
    /* If nothing in a row is claimed, its name says enough. */
    while (row->result == ENGINE_CHECK_UNCLAIMED && results->n_cases > 0 &&
           results->cases[results->n_cases - 1].row == results->count)
        results->n_cases--;
    if (!ARRAY_GROW(results->rows, results->count)) {
        results->out_of_memory = true;
        return;
    }
    results->rows[results->count++] = *row;
    if (row->result == ENGINE_CHECK_PASSED) results->passed++;
    if (row->result == ENGINE_CHECK_FAILED) results->failed++;
    if (row->result == ENGINE_CHECK_UNCLAIMED) results->unclaimed++;
    show_progress(results, row);
}

/* ---- JSON ---- */

static json_t *list_cases(const struct results *results, size_t row)
{
    json_t *list = json_array();
    for (size_t i = 0; i < results->n_cases; i++)
        if (results->cases[i].row == row &&
            json_array_append_new(list, json_line(results->cases[i].text)) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *describe_row(const struct results *results, size_t number)
{
    const struct engine_check_row *row = &results->rows[number];
    static const char *const words[] = {[ENGINE_CHECK_PASSED] = "passed",
                                        [ENGINE_CHECK_FAILED] = "failed",
                                        [ENGINE_CHECK_UNCLAIMED] = "not claimed"};
    json_t *json = json_pack(
        "{s:o, s:o, s:o, s:s, s:i, s:o}", "device", row->device[0] ? json_line(row->device) : json_null(),
        "area", json_line(row->area), "check", json_line(row->what), "result", words[row->result], "cases",
        (int)row->cases, "message", row->message[0] ? json_line(row->message) : json_null());
    if (json && row->result == ENGINE_CHECK_FAILED) {
        json_object_set_new(json, "tried", row->tried[0] ? json_line(row->tried) : json_null());
        json_object_set_new(json, "alone", json_line(row->alone));
    }
    if (json && row->result == ENGINE_CHECK_PASSED && row->n_unclaimed)
        json_object_set_new(json, "not_claimed", list_cases(results, number));
    if (json && row->measured) {
        json_object_set_new(json, "error", json_real(row->error));
        json_object_set_new(json, "of_allowed", json_real(row->share));
    }
    return json;
}

static int print_json(const struct engine_checked_plugin *plugin, const struct results *results)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < results->count; i++)
        if (json_array_append_new(rows, describe_row(results, i)) != 0) {
            json_decref(rows);
            return json_print(NULL);
        }
    return json_print(json_pack("{s:o, s:o, s:o, s:s, s:i, s:b, s:o}", "name", json_line(plugin->name),
                                "version", json_line(plugin->version), "abi",
                                json_sprintf("%u.%u", plugin->abi_major, plugin->abi_minor), "kind",
                                plugin->kind == ENGINE_PLUGIN_BACKEND ? "backend" : "tokenizer", "devices",
                                (int)plugin->n_devices, "conforms", results->failed == 0, "checks", rows));
}

/* ---- The table ---- */

enum {
    LIST_WIDTH = 84, /* of unclaimed cases, before the list continues in the next row */
    FEW = 2
}; /* cases of a row that are listed without -v */

static bool is_of(const struct engine_check_row *row, const struct engine_check_row *first)
{
    return strcmp(row->device, first->device) == 0 && strcmp(row->area, first->area) == 0;
}

/* A list wrapped into rows of a table, with the device and area in the first of them. */
struct list {
    struct table *table;
    const char *device, *area;
    char text[512];
    size_t used;
};

static void end_line(struct list *list)
{
    if (!list->used) return;
    table_add(list->table, "%s", list->device);
    table_add(list->table, "%s", list->area);
    table_add(list->table, "%s", list->text);
    list->device = list->area = "";
    list->used = 0;
}

static void ENGINE_PRINTF(2, 3) add_item(struct list *list, const char *format, ...)
{
    char item[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(item, sizeof item, format, arguments);
    va_end(arguments);
    if (list->used && list->used + strlen(item) + 2 > LIST_WIDTH) {
        strcpy(list->text + list->used, ";");
        end_line(list);
    }
    list->used += (size_t)snprintf(list->text + list->used, sizeof list->text - list->used - 1, "%s%s",
                                   list->used ? "; " : "", item);
}

/* The unclaimed cases of a row, on lines of their own. */
static void add_cases(struct list *list, const struct results *results, size_t number, bool all)
{
    const struct engine_check_row *row = &results->rows[number];
    uint32_t listed = 0;
    if (row->result != ENGINE_CHECK_PASSED || !row->n_unclaimed) return;
    end_line(list);
    add_item(list, "%s, %u of %u cases:", row->what, row->n_unclaimed, row->n_unclaimed + row->cases);
    end_line(list);
    for (size_t i = 0; i < results->n_cases; i++) {
        if (results->cases[i].row != number || (!all && listed == FEW)) continue;
        add_item(list, "  %s", results->cases[i].text);
        end_line(list);
        listed++;
    }
    if (listed < row->n_unclaimed) add_item(list, "  and %u more (-v lists them)", row->n_unclaimed - listed);
    end_line(list);
}

/* The unclaimed part of the area of results->rows[first], which is its first row. */
static void add_unclaimed(struct table *table, const struct results *results, size_t first, bool all_names)
{
    const struct engine_check_row *head = &results->rows[first];
    struct list list = {table, head->device, head->area, "", 0};
    size_t unclaimed = 0, all = 0;
    for (size_t i = first; i < results->count; i++)
        if (is_of(&results->rows[i], head))
            all++, unclaimed += results->rows[i].result == ENGINE_CHECK_UNCLAIMED;
    if (unclaimed == all && !all_names) {
        add_item(&list, "all of it: %zu check%s", all, all > 1 ? "s" : "");
        end_line(&list);
        return;
    }
    for (size_t i = first; i < results->count; i++)
        if (is_of(&results->rows[i], head) && results->rows[i].result == ENGINE_CHECK_UNCLAIMED)
            add_item(&list, "%s", results->rows[i].what);
    end_line(&list);
    for (size_t i = first; i < results->count; i++)
        if (is_of(&results->rows[i], head)) add_cases(&list, results, i, all_names);
}

static int print_unclaimed(const struct results *results, bool all_names)
{
    static const char *const titles[] = {"DEVICE", "AREA", "NOT CLAIMED, AND SO NOT CHECKED"};
    struct table table = {.n_columns = 3, .alignment = "lll"};
    for (size_t i = 0; i < 3; i++) table_add(&table, "%s", titles[i]);
    for (size_t i = 0; i < results->count; i++) {
        size_t first = 0;
        while (!is_of(&results->rows[first], &results->rows[i])) first++;
        if (first == i) add_unclaimed(&table, results, i, all_names);
    }
    return table_print(&table, "", stdout);
}

/* Text in single quotes, as shells read it. */
static void print_quoted(const char *text)
{
    putchar('\'');
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            putchar((unsigned char)*text < ' ' || *text == 127 ? ' ' : *text);
    putchar('\'');
}

/* The failures, and how to run each alone. */
static void print_failures(const struct results *results, const char *path)
{
    for (size_t i = 0; i < results->count; i++) {
        const struct engine_check_row *row = &results->rows[i];
        if (row->result != ENGINE_CHECK_FAILED) continue;
        char alone[sizeof row->alone], tried[sizeof row->tried];
        snprintf(alone, sizeof alone, "%s", row->alone);
        snprintf(tried, sizeof tried, "%s", row->tried);
        printable_make(alone), printable_make(tried);
        printf("\n%s%s%s\n  engine plugins check ", alone, tried[0] ? ": " : "", tried);
        print_quoted(path);
        printf(" --case ");
        print_quoted(alone);
        printf("\n");
    }
}

static void add_row(struct table *table, const struct engine_check_row *row)
{
    table_add(table, "%s", row->device);
    table_add(table, "%s", row->area);
    table_add(table, "%s", row->what);
    table_add(table, "%u", row->cases);
    if (row->measured) {
        table_add(table, "%.1e", row->error);
        table_add(table, "%.0f %%", 100 * row->share);
    } else {
        table_add(table, "%s", "");
        table_add(table, "%s", "");
    }
    table_add(table, "%s%s%s", row->result == ENGINE_CHECK_FAILED ? "FAILED" : "passed",
              row->message[0] ? ": " : "", row->message);
}

static int print_table(const struct engine_checked_plugin *plugin, const struct results *results,
                       const struct arguments *arguments, const char *path)
{
    static const char *const titles[] = {"DEVICE", "AREA", "CHECK", "CASES", "ERROR", "OF ALLOWED", "RESULT"};
    struct table table = {.n_columns = 7, .alignment = "lllrrrl"};
    printf("%s %s: %s\n", plugin->name, plugin->version, plugin->description);
    for (size_t i = 0; i < 7; i++) table_add(&table, "%s", titles[i]);
    for (size_t i = 0; i < results->count; i++)
        if (results->rows[i].result != ENGINE_CHECK_UNCLAIMED) add_row(&table, &results->rows[i]);
    int status = table_print(&table, "no checks", stdout);
    if (status == 0 && (results->unclaimed || results->n_cases)) {
        printf("\n");
        status = print_unclaimed(results, arguments->verbose);
    }
    print_failures(results, path);
    if (results->unclaimed || results->n_cases || results->failed) printf("\n");
    if (plugin->kind == ENGINE_PLUGIN_BACKEND && plugin->n_devices == 0)
        printf("It has no device here, so that nothing that it does could be checked.\n");
    printf("%zu passed, %zu failed\n", results->passed, results->failed);
    return status;
}

int command_plugins_check(const struct arguments *arguments, const char *path)
{
    struct results results = {.shows_progress = isatty(STDERR_FILENO)};
    struct engine_check_options options = {.struct_size = sizeof options,
                                           .row = keep_row,
                                           .user = &results,
                                           .only = arguments->check_case,
                                           .timeout = arguments->timeout,
                                           .unclaimed = keep_case,
                                           .sample = arguments->check_sample};
    struct engine_checked_plugin plugin = {.struct_size = sizeof plugin};
    signals_end_at_once(); /* there is nothing to finish first */
    int status = engine_check_plugin(path, &options, &plugin);
    if (results.shows_progress) fputs("\r\033[K", stderr);
    if (status != ENGINE_OK || results.out_of_memory) {
        command_error(results.out_of_memory ? ENGINE_ERROR : status, "%s",
                      results.out_of_memory ? "out of memory" : engine_error_message());
        free(results.rows);
        free(results.cases);
        return command_fail();
    }
    status =
        arguments->json ? print_json(&plugin, &results) : print_table(&plugin, &results, arguments, path);
    bool nothing = plugin.kind == ENGINE_PLUGIN_BACKEND && plugin.n_devices == 0;
    free(results.rows);
    free(results.cases);
    if (status || (results.failed == 0 && !nothing)) return status;
    if (results.failed > 0)
        command_error(ENGINE_ERROR, "%s: %zu of %zu checks failed", path, results.failed,
                      results.failed + results.passed);
    else
        command_error(ENGINE_ERROR, "%s: there is no device to check it on", path);
    return command_fail();
}
