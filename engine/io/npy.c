/* npy.c: see npy.h. */
#include "io/npy.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "io/files.h"
#include "io/messages.h"

static const char magic[] = "\x93NUMPY";
#define PREFIX_SIZE 10 /* magic, version, length of the header in two bytes */

int npy_write_header(FILE *file, size_t rows, size_t columns)
{
    return npy_write_header_of(file, (const size_t[]){rows, columns}, 2);
}

int npy_write_header_of(FILE *file, const size_t *shape, size_t n)
{
    char header[256]; /* room for 8 dimensions */
    ENGINE_ASSERT(n >= 1 && n <= 8);
    int length = snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': (");
    for (size_t i = 0; i < n; i++)
        length += snprintf(header + length, sizeof header - (size_t)length, "%zu,%s", shape[i],
                           i + 1 < n ? " " : "");
    if (n > 1) length--; /* NumPy writes "(2, 3)", but "(2,)" */
    length += snprintf(header + length, sizeof header - (size_t)length, "), }");
    /* Padded with blanks to a total multiple of 64 bytes, ending in a newline. */
    int padded = (PREFIX_SIZE + length + 1 + 63) / 64 * 64 - PREFIX_SIZE;
    uint8_t prefix[4] = {1, 0, (uint8_t)(padded & 255), (uint8_t)(padded >> 8)};
    fwrite(magic, 1, 6, file);
    fwrite(prefix, 1, 4, file);
    fprintf(file, "%s%*s\n", header, padded - length - 1, "");
    return ferror(file) ? -1 : 0;
}

/* The text after 'KEY': in the header, or NULL. */
static const char *field(const char *header, const char *key)
{
    const char *found = strstr(header, key);
    found = found ? strchr(found, ':') : NULL;
    return found ? found + 1 + strspn(found + 1, " ") : NULL;
}

static int64_t element(const uint8_t *bytes, size_t size, bool is_signed)
{
    uint64_t value = 0;
    for (size_t i = size; i-- > 0;) value = value << 8 | bytes[i];
    unsigned unused = (unsigned)(64 - 8 * size);
    return is_signed ? (int64_t)(value << unused) >> unused : (int64_t)value;
}

/* "(96,)": one dimension. */
static bool parse_shape(const char *text, size_t *count)
{
    size_t n = 0;
    if (*text++ != '(') return false;
    text += strspn(text, " ");
    if (!isdigit((unsigned char)*text)) return false;
    for (; isdigit((unsigned char)*text); text++) {
        if (n > (SIZE_MAX - 9) / 10) return false;
        n = n * 10 + (size_t)(*text - '0');
    }
    text += strspn(text, " ");
    if (*text++ != ',') return false;
    text += strspn(text, " ");
    *count = n;
    return *text == ')';
}

/* Checks the NUL-terminated header, and reads the elements' type and number. */
static bool parse_header(const char *header, size_t *size, bool *is_signed, size_t *count)
{
    const char *descr = field(header, "'descr'"), *shape = field(header, "'shape'");
    char order, kind, quote;
    unsigned width;
    if (!descr || !shape || !parse_shape(shape, count)) return false;
    if (sscanf(descr, "'%c%c%1u%c", &order, &kind, &width, &quote) != 4 || quote != '\'') return false;
    if ((kind != 'i' && kind != 'u') || (order != '<' && order != '|')) return false;
    if (width != 1 && width != 2 && width != 4 && width != 8) return false;
    *size = width;
    *is_signed = kind == 'i';
    return true;
}

int npy_read_integers(const char *path, int32_t **values, size_t *count)
{
    char *data;
    size_t size, width, n;
    bool is_signed;
    int status = read_file(path, &data, &size);
    if (status) return status;
    const uint8_t *bytes = (const uint8_t *)data;
    int32_t *numbers = NULL;
    status = ENGINE_ERROR_DATA;
    if (size < PREFIX_SIZE || memcmp(data, magic, 6) != 0 || bytes[6] != 1) {
        command_error(status, "%s: not a NumPy file of version 1", path);
        goto cleanup;
    }
    size_t header_size = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    if (header_size == 0 || header_size > size - PREFIX_SIZE) {
        command_error(status, "%s: the header is truncated", path);
        goto cleanup;
    }
    data[PREFIX_SIZE + header_size - 1] = 0; /* its newline */
    if (!parse_header(data + PREFIX_SIZE, &width, &is_signed, &n)) {
        command_error(status, "%s: must be a one-dimensional array of integers", path);
        goto cleanup;
    }
    const uint8_t *elements = bytes + PREFIX_SIZE + header_size;
    if (n > (size - PREFIX_SIZE - header_size) / width) {
        command_error(status, "%s: the array is truncated", path);
        goto cleanup;
    }
    numbers = malloc((n + 1) * sizeof *numbers);
    if (!numbers) {
        status = command_error(ENGINE_ERROR_MEMORY, "out of memory (%s)", path);
        goto cleanup;
    }
    for (size_t i = 0; i < n; i++) {
        int64_t value = element(elements + i * width, width, is_signed);
        if (value < INT32_MIN || value > INT32_MAX) {
            command_error(status, "%s: element %zu is %" PRId64 ", which is not a token", path, i, value);
            goto cleanup;
        }
        numbers[i] = (int32_t)value;
    }
    *values = numbers;
    *count = n;
    numbers = NULL;
    status = ENGINE_OK;

cleanup:
    free(numbers);
    free(data);
    return status;
}
