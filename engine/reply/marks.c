/* marks.c: the marks of each format, as the families' published chat templates have them, and the format of a template.
 * Marks that begin with < or [ stand for control tokens in most vocabularies. */
#include <stdbool.h>
#include <string.h>

#include "engine.h"
#include "reply/marks.h"

#define HERMES      (1u << ENGINE_REPLY_HERMES)
#define LLAMA3      (1u << ENGINE_REPLY_LLAMA3)
#define MISTRAL     (1u << ENGINE_REPLY_MISTRAL)
#define DEEPSEEK    (1u << ENGINE_REPLY_DEEPSEEK)
#define GPT_OSS     (1u << ENGINE_REPLY_GPT_OSS)
#define NOT_GPT_OSS (~GPT_OSS)

const struct reply_mark reply_marks[] = {
    {NOT_GPT_OSS, START, "<think>", REASONING, 0},
    {NOT_GPT_OSS, REASONING, "</think>", CONTENT, 0},
    {MISTRAL, START, "[THINK]", REASONING, 0},
    {MISTRAL, REASONING, "[/THINK]", CONTENT, 0},

    {HERMES, CONTENT, "<tool_call>", CALL, CALLS_HERMES},
    {HERMES, CALL, "</tool_call>", CONTENT, 0},

    {LLAMA3, CONTENT, "<|python_tag|>", CALL, CALLS_PYTHON},

    {MISTRAL, CONTENT, "[TOOL_CALLS]", CALL, CALLS_MISTRAL},
    {MISTRAL, CALL, "[TOOL_CALLS]", CALL, CALLS_MISTRAL},

    {DEEPSEEK, CONTENT, "<｜tool▁calls▁begin｜>", BETWEEN, 0},
    {DEEPSEEK, BETWEEN, "<｜tool▁call▁begin｜>", CALL, CALLS_DEEPSEEK},
    {DEEPSEEK, BETWEEN, "<｜tool▁calls▁end｜>", CONTENT, 0},
    {DEEPSEEK, CALL, "<｜tool▁call▁end｜>", BETWEEN, 0},

    {GPT_OSS, HEADER, "<|start|>", HEADER, 0},
    {GPT_OSS, HEADER, "<|message|>", MESSAGE, 0},
    {GPT_OSS, CONTENT, "<|end|>", HEADER, 0},
    {GPT_OSS, CONTENT, "<|return|>", HEADER, 0},
    {GPT_OSS, CONTENT, "<|start|>", HEADER, 0},
    {GPT_OSS, CONTENT, "<|channel|>", HEADER, 0},
    {GPT_OSS, REASONING, "<|end|>", HEADER, 0},
    {GPT_OSS, REASONING, "<|return|>", HEADER, 0},
    {GPT_OSS, REASONING, "<|start|>", HEADER, 0},
    {GPT_OSS, REASONING, "<|channel|>", HEADER, 0},
    {GPT_OSS, CALL, "<|call|>", HEADER, 0},
    {GPT_OSS, CALL, "<|end|>", HEADER, 0},
    {GPT_OSS, CALL, "<|start|>", HEADER, 0},
};
const size_t n_reply_marks = sizeof reply_marks / sizeof *reply_marks;

const struct reply_mark reply_bare_call = {LLAMA3, START, "", CALL, CALLS_OBJECTS};

static bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

uint32_t engine_reply_format_of(const char *template_text)
{
    if (!template_text) return ENGINE_REPLY_PLAIN;
    if (has(template_text, "<|channel|>")) return ENGINE_REPLY_GPT_OSS;
    if (has(template_text, "[TOOL_CALLS]")) return ENGINE_REPLY_MISTRAL;
    if (has(template_text, "<｜tool▁call")) return ENGINE_REPLY_DEEPSEEK;
    if (has(template_text, "<tool_call>")) return ENGINE_REPLY_HERMES;
    if (has(template_text, "<|python_tag|>")) return ENGINE_REPLY_LLAMA3;
    if (has(template_text, "<|start_header_id|>") && has(template_text, "tools")) return ENGINE_REPLY_LLAMA3;
    return ENGINE_REPLY_PLAIN;
}
