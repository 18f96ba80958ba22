/* sound.h: small sound files for damage.h to start from. */
#ifndef TESTS_HOSTILE_SOUND_H
#define TESTS_HOSTILE_SOUND_H

#include "damage.h"

/* A Llama of two layers with matrices of `type`, and metadata of all kinds. */
struct base *sound_gguf(const char *name, uint32_t version, uint32_t type);
/* The same kind of model as a llama2.c checkpoint. */
struct base *sound_llama2c(const char *name, uint32_t version, uint32_t n_group);
/* The tokenizer file that goes with it. */
struct base *sound_tokenizer(const char *name);

#endif
