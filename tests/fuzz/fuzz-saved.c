/* fuzz-saved.c: fuzzing target: saved sequences. Input: a file as engine_sequence_save writes it for the
 * small model here, as it is, and with what it says of the model, of its size and its hashes put right. It is
 * loaded, and then continued and saved again, or refused with a reason. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "context/context.h"
#include "engine.h"
#include "gguf-writer.h"
#include "tokenizers.h"

enum { N_VOCAB = 320, N_CONTEXT = 70 };

/* Where things are in a file, and how large, see context/saved.c. */
enum { FINGERPRINT = 24, FILE_SIZE = 32, TOKEN_COUNT = 40, HEADER_HASH = 48, HEADER_END = 56, HASH_SIZE = 8 };
enum { N_CACHES = 2, ENTRY_SIZE = 16, BLOCK_COUNT = 12, BLOCK_SIZE = 512 };

static void log_nothing(void *user, enum engine_log_level level, const char *line)
{
    (void)user, (void)level, (void)line;
}

static struct engine_context *the_context(void)
{
    static struct engine *engine;
    static struct engine_model *model;
    static struct engine_context *context;
    const struct engine_options options = {
        .struct_size = sizeof options,
        .plugin_dirs = (const char *const[]){TEST_PLUGIN_DIR, NULL},
        .config_file = TEST_SOURCE_DIR "/../conf/engine.conf",
        .log = log_nothing,
    };
    const struct engine_context_options wish = {.struct_size = sizeof wish,
                                                .n_context = N_CONTEXT,
                                                .n_sequences = 2,
                                                .n_threads = 1,
                                                .backends = "cpu"};
    const struct tiny_llama config = {.seed = 1,
                                      .type = ENGINE_TYPE_F32,
                                      .n_layers = 1,
                                      .n_embd = 16,
                                      .n_heads = 2,
                                      .n_kv_heads = 1,
                                      .n_ff = 16,
                                      .n_vocab = N_VOCAB,
                                      .window = 8};
    char path[] = "/tmp/fuzz-saved-XXXXXX";
    if (context) return context;
    int file = mkstemp(path);
    if (file < 0 || !write_tiny_llama(path, &config)) fuzz_fail("no model file");
    close(file);
    if (engine_open(&options, &engine) || engine_model_open(engine, path, NULL, &model) ||
        engine_context_create(model, &wish, &context))
        fuzz_fail("no context");
    unlink(path);
    return context;
}

static int count(void *user, const void *data, size_t size)
{
    (void)data;
    *(size_t *)user += size;
    return 0;
}

/* Runs a token after what was loaded, and saves it. */
static void use(struct engine_context *context)
{
    static float logits[N_VOCAB];
    const int32_t token = 5;
    size_t size = 0;
    struct engine_batch batch = {.struct_size = sizeof batch, .n_tokens = 1, .tokens = &token};
    if (engine_sequence_length(context, 0) < N_CONTEXT && engine_decode(context, &batch, logits))
        fuzz_fail("what was loaded can't be continued");
    if (engine_sequence_save(context, 0, count, &size) || size < HEADER_END)
        fuzz_fail("what was loaded can't be saved");
}

static void load(const uint8_t *data, size_t size)
{
    char path[64];
    int file = memfd_create("saved", MFD_CLOEXEC);
    if (file < 0 || write(file, data, size) != (ssize_t)size) fuzz_fail("no file");
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    struct engine_context *context = the_context();
    engine_sequence_truncate(context, 0, 0);
    if (engine_sequence_load(context, 0, path) == ENGINE_OK)
        use(context);
    else if (!*engine_error_message() || strchr(engine_error_message(), '\n'))
        fuzz_fail("a refusal without a reason");
    else if (engine_sequence_length(context, 0) > 0)
        fuzz_fail("something of a refused file");
    close(file);
}

/* Hashes `count` pieces and moves on past them. */
static uint64_t hash_pieces(uint64_t hash, const uint8_t **at, size_t size, size_t count_of_them)
{
    for (; count_of_them > 0; count_of_them--, *at += size) hash = hash_add(hash, *at, size);
    return hash;
}

/* How many blocks the file has, by its table of the caches; an impossible number if that is cut off. */
static size_t count_blocks(const uint8_t *data, size_t size)
{
    size_t n_blocks = 0;
    if (size < HEADER_END + N_CACHES * ENTRY_SIZE) return size;
    for (size_t i = 0; i < N_CACHES; i++) {
        uint32_t n;
        memcpy(&n, data + HEADER_END + i * ENTRY_SIZE + BLOCK_COUNT, sizeof n);
        n_blocks += n % (N_CONTEXT + 1);
    }
    return n_blocks;
}

/* Puts the model, the size and both hashes right, the last one if the file has the length that its number of
 * tokens asks for. */
static void mend(uint8_t *data, size_t size)
{
    uint64_t file_size = size, fingerprint = context_fingerprint(the_context());
    uint32_t n_tokens;
    memcpy(data + FINGERPRINT, &fingerprint, sizeof fingerprint);
    memcpy(data + FILE_SIZE, &file_size, sizeof file_size);
    uint64_t hash = hash_add(1, data, HEADER_HASH);
    memcpy(data + HEADER_HASH, &hash, sizeof hash);
    memcpy(&n_tokens, data + TOKEN_COUNT, sizeof n_tokens);
    if (n_tokens > N_CONTEXT) return;
    size_t n_blocks = count_blocks(data, size);
    if (size != HEADER_END + N_CACHES * ENTRY_SIZE + n_tokens * 4 + n_blocks * BLOCK_SIZE + HASH_SIZE) return;
    const uint8_t *at = data;
    hash = hash_pieces(1, &at, HEADER_END, 1);
    hash = hash_pieces(hash, &at, ENTRY_SIZE, N_CACHES);
    hash = hash_pieces(hash, &at, n_tokens * 4, 1);
    hash = hash_pieces(hash, &at, BLOCK_SIZE, n_blocks);
    memcpy(data + size - HASH_SIZE, &hash, sizeof hash);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    load(data, size);
    if (size < HEADER_END + HASH_SIZE) return 0;
    uint8_t *mended = malloc(size);
    if (!mended) abort();
    memcpy(mended, data, size);
    mend(mended, size);
    load(mended, size);
    free(mended);
    return 0;
}
