/* viterbi.c: the likeliest way to put a text together from tokens (Kudo, "Subword Regularization", arXiv
 * 1804.10959): for each place in the text the best sum of scores of tokens up to there (Viterbi). Of equal sums the
 * one whose last token is longest counts.
 *
 * Where no token reaches across a character's beginning, every way leads through that place. What is in front of it
 * is then written out and forgotten; the sum is kept, so that nothing is rounded otherwise than in one go. */
#include <float.h>
#include <math.h>

#include "common/memory.h"
#include "common/utf8.h"
#include "ugm/model.h"

/* Bytes that are gathered at least before they are written out. */
#define STRETCH 256

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
    bool unknown = token->id == work->tokenizer->vocab.unknown;
    if (unknown && model->has_bytes) {
        for (uint32_t i = 0; i < token->length; i++)
            output_put(work->output, model->bytes[(unsigned char)text[i]]);
    } else if (!unknown || !work->last_unknown) {
        output_put(work->output, token->id);
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
static struct ugm_best find_best(const struct viterbi *work, uint32_t node, size_t end, size_t size)
{
    const struct ugm_model *model = work->tokenizer->model;
    const struct ugm_best *best = work->scratch->best;
    struct ugm_best champion = {-DBL_MAX, work->tokenizer->vocab.unknown, (uint32_t)size};
    bool single = false; /* the character itself is a token */
    for (uint32_t at = model->nodes[node].id >= 0 ? node : model->nodes[node].shorter; at != TRIE_ROOT;
         at = model->nodes[at].shorter) {
        const struct ugm_node *token = &model->nodes[at];
        double score = best[end - token->length].score + token->score;
        if (score > champion.score) champion = (struct ugm_best){score, token->id, token->length};
        single = single || token->length == size;
    }
    double score = best[end - size].score + model->unknown_score;
    if (!single && score > champion.score)
        champion = (struct ugm_best){score, work->tokenizer->vocab.unknown, (uint32_t)size};
    return champion;
}

static uint32_t step(const struct ugm_model *model, uint32_t node, unsigned char byte)
{
    while (node != TRIE_ROOT) {
        uint32_t child = trie_step(&model->trie, node, byte);
        if (child != TRIE_NONE) return child;
        node = model->nodes[node].suffix;
    }
    return model->trie.first[byte] == TRIE_NONE ? TRIE_ROOT : model->trie.first[byte];
}

int ugm_encode(const struct engine_tokenizer *tokenizer, void *scratch, struct engine_string text, bool first,
               struct output *output)
{
    (void)first;
    const struct ugm_model *model = tokenizer->model;
    struct ugm_scratch *room = scratch;
    size_t length = 0, place = 0;
    int status = ugm_normalize(tokenizer, text, room, &length);
    if (status) return status;
    if (!grow(&room->best, &room->best_capacity, STRETCH, sizeof *room->best)) return fail_memory("text");

    struct viterbi work = {tokenizer, room, output, room->text, false};
    room->best[0] = (struct ugm_best){0, -1, 0};
    uint32_t node = TRIE_ROOT;
    for (size_t at = 0, size; at < length && !output->stopped; at += size) {
        size = utf8_length_within((unsigned char)room->text[at], length - at);
        for (size_t i = 0; i < size; i++) node = step(model, node, (unsigned char)room->text[at + i]);
        if (place >= STRETCH && model->nodes[node].length <= size) {
            write_out(&work, place);
            place = 0;
        }
        if (place + size >= room->best_capacity &&
            !grow(&room->best, &room->best_capacity, place + size + 1, sizeof *room->best))
            return fail_memory("text");
        /* No way leads to the inside of a character. */
        for (size_t i = 1; i < size; i++) room->best[place + i].score = -INFINITY;
        place += size;
        room->best[place] = find_best(&work, node, place, size);
    }
    if (length) write_out(&work, place);
    return ENGINE_OK;
}
