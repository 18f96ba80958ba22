/* digest.h: SHA-256 by nettle, whose function takes the size of the digest before version 4. */
#ifndef ENGINE_BASE_DIGEST_H
#define ENGINE_BASE_DIGEST_H

#include <nettle/sha2.h>
#include <nettle/version.h>

/* Ends a hash. */
static inline void digest_sha256(struct sha256_ctx *context, uint8_t digest[SHA256_DIGEST_SIZE])
{
#if NETTLE_VERSION_MAJOR < 4
    sha256_digest(context, SHA256_DIGEST_SIZE, digest);
#else
    sha256_digest(context, digest);
#endif
}

#endif
