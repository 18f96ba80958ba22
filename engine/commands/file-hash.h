/* file-hash.h: recognises the files that a run's results come from. */
#ifndef ENGINE_COMMANDS_FILE_HASH_H
#define ENGINE_COMMANDS_FILE_HASH_H

#include <stdint.h>

/* Adds a file's size and contents to a hash; of files above a megabyte, samples spread over them. Of a folder, its
 * weights and settings (*.safetensors, *.json) with their names. */
int hash_file(const char *path, uint64_t *hash);

#endif
