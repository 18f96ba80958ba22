/* devices.c: `engine devices`: the devices that models can run on. */
#include <string.h>

#include "commands/commands.h"
#include "io/display.h"
#include "io/json.h"
#include "io/messages.h"
#include "options/open.h"

static const char *kind_name(uint32_t kind)
{
    switch (kind) {
    case ENGINE_DEVICE_CPU: return "cpu";
    case ENGINE_DEVICE_GPU: return "gpu";
    case ENGINE_DEVICE_INTEGRATED_GPU: return "integrated-gpu";
    default: return "accelerator"; /* including kinds that only newer plugins know */
    }
}

/* The version of a device's plugin. */
static const char *version_of(const struct engine *engine, const char *plugin)
{
    struct engine_plugin_entry_info info;
    for (size_t i = 0; i < engine_plugin_count(engine); i++) {
        engine_plugin_at(engine, i, &info);
        if (!info.refused && strcmp(info.name, plugin) == 0) return info.version;
    }
    return "";
}

/* Asks a device. One that doesn't answer (any more) is skipped with a warning. */
static bool devices_query(struct engine *engine, size_t index, struct engine_device_entry *device)
{
    if (engine_device_at(engine, index, device) == ENGINE_OK) return true;
    command_warn("device %zu: %s", index, engine_error_message());
    return false;
}

/* "; link: 0.21 ms, 118 MB/s" */
static const char *link_text(const struct engine_device_info *info, char text[64])
{
    text[0] = '\0';
    if (info->link_latency > 0)
        snprintf(text, 64, "; link: %.2g ms, %.3g MB/s", (double)info->link_latency * 1e-6,
                 (double)info->link_bandwidth * 1e-6);
    return text;
}

static json_t *device_json(const struct engine *engine, const struct engine_device_entry *device)
{
    const struct engine_device_info *info = &device->info;
    return json_pack("{s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:b, s:o, s:o}", "name",
                     json_line(device->name), "plugin", json_line(device->plugin), "version",
                     json_line(version_of(engine, device->plugin)), "kind", kind_name(info->kind),
                     "description", json_line(info->description), "memory_free",
                     json_count(info->memory_free), "memory_total",
                     info->memory_total ? json_count(info->memory_total) : json_null(), "preferred",
                     device->preferred ? json_line(device->preferred) : json_null(), "batch_invariant",
                     (info->flags & ENGINE_DEVICE_BATCH_INVARIANT) != 0, "link_latency",
                     info->link_latency ? json_real((double)info->link_latency * 1e-9) : json_null(),
                     "link_bandwidth", info->link_bandwidth ? json_count(info->link_bandwidth) : json_null());
}

static int print_json(struct engine *engine, size_t count)
{
    struct engine_device_entry device;
    json_t *devices = json_array();
    for (size_t i = 0; i < count; i++) {
        if (!devices_query(engine, i, &device)) continue;
        if (json_array_append_new(devices, device_json(engine, &device)) != 0) {
            json_decref(devices);
            return json_print(NULL);
        }
    }
    return json_print(json_pack("{s:o, s:o}", "devices", devices, "refused", refused_plugins(engine)));
}

static int print_table(struct engine *engine, size_t count)
{
    static const char *const titles[] = {"NAME", "KIND", "PLUGIN", "FREE", "TOTAL", "DESCRIPTION"};
    struct engine_device_entry device;
    struct table table = {.n_columns = 6, .alignment = "lllrrl"};
    for (size_t i = 0; i < 6; i++) table_add(&table, "%s", titles[i]);
    for (size_t i = 0; i < count; i++) {
        if (!devices_query(engine, i, &device)) continue;
        uint64_t total = device.info.memory_total;
        table_add(&table, "%s", device.name);
        table_add(&table, "%s", kind_name(device.info.kind));
        table_add(&table, "%s %s", device.plugin, version_of(engine, device.plugin));
        table_add(&table, "%s", size_text(device.info.memory_free).text);
        table_add(&table, "%s", total ? size_text(total).text : "unknown");
        char link[64];
        table_add(&table, "%s%s%s%s", device.info.description, link_text(&device.info, link),
                  device.preferred ? "; same hardware as " : "", device.preferred ? device.preferred : "");
    }
    int status = table_print(&table, "no devices", stdout);
    print_refused_plugins(engine);
    return status;
}

int command_devices(const struct arguments *arguments)
{
    struct engine *engine;
    size_t count;
    if (open_engine_to_list(arguments, &engine) != ENGINE_OK) return command_fail();
    int status = engine_device_count(engine, &count) == ENGINE_OK ? 0 : command_fail();
    if (status == 0) status = arguments->json ? print_json(engine, count) : print_table(engine, count);
    engine_close(engine);
    return status;
}
