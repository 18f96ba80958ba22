/* derive.h: the layout of calls, found by comparing what a template renders. */
#ifndef ENGINE_REPLY_DERIVE_H
#define ENGINE_REPLY_DERIVE_H

#include <stdbool.h>

#include "engine.h"
#include "reply/layout.h"

/* The words of which the conversations are made; none is in another one, or in a template. */
#define DERIVE_NAME   "zq_find"
#define DERIVE_NAME_2 "zq_seek"
#define DERIVE_KEY    "zq_place"
#define DERIVE_KEY_2  "zq_where"
#define DERIVE_VALUE  "zq-lighthouse"
#define DERIVE_OTHER  "zq-chapel"
#define DERIVE_TEXT   "zq-I-look."
#define DERIVE_ID     "zq7calls1" /* of nine letters and digits, as some templates insist */
#define DERIVE_ID_2   "zq7calls2"
#define DERIVE_ANSWER "By the zq-mole."

/* What a template renders, from the end of the question on. */
struct derive_texts {
    /* The assistant says DERIVE_TEXT and calls DERIVE_NAME with DERIVE_KEY = DERIVE_VALUE, and then
     * DERIVE_NAME_2 with DERIVE_KEY_2 = DERIVE_OTHER. */
    struct engine_string two_calls;
    /* It says the same, and calls DERIVE_NAME with both. */
    struct engine_string two_arguments;
    struct engine_string answer; /* it answers DERIVE_ANSWER */
    struct engine_string prompt; /* it is to answer */
};

/* False: the texts have no calls, or not in a form that a layout can describe. */
bool derive_layout(const struct derive_texts *texts, struct reply_layout *layout);

/* Sets layout->reasoning by a text in which DERIVE_OTHER is what the assistant thought before it answered
 * DERIVE_ANSWER, if marks stand around it. */
void derive_reasoning(struct engine_string thought, struct engine_string answer, struct reply_layout *layout);

#endif
