/* token-masks.c: a vocabulary as a trie of its tokens' bytes (grammar.h), and which tokens may follow in a
 * state of an automaton (internal.h). Called by grammar.c.
 *
 * The trie is walked together with the automaton: what cannot follow is left out with everything that begins
 * with it. Where the grammar repeats a class of characters, as within a string, almost all tokens fit. Then
 * subtrees that hold nothing but characters of that class are taken whole (runs), and only tokens with other
 * characters, or parts of characters, are walked. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/assert.h"
#include "grammar/internal.h"

/* ---- Vocabularies ---- */

struct engine_string grammar_vocab_text(const struct grammar_vocab *vocab, uint32_t token)
{
    ENGINE_ASSERT(token < vocab->n_tokens);
    return (struct engine_string){vocab->bytes + vocab->offsets[token],
                                  vocab->offsets[token + 1] - vocab->offsets[token]};
}

uint32_t grammar_vocab_size(const struct grammar_vocab *vocab)
{
    return vocab->n_tokens;
}

static int compare_texts(struct engine_string a, struct engine_string b)
{
    size_t length = a.length < b.length ? a.length : b.length;
    int order = length > 0 ? memcmp(a.data, b.data, length) : 0;
    return order ? order : (a.length > b.length) - (a.length < b.length);
}

struct sorted {
    struct engine_string text;
    uint32_t token;
};

static int by_text(const void *left, const void *right)
{
    const struct sorted *a = left, *b = right;
    int order = compare_texts(a->text, b->text);
    return order ? order : (a->token > b->token) - (a->token < b->token);
}

static int copy_texts(struct grammar_vocab *vocab, const struct engine_string *texts, const uint8_t *kinds)
{
    size_t total = 0;
    for (uint32_t i = 0; i < vocab->n_tokens; i++) total += texts[i].length;
    if (total > UINT32_MAX)
        return error_raise(ENGINE_ERROR_DATA, "the vocabulary has %zu bytes of text", total);
    vocab->bytes = malloc(total + 1);
    vocab->kinds = malloc(vocab->n_tokens + 1);
    vocab->offsets = calloc(vocab->n_tokens + 1, sizeof *vocab->offsets);
    vocab->order = calloc(vocab->n_tokens + 1, sizeof *vocab->order);
    vocab->ends = calloc(vocab->n_tokens + 1, sizeof *vocab->ends);
    if (!vocab->bytes || !vocab->kinds || !vocab->offsets || !vocab->order || !vocab->ends)
        return error_memory("trie of the vocabulary");
    memcpy(vocab->kinds, kinds, vocab->n_tokens);
    for (uint32_t i = 0, at = 0; i < vocab->n_tokens; i++) {
        if (texts[i].length > 0) memcpy(vocab->bytes + at, texts[i].data, texts[i].length);
        vocab->offsets[i + 1] = at += (uint32_t)texts[i].length;
        if (kinds[i] == GRAMMAR_TOKEN_END) vocab->ends[vocab->n_ends++] = i;
    }
    return ENGINE_OK;
}

static uint32_t common_length(struct engine_string a, struct engine_string b)
{
    uint32_t length = 0;
    while (length < a.length && length < b.length && a.data[length] == b.data[length]) length++;
    return length;
}

/* Lays out the trie of sorted texts. `path`: the open nodes, one for each depth. */
static void lay_out_trie(struct grammar_vocab *vocab, const struct sorted *sorted, uint32_t *path)
{
    struct engine_string last = {0};
    uint32_t open = 0;
    for (uint32_t i = 0; i < vocab->n_ranked; i++) {
        struct engine_string text = sorted[i].text;
        vocab->order[i] = sorted[i].token;
        uint32_t common = common_length(last, text);
        while (open > common) vocab->trie[path[--open]].skip = vocab->n_nodes;
        for (; open < text.length; open++) {
            path[open] = vocab->n_nodes;
            vocab->trie[vocab->n_nodes++] = (struct trie_node){
                .rank = i, .depth = (uint16_t)(open + 1), .byte = (uint8_t)text.data[open]};
        }
        vocab->trie[path[open - 1]].ends = true;
        if (open > vocab->deepest) vocab->deepest = open;
        last = text;
    }
    while (open > 0) vocab->trie[path[--open]].skip = vocab->n_nodes;
    vocab->trie[vocab->n_nodes] = (struct trie_node){.skip = vocab->n_nodes, .rank = vocab->n_ranked};
}

/* Tokens that are no text come after the others in `order`. */
static void sort_marks(struct grammar_vocab *vocab, struct sorted *sorted)
{
    for (uint32_t i = 0; i < vocab->n_tokens; i++)
        if (vocab->kinds[i] != GRAMMAR_TOKEN_TEXT)
            sorted[vocab->n_marks++] = (struct sorted){grammar_vocab_text(vocab, i), i};
    qsort(sorted, vocab->n_marks, sizeof *sorted, by_text);
    for (uint32_t i = 0; i < vocab->n_marks; i++) vocab->order[vocab->n_ranked + i] = sorted[i].token;
}

static int make_trie(struct grammar_vocab *vocab)
{
    struct sorted *sorted = calloc((size_t)vocab->n_tokens + 1, sizeof *sorted);
    uint32_t *path = calloc(UINT16_MAX + 1, sizeof *path);
    size_t n_nodes = 0;
    int status = ENGINE_OK;
    if (!sorted || !path) {
        status = error_memory("trie of the vocabulary");
        goto cleanup;
    }
    for (uint32_t i = 0; i < vocab->n_tokens; i++) {
        struct engine_string text = grammar_vocab_text(vocab, i);
        if (vocab->kinds[i] == GRAMMAR_TOKEN_TEXT && text.length > 0 && text.length <= UINT16_MAX)
            sorted[vocab->n_ranked++] = (struct sorted){text, i};
    }
    qsort(sorted, vocab->n_ranked, sizeof *sorted, by_text);
    for (uint32_t i = 0; i < vocab->n_ranked; i++)
        n_nodes += sorted[i].text.length - (i > 0 ? common_length(sorted[i - 1].text, sorted[i].text) : 0);
    vocab->trie = calloc(n_nodes + 1, sizeof *vocab->trie);
    if (!vocab->trie) {
        status = error_memory("trie of the vocabulary");
        goto cleanup;
    }
    lay_out_trie(vocab, sorted, path);
    sort_marks(vocab, sorted);

cleanup:
    free(sorted);
    free(path);
    return status;
}

int grammar_vocab_create(const struct engine_string *texts, const uint8_t *kinds, uint32_t n_tokens,
                         struct grammar_vocab **out)
{
    struct grammar_vocab *vocab = calloc(1, sizeof *vocab);
    if (!vocab) return error_memory("trie of the vocabulary");
    vocab->n_tokens = n_tokens;
    int status = copy_texts(vocab, texts, kinds);
    if (!status) status = make_trie(vocab);
    if (status) {
        grammar_vocab_destroy(vocab);
        return status;
    }
    *out = vocab;
    return ENGINE_OK;
}

void grammar_vocab_destroy(struct grammar_vocab *vocab)
{
    if (!vocab) return;
    free(vocab->kinds);
    free(vocab->bytes);
    free(vocab->offsets);
    free(vocab->trie);
    free(vocab->order);
    free(vocab->ends);
    free(vocab);
}

/* The first token with a text among those of `order` [count], which are sorted by theirs; -1: none. */
static int32_t find_spelling(const struct grammar_vocab *vocab, const uint32_t *order, uint32_t count,
                             struct engine_string wanted)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (compare_texts(grammar_vocab_text(vocab, order[middle]), wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < count && compare_texts(grammar_vocab_text(vocab, order[low]), wanted) == 0;
    return found ? (int32_t)order[low] : -1;
}

int32_t grammar_vocab_find(const struct grammar_vocab *vocab, const char *text, size_t length)
{
    struct engine_string wanted = {text, length};
    int32_t mark = find_spelling(vocab, vocab->order + vocab->n_ranked, vocab->n_marks, wanted);
    return mark >= 0 ? mark : find_spelling(vocab, vocab->order, vocab->n_ranked, wanted);
}

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
static bool mask_walk(struct masks *masks, uint32_t at, uint32_t end, uint32_t base, uint32_t start)
{
    struct machine *machine = masks->machine;
    const struct trie_node *trie = masks->vocab->trie;
    masks->path[0] = start;
    while (at < end) {
        const struct trie_node *node = &trie[at];
        ENGINE_ASSERT(node->depth > base && node->depth <= masks->vocab->deepest && node->skip > at);
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

/* The walk of a text's beginning where the first space is no part of the text: tokens with a space stand for
 * what comes after it, and one of nothing but the space for nothing, which would go on for ever. */
static bool mask_walk_stripped(struct masks *masks, uint32_t start)
{
    const struct trie_node *trie = masks->vocab->trie;
    uint32_t space = 0, n = masks->vocab->n_nodes;
    while (space < n && trie[space].byte != ' ') space = trie[space].skip;
    if (space == n) return mask_walk(masks, 0, n, 0, start);
    return mask_walk(masks, 0, space, 0, start) && mask_walk(masks, trie[space].skip, n, 0, start) &&
           mask_walk(masks, space + 1, trie[space].skip, 1, start);
}

/* Ranks to tokens, by whichever are fewer: those that may follow or those that may not. */
static void mask_by_token(const struct masks *masks, uint64_t *mask)
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
static void mask_add_others(const struct masks *masks, uint32_t not, uint64_t *mask)
{
    for (uint32_t rank = 0; rank < masks->vocab->n_ranked; rank++) {
        uint32_t token = masks->vocab->order[rank];
        if (token != not ) mask[token / 64] |= (uint64_t)1 << (token % 64);
    }
}

/* Tokens that the grammar names: to follow, or not to. */
static void mask_add_tokens(const struct masks *masks, const struct state *state, uint64_t *mask)
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
    if (others) mask_add_others(masks, not, mask);
}

int masks_make(struct masks *masks, uint32_t at, bool strip, uint64_t *mask)
{
    struct machine *machine = masks->machine;
    ENGINE_ASSERT(at != STATE_UNKNOWN && at < machine->n_states);
    memset(masks->ranked, 0, (masks->vocab->n_ranked / 64 + 1) * sizeof *masks->ranked);
    bool walked = strip ? mask_walk_stripped(masks, at) : mask_walk(masks, 0, masks->vocab->n_nodes, 0, at);
    if (!walked) return machine->status;
    mask_by_token(masks, mask);
    const struct state *state = &machine->states[at];
    if (state->tokens) mask_add_tokens(masks, state, mask);
    for (uint32_t i = 0; state->complete && i < masks->vocab->n_ends; i++)
        mask[masks->vocab->ends[i] / 64] |= (uint64_t)1 << (masks->vocab->ends[i] % 64);
    return ENGINE_OK;
}
