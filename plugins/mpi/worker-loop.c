/* worker-loop.c: the loop of a worker: messages of rank 0 come in, replies go out. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "link.h"
#include "remote.h"
#include "work.h"

/* Rank 0, which gives signs of life however idle it is, may be silent for so many times the seconds after
 * which it gives up a worker: nobody has to wait here, and it may have been stopped for good reasons. */
#define PATIENCE 3
/* Seconds by which the next rank is more patient, so that one says why the run ends. */
#define LATER 0.1

static struct {
    double patience, start;
} silence;

static void begin_silence(void)
{
    double timeout = workers_timeout();
    int rank = link_rank() < 50 ? link_rank() : 50;
    silence.patience = PATIENCE * timeout + LATER * rank;
    silence.start = link_now();
}

/* Whether rank 0 has been silent for too long. */
static bool is_silent(char error[LINK_ERROR])
{
    double heard = link_heard(0), now = link_now();
    if (heard < silence.start) heard = silence.start;
    if (now - heard <= silence.patience) return false;
    snprintf(error, LINK_ERROR, "it has said nothing for %.0f s: it has ended, hangs or can't be reached",
             now - heard);
    return true;
}

/* What the thread that shows life needs to know. */
struct life {
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool is_busy, ends;
};

static void show_once(void)
{
    struct bytes nothing = {0};
    char error[LINK_ERROR];
    link_post(0, LINK_LIFE, &nothing, error);
}

/* While a message is being worked on, rank 0 hears twice a second that this process lives. */
static void *show_life(void *user)
{
    struct life *life = user;
    pthread_mutex_lock(&life->lock);
    while (!life->ends) {
        struct timespec time;
        clock_gettime(CLOCK_REALTIME, &time);
        time.tv_nsec += 500000000;
        time.tv_sec += time.tv_nsec / 1000000000;
        time.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&life->change, &life->lock, &time);
        if (life->is_busy) show_once();
    }
    pthread_mutex_unlock(&life->lock);
    return NULL;
}

/* Nobody is woken: it would cost each message some time. */
static void set_busy(struct life *life, bool is_busy)
{
    pthread_mutex_lock(&life->lock);
    life->is_busy = is_busy;
    pthread_mutex_unlock(&life->lock);
    link_attend(is_busy);
}

static void end(struct life *life)
{
    pthread_mutex_lock(&life->lock);
    life->ends = true;
    pthread_cond_signal(&life->change);
    pthread_mutex_unlock(&life->lock);
}

/* Waits for the next message of a process. *usual: what the last such wait took. */
static bool await(int rank, enum link_kind kind, double *usual, struct bytes *message, char error[LINK_ERROR])
{
    const double start = link_now();
    for (;;) {
        int taken = link_take(rank, kind, message, error);
        const double waited = link_now() - start;
        if (taken == 0) {
            if (waited > 1 && is_silent(error)) return false;
            link_rest(waited, *usual);
            continue;
        }
        *usual = waited;
        return taken > 0;
    }
}

static bool send_to_peer(int rank, struct bytes *message, char error[PROTOCOL_TEXT])
{
    return link_post(rank, LINK_PEER, message, error);
}

static bool take_from_peer(int rank, struct bytes *message, char error[PROTOCOL_TEXT])
{
    static double usual;
    return await(rank, LINK_PEER, &usual, message, error);
}

static int worker_run(struct work *work, struct life *life)
{
    struct bytes message = {0}, reply = {0};
    char error[LINK_ERROR];
    double usual = 0;
    int status = ENGINE_OK;
    for (;;) {
        if (!await(0, LINK_MESSAGE, &usual, &message, error)) {
            status = mpi_host->fail(ENGINE_ERROR_DEVICE, "no message from rank 0: %s", error);
            break;
        }
        set_busy(life, true);
        enum work_next next = work_do(work, message.data, message.size, &reply);
        set_busy(life, false);
        if (next == WORK_ENDS) break;
        if (next == WORK_CONTINUES) continue;
        if (!link_post(0, LINK_REPLY, &reply, error))
            status = mpi_host->fail(ENGINE_ERROR_DEVICE, "no reply to rank 0: %s", error);
        if (status) break;
    }
    bytes_free(&message);
    bytes_free(&reply);
    return status;
}

int serve(const struct engine_service *service)
{
    struct life life = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};
    char error[LINK_ERROR], host[64] = "";
    pthread_t thread;
    if (!link_begin(error)) return mpi_host->fail(ENGINE_ERROR_NOT_FOUND, "%s", error);
    if (link_rank() == 0) {
        return mpi_host->fail(
            ENGINE_ERROR_ARGUMENT,
            "this is rank 0, where a command such as `engine run` belongs; see docs/cluster.md");
    }
    gethostname(host, sizeof host - 1);
    begin_silence();
    const struct work_peers peers = {link_rank(), link_size(), send_to_peer, take_from_peer};
    struct work *work = work_create(service, &peers, host);
    if (!work || pthread_create(&thread, NULL, show_life, &life) != 0) {
        work_destroy(work);
        return mpi_host->fail(ENGINE_ERROR_MEMORY, "out of memory (worker)");
    }
    int status = worker_run(work, &life);
    end(&life);
    pthread_join(thread, NULL);
    work_destroy(work);
    link_end(!status);
    return status;
}
