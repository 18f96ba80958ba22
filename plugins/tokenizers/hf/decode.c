/* decode.c: ids to text, by the steps of tokenizer.json's decoder. See pipeline.h.
 *
 * Each token's text goes through the steps; those after Fuse or ByteLevel see the text as one, of which only
 * the beginning needs to be known here. Characters wait until they are complete. */
#include <stdlib.h>
#include <string.h>

#include "common/byte-level.h"
#include "common/memory.h"
#include "common/utf8.h"
#include "hf/pipeline.h"

/* ---- From JSON ---- */

struct reading {
    struct decoding *decoding;
    bool fused;
};

static int copy_content(struct decoding_step *step, const struct json_at *json, const char *name)
{
    return json_copy_member(json, name, NULL, &step->content, &step->content_length);
}

static int read_strip(struct decoding_step *step, const struct json_at *json)
{
    int64_t start = 0, stop = 0;
    int status = json_character_member(json, "content", &step->character);
    if (!status) status = json_integer_member(json, "start", 0, &start);
    if (!status) status = json_integer_member(json, "stop", 0, &stop);
    if (status) return status;
    step->start = start < 0 ? 0 : (size_t)start;
    step->stop = stop < 0 ? 0 : (size_t)stop;
    struct json_at member = json_member(json, "stop");
    if (step->fused && step->stop)
        return host->fail(ENGINE_ERROR_UNSUPPORTED,
                          "%s: a decoder that takes characters off the end of a text is not supported",
                          member.place);
    return ENGINE_OK;
}

static int read_replace(struct decoding_step *step, const struct json_at *json)
{
    int status = copy_content(step, json, "content");
    if (!status) status = pattern_create(&step->pattern, json);
    if (status || !step->fused) return status;
    uint32_t character;
    if (step->pattern.literal && step->pattern.length &&
        unicode_read(step->pattern.literal, step->pattern.length, &character) == step->pattern.length)
        return ENGINE_OK; /* a character lies in one token */
    return host->fail(ENGINE_ERROR_UNSUPPORTED,
                      "%s: a decoder that replaces more than a character in the whole text is not supported",
                      json->place);
}

static int read_metaspace(struct decoding_step *step, const struct json_at *json)
{
    const char *scheme = json_string_value(json_object_get(json->value, "prepend_scheme"));
    bool prefix;
    int status = json_boolean_member(json, "add_prefix_space", true, &prefix);
    step->drop_first = prefix && !(scheme && strcmp(scheme, "never") == 0);
    return status ? status : json_character_member(json, "replacement", &step->character);
}

static int read_word_piece(struct decoding_step *step, const struct json_at *json)
{
    int status = json_boolean_member(json, "cleanup", true, &step->cleanup);
    return status ? status : copy_content(step, json, "prefix");
}

static int add_step(void *user, const struct json_at *json)
{
    static const struct {
        const char *type;
        enum decoding_kind kind;
        int (*read)(struct decoding_step *step, const struct json_at *json);
    } kinds[] = {
        {"ByteFallback", DECODE_BYTE_FALLBACK, NULL},
        {"ByteLevel", DECODE_BYTES, NULL},
        {"Metaspace", DECODE_METASPACE, read_metaspace},
        {"Replace", DECODE_REPLACE, read_replace},
        {"Strip", DECODE_STRIP, read_strip},
        {"WordPiece", DECODE_WORD_PIECE, read_word_piece},
        {"BPEDecoder", DECODE_BPE, NULL},
    };
    struct reading *reading = user;
    struct decoding *decoding = reading->decoding;
    if (json_is(json, "Sequence")) return json_each(json, "decoders", add_step, user);
    if (json_is(json, "Fuse")) {
        reading->fused = true;
        return ENGINE_OK;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!json_is(json, kinds[i].type)) continue;
        if (reading->fused && kinds[i].kind != DECODE_REPLACE && kinds[i].kind != DECODE_STRIP)
            return host->fail(ENGINE_ERROR_UNSUPPORTED, "%s: %s after Fuse or ByteLevel is not supported",
                              json->place, kinds[i].type);
        if (!ARRAY_RESERVE(decoding->steps, decoding->capacity, decoding->count + 1))
            return fail_memory("tokenizer");
        struct decoding_step *step = &decoding->steps[decoding->count++];
        memset(step, 0, sizeof *step);
        step->kind = kinds[i].kind;
        step->fused = reading->fused;
        if (step->kind == DECODE_BYTES) reading->fused = true;
        if (step->kind == DECODE_BPE) return copy_content(step, json, "suffix");
        return kinds[i].read ? kinds[i].read(step, json) : ENGINE_OK;
    }
    return json_unknown(json, "decoder");
}

int decoding_create(struct decoding *decoding, const struct json_at *json)
{
    struct reading reading = {decoding, false};
    if (!json_absent(json))
        return json_is_object(json->value) ? add_step(&reading, json) : json_wrong(json, "an object");
    if (!ARRAY_RESERVE(decoding->steps, decoding->capacity, 1)) return fail_memory("tokenizer");
    memset(decoding->steps, 0, sizeof *decoding->steps);
    decoding->steps[decoding->count++].kind = DECODE_JOIN;
    return ENGINE_OK;
}

void decoding_destroy(struct decoding *decoding)
{
    for (size_t i = 0; i < decoding->count; i++) {
        free(decoding->steps[i].content);
        pattern_destroy(&decoding->steps[i].pattern);
    }
    free(decoding->steps);
    memset(decoding, 0, sizeof *decoding);
}

/* ---- Decoding ---- */

struct engine_decoder {
    const struct engine_tokenizer *tokenizer;
    struct regex_workspace regex;
    bool special; /* spell special tokens */
    bool first;   /* no token has come yet */
    bool space;   /* the last token ended a word: a space, if another one follows */
    size_t *left; /* [steps] DECODE_STRIP of the whole text: how many characters may still go */
    struct text_buffer token[2]; /* the token at hand before and after a step */
    struct text_buffer text;     /* the text returned last, followed by the waiting bytes */
    size_t out;                  /* bytes returned last */
};

static void decode_begin(struct engine_decoder *decoder)
{
    const struct decoding *decoding = &pipeline_of(decoder->tokenizer)->decoding;
    decoder->first = true;
    decoder->space = false;
    for (size_t i = 0; i < decoding->count; i++) decoder->left[i] = decoding->steps[i].start;
}

int hf_decoder_create(const struct engine_tokenizer *tokenizer, int special, struct engine_decoder **decoder)
{
    struct engine_decoder *created = allocate_zeroed(1, sizeof *created);
    if (!created) return fail_memory("decoder");
    created->tokenizer = tokenizer;
    created->special = special != 0;
    created->left = allocate_zeroed(pipeline_of(tokenizer)->decoding.count, sizeof *created->left);
    int status = created->left ? regex_workspace_create(&created->regex) : fail_memory("decoder");
    if (status) {
        hf_decoder_destroy(created);
        return status;
    }
    decode_begin(created);
    *decoder = created;
    return ENGINE_OK;
}

void hf_decoder_destroy(struct engine_decoder *decoder)
{
    if (!decoder) return;
    regex_workspace_destroy(&decoder->regex);
    text_buffer_free(&decoder->token[0]);
    text_buffer_free(&decoder->token[1]);
    text_buffer_free(&decoder->text);
    free(decoder->left);
    free(decoder);
}

/* One step: `in` becomes `out`. */
struct decoding_work {
    struct engine_decoder *decoder;
    const struct decoding_step *step;
    struct engine_string in;
    struct text_buffer *out;
};

static int read_bytes(const struct decoding_work *work)
{
    struct engine_string in = work->in;
    int status = text_reserve(work->out, in.length);
    for (size_t at = 0, length; !status && at < in.length; at += length) {
        uint32_t character;
        length = unicode_read(in.data + at, in.length - at, &character);
        int byte = character_to_byte(character);
        if (byte < 0) { /* then the whole token is as it is spelled */
            work->out->size = 0;
            return text_append(work->out, in.data, in.length);
        }
        work->out->data[work->out->size++] = (char)byte;
    }
    return status;
}

static int replace_spaces(const struct decoding_work *work)
{
    struct engine_string in = work->in;
    int status = text_reserve(work->out, in.length);
    for (size_t at = 0, length; !status && at < in.length; at += length) {
        uint32_t character;
        length = unicode_read(in.data + at, in.length - at, &character);
        if (character != work->step->character)
            status = text_append(work->out, in.data + at, length);
        else if (!(work->decoder->first && work->step->drop_first))
            status = text_append(work->out, " ", 1);
    }
    return status;
}

static int replace_match(void *user, size_t start, size_t end, bool matched)
{
    const struct decoding_work *work = user;
    if (matched) return text_append(work->out, work->step->content, work->step->content_length);
    return text_append(work->out, work->in.data + start, end - start);
}

/* Takes up to *left of a step's characters off the beginning; *left becomes 0 where other text begins. */
static int decode_strip(const struct decoding_work *work, size_t *left)
{
    struct engine_string in = work->in;
    uint32_t character;
    while (*left && in.length) {
        size_t length = unicode_read(in.data, in.length, &character);
        if (character != work->step->character) {
            *left = 0;
            break;
        }
        --*left;
        in.data += length;
        in.length -= length;
    }
    char last[4];
    size_t size = character_write(work->step->character, last);
    for (size_t n = 0; n < work->step->stop && in.length >= size; n++) {
        if (memcmp(in.data + in.length - size, last, size) != 0) break;
        in.length -= size;
    }
    return text_append(work->out, in.data, in.length);
}

/* What the library's cleanup does to a token, one replacement after the other. */
static void clean_up(struct text_buffer *text)
{
    static const char *const pairs[][2] = {
        {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
        {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        size_t old = strlen(pairs[i][0]), new = strlen(pairs[i][1]), read = 0, written = 0;
        while (read < text->size) {
            const char *found = memmem(text->data + read, text->size - read, pairs[i][0], old);
            size_t kept = found ? (size_t)(found - text->data) - read : text->size - read;
            memmove(text->data + written, text->data + read, kept);
            read += kept;
            written += kept;
            if (!found) break;
            memcpy(text->data + written, pairs[i][1], new); /* shorter than what it replaces */
            read += old;
            written += new;
        }
        text->size = written;
    }
}

static int join_pieces(const struct decoding_work *work)
{
    const struct decoding_step *step = work->step;
    struct engine_string in = work->in;
    bool continued = in.length >= step->content_length && step->content_length &&
                     memcmp(in.data, step->content, step->content_length) == 0;
    int status = ENGINE_OK;
    if (!work->decoder->first && continued) {
        in.data += step->content_length;
        in.length -= step->content_length;
    } else if (!work->decoder->first) {
        status = text_append(work->out, " ", 1);
    }
    if (!status) status = text_append(work->out, in.data, in.length);
    if (!status && step->cleanup) clean_up(work->out);
    return status;
}

/* A suffix is a space, except at the end of the text. */
static int end_words(const struct decoding_work *work)
{
    const struct decoding_step *step = work->step;
    struct engine_string in = work->in;
    int status = work->decoder->space ? text_append(work->out, " ", 1) : ENGINE_OK;
    work->decoder->space = false;
    while (!status && in.length) {
        const char *found =
            step->content_length ? memmem(in.data, in.length, step->content, step->content_length) : NULL;
        size_t length = found ? (size_t)(found - in.data) : in.length;
        if (work->decoder->space) status = text_append(work->out, " ", 1);
        work->decoder->space = found != NULL;
        if (!status) status = text_append(work->out, in.data, length);
        if (found) length += step->content_length;
        in.data += length;
        in.length -= length;
    }
    return status;
}

static int run_step(struct decoding_work *work, size_t *left)
{
    switch (work->step->kind) {
    case DECODE_BYTES: return read_bytes(work);
    case DECODE_METASPACE: return replace_spaces(work);
    case DECODE_REPLACE:
        return pattern_visit_all(&work->step->pattern, &work->decoder->regex, work->in, replace_match, work);
    case DECODE_STRIP: {
        size_t each = work->step->start;
        return decode_strip(work, work->step->fused ? left : &each);
    }
    case DECODE_WORD_PIECE: return join_pieces(work);
    case DECODE_BPE: return end_words(work);
    case DECODE_JOIN:
        if (!work->decoder->first) {
            int status = text_append(work->out, " ", 1);
            if (status) return status;
        }
        return text_append(work->out, work->in.data, work->in.length);
    case DECODE_BYTE_FALLBACK: break; /* see decode_token */
    }
    return text_append(work->out, work->in.data, work->in.length);
}

/* The text of a token: *text lies in the decoder or the vocabulary. */
static int decode_token(struct engine_decoder *decoder, struct engine_string piece,
                        struct engine_string *text)
{
    const struct decoding *decoding = &pipeline_of(decoder->tokenizer)->decoding;
    bool is_byte = false;
    char byte = 0;
    *text = piece;
    for (size_t i = 0; i < decoding->count; i++) {
        const struct decoding_step *step = &decoding->steps[i];
        if (step->kind == DECODE_BYTE_FALLBACK && vocab_byte(*text) >= 0) {
            is_byte = true;
            byte = (char)vocab_byte(*text);
            struct text_buffer *out = &decoder->token[i & 1];
            out->size = 0;
            int status = text_append(out, &byte, 1);
            if (status) return status;
            *text = (struct engine_string){out->data, out->size};
            continue;
        }
        if (is_byte && !(step->fused && step->kind == DECODE_STRIP)) continue;
        struct text_buffer *out = &decoder->token[i & 1];
        out->size = 0;
        struct decoding_work work = {decoder, step, *text, out};
        int status = run_step(&work, &decoder->left[i]);
        if (status) return status;
        *text = (struct engine_string){out->data, out->size};
    }
    decoder->first = false;
    return ENGINE_OK;
}

int hf_decode(struct engine_decoder *decoder, int32_t id, struct engine_string *text)
{
    struct engine_string piece;
    int status = tokenizer_piece(decoder->tokenizer, id, &piece);
    if (status) return status;
    struct text_buffer *all = &decoder->text;
    if (decoder->out) memmove(all->data, all->data + decoder->out, all->size - decoder->out);
    all->size -= decoder->out;
    decoder->out = 0;
    unsigned flags = pipeline_of(decoder->tokenizer)->flags[id];
    if (!(flags & TOKEN_NOTHING) && (decoder->special || !(flags & TOKEN_SPECIAL))) {
        if (flags & TOKEN_ADDED) piece = added_spelling(&pipeline_of(decoder->tokenizer)->added, id, piece);
        status = decode_token(decoder, piece, &piece);
        if (!status) status = text_append(all, piece.data, piece.length);
        if (status) return status;
    }
    decoder->out = all->size - (all->size ? utf8_unfinished(all->data, all->size) : 0);
    *text = (struct engine_string){decoder->out ? all->data : "", decoder->out};
    return ENGINE_OK;
}

int hf_decode_end(struct engine_decoder *decoder, struct engine_string *text)
{
    struct text_buffer *all = &decoder->text;
    size_t waiting = all->size - decoder->out;
    *text = (struct engine_string){waiting ? all->data + decoder->out : "", waiting};
    all->size = 0;
    decoder->out = 0;
    decode_begin(decoder);
    return ENGINE_OK;
}
