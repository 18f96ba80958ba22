/* stop-texts.c: see stop-texts.h. */
#include "queue/stop-texts.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define MAX_TEXTS 256
#define MAX_BYTES 4096 /* of one of them */

int stop_texts_create(struct stop_texts *stop, const struct engine_string *texts, size_t n_texts)
{
    *stop = (struct stop_texts){0};
    if (n_texts == 0) return ENGINE_OK;
    if (!texts || n_texts > MAX_TEXTS)
        return error_raise(ENGINE_ERROR_ARGUMENT, "%zu stop texts: at most %d", n_texts, MAX_TEXTS);
    stop->texts = calloc(n_texts, sizeof *stop->texts);
    if (!stop->texts) return error_memory("stop texts");
    for (size_t i = 0; i < n_texts; i++) {
        if (!texts[i].data || texts[i].length == 0 || texts[i].length > MAX_BYTES) {
            size_t length = texts[i].data ? texts[i].length : 0;
            stop_texts_destroy(stop);
            return error_raise(ENGINE_ERROR_ARGUMENT, "stop text %zu has %zu bytes; it should have 1 to %d",
                               i, length, MAX_BYTES);
        }
        char *copy = malloc(texts[i].length);
        if (!copy) {
            stop_texts_destroy(stop);
            return error_memory("stop texts");
        }
        memcpy(copy, texts[i].data, texts[i].length);
        stop->texts[i] = (struct engine_string){copy, texts[i].length};
        stop->n_texts++;
        if (texts[i].length > stop->longest) stop->longest = texts[i].length;
    }
    return ENGINE_OK;
}

void stop_texts_destroy(struct stop_texts *stop)
{
    for (size_t i = 0; i < stop->n_texts; i++) free((char *)(size_t)stop->texts[i].data);
    free(stop->texts);
    free(stop->held.data);
    *stop = (struct stop_texts){0};
}

/* How many bytes of the held text from a position on agree with a stop text, up to the end of either. 0: they
 * differ. */
static size_t agreement(const struct stop_texts *stop, const struct engine_string *text, size_t at)
{
    size_t left = stop->held.size - at, n = text->length < left ? text->length : left;
    return memcmp(stop->held.data + at, text->data, n) == 0 ? n : 0;
}

int stop_texts_add(struct stop_texts *stop, const char *text, size_t length, bool last,
                   struct engine_string *certain, int32_t *which)
{
    *which = -1;
    if (stop->n_handed > 0)
        memmove(stop->held.data, stop->held.data + stop->n_handed, stop->held.size - stop->n_handed);
    stop->held.size -= stop->n_handed;
    stop->n_handed = 0;
    int status = bytes_add(&stop->held, text, length, "text");
    if (status) return status;

    size_t from = stop->held.size,
           begin = 0; /* the first byte to hold back; with a complete stop text, where that begins */
    size_t end = SIZE_MAX;
    for (size_t at = 0; at < stop->held.size; at++)
        for (size_t i = 0; i < stop->n_texts; i++) {
            size_t agreed = agreement(stop, &stop->texts[i], at);
            if (agreed > 0 && at < from) from = at;
            if (agreed < stop->texts[i].length || at + agreed >= end) continue;
            *which = (int32_t)i;
            begin = at;
            end = at + agreed;
        }
    if (*which >= 0) from = begin;
    if (last && *which < 0) from = stop->held.size;
    *certain = (struct engine_string){stop->held.data ? stop->held.data : "", from};
    stop->n_handed = from;
    return ENGINE_OK;
}
