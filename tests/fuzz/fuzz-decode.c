/* fuzz-decode.c: fuzzing target: ids to text, in a stream. Input: a byte for the tokenizer, one that is odd
 * where special tokens are spelled, then ids of two bytes, of which FFFF stands for the end of a text. */
#include <stdlib.h>
#include <string.h>

#include "tokenizers.h"

/* What has come out of a decoder since a text began. */
struct stream {
    unsigned char *text;
    bool *ends; /* [length] a part ended before the byte */
    size_t length, capacity;
    /* A special token was among the ids: the space that encode put behind it is dropped, and bytes of
     * characters that the token separated may become adjacent. */
    bool special;
};

static void add(struct stream *stream, struct engine_string part)
{
    size_t length = stream->length + part.length;
    if (length > stream->capacity) {
        stream->capacity = 2 * length;
        stream->text = realloc(stream->text, stream->capacity);
        stream->ends = realloc(stream->ends, stream->capacity * sizeof *stream->ends);
        if (!stream->text || !stream->ends) abort();
    }
    if (!part.length) return;
    memcpy(stream->text + stream->length, part.data, part.length);
    memset(stream->ends + stream->length, 0, part.length * sizeof *stream->ends);
    stream->ends[stream->length] = true;
    stream->length = length;
}

/* The length of the UTF-8 character at `text`, 1 if there is none. */
static size_t character_length(const unsigned char *text, size_t left)
{
    size_t length = *text < 0xC2 || *text > 0xF4 ? 1 : *text < 0xE0 ? 2 : *text < 0xF0 ? 3 : 4;
    if (length > left) return 1;
    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xC0) != 0x80) return 1;
    bool wrong = length > 2 && ((*text == 0xE0 && text[1] < 0xA0) || (*text == 0xED && text[1] > 0x9F) ||
                                (*text == 0xF0 && text[1] < 0x90) || (*text == 0xF4 && text[1] > 0x8F));
    return wrong ? 1 : length;
}

static void expect_whole_characters(struct stream *stream)
{
    for (size_t at = 0, size; at < stream->length; at += size) {
        size = character_length(stream->text + at, stream->length - at);
        for (size_t i = 1; i < size; i++)
            if (stream->ends[at + i] && !stream->special) fuzz_fail("half a character came out");
    }
    stream->length = 0;
    stream->special = false;
}

static void end_text(const struct fuzz_tokenizer *tokenizer, struct engine_decoder *decoder,
                     struct stream *stream)
{
    struct engine_string part = {"", 0};
    if (tokenizer->api->decode_end(decoder, &part)) fuzz_fail("a text did not end");
    add(stream, part);
    expect_whole_characters(stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    const struct fuzz_tokenizer *tokenizer = fuzz_tokenizer(data[0]);
    struct engine_decoder *decoder = NULL;
    struct stream stream = {NULL, NULL, 0, 0, false};
    if (tokenizer->api->decoder_create(tokenizer->tokenizer, data[1] & 1, &decoder)) fuzz_fail("no decoder");
    for (size_t i = 2; i + 1 < size; i += 2) {
        uint32_t id = data[i] | (uint32_t)data[i + 1] << 8;
        struct engine_string part = {"", 0};
        if (id == 0xFFFF) {
            end_text(tokenizer, decoder, &stream);
            continue;
        }
        int status = tokenizer->api->decode(decoder, (int32_t)id, &part);
        if ((status != 0) != (id >= tokenizer->n_tokens)) fuzz_fail("a wrong answer");
        if (!status) add(&stream, part);
        uint32_t attributes = tokenizer->api->attributes(tokenizer->tokenizer, (int32_t)id);
        if (attributes & (ENGINE_TOKEN_CONTROL | ENGINE_TOKEN_USER_DEFINED)) stream.special = true;
    }
    end_text(tokenizer, decoder, &stream);
    tokenizer->api->decoder_destroy(decoder);
    free(stream.text);
    free(stream.ends);
    return 0;
}
