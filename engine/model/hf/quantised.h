/* quantised.h: matrices that directories have in fewer bits: FP8 with scales, MXFP4, and GPTQ's and AWQ's 4 bits.
 * Their values are the published ones, exactly, in a type that can hold them. */
#ifndef ENGINE_MODEL_HF_QUANTISED_H
#define ENGINE_MODEL_HF_QUANTISED_H

#include <stdbool.h>
#include <stdint.h>

#include "model/hf/pieces.h"

struct hf_config;
struct model;
struct safetensors_tensor;

/* Reads quantization_config. */
void hf_read_quantisation(struct hf_config *config);

/* The suffix of a stored tensor's name if it has the codes of a quantised matrix (".qweight", "_blocks"), "" if it
 * is a matrix by its type (FP8), NULL if it is none of those. */
const char *hf_quantised_suffix(const struct hf_config *config, const struct safetensors_tensor *stored);
/* Whether it belongs to a quantised matrix, with scales and the like. */
bool hf_is_companion(const struct hf_config *config, const char *name);

/* Reads a quantised matrix. *source lives as long as the metadata; dims: values of a row, rows, matrices.
 * ENGINE_ERROR_DATA: companions are missing or have other shapes. */
int hf_quantised_read(const struct model *model, const struct hf_config *config,
                      const struct safetensors_tensor *stored, struct hf_source **source, uint64_t dims[3]);
/* Makes a source from hf_quantised_read give float32. False: it is MXFP4, which stays as it is. */
bool hf_quantised_as_float(struct hf_source *source);

#endif
