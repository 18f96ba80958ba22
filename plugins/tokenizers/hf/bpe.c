/* bpe.c: byte-pair encoding from the characters on, see model.h. Symbols are ids. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/explain.h"
#include "common/memory.h"
#include "hf/characters.h"
#include "hf/model.h"

#define MERGES       "tokenizer.hf.merges"
#define MERGES_CHUNK 3072 /* numbers fetched from the metadata at once */

/* The numbers are left, right, result of each merge. Of merges of the same pair the last one counts. */
static int add_merges(struct model *model, const struct engine_metadata *metadata)
{
    size_t count = 0;
    int status = pairs_create(&model->pairs, true);
    if (status || metadata->get_count(metadata->context, MERGES, &count)) return status;
    if (count % 3 != 0 || count / 3 >= PAIR_NONE)
        return host->fail(ENGINE_ERROR_DATA, MERGES " has %zu numbers", count);
    int64_t numbers[MERGES_CHUNK];
    for (size_t end = count; !status && end > 0;) {
        size_t n = end < MERGES_CHUNK ? end : MERGES_CHUNK;
        if (metadata->get_integers(metadata->context, MERGES, end - n, n, numbers))
            return host->fail(ENGINE_ERROR_DATA, MERGES " is not an array of integers");
        for (size_t i = n; !status && i > 0; i -= 3) {
            const int64_t *merge = numbers + i - 3;
            for (int k = 0; k < 3; k++)
                if (merge[k] < 0 || merge[k] >= model->vocab->n_tokens)
                    return host->fail(ENGINE_ERROR_DATA, MERGES " names token %lld; there are %u",
                                      (long long)merge[k], model->vocab->n_tokens);
            struct pair pair = {(uint32_t)merge[0], (uint32_t)merge[1], (uint32_t)((end - n + i - 3) / 3),
                                (uint32_t)merge[2]};
            status = pairs_add(&model->pairs, pair);
        }
        end -= n;
    }
    return status;
}

int bpe_create(struct model *model, const struct json_at *json, const struct engine_metadata *metadata)
{
    struct json_at dropout = json_member(json, "dropout");
    if (!json_absent(&dropout) && json_number_value(dropout.value) != 0)
        return host->fail(ENGINE_ERROR_UNSUPPORTED, "%s: merges left out at random are not supported",
                          dropout.place);
    int status = json_boolean_member(json, "fuse_unk", false, &model->fuse_unknown);
    if (!status) status = json_boolean_member(json, "ignore_merges", false, &model->whole_words);
    if (!status)
        status =
            json_copy_member(json, "continuing_subword_prefix", "", &model->prefix, &model->prefix_length);
    if (!status)
        status = json_copy_member(json, "end_of_word_suffix", "", &model->suffix, &model->suffix_length);
    for (uint32_t c = 0; c < FIRST_CHARACTERS; c++) {
        char text[4];
        model->characters[c] = model_find(model, text, character_write(c, text));
    }
    return status ? status : add_merges(model, metadata);
}

/* The token of a character at its place in a word, or -1. *spelled is the character as it was looked up. */
static int find_character(const struct model *model, struct model_workspace *work, struct engine_string piece,
                          size_t at, size_t length, struct engine_string *spelled, int32_t *id)
{
    bool first = at == 0, last = at + length == piece.length;
    size_t before = first ? 0 : model->prefix_length, after = last ? model->suffix_length : 0;
    *spelled = (struct engine_string){piece.data + at, length};
    if (before + after) {
        if (!ARRAY_RESERVE(work->spelled, work->spelled_capacity, before + length + after))
            return fail_memory("text");
        if (before) memcpy(work->spelled, model->prefix, before);
        memcpy(work->spelled + before, piece.data + at, length);
        if (after) memcpy(work->spelled + before + length, model->suffix, after);
        *spelled = (struct engine_string){work->spelled, before + length + after};
    }
    *id = model_find(model, spelled->data, spelled->length);
    return ENGINE_OK;
}

/* The word whose characters become symbols. */
struct spelling {
    const struct model *model;
    struct merge_workspace *merge;
    bool waiting; /* an unknown token comes next, for these bytes of the word */
    struct explain_range unknown;
};

/* Adds a symbol, for which there is room, and reports its bytes of the word if somebody asked. */
static int add_symbol(struct merge_workspace *merge, int32_t id, size_t start, size_t end)
{
    merge->initial[merge->n_initial++] = (uint32_t)id;
    if (!merge->explanation) return ENGINE_OK;
    return explain_add_symbol(merge->explanation, (struct explain_range){start, end});
}

static int add_unknown(struct spelling *work)
{
    work->waiting = false;
    return add_symbol(work->merge, work->model->unknown, work->unknown.start, work->unknown.end);
}

static bool has_bytes(const struct model *model, struct engine_string text)
{
    if (!model->byte_fallback) return false;
    for (size_t i = 0; i < text.length; i++)
        if (model->bytes[(unsigned char)text.data[i]] < 0) return false;
    return true;
}

/* The tokens of a character's bytes. `spelled` is the character at start … end of the word, after `before`
 * bytes of prefix. The bytes of prefix and suffix have none of the word; characters for which an unknown
 * token waits, which comes later, count for the first byte. */
static int add_bytes(struct spelling *work, struct engine_string spelled, size_t before, size_t start,
                     size_t end)
{
    int status = ENGINE_OK;
    size_t done = work->waiting ? work->unknown.start : start;
    for (size_t i = 0; !status && i < spelled.length; i++) {
        size_t next = i < before ? start : i - before < end - start ? start + i - before + 1 : end;
        status = add_symbol(work->merge, work->model->bytes[(unsigned char)spelled.data[i]], done, next);
        done = next;
    }
    if (work->waiting) work->unknown = (struct explain_range){end, end};
    return status;
}

/* A character without a token. */
static int add_unknown_character(struct spelling *work, struct engine_string spelled, size_t before,
                                 size_t start, size_t end)
{
    const struct model *model = work->model;
    int status = ENGINE_OK;
    if (has_bytes(model, spelled)) return add_bytes(work, spelled, before, start, end);
    if (model->unknown == -1) return ENGINE_OK; /* it is left out */
    if (model->unknown == UNKNOWN_MISSING) return model_fail_unknown();
    if (work->waiting && !model->fuse_unknown) status = add_unknown(work);
    if (!work->waiting) work->unknown.start = start;
    work->unknown.end = end;
    work->waiting = true;
    return status;
}

/* The characters' tokens. An unknown token waits until a known character, or one that isn't fused with it,
 * follows; tokens of bytes go before it, as in the library. */
static int add_characters(const struct model *model, struct model_workspace *work, struct engine_string piece)
{
    struct merge_workspace *merge = &work->merge;
    struct spelling spelling = {.model = model, .merge = merge};
    size_t extra = model->prefix_length + model->suffix_length;
    bool table = extra == 0;
    merge_clear(merge);
    int status = merge_reserve(merge, piece.length);
    for (size_t at = 0, length; !status && at < piece.length; at += length) {
        uint32_t character;
        int32_t id = -1;
        struct engine_string spelled = {NULL, 0};
        length = unicode_read(piece.data + at, piece.length - at, &character);
        if (table && character < FIRST_CHARACTERS) {
            id = model->characters[character];
            spelled = (struct engine_string){piece.data + at, length};
        } else {
            status = find_character(model, work, piece, at, length, &spelled, &id);
            if (!status && extra) status = merge_reserve(merge, piece.length + extra + 1);
            if (status) break;
        }
        if (id < 0) {
            size_t before = at ? model->prefix_length : 0;
            status = add_unknown_character(&spelling, spelled, before, at, at + length);
        } else {
            if (spelling.waiting) status = add_unknown(&spelling);
            if (!status) status = add_symbol(merge, id, at, at + length);
        }
    }
    if (!status && spelling.waiting) status = add_unknown(&spelling);
    return status;
}

static int32_t id_of(const struct engine_tokenizer *tokenizer, uint32_t symbol)
{
    (void)tokenizer;
    return (int32_t)symbol;
}

/* Reports the tokens with their bytes, and those that were left out. */
static void explain_tokens(struct explanation *explanation, const struct merge_workspace *merge,
                           struct engine_string piece)
{
    size_t done = 0, n = merge->n_initial ? merge->n_tokens : 0;
    for (size_t i = 0; i < n; i++) {
        size_t first = merge->tokens[i].start;
        size_t next = i + 1 < n ? merge->tokens[i + 1].start : merge->n_initial;
        struct explain_range at = explain_places(explanation, first, next);
        if (at.start > done) explain_token(explanation, piece.data + done, at.start - done, -1, NAN);
        explain_token(explanation, piece.data + at.start, at.end - at.start, (int32_t)merge->tokens[i].symbol,
                      NAN);
        done = at.end;
    }
    if (done < piece.length) explain_token(explanation, piece.data + done, piece.length - done, -1, NAN);
}

int bpe_encode(const struct model *model, struct model_workspace *work, struct engine_string piece,
               struct output *output)
{
    struct merge_workspace *merge = &work->merge;
    if (model->whole_words) {
        int32_t id = model_find(model, piece.data, piece.length);
        if (id >= 0) {
            model_put(output, piece, id, NAN);
            return ENGINE_OK;
        }
    }
    merge->explanation = output->explanation;
    if (merge->explanation) explain_run(merge->explanation, piece.data, id_of);
    int status = add_characters(model, work, piece);
    if (!status && merge->n_initial) status = merge_run(&model->pairs, merge);
    for (size_t i = 0; !status && merge->n_initial && i < merge->n_tokens; i++)
        output_put(output, (int32_t)merge->tokens[i].symbol);
    if (!status && output->explanation) explain_tokens(output->explanation, merge, piece);
    return status;
}
