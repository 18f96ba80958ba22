/* states.h: the tokens of a batch by their states, for operations that keep one for each sequence. */
#ifndef CPU_STATES_H
#define CPU_STATES_H

#include "list.h"

struct states_view {
    struct view positions, states; /* [tokens] */
    struct view state;
    size_t n_states, state_bytes;
};

/* Adjacent tokens with the same state. */
struct states_run {
    size_t first, n; /* tokens */
    bool has_state;  /* false: their number is -1 */
    bool begins;     /* at zeros, not at what the state holds */
    uint8_t *state;
};

/* The three operands that concern states. `state` must be dense; each of its states has n_dims dimensions,
 * 2 or 3. */
int states_check(const struct request *request, const struct engine_tensor *positions,
                 const struct engine_tensor *states, const struct engine_tensor *state, int n_dims,
                 struct states_view *view);

/* Declares them as read and written by the step just added. */
void states_declare(struct list *list, const struct states_view *view);

/* The run that begins at token run->first + run->n; start with zeros. False: there is none. Tokens whose
 * state is out of range are reported and have none. */
bool states_next(const struct work *work, const struct states_view *view, struct states_run *run);

#endif
