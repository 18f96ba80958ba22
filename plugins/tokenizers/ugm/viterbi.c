/* viterbi.c: the most likely way to put a text together from tokens (Kudo, "Subword Regularization", arXiv
 * 1804.10959): for each place in the text the best sum of scores of tokens up to there (Viterbi). Of equal
 * sums the one whose last token is longest counts.
 *
 * Where no token reaches across a character's beginning, every way leads through that place. What is in front
 * of it is then written out and forgotten; the sum is kept, so that nothing is rounded otherwise than in one
 * go. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "common/cache.h"
#include "common/explain.h"
#include "common/memory.h"
#include "common/utf8.h"
#include "ugm/model.h"

/* Bytes that are gathered at least before they are written out. */
#define STRETCH 256

#define INLINE static inline __attribute__((always_inline))

/* The best way to a place. */
struct ugm_best {
    double score;
    int32_t id;      /* the last token of it */
    uint32_t length; /* and its bytes */
};

struct viterbi {
    const struct engine_tokenizer *tokenizer;
    struct ugm_scratch *scratch;
    struct output *output;
    const char *text;  /* normalized, from the place of best[0] on */
    bool last_unknown; /* the last token that was written is the unknown one */
};

static void put_token(struct viterbi *work, const char *text, const struct ugm_best *token)
{
    const struct ugm_model *model = work->tokenizer->model;
    struct explanation *explanation = work->output->explanation;
    bool unknown = token->id == work->tokenizer->vocab.unknown;
    if (unknown && model->has_bytes) {
        for (uint32_t i = 0; i < token->length; i++) {
            int32_t id = model->bytes[(unsigned char)text[i]];
            output_put(work->output, id);
            if (explanation) explain_token(explanation, text + i, 1, id, token->score);
        }
    } else if (!unknown || !work->last_unknown) {
        output_put(work->output, token->id);
        if (explanation) explain_token(explanation, text, token->length, token->id, token->score);
    } else if (explanation) {
        explain_token(explanation, text, token->length, -1, token->score);
    }
    work->last_unknown = unknown;
}

/* Writes the best way to place `end`, which becomes place 0. */
static void write_out(struct viterbi *work, size_t end)
{
    struct ugm_best *best = work->scratch->best;
    double score = best[end].score;
    struct ugm_best token = best[end]; /* from the end to the beginning, each token goes where it starts … */
    for (size_t at = end; at > 0;) {
        at -= token.length;
        struct ugm_best previous = best[at];
        best[at] = token;
        token = previous;
    }
    for (size_t at = 0; at < end; at += best[at].length) /* … and out in order */
        put_token(work, work->text + at, &best[at]);
    work->text += end;
    best[0] = (struct ugm_best){score, -1, 0};
}

/* The best way to place `end`, where a character of `size` bytes ends. */
INLINE struct ugm_best find_best(const struct viterbi *work, struct explanation *explanation, uint32_t node,
                                 size_t end, size_t size)
{
    const struct ugm_model *model = work->tokenizer->model;
    const struct ugm_best *best = work->scratch->best;
    const char *text = work->text + end; /* candidates end there */
    struct ugm_best champion = {-DBL_MAX, work->tokenizer->vocab.unknown, (uint32_t)size};
    bool single = false; /* the character itself is a token */
    for (uint32_t at = model->nodes[node].id >= 0 ? node : model->nodes[node].shorter; at != TRIE_ROOT;
         at = model->nodes[at].shorter) {
        const struct ugm_node *token = &model->nodes[at];
        double score = best[end - token->length].score + token->score;
        if (explanation && !isinf(score))
            explain_candidate(explanation, text - token->length, token->length, token->id, token->score,
                              score);
        if (score > champion.score) champion = (struct ugm_best){score, token->id, token->length};
        single = single || token->length == size;
    }
    double score = best[end - size].score + model->unknown_score;
    if (explanation && !single)
        explain_candidate(explanation, text - size, size, work->tokenizer->vocab.unknown,
                          model->unknown_score, score);
    if (!single && score > champion.score)
        champion = (struct ugm_best){score, work->tokenizer->vocab.unknown, (uint32_t)size};
    if (explanation)
        explain_best(explanation, text - champion.length, champion.length, champion.id, champion.score);
    return champion;
}

static uint32_t viterbi_step(const struct ugm_model *model, uint32_t node, unsigned char byte)
{
    while (node != TRIE_ROOT) {
        uint32_t child = trie_step(&model->trie, node, byte);
        if (child != TRIE_NONE) return child;
        node = model->nodes[node].suffix;
    }
    return model->trie.first[byte] == TRIE_NONE ? TRIE_ROOT : model->trie.first[byte];
}

INLINE int find_tokens_with(struct viterbi *work, struct explanation *explanation, size_t length)
{
    const struct ugm_model *model = work->tokenizer->model;
    struct ugm_scratch *room = work->scratch;
    const char *text = work->text;
    size_t place = 0;
    uint32_t node = TRIE_ROOT;
    room->best[0] = (struct ugm_best){0, -1, 0};
    for (size_t at = 0, size; at < length && !work->output->stopped; at += size) {
        size = utf8_length_within((unsigned char)text[at], length - at);
        for (size_t i = 0; i < size; i++) node = viterbi_step(model, node, (unsigned char)text[at + i]);
        if (place >= STRETCH && model->nodes[node].length <= size) {
            write_out(work, place);
            place = 0;
        }
        if (place + size >= room->best_capacity &&
            !ARRAY_RESERVE(room->best, room->best_capacity, place + size + 1))
            return fail_memory("text");
        /* No way leads to the inside of a character. */
        for (size_t i = 1; i < size; i++) room->best[place + i].score = -INFINITY;
        place += size;
        room->best[place] = find_best(work, explanation, node, place, size);
    }
    if (length) write_out(work, place);
    return ENGINE_OK;
}

/* Writes out the tokens of text[length], at whose start `work` is. The usual case is compiled by itself:
 * calls in its innermost loop would slow it down. */
static int find_tokens(struct viterbi *work, size_t length)
{
    if (!work->output->explanation) return find_tokens_with(work, NULL, length);
    return find_tokens_with(work, work->output->explanation, length);
}

/* Writes the tokens of a word out, from the cache if they are there. `readable`: bytes of the text that are
 * left. */
static int put_word(struct viterbi *work, size_t length, size_t readable)
{
    struct output *output = work->output;
    if (output->explanation) explain_word(output->explanation, work->text, length);
    if (length > CACHE_WORD_SIZE || output->explanation) return find_tokens(work, length);
    if (OUTPUT_SIZE - output->count < (size_t)2 * CACHE_WORD_SIZE) output_flush(output);
    if (output->stopped) return ENGINE_OK;
    struct cache_key key = cache_key(work->text, length, readable);
    struct cache_slot *slot = cache_slot(&work->scratch->cache, &key);
    bool last_unknown = work->last_unknown;
    int32_t *ids = output->ids + output->count;
    size_t count;
    if (cache_holds(slot, &key)) {
        memcpy(ids, slot->ids, sizeof slot->ids);
        count = slot->count;
        work->text += length;
    } else {
        size_t before = output->count;
        work->last_unknown = false;
        int status = find_tokens(work, length);
        if (status) return status;
        count = output->count - before;
        output->count = before;
        if (count <= CACHE_IDS) {
            slot->key = key;
            slot->count = (uint32_t)count;
            memcpy(slot->ids, ids, count * sizeof *ids);
        }
    }
    /* Unknown characters in a row are one token, also across words. */
    int32_t unknown = work->tokenizer->vocab.unknown;
    work->last_unknown = count ? ids[count - 1] == unknown : last_unknown;
    if (last_unknown && count && ids[0] == unknown) memmove(ids, ids + 1, --count * sizeof *ids);
    output->count += count;
    return ENGINE_OK;
}

/* A word ends where a character U+2581 begins. */
static size_t word_length(const char *text, size_t length)
{
    size_t at = 0;
    do at += utf8_length_within((unsigned char)text[at], length - at);
    while (at < length && !(length - at >= SPACE_MARK_SIZE && text[at] == SPACE_MARK[0] &&
                            memcmp(text + at, SPACE_MARK, SPACE_MARK_SIZE) == 0));
    return at;
}

int ugm_encode(const struct engine_tokenizer *tokenizer, void *scratch, struct engine_string text, bool first,
               struct output *output)
{
    (void)first;
    const struct ugm_model *model = tokenizer->model;
    struct ugm_scratch *room = scratch;
    size_t length = 0;
    int status = ugm_normalize(tokenizer, text, room, &length);
    if (status) return status;
    if (!ARRAY_RESERVE(room->best, room->best_capacity, STRETCH)) return fail_memory("text");

    struct viterbi work = {tokenizer, room, output, room->text, false};
    if (output->explanation)
        explain_text(output->explanation, text, (struct engine_string){room->text, length});
    if (length > model->longest_by_words) {
        if (output->explanation) explain_word(output->explanation, room->text, length);
        return find_tokens(&work, length);
    }
    for (size_t at = 0, size; !status && at < length && !output->stopped; at += size) {
        size = word_length(room->text + at, length - at);
        status = put_word(&work, size, length - at);
    }
    return status;
}
