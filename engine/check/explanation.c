/* explanation.c: see explanation.h. */
#include "check/explanation.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

/* A copy: texts of steps live only during the call. */
struct copy {
    char *data; /* [capacity] */
    size_t length, capacity;
};

struct explanation_state {
    const int32_t *ids;
    size_t n_ids, n_tokens, length; /* of the text: bytes */
    size_t next_id, at;             /* how much of the ids and of the text has come */
    struct copy stretch, word;
    size_t at_stretch, at_word; /* how much of these has come as words, and as tokens */
    bool normalized;            /* the next step is TEXT, from `at` to `normalized_end` */
    size_t normalized_end;
    bool *joined; /* [word.length + 1] whether the place between two bytes is inside a symbol */
    size_t joined_capacity;
    char *why;
};

static int explanation_wrong(struct explanation_state *state, const char *format, ...) ENGINE_PRINTF(2, 3);

static int explanation_wrong(struct explanation_state *state, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(state->why, EXPLANATION_WHY, format, arguments);
    va_end(arguments);
    return 1;
}

static bool copy_text(struct copy *copy, struct engine_string text)
{
    if (!ARRAY_FIT(copy->data, copy->capacity, text.length)) return false;
    if (text.length) memcpy(copy->data, text.data, text.length);
    copy->length = text.length;
    return true;
}

/* Whether the step's range, which may be empty for a token, is in a copy, and its text is that part. */
static bool explanation_fits(const struct copy *copy, const struct engine_explain_step *step)
{
    bool empty = step->start == step->end && step->kind == ENGINE_EXPLAIN_TOKEN;
    return (step->start < step->end || empty) && step->end <= copy->length &&
           step->text.length == step->end - step->start &&
           (empty || memcmp(copy->data + step->start, step->text.data, step->text.length) == 0);
}

/* Whether the last stretch and its last word are complete. */
static int explanation_finish(struct explanation_state *state, bool stretch)
{
    if (state->at_word != state->word.length)
        return explanation_wrong(state, "the tokens of a word of %zu bytes end after %zu", state->word.length,
                                 state->at_word);
    if (stretch && state->at_stretch != state->stretch.length)
        return explanation_wrong(state, "the words of a stretch of %zu bytes end after %zu",
                                 state->stretch.length, state->at_stretch);
    return 0;
}

static int take_id(struct explanation_state *state, int32_t id)
{
    if (state->next_id == state->n_ids) return explanation_wrong(state, "more tokens than encode gives");
    int32_t wanted = state->ids[state->next_id++];
    return id == wanted
               ? 0
               : explanation_wrong(state, "token %zu is %d, of encode %d", state->next_id - 1, id, wanted);
}

static int take_part(struct explanation_state *state, const struct engine_explain_step *step)
{
    int status = explanation_finish(state, true);
    if (status) return status;
    bool stretch = step->kind != ENGINE_EXPLAIN_SPECIAL;
    if (step->start != state->at || step->end < step->start || step->end > state->length ||
        (stretch && step->start == step->end))
        return explanation_wrong(state, "a part of the text at %zu to %zu comes after byte %zu of %zu",
                                 step->start, step->end, state->at, state->length);
    if (step->kind == ENGINE_EXPLAIN_NORMALIZED) {
        state->normalized = true;
        state->normalized_end = step->end;
        return 0;
    }
    if (state->normalized && step->end != state->normalized_end)
        return explanation_wrong(state, "a stretch ends at %zu, normalized it ended at %zu", step->end,
                                 state->normalized_end);
    state->normalized = false;
    state->at = step->end;
    if (!stretch) return take_id(state, step->id);
    state->at_stretch = state->at_word = state->word.length = 0;
    return copy_text(&state->stretch, step->text) ? 0 : explanation_wrong(state, "out of memory");
}

static int take_word(struct explanation_state *state, const struct engine_explain_step *step)
{
    int status = explanation_finish(state, false);
    if (status) return status;
    if (step->start != state->at_stretch || !explanation_fits(&state->stretch, step))
        return explanation_wrong(state, "a word at %zu to %zu is not what the stretch has after byte %zu",
                                 step->start, step->end, state->at_stretch);
    state->at_stretch = step->end;
    state->at_word = 0;
    if (step->text.length >= state->joined_capacity) {
        free(state->joined);
        state->joined_capacity = step->text.length + 1;
        state->joined = malloc(state->joined_capacity * sizeof *state->joined);
        if (!state->joined) state->joined_capacity = 0;
    }
    if (!state->joined || !copy_text(&state->word, step->text))
        return explanation_wrong(state, "out of memory");
    memset(state->joined, 0, (step->text.length + 1) * sizeof *state->joined);
    return 0;
}

static bool is_id(const struct explanation_state *state, int32_t id)
{
    return id >= -1 && (id < 0 || (size_t)id < state->n_tokens);
}

static int take_merge(struct explanation_state *state, const struct engine_explain_step *step)
{
    if (step->middle <= step->start || step->middle >= step->end || state->joined[step->start] ||
        state->joined[step->middle] || state->joined[step->end])
        return explanation_wrong(state, "a merge at %zu, %zu, %zu is not of two symbols", step->start,
                                 step->middle, step->end);
    if (!is_id(state, step->left) || !is_id(state, step->right))
        return explanation_wrong(state, "a merge of ids %d and %d", step->left, step->right);
    if ((step->rank >= 0) == !isnan(step->score))
        return explanation_wrong(state, "a merge has a rank or a score");
    memset(state->joined + step->start + 1, 1, (step->end - step->start - 1) * sizeof *state->joined);
    return 0;
}

static int take_token(struct explanation_state *state, const struct engine_explain_step *step)
{
    if (step->start != state->at_word)
        return explanation_wrong(state, "a token at byte %zu of a word comes after byte %zu", step->start,
                                 state->at_word);
    state->at_word = step->end;
    return step->id >= 0 ? take_id(state, step->id) : 0;
}

/* The sink. */
static int explanation_take(void *user, const struct engine_explain_step *step)
{
    struct explanation_state *state = user;
    if (state->why[0]) return explanation_wrong(state, "the sink was called after it had said stop");
    if (!ENGINE_HAS(step, sum)) return explanation_wrong(state, "a step of %zu bytes", step->struct_size);
    if (!is_id(state, step->id))
        return explanation_wrong(state, "a step has id %d, which there isn't", step->id);
    if (state->normalized && step->kind != ENGINE_EXPLAIN_TEXT)
        return explanation_wrong(state, "a normalized stretch is followed by a step of kind %u", step->kind);
    switch (step->kind) {
    case ENGINE_EXPLAIN_NORMALIZED:
    case ENGINE_EXPLAIN_SPECIAL:
    case ENGINE_EXPLAIN_TEXT: return take_part(state, step);
    case ENGINE_EXPLAIN_WORD: return take_word(state, step);
    case ENGINE_EXPLAIN_MERGE:
    case ENGINE_EXPLAIN_CANDIDATE:
    case ENGINE_EXPLAIN_BEST:
    case ENGINE_EXPLAIN_TOKEN: break;
    default: return 0; /* of a later version */
    }
    if (!explanation_fits(&state->word, step))
        return explanation_wrong(state, "a step of kind %u at %zu to %zu is not what the word has there",
                                 step->kind, step->start, step->end);
    if (step->kind == ENGINE_EXPLAIN_MERGE) return take_merge(state, step);
    return step->kind == ENGINE_EXPLAIN_TOKEN ? take_token(state, step) : 0;
}

bool explanation_check(const struct engine_tokenizer_api *api, const struct engine_tokenizer *tokenizer,
                       struct engine_string text, uint32_t flags, const int32_t *ids, size_t n_ids,
                       size_t n_tokens, char why[EXPLANATION_WHY])
{
    struct explanation_state state = {
        .ids = ids, .n_ids = n_ids, .n_tokens = n_tokens, .length = text.length, .why = why};
    why[0] = '\0';
    int status = api->explain(tokenizer, text.data, text.length, flags, explanation_take, &state);
    if (!why[0] && status) explanation_wrong(&state, "explain returns %d", status);
    if (!why[0] && !explanation_finish(&state, true) &&
        (state.at != text.length || state.next_id != n_ids || state.normalized))
        explanation_wrong(&state, "the steps end at byte %zu of %zu, token %zu of %zu", state.at, text.length,
                          state.next_id, n_ids);
    free(state.stretch.data);
    free(state.word.data);
    free(state.joined);
    return !why[0];
}
