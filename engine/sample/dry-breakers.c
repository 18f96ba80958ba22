/* dry-breakers.c: see dry-breakers.h. A breaker may be part of a token, be a token, or be made of several, the
 * first of which may begin before it. */
#include "sample/dry-breakers.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define MOST_BYTES 40 /* of a breaker's text; llama.cpp's limits */
#define MOST_TAIL  20

/* ---- Creation ---- */

static int add_tail(void *user, const int32_t *ids, size_t count)
{
    struct dry_breakers *breakers = user;
    if (count > breakers->tails_capacity - breakers->n_tails) {
        size_t capacity = breakers->tails_capacity * 2 + count + 64;
        int32_t *grown = realloc(breakers->tails, capacity * sizeof *grown);
        if (!grown) return error_memory("sequence breakers");
        breakers->tails = grown;
        breakers->tails_capacity = capacity;
    }
    memcpy(breakers->tails + breakers->n_tails, ids, count * sizeof *ids);
    breakers->n_tails += count;
    return ENGINE_OK;
}

/* `tail`: what has to follow the token. */
static int add(struct dry_breakers *breakers, int32_t head, struct engine_string tail,
               const struct token_texts *vocabulary)
{
    size_t begin = breakers->n_tails;
    int status = ENGINE_OK;
    if (tail.length > 0)
        status =
            vocabulary->api->encode(vocabulary->tokenizer, tail.data, tail.length, 0, add_tail, breakers);
    if (status) return status;
    if (breakers->n_tails - begin > MOST_TAIL) breakers->n_tails = begin + MOST_TAIL;
    if (breakers->count == breakers->capacity) {
        size_t capacity = breakers->capacity * 2 + 64;
        struct dry_breaker *grown = realloc(breakers->items, capacity * sizeof *grown);
        if (!grown) return error_memory("sequence breakers");
        breakers->items = grown;
        breakers->capacity = capacity;
    }
    breakers->items[breakers->count++] =
        (struct dry_breaker){head, (uint32_t)begin, (uint32_t)(breakers->n_tails - begin)};
    return ENGINE_OK;
}

/* All ways in which a token takes part in a breaker. */
static int add_token(struct dry_breakers *breakers, int32_t id, struct engine_string text,
                     struct engine_string breaker, const struct token_texts *vocabulary)
{
    if (memmem(text.data, text.length, breaker.data, breaker.length))
        return add(breakers, id, (struct engine_string){"", 0}, vocabulary);
    int status = ENGINE_OK;
    size_t most = text.length < breaker.length ? text.length : breaker.length - 1;
    for (size_t n = most; n > 0 && !status; n--) /* the token's last n bytes begin the breaker */
        if (memcmp(text.data + text.length - n, breaker.data, n) == 0)
            status =
                add(breakers, id, (struct engine_string){breaker.data + n, breaker.length - n}, vocabulary);
    return status;
}

int dry_breakers_create(struct dry_breakers *breakers, const struct engine_string *texts, size_t n_texts,
                        const struct token_texts *vocabulary, uint32_t n_vocab)
{
    int status = ENGINE_OK;
    *breakers = (struct dry_breakers){0};
    for (uint32_t id = 0; id < n_vocab && !status; id++) {
        struct engine_string text = token_text(vocabulary, (int32_t)id);
        for (size_t i = 0; i < n_texts && text.length > 0 && !status; i++) {
            struct engine_string breaker = texts[i];
            if (breaker.length > MOST_BYTES) breaker.length = MOST_BYTES;
            status = add_token(breakers, (int32_t)id, text, breaker, vocabulary);
        }
    }
    return status;
}

void dry_breakers_destroy(struct dry_breakers *breakers)
{
    free(breakers->items);
    free(breakers->tails);
}

/* ---- Use ---- */

/* The first breaker with this head, or one past all that could have it. */
static size_t find(const struct dry_breakers *breakers, int32_t head)
{
    size_t low = 0, high = breakers->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (breakers->items[middle].head < head)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Whether the tail stands after the token that has `back` others after it. */
static int follows(const struct dry_breakers *breakers, const struct dry_breaker *breaker,
                   const struct history *history, size_t back)
{
    for (size_t i = 0; i < breaker->n_tail; i++)
        if (breakers->tails[breaker->tail + i] != history_at(history, back - 1 - i)) return 0;
    return 1;
}

size_t dry_breakers_reach(const struct dry_breakers *breakers, const struct history *history, size_t n)
{
    for (size_t back = 0; back < n; back++) {
        int32_t token = history_at(history, back);
        size_t longest = SIZE_MAX; /* tail that is there */
        for (size_t i = find(breakers, token); i < breakers->count && breakers->items[i].head == token; i++) {
            const struct dry_breaker *breaker = &breakers->items[i];
            if (breaker->n_tail > back || !follows(breakers, breaker, history, back)) continue;
            if (longest == SIZE_MAX || breaker->n_tail > longest) longest = breaker->n_tail;
        }
        if (longest != SIZE_MAX) return back - longest;
    }
    return n;
}

int dry_breakers_has(const struct dry_breakers *breakers, int32_t token)
{
    for (size_t i = find(breakers, token); i < breakers->count && breakers->items[i].head == token; i++)
        if (breakers->items[i].n_tail == 0) return 1;
    return 0;
}
