/* conversation.c: see chat.h. */
#include "commands/chat.h"

#include <stdlib.h>
#include <string.h>

#include "io/files.h"
#include "io/json.h"
#include "io/messages.h"
#include "io/output.h"

static int no_memory(void)
{
    return command_error(ENGINE_ERROR_MEMORY, "out of memory (conversation)");
}

int conversation_create(struct conversation *conversation)
{
    conversation->messages = json_array();
    return conversation->messages ? ENGINE_OK : no_memory();
}

void conversation_destroy(struct conversation *conversation)
{
    json_decref(conversation->messages);
    conversation->messages = NULL;
}

static const char *text_at(const struct conversation *conversation, size_t index, const char *key)
{
    return json_string_value(json_object_get(json_array_get(conversation->messages, index), key));
}

static bool has_role(const struct conversation *conversation, size_t index, const char *role)
{
    const char *its = text_at(conversation, index, "role");
    return its && strcmp(its, role) == 0;
}

static json_t *message(const char *role, const char *text, size_t length)
{
    return json_pack("{s:s, s:o}", "role", role, "content", json_text(text ? text : "", length));
}

/* ---- Messages ------------------------------------------------------------------------------------------ */

int conversation_set_system(struct conversation *conversation, const char *text)
{
    if (has_role(conversation, 0, "system")) json_array_remove(conversation->messages, 0);
    if (!text || !text[0]) return ENGINE_OK;
    json_t *added = message("system", text, strlen(text));
    return json_array_insert_new(conversation->messages, 0, added) == 0 ? ENGINE_OK : no_memory();
}

const char *conversation_system(const struct conversation *conversation)
{
    return has_role(conversation, 0, "system") ? text_at(conversation, 0, "content") : NULL;
}

int conversation_ask(struct conversation *conversation, const char *text, size_t length)
{
    json_t *added = message("user", text, length);
    return json_array_append_new(conversation->messages, added) == 0 ? ENGINE_OK : no_memory();
}

int conversation_answer(struct conversation *conversation, const char *content, size_t content_length,
                        const char *reasoning, size_t reasoning_length)
{
    json_t *added = message("assistant", content, content_length);
    if (reasoning_length > 0 &&
        json_object_set_new(added, "reasoning_content", json_text(reasoning, reasoning_length)) != 0) {
        json_decref(added);
        added = NULL;
    }
    return json_array_append_new(conversation->messages, added) == 0 ? ENGINE_OK : no_memory();
}

/* ---- Turns --------------------------------------------------------------------------------------------- */

size_t conversation_turns(const struct conversation *conversation)
{
    size_t turns = 0;
    for (size_t i = 0; i < json_array_size(conversation->messages); i++)
        turns += has_role(conversation, i, "user");
    return turns;
}

/* The index of the last user message, or SIZE_MAX. */
static size_t last_question(const struct conversation *conversation)
{
    size_t index = json_array_size(conversation->messages);
    while (index-- > 0)
        if (has_role(conversation, index, "user")) return index;
    return SIZE_MAX;
}

const char *conversation_question(const struct conversation *conversation)
{
    size_t index = last_question(conversation);
    return index == SIZE_MAX ? NULL : text_at(conversation, index, "content");
}

bool conversation_is_open(const struct conversation *conversation)
{
    size_t count = json_array_size(conversation->messages);
    return count > 0 && has_role(conversation, count - 1, "user");
}

bool conversation_undo(struct conversation *conversation, bool question)
{
    size_t index = last_question(conversation);
    if (index == SIZE_MAX) return false;
    if (!question) index++;
    while (json_array_size(conversation->messages) > index) json_array_remove(conversation->messages, index);
    return true;
}

void conversation_clear(struct conversation *conversation)
{
    size_t kept = has_role(conversation, 0, "system") ? 1 : 0;
    while (json_array_size(conversation->messages) > kept) json_array_remove(conversation->messages, kept);
}

json_t *conversation_copy(const struct conversation *conversation)
{
    return json_copy(conversation->messages);
}

void conversation_restore(struct conversation *conversation, json_t *copy)
{
    if (!copy) return;
    json_decref(conversation->messages);
    conversation->messages = copy;
}

int conversation_keep(struct conversation *conversation, size_t n_turns)
{
    json_t *messages = conversation->messages, *kept = json_array();
    size_t count = json_array_size(messages), first = count;
    bool good = kept != NULL;
    while (n_turns > 0 && first > 0) n_turns -= has_role(conversation, --first, "user");
    if (first > 0 && has_role(conversation, 0, "system"))
        good = good && json_array_append(kept, json_array_get(messages, 0)) == 0;
    for (size_t i = first; i < count && good; i++)
        good = json_array_append(kept, json_array_get(messages, i)) == 0;
    if (!good) {
        json_decref(kept);
        return no_memory();
    }
    conversation->messages = kept;
    json_decref(messages);
    return ENGINE_OK;
}

/* ---- Files --------------------------------------------------------------------------------------------- */

int conversation_save(const struct conversation *conversation, const char *path, const struct engine *engine,
                      const char *const *inputs, size_t n)
{
    struct output output;
    int status = output_check(path, engine, inputs, n);
    if (!status) status = output_open(&output, path);
    if (status) return status;
    bool whole = json_dumpf(conversation->messages, output.file, JSON_INDENT(2)) == 0;
    whole = fputc('\n', output.file) != EOF && whole;
    status = output_close(&output, whole);
    if (!status && !whole) status = command_error(ENGINE_ERROR, "%s: it could not be written", path);
    return status;
}

/* A message as a chat has them. */
static int check_message(const char *path, size_t index, const json_t *value)
{
    const char *role = json_string_value(json_object_get(value, "role"));
    if (!role || (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0 &&
                  (strcmp(role, "system") != 0 || index > 0)))
        return command_error(ENGINE_ERROR_DATA,
                             "%s: message %zu: its role should be user or assistant, or system for the first",
                             path, index + 1);
    char where[JSON_NUL_WHERE];
    if (json_has_nul(value, where))
        return command_error(ENGINE_ERROR_DATA, "%s: message %zu: its %s has a NUL", path, index + 1, where);
    if (!json_is_string(json_object_get(value, "content")))
        return command_error(ENGINE_ERROR_DATA, "%s: message %zu: its content should be a text", path,
                             index + 1);
    return ENGINE_OK;
}

int conversation_load(struct conversation *conversation, const char *path)
{
    char *data;
    size_t size;
    json_t *messages;
    int status = read_text_file(path, &data, &size);
    if (status) return status;
    status = json_check_objects(path, data, size, "messages", &messages);
    free(data);
    if (status) return status;
    for (size_t i = 0; !status && i < json_array_size(messages); i++)
        status = check_message(path, i, json_array_get(messages, i));
    if (status) {
        json_decref(messages);
        return status;
    }
    json_decref(conversation->messages);
    conversation->messages = messages;
    return ENGINE_OK;
}
