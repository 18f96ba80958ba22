/* config.h: a model's config.json becomes metadata under GGUF's names, so that nothing after it knows
 * where a model comes from. Families say in their descriptors (arch/arch.h) which keys their model types
 * read and with which defaults, and in functions of their own what rows can't say; config.c reads what
 * most types have, rope.c the rotary positions. */
#ifndef ENGINE_MODEL_HF_CONFIG_H
#define ENGINE_MODEL_HF_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "arch/arch.h"
#include "model/metadata.h"

#define HF_MAX_LAYERS 1024

struct hf_factor;

/* How matrices are quantised, see quantised.c. */
enum hf_method { HF_PLAIN, HF_FP8, HF_MXFP4, HF_GPTQ, HF_AWQ, HF_BITNET };

struct hf_config {
    char *path;
    json_t *root;       /* owned */
    const json_t *json; /* the text model's part; of an eye its own */
    json_t *processor;  /* of an eye: how pictures are cut; owned; NULL: not said */
    const struct architecture *architecture;
    struct hf_type type; /* with the usual for what its row leaves out; keys that it doesn't read are NULL */
    struct metadata *metadata;
    uint32_t n_layers, n_embd, n_heads, n_kv_heads, head_dim, n_context;
    uint32_t n_rope;          /* rotated values of a head */
    uint32_t n_nope, n_value; /* of latent attention: values of a key that aren't rotated, and of a value */
    uint32_t n_unused_rows;   /* of learnt positions, before that of the first token */
    uint32_t n_table_rows;    /* of per_layer_token_embd, with zeros for those not stored; 0: the stored */
    uint32_t n_groups;        /* of heads of a scan that share keys and a norm; 0: there are none */
    uint32_t n_experts;       /* whose matrices are stored as one; 0: each has its own */
    uint32_t n_ff;            /* feed_forward_length */
    /* Of a delta net: heads of queries and keys, of values, and the sizes of both */
    uint32_t n_key_heads, n_value_heads, key_dim, value_dim;
    bool has_own_heads;   /* the family has written the metadata of heads */
    bool has_own_lengths; /* and feed_forward_length */
    bool is_hybrid;       /* some layers have states instead of attention: */
    bool is_recurrent[HF_MAX_LAYERS];
    bool has_rope[HF_MAX_LAYERS]; /* of families with layers without rope */
    bool slides[HF_MAX_LAYERS];   /* has a window, once hf_find_windows has run: */
    bool has_found_windows;
    bool shared_is_dense; /* what is stored as a shared expert is the whole feed-forward network */
    const struct hf_factor *factors_of_rows; /* multiplied into weights; ends with a NULL name; NULL: none */
    uint32_t n_dense;                        /* the last of the model's files: of steps behind the pooling */
    bool has_logit_score;                    /* modules.json scores by the logits of two tokens */
    bool is_classifier;                      /* has a head that scores texts */
    bool is_tied;                            /* the output matrix is the embedding */
    /* Rope factors that become tensors [n_rope / 2]; NULL: none */
    float *factors, *factors_long, *factors_short;
    enum hf_method method;
    uint32_t block_rows, block_columns; /* values that share a scale; block_columns 0: a whole row */
    uint32_t zero_offset;               /* added to GPTQ's stored zeros */
    bool rounds_online;                 /* of three values: matrices are stored as they were trained */
    bool divides_by_scale;              /* of three values: the stored scale is the inverse */
    int status;                         /* the first error */
};

/* What rows of a family's matrices are multiplied by. */
struct hf_factor {
    const char *tensor;  /* after "blk.N."; or a name outside the layers */
    uint32_t first, end; /* rows; end 0: all */
    float factor;
};

/* Reads config.json into metadata. After a failure, too, hf_config_free is to be called. */
int hf_config_read(const char *path, struct metadata *metadata, struct hf_config *config);
void hf_config_free(struct hf_config *config);
/* The same of the eye in a directory, also from the processor's file beside config.json:
 * processor_config.json or preprocessor_config.json. ENGINE_ERROR_UNSUPPORTED: it has none, or one of an
 * unknown kind. */
int hf_eye_config_read(const char *path, const char *processor, struct metadata *metadata,
                       struct hf_config *config);

/* ---- For families, and the files of config.json -------------------------------------------------------- */

/* The key that leaves out a stored tensor ("blk.3.attn_q.bias"), or NULL. */
const char *hf_option_is_off(struct hf_config *config, const char *tensor);

/* Records an error unless there is one; the message begins with the file's path. */
void hf_fail(struct hf_config *config, int status, const char *format, ...) ENGINE_PRINTF(3, 4);
/* Refuses a setting that the family's graph can't follow, if `refused`. */
void hf_refuse(struct hf_config *config, bool refused, const char *what);
/* Refuses a hidden_act but SiLU, which convolutions and gates have. */
void hf_refuse_activation(struct hf_config *config);

/* A member of an object, NULL if it is missing or null. Names may be alternatives: "n_layer|num_layers";
 * no names are no member. */
const json_t *hf_get(const json_t *object, const char *names);
/* Its value as a number, a count up to INT32_MAX, or a flag; the fallback if there is none. Other kinds of
 * values are errors. */
double hf_number(struct hf_config *config, const json_t *object, const char *names, double fallback);
uint32_t hf_count(struct hf_config *config, const json_t *object, const char *names, uint32_t fallback);
bool hf_flag(struct hf_config *config, const json_t *object, const char *names, bool fallback);
/* NULL: there is none. */
const char *hf_text(struct hf_config *config, const json_t *object, const char *names);

/* Add metadata: ARCHITECTURE.key. Arrays have an element for each layer; those of counts take the place of
 * the number for all layers. */
void hf_put_count(struct hf_config *config, const char *key, uint32_t value);
void hf_put_float(struct hf_config *config, const char *key, double value);
void hf_put_flag(struct hf_config *config, const char *key, bool value);
void hf_put_text(struct hf_config *config, const char *key, const char *value);
/* values [count], memory of the metadata */
void hf_put_texts(struct hf_config *config, const char *key, const struct engine_string *values,
                  size_t count);
void hf_put_layer_flags(struct hf_config *config, const char *key, const bool *values);
void hf_put_layer_counts(struct hf_config *config, const char *key, const uint32_t *values);
void hf_put_counts(struct hf_config *config, const char *key, const uint32_t *values, size_t count);
void hf_put_floats(struct hf_config *config, const char *key, const float *values, size_t count);
void hf_put_layer_floats(struct hf_config *config, const char *key, const float *values);

/* rope.c: rope.* keys, and factors. */
void hf_read_rope(struct hf_config *config);
/* How many pairs rotate by each dimension of a position (M-RoPE), which other programs need to know; those of
 * text have the same position in all. preset [3]: without mrope_section; NULL: none. */
void hf_put_rope_sections(struct hf_config *config, const uint32_t *preset);
/* sentence.c: whether there is a classification head, of the heads that models have the only one that is
 * used; its labels, and how its scores are computed. */
void hf_read_classifier(struct hf_config *config);

/* Finds has_rope: all but every no_rope_layer_interval-th layer (its default: period), or as
 * no_rope_layers says. */
void hf_read_layers_without_rope(struct hf_config *config, uint32_t period);
/* Finds slides, which the family may then change, before they are written. */
void hf_find_windows(struct hf_config *config);
/* Which layers have states: those of this kind in layer_types, or without such a list all but every
 * period-th. The others are `attention`. */
void hf_read_recurrent_layers(struct hf_config *config, const char *kind, const char *attention,
                              uint32_t period);
/* mlp_only_layers: the first ones, which have no experts. */
void hf_read_dense_layers(struct hf_config *config);
/* How many layers have no experts, which are the first, by mlp_layer_types; `preset` without it. */
uint32_t hf_count_dense_layers(struct hf_config *config, uint32_t preset);

#endif
