/* hash.h: says whether two machines have the same bytes. Not made against those who look for other bytes of
 * the same hash. */
#ifndef MPI_HASH_H
#define MPI_HASH_H

#include <stddef.h>
#include <stdint.h>

struct hash {
    uint64_t words[2];
};

/* Any change to a single word of 8 bytes changes it; other changes go unnoticed once in 2^128. */
struct hash hash_of(const void *data, size_t size);

#endif
