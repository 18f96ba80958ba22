/* tensors.h: the tensors of a model's directory under GGUF's names, in GGUF's order and shape. */
#ifndef ENGINE_MODEL_HF_TENSORS_H
#define ENGINE_MODEL_HF_TENSORS_H

struct hf_config;
struct model;

/* Fills model->tensors from model->shards. ENGINE_ERROR_DATA or ENGINE_ERROR_UNSUPPORTED. */
int hf_list_tensors(struct model *model, struct hf_config *config);

#endif
