/* pooling.h: how sentence-transformers makes a text's embedding of a model's states. Its directories list the steps in
 * modules.json; those of the types Pooling and Dense have folders with a config.json, and Dense with weights. */
#ifndef ENGINE_MODEL_HF_POOLING_H
#define ENGINE_MODEL_HF_POOLING_H

#include "model/hf/config.h"

/* Adds GGUF's key pooling_type (1 mean, 2 first token, 3 last token) to the metadata if the folder has a modules.json,
 * and for each Dense engine.dense_N.activation, from dense_2 on; counts these in the configuration.
 * Refuses steps that the engine does not have. Records an error in the configuration, and returns it. */
int hf_read_pooling(struct hf_config *config, const char *folder);

/* Adds the files with the weights of the steps of the type Dense, FOLDER/model.safetensors, to names of files, with the
 * next numbers (see hf_list_shards). */
int hf_list_dense(const char *folder, json_t *names);

#endif
