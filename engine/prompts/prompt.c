/* prompt.c: see prompt.h. */
#include "prompts/prompt.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/array.h"
#include "common/assert.h"
#include "common/json-read.h"
#include "io/files.h"
#include "io/json.h"
#include "io/messages.h"
#include "io/npy.h"
#include "io/signals.h"

/* Without -n a text ends at this many tokens, including the prompt, but is extended by at least
 * MIN_PREDICT. */
#define TEXT_TOKENS 256
#define MIN_PREDICT 64

uint32_t predict_limit(const struct arguments *arguments, const struct vocabulary *vocabulary,
                       size_t n_prompt)
{
    if (arguments->n_predict_given) return arguments->n_predict;
    if (vocabulary->has_source) return TEXT_TOKENS;
    if (vocabulary->info.add_bos && n_prompt > 0) n_prompt--;
    return n_prompt + MIN_PREDICT < TEXT_TOKENS ? (uint32_t)(TEXT_TOKENS - n_prompt) : MIN_PREDICT;
}

/* A model whose family is unknown fails later, with a better message. */
static bool has_source(struct engine_model *model)
{
    struct engine_embedding_info info = {.struct_size = sizeof info};
    return engine_model_embedding_info(model, &info) == ENGINE_OK && info.has_source;
}

int refuse_source(struct engine_model *model, const char *command)
{
    if (!has_source(model)) return ENGINE_OK;
    return command_error(
        ENGINE_ERROR_UNSUPPORTED,
        "the model has an encoder and a decoder: `engine %s` is for models with one text; use `engine run`",
        command);
}

int refuse_encoder(struct engine_model *model)
{
    struct engine_embedding_info info = {.struct_size = sizeof info};
    int status = engine_model_embedding_info(model, &info);
    if (status || !info.is_encoder) return status;
    return command_error(ENGINE_ERROR_UNSUPPORTED,
                         "the model is an encoder: it has no logits and writes no text; use `engine embed`");
}

int vocabulary_open(struct engine_model *model, struct vocabulary *vocabulary)
{
    int status = engine_model_tokenizer(model, &vocabulary->api, &vocabulary->tokenizer);
    vocabulary->info.struct_size = sizeof vocabulary->info;
    vocabulary->has_source = has_source(model);
    return status ? status : vocabulary->api->info(vocabulary->tokenizer, &vocabulary->info);
}

int vocabulary_open_for_ids(struct engine_model *model, struct vocabulary *vocabulary)
{
    int status = vocabulary_open(model, vocabulary);
    if (status == ENGINE_OK || status == ENGINE_ERROR_MEMORY) return status;
    command_warn("tokens are shown as ids: %s", engine_error_message());
    *vocabulary = (struct vocabulary){
        .has_source = has_source(model),
        .info = {.struct_size = sizeof vocabulary->info, .n_tokens = UINT32_MAX, .bos = -1, .eos = -1}};
    return ENGINE_OK;
}

struct engine_string prompt_token_text(struct engine_model *model, int32_t token)
{
    struct engine_string text = {"", 0};
    int status = engine_model_token_text(model, token, &text);
    if (status == ENGINE_ERROR_MEMORY) signals_end_program(engine_error_message());
    return status || !text.data ? (struct engine_string){"", 0} : text;
}

struct engine_string id_string(int32_t id, struct id_text *room)
{
    int length = snprintf(room->text, sizeof room->text, "%" PRId32, id);
    return (struct engine_string){room->text, (size_t)length};
}

int token_list_add(struct token_list *list, const int32_t *ids, size_t count)
{
    if (!ARRAY_RESERVE(list->ids, list->capacity, list->count + count))
        return command_error(ENGINE_ERROR_MEMORY, "out of memory (tokens)");
    memcpy(list->ids + list->count, ids, count * sizeof *ids);
    list->count += count;
    return ENGINE_OK;
}

int token_list_sink(void *user, const int32_t *ids, size_t count)
{
    return token_list_add(user, ids, count);
}

void token_list_cut(struct token_list *tokens, const struct token_list *around, size_t n)
{
    int32_t *ids = tokens->ids;
    size_t n_before = 0, n_behind = 0;
    if (tokens->count <= n) return;
    while (n_before < around->count && ids[n_before] == around->ids[n_before]) n_before++;
    while (n_before + n_behind < around->count &&
           ids[tokens->count - 1 - n_behind] == around->ids[around->count - 1 - n_behind])
        n_behind++;
    if (n_behind > n) n_behind = n;
    memmove(ids + n - n_behind, ids + tokens->count - n_behind, n_behind * sizeof *ids);
    tokens->count = n;
}

void token_list_drop_bos(const struct engine_tokenizer_info *info, struct token_list *tokens, size_t first)
{
    ENGINE_ASSERT(first <= tokens->count);
    size_t count = tokens->count - first,
           n_behind = (size_t)(info->add_eos == 1) + (size_t)(info->add_separator == 1);
    if (!info->add_bos || info->bos < 0 || count < 2 + n_behind) return;
    int32_t *ids = tokens->ids + first;
    if (ids[0] != info->bos || ids[1] != info->bos) return;
    memmove(ids, ids + 1, (count - 1) * sizeof *ids);
    tokens->count--;
    tokens->had_bos = true;
}

void warn_of_bos(const struct token_list *tokens, bool *told)
{
    if (tokens->had_bos && !(told && *told)) command_warn("%s", PROMPT_HAD_BOS);
    if (told) *told |= tokens->had_bos;
}

int prompt_encode(const struct vocabulary *vocabulary, const char *text, size_t size, bool special,
                  struct token_list *tokens)
{
    const struct engine_tokenizer_info *info = &vocabulary->info;
    uint32_t how = ENGINE_ENCODE_BOS_EOS | (special ? ENGINE_ENCODE_SPECIAL : 0u);
    size_t first = tokens->count;
    int status = vocabulary->api->encode(vocabulary->tokenizer, text, size, how, token_list_sink, tokens);
    if (status) return status;
    token_list_drop_bos(info, tokens, first);
    /* An EOS after the prompt would end the text before it begins. */
    if (info->add_eos && !vocabulary->has_source && tokens->count > 0 &&
        tokens->ids[tokens->count - 1] == info->eos)
        tokens->count--;
    return tokens->count == 0 && info->bos >= 0 ? token_list_add(tokens, &info->bos, 1) : ENGINE_OK;
}

int32_t vocabulary_token(const struct vocabulary *vocabulary, const char *text)
{
    struct token_list tokens = {0};
    int status = vocabulary->api->encode(vocabulary->tokenizer, text, strlen(text), ENGINE_ENCODE_SPECIAL,
                                         token_list_sink, &tokens);
    int32_t token = !status && tokens.count == 1 ? tokens.ids[0] : -1;
    free(tokens.ids);
    return token;
}

uint32_t new_seed(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (uint32_t)((uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec);
}

/* ---- The tokens that commands run ---------------------------------------------------------------------- */

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

/* ---- Chat templates ------------------------------------------------------------------------------------ */

static bool is_named(const char *name)
{
    for (size_t i = 0; engine_template_name_at(i); i++)
        if (strcmp(engine_template_name_at(i), name) == 0) return true;
    return false;
}

int chat_template_open(const struct arguments *arguments, struct engine_model *model,
                       struct engine_template **template)
{
    const char *name = arguments->chat_template;
    struct engine_template_options options = {.struct_size = sizeof options, .name = name};
    if (!name || (!strpbrk(name, "/.") && (is_named(name) || access(name, F_OK) != 0))) {
        int status = engine_template_create(model, &options, template);
        if (status == ENGINE_ERROR_DATA)
            return command_error(status, "%s " CHAT_TEMPLATE_HINT, engine_error_message());
        if (status != ENGINE_ERROR_NOT_FOUND) return status;
        return command_error(ENGINE_ERROR_ARGUMENT,
                             "--chat-template: there is neither a template nor a file called '%s'", name);
    }
    char *text;
    size_t size;
    int status = read_text_file(name, &text, &size);
    if (status) return status;
    options.name = NULL;
    options.origin = name;
    options.source = (struct engine_string){text, size};
    status = engine_template_create(model, &options, template);
    free(text);
    return status;
}

int chat_template_check(const struct engine_template *template, bool tools)
{
    const char *fault = tools ? engine_template_tools_fault(template) : engine_template_fault(template);
    return fault ? command_error(ENGINE_ERROR_DATA, "%s " CHAT_TEMPLATE_HINT, fault) : ENGINE_OK;
}

/* Adds the variable of "KEY=JSON". */
static int add_variable(json_t *object, const char *word)
{
    const char *equals = strchr(word, '=');
    if (!equals || equals == word)
        return command_error(ENGINE_ERROR_ARGUMENT, "--template-arg: '%s' is not KEY=JSON", word);
    json_error_t reason;
    json_t *value = json_read_text(equals + 1, JSON_DECODE_ANY, &reason);
    if (!value)
        return command_error(
            ENGINE_ERROR_ARGUMENT,
            "--template-arg: the value in '%s' is not JSON (a text needs quotes: '%.*s=\"…\"')", word,
            (int)(equals - word), word);
    char *key = strndup(word, (size_t)(equals - word));
    int failed = !key || json_object_set_new(object, key, value);
    free(key);
    return failed ? command_error(ENGINE_ERROR_MEMORY, "out of memory (JSON)") : ENGINE_OK;
}

int chat_template_variables(const struct arguments *arguments, char **json)
{
    *json = NULL;
    if (!arguments->template_variables && !arguments->template_args.count) return ENGINE_OK;
    json_error_t reason;
    json_t *object = arguments->template_variables ? json_read_text(arguments->template_variables, 0, &reason)
                                                   : json_object();
    int status = ENGINE_OK;
    if (!json_is_object(object))
        status = command_error(ENGINE_ERROR_ARGUMENT, "--chat-template-kwargs: not a JSON object");
    for (size_t i = 0; i < arguments->template_args.count && !status; i++)
        status = add_variable(object, arguments->template_args.items[i]);
    if (!status) *json = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    if (!status && !*json) status = command_error(ENGINE_ERROR_MEMORY, "out of memory (JSON)");
    return status;
}
