/* config.h: a model's config.json becomes metadata under GGUF's names, so that nothing after it knows where a
 * model comes from. keys.c has the keys that each model type reads, with their defaults; families.c a row for each
 * family; config.c reads what most families have, rope.c the rotary positions, layers.c what differs between layers. */
#ifndef ENGINE_MODEL_HF_CONFIG_H
#define ENGINE_MODEL_HF_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "model/metadata.h"

#define HF_MAX_LAYERS 1024

struct hf_family;
struct hf_factor;
struct hf_keys;

/* How matrices are quantised, see quantised.h. */
enum hf_method { HF_PLAIN, HF_FP8, HF_MXFP4, HF_GPTQ, HF_AWQ };

struct hf_config {
    char *path;
    json_t *root;       /* owned */
    const json_t *json; /* the text model's part */
    const struct hf_family *family;
    const struct hf_keys *keys;
    struct metadata *metadata;
    uint32_t n_layers, n_embd, n_heads, n_kv_heads, head_dim, n_context;
    uint32_t n_rope;          /* rotated values of a head */
    uint32_t n_nope, n_value; /* of DeepSeek's heads: values of a key that aren't rotated, and of a value */
    uint32_t n_unused_rows;   /* of learnt positions, before that of the first token (RoBERTa) */
    uint32_t n_groups;        /* of heads that share keys and a norm (Mamba 2); 0: other families */
    uint32_t n_experts;       /* whose matrices are stored as one (Nomic); 0: other families */
    uint32_t n_ff;            /* feed_forward_length */
    /* Of a delta net (Qwen 3 Next): heads of queries and keys, of values, and the sizes of both */
    uint32_t n_key_heads, n_value_heads, key_dim, value_dim;
    bool is_hybrid; /* some layers have states instead of attention: */
    bool is_recurrent[HF_MAX_LAYERS];
    bool has_rope[HF_MAX_LAYERS]; /* of families with layers without rope */
    bool shared_is_dense;         /* what Granite calls a shared expert is the whole feed-forward network */
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
    int status;                         /* the first error */
};

/* A key with transformers' default; alternative names as in hf_get, NULL: the type doesn't read it. */
struct hf_size {
    const char *names;
    uint32_t preset;
};
struct hf_real {
    const char *names;
    double preset;
};

/* Biases, and norms of queries and keys, that a type has only if a key of config.json says so; if it doesn't, stored ones
 * are not used. */
struct hf_option {
    const char *key; /* NULL: none */
    bool preset;
    const char *tensors; /* after "blk.N.", without ".bias" and ".weight": "attn_q|attn_k" */
};

/* The keys that a model type reads, of those that most types have under some name. */
struct hf_keys {
    const char *type; /* model_type; "nomic_bert, num_experts": a variant, see families.c */
    struct hf_size width, layers, heads, context;
    struct hf_size kv_heads; /* preset 0: as many as heads; so, too, if it is null */
    struct hf_size head_dim; /* preset 0: the width by the heads; so, too, if it is null */
    struct hf_size ff;       /* preset 0: four times the width */
    struct hf_real epsilon;
    const char *activation, *activation_preset;
    struct hf_real theta;       /* names outside rope_parameters, where it is rope_theta */
    struct hf_real local_theta; /* the same of layers with windows; NULL: one rope for all layers */
    bool scales_local;          /* rope_scaling is for them, too */
    const char *part;           /* the same of partial_rotary_factor */
    uint32_t original_context;  /* the default of original_max_position_embeddings; 0: none */
    const char *rope;           /* the default of rope_parameters, JSON; NULL: none */
    const char *window;         /* null: no layer has one */
    uint32_t window_preset;     /* 0: none */
    const char *window_switch;  /* a flag without which there is no window; NULL: none is needed */
    const char *window_period;  /* see enum hf_windows; NULL: not read */
    const char *layer_types;
    struct hf_option options[2];
    bool is_tied; /* the default of tie_word_embeddings */
};

/* Which layers have the window, if config.json doesn't list them. */
enum hf_windows {
    HF_WINDOWS_NONE,
    HF_WINDOWS_ALL,
    HF_WINDOWS_PERIOD,  /* all but every window_period-th */
    HF_WINDOWS_FIRST,   /* all but the first of every window_period */
    HF_WINDOWS_FROM,    /* those from max_window_layers on */
    HF_WINDOWS_UNTIL,   /* the first and every other one, up to max_window_layers */
    HF_WINDOWS_NO_ROPE, /* those that hf_read_layers_without_rope has found */
};

/* A number that only some families have. */
struct hf_key {
    const char *name, *key; /* config.json's and GGUF's */
    /* null is a missing key; HF_FLOAT_OR_0: it is 0; HF_COUNT_OR_NONE: the metadata doesn't have it */
    enum { HF_COUNT, HF_COUNT_OR_NONE, HF_FLOAT, HF_FLOAT_OR_0, HF_FLAG } kind;
    double fallback; /* as in transformers; HF_ABSENT: the metadata doesn't have it either */
};
#define HF_ABSENT (-1e300)

/* What rows of a family's matrices are multiplied by (Falcon-H1). */
struct hf_factor {
    const char *tensor;  /* after "blk.N."; or a name outside the layers */
    uint32_t first, end; /* rows; end 0: all */
    float factor;
};

struct hf_family {
    const char *type, *architecture; /* model_type, general.architecture */
    bool has_layer_norms;            /* else RMS norms */
    double rotary; /* the part of each head that is rotated, in transformers by default; 0: no rope */
    enum hf_windows windows;
    uint32_t period;                        /* the default of HF_WINDOWS_PERIOD and HF_WINDOWS_FIRST */
    const struct hf_key *keys;              /* ends with a NULL name; NULL: none */
    void (*read)(struct hf_config *config); /* what rows can't say; NULL: nothing */
    bool adds_one;                          /* norms add 1 to their weights */
    bool positions_follow_padding;          /* the first token has the position after pad_token_id's */
};

/* Reads config.json into metadata. After a failure, too, hf_config_free is to be called. */
int hf_config_read(const char *path, struct metadata *metadata, struct hf_config *config);
void hf_config_free(struct hf_config *config);

/* ---- For the files of config.json ---------------------------------------------------------------------- */

/* keys.c: the keys of a family's type; a variant without a row has those of its type. NULL: unknown. */
const struct hf_keys *hf_keys_find(const char *type);
/* The key that leaves out a stored tensor ("blk.3.attn_q.bias"), or NULL. */
const char *hf_keys_is_off(struct hf_config *config, const char *tensor);
/* families.c: the family of a model_type, or NULL. */
const struct hf_family *hf_family_find(const char *type);
/* The row that a family has for models of this config.json, if it has another one; else the family. */
const struct hf_family *hf_family_variant(const struct hf_family *family, const json_t *json);
/* What models of a model_type are that directories can't have, for a message: "supported only as GGUF files"; NULL:
 * nothing is known of it. */
const char *hf_family_refusal(const char *type);

/* Records an error unless there is one; the message begins with the file's path. */
void hf_fail(struct hf_config *config, int status, const char *format, ...) ENGINE_PRINTF(3, 4);
/* Refuses a setting that the family's graph can't follow, if `refused`. */
void hf_refuse(struct hf_config *config, bool refused, const char *what);

/* A member of an object, NULL if it is missing or null. Names may be alternatives: "n_layer|num_layers"; no names are no
 * member. */
const json_t *hf_get(const json_t *object, const char *names);
/* Its value as a number, a count up to INT32_MAX, or a flag; the fallback if there is none. Other kinds of
 * values are errors. */
double hf_number(struct hf_config *config, const json_t *object, const char *names, double fallback);
uint32_t hf_count(struct hf_config *config, const json_t *object, const char *names, uint32_t fallback);
bool hf_flag(struct hf_config *config, const json_t *object, const char *names, bool fallback);
/* NULL: there is none. */
const char *hf_text(struct hf_config *config, const json_t *object, const char *names);

/* Add metadata: ARCHITECTURE.key. Arrays have an element for each layer. */
void hf_put_count(struct hf_config *config, const char *key, uint32_t value);
void hf_put_float(struct hf_config *config, const char *key, double value);
void hf_put_flag(struct hf_config *config, const char *key, bool value);
void hf_put_text(struct hf_config *config, const char *key, const char *value);
/* values [count], memory of the metadata */
void hf_put_texts(struct hf_config *config, const char *key, const struct engine_string *values,
                  size_t count);
void hf_put_layer_flags(struct hf_config *config, const char *key, const bool *values);
void hf_put_layer_counts(struct hf_config *config, const char *key, const uint32_t *values);

/* rope.c: rope.* keys, and factors. */
void hf_read_rope(struct hf_config *config);
/* classifier.c: whether there is a classification head, of the heads that models have the only one that is used; its
 * labels, and how its scores are computed. */
void hf_read_classifier(struct hf_config *config);
/* layers.c: windows, layers without rope, and layers with states. */
void hf_read_windows(struct hf_config *config);
/* Finds has_rope: all but every no_rope_layer_interval-th layer (its default: period), or as no_rope_layers says. */
void hf_read_layers_without_rope(struct hf_config *config, uint32_t period);
/* Which layers have states: those of this kind in layer_types, or without such a list all but every period-th. The
 * others are `attention`. */
void hf_read_recurrent_layers(struct hf_config *config, const char *kind, const char *attention,
                              uint32_t period);

/* hybrids.c: what families with states say in config.json, for their rows in families.c. */
void hf_read_mamba(struct hf_config *config);
void hf_read_mamba2(struct hf_config *config);
void hf_read_falcon_h1(struct hf_config *config);
void hf_read_granite(struct hf_config *config);
void hf_read_granite_hybrid(struct hf_config *config);
void hf_read_lfm2(struct hf_config *config);
void hf_read_qwen3_next(struct hf_config *config);
/* encoders.c: the same of encoders, and of T5. */
void hf_read_bert(struct hf_config *config);
void hf_read_jina_bert(struct hf_config *config);
void hf_read_nomic_bert(struct hf_config *config);
void hf_read_nomic_bert_moe(struct hf_config *config);
void hf_read_gemma_embedding(struct hf_config *config);
void hf_read_t5(struct hf_config *config);
void hf_read_t5_encoder(struct hf_config *config);
/* families.c: Gemma's query_pre_attn_scalar. */
void hf_read_query_scale(struct hf_config *config);
/* hybrids.c: the row of families.c for a model of the same type whose layers all have attention. */
const struct hf_family *hf_without_states(const struct hf_family *family, const json_t *json);

#endif
