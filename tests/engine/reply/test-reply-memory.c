/* test-reply-memory.c: replies with calls while memory runs out. Each allocation fails in turn: the reply
 * then ends with that error, or is read as otherwise. A call is never taken for content, nor for another one.
 * The linker has the engine call the functions below for memory. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

/* ---- Memory ---- */

static size_t n_allocations, failing; /* 0: none fails */

static bool fails(void)
{
    return ++n_allocations == failing;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return fails() ? NULL : __real_realloc(memory, size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

/* ---- Replies ---- */

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":"
    "{\"s\":{\"type\":\"string\"},\"n\":{\"type\":\"number\"},\"o\":{\"type\":\"object\"}}}}}]";

static const struct {
    uint32_t format;
    const char *text;
} replies[] = {
    {ENGINE_REPLY_HERMES,
     "So:\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"x\\u00e9\", \"n\": [1.5]}}\n</tool_call>"},
    {ENGINE_REPLY_HERMES,
     "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"</tool_call>\"}}</tool_call>"},
    {ENGINE_REPLY_HERMES,
     "<tool_call>\n<function=f>\n<parameter=s>\na \"b\"\n</parameter>\n<parameter=n>\n12\n"
     "</parameter>\n<parameter=o>\n{'a': [1, \"x\\n\"]}\n</parameter>\n</function>\n</tool_call>"},
    {ENGINE_REPLY_HERMES, "<function=f><parameter=s>a</parameter></function>"},
    {ENGINE_REPLY_LLAMA3, "{\"name\": \"f\", \"parameters\": {\"s\": \"x\"}}"},
    {ENGINE_REPLY_LLAMA3, "<|python_tag|>f.call(s=\"x\", n=2)"},
    {ENGINE_REPLY_LLAMA3, "<|python_tag|>print(2)"},
    {ENGINE_REPLY_MISTRAL, "[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{\"s\": \"x\"}"},
    {ENGINE_REPLY_MISTRAL,
     "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"s\": \"x\"}, \"id\": \"123456789\"}]"},
    {ENGINE_REPLY_DEEPSEEK,
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"s\": \"x\"}\n"
     "```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
    {ENGINE_REPLY_GPT_OSS,
     "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"s\": \"x\"}<|call|>"},
    {ENGINE_REPLY_GLM, "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>a</arg_value>\n<arg_key>n</arg_key>\n"
                       "<arg_value>1</arg_value>\n</tool_call>"},
    {ENGINE_REPLY_KIMI,
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
     "{\"s\": \"x\"}<|tool_call_end|><|tool_calls_section_end|>"},
    {ENGINE_REPLY_GEMMA4, "<|tool_call>call:f{s:<|\"|>a \"b\"<|\"|>,o:{a:[1,x,'q\\x41']},n:1}<tool_call|>"},
    {ENGINE_REPLY_LFM2,
     "<|tool_call_start|>[f(s='it\\'s', n=2, o={'a': None, 'b': [True]})]<|tool_call_end|>"},
    {ENGINE_REPLY_COHERE,
     "<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": {\"s\": \"x\"}}]"
     "<|END_ACTION|>"},
};

struct transcript {
    char text[1024];
    size_t length;
};

static void write_piece(void *user, const struct engine_reply_piece *piece)
{
    struct transcript *out = user;
    size_t left = sizeof out->text - out->length;
    int n =
        snprintf(out->text + out->length, left, "%s%s%s%s%.*s%s", piece->name ? "\n" : "",
                 piece->name ? piece->name : "", piece->id ? "#" : "", piece->id ? piece->id : "",
                 (int)piece->text.length, piece->text.data, piece->flags & ENGINE_REPLY_CALL_CUT ? "…" : "");
    cr_assert(n >= 0 && (size_t)n < left);
    out->length += (size_t)n;
}

/* Reads `length` bytes, `step` at a time. */
static int read_reply(uint32_t format, uint32_t flags, const char *text, size_t length, size_t step,
                      struct transcript *out)
{
    struct engine_reply *reply;
    struct engine_reply_options options = {.struct_size = sizeof options,
                                           .format = format,
                                           .tools = tools,
                                           .flags = flags,
                                           .piece = write_piece,
                                           .user = out};
    *out = (struct transcript){.text = ""};
    int status = engine_reply_create(&options, &reply);
    if (status) return status;
    for (size_t at = 0; !status && at < length; at += step)
        status = engine_reply_add(reply, text + at, length - at < step ? length - at : step);
    if (!status && length < strlen(text)) status = engine_reply_cut(reply);
    if (!status) status = engine_reply_end(reply);
    engine_reply_destroy(reply);
    return status;
}

static void fail_each(uint32_t format, uint32_t flags, const char *text, size_t length, size_t step)
{
    struct transcript expected, out;
    failing = 0;
    cr_assert_eq(read_reply(format, flags, text, length, step, &expected), ENGINE_OK);
    for (size_t nth = 1;; nth++) {
        n_allocations = 0;
        failing = nth;
        int status = read_reply(format, flags, text, length, step, &out);
        bool failed = n_allocations >= nth;
        failing = 0;
        cr_assert(status == ENGINE_ERROR_MEMORY || strcmp(out.text, expected.text) == 0,
                  "%.*s\nallocation %zu of %zu: status %d and\n%s\ninstead of\n%s", (int)length, text, nth,
                  n_allocations, status, out.text, expected.text);
        cr_assert(status == ENGINE_OK || status == ENGINE_ERROR_MEMORY);
        if (!failed) return;
    }
}

Test(reply_memory, calls_are_whole_or_none)
{
    json_set_alloc_funcs(__wrap_malloc, free);
    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
        const char *text = replies[i].text;
        for (uint32_t flags = 0; flags <= ENGINE_REPLY_CALLS_AS_WRITTEN; flags++)
            for (size_t part = 1; part <= 3; part++) {
                fail_each(replies[i].format, flags, text, strlen(text) * part / 3, 7);
                fail_each(replies[i].format, flags, text, strlen(text) * part / 3, strlen(text));
            }
    }
}
