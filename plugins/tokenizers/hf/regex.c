/* regex.c: see regex.h. Translating and compiling; for matching see regex-match.c. */
#include "hf/regex.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/unicode.h"
#include "hf/sets.h"

/* Of all expressions of a file together; tokenizers have four at most. */
#define MAX_EXPRESSIONS 64
#define MAX_BYTES       65536
#define MAX_RANGES      200000 /* of characters, in all members of brackets */
/* Of one. */
#define MAX_SETS  64
#define MAX_DEPTH 100
#define ITEM_SET  256 /* an item from here on is a set's index */

/* One call of regex_create. The expression becomes items: characters of the new one, and sets. */
struct translation {
    const char *at, *end;
    const char *where;
    struct json_spent *spent;
    struct engine_string expression;
    uint16_t *items; /* [n_items] */
    size_t n_items, capacity;
    struct set sets[MAX_SETS];
    size_t n_sets;
    unsigned depth;
    bool caseless, dot_all;
};

static int regex_refuse(const struct translation *work, const char *what)
{
    size_t length = work->expression.length < 200 ? work->expression.length : 200;
    return host->fail(ENGINE_ERROR_UNSUPPORTED, "%s: the expression \"%.*s\" has %s, which is not supported",
                      work->where, (int)length, work->expression.data, what);
}

static int regex_put(struct translation *work, unsigned item)
{
    if (!ARRAY_RESERVE(work->items, work->capacity, work->n_items + 1)) return fail_memory("expression");
    work->items[work->n_items++] = (uint16_t)item;
    return ENGINE_OK;
}

static int put_text(struct translation *work, const char *text)
{
    int status = ENGINE_OK;
    for (; !status && *text; text++) status = regex_put(work, (unsigned char)*text);
    return status;
}

static bool is_letter(uint32_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Takes over a set. */
static int put_set(struct translation *work, struct set *set)
{
    set_finish(set);
    if (work->n_sets == MAX_SETS) {
        set_free(set);
        return regex_refuse(work, "more than 64 sets of characters");
    }
    work->sets[work->n_sets] = *set;
    *set = (struct set){NULL, 0, 0};
    return regex_put(work, ITEM_SET + (unsigned)work->n_sets++);
}

static int put_character(struct translation *work, uint32_t character)
{
    if (character < 0x80 && !(work->caseless && is_letter(character))) {
        int status = ENGINE_OK;
        if (!is_letter(character) && !is_digit((char)character)) status = regex_put(work, '\\');
        return status ? status : regex_put(work, character);
    }
    struct set set = {NULL, 0, 0};
    int status = set_add(&set, character, character);
    if (!status && work->caseless) status = set_add_cases(&set);
    if (status) {
        set_free(&set);
        return status;
    }
    return put_set(work, &set);
}

static bool next_is(const struct translation *work, const char *text)
{
    size_t length = strlen(text);
    return (size_t)(work->end - work->at) >= length && memcmp(work->at, text, length) == 0;
}

static uint32_t next_character(struct translation *work)
{
    uint32_t character;
    work->at += unicode_read(work->at, (size_t)(work->end - work->at), &character);
    return character;
}

/* Hexadecimal digits, at most `most`; false if there is none or the number is no character. */
static bool read_hex(struct translation *work, size_t most, uint32_t *value)
{
    size_t n = 0;
    *value = 0;
    for (; n < most && work->at < work->end; n++, work->at++) {
        char c = *work->at;
        uint32_t digit;
        if (is_digit(c))
            digit = (uint32_t)(c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            digit = (uint32_t)((c | 32) - 'a' + 10);
        else
            break;
        *value = *value << 4 | digit;
    }
    return n > 0 && *value < UNICODE_SIZE;
}

/* After the backslash: a character's escape, such as \n, \x41, \x{3040}, \u3040, or punctuation. *known: it
 * was one; otherwise nothing is read. */
static int read_escaped_character(struct translation *work, uint32_t *character, bool *known)
{
    static const char letters[] = "tnrfvae", meanings[] = "\t\n\r\f\v\a\x1B";
    *known = true;
    char c = *work->at;
    const char *letter = c ? strchr(letters, c) : NULL;
    if (letter) {
        work->at++;
        *character = (unsigned char)meanings[letter - letters];
        return ENGINE_OK;
    }
    if (c == 'x' || c == 'u') {
        work->at++;
        bool braces = c == 'x' && next_is(work, "{");
        work->at += braces;
        bool valid = read_hex(work, braces ? 6 : c == 'x' ? 2 : 4, character);
        if (braces && valid) {
            valid = next_is(work, "}");
            work->at += valid;
        }
        return valid ? ENGINE_OK : regex_refuse(work, "a wrong number after \\x or \\u");
    }
    if (c == '0') {
        work->at++;
        *character = 0;
        for (int i = 0; i < 2 && work->at < work->end && *work->at >= '0' && *work->at <= '7'; i++)
            *character = *character << 3 | (uint32_t)(*work->at++ - '0');
        return ENGINE_OK;
    }
    if (is_letter((unsigned char)c) || is_digit(c)) {
        *known = false;
        return ENGINE_OK;
    }
    *character = next_character(work);
    return ENGINE_OK;
}

/* After the backslash: \w, \p{L} and the like into `set`. */
static int read_escaped_set(struct translation *work, struct set *set, enum set_place place)
{
    char c = *work->at++;
    switch (c) {
    case 'w':
    case 's':
    case 'd':
    case 'h': return set_add_escape(set, c, false, place);
    case 'W':
    case 'S':
    case 'D':
    case 'H': return set_add_escape(set, (char)(c | 32), true, place);
    case 'p':
    case 'P': break;
    default: return regex_refuse(work, "an escape that means no set of characters here");
    }
    bool negated = c == 'P', found = false;
    const char *close = next_is(work, "{") ? memchr(work->at, '}', (size_t)(work->end - work->at)) : NULL;
    if (!close) return regex_refuse(work, "a \\p without {…}");
    work->at++;
    if (*work->at == '^') {
        negated = !negated;
        work->at++;
    }
    int status = set_add_property(set, work->at, (size_t)(close - work->at), negated, place, &found);
    if (!status && !found) return regex_refuse(work, "an unknown property in \\p{…}");
    work->at = close + 1;
    return status;
}

static int read_class(struct translation *work, struct set *set);

/* "[:alpha:]" at `at`; *known is false if it is none, and then nothing is read. */
static int read_posix(struct translation *work, struct set *set, bool *known)
{
    *known = false;
    if (!next_is(work, "[:")) return ENGINE_OK;
    const char *name = work->at + 2;
    bool negated = name < work->end && *name == '^';
    name += negated;
    const char *end = name;
    while (end < work->end && is_letter((unsigned char)*end)) end++;
    if (work->end - end < 2 || end[0] != ':' || end[1] != ']') return ENGINE_OK;
    *known = true;
    bool found;
    int status = set_add_posix(set, name, (size_t)(end - name), negated, &found);
    if (!status && !found) return regex_refuse(work, "an unknown [:name:]");
    work->at = end + 2;
    return status;
}

/* One member of a bracket: a set, or a character. */
static int read_member(struct translation *work, struct set *set, uint32_t *character, bool *single)
{
    *single = false;
    bool known = false;
    if (*work->at == '[') {
        int status = read_posix(work, set, &known);
        if (status || known) return status;
        work->at++;
        return read_class(work, set);
    }
    if (*work->at != '\\') {
        *character = next_character(work);
        *single = true;
        return ENGINE_OK;
    }
    if (++work->at == work->end) return regex_refuse(work, "a \\ at its end");
    if (*work->at == 'b') {
        work->at++;
        *character = 8;
        *single = true;
        return ENGINE_OK;
    }
    int status = read_escaped_character(work, character, single);
    return status || *single ? status : read_escaped_set(work, set, SET_IN_BRACKETS);
}

/* A character of a bracket, or the range that it begins. */
static int add_member(struct translation *work, struct set *set, uint32_t first)
{
    if (work->end - work->at < 2 || *work->at != '-' || work->at[1] == ']') return set_add(set, first, first);
    const char *dash = work->at++;
    uint32_t last;
    bool single;
    struct set other = {NULL, 0, 0};
    int status = read_member(work, &other, &last, &single);
    set_free(&other);
    if (status) return status;
    if (!single) { /* "a-\w": the dash is a character, and the set is read again */
        work->at = dash;
        return set_add(set, first, first);
    }
    if (last < first) return regex_refuse(work, "a range in the wrong order");
    return set_add(set, first, last);
}

/* After "[": the rest of a bracket, added to `set`. */
static int read_class(struct translation *work, struct set *set)
{
    if (++work->depth > MAX_DEPTH) return regex_refuse(work, "more than 100 brackets in each other");
    bool negated = work->at < work->end && *work->at == '^', both = false, first = true;
    work->at += negated;
    struct set members = {NULL, 0, 0}, left = {NULL, 0, 0};
    int status = ENGINE_OK;
    for (; !status; first = false) {
        if (work->at == work->end) {
            status = regex_refuse(work, "a [ without ]");
            break;
        }
        if (*work->at == ']' && !first) break;
        if (next_is(work, "&&")) {
            work->at += 2;
            set_finish(&members);
            if (both) {
                status = set_intersect(&left, &members);
                set_free(&members);
            } else {
                left = members;
                members = (struct set){NULL, 0, 0};
            }
            both = true;
            continue;
        }
        uint32_t character = 0;
        bool single;
        size_t before = members.count;
        status = read_member(work, &members, &character, &single);
        if (!status && single) status = add_member(work, &members, character);
        work->spent->n_ranges += members.count - before;
        if (!status && work->spent->n_ranges > MAX_RANGES)
            status = regex_refuse(work, "more than 200000 ranges of characters");
    }
    if (!status) {
        work->at++;
        work->depth--;
        set_finish(&members);
        if (both) status = set_intersect(&members, &left);
    }
    if (!status && work->caseless) status = set_add_cases(&members);
    if (!status) status = set_add_all(set, &members, negated);
    set_free(&members);
    set_free(&left);
    return status;
}

/* The edge of a word. */
static int put_edge(struct translation *work, bool negated)
{
    static const char *const parts[2][5] = {{"(?:(?<=", ")(?!", ")|(?<!", ")(?=", "))"},
                                            {"(?:(?<=", ")(?=", ")|(?<!", ")(?!", "))"}};
    int status = ENGINE_OK;
    for (int i = 0; !status && i < 5; i++) {
        struct set word = {NULL, 0, 0};
        status = put_text(work, parts[negated][i]);
        if (!status && i < 4) status = set_add_escape(&word, 'w', false, SET_ALONE);
        if (!status && i < 4)
            status = put_set(work, &word);
        else
            set_free(&word);
    }
    return status;
}

static int read_escape(struct translation *work)
{
    if (++work->at == work->end) return regex_refuse(work, "a \\ at its end");
    char c = *work->at;
    if (c == 'b' || c == 'B') {
        work->at++;
        return put_edge(work, c == 'B');
    }
    if (c == 'A' || c == 'z' || c == 'Z' || c == 'G') {
        work->at++;
        int status = regex_put(work, '\\');
        return status ? status : regex_put(work, (unsigned char)c);
    }
    if (c == 'R') {
        work->at++;
        return put_text(work, "(?>\\r\\n|[\\n-\\r])");
    }
    uint32_t character;
    bool known;
    int status = read_escaped_character(work, &character, &known);
    if (status) return status;
    if (known) return put_character(work, character);
    if (is_digit(c)) return regex_refuse(work, "a reference to a group");
    struct set set = {NULL, 0, 0};
    status = read_escaped_set(work, &set, SET_ALONE);
    if (status)
        set_free(&set);
    else
        status = put_set(work, &set);
    return status;
}

static int read_alternatives(struct translation *work);

/* "(?i)", "(?i-m:": sets the options, which end with the group around or with their own. */
static int read_options(struct translation *work)
{
    bool on = true, caseless = work->caseless, dot_all = work->dot_all;
    for (; work->at < work->end && *work->at != ':' && *work->at != ')'; work->at++) {
        if (*work->at == '-')
            on = false;
        else if (*work->at == 'i')
            work->caseless = on;
        else if (*work->at == 'm')
            work->dot_all = on;
        else
            return regex_refuse(work, "an unknown (?…)");
    }
    if (work->at == work->end) return regex_refuse(work, "a ( without )");
    int status = put_text(work, "(?:");
    if (!status && *work->at++ == ')') { /* up to the end of the group around, which reads its own ")" */
        status = read_alternatives(work);
        work->caseless = caseless;
        work->dot_all = dot_all;
        return status ? status : regex_put(work, ')');
    }
    if (!status) status = read_alternatives(work);
    work->caseless = caseless;
    work->dot_all = dot_all;
    if (status) return status;
    if (work->at == work->end) return regex_refuse(work, "a ( without )");
    work->at++;
    return regex_put(work, ')');
}

static int read_group(struct translation *work)
{
    static const char *const kinds[] = {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", NULL};
    if (next_is(work, "(?#")) {
        const char *close = memchr(work->at, ')', (size_t)(work->end - work->at));
        if (!close) return regex_refuse(work, "a ( without )");
        work->at = close + 1;
        return put_text(work, "(?:)");
    }
    if (++work->depth > MAX_DEPTH) return regex_refuse(work, "more than 100 groups in each other");
    const char *kind = NULL;
    for (size_t i = 0; kinds[i] && !kind; i++)
        if (next_is(work, kinds[i])) kind = kinds[i];
    int status;
    if (!kind && next_is(work, "(?") && !next_is(work, "(?<")) {
        work->at += 2;
        status = read_options(work);
        work->depth--;
        return status;
    }
    if (!kind && next_is(work, "(?<")) {
        const char *close = memchr(work->at, '>', (size_t)(work->end - work->at));
        if (!close) return regex_refuse(work, "a (?< without >");
        work->at = close + 1;
    } else {
        work->at += kind ? strlen(kind) : 1;
    }
    bool caseless = work->caseless, dot_all = work->dot_all;
    status = put_text(work, kind ? kind : "(?:");
    if (!status) status = read_alternatives(work);
    if (!status && work->at == work->end) status = regex_refuse(work, "a ( without )");
    if (status) return status;
    work->caseless = caseless;
    work->dot_all = dot_all;
    work->depth--;
    work->at++;
    return regex_put(work, ')');
}

static int read_atom(struct translation *work)
{
    char c = *work->at;
    switch (c) {
    case '\\': return read_escape(work);
    case '(': return read_group(work);
    case '.': work->at++; return put_text(work, work->dot_all ? "[\\x00-\\xFF]" : ".");
    case '^':
    case '$': work->at++; return regex_put(work, (unsigned char)c);
    case '[': {
        work->at++;
        struct set set = {NULL, 0, 0};
        int status = read_class(work, &set);
        if (status)
            set_free(&set);
        else
            status = put_set(work, &set);
        return status;
    }
    case '*':
    case '+':
    case '?': return regex_refuse(work, "a repetition of nothing");
    default: return put_character(work, next_character(work));
    }
}

/* "{2,3}" at `at`: its length, or 0. *fixed: "{2}". */
static size_t interval_length(const struct translation *work, bool *fixed, bool *open)
{
    const char *at = work->at + 1;
    const char *first = at;
    while (at < work->end && is_digit(*at)) at++;
    bool has_first = at > first, comma = at < work->end && *at == ',';
    at += comma;
    const char *second = at;
    while (at < work->end && is_digit(*at)) at++;
    if (at == work->end || *at != '}' || (!has_first && at == second)) return 0;
    *fixed = !comma;
    *open = !has_first;
    return (size_t)(at + 1 - work->at);
}

/* Makes the items from `start` on a group. */
static int regex_wrap(struct translation *work, size_t start)
{
    int status = put_text(work, "(?:");
    if (status) return status;
    memmove(work->items + start + 3, work->items + start, (work->n_items - 3 - start) * sizeof *work->items);
    memcpy(work->items + start, (const uint16_t[]){'(', '?', ':'}, 3 * sizeof *work->items);
    return regex_put(work, ')');
}

/* The repetitions after an atom whose items begin at `start`. Those of Ruby: "{2}?" is optional, "{2,3}+" is
 * repeated. */
static int read_repetitions(struct translation *work, size_t start)
{
    unsigned n = 0;
    int status = ENGINE_OK;
    while (!status && work->at < work->end) {
        char c = *work->at;
        bool fixed = false, open = false;
        size_t length = c == '{' ? interval_length(work, &fixed, &open) : 0;
        if (!length && c != '*' && c != '+' && c != '?') break;
        if (n == MAX_DEPTH) return regex_refuse(work, "more than 100 repetitions of each other");
        if (n++ > 0) status = regex_wrap(work, start);
        if (length) {
            for (size_t i = 0; !status && i < length; i++) {
                status = regex_put(work, (unsigned char)work->at[i]);
                if (!status && i == 0 && open) status = regex_put(work, '0');
            }
            work->at += length;
            if (!status && !fixed && next_is(work, "?")) status = regex_put(work, (unsigned char)*work->at++);
            continue;
        }
        work->at++;
        if (!status) status = regex_put(work, (unsigned char)c);
        if (!status && (next_is(work, "?") || next_is(work, "+")))
            status = regex_put(work, (unsigned char)*work->at++);
    }
    return status;
}

/* Up to ")" or the end. */
static int read_alternatives(struct translation *work)
{
    int status = ENGINE_OK;
    while (!status && work->at < work->end && *work->at != ')') {
        if (*work->at == '|') {
            work->at++;
            status = regex_put(work, '|');
            continue;
        }
        size_t start = work->n_items;
        status = read_atom(work);
        if (!status) status = read_repetitions(work, start);
    }
    return status;
}

/* All places where a set begins, or ends before. */
static int collect_edges(const struct translation *work, uint32_t **edges, size_t *count)
{
    size_t n = 1;
    for (size_t i = 0; i < work->n_sets; i++) n += 2 * work->sets[i].count;
    *edges = allocate(n, sizeof **edges);
    if (!*edges) return fail_memory("expression");
    *count = 0;
    (*edges)[(*count)++] = REGEX_FIRST_CLASS;
    for (size_t i = 0; i < work->n_sets; i++) {
        for (size_t r = 0; r < work->sets[i].count; r++) {
            struct set_range range = work->sets[i].ranges[r];
            if (range.first > REGEX_FIRST_CLASS) (*edges)[(*count)++] = range.first;
            if (range.last >= REGEX_FIRST_CLASS && range.last + 1 < UNICODE_SIZE)
                (*edges)[(*count)++] = range.last + 1;
        }
    }
    return ENGINE_OK;
}

static int compare_edges(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return a < b ? -1 : a > b;
}

/* Fills regex->classes; members[class]: bit i: in set i. */
static int make_classes(const struct translation *work, struct regex *regex, uint64_t members[256],
                        size_t *n_classes)
{
    uint32_t *edges = NULL;
    size_t count = 0;
    regex->classes = allocate(UNICODE_SIZE, 1);
    int status = regex->classes ? collect_edges(work, &edges, &count) : fail_memory("expression");
    if (!status) qsort(edges, count, sizeof *edges, compare_edges);
    for (unsigned c = 0; !status && c < REGEX_FIRST_CLASS; c++) regex->classes[c] = (uint8_t)c;
    *n_classes = 0;
    for (size_t i = 0; !status && i < count; i++) {
        uint32_t end = i + 1 < count ? edges[i + 1] : UNICODE_SIZE;
        if (end == edges[i]) continue;
        uint64_t signature = 0;
        for (size_t set = 0; set < work->n_sets; set++)
            signature |= (uint64_t)set_has(&work->sets[set], edges[i]) << set;
        size_t class = 0;
        while (class < *n_classes && members[REGEX_FIRST_CLASS + class] != signature) class ++;
        if (class == *n_classes) {
            if (class == 256 - REGEX_FIRST_CLASS) {
                status = regex_refuse(work, "more than 128 classes of characters");
                break;
            }
            members[REGEX_FIRST_CLASS + (*n_classes)++] = signature;
        }
        memset(regex->classes + edges[i], (int)(REGEX_FIRST_CLASS + class), end - edges[i]);
    }
    free(edges);
    return status;
}

/* A set as a bracket of bytes into `pattern`; returns its length. */
#define BRACKET_SIZE (2 + 256 * 4 + 4)
static size_t write_bracket(const struct translation *work, size_t index, const uint64_t members[256],
                            size_t n_classes, char *pattern)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t length = 0, n = 0;
    pattern[length++] = '[';
    for (unsigned byte = 0; byte < REGEX_FIRST_CLASS + n_classes; byte++) {
        bool in = byte < REGEX_FIRST_CLASS ? set_has(&work->sets[index], byte) : members[byte] >> index & 1;
        if (!in) continue;
        pattern[length++] = '\\';
        pattern[length++] = 'x';
        pattern[length++] = digits[byte >> 4];
        pattern[length++] = digits[byte & 15];
        n++;
    }
    pattern[length++] = ']';
    if (n) return length;
    memcpy(pattern, "(?!)", 4); /* nothing matches an empty set */
    return 4;
}

static int regex_compile(const struct translation *work, struct regex *regex, const uint64_t members[256],
                         size_t n_classes)
{
    size_t length = 0, capacity = 64;
    for (size_t i = 0; i < work->n_items; i++) capacity += work->items[i] >= ITEM_SET ? BRACKET_SIZE : 1;
    char *pattern = allocate(capacity, 1);
    if (!pattern) return fail_memory("expression");
    for (size_t i = 0; i < work->n_items; i++) {
        if (work->items[i] < ITEM_SET)
            pattern[length++] = (char)work->items[i];
        else
            length += write_bracket(work, work->items[i] - ITEM_SET, members, n_classes, pattern + length);
    }
    int error = 0, status = ENGINE_OK;
    PCRE2_SIZE offset = 0;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (context) {
        pcre2_set_newline(context, PCRE2_NEWLINE_LF);
        regex->code = pcre2_compile((PCRE2_SPTR)pattern, length, PCRE2_MULTILINE, &error, &offset, context);
    }
    pcre2_compile_context_free(context);
    if (!regex->code) {
        unsigned char why[128] = "out of memory";
        if (error) pcre2_get_error_message(error, why, sizeof why);
        size_t shown = work->expression.length < 200 ? work->expression.length : 200;
        status = host->fail(ENGINE_ERROR_UNSUPPORTED, "%s: PCRE2 refuses the expression \"%.*s\": %s",
                            work->where, (int)shown, work->expression.data, (const char *)why);
    } else {
        regex->jit = pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE) == 0;
    }
    free(pattern);
    return status;
}

/* Counts an expression. Its length decides on the time that PCRE2 takes. */
static int spend_expression(const struct translation *work)
{
    struct json_spent *spent = work->spent;
    if (++spent->n_expressions > MAX_EXPRESSIONS)
        return host->fail(ENGINE_ERROR_UNSUPPORTED, "%s: more than %d regular expressions", work->where,
                          MAX_EXPRESSIONS);
    spent->n_bytes += work->expression.length; /* the text is in memory, so this can't overflow */
    if (work->expression.length > MAX_BYTES) return regex_refuse(work, "more than 65536 bytes");
    if (spent->n_bytes > MAX_BYTES)
        return host->fail(ENGINE_ERROR_UNSUPPORTED,
                          "%s: the regular expressions up to here have more than %d bytes", work->where,
                          MAX_BYTES);
    return ENGINE_OK;
}

int regex_create(struct regex *regex, struct engine_string expression, const struct json_at *step)
{
    memset(regex, 0, sizeof *regex);
    struct translation *work = allocate_zeroed(1, sizeof *work);
    if (!work) return fail_memory("expression");
    work->at = expression.data;
    work->end = expression.data + expression.length;
    work->where = step->place;
    work->spent = step->spent;
    work->expression = expression;
    uint64_t members[256] = {0};
    size_t n_classes = 0;
    int status = spend_expression(work);
    if (!status) status = read_alternatives(work);
    if (!status && work->at < work->end) status = regex_refuse(work, "a ) without (");
    if (!status) status = make_classes(work, regex, members, &n_classes);
    if (!status) status = regex_compile(work, regex, members, n_classes);
    for (size_t i = 0; i < work->n_sets; i++) set_free(&work->sets[i]);
    free(work->items);
    free(work);
    return status;
}

void regex_destroy(struct regex *regex)
{
    pcre2_code_free(regex->code);
    free(regex->classes);
    memset(regex, 0, sizeof *regex);
}
