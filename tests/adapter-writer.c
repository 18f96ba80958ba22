/* adapter-writer.c: see adapter-writer.h. */
#include "adapter-writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "gguf-writer.h"

struct tensor_file {
    FILE *header, *data; /* streams into the memory below */
    char *header_text, *data_bytes;
    size_t header_size, data_size, n_tensors;
};

struct tensor_file *tensor_file_create(void)
{
    struct tensor_file *file = calloc(1, sizeof *file);
    file->header = open_memstream(&file->header_text, &file->header_size);
    file->data = open_memstream(&file->data_bytes, &file->data_size);
    return file;
}

void tensor_file_add(struct tensor_file *file, const char *name, size_t rows, size_t columns,
                     const float *values)
{
    fflush(file->data);
    size_t start = file->data_size, size = (rows ? rows : 1) * columns * sizeof *values;
    fprintf(file->header, "%s\"%s\": {\"dtype\": \"F32\", \"shape\": [", file->n_tensors++ ? ", " : "{",
            name);
    if (rows) fprintf(file->header, "%zu, ", rows);
    fprintf(file->header, "%zu], \"data_offsets\": [%zu, %zu]}", columns, start, start + size);
    fwrite(values, 1, size, file->data);
}

static void put(const char *path, const char *header, size_t header_size, const void *data, size_t size)
{
    uint64_t length = header_size;
    char *bytes = malloc(sizeof length + header_size + size);
    memcpy(bytes, &length, sizeof length);
    memcpy(bytes + sizeof length, header, header_size);
    if (size > 0) memcpy(bytes + sizeof length + header_size, data, size);
    files_write(path, bytes, sizeof length + header_size + size);
    free(bytes);
}

void tensor_file_save(struct tensor_file *file, const char *path)
{
    fputs(file->n_tensors ? "}" : "{}", file->header);
    fclose(file->header);
    fclose(file->data);
    put(path, file->header_text, file->header_size, file->data_bytes, file->data_size);
    free(file->header_text);
    free(file->data_bytes);
    free(file);
}

void write_safetensors(const char *path, const char *header, size_t n_data)
{
    char *data = calloc(1, n_data + 1);
    put(path, header, strlen(header), data, n_data);
    free(data);
}

float *factor_values(const char *name, size_t count)
{
    uint64_t state = 0xcbf29ce484222325u;
    for (; *name; name++) state = (state ^ (unsigned char)*name) * 0x100000001b3u;
    float *values = malloc(count * sizeof *values);
    for (size_t i = 0; i < count; i++) values[i] = random_float(&state, 0.25f);
    return values;
}

void tensor_file_add_turned(struct tensor_file *file, const char *module, size_t n_in, size_t n_out,
                            size_t rank, size_t n)
{
    char name_a[256], name_b[256];
    snprintf(name_a, sizeof name_a, "base_model.model.%s.lora_A.weight", module);
    snprintf(name_b, sizeof name_b, "base_model.model.%s.lora_B.weight", module);
    float *a = factor_values(name_a, n * rank * n_in), *b = factor_values(name_b, n_out * rank * n);
    float *turned_a = malloc(n * rank * n_out * sizeof *a), *turned_b = malloc(n_in * rank * n * sizeof *b);
    for (size_t e = 0; e < n; e++)
        for (size_t k = 0; k < rank; k++) {
            for (size_t i = 0; i < n_out; i++)
                turned_a[(e * rank + k) * n_out + i] = b[(i * rank + k) * n + e];
            for (size_t i = 0; i < n_in; i++) turned_b[(i * rank + k) * n + e] = a[(e * rank + k) * n_in + i];
        }
    tensor_file_add(file, name_a, n * rank, n_out, turned_a);
    tensor_file_add(file, name_b, n_in, rank * n, turned_b);
    free(a);
    free(b);
    free(turned_a);
    free(turned_b);
}

void tensor_file_add_module(struct tensor_file *file, const char *module, size_t n_in, size_t n_out,
                            size_t rank, int is_rows)
{
    char name[256];
    for (int b = 0; b < 2; b++) {
        size_t rows = b ? n_out : rank, columns = b ? rank : n_in;
        snprintf(name, sizeof name, "base_model.model.%s.lora_%s%c%s", module, is_rows ? "embedding_" : "",
                 b ? 'B' : 'A', is_rows ? "" : ".weight");
        float *values = factor_values(name, rows * columns);
        tensor_file_add(file, name, rows, columns, values);
        free(values);
    }
}
