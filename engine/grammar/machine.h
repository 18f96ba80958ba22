/* machine.h: runs an automaton. A state is a set of positions, each a node and a stack; states get numbers, and
 * what a byte leads to is remembered, so that bytes cost a look into a table once a state is known.
 *
 * Stacks are lists that share their lower parts; equal stacks have equal numbers. What is remembered is thrown
 * away when it becomes too large (machine_trim), except states that are in use. */
#ifndef ENGINE_GRAMMAR_MACHINE_H
#define ENGINE_GRAMMAR_MACHINE_H

#include "grammar/automaton.h"

#define STATE_DEAD    0u
#define STATE_UNKNOWN UINT32_MAX /* also: failed */

struct position {
    uint32_t node, frame; /* frame 0: an empty stack */
};

/* What is on a stack: the node to go on with, and above a NODE_LOOP, how often its part was there. */
struct frame {
    uint32_t node, count, below;
};

struct state {
    uint32_t first, count; /* positions: NODE_BYTES and NODE_TOKEN only, sorted */
    uint32_t hash;
    bool complete; /* the text may end here */
    bool tokens;   /* some positions are NODE_TOKEN */
    uint16_t run;  /* run_count characters of this class may follow; NO_CLASS: none known */
    uint32_t run_count;
    uint64_t *mask; /* what mask.c has worked out; NULL: nothing yet */
};

/* A set of 64-bit keys that is emptied by counting `round` up. */
struct key_set {
    uint64_t *keys;
    uint32_t *rounds, *values;
    size_t size, used;
    uint32_t round;
};

struct machine {
    const struct automaton *automaton;
    size_t mask_size;     /* bytes of a mask */
    struct frame *frames; /* [n_frames] */
    uint32_t n_frames, n_frame_table, *frame_table;
    struct position *positions; /* [n_positions] */
    uint32_t n_positions;
    struct state *states; /* [n_states] */
    uint32_t n_states, n_state_table, *state_table;
    uint32_t *next; /* [n_states, n_groups]; STATE_UNKNOWN: not worked out */
    size_t frame_capacity, position_capacity, state_capacity;
    size_t n_masks;

    /* The closure being made. */
    struct position *work, *found;
    size_t n_work, work_capacity, n_found, found_capacity;
    struct key_set seen, entered;
    bool complete;
    uint16_t run;
    uint32_t run_count;

    uint64_t effort; /* since machine_begin */
    int status;      /* why STATE_UNKNOWN was returned */
};

int machine_create(struct machine *machine, const struct automaton *automaton, size_t mask_size);
void machine_destroy(struct machine *machine);

/* Before a series of steps, one token or one mask: limits their effort together. */
void machine_begin(struct machine *machine);
uint32_t machine_start(struct machine *machine);
/* The state after a byte; STATE_DEAD: it cannot follow; STATE_UNKNOWN: machine->status says why not. */
uint32_t machine_step(struct machine *machine, uint32_t state, uint8_t byte);
/* The state after a token, of which `bytes` is where its text leads. */
uint32_t machine_token(struct machine *machine, uint32_t state, uint32_t token, bool is_text, uint32_t bytes);
/* The same as machine_step, where it is known already. */
static inline uint32_t machine_known(const struct machine *machine, uint32_t state, uint8_t byte)
{
    return machine->next[(size_t)state * machine->automaton->n_groups + machine->automaton->groups[byte]];
}

/* Whether machine_trim should be called. */
bool machine_is_full(const struct machine *machine);
/* Forgets all but `states` [count], and replaces them by their new numbers. Any failure leaves the machine as it
 * was. */
int machine_trim(struct machine *machine, uint32_t *states, size_t count);

#endif
