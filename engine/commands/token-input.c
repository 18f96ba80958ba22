/* token-input.c: see token-input.h. */
#include "commands/token-input.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "commands/common.h"
#include "commands/npy.h"
#include "commands/prompt.h"

/* "1 2 3" or "1,2,3". */
static int parse_ids(const char *text, struct token_list *tokens)
{
    int status = ENGINE_OK;
    for (const char *at = text; *at && !status;) {
        char *end;
        if (isspace((unsigned char)*at) || *at == ',') {
            at++;
            continue;
        }
        errno = 0;
        long id = strtol(at, &end, 10);
        if (end == at || errno || id < 0 || id > INT32_MAX)
            return command_error(ENGINE_ERROR_ARGUMENT, "--tokens: '%s' does not begin with a token id", at);
        status = token_list_add(tokens, &(int32_t){(int32_t)id}, 1);
        at = end;
    }
    return status;
}

int token_input_ids(const struct arguments *arguments, struct token_list *tokens)
{
    int given =
        !!arguments->tokens + !!arguments->tokens_file + !!arguments->prompt + !!arguments->prompt_file;
    if (given > 1) return command_error(ENGINE_ERROR_ARGUMENT, "name the tokens in one way only");
    if (arguments->tokens) return parse_ids(arguments->tokens, tokens);
    if (!arguments->tokens_file) return ENGINE_OK;
    int status = npy_read_integers(arguments->tokens_file, &tokens->ids, &tokens->count);
    tokens->capacity = tokens->count;
    return status;
}

int token_input_text(const struct arguments *arguments, struct engine_model *model, struct token_list *tokens)
{
    const char *path = arguments->prompt_file, *text = arguments->prompt;
    struct vocabulary vocabulary;
    char *read = NULL;
    size_t size = text ? strlen(text) : 0;
    int status = ENGINE_OK;
    if (text && strcmp(text, "-") == 0) path = "-", text = NULL;
    if (path) {
        status = read_text_file(path, &read, &size);
        text = read;
    }
    if (!status && text) status = vocabulary_open(model, &vocabulary);
    if (!status && text) status = prompt_encode(&vocabulary, text, size, arguments->special, tokens);
    warn_of_bos(tokens, NULL);
    free(read);
    if (status || tokens->count > 0) return status;
    if (arguments->prompt || arguments->prompt_file)
        return command_error(ENGINE_ERROR_ARGUMENT, "the text has no tokens");
    if (arguments->tokens || arguments->tokens_file)
        return command_error(ENGINE_ERROR_ARGUMENT, "there are no tokens");
    return command_error(ENGINE_ERROR_ARGUMENT, "no text: name one with -p, -f, --tokens or --tokens-file");
}

struct engine_string token_input_piece(struct engine_model *model, const struct token_list *tokens, size_t i)
{
    return prompt_token_text(model, tokens->ids[i]);
}

/* The token with which the last occurrence of a text ends; SIZE_MAX if there is none. */
static int find_text(struct engine_model *model, const struct token_list *tokens, const char *wanted,
                     size_t *found)
{
    struct text_buffer all = {0};
    size_t *ends = malloc(tokens->count * sizeof *ends), length = strlen(wanted);
    int status = ends ? ENGINE_OK : command_error(ENGINE_ERROR_MEMORY, "out of memory (tokens)");
    *found = SIZE_MAX;
    for (size_t i = 0; i < tokens->count && !status; i++) {
        struct engine_string text = token_input_piece(model, tokens, i);
        status = text_add(&all, &text);
        ends[i] = all.size;
    }
    for (size_t end = all.size; !status && length > 0 && end >= length && *found == SIZE_MAX; end--) {
        if (memcmp(all.data + end - length, wanted, length) != 0) continue;
        *found = 0;
        while (ends[*found] < end) ++*found;
    }
    free(all.data);
    free(ends);
    return status;
}

/* --token N. */
static int choose_number(const char *token, size_t n_tokens, size_t *chosen)
{
    errno = 0;
    unsigned long number = strtoul(token, NULL, 10);
    *chosen = number;
    if (!errno && number < n_tokens) return ENGINE_OK;
    return command_error(
        ENGINE_ERROR_ARGUMENT,
        "--token %s: the last token is number %zu, the first 0; --token-text chooses a text of "
        "digits",
        token, n_tokens - 1);
}

int token_input_choose(const struct arguments *arguments, struct engine_model *model,
                       const struct token_list *tokens, size_t *chosen)
{
    const char *token = arguments->token, *text = arguments->token_text;
    struct vocabulary vocabulary;
    *chosen = tokens->count - 1;
    if (token && text) return command_error(ENGINE_ERROR_ARGUMENT, "use either --token or --token-text");
    if (!token && !text) return ENGINE_OK;
    if (token && token[0] && token[strspn(token, "0123456789")] == '\0')
        return choose_number(token, tokens->count, chosen);
    int status = vocabulary_open(model, &vocabulary);
    if (!status) status = find_text(model, tokens, text ? text : token, chosen);
    if (status || *chosen < tokens->count) return status;
    return command_error(ENGINE_ERROR_ARGUMENT, "%s '%s': the prompt has no such text",
                         text ? "--token-text" : "--token", text ? text : token);
}
