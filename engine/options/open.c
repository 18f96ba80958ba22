/* open.c: see open.h. */
#include "options/open.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/assert.h"
#include "io/files.h"
#include "io/messages.h"
#include "io/output.h"

/* ---- The engine and models ----------------------------------------------------------------------------- */

static enum engine_log_level log_level; /* less important messages are dropped */
static bool listing;                    /* refused plugins will be listed, so don't warn of them */

static void print_log(void *user, enum engine_log_level level, const char *line)
{
    static const char *const names[] = {"error: ", "warning: ", "", ""};
    static char last[4096]; /* the library calls this under a lock */
    (void)user;
    /* What is wrong with a model is told each time that its hyper-parameters are read. */
    bool again = level == ENGINE_LOG_WARNING && strcmp(line, last) == 0;
    if (level > log_level || listing || again) return;
    print_message(names[level], line);
    snprintf(last, sizeof last, "%s", line);
}

int open_engine(const struct arguments *arguments, struct engine **engine)
{
    struct engine_options options = {
        .struct_size = sizeof options,
        .plugin_dirs = arguments->plugin_dirs.items,
        .config_file = arguments->config,
        .log = print_log,
    };
    log_level = arguments->verbose ? ENGINE_LOG_DEBUG : ENGINE_LOG_WARNING;
    return engine_open(&options, engine);
}

int open_engine_to_list(const struct arguments *arguments, struct engine **engine)
{
    listing = !arguments->verbose;
    int status = open_engine(arguments, engine);
    listing = false;
    return status;
}

const char *path_of_model(const struct arguments *arguments, const struct engine *engine)
{
    return arguments->model ? arguments->model : engine_default_model(engine);
}

const char *path_of_output(const struct arguments *arguments)
{
    return arguments->output && strcmp(arguments->output, "-") != 0 ? arguments->output : NULL;
}

int verify_files(const char *path, const char *tokenizer)
{
    struct engine_verify_options options = {
        .struct_size = sizeof options, .progress = report_progress, .user = "verifying"};
    struct engine_verified verified = {.struct_size = sizeof verified};
    int status = engine_model_verify(path, tokenizer, &options, &verified);
    if (status) return status;
    fprintf(stderr, "%s: %s verified, %s\n", path, count_text(verified.n_files, "file", "files").text,
            size_text(verified.n_bytes).text);
    return ENGINE_OK;
}

static int open_as(const struct arguments *arguments, struct engine *engine, const char *path,
                   const struct engine_model_options *options, struct engine_model **model)
{
    int status = arguments->verify ? verify_files(path, options->tokenizer_path) : ENGINE_OK;
    return status ? status : engine_model_open_with(engine, path, options, model);
}

int open_model_file(const struct arguments *arguments, struct engine *engine, const char *path,
                    const char *tokenizer, struct engine_model **model)
{
    struct engine_model_options options = {.struct_size = sizeof options, .tokenizer_path = tokenizer};
    return open_as(arguments, engine, path, &options, model);
}

/* Options of rope, and --override-kv, as overrides of a model's metadata. */
struct overrides {
    char rope[16][64]; /* [n_rope] */
    size_t n_rope;
    const char **items; /* all of them, those of --override-kv last; ends with NULL */
};

static void override_rope(struct overrides *overrides, const char *format, ...) ENGINE_PRINTF(2, 3);
static void override_rope(struct overrides *overrides, const char *format, ...)
{
    const size_t size = sizeof overrides->rope[0];
    va_list values;
    ENGINE_ASSERT(overrides->n_rope < sizeof overrides->rope / size);
    va_start(values, format);
    vsnprintf(overrides->rope[overrides->n_rope++], size, format, values);
    va_end(values);
}

/* The keys that arch/rope.c reads. */
static void override_all_rope(const struct arguments *arguments, struct overrides *overrides)
{
    const char *scaling = arguments->rope_scaling;
    float scale = arguments->rope_scale;
    if (arguments->rope_freq_scale > 0) scale = 1 / arguments->rope_freq_scale;
    if (scaling) override_rope(overrides, ".rope.scaling.type=str:%s", scaling);
    if (scale > 0) {
        override_rope(overrides, ".rope.scaling.factor=float:%.9g", (double)scale);
        override_rope(overrides, ".engine.stretches_rope=bool:true");
    } else if (scaling && strcmp(scaling, "none") == 0) {
        override_rope(overrides, ".rope.scaling.factor=float:1");
    }
    /* That of the file is for its own factor. */
    if (scaling || scale > 0) override_rope(overrides, ".rope.scaling.yarn_attn_factor=float:0");
    if (arguments->rope_freq_base > 0)
        override_rope(overrides, ".rope.freq_base=float:%.9g", (double)arguments->rope_freq_base);
    if (arguments->yarn_orig_ctx > 0)
        override_rope(overrides, ".rope.scaling.original_context_length=int:%u", arguments->yarn_orig_ctx);
    if (arguments->yarn_ext_factor_given && arguments->yarn_ext_factor >= 0)
        override_rope(overrides, ".rope.scaling.yarn_ext_factor=float:%.9g",
                      (double)arguments->yarn_ext_factor);
    const struct {
        const char *key;
        float value;
    } numbers[] = {{"attn_factor", arguments->yarn_attn_factor},
                   {"yarn_beta_slow", arguments->yarn_beta_slow},
                   {"yarn_beta_fast", arguments->yarn_beta_fast}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].value > 0)
            override_rope(overrides, ".rope.scaling.%s=float:%.9g", numbers[i].key, (double)numbers[i].value);
}

/* The caller frees overrides->items. */
static int collect_overrides(const struct arguments *arguments, struct overrides *overrides)
{
    const struct argument_list *others = &arguments->override_kv;
    overrides->n_rope = 0;
    if (arguments->rope_scale > 0 && arguments->rope_freq_scale > 0)
        return command_error(ENGINE_ERROR_ARGUMENT,
                             "--rope-scale and --rope-freq-scale are the same: give one of them");
    override_all_rope(arguments, overrides);
    overrides->items = calloc(overrides->n_rope + others->count + 1, sizeof *overrides->items);
    if (!overrides->items) return command_error(ENGINE_ERROR_MEMORY, "out of memory (override-kv)");
    for (size_t i = 0; i < overrides->n_rope; i++) overrides->items[i] = overrides->rope[i];
    for (size_t i = 0; i < others->count; i++) overrides->items[overrides->n_rope + i] = others->items[i];
    return ENGINE_OK;
}

int open_model_to_run(const struct arguments *arguments, struct engine *engine, const char *path,
                      struct engine_model **model)
{
    struct overrides overrides;
    int status = collect_overrides(arguments, &overrides);
    if (status) return status;
    struct engine_model_options options = {
        .struct_size = sizeof options,
        .tokenizer_path = arguments->tokenizer,
        .load_type = arguments->load_type,
        .n_threads = arguments->n_threads,
        .overrides = overrides.items,
    };
    status = open_as(arguments, engine, path, &options, model);
    free(overrides.items);
    if (status == ENGINE_ERROR_ARGUMENT &&
        (arguments->load_type || overrides.n_rope > 0 || arguments->override_kv.count > 0))
        command_error(status, "%s", engine_error_message());
    return status;
}

int open_model(const struct arguments *arguments, struct engine *engine, struct engine_model **model)
{
    const char *path = path_of_model(arguments, engine);
    if (!path)
        return command_error(ENGINE_ERROR_ARGUMENT,
                             "no model: name one with -m FILE, or set `model` in engine.conf");
    return open_model_to_run(arguments, engine, path, model);
}

/* ---- Adapters ------------------------------------------------------------------------------------------ */

int lora_split(const char *text, char **path, float *scale)
{
    const char *equals = strrchr(text, '=');
    char *end;
    *scale = 1;
    if (!*text || equals == text)
        return command_error(ENGINE_ERROR_ARGUMENT,
                             "--lora %s: there is no file; name a GGUF file or a PEFT folder",
                             *text ? text : "\"\"");
    *path = strndup(text, equals ? (size_t)(equals - text) : strlen(text));
    if (!*path) return command_error(ENGINE_ERROR_MEMORY, "out of memory (lora)");
    if (!equals) return ENGINE_OK;
    *scale = strtof(equals + 1, &end);
    bool is_number = end > equals + 1 && !*end;
    if (is_number && isfinite(*scale)) return ENGINE_OK;
    bool is_scale = is_number || !equals[1] || access(*path, F_OK) == 0;
    free(*path);
    *path = NULL;
    if (is_scale && access(text, F_OK) != 0)
        return command_error(ENGINE_ERROR_ARGUMENT,
                             "--lora %s: the scale after the = should be a finite number", text);
    *scale = 1;
    *path = strdup(text);
    return *path ? ENGINE_OK : command_error(ENGINE_ERROR_MEMORY, "out of memory (lora)");
}

int check_not_adapter(const char *path, const struct engine *engine, const struct arguments *arguments)
{
    int status = ENGINE_OK;
    for (size_t i = 0; i < arguments->lora.count && !status; i++) {
        float scale;
        char weights[4096], config[4096], *adapter;
        status = lora_split(arguments->lora.items[i], &adapter, &scale);
        if (status) return status;
        snprintf(weights, sizeof weights, "%s/adapter_model.safetensors", adapter);
        snprintf(config, sizeof config, "%s/adapter_config.json", adapter);
        const char *inputs[] = {adapter, weights, config};
        status = output_check(path, engine, inputs, sizeof inputs / sizeof *inputs);
        free(adapter);
    }
    return status;
}

int hash_adapters(const struct arguments *arguments, uint64_t *hash)
{
    int status = ENGINE_OK;
    for (size_t i = 0; i < arguments->lora.count && !status; i++) {
        float scale;
        char *adapter;
        status = lora_split(arguments->lora.items[i], &adapter, &scale);
        if (status) return status;
        *hash = hash_bytes(*hash, &scale, sizeof scale);
        status = hash_file(adapter, hash);
        free(adapter);
    }
    return status;
}

/* Calls `create` with the options and the adapters of --lora, which stay open with the model. */
static int with_adapters(const struct arguments *arguments, struct engine_model *model,
                         const struct engine_context_options *options,
                         int (*create)(struct engine_model *model,
                                       const struct engine_context_options *options, void *out),
                         void *out)
{
    struct engine_context_options known = *options;
    size_t n = arguments->lora.count;
    struct engine_adapter **adapters = calloc(n + 2, sizeof *adapters);
    float *scales = calloc(n + 2, sizeof *scales);
    int status = adapters && scales ? ENGINE_OK : command_error(ENGINE_ERROR_MEMORY, "out of memory (lora)");
    for (size_t i = 0; i < n && !status; i++) {
        char *path = NULL;
        status = lora_split(arguments->lora.items[i], &path, &scales[i]);
        if (!status && arguments->verify) status = verify_files(path, NULL);
        if (!status) status = engine_adapter_open(model, path, &adapters[i]);
        free(path);
    }
    if (arguments->task && !status) {
        scales[n] = 1;
        status = engine_adapter_open_task(model, arguments->task, &adapters[n++]);
    }
    known.adapters = adapters;
    known.adapter_scales = scales;
    known.n_adapters = n;
    if (!status) status = create(model, &known, out);
    /* What the library says of an option's value begins with the option. */
    if (status == ENGINE_ERROR_ARGUMENT && strncmp(engine_error_message(), "--", 2) == 0)
        command_adopt_error(status);
    free(adapters);
    free(scales);
    return status;
}

static int make_context(struct engine_model *model, const struct engine_context_options *options, void *out)
{
    return engine_context_create(model, options, out);
}

/* A plan, and the file of the devices that it is for. */
struct wanted_plan {
    const char *cluster;
    struct engine_plan **plan;
};

static int make_plan(struct engine_model *model, const struct engine_context_options *options, void *out)
{
    const struct wanted_plan *wanted = out;
    return engine_plan_create_on(model, options, wanted->cluster, wanted->plan);
}

int create_context(const struct arguments *arguments, struct engine_model *model,
                   const struct engine_context_options *options, struct engine_context **context)
{
    return with_adapters(arguments, model, options, make_context, context);
}

int create_plan(const struct arguments *arguments, struct engine_model *model,
                const struct engine_context_options *options, struct engine_plan **plan)
{
    struct wanted_plan wanted = {arguments->cluster, plan};
    return with_adapters(arguments, model, options, make_plan, &wanted);
}

/* ---- Contexts ------------------------------------------------------------------------------------------ */

void context_options(const struct arguments *arguments, struct engine_context_options *options,
                     int32_t *offload)
{
    *options = (struct engine_context_options){
        .struct_size = sizeof *options,
        .n_context = arguments->n_context,
        .n_cache = arguments->n_cache,
        .n_batch = arguments->n_batch,
        .n_threads = arguments->n_threads,
        .cache_type = arguments->cache_type,
        .backends = arguments->backend,
        .memory = arguments->memory.items,
        .place = arguments->place.items,
        .progress = report_progress,
        .user = "loading",
    };
    if (!arguments->offload) return;
    if (strcmp(arguments->offload, "auto") == 0) {
        *offload = ENGINE_OFFLOAD_AUTO;
    } else if (strcmp(arguments->offload, "all") == 0) {
        *offload = ENGINE_OFFLOAD_ALL;
    } else {
        *offload = (int32_t)strtol(arguments->offload, NULL, 10); /* parsing has checked it */
    }
    options->offload = offload;
}

/* Why the context isn't longer, after how long it is. */
static const char *limit_text(const struct engine_plan_context *context)
{
    switch (context->limit) {
    case ENGINE_CONTEXT_ASKED: return "as asked for with -c";
    case ENGINE_CONTEXT_CACHE: return "as long as the cache of --cache-size";
    case ENGINE_CONTEXT_MEMORY: return "as many as there is memory for";
    case ENGINE_CONTEXT_ROPE:
        return "beyond which the model turns all positions by other angles; -c goes beyond";
    case ENGINE_CONTEXT_BATCH: return "since a text goes through the model at once; -c changes it";
    default: return "as many as it was trained with";
    }
}

const char *context_text(const struct engine_plan_context *context, char *text, size_t size)
{
    snprintf(text, size, "%s (trained: %" PRIu32 "), %s%s%.48s",
             count_text(context->n_context, "position", "positions").text, context->n_trained,
             limit_text(context), context->device ? " on " : "", context->device ? context->device : "");
    return text;
}

const char *context_option(const struct arguments *arguments, uint32_t n_context)
{
    return arguments->n_context == 0 && arguments->n_cache == n_context ? "--cache-size" : "-c";
}

int check_tokens(const struct arguments *arguments, const struct engine_context *context,
                 const int32_t *tokens, size_t count)
{
    struct engine_context_info info = {.struct_size = sizeof info};
    engine_context_get_info(context, &info);
    if (count > info.n_context)
        return command_error(ENGINE_ERROR,
                             "the prompt has %zu tokens but the context only %u: enlarge it with %s, or "
                             "shorten the prompt",
                             count, info.n_context, context_option(arguments, info.n_context));
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= info.n_vocab)
            return command_error(arguments->tokens ? ENGINE_ERROR_ARGUMENT : ENGINE_ERROR_DATA,
                                 "token %zu of the prompt is %d, but the model has %u tokens, 0 to %u", i,
                                 tokens[i], info.n_vocab, info.n_vocab - 1);
    return ENGINE_OK;
}

/* ---- Guesses ------------------------------------------------------------------------------------------- */

bool wants_guesses(const struct arguments *arguments)
{
    return arguments->lookup || arguments->draft;
}

int guesses_check(const struct arguments *arguments)
{
    if (!wants_guesses(arguments) && (arguments->draft_min || arguments->draft_max))
        return command_error(ENGINE_ERROR_ARGUMENT, "--draft-min and --draft-max need --lookup or --draft");
    if (arguments->draft_max && arguments->draft_min > arguments->draft_max)
        return command_error(ENGINE_ERROR_ARGUMENT, "--draft-min %u is above --draft-max %u",
                             arguments->draft_min, arguments->draft_max);
    return ENGINE_OK;
}

int guesses_open(const struct arguments *arguments, struct engine *engine,
                 const struct engine_context_options *options, const struct engine_context *context,
                 struct draft_model *draft, struct engine_queue_options *queue)
{
    struct engine_context_options wish = *options;
    struct engine_context_info info = {.struct_size = sizeof info};
    queue->lookup = arguments->lookup;
    queue->n_guess_least = arguments->draft_min;
    queue->n_guess_most = arguments->draft_max;
    if (!arguments->draft) return ENGINE_OK;
    int status = open_model_file(arguments, engine, arguments->draft, NULL, &draft->model);
    if (!status) status = engine_context_get_info(context, &info);
    /* Where the model's context has grown into free memory, the draft's follows it. */
    if (wish.n_context == 0 && wish.n_cache == 0) wish.n_cache = info.n_cache;
    if (!status) status = engine_context_create(draft->model, &wish, &draft->context);
    queue->draft = draft->context;
    return status;
}

void guesses_close(struct draft_model *draft)
{
    engine_context_destroy(draft->context);
    engine_model_close(draft->model);
}
