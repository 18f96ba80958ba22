/* lexer.c: a template's text as tokens (syntax.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "template/syntax.h"

struct lexer {
    struct task *task;
    const char *source;
    size_t length, at;
    bool line_starts; /* nothing but a newline comes before `at` */
    struct token *tokens;
    size_t count, capacity;
};

static void lexer_add(struct lexer *lexer, struct token token)
{
    lexer->tokens =
        task_grow(lexer->task, lexer->tokens, lexer->count, &lexer->capacity, sizeof *lexer->tokens);
    token.line = lexer->task->line;
    lexer->tokens[lexer->count++] = token;
}

static bool lexer_sees(const struct lexer *lexer, size_t at, const char *string)
{
    ENGINE_ASSERT(at <= lexer->length);
    size_t length = strlen(string);
    return length <= lexer->length - at && memcmp(lexer->source + at, string, length) == 0;
}

/* Goes on to `to`, counting lines. */
static void lexer_go(struct lexer *lexer, size_t to)
{
    ENGINE_ASSERT(to >= lexer->at && to <= lexer->length);
    if (to == lexer->at) return;
    for (; lexer->at < to; lexer->at++) lexer->task->line += lexer->source[lexer->at] == '\n';
    lexer->line_starts = lexer->source[to - 1] == '\n';
}

static size_t lexer_skip_space(const struct lexer *lexer, size_t at)
{
    while (at < lexer->length) {
        size_t length;
        if (!character_is_space(utf8_read(lexer->source + at, &length))) break;
        at += length;
    }
    return at;
}

/* ---- Text between tags --------------------------------------------------------------------------------- */

/* The end of the text [from, to) without the white space at its end. */
static size_t strip_end(const struct lexer *lexer, size_t from, size_t to)
{
    while (to > from) {
        size_t last = to - 1, length;
        while (last > from && ((unsigned char)lexer->source[last] & 0xC0) == 0x80) last--;
        if (!character_is_space(utf8_read(lexer->source + last, &length))) break;
        to = last;
    }
    return to;
}

/* The text [at, to), after which comes a tag: `sign` is its "-" or "+", `block` if it isn't one that
 * prints. */
static void add_data(struct lexer *lexer, size_t to, char sign, bool block)
{
    size_t end = to;
    if (sign == '-') {
        end = strip_end(lexer, lexer->at, to);
    } else if (sign != '+' && block) {
        size_t line = to;
        while (line > lexer->at && lexer->source[line - 1] != '\n') line--;
        if ((line > lexer->at || lexer->line_starts) && lexer_skip_space(lexer, line) >= to) end = line;
    }
    if (end > lexer->at) {
        const char *bytes = lexer->source + lexer->at;
        lexer_add(lexer, (struct token){.kind = TOKEN_DATA,
                                        .text = text_make(lexer->task, bytes, end - lexer->at, false)});
    }
    lexer_go(lexer, to);
}

static char sign_at(const struct lexer *lexer, size_t at)
{
    return at < lexer->length && (lexer->source[at] == '-' || lexer->source[at] == '+') ? lexer->source[at]
                                                                                        : 0;
}

/* The length of a tag's end at `at`, with the white space that it takes away: "-%}", "+%}", "%}". 0: none. */
static size_t tag_end(const struct lexer *lexer, size_t at, const char *mark)
{
    char sign = sign_at(lexer, at);
    size_t end = at + (sign != 0);
    if (end > lexer->length || !lexer_sees(lexer, end, mark)) return 0;
    end += 2;
    bool print = mark[0] == '}';
    if (sign == '+' && print) return 0;
    if (sign == '-') return lexer_skip_space(lexer, end) - at;
    if (!sign && !print && end < lexer->length && lexer->source[end] == '\n') end++;
    return end - at;
}

static void read_comment(struct lexer *lexer)
{
    size_t begin = lexer->at + 2 + (sign_at(lexer, lexer->at + 2) != 0);
    for (size_t at = begin; at < lexer->length; at++) {
        if (!lexer->source[at] || !strchr("-+#", lexer->source[at])) continue;
        size_t length = tag_end(lexer, at, "#}");
        if (!length) continue;
        lexer_go(lexer, at + length);
        return;
    }
    task_fail(lexer->task, "missing end of comment tag");
}

/* The length of "{% WORD %}" at `at`, 0: something else is there. *sign: of its beginning. */
static size_t word_tag(const struct lexer *lexer, size_t at, const char *word, char *sign)
{
    if (!lexer_sees(lexer, at, "{%")) return 0;
    *sign = sign_at(lexer, at + 2);
    size_t end = lexer_skip_space(lexer, at + 2 + (*sign != 0));
    if (!lexer_sees(lexer, end, word)) return 0;
    end = lexer_skip_space(lexer, end + strlen(word));
    size_t length = end < lexer->length ? tag_end(lexer, end, "%}") : 0;
    if (!length) return 0;
    /* After "raw" the newline stays, after "endraw" it goes. */
    if (strcmp(word, "raw") == 0 && sign_at(lexer, end) == '+') return 0;
    if (strcmp(word, "raw") == 0 && !sign_at(lexer, end)) length = 2;
    return end + length - at;
}

static void read_raw(struct lexer *lexer, size_t begin_length)
{
    lexer_go(lexer, lexer->at + begin_length);
    for (size_t at = lexer->at; at < lexer->length; at++) {
        char sign;
        size_t length = lexer->source[at] == '{' ? word_tag(lexer, at, "endraw", &sign) : 0;
        if (!length) continue;
        add_data(lexer, at, sign, true);
        lexer_go(lexer, at + length);
        return;
    }
    task_fail(lexer->task, "missing end of raw directive");
}

/* ---- Within tags --------------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The escape after the backslash at source[at]; returns the position after it. */
static size_t read_escape(struct lexer *lexer, struct builder *builder, size_t at)
{
    char c = lexer->source[at + 1];
    const char *simple = strchr("\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v", c);
    if (c == '\n') return at + 2;
    if (c && simple && (simple - "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v") % 2 == 0) {
        builder_bytes(builder, simple + 1, 1, false);
        return at + 2;
    }
    if (c >= '0' && c <= '7') {
        uint32_t code = 0;
        size_t end = at + 1;
        for (; end < at + 4 && lexer->source[end] >= '0' && lexer->source[end] <= '7'; end++)
            code = code * 8 + (uint32_t)(lexer->source[end] - '0');
        builder_character(builder, code, false);
        return end;
    }
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (!digits) {
        builder_bytes(builder, "\\", 1, false);
        return at + 1;
    }
    uint32_t code = 0;
    for (size_t i = 0; i < digits; i++) {
        int digit = at + 2 + i < lexer->length ? hex_digit(lexer->source[at + 2 + i]) : -1;
        if (digit < 0) task_fail(lexer->task, "truncated \\%cXX escape in a string", c);
        code = code << 4 | (uint32_t)digit;
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
        task_fail(lexer->task, "an escape in a string is not a character");
    builder_character(builder, code, false);
    return at + 2 + digits;
}

static void read_string(struct lexer *lexer)
{
    char mark = lexer->source[lexer->at];
    struct builder *builder = builder_create(lexer->task);
    size_t at = lexer->at + 1, plain = at;
    while (at < lexer->length && lexer->source[at] != mark) {
        if (lexer->source[at] != '\\') {
            at++;
            continue;
        }
        builder_bytes(builder, lexer->source + plain, at - plain, false);
        if (at + 1 >= lexer->length) break;
        plain = at = read_escape(lexer, builder, at);
    }
    if (at >= lexer->length) task_fail(lexer->task, "a string has no end");
    builder_bytes(builder, lexer->source + plain, at - plain, false);
    const struct text *text = text_make(lexer->task, builder->bytes, builder->length, false);
    lexer_add(lexer, (struct token){.kind = TOKEN_STRING, .text = text});
    lexer_go(lexer, at + 1);
}

static bool is_digit(const struct lexer *lexer, size_t at, unsigned base)
{
    int digit = at < lexer->length ? hex_digit(lexer->source[at]) : -1;
    return digit >= 0 && (unsigned)digit < base;
}

/* The end of digits, between which may be underscores. */
static size_t skip_digits(const struct lexer *lexer, size_t at, unsigned base)
{
    while (is_digit(lexer, at, base) ||
           (at < lexer->length && lexer->source[at] == '_' && is_digit(lexer, at + 1, base)))
        at++;
    return at;
}

static void read_number(struct lexer *lexer)
{
    size_t from = lexer->at, end = from;
    unsigned base = 10;
    if (lexer->source[from] == '0' && from + 1 < lexer->length) {
        char mark = lexer->source[from + 1] | 0x20;
        base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
        if (base != 10) {
            end = from + 2;
            if (!is_digit(lexer, end + (end < lexer->length && lexer->source[end] == '_'), base))
                base = 10, end = from;
        }
    }
    end = skip_digits(lexer, end, base);
    bool real = false;
    if (base == 10 && (from == 0 || lexer->source[from - 1] != '.')) {
        if (end < lexer->length && lexer->source[end] == '.' && is_digit(lexer, end + 1, 10)) {
            real = true;
            end = skip_digits(lexer, end + 1, 10);
        }
        if (end < lexer->length && (lexer->source[end] | 0x20) == 'e') {
            size_t digits = end + 1 + (sign_at(lexer, end + 1) != 0);
            if (is_digit(lexer, digits, 10)) {
                real = true;
                end = skip_digits(lexer, digits, 10);
            }
        }
    }
    char text[400];
    size_t count = 0;
    for (size_t i = base == 10 ? from : from + 2; i < end; i++) {
        if (lexer->source[i] == '_') continue;
        if (count + 1 >= sizeof text) task_fail(lexer->task, "a number is too long");
        text[count++] = lexer->source[i];
    }
    text[count] = '\0';
    struct token token = {.kind = TOKEN_NUMBER};
    errno = 0;
    if (real) {
        token.number = value_float(strtod(text, NULL));
    } else {
        token.number = value_integer(strtoll(text, NULL, (int)base));
        if (errno) task_fail(lexer->task, "a number is larger than 64 bits");
        if (base == 10 && text[0] == '0' && strspn(text, "0") != count)
            task_fail(lexer->task, "a number begins with 0");
    }
    lexer_add(lexer, token);
    lexer_go(lexer, end);
}

static bool read_name(struct lexer *lexer)
{
    size_t end = lexer->at, length;
    while (end < lexer->length && character_is_word(utf8_read(lexer->source + end, &length))) end += length;
    if (end == lexer->at) return false;
    const struct text *name = text_make(lexer->task, lexer->source + lexer->at, end - lexer->at, false);
    lexer_add(lexer, (struct token){.kind = TOKEN_NAME, .text = name});
    lexer_go(lexer, end);
    return true;
}

/* An operator; returns its first character. */
static char read_operator(struct lexer *lexer)
{
    static const char *const operators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                            "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                            ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (!lexer_sees(lexer, lexer->at, operators[i])) continue;
        lexer_add(lexer,
                  (struct token){.kind = TOKEN_OPERATOR, .text = text_constant(lexer->task, operators[i])});
        lexer_go(lexer, lexer->at + strlen(operators[i]));
        return operators[i][0];
    }
    size_t length;
    uint32_t c = utf8_read(lexer->source + lexer->at, &length);
    task_fail(lexer->task, "unexpected char '%.*s' (U+%04X)", (int)length, lexer->source + lexer->at, c);
}

/* From "{%" or "{{" to its end. */
static void read_tag(struct lexer *lexer)
{
    bool print = lexer->source[lexer->at + 1] == '{';
    const char *mark = print ? "}}" : "%}";
    int line = lexer->task->line;
    lexer_add(lexer, (struct token){.kind = print ? TOKEN_PRINT : TOKEN_BLOCK});
    lexer_go(lexer, lexer->at + 2);
    if (sign_at(lexer, lexer->at)) {
        /* "{{+" is no sign but an operator. */
        if (!print || lexer->source[lexer->at] == '-') lexer_go(lexer, lexer->at + 1);
    }
    size_t brackets = 0;
    for (;;) {
        lexer_go(lexer, lexer_skip_space(lexer, lexer->at));
        if (lexer->at >= lexer->length) {
            lexer->task->line = line;
            task_fail(lexer->task, "the tag that begins here has no end");
        }
        size_t length = brackets ? 0 : tag_end(lexer, lexer->at, mark);
        if (length) {
            lexer_add(lexer, (struct token){.kind = print ? TOKEN_PRINT_END : TOKEN_BLOCK_END});
            lexer_go(lexer, lexer->at + length);
            return;
        }
        char c = lexer->source[lexer->at];
        if (c >= '0' && c <= '9') {
            read_number(lexer);
        } else if (c == '\'' || c == '"') {
            read_string(lexer);
        } else if (!read_name(lexer)) {
            char first = read_operator(lexer);
            if (strchr("([{", first)) brackets++;
            if (strchr(")]}", first)) {
                if (!brackets) task_fail(lexer->task, "unexpected '%c'", first);
                brackets--;
            }
        }
    }
}

/* Newlines as "\n"; one at the end goes. */
static void unify_lines(struct lexer *lexer, const char *source, size_t length)
{
    char *copy = task_allocate(lexer->task, length + 1);
    size_t count = 0;
    for (size_t i = 0; i < length; i++) {
        copy[count++] = source[i] == '\r' ? '\n' : source[i];
        if (source[i] == '\r' && i + 1 < length && source[i + 1] == '\n') i++;
    }
    if (count && copy[count - 1] == '\n') count--;
    copy[count] = '\0';
    lexer->source = copy;
    lexer->length = count;
}

struct token *lexer_read(struct task *task, const char *source, size_t length, size_t *count)
{
    struct lexer lexer = {.task = task, .line_starts = true};
    unify_lines(&lexer, source, length);
    task->line = 1;
    for (size_t from = 0; from < lexer.length;) {
        const char *brace = memchr(lexer.source + from, '{', lexer.length - from);
        size_t at = brace ? (size_t)(brace - lexer.source) : lexer.length;
        char kind = at + 1 < lexer.length ? lexer.source[at + 1] : '\0';
        if (brace && kind != '{' && kind != '%' && kind != '#') {
            from = at + 1;
            continue;
        }
        if (!brace) break;
        char sign = sign_at(&lexer, at + 2);
        add_data(&lexer, at, sign, kind != '{');
        size_t raw = word_tag(&lexer, at, "raw", &sign);
        if (raw)
            read_raw(&lexer, raw);
        else if (kind == '#')
            read_comment(&lexer);
        else
            read_tag(&lexer);
        from = lexer.at;
    }
    add_data(&lexer, lexer.length, '+', false);
    lexer_add(&lexer, (struct token){.kind = TOKEN_END});
    *count = lexer.count;
    return lexer.tokens;
}
