/* embedding.c: see embedding.h. */
#include "prompts/embedding.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/messages.h"

/* ---- Prompts of sentence-transformers ------------------------------------------------------------------ */

/* The keys of a directory's config_sentence_transformers.json, see engine/model/hf/sentence.c. */
struct prompts {
    const struct engine_metadata *metadata;
    char names[128], texts[128], preset[128], pooled[128];
    size_t count;
};

static bool is_text(struct engine_string text, const char *other, size_t length)
{
    return text.length == length && memcmp(text.data, other, length) == 0;
}

/* "query, passage", as far as there is room. */
static void list_names(const struct prompts *p, char *list, size_t size)
{
    struct engine_string name;
    size_t used = 0;
    for (size_t i = 0; i < p->count && used < size; i++) {
        if (p->metadata->get_strings(p->metadata->context, p->names, i, 1, &name) != ENGINE_OK) return;
        int n = snprintf(list + used, size - used, "%s%.*s", i > 0 ? ", " : "", (int)name.length, name.data);
        if (n > 0) used += (size_t)n;
    }
}

/* False: there is none of this name. */
static bool look_up(const struct prompts *p, const char *name, size_t length, struct engine_string *prompt)
{
    struct engine_string other;
    for (size_t i = 0; i < p->count; i++) {
        if (p->metadata->get_strings(p->metadata->context, p->names, i, 1, &other) != ENGINE_OK) break;
        if (is_text(other, name, length))
            return p->metadata->get_strings(p->metadata->context, p->texts, i, 1, prompt) == ENGINE_OK;
    }
    return false;
}

static int label_find(const struct prompts *p, const char *name, size_t length, struct engine_string *prompt)
{
    char list[200] = "";
    if (look_up(p, name, length, prompt)) return ENGINE_OK;
    list_names(p, list, sizeof list);
    return command_error(ENGINE_ERROR_ARGUMENT, "the model has no prompt '%.*s'%s%s", (int)length, name,
                         p->count > 0 ? "; it has " : ": its files name none", list);
}

static int open_prompts(const struct engine_model *model, struct prompts *p)
{
    struct engine_model_info info = {.struct_size = sizeof info};
    int status = engine_model_get_info(model, &info);
    if (status) return status;
    p->metadata = engine_model_metadata(model);
    snprintf(p->names, sizeof p->names, "%.80s.engine.prompts.names", info.architecture);
    snprintf(p->texts, sizeof p->texts, "%.80s.engine.prompts.texts", info.architecture);
    snprintf(p->preset, sizeof p->preset, "%.80s.engine.prompts.default", info.architecture);
    snprintf(p->pooled, sizeof p->pooled, "%.80s.engine.prompts.pooled", info.architecture);
    if (p->metadata->get_count(p->metadata->context, p->names, &p->count) != ENGINE_OK) p->count = 0;
    return ENGINE_OK;
}

int embed_prompt_of_task(const struct engine_model *model, const char *task, struct engine_string *prompt)
{
    struct prompts p = {0};
    struct engine_string unused;
    int status = open_prompts(model, &p);
    if (!status && look_up(&p, task, strlen(task), &unused)) return embed_prompt_find(model, task, prompt);
    return status ? status : embed_prompt_find(model, NULL, prompt);
}

int embed_prompt_find(const struct engine_model *model, const char *name, struct engine_string *prompt)
{
    struct prompts p = {0};
    struct engine_string preset = {name, name ? strlen(name) : 0};
    int pooled = 1;
    *prompt = (struct engine_string){0};
    int status = open_prompts(model, &p);
    if (status) return status;
    if (!name && p.metadata->get_string(p.metadata->context, p.preset, &preset) != ENGINE_OK)
        return ENGINE_OK;
    status = label_find(&p, preset.data, preset.length, prompt);
    if (!status && prompt->length > 0 &&
        p.metadata->get_boolean(p.metadata->context, p.pooled, &pooled) == ENGINE_OK && !pooled)
        status = command_error(
            ENGINE_ERROR_UNSUPPORTED,
            "the model leaves its prompt's tokens out of the pooling (include_prompt), which is "
            "not supported");
    return status;
}

/* ---- Labels and relevance ------------------------------------------------------------------------------ */

static double share(const float *scores, uint32_t n, uint32_t label)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += exp((double)scores[i] - (double)scores[label]);
    return 1 / sum;
}

void label_probabilities(uint32_t label_scores, float *scores, uint32_t n)
{
    double most = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < n; i++) most = fmax(most, (double)scores[i]);
    for (uint32_t i = 0; i < n; i++) sum += exp((double)scores[i] - most);
    for (uint32_t i = 0; i < n; i++) {
        double score = (double)scores[i];
        if (label_scores == ENGINE_LABELS_SOFTMAX) scores[i] = (float)(exp(score - most) / sum);
        if (label_scores == ENGINE_LABELS_SIGMOID) scores[i] = (float)(1 / (1 + exp(-score)));
    }
}

struct engine_string label_name(const struct engine_model *model, uint32_t index, struct label_room *room)
{
    struct engine_string name;
    if (engine_model_label(model, index, &name) == ENGINE_OK) return name;
    int length = snprintf(room->text, sizeof room->text, "LABEL_%" PRIu32, index);
    return (struct engine_string){room->text, (size_t)length};
}

int relevance_label(struct engine_model *model, const struct engine_embedding_info *info, uint32_t *label)
{
    struct label_room room;
    *label = 0;
    if (info->n_labels == 1) return ENGINE_OK;
    for (uint32_t i = 0; i < info->n_labels; i++) {
        struct engine_string name = label_name(model, i, &room);
        *label = i;
        if (info->n_labels == 2 && name.length == 3 && memcmp(name.data, "yes", 3) == 0) return ENGINE_OK;
    }
    if (info->n_labels == 0)
        return command_error(ENGINE_ERROR_UNSUPPORTED,
                             "the model has no classification head, so it gives no scores of documents for a "
                             "query; take a reranker");
    return command_error(ENGINE_ERROR_UNSUPPORTED,
                         "the model's head tells %" PRIu32 " labels apart: it classifies texts (engine "
                         "classify), and does not rank documents",
                         info->n_labels);
}

float relevance_of(const float *scores, uint32_t n, uint32_t label)
{
    return n == 1 ? scores[0] : (float)share(scores, n, label);
}

static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *left = a, *right = b;
    if (left->score != right->score) return left->score > right->score ? -1 : 1;
    return left->index < right->index ? -1 : left->index > right->index;
}

void ranked_sort(struct ranked *ranked, size_t n)
{
    qsort(ranked, n, sizeof *ranked, compare_ranked);
}
