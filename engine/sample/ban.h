/* ban.h: texts that must not be written. An automaton (Aho and Corasick, 1975) reads the text byte by byte; its
 * state is the longest beginning of a banned text that the text so far ends with. In each state, the tokens
 * that would complete a banned text are banned. */
#ifndef ENGINE_SAMPLE_BAN_H
#define ENGINE_SAMPLE_BAN_H

#include "vocabulary/token-texts.h"

struct ban_list {
    int32_t *tokens; /* [count] */
    size_t count;
    int known;
};

/* All zero: nothing is banned. */
struct ban {
    const struct token_texts *vocabulary;
    uint32_t n_vocab;
    uint16_t class_of[256]; /* of a byte; 0: it is in no banned text */
    size_t n_classes, n_states;
    uint32_t *next;    /* [n_states, n_classes] */
    uint8_t *complete; /* [n_states] whether a banned text has just been completed */
    /* [n_states], each found when it is first needed. The first state's are banned in all, and only there. */
    struct ban_list *lists;
    uint32_t state;
};

/* Texts that are banned in the tokens below n_vocab. Returns an enum engine_status. */
int ban_create(struct ban *ban, const struct engine_string *texts, size_t n_texts,
               const struct token_texts *vocabulary, uint32_t n_vocab);
void ban_destroy(struct ban *ban);

/* A token has become part of the text. */
void ban_accept(struct ban *ban, int32_t token);
/* Sets the logits of banned tokens to -infinity. */
int ban_apply(struct ban *ban, float *logits);

#endif
