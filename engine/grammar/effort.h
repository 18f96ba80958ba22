/* effort.h: how much work the text of a grammar may cause before a token is written. Texts come from strangers, and what
 * few bytes mean may be large, so everything that reads one counts its steps: about one for each expression, node, or
 * character looked at, 20 to 100 ns. */
#ifndef ENGINE_GRAMMAR_EFFORT_H
#define ENGINE_GRAMMAR_EFFORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define EFFORT_MOST  20000000 /* steps, about a second */
#define EFFORT_LOOKS 100000   /* steps between two calls of `gives_up` */

struct effort {
    uint64_t steps; /* so far */
    uint64_t look;  /* the steps at which to look again */
    /* Whether the caller no longer wants the grammar; NULL: it always does. */
    int (*gives_up)(void *user);
    void *user;
};

/* Counts steps. False: there have been too many, the caller gives up, or *status has an error already; then it has one. */
static inline bool effort_spend(struct effort *effort, uint64_t steps, int *status)
{
    if (*status) return false;
    effort->steps += steps;
    if (effort->steps < effort->look) return true;
    effort->look = effort->steps + EFFORT_LOOKS;
    if (effort->steps > EFFORT_MOST) {
        effort->look = 0;
        *status = error_raise(ENGINE_ERROR_UNSUPPORTED,
                              "the grammar takes more than %d steps to read; make it smaller", EFFORT_MOST);
    } else if (effort->gives_up && effort->gives_up(effort->user)) {
        effort->look = 0;
        *status = error_raise(ENGINE_ERROR, "the grammar is no longer wanted");
    }
    return !*status;
}

#endif
