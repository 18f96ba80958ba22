/* template.c: templates from outside (template.h): parsing one, rendering it with variables from JSON, and
 * ending what it wrote within the last message, which a model then goes on with. */
#include <jansson.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/json-read.h"
#include "template/machine.h"
#include "template/template.h"

/* Limits: of a template, and of rendering. The latter grow with the variables, because a long conversation
 * takes many steps, and none takes more than a second for each 100 KB. */
#define MAX_SOURCE  ((size_t)4 << 20)
#define MEMORY      ((size_t)256 << 20)
#define MEMORY_EACH 64 /* for each byte */
#define STEPS       ((uint64_t)1 << 28)
#define STEPS_EACH  4096

struct template
{
    struct task task;
    struct syntax *syntax;
    char *name;
    const char *source; /* while parsing */
    size_t length;
};

/* What a template has written. */
struct template_output {
    char *text;           /* [length] NUL-terminated */
    unsigned char *marks; /* [length] 1: it came from the user, 0: the template wrote it */
    size_t length;
};

struct rendering {
    const struct template *template;
    const struct template_variable *variables;
    json_t **json; /* [count] */
    size_t count;
};

/* ---- Parsing ------------------------------------------------------------------------------------------- */

static int template_fail(const struct template *template, const struct task *task)
{
    if (!task->line) return error_raise(task->status, "%s: %s", template->name, task->message);
    return error_raise(task->status, "%s, line %d: %s", template->name, task->line, task->message);
}

static void template_parse(struct task *task, void *user)
{
    struct template *template = user;
    template->syntax = syntax_parse(task, template->source, template->length);
}

int template_create(const char *name, const char *source, size_t length, struct template **out)
{
    if (length > MAX_SOURCE)
        return error_raise(ENGINE_ERROR_DATA, "%s: a template of more than %zu bytes", name, MAX_SOURCE);
    if (utf8_check(source, length) != length)
        return error_raise(ENGINE_ERROR_DATA, "%s: the template is not UTF-8 (byte %zu)", name,
                           utf8_check(source, length));
    struct template *template = calloc(1, sizeof *template);
    char *copy = strdup(name);
    if (!template || !copy) {
        free(template);
        free(copy);
        return error_memory("template");
    }
    template->name = copy;
    template->source = source;
    template->length = length;
    task_begin(&template->task, MEMORY, STEPS + STEPS_EACH * (uint64_t)length);
    if (!task_run(&template->task, template_parse, template)) {
        int status = template_fail(template, &template->task);
        template_destroy(template);
        return status;
    }
    template->source = NULL; /* the caller's */
    *out = template;
    return ENGINE_OK;
}

void template_destroy(struct template *template)
{
    if (!template) return;
    task_end(&template->task);
    free(template->name);
    free(template);
}

/* ---- Values from JSON ---------------------------------------------------------------------------------- */

static bool is_single_word(const char *text)
{
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    return length > 0 && !text[length];
}

/* The texts in the value are the user's, except those of `word_key` in an array's objects if they are single
 * words (ASCII letters, digits, "_" and "-"). `word_key` may be NULL. `level` 0 is the value itself. Fails if
 * it is too deep. */
static struct value json_convert(struct task *task, const json_t *json, const char *word_key, int level);

static struct value json_convert_object(struct task *task, const json_t *json, const char *word_key,
                                        int level)
{
    struct dict *dict = dict_create(task);
    json_t *object =
        (json_t *)(size_t)json; /* Jansson's iterators, which keep the file's order, take no const */
    task_enter(task);
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
        const char *key = json_object_iter_key(at);
        const json_t *item = json_object_iter_value(at);
        struct value name = value_text(text_make(task, key, json_object_iter_key_len(at), true));
        struct value value = json_convert(task, item, word_key, level + 1);
        if (word_key && level == 1 && json_is_string(item) && strcmp(key, word_key) == 0 &&
            json_string_length(item) == strlen(json_string_value(item)) &&
            is_single_word(json_string_value(item)))
            value = value_text(text_make(task, json_string_value(item), json_string_length(item), false));
        dict_set(task, dict, name, value);
    }
    task_leave(task);
    return value_dict(dict);
}

static struct value json_convert(struct task *task, const json_t *json, const char *word_key, int level)
{
    struct list *list;
    size_t index;
    json_t *item;
    switch (json_typeof(json)) {
    case JSON_TRUE: return value_boolean(true);
    case JSON_FALSE: return value_boolean(false);
    case JSON_INTEGER: return value_integer(json_integer_value(json));
    case JSON_REAL: return value_float(json_real_value(json));
    case JSON_STRING:
        return value_text(text_make(task, json_string_value(json), json_string_length(json), true));
    case JSON_ARRAY:
        list = list_create(task, json_array_size(json));
        task_enter(task);
        json_array_foreach(json, index, item)
            list_add(task, list, json_convert(task, item, word_key, level + 1));
        task_leave(task);
        return value_list(VALUE_LIST, list);
    case JSON_OBJECT: return json_convert_object(task, json, word_key, level);
    default: return value_none();
    }
}

/* ---- Rendering ----------------------------------------------------------------------------------------- */

/* Names that the template doesn't use are left out. */
static void set_variable(struct machine *machine, const struct template *template, const char *name,
                         struct value value)
{
    struct task *task = &machine->task;
    const struct value *symbol = dict_find_text(task, template->syntax->symbols, text_constant(task, name));
    if (symbol) scope_set(machine, (uint32_t)symbol->integer, value);
}

static void render_template(struct task *task, void *user)
{
    struct machine *machine = (struct machine *)task;
    _Static_assert(offsetof(struct machine, task) == 0, "a rendering's task is its machine");
    const struct rendering *rendering = user;
    machine->scope = scope_create(machine, NULL);
    for (size_t i = 0; i < rendering->count; i++) {
        const struct template_variable *variable = &rendering->variables[i];
        struct engine_string text = variable->json;
        if (variable->trusted) {
            struct value value = value_text(text_make(task, text.data, text.length, false));
            set_variable(machine, rendering->template, variable->name, value);
            continue;
        }
        struct value value = json_convert(task, rendering->json[i], variable->word_key, 0);
        if (variable->name) set_variable(machine, rendering->template, variable->name, value);
        for (size_t k = 0; !variable->name && k < value.dict->count; k++) {
            const struct pair *pair = &value.dict->pairs[k];
            set_variable(machine, rendering->template, pair->key.text->bytes, pair->value);
        }
    }
    machine->scope = scope_create(machine, machine->scope);
    machine->out = builder_create(task);
    execute(machine, &rendering->template->syntax->body);
}

static int copy_output(const struct builder *builder, struct template_output **out)
{
    struct template_output *output = calloc(1, sizeof *output);
    char *text = malloc(builder->length + 1);
    unsigned char *marks = malloc(builder->length + 1);
    if (!output || !text || !marks) {
        free(output);
        free(text);
        free(marks);
        return error_memory("rendered template");
    }
    if (builder->length) memcpy(text, builder->bytes, builder->length);
    text[builder->length] = '\0';
    if (builder->marks)
        memcpy(marks, builder->marks, builder->length);
    else
        memset(marks, builder->user, builder->length);
    *output = (struct template_output){text, marks, builder->length};
    *out = output;
    return ENGINE_OK; /* cppcheck-suppress memleak ; both live on in *out */
}

static int read_variable(const struct template_variable *variable, json_t **json)
{
    json_error_t reason;
    *json = json_read(variable->json.data, variable->json.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, &reason);
    if (!*json)
        return error_raise(json_read_lacked_memory(&reason) ? ENGINE_ERROR_MEMORY : ENGINE_ERROR_DATA,
                           "%s: not JSON: line %d: %s", variable->what, reason.line, reason.text);
    if (!variable->name && !json_is_object(*json))
        return error_raise(ENGINE_ERROR_DATA, "%s: not a JSON object", variable->what);
    bool objects = json_is_array(*json);
    for (size_t i = 0; objects && i < json_array_size(*json); i++)
        objects = json_is_object(json_array_get(*json, i));
    if (variable->is == TEMPLATE_OBJECTS && !objects && !json_is_null(*json))
        return error_raise(ENGINE_ERROR_DATA, "%s: not an array of JSON objects", variable->what);
    return ENGINE_OK;
}

int template_render_within(const struct template *template, const struct template_variable *variables,
                           size_t count, int64_t now, struct template_budget *budget,
                           struct template_output **output)
{
    struct rendering rendering = {template, variables, calloc(count + 1, sizeof(json_t *)), count};
    struct machine *machine = calloc(1, sizeof *machine);
    int status = rendering.json && machine ? ENGINE_OK : error_memory("template");
    for (size_t i = 0; i < count && !status; i++)
        if (!variables[i].trusted) status = read_variable(&variables[i], &rendering.json[i]);
    if (!status) {
        task_begin(&machine->task, budget->memory, budget->steps);
        machine->now = now;
        status = task_run(&machine->task, render_template, &rendering)
                     ? copy_output(machine->out, output)
                     : template_fail(template, &machine->task);
        budget->steps = machine->task.steps;
        task_end(&machine->task);
    }
    for (size_t i = 0; i < count && rendering.json; i++) json_decref(rendering.json[i]);
    free(rendering.json);
    free(machine);
    return status;
}

int template_render(const struct template *template, const struct template_variable *variables, size_t count,
                    int64_t now, struct template_output **output)
{
    struct template_budget budget = {STEPS, MEMORY};
    for (size_t i = 0; i < count; i++) {
        budget.steps += STEPS_EACH * (uint64_t)variables[i].json.length;
        budget.memory += MEMORY_EACH * variables[i].json.length;
    }
    return template_render_within(template, variables, count, now, &budget, output);
}

/* ---- The output ---------------------------------------------------------------------------------------- */

void template_output_free(struct template_output *output)
{
    if (!output) return;
    free(output->text);
    free(output->marks);
    free(output);
}

struct engine_string template_output_text(const struct template_output *output)
{
    return (struct engine_string){output->text, output->length};
}

const unsigned char *template_output_marks(const struct template_output *output)
{
    return output->marks;
}

static bool is_ascii_space(char byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* Where the text was last written as the user's; NULL: nowhere. */
static const char *find_last_of_user(const struct template_output *output, const char *text, size_t length)
{
    for (size_t at = output->length + 1; at-- > 0;)
        if (length <= output->length - at && memcmp(output->text + at, text, length) == 0 &&
            !memchr(output->marks + at, 0, length))
            return output->text + at;
    return NULL;
}

/* Ends the output after the text. Spaces around it may have been left out. */
static int end_after(struct template_output *output, const char *text, size_t length)
{
    while (length > 0 && is_ascii_space(*text)) text++, length--;
    size_t trimmed = length;
    while (trimmed > 0 && is_ascii_space(text[trimmed - 1])) trimmed--;
    if (trimmed == 0)
        return error_raise(ENGINE_ERROR_DATA,
                           "messages: the last one is empty: there is nothing to go on with");
    const char *found = find_last_of_user(output, text, trimmed);
    if (!found)
        return error_raise(
            ENGINE_ERROR_DATA,
            "messages: the template does not write the last one as it is, so it cannot be gone on "
            "with");
    size_t at = (size_t)(found - output->text);
    bool kept = length <= output->length - at && memcmp(found, text, length) == 0;
    output->length = at + (kept ? length : trimmed);
    output->text[output->length] = '\0';
    return ENGINE_OK;
}

int template_output_end_in_last(struct template_output *output, struct engine_string messages)
{
    json_t *all = json_read(messages.data, messages.length, JSON_ALLOW_NUL, NULL);
    const json_t *last = json_array_get(all, json_array_size(all) - 1),
                 *content = json_object_get(last, "content");
    const char *role = json_string_value(json_object_get(last, "role"));
    int status;
    if (!role || strcmp(role, "assistant") != 0 || !json_is_string(content))
        status = error_raise(
            ENGINE_ERROR_DATA,
            "messages: only a text of the assistant can be gone on with, and the last one is none");
    else
        status = end_after(output, json_string_value(content), json_string_length(content));
    json_decref(all);
    return status;
}
