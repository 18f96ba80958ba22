/* grammar-walk.c: see grammar-walk.h. The vocabulary has all bytes, and tokens of several. */
#include "grammar-walk.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define N_WORDS  24
#define N_TOKENS (256 + N_WORDS)
#define STEPS    60

static void must(bool good)
{
    if (!good) abort();
}

static struct grammar_vocab *vocabulary(void)
{
    static struct grammar_vocab *vocab;
    static const char *const words[N_WORDS] = {
        "</s>", "<x>", "ab", "abc",  "\":",  "\",", "{\"", "\"}", "\xc3\xa9", "\xe2\x82", "\x82\xac", "  ",
        "\n ",  "00",  "12", "true", "null", "[]",  "\\u", "a\"", ", ",       "}}",       "-1",       ".5"};
    static char bytes[256];
    struct engine_string texts[N_TOKENS];
    uint8_t kinds[N_TOKENS] = {[256] = GRAMMAR_TOKEN_END, [257] = GRAMMAR_TOKEN_MARK};
    if (vocab) return vocab;
    for (size_t i = 0; i < N_TOKENS; i++) {
        if (i < 256) bytes[i] = (char)i;
        texts[i] = i < 256 ? (struct engine_string){&bytes[i], 1}
                           : (struct engine_string){words[i - 256], strlen(words[i - 256])};
    }
    must(grammar_vocab_create(texts, kinds, N_TOKENS, &vocab) == ENGINE_OK);
    return vocab;
}

/* The allowed token that comes `number` places after the first. */
static uint32_t choose(const uint64_t *mask, uint32_t number)
{
    uint32_t n_allowed = 0;
    for (uint32_t token = 0; token < N_TOKENS; token++)
        n_allowed += (uint32_t)(mask[token / 64] >> (token % 64) & 1);
    if (n_allowed == 0) return N_TOKENS;
    number %= n_allowed;
    for (uint32_t token = 0;; token++)
        if (mask[token / 64] >> (token % 64) & 1 && number-- == 0) return token;
}

/* Follows the grammar; false: it has become too ambiguous. */
static bool follow(struct grammar_match *match, const uint8_t *data, size_t size, char *text, size_t *length)
{
    uint64_t mask[N_TOKENS / 64 + 1] = {0};
    uint32_t seed = 1;
    for (size_t i = 0; i < size; i++) seed = seed * 31 + data[i];
    for (int step = 0; step < STEPS && !grammar_match_final(match); step++) {
        if (grammar_match_mask(match, mask) != ENGINE_OK) return false;
        seed = seed * 1664525u + 1013904223u;
        uint32_t token = choose(mask, seed >> 8), other = (seed >> 4) % N_TOKENS;
        if (!(mask[other / 64] >> (other % 64) & 1)) must(grammar_match_accept(match, other) != ENGINE_OK);
        if (token == N_TOKENS || token == 256) break;
        must(grammar_match_accept(match, token) == ENGINE_OK);
        struct engine_string added = grammar_vocab_text(vocabulary(), token);
        memcpy(text + *length, added.data, added.length);
        *length += added.length;
    }
    return true;
}

int grammar_walk(enum grammar_syntax syntax, const uint8_t *data, size_t size)
{
    struct grammar *grammar;
    struct grammar_match *match;
    char text[STEPS * 8];
    size_t length = 0;
    if (grammar_create(vocabulary(), syntax, (const char *)data, size, &grammar) != ENGINE_OK) {
        must(*error_message() && !strchr(error_message(), '\n'));
        return 0;
    }
    if (grammar_match_create(grammar, size % 2, &match) == ENGINE_OK) {
        bool followed = follow(match, data, size, text, &length);
        if (followed && syntax == GRAMMAR_SCHEMA && grammar_match_complete(match)) {
            json_t *json = json_loadb(text, length, JSON_DECODE_ANY, NULL);
            must(json);
            json_decref(json);
        }
        grammar_match_destroy(match);
    }
    grammar_destroy(grammar);
    return 0;
}
