/* beams.c: requests with beams in the queue: which sequence of the context each live beam has, how much of it
 * is computed, and its results.
 *
 * Live beams all have the same length. Usually each has one token to be computed, and the step computes those
 * of all beams; then beam_search_advance says which beams go on, and how. A beam that goes on in two ways is
 * forked: the second gets a copy of its sequence, which shares its blocks. A request that was put back has to
 * compute its beams again: one after the other, each from where it parts from those before it. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/array.h"
#include "queue/beam-search.h"
#include "queue/internal.h"
#include "sample/sampler.h"

#define MAX_PENALTY 32

struct beams {
    struct beam_search search;
    /* [n_beams] those of the live beams, then those not in use; -1 while the request waits. */
    int32_t *sequences;
    size_t *n_cached; /* [n_beams] of each live beam */
    struct engine_match *
        *matches;                /* [n_beams] of the live beams; NULL: there is no grammar, or no token yet */
    uint32_t n_shared;           /* beams that still share their last block with a beam before them */
    struct engine_beam *results; /* [n_results], room for [n_beams] */
    uint32_t n_results;
    int32_t *tokens; /* of all results */
    char *texts;     /* of all results */
};

/* ---- Creation ----------------------------------------------------------------------------------------- */

static int beams_refuse(const char *what)
{
    return error_raise(ENGINE_ERROR_ARGUMENT, "beams cannot be combined with %s", what);
}

static int check_sampler(const struct sampler_settings *settings)
{
    const struct engine_sampler_options *options = &settings->options;
    bool repeat = options->penalty_repeat != 0 && options->penalty_repeat != 1;
    bool penalties = repeat || options->penalty_frequency != 0 || options->penalty_presence != 0;
    if (options->mirostat > 0) return beams_refuse("Mirostat");
    if (options->temperature > 0 || options->dynatemp_range > 0) return beams_refuse("a temperature above 0");
    if (penalties && options->penalty_last_n > 0) return beams_refuse("penalties");
    if (sampler_settings_want_dry(settings)) return beams_refuse("DRY");
    if (options->xtc_probability > 0) return beams_refuse("XTC");
    if (options->n_ban > 0) return beams_refuse("banned texts");
    return ENGINE_OK;
}

static int beams_check(const struct engine_queue *queue, const struct engine_request *given,
                       const struct sampler_settings *settings)
{
    if (given->n_beams > queue->info.n_sequences)
        return error_raise(ENGINE_ERROR_ARGUMENT, "%u beams need a context with as many sequences; it has %u",
                           given->n_beams, queue->info.n_sequences);
    if (!(given->length_penalty >= -MAX_PENALTY && given->length_penalty <= MAX_PENALTY))
        return error_raise(ENGINE_ERROR_ARGUMENT, "length_penalty is %g; it must be %d to %d",
                           (double)given->length_penalty, -MAX_PENALTY, MAX_PENALTY);
    if (given->early_stopping > ENGINE_EARLY_STOPPING_NEVER)
        return error_raise(ENGINE_ERROR_ARGUMENT, "early_stopping is %u; it must be at most %d",
                           given->early_stopping, ENGINE_EARLY_STOPPING_NEVER);
    if (given->n_stop > 0) return beams_refuse("stop texts");
    if (given->n_logprobs > 0) return beams_refuse("n_logprobs");
    if (given->n_score > 0) return beams_refuse("n_score");
    if (given->flags & ENGINE_REQUEST_KEEP) return beams_refuse("ENGINE_REQUEST_KEEP");
    if (given->flags & ENGINE_REQUEST_NO_TOKENS) return beams_refuse("ENGINE_REQUEST_NO_TOKENS");
    return check_sampler(settings);
}

/* The longest text: a last token needs no position. */
static struct beam_search_options options_of(const struct engine_queue *queue,
                                             const struct engine_request *given)
{
    uint32_t room = queue->info.n_context + 1 - (uint32_t)given->n_tokens;
    bool limited = given->max_tokens > 0 && given->max_tokens <= room;
    return (struct beam_search_options){
        .n_beams = given->n_beams,
        .length_penalty = (double)given->length_penalty,
        .early_stopping = given->early_stopping,
        .max_tokens = limited ? given->max_tokens : room,
        .last_reason = limited ? ENGINE_DONE_LIMIT : ENGINE_DONE_CONTEXT,
    };
}

static int beams_create(const struct engine_queue *queue, const struct engine_request *given,
                        struct request *created)
{
    int status = beams_check(queue, given, &created->choice.settings);
    if (status) return status;
    struct beams *beams = calloc(1, sizeof *beams);
    if (!beams) return error_memory("beams");
    struct beam_search_options options = options_of(queue, given);
    status = beam_search_create(&options, &beams->search);
    beams->sequences = calloc(given->n_beams, sizeof *beams->sequences);
    beams->n_cached = calloc(given->n_beams, sizeof *beams->n_cached);
    beams->results = calloc(given->n_beams, sizeof *beams->results);
    if (!status && (!beams->sequences || !beams->n_cached || !beams->results)) status = error_memory("beams");
    for (uint32_t i = 0; i < given->n_beams && beams->sequences; i++) beams->sequences[i] = -1;
    created->beams = beams; /* freed with the request */
    return status;
}

static void beams_destroy(const struct engine_queue *queue, struct request *request)
{
    (void)queue;
    struct beams *beams = request->beams;
    if (!beams) return;
    for (uint32_t i = 0; beams->matches && i < beams->search.options.n_beams; i++)
        engine_match_destroy(beams->matches[i]);
    free(beams->matches);
    beam_search_destroy(&beams->search);
    free(beams->sequences);
    free(beams->n_cached);
    free(beams->results);
    free(beams->tokens);
    free(beams->texts);
    free(beams);
}

/* ---- What is computed --------------------------------------------------------------------------------- */

/* Tokens of each live beam, with the prompt. */
static size_t length_of(const struct request *request)
{
    return request->n_prompt + request->beams->search.n_tokens;
}

/* The first beam that is not computed up to its last token; n_live: each has only that one left. */
static uint32_t first_behind(const struct request *request)
{
    const struct beams *beams = request->beams;
    size_t length = length_of(request);
    uint32_t i = 0;
    while (i < beams->search.n_live && beams->n_cached[i] + 1 == length) i++;
    return i;
}

/* How many tokens a beam begins with in common with one before it; that is *which. */
static size_t common_before(const struct request *request, uint32_t beam, uint32_t *which)
{
    uint32_t most = 0;
    *which = 0;
    for (uint32_t i = 0; i < beam; i++) {
        uint32_t common = beam_search_common(&request->beams->search, i, beam);
        if (common > most) most = common, *which = i;
    }
    return request->n_prompt + most;
}

/* Blocks that the live beams from `first` on take, besides those that they share with beams before them. */
static size_t blocks_beside(const struct engine_queue *queue, const struct request *request, uint32_t first)
{
    const struct beams *beams = request->beams;
    size_t block = queue->info.cache_block, blocks = 0, length = length_of(request);
    uint32_t which;
    for (uint32_t i = first; i < beams->search.n_live; i++)
        blocks += (length + block - 1) / block - common_before(request, i, &which) / block;
    return blocks;
}

/* Writes all tokens of a live beam [length_of]. */
static void write_tokens(const struct request *request, uint32_t beam, int32_t *tokens)
{
    const struct beam_search *search = &request->beams->search;
    memcpy(tokens, request->tokens, request->n_prompt * sizeof *tokens);
    beam_search_tokens(search, search->live[beam].node, search->n_tokens, tokens + request->n_prompt);
}

/* Shares what beams that are not computed yet have in common with beams before them, in whole blocks: the
 * plan counts no copies here. Ends with a beam that has more than its last token left; the next step computes
 * that. */
static void catch_up(const struct engine_queue *queue, struct request *request)
{
    struct beams *beams = request->beams;
    size_t length = length_of(request), block = queue->info.cache_block;
    int32_t *tokens = calloc(length, sizeof *tokens);
    for (uint32_t i; tokens && (i = first_behind(request)) < beams->search.n_live;) {
        uint32_t which, n_found = 0, sequence = (uint32_t)beams->sequences[i];
        if (i == 0 || beams->n_cached[i] > 0) break;
        size_t common = common_before(request, i, &which);
        write_tokens(request, i, tokens);
        int status = engine_sequence_copy(queue->context, (uint32_t)beams->sequences[which], sequence,
                                          (uint32_t)(common - common % block));
        if (!status) status = engine_sequence_reuse(queue->context, sequence, tokens, length, &n_found);
        beams->n_cached[i] = status ? 0 : n_found;
        if (beams->n_cached[i] == 0) break;
    }
    free(tokens);
}

static void beams_begin(struct engine_queue *queue, struct request *request)
{
    struct beams *beams = request->beams;
    beams->sequences[0] = request->sequence;
    beams->n_cached[0] = request->n_cached;
    for (uint32_t i = 1; i < beams->search.options.n_beams; i++) {
        beams->sequences[i] = (int32_t)cache_take(queue);
        beams->n_cached[i] = 0;
    }
    catch_up(queue, request);
}

/* The first beam's text is what the request looks for in the cache when it begins again. */
static void beams_give_back(struct engine_queue *queue, struct request *request)
{
    struct beams *beams = request->beams;
    for (uint32_t i = 0; i < beams->search.options.n_beams; i++) {
        if (beams->sequences[i] >= 0) cache_clear(queue, (uint32_t)beams->sequences[i]);
        beams->sequences[i] = -1;
        beams->n_cached[i] = 0;
    }
    beams->n_shared = 0;
    size_t length = length_of(request);
    if (beams->search.n_live == 0 || length <= request->n_prompt) return;
    if (!ARRAY_RESERVE(request->tokens, request->capacity, length))
        return; /* then only the prompt is looked for */
    request->n_tokens = length;
    write_tokens(request, 0, request->tokens);
}

static void beams_count_cached(const struct engine_queue *queue, struct request *request)
{
    struct beams *beams = request->beams;
    for (uint32_t i = 0; i < beams->search.n_live; i++) {
        size_t length = engine_sequence_length(queue->context, (uint32_t)beams->sequences[i]);
        if (length < beams->n_cached[i]) beams->n_cached[i] = length;
    }
    request->n_cached = beams->n_cached[0];
}

/* ---- Steps -------------------------------------------------------------------------------------------- */

static void beams_describe(const struct engine_queue *queue, const struct request *request,
                           struct step_request *plan)
{
    const struct beams *beams = request->beams;
    const struct beam_search *search = &beams->search;
    size_t length = length_of(request);
    uint32_t behind = first_behind(request);
    bool begins = search->n_live == 1, forks = search->n_tokens + 1 < search->options.max_tokens;
    plan->n_beside = search->options.n_beams - 1;
    /* When the prompt has been read, each beam takes a block for its next token. */
    plan->n_parting = begins && forks ? plan->n_beside : 0;
    if (!plan->running) {
        if (!begins) plan->n_parting = blocks_beside(queue, request, 1);
    } else if (behind == search->n_live) {
        plan->n_cached = length - 1;
        plan->n_pending = 1;
        plan->decoding = plan->n_cached > 0;
        plan->n_growing = search->n_live - 1;
        plan->n_parting = plan->n_cached % queue->info.cache_block != 0 ? beams->n_shared : 0;
    } else {
        plan->decoding = false;
        plan->n_cached = beams->n_cached[behind];
        plan->n_pending = length - plan->n_cached - !begins;
        if (!begins) plan->n_parting = blocks_beside(queue, request, behind + 1);
    }
}

static uint32_t beams_count_sequences(const struct request *request)
{
    return request->beams->search.options.n_beams;
}

/* Beams that have to be computed again give no logits until all have. */
static size_t beams_count_rows(const struct request *request, const struct step_request *plan)
{
    (void)plan;
    uint32_t n_live = request->beams->search.n_live;
    return n_live == 1 || first_behind(request) == n_live ? n_live : 0;
}

/* The last token of each beam. */
static bool fill_all(struct step_batch *batch, const struct request *request)
{
    const struct beams *beams = request->beams;
    const struct beam_search *search = &beams->search;
    bool good = true;
    for (uint32_t i = 0; i < search->n_live && good; i++) {
        int32_t token = search->n_tokens > 0 ? search->nodes[search->live[i].node].token
                                             : request->tokens[request->n_prompt - 1];
        good = step_batch_add(batch, token, beams->sequences[i], true);
    }
    return good;
}

static bool beams_fill(struct step_batch *batch, const struct request *request,
                       const struct step_request *plan)
{
    const struct beams *beams = request->beams;
    uint32_t behind = first_behind(request);
    if (plan->n_now == 0) return true;
    if (behind == beams->search.n_live) return fill_all(batch, request);
    bool wanted = plan->n_now == plan->n_pending && beams_count_rows(request, plan) > 0;
    int32_t *tokens = calloc(length_of(request), sizeof *tokens);
    if (!tokens) return false;
    write_tokens(request, behind, tokens);
    bool good = true;
    for (size_t i = 0; i < plan->n_now && good; i++)
        good = step_batch_add(batch, tokens[beams->n_cached[behind] + i], beams->sequences[behind],
                              wanted && i + 1 == plan->n_now);
    free(tokens);
    return good;
}

static void beams_computed(struct engine_queue *queue, struct request *request,
                           const struct step_request *plan, const float *states)
{
    (void)states;
    struct beams *beams = request->beams;
    uint32_t behind = first_behind(request);
    if (behind == beams->search.n_live) {
        for (uint32_t i = 0; i < behind; i++) beams->n_cached[i]++;
    } else {
        beams->n_cached[behind] += plan->n_now;
        if (beams->search.n_live > 1) catch_up(queue, request);
    }
    request->n_cached = beams->n_cached[0];
}

/* ---- Continuing --------------------------------------------------------------------------------------- */

struct ending {
    const struct engine_queue *queue;
    const struct request *request;
};

static uint32_t beams_ends(void *user, int32_t token)
{
    const struct ending *ending = user;
    return request_ends(ending->queue, ending->request, token);
}

static int read_logits(struct engine_queue *queue, struct request *request, float *logits)
{
    struct beam_search *search = &request->beams->search;
    struct ending ending = {queue, request};
    int status = ENGINE_OK;
    for (uint32_t i = 0; i < search->n_live && !status; i++) {
        float *row = logits + (size_t)i * queue->info.n_vocab;
        status = logprobs_check(row, queue->n_sampled);
        if (status) return status;
        sampler_add_bias(&request->choice.settings, row);
        status = request_never_end(queue, request, row);
        if (!status && request->beams->matches)
            status = engine_match_apply(request->beams->matches[i], row, queue->n_sampled);
        if (status ==
            ENGINE_ERROR_DATA) /* nothing that the grammar allows has a finite logit: the beam ends */
            status = ENGINE_OK;
        else if (!status)
            beam_search_read(search, i, row, queue->n_sampled, beams_ends, &ending);
    }
    return status;
}

/* ---- Grammars ----------------------------------------------------------------------------------------- */

/* The root of all matches is the request's own. */
static int begin_matches(struct request *request)
{
    struct beams *beams = request->beams;
    if (!request->choice.match || beams->matches) return ENGINE_OK;
    beams->matches = calloc(beams->search.options.n_beams, sizeof *beams->matches);
    if (!beams->matches) return error_memory("beams");
    return engine_match_copy(request->choice.match, &beams->matches[0]);
}

/* Gives the new live beams matches: copies of those that they continue, with one token more. */
static int continue_matches(struct beams *beams)
{
    const struct beam_search *search = &beams->search;
    uint32_t n = search->options.n_beams;
    struct engine_match **before = beams->matches;
    int status = ENGINE_OK;
    if (!before) return ENGINE_OK;
    beams->matches = calloc(n, sizeof *beams->matches);
    if (!beams->matches) {
        beams->matches = before;
        return error_memory("beams");
    }
    for (uint32_t i = 0; i < search->n_live && !status; i++) {
        status = engine_match_copy(before[search->live[i].parent], &beams->matches[i]);
        if (!status)
            status = engine_match_accept(beams->matches[i], search->nodes[search->live[i].node].token);
    }
    for (uint32_t i = 0; i < n; i++) engine_match_destroy(before[i]);
    free(before);
    return status;
}

/* Texts that nothing can follow end. */
static void end_final(struct beams *beams)
{
    for (uint32_t i = 0; beams->matches && i < beams->search.n_live;) {
        if (engine_match_get_state(beams->matches[i]) != ENGINE_MATCH_FINAL) {
            i++;
            continue;
        }
        beam_search_end(&beams->search, i, ENGINE_DONE_END);
        engine_match_destroy(beams->matches[i]);
        for (uint32_t j = i; j < beams->search.n_live; j++) beams->matches[j] = beams->matches[j + 1];
        beams->matches[beams->search.n_live] = NULL;
    }
}

static bool beams_are_incomplete(const struct request *request)
{
    const struct beams *beams = request->beams;
    struct engine_match *match = NULL;
    if (!request->choice.match || beams->n_results == 0) return false;
    const struct engine_beam *best = &beams->results[0];
    int status = ENGINE_OK;
    /* The token that ends a text may be one that the grammar names; it isn't among the tokens. */
    if (best->reason == ENGINE_DONE_END || engine_match_copy(request->choice.match, &match)) return false;
    for (size_t i = 0; i < best->n_tokens && !status; i++)
        status = engine_match_accept(match, best->tokens[i]);
    bool incomplete = !status && engine_match_get_state(match) == ENGINE_MATCH_INCOMPLETE;
    engine_match_destroy(match);
    return incomplete;
}

/* ---- Going on ----------------------------------------------------------------------------------------- */

/* Gives the new live beams their sequences: the first that continues a beam its sequence, others a copy of it
 * in the sequence of a beam that nobody continues. */
static int fork_sequences(const struct engine_queue *queue, struct request *request)
{
    struct beams *beams = request->beams;
    const struct beam_search *search = &beams->search;
    uint32_t n = search->options.n_beams, n_free = 0;
    size_t n_cached = beams->n_cached[0];
    ENGINE_ASSERT(search->n_live <= n);
    int32_t *before = calloc(n, 2 * sizeof *before), *spare = before + n;
    int status = before ? ENGINE_OK : error_memory("beams");
    if (status) return status;
    memcpy(before, beams->sequences, n * sizeof *before);
    for (uint32_t i = 0; i < n; i++) beams->sequences[i] = -1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t heir = 0;
        while (heir < search->n_live && search->live[heir].parent != i) heir++;
        if (heir < search->n_live)
            beams->sequences[heir] = before[i];
        else
            spare[n_free++] = before[i];
    }
    beams->n_shared = 0;
    for (uint32_t i = 0; i < n; i++) { /* to the end, so that none is lost after a failure */
        if (beams->sequences[i] < 0) {
            ENGINE_ASSERT(n_free > 0); /* as many as beams without one */
            uint32_t to = (uint32_t)(beams->sequences[i] = spare[--n_free]);
            if (i < search->n_live && !status) {
                uint32_t from = (uint32_t)before[search->live[i].parent];
                status = engine_sequence_copy(queue->context, from, to, (uint32_t)n_cached);
                beams->n_shared++;
            } else if (!status) {
                status = engine_sequence_truncate(queue->context, to, 0);
            }
        }
        beams->n_cached[i] = n_cached;
    }
    free(before);
    request->sequence = beams->sequences[0];
    if (!status) beams_count_cached(queue, request);
    return status;
}

static bool beams_take_logits(struct engine_queue *queue, struct request *request, float *logits)
{
    struct beam_search *search = &request->beams->search;
    int status = begin_matches(request);
    end_final(request->beams); /* only before the first token: nothing but the empty text fits */
    if (!status && search->n_live > 0) {
        status = read_logits(queue, request, logits);
        if (!status) status = beam_search_advance(search);
        if (!status) status = continue_matches(request->beams);
        if (!status) end_final(request->beams);
    }
    bool goes_on = !status && beam_search_goes_on(search);
    if (goes_on) status = fork_sequences(queue, request);
    if (status) {
        request_finish(queue, request, ENGINE_DONE_FAILED, status);
        return false;
    }
    request->n_generated++;
    if (goes_on)
        request_tell_progress(queue, request, ENGINE_EVENT_BEAMS);
    else
        request_finish(queue, request, (enum engine_done_reason)search->found[0].reason, ENGINE_OK);
    return goes_on;
}

/* ---- Results ------------------------------------------------------------------------------------------ */

/* Adds the text of a result. The decoder sees the prompt first, so that it is spaced as a continuation. */
static int beams_decode(const struct engine_queue *queue, const struct request *request,
                        const struct engine_beam *result, struct text_buffer *text)
{
    struct engine_decoder *decoder;
    struct engine_string piece = {0};
    int status = queue->api->decoder_create(queue->tokenizer, (request->flags & ENGINE_REQUEST_SPECIAL) != 0,
                                            &decoder);
    if (status) return status;
    for (size_t i = 0; i < request->n_prompt && !status; i++)
        status = queue->api->decode(decoder, request->tokens[i], &piece);
    for (size_t i = 0; i < result->n_tokens && !status; i++) {
        status = queue->api->decode(decoder, result->tokens[i], &piece);
        if (!status && !text_buffer_add(text, piece.data, piece.length)) status = error_memory("beams");
    }
    if (!status) status = queue->api->decode_end(decoder, &piece);
    if (!status && !text_buffer_add(text, piece.data, piece.length)) status = error_memory("beams");
    queue->api->decoder_destroy(decoder);
    return status;
}

static int collect_texts(const struct engine_queue *queue, const struct request *request)
{
    struct beams *beams = request->beams;
    struct text_buffer text = {0};
    int status = ENGINE_OK;
    for (uint32_t i = 0; i < beams->n_results && !status; i++) {
        size_t before = text.size;
        status = beams_decode(queue, request, &beams->results[i], &text);
        beams->results[i].text.length = text.size - before;
    }
    beams->texts = text.data;
    const char *at = text.data ? text.data : "";
    for (uint32_t i = 0; i < beams->n_results; i++) {
        beams->results[i].text.data = at;
        at += beams->results[i].text.length;
    }
    return status;
}

static int beams_collect(const struct engine_queue *queue, struct request *request,
                         enum engine_done_reason reason)
{
    struct beams *beams = request->beams;
    struct beam_search *search = &beams->search;
    size_t n_tokens = 0;
    beam_search_close(search, reason);
    for (uint32_t i = 0; i < search->n_found; i++) n_tokens += search->found[i].n_tokens;
    beams->n_results = 0;
    free(beams->tokens);
    free(beams->texts);
    beams->texts = NULL;
    beams->tokens = calloc(n_tokens + 1, sizeof *beams->tokens);
    if (!beams->tokens) return error_memory("beams");
    int32_t *tokens = beams->tokens;
    for (uint32_t i = 0; i < search->n_found; i++) {
        const struct hypothesis *found = &search->found[i];
        beam_search_tokens(search, found->node, found->n_tokens, tokens);
        beams->results[beams->n_results++] = (struct engine_beam){.tokens = tokens,
                                                                  .n_tokens = found->n_tokens,
                                                                  .text = {.data = ""},
                                                                  .logprob = found->sum,
                                                                  .score = found->score,
                                                                  .reason = found->reason};
        tokens += found->n_tokens;
    }
    return request->flags & ENGINE_REQUEST_NO_TEXT ? ENGINE_OK : collect_texts(queue, request);
}

/* The best text is the request's. */
static void beams_complete(const struct engine_queue *queue, struct request *request,
                           struct engine_event *event)
{
    (void)queue;
    event->beams = request->beams->results;
    event->n_beams = request->beams->n_results;
    if (event->n_beams == 0) return;
    const struct engine_beam *best = &event->beams[0];
    event->text = best->text;
    event->incomplete = beams_are_incomplete(request);
    event->n_generated = request->n_generated = (uint32_t)best->n_tokens;
    if (event->reason != ENGINE_DONE_CANCELLED) event->reason = best->reason;
}

const struct request_kind request_beams = {
    .create = beams_create,
    .destroy = beams_destroy,
    .start = beams_begin,
    .count_sequences = beams_count_sequences,
    .give_back = beams_give_back,
    .describe = beams_describe,
    .count_rows = beams_count_rows,
    .fill = beams_fill,
    .computed = beams_computed,
    .count_cached = beams_count_cached,
    .take = beams_take_logits,
    .collect = beams_collect,
    .complete = beams_complete,
};
