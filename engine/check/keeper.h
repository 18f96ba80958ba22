/* keeper.h: processes that run a stranger's code. The keeper is a process of its own between the caller and them: it
 * never runs such code itself, ends a process that takes too long, and leaves nothing behind that any of them has begun,
 * even where the caller is killed meanwhile. */
#ifndef ENGINE_CHECK_KEEPER_H
#define ENGINE_CHECK_KEEPER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct keeper {
    int out;            /* a pipe to the caller: when nobody reads there any more, the keeper ends */
    unsigned seconds;   /* without a word from a process: it hangs */
    const char *folder; /* of the processes, with files; removed at the end. NULL: none */
};

/* Makes this process, just forked, the keeper: orphans of its children become its own, and signals of the terminal are
 * left to the caller. */
void keeper_become(void);

enum keeper_end {
    KEEPER_RUNS,   /* not yet */
    KEEPER_ENDED,  /* by itself */
    KEEPER_HANGS,  /* it said nothing for too long, and was ended */
    KEEPER_BABBLES /* ended by keeper_end while it still ran */
};

struct kept {
    pid_t pid;
    int from; /* a pipe */
    int how;  /* what waitpid said, once it isn't there any more */
    bool is_reaped;
    enum keeper_end end;
    /* After keeper_end, of one that ended by itself: how many processes that it had begun were there still, and the name
     * of one. They have been ended. */
    unsigned n_left;
    char left[32];
};

/* Forks. In the child, which has a process group of its own and dies with the keeper, kept->pid is 0 and `*to` the
 * writing end of its pipe. */
int keeper_fork(const struct keeper *keeper, struct kept *kept, int *to);

/* Reads a record of a size; false where none comes any more: kept->end says why. */
bool keeper_read(const struct keeper *keeper, struct kept *kept, void *record, size_t size);

/* Sees to it that the process and all that it has begun are gone. `waits`: lets it end by itself, within the time that it
 * has without a word. */
void keeper_end(const struct keeper *keeper, struct kept *kept, bool waits);

/* The caller is gone: ends everything, and this process. */
_Noreturn void keeper_abandon(const struct keeper *keeper);

/* At the end, before the process ends. */
void keeper_clean(const struct keeper *keeper);

#endif
