/* link.c: see link.h. A message is sent in parts, because MPI counts with int. The tag of a part is its kind,
 * with MORE if it isn't the last one. */
#include "link.h"

#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "common/assert.h"
#include "common/lock.h"
#include "launcher.h"

#define PART (UINT64_C(64) << 20)
#define LEAP 0.5 /* seconds */
/* Seconds between two questions of one who waits, and of a wait whose end is looked out for. */
#define SHORT_NAP 20e-6
#define LONG_NAP  2e-3
#define MAX_DUE   0.5
/* Bytes that have come from a process and that nobody has taken, after which no more are fetched. */
#define KEPT (UINT64_C(128) << 20)
#define BEAT 1.0 /* seconds between signs of life (link_beat) */

enum { MORE = 16, KINDS = 5 };

/* A message that has come, or that goes. */
struct parcel {
    struct parcel *next;
    struct bytes bytes;
    int rank;           /* that it goes to */
    size_t left;        /* parts that have yet to go */
    MPI_Request *parts; /* [n_parts]; the last one may be followed by nothing */
    size_t n_parts;
};

struct line {
    struct parcel *first, **last;
};

/* Another process. */
struct peer {
    struct line come[KINDS]; /* whole messages, by kind */
    struct bytes coming[KINDS];
    bool is_fetching; /* a part is being received: */
    MPI_Request request;
    int tag;
    uint64_t kept, unsent;
    double heard;
    bool is_told; /* a sign of life has yet to leave */
};

static struct {
    pthread_mutex_t lock; /* held whenever MPI is asked, and for what follows */
    pthread_cond_t work;
    pthread_t thread;
    bool has_begun, has_thread, ends, computes;
    bool sleeps; /* the thread */
    bool beats;
    double last_beat; /* by MPI's clock */
    int rank, size;
    struct peer *peers; /* [size] */
    struct line going;
    struct line broken;       /* those that could not be sent as a whole: MPI may still read them */
    char failure[LINK_ERROR]; /* the first */
} all = {.lock = LOCK_INITIALIZER, .work = PTHREAD_COND_INITIALIZER};

/* Whoever waits asks every few milliseconds. If nobody has for longer than LEAP, this process may have stood
 * still, and what came meanwhile has not been looked at: that time doesn't count against others. */
double link_now(void)
{
    static pthread_mutex_t clock_lock = PTHREAD_MUTEX_INITIALIZER;
    static double last, skipped;
    struct timespec time;
    pthread_mutex_lock(&clock_lock);
    clock_gettime(CLOCK_MONOTONIC, &time);
    const double real = (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
    if (last > 0 && real - last > LEAP) skipped += real - last - LEAP;
    last = real;
    const double now = real - skipped;
    pthread_mutex_unlock(&clock_lock);
    return now;
}

/* A part of the wait so far, unless the message is due by what such waits have taken. */
static double nap_length(double waited, double usual)
{
    if (waited < MAX_DUE && waited > usual * 7 / 8 && waited < usual * 9 / 8) return SHORT_NAP;
    const double seconds = waited / 64;
    return seconds < SHORT_NAP ? SHORT_NAP : seconds > LONG_NAP ? LONG_NAP : seconds;
}

/* Whether a message has begun to come. */
static bool is_coming(void)
{
    bool comes = false;
    pthread_mutex_lock(&all.lock);
    for (int rank = 0; rank < all.size; rank++) comes |= all.peers[rank].is_fetching;
    pthread_mutex_unlock(&all.lock);
    return comes;
}

void link_rest(double waited, double usual)
{
    static _Thread_local bool is_exact;
    if (waited < 50e-6) {
        sched_yield();
        return;
    }
    if (!is_exact) prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL); /* otherwise naps are 50 us longer */
    is_exact = true;
    const double seconds = is_coming() ? SHORT_NAP : nap_length(waited, usual);
    struct timespec time = {.tv_nsec = (long)(seconds * 1e9)};
    nanosleep(&time, NULL);
}

/* Whether a launcher started this process: without one, MPI would begin to be one. */
static bool was_launched(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i])) return true;
    return false;
}

static bool link_explain(int code, const char *what, char error[LINK_ERROR])
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    snprintf(error, LINK_ERROR, "%s: %.*s", what, (int)strcspn(text, "\n"), text);
    return false;
}

/* ---- Lines of messages --------------------------------------------------------------------------------- */

static void line_add(struct line *line, struct parcel *parcel)
{
    parcel->next = NULL;
    if (line->first)
        *line->last = parcel;
    else
        line->first = parcel;
    line->last = &parcel->next;
}

static void parcel_free(struct parcel *parcel)
{
    bytes_free(&parcel->bytes);
    free(parcel->parts);
    free(parcel);
}

/* A message that goes, which it takes over. NULL: out of memory. */
static struct parcel *parcel_make(int rank, struct bytes *message)
{
    struct parcel *parcel = message->failed ? NULL : calloc(1, sizeof *parcel);
    if (parcel) {
        parcel->rank = rank;
        parcel->n_parts = parcel->left = message->size ? (size_t)((message->size + PART - 1) / PART) : 1;
        parcel->parts = malloc(parcel->n_parts * sizeof(*parcel->parts));
    }
    if (!parcel || !parcel->parts) {
        free(parcel);
        bytes_free(message);
        return NULL;
    }
    parcel->bytes = *message;
    *message = (struct bytes){0};
    return parcel;
}

static void line_free(struct line *line)
{
    while (line->first) {
        struct parcel *next = line->first->next;
        parcel_free(line->first);
        line->first = next;
    }
}

/* ---- What MPI does; all with the lock held ------------------------------------------------------------- */

static void link_fail(int code, const char *what)
{
    if (!all.failure[0] && code != MPI_SUCCESS) link_explain(code, what, all.failure);
}

static void fail_memory(void)
{
    if (!all.failure[0]) snprintf(all.failure, sizeof all.failure, "out of memory (message)");
}

/* Lets go of messages that have left. */
static void look_after_going(void)
{
    ENGINE_ASSERT(lock_is_mine(&all.lock));
    for (struct parcel **at = &all.going.first; *at;) {
        struct parcel *parcel = *at;
        struct peer *peer = &all.peers[parcel->rank];
        for (int done = 1; parcel->left > 0 && done;) {
            int code = MPI_Test(&parcel->parts[parcel->n_parts - parcel->left], &done, MPI_STATUS_IGNORE);
            if (code != MPI_SUCCESS) {
                link_fail(code, "a message can't be sent");
                return;
            }
            parcel->left -= (size_t)done;
            if (done && parcel->bytes.size > 0) peer->heard = link_now();
        }
        if (parcel->left > 0) {
            at = &parcel->next;
            continue;
        }
        ENGINE_ASSERT(peer->unsent >= parcel->bytes.size);
        peer->unsent -= parcel->bytes.size;
        if (parcel->bytes.size == 0) peer->is_told = false;
        *at = parcel->next;
        if (!*at) all.going.last = at;
        parcel_free(parcel);
    }
}

/* Begins to receive the next part from a process, if there is one. */
static bool link_fetch(int rank, struct peer *peer)
{
    MPI_Message incoming;
    MPI_Status status;
    int found = 0, size = 0;
    ENGINE_ASSERT(lock_is_mine(&all.lock));
    ENGINE_ASSERT(!peer->is_fetching);
    int code = MPI_Improbe(rank, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &incoming, &status);
    if (code == MPI_SUCCESS && !found) return false;
    if (code == MPI_SUCCESS) code = MPI_Get_count(&status, MPI_BYTE, &size);
    if (code != MPI_SUCCESS) {
        link_fail(code, "a message can't be received");
        return false;
    }
    peer->tag = status.MPI_TAG;
    int kind = peer->tag & ~MORE;
    if (kind <= 0 || kind >= KINDS) {
        snprintf(all.failure, sizeof all.failure, "rank %d sent something that is no message", rank);
        return false;
    }
    void *place = bytes_grow(&peer->coming[kind], (size_t)size);
    if (peer->coming[kind].failed) {
        fail_memory();
        return false;
    }
    code = MPI_Imrecv(place, size, MPI_BYTE, &incoming, &peer->request);
    link_fail(code, "a message can't be received");
    peer->is_fetching = code == MPI_SUCCESS;
    return peer->is_fetching;
}

/* A part has come. */
static void link_keep(struct peer *peer)
{
    int kind = peer->tag & ~MORE;
    ENGINE_ASSERT(peer->is_fetching && kind > 0 && kind < KINDS);
    peer->is_fetching = false;
    peer->heard = link_now();
    if (peer->tag & MORE) return;
    if (kind == LINK_LIFE) {
        peer->coming[kind].size = 0;
        return;
    }
    struct parcel *parcel = calloc(1, sizeof *parcel);
    if (!parcel) {
        fail_memory();
        return;
    }
    parcel->bytes = peer->coming[kind];
    peer->coming[kind] = (struct bytes){0};
    peer->kept += parcel->bytes.size;
    line_add(&peer->come[kind], parcel);
}

static void look_after(void)
{
    ENGINE_ASSERT(lock_is_mine(&all.lock));
    look_after_going();
    for (int rank = 0; rank < all.size && !all.failure[0]; rank++) {
        struct peer *peer = &all.peers[rank];
        if (rank == all.rank) continue;
        while (!all.failure[0]) {
            int done = 0;
            if (!peer->is_fetching && (peer->kept > KEPT || !link_fetch(rank, peer))) break;
            link_fail(MPI_Test(&peer->request, &done, MPI_STATUS_IGNORE), "a message can't be received");
            if (!done) break;
            link_keep(peer);
        }
    }
}

/* Sends a message. False: MPI fails. */
static bool post(struct parcel *parcel, enum link_kind kind, char error[LINK_ERROR])
{
    struct peer *peer = &all.peers[parcel->rank];
    int code = MPI_SUCCESS;
    ENGINE_ASSERT(lock_is_mine(&all.lock));
    ENGINE_ASSERT(parcel->rank != all.rank && parcel->rank < all.size);
    if (kind == LINK_LIFE && peer->is_told) {
        parcel_free(parcel);
        return true;
    }
    for (size_t i = 0; i < parcel->n_parts && code == MPI_SUCCESS; i++) {
        uint64_t at = i * PART, left = parcel->bytes.size - at;
        bool is_last = i + 1 == parcel->n_parts;
        static uint8_t nothing[1];
        code = MPI_Isend(parcel->bytes.data ? parcel->bytes.data + at : nothing, (int)(is_last ? left : PART),
                         MPI_BYTE, parcel->rank, (int)kind + (is_last ? 0 : MORE), MPI_COMM_WORLD,
                         &parcel->parts[i]);
    }
    bool good = code == MPI_SUCCESS && !all.failure[0];
    if (code == MPI_SUCCESS) {
        peer->unsent += parcel->bytes.size;
        peer->is_told |= kind == LINK_LIFE;
        line_add(&all.going, parcel);
        look_after_going();
        if (all.going.first && all.sleeps) pthread_cond_signal(&all.work);
    } else {
        line_add(&all.broken, parcel);
        link_explain(code, "a message can't be sent", error);
    }
    if (!good && code == MPI_SUCCESS) memcpy(error, all.failure, LINK_ERROR);
    return good;
}

/* Signs of life for all others, if it is time. */
static void beat(void)
{
    ENGINE_ASSERT(lock_is_mine(&all.lock));
    if (!all.beats || all.failure[0] || MPI_Wtime() - all.last_beat < BEAT) return;
    all.last_beat = MPI_Wtime();
    for (int rank = 0; rank < all.size; rank++) {
        struct bytes nothing = {0};
        char error[LINK_ERROR];
        struct parcel *parcel = rank == all.rank ? NULL : parcel_make(rank, &nothing);
        if (parcel) post(parcel, LINK_LIFE, error);
    }
}

/* Waits for work, for so many seconds at most. */
static void wait_for_work(double seconds)
{
    struct timespec time;
    ENGINE_ASSERT(lock_is_mine(&all.lock));
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_nsec += (long)(seconds * 1e9);
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&all.work, &all.lock, &time);
}

/* Looks after messages while nobody else does. It isn't woken for each one: it sleeps for good once there has
 * been nothing to do for some time. */
static void *link_run(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&all.lock);
    for (unsigned idle = 0; !all.ends;) {
        beat();
        bool has_work = all.computes || all.going.first;
        idle = has_work ? 0 : idle + 1;
        all.sleeps = idle > 200;
        if (all.sleeps) {
            if (all.beats)
                wait_for_work(BEAT);
            else
                pthread_cond_wait(&all.work, &all.lock);
            continue;
        }
        if (has_work) look_after();
        bool moves = all.going.first != NULL;
        for (int rank = 0; rank < all.size; rank++) moves |= all.peers[rank].is_fetching;
        wait_for_work(moves ? 0.2e-3 : 1e-3);
    }
    pthread_mutex_unlock(&all.lock);
    return NULL;
}

/* ---- Beginning and end --------------------------------------------------------------------------------- */

bool link_begin(char error[LINK_ERROR])
{
    int provided = MPI_THREAD_SINGLE;
    if (!was_launched()) {
        snprintf(error, LINK_ERROR, "neither mpirun nor srun started this program; see docs/cluster.md");
        return false;
    }
    int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    if (code != MPI_SUCCESS) return link_explain(code, "MPI doesn't start", error);
    all.has_begun = true;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_size(MPI_COMM_WORLD, &all.size);
    MPI_Comm_rank(MPI_COMM_WORLD, &all.rank);
    if (provided < MPI_THREAD_SERIALIZED) {
        snprintf(error, LINK_ERROR, "this MPI does not work in programs with threads");
        return false;
    }
    if (all.size < 2) {
        snprintf(error, LINK_ERROR,
                 "there is only one process: start workers beside it; see docs/cluster.md");
        return false;
    }
    all.peers = calloc((size_t)all.size, sizeof *all.peers);
    all.has_thread = all.peers && pthread_create(&all.thread, NULL, link_run, NULL) == 0;
    if (!all.has_thread) snprintf(error, LINK_ERROR, "out of memory (messages)");
    return all.has_thread;
}

int link_rank(void)
{
    return all.rank;
}

int link_size(void)
{
    return all.size;
}

/* Waits until everything has left, for as long as it moves. */
static void let_go(void)
{
    double start = link_now();
    for (bool goes = true; goes && link_now() - start < 10;) {
        pthread_mutex_lock(&all.lock);
        look_after_going();
        goes = all.going.first != NULL && !all.failure[0];
        pthread_mutex_unlock(&all.lock);
        if (goes) link_rest(link_now() - start, 0);
    }
}

void link_end(bool together)
{
    if (!all.has_begun) return;
    if (together) let_go();
    if (all.has_thread) {
        pthread_mutex_lock(&all.lock);
        all.ends = true;
        pthread_cond_signal(&all.work);
        pthread_mutex_unlock(&all.lock);
        pthread_join(all.thread, NULL);
    }
    if (together)
        MPI_Finalize();
    else
        launcher_end_later();
    for (int rank = 0; all.peers && together && rank < all.size; rank++)
        for (int kind = 0; kind < KINDS; kind++) {
            line_free(&all.peers[rank].come[kind]);
            bytes_free(&all.peers[rank].coming[kind]);
        }
    if (together) free(all.peers);
    all.peers = together ? NULL : all.peers;
    all.has_begun = all.has_thread = false;
}

/* ---- Messages ------------------------------------------------------------------------------------------ */

bool link_post(int rank, enum link_kind kind, struct bytes *message, char error[LINK_ERROR])
{
    struct parcel *parcel = parcel_make(rank, message);
    if (!parcel) {
        snprintf(error, LINK_ERROR, "out of memory (message)");
        return false;
    }
    pthread_mutex_lock(&all.lock);
    bool good = post(parcel, kind, error);
    pthread_mutex_unlock(&all.lock);
    return good;
}

uint64_t link_unsent(int rank)
{
    pthread_mutex_lock(&all.lock);
    look_after_going();
    uint64_t unsent = all.peers[rank].unsent;
    pthread_mutex_unlock(&all.lock);
    return unsent;
}

int link_take(int rank, enum link_kind kind, struct bytes *message, char error[LINK_ERROR])
{
    pthread_mutex_lock(&all.lock);
    struct peer *peer = &all.peers[rank];
    struct line *line = &peer->come[kind];
    if (!line->first && !all.failure[0]) look_after();
    struct parcel *parcel = line->first;
    int result = parcel ? 1 : all.failure[0] ? -1 : 0;
    if (parcel) {
        line->first = parcel->next;
        peer->kept -= parcel->bytes.size;
        bytes_free(message);
        *message = parcel->bytes;
        free(parcel);
    } else if (result < 0) {
        memcpy(error, all.failure, LINK_ERROR);
    }
    pthread_mutex_unlock(&all.lock);
    return result;
}

double link_heard(int rank)
{
    pthread_mutex_lock(&all.lock);
    double heard = all.peers[rank].heard;
    pthread_mutex_unlock(&all.lock);
    return heard;
}

void link_beat(void)
{
    pthread_mutex_lock(&all.lock);
    all.beats = true;
    pthread_cond_signal(&all.work);
    pthread_mutex_unlock(&all.lock);
}

void link_attend(bool computes)
{
    pthread_mutex_lock(&all.lock);
    if (computes && all.sleeps) pthread_cond_signal(&all.work);
    all.computes = computes;
    pthread_mutex_unlock(&all.lock);
}
