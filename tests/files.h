/* files.h: folders and files for tests. Errors fail the test. */
#ifndef TESTS_FILES_H
#define TESTS_FILES_H

#include <stddef.h>
#include <stdint.h>

/* A new, separate folder in $TMPDIR or /tmp, without symbolic links in its path. The caller frees the name;
 * files_remove removes the folder. */
char *files_folder(void);
void files_remove(const char *folder);

/* Where nothing is: a path of the tests' own. With a literal after it, another one. */
#define FILES_ABSENT TEST_BINARY_DIR "/absent"

/* "FOLDER/NAME" in one of a few static buffers: valid for the next dozen calls. */
const char *files_path(const char *folder, const char *name);

void files_write(const char *path, const void *data, size_t size);
/* An array of token ids [n] in NumPy's format. */
void files_write_ids(const char *path, const int32_t *ids, size_t n);
void files_write_text(const char *path, const char *text);

/* The whole file, with a NUL appended; the caller frees it. */
char *files_read(const char *path, size_t *size);

/* Copies the first `size` bytes of a file, all if SIZE_MAX, mode 0644. */
void files_copy(const char *from, const char *to, size_t size);

#endif
