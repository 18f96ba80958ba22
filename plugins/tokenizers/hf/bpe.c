/* bpe.c: byte-pair encoding from the characters on, see model.h. Symbols are ids. */
#include <stdlib.h>
#include <string.h>

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
        status = model_copy_member(json, "continuing_subword_prefix", &model->prefix, &model->prefix_length);
    if (!status)
        status = model_copy_member(json, "end_of_word_suffix", &model->suffix, &model->suffix_length);
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
        if (!grow(&work->spelled, &work->spelled_capacity, before + length + after, 1))
            return fail_memory("text");
        if (before) memcpy(work->spelled, model->prefix, before);
        memcpy(work->spelled + before, piece.data + at, length);
        if (after) memcpy(work->spelled + before + length, model->suffix, after);
        *spelled = (struct engine_string){work->spelled, before + length + after};
    }
    *id = model_find(model, spelled->data, spelled->length);
    return ENGINE_OK;
}

/* The tokens of a character's bytes, if byte_fallback is on and all exist. */
static bool add_bytes(const struct model *model, struct merge_workspace *merge, struct engine_string text)
{
    if (!model->byte_fallback) return false;
    for (size_t i = 0; i < text.length; i++)
        if (model->bytes[(unsigned char)text.data[i]] < 0) return false;
    for (size_t i = 0; i < text.length; i++)
        merge->initial[merge->n_initial++] = (uint32_t)model->bytes[(unsigned char)text.data[i]];
    return true;
}

/* The characters' tokens. An unknown token waits until a known character, or one that isn't fused with it,
 * follows; tokens of bytes go before it, as in the library. */
static int add_characters(const struct model *model, struct model_workspace *work, struct engine_string piece)
{
    struct merge_workspace *merge = &work->merge;
    size_t extra = model->prefix_length + model->suffix_length;
    bool waiting = false, table = extra == 0;
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
        if (id >= 0) {
            if (waiting) merge->initial[merge->n_initial++] = (uint32_t)model->unknown;
            waiting = false;
            merge->initial[merge->n_initial++] = (uint32_t)id;
        } else if (!add_bytes(model, merge, spelled) && model->unknown != -1) {
            if (model->unknown == UNKNOWN_MISSING) return model_fail_unknown();
            if (waiting && !model->fuse_unknown)
                merge->initial[merge->n_initial++] = (uint32_t)model->unknown;
            waiting = true;
        }
    }
    if (!status && waiting) merge->initial[merge->n_initial++] = (uint32_t)model->unknown;
    return status;
}

int bpe_encode(const struct model *model, struct model_workspace *work, struct engine_string piece,
               struct output *output)
{
    if (model->whole_words) {
        int32_t id = model_find(model, piece.data, piece.length);
        if (id >= 0) {
            output_put(output, id);
            return ENGINE_OK;
        }
    }
    int status = add_characters(model, work, piece);
    if (!status && work->merge.n_initial) status = merge_run(&model->pairs, &work->merge);
    for (size_t i = 0; !status && work->merge.n_initial && i < work->merge.n_tokens; i++)
        output_put(output, (int32_t)work->merge.tokens[i].symbol);
    return status;
}
