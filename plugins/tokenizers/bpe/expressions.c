/* expressions.c: see expressions.h. Compiling; for matching see split.c. */
#include "bpe/expressions.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/unicode.h"

#define MAX_SETS      16   /* brackets with characters beyond ASCII, of a whole list */
#define MAX_RANGES    256  /* in one bracket */
#define MAX_PATTERN   4096 /* bytes of a compiled expression */
#define FIRST_CLASS   128
#define SPACE_CLASS   0x0B /* of all white space beyond ASCII: a vertical tab, which no expression names */
#define N_GROUPS      6
#define JIT_STACK_MIN ((size_t)32 << 10)
#define JIT_STACK_MAX ((size_t)8 << 20)

/* Groups that expressions can name; all others are UNICODE_UNASSIGNED to them. Class FIRST_CLASS + i is that
 * of groups[i]'s characters that are in no set. */
static const struct {
    char name;
    enum unicode_group group;
    const char *ascii; /* its members below 128, as written in a bracket */
} groups[N_GROUPS] = {
    {'L', UNICODE_LETTER, "A-Za-z"},
    {'N', UNICODE_NUMBER, "0-9"},
    {'M', UNICODE_MARK, ""},
    {'P', UNICODE_PUNCTUATION, "!-#%-*,-/:;?@[-\\]_{}"},
    {'S', UNICODE_SYMBOL, "$+<-\\>\\^`|~"},
    {0, UNICODE_UNASSIGNED, ""},
};

/* The characters beyond ASCII that one bracket names. */
struct set {
    size_t n_ranges;
    uint32_t ranges[MAX_RANGES][2];
};

struct compiling {
    struct expressions *expressions;
    struct set *sets; /* [MAX_SETS] */
    size_t n_sets;
    size_t next_set;               /* the one that the writer comes to next */
    uint32_t members[256];         /* [class] bit i: in set i */
    uint8_t joined[256][MAX_SETS]; /* [class][set] the class of its characters that are in the set too */
    size_t n_classes;              /* from FIRST_CLASS on */
    char pattern[MAX_PATTERN];
    size_t length;
    bool overflow;
};

/* ---- Reading: which sets there are ---- */

/* The length of the item at `at`: an escape like "\s", "\p{L}", or one character. */
static size_t item_length(const char *at)
{
    if (*at == '\\' && at[1] == 'p') return strcspn(at, "}") + 1;
    return *at == '\\' ? 2 : 1;
}

/* "\x{1F5F}" or one ASCII character. Returns its length. */
static size_t read_character(const char *at, uint32_t *code_point)
{
    if (*at != '\\' || at[1] != 'x') {
        *code_point = (unsigned char)*at;
        return 1;
    }
    *code_point = (uint32_t)strtoul(at + 3, NULL, 16);
    return strcspn(at, "}") + 1;
}

/* Adds the characters beyond ASCII at `at` to a set: one, or a range. Returns how long it is; 0: ASCII. */
static size_t read_range(const char *at, struct set *set)
{
    uint32_t first, last;
    size_t length = read_character(at, &first);
    if (first < 128) return 0;
    last = first;
    if (at[length] == '-') length += 1 + read_character(at + length + 1, &last);
    if (set && set->n_ranges < MAX_RANGES) {
        set->ranges[set->n_ranges][0] = first;
        set->ranges[set->n_ranges][1] = last;
        set->n_ranges++;
    }
    return length;
}

/* Finds the sets of one expression: what a bracket names, or a character outside of brackets. */
static int find_sets(struct compiling *work, const char *expression)
{
    bool inside = false, used = false; /* used: sets[n_sets] has the bracket's ranges */
    for (const char *at = expression; *at;) {
        if (work->n_sets + 1 >= MAX_SETS)
            return host->fail(ENGINE_ERROR, "too many brackets in \"%s\"", expression);
        struct set *set = &work->sets[work->n_sets];
        size_t length = read_range(at, set);
        if (length) {
            used = true;
            if (!inside) work->n_sets++, used = false;
            at += length;
            continue;
        }
        if (*at == '[' && !inside) {
            inside = true;
        } else if (*at == ']' && inside) {
            inside = false;
            work->n_sets += used;
            used = false;
        }
        at += item_length(at);
    }
    return ENGINE_OK;
}

/* ---- Classes ---- */

static uint8_t class_of_group(enum unicode_group group)
{
    size_t i = 0;
    while (i + 1 < N_GROUPS && groups[i].group != group) i++;
    return (uint8_t)(FIRST_CLASS + i);
}

/* A new class for characters of `class` that are in a set, or the existing one. */
static uint8_t expressions_join(struct compiling *work, uint8_t class, size_t set)
{
    if (!work->joined[class][set] && work->n_classes < 256 - FIRST_CLASS) {
        size_t new_class = FIRST_CLASS + work->n_classes++;
        work->joined[class][set] = (uint8_t)new_class;
        work->members[new_class] = work->members[class] | (uint32_t)1 << set;
        work->expressions->groups[new_class] = work->expressions->groups[class];
    }
    return work->joined[class][set];
}

static int make_classes(struct compiling *work)
{
    struct expressions *expressions = work->expressions;
    expressions->classes = allocate(UNICODE_SIZE, 1);
    if (!expressions->classes) return fail_memory("pre-tokenizer");
    work->n_classes = N_GROUPS;
    for (size_t i = 0; i < N_GROUPS; i++) expressions->groups[FIRST_CLASS + i] = (uint8_t)groups[i].group;
    for (size_t i = 0; i < n_unicode_runs; i++) {
        uint32_t first = unicode_runs[i] >> 3;
        memset(expressions->classes + first, class_of_group(unicode_runs[i] & 7), unicode_run_end(i) - first);
    }
    for (uint32_t i = 0; i < 128; i++) expressions->classes[i] = (uint8_t)i;
    for (uint32_t i = 128; i <= 0x3000; i++)
        if (unicode_is_space(i)) expressions->classes[i] = SPACE_CLASS;
    for (size_t set = 0; set < work->n_sets; set++) {
        for (size_t i = 0; i < work->sets[set].n_ranges; i++) {
            uint32_t last = work->sets[set].ranges[i][1];
            for (uint32_t c = work->sets[set].ranges[i][0]; c <= last && c < UNICODE_SIZE; c++) {
                uint8_t *class = &expressions->classes[c];
                if (*class != SPACE_CLASS && !(work->members[*class] >> set & 1))
                    *class = expressions_join(work, *class, set);
            }
        }
    }
    return ENGINE_OK;
}

/* ---- Writing ---- */

static void expressions_put(struct compiling *work, const char *text, size_t length)
{
    if (length > sizeof work->pattern - work->length) {
        work->overflow = true;
        return;
    }
    memcpy(work->pattern + work->length, text, length);
    work->length += length;
}

/* The classes of a set. */
static void put_set(struct compiling *work, size_t set)
{
    for (size_t class = FIRST_CLASS; class < FIRST_CLASS + work->n_classes; class ++) {
        char byte = (char)class;
        if (work->members[class] >> set & 1) expressions_put(work, &byte, 1);
    }
}

/* The classes of "\p{L}" and its like; "\p{LX}" leaves those below 128 away. */
static void put_property(struct compiling *work, const char *property)
{
    for (size_t i = 0; i < N_GROUPS; i++) {
        if (groups[i].name != property[3]) continue;
        if (property[4] != 'X') expressions_put(work, groups[i].ascii, strlen(groups[i].ascii));
        for (size_t class = FIRST_CLASS; class < FIRST_CLASS + work->n_classes; class ++) {
            char byte = (char)class;
            if (work->expressions->groups[class] == groups[i].group) expressions_put(work, &byte, 1);
        }
    }
}

/* The expression over classes. Brackets take their sets in the order in which find_sets found them. */
static void write_pattern(struct compiling *work, const char *expression)
{
    bool inside = false, used = false;
    work->length = 0;
    for (const char *at = expression; *at;) {
        size_t length = read_range(at, NULL);
        if (length) {
            if (!inside) expressions_put(work, "[", 1);
            if (!used) put_set(work, work->next_set);
            used = inside;
            if (!inside) {
                expressions_put(work, "]", 1);
                work->next_set++;
            }
            at += length;
            continue;
        }
        length = item_length(at);
        if (*at == '\\' && at[1] == 'p') {
            if (!inside) expressions_put(work, "[", 1);
            put_property(work, at);
            if (!inside) expressions_put(work, "]", 1);
        } else {
            expressions_put(work, at, length);
        }
        if (*at == '[') inside = true;
        if (*at == ']' && inside) {
            inside = false;
            work->next_set += used;
            used = false;
        }
        at += length;
    }
}

static int expressions_compile(struct compiling *work, const char *expression)
{
    struct expressions *expressions = work->expressions;
    size_t i = expressions->count++;
    if (*expression == '#') {
        expressions->list[i].kind =
            strcmp(expression, CUT_NUMBERS) == 0 ? EXPRESSION_NUMBERS : EXPRESSION_DIGITS;
        return ENGINE_OK;
    }
    write_pattern(work, expression);
    int error;
    PCRE2_SIZE where;
    pcre2_code *code = work->overflow ? NULL
                                      : pcre2_compile((PCRE2_SPTR)work->pattern, work->length,
                                                      PCRE2_DOLLAR_ENDONLY, &error, &where, NULL);
    if (!code) return host->fail(ENGINE_ERROR, "PCRE2 cannot compile \"%s\"", expression);
    expressions->list[i].code = code;
    expressions->list[i].jit = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
    return ENGINE_OK;
}

int expressions_create(struct expressions *expressions, const char *const *list)
{
    memset(expressions, 0, sizeof *expressions);
    struct compiling *work = allocate_zeroed(1, sizeof *work);
    if (!work) return fail_memory("pre-tokenizer");
    work->expressions = expressions;
    work->sets = allocate_zeroed(MAX_SETS, sizeof *work->sets);
    int status = work->sets ? ENGINE_OK : fail_memory("pre-tokenizer");
    for (size_t i = 0; !status && list[i]; i++) status = find_sets(work, list[i]);
    if (!status) status = make_classes(work);
    for (size_t i = 0; !status && list[i] && i < MAX_EXPRESSIONS; i++)
        status = expressions_compile(work, list[i]);
    free(work->sets);
    free(work);
    return status;
}

void expressions_destroy(struct expressions *expressions)
{
    for (size_t i = 0; i < expressions->count; i++) pcre2_code_free(expressions->list[i].code);
    free(expressions->classes);
    memset(expressions, 0, sizeof *expressions);
}

int expressions_workspace_create(struct expressions_workspace *workspace)
{
    workspace->match = pcre2_match_data_create(1, NULL);
    workspace->context = pcre2_match_context_create(NULL);
    workspace->stack = pcre2_jit_stack_create(JIT_STACK_MIN, JIT_STACK_MAX, NULL);
    if (workspace->match && workspace->context && workspace->stack) {
        pcre2_jit_stack_assign(workspace->context, NULL, workspace->stack);
        return ENGINE_OK;
    }
    expressions_workspace_destroy(workspace);
    return fail_memory("pre-tokenizer");
}

void expressions_workspace_destroy(struct expressions_workspace *workspace)
{
    pcre2_match_data_free(workspace->match);
    pcre2_match_context_free(workspace->context);
    pcre2_jit_stack_free(workspace->stack);
    memset(workspace, 0, sizeof *workspace);
}
