/* lora.c: --lora: contexts and plans with adapters. See common.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/common.h"
#include "commands/file-hash.h"
#include "commands/hash.h"
#include "commands/output.h"

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
    struct engine_adapter **adapters = calloc(n + 1, sizeof *adapters);
    float *scales = calloc(n + 1, sizeof *scales);
    int status = adapters && scales ? ENGINE_OK : command_error(ENGINE_ERROR_MEMORY, "out of memory (lora)");
    for (size_t i = 0; i < n && !status; i++) {
        char *path = NULL;
        status = lora_split(arguments->lora.items[i], &path, &scales[i]);
        if (!status && arguments->verify) status = verify_files(path, NULL);
        if (!status) status = engine_adapter_open(model, path, &adapters[i]);
        free(path);
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
