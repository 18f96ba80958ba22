/* grammar.c: a grammar with its automaton and masks, and the matches that stand in it (grammar.h). Called
 * from outside; a lock guards what the matches of a grammar share. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/assert.h"
#include "common/lock.h"
#include "grammar/schema.h"

struct grammar {
    const struct grammar_vocab *vocab;
    struct automaton automaton;
    pthread_mutex_t lock; /* for all below, and the states of matches */
    struct machine machine;
    struct masks masks;
    struct grammar_match *matches;
    size_t n_matches;
};

struct grammar_match {
    struct grammar *grammar;
    struct grammar_match *before, *after; /* in the grammar's list */
    uint32_t state;
    bool strip;     /* nothing has been accepted yet, and a leading space would be dropped */
    uint64_t *mask; /* [n_words] a copy, to be used without the lock */
};

/* ---- Grammars ---- */

static int read_text(struct exprs *exprs, const struct grammar_vocab *vocab, enum grammar_syntax syntax,
                     const char *text, size_t length)
{
    switch (syntax) {
    case GRAMMAR_GBNF: return gbnf_read(exprs, vocab, text, length);
    case GRAMMAR_SCHEMA: return schema_read(exprs, text, length);
    case GRAMMAR_JSON_OBJECT: return schema_any_object(exprs);
    }
    return error_raise(ENGINE_ERROR_ARGUMENT, "unknown kind of grammar %d", (int)syntax);
}

int grammar_create(const struct grammar_vocab *vocab, enum grammar_syntax syntax, const char *text,
                   size_t length, struct grammar **out)
{
    struct effort effort = {0};
    return grammar_create_with(vocab, syntax, text, length, &effort, out);
}

int grammar_create_with(const struct grammar_vocab *vocab, enum grammar_syntax syntax, const char *text,
                        size_t length, struct effort *effort, struct grammar **out)
{
    struct exprs exprs;
    struct grammar *grammar = calloc(1, sizeof *grammar);
    if (!grammar) return error_memory("grammar");
    grammar->vocab = vocab;
    exprs_create(&exprs, "root", effort);
    int status = exprs.status ? exprs.status : read_text(&exprs, vocab, syntax, text, length);
    if (!status) status = automaton_create(&exprs, &grammar->automaton);
    exprs_destroy(&exprs);
    if (status) goto no_automaton;
    status = machine_create(&grammar->machine, &grammar->automaton, (size_t)(vocab->n_tokens + 63) / 64 * 8);
    if (status) goto no_machine;
    status = masks_create(&grammar->masks, vocab, &grammar->machine);
    if (status) goto no_masks;
    if (lock_init(&grammar->lock) != 0) {
        status = error_memory("grammar");
        goto no_lock;
    }
    *out = grammar;
    return ENGINE_OK;

no_lock:
    masks_destroy(&grammar->masks);
no_masks:
    machine_destroy(&grammar->machine);
no_machine:
    automaton_destroy(&grammar->automaton);
no_automaton:
    free(grammar);
    return status;
}

void grammar_destroy(struct grammar *grammar)
{
    if (!grammar) return;
    pthread_mutex_destroy(&grammar->lock);
    masks_destroy(&grammar->masks);
    machine_destroy(&grammar->machine);
    automaton_destroy(&grammar->automaton);
    free(grammar);
}

/* Under the lock, before states are added. What could not be trimmed stays: memory is then short anyway. */
static void match_begin(struct grammar *grammar)
{
    ENGINE_ASSERT(lock_is_mine(&grammar->lock));
    struct machine *machine = &grammar->machine;
    if (machine_is_full(machine)) {
        uint32_t *states = calloc(grammar->n_matches + 1, sizeof *states);
        size_t count = 0;
        for (struct grammar_match *match = grammar->matches; states && match; match = match->after)
            states[count++] = match->state;
        bool trimmed = states && machine_trim(machine, states, count) == ENGINE_OK;
        count = 0;
        for (struct grammar_match *match = grammar->matches; trimmed && match; match = match->after)
            match->state = states[count++];
        free(states);
    }
    machine_begin(machine);
}

/* ---- Matches ---- */

static struct grammar_match *match_allocate(struct grammar *grammar, bool strip)
{
    struct grammar_match *match = calloc(1, sizeof *match);
    if (match) match->mask = calloc(grammar->masks.n_words + 1, sizeof *match->mask);
    if (!match || !match->mask) {
        free(match);
        return NULL;
    }
    match->grammar = grammar;
    match->strip = strip;
    return match;
}

/* Under the lock: the match has a state, which is in use from now on. */
static void match_enter(struct grammar_match *match)
{
    struct grammar *grammar = match->grammar;
    ENGINE_ASSERT(lock_is_mine(&grammar->lock));
    ENGINE_ASSERT(match->state < grammar->machine.n_states);
    match->after = grammar->matches;
    if (match->after) match->after->before = match;
    grammar->matches = match;
    grammar->n_matches++;
}

int grammar_match_create(struct grammar *grammar, bool strip, struct grammar_match **out)
{
    struct grammar_match *match = match_allocate(grammar, strip);
    if (!match) return error_memory("grammar");
    pthread_mutex_lock(&grammar->lock);
    match_begin(grammar);
    match->state = machine_start(&grammar->machine);
    int status = match->state == STATE_UNKNOWN ? grammar->machine.status : ENGINE_OK;
    if (!status) match_enter(match);
    pthread_mutex_unlock(&grammar->lock);
    if (status) {
        free(match->mask);
        free(match);
        return status;
    }
    *out = match;
    return ENGINE_OK;
}

int grammar_match_copy(const struct grammar_match *match, struct grammar_match **out)
{
    struct grammar_match *copy = match_allocate(match->grammar, match->strip);
    if (!copy) return error_memory("grammar");
    pthread_mutex_lock(&match->grammar->lock);
    copy->state = match->state;
    match_enter(copy);
    pthread_mutex_unlock(&match->grammar->lock);
    *out = copy;
    return ENGINE_OK;
}

void grammar_match_destroy(struct grammar_match *match)
{
    if (!match) return;
    struct grammar *grammar = match->grammar;
    pthread_mutex_lock(&grammar->lock);
    if (match->before)
        match->before->after = match->after;
    else
        grammar->matches = match->after;
    if (match->after) match->after->before = match->before;
    grammar->n_matches--;
    pthread_mutex_unlock(&grammar->lock);
    free(match->mask);
    free(match);
}

/* Under the lock: makes match->mask. */
static int match_find_mask(struct grammar_match *match)
{
    struct grammar *grammar = match->grammar;
    ENGINE_ASSERT(lock_is_mine(&grammar->lock));
    struct machine *machine = &grammar->machine;
    size_t size = grammar->masks.n_words * sizeof *match->mask;
    match_begin(grammar);
    const uint64_t *kept = match->strip ? NULL : machine->states[match->state].mask;
    if (kept) {
        memcpy(match->mask, kept, size);
        return ENGINE_OK;
    }
    int status = masks_make(&grammar->masks, match->state, match->strip, match->mask);
    if (status || match->strip) return status;
    uint64_t *copy = malloc(size + 1); /* without memory, it is made again next time */
    if (!copy) return ENGINE_OK;
    memcpy(copy, match->mask, size);
    machine->states[match->state].mask = copy;
    machine->n_masks++;
    return ENGINE_OK;
}

int grammar_match_mask(struct grammar_match *match, uint64_t *mask)
{
    pthread_mutex_lock(&match->grammar->lock);
    int status = match_find_mask(match);
    pthread_mutex_unlock(&match->grammar->lock);
    if (!status) memcpy(mask, match->mask, match->grammar->masks.n_words * sizeof *mask);
    return status;
}

/* Applies a word of the mask to up to 64 logits; whether some stay. */
static bool apply_word(uint64_t bits, float *logits, uint32_t count)
{
    bool any = false;
    if (bits == 0) {
        for (uint32_t i = 0; i < count; i++) logits[i] = -INFINITY;
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!(bits >> i & 1)) logits[i] = -INFINITY;
        any |= isfinite(logits[i]);
    }
    return any;
}

int grammar_match_apply(struct grammar_match *match, float *logits, uint32_t n_logits)
{
    const struct grammar *grammar = match->grammar;
    pthread_mutex_lock(&match->grammar->lock);
    int status = match_find_mask(match);
    pthread_mutex_unlock(&match->grammar->lock);
    if (status) return status;
    bool any = false;
    for (uint32_t first = 0, word = 0; first < n_logits; first += 64, word++) {
        uint64_t bits = word < grammar->masks.n_words ? match->mask[word] : 0;
        any |= apply_word(bits, logits + first, n_logits - first < 64 ? n_logits - first : 64);
    }
    if (any) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_DATA,
                       "the grammar needs text here that no token of the vocabulary makes");
}

/* Under the lock: the state after a token. */
static uint32_t after_token(struct grammar_match *match, uint32_t token)
{
    struct grammar *grammar = match->grammar;
    ENGINE_ASSERT(lock_is_mine(&grammar->lock));
    struct machine *machine = &grammar->machine;
    struct engine_string text = grammar_vocab_text(grammar->vocab, token);
    bool is_text = grammar->vocab->kinds[token] == GRAMMAR_TOKEN_TEXT && text.length > 0;
    if (match->strip && is_text && *text.data == ' ') {
        text.data++;
        text.length--;
    }
    uint32_t state = is_text && text.length > 0 ? match->state : STATE_DEAD;
    for (size_t i = 0; i < text.length && state != STATE_DEAD && state != STATE_UNKNOWN; i++)
        state = machine_step(machine, state, (uint8_t)text.data[i]);
    return machine_token(machine, match->state, token, is_text, state);
}

int grammar_match_accept(struct grammar_match *match, uint32_t token)
{
    struct grammar *grammar = match->grammar;
    int status = ENGINE_OK;
    if (token >= grammar->vocab->n_tokens)
        return error_raise(ENGINE_ERROR_ARGUMENT, "the vocabulary has no token %u", token);
    pthread_mutex_lock(&grammar->lock);
    match_begin(grammar);
    uint32_t state = after_token(match, token);
    if (state == STATE_UNKNOWN)
        status = grammar->machine.status;
    else if (state != STATE_DEAD) {
        match->state = state;
        match->strip = false;
    } else if (grammar->vocab->kinds[token] != GRAMMAR_TOKEN_END ||
               !grammar->machine.states[match->state].complete) {
        status = error_raise(ENGINE_ERROR_DATA, "the grammar doesn't allow token %u here", token);
    }
    pthread_mutex_unlock(&grammar->lock);
    return status;
}

bool grammar_match_complete(struct grammar_match *match)
{
    pthread_mutex_lock(&match->grammar->lock);
    bool complete = match->grammar->machine.states[match->state].complete;
    pthread_mutex_unlock(&match->grammar->lock);
    return complete;
}

bool grammar_match_final(struct grammar_match *match)
{
    pthread_mutex_lock(&match->grammar->lock);
    const struct state *state = &match->grammar->machine.states[match->state];
    bool final = state->complete && state->count == 0;
    pthread_mutex_unlock(&match->grammar->lock);
    return final;
}
