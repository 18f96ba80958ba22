/* thought.c: limits how many tokens a reply spends on reasoning. A reader of replies (reply/) follows the
 * text as it comes, so that the limit knows every family's marks, and where a prompt has begun the reasoning.
 * When the limit is reached, the tokens of the mark that ends the reasoning are written instead of what the
 * model would choose. Called by request-text.c with each token, so that guesses change nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/array.h"
#include "queue/internal.h"
#include "reply/reasoning.h"

static void ignore_piece(void *user, const struct engine_reply_piece *piece)
{
    (void)user, (void)piece;
}

int thought_create(const struct engine_request *given, struct thought *thought)
{
    *thought = (struct thought){.most = given->max_reasoning};
    if (!given->reply) return ENGINE_OK;
    struct engine_reply_options options;
    int status = SIZED_CHECK(given->reply, engine_reply_options, user);
    if (status) return status;
    sized_read(&options, sizeof options, given->reply);
    options.struct_size = sizeof options;
    options.piece = ignore_piece;
    return engine_reply_create(&options, &thought->reply);
}

void thought_free(struct thought *thought)
{
    engine_reply_destroy(thought->reply);
    free(thought->end);
    *thought = (struct thought){0};
}

static int take_end(void *user, const int32_t *ids, size_t count)
{
    struct thought *thought = user;
    if (!ARRAY_RESERVE(thought->end, thought->capacity, thought->n_end + count))
        return error_memory("the end of the reasoning");
    memcpy(thought->end + thought->n_end, ids, count * sizeof *ids);
    thought->n_end += count;
    return ENGINE_OK;
}

/* Whether a token's text begins with a byte. */
static bool begins_with(const struct engine_queue *queue, int32_t token, char byte)
{
    struct engine_string text = {0};
    return !engine_model_token_text(queue->context->plan->model, token, &text) && text.length > 0 &&
           text.data[0] == byte;
}

static int encode_end(const struct engine_queue *queue, struct thought *thought, const char *mark)
{
    return queue->api->encode(queue->tokenizer, mark, strlen(mark), ENGINE_ENCODE_SPECIAL, take_end, thought);
}

/* Sets the tokens of a mark. Tokenizers that put a space before a text do so before marks that are no tokens:
 * behind a line break, which is dropped with it, there is none. */
static int set_end(const struct engine_queue *queue, struct thought *thought, const char *mark)
{
    char behind_break[80];
    int status = encode_end(queue, thought, mark);
    if (status || thought->n_end == 0 || !begins_with(queue, thought->end[0], ' ')) return status;
    int length = snprintf(behind_break, sizeof behind_break, "\n%s", mark);
    ENGINE_ASSERT(length > 0 && (size_t)length < sizeof behind_break);
    size_t n_plain = thought->n_end, first = n_plain;
    status = encode_end(queue, thought, behind_break);
    while (first < thought->n_end && !status && n_plain > 0)
        if (begins_with(queue, thought->end[first++], '\n')) n_plain = 0;
    size_t from = n_plain > 0 ? 0 : first, end = n_plain > 0 ? n_plain : thought->n_end;
    memmove(thought->end, thought->end + from, (end - from) * sizeof *thought->end);
    thought->n_end = end - from;
    return status;
}

/* Once the limit is reached, has the reasoning end. */
static int end_if_reached(const struct engine_queue *queue, struct thought *thought)
{
    bool reasons = reply_is_reasoning(thought->reply);
    if (!reasons && thought->n_written == 0) thought->n_end = 0;
    if (!reasons || thought->n_end > 0 || thought->n < thought->most) return ENGINE_OK;
    const char *mark = reply_end_of_reasoning(thought->reply, thought->was_ended);
    return set_end(queue, thought, mark);
}

/* The token was the next one of the end, or another one, which a grammar wanted. */
static void note_written(struct thought *thought, int32_t token)
{
    if (thought->n_end == 0) return;
    bool is_next = thought->end[thought->n_written] == token;
    thought->n_written += is_next;
    if (is_next && thought->n_written < thought->n_end) return;
    /* A vocabulary that can't spell the mark never ends it so. */
    if (is_next && reply_is_reasoning(thought->reply)) thought->most = UINT32_MAX;
    if (is_next) thought->was_ended = true;
    thought->n_end = thought->n_written = 0;
}

int thought_begin(const struct engine_queue *queue, struct thought *thought)
{
    return thought->reply ? end_if_reached(queue, thought) : ENGINE_OK;
}

int thought_add(const struct engine_queue *queue, struct thought *thought, int32_t token,
                const struct engine_string *text)
{
    if (!thought->reply) return ENGINE_OK;
    bool reasoned = reply_is_reasoning(thought->reply);
    int status = engine_reply_add(thought->reply, text->data, text->length);
    if (status) return status;
    if (reasoned && reply_is_reasoning(thought->reply) && thought->n < UINT32_MAX) thought->n++;
    note_written(thought, token);
    status = end_if_reached(queue, thought);
    if (!status && thought->n_end == 0 && !reply_may_reason(thought->reply)) {
        engine_reply_destroy(thought->reply);
        thought->reply = NULL;
    }
    return status;
}

bool thought_next(const struct thought *thought, int32_t *token)
{
    if (thought->n_end == 0) return false;
    ENGINE_ASSERT(thought->n_written < thought->n_end);
    *token = thought->end[thought->n_written];
    return true;
}
