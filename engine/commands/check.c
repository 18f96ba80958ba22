/* check.c: `engine plugins check FILE.so`: the results of the conformance suite, as a table or JSON. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/common.h"
#include "commands/json.h"
#include "commands/table.h"

struct results {
    struct engine_check_row *rows; /* [count] */
    size_t count, passed, failed, unclaimed;
    bool out_of_memory, shows_progress;
};

/* What is under way, on a terminal: some devices take a minute. */
static void show_progress(const struct results *results, const struct engine_check_row *row)
{
    if (results->shows_progress)
        fprintf(stderr, "\r%zu checks: %s%s%s %s\033[K", results->count, row->device,
                row->device[0] ? " " : "", row->area, row->what);
}

static void keep_row(void *user, const struct engine_check_row *row)
{
    struct results *results = user;
    struct engine_check_row *rows = realloc(results->rows, (results->count + 1) * sizeof *rows);
    if (!rows) {
        results->out_of_memory = true;
        return;
    }
    results->rows = rows;
    rows[results->count++] = *row;
    if (row->result == ENGINE_CHECK_PASSED) results->passed++;
    if (row->result == ENGINE_CHECK_FAILED) results->failed++;
    if (row->result == ENGINE_CHECK_UNCLAIMED) results->unclaimed++;
    show_progress(results, row);
}

/* ---- JSON ---- */

static json_t *describe_row(const struct engine_check_row *row)
{
    static const char *const results[] = {[ENGINE_CHECK_PASSED] = "passed",
                                          [ENGINE_CHECK_FAILED] = "failed",
                                          [ENGINE_CHECK_UNCLAIMED] = "not claimed"};
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

static int print_json(const struct engine_checked_plugin *plugin, const struct results *results)
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

enum { LIST_WIDTH = 84 }; /* of what isn't claimed, before it goes on in the next row */

static bool is_of(const struct engine_check_row *row, const struct engine_check_row *first)
{
    return strcmp(row->device, first->device) == 0 && strcmp(row->area, first->area) == 0;
}

static void add_list(struct table *table, const char *device, const char *area, const char *list)
{
    table_add(table, "%s", device);
    table_add(table, "%s", area);
    table_add(table, "%s", list);
}

/* What isn't claimed of the area of results->rows[first], the first row of it. */
static void add_unclaimed(struct table *table, const struct results *results, size_t first)
{
    const struct engine_check_row *head = &results->rows[first];
    const char *device = head->device, *area = head->area; /* once; then blank */
    char list[512] = ""; /* wrapped at LIST_WIDTH; one check's name alone may be longer */
    size_t used = 0, unclaimed = 0, all = 0;
    for (size_t i = first; i < results->count; i++)
        if (is_of(&results->rows[i], head))
            all++, unclaimed += results->rows[i].result == ENGINE_CHECK_UNCLAIMED;
    for (size_t i = first; i < results->count && unclaimed < all; i++) {
        const char *what = results->rows[i].what;
        if (!is_of(&results->rows[i], head) || results->rows[i].result != ENGINE_CHECK_UNCLAIMED) continue;
        if (used && used + strlen(what) + 2 > LIST_WIDTH) {
            strcpy(list + used, ";");
            add_list(table, device, area, list);
            device = area = "";
            used = 0;
        }
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? "; " : "", what);
        if (used > sizeof list - 2) used = sizeof list - 2; /* room for a semicolon */
    }
    if (unclaimed == all) snprintf(list, sizeof list, "all of it: %zu check%s", all, all > 1 ? "s" : "");
    if (unclaimed) add_list(table, device, area, list);
}

static int print_unclaimed(const struct results *results)
{
    static const char *const titles[] = {"DEVICE", "AREA", "NOT CLAIMED, AND SO NOT CHECKED"};
    struct table table = {.n_columns = 3, .alignment = "lll"};
    for (size_t i = 0; i < 3; i++) table_add(&table, "%s", titles[i]);
    for (size_t i = 0; i < results->count; i++) {
        size_t first = 0;
        while (!is_of(&results->rows[first], &results->rows[i])) first++;
        if (first == i) add_unclaimed(&table, results, i);
    }
    return table_print(&table, "", stdout);
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

static int print_table(const struct engine_checked_plugin *plugin, const struct results *results)
{
    static const char *const titles[] = {"DEVICE", "AREA", "CHECK", "CASES", "ERROR", "OF ALLOWED", "RESULT"};
    struct table table = {.n_columns = 7, .alignment = "lllrrrl"};
    printf("%s %s: %s\n", plugin->name, plugin->version, plugin->description);
    for (size_t i = 0; i < 7; i++) table_add(&table, "%s", titles[i]);
    for (size_t i = 0; i < results->count; i++)
        if (results->rows[i].result != ENGINE_CHECK_UNCLAIMED) add_row(&table, &results->rows[i]);
    int status = table_print(&table, "no checks", stdout);
    if (status == 0 && results->unclaimed) {
        printf("\n");
        status = print_unclaimed(results);
        printf("\n");
    }
    if (plugin->kind == ENGINE_PLUGIN_BACKEND && plugin->n_devices == 0)
        printf("It has no device here, so that nothing that it does could be checked.\n");
    printf("%zu passed, %zu failed\n", results->passed, results->failed);
    return status;
}

int command_plugins_check(const struct arguments *arguments, const char *path)
{
    struct results results = {.shows_progress = isatty(STDERR_FILENO)};
    struct engine_check_options options = {.struct_size = sizeof options, .row = keep_row, .user = &results};
    struct engine_checked_plugin plugin = {.struct_size = sizeof plugin};
    int status = engine_check_plugin(path, &options, &plugin);
    if (results.shows_progress) fputs("\r\033[K", stderr);
    if (status != ENGINE_OK || results.out_of_memory) {
        command_error(ENGINE_ERROR, "%s", results.out_of_memory ? "out of memory" : engine_error_message());
        free(results.rows);
        return command_fail();
    }
    status = arguments->json ? print_json(&plugin, &results) : print_table(&plugin, &results);
    bool nothing = plugin.kind == ENGINE_PLUGIN_BACKEND && plugin.n_devices == 0;
    free(results.rows);
    return status == 0 && (results.failed > 0 || nothing) ? 1 : status;
}
