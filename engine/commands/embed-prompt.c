/* embed-prompt.c: see embed-prompt.h. */
#include "commands/embed-prompt.h"

#include <stdio.h>
#include <string.h>

#include "commands/common.h"

/* The keys of a directory's config_sentence_transformers.json, see engine/model/hf/sentence.c. */
struct prompts {
    const struct engine_metadata *metadata;
    char names[128], texts[128], preset[128], pooled[128];
    size_t count;
};

static bool is_text(struct engine_string text, const char *other, size_t length)
{
    return text.length == length && memcmp(text.data, other, length) == 0;
}

/* "query, passage", as far as there is room. */
static void list_names(const struct prompts *p, char *list, size_t size)
{
    struct engine_string name;
    size_t used = 0;
    for (size_t i = 0; i < p->count && used < size; i++) {
        if (p->metadata->get_strings(p->metadata->context, p->names, i, 1, &name) != ENGINE_OK) return;
        int n = snprintf(list + used, size - used, "%s%.*s", i > 0 ? ", " : "", (int)name.length, name.data);
        if (n > 0) used += (size_t)n;
    }
}

static int find(const struct prompts *p, const char *name, size_t length, struct engine_string *prompt)
{
    struct engine_string other;
    char list[200] = "";
    for (size_t i = 0; i < p->count; i++) {
        if (p->metadata->get_strings(p->metadata->context, p->names, i, 1, &other) != ENGINE_OK) break;
        if (is_text(other, name, length))
            return p->metadata->get_strings(p->metadata->context, p->texts, i, 1, prompt);
    }
    list_names(p, list, sizeof list);
    return command_error(ENGINE_ERROR_ARGUMENT, "the model has no prompt '%.*s'%s%s", (int)length, name,
                         p->count > 0 ? "; it has " : ": its files name none", list);
}

int embed_prompt_find(const struct engine_model *model, const char *name, struct engine_string *prompt)
{
    struct prompts p = {.metadata = engine_model_metadata(model)};
    struct engine_model_info info = {.struct_size = sizeof info};
    struct engine_string preset = {name, name ? strlen(name) : 0};
    int pooled = 1;
    *prompt = (struct engine_string){0};
    int status = engine_model_get_info(model, &info);
    if (status) return status;
    snprintf(p.names, sizeof p.names, "%.80s.engine.prompts.names", info.architecture);
    snprintf(p.texts, sizeof p.texts, "%.80s.engine.prompts.texts", info.architecture);
    snprintf(p.preset, sizeof p.preset, "%.80s.engine.prompts.default", info.architecture);
    snprintf(p.pooled, sizeof p.pooled, "%.80s.engine.prompts.pooled", info.architecture);
    if (p.metadata->get_count(p.metadata->context, p.names, &p.count) != ENGINE_OK) p.count = 0;
    if (!name && p.metadata->get_string(p.metadata->context, p.preset, &preset) != ENGINE_OK)
        return ENGINE_OK;
    status = find(&p, preset.data, preset.length, prompt);
    if (!status && prompt->length > 0 &&
        p.metadata->get_boolean(p.metadata->context, p.pooled, &pooled) == ENGINE_OK && !pooled)
        status = command_error(
            ENGINE_ERROR_UNSUPPORTED,
            "the model leaves its prompt's tokens out of the pooling (include_prompt), which is "
            "not supported");
    return status;
}
