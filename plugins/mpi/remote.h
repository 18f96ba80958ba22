/* remote.h: rank 0's side: the plugin's handles, which stand for things at workers, and the workers.
 *
 *   workers.c   the workers: found, asked, and what they last said
 *   device.c    their devices, and what these can do
 *   memory.c    buffers and weights
 *   stream.c    streams and recordings
 *
 * Commands that need no answer wait in the worker's message until it is sent: when something is asked, or
 * when a stream is flushed. A flush asks for the reply at once, with what was to be read, and the next wait
 * takes it when it is here: so a token costs each worker one message and one reply, and workers compute at
 * the same time.
 *
 * One lock protects all of this. Whoever waits for a reply gives it up meanwhile. */
#ifndef MPI_REMOTE_H
#define MPI_REMOTE_H

#include "bytes.h"
#include "plugin-api.h"
#include "protocol.h"

extern const struct engine_host *mpi_host;

/* What an answer was to a question that always has the same. */
struct known_answer {
    uint64_t hash;
    struct bytes question; /* no data: empty */
    uint64_t answer;
    uint32_t status;
};

enum { KNOWN_ANSWERS = 1024 };

/* A reply that is on its way, or here. */
struct reply {
    struct reply *next; /* from the same worker */
    struct bytes bytes;
    bool is_here;
};

struct worker {
    int rank;
    char host[64];
    uint32_t n_devices;
    char names[PROTOCOL_DEVICES][48]; /* as the worker calls them */
    struct bytes out;                 /* commands that have yet to be sent */
    bool sends, takes;                /* among them are such: what is taken has to be sent before */
    struct reply *first, **last;      /* replies that are on their way */
    double asked;                     /* when the first of them was */
    double usual;                     /* seconds that the last wait for one took */
    struct bytes in;                  /* the last reply to worker_ask */
    bool is_lost;
    char why[256];                                       /* it was lost, as first noticed */
    bool has_model;                                      /* of its own, whose weights need not be sent */
    uint64_t link_latency, link_bandwidth;               /* as in engine_device_info */
    uint64_t n_messages, n_replies, bytes_out, bytes_in; /* so far */
    struct known_answer *known;                          /* [KNOWN_ANSWERS] */
};

struct engine_device {
    struct worker *worker;
    uint32_t index, number;
};

struct engine_buffer {
    struct engine_device *device;
    uint64_t size;
    uint32_t number;
};

struct engine_weight {
    struct engine_device *device;
    uint32_t number;
};

/* ---- workers.c ---- */

/* Finds the workers when it is first called. A status with a message; without a launcher, no workers and a
 * message. */
int workers_find(void);
/* Ends together with the workers. One that is lost can't: then the launcher ends all. */
void workers_forget(void);
/* Seconds of silence after which a process is given up. */
double workers_timeout(void);
uint32_t workers_count(void);
struct worker *worker_at(uint32_t number);

void workers_lock(void);
void workers_unlock(void);

/* Everything that follows needs the lock, except worker_fail and worker_tell. */

/* Adds a command to the worker's message; command_end ends it. */
size_t command_begin(struct worker *worker, enum command command);
void command_end(struct worker *worker, size_t begun);
/* Sends what has been added. `reply`: which belongs to its last command; NULL: there will be none. A status
 * with a message. */
int worker_send(struct worker *worker, struct reply *reply);
/* Whether a reply is here; doesn't wait. A status with a message: a worker is lost. */
int worker_look(const struct reply *reply, bool *is_here);
/* Waits for a reply. A status with a message: a worker is lost. */
int worker_await(struct worker *worker, struct reply *reply);
/* The status of a reply that is here, with the worker's message, and its answer: valid as long as its
 * bytes. */
int worker_read_reply(struct worker *worker, const struct bytes *bytes, struct reader *answer);
/* Sends, waits and reads. *answer: valid until the next call. */
int worker_ask(struct worker *worker, struct reader *answer);
/* Sends what has been added if it is much, and waits while much is on its way. */
int worker_relieve(struct worker *worker);
/* The status of an answer that was read: an error if it was too short. Forgets the worker. */
int worker_read_all(struct worker *worker, const struct reader *answer);
/* Fails with a message that names the worker. */
int worker_fail(const struct worker *worker, int status, const char *format, ...) ENGINE_PRINTF(3, 4);

/* A command that consists of one number and has no answer. Takes the lock. */
void worker_tell(struct worker *worker, enum command command, uint32_t number);

/* ---- device.c ---- */

int device_count(uint32_t *count);
int device_info(uint32_t index, struct engine_device_info *info);
int device_open(uint32_t index, const struct engine_device_options *options, struct engine_device **device);
void device_close(struct engine_device *device);
int device_supports(struct engine_device *device, uint32_t op, const void *args);
int device_weight_size(struct engine_device *device, const struct engine_weight_desc *desc, uint64_t *bytes);
int device_op_memory(struct engine_device *device, uint32_t op, const void *args, uint64_t *bytes);

int device_traffic(struct engine_device *device, struct engine_traffic *traffic);

/* ---- memory.c ---- */

int buffer_create(struct engine_device *device, uint64_t size, struct engine_buffer **buffer);
void buffer_destroy(struct engine_buffer *buffer);
int weight_create(struct engine_device *device, const struct engine_weight_desc *desc,
                  struct engine_weight **weight);
void weight_destroy(struct engine_weight *weight);

/* ---- stream.c ---- */

int stream_create(struct engine_device *device, struct engine_stream **stream);
void stream_destroy(struct engine_stream *stream);
int stream_enqueue(struct engine_stream *stream, uint32_t op, const void *args);
int stream_write(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset,
                 const void *source, uint64_t size);
int stream_read(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset, void *target,
                uint64_t size);
int stream_copy(struct engine_stream *stream, struct engine_buffer *target, uint64_t target_offset,
                struct engine_buffer *source, uint64_t source_offset, uint64_t size);
int stream_flush(struct engine_stream *stream);
int stream_wait(struct engine_stream *stream);
int stream_done(struct engine_stream *stream, int *done);
int stream_mark(struct engine_stream *stream, uint64_t *mark);
int stream_wait_for(struct engine_stream *stream, uint64_t mark);
int stream_pass(struct engine_stream *source, struct engine_buffer *from, uint64_t from_offset,
                struct engine_stream *target, struct engine_buffer *to, uint64_t to_offset, uint64_t size);
int stream_record_begin(struct engine_stream *stream);
int stream_record_end(struct engine_stream *stream, struct engine_recording **recording);
int stream_replay(struct engine_stream *stream, struct engine_recording *recording);
void recording_destroy(struct engine_recording *recording);

/* ---- worker-loop.c: a worker's side ---- */

int serve(const struct engine_service *service);

#endif
