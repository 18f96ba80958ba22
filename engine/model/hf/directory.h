/* directory.h: reads models as Hugging Face publishes them: a directory with config.json and safetensors. */
#ifndef ENGINE_MODEL_HF_DIRECTORY_H
#define ENGINE_MODEL_HF_DIRECTORY_H

#include <stdbool.h>

struct model;

/* Whether a path is a directory, or the config.json of one. */
bool hf_is_directory(const char *path);

/* Fills a model from the directory model->path: metadata (including metadata_finish), shards, tensors and
 * format. On failure, model_close cleans up. ENGINE_ERROR_DATA or ENGINE_ERROR_UNSUPPORTED with a message that
 * names the file. */
int hf_read(struct model *model);

#endif
