/* models.c: writes a Llama with random weights for speed runs, of any size and as fast as the disk allows.
 * The weights are one mebibyte of random blocks, repeated from a different start each time. Their values
 * don't affect the time, but their magnitudes are chosen so that activations stay near 1. The vocabulary is a
 * small SentencePiece one.
 *
 *   gpu-models SHAPE TYPE OUT.gguf
 *
 * The file gets its name when it is complete. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check/formats.h"
#include "gguf-writer.h"
#include "model/types.h"

static const struct shape {
    const char *name;
    uint32_t n_embd, n_ff, n_layers, n_heads, n_kv_heads, n_vocab;
} shapes[] = {
    {"1b", 2048, 8192, 16, 32, 8, 32000},   /* Llama 3.2 1B's with fewer words: 1.1e9 weights */
    {"8b", 4096, 14336, 32, 32, 8, 128256}, /* Llama 3 8B's: 8.0e9 */
    {"layer", 2048, 8192, 1, 32, 8, 512},   /* one of 1b's: 7e7; it needs the same kernels */
    {"small", 256, 768, 4, 4, 2, 512},      /* to try things: 3.4e6 */
};

/* Where the blocks of a type keep the float16 numbers that scale with their values. */
static const struct weight_type {
    uint32_t type;
    size_t n_scales, scales[2];
} weight_types[] = {
    {ENGINE_TYPE_F16, 1, {0}},     {ENGINE_TYPE_Q8_0, 1, {0}},    {ENGINE_TYPE_Q4_0, 1, {0}},
    {ENGINE_TYPE_Q4_K, 2, {0, 2}}, {ENGINE_TYPE_Q5_K, 2, {0, 2}}, {ENGINE_TYPE_Q6_K, 1, {208}},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))
enum { POOL_SIZE = 1 << 20, MAX_THREADS = 64, MAX_POOLS = 4 };

/* About POOL_SIZE bytes of random blocks, twice, so that any run of `size` bytes from the first half is
 * there. */
struct pool {
    uint64_t k;     /* length of the rows that they are meant for; 0: a norm's float32 */
    uint8_t *bytes; /* [2 * size] */
    size_t size, block_size;
};

struct tensor {
    const struct pool *pool;
    uint64_t offset, size; /* in the file's data, bytes */
};

struct file {
    const struct shape *shape;
    const struct weight_type *type;
    struct gguf_writer *header;
    struct pool pools[MAX_POOLS];
    size_t n_pools, n_tensors, room;
    struct tensor *tensors; /* [n_tensors] */
    uint64_t data_size, data_offset;
    int fd;
    atomic_size_t next; /* tensor that no thread has taken yet */
    atomic_int error;   /* errno */
};

/* ---- Weights ---- */

/* Random blocks of the type, of values of deviation 1 / sqrt(k). */
static void fill_weights(struct pool *pool, const struct weight_type *type)
{
    const struct format *format = format_of(type->type);
    size_t n_blocks = POOL_SIZE / format->block_size, n = n_blocks * format->block_length;
    uint64_t seed = pool->k;
    uint8_t *blocks = random_weight(&seed, type->type, format->block_length, n_blocks);
    double *values = blocks ? weight_values(type->type, blocks, n) : NULL, squares = 0;
    if (!values) abort();
    for (size_t i = 0; i < n; i++) squares += values[i] * values[i];
    double factor = 1 / sqrt(squares / (double)n * (double)pool->k);
    for (size_t i = 0; i < n_blocks; i++)
        for (size_t s = 0; s < type->n_scales; s++) {
            uint8_t *scale = blocks + i * format->block_size + type->scales[s];
            put_half(scale, get_half(scale) * factor);
        }
    free(values);
    pool->block_size = format->block_size;
    pool->size = n_blocks * format->block_size;
    pool->bytes = blocks;
}

static void fill_norms(struct pool *pool)
{
    uint64_t seed = 1;
    size_t n = POOL_SIZE / sizeof(float);
    float *values = random_floats(&seed, n);
    if (!values) abort();
    for (size_t i = 0; i < n; i++) values[i] = 1 + 0.1f * values[i];
    pool->block_size = sizeof(float);
    pool->size = n * sizeof(float);
    pool->bytes = (uint8_t *)values;
}

static const struct pool *pool_for(struct file *file, uint64_t k)
{
    for (size_t i = 0; i < file->n_pools; i++)
        if (file->pools[i].k == k) return &file->pools[i];
    if (file->n_pools == MAX_POOLS) abort();
    struct pool *pool = &file->pools[file->n_pools++];
    pool->k = k;
    if (k)
        fill_weights(pool, file->type);
    else
        fill_norms(pool);
    uint8_t *twice = realloc(pool->bytes, 2 * pool->size);
    if (!twice) abort();
    memcpy(twice + pool->size, twice, pool->size);
    pool->bytes = twice;
    return pool;
}

/* ---- The file's list ---- */

/* rows 0: a norm of k values. */
static void add_tensor(struct file *file, const char *name, uint64_t k, uint64_t rows)
{
    uint32_t type = rows ? file->type->type : ENGINE_TYPE_F32;
    struct tensor tensor = {.pool = pool_for(file, rows ? k : 0), .offset = (file->data_size + 31) / 32 * 32};
    if (!type_row_size(type, k, &tensor.size)) abort();
    if (rows) tensor.size *= rows;
    if (file->n_tensors == file->room) {
        file->room = 2 * file->room + 64;
        file->tensors = realloc(file->tensors, file->room * sizeof *file->tensors);
        if (!file->tensors) abort();
    }
    file->tensors[file->n_tensors++] = tensor;
    file->data_size = tensor.offset + tensor.size;
    gguf_add_tensor_at(file->header, name, type, rows ? 2 : 1, (uint64_t[]){k, rows}, tensor.offset);
}

static void add_tensors(struct file *file)
{
    const struct shape *s = file->shape;
    uint64_t kv_dim = (uint64_t)s->n_embd / s->n_heads * s->n_kv_heads;
    const struct {
        const char *name;
        uint64_t k, rows;
    } layer_tensors[] = {
        {"attn_norm", s->n_embd, 0},           {"attn_q", s->n_embd, s->n_embd},
        {"attn_k", s->n_embd, kv_dim},         {"attn_v", s->n_embd, kv_dim},
        {"attn_output", s->n_embd, s->n_embd}, {"ffn_norm", s->n_embd, 0},
        {"ffn_gate", s->n_embd, s->n_ff},      {"ffn_up", s->n_embd, s->n_ff},
        {"ffn_down", s->n_ff, s->n_embd},
    };
    add_tensor(file, "token_embd.weight", s->n_embd, s->n_vocab);
    for (uint32_t layer = 0; layer < s->n_layers; layer++)
        for (size_t i = 0; i < COUNT(layer_tensors); i++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%" PRIu32 ".%s.weight", layer, layer_tensors[i].name);
            add_tensor(file, name, layer_tensors[i].k, layer_tensors[i].rows);
        }
    add_tensor(file, "output_norm.weight", s->n_embd, 0);
    add_tensor(file, "output.weight", s->n_embd, s->n_vocab);
}

static void add_metadata(struct gguf_writer *header, const struct shape *s)
{
    gguf_add_string(header, "general.architecture", "llama");
    gguf_add_string(header, "general.name", "random weights");
    gguf_add_u32(header, "llama.context_length", 32768);
    gguf_add_u32(header, "llama.embedding_length", s->n_embd);
    gguf_add_u32(header, "llama.block_count", s->n_layers);
    gguf_add_u32(header, "llama.feed_forward_length", s->n_ff);
    gguf_add_u32(header, "llama.attention.head_count", s->n_heads);
    gguf_add_u32(header, "llama.attention.head_count_kv", s->n_kv_heads);
    gguf_add_u32(header, "llama.rope.dimension_count", s->n_embd / s->n_heads);
    gguf_add_f32(header, "llama.rope.freq_base", 10000);
    gguf_add_f32(header, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    gguf_add_u32(header, "llama.vocab_size", s->n_vocab);
    gguf_add_tiny_llama_vocabulary(header, s->n_vocab);
}

/* ---- Writing ---- */

static bool write_at(struct file *file, const void *bytes, size_t size, uint64_t offset)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = pwrite(file->fd, (const uint8_t *)bytes + done, size - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            atomic_store(&file->error, n < 0 ? errno : EIO);
            return false;
        }
        done += (size_t)n;
    }
    return true;
}

/* Takes tensors until there are none left. */
static void *write_tensors(void *user)
{
    struct file *file = user;
    for (size_t i; (i = atomic_fetch_add(&file->next, 1)) < file->n_tensors && !atomic_load(&file->error);) {
        const struct tensor *tensor = &file->tensors[i];
        const struct pool *pool = tensor->pool;
        uint64_t seed = i;
        for (uint64_t done = 0; done < tensor->size;) {
            size_t first = random_bits(&seed) % (pool->size / pool->block_size) * pool->block_size;
            uint64_t n = tensor->size - done < pool->size ? tensor->size - done : pool->size;
            if (!write_at(file, pool->bytes + first, (size_t)n, file->data_offset + tensor->offset + done))
                return NULL;
            done += n;
        }
    }
    return NULL;
}

static void write_on_all_threads(struct file *file)
{
    pthread_t threads[MAX_THREADS];
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int wanted = processors < 1 ? 1 : processors > MAX_THREADS ? MAX_THREADS : (int)processors, n = 0;
    while (n < wanted - 1 && pthread_create(&threads[n], NULL, write_tensors, file) == 0) n++;
    write_tensors(file);
    while (n > 0) pthread_join(threads[--n], NULL);
}

/* 0, or errno. */
static int write_file(struct file *file, const char *path)
{
    size_t header_size, part_size = strlen(path) + sizeof ".part";
    char *part = malloc(part_size);
    uint8_t *header = gguf_bytes(file->header, &header_size);
    if (!part) abort();
    snprintf(part, part_size, "%s.part", path);
    file->data_offset = header_size;
    file->fd = open(part, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file->fd < 0) {
        atomic_store(&file->error, errno);
    } else {
        if (write_at(file, header, header_size, 0)) write_on_all_threads(file);
        if (close(file->fd) != 0) atomic_store(&file->error, errno);
        if (!atomic_load(&file->error) && rename(part, path) != 0) atomic_store(&file->error, errno);
        if (atomic_load(&file->error)) unlink(part);
    }
    free(header);
    free(part);
    return atomic_load(&file->error);
}

/* ---- The program ---- */

static const struct shape *find_shape(const char *name)
{
    for (size_t i = 0; i < COUNT(shapes); i++)
        if (strcmp(shapes[i].name, name) == 0) return &shapes[i];
    return NULL;
}

static const struct weight_type *find_type(const char *name)
{
    uint32_t type;
    for (size_t i = 0; type_by_name(name, &type) && i < COUNT(weight_types); i++)
        if (weight_types[i].type == type) return &weight_types[i];
    return NULL;
}

int main(int argc, char **argv)
{
    struct file file = {.shape = argc == 4 ? find_shape(argv[1]) : NULL,
                        .type = argc == 4 ? find_type(argv[2]) : NULL};
    if (!file.shape || !file.type) {
        fprintf(stderr, "usage: gpu-models 1b|8b|layer|small F16|Q8_0|Q4_0|Q4_K|Q5_K|Q6_K OUT.gguf\n");
        return 2;
    }
    file.header = gguf_create(3);
    add_metadata(file.header, file.shape);
    add_tensors(&file);
    int error = write_file(&file, argv[3]);
    if (error) fprintf(stderr, "gpu-models: %s: %s\n", argv[3], strerror(error));
    gguf_destroy(file.header);
    for (size_t i = 0; i < file.n_pools; i++) free(file.pools[i].bytes);
    free(file.tensors);
    return error ? 1 : 0;
}
