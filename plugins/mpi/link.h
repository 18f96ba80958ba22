/* link.h: messages between processes. The only file, with link.c, that knows MPI.
 *
 * Nothing here waits inside MPI: whoever waits asks again and again, and sleeps in between, so that several processes
 * can share a processor. MPI is asked by one thread at a time. */
#ifndef MPI_LINK_H
#define MPI_LINK_H

#include "bytes.h"

#define LINK_ERROR 256 /* bytes of a text that says what failed */

/* Joins the other processes. False, with the reason, if none started this one together with others or MPI fails. */
bool link_begin(char error[LINK_ERROR]);
int link_rank(void);
int link_size(void);
/* Leaves. `together`: all processes do; otherwise this one goes without a word, and MPI's launcher ends the others. */
void link_end(bool together);

/* Seconds of a clock. */
double link_now(void);

/* What a message is: of rank 0 to a worker, the reply, or the sign of life of a worker that computes. */
enum link_kind { LINK_MESSAGE = 1, LINK_REPLY = 2, LINK_LIFE = 3 };

/* Both give up, with a reason, when the other process shows no sign of life for `seconds`; 0: never. */
bool link_send(int rank, enum link_kind kind, const struct bytes *message, double seconds,
               char error[LINK_ERROR]);
/* Replaces `message`. A sign of life of the sender counts as one, and is not a message. */
bool link_receive(int rank, enum link_kind kind, struct bytes *message, double seconds,
                  char error[LINK_ERROR]);
/* Tells rank 0 that this process lives. Doesn't wait. */
void link_live(void);

#endif
