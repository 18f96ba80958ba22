/* words.c: text to ids. A word is looked up after U+2581, which marks the tokens that begin words; a word
 * that is no sequence of tokens is unknown as a whole. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/explain.h"
#include "common/memory.h"
#include "common/utf8.h"
#include "wpm/model.h"

struct scratch {
    char *word; /* [word_capacity] U+2581 and what has been read of a word */
    size_t word_capacity, length;
    int32_t *ids; /* [ids_capacity] those of the word */
    size_t ids_capacity;
    /* For explanations: while `gathers` is set, words are not looked up, only added to the normalized
     * text. */
    bool gathers;
    char *normalized; /* [normalized_capacity] */
    size_t normalized_capacity, n_normalized;
};

int wpm_scratch_create(const struct engine_tokenizer *tokenizer, void **scratch)
{
    (void)tokenizer;
    struct scratch *created = allocate_zeroed(1, sizeof *created);
    if (!created) return fail_memory("tokenizer");
    if (!ARRAY_RESERVE(created->word, created->word_capacity, SPACE_MARK_SIZE)) {
        free(created);
        return fail_memory("tokenizer");
    }
    memcpy(created->word, SPACE_MARK, SPACE_MARK_SIZE);
    created->length = SPACE_MARK_SIZE;
    *scratch = created;
    return ENGINE_OK;
}

void wpm_scratch_destroy(void *scratch)
{
    struct scratch *destroyed = scratch;
    if (!destroyed) return;
    free(destroyed->word);
    free(destroyed->ids);
    free(destroyed->normalized);
    free(destroyed);
}

static int gather_word(struct scratch *scratch)
{
    if (!ARRAY_RESERVE(scratch->normalized, scratch->normalized_capacity,
                       scratch->n_normalized + scratch->length))
        return fail_memory("explanation");
    memcpy(scratch->normalized + scratch->n_normalized, scratch->word, scratch->length);
    scratch->n_normalized += scratch->length;
    scratch->length = SPACE_MARK_SIZE;
    return ENGINE_OK;
}

static void explain_end(const struct engine_tokenizer *tokenizer, const struct scratch *scratch, size_t count,
                        bool known, struct explanation *explanation)
{
    const struct longest *longest = &((const struct wpm_model *)tokenizer->model)->longest;
    explain_word(explanation, scratch->word, scratch->length);
    longest_explain(longest, explanation, scratch->word, scratch->length, scratch->ids, count, known);
    if (!known) explain_token(explanation, scratch->word, scratch->length, tokenizer->vocab.unknown, NAN);
}

static int end_word(const struct engine_tokenizer *tokenizer, struct scratch *scratch, struct output *output)
{
    const struct longest *longest = &((const struct wpm_model *)tokenizer->model)->longest;
    size_t length = scratch->length;
    if (length == SPACE_MARK_SIZE) return ENGINE_OK;
    if (scratch->gathers) return gather_word(scratch);
    if (!ARRAY_RESERVE(scratch->ids, scratch->ids_capacity, length)) return fail_memory("text");
    uint32_t node = TRIE_ROOT;
    size_t count = longest_match(longest, &node, scratch->word, length, scratch->ids);
    count += longest_finish(longest, node, scratch->ids + count);
    bool known = true;
    for (size_t i = 0; i < count; i++) known = known && (uint32_t)scratch->ids[i] < tokenizer->vocab.n_tokens;
    for (size_t i = 0; known && i < count; i++) output_put(output, scratch->ids[i]);
    if (!known) output_put(output, tokenizer->vocab.unknown);
    if (output->explanation) explain_end(tokenizer, scratch, count, known, output->explanation);
    scratch->length = SPACE_MARK_SIZE;
    return ENGINE_OK;
}

static int encode_words(const struct engine_tokenizer *tokenizer, struct scratch *room,
                        struct engine_string text, struct output *output)
{
    const struct wpm_model *model = tokenizer->model;
    room->length = SPACE_MARK_SIZE;
    int status = ENGINE_OK;
    for (size_t at = 0; !status && !output->stopped && at < text.length;) {
        enum wpm_role role;
        char bytes[4];
        size_t n_bytes = 0;
        at += wpm_read(model, text.data + at, text.length - at, &role, bytes, &n_bytes);
        if (role == WPM_GONE) continue;
        if (role != WPM_PART) status = end_word(tokenizer, room, output);
        if (status || role == WPM_SPACE) continue;
        if (!ARRAY_RESERVE(room->word, room->word_capacity, room->length + n_bytes))
            return fail_memory("text");
        memcpy(room->word + room->length, bytes, n_bytes);
        room->length += n_bytes;
        if (role == WPM_ALONE) status = end_word(tokenizer, room, output);
    }
    return status ? status : end_word(tokenizer, room, output);
}

int wpm_encode(const struct engine_tokenizer *tokenizer, void *scratch, struct engine_string text, bool first,
               struct output *output)
{
    (void)first;
    struct scratch *room = scratch;
    if (output->explanation) {
        room->gathers = true;
        room->n_normalized = 0;
        int status = encode_words(tokenizer, room, text, output);
        room->gathers = false;
        if (status) return status;
        explain_text(output->explanation, text, (struct engine_string){room->normalized, room->n_normalized});
    }
    return encode_words(tokenizer, room, text, output);
}
