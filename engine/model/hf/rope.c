/* rope.c: the rotary positions of config.json: rope_parameters, or rope_theta and rope_scaling before
 * transformers 5. See config.h. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "common/json-read.h"
#include "model/hf/config.h"

/* An object of config.json, NULL if it is missing or empty. */
static const json_t *object_at(struct hf_config *config, const json_t *parent, const char *name)
{
    const json_t *value = hf_get(parent, name);
    if (value && !json_is_object(value)) hf_fail(config, ENGINE_ERROR_DATA, "%s is not a JSON object", name);
    return json_object_size(value) > 0 ? value : NULL;
}

/* rope_scaling replaces rope_parameters, its rope_theta too. */
static void tell_of_replaced(const struct hf_config *config, const json_t *scaling, const json_t *parameters)
{
    const char *const names[] = {"rope_theta", config->type.keys.theta};
    const json_t *replaced = hf_get(parameters, "rope_theta");
    for (int i = 0; i < 2; i++)
        if (hf_get(i == 0 ? scaling : config->json, names[i])) return;
    if (replaced && json_number_value(replaced) != config->type.theta)
        log_line(
            ENGINE_LOG_WARNING,
            "%s: rope_scaling replaces rope_parameters and has no rope_theta, so it is %g, not %g; put the "
            "scaling into rope_parameters",
            config->path, config->type.theta, json_number_value(replaced));
}

/* Parameters of the layers of this kind, to which rope_scaling is added if `adds`: a legacy `type` beside
 * a rope_type means nothing. A new reference. */
static json_t *find_kind(struct hf_config *config, const char *kind, bool adds)
{
    const json_t *all = object_at(config, config->json, "rope_parameters");
    const json_t *scaling = object_at(config, config->json, "rope_scaling");
    json_t *preset = !all && config->type.rope ? json_read_text(config->type.rope, 0, NULL) : NULL;
    const json_t *own = object_at(config, preset ? preset : all, kind);
    json_t *found = own ? json_copy((json_t *)(uintptr_t)own) : json_pack("{s:s}", "rope_type", "default");
    if ((!found || (adds && scaling && json_object_update(found, (json_t *)(uintptr_t)scaling) != 0)) &&
        !config->status)
        config->status = error_memory("config.json");
    json_decref(preset);
    return found;
}

/* Parameters for all layers, or for those that attend to everything where models with windows have others
 * for the rest. A new reference; NULL: none. */
static json_t *find_parameters(struct hf_config *config)
{
    if (config->type.keys.local_theta) return find_kind(config, "full_attention", true);
    const json_t *parameters = object_at(config, config->json, "rope_parameters");
    const json_t *scaling = object_at(config, config->json, "rope_scaling");
    if (config->type.rope_kind && parameters && hf_get(parameters, config->type.rope_kind))
        parameters = object_at(config, parameters, config->type.rope_kind);
    if (scaling && parameters) tell_of_replaced(config, scaling, parameters);
    if (!scaling && !parameters && config->type.rope) return json_read_text(config->type.rope, 0, NULL);
    return json_incref((json_t *)(uintptr_t)(scaling ? scaling : parameters));
}

/* Llama 3's factors: slow angles are divided by `factor`, fast ones are not, with a ramp between. */
static void read_llama3(struct hf_config *config, const json_t *scaling, double theta, uint32_t n_original)
{
    static const char *const names[] = {"factor", "low_freq_factor", "high_freq_factor"};
    for (int i = 0; i < 3; i++)
        if (!hf_get(scaling, names[i]))
            hf_fail(config, ENGINE_ERROR_DATA, "rope of the type llama3 lacks its %s", names[i]);
    double factor = hf_number(config, scaling, names[0], 1);
    double low = hf_number(config, scaling, names[1], 1);
    double high = hf_number(config, scaling, names[2], 4);
    if (factor <= 0 || high <= low)
        hf_fail(config, ENGINE_ERROR_DATA, "rope of the type llama3 cannot have the factors %g, %g and %g",
                factor, low, high);
    if (config->status) return;
    config->factors = metadata_allocate(config->metadata, config->n_rope / 2 * sizeof(float));
    if (!config->factors) config->status = error_memory("rope factors");
    for (uint32_t i = 0; i < config->n_rope / 2 && !config->status; i++) {
        double turns = n_original / (2 * M_PI * pow(theta, 2.0 * i / config->n_rope));
        double share = fmin(fmax((turns - low) / (high - low), 0), 1);
        config->factors[i] = (float)(1 / ((1 - share) / factor + share));
    }
}

/* The first pairs of each head have the usual angles, the others none. As llama.cpp's converter does, a
 * factor makes those too small to count. */
static void read_proportional(struct hf_config *config, const json_t *scaling)
{
    double part = hf_number(config, config->json, config->type.keys.part, 1);
    part = hf_number(config, scaling, "partial_rotary_factor", part);
    double factor = hf_number(config, scaling, "factor", 1);
    uint32_t n_pairs = config->n_rope / 2, n_rotated = (uint32_t)floor(part * config->head_dim / 2);
    if (factor <= 0)
        hf_fail(config, ENGINE_ERROR_DATA, "rope of the type proportional has factor %g", factor);
    if (config->status) return;
    config->factors = metadata_allocate(config->metadata, n_pairs * sizeof(float));
    if (!config->factors) config->status = error_memory("rope factors");
    for (uint32_t i = 0; i < n_pairs && !config->status; i++)
        config->factors[i] = i < n_rotated ? (float)factor : 1e30f;
}

static float *read_list(struct hf_config *config, const json_t *scaling, const char *name)
{
    const json_t *list = hf_get(scaling, name);
    if (!json_is_array(list) || json_array_size(list) != config->n_rope / 2) {
        hf_fail(config, ENGINE_ERROR_DATA, "%s has %zu numbers for %u pairs", name, json_array_size(list),
                config->n_rope / 2);
        return NULL;
    }
    float *values = metadata_allocate(config->metadata, config->n_rope / 2 * sizeof(float));
    if (!values) config->status = error_memory("rope factors");
    for (size_t i = 0; values && i < config->n_rope / 2; i++)
        values[i] = (float)json_number_value(json_array_get(list, i)); /* 0 for others, refused later */
    return values;
}

static void read_longrope(struct hf_config *config, const json_t *scaling, uint32_t n_original)
{
    double factor = hf_number(config, scaling, "factor", (double)config->n_context / n_original);
    double magnitude = factor > 1 ? sqrt(1 + log(factor) / log(n_original)) : 1;
    config->factors_short = read_list(config, scaling, "short_factor");
    config->factors_long = read_list(config, scaling, "long_factor");
    hf_put_text(config, "rope.scaling.type", "longrope");
    hf_put_float(config, "rope.scaling.attn_factor",
                 hf_number(config, scaling, config->type.keys.magnitude, magnitude));
}

static double yarn_magnitude(double factor, double mscale)
{
    return factor > 1 ? 0.1 * mscale * log(factor) + 1 : 1;
}

static void read_yarn(struct hf_config *config, const json_t *scaling, uint32_t n_original)
{
    double factor = hf_number(config, scaling, "factor", (double)config->n_context / n_original);
    double one = hf_number(config, scaling, "mscale", 0),
           all = hf_number(config, scaling, "mscale_all_dim", 0);
    double magnitude = one != 0 && all != 0 ? yarn_magnitude(factor, one) / yarn_magnitude(factor, all)
                                            : yarn_magnitude(factor, 1);
    hf_put_text(config, "rope.scaling.type", "yarn");
    hf_put_float(config, "rope.scaling.factor", factor);
    hf_put_float(config, "rope.scaling.yarn_beta_fast", hf_number(config, scaling, "beta_fast", 32));
    hf_put_float(config, "rope.scaling.yarn_beta_slow", hf_number(config, scaling, "beta_slow", 1));
    hf_put_flag(config, "rope.scaling.yarn_truncate", hf_flag(config, scaling, "truncate", true));
    hf_put_float(config, "rope.scaling.yarn_attn_factor",
                 hf_number(config, scaling, "attention_factor", magnitude));
    if (config->architecture->hf.writes_yarn_multiplier)
        hf_put_float(config, "rope.scaling.yarn_log_multiplier", 0.1 * all);
}

/* Beside the parameters the number counts more than among them, as transformers reads it. */
static uint32_t read_original_context(struct hf_config *config, const json_t *scaling)
{
    static const char name[] = "original_max_position_embeddings";
    uint32_t preset = config->type.original_context, own = hf_count(config, scaling, name, 0);
    if (own == 0) own = config->n_context;
    if (config->type.keys.local_theta) return own;
    return hf_count(config, config->json, name, preset ? preset : own);
}

/* What llama.cpp's converter writes for models of some families whose rope is not scaled. */
static void put_unscaled(struct hf_config *config)
{
    const struct hf_family *family = &config->architecture->hf;
    uint32_t n_context =
        hf_count(config, config->json, "original_max_position_embeddings", config->n_context);
    if (family->writes_no_scaling) hf_put_text(config, "rope.scaling.type", "none");
    if (family->writes_original_context)
        hf_put_count(config, "rope.scaling.original_context_length", n_context);
}

static void read_scaling(struct hf_config *config, const json_t *scaling, double theta)
{
    const char *type = hf_text(config, scaling, "rope_type|type");
    if (!type || strcmp(type, "default") == 0 || strcmp(type, "mrope") == 0) {
        put_unscaled(config);
        return;
    }
    if (strcmp(type, "dynamic") == 0) {
        /* Hunyuan's is in the base, see stretch. Others have another base for each length beyond the
         * context's, where all keys would have to be rotated anew: such contexts are refused. */
        if (hf_number(config, scaling, "alpha", 0) <= 0) hf_put_flag(config, "rope.scaling.dynamic", true);
        return;
    }
    if (strcmp(type, "proportional") == 0) {
        read_proportional(config, scaling);
        return;
    }
    uint32_t n_original = read_original_context(config, scaling);
    if (n_original < 2)
        hf_fail(config, ENGINE_ERROR_DATA, "original_max_position_embeddings is %u", n_original);
    if (config->status) return;
    if (strcmp(type, "llama3") == 0) {
        read_llama3(config, scaling, theta, n_original);
        return;
    }
    hf_put_count(config, "rope.scaling.original_context_length", n_original);
    if (strcmp(type, "linear") == 0) {
        hf_put_text(config, "rope.scaling.type", "linear");
        hf_put_float(config, "rope.scaling.factor", hf_number(config, scaling, "factor", 1));
    } else if (strcmp(type, "yarn") == 0) {
        read_yarn(config, scaling, n_original);
    } else if (strcmp(type, "longrope") == 0 || strcmp(type, "su") == 0) {
        read_longrope(config, scaling, n_original);
    } else {
        hf_fail(
            config, ENGINE_ERROR_UNSUPPORTED,
            "rope of the type '%.32s' is not supported (supported: linear, dynamic, llama3, yarn, longrope, "
            "proportional)",
            type);
    }
}

/* Hunyuan's base, which grows with the number alpha of its scaling (NTK). */
static double stretch(struct hf_config *config, const json_t *scaling, double theta)
{
    const char *type = hf_text(config, scaling, "rope_type|type");
    double alpha = hf_number(config, scaling, "alpha", 0), dims = config->n_rope;
    if (!type || strcmp(type, "dynamic") != 0 || alpha <= 0 || dims <= 2) return theta;
    return theta * pow(alpha, dims / (dims - 2));
}

/* Families whose heads are rotated as a whole, in transformers whatever partial_rotary_factor says. */
static double follow_part(struct hf_config *config, const json_t *scaling, double part)
{
    const char *type = hf_text(config, scaling, "rope_type|type");
    if (type && strcmp(type, "proportional") == 0) return 1; /* a part of the angles, see below */
    if (part == 1 || config->type.rotary < 1 || config->type.keeps_rotary) return part;
    if (type && strcmp(type, "default") != 0)
        hf_fail(config, ENGINE_ERROR_UNSUPPORTED,
                "partial_rotary_factor %g with rope of the type '%.32s' is not supported for this model type",
                part, type);
    else
        log_line(ENGINE_LOG_WARNING,
                 "%s: partial_rotary_factor is ignored: models of this type rotate whole heads",
                 config->path);
    return 1;
}

/* The rope of layers with windows, which is never scaled. */
static void read_local(struct hf_config *config)
{
    json_t *local = find_kind(config, "sliding_attention", config->type.scales_local);
    const char *type = hf_text(config, local, "rope_type|type");
    hf_refuse(config, type && strcmp(type, "default") != 0,
              "rope of a type but default in layers with windows");
    double base = hf_number(config, config->json, config->type.keys.local_theta, config->type.local_theta);
    hf_put_float(config, "rope.freq_base_swa", hf_number(config, local, "rope_theta", base));
    json_decref(local);
}

static void read_rope(struct hf_config *config, const json_t *parameters)
{
    const struct hf_key_names *keys = &config->type.keys;
    double theta = hf_number(config, config->json, keys->theta, config->type.theta);
    if (!config->type.rope_kind) theta = hf_number(config, parameters, "rope_theta", theta);
    double part = hf_number(config, config->json, keys->part, config->type.rotary);
    part = hf_number(config, parameters, "partial_rotary_factor", part);
    if (theta <= 0 || part < 0 || part > 1)
        hf_fail(config, ENGINE_ERROR_DATA, "rope_theta %g or partial_rotary_factor %g is impossible", theta,
                part);
    if (config->status) return;
    part = follow_part(config, parameters, part);
    if (config->status) return;
    if (config->n_rope == 0) config->n_rope = (uint32_t)(config->head_dim * part);
    if (config->n_rope > config->head_dim + 65536) /* a number of config.json's own */
        hf_fail(config, ENGINE_ERROR_DATA, "%u values of a head cannot be rotated", config->n_rope);
    theta = stretch(config, parameters, theta);
    hf_put_count(config, "rope.dimension_count", config->n_rope);
    hf_put_float(config, "rope.freq_base", theta);
    read_scaling(config, parameters, theta);
    if (keys->local_theta) read_local(config);
}

void hf_put_rope_sections(struct hf_config *config, const uint32_t *preset)
{
    const json_t *scaling = object_at(config, config->json, "rope_scaling");
    const json_t *parameters = object_at(config, config->json, "rope_parameters");
    const json_t *list = hf_get(scaling ? scaling : parameters, "mrope_section");
    uint32_t sections[4] = {0};
    for (size_t i = 0; i < 3; i++) {
        const json_t *value = json_array_get(list, i);
        json_int_t number = json_integer_value(value);
        if (list && (json_array_size(list) != 3 || !json_is_integer(value) || number < 0 || number > 65536))
            hf_fail(config, ENGINE_ERROR_DATA, "mrope_section is not a list of three counts");
        sections[i] = list || !preset ? (uint32_t)number : preset[i];
    }
    if (list || preset) hf_put_counts(config, "rope.dimension_sections", sections, 4);
}

void hf_read_rope(struct hf_config *config)
{
    if (config->status || config->type.has_no_rope) return;
    json_t *parameters = find_parameters(config);
    if (!config->status) read_rope(config, parameters);
    json_decref(parameters);
}
