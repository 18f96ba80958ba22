/* names.h: what GGUF calls the matrices that Hugging Face's models name after their modules:
 * "model.layers.3.self_attn.q_proj" is "blk.3.attn_q" in most families. */
#ifndef ENGINE_MODEL_HF_NAMES_H
#define ENGINE_MODEL_HF_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/arch.h"

/* The order of a matrix's rows in GGUF files. The pairs of values that rope rotates are halves of a head
 * apart in Hugging Face's models, and adjacent in the GGUF files of some families. */
enum hf_rows {
    HF_ROWS_SAME,
    HF_ROWS_QUERIES, /* heads of queries, their pairs made adjacent */
    HF_ROWS_KEYS,    /* the same for heads of keys */
    /* From groups, each with the heads of some queries, a key and a value, to all queries, keys, values. */
    HF_ROWS_GROUPS,
};

#define HF_NO_NUMBER UINT32_MAX

struct hf_name {
    char tensor[64]; /* "blk.3.attn_q.weight"; of an expert's matrix, the tensor of all experts */
    uint32_t layer;  /* HF_NO_NUMBER: none */
    uint32_t expert; /* HF_NO_NUMBER: not an expert's */
    enum hf_rows rows;
    bool is_embedding; /* its rows are looked up, not multiplied */
};

/* The name of a module's weight in GGUF files of a family. False: unknown. */
bool hf_name(const struct hf_family *family, const char *module, struct hf_name *name);

/* For a family's own `name`: the tensor of the first module that matches, and the number at its #; NULL:
 * none does. */
const char *hf_module_find(const struct hf_module *modules, const char *name, uint32_t *number);

/* The key of the metadata that has a stored tensor's number as element *layer (hf_family.layer_numbers);
 * NULL: none has. */
const char *hf_layer_number_key(const struct hf_family *family, const char *name, uint32_t *layer);

/* The form of a family's tensor; never NULL. */
const struct hf_form *hf_find_form(const struct hf_family *family, const struct hf_name *name);

/* Whether a name has this end, and more before it. */
bool hf_ends_with(const char *name, const char *end);

#endif
