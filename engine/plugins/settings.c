/* settings.c: finds mistakes in plugins' sections of engine.conf: sections without a plugin, settings that
 * their plugin hasn't read, values that it refuses. Reported with file and line; see plugins.h. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "plugins/plugins.h"

static bool is_plugin(const struct plugins *plugins, const char *name)
{
    for (size_t i = 0; i < plugins_count(plugins); i++) {
        const struct plugin *plugin = plugins_at(plugins, i);
        if (plugin->name && strcmp(plugin->name, name) == 0) return true;
    }
    return false;
}

void settings_report_sections(const struct plugins *plugins, const struct config *config)
{
    const char *before = "";
    for (size_t i = 0; i < config_count(config); i++) {
        const struct config_entry *entry = config_at(config, i);
        bool again = strcmp(entry->section, before) == 0;
        before = entry->section;
        if (entry->section[0] && !again && !is_plugin(plugins, entry->section))
            log_line(ENGINE_LOG_WARNING, "%s:%u: [%s]: no plugin has this name (`engine plugins` lists them)",
                     entry->path, entry->line, entry->section);
    }
}

void settings_report_unread(const struct config *config, const char *plugin)
{
    for (size_t i = 0; i < config_count(config); i++) {
        const struct config_entry *entry = config_at(config, i);
        if (strcmp(entry->section, plugin) == 0 && !config_was_read(config, i))
            log_line(ENGINE_LOG_WARNING,
                     "%s:%u: [%s] %s: the plugin did not read this setting; is it misspelt?", entry->path,
                     entry->line, plugin, entry->key);
    }
}

void settings_report_early(const struct plugins *plugins, const struct config *config)
{
    for (size_t i = 0; i < plugins_count(plugins); i++) {
        const struct plugin *plugin = plugins_at(plugins, i);
        if (!plugin->refused && plugin->has_read_settings) settings_report_unread(config, plugin->name);
    }
}

int settings_locate(const struct config *config, const char *plugin, int status)
{
    char text[512];
    for (size_t i = 0; i < config_count(config); i++) {
        const struct config_entry *entry = config_at(config, i);
        if (strcmp(entry->section, plugin) != 0 || !entry->value[0]) continue;
        snprintf(text, sizeof text, "%s = %s", entry->key, entry->value);
        if (strstr(error_message(), text)) return error_wrap(status, "%s:%u", entry->path, entry->line);
    }
    return status;
}
