/* devices.c: see devices.h; the functions of engine.h on devices, among them engine_serve_devices: this
 * process's devices for another process, through a backend that can offer them. */
#include "devices/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/log.h"
#include "common/array.h"
#include "common/assert.h"
#include "common/lock.h"
#include "common/printable.h"
#include "devices/measure.h"
#include "model/model.h"
#include "plugins/plugins.h"

struct hardware hardware_of(const struct engine_device_info *info)
{
    struct hardware hardware = {.rank = info->rank};
    memcpy(hardware.pci_address, info->pci_address, sizeof hardware.pci_address - 1);
    memcpy(hardware.uuid, info->uuid, sizeof hardware.uuid);
    return hardware;
}

/* Addresses first: some drivers give all cards of one kind the same uuid. */
bool hardware_same(const struct hardware *a, const struct hardware *b)
{
    static const uint8_t unknown[sizeof a->uuid];
    if (a->pci_address[0] && b->pci_address[0]) return strcasecmp(a->pci_address, b->pci_address) == 0;
    return memcmp(a->uuid, unknown, sizeof unknown) != 0 && memcmp(a->uuid, b->uuid, sizeof unknown) == 0;
}

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
    ENGINE_ASSERT(lock_is_mine(&engine->devices_lock));
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
    if (!ARRAY_GROW(engine->devices, engine->n_devices)) return error_memory("list of devices");
    engine->devices[engine->n_devices++] = device;
    return ENGINE_OK;
}

void devices_report_failures(struct engine *engine, enum engine_log_level absent)
{
    ENGINE_ASSERT(lock_is_mine(&engine->devices_lock));
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
    ENGINE_ASSERT(lock_is_mine(&engine->devices_lock));
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
    ENGINE_ASSERT(lock_is_mine(&engine->devices_lock));
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

/* ---- Devices for another process ----------------------------------------------------------------------- */

static const char *message(void)
{
    return error_message();
}

/* The bytes that a model file has of a tensor. Tensors that are made of others are sent. */
static int find_tensor(void *context, const char *name, struct engine_weight_desc *desc)
{
    const struct engine_model *model = context;
    const struct model_tensor *tensor = model_tensor_find(model->model, name);
    if (!tensor || !tensor->data) return ENGINE_ERROR_NOT_FOUND;
    struct engine_weight_desc found = {
        .struct_size = sizeof found, .type = tensor->type, .data = tensor->data, .data_size = tensor->size};
    memcpy(found.ne, tensor->ne, sizeof found.ne);
    sized_write(desc, &found, sizeof found);
    return ENGINE_OK;
}

/* The first backend that serves. */
static const struct plugin *find_serving(const struct engine *engine)
{
    for (size_t i = 0; i < plugins_count(engine->plugins); i++) {
        const struct plugin *plugin = plugins_at(engine->plugins, i);
        if (plugin->refused || plugin->info->kind != ENGINE_PLUGIN_BACKEND) continue;
        const struct engine_backend *backend = plugin->info->backend;
        if (ENGINE_HAS(backend, serve) && backend->serve) return plugin;
    }
    return NULL;
}

/* Whether the list, of plugins and devices as in --backend, names the device. */
static bool is_named(const char *list, const struct device *device)
{
    const char *plugin = device->plugin->name;
    for (const char *at = list; *at; at += strcspn(at, ", ")) {
        at += strspn(at, ", ");
        size_t length = strcspn(at, ", ");
        if (length == strlen(plugin) && memcmp(at, plugin, length) == 0) return true;
        if (length == strlen(device->name) && memcmp(at, device->name, length) == 0) return true;
    }
    return false;
}

/* Without a list: what a model would use here. */
static bool is_served(const struct engine *engine, const struct device *device, const char *list)
{
    if (list) return is_named(list, device);
    if (strcmp(device->plugin->name, "cpu") == 0) return true;
    return !device->is_cpu && !devices_preferred(engine, device);
}

static int serve(struct engine *engine, const struct engine_serve_options *options)
{
    struct engine_service service = {.struct_size = sizeof service,
                                     .abi_major = ENGINE_ABI_MAJOR,
                                     .abi_minor = ENGINE_ABI_MINOR,
                                     .n_threads = options->n_threads,
                                     .message = message,
                                     .context = options->model,
                                     .needs_local = options->weights == ENGINE_WEIGHTS_OWN};
    if (options->model && options->weights != ENGINE_WEIGHTS_SENT) service.tensor = find_tensor;
    const struct engine_backend *backend = engine->serving->info->backend;
    struct engine_served_device *devices = calloc(engine->n_devices + 1, sizeof *devices);
    const struct engine_served_device **pointers = calloc(engine->n_devices + 1, sizeof *pointers);
    int status = devices && pointers ? ENGINE_OK : error_memory("devices");
    for (size_t i = 0; i < engine->n_devices && !status; i++) {
        const struct device *device = &engine->devices[i];
        if (!is_served(engine, device, options->backends)) continue;
        devices[service.n_devices] = (struct engine_served_device){.struct_size = sizeof *devices,
                                                                   .name = device->name,
                                                                   .backend = device->plugin->info->backend,
                                                                   .index = device->index};
        pointers[service.n_devices] = &devices[service.n_devices];
        service.n_devices++;
    }
    service.devices = pointers;
    if (!status && service.n_devices == 0)
        status = error_raise(ENGINE_ERROR_NOT_FOUND,
                             "there is no device to offer; `engine devices` lists all devices");
    if (!status) {
        error_clear();
        status = backend->serve(&service);
        if (status && !error_message()[0])
            error_raise(status, "%s failed without a reason", engine->serving->name);
    }
    free(devices);
    free(pointers);
    return status;
}

int engine_serve_devices(struct engine *engine, const struct engine_serve_options *given)
{
    struct engine_serve_options options = {.struct_size = sizeof options};
    int status = given ? SIZED_CHECK(given, engine_serve_options, n_threads) : ENGINE_OK;
    if (status) return status;
    if (given) sized_read(&options, sizeof options, given);
    if (options.weights > ENGINE_WEIGHTS_OWN || (options.weights == ENGINE_WEIGHTS_OWN && !options.model))
        return error_raise(ENGINE_ERROR_ARGUMENT,
                           "weights can come from a model of this process only if it has one (-m)");
    pthread_mutex_lock(&engine->devices_lock);
    engine->serving = find_serving(engine);
    if (!engine->serving)
        status = error_raise(ENGINE_ERROR_NOT_FOUND,
                             "no plugin can offer devices to other machines: is the backend mpi "
                             "installed? `engine plugins` lists those found and those refused");
    if (!status) status = devices_list(engine);
    if (!status) devices_report_failures(engine, ENGINE_LOG_INFO);
    if (!status) status = serve(engine, &options);
    pthread_mutex_unlock(&engine->devices_lock);
    return status;
}
