/* engine-threads.c: the library under several threads at once, as engine.h allows: each thread has a model
 * and contexts of its own, all of one engine. What they compute must be what one thread computes alone.
 *
 * And the CPU's threads when the system doesn't run them: the others do their part.
 *
 * A plain program, not a Criterion test, so that it runs under ThreadSanitizer, whose findings are the better
 * half of it.
 *
 * usage: engine-threads PLUGIN_DIR SCRATCH_FILE.gguf */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "engine.h"
#include "gguf-writer.h"

#define N_USERS  4
#define HELD     (N_USERS - 1) /* the user whose device's threads are held up */
#define N_TOKENS 24
#define N_VOCAB  320 /* tiny_llama's */

struct user {
    struct engine *engine;
    const char *path;
    uint32_t n_threads;
    bool held;     /* the device's threads are, except the one that calls */
    float *logits; /* [N_TOKENS, N_VOCAB] */
    int status;
};

static void log_to_stderr(void *user, enum engine_log_level level, const char *line)
{
    (void)user;
    if (level <= ENGINE_LOG_WARNING) fprintf(stderr, "engine-threads: %s\n", line);
}

/* ---- Threads that are held up ---------------------------------------------------------------------- */

#if defined(__SANITIZE_THREAD__)
#define HOLDS_THREADS 0 /* ThreadSanitizer puts signals off */
#elif defined(__has_feature)
#define HOLDS_THREADS (!__has_feature(thread_sanitizer))
#else
#define HOLDS_THREADS 1
#endif

enum { MAX_HELD = 64 };

static atomic_bool hold;
static atomic_int n_held;

static void rest(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
}

/* Of SIGUSR1: the thread does nothing else until it is let go. */
static void stay(int signal)
{
    (void)signal;
    atomic_fetch_add(&n_held, 1);
    while (atomic_load(&hold)) rest();
    atomic_fetch_sub(&n_held, 1);
}

/* Of SIGALRM. */
static void give_up(int signal)
{
    (void)signal;
    static const char message[] = "engine-threads: the run waits for threads that are held up\n";
    if (write(STDERR_FILENO, message, sizeof message - 1) > 0) _exit(1);
    _exit(1);
}

/* The ids of this process's threads; their number. */
static int list_threads(pid_t ids[MAX_HELD])
{
    DIR *folder = opendir("/proc/self/task");
    int n = 0;
    for (struct dirent *entry; folder && n < MAX_HELD && (entry = readdir(folder));)
        if (entry->d_name[0] != '.') ids[n++] = (pid_t)strtol(entry->d_name, NULL, 10);
    if (folder) closedir(folder);
    return n;
}

/* Waits until a thread sleeps: one that was held up while it started could hold a lock of the C library or of
 * a sanitizer, which the others need. */
static void await_sleep(pid_t id)
{
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)id);
    while (state != 'S') {
        FILE *file = fopen(path, "r");
        if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 0;
        if (file) fclose(file);
        rest();
    }
}

/* Holds up the threads that have begun since those of `before` were listed; their number. */
static int hold_new_threads(const pid_t *before, int n_before)
{
    signal(SIGUSR1, stay);
    signal(SIGALRM, give_up);
    alarm(600);
    pid_t now[MAX_HELD];
    int n_now = list_threads(now), n = 0;
    atomic_store(&hold, true);
    for (int i = 0; i < n_now; i++) {
        bool is_new = true;
        for (int j = 0; j < n_before; j++) is_new = is_new && now[i] != before[j];
        if (is_new) await_sleep(now[i]);
        if (is_new) n += syscall(SYS_tgkill, getpid(), now[i], SIGUSR1) == 0;
    }
    while (atomic_load(&n_held) < n) rest();
    return n;
}

static void let_go(void)
{
    atomic_store(&hold, false);
    while (atomic_load(&n_held) > 0) rest();
    alarm(0);
}

/* ---- Users ----------------------------------------------------------------------------------------- */

static int decode_all(struct engine_model *model, uint32_t n_threads, bool held, float *logits)
{
    pid_t before[MAX_HELD];
    const int n_before = held ? list_threads(before) : 0;
    struct engine_context_options options = {.struct_size = sizeof options,
                                             .n_threads = n_threads,
                                             .n_batch = 16,
                                             .cache_type = "f32",
                                             .backends = "cpu"};
    struct engine_context *context;
    int status = engine_context_create(model, &options, &context);
    if (status != ENGINE_OK) return status;
    if (held && hold_new_threads(before, n_before) < (int)n_threads - 1) {
        fprintf(stderr, "engine-threads: the CPU's threads aren't found\n");
        exit(1);
    }

    int32_t tokens[N_TOKENS];
    uint8_t wanted[N_TOKENS];
    for (int32_t i = 0; i < N_TOKENS; i++) tokens[i] = 3 + i * 7;
    memset(wanted, 1, sizeof wanted);
    const struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = N_TOKENS, .tokens = tokens, .wanted = wanted};
    status = engine_decode(context, &batch, logits);
    if (held) let_go();
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
            user->status = decode_all(model, user->n_threads, user->held, user->logits);
        engine_model_close(model);
    }
    if (user->status != ENGINE_OK) fprintf(stderr, "engine-threads: %s\n", engine_error_message());
    return NULL;
}

/* Runs users[1 …] at once, as the first that touch the devices, then users[0] and users[HELD], each alone,
 * and compares what they got. */
static int run_users(struct user *users)
{
    pthread_t threads[HELD];
    int n_started = 1;
    while (n_started < HELD && pthread_create(&threads[n_started], NULL, use_engine, &users[n_started]) == 0)
        n_started++;
    for (int i = 1; i < n_started; i++) pthread_join(threads[i], NULL);
    use_engine(&users[0]);
    use_engine(&users[HELD]);

    int n_bad = n_started < HELD;
    for (int i = 0; i < N_USERS; i++) {
        const bool same = memcmp(users[0].logits, users[i].logits, sizeof(float[N_TOKENS * N_VOCAB])) == 0;
        if (users[i].status == ENGINE_OK && same) continue;
        fprintf(stderr, "engine-threads: user %d: status %d, logits %s\n", i, users[i].status,
                same ? "as of one thread" : "other than of one thread");
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
        users[i].held = HOLDS_THREADS && i == HELD;
        users[i].logits = calloc(N_TOKENS * N_VOCAB, sizeof(float));
        if (!users[i].logits) abort();
    }
    const int n_bad = run_users(users);
    for (int i = 0; i < N_USERS; i++) free(users[i].logits);
    engine_close(engine);
    return n_bad > 0;
}
