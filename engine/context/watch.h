/* watch.h: hands out the watched values of a part of a batch, without what only fills its shape. */
#ifndef ENGINE_CONTEXT_WATCH_H
#define ENGINE_CONTEXT_WATCH_H

#include "graph/execute.h"
#include "plan/plan.h"

struct part_watcher {
    struct watcher watcher; /* first: a watcher is a part_watcher */
    const struct plan_watch *watch;
    size_t first, first_wanted; /* of its tokens among the batch's, of those wanted among all wanted */
    uint32_t n_tokens, n_wanted;
    float *states; /* of the whole batch; NULL: not wanted */
};

/* Sets `watcher`; the caller has filled the other fields. */
void part_watcher_begin(struct part_watcher *part);

#endif
