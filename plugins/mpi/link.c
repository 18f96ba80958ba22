/* link.c: see link.h. A message is sent in parts, because MPI counts with int: the first begins with the length of the
 * whole (u64). */
#include "link.h"

#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PART (UINT64_C(64) << 20)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held whenever MPI is asked */
static bool has_begun;

double link_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Sleeps between two questions, about a sixteenth of the time that has been waited already: a short wait ends at once,
 * and a long one costs no processor. */
static void rest(double waited)
{
    if (waited < 20e-6) {
        sched_yield();
        return;
    }
    double seconds = waited / 16;
    if (seconds > 2e-3) seconds = 2e-3;
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

static bool explain(int code, const char *what, char error[LINK_ERROR])
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    snprintf(error, LINK_ERROR, "%s: %.*s", what, (int)strcspn(text, "\n"), text);
    return false;
}

bool link_begin(char error[LINK_ERROR])
{
    int provided = MPI_THREAD_SINGLE, size = 0;
    if (!was_launched()) {
        snprintf(error, LINK_ERROR, "neither mpirun nor srun started this program; see docs/cluster.md");
        return false;
    }
    int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    if (code != MPI_SUCCESS) return explain(code, "MPI doesn't start", error);
    has_begun = true;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (provided < MPI_THREAD_SERIALIZED)
        snprintf(error, LINK_ERROR, "this MPI does not work in programs with threads");
    else if (size < 2)
        snprintf(error, LINK_ERROR,
                 "there is only one process: start workers beside it; see docs/cluster.md");
    else
        return true;
    return false;
}

int link_rank(void)
{
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

int link_size(void)
{
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
}

void link_end(bool together)
{
    if (has_begun && together) {
        pthread_mutex_lock(&lock);
        MPI_Finalize();
        pthread_mutex_unlock(&lock);
    }
    has_begun = false;
}

/* Waits until one part has been sent. */
static bool send_part(int rank, int kind, const uint8_t *data, int size, double seconds,
                      char error[LINK_ERROR])
{
    MPI_Request request;
    pthread_mutex_lock(&lock);
    int done = 0, code = MPI_Isend(data, size, MPI_BYTE, rank, kind, MPI_COMM_WORLD, &request);
    if (code == MPI_SUCCESS) code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    pthread_mutex_unlock(&lock);
    for (double start = link_now(), waited = 0; code == MPI_SUCCESS && !done;) {
        rest(waited);
        pthread_mutex_lock(&lock);
        code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        pthread_mutex_unlock(&lock);
        waited = link_now() - start;
        if (!done && seconds > 0 && waited > seconds) {
            snprintf(error, LINK_ERROR, "it has taken nothing for %.0f s", waited);
            return false;
        }
    }
    return code == MPI_SUCCESS ? true : explain(code, "a message can't be sent", error);
}

bool link_send(int rank, enum link_kind kind, const struct bytes *message, double seconds,
               char error[LINK_ERROR])
{
    struct bytes first = {0};
    uint64_t part = message->size < PART ? message->size : PART;
    bytes_add_u64(&first, message->size);
    bytes_add(&first, message->data, (size_t)part);
    if (first.failed) snprintf(error, LINK_ERROR, "out of memory (message)");
    bool sent = !first.failed && send_part(rank, (int)kind, first.data, (int)first.size, seconds, error);
    bytes_free(&first);
    for (uint64_t at = part; sent && at < message->size; at += part) {
        part = message->size - at < PART ? message->size - at : PART;
        sent = send_part(rank, (int)kind, message->data + at, (int)part, seconds, error);
    }
    return sent;
}

/* Takes signs of life that have come. */
static int take_lives(int rank, bool *lives)
{
    int code = MPI_SUCCESS, found = 1;
    while (code == MPI_SUCCESS && found) {
        MPI_Message message;
        MPI_Status status;
        char nothing[1];
        code = MPI_Improbe(rank, LINK_LIFE, MPI_COMM_WORLD, &found, &message, &status);
        if (code != MPI_SUCCESS || !found) break;
        *lives = true;
        code = MPI_Mrecv(nothing, 1, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    }
    return code;
}

/* Waits for the next part, and adds it to `message`. */
static bool receive_part(int rank, int kind, struct bytes *message, double seconds, char error[LINK_ERROR])
{
    int code = MPI_SUCCESS, found = 0, size = 0;
    MPI_Message incoming;
    MPI_Status status;
    for (double start = link_now(), waited = 0; code == MPI_SUCCESS && !found; waited = link_now() - start) {
        bool lives = false;
        if (seconds > 0 && waited > seconds) {
            snprintf(error, LINK_ERROR, "it has said nothing for %.0f s", waited);
            return false;
        }
        if (waited > 0) rest(waited);
        pthread_mutex_lock(&lock);
        code = MPI_Improbe(rank, kind, MPI_COMM_WORLD, &found, &incoming, &status);
        if (code == MPI_SUCCESS && !found && kind == LINK_REPLY) code = take_lives(rank, &lives);
        pthread_mutex_unlock(&lock);
        if (lives) start = link_now();
    }
    if (code == MPI_SUCCESS) code = MPI_Get_count(&status, MPI_BYTE, &size);
    if (code != MPI_SUCCESS) return explain(code, "a message can't be received", error);
    uint8_t *place = bytes_grow(message, (size_t)size);
    if (!place) {
        snprintf(error, LINK_ERROR, "out of memory (message)");
        return false;
    }
    pthread_mutex_lock(&lock);
    MPI_Request request;
    int done = 0;
    code = MPI_Imrecv(place, size, MPI_BYTE, &incoming, &request);
    pthread_mutex_unlock(&lock);
    for (double start = link_now(), waited = 0; code == MPI_SUCCESS && !done; waited = link_now() - start) {
        if (seconds > 0 && waited > seconds) {
            snprintf(error, LINK_ERROR, "a message stopped in its middle %.0f s ago", waited);
            return false;
        }
        if (waited > 0) rest(waited);
        pthread_mutex_lock(&lock);
        code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        pthread_mutex_unlock(&lock);
    }
    return code == MPI_SUCCESS ? true : explain(code, "a message can't be received", error);
}

bool link_receive(int rank, enum link_kind kind, struct bytes *message, double seconds,
                  char error[LINK_ERROR])
{
    uint64_t size = 0;
    message->size = 0;
    message->failed = false;
    if (!receive_part(rank, (int)kind, message, seconds, error)) return false;
    if (message->size >= sizeof size) memcpy(&size, message->data, sizeof size);
    if (message->size < sizeof size || message->size - sizeof size > size) {
        snprintf(error, LINK_ERROR, "it sent something that is no message");
        return false;
    }
    message->size -= sizeof size;
    memmove(message->data, message->data + sizeof size, message->size);
    while (message->size < size) {
        size_t before = message->size;
        if (!receive_part(rank, (int)kind, message, seconds, error)) return false;
        if (message->size == before || message->size > size) {
            snprintf(error, LINK_ERROR, "it sent something that is no message");
            return false;
        }
    }
    return true;
}

void link_live(void)
{
    static const char nothing[1];
    MPI_Request request;
    pthread_mutex_lock(&lock);
    if (MPI_Isend(nothing, 1, MPI_BYTE, 0, LINK_LIFE, MPI_COMM_WORLD, &request) == MPI_SUCCESS)
        MPI_Request_free(&request);
    pthread_mutex_unlock(&lock);
}
