/* chat-history.c: see chat.h. A message is a line, with "\n" for a line end in it and "\\" for a backslash.
 * Lines are added under a lock on the file. Whoever shortens it puts another one in its place, so a lock
 * counts only if the file is still there afterwards. */
#include "commands/chat.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/own-folder.h"

#define MAX_FILE    ((off_t)1 << 20) /* bytes */
#define MAX_MESSAGE ((size_t)1 << 16)

/* ---- Where it is --------------------------------------------------------------------------------------- */

char *chat_history_path(const char **why)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char *path = NULL;
    int length = -1;
    *why = NULL;
    if (state && state[0] == '/')
        length = asprintf(&path, "%s/engine/chat-history", state);
    else if (home && home[0] == '/')
        length = asprintf(&path, "%s/.local/state/engine/chat-history", home);
    if (length < 0) return NULL;
    char *slash = strrchr(path, '/');
    *slash = '\0';
    bool good = own_folder_make(path) && access(path, W_OK) == 0;
    *slash = '/';
    if (good) return path;
    *why = errno == EPERM ? "its folder belongs to another user" : strerror(errno);
    free(path);
    return NULL;
}

/* ---- Reading ------------------------------------------------------------------------------------------- */

/* Opens the file if it is a regular one of this user's. -1 with errno. */
static int open_file(const char *path, int flags, struct stat *info)
{
    int file = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (file < 0) return -1;
    if (fstat(file, info) == 0 && S_ISREG(info->st_mode) && info->st_uid == geteuid()) return file;
    close(file);
    errno = EPERM;
    return -1;
}

/* The last bytes of the file, from the beginning of a line on; NUL-terminated. NULL: no memory, or it can't
 * be read. */
static char *read_end(int file, off_t size, off_t most, size_t *length)
{
    off_t from = size > most ? size - most : 0, room = size - from;
    char *text = malloc((size_t)room + 1);
    ssize_t n = text ? pread(file, text, (size_t)room, from) : -1;
    if (n < 0) {
        free(text);
        return NULL;
    }
    text[n] = '\0';
    *length = (size_t)n;
    char *line = from > 0 ? memchr(text, '\n', (size_t)n) : NULL;
    if (from == 0) return text;
    size_t cut = line ? (size_t)(line + 1 - text) : *length;
    *length -= cut;
    memmove(text, text + cut, *length + 1);
    return text;
}

/* In place. */
static void history_unescape(char *line)
{
    char *to = line;
    for (const char *from = line; *from; from++) {
        if (*from == '\\' && (from[1] == 'n' || from[1] == '\\'))
            *to++ = *++from == 'n' ? '\n' : '\\';
        else
            *to++ = *from;
    }
    *to = '\0';
}

void chat_history_read(const char *path, void (*take)(void *user, const char *text), void *user)
{
    struct stat info;
    size_t length;
    int file = open_file(path, O_RDONLY, &info);
    char *text = file < 0 ? NULL : read_end(file, info.st_size, MAX_FILE, &length);
    if (file >= 0) close(file);
    if (!text) return;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        history_unescape(line);
        if (*line) take(user, line);
    }
    free(text);
}

/* ---- Adding -------------------------------------------------------------------------------------------- */

/* Opens the file, locked: the one that has the name once the lock is there. -1 with errno. */
static int open_locked(const char *path, struct stat *info)
{
    for (;;) {
        struct stat there;
        int file = open_file(path, O_RDWR | O_APPEND | O_CREAT, info);
        if (file < 0) return -1;
        if ((info->st_mode & 077) != 0) fchmod(file, 0600);
        int locked;
        while ((locked = flock(file, LOCK_EX)) != 0 && errno == EINTR) continue;
        if (locked != 0 && errno != ENOLCK && errno != ENOSYS && errno != EOPNOTSUPP) {
            close(file);
            return -1;
        }
        if (stat(path, &there) == 0 && there.st_ino == info->st_ino && there.st_dev == info->st_dev &&
            fstat(file, info) == 0)
            return file;
        close(file);
    }
}

static bool write_all(int file, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t n = write(file, text, length);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        text += n;
        length -= (size_t)n;
    }
    return true;
}

/* Puts a file with the newer half in the place of this one. If it can't, the file stays as it is. */
static void history_shorten(const char *path, int file, off_t size)
{
    char *name = NULL;
    size_t length;
    char *text = read_end(file, size, MAX_FILE / 2, &length);
    int shorter = text && asprintf(&name, "%s.XXXXXX", path) >= 0 ? mkostemp(name, O_CLOEXEC) : -1;
    if (shorter >= 0) {
        bool good = write_all(shorter, text, length);
        good = close(shorter) == 0 && good;
        if (!good || rename(name, path) != 0) unlink(name);
    }
    free(name);
    free(text);
}

bool chat_history_add(const char *path, const char *text)
{
    struct stat info;
    size_t length = strlen(text), used = 0;
    if (length > MAX_MESSAGE) return true;
    char *line = malloc(2 * length + 1);
    int file = line ? open_locked(path, &info) : -1;
    for (const char *c = text; file >= 0 && *c; c++) {
        if (*c == '\n' || *c == '\\') line[used++] = '\\';
        line[used++] = *c == '\n' ? 'n' : *c;
    }
    bool good = file >= 0;
    if (good) {
        line[used++] = '\n';
        good = write_all(file, line, used);
        if (info.st_size + (off_t)used > MAX_FILE) history_shorten(path, file, info.st_size + (off_t)used);
    }
    int reason = errno;
    if (file >= 0) close(file);
    free(line);
    errno = reason;
    return good;
}
