/* marks.h: the marks by which the formats of replies set apart reasoning, content and calls. */
#ifndef ENGINE_REPLY_MARKS_H
#define ENGINE_REPLY_MARKS_H

#include <stddef.h>
#include <stdint.h>

#include "reply/calls.h"

/* The last of enum engine_reply_format. */
#define REPLY_LAST_FORMAT ENGINE_REPLY_GPT_OSS

/* Where in the reply the text belongs. */
enum reply_state {
    START, /* nothing but white space came yet, and it is undecided what that belongs to */
    CONTENT,
    REASONING,
    CALL,
    BETWEEN, /* DeepSeek: between calls */
    HEADER,  /* gpt-oss: the channel and the recipient of a message */
    MESSAGE  /* gpt-oss: not a state of its own; the header says which */
};

/* A mark that ends one state and begins another. */
struct reply_mark {
    uint32_t formats; /* bits 1 << enum engine_reply_format */
    enum reply_state from;
    const char *text;
    enum reply_state to;
    enum calls_form form; /* to CALL: how it is written */
};

extern const struct reply_mark reply_marks[];
extern const size_t n_reply_marks;

/* Llama 3 writes a call without a mark: the reply is a JSON object. */
extern const struct reply_mark reply_bare_call;

#endif
