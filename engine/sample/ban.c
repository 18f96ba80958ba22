/* ban.c: texts that must not be written (internal.h): the automaton, and the tokens that it forbids in a
 * state. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/array.h"
#include "common/assert.h"
#include "sample/internal.h"

/* ---- The automaton ---- */

static size_t ban_number_classes(struct ban *ban, const struct engine_string *texts, size_t n_texts)
{
    size_t n_bytes = 0;
    ban->n_classes = 1;
    for (size_t i = 0; i < n_texts; i++)
        for (size_t j = 0; j < texts[i].length; j++, n_bytes++) {
            uint8_t byte = (uint8_t)texts[i].data[j];
            if (ban->class_of[byte] == 0) ban->class_of[byte] = (uint16_t)ban->n_classes++;
        }
    return n_bytes;
}

static uint32_t *ban_next(const struct ban *ban, uint32_t state, size_t class)
{
    ENGINE_ASSERT(state < ban->n_states && class < ban->n_classes);
    return &ban->next[(size_t)state * ban->n_classes + class];
}

/* A tree of the texts: state 0 is its root, and a next state of 0 stands for none. */
static void ban_add_text(struct ban *ban, struct engine_string text)
{
    uint32_t state = 0;
    for (size_t i = 0; i < text.length; i++) {
        uint32_t *next = ban_next(ban, state, ban->class_of[(uint8_t)text.data[i]]);
        if (*next == 0) *next = (uint32_t)ban->n_states++;
        state = *next;
    }
    ban->complete[state] = 1;
}

/* Breadth first: where the tree has no next state, it becomes that of the longest ending that is also a
 * beginning. */
static int ban_connect(struct ban *ban)
{
    uint32_t *queue = calloc(ban->n_states, sizeof *queue),
             *fallback = calloc(ban->n_states, sizeof *fallback);
    size_t n = 0;
    int status = queue && fallback ? ENGINE_OK : error_memory("banned texts");
    for (size_t class = 1; class < ban->n_classes && !status; class ++)
        if (*ban_next(ban, 0, class)) queue[n++] = *ban_next(ban, 0, class);
    for (size_t i = 0; i < n; i++) {
        uint32_t state = queue[i];
        ban->complete[state] |= ban->complete[fallback[state]];
        for (size_t class = 1; class < ban->n_classes; class ++) {
            uint32_t *next = ban_next(ban, state, class), other = *ban_next(ban, fallback[state], class);
            if (*next) {
                fallback[*next] = other;
                queue[n++] = *next;
            } else {
                *next = other;
            }
        }
    }
    free(queue);
    free(fallback);
    return status;
}

int ban_create(struct ban *ban, const struct engine_string *texts, size_t n_texts,
               const struct token_texts *vocabulary, uint32_t n_vocab)
{
    *ban = (struct ban){0};
    if (n_texts == 0) return ENGINE_OK;
    size_t most = ban_number_classes(ban, texts, n_texts) + 1;
    ban->vocabulary = vocabulary;
    ban->n_vocab = n_vocab;
    ban->n_states = 1;
    ban->next = calloc(most * ban->n_classes, sizeof *ban->next);
    ban->complete = calloc(most, sizeof *ban->complete);
    ban->lists = calloc(most, sizeof *ban->lists);
    if (!ban->next || !ban->complete || !ban->lists) return error_memory("banned texts");
    for (size_t i = 0; i < n_texts; i++) ban_add_text(ban, texts[i]);
    return ban_connect(ban);
}

void ban_destroy(struct ban *ban)
{
    for (size_t i = 0; i < ban->n_states && ban->lists; i++) free(ban->lists[i].tokens);
    free(ban->lists);
    free(ban->complete);
    free(ban->next);
}

/* ---- Tokens ---- */

/* Reads a token from a state on. Returns the state after it; *complete: whether it completes a banned
 * text. */
static uint32_t ban_read_token(const struct ban *ban, uint32_t state, struct engine_string text,
                               int *complete)
{
    *complete = 0;
    for (size_t i = 0; i < text.length; i++) {
        state = *ban_next(ban, state, ban->class_of[(uint8_t)text.data[i]]);
        *complete |= ban->complete[state];
    }
    return state;
}

static int ban_list_add(struct ban_list *list, size_t *capacity, int32_t token)
{
    if (!ARRAY_RESERVE(list->tokens, *capacity, list->count + 1)) return error_memory("banned tokens");
    list->tokens[list->count++] = token;
    return ENGINE_OK;
}

/* Most tokens begin with a byte that leads to the same state from here as from the first state, and so are
 * banned there or not at all. */
static int ban_find_tokens(struct ban *ban, uint32_t state)
{
    struct ban_list *list = &ban->lists[state];
    size_t capacity = 0;
    int status = ENGINE_OK, complete, in_all;
    list->count = 0;
    for (uint32_t id = 0; id < ban->n_vocab && !status; id++) {
        struct engine_string text = token_text(ban->vocabulary, (int32_t)id);
        if (text.length == 0) continue;
        size_t class = ban->class_of[(uint8_t)text.data[0]];
        if (state > 0 && *ban_next(ban, state, class) == *ban_next(ban, 0, class)) continue;
        if (token_is_hidden(ban->vocabulary, (int32_t)id)) continue;
        ban_read_token(ban, state, text, &complete);
        if (!complete) continue;
        if (state > 0) ban_read_token(ban, 0, text, &in_all);
        if (state == 0 || !in_all) status = ban_list_add(list, &capacity, (int32_t)id);
    }
    list->known = !status;
    return status;
}

void ban_accept(struct ban *ban, int32_t token)
{
    int complete;
    if (!ban->next || token_is_hidden(ban->vocabulary, token)) return;
    ban->state = ban_read_token(ban, ban->state, token_text(ban->vocabulary, token), &complete);
}

static int ban_apply_list(struct ban *ban, uint32_t state, float *logits)
{
    const struct ban_list *list = &ban->lists[state];
    int status = list->known ? ENGINE_OK : ban_find_tokens(ban, state);
    for (size_t i = 0; i < list->count && !status; i++) logits[list->tokens[i]] = -INFINITY;
    return status;
}

int ban_apply(struct ban *ban, float *logits)
{
    if (!ban->next) return ENGINE_OK;
    int status = ban_apply_list(ban, 0, logits);
    if (!status && ban->state > 0) status = ban_apply_list(ban, ban->state, logits);
    return status;
}
