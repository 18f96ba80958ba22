/* characters.c: text to ids for vocabularies that are not byte-level. Words are whole lines, or begin at
 * spaces; they are merged from their characters on. */
#include <math.h>
#include <string.h>

#include "bpe/model.h"
#include "bpe/pretokenizers.h"
#include "common/explain.h"
#include "common/memory.h"
#include "common/unicode.h"
#include "common/utf8.h"

/* Initial symbols are given room in steps of this many. */
#define ROOM 4096

/* Writes the text as the vocabulary spells it: U+2581 for a space, and with PRE_MARKED_WORDS also before each
 * line that doesn't begin with one. */
static int spell_text(struct bpe_scratch *scratch, struct engine_string text, bool mark_lines, size_t *length)
{
    size_t n_marks = 1;
    for (size_t i = 0; i < text.length; i++)
        n_marks += text.data[i] == ' ' || (mark_lines && text.data[i] == '\n');
    if (n_marks > (SIZE_MAX - text.length) / SPACE_MARK_SIZE ||
        !ARRAY_RESERVE(scratch->text, scratch->text_capacity, text.length + n_marks * SPACE_MARK_SIZE))
        return fail_memory("text");
    char *to = scratch->text;
    for (size_t i = 0; i < text.length; i++) {
        char c = text.data[i];
        bool line = mark_lines && c != '\n' && (i == 0 || text.data[i - 1] == '\n');
        bool marked =
            text.length - i >= SPACE_MARK_SIZE && !memcmp(text.data + i, SPACE_MARK, SPACE_MARK_SIZE);
        if (c == ' ' || (line && !marked)) {
            memcpy(to, SPACE_MARK, SPACE_MARK_SIZE);
            to += SPACE_MARK_SIZE;
        }
        if (c != ' ') *to++ = c;
    }
    *length = (size_t)(to - scratch->text);
    return ENGINE_OK;
}

static void put_token(struct output *output, int32_t id, const char *text, size_t length)
{
    output_put(output, id);
    if (output->explanation) explain_token(output->explanation, text, length, id, NAN);
}

static void put_bytes(const struct engine_tokenizer *tokenizer, const char *bytes, size_t count,
                      struct output *output)
{
    const struct bpe_model *model = tokenizer->model;
    for (size_t i = 0; i < count; i++) {
        int32_t id = model->byte_tokens[(unsigned char)bytes[i]];
        if (id >= 0) output_put(output, id);
        if (output->explanation) explain_token(output->explanation, bytes + i, 1, id, NAN);
    }
}

static size_t character_size(const char *text, size_t left)
{
    uint32_t character;
    return unicode_read(text, left, &character);
}

/* Merges the initial symbols of the characters from `text` on. */
static int put_merged(const struct engine_tokenizer *tokenizer, struct merge_workspace *merge,
                      const char *text, size_t length, struct output *output)
{
    const struct bpe_model *model = tokenizer->model;
    int status = ENGINE_OK;
    if (output->explanation)
        status = explain_characters(output->explanation, text, length, character_size, bpe_id_of, false);
    if (!status) status = merge_run(&model->pairs, merge);
    if (status) return status;
    size_t at = 0;
    for (size_t i = 0; i < merge->n_tokens; i++) {
        size_t begin = at, last = i + 1 < merge->n_tokens ? merge->tokens[i + 1].start : merge->n_initial;
        for (size_t j = merge->tokens[i].start; j < last; j++) at += character_size(text + at, length - at);
        int32_t id = model->tokens[merge->tokens[i].symbol];
        if (id >= 0)
            put_token(output, id, text + begin, at - begin);
        else
            put_bytes(tokenizer, text + begin, at - begin, output);
    }
    merge_clear(merge);
    return ENGINE_OK;
}

static int put_word(const struct engine_tokenizer *tokenizer, struct merge_workspace *merge, const char *word,
                    size_t length, struct output *output)
{
    const struct bpe_model *model = tokenizer->model;
    if (output->explanation) explain_word(output->explanation, word, length);
    uint32_t whole = (model->flags & PRE_WHOLE_BREAKS) && *word == '\n'
                         ? trie_find(&model->symbols, word, length)
                         : TRIE_NONE;
    if (whole != TRIE_NONE && model->tokens[whole] >= 0) {
        put_token(output, model->tokens[whole], word, length);
        return ENGINE_OK;
    }
    size_t begin = 0, room = 0;
    int status = ENGINE_OK;
    merge_clear(merge);
    for (size_t at = 0, size; !status && at < length; at += size) {
        uint32_t character;
        size = unicode_read(word + at, length - at, &character);
        uint32_t symbol = trie_find(&model->symbols, word + at, size);
        if (symbol == TRIE_NONE) { /* nothing merges with it */
            status = put_merged(tokenizer, merge, word + begin, at - begin, output);
            put_bytes(tokenizer, word + at, size, output);
            begin = at + size;
            room = 0;
            continue;
        }
        if (!room) status = merge_reserve(merge, room = ROOM);
        if (!status) merge->initial[merge->n_initial++] = symbol;
        room--;
    }
    return status ? status : put_merged(tokenizer, merge, word + begin, length - begin, output);
}

/* The end of the word that begins at `at`: a line, a run of line breaks, or, with PRE_MARKED_WORDS, the text
 * before the next space. */
static size_t word_end(const char *text, size_t length, size_t at, bool marked_words)
{
    bool is_break = text[at] == '\n';
    for (at++; at < length && (text[at] == '\n') == is_break; at++) {
        if (marked_words && length - at >= SPACE_MARK_SIZE && !memcmp(text + at, SPACE_MARK, SPACE_MARK_SIZE))
            break;
    }
    return at;
}

int bpe_encode_characters(const struct engine_tokenizer *tokenizer, struct bpe_scratch *scratch,
                          struct engine_string text, struct output *output)
{
    const struct bpe_model *model = tokenizer->model;
    bool marked_words = (model->flags & PRE_MARKED_WORDS) != 0;
    size_t length = 0;
    int status = spell_text(scratch, text, marked_words, &length);
    if (!status && output->explanation)
        explain_text(output->explanation, text, (struct engine_string){scratch->text, length});
    for (size_t at = 0, end; !status && !output->stopped && at < length; at = end) {
        end = word_end(scratch->text, length, at, marked_words);
        status = put_word(tokenizer, &scratch->merge, scratch->text + at, end - at, output);
    }
    return status ? status : output->stopped;
}
