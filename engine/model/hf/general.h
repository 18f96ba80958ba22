/* general.h: the metadata general.*, which describe a model for people, as llama.cpp's converter writes them. */
#ifndef ENGINE_MODEL_HF_GENERAL_H
#define ENGINE_MODEL_HF_GENERAL_H

#include "model/model.h"

/* Adds general.type, general.name and general.size_label to the metadata of a model whose tensors are listed.
 * `given`: config.json's _name_or_path, or NULL; `folder`: the model's directory. ENGINE_ERROR_MEMORY. */
int hf_describe(struct model *model, const char *given, const char *folder);

#endif
