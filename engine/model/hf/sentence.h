/* sentence.h: what sentence-transformers' files say of texts, besides the steps (pooling.h): how long they may be, and
 * what is put before them. */
#ifndef ENGINE_MODEL_HF_SENTENCE_H
#define ENGINE_MODEL_HF_SENTENCE_H

#include "model/hf/config.h"

/* Adds engine.text_length (max_seq_length of sentence_bert_config.json), and of config_sentence_transformers.json
 * engine.prompts.names, engine.prompts.texts and engine.prompts.default to the metadata. Records an error in the configuration, and returns it. */
int hf_read_sentence(struct hf_config *config, const char *folder);

/* Whether sentence_bert_config.json asks for lower case (do_lower_case). */
int hf_lowers_case(const char *folder, bool *lowers);

#endif
