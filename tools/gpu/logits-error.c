/* logits-error.c: prints the relative error ||x - r|| / ||r|| between two NumPy files of float32 and the same
 * shape, as written by `engine logits`. If a value isn't finite, the result is "nan" or "inf".
 *
 *   logits-error X.npy REFERENCE.npy */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct array {
    float *values; /* [count] */
    size_t count;
    char shape[64]; /* "(96, 512)" */
};

static bool complain(const char *path, const char *what)
{
    fprintf(stderr, "logits-error: %s: %s\n", path, what);
    return false;
}

/* The header is a Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (96, 512), } */
static bool read_header(FILE *file, const char *path, struct array *array)
{
    unsigned char prefix[10];
    char header[1024];
    if (fread(prefix, 1, sizeof prefix, file) != sizeof prefix || memcmp(prefix, "\x93NUMPY\x01", 7) != 0)
        return complain(path, "not a NumPy file of version 1");
    size_t length = prefix[8] + 256u * prefix[9];
    if (length >= sizeof header || fread(header, 1, length, file) != length)
        return complain(path, "its header is too long or cut off");
    header[length] = '\0';
    const char *shape = strstr(header, "'shape': (");
    const char *end = shape ? strchr(shape, ')') : NULL;
    if (!strstr(header, "'<f4'") || !strstr(header, "'fortran_order': False") || !end)
        return complain(path, "not float32 in C order");
    snprintf(array->shape, sizeof array->shape, "%.*s", (int)(end - shape - 8), shape + 9);
    return true;
}

static bool read_array(const char *path, struct array *array)
{
    FILE *file = fopen(path, "rb");
    if (!file) return complain(path, strerror(errno));
    bool read = read_header(file, path, array);
    size_t room = 0;
    while (read) {
        if (array->count == room) {
            float *larger = realloc(array->values, (room = 2 * room + 65536) * sizeof *larger);
            if (!larger) {
                read = complain(path, "too large for the memory");
                break;
            }
            array->values = larger;
        }
        size_t n = fread(array->values + array->count, sizeof(float), room - array->count, file);
        if (n == 0) break;
        array->count += n;
    }
    if (read && ferror(file)) read = complain(path, strerror(errno));
    fclose(file);
    return read;
}

int main(int argc, char **argv)
{
    struct array x = {0}, reference = {0};
    double difference = 0, norm = 0;
    if (argc != 3) {
        fprintf(stderr, "usage: logits-error X.npy REFERENCE.npy\n");
        return 2;
    }
    bool comparable = read_array(argv[1], &x) && read_array(argv[2], &reference);
    if (comparable && (x.count != reference.count || x.count == 0 || strcmp(x.shape, reference.shape) != 0))
        comparable = complain(argv[1], "not of the reference's shape");
    for (size_t i = 0; comparable && i < x.count; i++) {
        double d = (double)x.values[i] - (double)reference.values[i];
        difference += d * d;
        norm += (double)reference.values[i] * (double)reference.values[i];
    }
    if (comparable) printf("%.3g\n", sqrt(difference / norm));
    free(x.values);
    free(reference.values);
    return comparable ? 0 : 1;
}
