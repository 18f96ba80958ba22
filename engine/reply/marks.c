/* marks.c: the marks of each format, as the families' published chat templates have them.
 * Marks that begin with < or [ stand for control tokens in most vocabularies. */
#include "reply/marks.h"
#include "engine.h"

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
