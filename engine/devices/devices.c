/* devices.c: see devices.h; the functions of engine.h on devices. */
#include "devices/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "common/printable.h"
#include "devices/measure.h"

int devices_get_info(const struct device *device, struct engine_device_info *info)
{
    memset(info, 0, sizeof *info);
    info->struct_size = sizeof *info;
    error_clear();
    int status = device->plugin->info->backend->device_info(device->index, info);
    if (status != ENGINE_OK) {
        if (error_message()[0]) return status;
        return error_raise(status, "%s: cannot describe device %u", device->plugin->name, device->index);
    }
    info->struct_size = sizeof *info;
    info->id[sizeof info->id - 1] = '\0';
    info->description[sizeof info->description - 1] = '\0';
    info->pci_address[sizeof info->pci_address - 1] = '\0';
    printable_make(info->description);
    printable_make(info->pci_address);
    return ENGINE_OK;
}

struct device *devices_find_open(const struct engine *engine, const char *name)
{
    for (size_t i = 0; i < engine->n_devices; i++) {
        if (strcmp(engine->devices[i].name, name) == 0) return &engine->devices[i];
    }
    return NULL;
}

/* Digits and dots, and after a digit letters: names of devices end where that of the plugin's begins. */
static bool is_device_id(const char *id)
{
    size_t length = strspn(id, "0123456789.abcdefghijklmnopqrstuvwxyz_-");
    return id[length] == '\0' && (id[0] == '\0' || (id[0] >= '0' && id[0] <= '9') || id[0] == '.');
}

/* Adds device `index` of a plugin under its name. Faults of the device are logged. */
static int add_device(struct engine *engine, const struct plugin *plugin, uint32_t index)
{
    struct engine_device_info info;
    struct device device = {.plugin = plugin, .index = index};
    if (devices_get_info(&device, &info) != ENGINE_OK) {
        log_line(ENGINE_LOG_WARNING, "%s", error_message());
        return ENGINE_OK;
    }
    snprintf(device.name, sizeof device.name, "%s%s", plugin->name, info.id);
    if (!is_device_id(info.id) || devices_find_open(engine, device.name)) {
        log_line(ENGINE_LOG_WARNING, "%s: device %u is not used: its id '%s' is %s", plugin->name, index,
                 info.id,
                 devices_find_open(engine, device.name)
                     ? "also that of another device"
                     : "not made of digits and dots, with letters only after them");
        return ENGINE_OK;
    }
    device.hardware = hardware_of(&info);
    device.is_cpu = info.kind == ENGINE_DEVICE_CPU;
    struct device *devices = realloc(engine->devices, (engine->n_devices + 1) * sizeof *devices);
    if (!devices) return error_memory("list of devices");
    engine->devices = devices;
    devices[engine->n_devices++] = device;
    return ENGINE_OK;
}

void devices_report_failures(struct engine *engine, enum engine_log_level absent)
{
    for (size_t i = 0; i < plugins_count(engine->plugins); i++) {
        const struct plugin *plugin = plugins_at(engine->plugins, i);
        uint32_t count = 0;
        if (plugin->refused || plugin->info->kind != ENGINE_PLUGIN_BACKEND) continue;
        if (plugin == engine->serving) continue; /* it would look for others' devices */
        error_clear();
        int status = plugin->info->backend->device_count(&count);
        if (status == ENGINE_OK) continue;
        if (!error_message()[0]) error_raise(status, "%s: cannot list its devices", plugin->name);
        log_line(status == ENGINE_ERROR_NOT_FOUND ? absent : ENGINE_LOG_WARNING, "%s", error_message());
    }
    error_clear();
}

static int add_devices(struct engine *engine, const struct plugin *plugin)
{
    uint32_t count = 0;
    int status = ENGINE_OK;
    if (plugin->info->backend->device_count(&count) != ENGINE_OK)
        return ENGINE_OK; /* devices_report_failures tells */
    for (uint32_t i = 0; i < count && status == ENGINE_OK; i++) status = add_device(engine, plugin, i);
    return status;
}

int devices_list(struct engine *engine)
{
    int status = ENGINE_OK;
    if (engine->devices_listed) return ENGINE_OK;
    engine->n_devices = 0;
    for (size_t i = 0; i < plugins_count(engine->plugins) && status == ENGINE_OK; i++) {
        const struct plugin *plugin = plugins_at(engine->plugins, i);
        if (!plugin->refused && plugin->info->kind == ENGINE_PLUGIN_BACKEND && plugin != engine->serving)
            status = add_devices(engine, plugin);
    }
    engine->devices_listed = status == ENGINE_OK;
    if (status == ENGINE_OK) devices_report_speeds(engine);
    return status;
}

const struct device *devices_preferred(const struct engine *engine, const struct device *device)
{
    const struct device *best = device;
    for (size_t i = 0; i < engine->n_devices; i++) {
        const struct device *other = &engine->devices[i];
        uint32_t rank = other->hardware.rank;
        if (other == device || !hardware_same(&other->hardware, &device->hardware)) continue;
        if (rank > best->hardware.rank || (rank == best->hardware.rank && other < best)) best = other;
    }
    return best == device ? NULL : best;
}

int engine_device_count(struct engine *engine, size_t *count)
{
    pthread_mutex_lock(&engine->devices_lock);
    int status = devices_list(engine);
    if (status == ENGINE_OK) devices_report_failures(engine, ENGINE_LOG_WARNING);
    if (status == ENGINE_OK) *count = engine->n_devices;
    pthread_mutex_unlock(&engine->devices_lock);
    return status;
}

static int describe_device(struct engine *engine, size_t index, struct engine_device_entry *entry)
{
    struct engine_device_info info;
    int status = devices_list(engine);
    if (status != ENGINE_OK) return status;
    if (index >= engine->n_devices)
        return error_raise(ENGINE_ERROR_ARGUMENT, "there is no device %zu", index);
    const struct device *device = &engine->devices[index];
    status = devices_get_info(device, &info);
    if (status != ENGINE_OK) return status;
    const struct device *preferred = devices_preferred(engine, device);
    *entry = (struct engine_device_entry){.name = device->name,
                                          .plugin = device->plugin->name,
                                          .info = info,
                                          .preferred = preferred ? preferred->name : NULL};
    return ENGINE_OK;
}

int engine_device_at(struct engine *engine, size_t index, struct engine_device_entry *entry)
{
    pthread_mutex_lock(&engine->devices_lock);
    int status = describe_device(engine, index, entry);
    pthread_mutex_unlock(&engine->devices_lock);
    return status;
}
