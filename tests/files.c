/* files.c: see files.h. */
#include "files.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *files_folder(void)
{
    const char *tmp = getenv("TMPDIR");
    char name[1024];
    snprintf(name, sizeof name, "%s/engine-test-XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
    cr_assert(mkdtemp(name), "%s", name);
    char *folder = realpath(name, NULL);
    cr_assert(folder);
    return folder;
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)info, (void)type, (void)place;
    return remove(path);
}

void files_remove(const char *folder)
{
    cr_assert_eq(nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0, "%s", folder);
}

const char *files_path(const char *folder, const char *name)
{
    static char paths[12][1024];
    static size_t next;
    char *path = paths[next++ % 12];
    cr_assert_lt(snprintf(path, sizeof paths[0], "%s/%s", folder, name), (int)sizeof paths[0]);
    return path;
}

void files_write(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    cr_assert(file, "%s", path);
    cr_assert_eq(fwrite(data, 1, size, file), size);
    cr_assert_eq(fclose(file), 0);
    cr_assert_eq(chmod(path, 0644), 0);
}

void files_write_ids(const char *path, const int32_t *ids, size_t n)
{
    enum { HEADER = 118 }; /* so that the data begins at 128 */
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file, "%s", path);
    fprintf(file, "\x93NUMPY\x01%c%c%c", 0, HEADER, 0);
    int used = fprintf(file, "{'descr': '<i4', 'fortran_order': False, 'shape': (%zu,), }", n);
    fprintf(file, "%*s\n", HEADER - 1 - used, "");
    cr_assert_eq(fwrite(ids, sizeof *ids, n, file), n);
    fclose(file);
}

void files_write_text(const char *path, const char *text)
{
    files_write(path, text, strlen(text));
}

char *files_read(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    cr_assert(file, "%s", path);
    cr_assert_eq(fseek(file, 0, SEEK_END), 0);
    long end = ftell(file);
    rewind(file);
    char *data = malloc((size_t)end + 1);
    cr_assert(data);
    cr_assert_eq(fread(data, 1, (size_t)end, file), (size_t)end);
    data[end] = '\0';
    fclose(file);
    *size = (size_t)end;
    return data;
}

void files_copy(const char *from, const char *to, size_t size)
{
    size_t whole;
    char *data = files_read(from, &whole);
    files_write(to, data, size < whole ? size : whole);
    free(data);
}
