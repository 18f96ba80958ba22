/* decoder.c: see decoder.h. */
#include "common/decoder.h"

#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "common/memory.h"
#include "common/utf8.h"

struct engine_decoder {
    const struct engine_tokenizer *tokenizer;
    bool special; /* spell control tokens */
    bool first;   /* the next ordinary token begins a stretch of text: see tokenizer_kind.encode */
    char *text;   /* the text returned last, followed by the waiting bytes */
    size_t capacity;
    size_t out, waiting; /* bytes of each */
    bool mark_first;     /* `first` as it was when the last byte token for 0xE2 came */
};

int decoder_create(const struct engine_tokenizer *tokenizer, int special, struct engine_decoder **decoder)
{
    struct engine_decoder *created = allocate_zeroed(1, sizeof *created);
    if (!created) return fail_memory("decoder");
    created->tokenizer = tokenizer;
    created->special = special != 0;
    created->first = true;
    *decoder = created;
    return ENGINE_OK;
}

void decoder_destroy(struct engine_decoder *decoder)
{
    if (!decoder) return;
    free(decoder->text);
    free(decoder);
}

/* The text of a token that encode finds in texts as it is spelled. A token with a space mark in it can also
 * result from merging spaces, and then does not end a stretch. */
static size_t spell_special(struct engine_decoder *decoder, struct engine_string piece, char *text)
{
    memcpy(text, piece.data, piece.length);
    decoder->first = !memmem(piece.data, piece.length, SPACE_MARK, SPACE_MARK_SIZE);
    return piece.length;
}

/* Writes what a token adds to the text; returns its length. */
static size_t decoder_spell(struct engine_decoder *decoder, int32_t id, char *text)
{
    const struct engine_tokenizer *tokenizer = decoder->tokenizer;
    const struct vocab *vocab = &tokenizer->vocab;
    struct engine_string piece = vocab->pieces[id];
    uint32_t attributes = vocab->attributes[id];
    ENGINE_ASSERT(piece.length > 0);
    if (attributes & ENGINE_TOKEN_CONTROL) {
        size_t length = spell_special(decoder, piece, text);
        return decoder->special ? length : 0;
    }
    if (attributes & ENGINE_TOKEN_USER_DEFINED) return spell_special(decoder, piece, text);

    bool first = decoder->first;
    decoder->first = false;
    if (attributes & ENGINE_TOKEN_UNKNOWN) {
        memcpy(text, piece.data, piece.length);
        return decoder->special ? piece.length : 0;
    }
    if (attributes & ENGINE_TOKEN_BYTE) {
        int byte = vocab_byte(piece);
        *text = byte < 0 ? *piece.data : (char)byte;
        if (*text == SPACE_MARK[0]) decoder->mark_first = first;
        return 1;
    }
    size_t length = tokenizer->kind->spell(tokenizer, id, text);
    ENGINE_ASSERT(length <= piece.length); /* `text` has no more room */
    if (first && vocab->add_space_prefix && length && *text == ' ') memmove(text, text + 1, --length);
    return length;
}

/* A space mark that came as three bytes is a space too: encode writes it this way if a byte before the space
 * claims part of the mark, or if the vocabulary has no token for it. */
static size_t unmark(const struct engine_decoder *decoder, int32_t id, char *text, size_t length)
{
    const struct vocab *vocab = &decoder->tokenizer->vocab;
    if (!decoder->tokenizer->kind->marks_spaces || !(vocab->attributes[id] & ENGINE_TOKEN_BYTE))
        return length;
    if (length < SPACE_MARK_SIZE || memcmp(text + length - SPACE_MARK_SIZE, SPACE_MARK, SPACE_MARK_SIZE) != 0)
        return length;
    length -= SPACE_MARK_SIZE;
    if (!decoder->mark_first || !vocab->add_space_prefix) text[length++] = ' ';
    return length;
}

int decoder_decode(struct engine_decoder *decoder, int32_t id, struct engine_string *text)
{
    struct engine_string piece;
    int status = tokenizer_piece(decoder->tokenizer, id, &piece);
    if (status) return status;
    if (!ARRAY_RESERVE(decoder->text, decoder->capacity, decoder->waiting + piece.length))
        return fail_memory("decoder");
    memmove(decoder->text, decoder->text + decoder->out, decoder->waiting);
    size_t length = decoder->waiting + decoder_spell(decoder, id, decoder->text + decoder->waiting);
    length = unmark(decoder, id, decoder->text, length);
    decoder->waiting = utf8_unfinished(decoder->text, length);
    decoder->out = length - decoder->waiting;
    *text = (struct engine_string){decoder->text, decoder->out};
    return ENGINE_OK;
}

int decoder_end(struct engine_decoder *decoder, struct engine_string *text)
{
    *text = (struct engine_string){decoder->text ? decoder->text + decoder->out : "", decoder->waiting};
    decoder->out = 0;
    decoder->waiting = 0;
    decoder->first = true;
    return ENGINE_OK;
}

size_t decoder_spell_marked(const struct engine_tokenizer *tokenizer, int32_t id, char *text)
{
    struct engine_string piece = tokenizer->vocab.pieces[id];
    size_t length = 0;
    for (size_t i = 0; i < piece.length;) {
        if (piece.length - i >= SPACE_MARK_SIZE && !memcmp(piece.data + i, SPACE_MARK, SPACE_MARK_SIZE)) {
            text[length++] = ' ';
            i += SPACE_MARK_SIZE;
        } else {
            text[length++] = piece.data[i++];
        }
    }
    return length;
}
