/* answers.c: see answers.h. */
#include "prompts/answers.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/json-read.h"
#include "io/files.h"
#include "io/json.h"
#include "io/messages.h"
#include "io/npy.h"
#include "prompts/prompt.h"

/* What the functions below need to know. */
struct reader {
    const struct arguments *arguments;
    struct engine_model *model;
    struct vocabulary vocabulary; /* opened for the first text: tokens need none */
    struct questions *questions;
    struct token_list *listed; /* [answer_files.count] of --answer-tokens-file */
    const char *path;          /* of -f; NULL: the command line */
    uint64_t line;             /* from 1 */
    bool told_of_bos;          /* warn_of_bos, once for all prompts */
};

/* "FILE: line 3: …"; of the command line, the message alone. */
static int answers_fail(const struct reader *r, const char *format, ...) ENGINE_PRINTF(2, 3);

static int answers_fail(const struct reader *r, const char *format, ...)
{
    char message[600];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (!r->path) return command_error(ENGINE_ERROR_ARGUMENT, "%s", message);
    return command_error(ENGINE_ERROR_DATA, "%s: line %" PRIu64 ": %s", r->path, r->line, message);
}

static int no_memory(void)
{
    return command_error(ENGINE_ERROR_MEMORY, "out of memory (prompts and answers)");
}

/* ---- Tokens ---- */

/* The tokens of an answer by itself: none is added before or after it. */
static int encode_answer(struct reader *r, const char *text, size_t size, struct token_list *ids)
{
    struct vocabulary *v = &r->vocabulary;
    int status = v->api ? ENGINE_OK : vocabulary_open(r->model, v);
    if (status) return status;
    return v->api->encode(v->tokenizer, text, size, r->arguments->special ? ENGINE_ENCODE_SPECIAL : 0u,
                          token_list_sink, ids);
}

/* An array of ids. */
static int read_ids(const struct reader *r, const json_t *array, struct token_list *ids)
{
    int status = ENGINE_OK;
    for (size_t i = 0; i < json_array_size(array) && !status; i++) {
        const json_t *item = json_array_get(array, i);
        json_int_t value = json_integer_value(item);
        if (!json_is_integer(item) || value < 0 || value > INT32_MAX)
            return answers_fail(r, "tokens should be an array of token ids");
        int32_t id = (int32_t)value;
        status = token_list_add(ids, &id, 1);
    }
    return status;
}

static int read_npy(const char *path, struct token_list *ids)
{
    int status = npy_read_integers(path, &ids->ids, &ids->count);
    ids->capacity = ids->count;
    return status;
}

/* ---- Questions ---- */

static struct question *add_question(struct questions *questions, uint64_t line)
{
    if (!ARRAY_RESERVE(questions->items, questions->capacity, questions->count + 1)) return NULL;
    struct question *question = &questions->items[questions->count++];
    *question = (struct question){.line = line};
    return question;
}

static int check_prompt(const struct reader *r, const struct token_list *prompt)
{
    if (prompt->count > 0) return ENGINE_OK;
    return answers_fail(
        r, "the prompt has no tokens, and nothing would precede the answer: it needs one at least");
}

static int encode_question(struct reader *r, const char *text, size_t size, struct question *question,
                           struct token_list *prompt)
{
    question->prompt = malloc(size + 1);
    if (!question->prompt) return no_memory();
    memcpy(question->prompt, text, size);
    question->prompt[size] = '\0';
    question->prompt_size = size;
    int status = r->vocabulary.api ? ENGINE_OK : vocabulary_open(r->model, &r->vocabulary);
    if (!status) status = prompt_encode(&r->vocabulary, text, size, r->arguments->special, prompt);
    warn_of_bos(prompt, &r->told_of_bos);
    return status;
}

/* The text that an answer's tokens spell. */
static int answers_spell(const struct reader *r, struct answer *answer)
{
    struct text_buffer text = {0};
    int status = ENGINE_OK;
    for (size_t i = 0; i < answer->n_tokens && !status; i++) {
        struct engine_string piece = prompt_token_text(r->model, answer->tokens[i].id);
        status = text_add(&text, &piece);
    }
    if (!status) status = text_add(&text, &(struct engine_string){"", 1});
    if (status) {
        free(text.data);
        return status;
    }
    answer->text = text.data;
    answer->n_bytes = text.size - 1;
    return ENGINE_OK;
}

/* Completes an answer with its own tokens. `text` NULL: they are all that is known of it. */
static int finish_answer(const struct reader *r, const struct question *question, struct answer *answer,
                         const struct token_list *prompt, const struct token_list *own, const char *text,
                         size_t size)
{
    if (own->count == 0)
        return answers_fail(r, "answer %zu of %zu has no tokens: nothing can be scored",
                            (size_t)(answer - question->answers) + 1, question->n_answers);
    answer->n_tokens = own->count;
    answer->tokens = calloc(own->count, sizeof *answer->tokens);
    if (!answer->tokens) return no_memory();
    for (size_t i = 0; i < own->count; i++) answer->tokens[i].id = own->ids[i];
    int status = token_list_add(&answer->ids, prompt->ids, prompt->count);
    if (!status) status = token_list_add(&answer->ids, own->ids, own->count);
    if (status || !text) return status ? status : answers_spell(r, answer);
    answer->text = malloc(size + 1);
    if (!answer->text) return no_memory();
    memcpy(answer->text, text, size);
    answer->text[size] = '\0';
    answer->n_bytes = size;
    return ENGINE_OK;
}

static int make_answers(struct question *question, size_t count)
{
    question->answers = calloc(count > 0 ? count : 1, sizeof *question->answers);
    if (!question->answers) return no_memory();
    question->n_answers = count;
    return ENGINE_OK;
}

/* Counts a question whose answers are complete. */
static void count_question(struct questions *questions, struct question *question, size_t n_prompt)
{
    question->n_prompt = n_prompt;
    questions->n_requests += question->n_answers;
    for (size_t i = 0; i < question->n_answers; i++)
        if (question->answers[i].ids.count > questions->n_longest)
            questions->n_longest = question->answers[i].ids.count;
}

/* ---- The command line's answers ---- */

/* Read once, and read even if each line has answers of its own. */
static int read_answer_files(struct reader *r)
{
    const struct argument_list *files = &r->arguments->answer_files;
    int status = ENGINE_OK;
    r->listed = calloc(files->count + 1, sizeof *r->listed);
    if (!r->listed) return no_memory();
    for (size_t i = 0; i < files->count && !status; i++) {
        status = read_npy(files->items[i], &r->listed[i]);
        if (!status && r->listed[i].count == 0)
            status = command_error(ENGINE_ERROR_DATA, "%s: there are no tokens: nothing can be scored",
                                   files->items[i]);
    }
    return status;
}

static void free_answer_files(struct reader *r)
{
    for (size_t i = 0; r->listed && i < r->arguments->answer_files.count; i++) free(r->listed[i].ids);
    free(r->listed);
}

static int add_listed_answers(struct reader *r, struct question *question, const struct token_list *prompt)
{
    const struct argument_list *texts = &r->arguments->answers, *files = &r->arguments->answer_files;
    int status = make_answers(question, texts->count + files->count);
    for (size_t i = 0; i < question->n_answers && !status; i++) {
        const char *text = i < texts->count ? texts->items[i] : NULL;
        struct token_list own = {0};
        if (text) status = encode_answer(r, text, strlen(text), &own);
        if (!status)
            status = finish_answer(r, question, &question->answers[i], prompt,
                                   text ? &own : &r->listed[i - texts->count], text, text ? strlen(text) : 0);
        free(own.ids);
    }
    return status;
}

static int read_command_line(struct reader *r)
{
    const struct arguments *a = r->arguments;
    struct question *question = add_question(r->questions, 0);
    struct token_list prompt = {0};
    char *text = NULL;
    size_t size = 0;
    int status = question ? ENGINE_OK : no_memory();
    if (!status && a->answers.count + a->answer_files.count == 0)
        status = command_error(ENGINE_ERROR_ARGUMENT, "there are no answers: name them with --answer");
    if (!status && a->tokens_file) {
        status = read_npy(a->tokens_file, &prompt);
    } else if (!status && strcmp(a->prompt, "-") == 0) {
        status = read_text_file("-", &text, &size);
        if (!status) status = encode_question(r, text, size, question, &prompt);
    } else if (!status) {
        status = encode_question(r, a->prompt, strlen(a->prompt), question, &prompt);
    }
    if (!status) status = check_prompt(r, &prompt);
    if (!status) status = add_listed_answers(r, question, &prompt);
    if (!status) count_question(r->questions, question, prompt.count);
    free(text);
    free(prompt.ids);
    return status;
}

/* ---- Files of JSON lines ---- */

static int read_answer(struct reader *r, const json_t *json, const struct question *question,
                       struct answer *answer, const struct token_list *prompt)
{
    struct token_list own = {0};
    const char *text = json_string_value(json); /* NULL: ids */
    int status;
    if (text)
        status = encode_answer(r, text, json_string_length(json), &own);
    else if (json_is_array(json))
        status = read_ids(r, json, &own);
    else
        status = answers_fail(r, "\"answers\" should be an array of texts or of arrays of token ids");
    if (!status) status = finish_answer(r, question, answer, prompt, &own, text, json_string_length(json));
    free(own.ids);
    return status;
}

static int check_keys(const struct reader *r, json_t *object)
{
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        if (strcmp(name, "prompt") != 0 && strcmp(name, "tokens") != 0 && strcmp(name, "answers") != 0 &&
            strcmp(name, "id") != 0)
            return answers_fail(r, "\"%.40s\" is not known; a line has prompt or tokens, answers and id",
                                name);
    }
    if (!json_object_get(object, "prompt") == !json_object_get(object, "tokens"))
        return answers_fail(r, "a line has either \"prompt\" or \"tokens\"");
    return ENGINE_OK;
}

static int read_object(struct reader *r, json_t *object, struct question *question, struct token_list *prompt)
{
    int status = check_keys(r, object);
    if (status) return status;
    const json_t *text = json_object_get(object, "prompt"), *answers = json_object_get(object, "answers");
    question->id = json_incref(json_object_get(object, "id"));
    if (text && !json_is_string(text)) return answers_fail(r, "\"prompt\" should be a text");
    if (answers && !json_is_array(answers)) return answers_fail(r, "\"answers\" should be an array of texts");
    if (answers && json_array_size(answers) == 0)
        return answers_fail(r, "\"answers\" is empty: there is nothing to score");
    if (!answers && r->arguments->answers.count + r->arguments->answer_files.count == 0)
        return answers_fail(r,
                            "there are no answers: a line has \"answers\", or --answer names them for all");
    if (text)
        status = encode_question(r, json_string_value(text), json_string_length(text), question, prompt);
    else
        status = read_ids(r, json_object_get(object, "tokens"), prompt);
    if (!status) status = check_prompt(r, prompt);
    if (status || !answers) return status ? status : add_listed_answers(r, question, prompt);
    status = make_answers(question, json_array_size(answers));
    for (size_t i = 0; i < question->n_answers && !status; i++)
        status = read_answer(r, json_array_get(answers, i), question, &question->answers[i], prompt);
    return status;
}

int question_read(const struct arguments *arguments, struct engine_model *model, json_t *object,
                  struct questions *questions)
{
    struct reader reader = {.arguments = arguments, .model = model, .questions = questions};
    struct token_list prompt = {0};
    struct question *question = add_question(questions, 0);
    int status = question ? read_object(&reader, object, question, &prompt) : no_memory();
    if (!status) count_question(questions, question, prompt.count);
    free(prompt.ids);
    return status;
}

static int read_line(struct reader *r, const char *text, size_t length)
{
    json_error_t error;
    struct token_list prompt = {0};
    json_t *json = json_read(text, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!json) return answers_fail(r, "not JSON: %s", error.text);
    struct question *question = json_is_object(json) ? add_question(r->questions, r->line) : NULL;
    int status = ENGINE_OK;
    if (!json_is_object(json))
        status = answers_fail(r, "not an object such as {\"prompt\": …, \"answers\": […]}");
    else
        status = question ? read_object(r, json, question, &prompt) : no_memory();
    if (!status) count_question(r->questions, question, prompt.count);
    free(prompt.ids);
    json_decref(json);
    return status;
}

static int read_lines(struct reader *r)
{
    char *data;
    size_t size, length;
    int status = read_text_file(r->path, &data, &size);
    if (status) return status;
    if (strcmp(r->path, "-") == 0) r->path = "standard input";
    for (size_t at = 0; at < size && !status; at += length + 1) {
        const char *end = memchr(data + at, '\n', size - at);
        length = end ? (size_t)(end - (data + at)) : size - at;
        r->line++;
        if (length > strspn(data + at, " \t\r")) status = read_line(r, data + at, length);
    }
    free(data);
    if (!status && r->questions->count == 0)
        status = command_error(ENGINE_ERROR_DATA, "%s: there are no prompts", r->path);
    return status;
}

/* ---- All of them ---- */

int questions_read(const struct arguments *arguments, struct engine_model *model, struct questions *questions)
{
    struct reader reader = {
        .arguments = arguments, .model = model, .questions = questions, .path = arguments->prompt_file};
    int n_given = !!arguments->prompt + !!arguments->prompt_file + !!arguments->tokens_file;
    if (n_given == 0)
        return command_error(ENGINE_ERROR_ARGUMENT,
                             "no prompt: use -p, --tokens-file, or -f for a file of JSON lines");
    if (n_given > 1)
        return command_error(ENGINE_ERROR_ARGUMENT, "use one of --prompt, --tokens-file and --file");
    int status = read_answer_files(&reader);
    if (!status) status = arguments->prompt_file ? read_lines(&reader) : read_command_line(&reader);
    free_answer_files(&reader);
    return status;
}

static void free_answer(struct answer *answer)
{
    for (size_t i = 0; i < answer->n_scored; i++) json_decref(answer->tokens[i].top);
    free(answer->text);
    free(answer->ids.ids);
    free(answer->tokens);
}

void questions_free(struct questions *questions)
{
    for (size_t i = 0; i < questions->count; i++) {
        struct question *question = &questions->items[i];
        for (size_t n = 0; n < question->n_answers; n++) free_answer(&question->answers[n]);
        free(question->answers);
        free(question->prompt);
        json_decref(question->id);
    }
    free(questions->items);
    *questions = (struct questions){0};
}

void question_finish(struct question *question)
{
    double highest = -INFINITY, total = 0;
    for (size_t i = 0; i < question->n_answers; i++) {
        struct answer *answer = &question->answers[i];
        answer->logprob = 0;
        for (size_t t = 0; t < answer->n_tokens; t++) answer->logprob += (double)answer->tokens[t].logprob;
        if (answer->logprob > highest) highest = answer->logprob;
    }
    for (size_t i = 0; i < question->n_answers; i++) total += exp(question->answers[i].logprob - highest);
    for (size_t i = 0; i < question->n_answers; i++)
        question->answers[i].probability = exp(question->answers[i].logprob - highest) / total;
}

/* ---- Results ---- */

/* JSON has no infinity and no NaN. */
static json_t *number_json(double number)
{
    return isfinite(number) ? json_real(number) : json_null();
}

static json_t *token_score_json(struct engine_model *model, const struct scored_token *token)
{
    struct engine_string text = prompt_token_text(model, token->id);
    json_t *json =
        json_pack("{s:i, s:o, s:o}", "id", (int)token->id, "text", json_text(text.data, text.length),
                  "logprob", number_json((double)token->logprob));
    if (token->top) json_object_set(json, "top", token->top);
    return json;
}

static json_t *answer_json(struct engine_model *model, const struct answer *answer)
{
    json_t *tokens = json_array();
    for (size_t i = 0; i < answer->n_tokens; i++)
        json_array_append_new(tokens, token_score_json(model, &answer->tokens[i]));
    double bytes = answer->n_bytes > 0 ? (double)answer->n_bytes : NAN;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "text", json_text(answer->text, answer->n_bytes),
                     "logprob", number_json(answer->logprob), "mean",
                     number_json(answer->logprob / (double)answer->n_tokens), "per_byte",
                     number_json(answer->logprob / bytes), "probability", number_json(answer->probability),
                     "tokens", tokens);
}

json_t *question_json(struct engine_model *model, const struct question *question)
{
    json_t *answers = json_array(), *json = json_object();
    for (size_t i = 0; i < question->n_answers; i++)
        json_array_append_new(answers, answer_json(model, &question->answers[i]));
    if (question->id) json_object_set(json, "id", question->id);
    if (question->prompt)
        json_object_set_new(json, "prompt", json_text(question->prompt, question->prompt_size));
    json_object_set_new(json, "prompt_tokens", json_count(question->n_prompt));
    json_object_set_new(json, "answers", answers);
    return json;
}
