/* test-npy.c: NumPy files: what `engine logits` reads and writes. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "io/npy.h"
#include "plugin-api.h"

FILES_FOLDER_OF_TEST

TestSuite(npy, .init = begin, .fini = end);

/* Reads a file of three elements, 1, 2, 3, of `width` bytes, whose header says `descr` and `shape`. */
static int read_with(const char *descr, size_t width, const char *shape, int32_t **values, size_t *count)
{
    uint8_t file[256] = "\x93NUMPY\x01";
    int length = snprintf((char *)file + 10, sizeof file - 10,
                          "{'descr': %s, 'fortran_order': False, 'shape': %s, }\n", descr, shape);
    file[8] = (uint8_t)length;
    for (size_t i = 0; i < 3; i++) file[10 + (size_t)length + i * width] = (uint8_t)(i + 1);
    files_write(files_path(folder, "in.npy"), file, 10 + (size_t)length + 3 * width);
    return npy_read_integers(files_path(folder, "in.npy"), values, count);
}

static void reads(const char *descr, size_t width, const char *shape)
{
    int32_t *values;
    size_t count;
    cr_assert_eq(read_with(descr, width, shape, &values, &count), ENGINE_OK, "%s %s", descr, shape);
    cr_assert_eq(count, 3);
    for (int32_t i = 0; i < 3; i++) cr_assert_eq(values[i], i + 1);
    free(values);
}

static void refuses(const char *descr, const char *shape)
{
    int32_t *values;
    size_t count;
    cr_assert_eq(read_with(descr, 4, shape, &values, &count), ENGINE_ERROR_DATA, "%s %s", descr, shape);
}

Test(npy, shapes)
{
    static const char *const right[] = {"(3,)", "(3, )", "( 3 ,)", "( 3,)", "(3 , )"};
    static const char *const wrong[] = {"(3)",      "()",    "3,",   "(3, 1)",
                                        "(-3,)",    "(,)",   "(4,)", "(3,",
                                        "(+3,)",    "(3x,)", "",     "(18446744073709551619,)",
                                        "(3, 3, 3)"};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) reads("'<i4'", 4, right[i]);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) refuses("'<i4'", wrong[i]);
}

Test(npy, types)
{
    reads("'|i1'", 1, "(3,)");
    reads("'|u1'", 1, "(3,)");
    reads("'<u2'", 2, "(3,)");
    reads("'<i8'", 8, "(3,)");
    refuses("'<f4'", "(3,)");
    refuses("'>i4'", "(3,)");
    refuses("'<i3'", "(3,)");
    refuses("'<i44'", "(3,)");
    refuses("[('a', '<i4')]", "(3,)");
}

Test(npy, what_is_written)
{
    FILE *file = fopen(files_path(folder, "out.npy"), "wb");
    size_t size;
    cr_assert(file);
    cr_assert_eq(npy_write_header(file, 3, 512), 0);
    cr_assert_eq(fclose(file), 0);
    char *header = files_read(files_path(folder, "out.npy"), &size);
    cr_assert_eq(size % 64, 0);
    cr_assert_eq(memcmp(header, "\x93NUMPY\x01\0", 8), 0);
    cr_assert_eq((size_t)(unsigned char)header[8] + 256 * (size_t)(unsigned char)header[9], size - 10);
    cr_assert_eq(header[size - 1], '\n');
    cr_assert(strstr(header + 10, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 512), }"));
    free(header);
}
