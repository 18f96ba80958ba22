/* workers.c: the workers, as rank 0 knows them (see remote.h). */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "common/lock.h"
#include "common/printable.h"
#include "link.h"
#include "remote.h"

enum {
    MUCH = 32 << 20,      /* bytes of commands that are sent although nobody waits for them */
    MOST = 64 << 20,      /* that may be on their way */
    GREETING = 60,        /* seconds in which a worker has to say what it has: drivers may start slowly */
    DEFAULT_TIMEOUT = 10, /* seconds without a sign of life */
    NOT_SEARCHED = -2,    /* in place of an engine_status */
    SEARCHING = -1        /* and waiting, perhaps, which gives up the lock */
};

static struct {
    pthread_mutex_t lock;
    int status;                              /* of the search for workers */
    char reason[LINK_ERROR + PROTOCOL_TEXT]; /* why there is no cluster, or why the search failed */
    struct worker *workers;                  /* [n] */
    uint32_t n;
    double timeout;
    double looked; /* when replies were last looked for */
} all = {.lock = LOCK_INITIALIZER, .status = NOT_SEARCHED};

void workers_lock(void)
{
    pthread_mutex_lock(&all.lock);
}

void workers_unlock(void)
{
    pthread_mutex_unlock(&all.lock);
}

uint32_t workers_count(void)
{
    return all.n;
}

struct worker *worker_at(uint32_t number)
{
    return &all.workers[number];
}

/* Passes a reason on. That of a search which fails is kept, for whoever asks for the cluster again. */
static int give_reason(int status, const char *format, ...)
{
    char text[sizeof all.reason];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (all.status != ENGINE_OK) memcpy(all.reason, text, sizeof text);
    return mpi_host->fail(status, "%s", text);
}

int worker_fail(const struct worker *worker, int status, const char *format, ...)
{
    char text[PROTOCOL_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    printable_make(text);
    return give_reason(status, "worker %d%s%s: %s", worker->rank, worker->host[0] ? " on " : "", worker->host,
                       text);
}

/* From now on, nothing is sent to it. What is said of it later is why it was lost. */
static int workers_lose(struct worker *worker, const char *reason)
{
    if (!worker->is_lost) snprintf(worker->why, sizeof worker->why, "%s", reason);
    worker->is_lost = true;
    return worker_fail(worker, ENGINE_ERROR_GONE, "%s: it has ended, hangs or can't be reached", worker->why);
}

size_t command_begin(struct worker *worker, enum command command)
{
    ENGINE_ASSERT(lock_is_mine(&all.lock));
    if (worker->out.size == 0) {
        bytes_add_u32(&worker->out, PROTOCOL_MAGIC);
        bytes_add_u32(&worker->out, 0);
    }
    bytes_add_u32(&worker->out, command);
    return bytes_reserve_u64(&worker->out);
}

void command_end(struct worker *worker, size_t begun)
{
    ENGINE_ASSERT(lock_is_mine(&all.lock));
    bytes_set_length(&worker->out, begun);
}

/* Sends one worker's commands. */
static int send_commands(struct worker *worker, struct reply *reply)
{
    ENGINE_ASSERT(lock_is_mine(&all.lock));
    char error[LINK_ERROR] = "";
    const uint32_t wants = reply != NULL;
    if (worker->is_lost) return workers_lose(worker, "");
    if (worker->out.failed) {
        workers_lose(worker, "out of memory (message)"); /* it would miss some of the commands */
        return worker_fail(worker, ENGINE_ERROR_MEMORY, "out of memory (message)");
    }
    memcpy(worker->out.data + sizeof(uint32_t), &wants, sizeof wants);
    worker->sends = worker->takes = false;
    worker->n_messages++;
    worker->bytes_out += worker->out.size;
    if (!link_post(worker->rank, LINK_MESSAGE, &worker->out, error)) return workers_lose(worker, error);
    if (!reply) return ENGINE_OK;
    reply->next = NULL;
    reply->is_here = false;
    if (!worker->first) worker->asked = link_now();
    *(worker->first ? worker->last : &worker->first) = reply;
    worker->last = &reply->next;
    return ENGINE_OK;
}

int worker_send(struct worker *worker, struct reply *reply)
{
    for (uint32_t i = 0; worker->takes && i < all.n; i++) {
        struct worker *other = &all.workers[i];
        int status = other != worker && other->sends ? send_commands(other, NULL) : ENGINE_OK;
        if (status) return status;
    }
    return send_commands(worker, reply);
}

/* How long a worker that owes something had been silent when replies were last looked for. */
static double silence(const struct worker *worker)
{
    double heard = link_heard(worker->rank), since = heard > worker->asked ? heard : worker->asked;
    return all.looked - since;
}

/* If this process itself stood still, so may have the others: their time begins anew. */
static void forgive_own_pause(void)
{
    const double now = link_now();
    for (uint32_t i = 0; now - all.looked > 1 && i < all.n; i++) all.workers[i].asked = now;
    all.looked = now;
}

/* Takes all replies that have come, and finds workers that are silent: what one waits for may depend on
 * another. */
static int look_around(void)
{
    char error[LINK_ERROR] = "";
    /* Without one, others may wait for what it should have handed them, for as long as they live. */
    for (uint32_t i = 0; i < all.n; i++)
        if (all.workers[i].is_lost) return workers_lose(&all.workers[i], "");
    forgive_own_pause();
    for (uint32_t i = 0; i < all.n; i++) {
        struct worker *worker = &all.workers[i];
        while (worker->first) {
            struct reply *reply = worker->first;
            int taken = link_take(worker->rank, LINK_REPLY, &reply->bytes, error);
            if (taken < 0) return workers_lose(worker, error);
            if (taken == 0) break;
            worker->first = reply->next;
            worker->asked = link_now();
            worker->n_replies++;
            worker->bytes_in += reply->bytes.size;
            reply->is_here = true;
        }
        if (!worker->first || all.timeout <= 0 || silence(worker) <= all.timeout) continue;
        snprintf(error, sizeof error, "it has said nothing for %.0f s", silence(worker));
        return workers_lose(worker, error);
    }
    return ENGINE_OK;
}

int worker_look(const struct reply *reply, bool *is_here)
{
    int status = reply->is_here ? ENGINE_OK : look_around();
    *is_here = reply->is_here;
    return status;
}

/* Nobody looks at a reply again that never came. */
static void workers_forget_reply(struct worker *worker, const struct reply *reply)
{
    struct reply **at = &worker->first;
    while (*at && *at != reply) at = &(*at)->next;
    if (!*at) return;
    *at = reply->next;
    if (!*at) worker->last = at;
}

int worker_await(struct worker *worker, struct reply *reply)
{
    double start = link_now();
    for (;;) {
        bool is_here;
        int status = worker_look(reply, &is_here);
        const double waited = link_now() - start;
        if (is_here) {
            worker->usual = waited;
            return ENGINE_OK;
        }
        if (!status && worker->is_lost) status = workers_lose(worker, "");
        if (status) {
            workers_forget_reply(worker, reply);
            return status;
        }
        const double usual = worker->usual;
        workers_unlock();
        link_rest(waited, usual);
        workers_lock();
    }
}

int worker_relieve(struct worker *worker)
{
    double start = link_now();
    int status = worker->out.size < MUCH ? ENGINE_OK : worker_send(worker, NULL);
    if (!status && !worker->first) worker->asked = start;
    while (!status && link_unsent(worker->rank) > MOST) {
        status = look_around();
        if (!status && all.timeout > 0 && silence(worker) > all.timeout)
            return workers_lose(worker, "it has taken nothing for some time");
        link_rest(link_now() - start, 0);
    }
    return status;
}

int worker_read_reply(struct worker *worker, const struct bytes *bytes, struct reader *answer)
{
    char text[PROTOCOL_TEXT];
    *answer = (struct reader){.at = bytes->data, .left = bytes->size};
    uint32_t number = read_u32(answer), rank = read_u32(answer);
    read_text(answer, text, sizeof text);
    if (answer->failed || rank > all.n) return workers_lose(worker, "its reply is no reply");
    if (number == ENGINE_OK) return ENGINE_OK;
    int status = number <= ENGINE_ERROR_BUSY ? (int)number : ENGINE_ERROR;
    return worker_fail(rank > 0 ? &all.workers[rank - 1] : worker, status, "%s",
                       text[0] ? text : "it failed without a reason");
}

int worker_ask(struct worker *worker, struct reader *answer)
{
    struct reply reply = {0};
    *answer = (struct reader){.failed = true};
    int status = worker_send(worker, &reply);
    if (!status) status = worker_await(worker, &reply);
    bytes_free(&worker->in);
    worker->in = reply.bytes;
    return status ? status : worker_read_reply(worker, &worker->in, answer);
}

int worker_read_all(struct worker *worker, const struct reader *answer)
{
    return answer->failed || answer->left > 0
               ? workers_lose(worker, "its reply has another length than it should")
               : ENGINE_OK;
}

void worker_tell(struct worker *worker, enum command command, uint32_t number)
{
    workers_lock();
    size_t begun = command_begin(worker, command);
    bytes_add_u32(&worker->out, number);
    command_end(worker, begun);
    workers_unlock();
}

/* ---- Finding them -------------------------------------------------------------------------------------- */

static int greet(struct worker *worker)
{
    char version[64];
    struct reader answer;
    size_t begun = command_begin(worker, COMMAND_HELLO);
    bytes_add_u32(&worker->out, PROTOCOL_VERSION);
    bytes_add_u32(&worker->out, mpi_host->abi_major);
    bytes_add_u32(&worker->out, mpi_host->abi_minor);
    bytes_add_text(&worker->out, MPI_PLUGIN_VERSION);
    command_end(worker, begun);
    int status = worker_ask(worker, &answer);
    if (status) return status;
    uint32_t protocol = read_u32(&answer), major = read_u32(&answer), minor = read_u32(&answer);
    read_text(&answer, version, sizeof version);
    read_text(&answer, worker->host, sizeof worker->host);
    printable_make(version);
    printable_make(worker->host);
    if (!answer.failed && (protocol != PROTOCOL_VERSION || major != mpi_host->abi_major ||
                           minor != mpi_host->abi_minor || strcmp(version, MPI_PLUGIN_VERSION) != 0))
        return worker_fail(
            worker, ENGINE_ERROR_UNSUPPORTED,
            "it has version %s (interface %u.%u, messages %u), but this is %s (%u.%u, %u): install "
            "the same version everywhere",
            version, major, minor, protocol, MPI_PLUGIN_VERSION, mpi_host->abi_major, mpi_host->abi_minor,
            PROTOCOL_VERSION);
    worker->has_model = read_u32(&answer) == 1;
    worker->n_devices = read_u32(&answer);
    if (worker->n_devices > PROTOCOL_DEVICES) answer.failed = true;
    for (uint32_t i = 0; i < worker->n_devices && !answer.failed; i++) {
        read_text(&answer, worker->names[i], sizeof worker->names[i]);
        if (worker->names[i][strspn(worker->names[i], "abcdefghijklmnopqrstuvwxyz0123456789._-")])
            answer.failed = true;
    }
    return worker_read_all(worker, &answer);
}

/* Seconds until the reply to `size` bytes is here, the least of several times; less than 0: the worker is
 * lost. */
static double time_echo(struct worker *worker, size_t size, int times)
{
    double least = -1;
    for (int i = 0; i < times; i++) {
        struct reader answer;
        size_t begun = command_begin(worker, COMMAND_ECHO);
        void *place = bytes_grow(&worker->out, size);
        if (place) memset(place, 0, size);
        command_end(worker, begun);
        double start = link_now();
        if (worker_ask(worker, &answer)) return -1;
        double seconds = link_now() - start;
        if (least < 0 || seconds < least) least = seconds;
    }
    return least;
}

/* Messages long enough to take a millisecond measure the link's bytes per second. */
static int measure_link(struct worker *worker)
{
    double around = time_echo(worker, 0, 8), there = around;
    size_t size = 64 << 10;
    while (there >= 0 && there < around + 1e-3 && size < 8 << 20) there = time_echo(worker, size *= 2, 3);
    if (around < 0 || there < 0) return ENGINE_ERROR_DEVICE;
    worker->n_messages = worker->n_replies = worker->bytes_out = worker->bytes_in = 0; /* these don't count */
    worker->link_latency = (uint64_t)(around / 2 * 1e9) + 1;
    worker->link_bandwidth = there - around > 1e-9 ? (uint64_t)((double)size / (there - around)) : 0;
    mpi_host->log(ENGINE_LOG_INFO, "worker %d on %s: link of %.3g ms and %.3g MB/s", worker->rank,
                  worker->host, (double)worker->link_latency * 1e-6, (double)worker->link_bandwidth * 1e-6);
    return ENGINE_OK;
}

double workers_timeout(void)
{
    const char *text = mpi_host->setting("mpi", "timeout");
    double seconds = text ? strtod(text, NULL) : 0;
    return seconds >= 1 ? seconds : DEFAULT_TIMEOUT;
}

void workers_forget(void)
{
    workers_lock();
    bool together = all.status == ENGINE_OK;
    for (uint32_t i = 0; i < all.n; i++) {
        struct worker *worker = &all.workers[i];
        if (worker->is_lost) together = false;
    }
    for (uint32_t i = 0; i < all.n && together; i++) {
        struct worker *worker = &all.workers[i];
        command_end(worker, command_begin(worker, COMMAND_END));
        if (send_commands(worker, NULL)) together = false;
    }
    workers_unlock();
    if (all.status != NOT_SEARCHED) link_end(together);
    for (uint32_t i = 0; i < all.n; i++) {
        struct worker *worker = &all.workers[i];
        bytes_free(&worker->out);
        bytes_free(&worker->in);
        for (uint32_t k = 0; worker->known && k < KNOWN_ANSWERS; k++) bytes_free(&worker->known[k].question);
        free(worker->known);
    }
    free(all.workers);
    all.workers = NULL;
    all.n = 0;
    all.status = NOT_SEARCHED;
    all.reason[0] = '\0';
}

__attribute__((destructor)) static void leave(void)
{
    workers_forget();
}

static int workers_find_all(void)
{
    if (!link_begin(all.reason)) return ENGINE_OK;
    if (link_rank() == 0) link_beat(); /* workers end where rank 0 is silent */
    if (link_rank() != 0)
        return give_reason(ENGINE_ERROR,
                           "this is rank %d: only rank 0 may run a command, start `engine worker` here",
                           link_rank());
    uint32_t n = (uint32_t)link_size() - 1;
    all.workers = calloc(n, sizeof *all.workers);
    if (!all.workers) return give_reason(ENGINE_ERROR_MEMORY, "out of memory (workers)");
    all.timeout = GREETING;
    for (all.n = 0; all.n < n;) {
        struct worker *worker = &all.workers[all.n++];
        worker->rank = (int)all.n;
        worker->known = calloc(KNOWN_ANSWERS, sizeof *worker->known);
        if (!worker->known) return give_reason(ENGINE_ERROR_MEMORY, "out of memory (worker)");
        int status = greet(worker);
        if (!status) status = measure_link(worker);
        if (status) return status;
    }
    all.timeout = workers_timeout();
    all.reason[0] = '\0'; /* of what went well at a second try */
    return ENGINE_OK;
}

int workers_find(void)
{
    workers_lock();
    if (all.status == NOT_SEARCHED) {
        all.status = SEARCHING;
        all.status = workers_find_all();
    } else if (all.status > ENGINE_OK) {
        mpi_host->fail(all.status, "%s", all.reason);
    }
    const int status = all.status == SEARCHING ? ENGINE_OK : all.status;
    if (!status && all.reason[0]) mpi_host->fail(ENGINE_OK, "%s", all.reason);
    workers_unlock();
    return status;
}
