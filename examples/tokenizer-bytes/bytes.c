/* bytes.c: a tokenizer in one file: every byte of a text is one token. It serves vocabularies of the kind
 * "llama", which have tokens for all bytes ("<0x0A>") besides their words: texts are spelled in bytes, and
 * all tokens of the model's answers are decoded. With this plugin in ENGINE_PLUGIN_PATH it replaces the
 * engine's own for such models. MIT licence. */
#include <plugin-api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TYPE_UNKNOWN = 2,
    TYPE_CONTROL = 3,
    TYPE_USER = 4,
    TYPE_UNUSED = 5,
    TYPE_BYTE = 6
}; /* of GGUF files */

struct engine_tokenizer {
    size_t n_tokens;
    struct engine_string *pieces; /* [n_tokens], the metadata's own texts */
    int64_t *types;               /* [n_tokens] */
    int32_t of_byte[256];         /* ids */
    struct engine_tokenizer_info info;
};

struct engine_decoder {
    const struct engine_tokenizer *tokenizer;
    int special;
    char *text; /* the text that the last call returned; [capacity] */
    size_t capacity;
    char waiting[4]; /* the beginning of a character */
    size_t n_waiting;
};

static const struct engine_host *host;

/* ---- The vocabulary ---- */

static void destroy(struct engine_tokenizer *tokenizer)
{
    if (!tokenizer) return;
    free(tokenizer->pieces);
    free(tokenizer->types);
    free(tokenizer);
}

/* An id from the metadata; -1 if it is absent or not a token's. */
static int32_t special_id(const struct engine_metadata *metadata, const char *key, size_t n_tokens)
{
    int64_t id;
    if (metadata->get_integer(metadata->context, key, &id) != ENGINE_OK) return -1;
    return id >= 0 && id < (int64_t)n_tokens ? (int32_t)id : -1;
}

static int read_flag(const struct engine_metadata *metadata, const char *key)
{
    int value;
    return metadata->get_boolean(metadata->context, key, &value) == ENGINE_OK && value;
}

static void read_info(const struct engine_metadata *metadata, size_t n, struct engine_tokenizer_info *info)
{
    info->struct_size = sizeof *info;
    info->n_tokens = (uint32_t)n;
    info->bos = special_id(metadata, "tokenizer.ggml.bos_token_id", n);
    info->eos = special_id(metadata, "tokenizer.ggml.eos_token_id", n);
    info->unknown = special_id(metadata, "tokenizer.ggml.unknown_token_id", n);
    info->separator = info->padding = info->end_of_turn = -1;
    info->add_bos = info->bos >= 0 && read_flag(metadata, "tokenizer.ggml.add_bos_token");
    info->add_eos = info->eos >= 0 && read_flag(metadata, "tokenizer.ggml.add_eos_token");
}

static int find_bytes(struct engine_tokenizer *tokenizer)
{
    for (int byte = 0; byte < 256; byte++) {
        char spelled[8];
        snprintf(spelled, sizeof spelled, "<0x%02X>", (unsigned)byte);
        tokenizer->of_byte[byte] = -1;
        for (size_t i = 0; i < tokenizer->n_tokens && tokenizer->of_byte[byte] < 0; i++)
            if (tokenizer->pieces[i].length == 6 && memcmp(tokenizer->pieces[i].data, spelled, 6) == 0)
                tokenizer->of_byte[byte] = (int32_t)i;
        if (tokenizer->of_byte[byte] < 0) return host->fail(ENGINE_ERROR_DATA, "no token is %s", spelled);
    }
    return ENGINE_OK;
}

static int create(const struct engine_metadata *metadata, struct engine_tokenizer **out)
{
    size_t n = 0, n_types = 0;
    int status = metadata->get_count(metadata->context, "tokenizer.ggml.tokens", &n);
    if (status == ENGINE_OK)
        status = metadata->get_count(metadata->context, "tokenizer.ggml.token_type", &n_types);
    if (status != ENGINE_OK || n == 0 || n > INT32_MAX || n_types != n)
        return host->fail(ENGINE_ERROR_DATA, "tokens or token types are missing, or their numbers differ");
    struct engine_tokenizer *made = calloc(1, sizeof *made);
    if (!made) return host->fail(ENGINE_ERROR_MEMORY, "out of memory");
    made->n_tokens = n;
    made->pieces = calloc(n, sizeof *made->pieces);
    made->types = calloc(n, sizeof *made->types);
    if (!made->pieces || !made->types) {
        status = host->fail(ENGINE_ERROR_MEMORY, "out of memory");
    } else if (metadata->get_strings(metadata->context, "tokenizer.ggml.tokens", 0, n, made->pieces) ||
               metadata->get_integers(metadata->context, "tokenizer.ggml.token_type", 0, n, made->types)) {
        status = host->fail(ENGINE_ERROR_DATA, "tokens are not strings, or token types are not integers");
    } else {
        read_info(metadata, n, &made->info);
        status = find_bytes(made);
    }
    if (status != ENGINE_OK) {
        destroy(made);
        return status;
    }
    *out = made;
    return ENGINE_OK;
}

static int info(const struct engine_tokenizer *tokenizer, struct engine_tokenizer_info *out)
{
    size_t size = out->struct_size < sizeof tokenizer->info ? out->struct_size : sizeof tokenizer->info;
    memcpy((char *)out + sizeof out->struct_size, (const char *)&tokenizer->info + sizeof out->struct_size,
           size - sizeof out->struct_size);
    return ENGINE_OK;
}

static int check_id(const struct engine_tokenizer *tokenizer, int32_t id)
{
    if (id >= 0 && (size_t)id < tokenizer->n_tokens) return ENGINE_OK;
    return host->fail(ENGINE_ERROR_ARGUMENT, "there is no token %d", id);
}

static int piece(const struct engine_tokenizer *tokenizer, int32_t id, struct engine_string *out)
{
    int status = check_id(tokenizer, id);
    if (status == ENGINE_OK) *out = tokenizer->pieces[id];
    return status;
}

static uint32_t attributes(const struct engine_tokenizer *tokenizer, int32_t id)
{
    if (id < 0 || (size_t)id >= tokenizer->n_tokens) return 0;
    uint32_t end = id == tokenizer->info.eos ? ENGINE_TOKEN_END : 0;
    switch (tokenizer->types[id]) {
    case TYPE_UNKNOWN: return end | ENGINE_TOKEN_UNKNOWN;
    case TYPE_CONTROL: return end | ENGINE_TOKEN_CONTROL;
    case TYPE_USER: return end | ENGINE_TOKEN_USER_DEFINED;
    case TYPE_UNUSED: return end | ENGINE_TOKEN_UNUSED;
    case TYPE_BYTE: return end | ENGINE_TOKEN_BYTE;
    default: return end;
    }
}

/* ---- Text to ids ---- */

/* The control token whose spelling the text begins with, the longest; -1: none. */
static int32_t control_at(const struct engine_tokenizer *tokenizer, const char *text, size_t length)
{
    int32_t found = -1;
    for (size_t i = 0; i < tokenizer->n_tokens; i++) {
        const struct engine_string *spelled = &tokenizer->pieces[i];
        if (tokenizer->types[i] != TYPE_CONTROL || spelled->length == 0 || spelled->length > length) continue;
        if (memcmp(spelled->data, text, spelled->length) != 0) continue;
        if (found < 0 || spelled->length > tokenizer->pieces[found].length) found = (int32_t)i;
    }
    return found;
}

static int encode(const struct engine_tokenizer *tokenizer, const char *text, size_t length, uint32_t flags,
                  engine_token_sink sink, void *user)
{
    const struct engine_tokenizer_info *about = &tokenizer->info;
    int status = 0;
    if ((flags & ENGINE_ENCODE_BOS_EOS) && about->add_bos) status = sink(user, &about->bos, 1);
    for (size_t i = 0; i < length && status == 0;) {
        int32_t id = flags & ENGINE_ENCODE_SPECIAL ? control_at(tokenizer, text + i, length - i) : -1;
        i += id < 0 ? 1 : tokenizer->pieces[id].length;
        if (id < 0) id = tokenizer->of_byte[(unsigned char)text[i - 1]];
        status = sink(user, &id, 1);
    }
    if (status == 0 && (flags & ENGINE_ENCODE_BOS_EOS) && about->add_eos) status = sink(user, &about->eos, 1);
    return status;
}

/* ---- Ids to text ---- */

static int decoder_create(const struct engine_tokenizer *tokenizer, int special, struct engine_decoder **out)
{
    struct engine_decoder *made = calloc(1, sizeof *made);
    if (!made) return host->fail(ENGINE_ERROR_MEMORY, "out of memory");
    made->tokenizer = tokenizer;
    made->special = special;
    *out = made;
    return ENGINE_OK;
}

static void decoder_destroy(struct engine_decoder *decoder)
{
    if (decoder) free(decoder->text);
    free(decoder);
}

/* Writes the bytes of a token to `text`, which has room for its piece; "▁" is a space. Returns their
 * number. */
static size_t spell(const struct engine_decoder *decoder, int32_t id, char *text)
{
    static const char mark[] = "\xe2\x96\x81";
    const struct engine_tokenizer *tokenizer = decoder->tokenizer;
    struct engine_string from = tokenizer->pieces[id];
    size_t used = 0;
    if (tokenizer->types[id] == TYPE_CONTROL && !decoder->special) return 0;
    for (int byte = 0; byte < 256; byte++)
        if (tokenizer->of_byte[byte] == id) {
            text[0] = (char)byte;
            return 1;
        }
    for (size_t i = 0; i < from.length;) {
        int is_mark = from.length - i >= 3 && memcmp(from.data + i, mark, 3) == 0;
        text[used++] = is_mark ? ' ' : from.data[i];
        i += is_mark ? 3 : 1;
    }
    return used;
}

/* How many bytes at the end of a text may be the beginning of a character (RFC 3629). */
static size_t unfinished(const unsigned char *text, size_t length)
{
    for (size_t n = 1; n <= 3 && n <= length; n++) {
        const unsigned char *c = text + length - n;
        if ((c[0] & 0xc0) == 0x80) continue; /* a later byte: look farther back */
        size_t whole = c[0] < 0xc2 ? 1 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : c[0] < 0xf5 ? 4 : 1;
        if (whole <= n) return 0;
        if (n > 1 && ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) ||
                      (c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] > 0x8f)))
            return 0;
        return n;
    }
    return 0;
}

static int decode(struct engine_decoder *decoder, int32_t id, struct engine_string *text)
{
    int status = check_id(decoder->tokenizer, id);
    if (status != ENGINE_OK) return status;
    size_t needed = decoder->tokenizer->pieces[id].length + 8, length = decoder->n_waiting;
    if (needed > decoder->capacity) {
        char *larger = realloc(decoder->text, needed);
        if (!larger) return host->fail(ENGINE_ERROR_MEMORY, "out of memory");
        decoder->text = larger;
        decoder->capacity = needed;
    }
    memcpy(decoder->text, decoder->waiting, length);
    length += spell(decoder, id, decoder->text + length);
    decoder->n_waiting = unfinished((const unsigned char *)decoder->text, length);
    length -= decoder->n_waiting;
    memcpy(decoder->waiting, decoder->text + length, decoder->n_waiting);
    *text = (struct engine_string){decoder->text, length};
    return ENGINE_OK;
}

static int decode_end(struct engine_decoder *decoder, struct engine_string *text)
{
    *text = (struct engine_string){decoder->waiting, decoder->n_waiting};
    decoder->n_waiting = 0;
    return ENGINE_OK;
}

/* ---- The plugin ---- */

static const char *const models[] = {"llama", NULL};

static const struct engine_tokenizer_api api = {
    .struct_size = sizeof api,
    .models = models,
    .create = create,
    .destroy = destroy,
    .info = info,
    .encode = encode,
    .piece = piece,
    .attributes = attributes,
    .decoder_create = decoder_create,
    .decoder_destroy = decoder_destroy,
    .decode = decode,
    .decode_end = decode_end,
};

static const struct engine_plugin plugin = {
    .struct_size = sizeof plugin,
    .abi_major = ENGINE_ABI_MAJOR,
    .abi_minor = ENGINE_ABI_MINOR,
    .kind = ENGINE_PLUGIN_TOKENIZER,
    .name = "bytes",
    .version = "1.0",
    .license = "MIT",
    .description = "spells texts byte by byte, for vocabularies that have all bytes",
    .tokenizers = &api,
};

const struct engine_plugin *engine_plugin_entry(const struct engine_host *services)
{
    host = services;
    return &plugin;
}
