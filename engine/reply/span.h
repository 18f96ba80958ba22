/* span.h: a stretch of a reply's text, for the files that read calls in it. */
#ifndef ENGINE_REPLY_SPAN_H
#define ENGINE_REPLY_SPAN_H

#include <stdint.h>
#include <string.h>

#include "common/assert.h"
#include "common/json-read.h"
#include "reply/internal.h"

struct span {
    const char *data;
    size_t length;
};

/* Of functions.NAME:NUMBER the name; other names are as they are. (layout.c) */
struct span layout_name_of_number(struct span id);

static inline struct span span_trim(struct span s)
{
    while (s.length > 0 && is_json_space(s.data[0])) s.data++, s.length--;
    while (s.length > 0 && is_json_space(s.data[s.length - 1])) s.length--;
    return s;
}

/* Where `mark` begins in `s`, or SIZE_MAX. */
static inline size_t span_find(struct span s, const char *mark)
{
    const char *at = s.length > 0 ? memmem(s.data, s.length, mark, strlen(mark)) : NULL;
    return at ? (size_t)(at - s.data) : SIZE_MAX;
}

static inline bool span_starts(struct span s, const char *mark)
{
    size_t n = strlen(mark);
    return s.length >= n && memcmp(s.data, mark, n) == 0;
}

static inline bool span_is(struct span s, const char *word)
{
    return s.length == strlen(word) && span_starts(s, word);
}

static inline struct span span_from(struct span s, size_t at)
{
    ENGINE_ASSERT(at <= s.length);
    return (struct span){s.data + at, s.length - at};
}

/* Cuts `s` at the first `mark`: what is before it is returned, what is after it stays. False: no mark. */
static inline bool span_cut(struct span *s, const char *mark, struct span *before)
{
    size_t at = span_find(*s, mark);
    if (at == SIZE_MAX) return false;
    *before = (struct span){s->data, at};
    *s = span_from(*s, at + strlen(mark));
    return true;
}

/* How much of it is UTF-8. */
static inline size_t span_utf8(struct span s)
{
    size_t at = 0;
    while (at < s.length) {
        size_t n = json_read_utf8(s.data + at, s.length - at);
        if (n == 0) break;
        at += n;
    }
    return at;
}

static inline bool span_is_utf8(struct span s)
{
    return span_utf8(s) == s.length;
}

#endif
