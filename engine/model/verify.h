/* verify.h: checks a model's files against the checksums beside them (checksums.h). */
#ifndef ENGINE_MODEL_VERIFY_H
#define ENGINE_MODEL_VERIFY_H

#include <stddef.h>
#include <stdint.h>

struct verified {
    size_t n_files;
    uint64_t n_bytes;
    size_t n_unknown; /* files without a checksum; a warning has named them */
};

/* Reads and compares all files that model_open(path, tokenizer_path) would read. `progress`, which may be
 * NULL, is called with the bytes of weights read so far and in total, and returns 0 to continue.
 * ENGINE_ERROR_DATA: a file is not what its checksum says, is listed but missing, or has weights but no
 * checksum. ENGINE_ERROR: one can't be read, or progress has stopped it. */
int model_verify(const char *path, const char *tokenizer_path,
                 int (*progress)(void *user, uint64_t done, uint64_t total), void *user,
                 struct verified *verified);

#endif
