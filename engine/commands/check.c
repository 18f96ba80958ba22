/* check.c: `engine plugins check FILE.so`: the conformance suite (check/check.h) and its results, as a table or JSON. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "check/check.h"
#include "commands/common.h"
#include "commands/json.h"
#include "commands/table.h"

struct results {
    struct check_row *rows; /* [count] */
    size_t count, passed, failed, unclaimed;
    bool out_of_memory, shows_progress;
};

/* What is under way, on a terminal: some devices take a minute. */
static void show_progress(const struct results *results, const struct check_row *row)
{
    if (results->shows_progress)
        fprintf(stderr, "\r%zu checks: %s%s%s %s\033[K", results->count, row->device,
                row->device[0] ? " " : "", row->area, row->what);
}

static void keep_row(void *user, const struct check_row *row)
{
    struct results *results = user;
    struct check_row *rows = realloc(results->rows, (results->count + 1) * sizeof *rows);
    if (!rows) {
        results->out_of_memory = true;
        return;
    }
    results->rows = rows;
    rows[results->count++] = *row;
    if (row->result == CHECK_PASSED) results->passed++;
    if (row->result == CHECK_FAILED) results->failed++;
    if (row->result == CHECK_UNCLAIMED) results->unclaimed++;
    show_progress(results, row);
}

/* ---- JSON ---- */

static json_t *describe_row(const struct check_row *row)
{
    static const char *const results[] = {
        [CHECK_PASSED] = "passed", [CHECK_FAILED] = "failed", [CHECK_UNCLAIMED] = "not claimed"};
    json_t *json = json_pack(
        "{s:o, s:o, s:o, s:s, s:i, s:o}", "device", row->device[0] ? json_line(row->device) : json_null(),
        "area", json_line(row->area), "check", json_line(row->what), "result", results[row->result], "cases",
        (int)row->cases, "message", row->message[0] ? json_line(row->message) : json_null());
    if (json && row->measured) {
        json_object_set_new(json, "error", json_real(row->error));
        json_object_set_new(json, "of_allowed", json_real(row->share));
    }
    return json;
}

static int print_json(const struct check_plugin *plugin, const struct results *results)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < results->count; i++)
        if (json_array_append_new(rows, describe_row(&results->rows[i])) != 0) {
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

static void print_unclaimed(const struct results *results)
{
    const char *area = "";
    printf("Not claimed, and so not checked:");
    for (size_t i = 0; i < results->count; i++) {
        const struct check_row *row = &results->rows[i];
        if (row->result != CHECK_UNCLAIMED) continue;
        bool again = strcmp(area, row->area) == 0;
        printf("%s%s%s%s",
               again     ? ", "
               : area[0] ? "; "
                         : " ",
               again ? "" : row->area, again ? "" : " ", row->what);
        area = row->area;
    }
    printf("\n");
}

static void add_row(struct table *table, const struct check_row *row)
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
    table_add(table, "%s%s%s", row->result == CHECK_FAILED ? "FAILED" : "passed", row->message[0] ? ": " : "",
              row->message);
}

static int print_table(const struct check_plugin *plugin, const struct results *results)
{
    static const char *const titles[] = {"DEVICE", "AREA", "CHECK", "CASES", "ERROR", "OF ALLOWED", "RESULT"};
    struct table table = {.n_columns = 7, .alignment = "lllrrrl"};
    printf("%s %s: %s\n", plugin->name, plugin->version, plugin->description);
    for (size_t i = 0; i < 7; i++) table_add(&table, "%s", titles[i]);
    for (size_t i = 0; i < results->count; i++)
        if (results->rows[i].result != CHECK_UNCLAIMED) add_row(&table, &results->rows[i]);
    int status = table_print(&table, "no checks", stdout);
    if (results->unclaimed) print_unclaimed(results);
    if (plugin->kind == ENGINE_PLUGIN_BACKEND && plugin->n_devices == 0)
        printf("It has no device here, so that nothing that it does could be checked.\n");
    printf("%zu passed, %zu failed\n", results->passed, results->failed);
    return status;
}

int command_plugins_check(const struct arguments *arguments, const char *path)
{
    struct results results = {.shows_progress = isatty(STDERR_FILENO)};
    struct check_plugin plugin;
    int status = check_plugin(path, &plugin, keep_row, &results);
    if (results.shows_progress) fputs("\r\033[K", stderr);
    if (status != ENGINE_OK || results.out_of_memory) {
        command_error(ENGINE_ERROR, "%s", results.out_of_memory ? "out of memory" : error_message());
        free(results.rows);
        return command_fail();
    }
    status = arguments->json ? print_json(&plugin, &results) : print_table(&plugin, &results);
    bool nothing = plugin.kind == ENGINE_PLUGIN_BACKEND && plugin.n_devices == 0;
    free(results.rows);
    return status == 0 && (results.failed > 0 || nothing) ? 1 : status;
}
