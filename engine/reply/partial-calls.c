/* partial-calls.c: follows tool calls while they are written (internal.h). What comes before the arguments is
 * short, so it is read again with each piece of text. */
#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "common/json-read.h"
#include "reply/internal.h"
#include "reply/layout.h"
#include "reply/span.h"

#define MAX_HEAD 4096 /* bytes before the arguments */

/* What comes before the arguments. */
struct head {
    json_t *name, *id; /* strings, or NULL */
    size_t arguments;  /* where they begin */
    bool complete;     /* nothing but the arguments can follow */
    enum partial_notation notation;
};

/* ---- Heads ---- */

/* Moves *at past white space to the byte `wanted`, and past that. */
static enum partial_found pass_byte(const struct partial_text *text, size_t *at, char wanted)
{
    *at = partial_skip_space(text, *at);
    if (*at == text->length) return MORE;
    if (text->data[*at] != wanted) return NONE;
    ++*at;
    return FOUND;
}

/* A JSON string at *at, after white space, for the caller. */
static enum partial_found read_head_string(const struct partial_text *text, size_t *at, json_t **string)
{
    enum partial_found found = pass_byte(text, at, '"');
    size_t from = *at - 1;
    *string = NULL;
    if (found != FOUND) return found;
    for (; *at < text->length; ++*at) {
        if (text->data[*at] == '"') {
            ++*at;
            *string =
                calls_json(text->reader, (struct span){text->data + from, *at - from}, JSON_DECODE_ANY, NULL);
            return *string ? FOUND : NONE;
        }
        if (text->data[*at] == '\\') ++*at;
    }
    return MORE;
}

static bool is_layout_key(const struct partial_text *text, const char *key, bool name)
{
    if (text->form != CALLS_LAYOUT) return false;
    return strcmp(key, name ? text->layout->name_key : text->layout->arguments_key) == 0;
}

/* What comes after a key. */
static enum partial_found read_head_member(const struct partial_text *text, size_t *at, const char *key,
                                           struct head *head)
{
    json_t *value;
    enum partial_found found = pass_byte(text, at, ':');
    if (found != FOUND) return found;
    if (is_layout_key(text, "-", true)) { /* the key is the name */
        found = pass_byte(text, at, '{');
        head->name = calls_made(text->reader, json_string(key));
        head->arguments = *at - 1;
        head->complete = true;
        return found;
    }
    bool is_name = strcmp(key, "name") == 0 || is_layout_key(text, key, true);
    if (strcmp(key, "arguments") == 0 || strcmp(key, "parameters") == 0 || is_layout_key(text, key, false)) {
        found = pass_byte(text, at, '{');
        head->complete = true;
        head->arguments = *at - 1;
        return head->name ? found : NONE;
    }
    found = read_head_string(text, at, &value);
    if (found != FOUND) return found;
    json_t **kept = is_name ? &head->name : strcmp(key, "id") == 0 ? &head->id : NULL;
    json_t *old = kept ? *kept : value;
    if (kept) *kept = value;
    json_decref(old);
    found = pass_byte(text, at, ',');
    return found == FOUND ? NEXT : found;
}

/* Where a call begins that others stand before, or the bracket of an array. */
static size_t skip_separators(const struct partial_text *text, size_t from)
{
    while (from < text->length && (is_json_space(text->data[from]) || memchr("[,;", text->data[from], 3)))
        from++;
    return from;
}

/* {"name": …, "arguments": {, in an array or not, after others or not */
static enum partial_found read_object_head(const struct partial_text *text, size_t at, struct head *head)
{
    at = skip_separators(text, at);
    enum partial_found found = pass_byte(text, &at, '{');
    if (found == FOUND) found = NEXT;
    while (found == NEXT) {
        json_t *key;
        found = read_head_string(text, &at, &key);
        if (found == FOUND) found = read_head_member(text, &at, json_string_value(key), head);
        json_decref(key);
    }
    return found;
}

/* The text between two places, without white space around it. */
static json_t *string_between(const struct partial_text *text, size_t from, size_t to)
{
    return calls_string(text->reader, span_trim((struct span){text->data + from, to - from}));
}

/* The arguments, after `at` and white space. */
static enum partial_found read_bare(const struct partial_text *text, size_t at, struct head *head)
{
    enum partial_found found = pass_byte(text, &at, '{');
    head->arguments = at - 1;
    head->complete = true;
    return found;
}

/* NAME[ARGS]{, NAME[CALL_ID]ID[ARGS]{ or NAME{ */
static enum partial_found read_mistral_head(const struct partial_text *text, struct head *head)
{
    static const char id_mark[] = "[CALL_ID]", mark[] = "[ARGS]";
    size_t end = partial_find(text, 0, mark), id = partial_find(text, 0, id_mark),
           brace = partial_find(text, 0, "{");
    if (brace < end) {
        head->name = string_between(text, 0, brace);
        return read_bare(text, brace, head);
    }
    if (end == SIZE_MAX) return MORE;
    if (id < end) {
        size_t from = id + strlen(id_mark);
        head->name = string_between(text, 0, id);
        head->id = string_between(text, from, end);
    } else {
        head->name = string_between(text, 0, end);
    }
    return read_bare(text, end + strlen(mark), head);
}

/* NAME<sep>{, or function<sep>NAME ```json {, or the latter without the block */
static enum partial_found read_deepseek_head(const struct partial_text *text, struct head *head)
{
    static const char mark[] = "<｜tool▁sep｜>", block[] = "```json";
    size_t end = partial_find(text, 0, mark);
    if (end == SIZE_MAX) return MORE;
    size_t after = end + strlen(mark), begin = partial_skip_space(text, after);
    if (begin == text->length || text->data[begin] == '{') {
        head->name = string_between(text, 0, end);
        return read_bare(text, begin, head);
    }
    size_t fence = partial_find(text, begin, block), brace = partial_find(text, begin, "{");
    if (brace < fence) {
        head->name = string_between(text, after, brace);
        return read_bare(text, brace, head);
    }
    if (fence == SIZE_MAX) return MORE;
    head->name = string_between(text, after, fence);
    return read_bare(text, fence + strlen(block), head);
}

/* Moves *at past white space and a mark, which may be "". */
static enum partial_found pass_head_mark(const struct partial_text *text, size_t *at, const char *mark)
{
    *at = partial_skip_space(text, *at);
    size_t n = strlen(mark), left = text->length - *at;
    if (memcmp(text->data + *at, mark, left < n ? left : n) != 0) return NONE;
    if (left < n) return MORE;
    *at += n;
    return FOUND;
}

/* The name in front of `mark`, or of what can't belong to it, and the id before the name, as the layout says.
 * *at moves from the beginning of the call past the name and its mark. */
static enum partial_found read_layout_name(const struct partial_text *text, size_t *at, const char *mark,
                                           struct head *head)
{
    const struct reply_layout *layout = text->layout;
    enum partial_found found = pass_head_mark(text, at, layout_inner_begin(layout));
    if (found != FOUND) return found;
    if (layout->before_name[0]) {
        size_t name = partial_find(text, *at, layout->before_name);
        if (name == SIZE_MAX) return MORE;
        head->id = string_between(text, *at, name);
        *at = name + strlen(layout->before_name);
    }
    size_t end = mark[0] ? partial_find(text, *at, mark) : *at;
    if (!mark[0])
        while (end < text->length && !is_json_space(text->data[end]) && !memchr("{<", text->data[end], 2))
            end++;
    if (end == SIZE_MAX || (!mark[0] && end == text->length && !text->whole)) return MORE;
    struct span id = span_trim((struct span){text->data + *at, end - *at});
    struct span name = layout->numbered ? layout_name_of_number(id) : id;
    if (name.length == 0) return NONE;
    head->name = calls_string(text->reader, name);
    if (id.length > name.length) head->id = calls_string(text->reader, id);
    *at = end + strlen(mark);
    return FOUND;
}

/* The name and what surrounds it, then {. */
static enum partial_found read_named_head(const struct partial_text *text, size_t at, struct head *head)
{
    const char *mark = text->layout->after_name[0] ? text->layout->after_name : "{";
    enum partial_found found = read_layout_name(text, &at, mark, head);
    if (found != FOUND) return found;
    return read_bare(text, text->layout->after_name[0] ? at : at - 1, head);
}

/* The name, then an argument between marks or the end of the call. */
static enum partial_found read_keyed_head(const struct partial_text *text, size_t at, struct head *head)
{
    enum partial_found found = read_layout_name(text, &at, text->layout->after_name, head);
    if (found != FOUND) return found;
    if (text->layout->after_number[0]) {
        size_t end = partial_find(text, at, text->layout->after_number);
        if (end == SIZE_MAX) return MORE;
        at = end + strlen(text->layout->after_number);
    }
    head->arguments = at;
    found = partial_follows(text, at);
    head->complete = found == MORE;
    /* Without a mark of its own the call ends with the text. */
    bool ends = partial_skip_space(text, at) == text->length;
    return ends && found == FOUND && layout_inner_end(text->layout)[0] ? NONE : found;
}

/* The name and the bracket that opens the arguments, then one of them or the bracket that closes them. */
static enum partial_found read_literal_head(const struct partial_text *text, size_t at, bool python,
                                            struct head *head)
{
    enum partial_found found = FOUND;
    size_t end, key;
    if (python) {
        end = partial_find(text, at, "(");
        if (end == SIZE_MAX) return MORE;
        head->name = string_between(text, at, end);
        at = end + 1;
    } else {
        found = read_layout_name(text, &at, "{", head);
        if (found != FOUND) return found;
    }
    head->arguments = at;
    at = key = partial_skip_space(text, at);
    head->complete = true;
    if (at < text->length && text->data[at] == (python ? ')' : '}')) return FOUND;
    json_t *first = literal_key(text->reader, text->data, text->length, python ? '=' : ':', &key);
    if (first) return json_decref(first), FOUND;
    head->complete = literal_key_may_come(text->reader, text->data, text->length, python ? '=' : ':', at);
    return head->complete ? MORE : NONE;
}

/* How the arguments of a call at `from` are written; MORE: that is not decided. */
static enum partial_found find_notation(const struct partial_text *text, size_t from,
                                        enum partial_notation *notation)
{
    size_t first = partial_skip_space(text, from);
    *notation = NOTATION_JSON;
    if (text->function || text->form == CALLS_BARE) {
        if (!text->function) *notation = NOTATION_KEYED;
        return FOUND;
    }
    if (first == text->length) return MORE;
    if (text->form == CALLS_HERMES && text->data[first] == '<') *notation = NOTATION_KEYED;
    if (text->form != CALLS_LAYOUT) return FOUND;
    switch (text->layout->kind) {
    case LAYOUT_OBJECTS:
    case LAYOUT_JSON: return FOUND;
    case LAYOUT_KEYED: *notation = NOTATION_KEYED; return FOUND;
    case LAYOUT_WORDS: *notation = NOTATION_WORDS; return FOUND;
    case LAYOUT_PYTHON: break;
    }
    /* Some models write objects after all. */
    size_t second = text->data[first] == '[' ? partial_skip_space(text, first + 1) : first;
    if (second == text->length) return MORE;
    if (text->data[second] != '{') *notation = NOTATION_PYTHON;
    return FOUND;
}

static enum partial_found read_head(const struct partial_text *text, size_t from, struct head *head)
{
    size_t first = partial_skip_space(text, from);
    enum partial_found found = find_notation(text, from, &head->notation);
    if (found != FOUND) return found;
    if (text->function) {
        head->name = calls_string(text->reader, (struct span){text->function, strlen(text->function)});
        return read_bare(text, from, head);
    }
    if (first == text->length) return MORE;
    switch (head->notation) {
    case NOTATION_KEYED: return read_keyed_head(text, from > 0 ? skip_separators(text, from) : from, head);
    case NOTATION_WORDS: return read_literal_head(text, from, false, head);
    case NOTATION_PYTHON: return read_literal_head(text, skip_separators(text, from), true, head);
    case NOTATION_JSON: break;
    }
    char c = text->data[first];
    switch (text->form) {
    case CALLS_MISTRAL:
        if (from == 0 && c != '[') return read_mistral_head(text, head);
        break;
    case CALLS_DEEPSEEK: return read_deepseek_head(text, head);
    case CALLS_LAYOUT:
        if (text->layout->kind == LAYOUT_JSON) return read_named_head(text, from, head);
        break;
    case CALLS_BARE:
    case CALLS_PYTHON:
    case CALLS_OBJECTS:
    case CALLS_HERMES: break;
    }
    return read_object_head(text, from, head);
}

/* ---- Arguments ---- */

/* Reads on in JSON, until the bracket that ends it, or the end. */
static void pass_json(struct partial *p, const struct partial_text *text)
{
    while (p->at < text->length) {
        char c = text->data[p->at++];
        if (p->escaped || (p->in_string && c == '\\')) {
            p->escaped = !p->escaped;
        } else if (c == '"') {
            p->in_string = !p->in_string;
        } else if (!p->in_string && (c == '{' || c == '[')) {
            p->depth++;
        } else if (!p->in_string && (c == '}' || c == ']') && --p->depth == 0) {
            return;
        }
    }
}

/* Whether names and arguments stand outside of objects. */
static bool is_outside(const struct partial_text *text)
{
    enum partial_notation notation;
    find_notation(text, 0, &notation);
    return notation != NOTATION_JSON || (text->form == CALLS_LAYOUT && text->layout->kind == LAYOUT_JSON);
}

/* Whether the arguments are a member of an object, which ends after them. */
static bool in_object(const struct partial_text *text, size_t from)
{
    if (text->function || text->form == CALLS_DEEPSEEK || is_outside(text)) return false;
    size_t first = partial_skip_space(text, from);
    return from > 0 || (first < text->length && (text->data[first] == '{' || text->data[first] == '['));
}

/* The end of an object after its arguments: }, or other members with texts, and }. */
static enum partial_found read_tail(const struct partial_text *text, size_t *at)
{
    for (;;) {
        *at = partial_skip_space(text, *at);
        if (*at == text->length) return MORE;
        if (text->data[*at] == '}') return ++*at, FOUND;
        json_t *key = NULL, *value = NULL;
        enum partial_found found = pass_byte(text, at, ',');
        if (found == FOUND) found = read_head_string(text, at, &key);
        if (found == FOUND) found = pass_byte(text, at, ':');
        if (found == FOUND) found = read_head_string(text, at, &value);
        json_decref(key);
        json_decref(value);
        if (found != FOUND) return found;
    }
}

static void tell_beginning(const struct partial_text *text, const struct head *head,
                           struct partial_news *news)
{
    bool has_id = json_string_length(head->id) > 0;
    news->begins = true;
    news->name = strdup(json_string_value(head->name));
    news->id = has_id ? strdup(json_string_value(head->id)) : NULL;
    if (!news->name || (has_id && !news->id)) text->reader->out_of_memory = true;
}

static void begin_call(struct partial *p, const struct partial_text *text, struct partial_news *news)
{
    struct head head = {0};
    enum partial_found found = read_head(text, p->from, &head);
    if (found == MORE && text->length - p->from > MAX_HEAD) found = NONE;
    if (found == FOUND && !calls_is_tool(text->reader->tools, head.name)) found = NONE;
    if (found == NONE) p->phase = PARTIAL_LOST;
    if (found == FOUND) {
        tell_beginning(text, &head, news);
        p->phase = PARTIAL_ARGUMENTS;
        p->at = head.arguments;
        p->depth = 0;
        p->n_begun++;
        p->notation = head.notation;
        json_decref(p->arguments.name);
        json_decref(p->arguments.keys);
        p->arguments = (struct partial_arguments){.at = head.arguments, .name = json_incref(head.name)};
    }
    json_decref(head.name);
    json_decref(head.id);
}

void partial_reset(struct partial *p)
{
    json_decref(p->arguments.name);
    json_decref(p->arguments.keys);
    *p = (struct partial){0};
}

/* The arguments in another notation than JSON. False: nothing new. */
static bool next_arguments(struct partial *p, const struct partial_text *text, struct partial_news *news)
{
    enum partial_found found = partial_arguments_next(&p->arguments, p->notation, text, &news->made);
    news->arguments = (struct engine_string){news->made.size > 0 ? news->made.data : "", news->made.size};
    news->ends = found == FOUND;
    if (news->ends) {
        p->phase = PARTIAL_TAIL;
        p->at = p->after = p->arguments.at;
    }
    return news->begins || news->ends || news->made.size > 0;
}

bool partial_next(struct partial *p, const struct partial_text *text, struct partial_news *news)
{
    *news = (struct partial_news){0};
    ENGINE_ASSERT(text->length >= p->from && text->length >= p->at);
    if (p->phase == PARTIAL_HEAD && p->from < text->length) begin_call(p, text, news);
    if (p->phase == PARTIAL_ARGUMENTS && p->notation != NOTATION_JSON) return next_arguments(p, text, news);
    if (p->phase == PARTIAL_ARGUMENTS) {
        size_t from = p->at;
        pass_json(p, text);
        news->arguments = (struct engine_string){text->data + from, p->at - from};
        news->ends = p->depth == 0;
        if (news->ends) p->phase = PARTIAL_TAIL;
        if (news->ends) p->after = p->at;
        return news->begins || p->at > from;
    }
    if (p->phase == PARTIAL_TAIL && p->notation != NOTATION_JSON) {
        if (layout_has_one(text->layout)) return false;
        p->phase = PARTIAL_HEAD;
        p->from = p->after;
        return p->from < text->length && partial_next(p, text, news);
    }
    bool marked = is_outside(text) && text->layout->open[0] && text->layout->end[0];
    if (p->phase == PARTIAL_TAIL && (marked || in_object(text, p->from))) {
        size_t at = p->at;
        enum partial_found found =
            marked ? pass_head_mark(text, &at, text->layout->end) : read_tail(text, &at);
        if (found == MORE && text->length - p->at > MAX_HEAD) found = NONE;
        if (found == NONE) p->phase = PARTIAL_LOST;
        if (found != FOUND) return false;
        p->phase = PARTIAL_HEAD;
        p->from = p->after = at;
        return partial_next(p, text, news);
    }
    return false;
}

bool partial_awaits(const struct partial *p, const struct partial_text *text, struct partial_news *news)
{
    struct head head = {0};
    bool awaits = p->phase == PARTIAL_HEAD && read_head(text, p->from, &head) == MORE && head.complete &&
                  json_string_length(head.name) > 0;
    if (news) *news = (struct partial_news){.arguments = {"", 0}};
    if (awaits && news && calls_is_tool(text->reader->tools, head.name)) tell_beginning(text, &head, news);
    if (news) news->ends = news->begins;
    json_decref(head.name);
    json_decref(head.id);
    return awaits;
}

size_t partial_rest(const struct partial *p, const struct partial_text *text)
{
    static const char fence[] = "```";
    size_t first = partial_skip_space(text, 0), at = partial_skip_space(text, p->after), n = strlen(fence);
    if (text->form == CALLS_DEEPSEEK && text->length - at >= n && memcmp(text->data + at, fence, n) == 0)
        return at + n;
    bool listed = p->notation == NOTATION_PYTHON && first < text->length && text->data[first] == '[';
    if (text->function || text->form == CALLS_DEEPSEEK || (is_outside(text) && !listed) || at == text->length)
        return p->after;
    if (text->data[first] == '[' && text->data[at] == ']') return at + 1;
    if (text->data[at] != ',' && text->data[at] != ';') return p->after;
    size_t next = partial_skip_space(text, at + 1);
    return next == text->length || listed || text->data[next] == '{' ? next : p->after;
}
