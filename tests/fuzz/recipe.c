/* recipe.c: see recipe.h. */
#include "recipe.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTE_NAME_SIZE 6 /* "<0x00>" */

static void *zeroed(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory) abort();
    return memory;
}

/* ---- Reading ---- */

/* What is left of a line. */
struct line {
    const char *at, *end;
};

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The rest of the line, its escapes replaced; the bytes are written to *out, which moves on. */
static struct engine_string rest(struct line *line, char **out)
{
    char *to = *out;
    for (const char *at = line->at; at < line->end; at++) {
        char c = *at;
        int high = line->end - at >= 4 ? hex_digit(at[2]) : -1, low = high < 0 ? -1 : hex_digit(at[3]);
        if (c == '\\' && line->end - at >= 2) {
            if (at[1] == 'n' || at[1] == '\\') {
                c = at[1] == 'n' ? '\n' : '\\';
                at++;
            } else if (at[1] == 'x' && low >= 0) {
                c = (char)(high << 4 | low);
                at += 3;
            }
        }
        *to++ = c;
    }
    struct engine_string text = {*out, (size_t)(to - *out)};
    *out = to;
    return text;
}

/* The next word of the line, without escapes; `size` bytes at most, with the NUL. */
static void word(struct line *line, char *text, size_t size)
{
    size_t length = 0;
    for (; line->at < line->end && *line->at != ' '; line->at++)
        if (length + 1 < size) text[length++] = *line->at;
    text[length] = 0;
    if (line->at < line->end) line->at++;
}

static void add_token(struct recipe *recipe, struct engine_string text, int64_t type, float score)
{
    recipe->tokens[recipe->n_tokens] = text;
    recipe->scores[recipe->n_tokens] = score;
    recipe->types[recipe->n_tokens++] = type;
}

/* Bytes that are printable in Latin-1 stand for themselves, the others for U+0100 and on. */
static struct engine_string gpt2_byte(unsigned byte, unsigned *n_others, char **out)
{
    bool itself = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    unsigned character = itself ? byte : 0x100 + (*n_others)++;
    char *to = *out;
    if (character >= 0x80) *to++ = (char)(0xC0 | character >> 6);
    *to++ = (char)(character < 0x80 ? character : 0x80 | (character & 0x3F));
    struct engine_string text = {*out, (size_t)(to - *out)};
    *out = to;
    return text;
}

static void add_bytes(struct recipe *recipe, struct line *line, bool gpt2, char **out)
{
    char type[8];
    unsigned n_others = 0;
    word(line, type, sizeof type);
    for (unsigned byte = 0; byte < 256; byte++) {
        struct engine_string text = {*out, BYTE_NAME_SIZE};
        if (gpt2) {
            text = gpt2_byte(byte, &n_others, out);
        } else {
            char name[BYTE_NAME_SIZE + 1];
            snprintf(name, sizeof name, "<0x%02X>", byte);
            memcpy(*out, name, BYTE_NAME_SIZE);
            *out += BYTE_NAME_SIZE;
        }
        add_token(recipe, text, strtol(type, NULL, 10), 0);
    }
}

static void add_value(struct recipe *recipe, char kind, struct line *line, char **out)
{
    char name[48];
    word(line, name, sizeof name);
    struct recipe_value *value = &recipe->values[recipe->n_values];
    if (recipe->n_values < sizeof recipe->values / sizeof *recipe->values)
        recipe->n_values++;
    else
        value--;
    value->kind = kind;
    snprintf(value->key, sizeof value->key, "%s%s", strchr(name, '.') ? "" : "tokenizer.ggml.", name);
    value->string = rest(line, out);
    *(*out)++ = 0;
    value->number = strtoll(value->string.data, NULL, 10);
}

static void read_line(struct recipe *recipe, struct line line, char **out)
{
    char kind = *line.at, type[24], number[24];
    line.at += 2;
    switch (kind) {
    case 'p': word(&line, recipe->plugin, sizeof recipe->plugin); break;
    case 't':
        word(&line, type, sizeof type);
        word(&line, number, sizeof number);
        add_token(recipe, rest(&line, out), strtoll(type, NULL, 10), strtof(number, NULL));
        break;
    case '<':
    case '#': add_bytes(recipe, &line, kind == '#', out); break;
    case 'm': recipe->merges[recipe->n_merges++] = rest(&line, out); break;
    case 'c': recipe->charsmap = rest(&line, out); break;
    case 's':
    case 'i':
    case 'b': add_value(recipe, kind, &line, out); break;
    case 'n':
        word(&line, number, sizeof number);
        word(&line, type, sizeof type);
        recipe->n_scores = strtoll(number, NULL, 10);
        recipe->n_types = strtoll(type, NULL, 10);
        break;
    case 'x': recipe->texts[recipe->n_texts++] = rest(&line, out); break;
    default: break;
    }
}

struct recipe *recipe_read(const uint8_t *data, size_t size)
{
    size_t n_lines = 1, n_lists = 0;
    for (size_t i = 0; i < size; i++) {
        n_lines += data[i] == '\n';
        n_lists += data[i] == '<' || data[i] == '#';
    }
    struct recipe *recipe = zeroed(1, sizeof *recipe);
    size_t most = n_lines + 256 * n_lists;
    recipe->tokens = zeroed(most, sizeof *recipe->tokens);
    recipe->scores = zeroed(most, sizeof *recipe->scores);
    recipe->types = zeroed(most, sizeof *recipe->types);
    recipe->merges = zeroed(n_lines, sizeof *recipe->merges);
    recipe->texts = zeroed(n_lines, sizeof *recipe->texts);
    recipe->bytes = zeroed(size + n_lines + 256 * n_lists * BYTE_NAME_SIZE, 1);
    recipe->n_scores = recipe->n_types = INT64_MAX;
    strcpy(recipe->plugin, "spm");

    char *out = recipe->bytes;
    const char *at = (const char *)data, *end = at + size;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        struct line line = {at, newline ? newline : end};
        if (line.end - at >= 2 && at[1] == ' ') read_line(recipe, line, &out);
        at = line.end + 1;
    }
    if (recipe->n_scores == INT64_MAX) recipe->n_scores = (int64_t)recipe->n_tokens;
    if (recipe->n_types == INT64_MAX) recipe->n_types = (int64_t)recipe->n_tokens;
    return recipe;
}

void recipe_free(struct recipe *recipe)
{
    if (!recipe) return;
    free(recipe->tokens);
    free(recipe->scores);
    free(recipe->types);
    free(recipe->merges);
    free(recipe->texts);
    free(recipe->bytes);
    free(recipe);
}

void recipe_set(struct recipe *recipe, const char *key, const char *value)
{
    struct recipe_value *added = &recipe->values[recipe->n_values];
    if (recipe->n_values == sizeof recipe->values / sizeof *recipe->values) abort();
    recipe->n_values++;
    added->kind = 's';
    snprintf(added->key, sizeof added->key, "tokenizer.ggml.%s", key);
    added->string = (struct engine_string){value, strlen(value)};
}

/* ---- Getters ---- */

static const struct recipe_value *find(const struct recipe *recipe, char kind, const char *key)
{
    for (size_t i = recipe->n_values; i-- > 0;)
        if (recipe->values[i].kind == kind && strcmp(recipe->values[i].key, key) == 0)
            return &recipe->values[i];
    return NULL;
}

static int get_string(void *context, const char *key, struct engine_string *value)
{
    const struct recipe_value *found = find(context, 's', key);
    if (found) *value = found->string;
    return found ? ENGINE_OK : ENGINE_ERROR_NOT_FOUND;
}

static int get_integer(void *context, const char *key, int64_t *value)
{
    const struct recipe_value *found = find(context, 'i', key);
    if (found) *value = found->number;
    return found ? ENGINE_OK : ENGINE_ERROR_NOT_FOUND;
}

static int get_float(void *context, const char *key, double *value)
{
    const struct recipe_value *found = find(context, 'i', key);
    if (found) *value = (double)found->number;
    return found ? ENGINE_OK : ENGINE_ERROR_NOT_FOUND;
}

static int get_boolean(void *context, const char *key, int *value)
{
    const struct recipe_value *found = find(context, 'b', key);
    if (found) *value = found->number != 0;
    return found ? ENGINE_OK : ENGINE_ERROR_NOT_FOUND;
}

static int get_count(void *context, const char *key, size_t *count)
{
    const struct recipe *recipe = context;
    int64_t n = -1;
    if (strcmp(key, "tokenizer.ggml.tokens") == 0) n = (int64_t)recipe->n_tokens;
    if (strcmp(key, "tokenizer.ggml.scores") == 0) n = recipe->n_scores;
    if (strcmp(key, "tokenizer.ggml.token_type") == 0) n = recipe->n_types;
    if (strcmp(key, "tokenizer.ggml.merges") == 0 && recipe->n_merges) n = (int64_t)recipe->n_merges;
    if (n >= 0) *count = (size_t)n;
    return n >= 0 ? ENGINE_OK : ENGINE_ERROR_NOT_FOUND;
}

/* Whether `count` elements from `first` on are there. */
static int check_range(int64_t claimed, size_t there, size_t first, size_t count)
{
    if (claimed < 0) return ENGINE_ERROR_NOT_FOUND;
    return first > there || count > there - first ? ENGINE_ERROR_ARGUMENT : ENGINE_OK;
}

static int get_strings(void *context, const char *key, size_t first, size_t count,
                       struct engine_string *values)
{
    const struct recipe *recipe = context;
    bool merges = strcmp(key, "tokenizer.ggml.merges") == 0;
    if (!merges && strcmp(key, "tokenizer.ggml.tokens") != 0) return ENGINE_ERROR_NOT_FOUND;
    int status = check_range(0, merges ? recipe->n_merges : recipe->n_tokens, first, count);
    if (!status) memcpy(values, (merges ? recipe->merges : recipe->tokens) + first, count * sizeof *values);
    return status;
}

static int get_integers(void *context, const char *key, size_t first, size_t count, int64_t *values)
{
    const struct recipe *recipe = context;
    if (strcmp(key, "tokenizer.ggml.token_type") != 0) return ENGINE_ERROR_NOT_FOUND;
    int status = check_range(recipe->n_types, recipe->n_tokens, first, count);
    if (!status) memcpy(values, recipe->types + first, count * sizeof *values);
    return status;
}

static int get_floats(void *context, const char *key, size_t first, size_t count, float *values)
{
    const struct recipe *recipe = context;
    if (strcmp(key, "tokenizer.ggml.scores") != 0) return ENGINE_ERROR_NOT_FOUND;
    int status = check_range(recipe->n_scores, recipe->n_tokens, first, count);
    if (!status) memcpy(values, recipe->scores + first, count * sizeof *values);
    return status;
}

static int get_bytes(void *context, const char *key, struct engine_string *value)
{
    const struct recipe *recipe = context;
    if (strcmp(key, "tokenizer.ggml.precompiled_charsmap") != 0 || !recipe->charsmap.data)
        return ENGINE_ERROR_NOT_FOUND;
    *value = recipe->charsmap;
    return ENGINE_OK;
}

struct engine_metadata recipe_metadata(struct recipe *recipe)
{
    return (struct engine_metadata){sizeof(struct engine_metadata),
                                    recipe,
                                    get_string,
                                    get_integer,
                                    get_float,
                                    get_boolean,
                                    get_count,
                                    get_strings,
                                    get_integers,
                                    get_floats,
                                    get_bytes};
}
