/* unigram.c: the tokens with the best sum of scores (Viterbi), see model.h. Scores are added in double
 * precision and compared in the library's order, so that ties end as they do there. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/explain.h"
#include "common/memory.h"
#include "common/unicode.h"
#include "hf/model.h"

#define SCORES          "tokenizer.hf.scores" /* float64 in bytes, the lowest first */
#define UNKNOWN_PENALTY 10.0

static int read_scores(struct model *model, const struct engine_metadata *metadata)
{
    size_t n = model->vocab->n_tokens;
    struct engine_string bytes;
    model->scores = allocate(n, sizeof *model->scores);
    if (!model->scores) return fail_memory("vocabulary");
    if (metadata->get_bytes(metadata->context, SCORES, &bytes) == ENGINE_OK) {
        if (bytes.length != n * 8)
            return host->fail(ENGINE_ERROR_DATA, SCORES " has %zu bytes, not 8 for each of %zu tokens",
                              bytes.length, n);
        for (size_t i = 0; i < n; i++) {
            uint64_t bits = 0;
            for (int k = 7; k >= 0; k--) bits = bits << 8 | (unsigned char)bytes.data[8 * i + (size_t)k];
            memcpy(&model->scores[i], &bits, sizeof bits);
            if (isnan(model->scores[i]))
                return host->fail(ENGINE_ERROR_DATA, "the score of token %zu is not a number", i);
        }
        return ENGINE_OK;
    }
    for (size_t i = 0; i < n; i++) model->scores[i] = model->vocab->scores[i];
    return ENGINE_OK;
}

int unigram_create(struct model *model, const struct json_at *json, const struct engine_metadata *metadata)
{
    int64_t unknown = -1;
    struct json_at member = json_member(json, "unk_id");
    int status = json_integer_member(json, "unk_id", -1, &unknown);
    if (!status && (unknown < -1 || unknown >= model->vocab->n_tokens))
        return json_wrong(&member, "a token of the vocabulary");
    model->unknown = (int32_t)unknown;
    if (!status) status = read_scores(model, metadata);
    double least = INFINITY;
    for (size_t i = 0; !status && i < model->vocab->n_tokens; i++)
        if (!model->outside[i] && model->scores[i] < least) least = model->scores[i];
    model->unknown_score = least - UNKNOWN_PENALTY;
    return status;
}

static void reach(struct unigram_node *node, double score, size_t start, int32_t id)
{
    if (node->start != SIZE_MAX && !(score > node->score)) return;
    *node = (struct unigram_node){score, start, id};
}

/* All tokens that begin at `at`, and the unknown one if none of them is its first character. */
static int extend(const struct model *model, struct explanation *explanation, struct unigram_node *nodes,
                  struct engine_string piece, size_t at, size_t *step)
{
    const struct trie *trie = &model->vocab->ids;
    uint32_t character, node = TRIE_ROOT;
    size_t length = unicode_read(piece.data + at, piece.length - at, &character);
    bool single = false;
    for (size_t end = at; end < piece.length;) {
        node = trie_step(trie, node, (unsigned char)piece.data[end++]);
        if (node == TRIE_NONE) break;
        uint32_t id = trie->values[node];
        if (id == TRIE_NONE || model->outside[id]) continue;
        double score = nodes[at].score + model->scores[id];
        reach(&nodes[end], score, at, (int32_t)id);
        if (explanation)
            explain_candidate(explanation, piece.data + at, end - at, (int32_t)id, model->scores[id], score);
        single = single || end - at == length;
    }
    *step = length;
    if (single) return ENGINE_OK;
    if (model->unknown < 0) return model_fail_unknown();
    double score = nodes[at].score + model->unknown_score;
    reach(&nodes[at + length], score, at, model->unknown);
    if (explanation)
        explain_candidate(explanation, piece.data + at, length, model->unknown, model->unknown_score, score);
    return ENGINE_OK;
}

/* Reports how `end` is reached best, once nothing more can reach it. */
static void explain_node(struct explanation *explanation, const struct unigram_node *nodes,
                         struct engine_string piece, size_t end)
{
    const struct unigram_node *node = &nodes[end];
    if (end) explain_best(explanation, piece.data + node->start, end - node->start, node->id, node->score);
}

/* A part of the best way: a token, or a run of unknown ones, which may yet be a token, or bytes. */
static void put_part(const struct model *model, struct engine_string part, double sum, struct output *output)
{
    int32_t id = model_find(model, part.data, part.length);
    if (id >= 0)
        model_put(output, part, id, sum);
    else if (!model_put_bytes(model, part, sum, output))
        model_put(output, part, model->unknown, sum);
}

int unigram_encode(const struct model *model, struct model_workspace *work, struct engine_string piece,
                   struct output *output)
{
    if (!ARRAY_RESERVE(work->nodes, work->nodes_capacity, piece.length + 1)) return fail_memory("text");
    struct unigram_node *nodes = work->nodes;
    for (size_t i = 0; i <= piece.length; i++) nodes[i] = (struct unigram_node){0, SIZE_MAX, -1};
    for (size_t at = 0, step; at < piece.length; at += step) {
        if (output->explanation) explain_node(output->explanation, nodes, piece, at);
        int status = extend(model, output->explanation, nodes, piece, at, &step);
        if (status) return status;
    }
    if (output->explanation) explain_node(output->explanation, nodes, piece, piece.length);
    work->n_ends = 0;
    bool unknown_before = false;
    for (size_t end = piece.length; end > 0; end = nodes[end].start) {
        bool unknown = nodes[end].id == model->unknown;
        if (!ARRAY_RESERVE(work->ends, work->ends_capacity, work->n_ends + 1)) return fail_memory("text");
        if (!(unknown && unknown_before)) work->ends[work->n_ends++] = end;
        unknown_before = unknown;
    }
    size_t start = 0;
    for (size_t i = work->n_ends; i-- > 0;) {
        size_t end = work->ends[i];
        put_part(model, (struct engine_string){piece.data + start, end - start}, nodes[end].score, output);
        start = end;
    }
    return ENGINE_OK;
}
