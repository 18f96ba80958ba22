/* mapped-file.h: which file an address belongs to. */
#ifndef ENGINE_COMMANDS_MAPPED_FILE_H
#define ENGINE_COMMANDS_MAPPED_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* The path of the file that is mapped at an address, cut at `size` bytes and without control characters. False if there
 * is none, or only a device. For signal handlers: it calls nothing that they may not call. */
bool mapped_file_at(const void *address, char *path, size_t size);

#endif
