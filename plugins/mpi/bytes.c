/* bytes.c: see bytes.h. */
#include "bytes.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/assert.h"

void bytes_free(struct bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct bytes){0};
}

void *bytes_grow(struct bytes *bytes, size_t size)
{
    if (bytes->failed) return NULL;
    const size_t more = size ? size : 1; /* a place even for nothing */
    if (more > SIZE_MAX - bytes->size || !ARRAY_RESERVE(bytes->data, bytes->capacity, bytes->size + more)) {
        bytes->failed = true;
        return NULL;
    }
    bytes->size += size;
    ENGINE_ASSERT(bytes->size <= bytes->capacity);
    return bytes->data + bytes->size - size;
}

void bytes_add(struct bytes *bytes, const void *data, size_t size)
{
    void *place = bytes_grow(bytes, size);
    if (place && size > 0) memcpy(place, data, size);
}

void bytes_add_u32(struct bytes *bytes, uint32_t value)
{
    bytes_add(bytes, &value, sizeof value);
}

void bytes_add_u64(struct bytes *bytes, uint64_t value)
{
    bytes_add(bytes, &value, sizeof value);
}

void bytes_add_text(struct bytes *bytes, const char *text)
{
    size_t length = strlen(text);
    bytes_add_u64(bytes, length);
    bytes_add(bytes, text, length);
}

size_t bytes_reserve_u64(struct bytes *bytes)
{
    size_t place = bytes->size;
    bytes_add_u64(bytes, 0);
    return place;
}

void bytes_set_length(struct bytes *bytes, size_t place)
{
    if (bytes->failed) return;
    uint64_t length = bytes->size - place - sizeof length;
    ENGINE_ASSERT(place + sizeof length <= bytes->size);
    memcpy(bytes->data + place, &length, sizeof length);
}

const uint8_t *read_bytes(struct reader *reader, uint64_t size)
{
    if (reader->failed || size > reader->left) {
        reader->failed = true;
        return NULL;
    }
    const uint8_t *bytes = reader->at;
    reader->at += size;
    reader->left -= (size_t)size;
    return bytes;
}

uint32_t read_u32(struct reader *reader)
{
    uint32_t value = 0;
    const uint8_t *bytes = read_bytes(reader, sizeof value);
    if (bytes) memcpy(&value, bytes, sizeof value);
    return value;
}

uint64_t read_u64(struct reader *reader)
{
    uint64_t value = 0;
    const uint8_t *bytes = read_bytes(reader, sizeof value);
    if (bytes) memcpy(&value, bytes, sizeof value);
    return value;
}

void read_text(struct reader *reader, char *text, size_t capacity)
{
    uint64_t length = read_u64(reader);
    const uint8_t *bytes = length < capacity ? read_bytes(reader, length) : NULL;
    text[0] = '\0';
    if (!bytes || memchr(bytes, 0, (size_t)length)) {
        reader->failed = true;
        return;
    }
    memcpy(text, bytes, (size_t)length);
    text[length] = '\0';
}

struct reader read_part(struct reader *reader, uint64_t size)
{
    const uint8_t *bytes = read_bytes(reader, size);
    return (struct reader){.at = bytes, .left = bytes ? (size_t)size : 0, .failed = !bytes};
}
