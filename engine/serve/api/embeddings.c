/* embeddings.c: POST /v1/embeddings. Embeddings are the states after the final norm, pooled as the file
 * says (GGUF's pooling_type) or by their mean, and normalised to length 1. */
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "io/messages.h"
#include "prompts/embedding.h"
#include "serve/api/api.h"
#include "serve/api/internal.h"

#define MAX_INPUTS 2048 /* as in OpenAI's API */

struct embeddings {
    struct vectors vectors;
    bool base64;
    bool embeds;                 /* the model was made for embeddings */
    struct engine_string prompt; /* before each text */
};

/* ---- The model ---- */

/* How a model's states become an embedding: as it was made for, or of one that was made to write texts, the
 * mean. */
static void embeddings_know_model(struct embeddings *all)
{
    const struct engine_metadata *metadata = engine_model_metadata(all->vectors.served->model);
    struct engine_model_info model = {.struct_size = sizeof model};
    struct engine_embedding_info info = {.struct_size = sizeof info};
    char key[128];
    int64_t pooling;
    engine_model_get_info(all->vectors.served->model, &model);
    all->vectors.pooling = ENGINE_POOLING_MEAN;
    all->vectors.n_kept = all->vectors.served->info.n_embd;
    if (engine_model_embedding_info(all->vectors.served->model, &info)) return;
    all->vectors.n_kept = info.n_values;
    all->vectors.n_longest = info.n_context;
    snprintf(key, sizeof key, "%.80s.pooling_type", model.architecture);
    all->embeds = info.is_encoder || metadata->get_integer(metadata->context, key, &pooling) == ENGINE_OK;
    if (all->embeds && info.pooling >= ENGINE_POOLING_MEAN && info.pooling <= ENGINE_POOLING_LAST)
        all->vectors.pooling = info.pooling;
}

/* ---- Reading ---- */

/* With the special tokens around it that the model wants: unlike a text to be continued, it is complete. */
static bool embeddings_encode(const struct embeddings *all, const json_t *text, struct token_list *tokens,
                              struct api_error *error)
{
    const struct vocabulary *v = &all->vectors.served->vocabulary;
    size_t n_prompt = all->prompt.length, length = json_string_length(text);
    char *both = malloc(n_prompt + length + 1);
    if (!both) return api_error_memory(error);
    if (n_prompt > 0) memcpy(both, all->prompt.data, n_prompt);
    memcpy(both + n_prompt, json_string_value(text), length);
    int status =
        v->api->encode(v->tokenizer, both, n_prompt + length, ENGINE_ENCODE_BOS_EOS, token_list_sink, tokens);
    free(both);
    if (status) return api_error_of_engine(error, status, "input");
    return true;
}

/* sentence-transformers' prompts: the one of this name, or the model's default. */
static bool embeddings_read_prompt(struct embeddings *all, const json_t *name)
{
    const char *given = json_string_value(name);
    if (name && !json_is_null(name) && !given)
        return api_error_in(&all->vectors.group.error, "prompt_name", "\"prompt_name\" should be a text");
    if (embed_prompt_find(all->vectors.served->model, given, &all->prompt) == ENGINE_OK) return true;
    return api_error_in(&all->vectors.group.error, "prompt_name", "%s", command_message());
}

static bool read_one(struct embeddings *all, struct vector_input *input, const json_t *value)
{
    struct api_error *error = &all->vectors.group.error;
    if (!json_is_string(value) && json_array_size(value) == 0)
        return api_error_in(error, "input",
                            "\"input\" should be a text, an array of token ids, or an array of them, "
                            "none of them empty");
    if (json_is_string(value) && json_string_length(value) == 0)
        return api_error_in(error, "input", "\"input\" is an empty text");
    bool good = json_is_string(value) ? embeddings_encode(all, value, &input->tokens, error)
                                      : params_ids("input", value, &input->tokens, error);
    return good && vectors_fits(&all->vectors, input);
}

static bool read_inputs(struct embeddings *all, const json_t *value)
{
    struct api_error *error = &all->vectors.group.error;
    bool several = json_array_size(value) > 0 && !json_is_integer(json_array_get(value, 0));
    size_t count = several ? json_array_size(value) : 1;
    if (!value || json_is_null(value)) return api_error_in(error, "input", "\"input\" is missing");
    if (count > MAX_INPUTS)
        return api_error_in(error, "input", "\"input\" has more than %d texts", MAX_INPUTS);
    if (!vectors_room(&all->vectors, count)) return false;
    for (size_t i = 0; i < count; i++)
        if (!read_one(all, &all->vectors.inputs[i], several ? json_array_get(value, i) : value)) return false;
    return true;
}

/* Models that are made for it (arXiv 2205.13147) have the most important numbers first. */
static bool read_dimensions(struct embeddings *all, const json_t *value)
{
    struct api_error *error = &all->vectors.group.error;
    json_int_t n = json_integer_value(value);
    if (json_is_integer(value) && n == all->vectors.n_kept) return true;
    if (!all->embeds)
        return api_error_in(
            error, "dimensions",
            "embeddings of this model have %u dimensions, and fewer of them mean nothing: it was made "
            "to write texts",
            all->vectors.n_kept);
    if (!json_is_integer(value) || n < 1 || n > all->vectors.n_kept)
        return api_error_in(error, "dimensions", "\"dimensions\" should be a whole number from 1 to %u",
                            all->vectors.n_kept);
    all->vectors.n_kept = (uint32_t)n;
    return true;
}

static bool embeddings_read_body(struct embeddings *all, json_t *body)
{
    struct api_error *error = &all->vectors.group.error;
    static const char *const known[] = {"model",       "input", "encoding_format", "dimensions",
                                        "prompt_name", "user",  "truncate",        "truncate_prompt_tokens",
                                        NULL};
    const json_t *format = json_object_get(body, "encoding_format"),
                 *dimensions = json_object_get(body, "dimensions"), *user = json_object_get(body, "user");
    const char *word = json_string_value(format);
    if (!params_check_fields(body, known, error)) return false;
    if (user && !json_is_null(user) && !json_is_string(user))
        return api_error_in(error, "user", "\"user\" should be a text");
    if (format && !json_is_null(format) &&
        (!word || (strcmp(word, "float") != 0 && strcmp(word, "base64") != 0)))
        return api_error_in(error, "encoding_format", "\"encoding_format\" should be float or base64");
    all->base64 = word && strcmp(word, "base64") == 0;
    if (dimensions && !json_is_null(dimensions) && !read_dimensions(all, dimensions)) return false;
    if (!embeddings_read_prompt(all, json_object_get(body, "prompt_name"))) return false;
    if (!vectors_read_truncate(&all->vectors, body)) return false;
    return read_inputs(all, json_object_get(body, "input"));
}

/* ---- Answering ---- */

/* Little-endian float32 in base64 (RFC 4648), as OpenAI's clients read it. */
static json_t *base64_of(const float *numbers, size_t count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t size = count * 4, used = 0;
    unsigned char *bytes = malloc(size + 2);
    char *text = malloc(size / 3 * 4 + 8);
    for (size_t i = 0; i < count && bytes; i++) {
        uint32_t bits;
        memcpy(&bits, &numbers[i], sizeof bits);
        for (unsigned b = 0; b < 4; b++) bytes[i * 4 + b] = (unsigned char)(bits >> (8 * b));
    }
    for (size_t i = 0; i < size && bytes && text; i += 3) {
        size_t left = size - i;
        uint32_t three = (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                         (left > 2 ? bytes[i + 2] : 0u);
        text[used++] = digits[three >> 18];
        text[used++] = digits[three >> 12 & 63];
        text[used++] = left > 1 ? digits[three >> 6 & 63] : '=';
        text[used++] = left > 2 ? digits[three & 63] : '=';
    }
    json_t *json = bytes && text ? json_stringn(text, used) : NULL;
    free(bytes);
    free(text);
    return json;
}

static json_t *embedding_json(const struct embeddings *all, const float *numbers)
{
    size_t count = all->vectors.n_kept;
    if (all->base64) return base64_of(numbers, count);
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) json_array_append_new(array, json_real((double)numbers[i]));
    return array;
}

static json_t *embeddings_answer(const struct vectors *vectors)
{
    const struct embeddings *all = (const struct embeddings *)vectors;
    json_t *data = json_array();
    size_t n_tokens = 0;
    for (size_t i = 0; i < vectors->n_inputs; i++) {
        n_tokens += vectors->inputs[i].tokens.count;
        json_array_append_new(data, json_pack("{s:s, s:i, s:o}", "object", "embedding", "index", (int)i,
                                              "embedding", embedding_json(all, vectors->inputs[i].values)));
    }
    return json_pack("{s:s, s:o, s:s, s:{s:o, s:o}}", "object", "list", "data", data, "model", vectors->model,
                     "usage", "prompt_tokens", json_count(n_tokens), "total_tokens", json_count(n_tokens));
}

void api_embeddings(struct exchange *exchange)
{
    struct embeddings *all = vectors_create(exchange, sizeof *all);
    if (!all) return;
    all->vectors.normalises = true;
    all->vectors.what = "input";
    all->vectors.answer = embeddings_answer;
    embeddings_know_model(all);
    embeddings_read_body(all, exchange_json(exchange));
    vectors_start(&all->vectors);
}
