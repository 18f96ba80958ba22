/* devices.c: see devices.h. */
#include "plugins/devices.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"

/* Part of the free memory that is left to others: drivers, the screen, estimates that are a little off. */
#define MARGIN_SHARE 20
#define MARGIN_LEAST (64u << 20)

bool parse_size(const char *text, uint64_t *bytes)
{
    static const char units[] = "KMGT";
    char *end;
    if (!isdigit((unsigned char)*text)) return false;
    double value = strtod(text, &end);
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    if (unit) {
        value = ldexp(value, 10 * (int)(unit - units + 1));
        end++;
        if (*end == 'i') end++;
    }
    if (*end == 'B') end++;
    if (*end != 0 || !(value >= 0) || value >= 0x1p63) return false;
    *bytes = (uint64_t)value;
    return true;
}

bool devices_find(const struct device_set *set, const char *name, uint32_t *number)
{
    for (uint32_t i = 0; i < set->n_devices; i++) {
        if (strcmp(set->devices[i].name, name) != 0) continue;
        *number = i;
        return true;
    }
    return false;
}

static uint64_t default_budget(const struct engine_device_info *info)
{
    if (info->memory_total == 0 && info->memory_free == 0) return PLACE_NO_LIMIT;
    uint64_t margin = info->memory_free / MARGIN_SHARE;
    if (margin < MARGIN_LEAST) margin = MARGIN_LEAST;
    return info->memory_free > margin ? info->memory_free - margin : 0;
}

static int describe(const struct plugin *plugin, uint32_t index, struct engine_device_info *info)
{
    *info = (struct engine_device_info){.struct_size = sizeof *info};
    int status = plugin->info->backend->device_info(index, info);
    info->id[sizeof info->id - 1] = 0;
    info->description[sizeof info->description - 1] = 0;
    return status;
}

/* Opens device `index` of a plugin and adds it to the set, unless it is there already. */
static int open_device(const struct plugin *plugin, uint32_t index, uint32_t n_threads,
                       struct device_set *set)
{
    const struct engine_backend *backend = plugin->info->backend;
    struct device *device = &set->devices[set->n_devices];
    struct device opened = {.backend = backend};
    uint32_t there;
    int status = describe(plugin, index, &opened.info);
    if (status) return fail_because(status, "%s: device %u", plugin->info->name, index);
    snprintf(opened.name, sizeof opened.name, "%s%s", plugin->info->name, opened.info.id);
    if (devices_find(set, opened.name, &there)) return ENGINE_OK;
    if (set->n_devices == PLACE_MAX_DEVICES)
        return fail(ENGINE_ERROR_UNSUPPORTED, "%s: at most %d devices can be used at once", opened.name,
                    PLACE_MAX_DEVICES);
    struct engine_device_options options = {.struct_size = sizeof options, .n_threads = n_threads};
    status = backend->device_open(index, &options, &opened.handle);
    if (status) return fail_because(status, "%s: can't open the device", opened.name);
    opened.budget = default_budget(&opened.info);
    *device = opened;
    set->n_devices++;
    return ENGINE_OK;
}

/* Opens the devices of a plugin: the one with the given id, or, if it is NULL, all but CPUs; CPUs where the backend has
 * nothing else and was asked for by name. */
static int open_backend(const struct plugin *plugin, const char *id, bool named, uint32_t n_threads,
                        struct device_set *set)
{
    uint32_t count, opened = 0;
    int status = plugin->info->backend->device_count(&count);
    if (status) return fail_because(status, "%s", plugin->info->name);
    for (int cpus = 0; cpus <= (named || id) && opened == 0; cpus++) {
        for (uint32_t i = 0; i < count; i++) {
            struct engine_device_info info;
            status = describe(plugin, i, &info);
            if (status) return fail_because(status, "%s: device %u", plugin->info->name, i);
            if (id ? strcmp(info.id, id) != 0 : (info.kind == ENGINE_DEVICE_CPU) != cpus) continue;
            status = open_device(plugin, i, n_threads, set);
            if (status) return status;
            opened++;
        }
    }
    if (opened > 0 || (!named && !id)) return ENGINE_OK;
    if (id)
        return fail(ENGINE_ERROR_NOT_FOUND,
                    "the backend %s has no device %s; `engine devices` lists what there is",
                    plugin->info->name, id);
    return fail(ENGINE_ERROR_NOT_FOUND, "the backend %s finds no device on this machine", plugin->info->name);
}

/* One item of --backend: "vulkan", or "vulkan:1". */
static int open_named(const struct plugins *plugins, const char *item, uint32_t n_threads,
                      struct device_set *set)
{
    char name[64];
    const char *colon = strchr(item, ':');
    snprintf(name, sizeof name, "%.*s", colon ? (int)(colon - item) : (int)strlen(item), item);
    const struct plugin *plugin = plugins_find_backend(plugins, name);
    if (!plugin)
        return fail(ENGINE_ERROR_NOT_FOUND,
                    "no backend '%s'; `engine plugins` lists what there is and what was refused", name);
    return open_backend(plugin, colon ? colon + 1 : NULL, true, n_threads, set);
}

static int open_list(const struct plugins *plugins, const char *list, uint32_t n_threads,
                     struct device_set *set)
{
    int status = ENGINE_OK;
    char *items = strdup(list), *rest = items;
    if (!items) return fail_memory("backends");
    for (char *item; !status && (item = strsep(&rest, ", "));)
        if (*item && strcmp(item, "cpu") != 0) status = open_named(plugins, item, n_threads, set);
    free(items);
    return status;
}

static void open_all(const struct plugins *plugins, const struct plugin *cpu, uint32_t n_threads,
                     struct device_set *set)
{
    for (size_t i = 0; i < plugins_count(plugins); i++) {
        const struct plugin *plugin = plugins_at(plugins, i);
        if (plugin->refused || plugin->info->kind != ENGINE_PLUGIN_BACKEND || plugin == cpu) continue;
        if (open_backend(plugin, NULL, false, n_threads, set) != ENGINE_OK)
            log_line(ENGINE_LOG_WARNING, "%s; going on without it", error_message());
    }
}

static int set_budgets(const char *const *memory, struct device_set *set)
{
    for (; memory && *memory; memory++) {
        char name[48];
        uint32_t number;
        uint64_t bytes;
        const char *equals = strchr(*memory, '=');
        if (!equals || !parse_size(equals + 1, &bytes))
            return fail(ENGINE_ERROR_ARGUMENT, "--memory %s: should be DEVICE=SIZE, like vulkan0=600M",
                        *memory);
        snprintf(name, sizeof name, "%.*s", (int)(equals - *memory), *memory);
        if (!devices_find(set, name, &number))
            return fail(ENGINE_ERROR_ARGUMENT,
                        "--memory %s: no device %s in use; `engine devices` lists them", *memory, name);
        set->devices[number].budget = bytes;
    }
    return ENGINE_OK;
}

int devices_open(const struct plugins *plugins, const struct device_request *request, struct device_set *set)
{
    *set = (struct device_set){.n_devices = 0};
    const struct plugin *cpu = plugins_find_backend(plugins, "cpu");
    if (!cpu)
        return fail(ENGINE_ERROR_NOT_FOUND,
                    "the cpu backend was not found; `engine plugins` lists where plugins were looked for");
    int status = open_device(cpu, 0, request->n_threads, set);
    if (status) return status;
    if (request->backends)
        status = open_list(plugins, request->backends, request->n_threads, set);
    else
        open_all(plugins, cpu, request->n_threads, set);
    return status ? status : set_budgets(request->memory, set);
}

void devices_close(struct device_set *set)
{
    for (uint32_t i = set->n_devices; i-- > 0;) set->devices[i].backend->device_close(set->devices[i].handle);
    set->n_devices = 0;
}
