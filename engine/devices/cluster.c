/* cluster.c: see cluster.h. */
#include "devices/cluster.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/message-bytes.h"
#include "common/printable.h"
#include "devices/limits.h"
#include "model/hf/json.h"
#include "model/types.h"

#define MAX_BYTES (UINT64_C(1) << 20)
#define MOST      1e18 /* of any number */
#define LEAST     1e-12

/* Where in the file something is, for messages. */
struct place {
    const char *path;
    uint32_t machine, device; /* from 1; 0: none */
};

static int cluster_refuse(const struct place *place, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    printable_make(text);
    if (place->device)
        return error_raise(ENGINE_ERROR_DATA, "%s: device %u of machine %u: %s", place->path, place->device,
                           place->machine, text);
    if (place->machine)
        return error_raise(ENGINE_ERROR_DATA, "%s: machine %u: %s", place->path, place->machine, text);
    return error_raise(ENGINE_ERROR_DATA, "%s: %s", place->path, text);
}

/* Refuses keys that are not in the list, which ends with NULL. */
static int check_keys(const struct place *place, json_t *object, const char *const *known)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object)) return cluster_refuse(place, "it must be an object");
    json_object_foreach(object, key, value)
    {
        size_t i = 0;
        while (known[i] && strcmp(known[i], key) != 0) i++;
        if (!known[i]) return cluster_refuse(place, "there is nothing called '%.40s' here", key);
    }
    return ENGINE_OK;
}

/* A number from `least` to MOST. Without `value` set before (less than 0), it has to be there. */
static int read_number(const struct place *place, json_t *object, const char *key, double least,
                       double *value)
{
    json_t *json = json_object_get(object, key);
    if (!json && *value >= 0) return ENGINE_OK;
    if (!json) return cluster_refuse(place, "'%s' is missing", key);
    double number = json_is_number(json) ? json_number_value(json) : -1;
    if (!(number >= least && number <= MOST))
        return cluster_refuse(place, "'%s' must be a number from %g to %g", key, least, MOST);
    *value = number;
    return ENGINE_OK;
}

/* Bytes: a number, or a text such as "80G". */
static int read_memory(const struct place *place, json_t *object, uint64_t *bytes)
{
    json_t *json = json_object_get(object, "memory");
    double number = json_is_number(json) ? json_number_value(json) : -1;
    if (json_is_string(json) && devices_parse_size(json_string_value(json), bytes) && *bytes >= 1 &&
        (double)*bytes <= MOST)
        return ENGINE_OK;
    if (!(number >= 1 && number <= MOST))
        return cluster_refuse(place, "'memory' must be a number of bytes, or a text such as \"80G\"");
    *bytes = (uint64_t)number;
    return ENGINE_OK;
}

static int read_link(const struct place *place, json_t *object, struct device_link *link)
{
    static const char *const known[] = {"latency", "bandwidth", NULL};
    json_t *json = json_object_get(object, "link");
    if (!json) return ENGINE_OK;
    int status = check_keys(place, json, known);
    double latency = -1, bandwidth = -1;
    if (!status) status = read_number(place, json, "latency", 0, &latency);
    if (!status) status = read_number(place, json, "bandwidth", 1, &bandwidth);
    if (status) return status;
    link->latency = latency;
    link->bandwidth = bandwidth;
    return ENGINE_OK;
}

/* Types whose pace differs: {"Q4_K": {"bandwidth": …, "computation": …}}. */
static int read_types(const struct place *place, json_t *object, struct device_pace *pace)
{
    static const char *const known[] = {"bandwidth", "computation", "preparation", NULL};
    json_t *types = json_object_get(object, "types"), *json;
    const char *name;
    if (!types) return ENGINE_OK;
    if (!json_is_object(types)) return cluster_refuse(place, "'types' must be an object");
    json_object_foreach(types, name, json)
    {
        struct pace_of_type of = {.bandwidth = -1, .computation = -1};
        if (!type_by_name(name, &of.type)) return cluster_refuse(place, "there is no type '%.40s'", name);
        if (pace->n_types == PACE_TYPES) return cluster_refuse(place, "more than %d types", PACE_TYPES);
        int status = check_keys(place, json, known);
        if (!status) status = read_number(place, json, "bandwidth", 1, &of.bandwidth);
        if (!status) status = read_number(place, json, "computation", 1, &of.computation);
        if (!status) status = read_number(place, json, "preparation", 0, &of.preparation);
        if (status) return status;
        pace->types[pace->n_types++] = of;
    }
    return ENGINE_OK;
}

static bool is_name(const char *name)
{
    size_t length = strlen(name);
    return length > 0 && length < 32 && name[0] >= 'a' && name[0] <= 'z' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") == length;
}

static int read_device(const struct place *place, json_t *json, struct open_device *device, char name[32])
{
    static const char *const known[] = {"name",   "memory",   "bandwidth", "integers",
                                        "floats", "overhead", "types",     NULL};
    struct device_pace *pace = &device->pace;
    *device = (struct open_device){.pace = {.bandwidth = -1, .integers = -1, .floats = -1, .overhead = -1},
                                   .is_described = true};
    int status = check_keys(place, json, known);
    if (status) return status;
    const char *given = json_string_value(json_object_get(json, "name"));
    if (!given || !is_name(given))
        return cluster_refuse(place, "'name' must be that of a device, such as \"cpu\"");
    snprintf(name, 32, "%s", given);
    status = read_memory(place, json, &device->budget);
    if (!status) status = read_number(place, json, "bandwidth", 1, &pace->bandwidth);
    if (!status) status = read_number(place, json, "integers", 1, &pace->integers);
    if (!status) status = read_number(place, json, "floats", 1, &pace->floats);
    if (!status) status = read_number(place, json, "overhead", 0, &pace->overhead);
    if (!status) status = read_types(place, json, pace);
    return status;
}

/* Adds a device of machine `rank`. That of rank 0's machine that comes first is the CPU of the set. */
static int add_device(const struct place *place, struct device_set *set, uint32_t rank,
                      struct open_device device, const char *name)
{
    const struct open_device *cpu = &set->devices[0];
    bool is_first = set->n_devices == 1 && !cpu->is_described;
    uint32_t there;
    if (rank == 0)
        snprintf(device.name, sizeof device.name, "%s", name);
    else
        snprintf(device.name, sizeof device.name, "mpi%u.%s", rank, name);
    if (is_first && strcmp(device.name, "cpu") != 0)
        return cluster_refuse(place, "the first device of the first machine must be \"cpu\"");
    if (!is_first && devices_find(set, device.name, &there))
        return cluster_refuse(place, "there are two devices %s", device.name);
    if (set->n_devices == PLACE_MAX_DEVICES)
        return cluster_refuse(place, "more than %d devices", PLACE_MAX_DEVICES);
    device.backend = cpu->backend;
    device.handle = cpu->handle;
    device.info = cpu->info;
    device.info.memory_free = device.info.memory_total = device.budget;
    device.info.max_buffer = 0;
    if (strncmp(name, "cpu", 3) != 0) device.info.kind = ENGINE_DEVICE_GPU;
    device.speed = device.pace.bandwidth * 1e-9;
    snprintf(device.info.description, sizeof device.info.description, "described");
    set->devices[is_first ? 0 : set->n_devices++] = device;
    return ENGINE_OK;
}

/* Adds the machines that an entry describes. *rank: of the next. */
static int read_machine(struct place *place, json_t *json, struct device_link link, uint32_t *rank,
                        struct device_set *set)
{
    static const char *const known[] = {"count", "link", "devices", NULL};
    double count = 1;
    struct open_device device;
    char name[32];
    int status = check_keys(place, json, known);
    if (!status) status = read_number(place, json, "count", 1, &count);
    if (!status) status = read_link(place, json, &link);
    json_t *devices = json_object_get(json, "devices");
    if (!status && count > PLACE_MAX_DEVICES)
        status = cluster_refuse(place, "more than %d devices", PLACE_MAX_DEVICES);
    if (!status && count != (double)(uint32_t)count)
        status = cluster_refuse(place, "'count' must be a whole number");
    if (!status && (!json_is_array(devices) || json_array_size(devices) == 0))
        status = cluster_refuse(place, "'devices' must be a list of devices");
    for (uint32_t i = 0; !status && i < (uint32_t)count; i++, ++*rank) {
        if (*rank > 0 && link.bandwidth == 0) return cluster_refuse(place, "'link' is missing");
        for (size_t k = 0; k < json_array_size(devices) && !status; k++) {
            place->device = (uint32_t)k + 1;
            status = read_device(place, json_array_get(devices, k), &device, name);
            if (*rank > 0) device.link = link;
            device.link.traffic = message_bytes();
            device.link.traffic.peer = *rank;
            if (!status) status = add_device(place, set, *rank, device, name);
        }
        place->device = 0;
    }
    return status;
}

int cluster_read(const char *path, struct device_set *set)
{
    static const char *const known[] = {"link", "machines", NULL};
    struct place place = {path, 0, 0};
    struct device_link link = {0};
    uint32_t rank = 0;
    json_t *root = NULL;
    int status = hf_json_read(path, MAX_BYTES, &root);
    if (!status) status = check_keys(&place, root, known);
    if (!status) status = read_link(&place, root, &link);
    json_t *machines = json_object_get(root, "machines");
    if (!status && (!json_is_array(machines) || json_array_size(machines) == 0))
        status = cluster_refuse(&place, "'machines' must be a list of machines");
    for (size_t i = 0; !status && i < json_array_size(machines); i++) {
        place.machine = (uint32_t)i + 1;
        status = read_machine(&place, json_array_get(machines, i), link, &rank, set);
    }
    json_decref(root);
    return status;
}

/* ---- Writing ------------------------------------------------------------------------------------------- */

static json_t *describe_device(const struct open_device *device)
{
    const struct device_pace *pace = &device->pace;
    const char *dot = device->link.bandwidth > 0 ? strchr(device->name, '.') : NULL;
    uint64_t memory = device->budget != PLACE_NO_LIMIT ? device->budget : device->info.memory_total;
    json_t *types = json_object();
    for (size_t i = 0; i < pace->n_types; i++)
        json_object_set_new(types, type_info(pace->types[i].type)->name,
                            json_pack("{s:f, s:f, s:f}", "bandwidth", pace->types[i].bandwidth, "computation",
                                      pace->types[i].computation, "preparation", pace->types[i].preparation));
    return json_pack("{s:s, s:I, s:f, s:f, s:f, s:f, s:o}", "name", dot ? dot + 1 : device->name, "memory",
                     (json_int_t)memory, "bandwidth", pace->bandwidth, "integers", pace->integers, "floats",
                     pace->floats, "overhead", pace->overhead, "types", types);
}

int cluster_write(const struct device_set *set, const char *path)
{
    json_t *machines = json_array(), *devices = NULL;
    uint32_t peer = 0;
    for (uint32_t d = 0; d < set->n_devices; d++) {
        const struct open_device *device = &set->devices[d];
        const struct device_link *link = &device->link;
        if (!devices || link->traffic.peer != peer) {
            devices = json_array();
            json_t *machine = json_pack("{s:o}", "devices", devices);
            if (link->bandwidth > 0)
                json_object_set_new(
                    machine, "link",
                    json_pack("{s:f, s:f}", "latency", link->latency, "bandwidth", link->bandwidth));
            json_array_append_new(machines, machine);
            peer = link->traffic.peer;
        }
        json_array_append_new(devices, describe_device(device));
    }
    json_t *root = json_pack("{s:o}", "machines", machines);
    FILE *file = fopen(path, "w");
    bool written = root && file && json_dumpf(root, file, JSON_INDENT(2) | JSON_REAL_PRECISION(4)) == 0 &&
                   fputc('\n', file) != EOF;
    if (file && fclose(file) != 0) written = false;
    json_decref(root);
    return written ? ENGINE_OK : error_raise(ENGINE_ERROR, "%s: it cannot be written", path);
}
