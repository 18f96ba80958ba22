/* cluster-spy.c: loaded before MPI into the processes of a cluster (LD_PRELOAD), through MPI's profiling
 * interface. In the folder that CLUSTER_SPY names, RANK.pid is a process's number. When it ends, RANK.said is
 * what it has said to others, and what rank 0 has got as answers: a line "TAG PEER MESSAGES BYTES" for each.
 * Messages that measure the link, and signs of life, are not counted.
 *
 * CLUSTER_FAULT="RANK MOMENT NUMBER SIGNAL MICROSECONDS" makes rank 0 send a signal to the process of a rank,
 * so long after it has sent it the command of that moment for that time: "loading" (a weight), "run" (a
 * recording's operations; the first batch is the prompt). For rank 0 it is what rank 1 is sent.
 *
 * CLUSTER_LINK="MICROSECONDS BYTES_PER_SECOND" lets messages arrive as late as over a network with this
 * latency and bandwidth. */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "link.h"
#include "protocol.h"

enum { TAGS = 8, PEERS = 64 };

/* A message that is here, and not yet to be seen. */
static struct {
    bool is_held;
    MPI_Message message;
    MPI_Status status;
    double due;
} held[PEERS];

static struct {
    double latency, bandwidth; /* seconds; bytes per second. 0: none of this */
    double busy_until[PEERS];
} network;

static struct {
    uint64_t messages, bytes;
} said[TAGS][PEERS];
static unsigned n_echoes[PEERS]; /* whose answers rank 0 has yet to get */

static struct {
    int rank, signal_number, heard_by; /* the rank whose commands tell the moment */
    unsigned long number, seen, microseconds;
    uint32_t command;
} fault;

static int own_rank = -1;

static FILE *open_file(int rank, const char *what, const char *mode)
{
    char path[4096];
    const char *folder = getenv("CLUSTER_SPY");
    if (!folder) return NULL;
    snprintf(path, sizeof path, "%s/%d.%s", folder, rank, what);
    return fopen(path, mode);
}

static void read_fault(void)
{
    char moment[16] = "";
    const char *text = getenv("CLUSTER_FAULT");
    if (!text || own_rank != 0) return;
    if (sscanf(text, "%d %15s %lu %d %lu", &fault.rank, moment, &fault.number, &fault.signal_number,
               &fault.microseconds) != 5)
        abort();
    fault.heard_by = fault.rank > 0 ? fault.rank : 1;
    fault.command = strcmp(moment, "loading") == 0 ? COMMAND_WEIGHT_END : COMMAND_REPLAY;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void read_network(void)
{
    const char *text = getenv("CLUSTER_LINK");
    if (!text) return;
    if (sscanf(text, "%lf %lf", &network.latency, &network.bandwidth) != 2) abort();
    network.latency *= 1e-6;
}

static void count(int tag, int rank, size_t size)
{
    said[tag][rank].messages++;
    said[tag][rank].bytes += size;
}

/* As MPI_Improbe, and counts answers. */
static int probe(int rank, int tag, MPI_Comm communicator, int *found, MPI_Message *message,
                 MPI_Status *status, size_t *size)
{
    int length = 0, code = PMPI_Improbe(rank, tag, communicator, found, message, status);
    if (code != MPI_SUCCESS || !*found) return code;
    PMPI_Get_count(status, MPI_BYTE, &length);
    *size = (size_t)length;
    if (own_rank != 0 || status->MPI_TAG != LINK_REPLY) return code;
    if (n_echoes[rank] > 0)
        n_echoes[rank]--;
    else
        count(LINK_REPLY, rank, *size);
    return code;
}

int MPI_Improbe(int rank, int tag, MPI_Comm communicator, int *found, MPI_Message *message,
                MPI_Status *status)
{
    size_t size = 0;
    if (rank < 0 || rank >= PEERS) return PMPI_Improbe(rank, tag, communicator, found, message, status);
    if (network.bandwidth == 0) return probe(rank, tag, communicator, found, message, status, &size);
    if (!held[rank].is_held) {
        int code = probe(rank, tag, communicator, found, message, status, &size);
        if (code != MPI_SUCCESS || !*found) return code;
        double begins = now();
        if (network.busy_until[rank] > begins) begins = network.busy_until[rank];
        network.busy_until[rank] = begins + (double)size / network.bandwidth;
        held[rank].is_held = true;
        held[rank].message = *message;
        held[rank].status = *status;
        held[rank].due = network.busy_until[rank] + network.latency;
    }
    *found = now() >= held[rank].due;
    if (!*found) return MPI_SUCCESS;
    *message = held[rank].message;
    *status = held[rank].status;
    held[rank].is_held = false;
    return MPI_SUCCESS;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    int code = PMPI_Init_thread(argc, argv, required, provided);
    if (code != MPI_SUCCESS) return code;
    PMPI_Comm_rank(MPI_COMM_WORLD, &own_rank);
    FILE *file = open_file(own_rank, "pid", "w");
    if (file) {
        fprintf(file, "%ld\n", (long)getpid());
        fclose(file);
    }
    read_fault();
    read_network();
    return code;
}

static void *strike(void *user)
{
    long pid = 0;
    (void)user;
    const struct timespec time = {.tv_sec = (time_t)(fault.microseconds / 1000000),
                                  .tv_nsec = (long)(fault.microseconds % 1000000) * 1000};
    nanosleep(&time, NULL);
    FILE *file = open_file(fault.rank, "pid", "r");
    if (!file || fscanf(file, "%ld", &pid) != 1) abort();
    fclose(file);
    kill((pid_t)pid, fault.signal_number);
    return NULL;
}

/* How often a message (the magic number, whether it wants a reply, commands) has a command. */
static unsigned long count_commands(const uint8_t *message, size_t size, uint32_t wanted)
{
    unsigned long count = 0;
    for (size_t at = 8; size >= 12 && at <= size - 12;) {
        uint32_t command;
        uint64_t length;
        memcpy(&command, message + at, sizeof command);
        memcpy(&length, message + at + 4, sizeof length);
        count += command == wanted;
        if (length > size - at - 12) break;
        at += 12 + length;
    }
    return count;
}

int MPI_Isend(const void *data, int n, MPI_Datatype type, int rank, int tag, MPI_Comm communicator,
              MPI_Request *request)
{
    int size = 0, code = PMPI_Isend(data, n, type, rank, tag, communicator, request);
    PMPI_Type_size(type, &size);
    const size_t length = (size_t)n * (size_t)size;
    if (tag < 0 || tag >= TAGS || rank < 0 || rank >= PEERS) return code;
    if (tag == LINK_MESSAGE && count_commands(data, length, COMMAND_ECHO))
        n_echoes[rank]++;
    else if (tag != LINK_REPLY && tag != LINK_LIFE)
        count(tag, rank, length);
    if (!fault.number || tag != LINK_MESSAGE || rank != fault.heard_by || fault.seen >= fault.number)
        return code;
    fault.seen += count_commands(data, length, fault.command);
    pthread_t thread;
    if (fault.seen >= fault.number && pthread_create(&thread, NULL, strike, NULL) == 0)
        pthread_detach(thread);
    return code;
}

__attribute__((destructor)) static void report(void)
{
    FILE *file = own_rank < 0 ? NULL : open_file(own_rank, "said", "w");
    if (!file) return;
    for (int tag = 0; tag < TAGS; tag++)
        for (int rank = 0; rank < PEERS; rank++)
            if (said[tag][rank].messages)
                fprintf(file, "%d %d %llu %llu\n", tag, rank, (unsigned long long)said[tag][rank].messages,
                        (unsigned long long)said[tag][rank].bytes);
    fclose(file);
}
