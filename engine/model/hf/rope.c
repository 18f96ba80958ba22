/* rope.c: the rotary positions of config.json: rope_parameters, or rope_theta and rope_scaling before
 * transformers 5. See config.h. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "model/hf/config.h"

struct parameters {
    const json_t *base;    /* has rope_theta, partial_rotary_factor */
    const json_t *scaling; /* has rope_type and its numbers; NULL: none */
};

/* Models with windows may have parameters for each kind of layer. */
static struct parameters find_parameters(struct hf_config *config)
{
    static const char *const objects[] = {"rope_parameters", "rope_scaling"};
    for (int i = 0; i < 2; i++) {
        const json_t *value = hf_get(config->json, objects[i]);
        if (value && !json_is_object(value))
            hf_fail(config, ENGINE_ERROR_DATA, "%s is not a JSON object", objects[i]);
    }
    const json_t *found = hf_get(config->json, "rope_parameters");
    const json_t *full = hf_get(found, "full_attention");
    if (full) found = full;
    if (found) return (struct parameters){found, found};
    return (struct parameters){config->json, hf_get(config->json, "rope_scaling")};
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
                 hf_number(config, scaling, "attention_factor", magnitude));
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
    if (strcmp(config->family->architecture, "deepseek2") == 0)
        hf_put_float(config, "rope.scaling.yarn_log_multiplier", 0.1 * all);
}

/* What llama.cpp's converter writes for models of some families whose rope is not scaled. */
static void put_unscaled(struct hf_config *config)
{
    const char *family = config->family->architecture;
    uint32_t n_context =
        hf_count(config, config->json, "original_max_position_embeddings", config->n_context);
    if (strcmp(family, "command-r") == 0 || strcmp(family, "cohere2") == 0 || strcmp(family, "nemotron") == 0)
        hf_put_text(config, "rope.scaling.type", "none");
    if (strcmp(family, "phi3") == 0) hf_put_count(config, "rope.scaling.original_context_length", n_context);
}

static void read_scaling(struct hf_config *config, const json_t *scaling, double theta)
{
    const char *type = hf_text(config, scaling, "rope_type|type");
    if (!type || strcmp(type, "default") == 0 || strcmp(type, "mrope") == 0) {
        put_unscaled(config);
        return;
    }
    if (strcmp(type, "dynamic") == 0) {
        /* Hunyuan's is in the base, see stretch. Others have another base for each length beyond the context's,
         * where all keys would have to be rotated anew: such contexts are refused. */
        if (hf_number(config, scaling, "alpha", 0) <= 0) hf_put_flag(config, "rope.scaling.dynamic", true);
        return;
    }
    uint32_t n_original = hf_count(config, scaling, "original_max_position_embeddings", 0);
    if (n_original == 0)
        n_original = hf_count(config, config->json, "original_max_position_embeddings", config->n_context);
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
            "rope of the type '%.32s' is not supported (supported: linear, dynamic, llama3, yarn, longrope)",
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
    static const char *const partial[] = {"phi3", "glm4_moe_lite", "nomic_bert", "nomic_bert, num_experts"};
    const char *type = hf_text(config, scaling, "rope_type|type");
    bool follows = part == 1 || config->family->rotary < 1;
    for (size_t i = 0; i < sizeof partial / sizeof *partial; i++)
        follows |= strcmp(config->family->type, partial[i]) == 0;
    if (follows) return part;
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

void hf_read_rope(struct hf_config *config)
{
    const struct hf_family *family = config->family;
    if (config->status || family->rotary == 0) return;
    struct parameters p = find_parameters(config);
    static const char thetas[] = "rope_theta|rotary_emb_base", parts[] = "partial_rotary_factor|rotary_pct";
    double theta =
        hf_number(config, config->json, "rope_theta|rotary_emb_base|global_rope_theta", family->theta);
    theta = hf_number(config, p.base, thetas, theta);
    double part = hf_number(config, p.base, parts, hf_number(config, config->json, parts, family->rotary));
    if (theta <= 0 || part < 0 || part > 1)
        hf_fail(config, ENGINE_ERROR_DATA, "rope_theta %g or partial_rotary_factor %g is impossible", theta,
                part);
    if (config->status) return;
    part = follow_part(config, p.scaling, part);
    if (config->status) return;
    if (config->n_rope == 0) config->n_rope = (uint32_t)(config->head_dim * part);
    if (config->n_rope > config->head_dim + 65536) /* a number of config.json's own */
        hf_fail(config, ENGINE_ERROR_DATA, "%u values of a head cannot be rotated", config->n_rope);
    theta = stretch(config, p.scaling, theta);
    hf_put_count(config, "rope.dimension_count", config->n_rope);
    hf_put_float(config, "rope.freq_base", theta);
    read_scaling(config, p.scaling, theta);
    if (strcmp(family->architecture, "gemma3") != 0 && strcmp(family->architecture, "gemma-embedding") != 0 &&
        strcmp(family->architecture, "modern-bert") != 0)
        return;
    const json_t *local = hf_get(hf_get(config->json, "rope_parameters"), "sliding_attention");
    theta = hf_number(config, config->json, "rope_local_base_freq|local_rope_theta", 10000);
    hf_put_float(config, "rope.freq_base_swa", hf_number(config, local, "rope_theta", theta));
}
