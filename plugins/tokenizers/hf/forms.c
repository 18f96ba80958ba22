/* forms.c: see forms.h. Characters are decomposed and composed by utf8proc, but those that the library's
 * version of Unicode didn't know yet stay as they are. */
#include "hf/forms.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "common/memory.h"

#define MAX_PARTS 32 /* of a character; the longest decomposition has 18 */

void forms_workspace_free(struct forms_workspace *workspace)
{
    free(workspace->characters);
    free(workspace->sorted);
    *workspace = (struct forms_workspace){NULL, NULL, 0, 0, 0};
}

static unsigned class_of(int32_t character)
{
    return (unsigned)utf8proc_get_property(character)->combining_class;
}

/* Sorts each run of marks by their classes, equal ones in their order; linear for runs of any length. */
static int reorder(struct forms_workspace *work)
{
    for (size_t first = 0, end; first < work->count; first = end) {
        size_t counts[257] = {0};
        bool sorted = true;
        unsigned last = 0;
        for (end = first; end < work->count; end++) {
            unsigned class = class_of(work->characters[end]);
            if (class == 0) break;
            sorted = sorted && class >= last;
            last = class;
            counts[class + 1]++;
        }
        if (end == first) {
            end++;
            continue;
        }
        if (sorted) continue;
        if (!ARRAY_RESERVE(work->sorted, work->sorted_capacity, end - first)) return fail_memory("text");
        for (unsigned class = 1; class < 257; class ++) counts[class] += counts[class - 1];
        for (size_t i = first; i < end; i++)
            work->sorted[counts[class_of(work->characters[i])]++] = work->characters[i];
        memcpy(work->characters + first, work->sorted, (end - first) * sizeof *work->sorted);
    }
    return ENGINE_OK;
}

/* Orders, composes and writes the characters gathered. */
static int forms_flush(enum form form, struct forms_workspace *work, struct text_buffer *out)
{
    int status = reorder(work);
    size_t count = work->count;
    work->count = 0;
    if (status || count == 0) return status;
    if (form == FORM_NFC || form == FORM_NFKC) {
        utf8proc_ssize_t composed = utf8proc_normalize_utf32(work->characters, (utf8proc_ssize_t)count,
                                                             UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        if (composed < 0) return host->fail(ENGINE_ERROR, "utf8proc cannot compose a text");
        count = (size_t)composed;
    }
    status = text_reserve(out, 4 * count);
    for (size_t i = 0; !status && i < count; i++)
        out->size += character_write((uint32_t)work->characters[i], out->data + out->size);
    return status;
}

static int forms_gather(enum form form, struct forms_workspace *work, uint32_t character)
{
    int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    if (form == FORM_NFKC || form == FORM_NFKD) options |= UTF8PROC_COMPAT;
    if (!ARRAY_RESERVE(work->characters, work->capacity, work->count + MAX_PARTS)) return fail_memory("text");
    int boundary = 0;
    utf8proc_ssize_t parts = utf8proc_decompose_char((int32_t)character, work->characters + work->count,
                                                     MAX_PARTS, (utf8proc_option_t)options, &boundary);
    if (parts < 0 || parts > MAX_PARTS) {
        work->characters[work->count] = (int32_t)character;
        parts = 1;
    }
    work->count += (size_t)parts;
    return ENGINE_OK;
}

int forms_apply(enum form form, struct engine_string text, struct forms_workspace *work,
                struct text_buffer *out)
{
    int status = text_reserve(out, text.length);
    work->count = 0;
    for (size_t at = 0; !status && at < text.length;) {
        /* ASCII except for the last of it, with which marks may compose. */
        size_t end = at;
        while (end < text.length && (unsigned char)text.data[end] < 0x80) end++;
        size_t kept = end < text.length && end > at ? end - 1 : end;
        if (kept > at) {
            status = forms_flush(form, work, out);
            if (!status) status = text_append(out, text.data + at, kept - at);
            at = kept;
            continue;
        }
        if (end > at) status = forms_flush(form, work, out);
        uint32_t character;
        size_t length = unicode_read(text.data + at, text.length - at, &character);
        bool broken = character == UNICODE_REPLACEMENT && length == 1;
        if (broken || character_in(plain_characters, n_plain_characters, character)) {
            if (!status) status = forms_flush(form, work, out);
            if (!status) status = text_append(out, text.data + at, length);
        } else if (!status) {
            status = forms_gather(form, work, character);
        }
        at += length;
    }
    return status ? status : forms_flush(form, work, out);
}
