/* engine-threads.c: the library under several threads at once, as engine.h allows: each thread has a model and
 * contexts of its own, all of one engine. What they compute must be what one thread computes alone.
 *
 * A plain program, not a Criterion test, so that it runs under ThreadSanitizer, whose findings are the better
 * half of it.
 *
 * usage: engine-threads PLUGIN_DIR SCRATCH_FILE.gguf */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "gguf-writer.h"

#define N_USERS  3
#define N_TOKENS 24
#define N_VOCAB  320 /* tiny_llama's */

struct user {
    struct engine *engine;
    const char *path;
    uint32_t n_threads;
    float *logits; /* [N_TOKENS, N_VOCAB] */
    int status;
};

static void log_to_stderr(void *user, enum engine_log_level level, const char *line)
{
    (void)user;
    if (level <= ENGINE_LOG_WARNING) fprintf(stderr, "engine-threads: %s\n", line);
}

static int decode_all(struct engine_model *model, uint32_t n_threads, float *logits)
{
    struct engine_context_options options = {.struct_size = sizeof options,
                                             .n_threads = n_threads,
                                             .n_batch = 16,
                                             .cache_type = "f32",
                                             .backends = "cpu"};
    struct engine_context *context;
    int status = engine_context_create(model, &options, &context);
    if (status != ENGINE_OK) return status;

    int32_t tokens[N_TOKENS];
    uint8_t wanted[N_TOKENS];
    for (int32_t i = 0; i < N_TOKENS; i++) tokens[i] = 3 + i * 7;
    memset(wanted, 1, sizeof wanted);
    const struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = N_TOKENS, .tokens = tokens, .wanted = wanted};
    status = engine_decode(context, &batch, logits);
    engine_context_destroy(context);
    return status;
}

static void *use_engine(void *argument)
{
    struct user *user = argument;
    struct engine_model *model;
    user->status = engine_model_open(user->engine, user->path, NULL, &model);
    if (user->status == ENGINE_OK) {
        for (int round = 0; round < 2 && user->status == ENGINE_OK; round++)
            user->status = decode_all(model, user->n_threads, user->logits);
        engine_model_close(model);
    }
    if (user->status != ENGINE_OK) fprintf(stderr, "engine-threads: %s\n", engine_error_message());
    return NULL;
}

/* Runs users[1 …] at once, as the first that touch the devices, and compares what they got with users[0], alone. */
static int run_users(struct user *users)
{
    pthread_t threads[N_USERS];
    int n_started = 1;
    while (n_started < N_USERS &&
           pthread_create(&threads[n_started], NULL, use_engine, &users[n_started]) == 0)
        n_started++;
    for (int i = 1; i < n_started; i++) pthread_join(threads[i], NULL);
    use_engine(&users[0]);

    int n_bad = n_started < N_USERS;
    for (int i = 0; i < n_started; i++) {
        const bool same = memcmp(users[0].logits, users[i].logits, sizeof(float[N_TOKENS * N_VOCAB])) == 0;
        if (users[i].status == ENGINE_OK && same) continue;
        fprintf(stderr, "engine-threads: user %d: status %d, logits %s\n", i, users[i].status,
                same ? "as alone" : "other than alone");
        n_bad++;
    }
    return n_bad;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: engine-threads PLUGIN_DIR SCRATCH_FILE.gguf\n");
        return 2;
    }
    const char *const plugin_dirs[] = {argv[1], NULL};
    const struct engine_options options = {
        .struct_size = sizeof options, .plugin_dirs = plugin_dirs, .log = log_to_stderr};
    struct engine *engine;
    if (!write_tiny_llama(argv[2], &(struct tiny_llama){.seed = 7, .type = ENGINE_TYPE_Q8_0}) ||
        engine_open(&options, &engine) != ENGINE_OK) {
        fprintf(stderr, "engine-threads: can't start: %s\n", engine_error_message());
        return 1;
    }

    struct user users[N_USERS];
    for (uint32_t i = 0; i < N_USERS; i++) {
        users[i] =
            (struct user){.engine = engine, .path = argv[2], .n_threads = i + 1, .status = ENGINE_ERROR};
        users[i].logits = calloc(N_TOKENS * N_VOCAB, sizeof(float));
        if (!users[i].logits) abort();
    }
    const int n_bad = run_users(users);
    for (int i = 0; i < N_USERS; i++) free(users[i].logits);
    engine_close(engine);
    return n_bad > 0;
}
