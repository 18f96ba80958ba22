/* plan-predict.c: see plan-predict.h. */
#include "commands/plan-predict.h"

#include <inttypes.h>

#include "io/display.h"
#include "io/json.h"
#include "io/messages.h"

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

int predict_print(const struct engine_plan *plan, bool with_time)
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

static json_t *describe(const struct engine_plan_share *share, bool with_time)
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
    json_t *devices = json_array(), *json = describe(&sum, with_time);
    for (size_t i = 0; i < engine_plan_device_count(plan); i++) {
        struct engine_plan_device device;
        const struct engine_plan_share share = share_of(plan, phase, i);
        json_t *described = describe(&share, with_time);
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

json_t *predict_json(const struct engine_plan *plan, bool with_time)
{
    return json_pack("{s:o, s:o}", "decode", describe_phase(plan, ENGINE_DECODE, with_time), "prefill",
                     describe_phase(plan, ENGINE_PREFILL, with_time));
}
