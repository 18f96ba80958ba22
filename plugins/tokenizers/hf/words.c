/* words.c: what all models share, and those that look up words: WordLevel and WordPiece. See model.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/explain.h"
#include "common/memory.h"
#include "common/unicode.h"
#include "hf/model.h"

int32_t model_find(const struct model *model, const char *text, size_t length)
{
    int32_t id = vocab_find(model->vocab, text, length);
    return id >= 0 && model->outside[id] ? -1 : id;
}

/* The token that "unk_token" names. */
static int find_unknown(struct model *model, const struct json_at *json, const char *preset)
{
    struct engine_string name = {"", 0};
    struct json_at member = json_member(json, "unk_token");
    model->unknown = -1;
    if (json_absent(&member) && !preset) return ENGINE_OK;
    int status = json_string_member(json, "unk_token", preset, &name);
    if (status) return status;
    int32_t id = model_find(model, name.data, name.length);
    model->unknown = id < 0 ? UNKNOWN_MISSING : id;
    return ENGINE_OK;
}

int model_create(struct model *model, const struct json_at *json, const struct vocab *vocab, uint8_t *outside,
                 const struct engine_metadata *metadata)
{
    model->vocab = vocab;
    model->outside = outside;
    if (!json_is_object(json->value)) return json_wrong(json, "an object");
    for (unsigned byte = 0; byte < 256; byte++) {
        static const char digits[] = "0123456789ABCDEF";
        char name[6] = {'<', '0', 'x', digits[byte >> 4], digits[byte & 15], '>'};
        model->bytes[byte] = model_find(model, name, sizeof name);
    }
    int status = json_boolean_member(json, "byte_fallback", false, &model->byte_fallback);
    if (status) return status;
    if (json_is(json, "BPE")) {
        model->kind = MODEL_BPE;
        status = find_unknown(model, json, NULL);
        return status ? status : bpe_create(model, json, metadata);
    }
    if (json_is(json, "Unigram")) {
        model->kind = MODEL_UNIGRAM;
        return unigram_create(model, json, metadata);
    }
    if (json_is(json, "WordPiece")) {
        model->kind = MODEL_WORD_PIECE;
        status = find_unknown(model, json, "[UNK]");
        return status ? status : word_piece_create(model, json);
    }
    if (json_is(json, "WordLevel")) {
        model->kind = MODEL_WORD_LEVEL;
        return find_unknown(model, json, "<unk>");
    }
    return json_unknown(json, "model");
}

void model_destroy(struct model *model)
{
    pairs_destroy(&model->pairs);
    free(model->outside);
    free(model->prefix);
    free(model->suffix);
    free(model->scores);
    memset(model, 0, sizeof *model);
}

void model_workspace_free(struct model_workspace *workspace)
{
    merge_workspace_free(&workspace->merge);
    free(workspace->spelled);
    free(workspace->nodes);
    free(workspace->ends);
    memset(workspace, 0, sizeof *workspace);
}

void model_put(struct output *output, struct engine_string text, int32_t id, double sum)
{
    output_put(output, id);
    if (output->explanation) explain_token(output->explanation, text.data, text.length, id, sum);
}

bool model_put_bytes(const struct model *model, struct engine_string text, double sum, struct output *output)
{
    if (!model->byte_fallback) return false;
    for (size_t i = 0; i < text.length; i++)
        if (model->bytes[(unsigned char)text.data[i]] < 0) return false;
    for (size_t i = 0; i < text.length; i++)
        model_put(output, (struct engine_string){text.data + i, 1}, model->bytes[(unsigned char)text.data[i]],
                  sum);
    return true;
}

int model_fail_unknown(void)
{
    return host->fail(ENGINE_ERROR_DATA,
                      "the text has something that is not in the vocabulary, and neither is "
                      "the unknown token that tokenizer.json names");
}

static int put_unknown(const struct model *model, struct engine_string piece, struct output *output)
{
    if (model->unknown < 0) return model_fail_unknown();
    model_put(output, piece, model->unknown, NAN);
    return ENGINE_OK;
}

/* ---- WordPiece ---- */

int word_piece_create(struct model *model, const struct json_at *json)
{
    int64_t most = 100;
    struct json_at prefix = json_member(json, "continuing_subword_prefix");
    int status = json_integer_member(json, "max_input_chars_per_word", 100, &most);
    model->most_characters = most < 0 ? 0 : (size_t)most;
    const char *text = json_absent(&prefix) ? "##" : json_string_value(prefix.value);
    size_t length = json_absent(&prefix) ? 2 : json_string_length(prefix.value);
    if (!text) return json_wrong(&prefix, "a string");
    model->continued = TRIE_ROOT;
    for (size_t i = 0; i < length && model->continued != TRIE_NONE; i++)
        model->continued = trie_step(&model->vocab->ids, model->continued, (unsigned char)text[i]);
    return status;
}

/* The longest token that the text begins with, whose part in the trie begins at `node`. All that it begins
 * with are reported to `explanation`, unless that is NULL. */
static int32_t longest(const struct model *model, struct explanation *explanation, uint32_t node,
                       const char *text, size_t length, size_t *taken)
{
    const struct trie *trie = &model->vocab->ids;
    int32_t found = -1;
    *taken = 0;
    for (size_t i = 0; i < length && node != TRIE_NONE; i++) {
        node = trie_step(trie, node, (unsigned char)text[i]);
        if (node == TRIE_NONE) break;
        uint32_t id = trie->values[node];
        if (id == TRIE_NONE || model->outside[id]) continue;
        found = (int32_t)id;
        *taken = i + 1;
        if (explanation) explain_candidate(explanation, text, i + 1, found, NAN, NAN);
    }
    return found;
}

/* Composes a word of the longest tokens, and puts them if `put`. Returns whether that works. */
static bool compose(const struct model *model, struct engine_string piece, bool put, struct output *output,
                    struct explanation *explanation)
{
    for (size_t at = 0, taken; at < piece.length; at += taken) {
        uint32_t node = at ? model->continued : TRIE_ROOT;
        int32_t id = longest(model, explanation, node, piece.data + at, piece.length - at, &taken);
        if (id < 0) return false;
        if (put) model_put(output, (struct engine_string){piece.data + at, taken}, id, NAN);
    }
    return true;
}

int word_piece_encode(const struct model *model, struct engine_string piece, struct output *output)
{
    size_t n_characters = 0;
    for (size_t at = 0; at < piece.length && n_characters <= model->most_characters; n_characters++) {
        uint32_t character;
        at += unicode_read(piece.data + at, piece.length - at, &character);
    }
    if (n_characters > model->most_characters) return put_unknown(model, piece, output);
    bool known = compose(model, piece, false, output, NULL);
    if (known || output->explanation) compose(model, piece, known, output, output->explanation);
    return known ? ENGINE_OK : put_unknown(model, piece, output);
}

int model_encode(const struct model *model, struct model_workspace *workspace, struct engine_string piece,
                 struct output *output)
{
    switch (model->kind) {
    case MODEL_BPE: return bpe_encode(model, workspace, piece, output);
    case MODEL_UNIGRAM: return unigram_encode(model, workspace, piece, output);
    case MODEL_WORD_PIECE: return word_piece_encode(model, piece, output);
    case MODEL_WORD_LEVEL: break;
    }
    int32_t id = model_find(model, piece.data, piece.length);
    if (id < 0) return put_unknown(model, piece, output);
    model_put(output, piece, id, NAN);
    return ENGINE_OK;
}
