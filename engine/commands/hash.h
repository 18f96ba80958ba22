/* hash.h: FNV-1a over 64 bits, for lines and files that commands recognise again. */
#ifndef ENGINE_COMMANDS_HASH_H
#define ENGINE_COMMANDS_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_BASIS 0xcbf29ce484222325u /* of no bytes */

static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    return hash;
}

#endif
