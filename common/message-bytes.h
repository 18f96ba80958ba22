/* message-bytes.h: the sizes of the MPI plugin's messages, which plans for machines that a file describes
 * need too. The plugin's protocol.h describes the messages. */
#ifndef COMMON_MESSAGE_BYTES_H
#define COMMON_MESSAGE_BYTES_H

#include "plugin-api.h"

static inline struct engine_traffic message_bytes(void)
{
    enum { U32 = 4, U64 = 8, COMMAND = U32 + U64 };
    return (struct engine_traffic){
        .struct_size = sizeof(struct engine_traffic),
        .message = 2 * U32,
        .answer = 2 * U32 + U64,
        .write = COMMAND + 2 * U32 + U64,
        .read = COMMAND + 2 * U32 + 2 * U64,
        .copy = COMMAND + 3 * U32 + 3 * U64,
        .replay = COMMAND + 2 * U32,
        .wait = COMMAND + U32,
        .send = COMMAND + 3 * U32 + 2 * U64,
        .between = U32,
        .pass = COMMAND + 4 * U32 + 3 * U64,
    };
}

#endif
