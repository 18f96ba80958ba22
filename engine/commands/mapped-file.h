/* mapped-file.h: finds the file that an address belongs to. */
#ifndef ENGINE_COMMANDS_MAPPED_FILE_H
#define ENGINE_COMMANDS_MAPPED_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* The path of the file mapped at an address, cut to `size` bytes and without control characters. False if
 * there is none, or only a device. Safe in signal handlers. */
bool mapped_file_at(const void *address, char *path, size_t size);

#endif
