/* hparams.h: reads a family's hyper-parameters from the metadata. "KEY" means that of the architecture,
 * "llama.KEY". The first error sticks, and every later call returns its fallback, so a family reads
 * everything and checks once. */
#ifndef ENGINE_ARCH_HPARAMS_H
#define ENGINE_ARCH_HPARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/model.h"

#define HPARAMS_PREFIX_SIZE 64

struct hparams {
    const struct model *model;
    char prefix[HPARAMS_PREFIX_SIZE]; /* general.architecture */
    int status;                       /* the first error; error_message() has the message */
};

/* Copies general.architecture, NUL-terminated and cut to HPARAMS_PREFIX_SIZE. False if there is none. */
bool hparams_family(const struct model *model, char *name);

/* Records an error whose message begins with the file's path, unless there is one already. status: enum
 * engine_status. */
void hparams_fail(struct hparams *h, int status, const char *format, ...) ENGINE_PRINTF(3, 4);

bool hparams_has(const struct hparams *h, const char *key);
/* Whether the key has an array, with a value for each layer. */
bool hparams_is_array(const struct hparams *h, const char *key);

/* Numbers from 0 to INT32_MAX. A required one is at least 1. */
uint32_t hparams_count(struct hparams *h, const char *key, uint32_t fallback);
uint32_t hparams_count_required(struct hparams *h, const char *key);
/* The value for layer `layer`, if the key may have one for each: an array has from n_layers to block_count
 * elements. */
uint32_t hparams_count_at(struct hparams *h, const char *key, uint32_t layer, uint32_t n_layers,
                          uint32_t fallback);

/* Element `index` of an array of counts; 0 if it ends before. */
uint32_t hparams_count_in(struct hparams *h, const char *key, uint32_t index);
/* The finite number at `index` of an array; the fallback if there is none. */
float hparams_number_in(struct hparams *h, const char *key, uint32_t index, float fallback);

/* Finite numbers: at least 0, or large enough that 1 / it is finite too. */
float hparams_float_from_0(struct hparams *h, const char *key, float fallback);
float hparams_float_above_0(struct hparams *h, const char *key, float fallback);

/* The value for layer `layer`, as in hparams_count_at; it may be infinite. */
float hparams_number_at(struct hparams *h, const char *key, uint32_t layer, uint32_t n_layers,
                        float fallback);

/* The finite number for layer `layer` in an array whose key doesn't begin with the architecture. */
float hparams_layer_number(struct hparams *h, const char *key, uint32_t layer, uint32_t n_layers);

bool hparams_flag(struct hparams *h, const char *key, bool fallback);

/* A text, NUL-terminated and cut to `size`. False if there is none. */
bool hparams_text(struct hparams *h, const char *key, char *text, size_t size);

#endif
