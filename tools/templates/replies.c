/* replies.c: what the engine makes of conversations with tools, for tools/templates/replies. Standard input:
 * a JSON object of `templates`, an array of texts, and `conversations`, an array of {"variables": {…}}, with
 * "prompt", the same without its last message, and "answer", the same with the answer ANSWER, if that message
 * calls tools. Standard output: an array of an object for each template, whose "results" have "text" or
 * "error" for each conversation; and if it has a prompt, the calls of the last message as they are read in
 * the text, whole ("calls") and byte by byte as they are written ("written"). */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "common/json-read.h"
#include "common/text.h"
#include "engine.h"
#include "reply/internal.h"
#include "reply/recognise.h"
#include "reply/span.h"
#include "template/template.h"

#define ANSWER "By the zq-mole."

static struct template_output *render(const struct template *template, const json_t *variables)
{
    char *json = json_dumps(variables, 0);
    const struct template_variable all = {.json = {json, strlen(json)}, .what = "variables"};
    struct template_output *output = NULL;
    int status = template_render(template, &all, 1, time(NULL), &output);
    free(json);
    return status ? NULL : output;
}

/* ---- Reading the last message ---- */

struct reading {
    json_t *calls; /* an array of [name, arguments] */
    struct text_buffer arguments;
};

static void take_piece(void *user, const struct engine_reply_piece *piece)
{
    struct reading *reading = user;
    if (piece->part != ENGINE_REPLY_CALL) return;
    if (piece->flags & ENGINE_REPLY_CALL_BEGINS) {
        reading->arguments.size = 0;
        json_array_append_new(reading->calls, json_pack("[s]", piece->name));
    }
    text_buffer_add(&reading->arguments, piece->text.data, piece->text.length);
    if (!(piece->flags & ENGINE_REPLY_CALL_ENDS)) return;
    json_t *call = json_array_get(reading->calls, json_array_size(reading->calls) - 1);
    json_t *arguments = json_read(reading->arguments.data, reading->arguments.size, 0, NULL);
    json_array_append_new(call, arguments ? arguments : json_null());
}

static json_t *read_calls(const struct reply_style *style, struct engine_string text, const char *tools,
                          bool written)
{
    struct reading reading = {.calls = json_array()};
    struct engine_reply_options options = {.struct_size = sizeof options,
                                           .format = style->format,
                                           .tools = tools,
                                           .piece = take_piece,
                                           .user = &reading,
                                           .flags = written ? ENGINE_REPLY_CALLS_AS_WRITTEN : 0};
    struct engine_reply *reply;
    if (reply_create(&options, &style->layout, &reply)) return reading.calls;
    for (size_t at = 0, step = written ? 1 : text.length; at < text.length; at += step)
        engine_reply_add(reply, text.data + at, step);
    engine_reply_end(reply);
    engine_reply_destroy(reply);
    text_buffer_free(&reading.arguments);
    return reading.calls;
}

/* `text` without what ends a turn. */
static struct engine_string without_end(struct engine_string text, const struct template_output *answer)
{
    struct span all = {0}, before, rest = span_trim((struct span){text.data, text.length});
    if (answer) all = (struct span){template_output_text(answer).data, template_output_text(answer).length};
    if (!span_cut(&all, ANSWER, &before)) return text;
    all = span_trim(all);
    if (all.length > 0 && rest.length >= all.length &&
        memcmp(rest.data + rest.length - all.length, all.data, all.length) == 0)
        return (struct engine_string){rest.data, rest.length - all.length};
    return text;
}

/* What `text` has after the prompt or, if the template rewrites that, from the last mark that both have. */
static struct engine_string after_prompt(struct engine_string text, struct engine_string prompt)
{
    size_t n = 0;
    while (n < text.length && n < prompt.length && text.data[n] == prompt.data[n]) n++;
    if (n < prompt.length)
        while (n > 0 && !memchr(">]\n", text.data[n - 1], 3)) n--;
    return (struct engine_string){text.data + n, text.length - n};
}

static void add_calls(json_t *result, const struct template *template, const struct reply_style *style,
                      const json_t *conversation, struct engine_string text)
{
    struct template_output *prompt = render(template, json_object_get(conversation, "prompt"));
    struct template_output *answer = render(template, json_object_get(conversation, "answer"));
    char *tools = json_dumps(json_object_get(json_object_get(conversation, "variables"), "tools"), 0);
    if (prompt && tools) {
        struct engine_string reply = without_end(after_prompt(text, template_output_text(prompt)), answer);
        json_object_set_new(result, "reply", json_stringn(reply.data, reply.length));
        json_object_set_new(result, "calls", read_calls(style, reply, tools, false));
        json_object_set_new(result, "written", read_calls(style, reply, tools, true));
    }
    free(tools);
    template_output_free(prompt);
    template_output_free(answer);
}

static json_t *try_one(const struct template *template, const struct reply_style *style,
                       const json_t *conversation)
{
    json_t *result = json_object();
    struct template_output *output = render(template, json_object_get(conversation, "variables"));
    if (!output) {
        json_object_set_new(result, "error", json_string(error_message()));
        return result;
    }
    struct engine_string text = template_output_text(output);
    json_object_set_new(result, "text", json_stringn(text.data, text.length));
    if (json_is_object(json_object_get(conversation, "prompt")))
        add_calls(result, template, style, conversation, text);
    template_output_free(output);
    return result;
}

int main(void)
{
    json_t *input = json_loadf(stdin, JSON_ALLOW_NUL, NULL), *results = json_array(), *source, *conversation;
    size_t i, k;
    json_array_foreach(json_object_get(input, "templates"), i, source)
    {
        struct template *template = NULL;
        struct reply_style style = {0};
        if (template_create("template", json_string_value(source), json_string_length(source), &template) ==
            0)
            style = reply_recognise(template);
        json_t *of_template = json_array();
        json_array_foreach(json_object_get(input, "conversations"), k, conversation)
            json_array_append_new(of_template, template ? try_one(template, &style, conversation)
                                                        : json_pack("{s:s}", "error", error_message()));
        json_array_append_new(results, json_pack("{s:i, s:b, s:o}", "format", (int)style.format,
                                                 "writes_calls", (int)style.calls, "results", of_template));
        template_destroy(template);
    }
    int status = json_dumpf(results, stdout, JSON_COMPACT);
    json_decref(results);
    json_decref(input);
    return status ? 1 : 0;
}
