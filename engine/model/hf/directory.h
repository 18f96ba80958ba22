/* directory.h: reads models as Hugging Face publishes them: a directory with config.json and safetensors. */
#ifndef ENGINE_MODEL_HF_DIRECTORY_H
#define ENGINE_MODEL_HF_DIRECTORY_H

#include <jansson.h>
#include <stdbool.h>

struct model;

/* Whether a path is a directory, or the config.json of one. */
bool hf_is_directory(const char *path);

/* Whether a path is that of another file of a directory, by its name. */
bool hf_is_part(const char *path);

/* The directory that a path or its config.json is, in new memory; NULL: there is none left. */
char *hf_folder(const char *path);

/* The names of the files with a directory's weights, as the keys of an object; their values count them
 * from 0. The caller releases *names. Errors as of hf_read. */
int hf_list_shards(const char *folder, json_t **names);

/* The snapshot that a path stands for, in new memory: of a folder of the cache (models--ORG--NAME), or, if
 * there is no such file, of the model ORG/NAME in the cache. *found is NULL if the path stands for itself.
 * ENGINE_ERROR_NOT_FOUND: the cache has no such model, or no snapshot of it that can be told from others. */
int hf_hub_find(const char *path, char **found);

/* Fills a model from the directory model->path: metadata (including metadata_finish), shards, tensors and
 * format. On failure, model_close cleans up. ENGINE_ERROR_DATA or ENGINE_ERROR_UNSUPPORTED with a message
 * that names the file. */
int hf_read(struct model *model);
/* The same of the eye in a directory. ENGINE_ERROR_UNSUPPORTED: its model sees nothing, as far as the engine
 * knows. */
int hf_read_eye(struct model *model);

#endif
