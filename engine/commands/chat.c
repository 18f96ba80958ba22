/* chat.c: `engine chat`: a conversation on the terminal, or a line in and an answer out. Standard output
 * carries the answers. */
#include "commands/chat.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "commands/commands.h"
#include "io/messages.h"
#include "io/signals.h"
#include "prompts/prompt.h"

/* Tokens that an answer should find room for; less in a small context. Before that, the oldest turns go. */
#define ROOM 64

void chat_note(const char *format, ...)
{
    va_list arguments;
    end_text();
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

void chat_fail(struct chat *chat)
{
    command_fail();
    chat->exit_status = 1;
}

/* ---- The prompt ---------------------------------------------------------------------------------------- */

/* `prompting`: with what begins the answer. */
static int render_conversation(const struct chat *chat, bool prompting, struct engine_rendered **rendered)
{
    char *messages = json_dumps(chat->conversation.messages, JSON_COMPACT);
    if (!messages) return command_error(ENGINE_ERROR_MEMORY, "out of memory (conversation)");
    struct engine_template_input input = {.struct_size = sizeof input,
                                          .messages = {messages, strlen(messages)},
                                          .no_generation_prompt = !prompting};
    if (chat->variables) input.variables = (struct engine_string){chat->variables, strlen(chat->variables)};
    int status = engine_template_render(chat->chat_template, &input, rendered);
    free(messages);
    return status;
}

/* Appends the tokens of the text from a byte on. *good: it could be cut there, which is so before a control
 * token. */
static int encode_from(struct chat *chat, const struct engine_rendered *rendered, size_t from, bool *good)
{
    const struct vocabulary *v = &chat->vocabulary;
    size_t count = chat->tokens.count;
    int status = engine_rendered_encode(rendered, from, token_list_sink, &chat->tokens);
    *good = from == 0 || (chat->tokens.count > count &&
                          v->api->attributes(v->tokenizer, chat->tokens.ids[count]) & ENGINE_TOKEN_CONTROL);
    return status;
}

/* Renders the conversation and brings `tokens` and `seen` up to date. If the text goes on from what the model
 * has seen, so do the tokens: an answer cut into other tokens would have to be computed again. */
static int encode_conversation(struct chat *chat)
{
    struct engine_rendered *rendered = NULL;
    bool good = false;
    int status = render_conversation(chat, true, &rendered);
    if (status) return status;
    struct engine_string text = engine_rendered_text(rendered);
    size_t from = chat->seen.size;
    if (from > 0 && from <= text.length && memcmp(text.data, chat->seen.data, from) == 0)
        status = encode_from(chat, rendered, from, &good);
    if (!status && !good) {
        from = chat->tokens.count = 0;
        status = encode_from(chat, rendered, 0, &good);
    }
    chat->seen.size = from;
    if (!status)
        status = text_add(&chat->seen, &(struct engine_string){text.data + from, text.length - from});
    const unsigned char *marks = engine_rendered_marks(rendered);
    for (chat->opening = 0; chat->opening < text.length && !marks[text.length - chat->opening - 1];)
        chat->opening++;
    if (status) chat_forget_tokens(chat);
    engine_rendered_free(rendered);
    return status;
}

/* Encodes the last n_turns turns of `all`. *fits: they leave `room` tokens of the context. */
static int encode_turns(struct chat *chat, const struct conversation *all, size_t n_turns, size_t room,
                        bool *fits)
{
    json_t *copy = conversation_copy(all);
    if (!copy) return command_error(ENGINE_ERROR_MEMORY, "out of memory (conversation)");
    conversation_restore(&chat->conversation, copy);
    int status = conversation_keep(&chat->conversation, n_turns);
    if (!status) status = encode_conversation(chat);
    *fits = !status && chat->tokens.count + room <= chat->info.n_context;
    return status;
}

/* Keeps as many of the last turns as leave `room` tokens of the context, at least one. Tries 1, 2, 4, … turns
 * before it halves the interval, so that a long conversation costs no more than what is kept of it. */
static int drop_turns(struct chat *chat, size_t room)
{
    struct conversation all = {.messages = conversation_copy(&chat->conversation)};
    size_t kept = 1, above = conversation_turns(&chat->conversation), tried = 0;
    bool fits = true;
    int status =
        all.messages ? ENGINE_OK : command_error(ENGINE_ERROR_MEMORY, "out of memory (conversation)");
    for (size_t step = 2; !status && fits && step < above; step *= 2) {
        status = encode_turns(chat, &all, tried = step, room, &fits);
        if (fits)
            kept = step;
        else
            above = step;
    }
    while (!status && above - kept > 1) {
        size_t middle = kept + (above - kept) / 2;
        status = encode_turns(chat, &all, tried = middle, room, &fits);
        if (fits)
            kept = middle;
        else
            above = middle;
    }
    if (!status && tried != kept) status = encode_turns(chat, &all, kept, room, &fits);
    conversation_destroy(&all);
    return status;
}

/* Encodes the conversation, without its oldest turns if it has become too long for the context. `n_written`:
 * tokens of the answer so far. What follows a turn that is left out has to be computed again, so a quarter of
 * the context is made free at once. */
static int encode_what_fits(struct chat *chat, size_t n_written)
{
    size_t n_context = chat->info.n_context, room = n_context / 8 < ROOM ? n_context / 8 : ROOM;
    size_t n_turns = conversation_turns(&chat->conversation), n_dropped = 0;
    int status = encode_conversation(chat);
    if (!status && chat->tokens.count + n_written + room > n_context && n_turns > 1) {
        status = drop_turns(chat, n_written + n_context / 4);
        n_dropped = n_turns - conversation_turns(&chat->conversation);
    }
    if (!status && chat->tokens.count + n_written >= n_context)
        status = command_error(ENGINE_ERROR_ARGUMENT,
                               "the message has %zu tokens, with the system message and what the template "
                               "adds, and the context %zu: enlarge it with %s, or write less",
                               chat->tokens.count, n_context,
                               context_option(&chat->arguments, chat->info.n_context));
    if (!status && n_dropped > 0)
        chat_note("(the context of %zu tokens is full: the oldest %s left out from now on)", n_context,
                  n_dropped == 1 ? "turn is" : count_text(n_dropped, "turn is", "turns are").text);
    return status;
}

void chat_forget_tokens(struct chat *chat)
{
    chat->seen.size = chat->tokens.count = 0;
}

static int count_tokens(void *user, const int32_t *ids, size_t count)
{
    (void)ids;
    *(size_t *)user += count;
    return ENGINE_OK;
}

int chat_count_tokens(struct chat *chat, size_t *count)
{
    struct engine_rendered *rendered = NULL;
    *count = chat->tokens.count;
    if (*count > 0 || json_array_size(chat->conversation.messages) == 0) return ENGINE_OK;
    int status = render_conversation(chat, false, &rendered);
    if (!status) status = engine_rendered_encode(rendered, 0, count_tokens, count);
    engine_rendered_free(rendered);
    return status;
}

/* ---- The answer ---------------------------------------------------------------------------------------- */

/* Reasoning is dim on a terminal; elsewhere it goes to standard error, so that answers stand alone. */
static void print_part(struct chat *chat, uint32_t part, const struct engine_string *text)
{
    bool terminal = chat_input_is_terminal(chat->input), first = chat->part != part;
    bool reasoned = chat->part == ENGINE_REPLY_REASONING;
    chat->part = part;
    if (part == ENGINE_REPLY_REASONING && !terminal) {
        fwrite(text->data, 1, text->length, stderr);
        return;
    }
    if (first && terminal) {
        wrap_flush(&chat->wrap);
        chat->wrap = (struct wrap){0};
    }
    if (first && part == ENGINE_REPLY_REASONING) print_text("\033[2m", 4);
    if (first && part == ENGINE_REPLY_CONTENT && reasoned && terminal) print_text("\033[0m\n\n", 6);
    if (first && part == ENGINE_REPLY_CONTENT && reasoned && !terminal) fputc('\n', stderr);
    if (terminal)
        wrap_add(&chat->wrap, text->data, text->length, chat_input_columns());
    else
        print_text(text->data, text->length);
}

static void take_piece(void *user, const struct engine_reply_piece *piece)
{
    struct chat *chat = user;
    struct text_buffer *whole = piece->part == ENGINE_REPLY_REASONING ? &chat->reasoning : &chat->content;
    if (!chat->status) chat->status = text_add(whole, &piece->text);
    print_part(chat, piece->part, &piece->text);
}

static void take_event(void *user, const struct engine_event *event)
{
    struct chat *chat = user;
    chat->last = *event;
    if (event->kind == ENGINE_EVENT_TOKEN && !chat->status)
        chat->status = token_list_add(&chat->tokens, &event->token, 1);
    if (event->kind != ENGINE_EVENT_PROMPT) {
        if (!chat->status) chat->status = text_add(&chat->written, &event->text);
        if (!chat->status) chat->status = engine_reply_add(chat->reply, event->text.data, event->text.length);
    }
    if (event->kind == ENGINE_EVENT_DONE && event->reason == ENGINE_DONE_FAILED)
        chat->status = command_error(event->status, "%s", event->message);
    if (interrupted || chat->status) engine_queue_cancel(chat->queue, event->request);
}

/* What the template wrote last, not a message, decides where the answer begins: within the reasoning, or
 * not. */
static struct engine_string opening_of(const struct chat *chat)
{
    return (struct engine_string){chat->seen.data + chat->seen.size - chat->opening, chat->opening};
}

/* Has the queue write until the answer ends or the context is full. `n_written`: the last tokens are those of
 * the answer so far. */
static int write_some(struct chat *chat, uint32_t limit, size_t n_written)
{
    uint32_t flags = chat->arguments.ignore_end ? ENGINE_REQUEST_IGNORE_END : 0u;
    /* A part after the first doesn't repeat its random numbers. */
    uint64_t seed = chat->seed + n_written * 0x9e3779b97f4a7c15u;
    struct engine_sampler_options sampler = sampling_options(&chat->sampling, seed);
    chat->reading.prompt = opening_of(chat); /* dropped turns have moved it */
    struct engine_request request = {
        .struct_size = sizeof request,
        .tokens = chat->tokens.ids,
        .n_tokens = chat->tokens.count,
        .sampler = &sampler,
        .max_tokens = limit,
        .flags = flags | ENGINE_REQUEST_KEEP | ENGINE_REQUEST_SPECIAL,
        .stop = chat->stop.items,
        .n_stop = chat->stop.count,
        .event = take_event,
        .user = chat,
        .grammar = chat->grammar,
        .n_begun = (uint32_t)n_written,
        .reply = chat->arguments.reasoning_budget < UINT32_MAX ? &chat->reading : NULL,
        .max_reasoning = chat->arguments.reasoning_budget,
    };
    int status = engine_queue_submit(chat->queue, &request, NULL);
    if (!status) status = engine_queue_run(chat->queue, ENGINE_QUEUE_IDLE);
    if (!status) chat->n_written += chat->last.n_generated;
    if (!status) chat->seconds += chat->last.text_seconds;
    return status ? status : chat->status;
}

/* The turns before the answer give way if the context fills while it is written. */
static int write_answer(struct chat *chat)
{
    uint32_t limit = chat->arguments.n_predict_given ? chat->arguments.n_predict : UINT32_MAX;
    struct token_list answer = {0};
    size_t n_prompt = chat->tokens.count, n_written = 0;
    int status;
    for (;;) {
        status = write_some(chat, limit == UINT32_MAX ? 0 : limit - (uint32_t)n_written, n_written);
        if (status || chat->last.reason != ENGINE_DONE_CONTEXT) break;
        if (conversation_turns(&chat->conversation) < 2) break;
        n_written = chat->tokens.count - n_prompt;
        answer.count = 0;
        status = token_list_add(&answer, chat->tokens.ids + n_prompt, n_written);
        if (!status) status = encode_what_fits(chat, n_written);
        n_prompt = chat->tokens.count;
        if (!status) status = token_list_add(&chat->tokens, answer.ids, answer.count);
        if (status) break;
    }
    free(answer.ids);
    return status;
}

static int open_reply(struct chat *chat)
{
    engine_reply_destroy(chat->reply);
    chat->reply = NULL;
    chat->written.size = chat->content.size = chat->reasoning.size = 0;
    chat->part = 0;
    chat->reading = (struct engine_reply_options){.struct_size = sizeof chat->reading,
                                                  .format = chat->reply_format,
                                                  .chat_template = chat->chat_template,
                                                  .prompt = opening_of(chat),
                                                  .piece = take_piece,
                                                  .user = chat};
    return engine_reply_create(&chat->reading, &chat->reply);
}

/* Why the answer ended, if not by itself. */
static void tell_end(const struct chat *chat)
{
    if (interrupted)
        chat_note("(stopped)");
    else if (chat->last.reason == ENGINE_DONE_LIMIT)
        chat_note("(cut after %s; see /set predict)", count_text(chat->n_written, "token", "tokens").text);
    else if (chat->last.reason == ENGINE_DONE_CONTEXT)
        chat_note("(the context of %u tokens is full; %s makes it larger)", chat->info.n_context,
                  context_option(&chat->arguments, chat->info.n_context));
    if (chat->last.incomplete) chat_note("(cut before %s lets it end)", chat->constraint.option);
}

/* Answers the last message of the user. False: there is no answer, and why has been printed. */
static bool answer(struct chat *chat)
{
    bool terminal = chat_input_is_terminal(chat->input);
    bool good = false;
    chat->status = ENGINE_OK;
    chat->last_seed = chat->seed;
    chat->n_written = 0;
    chat->seconds = 0;
    int status = encode_what_fits(chat, 0);
    if (!status) status = open_reply(chat);
    if (!status) status = write_answer(chat);
    if (!status && chat->last.reason != ENGINE_DONE_END) status = engine_reply_cut(chat->reply);
    if (!status) status = engine_reply_end(chat->reply);
    if (!status) status = chat->status;
    wrap_flush(&chat->wrap);
    if (chat->part == ENGINE_REPLY_REASONING) fputs(terminal ? "\033[0m" : "\n", terminal ? stdout : stderr);
    if (!status && chat->content.size + chat->reasoning.size + (size_t)!interrupted > 0) {
        status = conversation_answer(&chat->conversation, chat->content.data, chat->content.size,
                                     chat->reasoning.data, chat->reasoning.size);
        if (!status)
            status = text_add(&chat->seen, &(struct engine_string){chat->written.data, chat->written.size});
        print_text("\n", 1);
        tell_end(chat);
        if (status) chat_fail(chat);
        good = !status;
    } else {
        if (status)
            chat_fail(chat);
        else
            chat_note("(stopped before the answer began; the conversation is as before)");
    }
    if (!signals_reader_is_gone()) signals_forget();
    chat->seed++;
    return good;
}

void chat_ask(struct chat *chat, const char *text, size_t length, bool instead)
{
    json_t *before = conversation_copy(&chat->conversation);
    if (instead || !text) conversation_undo(&chat->conversation, text != NULL);
    int status = text ? conversation_ask(&chat->conversation, text, length) : ENGINE_OK;
    if (status) chat_fail(chat);
    if (!status && answer(chat)) {
        json_decref(before);
        return;
    }
    conversation_restore(&chat->conversation, before);
    chat_forget_tokens(chat);
}

/* ---- The session --------------------------------------------------------------------------------------- */

static int open_queue(struct chat *chat)
{
    struct engine_queue_options queue = {.struct_size = sizeof queue};
    struct engine_context_options options;
    int32_t offload;
    context_options(&chat->arguments, &options, &offload);
    int status = create_context(&chat->arguments, chat->model, &options, &chat->context);
    if (status) return status;
    chat->info.struct_size = sizeof chat->info;
    engine_context_get_info(chat->context, &chat->info);
    status = guesses_open(&chat->arguments, chat->engine, &options, chat->context, &chat->draft, &queue);
    return status ? status : engine_queue_create(chat->context, &queue, &chat->queue);
}

static int open_chat(struct chat *chat)
{
    const struct arguments *arguments = &chat->arguments;
    int status = guesses_check(arguments);
    if (!status) status = sampling_read(arguments, &chat->sampling);
    if (!status) status = texts_read(&arguments->stop, "stop", &chat->stop);
    if (!status) status = constraint_read(arguments, &chat->constraint);
    if (!status) status = chat_template_variables(arguments, &chat->variables);
    if (!status) status = conversation_create(&chat->conversation);
    if (!status) status = conversation_set_system(&chat->conversation, arguments->system);
    if (!status) status = open_engine(arguments, &chat->engine);
    if (!status) status = open_model(arguments, chat->engine, &chat->model);
    if (!status) status = refuse_source(chat->model, "chat");
    if (!status) status = refuse_encoder(chat->model);
    if (!status) status = sampling_adopt(arguments, chat->model, &chat->sampling);
    if (!status) status = vocabulary_open(chat->model, &chat->vocabulary);
    if (!status) status = sampling_check_tokens(&chat->sampling, chat->vocabulary.info.n_tokens);
    if (!status) status = constraint_open(chat->model, &chat->constraint, &chat->grammar);
    if (!status) status = chat_template_open(arguments, chat->model, &chat->chat_template);
    if (!status) status = chat_template_check(chat->chat_template, false);
    if (!status) chat->reply_format = engine_template_reply_format(chat->chat_template, NULL);
    if (!status) status = open_queue(chat);
    return status ? status : chat_input_open(chat_command_names, !arguments->no_history, &chat->input);
}

static void close_chat(struct chat *chat)
{
    chat_input_close(chat->input);
    engine_reply_destroy(chat->reply);
    engine_queue_destroy(chat->queue);
    guesses_close(&chat->draft);
    engine_context_destroy(chat->context);
    engine_template_destroy(chat->chat_template);
    engine_grammar_destroy(chat->grammar);
    engine_model_close(chat->model);
    engine_close(chat->engine);
    conversation_destroy(&chat->conversation);
    sampling_free(&chat->sampling);
    texts_free(&chat->stop);
    constraint_free(&chat->constraint);
    free(chat->variables);
    free(chat->seen.data);
    free(chat->tokens.ids);
    free(chat->written.data);
    free(chat->content.data);
    free(chat->reasoning.data);
    for (size_t i = 0; i < chat->n_values; i++) free(chat->values[i]);
    free(chat->values);
}

/* A line that was typed. "//" begins a message with a slash. */
static bool take_line(struct chat *chat, char *line, size_t length, bool editing, char **preset)
{
    if (line[0] == '/' && line[1] != '/') return chat_command(chat, line, preset);
    if (line[0] == '/') line++, length--;
    if (line[strspn(line, " \t\n")] == 0) return true;
    chat_ask(chat, line, length, editing);
    return true;
}

static void converse(struct chat *chat)
{
    char *preset = NULL;
    for (bool goes_on = true; goes_on && !signals_reader_is_gone();) {
        char *line;
        size_t length;
        enum chat_input_result result = chat_input_read(chat->input, preset, &line, &length);
        bool editing = preset != NULL; /* what is typed replaces the last message */
        free(preset);
        preset = NULL;
        if (result == CHAT_INPUT_TEXT) {
            goes_on = take_line(chat, line, length, editing, &preset);
            free(line);
        } else if (result == CHAT_INPUT_INTERRUPTED && chat_input_is_terminal(chat->input)) {
            signals_forget();
            chat_note("(Ctrl-D or /exit ends the chat)");
        } else {
            if (result == CHAT_INPUT_FAILED) chat_fail(chat);
            goes_on = false;
        }
    }
    free(preset);
}

int command_chat(const struct arguments *arguments)
{
    struct chat chat = {.arguments = *arguments,
                        .seed = arguments->seed_given ? arguments->seed : new_seed()};
    if (open_chat(&chat) != ENGINE_OK) {
        chat.exit_status = interrupted ? 0 : command_fail();
    } else {
        if (chat_input_is_terminal(chat.input))
            chat_note("Using %s.\n/help lists the commands, Ctrl-C stops an answer, Ctrl-D ends the chat.",
                      engine_template_origin(chat.chat_template));
        converse(&chat);
    }
    close_chat(&chat);
    return chat.exit_status;
}
