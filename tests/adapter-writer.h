/* adapter-writer.h: writes PEFT adapters for tests: safetensors files, and factors whose numbers follow from
 * their names, as tools/adapters/record makes them. */
#ifndef TESTS_ADAPTER_WRITER_H
#define TESTS_ADAPTER_WRITER_H

#include <stddef.h>
#include <stdint.h>

struct tensor_file;
struct tensor_file *tensor_file_create(void);
/* Adds a matrix [rows, columns] of float32; rows 0: a list [columns]. */
void tensor_file_add(struct tensor_file *file, const char *name, size_t rows, size_t columns,
                     const float *values);
/* Writes the file and frees it. */
void tensor_file_save(struct tensor_file *file, const char *path);

/* A safetensors file with this header and so many bytes of data. */
void write_safetensors(const char *path, const char *header, size_t n_data);

/* The numbers of a factor in new memory. */
float *factor_values(const char *name, size_t count);

/* Adds both factors of a module, "model.layers.0.self_attn.q_proj" [n_out, n_in] of this rank, under PEFT's
 * names. */
void tensor_file_add_module(struct tensor_file *file, const char *module, size_t n_in, size_t n_out,
                            size_t rank, int is_rows);
/* The factors of a parameter with the matrices of `n` experts, in each other's place. They mean the same. */
void tensor_file_add_turned(struct tensor_file *file, const char *module, size_t n_in, size_t n_out,
                            size_t rank, size_t n);

#endif
