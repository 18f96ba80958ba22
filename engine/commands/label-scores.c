/* label-scores.c: see label-scores.h. */
#include "commands/label-scores.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/common.h"

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
