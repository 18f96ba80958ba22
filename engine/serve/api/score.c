/* score.c: POST /score: the log-probability of given answers to a prompt, as `engine score` has it. */
#include <stdlib.h>
#include <string.h>

#include "commands/answers.h"
#include "commands/common.h"
#include "commands/logprobs.h"
#include "serve/api/api.h"
#include "serve/generate/generation.h"
#include "serve/generate/wire.h"
#include "serve/server.h"

struct score;

struct scored {
    struct score *score;
    struct answer *answer;
    atomic_ullong id; /* of the queue's request; 0: not submitted yet */
};

struct score {
    struct exchange *exchange;
    struct served *served;
    struct questions questions; /* one */
    uint32_t n_logprobs;
    struct scored *answers; /* [n_answers] */
    size_t n_answers, n_submitted, n_running;
    struct mistake mistake;
    pthread_mutex_t lock;
    atomic_bool gone;
    atomic_size_t n_uses; /* requests without their last event, and the thread that submits them */
};

#define MOST_RUNNING 64

static void finish(struct score *score)
{
    struct question *question = score->questions.items;
    json_t *answer = NULL;
    if (!score->mistake.status) {
        question_finish(question);
        answer = question_json(score->served->model, question);
    }
    if (score->mistake.status)
        wire_fail(score->exchange, &score->mistake);
    else
        wire_answer(score->exchange, answer);
    questions_free(&score->questions);
    free(score->answers);
    pthread_mutex_destroy(&score->lock);
    free(score);
}

static void drop_use(struct score *score)
{
    if (atomic_fetch_sub(&score->n_uses, 1) == 1) finish(score);
}

static void cancel_all(struct score *score)
{
    for (size_t i = 0; i < score->n_answers; i++) {
        uint64_t id = atomic_load(&score->answers[i].id);
        if (id) served_cancel(score->served, id);
    }
}

static void client_is_gone(void *user)
{
    struct score *score = user;
    atomic_store(&score->gone, true);
    cancel_all(score);
}

static void take_event(void *user, const struct engine_event *event);

/* Under the lock: as in generation.c. */
static void submit_some(struct score *score)
{
    while (score->n_submitted < score->n_answers && score->n_running < MOST_RUNNING &&
           !score->mistake.status && !atomic_load(&score->gone)) {
        struct scored *scored = &score->answers[score->n_submitted];
        struct engine_request request = {.struct_size = sizeof request,
                                         .tokens = scored->answer->ids.ids,
                                         .n_tokens = scored->answer->ids.count,
                                         .flags = ENGINE_REQUEST_NO_TOKENS | ENGINE_REQUEST_NO_TEXT,
                                         .event = take_event,
                                         .user = scored,
                                         .n_logprobs = score->n_logprobs,
                                         .n_score = (uint32_t)scored->answer->n_tokens};
        uint64_t id;
        atomic_fetch_add(&score->n_uses, 1);
        int status = served_submit(score->exchange, &request, &id);
        if (status) {
            atomic_fetch_sub(&score->n_uses, 1);
            if (status == ENGINE_ERROR_BUSY && score->n_running > 0) return;
            mistake_of_engine(&score->mistake, status, "answers");
            cancel_all(score);
            return;
        }
        atomic_store(&scored->id, id);
        score->n_submitted++;
        score->n_running++;
    }
}

static void take_event(void *user, const struct engine_event *event)
{
    struct scored *scored = user;
    struct score *score = scored->score;
    struct answer *answer = scored->answer;
    bool done = event->kind == ENGINE_EVENT_DONE;
    pthread_mutex_lock(&score->lock);
    if (event->kind == ENGINE_EVENT_SCORE && answer->n_scored < answer->n_tokens) {
        struct scored_token *token = &answer->tokens[answer->n_scored++];
        token->logprob = event->logprob;
        if (score->n_logprobs > 0) token->top = logprobs_top_json(score->served->model, event);
    }
    if (done && event->reason != ENGINE_DONE_LIMIT && !score->mistake.status) {
        mistake_in(&score->mistake, NULL, "%s",
                   event->reason == ENGINE_DONE_FAILED ? event->message
                   : event->reason == ENGINE_DONE_CONTEXT
                       ? "the cache has no room for the prompt and an answer"
                   : atomic_load(&score->gone) ? "the client went away"
                                               : "the server is shutting down");
        score->mistake.status = 500;
        cancel_all(score);
    }
    if (done) {
        score->n_running--;
        submit_some(score);
    }
    pthread_mutex_unlock(&score->lock);
    if (done) drop_use(score);
}

static bool is_known(const char *name)
{
    static const char *const known[] = {"model", "prompt", "tokens", "answers", "id", "logprobs"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], name) == 0) return true;
    return false;
}

/* The fields of a line of `engine score`, and "logprobs". */
static bool read_body(struct score *score, json_t *body, struct mistake *mistake)
{
    const char *name;
    json_t *line = json_copy(body), *value;
    const json_t *logprobs = json_object_get(body, "logprobs");
    const struct server *server = exchange_server(score->exchange);
    /* The command line has words of its own for these. */
    if (!json_object_get(body, "answers") || json_is_null(json_object_get(body, "answers"))) {
        json_decref(line);
        return mistake_in(mistake, "answers", "\"answers\" is missing");
    }
    if (!json_object_get(body, "prompt") == !json_object_get(body, "tokens")) {
        json_decref(line);
        return mistake_in(mistake, "prompt", "the request should have either \"prompt\" or \"tokens\"");
    }
    json_object_foreach(body, name, value)
    {
        if (is_known(name)) continue;
        json_decref(line);
        return mistake_with_code(mistake, "unknown_parameter", name, "\"%.100s\" is not supported here",
                                 name);
    }
    json_object_del(line, "model");
    json_object_del(line, "logprobs");
    int status = line ? question_read(server->arguments, score->served->model, line, &score->questions)
                      : ENGINE_ERROR_MEMORY;
    json_decref(line);
    if (status == ENGINE_ERROR_MEMORY) return mistake_of_engine(mistake, status, NULL);
    if (status) return mistake_in(mistake, NULL, "%s", command_message());
    if (logprobs && !json_is_null(logprobs)) {
        json_int_t n = json_integer_value(logprobs);
        if (!json_is_integer(logprobs) || n < 0 || n > 1000)
            return mistake_in(mistake, "logprobs", "\"logprobs\" should be a whole number up to 1000");
        score->n_logprobs = (uint32_t)n;
    }
    if (score->questions.n_longest <= score->served->info.n_context) return true;
    return mistake_with_code(
        mistake, "context_length_exceeded", "answers",
        "the prompt has %zu tokens with its longest answer, but the context of this model takes "
        "%u here",
        score->questions.n_longest, score->served->info.n_context);
}

static bool make_answers(struct score *score, struct mistake *mistake)
{
    struct question *question = score->questions.items;
    score->answers = calloc(question->n_answers, sizeof *score->answers);
    if (!score->answers) return mistake_memory(mistake);
    score->n_answers = question->n_answers;
    for (size_t i = 0; i < score->n_answers; i++) {
        score->answers[i].score = score;
        score->answers[i].answer = &question->answers[i];
    }
    return true;
}

void api_score(struct exchange *exchange)
{
    struct mistake mistake = {0};
    struct score *score = calloc(1, sizeof *score);
    if (!score || pthread_mutex_init(&score->lock, NULL) != 0) {
        free(score);
        exchange_fail(exchange, 500, "server_error", NULL, NULL, "out of memory (scores)");
        return;
    }
    score->exchange = exchange;
    score->served = exchange_model(exchange);
    atomic_store(&score->n_uses, 1);
    if (read_body(score, exchange_json(exchange), &mistake) && make_answers(score, &mistake)) {
        exchange_when_gone(exchange, client_is_gone, score);
        pthread_mutex_lock(&score->lock);
        submit_some(score);
        pthread_mutex_unlock(&score->lock);
        if (atomic_load(&score->gone)) cancel_all(score);
    } else {
        score->mistake = mistake;
    }
    drop_use(score);
}
