/* logits-file.c: see logits-file.h. */
#include "commands/logits-file.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/assert.h"
#include "io/files.h"
#include "io/messages.h"

#define MAGIC       "ENGLOGIT"
#define VERSION     1
#define HEADER_SIZE 64    /* without the tokens */
#define ROW_BEGIN   12    /* three float32 */
#define RANGE       20.0f /* nats below the most likely token that codes reach */
#define CODES       65535

/* ---- Numbers ---- */

static void put_number(unsigned char *at, uint64_t value, int size)
{
    for (int i = 0; i < size; i++) at[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t logits_read(const unsigned char *at, int size)
{
    uint64_t value = 0;
    for (int i = size; i-- > 0;) value = value << 8 | at[i];
    return value;
}

static void put_float(unsigned char *at, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_number(at, bits, 4);
}

static float get_float(const unsigned char *at)
{
    uint32_t bits = (uint32_t)logits_read(at, 4);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static size_t row_size(const struct logits_file *f)
{
    return ROW_BEGIN + 2 * (size_t)f->header.n_vocab + 8;
}

static int make_row(struct logits_file *f)
{
    f->row = malloc(row_size(f));
    return f->row ? ENGINE_OK : command_error(ENGINE_ERROR_MEMORY, "out of memory (%s)", f->path);
}

/* The header with its hash. */
static void encode_header(const struct logits_header *h, const unsigned char *tokens, unsigned char *bytes)
{
    memcpy(bytes, MAGIC, 8);
    put_number(bytes + 8, VERSION, 4);
    put_number(bytes + 12, h->n_vocab, 4);
    put_number(bytes + 16, h->n_window, 4);
    put_number(bytes + 20, h->stride, 4);
    put_number(bytes + 24, (uint32_t)h->bos, 4);
    put_number(bytes + 28, 0, 4);
    put_number(bytes + 32, h->n_tokens, 8);
    put_number(bytes + 40, h->n_rows, 8);
    put_number(bytes + 48, h->vocabulary, 8);
    put_number(bytes + 56, hash_bytes(hash_bytes(HASH_BASIS, bytes, 56), tokens, 4 * (size_t)h->n_tokens), 8);
}

/* ---- Writing ---- */

static int write_all(const struct logits_file *f, const void *bytes, size_t size)
{
    if (fwrite(bytes, 1, size, f->file) == size) return ENGINE_OK;
    return command_error(ENGINE_ERROR, "%s: %s", f->path, strerror(errno));
}

int logits_file_begin(struct logits_file *f, FILE *file, const char *path, const struct logits_header *header,
                      const int32_t *tokens)
{
    unsigned char bytes[HEADER_SIZE];
    *f = (struct logits_file){.file = file, .path = path, .header = *header};
    unsigned char *encoded = malloc(4 * (size_t)header->n_tokens + 1);
    if (!encoded) return command_error(ENGINE_ERROR_MEMORY, "out of memory (%s)", path);
    for (size_t i = 0; i < header->n_tokens; i++) put_number(encoded + 4 * i, (uint32_t)tokens[i], 4);
    encode_header(header, encoded, bytes);
    int status = make_row(f);
    if (!status) status = write_all(f, bytes, sizeof bytes);
    if (!status) status = write_all(f, encoded, 4 * (size_t)header->n_tokens);
    free(encoded);
    return status;
}

int logits_file_write(struct logits_file *f, const float *logprobs, float actual)
{
    float highest = -INFINITY, lowest = INFINITY;
    ENGINE_ASSERT(f->n_done < f->header.n_rows);
    for (uint32_t i = 0; i < f->header.n_vocab; i++) {
        if (logprobs[i] > highest) highest = logprobs[i];
        if (logprobs[i] < lowest) lowest = logprobs[i];
    }
    float range = highest - lowest < RANGE ? highest - lowest : RANGE, step = range / CODES;
    put_float(f->row, actual);
    put_float(f->row + 4, highest);
    put_float(f->row + 8, step);
    for (uint32_t i = 0; i < f->header.n_vocab; i++) {
        float code = step > 0 ? (highest - logprobs[i]) / step : 0;
        put_number(f->row + ROW_BEGIN + 2 * (size_t)i, code < CODES ? (uint64_t)lrintf(code) : CODES, 2);
    }
    size_t size = row_size(f) - 8;
    put_number(f->row + size, hash_bytes(HASH_BASIS, f->row, size), 8);
    f->n_done++;
    return write_all(f, f->row, size + 8);
}

/* ---- Reading ---- */

static int logits_damaged(const struct logits_file *f, const char *what)
{
    return command_error(ENGINE_ERROR_DATA, "%s: damaged: %s; make it again with --save-logits", f->path,
                         what);
}

static int check_header(struct logits_file *f, const unsigned char *bytes)
{
    struct logits_header *h = &f->header;
    if (memcmp(bytes, MAGIC, 8) != 0)
        return command_error(ENGINE_ERROR_DATA, "%s: not a file of --save-logits", f->path);
    if (logits_read(bytes + 8, 4) != VERSION)
        return command_error(ENGINE_ERROR_DATA, "%s: version %u of the format; this program reads %d",
                             f->path, (unsigned)logits_read(bytes + 8, 4), VERSION);
    *h = (struct logits_header){.n_vocab = (uint32_t)logits_read(bytes + 12, 4),
                                .n_window = (uint32_t)logits_read(bytes + 16, 4),
                                .stride = (uint32_t)logits_read(bytes + 20, 4),
                                .bos = (int32_t)(uint32_t)logits_read(bytes + 24, 4),
                                .n_tokens = logits_read(bytes + 32, 8),
                                .n_rows = logits_read(bytes + 40, 8),
                                .vocabulary = logits_read(bytes + 48, 8)};
    if (h->n_vocab == 0 || h->n_vocab > INT32_MAX || h->n_tokens > INT32_MAX || h->n_rows == 0 ||
        h->n_rows > h->n_tokens || h->n_window < 2 || h->stride > h->n_window || h->bos < -1 ||
        h->bos >= (int64_t)h->n_vocab)
        return logits_damaged(f, "its header makes no sense");
    return ENGINE_OK;
}

/* Devices and pipes have no size. */
static int check_size(const struct logits_file *f)
{
    struct stat info;
    uint64_t expected = HEADER_SIZE + 4 * f->header.n_tokens + f->header.n_rows * row_size(f);
    if (fstat(fileno(f->file), &info) != 0 || !S_ISREG(info.st_mode)) return ENGINE_OK;
    if ((uint64_t)info.st_size == expected) return ENGINE_OK;
    return command_error(ENGINE_ERROR_DATA, "%s: %s: it has %llu bytes instead of %llu", f->path,
                         (uint64_t)info.st_size < expected ? "truncated" : "damaged",
                         (unsigned long long)info.st_size, (unsigned long long)expected);
}

static int read_all(const struct logits_file *f, void *bytes, size_t size)
{
    if (fread(bytes, 1, size, f->file) == size) return ENGINE_OK;
    if (ferror(f->file)) return command_error(ENGINE_ERROR_DATA, "%s: %s", f->path, strerror(errno));
    return command_error(ENGINE_ERROR_DATA, "%s: truncated", f->path);
}

static int read_file_tokens(const struct logits_file *f, const unsigned char *bytes, int32_t **tokens)
{
    size_t n = (size_t)f->header.n_tokens;
    unsigned char *encoded = malloc(4 * n + 1), again[HEADER_SIZE];
    int32_t *ids = malloc((n + 1) * sizeof *ids);
    int status = encoded && ids ? read_all(f, encoded, 4 * n)
                                : command_error(ENGINE_ERROR_MEMORY, "out of memory (%s)", f->path);
    if (!status) {
        encode_header(&f->header, encoded, again);
        if (memcmp(again, bytes, sizeof again) != 0)
            status = logits_damaged(f, "its header or its tokens have changed");
    }
    for (size_t i = 0; i < n && !status; i++) {
        ids[i] = (int32_t)(uint32_t)logits_read(encoded + 4 * i, 4);
        if (ids[i] < 0 || (uint32_t)ids[i] >= f->header.n_vocab)
            status = logits_damaged(f, "a token is out of range");
    }
    free(encoded);
    if (status)
        free(ids);
    else
        *tokens = ids;
    return status;
}

int logits_file_open(struct logits_file *f, const char *path, int32_t **tokens)
{
    unsigned char bytes[HEADER_SIZE];
    *f = (struct logits_file){.path = path};
    f->file = fopen(path, "rb");
    if (!f->file) return command_error(ENGINE_ERROR_DATA, "%s: %s", path, strerror(errno));
    f->owned = 1;
    memset(bytes, 0, sizeof bytes);
    size_t n = fread(bytes, 1, sizeof bytes, f->file);
    int status = n >= 8 && memcmp(bytes, MAGIC, 8) == 0 && n < sizeof bytes
                     ? command_error(ENGINE_ERROR_DATA, "%s: truncated", path)
                     : check_header(f, bytes);
    if (!status) status = check_size(f);
    if (!status) status = read_file_tokens(f, bytes, tokens);
    return status ? status : make_row(f);
}

/* Decodes the codes. Rounding and the limited range change the sum of the probabilities, so it is made 1
 * again. */
static void decode_row(const struct logits_file *f, struct logits_row *row)
{
    float highest = get_float(f->row + 4), step = get_float(f->row + 8);
    double total = 0;
    unsigned least = CODES + 1;
    for (uint32_t i = 0; i < f->header.n_vocab; i++) {
        unsigned code = (unsigned)logits_read(f->row + ROW_BEGIN + 2 * (size_t)i, 2);
        if (code < least) {
            least = code;
            row->best = (int32_t)i;
        }
        row->logprobs[i] = highest - step * (float)code;
        total += exp((double)row->logprobs[i]);
    }
    float correction = total > 0 ? (float)log(total) : 0;
    for (uint32_t i = 0; i < f->header.n_vocab; i++) row->logprobs[i] -= correction;
}

int logits_file_read(struct logits_file *f, struct logits_row *row)
{
    size_t size = row_size(f) - 8;
    int status = read_all(f, f->row, size + 8);
    if (status) return status;
    if (logits_read(f->row + size, 8) != hash_bytes(HASH_BASIS, f->row, size)) {
        char what[64];
        snprintf(what, sizeof what, "prediction %llu has changed", (unsigned long long)f->n_done);
        return logits_damaged(f, what);
    }
    row->actual = get_float(f->row);
    if (!isfinite(get_float(f->row + 4)) || !isfinite(get_float(f->row + 8)))
        return logits_damaged(f, "a number is not finite");
    decode_row(f, row);
    f->n_done++;
    return ENGINE_OK;
}

void logits_file_close(struct logits_file *f)
{
    free(f->row);
    if (f->owned) fclose(f->file);
    *f = (struct logits_file){0};
}
