/* serve.c: engine_serve_devices of engine.h: this process's devices for another process, through a backend that can
 * offer them. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sized.h"
#include "devices/devices.h"
#include "model/model.h"

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
