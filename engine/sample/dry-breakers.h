/* dry-breakers.h: the sequence breakers of DRY, from texts to tokens. */
#ifndef ENGINE_SAMPLE_DRY_BREAKERS_H
#define ENGINE_SAMPLE_DRY_BREAKERS_H

#include "sample/history.h"
#include "vocabulary/token-texts.h"

/* A token that contains a breaker, or ends with its beginning and has to be followed by a tail. */
struct dry_breaker {
    int32_t head;
    uint32_t tail, n_tail; /* in dry_breakers.tails */
};

struct dry_breakers {
    struct dry_breaker *items; /* [count], by head */
    size_t count, capacity;
    int32_t *tails; /* [n_tails] */
    size_t n_tails, tails_capacity;
};

/* Finds them in the tokens below n_vocab. Returns an enum engine_status. */
int dry_breakers_create(struct dry_breakers *breakers, const struct engine_string *texts, size_t n_texts,
                        const struct token_texts *vocabulary, uint32_t n_vocab);
void dry_breakers_destroy(struct dry_breakers *breakers);

/* How many of the last n tokens come after the last breaker; n: there is none. */
size_t dry_breakers_reach(const struct dry_breakers *breakers, const struct history *history, size_t n);
/* Whether a token alone is a breaker. */
int dry_breakers_has(const struct dry_breakers *breakers, int32_t token);

#endif
