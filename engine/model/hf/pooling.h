/* pooling.h: how sentence-transformers makes a text's embedding of a model's states. Its directories list the steps in
 * modules.json; the one of the type Pooling has a folder with a config.json. */
#ifndef ENGINE_MODEL_HF_POOLING_H
#define ENGINE_MODEL_HF_POOLING_H

#include "model/hf/config.h"

/* Adds GGUF's key pooling_type (1 mean, 2 first token, 3 last token) to the metadata if the folder has a modules.json.
 * Refuses steps that the engine does not have. Records an error in the configuration, and returns it. */
int hf_read_pooling(struct hf_config *config, const char *folder);

#endif
