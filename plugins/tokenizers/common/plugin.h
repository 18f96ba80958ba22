/* plugin.h: makes a plugin of a tokenizer_kind. */
#ifndef TOKENIZERS_COMMON_PLUGIN_H
#define TOKENIZERS_COMMON_PLUGIN_H

#include "common/decoder.h"
#include "common/memory.h"
#include "common/tokenizer.h"

/* Defines the entry point: a plugin NAME that serves the tokenizer.ggml.model values in `...`. */
#define TOKENIZER_PLUGIN(KIND, NAME, DESCRIPTION, ...)                                                       \
    static int create(const struct engine_metadata *metadata, struct engine_tokenizer **tokenizer)           \
    {                                                                                                        \
        return tokenizer_create(&(KIND), metadata, tokenizer);                                               \
    }                                                                                                        \
                                                                                                             \
    static const char *const models[] = {__VA_ARGS__, NULL};                                                 \
                                                                                                             \
    static const struct engine_tokenizer_api api = {                                                         \
        .struct_size = sizeof api,                                                                           \
        .models = models,                                                                                    \
        .create = create,                                                                                    \
        .destroy = tokenizer_destroy,                                                                        \
        .info = tokenizer_info,                                                                              \
        .encode = tokenizer_encode,                                                                          \
        .piece = tokenizer_piece,                                                                            \
        .attributes = tokenizer_attributes,                                                                  \
        .decoder_create = decoder_create,                                                                    \
        .decoder_destroy = decoder_destroy,                                                                  \
        .decode = decoder_decode,                                                                            \
        .decode_end = decoder_end,                                                                           \
        .explain = tokenizer_explain,                                                                        \
    };                                                                                                       \
                                                                                                             \
    const struct engine_plugin *engine_plugin_entry(const struct engine_host *services)                      \
    {                                                                                                        \
        static const struct engine_plugin plugin = {                                                         \
            .struct_size = sizeof plugin,                                                                    \
            .abi_major = ENGINE_ABI_MAJOR,                                                                   \
            .abi_minor = ENGINE_ABI_MINOR,                                                                   \
            .kind = ENGINE_PLUGIN_TOKENIZER,                                                                 \
            .name = NAME,                                                                                    \
            .version = "0.1.0",                                                                              \
            .license = "MIT",                                                                                \
            .description = DESCRIPTION,                                                                      \
            .tokenizers = &api,                                                                              \
        };                                                                                                   \
        host = services;                                                                                     \
        return &plugin;                                                                                      \
    }

#endif
