/* regex-match.c: finds the matches of an expression in a text. See regex.h. */
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "hf/regex.h"

#define JIT_STACK_MIN ((size_t)32 * 1024)
#define JIT_STACK_MAX ((size_t)8 * 1024 * 1024)

int regex_workspace_create(struct regex_workspace *workspace)
{
    workspace->match = pcre2_match_data_create(1, NULL);
    workspace->context = pcre2_match_context_create(NULL);
    workspace->stack = pcre2_jit_stack_create(JIT_STACK_MIN, JIT_STACK_MAX, NULL);
    if (!workspace->match || !workspace->context || !workspace->stack) {
        regex_workspace_destroy(workspace);
        return fail_memory("expression");
    }
    pcre2_jit_stack_assign(workspace->context, NULL, workspace->stack);
    return ENGINE_OK;
}

void regex_workspace_destroy(struct regex_workspace *workspace)
{
    pcre2_match_data_free(workspace->match);
    pcre2_match_context_free(workspace->context);
    pcre2_jit_stack_free(workspace->stack);
    class_text_free(&workspace->text);
    memset(workspace, 0, sizeof *workspace);
}

/* A place in a text, in characters and in bytes. */
struct place {
    size_t character, byte;
};

static void advance(struct place *place, const struct regex_workspace *workspace, size_t character,
                    bool ascii)
{
    if (ascii) {
        place->byte += character - place->character;
        place->character = character;
        return;
    }
    while (place->character < character) place->byte += workspace->text.lengths[place->character++];
}

int regex_visit_all(const struct regex *regex, struct regex_workspace *workspace, struct engine_string text,
                    regex_visit visit, void *user)
{
    size_t n = 0;
    if (text.length == 0) return ENGINE_OK;
    int status = class_text_read(&workspace->text, regex->classes, text, &n);
    bool ascii = n == text.length, any = false;
    struct place done = {0, 0};
    size_t last = 0;
    for (size_t from = 0; !status && from <= n;) {
        int found = regex->jit ? pcre2_jit_match(regex->code, workspace->text.classes, n, from, 0,
                                                 workspace->match, workspace->context)
                               : pcre2_match(regex->code, workspace->text.classes, n, from, 0,
                                             workspace->match, workspace->context);
        if (found == PCRE2_ERROR_NOMATCH) break;
        if (found < 0) {
            unsigned char why[128] = "";
            pcre2_get_error_message(found, why, sizeof why);
            return host->fail(ENGINE_ERROR, "cannot split the text into words: %s", (const char *)why);
        }
        const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(workspace->match);
        size_t start = ends[0], end = ends[1];
        if (start == end && any && end == last) { /* an empty match right after another one does not count */
            from++;
            continue;
        }
        any = true;
        last = end;
        from = end;
        size_t before = done.byte;
        advance(&done, workspace, start, ascii);
        if (done.byte > before) status = visit(user, before, done.byte, false);
        before = done.byte;
        advance(&done, workspace, end, ascii);
        if (!status) status = visit(user, before, done.byte, true);
    }
    if (!status && done.byte < text.length) status = visit(user, done.byte, text.length, false);
    return status;
}
