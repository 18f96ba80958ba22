/* tokenizer.h: the tokenizer of a model's directory becomes metadata under GGUF's names, and those that the
 * tokenizer plugin `hf` takes in addition (docs/hugging-face-tokenizers.md). */
#ifndef ENGINE_MODEL_HF_TOKENIZER_H
#define ENGINE_MODEL_HF_TOKENIZER_H

#include <stdbool.h>
#include <stdint.h>

#include "model/metadata.h"

/* Reads a directory's tokenizer.json, tokenizer.model, vocab.json with merges.txt, or vocab.txt (the first of
 * these that is there), tokenizer_config.json, special_tokens_map.json, generation_config.json and chat
 * templates. The vocabulary is filled up to `n_tokens`, the rows of the embedding, with tokens that mean
 * nothing; 0: it isn't. *found: whether there is a vocabulary; without one only the other files are read.
 * ENGINE_ERROR_DATA or ENGINE_ERROR_UNSUPPORTED with a message that names the file and the place in it. */
int hf_tokenizer_read(const char *directory, uint64_t n_tokens, struct metadata *metadata, bool *found);

#endif
