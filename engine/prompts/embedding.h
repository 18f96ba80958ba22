/* embedding.h: texts for models that embed or rank them: what a model wants before a text, and what the
 * scores of its classification head mean. For `engine embed`, `classify`, `rerank`, and the server. */
#ifndef ENGINE_PROMPTS_EMBEDDING_H
#define ENGINE_PROMPTS_EMBEDDING_H

#include "engine.h"

/* The text of the model's prompt of this name, or of its default one if `name` is NULL; it belongs to the
 * model, and is empty if there is none. ENGINE_ERROR_ARGUMENT: it has no prompt of this name.
 * ENGINE_ERROR_UNSUPPORTED: the prompt's tokens are not to be pooled, which the engine does not do. */
int embed_prompt_find(const struct engine_model *model, const char *name, struct engine_string *prompt);

/* The model's prompt of a task's name, or its default one if it has none of that name; as above. */
int embed_prompt_of_task(const struct engine_model *model, const char *task, struct engine_string *prompt);

/* Turns scores [n] into probabilities as the model's `label_scores` says (enum engine_label_scores). */
void label_probabilities(uint32_t label_scores, float *scores, uint32_t n);

/* The name of a label, or "LABEL_3"; `room` is storage for the latter. */
struct label_room {
    char text[24];
};
struct engine_string label_name(const struct engine_model *model, uint32_t index, struct label_room *room);

/* Which label says how well a document fits: the only one, or "yes" of "yes" and "no".
 * ENGINE_ERROR_UNSUPPORTED, with command_error's message: the model has no head, or one for other labels. */
int relevance_label(struct engine_model *model, const struct engine_embedding_info *info, uint32_t *label);
/* The relevance: the score itself if it is the only one, as llama.cpp gives it, otherwise its share in the
 * softmax of all. scores [n] */
float relevance_of(const float *scores, uint32_t n, uint32_t label);

/* A document and its relevance. */
struct ranked {
    size_t index;
    float score;
};
/* The best first; those of one score by their index. */
void ranked_sort(struct ranked *ranked, size_t n);

#endif
