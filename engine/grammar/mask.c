/* mask.c: see mask.h.
 *
 * The trie of the vocabulary is walked together with the machine: what cannot follow is left out with all that
 * begins with it. Where the grammar repeats a class of characters, as within a string, almost all tokens fit.
 * Then subtrees that hold nothing but characters of that class are taken whole (runs), and only tokens with
 * other characters, or parts of characters, are walked. */
#include "grammar/mask.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* ---- Runs ---- */

struct run_maker {
    const struct grammar_vocab *vocab;
    const struct run_class *class;
    bool ascii[128];
    uint8_t *runs;
};

static bool in_class(const struct run_class *class, uint32_t character)
{
    size_t at = char_ranges_find(class->ranges, class->n_ranges, character);
    return at < class->n_ranges && class->ranges[at].low <= character;
}

static uint8_t one_more(uint8_t run)
{
    return run >= RUN_NEVER - 1 ? RUN_NEVER : (uint8_t)(run + 1);
}

/* The longest way below a node that stands within a character, of which `left` bytes are missing. */
static uint8_t run_within(const struct run_maker *maker, uint32_t at, uint32_t value, unsigned left,
                          uint32_t least)
{
    const struct trie_node *trie = maker->vocab->trie;
    uint8_t longest = 0;
    if (trie[at].ends) return RUN_NEVER;
    for (uint32_t child = at + 1; child < trie[at].skip && longest != RUN_NEVER; child = trie[child].skip) {
        uint32_t byte = trie[child].byte, character = value << 6 | (byte & 0x3f);
        uint8_t run = RUN_NEVER;
        if ((byte & 0xc0) != 0x80)
            run = RUN_NEVER;
        else if (left > 1)
            run = run_within(maker, child, character, left - 1, least);
        else if (character >= least && in_class(maker->class, character))
            run = one_more(maker->runs[child + 1]);
        if (run > longest) longest = run;
    }
    return longest;
}

static uint8_t run_below(const struct run_maker *maker, uint32_t first, uint32_t end)
{
    const struct trie_node *trie = maker->vocab->trie;
    uint8_t longest = 0;
    for (uint32_t child = first; child < end && longest != RUN_NEVER; child = trie[child].skip) {
        uint32_t byte = trie[child].byte;
        uint8_t run = RUN_NEVER;
        if (byte < 0x80)
            run = maker->ascii[byte] ? one_more(maker->runs[child + 1]) : RUN_NEVER;
        else if (byte >= 0xc2 && byte < 0xe0)
            run = run_within(maker, child, byte & 0x1f, 1, 0x80);
        else if (byte >= 0xe0 && byte < 0xf0)
            run = run_within(maker, child, byte & 0x0f, 2, 0x800);
        else if (byte >= 0xf0 && byte < 0xf5)
            run = run_within(maker, child, byte & 0x07, 3, 0x10000);
        if (run > longest) longest = run;
    }
    return longest;
}

static void make_runs(const struct grammar_vocab *vocab, const struct run_class *class, uint8_t *runs)
{
    struct run_maker maker = {.vocab = vocab, .class = class, .runs = runs};
    for (uint32_t c = 0; c < 128; c++) maker.ascii[c] = in_class(class, c);
    for (uint32_t at = vocab->n_nodes; at-- > 0;)
        runs[at + 1] = run_below(&maker, at + 1, vocab->trie[at].skip);
    runs[0] = run_below(&maker, 0, vocab->n_nodes);
}

int masks_create(struct masks *masks, const struct grammar_vocab *vocab, struct machine *machine)
{
    const struct automaton *automaton = machine->automaton;
    *masks = (struct masks){.vocab = vocab, .machine = machine, .n_words = (vocab->n_tokens + 63) / 64};
    masks->runs = calloc(automaton->n_classes + 1, sizeof(uint8_t *));
    masks->path = calloc((size_t)vocab->deepest + 2, sizeof *masks->path);
    masks->ranked = calloc(vocab->n_ranked / 64 + 2, sizeof *masks->ranked);
    bool failed = !masks->runs || !masks->path || !masks->ranked;
    for (uint32_t i = 0; i < automaton->n_classes && !failed; i++) {
        masks->runs[i] = malloc((size_t)vocab->n_nodes + 1);
        failed = !masks->runs[i];
        if (!failed) make_runs(vocab, &automaton->classes[i], masks->runs[i]);
    }
    if (!failed) return ENGINE_OK;
    masks_destroy(masks);
    return error_memory("grammar");
}

void masks_destroy(struct masks *masks)
{
    for (uint32_t i = 0; masks->runs && i < masks->machine->automaton->n_classes; i++) free(masks->runs[i]);
    free(masks->runs);
    free(masks->path);
    free(masks->ranked);
    *masks = (struct masks){0};
}

/* ---- Masks ---- */

static void set_bits(uint64_t *bits, uint32_t first, uint32_t end)
{
    if (first >= end) return;
    uint32_t a = first / 64, b = (end - 1) / 64;
    uint64_t low = ~(uint64_t)0 << (first % 64), high = ~(uint64_t)0 >> (63 - (end - 1) % 64);
    if (a == b) {
        bits[a] |= low & high;
        return;
    }
    bits[a] |= low;
    for (uint32_t i = a + 1; i < b; i++) bits[i] = ~(uint64_t)0;
    bits[b] |= high;
}

/* Walks the nodes from `at` up to `end`, whose first is one level below `base`. False: the machine failed. */
static bool walk(struct masks *masks, uint32_t at, uint32_t end, uint32_t base, uint32_t start)
{
    struct machine *machine = masks->machine;
    const struct trie_node *trie = masks->vocab->trie;
    masks->path[0] = start;
    while (at < end) {
        const struct trie_node *node = &trie[at];
        uint32_t from = masks->path[node->depth - base - 1], to = machine_known(machine, from, node->byte);
        if (to == STATE_UNKNOWN) to = machine_step(machine, from, node->byte);
        if (to == STATE_UNKNOWN) return false;
        if (to == STATE_DEAD) {
            at = node->skip;
            continue;
        }
        const struct state *state = &machine->states[to];
        if (state->run != NO_CLASS && masks->runs[state->run][at + 1] <= state->run_count &&
            masks->runs[state->run][at + 1] != RUN_NEVER) {
            set_bits(masks->ranked, node->rank, trie[node->skip].rank);
            at = node->skip;
            continue;
        }
        if (node->ends)
            set_bits(masks->ranked, node->rank,
                     at + 1 < node->skip ? trie[at + 1].rank : trie[node->skip].rank);
        masks->path[node->depth - base] = to;
        at++;
    }
    return true;
}

/* The walk of a text's beginning where the first space is no part of the text: tokens with a space stand for what
 * comes after it, and one of nothing but the space for nothing, which would go on for ever. */
static bool walk_stripped(struct masks *masks, uint32_t start)
{
    const struct trie_node *trie = masks->vocab->trie;
    uint32_t space = 0, n = masks->vocab->n_nodes;
    while (space < n && trie[space].byte != ' ') space = trie[space].skip;
    if (space == n) return walk(masks, 0, n, 0, start);
    return walk(masks, 0, space, 0, start) && walk(masks, trie[space].skip, n, 0, start) &&
           walk(masks, space + 1, trie[space].skip, 1, start);
}

/* Ranks to tokens, by whichever are fewer: those that may follow or those that may not. */
static void by_token(const struct masks *masks, uint64_t *mask)
{
    const struct grammar_vocab *vocab = masks->vocab;
    memset(mask, 0, masks->n_words * sizeof *mask);
    for (uint32_t word = 0; word * 64 < vocab->n_ranked; word++)
        for (uint64_t bits = masks->ranked[word]; bits; bits &= bits - 1) {
            uint32_t token = vocab->order[word * 64 + (uint32_t)__builtin_ctzll(bits)];
            mask[token / 64] |= (uint64_t)1 << (token % 64);
        }
}

/* All tokens of text but `not`. */
static void add_others(const struct masks *masks, uint32_t not, uint64_t *mask)
{
    for (uint32_t rank = 0; rank < masks->vocab->n_ranked; rank++) {
        uint32_t token = masks->vocab->order[rank];
        if (token != not ) mask[token / 64] |= (uint64_t)1 << (token % 64);
    }
}

/* Tokens that the grammar names: to follow, or not to. */
static void add_tokens(const struct masks *masks, const struct state *state, uint64_t *mask)
{
    const struct machine *machine = masks->machine;
    uint32_t not = UINT32_MAX;
    bool others = false;
    for (uint32_t i = 0; i < state->count; i++) {
        const struct node *node = &machine->automaton->nodes[machine->positions[state->first + i].node];
        if (node->kind != NODE_TOKEN) continue;
        if (!node->least) {
            mask[node->first / 64] |= (uint64_t)1 << (node->first % 64);
            continue;
        }
        /* What one place excludes, another that excludes something else allows. */
        not = !others || not == node->first ? node->first : UINT32_MAX;
        others = true;
    }
    if (others) add_others(masks, not, mask);
}

int masks_make(struct masks *masks, uint32_t at, bool strip, uint64_t *mask)
{
    struct machine *machine = masks->machine;
    memset(masks->ranked, 0, (masks->vocab->n_ranked / 64 + 1) * sizeof *masks->ranked);
    bool walked = strip ? walk_stripped(masks, at) : walk(masks, 0, masks->vocab->n_nodes, 0, at);
    if (!walked) return machine->status;
    by_token(masks, mask);
    const struct state *state = &machine->states[at];
    if (state->tokens) add_tokens(masks, state, mask);
    for (uint32_t i = 0; state->complete && i < masks->vocab->n_ends; i++)
        mask[masks->vocab->ends[i] / 64] |= (uint64_t)1 << (masks->vocab->ends[i] % 64);
    return ENGINE_OK;
}
