/* score.c: `engine score`: how likely a model finds given answers to a prompt. Each answer is a request of
 * the queue that reads prompt and answer and scores the tokens of the answer; the queue computes once what
 * requests share. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands/commands.h"
#include "io/display.h"
#include "io/json.h"
#include "io/messages.h"
#include "options/open.h"
#include "prompts/answers.h"
#include "prompts/prompt.h"
#include "prompts/results.h"

#define WAITING_EACH 8            /* requests that wait, for each of --parallel */
#define WIDEST_TEXT  ((size_t)60) /* bytes of an answer in a table */

struct scoring {
    const struct arguments *arguments;
    struct engine *engine;
    struct engine_model *model;
    struct engine_context *context;
    struct engine_queue *queue;
    struct questions questions;
    size_t n_submitted, n_done, n_printed; /* answers, answers, questions */
    size_t next_question, next_answer;     /* to be submitted */
    int status;
};

/* The user of a request. */
struct asked {
    struct scoring *scoring;
    struct question *question;
    struct answer *answer;
};

/* ---- Running ---- */

/* "FILE: line 3: "; of the command line, nothing. */
struct place {
    char text[600];
};
static struct place place_of(const struct arguments *a, const struct question *question)
{
    struct place place = {""};
    if (question->line > 0)
        snprintf(place.text, sizeof place.text, "%.500s: line %" PRIu64 ": ",
                 strcmp(a->prompt_file, "-") == 0 ? "standard input" : a->prompt_file, question->line);
    return place;
}

/* Checks that a question's answers fit into the context with their prompt. */
static int check_lengths(const struct arguments *a, const struct question *question, uint32_t n_context)
{
    for (size_t i = 0; i < question->n_answers; i++) {
        size_t length = question->answers[i].ids.count;
        if (length > n_context)
            return command_error(ENGINE_ERROR,
                                 "%sthe prompt and answer number %zu have %zu tokens (%zu + %zu), but the "
                                 "context has room for %u: enlarge it with %s",
                                 place_of(a, question).text, i + 1, length, question->n_prompt,
                                 length - question->n_prompt, n_context, context_option(a, n_context));
    }
    return ENGINE_OK;
}

/* Checks that the model has each token. */
static int check_ids(const struct arguments *a, const struct question *question, uint32_t n_vocab)
{
    for (size_t i = 0; i < question->n_answers; i++) {
        const struct token_list *ids = &question->answers[i].ids;
        for (size_t t = 0; t < ids->count; t++)
            if (ids->ids[t] < 0 || (uint32_t)ids->ids[t] >= n_vocab)
                return command_error(ENGINE_ERROR_DATA,
                                     "%sthe %s has the token %d, but the model has %u tokens, 0 to %u",
                                     place_of(a, question).text, t < question->n_prompt ? "prompt" : "answer",
                                     ids->ids[t], n_vocab, n_vocab - 1);
    }
    return ENGINE_OK;
}

static int open_score_context(struct scoring *s)
{
    struct engine_context_options options;
    int32_t offload;
    context_options(s->arguments, &options, &offload);
    uint32_t longest = s->questions.n_longest < UINT32_MAX ? (uint32_t)s->questions.n_longest : UINT32_MAX;
    options.n_needed = longest;
    if (options.n_context == 0 && longest <= INT32_MAX) options.n_context = longest;
    options.n_sequences = s->arguments->n_parallel;
    if (options.n_sequences > s->questions.n_requests)
        options.n_sequences = (uint32_t)s->questions.n_requests;
    uint32_t n_context = 0;
    int status = engine_context_length(s->model, &options, &n_context);
    for (size_t i = 0; i < s->questions.count && !status; i++)
        status = check_lengths(s->arguments, &s->questions.items[i], n_context);
    if (!status) status = create_context(s->arguments, s->model, &options, &s->context);
    struct engine_context_info info = {.struct_size = sizeof info};
    struct engine_queue_options queue = {.struct_size = sizeof queue,
                                         .n_waiting = s->arguments->n_parallel * WAITING_EACH};
    if (!status) engine_context_get_info(s->context, &info);
    for (size_t i = 0; i < s->questions.count && !status; i++)
        status = check_ids(s->arguments, &s->questions.items[i], info.n_vocab);
    return status ? status : engine_queue_create(s->context, &queue, &s->queue);
}

static int take_score(struct scoring *s, struct answer *answer, const struct engine_event *event)
{
    struct scored_token *token = &answer->tokens[answer->n_scored++];
    token->logprob = event->logprob;
    if (s->arguments->n_logprobs == 0) return ENGINE_OK;
    token->top = logprobs_top_json(s->model, event);
    return token->top ? ENGINE_OK : command_error(ENGINE_ERROR_MEMORY, "out of memory (probabilities)");
}

static void take_score_event(void *user, const struct engine_event *event)
{
    struct asked *asked = user;
    struct scoring *s = asked->scoring;
    if (event->kind == ENGINE_EVENT_SCORE && !s->status) s->status = take_score(s, asked->answer, event);
    if (event->kind != ENGINE_EVENT_DONE) return;
    if (event->reason == ENGINE_DONE_FAILED && !s->status)
        s->status = command_error(event->status, "%s", event->message);
    if (event->reason == ENGINE_DONE_CONTEXT && !s->status)
        s->status =
            command_error(ENGINE_ERROR, "the cache has no room for a prompt and its answer: enlarge it "
                                        "with --cache-size");
    asked->answer->done = event->reason == ENGINE_DONE_LIMIT;
    asked->question->n_done += asked->answer->done;
    s->n_done++;
    free(asked);
}

static int submit_answer(struct scoring *s, struct question *question, struct answer *answer)
{
    struct asked *asked = malloc(sizeof *asked);
    if (!asked) return command_error(ENGINE_ERROR_MEMORY, "out of memory (requests)");
    *asked = (struct asked){s, question, answer};
    struct engine_request request = {
        .struct_size = sizeof request,
        .tokens = answer->ids.ids,
        .n_tokens = answer->ids.count,
        .flags = ENGINE_REQUEST_NO_TOKENS | ENGINE_REQUEST_NO_TEXT,
        .event = take_score_event,
        .user = asked,
        .n_logprobs = s->arguments->n_logprobs,
        .n_score = (uint32_t)answer->n_tokens,
    };
    int status = engine_queue_submit(s->queue, &request, NULL);
    if (status) free(asked);
    s->n_submitted += !status;
    return status;
}

/* Fills the queue, as far as it lets requests wait. */
static int submit_some(struct scoring *s)
{
    const struct questions *questions = &s->questions;
    size_t most = (size_t)s->arguments->n_parallel * WAITING_EACH;
    int status = ENGINE_OK;
    while (!status && s->n_submitted - s->n_done < most && s->next_question < questions->count) {
        struct question *question = &questions->items[s->next_question];
        status = submit_answer(s, question, &question->answers[s->next_answer]);
        if (++s->next_answer < question->n_answers) continue;
        s->next_answer = 0;
        s->next_question++;
    }
    return status;
}

/* ---- Results ---- */

/* The beginning of a text that is as long as a cell may be, in whole characters. */
static size_t shortened(const char *text, size_t length)
{
    if (length <= WIDEST_TEXT) return length;
    length = WIDEST_TEXT;
    while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80) length--;
    return length;
}

/* Texts in tables are quoted, because answers often begin with a space or have line breaks. Of long ones the
 * beginning is shown. */
static void add_text_cell(struct table *table, const char *text, size_t length)
{
    size_t shown = shortened(text, length);
    json_t *json = json_text(text, shown);
    char *quoted = json ? json_dumps(json, JSON_ENCODE_ANY) : NULL;
    table_add(table, "%s%s", quoted ? quoted : "?", shown < length ? " …" : "");
    free(quoted);
    json_decref(json);
}

static int print_answers(const struct question *question)
{
    struct table table = {.n_columns = 6, .alignment = "lrrrrr"};
    const char *const titles[] = {"ANSWER", "PROBABILITY", "LOGPROB", "PER TOKEN", "PER BYTE", "TOKENS"};
    for (size_t i = 0; i < table.n_columns; i++) table_add(&table, "%s", titles[i]);
    for (size_t i = 0; i < question->n_answers; i++) {
        const struct answer *answer = &question->answers[i];
        add_text_cell(&table, answer->text, answer->n_bytes);
        if (isnan(answer->probability)) /* no answer is possible */
            table_add(&table, "-");
        else
            table_add(&table, "%.2f %%", answer->probability * 100);
        table_add(&table, "%.4f", answer->logprob);
        table_add(&table, "%.4f", answer->logprob / (double)answer->n_tokens);
        if (answer->n_bytes > 0)
            table_add(&table, "%.4f", answer->logprob / (double)answer->n_bytes);
        else
            table_add(&table, "-");
        table_add(&table, "%zu", answer->n_tokens);
    }
    return table_print(&table, "", stdout);
}

static int print_answer_tokens(struct engine_model *model, const struct question *question)
{
    struct table table = {.n_columns = 4, .alignment = "rrlr"};
    const char *const titles[] = {"ANSWER", "ID", "TOKEN", "LOGPROB"};
    for (size_t i = 0; i < table.n_columns; i++) table_add(&table, "%s", titles[i]);
    for (size_t i = 0; i < question->n_answers; i++)
        for (size_t t = 0; t < question->answers[i].n_tokens; t++) {
            const struct scored_token *token = &question->answers[i].tokens[t];
            struct engine_string text = prompt_token_text(model, token->id);
            table_add(&table, "%zu", i + 1);
            table_add(&table, "%" PRId32, token->id);
            add_text_cell(&table, text.data, text.length);
            table_add(&table, "%.4f", (double)token->logprob);
        }
    putchar('\n');
    return table_print(&table, "", stdout);
}

/* The prompt, or how long it is, as a heading where there are several. */
static void print_heading(const struct question *question, size_t number)
{
    const char *text = question->prompt ? question->prompt : "";
    size_t length = question->prompt ? question->prompt_size : 0;
    json_t *json = json_text(text, length);
    char *quoted = json ? json_dumps(json, JSON_ENCODE_ANY) : NULL;
    printf("%s%zu: %s\n", number > 0 ? "\n" : "", number + 1,
           question->prompt ? quoted ? quoted : "?" : count_text(question->n_prompt, "token", "tokens").text);
    free(quoted);
    json_decref(json);
}

static int print_question(struct scoring *s, size_t number)
{
    const struct question *question = &s->questions.items[number];
    bool several = s->arguments->prompt_file != NULL;
    if (s->arguments->json && !several) return json_print(question_json(s->model, question));
    if (s->arguments->json) {
        json_t *json = question_json(s->model, question);
        bool good = json && json_dumpf(json, stdout, JSON_COMPACT) == 0 && putchar('\n') != EOF;
        json_decref(json);
        return good ? 0 : 1;
    }
    if (several) print_heading(question, number);
    int failed = print_answers(question);
    return failed ? failed : print_answer_tokens(s->model, question);
}

/* In the order of the input, as soon as they are known. */
static void print_finished(struct scoring *s)
{
    while (!s->status && s->n_printed < s->questions.count) {
        struct question *question = &s->questions.items[s->n_printed];
        if (question->n_done < question->n_answers) break;
        question_finish(question);
        end_text();
        if (print_question(s, s->n_printed++))
            s->status = command_error(ENGINE_ERROR, "the results could not be written");
    }
}

static int run_scoring(struct scoring *s)
{
    size_t total = s->questions.n_requests;
    while (!s->status && !interrupted && s->n_done < total) {
        int status = submit_some(s);
        if (!status) status = engine_queue_run(s->queue, ENGINE_QUEUE_STEP);
        if (!s->status) s->status = status;
        count_progress("score", s->n_done, total, "answers");
        print_finished(s);
    }
    count_progress("score", total, total, "answers");
    return s->status;
}

int command_score(const struct arguments *arguments)
{
    struct scoring s = {.arguments = arguments};
    if (arguments->n_logprobs > 0 && !arguments->json)
        return command_usage("score: --logprobs goes with --json");
    int status = open_engine(arguments, &s.engine);
    if (!status) status = open_model(arguments, s.engine, &s.model);
    if (!status) status = refuse_source(s.model, "score");
    if (!status) status = refuse_encoder(s.model);
    if (!status) status = questions_read(arguments, s.model, &s.questions);
    if (!status) status = open_score_context(&s);
    if (!status) status = run_scoring(&s);
    int exit_status = status && !interrupted ? command_fail() : 0;
    engine_queue_destroy(s.queue);
    engine_context_destroy(s.context);
    questions_free(&s.questions);
    engine_model_close(s.model);
    engine_close(s.engine);
    return exit_status;
}
