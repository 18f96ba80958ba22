/* rope.c: rotary positions (RoFormer, arXiv 2104.09864) and the ways that models stretch them: linear
 * scaling, YaRN (arXiv 2309.00071), factors in the file (Llama 3, longrope). See decoder.h. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "arch/decoder.h"

#define TENSOR_FACTORS       "rope_freqs.weight"
#define TENSOR_FACTORS_SHORT "rope_factors_short.weight"
#define TENSOR_FACTORS_LONG  "rope_factors_long.weight"

/* The pair that makes `turns` turns over the original context, as a real number. */
static double yarn_pair(const struct rope *rope, float turns)
{
    double length = (double)rope->n_original / ((double)turns * 2 * M_PI);
    return rope->n_dims * log(length) / (2 * log((double)rope->theta));
}

float rope_read_yarn_magnitude(struct hparams *h)
{
    return hparams_float_from_0(h, "rope.scaling.yarn_attn_factor", 0);
}

static void read_yarn(struct hparams *h, struct rope *rope, float factor)
{
    float fast = hparams_float_above_0(h, "rope.scaling.yarn_beta_fast", 32);
    float slow = hparams_float_above_0(h, "rope.scaling.yarn_beta_slow", 1);
    bool whole = hparams_flag(h, "rope.scaling.yarn_truncate", !rope->yarn_between);
    if (rope->n_original == 0 || rope->theta <= 1)
        hparams_fail(
            h, ENGINE_ERROR_DATA,
            "YaRN cannot extend a rope.scaling.original_context_length of %u with a rope.freq_base of %g",
            rope->n_original, (double)rope->theta);
    if (h->status) return;
    double low = yarn_pair(rope, fast), high = yarn_pair(rope, slow), last = rope->n_dims - 1;
    if (whole) low = floor(low), high = ceil(high);
    low = fmax(low, 0), high = fmin(high, last);
    if (high <= low) high = low + 0.001; /* a step instead of the ramp */
    rope->yarn = factor;
    rope->yarn_low = (float)low;
    rope->yarn_high = (float)high;
    rope->yarn_mix = hparams_float_from_0(h, "rope.scaling.yarn_ext_factor", 1);
    rope->magnitude = factor > 1 && rope->yarn_mix > 0 ? 0.1f * logf(factor) + 1 : 1;
    float own = rope_read_yarn_magnitude(h);
    if (own > 0) rope->magnitude = own;
    rope->magnitude = hparams_float_above_0(h, "rope.scaling.attn_factor", 1) * rope->magnitude;
}

static void read_longrope(struct hparams *h, const struct decoder *d, struct rope *rope)
{
    double stretch = rope->n_original > 1 ? (double)d->n_context / rope->n_original : 1;
    double magnitude = stretch > 1 ? sqrt(1 + log(stretch) / log((double)rope->n_original)) : 1;
    rope->magnitude = hparams_float_above_0(h, "rope.scaling.attn_factor", (float)magnitude);
    rope->factors = TENSOR_FACTORS_SHORT;
    rope->factors_long = TENSOR_FACTORS_LONG;
}

void rope_check(struct hparams *h, const struct rope *rope, uint32_t head_dim)
{
    if (rope->n_dims == 0 || rope->n_dims % 2 != 0 || rope->n_dims > head_dim)
        hparams_fail(h, ENGINE_ERROR_DATA,
                     "rope.dimension_count: %u dimensions do not fit heads of %u values", rope->n_dims,
                     head_dim);
}

void rope_read(struct hparams *h, const struct decoder *d, uint32_t pairs, struct rope *rope)
{
    rope_read_by_base(h, d, pairs, hparams_float_above_0(h, "rope.freq_base", 10000), rope);
}

void rope_read_by_base(struct hparams *h, const struct decoder *d, uint32_t pairs, float theta,
                       struct rope *rope)
{
    char scaling[32] = "none";
    rope->pairs = pairs;
    rope->position_scale = rope->magnitude = 1;
    rope->n_dims = hparams_count(h, "rope.dimension_count", d->head_dim);
    rope->theta = theta;
    rope->n_original = hparams_count(h, "rope.scaling.original_context_length", d->n_context);
    rope_check(h, rope, d->head_dim);
    float factor = hparams_float_above_0(h, "rope.scale_linear", 1); /* the key used before rope.scaling.* */
    factor = hparams_float_above_0(h, "rope.scaling.factor", factor);
    bool named = hparams_text(h, "rope.scaling.type", scaling, sizeof scaling);

    if (model_tensor_find(h->model, TENSOR_FACTORS_LONG))
        read_longrope(h, d, rope);
    else if (model_tensor_find(h->model, TENSOR_FACTORS))
        rope->factors = TENSOR_FACTORS;
    if (strcmp(scaling, "yarn") == 0)
        read_yarn(h, rope, factor);
    else if (!named || strcmp(scaling, "linear") == 0)
        rope->position_scale = 1 / factor;
    else if (strcmp(scaling, "none") == 0 && factor != 1)
        decoder_warn(h, "rope is not scaled by %g, since rope.scaling.type is none", (double)factor);
    else if (strcmp(scaling, "none") != 0 && !(strcmp(scaling, "longrope") == 0 && rope->factors_long))
        hparams_fail(h, ENGINE_ERROR_UNSUPPORTED,
                     "rope scaling '%s' is not supported (supported: none, linear, yarn, longrope)", scaling);
}

uint32_t rope_reach(struct hparams *h, const struct rope *rope, uint32_t n_context)
{
    double factor = rope->yarn > 0 ? (double)rope->yarn : 1 / (double)rope->position_scale;
    bool is_told =
        hparams_has(h, "rope.scaling.original_context_length") || hparams_has(h, "engine.stretches_rope");
    double reach = is_told ? floor(rope->n_original * factor + 0.5) : 0;
    return reach > n_context && reach <= INT32_MAX ? (uint32_t)reach : n_context;
}

/* ---- Factors of angles --------------------------------------------------------------------------------- */

/* A rope that YaRN stretches, and the file's factors besides; NULL: none. */
struct yarn {
    const struct rope *rope;
    const float *own; /* [n_dims / 2] */
};

/* Factors by which YaRN slows angles down: 1 for pairs that turn often, `yarn` for those that seldom turn. */
static void fill_yarn(const void *user, float *values, uint64_t n)
{
    const struct yarn *yarn = user;
    const struct rope *rope = yarn->rope;
    double low = (double)rope->yarn_low, high = (double)rope->yarn_high;
    for (uint64_t i = 0; i < n; i++) {
        double kept = (1 - fmin(fmax(((double)i - low) / (high - low), 0), 1)) * (double)rope->yarn_mix;
        values[i] = (float)(1 / (kept + (1 - kept) / (double)rope->yarn));
        if (yarn->own) values[i] *= yarn->own[i];
    }
}

/* Angles are divided by them, so they must be finite and greater than 0. */
static struct value *file_factors(struct graph *g, const char *name, uint32_t n)
{
    struct value *factors = graph_values(g, n, 1, "%s", name);
    const float *values = factors ? g->weights[factors->index].tensor->data : NULL;
    for (uint32_t i = 0; values && i < n; i++)
        if (!(values[i] >= FLT_MIN && values[i] <= FLT_MAX)) {
            graph_fail(g, "the tensor %s has a factor of %g; it must be more than 0", name,
                       (double)values[i]);
            return NULL;
        }
    return factors;
}

struct value *rope_factors(struct graph *g, const struct rope *rope)
{
    if (!rope) return NULL;
    bool is_long = rope->factors_long && g->shape.n_context > rope->n_original;
    const char *name = is_long ? rope->factors_long : rope->factors;
    struct value *own = name ? file_factors(g, name, rope->n_dims / 2) : NULL;
    if (rope->yarn == 0 || (name && !own)) return own;
    const struct yarn yarn = {rope, own ? g->weights[own->index].tensor->data : NULL};
    char numbers[160]; /* each rope has its own */
    snprintf(numbers, sizeof numbers, "rope_yarn_%u_%a_%a_%a_%a_%s", rope->n_dims, (double)rope->yarn,
             (double)rope->yarn_low, (double)rope->yarn_high, (double)rope->yarn_mix, name ? name : "");
    return graph_numbers(g, rope->n_dims / 2, numbers, fill_yarn, &yarn);
}

/* ---- Positions with dimensions ------------------------------------------------------------------------- */

void decoder_read_sections(struct hparams *h, struct decoder *d, bool in_turns)
{
    static const char key[] = "rope.dimension_sections";
    uint32_t sum = 0;
    if (!hparams_has(h, key)) return;
    for (uint32_t a = 0; a < GRAPH_AXES; a++) {
        d->rope.sections[a] = hparams_count_in(h, key, a);
        sum = d->rope.sections[a] <= d->rope.n_dims ? sum + d->rope.sections[a] : UINT32_MAX / 2;
    }
    d->rope.in_turns = in_turns;
    if (sum != d->rope.n_dims / 2)
        hparams_fail(h, ENGINE_ERROR_DATA, "%s: %u pairs do not suit heads of which %u values rotate", key,
                     sum, d->rope.n_dims);
}

/* The dimension by which a pair rotates. */
static uint32_t axis_of(const struct rope *rope, uint32_t pair)
{
    const uint32_t *n = rope->sections;
    if (rope->in_turns)
        return pair % GRAPH_AXES != 0 && pair / GRAPH_AXES < n[pair % GRAPH_AXES] ? pair % GRAPH_AXES : 0;
    return pair < n[0] ? 0 : pair < n[0] + n[1] ? 1 : 2;
}

struct axis {
    const struct rope *rope;
    uint32_t axis;
    const float *own; /* [n_dims / 2], factors of all pairs; NULL: ones */
};

static void fill_axis(const void *user, float *values, uint64_t n)
{
    const struct axis *axis = user;
    for (uint64_t i = 0; i < n; i++)
        values[i] = axis_of(axis->rope, (uint32_t)i) != axis->axis ? NOT_ROTATED
                    : axis->own                                    ? axis->own[i]
                                                                   : 1;
}

/* The factors for each dimension. All graphs of a plan list them, since they have the same weights. */
static void list_axes(struct graph *g, const struct rope *rope, struct value *factors,
                      struct value *axes[GRAPH_AXES])
{
    const struct model_tensor *tensor = factors ? g->weights[factors->index].tensor : NULL;
    for (uint32_t a = 0; a < GRAPH_AXES; a++) {
        const struct axis axis = {rope, a, tensor ? tensor->data : NULL};
        char name[192];
        snprintf(name, sizeof name, "rope_axis_%u_%u_%u_%u_%d_%u_%s", a, rope->sections[0], rope->sections[1],
                 rope->sections[2], rope->in_turns, rope->n_dims, tensor ? tensor->name : "");
        axes[a] = graph_numbers(g, rope->n_dims / 2, name, fill_axis, &axis);
    }
}

struct value *decoder_rotate(struct graph *g, const struct rope *rope, struct value *factors,
                             struct value *heads)
{
    bool has_axes = rope && rope->sections[0] + rope->sections[1] + rope->sections[2] > 0;
    bool is_moved = has_axes && g->shape.pictures & PICTURES_MOVED;
    struct value *axes[GRAPH_AXES];
    if (has_axes) list_axes(g, rope, factors, axes);
    if (!has_axes || !(g->shape.pictures & PICTURES_AXES))
        return decoder_rotate_at(g, rope, factors, heads, is_moved ? INPUT_AXES : INPUT_POSITIONS);
    /* The pairs of each dimension in turn. */
    struct rope part = *rope;
    for (uint32_t a = 0; a < GRAPH_AXES; a++) {
        heads = decoder_rotate_at(g, &part, axes[a], heads, (enum graph_input)(INPUT_AXES + a));
        part.magnitude = 1; /* which each call would apply to all pairs */
    }
    return heads;
}

struct value *decoder_rotate_at(struct graph *g, const struct rope *rope, struct value *factors,
                                struct value *heads, enum graph_input positions)
{
    if (!rope) return heads;
    const struct rope_options options = {.n_dims = rope->n_dims,
                                         .pairs = rope->pairs,
                                         .theta = rope->theta,
                                         .position_scale =
                                             rope->position_scale == 1 ? 0 : rope->position_scale,
                                         .magnitude = rope->magnitude == 1 ? 0 : rope->magnitude,
                                         .factors = factors,
                                         .positions = positions};
    return graph_rope(g, heads, &options);
}
