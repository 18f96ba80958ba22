/* damage.c: see damage.h. */
#include "damage.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf-writer.h"
#include "model/metadata.h"

#define LLAMA2C_HEAD 256
#define PAGE         4096

/* ---- Sound files and their fields ---- */

static struct base *create(const char *name, uint8_t *bytes, size_t size)
{
    struct base *base = calloc(1, sizeof *base);
    if (!base || !bytes) abort();
    *base = (struct base){.name = name, .bytes = bytes, .size = size};
    return base;
}

void base_destroy(struct base *base)
{
    free(base->fields);
    free(base->bytes);
    free(base);
}

static uint64_t number_at(const struct base *base, size_t offset, size_t width)
{
    uint64_t value = 0;
    memcpy(&value, base->bytes + offset, width);
    return value;
}

/* Notes a field, moves past it and returns its value. The file is sound, so nothing is checked. */
static uint64_t add_field(struct base *base, size_t *at, size_t width)
{
    base->fields = reallocarray(base->fields, base->n_fields + 1, sizeof *base->fields);
    if (!base->fields) abort();
    base->fields[base->n_fields++] = (struct field){.offset = *at, .width = width};
    *at += width;
    return number_at(base, *at - width, width);
}

static void skip_string(struct base *base, size_t *at)
{
    *at += add_field(base, at, 8);
}

/* Strings beyond the first few of an array have no fields of their own: they are all alike. */
static void skip_values(struct base *base, size_t *at, uint32_t type, uint64_t count)
{
    if (type != METADATA_STRING) {
        *at += metadata_element_size(type) * count;
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        if (i < 3)
            skip_string(base, at);
        else
            *at += 8 + number_at(base, *at, 8);
    }
}

struct base *base_gguf(const char *name, uint8_t *bytes, size_t size)
{
    struct base *base = create(name, bytes, size);
    size_t at = 4;
    add_field(base, &at, 4); /* version */
    uint64_t n_tensors = add_field(base, &at, 8), n_entries = add_field(base, &at, 8);
    for (uint64_t i = 0; i < n_entries; i++) {
        skip_string(base, &at);
        uint32_t type = (uint32_t)add_field(base, &at, 4);
        uint64_t count = 1;
        if (type == METADATA_ARRAY) {
            type = (uint32_t)add_field(base, &at, 4);
            count = add_field(base, &at, 8);
        } else if (type != METADATA_STRING && metadata_element_size(type) >= 4) {
            size_t value = at;
            add_field(base, &value, metadata_element_size(type));
            base->fields[base->n_fields - 1].is_value = true;
        }
        skip_values(base, &at, type, count);
    }
    for (uint64_t i = 0; i < n_tensors; i++) {
        skip_string(base, &at);
        uint64_t n_dims = add_field(base, &at, 4);
        for (uint64_t d = 0; d < n_dims; d++) add_field(base, &at, 8);
        add_field(base, &at, 4); /* type */
        add_field(base, &at, 8); /* offset */
    }
    base->head = at;
    return base;
}

struct base *base_llama2c(const char *name, uint8_t *bytes, size_t size)
{
    struct base *base = create(name, bytes, size);
    size_t at = 0;
    while (at < 36) add_field(base, &at, 4); /* magic and version from 1 on, the seven numbers */
    at = 37;
    add_field(base, &at, 4); /* version 2: the group length */
    base->head = LLAMA2C_HEAD;
    return base;
}

struct base *base_tokenizer(const char *name, uint8_t *bytes, size_t size)
{
    struct base *base = create(name, bytes, size);
    size_t at = 0;
    add_field(base, &at, 4); /* longest token */
    while (at < size) {
        add_field(base, &at, 4); /* score */
        at += add_field(base, &at, 4);
    }
    base->head = size;
    return base;
}

/* ---- Damage ---- */

static size_t below(uint64_t *state, size_t limit)
{
    return limit ? (size_t)(random_next(state) % limit) : 0;
}

/* A place in the head, or, now and then, anywhere. */
static size_t place(const struct base *base, uint64_t *state, size_t size)
{
    size_t limit = below(state, 8) && base->head < size ? base->head : size;
    return below(state, limit);
}

static uint64_t extreme(const struct base *base, const struct field *field, uint64_t *state)
{
    const uint64_t values[] = {0,
                               1,
                               2,
                               3,
                               INT32_MAX,
                               (uint64_t)INT32_MAX + 1,
                               UINT32_MAX,
                               (uint64_t)UINT32_MAX + 1,
                               INT64_MAX,
                               (uint64_t)INT64_MAX + 1,
                               UINT64_MAX,
                               UINT64_MAX - below(state, 64),
                               UINT64_MAX / 2 - 31,
                               UINT64_MAX / 4 + 1, /* times 4 it's 0 again */
                               UINT64_MAX / 8 + 2,
                               base->size,
                               base->size + 1,
                               0x7fc00000, /* float32 NaN, infinity */
                               0xff800000};
    uint64_t present = number_at(base, field->offset, field->width);
    switch (below(state, 4)) {
    case 0: return present + 1;
    case 1: return present - 1;
    case 2: return below(state, 2) ? present * 2 : present ^ (uint64_t)1 << below(state, field->width * 8);
    default: return values[below(state, sizeof values / sizeof values[0])];
    }
}

/* Any field, but every other time rather one with a value: the others are many more. */
static const struct field *choose_field(const struct base *base, uint64_t *state)
{
    const struct field *field = &base->fields[below(state, base->n_fields)];
    bool prefer_value = below(state, 2);
    for (size_t tries = 0; prefer_value && !field->is_value && tries < 200; tries++)
        field = &base->fields[below(state, base->n_fields)];
    return field;
}

static void set_fields(struct damaged *copy, const struct base *base, uint64_t *state)
{
    size_t times = 1 + below(state, 3);
    size_t used = (size_t)snprintf(copy->what, sizeof copy->what, "set");
    for (size_t i = 0; i < times; i++) {
        const struct field *field = choose_field(base, state);
        uint64_t value = extreme(base, field, state);
        if (field->offset + field->width > copy->size) continue;
        memcpy(copy->bytes + field->offset, &value, field->width);
        if (used < sizeof copy->what)
            used += (size_t)snprintf(copy->what + used, sizeof copy->what - used, " %zu:=%" PRIx64,
                                     field->offset, value);
    }
}

static void flip_bytes(struct damaged *copy, const struct base *base, uint64_t *state)
{
    size_t times = 1 + below(state, 8);
    for (size_t i = 0; i < times && copy->size; i++)
        copy->bytes[place(base, state, copy->size)] ^= (uint8_t)(1 + below(state, 255));
    snprintf(copy->what, sizeof copy->what, "flipped %zu bytes", times);
}

/* A file that ends with a page is what shows if a reader goes on: elsewhere it finds zeros behind the end. */
static void cut(struct damaged *copy, const struct base *base, uint64_t *state)
{
    copy->size = below(state, 2) ? place(base, state, copy->size) : below(state, copy->size);
    if (below(state, 3) == 0 && copy->size > PAGE) copy->size -= copy->size % PAGE;
    snprintf(copy->what, sizeof copy->what, "cut to %zu bytes", copy->size);
}

/* Takes some bytes out, so that all behind them moves. */
static void remove_bytes(struct damaged *copy, const struct base *base, uint64_t *state)
{
    size_t at = place(base, state, copy->size), count = 1 + below(state, 16);
    if (count > copy->size - at) count = copy->size - at;
    memmove(copy->bytes + at, copy->bytes + at + count, copy->size - at - count);
    copy->size -= count;
    snprintf(copy->what, sizeof copy->what, "removed %zu bytes at %zu", count, at);
}

/* Copies some bytes over others, or, by way of variety, random ones. */
static void overwrite(struct damaged *copy, const struct base *base, uint64_t *state)
{
    size_t from = place(base, state, copy->size), to = place(base, state, copy->size),
           count = 1 + below(state, 64);
    if (count > copy->size - from) count = copy->size - from;
    if (count > copy->size - to) count = copy->size - to;
    bool random = below(state, 2);
    memmove(copy->bytes + to, copy->bytes + from, count);
    for (size_t i = 0; i < count && random; i++) copy->bytes[to + i] = (uint8_t)random_next(state);
    snprintf(copy->what, sizeof copy->what, "overwrote %zu bytes at %zu", count, to);
}

struct damaged make_damaged(const struct base *base, uint64_t *state)
{
    static void (*const kinds[])(struct damaged *, const struct base *, uint64_t *) = {
        set_fields, set_fields, set_fields, flip_bytes, flip_bytes, cut, remove_bytes, overwrite,
    };
    struct damaged copy = {.bytes = malloc(base->size), .size = base->size};
    if (!copy.bytes) abort();
    memcpy(copy.bytes, base->bytes, base->size);
    kinds[below(state, sizeof kinds / sizeof kinds[0])](&copy, base, state);
    return copy;
}
