/* plan.c: `engine plan`: where everything would be placed, without loading anything, and what it predicts:
 * messages and their bytes, tokens per second, and what limits them. */
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "commands/commands.h"
#include "io/display.h"
#include "io/json.h"
#include "io/messages.h"
#include "options/open.h"

/* ---- Predictions --------------------------------------------------------------------------------------- */

static struct engine_plan_share share_of(const struct engine_plan *plan, uint32_t phase, size_t device)
{
    struct engine_plan_share share = {.struct_size = sizeof share};
    engine_plan_get_share(plan, phase, device, &share);
    return share;
}

static struct engine_plan_phase phase_of(const struct engine_plan *plan, uint32_t phase)
{
    struct engine_plan_phase known = {.struct_size = sizeof known};
    engine_plan_get_phase(plan, phase, &known);
    return known;
}

static struct engine_plan_share sum_of(const struct engine_plan *plan, uint32_t phase)
{
    struct engine_plan_share sum = {.struct_size = sizeof sum};
    for (size_t i = 0; i < engine_plan_device_count(plan); i++) {
        const struct engine_plan_share share = share_of(plan, phase, i);
        sum.reading += share.reading;
        sum.computing += share.computing;
        sum.overhead += share.overhead;
        sum.messages += share.messages;
        sum.n_messages += share.n_messages;
        sum.message_bytes += share.message_bytes;
    }
    return sum;
}

static double seconds_of(const struct engine_plan_share *share)
{
    return share->reading + share->computing + share->overhead + share->messages;
}

/* What most of the time goes to. */
static const char *limit_of(const struct engine_plan_share *share)
{
    const struct {
        double seconds;
        const char *name;
    } parts[] = {{share->reading, "memory"},
                 {share->computing, "arithmetic"},
                 {share->overhead, "starting operations"},
                 {share->messages, "messages"}};
    size_t most = 0;
    for (size_t i = 1; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].seconds > parts[most].seconds) most = i;
    return parts[most].seconds > 0 ? parts[most].name : "-";
}

struct time_text {
    char text[24];
};

/* "1.23 ms" */
static struct time_text time_text(double seconds)
{
    struct time_text text;
    const char *unit = seconds >= 1 ? "s" : seconds >= 1e-3 ? "ms" : "us";
    const double units = seconds >= 1 ? seconds : seconds >= 1e-3 ? seconds * 1e3 : seconds * 1e6;
    snprintf(text.text, sizeof text.text, units < 1000 ? "%.3g %s" : "%.0f %s", units, unit);
    return text;
}

static void print_phase(const struct engine_plan *plan, uint32_t phase, const char *name)
{
    const struct engine_plan_phase known = phase_of(plan, phase);
    const struct engine_plan_share sum = sum_of(plan, phase);
    const double all = seconds_of(&sum) / 100; /* some of it passes at the same time */
    printf("%s: %.4g tokens/s (%s); memory %.0f %%, arithmetic %.0f %%, starting operations %.0f %%, "
           "messages %.0f %%\n",
           name, known.n_tokens / known.seconds, time_text(known.seconds).text, sum.reading / all,
           sum.computing / all, sum.overhead / all, sum.messages / all);
}

/* Both after engine_plan_predict; with_time: with seconds. */
static int predict_print(const struct engine_plan *plan, bool with_time)
{
    struct table table = {.n_columns = with_time ? 7 : 3, .alignment = "lrrrlrl"};
    const struct engine_plan_share sum = sum_of(plan, ENGINE_DECODE);
    if (sum.n_messages == 0 && !with_time) return 0;
    putchar('\n');
    table_add(&table, "DEVICE"), table_add(&table, "MESSAGES"), table_add(&table, "BYTES");
    if (with_time) {
        table_add(&table, "DECODE"), table_add(&table, "LIMIT");
        table_add(&table, "PREFILL"), table_add(&table, "LIMIT");
    }
    for (size_t i = 0; i < engine_plan_device_count(plan); i++) {
        struct engine_plan_device device;
        const struct engine_plan_share one = share_of(plan, ENGINE_DECODE, i),
                                       many = share_of(plan, ENGINE_PREFILL, i);
        engine_plan_device_at(plan, i, &device);
        if (one.n_messages == 0 && device.weights + device.cache + device.activations == 0) continue;
        table_add(&table, "%s", device.name);
        table_add(&table, "%" PRIu64, one.n_messages);
        table_add(&table, "%" PRIu64, one.message_bytes);
        if (!with_time) continue;
        table_add(&table, "%s", time_text(seconds_of(&one)).text);
        table_add(&table, "%s", limit_of(&one));
        table_add(&table, "%s", time_text(seconds_of(&many)).text);
        table_add(&table, "%s", limit_of(&many));
    }
    int status = table_print(&table, "no devices", stdout);
    const struct engine_plan_phase prefill = phase_of(plan, ENGINE_PREFILL);
    printf("\nMessages per token: %s, %s, after a prompt of %" PRIu32 " tokens.\n",
           count_text(sum.n_messages, "message", "messages").text, size_text(sum.message_bytes).text,
           prefill.n_tokens);
    if (with_time) print_phase(plan, ENGINE_DECODE, "Decode");
    if (with_time) print_phase(plan, ENGINE_PREFILL, "Prefill");
    return status;
}

static json_t *real_or_null(double value, bool is_known)
{
    return is_known ? json_real(value) : json_null();
}

static json_t *share_json(const struct engine_plan_share *share, bool with_time)
{
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "messages", json_count(share->n_messages), "message_bytes",
        json_count(share->message_bytes), "memory_seconds", real_or_null(share->reading, with_time),
        "arithmetic_seconds", real_or_null(share->computing, with_time), "starting_seconds",
        real_or_null(share->overhead, with_time), "message_seconds", real_or_null(share->messages, with_time),
        "limit", with_time ? json_string(limit_of(share)) : json_null());
}

static json_t *describe_phase(const struct engine_plan *plan, uint32_t phase, bool with_time)
{
    const struct engine_plan_phase known = phase_of(plan, phase);
    const struct engine_plan_share sum = sum_of(plan, phase);
    json_t *devices = json_array(), *json = share_json(&sum, with_time);
    for (size_t i = 0; i < engine_plan_device_count(plan); i++) {
        struct engine_plan_device device;
        const struct engine_plan_share share = share_of(plan, phase, i);
        json_t *described = share_json(&share, with_time);
        engine_plan_device_at(plan, i, &device);
        json_object_set_new(described, "name", json_string(device.name));
        json_array_append_new(devices, described);
    }
    json_object_set_new(json, "tokens", json_count(known.n_tokens));
    json_object_set_new(json, "position", json_count(known.position));
    json_object_set_new(json, "seconds", real_or_null(known.seconds, with_time));
    json_object_set_new(json, "tokens_per_second",
                        real_or_null(known.n_tokens / known.seconds, with_time && known.seconds > 0));
    json_object_set_new(json, "devices", devices);
    return json;
}

static json_t *predict_json(const struct engine_plan *plan, bool with_time)
{
    return json_pack("{s:o, s:o}", "decode", describe_phase(plan, ENGINE_DECODE, with_time), "prefill",
                     describe_phase(plan, ENGINE_PREFILL, with_time));
}

/* ---- The plan ------------------------------------------------------------------------------------------ */

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

static void print_context(const struct engine_plan *plan)
{
    struct engine_plan_context context = {.struct_size = sizeof context};
    char text[256];
    engine_plan_get_context(plan, &context);
    printf("\nContext: %s; cache: %" PRIu32 ".\n", context_text(&context, text, sizeof text),
           context.n_cache);
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
    print_context(plan);
    printf("\nPer token: %s of weights read", size_text(totals.read_bytes).text);
    printf(", %s between devices (%s).\n", count_text(totals.copies, "copy", "copies").text,
           size_text(totals.copy_bytes).text);
    return status;
}

/* prediction: NULL, or owned. */
static int print_json(const struct engine_plan *plan, json_t *prediction)
{
    static const char *const limits[] = {"trained", "asked", "cache", "memory", "rope", "batch"};
    struct engine_plan_totals totals;
    struct engine_plan_context context = {.struct_size = sizeof context};
    engine_plan_get_totals(plan, &totals);
    engine_plan_get_context(plan, &context);
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
    json_t *length = json_pack("{s:o, s:o, s:o, s:s, s:s?}", "trained", json_count(context.n_trained),
                               "chosen", json_count(context.n_context), "cache", json_count(context.n_cache),
                               "limit", limits[context.limit], "device", context.device);
    return json_print(json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "context", length, "tensors",
                                tensors, "devices", devices, "layers", json_count(totals.n_layers), "cache",
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
