/* score.c: POST /score: the log-probability of given answers to a prompt, as `engine score` has it. */
#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "prompts/answers.h"
#include "prompts/results.h"
#include "serve/api/api.h"
#include "serve/generate/generation.h"
#include "serve/http/http.h"
#include "serve/models/models.h"
#include "serve/params/params.h"
#include "serve/server.h"

#define MAX_LOGPROBS 1000

struct score {
    struct group group; /* a request for each answer */
    struct served *served;
    struct questions questions; /* one */
    uint32_t n_logprobs;
};

/* ---- The group's functions ---- */

static void score_finish(struct group *group)
{
    struct score *score = (struct score *)group;
    struct question *question = score->questions.items;
    json_t *answer = NULL;
    if (!group->error.status) {
        question_finish(question);
        answer = question_json(score->served->model, question);
    }
    if (group->error.status)
        api_error_answer(group->exchange, &group->error);
    else
        exchange_answer_json(group->exchange, answer);
    questions_free(&score->questions);
    group_free(group);
    free(score);
}

static void score_fill_request(struct group *group, size_t i, struct engine_request *request,
                               struct engine_sampler_options *sampler)
{
    const struct score *score = (const struct score *)group;
    const struct answer *answer = &score->questions.items->answers[i];
    (void)sampler;
    request->tokens = answer->ids.ids;
    request->n_tokens = answer->ids.count;
    request->flags = ENGINE_REQUEST_NO_TOKENS | ENGINE_REQUEST_NO_TEXT;
    request->n_logprobs = score->n_logprobs;
    request->n_score = (uint32_t)answer->n_tokens;
}

static void score_take_event(struct group *group, size_t i, const struct engine_event *event)
{
    const struct score *score = (const struct score *)group;
    struct answer *answer = &score->questions.items->answers[i];
    if (event->kind == ENGINE_EVENT_SCORE && answer->n_scored < answer->n_tokens) {
        struct scored_token *token = &answer->tokens[answer->n_scored++];
        ENGINE_ASSERT(token->id == event->token);
        token->logprob = event->logprob;
        if (score->n_logprobs > 0) token->top = logprobs_top_json(score->served->model, event);
    }
    if (event->kind != ENGINE_EVENT_DONE || event->reason == ENGINE_DONE_LIMIT) return;
    if (event->reason == ENGINE_DONE_CONTEXT)
        group_fail_with(group, 500, "the cache has no room for the prompt and an answer");
    else
        group_fail(group, event);
}

static const char *score_param_of(const struct group *group, const char *message)
{
    (void)group, (void)message;
    return "answers";
}

/* ---- Reading ---- */

/* A field of the body; NULL: it is absent or null. */
static json_t *score_field(const json_t *body, const char *name)
{
    json_t *value = json_object_get(body, name);
    return json_is_null(value) ? NULL : value;
}

static bool score_read_ids(const json_t *array, struct token_list *ids, struct api_error *error)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *item = json_array_get(array, i);
        json_int_t value = json_integer_value(item);
        if (!json_is_integer(item) || value < 0 || value > INT32_MAX)
            return api_error_in(error, NULL, "tokens should be an array of token ids");
        int32_t id = (int32_t)value;
        if (token_list_add(ids, &id, 1)) return api_error_memory(error);
    }
    return true;
}

/* What is known of an answer: its tokens behind those of the prompt, and its text, which ids spell. False:
 * out of memory. */
static bool score_keep_answer(const struct score *score, const json_t *given, struct answer *answer,
                              const struct token_list *prompt, const struct token_list *own)
{
    struct text_buffer text = {0};
    struct engine_string piece = {json_string_value(given), json_string_length(given)};
    answer->tokens = calloc(own->count, sizeof *answer->tokens);
    if (!answer->tokens) return false;
    answer->n_tokens = own->count;
    int status = token_list_add(&answer->ids, prompt->ids, prompt->count);
    if (!status) status = token_list_add(&answer->ids, own->ids, own->count);
    if (!status && piece.length > 0) status = text_add(&text, &piece);
    for (size_t i = 0; i < own->count && !status; i++) {
        answer->tokens[i].id = own->ids[i];
        if (json_is_string(given) || engine_model_token_text(score->served->model, own->ids[i], &piece))
            continue;
        status = text_add(&text, &piece);
    }
    if (!status) status = text_add(&text, &(struct engine_string){"", 1});
    answer->text = text.data;
    answer->n_bytes = status ? 0 : text.size - 1;
    return !status;
}

/* The tokens of an answer by itself: none is added before or after it. */
static bool score_read_answer(struct score *score, const json_t *given, struct answer *answer,
                              const struct token_list *prompt, struct api_error *error)
{
    const struct vocabulary *v = &score->served->vocabulary;
    const struct question *question = score->questions.items;
    uint32_t how = exchange_server(score->group.exchange)->arguments->special ? ENGINE_ENCODE_SPECIAL : 0u;
    struct token_list own = {0};
    int status = ENGINE_OK;
    bool good = true;
    if (json_is_string(given))
        status = v->api->encode(v->tokenizer, json_string_value(given), json_string_length(given), how,
                                token_list_sink, &own);
    else if (json_is_array(given))
        good = score_read_ids(given, &own, error);
    else
        good = api_error_in(error, NULL, "\"answers\" should be an array of texts or of arrays of token ids");
    if (status) good = api_error_of_engine(error, status, NULL);
    if (good && own.count == 0)
        good = api_error_in(error, NULL, "answer %zu of %zu has no tokens: nothing can be scored",
                            (size_t)(answer - question->answers) + 1, question->n_answers);
    if (good && !score_keep_answer(score, given, answer, prompt, &own)) good = api_error_memory(error);
    if (answer->ids.count > score->questions.n_longest) score->questions.n_longest = answer->ids.count;
    free(own.ids);
    return good;
}

static bool score_read_prompt(struct score *score, const json_t *body, struct token_list *prompt,
                              struct api_error *error)
{
    const json_t *text = score_field(body, "prompt");
    struct question *question = score->questions.items;
    size_t size = json_string_length(text);
    if (!text && !score_read_ids(score_field(body, "tokens"), prompt, error)) return false;
    if (text) {
        question->prompt = malloc(size + 1);
        if (!question->prompt) return api_error_memory(error);
        memcpy(question->prompt, json_string_value(text), size + 1);
        question->prompt_size = size;
        bool special = exchange_server(score->group.exchange)->arguments->special;
        if (!generation_encode(score->served, question->prompt, size, special, prompt, error)) return false;
    }
    question->n_prompt = prompt->count;
    return prompt->count > 0 ||
           api_error_in(
               error, NULL,
               "the prompt has no tokens, and nothing would precede the answer: it needs one at least");
}

/* The one question, its id, prompt and answers. */
static bool score_read_question(struct score *score, const json_t *body, struct api_error *error)
{
    const json_t *answers = score_field(body, "answers"), *text = score_field(body, "prompt");
    struct token_list prompt = {0};
    if (text && !json_is_string(text)) return api_error_in(error, NULL, "\"prompt\" should be a text");
    if (!json_is_array(answers)) return api_error_in(error, NULL, "\"answers\" should be an array of texts");
    size_t n = json_array_size(answers);
    if (n == 0) return api_error_in(error, NULL, "\"answers\" is empty: there is nothing to score");
    struct question *question = calloc(1, sizeof *question);
    score->questions = (struct questions){.items = question, .count = question != NULL, .capacity = 1};
    if (question) question->answers = calloc(n, sizeof *question->answers);
    if (!question || !question->answers) return api_error_memory(error);
    question->n_answers = n;
    question->id = json_incref(json_object_get(body, "id"));
    bool good = score_read_prompt(score, body, &prompt, error);
    for (size_t i = 0; i < n && good; i++)
        good = score_read_answer(score, json_array_get(answers, i), &question->answers[i], &prompt, error);
    free(prompt.ids);
    return good;
}

static bool score_read_body(struct score *score, json_t *body, struct api_error *error)
{
    static const char *const known[] = {"model", "prompt", "tokens", "answers", "id", "logprobs", NULL};
    const json_t *logprobs = score_field(body, "logprobs");
    if (!score_field(body, "answers")) return api_error_in(error, "answers", "\"answers\" is missing");
    if (!score_field(body, "prompt") == !score_field(body, "tokens"))
        return api_error_in(error, "prompt", "the request should have either \"prompt\" or \"tokens\"");
    if (!params_check_fields(body, known, error) || !score_read_question(score, body, error)) return false;
    if (logprobs) {
        json_int_t n = json_integer_value(logprobs);
        if (!json_is_integer(logprobs) || n < 0 || n > MAX_LOGPROBS)
            return api_error_in(error, "logprobs", "\"logprobs\" should be a whole number up to %d",
                                MAX_LOGPROBS);
        score->n_logprobs = (uint32_t)n;
    }
    if (score->questions.n_longest <= score->served->info.n_context) return true;
    return api_error_with_code(
        error, "context_length_exceeded", "answers",
        "the prompt has %zu tokens with its longest answer, but the context of this model takes "
        "%u here",
        score->questions.n_longest, score->served->info.n_context);
}

void api_score(struct exchange *exchange)
{
    struct score *score = calloc(1, sizeof *score);
    if (!score || !group_init(&score->group, exchange)) {
        free(score);
        exchange_fail(exchange, OUT_OF_MEMORY_STATUS, "server_error", NULL, NULL, "out of memory (scores)");
        return;
    }
    struct api_error *error = &score->group.error;
    score->group.fill = score_fill_request;
    score->group.take = score_take_event;
    score->group.finish = score_finish;
    score->group.param = score_param_of;
    score->served = exchange_model(exchange);
    if (score_read_body(score, exchange_json(exchange), error))
        group_room(&score->group, score->questions.items->n_answers, error);
    group_submit(&score->group);
}
