/* llama2c-tokenizer.c: reads llama2.c's tokenizer.bin: int32 length of the longest token, then for each token
 * float32 score, int32 length, bytes. It is a SentencePiece vocabulary that was changed in three ways: U+2581
 * for a space became a space, the types of the tokens were dropped, and BOS and EOS are spelled with newlines
 * around them. This file undoes the changes, so the metadata equal those of a GGUF file. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "model/file.h"

#define SPACE_MARK "\xe2\x96\x81" /* U+2581 */

enum { UNKNOWN_ID = 0, BOS_ID = 1, EOS_ID = 2 };                             /* llama2.c's constants */
enum { KIND_NORMAL = 1, KIND_UNKNOWN = 2, KIND_CONTROL = 3, KIND_BYTE = 6 }; /* GGUF's token types */

struct vocabulary {
    struct engine_string *tokens; /* [n_tokens] */
    float *scores;                /* [n_tokens] */
    int32_t *kinds;               /* [n_tokens] */
    size_t n_tokens;
};

/* "<0x0A>" */
static bool spells_byte(const char *text, size_t length)
{
    static const char digits[] = "0123456789ABCDEF";
    return length == 6 && memcmp(text, "<0x", 3) == 0 && text[5] == '>' && text[3] && text[4] &&
           strchr(digits, text[3]) && strchr(digits, text[4]);
}

/* A token's text as GGUF has it. */
static int keep_token(struct metadata *metadata, int32_t kind, const char *text, size_t length,
                      struct engine_string *token)
{
    if (kind == KIND_CONTROL && length > 2 && text[0] == '\n' && text[length - 1] == '\n') {
        text++;
        length -= 2;
    }
    size_t n_spaces = 0;
    for (size_t i = 0; i < length; i++) n_spaces += text[i] == ' ';
    token->length = length + n_spaces * (strlen(SPACE_MARK) - 1);
    char *out = metadata_allocate(metadata, token->length);
    if (!out) return error_memory("vocabulary");
    token->data = out;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == ' ') {
            memcpy(out, SPACE_MARK, strlen(SPACE_MARK));
            out += strlen(SPACE_MARK);
        } else {
            *out++ = text[i];
        }
    }
    return ENGINE_OK;
}

static int32_t kind_of(size_t id, const char *text, size_t length)
{
    if (id == UNKNOWN_ID) return KIND_UNKNOWN;
    if (id == BOS_ID || id == EOS_ID) return KIND_CONTROL;
    return spells_byte(text, length) ? KIND_BYTE : KIND_NORMAL;
}

static int llama2c_parse_vocabulary(const char *path, const uint8_t *data, uint64_t size,
                                    struct metadata *metadata, struct vocabulary *vocabulary)
{
    int32_t longest, length;
    if (size < sizeof longest)
        return error_raise(ENGINE_ERROR_DATA, "%s is too short for a llama2.c tokenizer", path);
    memcpy(&longest, data, sizeof longest);
    uint64_t at = sizeof longest;
    for (size_t id = 0; id < vocabulary->n_tokens; id++) {
        if (size - at < 8)
            return error_raise(
                ENGINE_ERROR_DATA,
                "%s has %zu tokens, but the model has %zu: it is truncated or belongs to another model", path,
                id, vocabulary->n_tokens);
        memcpy(&vocabulary->scores[id], data + at, 4);
        memcpy(&length, data + at + 4, 4);
        at += 8;
        if (length < 0 || length > longest || (uint64_t)length > size - at)
            return error_raise(ENGINE_ERROR_DATA,
                               "%s is not a llama2.c tokenizer, or it is damaged: token %zu has %" PRId32
                               " bytes",
                               path, id, length);
        const char *text = (const char *)data + at;
        vocabulary->kinds[id] = kind_of(id, text, (size_t)length);
        int status =
            keep_token(metadata, vocabulary->kinds[id], text, (size_t)length, &vocabulary->tokens[id]);
        if (status) return status;
        at += (uint64_t)length;
    }
    if (at != size)
        return error_raise(ENGINE_ERROR_DATA,
                           "%s has more than the model's %zu tokens: it belongs to another model", path,
                           vocabulary->n_tokens);
    return ENGINE_OK;
}

/* A conversation as llama2.c's chat writes it, for the chat checkpoints of Llama 2. */
static const char chat_template[] =
    "{%- set ns = namespace(system='') %}"
    "{%- for message in messages %}"
    "{%- if message.role == 'system' %}"
    "{%- set ns.system = '<<SYS>>\n' + message.content + '\n<</SYS>>\n\n' %}"
    "{%- elif message.role == 'assistant' %}{{ message.content ~ eos_token }}"
    "{%- else %}{{ bos_token ~ '[INST] ' + ns.system + message.content + ' [/INST]' }}"
    "{%- set ns.system = '' %}"
    "{%- endif %}"
    "{%- endfor %}";

static int llama2c_describe(struct metadata *metadata, const struct vocabulary *vocabulary)
{
    const struct metadata_entry arrays[] = {
        {"tokenizer.ggml.tokens", METADATA_STRING, true, vocabulary->n_tokens, vocabulary->tokens},
        {"tokenizer.ggml.scores", METADATA_F32, true, vocabulary->n_tokens, vocabulary->scores},
        {"tokenizer.ggml.token_type", METADATA_I32, true, vocabulary->n_tokens, vocabulary->kinds},
    };
    int status = metadata_add_string(metadata, "tokenizer.ggml.model", "llama");
    if (!status) status = metadata_add_string(metadata, "tokenizer.ggml.pre", "default");
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0] && !status; i++)
        status = metadata_add(metadata, &arrays[i]);
    if (!status) status = metadata_add_u32(metadata, "tokenizer.ggml.bos_token_id", BOS_ID);
    if (!status) status = metadata_add_u32(metadata, "tokenizer.ggml.eos_token_id", EOS_ID);
    if (!status) status = metadata_add_u32(metadata, "tokenizer.ggml.unknown_token_id", UNKNOWN_ID);
    if (!status) status = metadata_add_boolean(metadata, "tokenizer.ggml.add_bos_token", true);
    if (!status) status = metadata_add_string(metadata, "tokenizer.chat_template", chat_template);
    return status;
}

int llama2c_read_tokenizer(const char *path, size_t n_tokens, struct metadata *metadata)
{
    const uint8_t *data;
    uint64_t size;
    if (n_tokens <= EOS_ID)
        return error_raise(ENGINE_ERROR_DATA, "%s cannot be used: the model has only %zu tokens", path,
                           n_tokens);
    int status = model_map_file(path, &data, &size);
    if (status) return status;
    if (n_tokens > size / 8) { /* each takes at least 8 bytes, which limits the allocation */
        status = error_raise(ENGINE_ERROR_DATA, "%s is too short for the model's %zu tokens", path, n_tokens);
        goto cleanup;
    }
    struct vocabulary vocabulary = {
        .tokens = metadata_allocate(metadata, n_tokens * sizeof(struct engine_string)),
        .scores = metadata_allocate(metadata, n_tokens * sizeof(float)),
        .kinds = metadata_allocate(metadata, n_tokens * sizeof(int32_t)),
        .n_tokens = n_tokens,
    };
    if (!vocabulary.tokens || !vocabulary.scores || !vocabulary.kinds) {
        status = error_memory("vocabulary");
        goto cleanup;
    }
    status = llama2c_parse_vocabulary(path, data, size, metadata, &vocabulary);
    if (!status) status = llama2c_describe(metadata, &vocabulary);

cleanup:
    model_unmap_file(data, size);
    return status;
}
