/* options.c: checks the options of a caller and of engine.conf: sizes, the cache's type, offloading, rules;
 * and the adapters, against the model's graph too. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/log.h"
#include "kv/cache.h"
#include "model/types.h"
#include "plan/internal.h"

/* What weights are placed with room for: positions, of all sequences together and of each. */
#define START_CONTEXT   16384
#define START_EACH      2048
#define ENCODED_CONTEXT 4096 /* where a text goes through in one batch, which takes memory by its length */
#define DEFAULT_BATCH   512
#define MAX_BATCH       65536
#define MAX_SEQUENCES   4096
#define MAX_OUTPUTS     64 /* unless there are more sequences: logits of large vocabularies take memory */

int plan_read_context_options(const struct engine_context_options *given,
                              struct engine_context_options *known)
{
    *known = (struct engine_context_options){.struct_size = sizeof *known};
    if (!given) return ENGINE_OK;
    int status = SIZED_CHECK(given, engine_context_options, user);
    if (!status) sized_read(known, sizeof *known, given);
    return status;
}

/* A model that makes vectors needs keys and values only while it reads a text, so exact ones cost little.
 * T5's attention has no scale: its scores are so large that rounded keys change the text. */
static int read_cache_type(const char *name, const struct arch_info *info, uint32_t *type)
{
    *type = info->makes_vectors || info->has_source ? ENGINE_TYPE_F32 : ENGINE_TYPE_F16;
    if (!name) return ENGINE_OK;
    bool known =
        strcasecmp(name, "f16") == 0 || strcasecmp(name, "f32") == 0 || strcasecmp(name, "q8_0") == 0;
    if (!known || !type_by_name(name, type))
        return error_raise(ENGINE_ERROR_ARGUMENT, "cache type '%s': must be f16, f32 or q8_0", name);
    return ENGINE_OK;
}

int plan_read_rules(struct engine_plan *plan, const char *const *place)
{
    size_t count = 0;
    while (place && place[count]) count++;
    if (count == 0) return ENGINE_OK;
    plan->rules = calloc(count, sizeof *plan->rules);
    if (!plan->rules) return error_memory("plan");
    for (size_t i = 0; i < count; i++) {
        const char *equals = strrchr(place[i], '=');
        if (!equals || equals == place[i])
            return error_raise(ENGINE_ERROR_ARGUMENT,
                               "--place %s: expected PATTERN=DEVICE, such as 'blk.*.ffn_*=cpu'", place[i]);
        struct place_rule *rule = &plan->rules[plan->n_rules];
        if (!devices_find(&plan->set, equals + 1, &rule->device))
            return error_raise(ENGINE_ERROR_ARGUMENT,
                               "--place %s: the device %s is not in use; `engine devices` lists all devices",
                               place[i], equals + 1);
        rule->pattern = strndup(place[i], (size_t)(equals - place[i]));
        if (!rule->pattern) return error_memory("plan");
        plan->n_rules++;
    }
    return ENGINE_OK;
}

/* The configuration's settings. config.c has checked their values. */
static int32_t configured_offload(const struct engine *engine)
{
    const char *text = engine_setting(engine, "", "offload");
    if (!text || strcmp(text, "auto") == 0) return ENGINE_OFFLOAD_AUTO;
    return strcmp(text, "all") == 0 ? ENGINE_OFFLOAD_ALL : (int32_t)strtol(text, NULL, 10);
}

static uint32_t configured_threads(const struct engine *engine)
{
    const char *text = engine_setting(engine, "", "threads");
    return text ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

static int read_offload(struct engine_plan *plan, const struct engine_context_options *options)
{
    int32_t offload = options->offload ? *options->offload : configured_offload(plan->model->engine);
    if (offload < ENGINE_OFFLOAD_ALL)
        return error_raise(ENGINE_ERROR_ARGUMENT, "offload %d: must be a number of layers, auto or all",
                           offload);
    plan->offload_is_auto = offload == ENGINE_OFFLOAD_AUTO;
    plan->offload = offload < 0 ? PLACE_ALL : (uint32_t)offload;
    return ENGINE_OK;
}

/* Layers with a window keep less. */
void plan_set_blocks(struct engine_plan *plan, uint32_t n_blocks)
{
    plan->n_blocks = plan->n_ready_blocks = n_blocks;
    uint32_t window = plan->info.window;
    plan->n_window_blocks = window > 0 && window < plan->n_context
                                ? kv_places_for(window, plan->n_sequences, plan->n_batch, n_blocks)
                                : 0;
}

static bool goes_in_one_batch(const struct arch_info *info)
{
    return info->is_encoder || info->has_source;
}

bool plan_grows(const struct arch_info *info, const struct engine_context_options *options)
{
    return !options->n_context && !options->n_cache && !goes_in_one_batch(info);
}

/* Blocks of a cache whose size nobody has named. */
static uint32_t default_blocks(const struct engine_plan *plan, const struct engine_context_options *options)
{
    uint32_t each = kv_blocks_for(plan->n_context), all = each * plan->n_sequences;
    if (options->n_context || goes_in_one_batch(&plan->info)) return all;
    uint32_t least = kv_blocks_for(START_EACH) * plan->n_sequences;
    if (least < kv_blocks_for(START_CONTEXT)) least = kv_blocks_for(START_CONTEXT);
    return all < least ? all : least; /* grow.c adds to them */
}

/* One sequence must be able to grow to full length. */
static int read_cache_size(struct engine_plan *plan, const struct engine_context_options *options)
{
    uint32_t n_cache = options->n_cache;
    uint32_t n_blocks = n_cache ? kv_blocks_for(n_cache) : default_blocks(plan, options);
    if (plan->info.is_encoder) n_blocks = kv_blocks_for(plan->n_batch) + plan->n_sequences; /* of a batch */
    if (n_blocks > INT32_MAX / KV_BLOCK_SIZE)
        return error_raise(ENGINE_ERROR_ARGUMENT, "a cache of %u positions is too large", n_cache);
    if (n_blocks < kv_blocks_for(plan->n_context))
        return error_raise(ENGINE_ERROR_ARGUMENT,
                           "a cache of %u positions (--cache-size) is smaller than the context of one "
                           "sequence, %u (-c)",
                           n_cache, plan->n_context);
    plan_set_blocks(plan, n_blocks);
    plan->n_states = plan->info.has_states ? kv_states_for(plan->n_sequences) : 0;
    if (plan->info.has_source) { /* each sequence has room for a source as long as its own text may be */
        plan->n_text_blocks = kv_blocks_for(plan->n_batch) + plan->n_sequences;
        plan->n_source_blocks = kv_blocks_for(plan->n_context) * plan->n_sequences;
    }
    return ENGINE_OK;
}

/* Positions that the model was trained with. */
static uint32_t trained_context(const struct arch_info *info)
{
    return info->n_positions > 0 && info->n_positions < info->n_context ? info->n_positions : info->n_context;
}

uint32_t plan_longest_context(const struct arch_info *info)
{
    const uint32_t trained = trained_context(info);
    return info->n_short_rope > 0 && info->n_short_rope < trained ? info->n_short_rope : trained;
}

uint32_t plan_context_length(const struct arch_info *info, const struct engine_context_options *options)
{
    uint32_t length = plan_longest_context(info);
    if (options->n_context > 0) return options->n_context;
    if (options->n_cache > 0 && options->n_cache < length) length = options->n_cache;
    if (goes_in_one_batch(info) && length > ENCODED_CONTEXT) return ENCODED_CONTEXT;
    return options->n_cache == 0 && length > START_CONTEXT ? START_CONTEXT : length;
}

const char *plan_context_option(const struct engine_plan *plan)
{
    return plan->limit == ENGINE_CONTEXT_CACHE ? "--cache-size" : "-c";
}

int plan_check_needed(const struct engine_plan *plan)
{
    if (plan->n_needed <= plan->n_context) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_ARGUMENT,
                       "the prompt has %u tokens but the context only %u: enlarge it with %s, or shorten "
                       "the prompt",
                       plan->n_needed, plan->n_context, plan_context_option(plan));
}

static int read_sizes(struct engine_plan *plan, const struct engine_context_options *options)
{
    uint32_t trained = plan->n_trained = trained_context(&plan->info);
    plan->n_context = plan_context_length(&plan->info, options);
    plan->limit = options->n_context                           ? ENGINE_CONTEXT_ASKED
                  : plan->n_context == trained                 ? ENGINE_CONTEXT_TRAINED
                  : plan->n_context == options->n_cache        ? ENGINE_CONTEXT_CACHE
                  : plan->n_context == plan->info.n_short_rope ? ENGINE_CONTEXT_ROPE
                  : goes_in_one_batch(&plan->info)             ? ENGINE_CONTEXT_BATCH
                                                               : ENGINE_CONTEXT_MEMORY;
    plan->n_needed = options->n_needed;
    plan->grows = plan_grows(&plan->info, options);
    if (!plan->grows || options->n_needed > trained) {
        if (plan->grows) plan->n_context = trained; /* more it doesn't become */
        int status = plan_check_needed(plan);
        if (status) return status;
    }
    plan->shares_devices = options->shares_devices != 0;
    plan->n_batch = options->n_batch ? options->n_batch : DEFAULT_BATCH;
    plan->n_sequences = options->n_sequences ? options->n_sequences : 1;
    if (goes_in_one_batch(&plan->info)) { /* a text goes through in one batch */
        if (plan->n_batch < plan->n_context) plan->n_batch = plan->n_context;
    } else if (plan->n_batch > plan->n_context) {
        plan->n_batch = plan->n_context;
    }
    plan->max_outputs = plan->n_batch < MAX_OUTPUTS ? plan->n_batch : MAX_OUTPUTS;
    if (plan->max_outputs < plan->n_sequences) plan->max_outputs = plan->n_sequences;
    if (plan->n_batch > MAX_BATCH)
        return error_raise(ENGINE_ERROR_ARGUMENT, "a batch of %u tokens is too large; the maximum is %d",
                           plan->n_batch, MAX_BATCH);
    if (plan->n_sequences > MAX_SEQUENCES)
        return error_raise(ENGINE_ERROR_ARGUMENT, "%u sequences are too many; the maximum is %d",
                           plan->n_sequences, MAX_SEQUENCES);
    if (plan->n_context > INT32_MAX / KV_BLOCK_SIZE / plan->n_sequences)
        return error_raise(ENGINE_ERROR_ARGUMENT, "a context of %u positions for %u sequences is too large",
                           plan->n_context, plan->n_sequences);
    uint32_t most = plan->info.n_positions;
    if (most > 0 && plan->n_context > most)
        return error_raise(ENGINE_ERROR_ARGUMENT,
                           "%s: a context of %u positions is too long; the model has learnt only %u",
                           model_path(plan->model->model), plan->n_context, most);
    if (plan->n_context > trained && plan->info.has_dynamic_rope)
        return error_raise(
            ENGINE_ERROR_ARGUMENT,
            "%s: a context of %u positions is too long: beyond %u the model's rope is dynamic, "
            "which is not supported",
            model_path(plan->model->model), plan->n_context, trained);
    if (plan->n_context > trained)
        log_line(
            ENGINE_LOG_WARNING,
            "the context has %u positions, but the model was trained with %u; expect nonsense beyond them",
            plan->n_context, trained);
    return read_cache_size(plan, options);
}

_Static_assert((int)ENGINE_WATCH_ATTENTION == WATCH_ATTENTION && (int)ENGINE_WATCH_HIDDEN == WATCH_HIDDEN &&
                   (int)ENGINE_WATCH_LENS == WATCH_LENS && (int)ENGINE_WATCH_INPUTS == WATCH_INPUTS,
               "the graph's kinds are those of engine.h");

static int read_watch(struct engine_plan *plan, const struct engine_context_options *options)
{
    uint32_t all = WATCH_ATTENTION | WATCH_HIDDEN | WATCH_LENS | WATCH_INPUTS;
    uint32_t n_layers = plan->info.n_layers, first = options->watch_layer, n = options->watch_n_layers;
    if (first == UINT32_MAX) first = n_layers - 1;
    if (options->watch & ~all || (options->watch && !options->watched))
        return error_raise(ENGINE_ERROR_ARGUMENT, "watch %u: unknown values, or no function to take them",
                           options->watch);
    if (options->watch && plan->info.has_source)
        return error_raise(ENGINE_ERROR_UNSUPPORTED,
                           "attention and hidden states of %s, an encoder with a decoder, cannot be watched",
                           plan->architecture->name);
    if (options->watch && (first >= n_layers || n > n_layers - first))
        return error_raise(ENGINE_ERROR_ARGUMENT, "there is no layer %u; the model has %u, from 0 to %u",
                           n > 1 && first < n_layers ? n_layers : first, n_layers, n_layers - 1);
    plan->watch = (struct plan_watch){.kinds = options->watch,
                                      .layer = first,
                                      .n_layers = n ? n : n_layers - first,
                                      .last = options->watch_layer == UINT32_MAX,
                                      .take = options->watched,
                                      .user = options->watch_user};
    return ENGINE_OK;
}

int plan_read_options(struct engine_plan *plan, const struct engine_context_options *options)
{
    int status = read_sizes(plan, options);
    if (!status) status = read_cache_type(options->cache_type, &plan->info, &plan->cache_type);
    if (!status) status = read_offload(plan, options);
    if (!status) status = read_watch(plan, options);
    return status;
}

struct device_request plan_read_devices(const struct engine *engine,
                                        const struct engine_context_options *options)
{
    struct device_request request = {
        .backends = options->backends, .memory = options->memory, .n_threads = options->n_threads};
    if (!request.backends) request.backends = engine_setting(engine, "", "backend");
    if (!request.n_threads) request.n_threads = configured_threads(engine);
    return request;
}

/* ---- Adapters ------------------------------------------------------------------------------------- */

int plan_check_scale(float scale)
{
    if (isfinite(scale)) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_ARGUMENT, "an adapter's scale must be a finite number");
}

int plan_read_adapters(struct engine_plan *plan, const struct engine_context_options *options)
{
    if (options->n_adapters == 0) return ENGINE_OK;
    plan->adapters = calloc(options->n_adapters, sizeof *plan->adapters);
    plan->adapter_handles = calloc(options->n_adapters, sizeof *plan->adapter_handles);
    if (!plan->adapters || !plan->adapter_handles) return error_memory("adapters");
    for (size_t i = 0; i < options->n_adapters; i++) {
        const struct engine_adapter *adapter = options->adapters[i];
        if (adapter->model != plan->model)
            return error_raise(ENGINE_ERROR_ARGUMENT, "%s was opened for another model than %s",
                               adapter->adapter->path, model_path(plan->model->model));
        int status = options->adapter_scales ? plan_check_scale(options->adapter_scales[i]) : ENGINE_OK;
        if (status) return status;
        plan->adapter_handles[i] = adapter;
        plan->adapters[plan->n_adapters++] = (struct graph_adapter){adapter->adapter, 1};
    }
    return ENGINE_OK;
}

static bool is_used(const struct engine_plan *plan, const struct adapter_part *part)
{
    for (size_t i = 0; i < plan->n_weights; i++)
        if (plan->weights[i].tensor == &part->a) return true;
    return false;
}

int plan_check_adapters(const struct engine_plan *plan)
{
    const struct model *model = plan->model->model;
    for (size_t i = 0; i < plan->n_adapters; i++) {
        const struct adapter *adapter = plan->adapters[i].adapter;
        for (size_t k = 0; k < adapter->n_parts; k++) {
            const char *target = adapter->parts[k].target;
            if (is_used(plan, &adapter->parts[k])) continue;
            if (!model_tensor_find(model, target))
                return error_raise(ENGINE_ERROR_DATA,
                                   "%s is an adapter of another model: it changes %s, which %s does not have",
                                   adapter->path, target, model_path(model));
            return error_raise(
                ENGINE_ERROR_UNSUPPORTED,
                "%s: changes of %s are not supported: in %s it is no matrix that is multiplied "
                "as a whole",
                adapter->path, target, model_path(model));
        }
    }
    return ENGINE_OK;
}
