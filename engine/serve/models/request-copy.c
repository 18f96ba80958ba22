/* request-copy.c: see request-copy.h. The copy is written twice: first to count its bytes, then into a piece of memory. */
#include "serve/models/request-copy.h"

#include <stdlib.h>
#include <string.h>

struct piece {
    char *data; /* NULL: only counts */
    size_t used;
};

/* Copies an array to the end of the piece. Returns the copy; NULL while counting, or if there is nothing to copy. */
static void *put(struct piece *piece, const void *from, size_t size)
{
    size_t at = piece->used;
    if (!from) return NULL;
    piece->used += (size + 15) / 16 * 16;
    if (!piece->data) return NULL;
    if (size > 0) memcpy(piece->data + at, from, size);
    return piece->data + at;
}

static const struct engine_string *put_texts(struct piece *piece, const struct engine_string *texts, size_t n)
{
    struct engine_string *copies = put(piece, texts, n * sizeof *texts);
    for (size_t i = 0; texts && i < n; i++) {
        const char *copy = put(piece, texts[i].data, texts[i].length);
        if (copies) copies[i].data = copy;
    }
    return copies;
}

static void put_sampler(struct piece *piece, const struct engine_sampler_options *from,
                        struct engine_sampler_options *to)
{
    struct engine_sampler_options copy = *from;
    copy.samplers = put(piece, from->samplers, from->samplers ? strlen(from->samplers) + 1 : 0);
    copy.logit_bias = put(piece, from->logit_bias, from->n_logit_bias * sizeof *from->logit_bias);
    copy.dry_breakers = put_texts(piece, from->dry_breakers, from->n_dry_breakers);
    copy.ban = put_texts(piece, from->ban, from->n_ban);
    if (to) *to = copy;
}

static struct engine_request *write_copy(struct piece *piece, const struct engine_request *from)
{
    struct engine_request *to = put(piece, from, sizeof *from);
    struct engine_request copy = *from;
    copy.tokens = put(piece, from->tokens, from->n_tokens * sizeof *from->tokens);
    copy.stop = put_texts(piece, from->stop, from->n_stop);
    copy.stop_tokens = put(piece, from->stop_tokens, from->n_stop_tokens * sizeof *from->stop_tokens);
    size_t n_types = from->token_types ? from->n_tokens : 0;
    copy.token_types = put(piece, from->token_types, n_types * sizeof *from->token_types);
    if (from->sampler) {
        struct engine_sampler_options *sampler = put(piece, from->sampler, sizeof *from->sampler);
        put_sampler(piece, from->sampler, sampler);
        copy.sampler = sampler;
    }
    if (to) *to = copy;
    return to;
}

struct engine_request *request_copy(const struct engine_request *request)
{
    struct piece piece = {0};
    write_copy(&piece, request);
    piece.data = malloc(piece.used);
    piece.used = 0;
    return piece.data ? write_copy(&piece, request) : NULL;
}
