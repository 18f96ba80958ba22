/* open.c: see open.h. */
#include "devices/open.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "common/assert.h"
#include "devices/cluster.h"
#include "devices/devices.h"

/* Part of the free memory left to others: drivers, the screen, errors of estimates. */
#define MARGIN_SHARE 20
#define MARGIN_LEAST (64u << 20)

bool devices_parse_size(const char *text, uint64_t *bytes)
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

uint64_t devices_default_budget(const struct engine_device_info *info)
{
    if (info->memory_total == 0 && info->memory_free == 0) return PLACE_NO_LIMIT;
    uint64_t margin = info->memory_free / MARGIN_SHARE;
    if (margin < MARGIN_LEAST) margin = MARGIN_LEAST;
    return info->memory_free > margin ? info->memory_free - margin : 0;
}

/* A budget of the CPU without what other contexts have been promised. */
static uint64_t without_claims(struct claims *claims, uint64_t budget)
{
    if (budget == PLACE_NO_LIMIT) return budget;
    pthread_mutex_lock(&claims->lock);
    const uint64_t unwritten = claims->unwritten;
    pthread_mutex_unlock(&claims->lock);
    return budget > unwritten ? budget - unwritten : 0;
}

/* The bytes of the budget given for this device, the last one if there are several; false if there is
 * none. */
static bool find_budget(const char *const *memory, const char *device, uint64_t *bytes)
{
    size_t length = strlen(device);
    bool found = false;
    for (; memory && *memory; memory++)
        if (strncmp(*memory, device, length) == 0 && (*memory)[length] == '=')
            found = devices_parse_size(*memory + length + 1, bytes);
    return found;
}

/* How a device of another process is reached. */
static int find_link(struct open_device *device)
{
    struct engine_traffic *traffic = &device->link.traffic;
    traffic->struct_size = sizeof *traffic;
    if (!ENGINE_HAS(device->backend, traffic) || !device->backend->traffic) return ENGINE_OK;
    int status = device->backend->traffic(device->handle, traffic);
    traffic->struct_size = sizeof *traffic;
    device->link.latency = (double)device->info.link_latency * 1e-9;
    device->link.bandwidth = device->info.link_bandwidth ? (double)device->info.link_bandwidth : 1e12;
    return status;
}

/* Opens a device and adds it to the set, unless it is already there. */
static int open_device(const struct device *device, const struct device_request *request,
                       struct device_set *set)
{
    struct open_device opened = {.backend = device->plugin->info->backend};
    uint32_t there;
    if (devices_find(set, device->name, &there)) return ENGINE_OK;
    int status = devices_get_info(device, &opened.info);
    if (status) return status;
    if (set->n_devices == PLACE_MAX_DEVICES)
        return error_raise(ENGINE_ERROR_UNSUPPORTED, "%s: at most %d devices can be used at once",
                           device->name, PLACE_MAX_DEVICES);
    if (opened.info.alignment & (opened.info.alignment - 1))
        return error_raise(ENGINE_ERROR, "%s: its alignment %u is not a power of two", device->name,
                           opened.info.alignment);
    memcpy(opened.name, device->name, sizeof opened.name);
    opened.budget = devices_default_budget(&opened.info);
    if (device->is_cpu) opened.budget = without_claims(&set->engine->claims, opened.budget);
    struct engine_device_options options = {.struct_size = sizeof options, .n_threads = request->n_threads};
    if (find_budget(request->memory, device->name, &opened.budget))
        options.memory_limit = opened.budget ? opened.budget : 1;
    error_clear();
    status = opened.backend->device_open(device->index, &options, &opened.handle);
    if (status) {
        settings_locate(set->engine->config, device->plugin->name, status);
        return error_wrap(status, "%s: cannot open the device", device->name);
    }
    status = find_link(&opened);
    set->devices[set->n_devices++] = opened;
    return status;
}

/* Opens a device that wasn't named itself, unless the same hardware is already open: by the same backend if
 * `plugin` isn't NULL, by any otherwise. */
static int open_unless_same(const struct device *device, const struct plugin *plugin,
                            const struct device_request *request, struct device_set *set)
{
    for (uint32_t i = 0; i < set->n_devices; i++) {
        const struct open_device *opened = &set->devices[i];
        struct hardware hardware = hardware_of(&opened->info);
        if (plugin && opened->backend != plugin->info->backend) continue;
        if (strcmp(opened->name, device->name) == 0 || !hardware_same(&hardware, &device->hardware)) continue;
        log_line(ENGINE_LOG_INFO, "%s is not used: it is the same hardware as %s", device->name,
                 opened->name);
        return ENGINE_OK;
    }
    return open_device(device, request, set);
}

/* Opens a backend's devices except CPUs; CPUs too if it has nothing else. */
static int open_backend(const struct engine *engine, const struct plugin *plugin,
                        const struct device_request *request, struct device_set *set)
{
    uint32_t opened = 0;
    for (int cpus = 0; cpus <= 1 && opened == 0; cpus++) {
        for (size_t i = 0; i < engine->n_devices; i++) {
            const struct device *device = &engine->devices[i];
            if (device->plugin != plugin || device->is_cpu != cpus) continue;
            int status = open_unless_same(device, plugin, request, set);
            if (status) return status;
            opened++;
        }
    }
    if (opened > 0) return ENGINE_OK;
    uint32_t count;
    error_clear();
    plugin->info->backend->device_count(&count);
    if (error_message()[0])
        return error_wrap(ENGINE_ERROR_NOT_FOUND, "the backend %s cannot be used", plugin->name);
    return error_raise(ENGINE_ERROR_NOT_FOUND, "the backend %s found no device on this machine",
                       plugin->name);
}

/* One item of --backend: "vulkan", or one of its devices, as "vulkan:1" or by name, "vulkan1". */
static int open_named(struct engine *engine, const char *item, const struct device_request *request,
                      struct device_set *set)
{
    char name[64];
    const char *colon = strchr(item, ':');
    const char *rest = colon ? colon + 1 : "";
    snprintf(name, sizeof name, "%.*s", (int)(colon ? (size_t)(colon - item) : strlen(item)), item);
    const struct plugin *plugin = plugins_find_backend(engine->plugins, name);
    if (plugin && !colon) return open_backend(engine, plugin, request, set);
    snprintf(name + strlen(name), sizeof name - strlen(name), "%s", rest);
    const struct device *device = devices_find_open(engine, name);
    if (device) return open_device(device, request, set);
    if (plugin)
        return error_raise(ENGINE_ERROR_NOT_FOUND,
                           "the backend %s has no device %s; `engine devices` lists all devices",
                           plugin->name, rest);
    return error_raise(ENGINE_ERROR_NOT_FOUND,
                       "no backend '%s'; `engine plugins` lists those found and those refused", item);
}

static int open_list(struct engine *engine, const char *list, const struct device_request *request,
                     struct device_set *set)
{
    int status = ENGINE_OK;
    char *items = strdup(list), *rest = items;
    if (!items) return error_memory("backends");
    for (char *item; !status && (item = strsep(&rest, ", "));)
        if (*item && strcmp(item, "cpu") != 0) status = open_named(engine, item, request, set);
    free(items);
    return status;
}

/* Of several devices on the same hardware, the preferred one comes first; the others follow in case it can't
 * be opened. */
static void open_all(struct engine *engine, const struct device_request *request, struct device_set *set)
{
    devices_report_failures(engine, ENGINE_LOG_INFO);
    for (int others = 0; others <= 1; others++) {
        for (size_t i = 0; i < engine->n_devices; i++) {
            const struct device *device = &engine->devices[i];
            if (device->is_cpu || (devices_preferred(engine, device) != NULL) != others) continue;
            if (open_unless_same(device, NULL, request, set) != ENGINE_OK)
                log_line(ENGINE_LOG_WARNING, "%s; continuing without it", error_message());
        }
    }
}

static int open_cpu(const struct engine *engine, const struct device_request *request, struct device_set *set)
{
    for (size_t i = 0; i < engine->n_devices; i++)
        if (strcmp(engine->devices[i].plugin->name, "cpu") == 0)
            return open_device(&engine->devices[i], request, set);
    return error_raise(ENGINE_ERROR_NOT_FOUND,
                       "the cpu backend was not found; `engine plugins` lists those found and those refused");
}

/* Those of a file. Their memory is what it says, or less. */
static int open_described(const struct device_request *request, struct device_set *set)
{
    int status = cluster_read(request->cluster, set);
    for (uint32_t d = 1; d < set->n_devices; d++)
        find_budget(request->memory, set->devices[d].name, &set->devices[d].budget);
    return status;
}

/* Refuses budgets that are malformed or for devices not in the set. */
static int check_budgets(const char *const *memory, const struct device_set *set)
{
    for (; memory && *memory; memory++) {
        char name[48];
        uint32_t number;
        uint64_t bytes;
        const char *equals = strchr(*memory, '=');
        if (!equals || !devices_parse_size(equals + 1, &bytes))
            return error_raise(ENGINE_ERROR_ARGUMENT,
                               "--memory %s: expected DEVICE=SIZE, such as vulkan0=600M", *memory);
        snprintf(name, sizeof name, "%.*s", (int)(equals - *memory), *memory);
        if (!devices_find(set, name, &number))
            return error_raise(ENGINE_ERROR_ARGUMENT,
                               "--memory %s: the device %s is not in use; `engine devices` lists all devices",
                               *memory, name);
        if (number == 0)
            return error_raise(
                ENGINE_ERROR_ARGUMENT,
                "--memory %s: the CPU cannot be limited because it takes what no other device does", *memory);
    }
    return ENGINE_OK;
}

static int open_requested(struct engine *engine, const struct device_request *request, struct device_set *set)
{
    int status = devices_list(engine);
    if (!status) status = open_cpu(engine, request, set);
    if (status) return status;
    ENGINE_ASSERT(set->n_devices == 1); /* device 0 is the CPU */
    if (request->cluster)
        status = open_described(request, set);
    else if (request->backends)
        status = open_list(engine, request->backends, request, set);
    else
        open_all(engine, request, set);
    return status ? status : check_budgets(request->memory, set);
}

int devices_open(struct engine *engine, const struct device_request *request, struct device_set *set)
{
    *set = (struct device_set){.engine = engine};
    pthread_mutex_lock(&engine->devices_lock);
    int status = open_requested(engine, request, set);
    pthread_mutex_unlock(&engine->devices_lock);
    return status;
}

void devices_close(struct device_set *set)
{
    if (set->n_devices == 0) return;
    pthread_mutex_lock(&set->engine->devices_lock);
    for (uint32_t i = set->n_devices; i-- > 0;)
        if (!set->devices[i].is_described || i == 0)
            set->devices[i].backend->device_close(set->devices[i].handle);
    pthread_mutex_unlock(&set->engine->devices_lock);
    set->n_devices = 0;
}
