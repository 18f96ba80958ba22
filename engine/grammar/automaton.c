/* automaton.c: the states of an automaton, as they come up (internal.h). Called by token-masks.c and
 * grammar.c. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/array.h"
#include "common/assert.h"
#include "grammar/internal.h"

#define MAX_POSITIONS 20000 /* looked at for one state */
/* Edges looked at for one token or mask, or what takes as long: about a tenth of a second. */
#define MAX_EFFORT      10000000
#define POSITION_EFFORT 8
#define STATE_EFFORT    300
#define FULL            ((size_t)48 << 20)

/* ---- Tables ---- */

static uint32_t mix_hash(uint64_t key)
{
    key ^= key >> 33;
    key *= 0xff51afd7ed558ccdull;
    key ^= key >> 33;
    key *= 0xc4ceb9fe1a85ec53ull;
    return (uint32_t)(key ^ key >> 33);
}

/* The value of a key; *known: whether it was there. NULL: out of memory. */
static uint32_t *key_find(struct machine *machine, struct key_set *set, uint64_t key, bool *known)
{
    if (set->used * 2 >= set->size) {
        struct key_set old = *set, grown = {.size = set->size ? set->size * 2 : 256, .round = 1};
        grown.keys = calloc(grown.size, sizeof *grown.keys);
        grown.rounds = calloc(grown.size, sizeof *grown.rounds);
        grown.values = calloc(grown.size, sizeof *grown.values);
        if (!grown.keys || !grown.rounds || !grown.values) {
            free(grown.keys);
            free(grown.rounds);
            free(grown.values);
            machine->status = error_memory("grammar");
            return NULL;
        }
        *set = grown;
        for (size_t i = 0; i < old.size; i++)
            if (old.rounds[i] == old.round) {
                bool ignored;
                *key_find(machine, set, old.keys[i], &ignored) = old.values[i];
            }
        free(old.keys);
        free(old.rounds);
        free(old.values);
    }
    size_t at = mix_hash(key) & (set->size - 1);
    while (set->rounds[at] == set->round && set->keys[at] != key) at = (at + 1) & (set->size - 1);
    *known = set->rounds[at] == set->round;
    if (!*known) {
        set->rounds[at] = set->round;
        set->keys[at] = key;
        set->used++;
    }
    return &set->values[at];
}

static void key_clear(struct key_set *set)
{
    set->used = 0;
    if (++set->round != 0) return;
    memset(set->rounds, 0, set->size * sizeof *set->rounds);
    set->round = 1;
}

static uint32_t frame_hash(const struct frame *frame)
{
    return mix_hash(((uint64_t)frame->node << 32 | frame->below) * 0x9e3779b97f4a7c15ull + frame->count);
}

static bool grow_frame_table(struct machine *machine)
{
    if (machine->n_frames * 2 < machine->n_frame_table) return true;
    uint32_t size = machine->n_frame_table ? machine->n_frame_table * 2 : 1024;
    uint32_t *table = calloc(size, sizeof *table);
    if (!table) {
        machine->status = error_memory("grammar");
        return false;
    }
    for (uint32_t i = 1; i < machine->n_frames; i++) {
        uint32_t at = frame_hash(&machine->frames[i]) & (size - 1);
        while (table[at]) at = (at + 1) & (size - 1);
        table[at] = i;
    }
    free(machine->frame_table);
    machine->frame_table = table;
    machine->n_frame_table = size;
    return true;
}

/* The number of a stack; 0: failed. */
static uint32_t machine_push_frame(struct machine *machine, uint32_t node, uint32_t count, uint32_t below)
{
    ENGINE_ASSERT(below < machine->n_frames);
    struct frame frame = {node, count, below};
    if (!grow_frame_table(machine)) return 0;
    uint32_t mask = machine->n_frame_table - 1, at = frame_hash(&frame) & mask, found;
    for (; (found = machine->frame_table[at]); at = (at + 1) & mask) {
        const struct frame *other = &machine->frames[found];
        if (other->node == node && other->count == count && other->below == below) return found;
    }
    if (!GRAMMAR_RESERVE(&machine->status, machine->frames, machine->frame_capacity, machine->n_frames + 1))
        return 0;
    machine->frames[machine->n_frames] = frame;
    machine->frame_table[at] = machine->n_frames;
    return machine->n_frames++;
}

/* ---- Closures: positions to positions that take a byte or a token ---- */

static void closure_begin(struct machine *machine)
{
    key_clear(&machine->seen);
    key_clear(&machine->entered);
    machine->n_work = machine->n_found = 0;
    machine->complete = false;
    machine->run = NO_CLASS;
    machine->run_count = 0;
}

static void too_much(struct machine *machine)
{
    if (!machine->status)
        machine->status = error_raise(ENGINE_ERROR_DATA,
                                      "the grammar is too ambiguous: this text can be read in too many ways");
}

static void machine_spend(struct machine *machine, uint64_t effort)
{
    machine->effort += effort;
    if (machine->effort > MAX_EFFORT) too_much(machine);
}

static void machine_add_position(struct machine *machine, uint32_t node, uint32_t frame)
{
    bool known;
    if (machine->status || !machine->automaton->nodes[node].fruitful) return;
    machine_spend(machine, POSITION_EFFORT);
    if (!key_find(machine, &machine->seen, (uint64_t)node << 32 | frame, &known) || known) return;
    if (machine->seen.used > MAX_POSITIONS) too_much(machine);
    if (machine->status) return;
    if (!GRAMMAR_RESERVE(&machine->status, machine->work, machine->work_capacity, machine->n_work + 1))
        return;
    machine->work[machine->n_work++] = (struct position){node, frame};
}

static void note_run(struct machine *machine, uint16_t run, uint32_t count)
{
    if (run == NO_CLASS || count <= machine->run_count) return;
    machine->run = run;
    machine->run_count = count;
}

/* A loop whose part has been there `count` times. */
static void machine_enter_loop(struct machine *machine, uint32_t at, uint32_t count, uint32_t below)
{
    const struct node *node = &machine->automaton->nodes[at];
    bool empty = machine->automaton->nodes[node->first].nullable, known;
    uint32_t least = empty ? 0 : node->least;
    if (node->most == EXPR_NO_LIMIT && count > least)
        count = least; /* what counts is that there were enough */
    if (count >= least) {
        /* Fewer rounds leave more to come, so the fewest stand for all. */
        uint32_t *fewest = key_find(machine, &machine->entered, (uint64_t)at << 32 | below, &known);
        if (!fewest || (known && *fewest <= count)) return;
        *fewest = count;
        machine_add_position(machine, node->next, below);
    }
    if (count >= node->most || !machine->automaton->nodes[node->first].fruitful) return;
    note_run(machine, node->run, node->most == EXPR_NO_LIMIT ? UINT32_MAX : node->most - count);
    uint32_t frame = machine_push_frame(machine, at, count, below);
    if (frame) machine_add_position(machine, node->first, frame);
}

static void machine_leave(struct machine *machine, uint32_t frame_at)
{
    if (frame_at == 0) {
        machine->complete = true;
        return;
    }
    ENGINE_ASSERT(frame_at < machine->n_frames);
    struct frame frame = machine->frames[frame_at];
    /* A loop stands on the stack as itself; a rule's caller as the node after the call, which may be a loop
     * too and then is marked by a count that loops don't have. */
    if (machine->automaton->nodes[frame.node].kind == NODE_LOOP && frame.count != UINT32_MAX)
        machine_enter_loop(machine, frame.node, frame.count + 1, frame.below);
    else
        machine_add_position(machine, frame.node, frame.below);
}

static void machine_call(struct machine *machine, const struct node *node, uint32_t frame)
{
    /* What comes last in a rule needs no frame, so lists that are rules don't let the stack grow. */
    if (machine->automaton->nodes[node->next].kind != NODE_RETURN) {
        frame = machine_push_frame(machine, node->next, UINT32_MAX, frame);
        if (!frame) return;
    }
    machine_add_position(machine, node->first, frame);
}

static void machine_expand(struct machine *machine, struct position position)
{
    const struct automaton *automaton = machine->automaton;
    const struct node *node = &automaton->nodes[position.node];
    switch (node->kind) {
    case NODE_RETURN: machine_leave(machine, position.frame); break;
    case NODE_FORK:
        note_run(machine, node->run, UINT32_MAX);
        for (uint32_t i = 0; i < node->count; i++)
            machine_add_position(machine, automaton->targets[node->first + i], position.frame);
        break;
    case NODE_CALL: machine_call(machine, node, position.frame); break;
    case NODE_LOOP: machine_enter_loop(machine, position.node, 0, position.frame); break;
    default:
        if (GRAMMAR_RESERVE(&machine->status, machine->found, machine->found_capacity, machine->n_found + 1))
            machine->found[machine->n_found++] = position;
    }
}

static int by_position(const void *left, const void *right)
{
    const struct position *a = left, *b = right;
    if (a->node != b->node) return a->node < b->node ? -1 : 1;
    return (a->frame > b->frame) - (a->frame < b->frame);
}

static void close_over(struct machine *machine)
{
    while (machine->n_work > 0 && !machine->status) machine_expand(machine, machine->work[--machine->n_work]);
    if (machine->n_found > 1) qsort(machine->found, machine->n_found, sizeof *machine->found, by_position);
}

/* ---- States ---- */

static uint32_t found_hash(const struct machine *machine)
{
    uint32_t hash = machine->complete ? 0x51ed270bu : 0;
    for (size_t i = 0; i < machine->n_found; i++)
        hash = hash * 31 + mix_hash((uint64_t)machine->found[i].node << 32 | machine->found[i].frame);
    return hash;
}

static bool is_found(const struct machine *machine, const struct state *state, uint32_t hash)
{
    return state->hash == hash && state->complete == machine->complete && state->count == machine->n_found &&
           (state->count == 0 || !memcmp(machine->positions + state->first, machine->found,
                                         state->count * sizeof *machine->found));
}

static bool grow_state_table(struct machine *machine)
{
    if (machine->n_states * 2 < machine->n_state_table) return true;
    uint32_t size = machine->n_state_table ? machine->n_state_table * 2 : 256;
    uint32_t *table = calloc(size, sizeof *table);
    if (!table) {
        machine->status = error_memory("grammar");
        return false;
    }
    for (uint32_t i = 1; i < machine->n_states; i++) {
        uint32_t at = machine->states[i].hash & (size - 1);
        while (table[at]) at = (at + 1) & (size - 1);
        table[at] = i;
    }
    free(machine->state_table);
    machine->state_table = table;
    machine->n_state_table = size;
    return true;
}

static bool room_for_state(struct machine *machine)
{
    size_t groups = machine->automaton->n_groups, capacity = machine->state_capacity;
    if (!GRAMMAR_RESERVE(&machine->status, machine->positions, machine->position_capacity,
                         machine->n_positions + machine->n_found))
        return false;
    if (machine->n_states < capacity) return true;
    if (!GRAMMAR_RESERVE(&machine->status, machine->states, capacity, machine->n_states + 1)) return false;
    if (!array_resize(&machine->next, capacity, groups * sizeof *machine->next)) {
        machine->status = error_memory("grammar");
        return false;
    }
    machine->state_capacity = capacity;
    return true;
}

/* The state of what the closure has found. */
static uint32_t machine_intern(struct machine *machine)
{
    close_over(machine);
    if (machine->status) return STATE_UNKNOWN;
    if (machine->n_found == 0 && !machine->complete) return STATE_DEAD;
    uint32_t hash = found_hash(machine);
    if (!grow_state_table(machine)) return STATE_UNKNOWN;
    uint32_t mask = machine->n_state_table - 1, at = hash & mask, found;
    for (; (found = machine->state_table[at]); at = (at + 1) & mask)
        if (is_found(machine, &machine->states[found], hash)) return found;
    if (!room_for_state(machine)) return STATE_UNKNOWN;
    machine->effort += STATE_EFFORT;
    struct state state = {
        .first = machine->n_positions,
        .count = (uint32_t)machine->n_found,
        .hash = hash,
        .complete = machine->complete,
        .run = machine->run,
        .run_count = machine->run_count,
    };
    for (size_t i = 0; i < machine->n_found; i++) {
        state.tokens |= machine->automaton->nodes[machine->found[i].node].kind == NODE_TOKEN;
        machine->positions[machine->n_positions++] = machine->found[i];
    }
    machine->states[machine->n_states] = state;
    uint32_t groups = machine->automaton->n_groups;
    for (uint32_t i = 0; i < groups; i++)
        machine->next[(size_t)machine->n_states * groups + i] = STATE_UNKNOWN;
    machine->state_table[at] = machine->n_states;
    return machine->n_states++;
}

uint32_t machine_start(struct machine *machine)
{
    closure_begin(machine);
    machine_add_position(machine, machine->automaton->start, 0);
    return machine_intern(machine);
}

/* Follows the edges of a position for a byte, and narrows [low, high] to the bytes that do the same. */
static void machine_follow(struct machine *machine, struct position position, uint8_t byte, uint8_t *low,
                           uint8_t *high)
{
    const struct node *node = &machine->automaton->nodes[position.node];
    if (node->kind != NODE_BYTES) return;
    const struct byte_edge *edge = machine->automaton->edges + node->first, *end = edge + node->count;
    for (; edge < end && edge->high < byte; edge++)
        if (edge->high >= *low) *low = (uint8_t)(edge->high + 1);
    machine_spend(machine, 1 + (uint64_t)(edge - (machine->automaton->edges + node->first)));
    if (edge == end) return;
    if (edge->low > byte) {
        if (edge->low <= *high) *high = (uint8_t)(edge->low - 1);
        return;
    }
    if (edge->low > *low) *low = edge->low;
    if (edge->high < *high) *high = edge->high;
    machine_add_position(machine, edge->target, position.frame);
}

uint32_t machine_step(struct machine *machine, uint32_t from, uint8_t byte)
{
    ENGINE_ASSERT(from < machine->n_states);
    if (from == STATE_DEAD) return STATE_DEAD;
    uint32_t to = machine_known(machine, from, byte);
    if (to != STATE_UNKNOWN) return to;
    const struct automaton *automaton = machine->automaton;
    uint8_t low = 0, high = 255;
    closure_begin(machine);
    for (uint32_t i = 0; i < machine->states[from].count && !machine->status; i++)
        machine_follow(machine, machine->positions[machine->states[from].first + i], byte, &low, &high);
    to = machine_intern(machine);
    if (to == STATE_UNKNOWN) return to;
    uint32_t *row = machine->next + (size_t)from * automaton->n_groups;
    ENGINE_ASSERT(low <= byte && byte <= high);
    for (uint32_t group = automaton->groups[low]; group <= automaton->groups[high]; group++) row[group] = to;
    return to;
}

uint32_t machine_token(struct machine *machine, uint32_t from, uint32_t token, bool is_text, uint32_t bytes)
{
    if (bytes == STATE_UNKNOWN || !machine->states[from].tokens) return bytes;
    closure_begin(machine);
    if (bytes != STATE_DEAD) {
        struct state state = machine->states[bytes];
        for (uint32_t i = 0; i < state.count; i++)
            machine_add_position(machine, machine->positions[state.first + i].node,
                                 machine->positions[state.first + i].frame);
        machine->complete = state.complete;
        note_run(machine, state.run, state.run_count);
    }
    for (uint32_t i = 0; i < machine->states[from].count; i++) {
        struct position position = machine->positions[machine->states[from].first + i];
        const struct node *node = &machine->automaton->nodes[position.node];
        if (node->kind == NODE_TOKEN &&
            (node->least ? is_text && node->first != token : node->first == token))
            machine_add_position(machine, node->next, position.frame);
    }
    return machine_intern(machine);
}

/* ---- Creation, and forgetting ---- */

void machine_begin(struct machine *machine)
{
    machine->effort = 0;
    machine->status = ENGINE_OK;
}

int machine_create(struct machine *machine, const struct automaton *automaton, size_t mask_size)
{
    *machine = (struct machine){.automaton = automaton, .mask_size = mask_size};
    machine->seen.round = machine->entered.round = 1;
    /* The empty stack, and the dead state. */
    if (!GRAMMAR_RESERVE(&machine->status, machine->frames, machine->frame_capacity, 1) ||
        !room_for_state(machine)) {
        machine_destroy(machine);
        return ENGINE_ERROR_MEMORY;
    }
    machine->frames[machine->n_frames++] = (struct frame){0};
    machine->states[machine->n_states++] = (struct state){.run = NO_CLASS};
    memset(machine->next, 0, automaton->n_groups * sizeof *machine->next);
    return ENGINE_OK;
}

static void key_free(struct key_set *set)
{
    free(set->keys);
    free(set->rounds);
    free(set->values);
}

void machine_destroy(struct machine *machine)
{
    for (uint32_t i = 0; i < machine->n_states; i++) free(machine->states[i].mask);
    free(machine->frames);
    free(machine->frame_table);
    free(machine->positions);
    free(machine->states);
    free(machine->state_table);
    free(machine->next);
    free(machine->work);
    free(machine->found);
    key_free(&machine->seen);
    key_free(&machine->entered);
    *machine = (struct machine){0};
}

bool machine_is_full(const struct machine *machine)
{
    size_t row = machine->automaton->n_groups * sizeof *machine->next + sizeof(struct state);
    return machine->n_states * row + machine->n_frames * sizeof(struct frame) +
               machine->n_positions * sizeof(struct position) + machine->n_masks * machine->mask_size >
           FULL;
}

/* Copies the stacks below the given states into `fresh`; `numbers` [n_frames] becomes old number to new. */
static void copy_frames(const struct machine *machine, struct machine *fresh, uint32_t *numbers,
                        const uint32_t *states, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct state *state = &machine->states[states[i]];
        for (uint32_t p = 0; p < state->count; p++)
            for (uint32_t f = machine->positions[state->first + p].frame; f && !numbers[f];
                 f = machine->frames[f].below)
                numbers[f] = 1;
    }
    /* A frame is made after the one below it. */
    for (uint32_t f = 1; f < machine->n_frames; f++) {
        const struct frame *frame = &machine->frames[f];
        if (numbers[f])
            numbers[f] = machine_push_frame(fresh, frame->node, frame->count, numbers[frame->below]);
    }
}

int machine_trim(struct machine *machine, uint32_t *states, size_t count)
{
    struct machine fresh;
    uint32_t *numbers = calloc((size_t)machine->n_frames + count + 1, sizeof *numbers);
    if (!numbers) return error_memory("grammar");
    uint32_t *moved = numbers + machine->n_frames;
    int status = machine_create(&fresh, machine->automaton, machine->mask_size);
    if (status) {
        free(numbers);
        return status;
    }
    machine_begin(&fresh);
    copy_frames(machine, &fresh, numbers, states, count);
    for (size_t i = 0; i < count && !fresh.status; i++) {
        ENGINE_ASSERT(states[i] < machine->n_states);
        struct state state = machine->states[states[i]];
        if (states[i] == STATE_DEAD) continue;
        closure_begin(&fresh);
        for (uint32_t p = 0; p < state.count; p++)
            machine_add_position(&fresh, machine->positions[state.first + p].node,
                                 numbers[machine->positions[state.first + p].frame]);
        fresh.complete = state.complete;
        note_run(&fresh, state.run, state.run_count);
        moved[i] = machine_intern(&fresh);
        fresh.effort = 0;
    }
    status = fresh.status;
    if (status) {
        machine_destroy(&fresh);
    } else {
        memcpy(states, moved, count * sizeof *states);
        machine_destroy(machine);
        *machine = fresh;
    }
    free(numbers);
    return status;
}
