/* pattern.c: see pattern.h. */
#include "hf/pattern.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

int pattern_create(struct pattern *pattern, const struct json_at *step)
{
    struct engine_string text;
    bool is_regex;
    int status = json_pattern(step, &text, &is_regex);
    if (status) return status;
    if (is_regex) return regex_create(&pattern->regex, text, step);
    pattern->literal = allocate(text.length, 1);
    if (!pattern->literal) return fail_memory("tokenizer");
    memcpy(pattern->literal, text.data, text.length);
    pattern->length = text.length;
    return ENGINE_OK;
}

void pattern_destroy(struct pattern *pattern)
{
    free(pattern->literal);
    regex_destroy(&pattern->regex);
}

int pattern_visit_all(const struct pattern *pattern, struct regex_workspace *workspace,
                      struct engine_string text, regex_visit visit, void *user)
{
    if (!pattern->literal) return regex_visit_all(&pattern->regex, workspace, text, visit, user);
    size_t done = 0;
    int status = ENGINE_OK;
    while (!status && pattern->length && done < text.length) {
        const char *found = memmem(text.data + done, text.length - done, pattern->literal, pattern->length);
        if (!found) break;
        size_t start = (size_t)(found - text.data);
        if (start > done) status = visit(user, done, start, false);
        done = start + pattern->length;
        if (!status) status = visit(user, start, done, true);
    }
    if (!status && done < text.length) status = visit(user, done, text.length, false);
    return status;
}
