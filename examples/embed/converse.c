/* converse.c: answers a conversation with libengine: a template turns the messages into tokens, a queue
 * writes the answer, and a reply splits it into reasoning and content. MIT licence.
 *
 * usage: converse MESSAGES [MODEL]      MESSAGES: '[{"role": "user", "content": "What is 3 plus 4?"}]' */
#include <engine.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All open objects; engine.h requires closing them in the reverse order. */
struct session {
    struct engine *engine;
    struct engine_model *model;
    struct engine_context *context;
    struct engine_queue *queue;
    struct engine_template *form;
    struct engine_rendered *rendered; /* the conversation so far, and where the answer begins */
    struct engine_reply *reply;
    int32_t *tokens; /* [n_tokens] */
    size_t n_tokens;
    int status; /* the first failure while the answer was written */
};

static int open_session(struct session *s, const char *path)
{
    struct engine_context_options options;
    int status = engine_open(NULL, &s->engine);
    if (status) return status;
    if (!path) path = engine_default_model(s->engine);
    if (!path) {
        fprintf(stderr, "converse: no model: name a GGUF file as the second argument\n");
        return ENGINE_ERROR_NOT_FOUND;
    }
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    if ((status = engine_model_open(s->engine, path, NULL, &s->model))) return status;
    if ((status = engine_context_create(s->model, &options, &s->context))) return status;
    if ((status = engine_queue_create(s->context, NULL, &s->queue))) return status;
    return engine_template_create(s->model, NULL, &s->form); /* the model's own */
}

static void close_session(struct session *s)
{
    free(s->tokens);
    engine_reply_destroy(s->reply);
    engine_rendered_free(s->rendered);
    engine_template_destroy(s->form);
    engine_queue_destroy(s->queue);
    engine_context_destroy(s->context);
    engine_model_close(s->model);
    engine_close(s->engine);
}

/* Receives the tokens of the conversation. */
static int add_tokens(void *user, const int32_t *more, size_t count)
{
    struct session *s = (struct session *)user;
    int32_t *grown = (int32_t *)realloc(s->tokens, (s->n_tokens + count) * sizeof *grown);
    if (!grown) return ENGINE_ERROR_MEMORY;
    memcpy(grown + s->n_tokens, more, count * sizeof *more);
    s->tokens = grown;
    s->n_tokens += count;
    return 0;
}

/* Text from a user never becomes one of the template's special tokens. */
static int render(struct session *s, const char *messages)
{
    struct engine_template_input input;
    int status;
    memset(&input, 0, sizeof input);
    input.struct_size = sizeof input;
    input.messages.data = messages;
    input.messages.length = strlen(messages);
    if ((status = engine_template_render(s->form, &input, &s->rendered))) return status;
    return engine_rendered_encode(s->rendered, 0, add_tokens, s);
}

static void print_piece(void *user, const struct engine_reply_piece *piece)
{
    (void)user;
    fwrite(piece->text.data, 1, piece->text.length,
           piece->part == ENGINE_REPLY_CONTENT ? stdout : stderr); /* reasoning */
    fflush(stdout);
}

/* The end of the prompt says whether the model begins with its reasoning. */
static int open_reply(struct session *s)
{
    struct engine_reply_options options;
    struct engine_string source = engine_template_source(s->form);
    char *text = strndup(source.data, source.length);
    int status = text ? ENGINE_OK : ENGINE_ERROR_MEMORY;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.template_text = text;
    options.prompt = engine_rendered_text(s->rendered);
    options.prompt_marks = engine_rendered_marks(s->rendered);
    options.piece = print_piece;
    if (!status) status = engine_reply_create(&options, &s->reply);
    free(text);
    return status;
}

static void take_event(void *user, const struct engine_event *event)
{
    struct session *s = (struct session *)user;
    if (event->text.length > 0 && !s->status)
        s->status = engine_reply_add(s->reply, event->text.data, event->text.length);
    if (event->kind == ENGINE_EVENT_DONE && event->reason == ENGINE_DONE_CONTEXT && !s->status)
        s->status = engine_reply_cut(s->reply); /* the context is full */
    if (event->kind == ENGINE_EVENT_DONE && event->reason == ENGINE_DONE_FAILED) {
        fprintf(stderr, "converse: %s\n", event->message);
        s->status = event->status;
    }
}

/* A further turn would be another request, whose prompt begins with all of this one: with ENGINE_REQUEST_KEEP
 * only its new tokens are computed. */
static int answer(struct session *s)
{
    struct engine_request request;
    int status;
    memset(&request, 0, sizeof request); /* temperature 0, until the model ends its turn */
    request.struct_size = sizeof request;
    request.tokens = s->tokens;
    request.n_tokens = s->n_tokens;
    request.flags = ENGINE_REQUEST_SPECIAL | ENGINE_REQUEST_KEEP; /* marks of reasoning are special tokens */
    request.event = take_event;
    request.user = s;
    if ((status = engine_queue_submit(s->queue, &request, NULL))) return status;
    if ((status = engine_queue_run(s->queue, ENGINE_QUEUE_IDLE))) return status;
    return s->status ? s->status : engine_reply_end(s->reply);
}

int main(int argc, char **argv)
{
    struct session session;
    int status;
    memset(&session, 0, sizeof session);
    if (argc < 2) {
        fprintf(stderr, "usage: converse MESSAGES [MODEL]\n");
        return 2;
    }
    status = open_session(&session, argc > 2 ? argv[2] : NULL);
    if (!status) status = render(&session, argv[1]);
    if (!status) status = open_reply(&session);
    if (!status) status = answer(&session);
    if (status && *engine_error_message()) fprintf(stderr, "converse: %s\n", engine_error_message());
    if (!status) putchar('\n');
    close_session(&session);
    return status ? 1 : 0;
}
