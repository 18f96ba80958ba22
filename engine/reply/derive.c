/* derive.c: see derive.h. A template writes the same conversation with one call and with two, with one
 * argument and with two: the texts between the words that differ are the marks. Where a mark ends and another
 * begins, they are told apart by what repeats. The result is only a proposal: recognise.c takes it if the
 * calls can be read back by it. */
#include "reply/derive.h"

#include <string.h>

#include "common/json-read.h"
#include "reply/internal.h"
#include "reply/span.h"

static struct span span_of(struct engine_string text)
{
    return (struct span){text.data, text.length};
}

/* The text between the first `a` and the first `b` after it. False: they don't follow each other. */
static bool between(struct span text, const char *a, const char *b, struct span *found)
{
    struct span before;
    return span_cut(&text, a, &before) && span_cut(&text, b, found);
}

/* Makes a mark of a text. False: it has no room. */
static bool set_mark(char mark[LAYOUT_MARK], struct span text)
{
    text = span_trim(text);
    if (text.length >= LAYOUT_MARK) return false;
    if (text.length > 0) memcpy(mark, text.data, text.length);
    mark[text.length] = '\0';
    return true;
}

static size_t common_beginning(struct span a, struct span b)
{
    size_t n = 0;
    while (n < a.length && n < b.length && a.data[n] == b.data[n]) n++;
    return n;
}

/* How many bytes two texts have in common at their ends. */
static size_t common_end(struct span a, struct span b)
{
    size_t n = 0;
    while (n < a.length && n < b.length && a.data[a.length - 1 - n] == b.data[b.length - 1 - n]) n++;
    return n;
}

/* The end of `text` of at most n bytes that begins where a mark or a word does. */
static struct span mark_at_end(struct span text, size_t n)
{
    for (size_t at = text.length - n; at < text.length; at++)
        if (at == 0 || strchr("<[", text.data[at]) || is_json_space(text.data[at - 1]))
            return span_trim(span_from(text, at));
    return span_from(text, text.length);
}

/* `s` without `end`, after which only white space may come. */
static bool drop_end(struct span *s, struct span end)
{
    *s = span_trim(*s);
    if (s->length < end.length || memcmp(s->data + s->length - end.length, end.data, end.length) != 0)
        return false;
    s->length -= end.length;
    *s = span_trim(*s);
    return true;
}

/* Without one of these characters at the beginning or at the end. */
static struct span without(struct span s, const char *begin, const char *end)
{
    s = span_trim(s);
    while (s.length > 0 && strchr(end, s.data[s.length - 1])) s.length--, s = span_trim(s);
    while (s.length > 0 && strchr(begin, s.data[0])) s = span_trim(span_from(s, 1));
    return s;
}

/* ---- One call ---- */

/* Where the two calls are, without what surrounds each. */
struct cores {
    struct span first, second;
};

/* A JSON object at the beginning of `s`, and its length. */
static json_t *object_at(struct span s, size_t *length)
{
    json_error_t where;
    json_t *object = json_read(s.data, s.length, JSON_DISABLE_EOF_CHECK, &where);
    *length = object ? (size_t)where.position : 0;
    if (json_is_object(object)) return object;
    json_decref(object);
    return NULL;
}

static bool has_argument(const json_t *arguments, const char *key, const char *value)
{
    const char *text = json_string_value(json_object_get(arguments, key));
    if (text) return strcmp(text, value) == 0;
    /* An object in a string. */
    json_t *object = json_is_string(arguments) ? json_read_text(json_string_value(arguments), 0, NULL) : NULL;
    text = json_string_value(json_object_get(object, key));
    bool good = text && strcmp(text, value) == 0;
    json_decref(object);
    return good;
}

/* The keys of a call that is an object. False: this is none. */
static bool read_keys(json_t *object, const char *name, const char *key, const char *value,
                      struct reply_layout *layout)
{
    json_t *inner = json_object_get(object, "function"), *member;
    const char *text;
    if (has_argument(json_object_get(object, name), key, value)) return strcpy(layout->name_key, "-"), true;
    layout->name_key[0] = layout->arguments_key[0] = '\0';
    json_object_foreach(json_is_object(inner) ? inner : object, text, member)
    {
        const char *word = json_string_value(member);
        if (strlen(text) >= sizeof layout->name_key) continue;
        if (word && strcmp(word, name) == 0) strcpy(layout->name_key, text);
        if (has_argument(member, key, value)) strcpy(layout->arguments_key, text);
    }
    return layout->name_key[0] && layout->arguments_key[0];
}

/* An object that begins before the name and holds it and the arguments. */
static bool find_object(struct span text, const char *name, const char *key, const char *value,
                        struct reply_layout *layout, struct span *core)
{
    size_t at = span_find(text, name), length;
    if (at == SIZE_MAX) return false;
    for (size_t from = at; from-- > 0;) {
        if (text.data[from] != '{') continue;
        json_t *object = object_at(span_from(text, from), &length);
        bool good = object && read_keys(object, name, key, value, layout);
        bool goes_on = !object || from + length <= at || !good;
        json_decref(object);
        if (good) return *core = (struct span){text.data + from, length}, true;
        if (!goes_on) break;
    }
    return false;
}

/* The name and an object after it. */
static bool find_named(struct span text, const char *name, const char *key, const char *value,
                       struct reply_layout *layout, struct span *core)
{
    struct span before, head;
    size_t at = span_find(text, name), length;
    if (at == SIZE_MAX) return false;
    struct span from_name = span_from(text, at), rest = from_name;
    span_cut(&rest, name, &before);
    size_t brace = span_find(rest, "{");
    if (brace == SIZE_MAX) return false;
    head = (struct span){rest.data, brace};
    json_t *object = object_at(span_from(rest, brace), &length);
    bool good = has_argument(object, key, value) && set_mark(layout->after_name, head);
    json_decref(object);
    *core = (struct span){from_name.data, strlen(name) + brace + length};
    return good;
}

/* The name and marked arguments. What is around values is found by two arguments. */
static bool find_keyed(struct span text, const char *name, const char *key, const char *value,
                       struct reply_layout *layout, struct span *core)
{
    struct span head, middle, before;
    size_t at = span_find(text, name);
    if (at == SIZE_MAX) return false;
    const struct span call = span_from(text, at);
    if (!between(call, name, key, &head) || !between(call, key, value, &middle)) return false;
    size_t n_key = strlen(layout->key);
    head = span_trim(head);
    if (!drop_end(&head, (struct span){layout->key, n_key}) || !set_mark(layout->after_name, head))
        return false;
    struct span rest = call;
    span_cut(&rest, value, &before);
    rest = span_trim(rest);
    if (!span_starts(rest, layout->after_value)) return false;
    rest = span_from(rest, strlen(layout->after_value));
    *core = (struct span){call.data, (size_t)(rest.data - call.data)};
    return true;
}

/* The marks of keys and values, by a call with two arguments. */
static bool read_argument_marks(struct span text, struct reply_layout *layout)
{
    struct span head, middle, next;
    if (!between(text, DERIVE_NAME, DERIVE_KEY, &head) || !between(text, DERIVE_KEY, DERIVE_VALUE, &middle) ||
        !between(text, DERIVE_VALUE, DERIVE_KEY_2, &next))
        return false;
    struct span key = mark_at_end(next, common_end(head, next));
    struct span after = {next.data, (size_t)(key.data - next.data)};
    layout->lines = middle.length > 0 && middle.data[middle.length - 1] == '\n' && span_starts(after, "\n");
    middle = span_trim(middle);
    /* A key that ends with one mark, and a value that begins with another. */
    size_t split = SIZE_MAX;
    for (size_t i = 1; i < middle.length && split == SIZE_MAX; i++)
        if (middle.data[i] == '<' && middle.data[i - 1] != '=') split = i;
    struct span begin = {0};
    if (split != SIZE_MAX) begin = span_from(middle, split), middle.length = split;
    layout->kind = LAYOUT_KEYED;
    return key.length > 0 && set_mark(layout->key, key) && set_mark(layout->after_key, middle) &&
           set_mark(layout->value, begin) && set_mark(layout->after_value, after) && layout->key[0] &&
           layout->after_key[0] && layout->after_value[0];
}

/* NAME(KEY="VALUE") */
static bool find_python(struct span text, const char *name, const char *key, const char *value,
                        struct span *core)
{
    struct span head, middle;
    struct calls_reader reader = {0};
    size_t at = span_find(text, name), end;
    if (at == SIZE_MAX || !between(text, name, key, &head) || !between(text, key, value, &middle))
        return false;
    struct span open = span_from(text, at + strlen(name));
    if (!span_is(span_trim(head), "(") || middle.length == 0 || middle.data[0] != '=') return false;
    json_t *arguments = literal_arguments(&reader, open.data, open.length, &end);
    *core = (struct span){text.data + at, strlen(name) + end};
    bool good = arguments != NULL;
    json_decref(arguments);
    return good;
}

/* Finds the first call, or both, and sets how each is written. */
static bool find_cores(const struct derive_texts *texts, struct span text, size_t n_calls,
                       struct reply_layout *layout, struct cores *cores)
{
    static const char *const words[2][3] = {{DERIVE_NAME, DERIVE_KEY, DERIVE_VALUE},
                                            {DERIVE_NAME_2, DERIVE_KEY_2, DERIVE_OTHER}};
    struct span *found[2] = {&cores->first, &cores->second};
    for (enum layout_kind kind = LAYOUT_OBJECTS; kind <= LAYOUT_PYTHON; kind++) {
        bool good = true;
        *layout = (struct reply_layout){.kind = kind};
        if (kind == LAYOUT_WORDS) continue;
        if (kind == LAYOUT_KEYED) good = read_argument_marks(span_of(texts->two_arguments), layout);
        for (size_t i = 0; i < n_calls && good; i++) {
            const char *name = words[i][0], *key = words[i][1], *value = words[i][2];
            if (kind == LAYOUT_OBJECTS) good = find_object(text, name, key, value, layout, found[i]);
            if (kind == LAYOUT_JSON) good = find_named(text, name, key, value, layout, found[i]);
            if (kind == LAYOUT_KEYED) good = find_keyed(text, name, key, value, layout, found[i]);
            if (kind == LAYOUT_PYTHON) good = find_python(text, name, key, value, found[i]);
        }
        if (good && (n_calls == 1 || cores->first.data + cores->first.length <= cores->second.data))
            return true;
    }
    return false;
}

/* ---- What surrounds them ---- */

/* A call that has all marks for itself, of which those at its ends may be parted from the others. */
static bool set_own_marks(struct span begin, struct span end, struct reply_layout *layout)
{
    size_t at = 0, last = end.length;
    while (at < begin.length && !is_json_space(begin.data[at])) at++;
    while (last > 0 && !is_json_space(end.data[last - 1])) last--;
    if (at == begin.length || last == 0) return set_mark(layout->begin, begin) && set_mark(layout->end, end);
    return set_mark(layout->open, (struct span){begin.data, at}) &&
           set_mark(layout->begin, span_from(begin, at)) &&
           set_mark(layout->end, (struct span){end.data, last}) &&
           set_mark(layout->close, span_from(end, last));
}

/* The last word of a text, if it has several lines: what comes before belongs to a turn. */
static struct span last_line(struct span text)
{
    size_t from = text.length;
    while (from > 0 && text.data[from - 1] != '\n') from--;
    return span_trim(span_from(text, from));
}

/* `text` without what comes after as many marks as `open` has, unless it has fewer. */
static struct span as_many_marks(struct span text, struct span open)
{
    size_t left = 0, at = 0;
    for (size_t i = 0; i < open.length; i++) left += open.data[i] == '<';
    if (left == 0) return text;
    for (; at < text.length; at++)
        if (text.data[at] == '>' && --left == 0) return (struct span){text.data, at + 1};
    return text;
}

/* Where a call's id stands before its name, in both. */
static void find_before_name(struct span *before, struct span *middle, struct reply_layout *layout)
{
    size_t n_id = strlen(DERIVE_ID), first = span_find(*before, DERIVE_ID),
           second = span_find(*middle, DERIVE_ID_2);
    if (first == SIZE_MAX || second == SIZE_MAX || layout->kind == LAYOUT_OBJECTS) return;
    struct span a = span_from(*before, first + n_id), b = span_from(*middle, second + n_id);
    if (a.length == 0 || a.length != b.length || memcmp(a.data, b.data, a.length) != 0 ||
        !set_mark(layout->before_name, a))
        return;
    before->length = first;
    middle->length = second;
}

bool derive_layout(const struct derive_texts *texts, struct reply_layout *layout)
{
    struct span text = span_of(texts->two_calls), answer = span_of(texts->answer), before, rest;
    struct cores cores;
    /* Some templates leave out what is said before a call. */
    if (!span_cut(&text, DERIVE_TEXT, &before))
        text = span_from(text, common_beginning(text, span_of(texts->prompt)));
    bool both = find_cores(texts, text, 2, layout, &cores);
    if (!both && !find_cores(texts, text, 1, layout, &cores)) return false;
    if (!both) cores.second = cores.first;
    const char *end_of_first = cores.first.data + cores.first.length,
               *end_of_last = cores.second.data + cores.second.length;
    before = span_trim((struct span){text.data, (size_t)(cores.first.data - text.data)});
    struct span middle = {end_of_first, both ? (size_t)(cores.second.data - end_of_first) : 0};
    struct span after = {end_of_last, (size_t)(text.data + text.length - end_of_last)};
    /* What ends a turn is no part of it. */
    struct span turn_end = span_cut(&answer, DERIVE_ANSWER, &rest) ? answer : (struct span){0};
    struct span of_turn = mark_at_end(after, common_end(after, turn_end));
    if (of_turn.length > 0) after.length = (size_t)(of_turn.data - after.data);
    if (layout->kind == LAYOUT_OBJECTS || layout->kind == LAYOUT_PYTHON) {
        layout->listed = before.length > 0 && before.data[before.length - 1] == '[';
        before = without(before, "", "[");
        after = without(after, "]", "");
        middle = without(middle, "]", "[");
    }
    middle = span_trim(middle);
    find_before_name(&before, &middle, layout);
    struct span own = mark_at_end(middle, common_end(before, middle));
    if (layout->kind == LAYOUT_PYTHON) own.length = 0;
    struct span end = own.length > 0 ? (struct span){middle.data, (size_t)(own.data - middle.data)} : middle;
    end = without(end, "", ",;");
    after = span_trim(after);
    if (end.length > 0 && (after.length < end.length || memcmp(after.data, end.data, end.length) != 0))
        return false;
    after = span_trim(span_from(after, end.length));
    if (own.length == before.length && own.length > 0) return set_own_marks(before, end, layout);
    before.length -= own.length;
    before = last_line(span_trim(before));
    after = as_many_marks(after, before);
    return set_mark(layout->open, before) && set_mark(layout->begin, own) && set_mark(layout->end, end) &&
           set_mark(layout->close, after) && layout_first(layout)[0];
}

/* ---- Reasoning ---- */

/* The mark in < > or [ ] at the end of a text. */
static struct span last_mark(struct span text)
{
    text = span_trim(text);
    if (text.length == 0) return text;
    char last = text.data[text.length - 1], first = last == '>' ? '<' : last == ']' ? '[' : '\0';
    for (size_t at = text.length; first && at-- > 0;)
        if (text.data[at] == first) return span_from(text, at);
    return (struct span){0};
}

static struct span first_mark(struct span text)
{
    text = span_trim(text);
    char first = text.length > 0 ? text.data[0] : '\0', last = first == '<' ? '>' : first == '[' ? ']' : '\0';
    for (size_t at = 0; last && at < text.length; at++)
        if (text.data[at] == last) return (struct span){text.data, at + 1};
    return (struct span){0};
}

void derive_reasoning(struct engine_string thought, struct engine_string answer, struct reply_layout *layout)
{
    struct span after = span_of(thought), plain = span_of(answer), before, usual;
    layout->reasoning[0][0] = layout->reasoning[1][0] = '\0';
    if (!span_cut(&after, DERIVE_OTHER, &before) || span_find(after, DERIVE_ANSWER) == SIZE_MAX ||
        !span_cut(&plain, DERIVE_ANSWER, &usual))
        return;
    struct span open = last_mark(before), close = first_mark(after), header = last_mark(usual);
    bool is_header =
        open.length == header.length && open.length > 0 && memcmp(open.data, header.data, open.length) == 0;
    if (open.length == 0 || close.length == 0 || is_header || span_is(open, "<think>") ||
        span_is(open, "[THINK]"))
        return;
    if (!set_mark(layout->reasoning[0], open) || !set_mark(layout->reasoning[1], close))
        layout->reasoning[0][0] = layout->reasoning[1][0] = '\0';
}
