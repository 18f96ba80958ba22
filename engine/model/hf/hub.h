/* hub.h: finds models in the cache of Hugging Face's programs. Nothing is downloaded. */
#ifndef ENGINE_MODEL_HF_HUB_H
#define ENGINE_MODEL_HF_HUB_H

/* The snapshot that a path stands for, in new memory: of a folder of the cache (models--ORG--NAME), or, if there
 * is no such file, of the model ORG/NAME in the cache. NULL: it stands for none. */
char *hf_hub_find(const char *path);

#endif
