/* explain.c: see explain.h. */
#include "common/explain.h"

#include <math.h>
#include <stdlib.h>

#include "common/memory.h"

void explain_free(struct explanation *explanation)
{
    free(explanation->places);
}

static void explain_report(struct explanation *explanation, const struct engine_explain_step *step)
{
    if (!explanation->output->stopped)
        explanation->output->stopped = explanation->sink(explanation->user, step);
}

/* A step of a kind about `text`, which is at `start`. */
static struct engine_explain_step make_step(uint32_t kind, size_t start, struct engine_string text,
                                            int32_t id)
{
    return (struct engine_explain_step){.struct_size = sizeof(struct engine_explain_step),
                                        .kind = kind,
                                        .id = id,
                                        .left = -1,
                                        .right = -1,
                                        .start = start,
                                        .end = start + text.length,
                                        .text = text,
                                        .rank = -1,
                                        .score = NAN,
                                        .sum = NAN};
}

/* The same for a part of the word. */
static struct engine_explain_step make_word_step(const struct explanation *explanation, uint32_t kind,
                                                 const char *at, size_t length, int32_t id)
{
    return make_step(kind, (size_t)(at - explanation->word.data), (struct engine_string){at, length}, id);
}

void explain_special(struct explanation *explanation, struct engine_string text, int32_t id)
{
    size_t start = text.data ? (size_t)(text.data - explanation->text) : 0;
    struct engine_explain_step step = make_step(ENGINE_EXPLAIN_SPECIAL, start, text, id);
    explain_report(explanation, &step);
}

void explain_normalized(struct explanation *explanation, struct engine_string text,
                        struct engine_string normalized)
{
    size_t start = (size_t)(text.data - explanation->text);
    struct engine_explain_step step = make_step(ENGINE_EXPLAIN_NORMALIZED, start, normalized, -1);
    step.end = start + text.length;
    explain_report(explanation, &step);
}

void explain_text(struct explanation *explanation, struct engine_string text, struct engine_string normalized)
{
    size_t start = (size_t)(text.data - explanation->text);
    struct engine_explain_step step = make_step(ENGINE_EXPLAIN_TEXT, start, normalized, -1);
    step.end = start + text.length;
    explanation->n_words = 0;
    explain_report(explanation, &step);
}

void explain_word(struct explanation *explanation, const char *word, size_t length)
{
    explanation->word = (struct engine_string){word, length};
    struct engine_explain_step step =
        make_step(ENGINE_EXPLAIN_WORD, explanation->n_words, explanation->word, -1);
    explanation->n_words += length;
    explain_report(explanation, &step);
}

void explain_run(struct explanation *explanation, const char *run, explain_id *id_of)
{
    explanation->run = run;
    explanation->n_places = 0;
    explanation->id_of = id_of;
    explanation->by_score = false;
}

int explain_characters(struct explanation *explanation, const char *run, size_t length,
                       size_t (*size_at)(const char *text, size_t left), explain_id *id_of, bool by_score)
{
    explain_run(explanation, run, id_of);
    explanation->by_score = by_score;
    int status = ENGINE_OK;
    for (size_t at = 0, end; !status && at < length; at = end) {
        end = at + size_at(run + at, length - at);
        status = explain_add_symbol(explanation, (struct explain_range){at, end});
    }
    return status;
}

int explain_add_symbol(struct explanation *explanation, struct explain_range place)
{
    if (!ARRAY_RESERVE(explanation->places, explanation->places_capacity, explanation->n_places + 1))
        return fail_memory("explanation");
    explanation->places[explanation->n_places++] = place;
    return ENGINE_OK;
}

struct explain_range explain_places(const struct explanation *explanation, size_t first, size_t end)
{
    if (!explanation->n_places) return (struct explain_range){first, end};
    return (struct explain_range){explanation->places[first].start, explanation->places[end - 1].end};
}

void explain_merge(struct explanation *explanation, const struct pair *pair, size_t start, size_t middle,
                   size_t end)
{
    const struct engine_tokenizer *tokenizer = explanation->tokenizer;
    struct explain_range left = explain_places(explanation, start, middle),
                         right = explain_places(explanation, middle, end);
    if (left.start == left.end || right.start == right.end) return;
    struct engine_explain_step step =
        make_word_step(explanation, ENGINE_EXPLAIN_MERGE, explanation->run + left.start,
                       right.end - left.start, explanation->id_of(tokenizer, pair->result));
    step.left = explanation->id_of(tokenizer, pair->left);
    step.right = explanation->id_of(tokenizer, pair->right);
    step.middle = step.start + (right.start - left.start);
    if (!explanation->by_score)
        step.rank = pair->rank;
    else if (step.id >= 0)
        step.score = (double)tokenizer->vocab.scores[step.id];
    explain_report(explanation, &step);
}

void explain_candidate(struct explanation *explanation, const char *at, size_t length, int32_t id,
                       double score, double sum)
{
    struct engine_explain_step step = make_word_step(explanation, ENGINE_EXPLAIN_CANDIDATE, at, length, id);
    step.score = score;
    step.sum = sum;
    explain_report(explanation, &step);
}

void explain_best(struct explanation *explanation, const char *at, size_t length, int32_t id, double sum)
{
    struct engine_explain_step step = make_word_step(explanation, ENGINE_EXPLAIN_BEST, at, length, id);
    step.sum = sum;
    explain_report(explanation, &step);
}

void explain_token(struct explanation *explanation, const char *at, size_t length, int32_t id, double sum)
{
    struct engine_explain_step step = make_word_step(explanation, ENGINE_EXPLAIN_TOKEN, at, length, id);
    step.sum = sum;
    explain_report(explanation, &step);
}
