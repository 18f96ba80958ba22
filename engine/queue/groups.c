/* groups.c: several steps at once, each of another group of requests. If devices have different layers, only
 * one of them works on a step's token, and the next step begins when its tokens have been chosen. So requests
 * that decode are divided into groups: while one group is at the second device, the next one is at the first.
 * A step of a group is started, is on its way (a flight, with a number that its requests have meanwhile), and
 * is finished; the oldest one first. Then its requests may be in another group: each takes its part of those
 * that are not on their way, by rank, so groups stay alike when requests end. */
#include "context/context.h"
#include "queue/internal.h"

/* Those on their way have the last n_flights numbers. */
struct flights {
    uint32_t n_started, n_flights;
};

static uint32_t number_of(uint32_t started)
{
    return started % PLAN_MAX_GROUPS + 1;
}

/* Whether others want the thread that runs the queue. */
static bool is_called(struct engine_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    bool called = queue->incoming.count > 0 || queue->dropping;
    pthread_mutex_unlock(&queue->lock);
    return called;
}

/* Into how many groups those that run are divided; 1: something else is to be done than to decode one token
 * of each. Counts those that run, and those of them that are in no flight. */
static uint32_t count_groups(struct engine_queue *queue, size_t *n_running, size_t *n_free)
{
    bool waits = false;
    for (size_t i = 0; i < queue->active.count; i++) {
        const struct request *request = queue->active.items[i];
        if (atomic_load(&request->cancelled)) return 1;
        if (request->sequence < 0) {
            waits = true;
            continue;
        }
        bool decodes = request->n_cached > 0 && request->n_tokens - request->n_cached == 1;
        if (!decodes || !request->kind->decodes) return 1;
        ++*n_running;
        *n_free += request->flight == 0;
    }
    if ((waits && !queue->is_settled) || is_called(queue)) return 1;
    return plan_groups(queue->context->plan, *n_running);
}

/* Plans one token of each request of a flight; UINT32_MAX: of each that is in one. */
static struct queue_step step_of_flight(struct engine_queue *queue, uint32_t flight)
{
    for (size_t i = 0; i < queue->active.count; i++) {
        const struct request *request = queue->active.items[i];
        bool is_in = flight == UINT32_MAX ? request->flight > 0 : request->flight == flight;
        queue->plan[i] = (struct step_request){0};
        if (is_in)
            queue->plan[i] = (struct step_request){
                .running = true, .decoding = true, .n_cached = request->n_cached, .n_pending = 1, .n_now = 1};
    }
    struct queue_step step = step_planned(queue);
    step.flight = flight;
    return step;
}

/* The requests of a flight, or of all of them, are in none any more. */
static void land(struct engine_queue *queue, uint32_t flight)
{
    for (size_t i = 0; i < queue->active.count; i++)
        if (flight == UINT32_MAX || queue->active.items[i]->flight == flight)
            queue->active.items[i]->flight = 0;
}

/* All that was on its way is lost. Where memory ran out, a step as usual says who has to make room for it. */
static void groups_lose(struct engine_queue *queue, int status)
{
    step_of_flight(queue, UINT32_MAX);
    land(queue, UINT32_MAX);
    if (status == ENGINE_ERROR_MEMORY)
        queue_count_cached(queue);
    else
        step_fail(queue, status);
    queue_publish(queue, false, 0);
}

/* Starts a step of `most` requests, of those that are in no flight. False: it couldn't be started. Then those
 * on their way may be lost, too. */
static bool start_flight(struct engine_queue *queue, struct flights *flights, size_t most)
{
    const uint32_t flight = number_of(flights->n_started);
    for (size_t i = 0; i < queue->active.count && most > 0; i++) {
        struct request *request = queue->active.items[i];
        if (request->sequence < 0 || request->flight > 0) continue;
        request->flight = flight;
        most--;
    }
    ENGINE_ASSERT(flights->n_flights < PLAN_MAX_GROUPS);
    const struct queue_step step = step_of_flight(queue, flight);
    const int status = step_start(queue, &step);
    if (!status) {
        flights->n_started++;
        flights->n_flights++;
        return true;
    }
    if (queue->context->n_flights == 0 && (flights->n_flights > 0 || status != ENGINE_ERROR_MEMORY)) {
        groups_lose(queue, status);
        flights->n_flights = 0;
    } else {
        queue_count_cached(queue); /* what was started of it has been given up */
    }
    land(queue, flight);
    return false;
}

/* Waits for the oldest step, and hands out its logits. False: all that was on its way is lost. */
static bool finish_flight(struct engine_queue *queue, struct flights *flights)
{
    const uint32_t flight = number_of(flights->n_started - flights->n_flights);
    const int status = context_finish(queue->context);
    if (status) {
        groups_lose(queue, status);
        flights->n_flights = 0;
        return false;
    }
    flights->n_flights--;
    const struct queue_step step = step_of_flight(queue, flight);
    land(queue, flight);
    step_hand_out(queue, &step);
    queue_publish(queue, true, 0);
    return true;
}

void groups_run(struct engine_queue *queue, uint64_t n_done)
{
    struct flights flights = {0};
    bool ends = queue->lookup || queue->draft || queue->info.has_source;
    while (!ends || flights.n_flights > 0) {
        size_t n_running = 0, n_free = 0;
        ENGINE_ASSERT(flights.n_flights == queue->context->n_flights);
        if (n_done != UINT64_MAX && queue->counts.n_done != n_done) ends = true;
        const uint32_t n_groups = ends ? 1 : count_groups(queue, &n_running, &n_free);
        ends = n_groups < 2;
        if (!ends && flights.n_flights < n_groups && n_free > 0)
            ends = !start_flight(queue, &flights, (n_running + n_groups - 1) / n_groups);
        else if (flights.n_flights > 0)
            ends |= !finish_flight(queue, &flights);
    }
}
