/* window-text.c: see window-text.h. */
#include "commands/window-text.h"

#include <stdio.h>
#include <stdlib.h>

#include "io/files.h"
#include "io/messages.h"
#include "io/npy.h"

#define DEFAULT_WINDOW 512

int window_text_read(const struct arguments *arguments, const struct vocabulary *vocabulary,
                     struct token_list *tokens)
{
    char *text;
    size_t size;
    if (arguments->tokens_file) {
        int status = npy_read_integers(arguments->tokens_file, &tokens->ids, &tokens->count);
        tokens->capacity = tokens->count;
        return status;
    }
    int status = read_text_file(arguments->prompt_file, &text, &size);
    if (status) return status;
    status = prompt_encode(vocabulary, text, size, arguments->special, tokens);
    warn_of_bos(tokens, NULL);
    free(text);
    return status;
}

size_t window_text_length(const struct arguments *arguments, struct engine_model *model)
{
    const struct engine_metadata *metadata = engine_model_metadata(model);
    struct engine_model_info info = {.struct_size = sizeof info};
    char key[128];
    int64_t trained = 0;
    if (arguments->n_context > 0) return arguments->n_context;
    engine_model_get_info(model, &info);
    snprintf(key, sizeof key, "%s.context_length", info.architecture);
    if (metadata->get_integer(metadata->context, key, &trained) || trained <= 0) return DEFAULT_WINDOW;
    return trained < DEFAULT_WINDOW ? (size_t)trained : DEFAULT_WINDOW;
}

int window_text_check(const struct token_list *tokens, uint32_t n_vocab)
{
    for (size_t i = 0; i < tokens->count; i++)
        if (tokens->ids[i] < 0 || (uint32_t)tokens->ids[i] >= n_vocab)
            return command_error(ENGINE_ERROR_ARGUMENT,
                                 "token %zu of the text is %d, but the model has %u tokens, 0 to %u", i,
                                 tokens->ids[i], n_vocab, n_vocab - 1);
    return ENGINE_OK;
}
