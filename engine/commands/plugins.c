/* plugins.c: `engine plugins`: the plugins that were found, and why any of them is not used. */
#include <string.h>

#include "commands/commands.h"
#include "io/display.h"
#include "io/json.h"
#include "io/messages.h"
#include "options/open.h"

static bool is_used(const struct engine *engine, size_t index, struct engine_plugin_entry_info *info)
{
    engine_plugin_at(engine, index, info);
    return !info->refused;
}

json_t *refused_plugins(const struct engine *engine)
{
    struct engine_plugin_entry_info info;
    json_t *refused = json_array();
    for (size_t i = 0; i < engine_plugin_count(engine); i++) {
        if (is_used(engine, i, &info)) continue;
        json_t *item = json_pack("{s:o, s:o, s:o}", "path", json_line(info.path), "name",
                                 json_line(info.name), "reason", json_line(info.refused));
        if (json_array_append_new(refused, item) != 0) {
            json_decref(refused);
            return NULL;
        }
    }
    return refused;
}

void print_refused_plugins(const struct engine *engine)
{
    struct engine_plugin_entry_info info;
    for (size_t i = 0; i < engine_plugin_count(engine); i++) {
        if (!is_used(engine, i, &info)) printf("not used: %s: %s\n", info.path, info.refused);
    }
}

static json_t *plugin_json(const struct engine_plugin_entry_info *info)
{
    return json_pack(
        "{s:o, s:s, s:o, s:o, s:o, s:o, s:o}", "name", json_line(info->name), "kind", info->kind, "version",
        json_line(info->version), "abi", json_sprintf("%u.%u", info->abi_major, info->abi_minor), "license",
        json_line(info->license), "description", json_line(info->description), "path", json_line(info->path));
}

static int print_json(const struct engine *engine)
{
    struct engine_plugin_entry_info info;
    json_t *used = json_array();
    for (size_t i = 0; i < engine_plugin_count(engine); i++) {
        if (!is_used(engine, i, &info)) continue;
        if (json_array_append_new(used, plugin_json(&info)) != 0) {
            json_decref(used);
            return json_print(NULL);
        }
    }
    return json_print(json_pack("{s:s, s:o, s:o, s:o}", "version", engine_version(), "abi",
                                json_sprintf("%d.%d", ENGINE_ABI_MAJOR, ENGINE_ABI_MINOR), "plugins", used,
                                "refused", refused_plugins(engine)));
}

static int print_table(const struct engine *engine)
{
    static const char *const titles[] = {"NAME", "KIND", "VERSION", "ABI", "LICENSE", "PATH"};
    struct engine_plugin_entry_info info;
    struct table table = {.n_columns = 6, .alignment = "llllll"};
    for (size_t i = 0; i < 6; i++) table_add(&table, "%s", titles[i]);
    for (size_t i = 0; i < engine_plugin_count(engine); i++) {
        if (!is_used(engine, i, &info)) continue;
        table_add(&table, "%s", info.name);
        table_add(&table, "%s", info.kind);
        table_add(&table, "%s", info.version);
        table_add(&table, "%u.%u", info.abi_major, info.abi_minor);
        table_add(&table, "%s", info.license);
        table_add(&table, "%s", info.path);
    }
    int status = table_print(&table, "no plugins", stdout);
    print_refused_plugins(engine);
    return status;
}

int command_plugins(const struct arguments *arguments)
{
    const struct argument_list *words = &arguments->words;
    if (words->count > 0 && strcmp(words->items[0], "check") != 0)
        return command_usage("plugins: unexpected '%s'; see engine plugins --help", words->items[0]);
    if (words->count == 1) return command_usage("plugins check: no file; use engine plugins check FILE.so");
    if (words->count == 2) return command_plugins_check(arguments, words->items[1]);
    if (arguments->check_case) return command_usage("--case is an option of engine plugins check FILE.so");
    if (arguments->check_sample > 1)
        return command_usage("--sample is an option of engine plugins check FILE.so");
    struct engine *engine;
    if (open_engine_to_list(arguments, &engine) != ENGINE_OK) return command_fail();
    int status = arguments->json ? print_json(engine) : print_table(engine);
    engine_close(engine);
    return status;
}
