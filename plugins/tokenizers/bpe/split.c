/* split.c: cuts texts by compiled expressions. See expressions.h. */
#include "bpe/expressions.h"
#include "common/memory.h"
#include "common/unicode.h"

/* One call of expressions_split. */
struct split {
    const struct expressions *expressions;
    struct expressions_workspace *workspace;
    expressions_visit visit;
    void *user;
};

static int split_by(const struct split *split, size_t expression, const uint8_t *text, size_t n);

/* Finds the next match in text[from …). Returns 1 with its place, 0 if there is none, or an error. */
static int split_find(const struct split *split, size_t expression, const uint8_t *text, size_t n,
                      size_t from, size_t *start, size_t *end)
{
    struct expressions_workspace *workspace = split->workspace;
    const pcre2_code *code = split->expressions->list[expression].code;
    int found = split->expressions->list[expression].jit
                    ? pcre2_jit_match(code, text, n, from, 0, workspace->match, workspace->context)
                    : pcre2_match(code, text, n, from, 0, workspace->match, workspace->context);
    if (found == PCRE2_ERROR_NOMATCH) return 0;
    if (found < 0) {
        unsigned char why[128] = "";
        pcre2_get_error_message(found, why, sizeof why);
        return -host->fail(ENGINE_ERROR, "cannot split the text into words: %s", (const char *)why);
    }
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(workspace->match);
    *start = ends[0];
    *end = ends[1];
    return 1;
}

static int split_by_regex(const struct split *split, size_t expression, const uint8_t *text, size_t n)
{
    size_t done = 0;
    for (size_t from = 0; from < n;) {
        size_t start = 0, end = 0;
        int found = split_find(split, expression, text, n, from, &start, &end);
        if (found < 0) return -found;
        if (!found) break;
        int status = start > done ? split_by(split, expression + 1, text + done, start - done) : 0;
        if (!status && end > start) status = split_by(split, expression + 1, text + start, end - start);
        if (status) return status;
        done = end;
        from = end > start ? end : end + 1; /* an empty match cuts, and the search continues after it */
    }
    return done < n ? split_by(split, expression + 1, text + done, n - done) : 0;
}

static bool is_number(const struct split *split, uint8_t class)
{
    return class < 128 ? class >= '0' && class <= '9' : split->expressions->groups[class] == UNICODE_NUMBER;
}

static bool is_digit(uint8_t class)
{
    return class >= '0' && class <= '9';
}

/* Ends a part of the text at `at`: the text between *done and there goes to the next expression. */
static int split_cut(const struct split *split, size_t expression, const uint8_t *text, size_t *done,
                     size_t at)
{
    size_t begin = *done;
    *done = at;
    return at > begin ? split_by(split, expression + 1, text + begin, at - begin) : 0;
}

/* Cuts runs of numbers into groups of three from the right, according to the kind of the expression. */
static int split_numbers(const struct split *split, size_t expression, const uint8_t *text, size_t n)
{
    enum expression_kind kind = split->expressions->list[expression].kind;
    size_t done = 0;
    int status = 0;
    for (size_t at = 0, end; !status && at < n; at = end) {
        end = at;
        while (end < n && (kind == EXPRESSION_NUMBERS ? is_number(split, text[end]) : is_digit(text[end])))
            end++;
        if (end == at) {
            end++;
            continue;
        }
        /* Cut at the ends of groups; for EXPRESSION_DIGITS at the beginnings of whole ones. */
        size_t first = (end - at) % 3, last = kind == EXPRESSION_DIGITS ? end - 1 : end;
        if (!first && kind != EXPRESSION_DIGITS) first = 3;
        for (size_t place = at + first; !status && place <= last; place += 3)
            status = split_cut(split, expression, text, &done, place);
    }
    return status ? status : split_cut(split, expression, text, &done, n);
}

static int split_by(const struct split *split, size_t expression, const uint8_t *text, size_t n)
{
    if (expression == split->expressions->count) return split->visit(split->user, n);
    if (split->expressions->list[expression].kind == EXPRESSION_REGEX)
        return split_by_regex(split, expression, text, n);
    return split_numbers(split, expression, text, n);
}

int expressions_split(const struct expressions *expressions, struct expressions_workspace *workspace,
                      const uint8_t *text, size_t n, expressions_visit visit, void *user)
{
    struct split split = {expressions, workspace, visit, user};
    return n ? split_by(&split, 0, text, n) : 0;
}
