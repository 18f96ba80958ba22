/* link.h: messages between processes. Only this file and link.c know MPI.
 *
 * Nothing here waits inside MPI. Messages travel while somebody asks for one, and while a process computes a
 * thread of this file's own looks after them, so that what comes is here when it is needed. Any thread may
 * call these. */
#ifndef MPI_LINK_H
#define MPI_LINK_H

#include "bytes.h"

#define LINK_ERROR 256 /* bytes of a text that says what failed */

/* Joins the other processes. False, with the reason, if none started this one together with others or MPI
 * fails. */
bool link_begin(char error[LINK_ERROR]);
int link_rank(void);
int link_size(void);
/* Leaves. `together`: all processes do, once what they have sent is there; otherwise this one goes without a
 * word, and MPI's launcher ends the others. */
void link_end(bool together);

/* Seconds of a clock, without those in which this process has been stopped. */
double link_now(void);

/* What a message is: of rank 0 to a worker, its reply, a sign of life, or of a worker to another. */
enum link_kind { LINK_MESSAGE = 1, LINK_REPLY = 2, LINK_LIFE = 3, LINK_PEER = 4 };

/* Sends a message, which it takes over and leaves empty. Doesn't wait. False: out of memory, or MPI fails. A
 * sign of life isn't sent while the last one has yet to leave. */
bool link_post(int rank, enum link_kind kind, struct bytes *message, char error[LINK_ERROR]);
/* Bytes for a process that have not left yet. */
uint64_t link_unsent(int rank);
/* Takes the next message of a process, if it is here: 1, and it replaces `message`. 0: not yet. -1: MPI
 * fails. */
int link_take(int rank, enum link_kind kind, struct bytes *message, char error[LINK_ERROR]);
/* When something last came from a process, or something but a sign of life left for it, by link_now; 0:
 * never. */
double link_heard(int rank);
/* From now on, this process gives all others a sign of life once a second. */
void link_beat(void);

/* Sleeps between two questions. `waited`: seconds so far; `usual`: what the last such wait took, 0: unknown.
 * A short wait ends at once, and so does one that takes as long as usual; others cost no processor. */
void link_rest(double waited, double usual);
/* Whether this process computes, so that nobody asks: then the thread looks after messages. */
void link_attend(bool computes);

#endif
