/* likely.h: logits to probabilities: the most likely tokens of a position, and what turns a logit into a
 * log-probability. */
#ifndef ENGINE_COMMANDS_LIKELY_H
#define ENGINE_COMMANDS_LIKELY_H

#include <stddef.h>
#include <stdint.h>

struct likely_token {
    int32_t id;
    float logit;
};

struct likely {
    uint32_t n_most; /* tokens to keep, 1 or more */
    uint32_t n;      /* kept: n_most, or all if there are fewer */
    struct likely_token
        *top; /* [n], room for [n_most]: the highest logits in order; of equals, the lower id first */
    double
        log_total; /* of the sum of exp(logit), in float64: a token's log-probability is its logit less this */
};

/* Reads the logits [n_vocab] of a position. -infinity is a logit: the token is impossible. Returns an enum
 * engine_status: if others are not finite, or none is, the message names `what` and `number`, such as "token", 3. */
int likely_read(struct likely *likely, const float *logits, uint32_t n_vocab, const char *what,
                size_t number);

#endif
