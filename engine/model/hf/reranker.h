/* reranker.h: Qwen3-Reranker: a model of texts that answers "yes" or "no" to whether a document meets a query. The rows
 * of its output matrix for these two tokens are a classification head, as in llama.cpp's files. */
#ifndef ENGINE_MODEL_HF_RERANKER_H
#define ENGINE_MODEL_HF_RERANKER_H

#include "model/hf/config.h"
#include "model/model.h"

/* Gives a model that is a Qwen3-Reranker by its name (general.name) or by the title of the folder's README.md the tensor
 * cls.output.weight, labels, and the published prompt as tokenizer.chat_template.rerank. Call it after the tensors, the
 * name and the tokenizer have been read; there must be room for a tensor. ENGINE_ERROR_DATA: a token is missing;
 * ENGINE_ERROR_UNSUPPORTED: modules.json scores by logits, but it is another model. */
int hf_add_reranker(struct model *model, struct hf_config *config, const char *folder);

#endif
