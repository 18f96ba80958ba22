/* slow-texts.c: see slow-texts.h. */
#include "slow-texts.h"

#include <stdint.h>
#include <string.h>

#include "gguf-writer.h"

/* What is repeated; \n and so on are shown as they stand here. */
static const struct {
    const char *name, *unit;
} repeated[] = {
    {"a", "a"},
    {"A", "A"},
    {"space", " "},
    {"newline", "\n"},
    {"CR LF", "\r\n"},
    {"tab", "\t"},
    {"0", "0"},
    {"1234567890", "1234567890"},
    {"'", "'"},
    {"!", "!"},
    {"=", "="},
    {"#", "#"},
    {"_", "_"},
    {"/", "/"},
    {"\\", "\\"},
    {".", "."},
    {"ab", "ab"},
    {"aB", "aB"},
    {"ba, then c", "bac"},
    {"a and space", "a "},
    {"space and newline", " \n"},
    {"newline and a", "\na"},
    {"two spaces and a", "  a"},
    {"a and !", "a!"},
    {"a and 1", "a1"},
    {"'s", "'s"},
    {"'S", "'S"},
    {"a's", "a's"},
    {"space and '", " '"},
    {"space and !", " !"},
    {"space and U+00A0", " \xC2\xA0"},
    {"U+3000", "\xE3\x80\x80"},
    {"U+00A0", "\xC2\xA0"},
    {"U+0085", "\xC2\x85"},
    {"U+2581", "\xE2\x96\x81"},
    {"e with acutes", "e\xCC\x81\xCC\x81\xCC\x81"},
    {"acute", "\xCC\x81"},
    {"Latin-1 letter", "\xC3\xA9"},
    {"long s and '", "'\xC5\xBF"},
    {"CJK", "\xE4\xB8\xAD"},
    {"CJK mixed", "\xE4\xB8\xAD\xE6\x96\x87\xE5\xAD\x97\xE7\x9A\x84"},
    {"Hiragana", "\xE3\x81\x82"},
    {"Hangul", "\xED\x95\x9C"},
    {"Hangul parts", "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB"},
    {"Thai", "\xE0\xB8\x81\xE0\xB8\xB1"},
    {"Arabic", "\xD8\xA7\xD9\x84"},
    {"Arabic digits", "\xD9\xA1"},
    {"fullwidth", "\xEF\xBC\xA1"},
    {"ellipsis", "\xE2\x80\xA6"},
    {"ligature", "\xEF\xAC\x83"},
    {"U+FDFA", "\xEF\xB7\xBA"},
    {"emoji", "\xF0\x9F\x98\x80"},
    {"emoji, joined", "\xF0\x9F\x91\xA9\xE2\x80\x8D"},
    {"zero width", "\xE2\x80\x8B"},
    {"control", "\x01"},
    {"0xFF", "\xFF"},
    {"0x80", "\x80"},
    {"0xE2", "\xE2"},
    {"0xE2 0x96", "\xE2\x96"},
    {"0xF0 0x9F", "\xF0\x9F\x98"},
    {"surrogates", "\xED\xA0\x80"},
    {"<|", "<|"},
    {"<", "<"},
    {"[", "["},
    {"<|im_", "<|im_"},
    {"<0x0", "<0x0"},
    {"<sentinel:1", "<sentinel:1"},
    {"IMGIMGABCD", "IMGIMGABCD"},
    {"the", "the"},
    {"antidisestablishment", "antidisestablishment"},
    {"https://", "https://"},
    {"><", "><"},
    {"1.", "1."},
    {"1 ", "1 "},
    {"-1e", "-1e"},
    {" a bc def", " a bc def"},
};
#define N_REPEATED (sizeof repeated / sizeof *repeated)

static void repeat(const char *unit, size_t length, char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) text[i] = unit[i % length];
}

/* Evenly drawn from `letters`. */
static void draw(const char *letters, size_t n, char *text, size_t size)
{
    uint64_t seed = 1;
    for (size_t i = 0; i < size; i++) text[i] = letters[random_next(&seed) % n];
}

static void draw_bytes(char *text, size_t size)
{
    uint64_t seed = 2;
    for (size_t i = 0; i < size; i++) text[i] = (char)random_next(&seed);
}

static void draw_characters(uint32_t first, uint32_t count, char *text, size_t size)
{
    uint64_t seed = 3;
    memset(text, ' ', size);
    for (size_t i = 0; i + 3 <= size; i += 3) {
        uint32_t c = first + (uint32_t)(random_next(&seed) % count);
        text[i] = (char)(0xE0 | c >> 12);
        text[i + 1] = (char)(0x80 | (c >> 6 & 0x3F));
        text[i + 2] = (char)(0x80 | (c & 0x3F));
    }
}

/* All words of `n` letters, each once, one overlapping the next (a de Bruijn sequence, by Duval's generation
 * of Lyndon words), again and again. */
static void de_bruijn(size_t n, size_t n_letters, char *text, size_t size)
{
    unsigned char word[64] = {0};
    size_t length = 1, at = 0;
    while (at < size) {
        if (n % length == 0)
            for (size_t i = 0; i < length && at < size; i++) text[at++] = (char)('a' + word[i]);
        for (size_t i = length; i < n; i++) word[i] = word[i - length];
        for (length = n; length > 0 && word[length - 1] == n_letters - 1;) length--;
        if (length)
            word[length - 1]++;
        else
            length = 1, word[0] = 0;
    }
}

enum selection { ANY, LONG, SPECIAL };

/* Pieces of the vocabulary one after the other, the last `cut` bytes of each left away. */
static void join_pieces(const struct engine_tokenizer_api *api, const struct engine_tokenizer *tokenizer,
                        enum selection selection, size_t cut, char *text, size_t size)
{
    struct engine_tokenizer_info info = {.struct_size = sizeof info};
    api->info(tokenizer, &info);
    uint64_t seed = 4;
    size_t at = 0;
    const uint32_t special = ENGINE_TOKEN_CONTROL | ENGINE_TOKEN_USER_DEFINED;
    for (size_t tries = 0; at < size && tries < 4 * size; tries++) {
        int32_t id = (int32_t)(random_next(&seed) % info.n_tokens);
        struct engine_string piece;
        if (api->piece(tokenizer, id, &piece)) continue;
        if (selection == LONG && piece.length < 8) continue;
        if (selection == SPECIAL && !(api->attributes(tokenizer, id) & special)) continue;
        for (size_t i = 0; i + cut < piece.length && at < size; i++) text[at++] = piece.data[i];
    }
    while (at < size) text[at++] = 'a';
}

/* The longest piece but its last byte, again and again: each match fails as late as can be. */
static void repeat_longest(const struct engine_tokenizer_api *api, const struct engine_tokenizer *tokenizer,
                           bool special, char *text, size_t size)
{
    struct engine_tokenizer_info info = {.struct_size = sizeof info};
    struct engine_string longest = {"ab", 2};
    api->info(tokenizer, &info);
    for (int32_t id = 0; id < (int32_t)info.n_tokens; id++) {
        struct engine_string piece;
        const uint32_t attributes = api->attributes(tokenizer, id);
        bool is_special = attributes & (ENGINE_TOKEN_CONTROL | ENGINE_TOKEN_USER_DEFINED);
        if (is_special == special && !api->piece(tokenizer, id, &piece) && piece.length > longest.length)
            longest = piece;
    }
    repeat(longest.data, longest.length - 1, text, size);
}

const char *slow_text(const struct engine_tokenizer_api *api, const struct engine_tokenizer *tokenizer,
                      size_t index, char *text, size_t size)
{
    if (index < N_REPEATED) {
        repeat(repeated[index].unit, strlen(repeated[index].unit), text, size);
        return repeated[index].name;
    }
    switch (index - N_REPEATED) {
    case 0: return draw("ab", 2, text, size), "a or b";
    case 1: return draw("abcdefghijklmnopqrstuvwxyz", 26, text, size), "small letters";
    case 2: return draw("etaoinshrdlu", 12, text, size), "frequent letters";
    case 3: return draw("aAbB1 .", 7, text, size), "letters, digits, marks";
    case 4: return draw(" \n\t\r", 4, text, size), "white space";
    case 5: return draw("0123456789", 10, text, size), "digits";
    case 6: return draw("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", 32, text, size), "marks";
    case 7: return draw_bytes(text, size), "bytes";
    case 8: return draw_characters(0x4E00, 0x51A5, text, size), "ideographs";
    case 9: return draw_characters(0xAC00, 0x2BA4, text, size), "Hangul syllables";
    case 10: return draw_characters(0x1E00, 0x100, text, size), "accented letters";
    case 11: return draw_characters(0x1AB0, 0x10, text, size), "marks that combine";
    case 12: return de_bruijn(18, 2, text, size), "de Bruijn of a, b";
    case 13: return de_bruijn(4, 26, text, size), "de Bruijn of a to z";
    case 14: return join_pieces(api, tokenizer, ANY, 0, text, size), "tokens";
    case 15: return join_pieces(api, tokenizer, ANY, 1, text, size), "tokens, cut short";
    case 16: return join_pieces(api, tokenizer, LONG, 0, text, size), "long tokens";
    case 17: return join_pieces(api, tokenizer, LONG, 1, text, size), "long tokens, cut short";
    case 18: return join_pieces(api, tokenizer, SPECIAL, 0, text, size), "special tokens";
    case 19: return join_pieces(api, tokenizer, SPECIAL, 1, text, size), "special tokens, cut short";
    case 20: return repeat_longest(api, tokenizer, false, text, size), "longest token, cut short";
    case 21: return repeat_longest(api, tokenizer, true, text, size), "longest special, cut short";
    case 22: /* a run that only its end decides */
        memset(text, ' ', size);
        return text[size - 1] = 'a', "spaces and a";
    case 23: memset(text, 'a', size); return text[size - 1] = '\'', "letters and '";
    default: return NULL;
    }
}
