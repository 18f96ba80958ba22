/* automaton.c: makes the automaton of a vocabulary. See model.h. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/utf8.h"
#include "ugm/model.h"

/* A character that is no token is this much less likely than the least likely token. SentencePiece's
 * constant. */
#define UNKNOWN_PENALTY 10.0f

/* Special and byte tokens are not looked for in texts. */
static bool is_text(const struct vocab *vocab, uint32_t id)
{
    const uint32_t kinds = VOCAB_NORMAL | ENGINE_TOKEN_USER_DEFINED | ENGINE_TOKEN_UNUSED;
    return vocab->attributes[id] & kinds;
}

static int add_tokens(const struct vocab *vocab, struct ugm_model *model)
{
    size_t bytes = 0;
    for (uint32_t id = 0; id < vocab->n_tokens; id++) bytes += vocab->pieces[id].length;
    int status = trie_create(&model->trie, bytes);
    float least = FLT_MAX;
    for (uint32_t id = 0; !status && id < vocab->n_tokens; id++) {
        if (!is_text(vocab, id)) continue;
        struct engine_string piece = vocab->pieces[id];
        float score = vocab->scores[id];
        if (isinf(score)) return host->fail(ENGINE_ERROR_DATA, "the score of token %u is infinite", id);
        if ((vocab->attributes[id] & VOCAB_NORMAL) && score < least) least = score;
        status = trie_insert(&model->trie, piece.data, piece.length, false, id, NULL);
    }
    model->unknown_score = least - UNKNOWN_PENALTY;
    return status;
}

/* What adding up scores needs to know. */
struct score_range {
    double most; /* the greatest size of any */
    int bits;    /* binary places after the point that all of them need */
};

static void widen(struct score_range *range, double score)
{
    int bits = 0;
    if (fabs(score) > range->most) range->most = fabs(score);
    for (; bits < 64 && score != floor(score); bits++) score *= 2;
    if (bits > range->bits) range->bits = bits;
}

/* Sums of less than 2^(53 - bits) are exact in double precision. Each byte adds one score at most. */
static size_t longest_by_words(const struct vocab *vocab, const struct ugm_model *model)
{
    struct score_range range = {1, 0};
    widen(&range, model->unknown_score);
    for (uint32_t id = 0; id < vocab->n_tokens; id++) {
        struct engine_string piece = vocab->pieces[id];
        if (!is_text(vocab, id)) continue;
        if (piece.length > 1 && memmem(piece.data + 1, piece.length - 1, SPACE_MARK, SPACE_MARK_SIZE))
            return 0;
        widen(&range, vocab->scores[id]);
    }
    double longest = ldexp(1, 53 - range.bits) / range.most;
    return longest < 0x1p40 ? (size_t)longest : (size_t)1 << 40;
}

/* A node's suffix is found where its parent's suffix, or that one's, and so on, continues with the same byte.
 * The suffixes of all nodes closer to the root are known. */
static void link_node(const struct vocab *vocab, struct ugm_model *model, const struct trie_edge *edge)
{
    struct ugm_node *node = &model->nodes[edge->child];
    uint32_t id = model->trie.values[edge->child];
    node->length = edge->depth;
    node->id = -1;
    if (id != TRIE_NONE) {
        node->id = (int32_t)id;
        bool user_defined = vocab->attributes[id] & ENGINE_TOKEN_USER_DEFINED;
        node->score = user_defined ? 0 : (double)vocab->scores[id];
    }
    node->suffix = TRIE_ROOT;
    for (uint32_t at = edge->parent; at != TRIE_ROOT;) {
        at = model->nodes[at].suffix;
        uint32_t next = trie_step(&model->trie, at, edge->byte);
        if (next != TRIE_NONE) {
            node->suffix = next;
            break;
        }
    }
    const struct ugm_node *suffix = &model->nodes[node->suffix];
    node->shorter = suffix->id >= 0 ? node->suffix : suffix->shorter;
}

int ugm_build(const struct vocab *vocab, struct ugm_model *model)
{
    int status = add_tokens(vocab, model);
    if (status) return status;
    model->nodes = allocate_zeroed(model->trie.n_nodes, sizeof *model->nodes);
    if (!model->nodes) return fail_memory("vocabulary");
    model->nodes[TRIE_ROOT].id = -1;
    struct trie_edge *edges = NULL; /* [n_nodes - 1] */
    status = trie_edges(&model->trie, &edges);
    for (size_t i = 0; !status && i < model->trie.n_nodes - 1; i++) link_node(vocab, model, &edges[i]);
    free(edges);
    model->longest_by_words = longest_by_words(vocab, model);
    return status;
}
