/* work.h: a worker's side: does what messages ask for with the devices of other plugins. Messages are hostile
 * until they have been checked. Knows nothing of MPI.
 *
 *   work.c          messages, and the table of things
 *   work-create.c   devices, buffers, weights, streams
 *   work-run.c      operations, transfers, recordings
 *   work-peer.c     what goes to other devices, here and at other workers */
#ifndef MPI_WORK_H
#define MPI_WORK_H

#include "bytes.h"
#include "operation.h"
#include "plugin-api.h"
#include "protocol.h"

struct work;

/* How to speak to other workers. `send` takes the message over; `take` waits for the next one, and replaces
 * it. False: the text says why. */
struct work_peers {
    int rank, size; /* of all processes; this one's rank */
    bool (*send)(int rank, struct bytes *message, char error[PROTOCOL_TEXT]);
    bool (*take)(int rank, struct bytes *message, char error[PROTOCOL_TEXT]);
};

/* NULL: no memory. All are kept. */
struct work *work_create(const struct engine_service *service, const struct work_peers *peers,
                         const char *host);
/* Destroys everything that messages have created. */
void work_destroy(struct work *work);

enum work_next { WORK_CONTINUES, WORK_REPLIES, WORK_ENDS };
/* Does what a message says. WORK_REPLIES: `reply` is to be sent. */
enum work_next work_do(struct work *work, const uint8_t *message, size_t size, struct bytes *reply);

/* ---- For its own files --------------------------------------------------------------------------------- */

enum thing_kind { THING_NONE, THING_DEVICE, THING_BUFFER, THING_WEIGHT, THING_STREAM, THING_RECORDING };

/* Bytes that wait to be sent back. */
struct read_bytes {
    struct read_bytes *next;
    uint64_t size;
    uint8_t data[];
};

/* Something at this worker; its number is its place in the table. */
struct thing {
    enum thing_kind kind;
    uint32_t device; /* the thing that it belongs to */
    uint32_t users;  /* recordings that use it */
    const struct engine_backend *backend;
    union {
        struct engine_device *device;
        struct engine_buffer *buffer;
        struct engine_weight *weight;
        struct engine_stream *stream;
        struct engine_recording *recording; /* NULL: the backend has none, and `operations` are enqueued */
    } of;
    uint64_t size;  /* of a buffer */
    uint32_t type;  /* of a weight */
    uint64_t ne[4]; /* of a weight */

    /* Of streams */
    bool is_dirty;                        /* something may be pending */
    int status;                           /* the first error since the last wait */
    char text[PROTOCOL_TEXT];             /* of that */
    uint32_t origin;                      /* the rank where it happened; 0: here */
    struct read_bytes *reads, *last_read; /* since the last wait */

    /* Of recordings */
    struct bytes operations;
    uint32_t *used; /* [n_used] the things that it uses */
    size_t n_used;
};

struct work {
    const struct engine_service *service;
    const struct work_peers *peers;
    const char *host;
    bool is_broken;        /* a message was none; nothing else is done */
    struct thing **things; /* [n_things]; NULL: free */
    size_t n_things;
    /* The weight that is coming, from COMMAND_WEIGHT_BEGIN to _END. */
    struct engine_weight_desc coming;
    char coming_texts[2][256];
    uint32_t coming_device; /* 0: none */
    int coming_status;
    uint8_t *coming_data; /* [coming.data_size] */
    uint64_t coming_size; /* of what has come */
    /* Of the command that runs */
    char text[PROTOCOL_TEXT]; /* why it failed */
    uint32_t origin;          /* the rank where it failed; 0: here */
};

/* Fails with a text. */
int work_fail(struct work *work, int status, const char *format, ...) ENGINE_PRINTF(3, 4);
/* A backend's status with its message. */
int work_failed(struct work *work, int status);
/* The message isn't one that rank 0 of this version sends. */
int work_malformed(struct work *work);

/* The thing with this number, if it is of this kind; otherwise NULL, and the work is broken. */
struct thing *work_find(struct work *work, uint32_t number, enum thing_kind kind);
/* A new thing; NULL: no memory. *number starts at 1. */
struct thing *work_add(struct work *work, enum thing_kind kind, uint32_t device, uint32_t *number);
void work_remove(struct work *work, uint32_t number);
/* Leaves an error of the command that runs in a stream, unless that has one. */
void work_leave(const struct work *work, struct thing *stream, int status);
/* A buffer of the stream's device; otherwise NULL, and the work is broken. */
const struct thing *work_buffer(struct work *work, const struct thing *stream, uint32_t number);
bool work_has_range(const struct thing *buffer, uint64_t offset, uint64_t size);
/* Waits for everything that is pending on a device. */
void work_settle(struct work *work, uint32_t device);

/* The commands. Each reads its part of the message, and adds its answer to `answer`. A status, with
 * work->text. */
typedef int work_command(struct work *work, struct reader *reader, struct bytes *answer);
work_command work_open, work_close, work_supports, work_op_memory, work_weight_size, work_buffer_create,
    work_weight_offer, work_weight_begin, work_weight_data, work_weight_end, work_stream_create, work_drop;
work_command work_record, work_wait, work_pass;
/* SEND and TAKE, which are done even if their stream has an error. */
int work_with_peer(struct work *work, enum command command, struct reader *reader);
/* These leave their errors in their stream, except ENQUEUE if it `replies`. */
int work_in_stream(struct work *work, enum command command, struct reader *reader, bool replies);

#endif
