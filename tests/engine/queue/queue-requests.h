/* queue-requests.h: requests of all kinds for tests of the queue, and the result of each alone, computed
 * without the queue. */
#ifndef TESTS_QUEUE_REQUESTS_H
#define TESTS_QUEUE_REQUESTS_H

#include <stdbool.h>

#include "engine.h"

#define SAMPLE_TOKENS 160 /* at most, of a prompt or of what follows */

struct sample {
    struct engine_sampler_options sampler;
    struct engine_request request; /* points into this struct; without callback */
    int32_t prompt[SAMPLE_TOKENS];
    /* The result alone. */
    int32_t tokens[SAMPLE_TOKENS];
    size_t n_tokens;
    char text[8192];
    size_t text_size;
    uint32_t reason; /* LIMIT, END or CONTEXT */
    /* The queue's result. */
    int32_t got_tokens[SAMPLE_TOKENS];
    size_t n_got_tokens;
    char got_text[8192];
    size_t got_text_size;
    struct engine_event last; /* kind 0: not received yet; its pointers are not valid */
    int n_last;               /* how often it was received */
};

/* Request number `number`: a prompt of 1 to `longest` random tokens, up to `most` new ones; odd numbers
 * sample with a seed of their own, even ones take the most likely token. */
void sample_create(struct sample *sample, uint32_t number, uint32_t n_vocab, uint32_t longest, uint32_t most);

/* Computes the result alone, in sequence 0 of a context that is not used otherwise. An enum engine_status. */
int sample_run_alone(struct sample *sample, struct engine_model *model, struct engine_context *context);

/* For the callback, with `user` the sample; for polls, with the received event. */
void sample_take(void *user, const struct engine_event *event);

/* Whether the queue's result is the one alone or, for a cancelled request, the beginning of that. */
bool sample_agrees(const struct sample *sample);

#endif
