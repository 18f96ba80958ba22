/* calls.h: reads the text of tool calls as model families write them. */
#ifndef ENGINE_REPLY_CALLS_H
#define ENGINE_REPLY_CALLS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* How the text between the marks of a call is written. */
enum calls_form {
    CALLS_OBJECTS, /* {"name": …, "arguments" or "parameters": {…}}, several of them, or an array of them */
    CALLS_HERMES, /* an object as above, or Qwen's <function=NAME><parameter=KEY>VALUE</parameter></function> */
    CALLS_PYTHON, /* after <|python_tag|>: objects as above, NAME.call(KEY="VALUE", …), or a program */
    CALLS_MISTRAL, /* an array of objects, or NAME[CALL_ID]ID[ARGS]{…}, without [CALL_ID]ID or [ARGS] in older ones */
    CALLS_DEEPSEEK, /* NAME<｜tool▁sep｜>{…}, or function<｜tool▁sep｜>NAME and the object in a ```json block */
};

/* The calls in `text`, as an array of {"name": string, "arguments": object, "id": string or absent}, at least
 * one. NULL: this is not a complete call, or there is no memory. `tools`, an array of OpenAI's tools or NULL,
 * says which of Qwen's parameters are strings. `cut`: the text may have gone on, so a program is not complete. */
json_t *calls_read(enum calls_form form, const char *text, size_t length, const json_t *tools, bool cut);

/* Whether `text` may be a function's name: letters, digits, and a few marks that APIs allow. */
bool calls_is_name(const char *text, size_t length);

/* An array of one call with the arguments `text`, a JSON object. NULL as above. Empty arguments are {}. */
json_t *calls_named(const char *name, size_t name_length, const char *text, size_t length);

#endif
