/* model-recipe.c: see model-recipe.h. */
#include "model-recipe.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "gguf-writer.h"
#include "model/metadata.h"
#include "model/types.h"

#define MAX_WORDS      32
#define MAX_LINE       512
#define MAX_DATA       ((uint64_t)1 << 20) /* of a tensor */
#define MAX_DATA_ALL   ((uint64_t)8 << 20)
#define N_LAYERS       2
#define TENSOR_WORD_NE 3 /* "tensor NAME TYPE" stand before it */

struct state {
    struct gguf_writer *writer;
    const char *family;
    uint64_t random, data_left;
};

struct words {
    char text[MAX_LINE];
    char *list[MAX_WORDS];
    size_t count;
};

/* Cuts a line into words; what is too long is left out. */
static void split(const char *line, size_t length, struct words *words)
{
    words->count = 0;
    if (length >= MAX_LINE) length = MAX_LINE - 1;
    memcpy(words->text, line, length);
    words->text[length] = 0;
    char *rest = words->text, *word;
    while (words->count < MAX_WORDS && (word = strtok_r(rest, " \t\r", &rest)))
        words->list[words->count++] = word;
}

/* ---- Keys ---- */

/* The value of a word as `type` has it, and its size; 0 for a string. */
static size_t encode_number(uint32_t type, const char *word, uint8_t bytes[8])
{
    size_t size = metadata_element_size(type);
    double number = strtod(word, NULL);
    float single = (float)number;
    uint64_t integer = *word == '-' ? (uint64_t)strtoll(word, NULL, 0) : strtoull(word, NULL, 0);
    const void *from = type == METADATA_F32   ? (const void *)&single
                       : type == METADATA_F64 ? (const void *)&number
                                              : (const void *)&integer;
    memcpy(bytes, from, size);
    return size;
}

static bool find_type(const char *name, uint32_t *type, bool *is_array)
{
    static const struct {
        const char *name;
        uint32_t type;
    } types[] = {{"u8", METADATA_U8},   {"i8", METADATA_I8},      {"u16", METADATA_U16},
                 {"i16", METADATA_I16}, {"u32", METADATA_U32},    {"i32", METADATA_I32},
                 {"u64", METADATA_U64}, {"i64", METADATA_I64},    {"f32", METADATA_F32},
                 {"f64", METADATA_F64}, {"str", METADATA_STRING}, {"bool", METADATA_BOOL}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        size_t length = strlen(types[i].name);
        if (strncmp(name, types[i].name, length) != 0) continue;
        *type = types[i].type;
        *is_array = strcmp(name + length, "[]") == 0;
        if (*is_array || !name[length]) return true;
    }
    return false;
}

static void add_array(struct state *state, const char *key, uint32_t type, char *const *values, size_t count)
{
    uint8_t bytes[12 + 8 * MAX_WORDS] = {0};
    uint64_t length = count;
    if (type == METADATA_STRING) {
        gguf_add_strings(state->writer, key, (const char *const *)values, count);
        return;
    }
    memcpy(bytes, &type, 4);
    memcpy(bytes + 4, &length, 8);
    size_t at = 12;
    for (size_t i = 0; i < count; i++) at += encode_number(type, values[i], bytes + at);
    gguf_add_raw(state->writer, key, METADATA_ARRAY, bytes, at);
}

static void add_key(struct state *state, const struct words *words)
{
    char key[MAX_LINE];
    uint32_t type;
    bool is_array, whole;
    uint8_t bytes[8];
    const char *name = words->list[1], *value = words->count > 3 ? words->list[3] : "";
    if (words->count < 3 || !find_type(words->list[2], &type, &is_array)) return;
    whole = strncmp(name, "general.", 8) == 0 || strncmp(name, "tokenizer.", 10) == 0;
    snprintf(key, sizeof key, "%s%s%s", whole ? "" : state->family, whole ? "" : ".", name);
    if (is_array)
        add_array(state, key, type, words->list + 3, words->count - 3);
    else if (type == METADATA_STRING)
        gguf_add_string(state->writer, key, value);
    else
        gguf_add_raw(state->writer, key, type, bytes, encode_number(type, value, bytes));
}

/* ---- Tensors ---- */

static bool is_float(uint32_t type)
{
    return type == ENGINE_TYPE_F32 || type == ENGINE_TYPE_F16 || type == ENGINE_TYPE_BF16;
}

/* `size` bytes of `type`. Products with random weights of these sizes keep activations near 1. */
static void fill(struct state *state, uint32_t type, uint64_t k, const char *value, uint8_t *data,
                 uint64_t size)
{
    float limit = k > 1 ? 2 / (float)k : 1;
    uint64_t step = is_float(type) ? type_info(type)->block_size : 1;
    for (uint64_t at = 0; at + step <= size; at += step) {
        float number = value ? strtof(value, NULL) : random_float(&state->random, 4 * limit) + limit;
        if (is_float(type))
            encode_row(type, &number, 1, data + at);
        else
            data[at] = (uint8_t)random_next(&state->random);
    }
}

static void add_one_tensor(struct state *state, const char *name, uint32_t type, uint32_t n_dims,
                           const uint64_t *ne, const char *value)
{
    uint64_t size = 0;
    bool fits = n_dims > 0 && type_row_size(type, ne[0], &size);
    for (uint32_t d = 1; d < n_dims && fits; d++) fits = !checked_mul(size, ne[d], &size) && size <= MAX_DATA;
    if (!fits || size > MAX_DATA || size > state->data_left) {
        gguf_add_tensor_at(state->writer, name, type, n_dims, ne, 0);
        return;
    }
    uint8_t *data = malloc(size + 1);
    if (!data) abort();
    fill(state, type, ne[0], value, data, size);
    gguf_add_tensor(state->writer, name, type, n_dims, ne, data, size);
    state->data_left -= size;
    free(data);
}

static void add_tensor(struct state *state, const struct words *words)
{
    char name[MAX_LINE + 16];
    uint64_t ne[4] = {1, 1, 1, 1};
    uint32_t n_dims = 0, type;
    size_t at = TENSOR_WORD_NE;
    if (words->count <= TENSOR_WORD_NE) return;
    if (!type_by_name(words->list[2], &type)) type = (uint32_t)strtoul(words->list[2], NULL, 0);
    for (; at < words->count && *words->list[at] != '=' && n_dims < 4; at++)
        ne[n_dims++] = strtoull(words->list[at], NULL, 0);
    const char *value = at + 1 < words->count && *words->list[at] == '=' ? words->list[at + 1] : NULL;
    const char *star = strstr(words->list[1], "blk.*."); /* of all layers, perhaps of a part of the model */
    for (unsigned layer = 0; layer < (star ? N_LAYERS : 1); layer++) {
        snprintf(name, sizeof name, "%s", words->list[1]);
        if (star)
            snprintf(name, sizeof name, "%.*sblk.%u.%s", (int)(star - words->list[1]), words->list[1], layer,
                     star + 6);
        add_one_tensor(state, name, type, n_dims, ne, value);
    }
}

/* ---- All of it ---- */

uint8_t *model_recipe_gguf(const char *text, size_t length, size_t *size)
{
    struct state state = {.writer = gguf_create(3), .family = "", .random = 1, .data_left = MAX_DATA_ALL};
    struct words words;
    char family[MAX_LINE];
    for (size_t at = 0; at < length;) {
        const char *end = memchr(text + at, '\n', length - at);
        size_t n = end ? (size_t)(end - (text + at)) : length - at;
        split(text + at, n, &words);
        at += n + 1;
        if (words.count < 2) continue;
        if (strcmp(words.list[0], "family") == 0 && !*state.family) {
            snprintf(family, sizeof family, "%s", words.list[1]);
            state.family = family;
            gguf_add_string(state.writer, "general.architecture", family);
        }
        if (strcmp(words.list[0], "key") == 0) add_key(&state, &words);
        if (strcmp(words.list[0], "tensor") == 0) add_tensor(&state, &words);
    }
    uint8_t *bytes = gguf_bytes(state.writer, size);
    gguf_destroy(state.writer);
    return bytes;
}
