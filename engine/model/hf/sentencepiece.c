/* sentencepiece.c: tokenizer.model, SentencePiece's ModelProto: a protocol buffer of pieces with scores,
 * and of what is done to a text before (github.com/google/sentencepiece, sentencepiece_model.proto). */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/hf/tokenizer-parts.h"

#define MAX_SIZE (64u << 20)

/* Wire types of protocol buffers. */
enum { WIRE_VARINT, WIRE_64, WIRE_BYTES, WIRE_32 = 5 };

/* A message, or what is left of it. */
struct message {
    const uint8_t *at, *end;
};

struct field {
    uint32_t number, wire;
    uint64_t value;       /* WIRE_VARINT, WIRE_32, WIRE_64 */
    struct message bytes; /* WIRE_BYTES */
};

static bool read_varint(struct message *message, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64 && message->at < message->end; shift += 7) {
        uint8_t byte = *message->at++;
        *value |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80)) return true;
    }
    return false;
}

static bool read_fixed(struct message *message, size_t size, uint64_t *value)
{
    if ((size_t)(message->end - message->at) < size) return false;
    *value = 0;
    for (size_t i = size; i-- > 0;) *value = *value << 8 | message->at[i];
    message->at += size;
    return true;
}

/* The next field; false if the message is damaged. At its end the number is 0. */
static bool read_field(struct message *message, struct field *field)
{
    uint64_t tag, length;
    field->number = 0;
    if (message->at == message->end) return true;
    if (!read_varint(message, &tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX) return false;
    field->number = (uint32_t)(tag >> 3);
    field->wire = tag & 7;
    switch (field->wire) {
    case WIRE_VARINT: return read_varint(message, &field->value);
    case WIRE_64: return read_fixed(message, 8, &field->value);
    case WIRE_32: return read_fixed(message, 4, &field->value);
    case WIRE_BYTES:
        if (!read_varint(message, &length) || length > (uint64_t)(message->end - message->at)) return false;
        field->bytes = (struct message){message->at, message->at + length};
        message->at += length;
        return true;
    default: return false;
    }
}

static int fail_damaged(const struct hf_tokenizer *work)
{
    return hf_tokenizer_fail(work, ENGINE_ERROR_DATA, "it is no SentencePiece model, or damaged");
}

/* What the specs say. */
struct spec {
    uint64_t model_type; /* 1: unigram, 2: BPE */
    uint64_t bos, eos, unknown, padding;
    bool add_prefix, remove_extra;
};

static int read_piece(struct hf_tokenizer *work, struct message message, uint32_t id)
{
    struct field field;
    int64_t type = HF_TOKEN_NORMAL;
    for (bool more = true; more;) {
        if (!read_field(&message, &field)) return fail_damaged(work);
        more = field.number != 0;
        if (field.number == 1 && field.wire == WIRE_BYTES) {
            work->tokens[id] = (struct engine_string){(const char *)field.bytes.at,
                                                      (size_t)(field.bytes.end - field.bytes.at)};
        } else if (field.number == 2 && field.wire == WIRE_32) {
            uint32_t bits = (uint32_t)field.value;
            float score;
            memcpy(&score, &bits, sizeof score);
            work->scores[id] = score;
        } else if (field.number == 3 && field.wire == WIRE_VARINT) {
            type = field.value <= HF_TOKEN_BYTE ? (int64_t)field.value : 0;
        }
    }
    if (type <= HF_TOKEN_NONE || type > HF_TOKEN_BYTE)
        return hf_tokenizer_fail(work, ENGINE_ERROR_DATA, "piece %u has an unknown type", id);
    work->types[id] = (int32_t)type;
    return ENGINE_OK;
}

static int read_trainer(const struct hf_tokenizer *work, struct message message, struct spec *spec)
{
    struct field field;
    for (;;) {
        if (!read_field(&message, &field)) return fail_damaged(work);
        if (!field.number) return ENGINE_OK;
        if (field.wire != WIRE_VARINT) continue;
        if (field.number == 3) spec->model_type = field.value;
        if (field.number == 40) spec->unknown = field.value;
        if (field.number == 41) spec->bos = field.value;
        if (field.number == 42) spec->eos = field.value;
        if (field.number == 43) spec->padding = field.value;
    }
}

static int read_normalizer(struct hf_tokenizer *work, struct message message, struct spec *spec)
{
    struct field field;
    for (;;) {
        if (!read_field(&message, &field)) return fail_damaged(work);
        if (!field.number) return ENGINE_OK;
        if (field.number == 2 && field.wire == WIRE_BYTES) {
            work->charsmap = field.bytes.at;
            work->charsmap_size = (size_t)(field.bytes.end - field.bytes.at);
        }
        if (field.wire != WIRE_VARINT) continue;
        if (field.number == 3) spec->add_prefix = field.value != 0;
        if (field.number == 4) spec->remove_extra = field.value != 0;
    }
}

/* added_tokens.json: {"<image>": 32000}, and tokenizer_config.json's added_tokens_decoder:
 * {"32000": {"content": "<image>", "special": true}}. */
static int add_token(struct hf_tokenizer *work, int64_t id, const char *text, size_t length, bool special)
{
    if (id < 0 || id >= HF_TOKENS_MAX || !length)
        return hf_tokenizer_fail(work, ENGINE_ERROR_DATA, "the added token \"%.40s\" has no id below %u",
                                 text, HF_TOKENS_MAX);
    if (id < work->n_tokens && work->types[id] != HF_TOKEN_NONE) {
        bool same = work->tokens[id].length == length && memcmp(work->tokens[id].data, text, length) == 0;
        if (!same)
            return hf_tokenizer_fail(work, ENGINE_ERROR_DATA,
                                     "the added token \"%.40s\" has the id of a piece", text);
        if (work->types[id] == HF_TOKEN_NORMAL)
            work->types[id] = special ? HF_TOKEN_CONTROL : HF_TOKEN_USER_DEFINED;
        return ENGINE_OK;
    }
    if (id >= work->n_tokens)
        return hf_tokenizer_fail(work, ENGINE_ERROR_DATA, "an added token is out of range");
    char *copy = metadata_allocate(work->metadata, length);
    if (!copy) return error_memory("vocabulary");
    memcpy(copy, text, length);
    work->tokens[id] = (struct engine_string){copy, length};
    work->types[id] = special ? HF_TOKEN_CONTROL : HF_TOKEN_USER_DEFINED;
    return ENGINE_OK;
}

/* The largest id of added tokens, plus one, if it is more than `count`. */
static uint32_t count_added(const struct hf_tokenizer *work, json_t *added, uint32_t count)
{
    const char *key;
    json_t *value;
    json_object_foreach(added, key, value)
    {
        json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id >= count && id < HF_TOKENS_MAX) count = (uint32_t)id + 1;
    }
    json_object_foreach(json_object_get(work->config, "added_tokens_decoder"), key, value)
    {
        long id = strtol(key, NULL, 10);
        if (id >= count && id < (long)HF_TOKENS_MAX) count = (uint32_t)id + 1;
    }
    return count;
}

static int take_added(struct hf_tokenizer *work, json_t *added)
{
    const char *key;
    json_t *value;
    int status = ENGINE_OK;
    json_object_foreach(json_object_get(work->config, "added_tokens_decoder"), key, value)
    {
        const json_t *content = json_object_get(value, "content");
        if (!status && json_is_string(content))
            status = add_token(work, strtol(key, NULL, 10), json_string_value(content),
                               json_string_length(content), json_is_true(json_object_get(value, "special")));
    }
    json_object_foreach(added, key, value)
    {
        if (!status && json_is_integer(value))
            status = add_token(work, json_integer_value(value), key, strlen(key), false);
    }
    return status;
}

static int sentencepiece_allocate(struct hf_tokenizer *work, uint32_t count)
{
    work->n_tokens = count;
    work->tokens = metadata_allocate(work->metadata, count * sizeof *work->tokens + 1);
    work->types = metadata_allocate(work->metadata, count * sizeof *work->types + 1);
    work->scores = metadata_allocate(work->metadata, count * sizeof *work->scores + 1);
    if (!work->tokens || !work->types || !work->scores) return error_memory("vocabulary");
    memset(work->tokens, 0, count * sizeof *work->tokens);
    memset(work->types, 0, count * sizeof *work->types);
    for (uint32_t i = 0; i < count; i++) work->scores[i] = 0;
    return ENGINE_OK;
}

static int read_model(struct hf_tokenizer *work, struct message file, json_t *added, struct spec *spec)
{
    struct message message = file;
    struct field field;
    uint32_t count = 0, id = 0;
    do {
        if (!read_field(&message, &field)) return fail_damaged(work);
        count += field.number == 1 && field.wire == WIRE_BYTES;
    } while (field.number);
    if (count == 0 || count > HF_TOKENS_MAX) return fail_damaged(work);
    int status = sentencepiece_allocate(work, count_added(work, added, count));
    for (message = file; !status;) {
        read_field(&message, &field);
        if (!field.number) break;
        if (field.wire != WIRE_BYTES) continue;
        if (field.number == 1) status = read_piece(work, field.bytes, id++);
        if (field.number == 2) status = read_trainer(work, field.bytes, spec);
        if (field.number == 3) status = read_normalizer(work, field.bytes, spec);
    }
    return status ? status : take_added(work, added);
}

static int64_t id_of(const struct hf_tokenizer *work, uint64_t value)
{
    return value < work->n_tokens ? (int64_t)value : -1; /* -1 is written as a number of 64 bits */
}

int hf_sentencepiece_read(struct hf_tokenizer *work, bool *found)
{
    const char *text = NULL;
    size_t length = 0;
    json_t *added = NULL;
    struct spec spec = {1, 1, 2, 0, UINT64_MAX, true, true}; /* the format's defaults */
    *found = false;
    work->file = "tokenizer.model";
    int status = hf_tokenizer_text(work, work->file, MAX_SIZE, &text, &length);
    if (status || !text) return status;
    *found = true;
    status = hf_tokenizer_json(work->directory, "added_tokens.json", &added);
    struct message file = {(const uint8_t *)text, (const uint8_t *)text + length};
    if (!status) status = read_model(work, file, added, &spec);
    json_decref(added);
    if (status) return status;
    if (spec.model_type != 1 && spec.model_type != 2)
        return hf_tokenizer_fail(work, ENGINE_ERROR_UNSUPPORTED,
                                 "SentencePiece models of words or characters are not supported");
    if (spec.model_type == 2 && work->charsmap_size > 0)
        return hf_tokenizer_fail(
            work, ENGINE_ERROR_UNSUPPORTED,
            "a BPE model that normalizes texts is not supported; tokenizer.json may have it");
    work->kind = spec.model_type == 2 ? "llama" : "t5";
    work->pre = "default";
    work->add_space_prefix = spec.add_prefix;
    work->remove_extra_whitespaces = spec.remove_extra;
    work->bos = id_of(work, spec.bos);
    work->eos = id_of(work, spec.eos);
    work->unknown = id_of(work, spec.unknown);
    work->padding = id_of(work, spec.padding);
    if (work->charsmap_size == 0) work->charsmap = NULL;
    return ENGINE_OK;
}
