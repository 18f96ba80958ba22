/* constraints.c: see constraints.h. */
#include "commands/constraints.h"

#include <stdlib.h>
#include <string.h>

#include "commands/common.h"

int constraint_read(const struct arguments *a, struct constraint *constraint)
{
    const struct {
        const char *option, *text, *file;
        enum engine_grammar_kind kind;
    } options[] = {
        {"--grammar", a->grammar, NULL, ENGINE_GRAMMAR_GBNF},
        {"--grammar-file", NULL, a->grammar_file, ENGINE_GRAMMAR_GBNF},
        {"--json-schema", a->json_schema, NULL, ENGINE_GRAMMAR_JSON_SCHEMA},
        {"--json-schema-file", NULL, a->json_schema_file, ENGINE_GRAMMAR_JSON_SCHEMA},
        {"--json-object", a->json_object ? "" : NULL, NULL, ENGINE_GRAMMAR_JSON_OBJECT},
    };
    int status = ENGINE_OK;
    *constraint = (struct constraint){0};
    for (size_t i = 0; i < sizeof options / sizeof *options && !status; i++) {
        if (!options[i].text && !options[i].file) continue;
        if (constraint->option)
            return command_error(ENGINE_ERROR_ARGUMENT, "%s and %s: a text can have one of them",
                                 constraint->option, options[i].option);
        constraint->option = options[i].option;
        constraint->kind = options[i].kind;
        constraint->is_typed = options[i].text != NULL;
        if (options[i].file) {
            status = read_text_file(options[i].file, &constraint->text, &constraint->size);
        } else {
            constraint->text = strdup(options[i].text);
            constraint->size = strlen(options[i].text);
            if (!constraint->text) status = command_error(ENGINE_ERROR_MEMORY, "out of memory (grammar)");
        }
    }
    return status;
}

void constraint_free(struct constraint *constraint)
{
    free(constraint->text);
    *constraint = (struct constraint){0};
}

int constraint_open(struct engine_model *model, const struct constraint *constraint,
                    struct engine_grammar **grammar)
{
    *grammar = NULL;
    if (!constraint->kind) return ENGINE_OK;
    int status = engine_grammar_create(model, constraint->kind, constraint->text, constraint->size, grammar);
    if (!constraint->is_typed || (status != ENGINE_ERROR_DATA && status != ENGINE_ERROR_ARGUMENT))
        return status;
    return command_error(ENGINE_ERROR_ARGUMENT, "%s", engine_error_message());
}
