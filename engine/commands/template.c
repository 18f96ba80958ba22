/* template.c: `engine template`: what a chat template makes of a conversation, as text or tokens. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/commands.h"
#include "io/files.h"
#include "io/json.h"
#include "io/messages.h"
#include "options/open.h"
#include "prompts/prompt.h"

struct input {
    char *messages, *tools, *documents, *variables;
};

/* Reads the file of an option, if it was given. */
static int read_input(const char *path, const char *what, char **data, struct engine_string *text)
{
    size_t size = 0;
    json_t *json = NULL;
    if (!path) return ENGINE_OK;
    int status = read_text_file(path, data, &size);
    if (!status) status = json_check_objects(path, *data, size, what, &json);
    json_decref(json);
    *text = (struct engine_string){*data, size};
    return status;
}

/* The sink of encode. */
static int print_ids(void *user, const int32_t *ids, size_t count)
{
    bool *first = user;
    for (size_t i = 0; i < count; i++) {
        printf(*first ? "%d" : " %d", ids[i]);
        *first = false;
    }
    return interrupted;
}

static int print(const struct engine_rendered *rendered, bool ids)
{
    if (!ids) {
        struct engine_string text = engine_rendered_text(rendered);
        print_text(text.data, text.length);
        return ENGINE_OK;
    }
    bool first = true;
    int status = engine_rendered_encode(rendered, 0, print_ids, &first);
    putchar('\n');
    return status;
}

static int render_template(const struct arguments *arguments, struct engine_model *model, struct input *files)
{
    struct engine_template *template = NULL;
    struct engine_rendered *rendered = NULL;
    struct engine_template_input input = {.struct_size = sizeof input,
                                          .no_generation_prompt = arguments->no_generation_prompt};
    if (files->variables)
        input.variables = (struct engine_string){files->variables, strlen(files->variables)};
    int status = chat_template_open(arguments, model, &template);
    if (!status) status = read_input(arguments->messages, "messages", &files->messages, &input.messages);
    if (!status) status = read_input(arguments->tools, "tools", &files->tools, &input.tools);
    if (!status) status = read_input(arguments->documents, "documents", &files->documents, &input.documents);
    if (!status) status = chat_template_check(template, input.tools.data);
    if (!status) status = engine_template_render(template, &input, &rendered);
    if (!status) status = print(rendered, arguments->ids);
    engine_rendered_free(rendered);
    engine_template_destroy(template);
    return status;
}

/* Standard input can be read once. */
static int check_inputs(const struct arguments *a)
{
    const struct {
        const char *option, *path;
    } inputs[] = {{"--messages", a->messages}, {"--tools", a->tools}, {"--documents", a->documents}};
    const char *first = NULL;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        if (!inputs[i].path || strcmp(inputs[i].path, "-") != 0) continue;
        if (first)
            return command_error(ENGINE_ERROR_ARGUMENT,
                                 "%s and %s cannot both read standard input; put one of them into a file",
                                 first, inputs[i].option);
        first = inputs[i].option;
    }
    return ENGINE_OK;
}

int command_template(const struct arguments *arguments)
{
    struct engine *engine = NULL;
    struct engine_model *model = NULL;
    struct input files = {0};
    if (!arguments->messages) return command_usage("template needs a conversation: --messages FILE");
    int status = check_inputs(arguments);
    if (!status) status = chat_template_variables(arguments, &files.variables);
    if (!status) status = open_engine(arguments, &engine);
    if (!status) status = open_model(arguments, engine, &model);
    if (!status) status = render_template(arguments, model, &files);
    int exit_status = status && !interrupted ? command_fail() : 0;
    free(files.messages);
    free(files.tools);
    free(files.documents);
    free(files.variables);
    engine_model_close(model);
    engine_close(engine);
    return exit_status;
}
