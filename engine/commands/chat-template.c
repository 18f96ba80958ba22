/* chat-template.c: see chat-template.h. */
#include "commands/chat-template.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/common.h"
#include "commands/json.h"
#include "common/json-read.h"

static bool is_named(const char *name)
{
    for (size_t i = 0; engine_template_name_at(i); i++)
        if (strcmp(engine_template_name_at(i), name) == 0) return true;
    return false;
}

int chat_template_open(const struct arguments *arguments, struct engine_model *model,
                       struct engine_template **template)
{
    const char *name = arguments->chat_template;
    struct engine_template_options options = {.struct_size = sizeof options, .name = name};
    if (!name || (!strpbrk(name, "/.") && (is_named(name) || access(name, F_OK) != 0))) {
        int status = engine_template_create(model, &options, template);
        if (status == ENGINE_ERROR_DATA)
            return command_error(status, "%s (--chat-template NAME or FILE takes another one)",
                                 engine_error_message());
        if (status != ENGINE_ERROR_NOT_FOUND) return status;
        return command_error(ENGINE_ERROR_ARGUMENT,
                             "--chat-template: there is neither a template nor a file called '%s'", name);
    }
    char *text;
    size_t size;
    int status = read_text_file(name, &text, &size);
    if (status) return status;
    options.name = NULL;
    options.origin = name;
    options.source = (struct engine_string){text, size};
    status = engine_template_create(model, &options, template);
    free(text);
    return status;
}

/* Adds the variable of "KEY=JSON". */
static int add_variable(json_t *object, const char *word)
{
    const char *equals = strchr(word, '=');
    if (!equals || equals == word)
        return command_error(ENGINE_ERROR_ARGUMENT, "--template-arg: '%s' is not KEY=JSON", word);
    json_error_t reason;
    json_t *value = json_read_text(equals + 1, JSON_DECODE_ANY, &reason);
    if (!value)
        return command_error(
            ENGINE_ERROR_ARGUMENT,
            "--template-arg: the value in '%s' is not JSON (a text needs quotes: '%.*s=\"…\"')", word,
            (int)(equals - word), word);
    char *key = strndup(word, (size_t)(equals - word));
    int failed = !key || json_object_set_new(object, key, value);
    free(key);
    return failed ? command_error(ENGINE_ERROR_MEMORY, "out of memory (JSON)") : ENGINE_OK;
}

int chat_template_variables(const struct arguments *arguments, char **json)
{
    *json = NULL;
    if (!arguments->template_variables && !arguments->template_args.count) return ENGINE_OK;
    json_error_t reason;
    json_t *object = arguments->template_variables ? json_read_text(arguments->template_variables, 0, &reason)
                                                   : json_object();
    int status = ENGINE_OK;
    if (!json_is_object(object))
        status = command_error(ENGINE_ERROR_ARGUMENT, "--chat-template-kwargs: not a JSON object");
    for (size_t i = 0; i < arguments->template_args.count && !status; i++)
        status = add_variable(object, arguments->template_args.items[i]);
    if (!status) *json = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    if (!status && !*json) status = command_error(ENGINE_ERROR_MEMORY, "out of memory (JSON)");
    return status;
}
