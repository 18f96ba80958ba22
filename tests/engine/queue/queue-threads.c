/* queue-threads.c: the queue under several threads at once: one runs it, five submit, cancel and poll. What
 * comes must be what each request gives alone. The fifth searches with beams, for the same each time.
 *
 * A plain program, not a Criterion test, so that it runs under ThreadSanitizer, whose findings are the better
 * half of it.
 *
 * usage: queue-threads PLUGIN_DIR SCRATCH_FILE.gguf [LATE_DIR]
 *
 * With a third argument, the folder of the test plugin `late`, the queue computes several steps at once, and
 * there is no search. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine.h"
#include "gguf-writer.h"
#include "queue-requests.h"

#define N_USERS   4
#define N_SAMPLES 16 /* of each user */
#define N_VOCAB   320

static struct engine *engine;
static struct engine_model *model;
static struct engine_queue *queue;

struct user {
    uint32_t number;
    pthread_mutex_t lock; /* over done: callbacks come from the thread that runs the queue */
    pthread_cond_t all_done;
    uint32_t n_done;
    int n_bad;
    struct sample samples[N_SAMPLES];
};

static void log_to_stderr(void *user, enum engine_log_level level, const char *line)
{
    (void)user;
    if (level <= ENGINE_LOG_WARNING) fprintf(stderr, "queue-threads: %s\n", line);
}

static struct engine_context *open_context(uint32_t n_sequences, bool late)
{
    static const char *const place[] = {"token_embd*=late0", "blk.0.*=late0", "*=late1", NULL};
    const int32_t offload = ENGINE_OFFLOAD_ALL;
    struct engine_context_options options = {.struct_size = sizeof options,
                                             .n_context = 96,
                                             .n_batch = 32,
                                             .n_sequences = n_sequences,
                                             .n_threads = late ? 1 : 2,
                                             .cache_type = "f32",
                                             .backends = late ? "late" : "cpu",
                                             .place = late ? place : NULL,
                                             .offload = late ? &offload : NULL,
                                             .n_cache = late ? 1024 : 256};
    struct engine_context *context;
    if (engine_context_create(model, &options, &context) == ENGINE_OK) return context;
    fprintf(stderr, "queue-threads: %s\n", engine_error_message());
    exit(1);
}

/* The sample's own fields are the callback's until the last event, and the user's after it. */
struct callback {
    struct user *user;
    struct sample *sample;
};

static void take(void *argument, const struct engine_event *event)
{
    struct callback *callback = argument;
    sample_take(callback->sample, event);
    if (event->kind != ENGINE_EVENT_DONE) return;
    pthread_mutex_lock(&callback->user->lock);
    callback->user->n_done++;
    pthread_cond_signal(&callback->user->all_done);
    pthread_mutex_unlock(&callback->user->lock);
}

static void poll_to_the_end(uint64_t id)
{
    struct engine_event *event;
    while (engine_queue_poll(queue, id, -1, &event) == ENGINE_OK && event) {
        sample_take(event->user, event);
        engine_event_free(event);
    }
}

/* Users 0 and 1 have callbacks, 2 and 3 poll. Every fifth request is cancelled, every third
 * one keeps its sequence. */
static void *use_queue(void *argument)
{
    struct user *user = argument;
    bool calls = user->number < 2;
    struct callback callbacks[N_SAMPLES];
    uint64_t ids[N_SAMPLES];
    for (uint32_t i = 0; i < N_SAMPLES; i++) {
        struct sample *sample = &user->samples[i];
        callbacks[i] = (struct callback){user, sample};
        sample->request.event = calls ? take : NULL;
        if (calls) sample->request.user = &callbacks[i];
        sample->request.priority = (int32_t)(i % 2);
        if (i % 3 == 0) sample->request.flags |= ENGINE_REQUEST_KEEP;
        while (engine_queue_submit(queue, &sample->request, &ids[i]) == ENGINE_ERROR_BUSY) usleep(1000);
        if (i % 5 == 4) engine_queue_cancel(queue, ids[i - 2]);
        struct engine_queue_info info = {.struct_size = sizeof info};
        engine_queue_get_info(queue, &info);
    }
    for (uint32_t i = 0; i < N_SAMPLES && !calls; i++) poll_to_the_end(ids[i]);
    pthread_mutex_lock(&user->lock);
    while (calls && user->n_done < N_SAMPLES) pthread_cond_wait(&user->all_done, &user->lock);
    pthread_mutex_unlock(&user->lock);
    for (uint32_t i = 0; i < N_SAMPLES; i++) user->n_bad += !sample_agrees(&user->samples[i]);
    return NULL;
}

/* ---- Beams ---- */

#define N_SEARCHES 12
#define N_BEAMS    3
#define N_NEW      24

struct search {
    struct engine_event *found[N_SEARCHES]; /* the last events */
    int n_bad;
};

static struct engine_event *last_event(uint64_t id)
{
    struct engine_event *event;
    while (engine_queue_poll(queue, id, -1, &event) == ENGINE_OK && event) {
        if (event->kind == ENGINE_EVENT_DONE) return event;
        engine_event_free(event);
    }
    return NULL;
}

static bool is_same(const struct engine_event *a, const struct engine_event *b)
{
    if (!a || !b || a->n_beams != N_BEAMS || b->n_beams != N_BEAMS) return false;
    for (uint32_t i = 0; i < N_BEAMS; i++) {
        const struct engine_beam *x = &a->beams[i], *y = &b->beams[i];
        if (x->n_tokens != y->n_tokens || x->score != y->score || x->text.length != y->text.length)
            return false;
        if (memcmp(x->tokens, y->tokens, x->n_tokens * sizeof *x->tokens) != 0) return false;
    }
    return true;
}

/* Every fourth search is cancelled, at any time. */
static void *search_with_beams(void *argument)
{
    static int32_t prompt[20];
    struct search *search = argument;
    for (int i = 0; i < 20; i++) prompt[i] = 30 + i * i % 97;
    struct engine_request request = {.struct_size = sizeof request,
                                     .tokens = prompt,
                                     .n_tokens = 20,
                                     .max_tokens = N_NEW,
                                     .flags = ENGINE_REQUEST_IGNORE_END | ENGINE_REQUEST_PROGRESS,
                                     .n_beams = N_BEAMS,
                                     .length_penalty = 1};
    for (int i = 0; i < N_SEARCHES; i++) {
        uint64_t id;
        request.priority = i % 2;
        while (engine_queue_submit(queue, &request, &id) == ENGINE_ERROR_BUSY) usleep(1000);
        if (i % 4 == 3) engine_queue_cancel(queue, id);
        search->found[i] = last_event(id);
        search->n_bad += i % 4 == 3 ? !search->found[i] : !is_same(search->found[0], search->found[i]);
    }
    for (int i = 0; i < N_SEARCHES; i++) engine_event_free(search->found[i]);
    if (search->n_bad > 0) fprintf(stderr, "queue-threads: %d searches differ\n", search->n_bad);
    return NULL;
}

/* ---- All together ---- */

static void *run_queue(void *argument)
{
    (void)argument;
    if (engine_queue_run(queue, ENGINE_QUEUE_STOPPED) != ENGINE_OK)
        fprintf(stderr, "queue-threads: %s\n", engine_error_message());
    return NULL;
}

static int run_users(struct user *users, bool searches)
{
    pthread_t runner, searcher, threads[N_USERS];
    struct search search = {0};
    int n_bad = 0;
    if (pthread_create(&runner, NULL, run_queue, NULL) != 0) return 1;
    for (uint32_t i = 0; i < N_USERS; i++)
        if (pthread_create(&threads[i], NULL, use_queue, &users[i]) != 0) abort();
    if (searches && pthread_create(&searcher, NULL, search_with_beams, &search) != 0) abort();
    for (uint32_t i = 0; i < N_USERS; i++) pthread_join(threads[i], NULL);
    if (searches) pthread_join(searcher, NULL);
    engine_queue_stop(queue, 0);
    pthread_join(runner, NULL);
    for (uint32_t i = 0; i < N_USERS; i++) {
        if (users[i].n_bad > 0)
            fprintf(stderr, "queue-threads: user %u: %d requests are not as alone\n", i, users[i].n_bad);
        n_bad += users[i].n_bad;
    }
    return n_bad + search.n_bad;
}

/* One user without threads, whose requests are all there when the queue begins: several steps at once for
 * sure. Among threads, it depends on who is faster. */
static int run_by_itself(struct user *user)
{
    uint64_t ids[N_SAMPLES];
    for (uint32_t i = 0; i < N_SAMPLES; i++)
        if (engine_queue_submit(queue, &user->samples[i].request, &ids[i]) != ENGINE_OK) return 1;
    if (engine_queue_run(queue, ENGINE_QUEUE_IDLE) != ENGINE_OK) return 1;
    for (uint32_t i = 0; i < N_SAMPLES; i++) {
        poll_to_the_end(ids[i]);
        user->n_bad += !sample_agrees(&user->samples[i]);
    }
    return user->n_bad;
}

/* `longest`: tokens of a prompt. */
static void create_user(struct user *user, uint32_t number, uint32_t longest, struct engine_context *alone)
{
    user->number = number;
    pthread_mutex_init(&user->lock, NULL);
    pthread_cond_init(&user->all_done, NULL);
    for (uint32_t i = 0; i < N_SAMPLES; i++) {
        sample_create(&user->samples[i], number * N_SAMPLES + i, N_VOCAB, longest, 30);
        if (sample_run_alone(&user->samples[i], model, alone) == ENGINE_OK) continue;
        fprintf(stderr, "queue-threads: %s\n", engine_error_message());
        exit(1);
    }
}

/* The most steps that were on their way at once, as the plugin has counted. */
static unsigned long most_at_once(const char *late_dir)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/late.so", late_dir);
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    atomic_ulong *most = library ? dlsym(library, "late_most") : NULL;
    unsigned long count = most ? atomic_load(most) : 0;
    if (library) dlclose(library);
    return count;
}

int main(int argc, char **argv)
{
    if (argc != 3 && argc != 4) {
        fprintf(stderr, "usage: queue-threads PLUGIN_DIR SCRATCH_FILE.gguf [LATE_DIR]\n");
        return 2;
    }
    const bool late = argc == 4;
    const char *const plugin_dirs[] = {argv[1], argv[3], NULL};
    const struct engine_options options = {
        .struct_size = sizeof options, .plugin_dirs = plugin_dirs, .log = log_to_stderr};
    if (!write_tiny_llama(argv[2], &(struct tiny_llama){.seed = 7, .type = ENGINE_TYPE_Q8_0}) ||
        engine_open(&options, &engine) != ENGINE_OK ||
        engine_model_open(engine, argv[2], NULL, &model) != ENGINE_OK) {
        fprintf(stderr, "queue-threads: can't start: %s\n", engine_error_message());
        return 1;
    }
    struct user *users = calloc(N_USERS + 1, sizeof *users);
    if (!users) abort();
    struct engine_context *alone = open_context(1, false), *context = open_context(late ? 24 : 12, late);
    for (uint32_t i = 0; i < N_USERS; i++) create_user(&users[i], i, 60, alone);
    create_user(&users[N_USERS], N_USERS, 4, alone);
    struct engine_queue_options queue_options = {.struct_size = sizeof queue_options,
                                                 .n_waiting = late ? 64 : 20};
    if (engine_queue_create(context, &queue_options, &queue) != ENGINE_OK) abort();
    int n_bad = run_by_itself(&users[N_USERS]);
    n_bad += run_users(users, !late);
    if (late && most_at_once(argv[3]) != 2) {
        fprintf(stderr, "queue-threads: %lu steps at once\n", most_at_once(argv[3]));
        n_bad++;
    }
    engine_queue_destroy(queue);
    engine_context_destroy(context);
    engine_context_destroy(alone);
    engine_model_close(model);
    engine_close(engine);
    free(users);
    return n_bad > 0;
}
