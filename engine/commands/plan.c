/* plan.c: `engine plan`: where everything would be placed, without loading anything. */
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "commands/commands.h"
#include "commands/plan-predict.h"
#include "io/display.h"
#include "io/json.h"
#include "io/messages.h"
#include "options/open.h"

/* A tensor with a second role on the same device, where it takes no more memory, is listed once. */
static bool is_repeated(const struct engine_plan *plan, size_t index, const struct engine_plan_tensor *tensor)
{
    struct engine_plan_tensor other;
    for (size_t i = 0; tensor->bytes == 0 && i < engine_plan_tensor_count(plan); i++) {
        engine_plan_tensor_at(plan, i, &other);
        if (i == index || (other.bytes == 0 && i > index)) continue;
        if (strcmp(other.name, tensor->name) == 0 && strcmp(other.device, tensor->device) == 0) return true;
    }
    return false;
}

/* A device counts the layers whose attention it runs; one that has only weights holds parts of other devices'
 * layers, or of none. */
static void add_layers(struct table *table, const struct engine_plan *plan,
                       const struct engine_plan_device *device)
{
    bool parts = false;
    for (size_t i = 0; i < engine_plan_tensor_count(plan); i++) {
        struct engine_plan_tensor tensor;
        engine_plan_tensor_at(plan, i, &tensor);
        parts |= strncmp(tensor.name, "blk.", 4) == 0 && strcmp(tensor.device, device->name) == 0;
    }
    if (device->n_layers > 0 || device->weights == 0)
        table_add(table, "%" PRIu32, device->n_layers);
    else
        table_add(table, "%s", parts ? "parts" : "-");
}

static int print_for_people(const struct engine_plan *plan)
{
    struct table tensors = {.n_columns = 4, .alignment = "llrl"};
    struct table devices = {.n_columns = 7, .alignment = "lrrrrrr"};
    struct engine_plan_totals totals;
    engine_plan_get_totals(plan, &totals);

    table_add(&tensors, "TENSOR"), table_add(&tensors, "TYPE"), table_add(&tensors, "SIZE");
    table_add(&tensors, "DEVICE");
    for (size_t i = 0; i < engine_plan_tensor_count(plan); i++) {
        struct engine_plan_tensor tensor;
        engine_plan_tensor_at(plan, i, &tensor);
        if (is_repeated(plan, i, &tensor)) continue;
        table_add(&tensors, "%s", tensor.name);
        table_add(&tensors, "%s", tensor.type_name);
        table_add(&tensors, "%s", size_text(tensor.bytes).text);
        table_add(&tensors, "%s", tensor.device);
    }
    int status = table_print(&tensors, "the model has no tensors", stdout);
    putchar('\n');

    static const char *const headings[] = {"DEVICE",      "LAYERS", "WEIGHTS", "CACHE",
                                           "ACTIVATIONS", "IN ALL", "BUDGET"};
    for (size_t i = 0; i < 7; i++) table_add(&devices, "%s", headings[i]);
    for (size_t i = 0; i < engine_plan_device_count(plan); i++) {
        struct engine_plan_device device;
        engine_plan_device_at(plan, i, &device);
        table_add(&devices, "%s", device.name);
        add_layers(&devices, plan, &device);
        table_add(&devices, "%s", size_text(device.weights).text);
        table_add(&devices, "%s", size_text(device.cache).text);
        table_add(&devices, "%s", size_text(device.activations).text);
        table_add(&devices, "%s", size_text(device.weights + device.cache + device.activations).text);
        table_add(&devices, "%s", device.budget == UINT64_MAX ? "unknown" : size_text(device.budget).text);
    }
    if (!status) status = table_print(&devices, "no devices", stdout);
    printf("\nPer token: %s of weights read", size_text(totals.read_bytes).text);
    printf(", %s between devices (%s).\n", count_text(totals.copies, "copy", "copies").text,
           size_text(totals.copy_bytes).text);
    return status;
}

/* prediction: NULL, or owned. */
static int print_json(const struct engine_plan *plan, json_t *prediction)
{
    struct engine_plan_totals totals;
    engine_plan_get_totals(plan, &totals);
    json_t *tensors = json_array(), *devices = json_array();
    for (size_t i = 0; i < engine_plan_tensor_count(plan); i++) {
        struct engine_plan_tensor tensor;
        engine_plan_tensor_at(plan, i, &tensor);
        if (is_repeated(plan, i, &tensor)) continue;
        json_array_append_new(tensors, json_pack("{s:o, s:s, s:o, s:s}", "name", json_line(tensor.name),
                                                 "type", tensor.type_name, "bytes", json_count(tensor.bytes),
                                                 "device", tensor.device));
    }
    for (size_t i = 0; i < engine_plan_device_count(plan); i++) {
        struct engine_plan_device device;
        engine_plan_device_at(plan, i, &device);
        json_array_append_new(
            devices,
            json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "name", device.name, "layers",
                      json_count(device.n_layers), "weights", json_count(device.weights), "cache",
                      json_count(device.cache), "activations", json_count(device.activations), "total",
                      json_count(device.weights + device.cache + device.activations), "budget",
                      device.budget == UINT64_MAX ? json_null() : json_count(device.budget)));
    }
    return json_print(json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "tensors", tensors, "devices",
                                devices, "layers", json_count(totals.n_layers), "cache",
                                json_count(totals.cache), "copies_per_token", json_count(totals.copies),
                                "copy_bytes_per_token", json_count(totals.copy_bytes), "read_bytes_per_token",
                                json_count(totals.read_bytes), "prediction",
                                prediction ? prediction : json_null()));
}

int command_plan(const struct arguments *arguments)
{
    struct engine *engine = NULL;
    struct engine_model *model = NULL;
    struct engine_plan *plan = NULL;
    struct engine_context_options options;
    int32_t offload;
    int exit_status = 0;
    const bool with_time = arguments->with_time || arguments->cluster;
    bool is_predicted = false;
    context_options(arguments, &options, &offload);
    int status = open_engine(arguments, &engine);
    if (!status) status = open_model(arguments, engine, &model);
    if (!status) status = create_plan(arguments, model, &options, &plan);
    if (!status) {
        int predicted = engine_plan_predict(plan, arguments->n_prompt, with_time);
        is_predicted = !predicted;
        /* Without a question about it, plans of encoders have none. */
        if (with_time || arguments->n_prompt > 0 || predicted == ENGINE_ERROR_MEMORY) status = predicted;
    }
    if (!status && arguments->describe) status = engine_plan_write_cluster(plan, arguments->describe);
    if (status)
        exit_status = command_fail();
    else if (arguments->json)
        exit_status = print_json(plan, is_predicted ? predict_json(plan, with_time) : NULL);
    else
        exit_status = print_for_people(plan);
    if (!exit_status && is_predicted && !arguments->json) exit_status = predict_print(plan, with_time);
    engine_plan_destroy(plan);
    engine_model_close(model);
    engine_close(engine);
    return exit_status;
}
