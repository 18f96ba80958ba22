/* npy.h: arrays in NumPy's .npy format, version 1 (numpy.lib.format). */
#ifndef ENGINE_IO_NPY_H
#define ENGINE_IO_NPY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Writes the header of a float32 array [rows, columns] in C order. Returns 0, or -1 with errno. */
int npy_write_header(FILE *file, size_t rows, size_t columns);

/* The same of an array with n dimensions, 1 to 8. */
int npy_write_header_of(FILE *file, const size_t *shape, size_t n);

/* Reads a one-dimensional array of integers (any integer type, little-endian). The caller frees *values.
 * Returns an enum engine_status, with command_error's message. */
int npy_read_integers(const char *path, int32_t **values, size_t *count);

#endif
