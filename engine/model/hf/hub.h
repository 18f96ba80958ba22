/* hub.h: finds models in the cache of Hugging Face's programs. Nothing is downloaded. */
#ifndef ENGINE_MODEL_HF_HUB_H
#define ENGINE_MODEL_HF_HUB_H

/* The snapshot that a path stands for, in new memory: of a folder of the cache (models--ORG--NAME), or, if there
 * is no such file, of the model ORG/NAME in the cache. *found is NULL if the path stands for itself.
 * ENGINE_ERROR_NOT_FOUND: the cache has no such model, or no snapshot of it that can be told from others. */
int hf_hub_find(const char *path, char **found);

#endif
