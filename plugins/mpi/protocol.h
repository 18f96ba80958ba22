/* protocol.h: the messages between rank 0 and a worker.
 *
 * A message of rank 0 is PROTOCOL_MAGIC, whether it wants a reply (u32), and commands: a number of enum
 * command (u32), the length of what follows (u64), and that. Only the last command of a message that wants a
 * reply may have an answer. The reply is a status (u32), the rank where it failed (u32; 0: this one), a text
 * that explains it, and the answer. Commands of streams that fail leave their error in the stream, which
 * skips the others until it is waited for.
 *
 * A worker sends another one what SEND says, and that one waits for it at TAKE: a status (u32), and the
 * bytes; or the rank where it failed (u32) and a text. There is one for each SEND, whatever fails, so that
 * they stay in step.
 *
 * Things at the worker have numbers (u32), which the worker gives. */
#ifndef MPI_PROTOCOL_H
#define MPI_PROTOCOL_H

#define PROTOCOL_MAGIC   0x31504d45u /* "EMP1" */
#define PROTOCOL_VERSION 5u
/* Of this plugin; both sides must have the same. */
#ifndef MPI_PLUGIN_VERSION /* tests make a plugin of another */
#define MPI_PLUGIN_VERSION "0.1.0"
#endif

enum {
    PROTOCOL_TEXT = 1024,     /* bytes of a text, at most */
    PROTOCOL_DEVICES = 64,    /* devices of a worker, at most */
    PROTOCOL_SHORT = 1 << 14, /* bytes of a weight that is sent in any case */
    PROTOCOL_PART = 8 << 20,  /* bytes of weights or of a transfer in one command */
};

/* What follows each, and after the arrow its answer. TENSORS: see operation.h. */
enum command {
    /* version of the protocol u32, ABI u32 u32, text: version of the plugin
     *   → the same of the worker, text: name of the host, whether it has a model of its own u32, u32 n, n
     *     texts: names of devices */
    COMMAND_HELLO = 1,
    /* any bytes, which measure the link → nothing */
    COMMAND_ECHO,
    /* device's index u32 → see info_add in copies.h */
    COMMAND_INFO,
    /* index u32, n_threads u32, memory_limit u64 → device u32 */
    COMMAND_OPEN,
    COMMAND_CLOSE, /* device u32 */
    /* device u32, operation → u64 */
    COMMAND_SUPPORTS,
    COMMAND_OP_MEMORY,
    COMMAND_WEIGHT_SIZE,   /* device u32, description of a weight → u64 */
    COMMAND_BUFFER_CREATE, /* device u32, size u64 → buffer u32 */
    /* device u32, description of a weight, two u64 of its contents' hash → whether the worker has it itself
     * u32, and if so weight u32 */
    COMMAND_WEIGHT_OFFER,
    COMMAND_WEIGHT_BEGIN,  /* device u32, description of a weight */
    COMMAND_WEIGHT_DATA,   /* bytes of that weight, in order */
    COMMAND_WEIGHT_END,    /* → weight u32 */
    COMMAND_STREAM_CREATE, /* device u32 → stream u32 */
    COMMAND_DESTROY,       /* buffer, weight, stream or recording u32 */
    COMMAND_ENQUEUE,       /* stream u32, operation; with a reply: its status */
    COMMAND_WRITE,         /* stream u32, buffer u32, offset u64, bytes */
    COMMAND_READ,          /* stream u32, buffer u32, offset u64, size u64 */
    COMMAND_COPY,          /* stream u32, target u32, offset u64, source u32, offset u64, size u64 */
    COMMAND_RECORD,        /* stream u32, operations → recording u32 */
    COMMAND_REPLAY,        /* stream u32, recording u32 */
    COMMAND_SEND,          /* stream u32, buffer u32, offset u64, size u64, rank u32 */
    COMMAND_TAKE,          /* the same */
    /* stream u32, buffer u32, offset u64, then the same of the stream that it goes to, size u64 */
    COMMAND_PASS,
    COMMAND_WAIT, /* stream u32 → the bytes that were read, in order */
    COMMAND_END,  /* rank 0 ends */
};

#endif
