/* pieces.c: see pieces.h. */
#include "hf/pieces.h"

#include <stdlib.h>

#include "common/assert.h"
#include "common/memory.h"

void pieces_free(struct pieces *pieces)
{
    free(pieces->list);
    free(pieces->cut);
    text_buffer_free(&pieces->texts[0]);
    text_buffer_free(&pieces->texts[1]);
}

int pieces_begin(struct pieces *pieces, struct engine_string text, size_t first)
{
    pieces->text = text;
    pieces->count = 0;
    pieces->n_cut = 0;
    if (text.length == 0) return ENGINE_OK;
    if (!ARRAY_RESERVE(pieces->list, pieces->capacity, 1)) return fail_memory("text");
    pieces->list[pieces->count++] = (struct piece){0, text.length, first};
    return ENGINE_OK;
}

void pieces_turn(struct pieces *pieces)
{
    struct piece *list = pieces->list;
    size_t capacity = pieces->capacity;
    pieces->list = pieces->cut;
    pieces->count = pieces->n_cut;
    pieces->capacity = pieces->cut_capacity;
    pieces->cut = list;
    pieces->cut_capacity = capacity;
    pieces->n_cut = 0;
}

void cutter_begin(struct cutter *cutter, struct pieces *pieces, struct piece piece, enum behavior behavior,
                  bool invert)
{
    *cutter = (struct cutter){.pieces = pieces, .piece = piece, .behavior = behavior, .invert = invert};
}

static int emit(struct cutter *cutter, size_t start, size_t end)
{
    struct pieces *pieces = cutter->pieces;
    ENGINE_ASSERT(start <= end && end <= cutter->piece.end - cutter->piece.start);
    if (start == end) return ENGINE_OK;
    if (!ARRAY_RESERVE(pieces->cut, pieces->cut_capacity, pieces->n_cut + 1)) return fail_memory("text");
    size_t first = cutter->piece.first > start ? cutter->piece.first - start : 0;
    pieces->cut[pieces->n_cut++] =
        (struct piece){cutter->piece.start + start, cutter->piece.start + end, first};
    return ENGINE_OK;
}

/* Whether a range joins the pending one, or else begins a new one. */
static bool joins(const struct cutter *cutter, bool matched)
{
    if (!cutter->pending) return false;
    switch (cutter->behavior) {
    case BEHAVIOR_CONTIGUOUS: return matched == cutter->last_matched;
    case BEHAVIOR_MERGED_WITH_PREVIOUS: return matched && !cutter->last_matched;
    case BEHAVIOR_MERGED_WITH_NEXT: return !matched && cutter->last_matched;
    default: return false;
    }
}

int cutter_add(struct cutter *cutter, size_t start, size_t end, bool matched)
{
    int status = ENGINE_OK;
    ENGINE_ASSERT(!cutter->pending || start >= cutter->end); /* in order */
    matched = matched != cutter->invert;
    if (cutter->behavior == BEHAVIOR_ISOLATED) return emit(cutter, start, end);
    if (cutter->behavior == BEHAVIOR_REMOVED) return matched ? ENGINE_OK : emit(cutter, start, end);
    if (joins(cutter, matched)) {
        cutter->end = end;
    } else {
        if (cutter->pending) status = emit(cutter, cutter->start, cutter->end);
        cutter->start = start;
        cutter->end = end;
        cutter->pending = true;
    }
    cutter->last_matched = matched;
    return status;
}

int cutter_end(struct cutter *cutter)
{
    return cutter->pending ? emit(cutter, cutter->start, cutter->end) : ENGINE_OK;
}

int cutter_split_at(struct cutter *cutter, bool (*matches)(uint32_t character, uint32_t user), uint32_t user)
{
    const char *text = cutter->pieces->text.data + cutter->piece.start;
    size_t length = cutter->piece.end - cutter->piece.start, done = 0;
    int status = ENGINE_OK;
    for (size_t at = 0, size; !status && at < length; at += size) {
        uint32_t character;
        size = unicode_read(text + at, length - at, &character);
        if (!matches(character, user)) continue;
        if (at > done) status = cutter_add(cutter, done, at, false);
        if (!status) status = cutter_add(cutter, at, at + size, true);
        done = at + size;
    }
    if (!status && done < length) status = cutter_add(cutter, done, length, false);
    return status;
}
