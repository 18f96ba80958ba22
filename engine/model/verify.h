/* verify.h: checks a model's files against the checksums beside them:
 *
 *   SHA256SUMS                                  as sha256sum writes it
 *   NAME -> ../../blobs/CHECKSUM                Hugging Face's cache: a link to a blob named by its checksum
 *   .cache/huggingface/download/NAME.metadata   written by Hugging Face's programs beside files that they
 *                                               download into a folder: lines with commit, checksum, time
 *
 * Hugging Face knows large files by their SHA-256, and others by Git's name for them: the SHA-1 of "blob
 * SIZE", a NUL, and the content. */
#ifndef ENGINE_MODEL_VERIFY_H
#define ENGINE_MODEL_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- verify.c ---- */

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

/* ---- checksums.c ---- */

#define CHECKSUMS_MAX 3 /* of one file: one of each place */

struct checksum {
    bool is_git;        /* Git's name; otherwise SHA-256 */
    char digits[65];    /* 64 or 40 lower-case hexadecimal digits */
    const char *source; /* "SHA256SUMS"; static */
};

struct checksums;

/* Reads a folder's SHA256SUMS, if there is one. ENGINE_ERROR_DATA with a message that names the line, or
 * the file that is listed twice. */
int checksums_open(const char *folder, struct checksums **checksums);
void checksums_close(struct checksums *checksums);

/* The checksums of a file, whose name is relative to the folder; *count: how many there are. ENGINE_ERROR:
 * one of them can't be read. */
int checksums_find(const struct checksums *checksums, const char *name, struct checksum found[CHECKSUMS_MAX],
                   size_t *count);

#endif
