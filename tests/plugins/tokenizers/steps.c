/* steps.c: see steps.h. */
#include "steps.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "check/explanation.h"
#include "harness.h"

static void write_line(struct text *out, const char *format, ...) ENGINE_PRINTF(2, 3);

static void write_line(struct text *out, const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    cr_assert(length >= 0 && (size_t)length < sizeof line);
    text_add(out, line, (size_t)length);
}

/* A step as a line: kind, range, text, ids, numbers. */
static int write_step(void *user, const struct engine_explain_step *step)
{
    static const char *const names[] = {"?",         "special", "text",  "word",      "merge",
                                        "candidate", "best",    "token", "normalized"};
    struct text *out = user;
    cr_assert(step->struct_size == sizeof *step && step->kind < sizeof names / sizeof *names);
    write_line(out, "%s %zu", names[step->kind], step->start);
    if (step->kind == ENGINE_EXPLAIN_MERGE) write_line(out, "-%zu", step->middle);
    write_line(out, "-%zu ", step->end);
    text_add(out, step->text.data, step->text.length);
    if (step->kind == ENGINE_EXPLAIN_MERGE) write_line(out, " %d+%d", step->left, step->right);
    bool whole = step->kind == ENGINE_EXPLAIN_TEXT || step->kind == ENGINE_EXPLAIN_WORD ||
                 step->kind == ENGINE_EXPLAIN_NORMALIZED;
    if (!whole) write_line(out, " =%d", step->id);
    if (step->rank >= 0) write_line(out, " rank %" PRId64, step->rank);
    if (!isnan(step->score)) write_line(out, " score %g", step->score);
    if (!isnan(step->sum)) write_line(out, " sum %g", step->sum);
    write_line(out, "\n");
    return 0;
}

void expect_steps(const struct engine_tokenizer_api *api, const struct engine_tokenizer *tokenizer,
                  size_t n_tokens, const char *text, uint32_t flags, const char *expected)
{
    struct text lines = {0};
    struct id_list ids = {0};
    char why[EXPLANATION_WHY];
    size_t length = strlen(text);
    cr_assert_eq(api->explain(tokenizer, text, length, flags, write_step, &lines), ENGINE_OK, "%s",
                 error_message());
    text_add(&lines, "", 1);
    cr_expect_str_eq(lines.data, expected, "\"%s\" gives\n%sinstead of\n%s", text, lines.data, expected);
    encode(api, tokenizer, text, length, flags, &ids);
    cr_expect(explanation_check(api, tokenizer, (struct engine_string){text, length}, flags, ids.ids,
                                ids.count, n_tokens, why),
              "\"%s\": %s", text, why);
    id_list_free(&ids);
    text_free(&lines);
}
