/* tokens.c: POST /tokenize, /detokenize and /apply-template, as llama.cpp's server has them. */
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "serve/api/api.h"
#include "serve/generate/generation.h"
#include "serve/http/http.h"

static bool read_flag(const json_t *body, const char *name, bool otherwise, struct api_error *error)
{
    const json_t *value = json_object_get(body, name);
    if (!value || json_is_null(value)) return otherwise;
    if (!json_is_boolean(value)) api_error_in(error, name, "\"%s\" should be true or false", name);
    return json_is_true(value);
}

/* The text of a token; its bytes, if it is only a part of a character. */
static json_t *tokens_piece_json(const struct engine_string *text)
{
    json_t *json = json_stringn(text->data, text->length);
    if (json) return json;
    json = json_array();
    for (size_t i = 0; i < text->length; i++)
        json_array_append_new(json, json_integer((unsigned char)text->data[i]));
    return json;
}

static json_t *tokens_json(const struct served *served, const struct token_list *tokens, bool pieces)
{
    json_t *array = json_array();
    for (size_t i = 0; i < tokens->count; i++) {
        struct engine_string text = {"", 0};
        json_t *id = json_integer(tokens->ids[i]);
        if (pieces) {
            engine_model_token_text(served->model, tokens->ids[i], &text);
            id = json_pack("{s:o, s:o}", "id", id, "piece", tokens_piece_json(&text));
        }
        json_array_append_new(array, id);
    }
    return json_pack("{s:o}", "tokens", array);
}

void api_tokenize(struct exchange *exchange)
{
    static const char *const known[] = {"model",         "content",     "add_special",
                                        "parse_special", "with_pieces", NULL};
    json_t *body = exchange_json(exchange);
    const json_t *content = json_object_get(body, "content");
    const struct served *served = exchange_model(exchange);
    const struct vocabulary *v = &served->vocabulary;
    struct api_error error = api_error_none(exchange);
    struct token_list tokens = {0};
    params_check_fields(body, known, &error);
    bool special = read_flag(body, "add_special", false, &error),
         parse = read_flag(body, "parse_special", true, &error),
         pieces = read_flag(body, "with_pieces", false, &error);
    if (!json_is_string(content)) api_error_in(&error, "content", "\"content\" should be a text");
    if (!error.status) {
        uint32_t how = (special ? ENGINE_ENCODE_BOS_EOS : 0u) | (parse ? ENGINE_ENCODE_SPECIAL : 0u);
        int status = v->api->encode(v->tokenizer, json_string_value(content), json_string_length(content),
                                    how, token_list_sink, &tokens);
        if (status) api_error_of_engine(&error, status, "content");
        if (special && !status) token_list_drop_bos(&v->info, &tokens, 0);
    }
    if (error.status)
        api_error_answer(exchange, &error);
    else
        exchange_answer_json(exchange, tokens_json(served, &tokens, pieces));
    free(tokens.ids);
}

static bool tokens_decode(const struct vocabulary *v, const json_t *ids, struct text_buffer *text,
                          struct api_error *error)
{
    struct engine_decoder *decoder;
    struct engine_string piece;
    size_t i;
    json_t *item;
    int status = v->api->decoder_create(v->tokenizer, 1, &decoder);
    if (status) return api_error_of_engine(error, status, NULL);
    json_array_foreach((json_t *)(size_t)ids, i, item)
    {
        json_int_t id = json_integer_value(item);
        bool good = json_is_integer(item) && id >= 0 && id < (json_int_t)v->info.n_tokens;
        if (!good)
            api_error_in(error, "tokens", "\"tokens\" should have ids from 0 to %u", v->info.n_tokens - 1);
        status = good ? v->api->decode(decoder, (int32_t)id, &piece) : ENGINE_OK;
        if (good && !status) status = text_add(text, &piece);
        if (!good || status) break;
    }
    if (!status && !error->status) status = v->api->decode_end(decoder, &piece);
    if (!status && !error->status) status = text_add(text, &piece);
    v->api->decoder_destroy(decoder);
    if (status) api_error_of_engine(error, status, "tokens");
    return !error->status;
}

void api_detokenize(struct exchange *exchange)
{
    static const char *const known[] = {"model", "tokens", NULL};
    json_t *body = exchange_json(exchange);
    const json_t *ids = json_object_get(body, "tokens");
    struct api_error error = api_error_none(exchange);
    struct text_buffer text = {0};
    params_check_fields(body, known, &error);
    if (!json_is_array(ids)) api_error_in(&error, "tokens", "\"tokens\" should be an array of token ids");
    if (!error.status) tokens_decode(&exchange_model(exchange)->vocabulary, ids, &text, &error);
    if (error.status)
        api_error_answer(exchange, &error);
    else
        exchange_answer_json(exchange, json_pack("{s:o}", "content", json_buffer(&text)));
    free(text.data);
}

/* Without the BOS that /v1/completions puts before a prompt, as llama.cpp's server gives it. */
static struct engine_string without_bos(const struct served *served, struct engine_string text)
{
    const struct engine_tokenizer_info *info = &served->vocabulary.info;
    struct engine_string bos = {0};
    if (!info->add_bos || info->bos < 0 || engine_model_token_text(served->model, info->bos, &bos))
        return text;
    if (bos.length == 0 || text.length < bos.length || memcmp(text.data, bos.data, bos.length) != 0)
        return text;
    return (struct engine_string){text.data + bos.length, text.length - bos.length};
}

/* The prompt of a request of chat, as text: the same fields, of which those about sampling change nothing. */
void api_apply_template(struct exchange *exchange)
{
    struct api_error error = api_error_none(exchange);
    struct generation *g = generation_create(exchange, NULL, "template-");
    if (!g) return;
    if (chat_read(&g->params, exchange_json(exchange), &error)) conversation_prompt(g, &error);
    struct engine_string text = error.status ? (struct engine_string){"", 0}
                                             : without_bos(g->served, engine_rendered_text(g->rendered));
    json_t *answer = json_pack("{s:o, s:o}", "prompt", json_text(text.data, text.length), "tokens",
                               json_count(g->tokens.count));
    generation_drop(g);
    if (!error.status) {
        exchange_answer_json(exchange, answer);
        return;
    }
    json_decref(answer);
    api_error_answer(exchange, &error);
}
