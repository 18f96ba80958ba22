/* groups.h: several steps at once, each of another group of requests. */
#ifndef ENGINE_QUEUE_GROUPS_H
#define ENGINE_QUEUE_GROUPS_H

#include "queue/queue.h"

/* Runs such steps where that pays (see plan_groups), as long as all requests only decode and nobody comes, is
 * cancelled or could start, and as long as n_done requests are done (UINT64_MAX: however many). Afterwards nothing
 * is being computed. Does nothing if there are guesses, beams or source texts, which steps of their own serve. */
void groups_run(struct engine_queue *queue, uint64_t n_done);

#endif
