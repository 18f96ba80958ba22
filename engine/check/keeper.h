/* keeper.h: runs untrusted code in processes. The keeper is a process between the caller and these: it never
 * runs such code itself, ends a process that takes too long, and leaves nothing running that any of them has
 * started, even if the caller is killed. */
#ifndef ENGINE_CHECK_KEEPER_H
#define ENGINE_CHECK_KEEPER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct keeper {
    int out;            /* a pipe to the caller; when its reader is gone, the keeper ends */
    unsigned seconds;   /* a process that sends nothing for this long hangs */
    const char *folder; /* for the processes' files; removed at the end. NULL: none */
};

/* Turns this process, just forked, into the keeper: it adopts orphans of its children, and leaves the
 * terminal's signals to the caller. */
void keeper_become(void);

enum keeper_end {
    KEEPER_RUNS,   /* not yet */
    KEEPER_ENDED,  /* by itself */
    KEEPER_HANGS,  /* it sent nothing for too long, and was ended */
    KEEPER_BABBLES /* it was still running in keeper_end, which ended it */
};

struct kept {
    pid_t pid;
    int from; /* a pipe */
    int how;  /* waitpid's status, once the process has ended */
    bool is_reaped;
    enum keeper_end end;
    /* After keeper_end, if the process ended by itself: how many processes it had left running, and the name
     * of one. They have been ended. */
    unsigned n_left;
    char left[32];
};

/* Forks. The child has its own process group and dies with the keeper; in it, kept->pid is 0 and *to is the
 * writing end of its pipe. */
int keeper_fork(const struct keeper *keeper, struct kept *kept, int *to);

/* Reads a record of `size` bytes. False: no more will come; kept->end says why. */
bool keeper_read(const struct keeper *keeper, struct kept *kept, void *record, size_t size);

/* Ends the process and everything it has started. `waits`: first lets it end by itself, within the time that
 * it may be silent. */
void keeper_end(const struct keeper *keeper, struct kept *kept, bool waits);

/* The caller is gone: ends everything, including this process. */
_Noreturn void keeper_abandon(const struct keeper *keeper);

/* Cleans up before the keeper ends. */
void keeper_clean(const struct keeper *keeper);

#endif
