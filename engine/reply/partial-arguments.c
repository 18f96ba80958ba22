/* partial-arguments.c: turns arguments that aren't one JSON object into one while they are written
 * (partial.h). Strings come as they are written; other values when they are complete. All pieces together are
 * what layout.c reads in the complete call. Called by partial-calls.c. */
#include "reply/partial.h"

#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "common/json-read.h"
#include "reply/internal.h"
#include "reply/span.h"

/* Where the JSON goes. */
struct partial_output {
    struct text_buffer *json;
    struct calls_reader *reader;
};

/* ---- Writing JSON ---- */

static bool add_json(struct partial_output out, const char *text, size_t length)
{
    if (text_buffer_add(out.json, text, length)) return true;
    out.reader->out_of_memory = true;
    return false;
}

/* Takes what json_dumps or its like have made of a value, without so many bytes at both ends. */
static bool add_dump(struct partial_output out, char *dump, size_t without)
{
    bool good = dump && add_json(out, dump + without, strlen(dump) - 2 * without);
    if (!dump) out.reader->out_of_memory = true;
    free(dump);
    return good;
}

/* How much of it is UTF-8, without zero bytes. */
static size_t utf8_beginning(struct span text)
{
    size_t n = span_utf8(text);
    const char *zero = n > 0 ? memchr(text.data, 0, n) : NULL;
    return zero ? (size_t)(zero - text.data) : n;
}

/* A part of a string, without quotation marks, as far as it is UTF-8. False: it isn't to its end, or there is
 * no memory. */
static bool add_characters(struct partial_output out, struct span text)
{
    size_t n = utf8_beginning(text);
    json_t *string = calls_string(out.reader, (struct span){n > 0 ? text.data : "", n});
    bool good = string && add_dump(out, json_dumps(string, JSON_ENCODE_ANY), 1);
    json_decref(string);
    return good && n == text.length;
}

/* Takes the reference. */
static bool add_value(struct partial_output out, json_t *value)
{
    bool good = value && add_dump(out, calls_value_text(value), 0);
    json_decref(value);
    return good;
}

/* A key, with what parts it from the argument before. False: it has come before, or is none. */
static bool add_key(struct partial_arguments *a, struct partial_output out, struct span key)
{
    if (utf8_beginning(key) < key.length) return false;
    if (!a->keys) a->keys = calls_made(out.reader, json_object());
    bool first = json_object_size(a->keys) == 0;
    if (!a->keys || json_object_getn(a->keys, key.data, key.length)) return false;
    if (!calls_set(out.reader, a->keys, key, json_true())) return false;
    return add_json(out, first ? "{\"" : ", \"", first ? 2 : 3) && add_characters(out, key) &&
           add_json(out, "\": ", 3);
}

static enum partial_found end_arguments(struct partial_arguments *a, struct partial_output out, size_t at)
{
    bool empty = json_object_size(a->keys) == 0;
    a->at = at;
    return add_json(out, empty ? "{}" : "}", empty ? 2 : 1) ? FOUND : NONE;
}

/* The end of the characters in [from, to) of which no byte is missing. */
static size_t whole_characters(const char *text, size_t from, size_t to)
{
    size_t at = to;
    while (at > from && to - at < 3 && ((unsigned char)text[at - 1] & 0xC0) == 0x80) at--;
    if (at == from) return to;
    unsigned char lead = (unsigned char)text[at - 1];
    size_t n = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    return to - (at - 1) < n && n > 1 ? at - 1 : to;
}

/* ---- Between marks ---- */

/* Whether an argument begins at `at`. */
static enum partial_found begins_argument(const struct partial_text *text, size_t at)
{
    const struct reply_layout *layout = text->layout;
    enum partial_found found = partial_mark(text, at, layout->key);
    size_t after = at + strlen(layout->key);
    if (found != FOUND || !layout->nested) return found;
    if (after == text->length) return text->whole ? NONE : MORE;
    return text->data[after] == '/' ? NONE : FOUND;
}

enum partial_found partial_follows(const struct partial_text *text, size_t at)
{
    const char *end = layout_inner_end(text->layout);
    at = partial_skip_space(text, at);
    if (at == text->length) return text->whole ? FOUND : MORE;
    enum partial_found key = begins_argument(text, at), last = end[0] ? partial_mark(text, at, end) : NONE;
    if (key == FOUND || last == FOUND) return FOUND;
    return key == MORE || last == MORE ? MORE : NONE;
}

/* Where before `to` a value ends that isn't closed: with the call, if another one follows or nothing does.
 * Calls that the value quotes have ends of their own. MORE: it may be *end. */
static enum partial_found find_unclosed(struct partial_arguments *a, const struct partial_text *text,
                                        size_t to, size_t *end)
{
    const char *mark = layout_unclosed_end(text->layout);
    enum partial_found found = NONE;
    if (!mark[0]) return NONE;
    for (; a->unclosed < to; a->unclosed++) {
        found = partial_mark(text, a->unclosed, text->layout->begin);
        if (found == FOUND) {
            a->n_quoted++;
            continue;
        }
        if (found == NONE) found = partial_mark(text, a->unclosed, mark);
        if (found == FOUND && a->n_quoted > 0) {
            a->n_quoted--;
            continue;
        }
        if (found == FOUND) {
            size_t next = partial_skip_space(text, a->unclosed + strlen(mark));
            bool last = next == text->length;
            found = !last ? partial_mark(text, next, text->layout->begin) : text->whole ? FOUND : MORE;
        }
        if (found == NONE) continue;
        *end = a->unclosed;
        return found;
    }
    return NONE;
}

/* The end of the value, and what follows its mark. MORE: the value goes at least up to *end. */
static enum partial_found find_end_of_value(struct partial_arguments *a, const struct partial_text *text,
                                            size_t *end, size_t *next)
{
    size_t n = strlen(a->closing);
    char opening[3 * LAYOUT_MARK];
    bool nested = text->layout->nested;
    if (nested) layout_opening(text->layout, a->closing, opening);
    for (;;) {
        *end =
            layout_find_closing(text->layout, a->closing, text->data, text->length, &a->searched, &a->n_open);
        size_t unclosed = SIZE_MAX;
        enum partial_found found = find_unclosed(a, text, *end == SIZE_MAX ? text->length : *end, &unclosed);
        if (found == FOUND) {
            *end = *next = unclosed;
            return FOUND;
        }
        if (*end == SIZE_MAX) {
            *end = text->length - a->searched < n ? a->searched : text->length - n + 1;
            while (*end < text->length && partial_mark(text, *end, a->closing) == NONE &&
                   (!nested || partial_mark(text, *end, opening) == NONE))
                ++*end;
            a->searched = *end;
            if (unclosed < *end) *end = unclosed;
            return MORE;
        }
        *next = *end + n;
        found = partial_follows(text, *next);
        if (found != NONE) return found;
        a->searched = *next;
    }
}

/* Whether a value that begins so is handed out as it is written. `end`: where it is certain up to. */
static bool begins_string(struct partial_arguments *a, const struct partial_text *text, size_t end)
{
    static const char literal[] = "<![CDATA[";
    struct span s = {text->data + a->at, end - a->at};
    if (a->type.types != LAYOUT_TYPE_TEXT) return false;
    if (text->layout->lines && span_starts(s, "\n")) s = span_from(s, 1);
    size_t n = s.length < strlen(literal) ? s.length : strlen(literal);
    if (s.length == 0 || memcmp(s.data, literal, n) == 0) return false;
    a->at = (size_t)(s.data - text->data);
    return true;
}

static enum partial_found read_keyed_value(struct partial_arguments *a, const struct partial_text *text,
                                           struct partial_output out)
{
    size_t end, next = 0;
    enum partial_found found = find_end_of_value(a, text, &end, &next);
    if (a->value == PARTIAL_WAITS && begins_string(a, text, end)) {
        a->value = PARTIAL_STRING;
        if (!add_json(out, "\"", 1)) return NONE;
    } else if (a->value == PARTIAL_WAITS) {
        if (found != FOUND) return MORE;
        struct span value = {text->data + a->at, end - a->at};
        if (!add_value(out, layout_value_of(text->reader, text->layout, value, a->type))) return NONE;
    }
    if (a->value == PARTIAL_STRING) {
        if (text->layout->lines && end > a->at && text->data[end - 1] == '\n') end--;
        if (found == MORE) end = whole_characters(text->data, a->at, end);
        if (!add_characters(out, (struct span){text->data + a->at, end - a->at})) return NONE;
        a->at = end;
        if (found == MORE) return MORE;
        if (!add_json(out, "\"", 1)) return NONE;
    }
    a->at = next;
    a->value = PARTIAL_BETWEEN;
    return FOUND;
}

/* From a key's mark to the beginning of its value. */
static enum partial_found read_keyed_key(struct partial_arguments *a, const struct partial_text *text,
                                         size_t at, struct partial_output out)
{
    const struct reply_layout *layout = text->layout;
    struct span key, type = {0};
    size_t from = at + strlen(layout->key), end = partial_find(text, from, layout->after_key);
    if (end == SIZE_MAX) return MORE;
    key = span_trim((struct span){text->data + from, end - from});
    at = end + strlen(layout->after_key);
    if (layout->after_type[0]) {
        end = partial_find(text, at, layout->after_type);
        if (end == SIZE_MAX) return MORE;
        type = (struct span){text->data + at, end - at};
        at = end + strlen(layout->after_type);
    }
    if (layout->value[0]) {
        at = partial_skip_space(text, at);
        enum partial_found found = at == text->length ? MORE : partial_mark(text, at, layout->value);
        if (found != FOUND) return found;
        at += strlen(layout->value);
    }
    struct span name = {json_string_value(a->name), json_string_length(a->name)};
    a->type = layout_type_of(layout, text->reader->tools, name, key, type);
    if (!layout_closing(layout, key.data, key.length, a->closing)) return NONE;
    a->at = a->searched = a->unclosed = at;
    a->n_open = a->n_quoted = 0;
    a->value = PARTIAL_WAITS;
    return add_key(a, out, key) ? FOUND : NONE;
}

static enum partial_found next_keyed(struct partial_arguments *a, const struct partial_text *text,
                                     struct partial_output out)
{
    const char *end = layout_inner_end(text->layout);
    enum partial_found found = FOUND;
    while (found == FOUND) {
        if (a->value != PARTIAL_BETWEEN) {
            found = read_keyed_value(a, text, out);
            continue;
        }
        size_t at = partial_skip_space(text, a->at);
        if (at == text->length)
            return text->whole && !end[0] ? end_arguments(a, out, at) : text->whole ? NONE : MORE;
        found = end[0] ? partial_mark(text, at, end) : NONE;
        if (found == FOUND) return end_arguments(a, out, at + strlen(end));
        if (found == NONE) found = begins_argument(text, at);
        if (found == FOUND) found = read_keyed_key(a, text, at, out);
    }
    return found;
}

/* ---- Gemma's notation and Python's ---- */

static enum partial_found read_literal_string(struct partial_arguments *a, const struct partial_text *text,
                                              struct partial_output out)
{
    struct text_buffer characters = {0};
    size_t used = 0;
    bool ended = false;
    struct span rest = {text->data + a->at, whole_characters(text->data, a->at, text->length) - a->at};
    bool read = literal_string_part(text->reader, a->closing, rest, &characters, &used, &ended);
    bool good = add_characters(out, (struct span){characters.data, characters.size}) && read;
    text_buffer_free(&characters);
    a->at += used;
    if (!good) return NONE;
    if (!ended) return MORE;
    a->value = PARTIAL_BETWEEN;
    a->parted = true;
    return add_json(out, "\"", 1) ? FOUND : NONE;
}

static enum partial_found read_literal_value(struct partial_arguments *a, const struct partial_text *text,
                                             struct partial_output out)
{
    size_t at = partial_skip_space(text, a->at), quote;
    if (a->value == PARTIAL_STRING) return read_literal_string(a, text, out);
    if (at == text->length) return MORE;
    quote = literal_quote(text->data + at, text->length - at);
    if (quote == SIZE_MAX) return MORE;
    if (quote > 0) {
        ENGINE_ASSERT(quote < sizeof a->closing);
        memcpy(a->closing, text->data + at, quote);
        a->closing[quote] = '\0';
        a->at = at + quote;
        a->value = PARTIAL_STRING;
        return add_json(out, "\"", 1) ? FOUND : NONE;
    }
    if (!literal_ends(&a->scan, text->data, text->length)) return MORE;
    json_t *value = literal_next(text->reader, text->data, text->length, &at);
    a->at = at;
    a->value = PARTIAL_BETWEEN;
    a->parted = true;
    return add_value(out, value) ? FOUND : NONE;
}

static enum partial_found read_literal_key(struct partial_arguments *a, const struct partial_text *text,
                                           char separator, struct partial_output out)
{
    size_t at = a->at;
    json_t *key = literal_key(text->reader, text->data, text->length, separator, &at);
    if (!key) return MORE;
    bool good = add_key(a, out, (struct span){json_string_value(key), json_string_length(key)});
    json_decref(key);
    a->at = at;
    a->value = PARTIAL_WAITS;
    a->scan = (struct literal_scan){.at = at, .begins = true};
    return good ? FOUND : NONE;
}

static enum partial_found next_literal(struct partial_arguments *a, const struct partial_text *text,
                                       bool python, struct partial_output out)
{
    const char *mark = python ? "" : layout_inner_end(text->layout);
    enum partial_found found = FOUND;
    while (found == FOUND) {
        if (a->value != PARTIAL_BETWEEN) {
            found = read_literal_value(a, text, out);
            continue;
        }
        size_t at = partial_skip_space(text, a->at);
        if (at == text->length) return MORE;
        if (text->data[at] == (python ? ')' : '}')) {
            found = mark[0] ? partial_mark(text, partial_skip_space(text, at + 1), mark) : FOUND;
            if (found != FOUND) return found;
            if (mark[0]) at = partial_skip_space(text, at + 1) + strlen(mark) - 1;
            return end_arguments(a, out, at + 1);
        }
        a->at = at;
        if (!a->parted) {
            found = read_literal_key(a, text, python ? '=' : ':', out);
        } else if (text->data[at] == ',') {
            a->parted = false;
            a->at = at + 1;
        } else {
            return NONE;
        }
    }
    return found;
}

/* ---- Any ---- */

enum partial_found partial_arguments_next(struct partial_arguments *a, enum partial_notation notation,
                                          const struct partial_text *text, struct text_buffer *json)
{
    struct partial_output out = {json, text->reader};
    ENGINE_ASSERT(notation != NOTATION_JSON);
    ENGINE_ASSERT(a->at <= text->length);
    if (a->lost) return NONE;
    enum partial_found found = notation == NOTATION_KEYED
                                   ? next_keyed(a, text, out)
                                   : next_literal(a, text, notation == NOTATION_PYTHON, out);
    a->lost = found == NONE;
    return found;
}
