/* windows.c: see windows.h. */
#include "commands/windows.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/assert.h"
#include "io/files.h"
#include "io/messages.h"
#include "io/npy.h"

/* ---- Cutting ------------------------------------------------------------------------------------------- */

size_t windows_count(size_t n_tokens, size_t n_window, size_t stride)
{
    if (stride == 0) return n_tokens / n_window;
    if (n_tokens < 2) return 0;
    return n_tokens <= n_window ? 1 : 1 + (n_tokens - n_window + stride - 1) / stride;
}

struct window windows_at(size_t n_tokens, size_t n_window, size_t stride, size_t number)
{
    ENGINE_ASSERT(number < windows_count(n_tokens, n_window, stride));
    if (stride == 0) return (struct window){number * n_window, n_window, n_window / 2 + 1};
    size_t first = number * stride, end = first + n_window < n_tokens ? first + n_window : n_tokens;
    /* Where the window before it ended. Nothing predicts the first token of a window. */
    size_t seen = number > 0 && stride < n_window ? first - stride + n_window : first + 1;
    return (struct window){first, end - first, seen - first};
}

uint64_t windows_scored(size_t n_tokens, size_t n_window, size_t stride)
{
    uint64_t scored = 0;
    for (size_t i = 0; i < windows_count(n_tokens, n_window, stride); i++) {
        struct window window = windows_at(n_tokens, n_window, stride, i);
        scored += window.length - window.counted;
    }
    return scored;
}

/* ---- The text ------------------------------------------------------------------------------------------ */

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
