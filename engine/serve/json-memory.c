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

static void *allocate(size_t size)
{
    void *memory = current && current->failed ? NULL : malloc(size);
    if (!memory && !current) n_lost++;
    if (memory || !current) return memory;
    current->failed = true;
    if (size > current->reserve_size) return NULL;
    memory = current->reserve;
    current->reserve = NULL;
    return memory;
}

void json_memory_begin(void)
{
    json_set_alloc_funcs(allocate, free);
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
