/* score.c: POST /score: the log-probability of given answers to a prompt, as `engine score` has it. */
#include <stdlib.h>
#include <string.h>

#include "commands/answers.h"
#include "commands/common.h"
#include "commands/logprobs.h"
#include "serve/api/api.h"
#include "serve/generate/generation.h"
#include "serve/http/http.h"
#include "serve/models/models.h"
#include "serve/params/params.h"
#include "serve/server.h"

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

/* ---- Requests ---- */

/* The fields of a line of `engine score`, and "logprobs". */
static bool score_read_body(struct score *score, json_t *body, struct api_error *error)
{
    static const char *const known[] = {"model", "prompt", "tokens", "answers", "id", "logprobs", NULL};
    const json_t *answers = json_object_get(body, "answers"), *logprobs = json_object_get(body, "logprobs");
    /* The command line has words of its own for these. */
    if (!answers || json_is_null(answers)) return api_error_in(error, "answers", "\"answers\" is missing");
    if (!json_object_get(body, "prompt") == !json_object_get(body, "tokens"))
        return api_error_in(error, "prompt", "the request should have either \"prompt\" or \"tokens\"");
    if (!params_check_fields(body, known, error)) return false;
    json_t *line = json_copy(body);
    if (!line) return api_error_memory(error);
    json_object_del(line, "model");
    json_object_del(line, "logprobs");
    int status = question_read(exchange_server(score->group.exchange)->arguments, score->served->model, line,
                               &score->questions);
    json_decref(line);
    if (status == ENGINE_ERROR_MEMORY) return api_error_of_engine(error, status, NULL);
    if (status) return api_error_in(error, NULL, "%s", command_message());
    if (logprobs && !json_is_null(logprobs)) {
        json_int_t n = json_integer_value(logprobs);
        if (!json_is_integer(logprobs) || n < 0 || n > 1000)
            return api_error_in(error, "logprobs", "\"logprobs\" should be a whole number up to 1000");
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
