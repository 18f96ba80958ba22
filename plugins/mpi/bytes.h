/* bytes.h: what messages are made of: a buffer that grows while a message is written, and a reader that never
 * goes beyond the end of one. Numbers are little-endian, as on all machines that the engine runs on. */
#ifndef MPI_BYTES_H
#define MPI_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A message that grows. Zeroed at first; bytes_free releases it. */
struct bytes {
    uint8_t *data; /* [size] */
    size_t size, capacity;
    bool failed; /* there was no memory: what was added since is missing */
};

void bytes_free(struct bytes *bytes);
/* Adds `size` bytes and returns their place, or NULL. Valid until something else is added. */
void *bytes_grow(struct bytes *bytes, size_t size);
void bytes_add(struct bytes *bytes, const void *data, size_t size);
void bytes_add_u32(struct bytes *bytes, uint32_t value);
void bytes_add_u64(struct bytes *bytes, uint64_t value);
/* Its length, then its characters. */
void bytes_add_text(struct bytes *bytes, const char *text);

/* A number whose value follows later: returns its place. */
size_t bytes_reserve_u64(struct bytes *bytes);
/* Sets that number to how many bytes have been added since. */
void bytes_set_length(struct bytes *bytes, size_t place);

/* What is left of a message. Once something was missing, everything else is 0 or NULL. */
struct reader {
    const uint8_t *at;
    size_t left;
    bool failed;
};

uint32_t read_u32(struct reader *reader);
uint64_t read_u64(struct reader *reader);
/* `size` bytes of the message, or NULL. */
const uint8_t *read_bytes(struct reader *reader, uint64_t size);
/* Copies a text, always with a NUL at its end. One that is too long, or has a NUL inside, fails. */
void read_text(struct reader *reader, char *text, size_t capacity);
/* The next `size` bytes as a reader of their own. */
struct reader read_part(struct reader *reader, uint64_t size);

#endif
