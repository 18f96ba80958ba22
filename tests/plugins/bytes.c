/* bytes.c: the smallest whole tokenizer plugin, for tests: token i is byte i. It serves "test-bytes". With
 * BYTES_NAME it has another name; with BYTES_MINOR it says that it was built for another minor version. */
#include <stdlib.h>

#include "plugin-api.h"

#ifndef BYTES_NAME
#define BYTES_NAME "test-bytes"
#endif
#ifndef BYTES_MINOR
#define BYTES_MINOR ENGINE_ABI_MINOR
#endif

struct engine_tokenizer {
    char bytes[256];
};

struct engine_decoder {
    const struct engine_tokenizer *tokenizer;
};

static const struct engine_host *host;

static int create(const struct engine_metadata *metadata, struct engine_tokenizer **out)
{
    int64_t wrong;
    if (metadata->get_integer(metadata->context, "test.fail", &wrong) == ENGINE_OK) {
        host->log(ENGINE_LOG_WARNING, "about to fail, %d", (int)wrong);
        return host->fail(ENGINE_ERROR_DATA, "asked to fail\nwith %d", (int)wrong);
    }
    struct engine_tokenizer *tokenizer = malloc(sizeof *tokenizer);
    if (!tokenizer) return host->fail(ENGINE_ERROR_MEMORY, "out of memory");
    for (int i = 0; i < 256; i++) tokenizer->bytes[i] = (char)i;
    *out = tokenizer;
    return ENGINE_OK;
}

static void destroy(struct engine_tokenizer *tokenizer)
{
    free(tokenizer);
}

static int info(const struct engine_tokenizer *tokenizer, struct engine_tokenizer_info *out)
{
    (void)tokenizer;
    out->n_tokens = 256;
    out->bos = out->eos = out->unknown = out->separator = out->padding = out->end_of_turn = -1;
    out->add_bos = out->add_eos = out->add_separator = 0;
    return ENGINE_OK;
}

static int encode(const struct engine_tokenizer *tokenizer, const char *text, size_t length, uint32_t flags,
                  engine_token_sink sink, void *user)
{
    (void)tokenizer, (void)flags;
    int status = 0;
    for (size_t i = 0; i < length && status == 0; i++) {
        int32_t id = (unsigned char)text[i];
        status = sink(user, &id, 1);
    }
    return status;
}

static int piece(const struct engine_tokenizer *tokenizer, int32_t id, struct engine_string *out)
{
    if (id < 0 || id > 255) return host->fail(ENGINE_ERROR_ARGUMENT, "there is no token %d", id);
    *out = (struct engine_string){&tokenizer->bytes[id], 1};
    return ENGINE_OK;
}

static uint32_t attributes(const struct engine_tokenizer *tokenizer, int32_t id)
{
    (void)tokenizer;
    return id >= 0 && id < 256 ? ENGINE_TOKEN_BYTE : 0;
}

static int decoder_create(const struct engine_tokenizer *tokenizer, int special, struct engine_decoder **out)
{
    (void)special;
    struct engine_decoder *decoder = malloc(sizeof *decoder);
    if (!decoder) return host->fail(ENGINE_ERROR_MEMORY, "out of memory");
    decoder->tokenizer = tokenizer;
    *out = decoder;
    return ENGINE_OK;
}

static void decoder_destroy(struct engine_decoder *decoder)
{
    free(decoder);
}

static int decode(struct engine_decoder *decoder, int32_t id, struct engine_string *text)
{
    return piece(decoder->tokenizer, id, text);
}

static int decode_end(struct engine_decoder *decoder, struct engine_string *text)
{
    (void)decoder;
    *text = (struct engine_string){"", 0};
    return ENGINE_OK;
}

static const char *const models[] = {BYTES_NAME, NULL};

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
    .abi_minor = BYTES_MINOR,
    .kind = ENGINE_PLUGIN_TOKENIZER,
    .name = BYTES_NAME,
    .version = "1.2.3",
    .license = "MIT",
    .description = "Bytes as tokens, for tests",
    .tokenizers = &api,
};

const struct engine_plugin *engine_plugin_entry(const struct engine_host *services)
{
    host = services;
    return &plugin;
}
