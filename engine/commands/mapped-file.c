/* mapped-file.c: see mapped-file.h. Reads /proc/self/maps, which has a line for each mapping:
 *
 *     7f00c2a00000-7f00c2b00000 r--p 00000000 fe:00 247498    /home/me/model.gguf */
#include "commands/mapped-file.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands/common.h"
#include "common/printable.h"

#define LINE_SIZE 5000 /* a path, the fields before it, and bytes escaped as \012 */

/* A hexadecimal number; advances *text past it. */
static uintptr_t read_number(const char **text)
{
    static const char digits[] = "0123456789abcdef";
    uintptr_t number = 0;
    for (const char *digit; **text && (digit = strchr(digits, **text)); ++*text)
        number = number * 16 + (uintptr_t)(digit - digits);
    return number;
}

/* Whether a line describes the mapping that has the address; *path: the start of its path, NULL if it has
 * none. */
static bool holds(const char *line, uintptr_t address, const char **path)
{
    uintptr_t start = read_number(&line);
    if (*line++ != '-') return false;
    uintptr_t end = read_number(&line);
    *path = strchr(line, '/');
    return address >= start && address < end;
}

/* Not a device, nor memory that the kernel gives a name: shared memory is "/dev/zero (deleted)" and the like. A file that cannot
 * be looked at, as it has been deleted, counts as one. */
static bool is_file(const char *path)
{
    static const char *const memory[] = {"/memfd:", "/dev/zero", "/SYSV"};
    struct stat info;
    if (!path) return false;
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (strncmp(path, memory[i], strlen(memory[i])) == 0) return false;
    return stat(path, &info) != 0 || S_ISREG(info.st_mode);
}

bool mapped_file_at(const void *address, char *path, size_t size)
{
    static const char deleted[] = " (deleted)";
    char line[LINE_SIZE], bytes[1024];
    size_t used = 0;
    const char *found = NULL;
    bool over = false;
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (maps < 0) return false;
    for (ssize_t n; !over && (n = read(maps, bytes, sizeof bytes)) > 0;)
        for (ssize_t i = 0; i < n && !over; i++) {
            if (bytes[i] != '\n') {
                if (used < sizeof line - 1) line[used++] = bytes[i];
                continue;
            }
            line[used] = '\0';
            used = 0;
            over = holds(line, (uintptr_t)address, &found);
        }
    close(maps);
    if (!over || !is_file(found)) return false;
    size_t length = strlen(found), end = sizeof deleted - 1;
    if (length > end && memcmp(found + length - end, deleted, end) == 0) length -= end;
    if (length > size - 1) length = size - 1;
    memcpy(path, found, length);
    path[length] = '\0';
    printable_make(path);
    return true;
}
