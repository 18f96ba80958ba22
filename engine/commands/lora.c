/* lora.c: --lora: contexts and plans with adapters. See common.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands/common.h"
#include "commands/output.h"

/* Splits FILE=SCALE. What follows the last "=" belongs to the file's name if it is no number. The caller frees
 * the result; NULL: out of memory. */
static char *split(const char *text, float *scale)
{
    const char *equals = strrchr(text, '=');
    char *end;
    *scale = 1;
    if (equals && equals[1]) {
        float number = strtof(equals + 1, &end);
        if (!*end && isfinite(number)) {
            *scale = number;
            return strndup(text, (size_t)(equals - text));
        }
    }
    return strdup(text);
}

int check_not_adapter(const char *path, const struct engine *engine, const struct arguments *arguments)
{
    int status = ENGINE_OK;
    for (size_t i = 0; i < arguments->lora.count && !status; i++) {
        float scale;
        char weights[4096], config[4096], *adapter = split(arguments->lora.items[i], &scale);
        if (!adapter) return command_error(ENGINE_ERROR_MEMORY, "out of memory (lora)");
        snprintf(weights, sizeof weights, "%s/adapter_model.safetensors", adapter);
        snprintf(config, sizeof config, "%s/adapter_config.json", adapter);
        const char *inputs[] = {adapter, weights, config};
        status = output_check(path, engine, inputs, sizeof inputs / sizeof *inputs);
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
        char *path = split(arguments->lora.items[i], &scales[i]);
        status = path ? engine_adapter_open(model, path, &adapters[i])
                      : command_error(ENGINE_ERROR_MEMORY, "out of memory (lora)");
        free(path);
    }
    known.adapters = adapters;
    known.adapter_scales = scales;
    known.n_adapters = n;
    if (!status) status = create(model, &known, out);
    free(adapters);
    free(scales);
    return status;
}

static int make_context(struct engine_model *model, const struct engine_context_options *options, void *out)
{
    return engine_context_create(model, options, out);
}

static int make_plan(struct engine_model *model, const struct engine_context_options *options, void *out)
{
    return engine_plan_create(model, options, out);
}

int create_context(const struct arguments *arguments, struct engine_model *model,
                   const struct engine_context_options *options, struct engine_context **context)
{
    return with_adapters(arguments, model, options, make_context, context);
}

int create_plan(const struct arguments *arguments, struct engine_model *model,
                const struct engine_context_options *options, struct engine_plan **plan)
{
    return with_adapters(arguments, model, options, make_plan, plan);
}
