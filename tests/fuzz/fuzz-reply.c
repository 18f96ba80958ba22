/* fuzz-reply.c: fuzzing target: a model's reply. The first byte chooses the format, or a template from which
 * it is derived, whether tools were offered, and whether a limit cut the reply; the rest is the end of a
 * prompt, a zero and the reply, or the reply alone. However the reply is cut into pieces, the same content,
 * reasoning and calls come out, and each whole call's arguments are a JSON object. Calls as they are written
 * begin and end, and none is missing that comes whole otherwise; its pieces together are the same
 * arguments. */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

static void must(bool good)
{
    if (!good) abort();
}

/* All pieces, one after the other, a byte before each change of part. */
struct transcript {
    char *text;
    size_t length, capacity;
    uint32_t part, n_calls;
    size_t arguments; /* where those of the last call begin */
    json_t *calls;    /* [name, arguments] of each; null: they are cut, or no object */
    bool in_call, as_written;
};

static void append(struct transcript *out, const char *text, size_t length)
{
    if (length == 0) return; /* an empty text may be NULL */
    if (length > out->capacity - out->length) {
        out->capacity = 2 * out->capacity + length + 64;
        out->text = realloc(out->text, out->capacity);
        must(out->text);
    }
    memcpy(out->text + out->length, text, length);
    out->length += length;
}

/* A call has ended. */
static void add_arguments(struct transcript *out, uint32_t flags)
{
    size_t n = out->length - out->arguments;
    json_t *read = flags & ENGINE_REPLY_CALL_CUT || n == 0
                       ? NULL
                       : json_loadb(out->text + out->arguments, n, JSON_REJECT_DUPLICATES, NULL);
    json_array_append_new(json_array_get(out->calls, out->n_calls - 1),
                          json_is_object(read) ? json_incref(read) : json_null());
    json_decref(read);
}

static void write_piece(void *user, const struct engine_reply_piece *piece)
{
    struct transcript *out = user;
    if (piece->part != out->part) append(out, &"?CR!"[piece->part], 1);
    out->part = piece->part;
    if (piece->part == ENGINE_REPLY_CALL) {
        bool begins = piece->flags & ENGINE_REPLY_CALL_BEGINS, ends = piece->flags & ENGINE_REPLY_CALL_ENDS;
        must(begins != out->in_call && begins == (piece->name != NULL));
        if (begins) out->n_calls++;
        must(piece->call == out->n_calls - 1 && (!begins || piece->name[0]));
        if (!out->as_written) {
            json_t *arguments = json_loadb(piece->text.data, piece->text.length, 0, NULL);
            must(json_is_object(arguments));
            json_decref(arguments);
        }
        out->in_call = !ends;
        if (begins) {
            append(out, piece->name, strlen(piece->name) + 1);
            out->arguments = out->length;
            json_array_append_new(out->calls, json_pack("[o]", json_string_nocheck(piece->name)));
        }
    } else {
        must(piece->text.length > 0 && !out->in_call);
    }
    append(out, piece->text.data, piece->text.length);
    if (piece->part == ENGINE_REPLY_CALL && piece->flags & ENGINE_REPLY_CALL_ENDS)
        add_arguments(out, piece->flags);
}

static struct transcript read_in_pieces(struct engine_reply_options options, bool cut, const char *text,
                                        size_t length, size_t step)
{
    struct transcript out = {.as_written = options.flags != 0, .calls = json_array()};
    struct engine_reply *reply;
    options.user = &out;
    must(engine_reply_create(&options, &reply) == ENGINE_OK);
    for (size_t at = 0; at < length; at += step)
        must(engine_reply_add(reply, text + at, step < length - at ? step : length - at) == ENGINE_OK);
    if (cut) must(engine_reply_cut(reply) == ENGINE_OK);
    must(engine_reply_end(reply) == ENGINE_OK);
    must(!out.in_call);
    engine_reply_destroy(reply);
    return out;
}

static void drop(struct transcript *out)
{
    json_decref(out->calls);
    free(out->text);
}

/* Reads the reply in pieces of several lengths. */
static struct transcript check_divisions(struct engine_reply_options options, bool cut, const char *text,
                                         size_t length)
{
    static const size_t steps[] = {1, 3, 17};
    struct transcript whole = read_in_pieces(options, cut, text, length, length ? length : 1);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct transcript pieces = read_in_pieces(options, cut, text, length, steps[i]);
        must(pieces.length == whole.length && pieces.n_calls == whole.n_calls);
        must(whole.length == 0 || memcmp(pieces.text, whole.text, whole.length) == 0);
        drop(&pieces);
    }
    return whole;
}

/* Calls as they are written, if they are the whole ones, have the same arguments. */
static void check_arguments(const struct transcript *whole, const struct transcript *written)
{
    json_t *call;
    size_t i;
    must(written->n_calls >= whole->n_calls);
    if (written->n_calls > whole->n_calls) return;
    json_array_foreach(whole->calls, i, call)
    {
        json_t *other = json_array_get(written->calls, i), *arguments = json_array_get(other, 1);
        if (!json_equal(json_array_get(call, 0), json_array_get(other, 0))) return;
        must(json_is_null(arguments) || json_equal(json_array_get(call, 1), arguments));
    }
}

static const char tools[] = "[{\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"s\":{\"type\":"
                            "\"string\"},\"n\":{\"type\":\"integer\"},\"m\":{\"type\":\"array\",\"items\":"
                            "{\"type\":\"array\"}}}}}}]";

/* Templates by which a format is found; the calls of all but the first are in a form that is derived. */
#define TURNS(call)                                                                                          \
    "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls %}{% set f = c.function %}" call         \
    "{% endfor %}{% endfor %}"
static const char *const templates[] = {
    TURNS("<tool_call>{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments | tojson }}}</tool_call>"),
    TURNS("<CALLS>[{\"fn\": \"{{ f.name }}\", \"in\": {{ f.arguments | tojson }}}]</CALLS>"),
    TURNS("<TOOLS>[{\"{{ f.name }}\": {{ f.arguments | tojson }}}]</TOOLS>"),
    TURNS("<|call|>{{ c.id }}<|name|>{{ f.name }}<|args|>{{ f.arguments | tojson }}<|/call|>"),
    TURNS("<call to='{{ f.name }}'>{% for k, v in f.arguments.items() %}<arg of='{{ k }}'>{{ v }}</arg>{% "
          "endfor %}"
          "</call>"),
    TURNS(
        "]<]minimax[>[<tool_call>]<]minimax[>[<invoke name=\"{{ f.name }}\">{% for k, v in "
        "f.arguments.items() %}"
        "]<]minimax[>[<{{ k }}>{{ v }}]<]minimax[>[</{{ k }}>{% endfor %}]<]minimax[>[</invoke>]<]minimax[>["
        "</tool_call>"),
    TURNS(
        "<py>[{{ f.name }}({% for k, v in f.arguments.items() %}{{ k }}={{ v | tojson }}{% endfor %})]</py>"),
};
enum { N_TEMPLATES = sizeof templates / sizeof *templates };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) return 0;
    unsigned choice = data[0] % 64;
    bool derives = choice >= ENGINE_REPLY_TEMPLATE;
    struct engine_reply_options options = {.struct_size = sizeof options,
                                           .format = derives ? ENGINE_REPLY_AUTO : choice,
                                           .tools = data[0] & 128 ? NULL : tools,
                                           .template_text = templates[derives ? choice % N_TEMPLATES : 0],
                                           .piece = write_piece};
    const char *text = (const char *)data + 1;
    size_t length = size - 1;
    const char *zero = length > 0 ? memchr(text, 0, length) : NULL;
    if (zero) {
        options.prompt = (struct engine_string){text, (size_t)(zero - text)};
        length -= options.prompt.length + 1;
        text = zero + 1;
    }
    bool cut = data[0] & 64;
    struct transcript whole = check_divisions(options, cut, text, length);
    options.flags = ENGINE_REPLY_CALLS_AS_WRITTEN;
    struct transcript written = check_divisions(options, cut, text, length);
    check_arguments(&whole, &written);
    drop(&whole);
    drop(&written);
    return 0;
}
