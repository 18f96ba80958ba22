/* damage.h: makes damaged copies of model files and tokenizer files: the same ones for the same seed.
 *
 * It knows where the numbers of a sound file are (counts, lengths, types, offsets: its fields) and sets them
 * to extremes; apart from that it cuts, flips, moves and inserts bytes, mostly in the file's head, which is
 * everything before the weights. */
#ifndef TESTS_HOSTILE_DAMAGE_H
#define TESTS_HOSTILE_DAMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct field {
    size_t offset, width; /* 4 or 8 bytes */
    bool is_value;        /* a number that means something to the model: heads, layers, … */
};

/* A sound file. */
struct base {
    const char *name;
    uint8_t *bytes; /* [size] */
    size_t size;
    size_t head;          /* bytes of the head */
    struct field *fields; /* [n_fields] */
    size_t n_fields;
};

/* Take over `bytes`, from malloc, and find the fields. */
struct base *base_gguf(const char *name, uint8_t *bytes, size_t size);
struct base *base_llama2c(const char *name, uint8_t *bytes, size_t size);
struct base *base_tokenizer(const char *name, uint8_t *bytes, size_t size);
void base_destroy(struct base *base);

struct damaged {
    uint8_t *bytes; /* [size]; the caller frees them */
    size_t size;
    char what[96]; /* was done to it */
};

/* A copy with some damage; *state is the seed at first. */
struct damaged make_damaged(const struct base *base, uint64_t *state);

#endif
