/* json-memory.c: see json-memory.h. A reader sets memory aside beforehand, enough for Jansson's longest string, which is the
 * only thing whose failure it overlooks. The first allocation that fails gets that instead, so nothing is lost, and the text
 * ends there. */
#include "serve/json-memory.h"

#include <stdint.h>
#include <stdlib.h>

#include "common/json-read.h"

struct reader {
    const char *text;
    size_t length, at;
    void *reserve; /* [reserve_size] bytes; NULL: they are in use */
    size_t reserve_size;
    bool failed;
};

static _Thread_local struct reader *current;

/* How often memory has run out outside of readers. */
static _Atomic uint64_t n_lost;

uint64_t json_memory_lost(void)
{
    return n_lost;
}

void json_memory_lose(void)
{
    n_lost++;
}

/* What libengine reads has no reader here. Where a string of it finds no room for a byte, its buffer asks for the same size
 * again with each byte that follows, and then for the string's own memory: all of these fail, so that Jansson gives the
 * string up. */
static _Thread_local size_t refused; /* the size that failed; 0: none */

static bool is_refused(size_t size)
{
    if (refused == 0) return false;
    if (size != refused) refused = 0;
    return true;
}

static void *allocate_unread(size_t size)
{
    void *memory = is_refused(size) ? NULL : malloc(size);
    if (memory) return memory;
    n_lost++;
    /* Buffers double from 16 bytes on. */
    if (size > 16 && (size & (size - 1)) == 0) refused = size;
    return NULL;
}

static void *allocate(size_t size)
{
    if (!current) return allocate_unread(size);
    void *memory = current->failed ? NULL : malloc(size);
    if (memory) return memory;
    current->failed = true;
    if (size > current->reserve_size) return NULL;
    memory = current->reserve;
    current->reserve = NULL;
    return memory;
}

static void release(void *memory)
{
    refused = 0;
    free(memory);
}

void json_memory_begin(void)
{
    json_set_alloc_funcs(allocate, release);
}

/* Gives Jansson one byte, so that it has read no further when memory runs out. */
static size_t next_byte(void *buffer, size_t size, void *user)
{
    struct reader *reader = user;
    if (size == 0 || reader->failed || reader->at == reader->length) return 0;
    *(char *)buffer = reader->text[reader->at++];
    return 1;
}

static json_t *load(const char *text, size_t length, size_t flags, json_error_t *error)
{
    struct reader reader = {.text = text, .length = length, .reserve_size = 2 * length + 64};
    if (length > SIZE_MAX / 4) return NULL;
    reader.reserve = malloc(reader.reserve_size);
    reader.failed = !reader.reserve;
    current = &reader;
    json_t *json = json_load_callback(next_byte, &reader, flags, error);
    current = NULL;
    if (reader.failed) {
        json_decref(json);
        json = NULL;
        json_read_no_memory(error);
    }
    free(reader.reserve);
    return json;
}

json_t *json_memory_read(const char *text, size_t length, size_t flags, json_error_t *error, bool *no_memory)
{
    json_t *json = json_read_by(load, text, length, flags, error);
    *no_memory = !json && json_error_code(error) == json_error_out_of_memory;
    return json;
}
