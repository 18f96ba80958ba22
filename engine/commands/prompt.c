/* prompt.c: see prompt.h. */
#include "commands/prompt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "commands/common.h"
#include "commands/signals.h"

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
    if (count > list->capacity - list->count) {
        size_t capacity = list->capacity + (count > list->capacity ? count : list->capacity);
        int32_t *grown = realloc(list->ids, capacity * sizeof *grown);
        if (!grown) return command_error(ENGINE_ERROR_MEMORY, "out of memory (tokens)");
        list->ids = grown;
        list->capacity = capacity;
    }
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
    int32_t *ids = tokens->ids + first;
    size_t count = tokens->count - first,
           n_behind = (size_t)(info->add_eos == 1) + (size_t)(info->add_separator == 1);
    if (!info->add_bos || info->bos < 0 || count < 2 + n_behind) return;
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
