/* guess.c: tokens that requests are expected to continue with (speculation). A step computes them together
 * with the pending token, because several tokens cost little more than one: the weights are read once. Then
 * tokens are chosen one after the other, as always, from the logits of their positions; the first that
 * differs from its guess ends this, and the wrong guesses are dropped from the cache.
 *
 * So a text is identical to the byte with and without guesses, at any temperature, for any guesses and
 * however much. For a deterministic guess this is equivalent to rejection sampling (Leviathan et al., arXiv
 * 2211.17192; Chen et al., arXiv 2302.01318): guess g is accepted with the model's probability p(g), and its
 * replacement is drawn from p without g. Drafts drawn from their own distribution would be accepted more
 * often where that is flat, but then the text of a seed would depend on the number of guesses, which depends
 * on measured times. */
#include <stdlib.h>

#include "base/error.h"
#include "common/array.h"
#include "queue/internal.h"

#define NONE        (-1)
#define FIRST_HEADS 256
#define MAX_TRIES   32 /* positions looked at for a guess */

/* ---- Guesses from the text so far ---- */

/* Positions whose last two tokens have the same hash are linked, the latest first. */
struct lookup {
    int32_t *heads;    /* [n_heads] by hash: the last position, or NONE */
    size_t n_heads;    /* a power of two */
    int32_t *previous; /* [n_indexed] the previous position with the same hash; room for [capacity] */
    size_t n_indexed, capacity;
};

static size_t hash_at(const struct lookup *lookup, const int32_t *tokens, size_t at)
{
    uint64_t pair = (uint64_t)(uint32_t)tokens[at - 1] << 32 | (uint32_t)tokens[at];
    return (size_t)((pair * 0x9e3779b97f4a7c15u) >> 32) & (lookup->n_heads - 1);
}

static void index_from(struct lookup *lookup, const int32_t *tokens, size_t first, size_t n_tokens)
{
    ENGINE_ASSERT(n_tokens <= lookup->capacity);
    for (size_t at = first; at < n_tokens; at++) {
        lookup->previous[at] = NONE;
        if (at == 0) continue;
        int32_t *head = &lookup->heads[hash_at(lookup, tokens, at)];
        lookup->previous[at] = *head;
        *head = (int32_t)at;
    }
    lookup->n_indexed = n_tokens;
}

/* Doubles the number of heads and links all positions again. */
static bool grow_heads(struct lookup *lookup, const int32_t *tokens, size_t n_heads)
{
    int32_t *heads = malloc(n_heads * sizeof *heads);
    if (!heads) return false;
    for (size_t i = 0; i < n_heads; i++) heads[i] = NONE;
    free(lookup->heads);
    lookup->heads = heads;
    lookup->n_heads = n_heads;
    index_from(lookup, tokens, 0, lookup->n_indexed);
    return true;
}

struct lookup *lookup_create(void)
{
    struct lookup *lookup = calloc(1, sizeof *lookup);
    if (lookup && !grow_heads(lookup, NULL, FIRST_HEADS)) {
        free(lookup);
        return NULL;
    }
    return lookup;
}

void lookup_destroy(struct lookup *lookup)
{
    if (!lookup) return;
    free(lookup->heads);
    free(lookup->previous);
    free(lookup);
}

bool lookup_extend(struct lookup *lookup, const int32_t *tokens, size_t n_tokens)
{
    if (n_tokens <= lookup->n_indexed) return true;
    if (n_tokens > INT32_MAX) return false;
    if (!ARRAY_RESERVE(lookup->previous, lookup->capacity, n_tokens)) return false;
    size_t n_heads = lookup->n_heads;
    while (n_heads < n_tokens) n_heads *= 2;
    if (n_heads > lookup->n_heads && !grow_heads(lookup, tokens, n_heads)) return false;
    index_from(lookup, tokens, lookup->n_indexed, n_tokens);
    return true;
}

/* How many tokens up to `at` match those up to the last one. */
static size_t count_alike(const int32_t *tokens, size_t at, size_t last)
{
    size_t n = 0;
    while (n <= at && n < LOOKUP_MAX && tokens[at - n] == tokens[last - n]) n++;
    return n;
}

size_t lookup_guess(const struct lookup *lookup, const int32_t *tokens, size_t n_tokens, size_t n,
                    int32_t *guess)
{
    if (n_tokens < LOOKUP_LEAST + 1 || lookup->n_indexed < n_tokens) return 0;
    size_t last = n_tokens - 1, longest = 0, best = 0;
    int32_t at = lookup->previous[last];
    for (int tries = 0; at != NONE && tries < MAX_TRIES && longest < LOOKUP_MAX;
         tries++, at = lookup->previous[at]) {
        size_t alike = count_alike(tokens, (size_t)at, last);
        if (alike <= longest) continue;
        longest = alike;
        best = (size_t)at;
    }
    if (longest < LOOKUP_LEAST) return 0;
    for (size_t i = 0; i < n; i++) {
        size_t from = best + 1 + i;
        guess[i] = from < n_tokens ? tokens[from] : guess[from - n_tokens];
    }
    return longest;
}

/* ---- Guesses of a step ---- */

int guess_begin(const struct engine_queue *queue, struct request *request)
{
    ENGINE_ASSERT(request->kind->decodes);
    pace_create(&request->text.pace);
    if (!queue->lookup || request->text.lookup) return ENGINE_OK;
    request->text.lookup = lookup_create();
    return request->text.lookup ? ENGINE_OK : error_memory("lookup");
}

static enum pace_source source_of(size_t n_alike)
{
    if (n_alike >= 8) return PACE_LOOKUP_8;
    if (n_alike >= 4) return PACE_LOOKUP_4;
    return n_alike == 3 ? PACE_LOOKUP_3 : PACE_LOOKUP_2;
}

/* The most guesses that a request can use and the step has room for. */
static size_t most_guesses(const struct engine_queue *queue, const struct step_limits *limits, size_t which,
                           size_t n_tokens)
{
    const struct request *request = queue->active.items[which];
    size_t most = queue->n_guess_most, room = step_room(queue->plan, queue->active.count, limits, which);
    ENGINE_ASSERT(request->n_tokens <= queue->info.n_context); /* it would be done */
    size_t context = queue->info.n_context - request->n_tokens;
    size_t batch = queue->info.n_batch > n_tokens ? queue->info.n_batch - n_tokens : 0;
    if (room < most) most = room;
    if (context < most) most = context;
    if (batch < most) most = batch;
    /* the last token comes without a guess */
    if (request->max_tokens > 0 && request->max_tokens - request->n_generated - 1 < most)
        most = request->max_tokens - request->n_generated - 1;
    return most;
}

/* How many guesses to make from one source. */
static struct pace_answer guess_query(const struct engine_queue *queue, const struct request *request,
                                      const struct pace_question *question)
{
    if (queue->n_guess_least == queue->n_guess_most) return (struct pace_answer){.n_guess = question->n_most};
    return pace_choose(&request->text.pace, question);
}

/* Chooses the source and number of one request's guesses. */
static int guess_choose(struct engine_queue *queue, struct request *request, struct pace_question *question)
{
    struct guesses *guesses = &request->text.guesses;
    struct pace_answer best = {0};
    if (queue->lookup) {
        if (!lookup_extend(request->text.lookup, request->tokens, request->n_tokens))
            return error_memory("lookup");
        size_t alike = lookup_guess(request->text.lookup, request->tokens, request->n_tokens,
                                    question->n_most, guesses->tokens);
        guesses->source = question->source = source_of(alike);
        if (alike > 0) best = guess_query(queue, request, question);
    }
    if (queue->draft && !request->text.no_draft) {
        question->source = PACE_DRAFT;
        draft_seconds(queue->draft, request, &question->seconds_once, &question->seconds_each);
        struct pace_answer answer = guess_query(queue, request, question);
        if (answer.n_guess > 0 && (best.n_guess == 0 || answer.gain > best.gain)) {
            best = answer;
            guesses->source = PACE_DRAFT;
        }
    }
    if (best.n_guess < queue->n_guess_least && best.n_guess < question->n_most) best.n_guess = 0;
    ENGINE_ASSERT(best.n_guess <= PACE_MAX);
    guesses->count = best.n_guess;
    guesses->cost = best.cost;
    return ENGINE_OK;
}

/* Steps that read prompts make no guesses: others wait for them. */
static bool reads_prompts(const struct engine_queue *queue)
{
    for (size_t i = 0; i < queue->active.count; i++)
        if (queue->plan[i].n_now > 0 && !queue->plan[i].decoding) return true;
    return false;
}

int guess_step(struct engine_queue *queue, const struct step_limits *limits)
{
    size_t n_requests = 0;
    int status = ENGINE_OK;
    for (size_t i = 0; i < queue->active.count; i++) {
        struct request *request = queue->active.items[i];
        if (request->kind->decodes) request->text.guesses.count = 0;
        if (queue->plan[i].n_now > 0) n_requests += 1 + queue->plan[i].n_growing;
    }
    if ((!queue->lookup && !queue->draft) || reads_prompts(queue)) return ENGINE_OK;
    size_t n_tokens = n_requests;
    for (size_t i = 0; i < queue->active.count && !status; i++) {
        struct request *request = queue->active.items[i];
        if (queue->plan[i].n_now == 0 || !request->kind->decodes) continue;
        struct pace_question question = {.n_most = most_guesses(queue, limits, i, n_tokens),
                                         .n_requests = n_requests,
                                         .n_tokens = n_tokens,
                                         .costs = &queue->costs};
        status = guess_choose(queue, request, &question);
        queue->plan[i].n_guess = request->text.guesses.count;
        n_tokens += request->text.guesses.count;
    }
    if (!status && queue->draft) status = draft_guess(queue->draft, &queue->active);
    for (size_t i = 0; i < queue->active.count; i++) { /* the draft's cache may have been full */
        const struct request *request = queue->active.items[i];
        if (request->kind->decodes) queue->plan[i].n_guess = request->text.guesses.count;
    }
    return status;
}

bool guess_check(struct engine_queue *queue, struct request *request, float *logits)
{
    struct guesses *guesses = &request->text.guesses;
    size_t n_accepted = 0;
    bool goes_on;
    ENGINE_ASSERT(request->kind->decodes);
    request->n_guessed += (uint32_t)guesses->count;
    for (;;) {
        goes_on = request_take_logits(queue, request, logits + n_accepted * queue->info.n_vocab);
        if (!goes_on || n_accepted == guesses->count || atomic_load(&request->cancelled)) break;
        if (request->tokens[request->n_tokens - 1] != guesses->tokens[n_accepted]) break;
        n_accepted++;
        request->n_accepted++;
    }
    ENGINE_ASSERT(n_accepted <= guesses->count);
    pace_record(&request->text.pace, guesses->source, guesses->count, n_accepted, guesses->cost);
    pace_earn(&request->text.pace, n_accepted + 1);
    if ((goes_on || request->kept) && guesses->count > 0) {
        request->n_cached += n_accepted;
        uint32_t sequence = (uint32_t)request->sequence;
        engine_sequence_truncate(queue->context, sequence, (uint32_t)request->n_cached);
        request->n_cached = engine_sequence_length(queue->context, sequence);
    }
    if (goes_on && queue->draft)
        draft_truncate(queue->draft, (uint32_t)request->sequence, request->n_tokens - 1);
    return goes_on;
}
