/* template.c: see template.h. */
#include "template/template.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/json-read.h"
#include "template/characters.h"
#include "template/json.h"
#include "template/machine.h"
#include "template/output.h"

/* Limits: of a template, and of rendering. The latter grow with the variables, because a long conversation takes
 * many steps, and none takes more than a second for each 100 KB. */
#define SOURCE_MAX  ((size_t)4 << 20)
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

struct rendering {
    const struct template *template;
    const struct template_variable *variables;
    json_t **json; /* [count] */
    size_t count;
};

/* ---- Parsing ------------------------------------------------------------------------------------------- */

static int fail(const struct template *template, const struct task *task)
{
    if (!task->line) return error_raise(task->status, "%s: %s", template->name, task->message);
    return error_raise(task->status, "%s, line %d: %s", template->name, task->line, task->message);
}

static void parse(struct task *task, void *user)
{
    struct template *template = user;
    template->syntax = syntax_parse(task, template->source, template->length);
}

int template_create(const char *name, const char *source, size_t length, struct template **out)
{
    if (length > SOURCE_MAX)
        return error_raise(ENGINE_ERROR_DATA, "%s: a template of more than %zu bytes", name, SOURCE_MAX);
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
    if (!task_run(&template->task, parse, template)) {
        int status = fail(template, &template->task);
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

/* ---- Rendering ----------------------------------------------------------------------------------------- */

/* Names that the template doesn't use are left out. */
static void set_variable(struct machine *machine, const struct template *template, const char *name,
                         struct value value)
{
    struct task *task = &machine->task;
    const struct value *symbol = dict_find_text(task, template->syntax->symbols, text_constant(task, name));
    if (symbol) scope_set(machine, (uint32_t)symbol->integer, value);
}

static void render(struct task *task, void *user)
{
    struct machine *machine = (struct machine *)task;
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
        struct value value = json_to_value(task, rendering->json[i], variable->word_key);
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

static int read_json(const struct template_variable *variable, json_t **json)
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
        if (!variables[i].trusted) status = read_json(&variables[i], &rendering.json[i]);
    if (!status) {
        task_begin(&machine->task, budget->memory, budget->steps);
        machine->now = now;
        status = task_run(&machine->task, render, &rendering) ? copy_output(machine->out, output)
                                                              : fail(template, &machine->task);
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
