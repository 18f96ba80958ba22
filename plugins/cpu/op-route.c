/* op-route.c: which experts each token goes to, and how much each of them counts. The choice goes by float32
 * scores; the weights of those that are chosen are worked out in double precision, where none is too
 * small. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "activations.h"
#include "kernels.h"
#include "ops.h"
#include "types.h"

enum { MAX_EXPERTS = 65536 };

struct route_step {
    struct view logits, ids, weights;
    struct view chosen; /* the experts if they are given; else empty */
    const float *bias;  /* or NULL */
    uint32_t function, n_groups, n_groups_used, group_score;
    bool normalise;
    double floor, scale;
    struct row_tasks tasks;
};

/* A thread's scratch memory. */
struct route_scratch {
    float *scores;       /* [n_experts], padded */
    float *group_scores; /* [n_groups] */
    int32_t *groups;     /* [n_groups_used] the chosen ones */
    float *times;        /* [n_used] how often each of the experts is named */
};

static size_t padded(size_t n)
{
    return round_up(n, PANEL);
}

static size_t route_scratch_size(const struct route_step *step)
{
    return (padded(step->logits.ne[0]) + 2 * padded(step->n_groups) + step->ids.ne[0]) * sizeof(float);
}

static struct route_scratch route_scratch(const struct route_step *step, uint8_t *own)
{
    struct route_scratch scratch;
    scratch.scores = (float *)(void *)own;
    scratch.group_scores = scratch.scores + padded(step->logits.ne[0]);
    scratch.groups = (int32_t *)(void *)(scratch.group_scores + padded(step->n_groups));
    scratch.times = scratch.group_scores + 2 * padded(step->n_groups);
    return scratch;
}

/* Scores of all experts; for softmax their sum is 1, and they were divided by exp(*max) * *sum. */
static void make_scores(const struct route_step *step, const struct kernels *kernels, const float *logits,
                        float *scores, float *max, float *sum)
{
    size_t n = step->logits.ne[0];
    if (step->function == ENGINE_ROUTE_SIGMOID) {
        kernels->activate(ENGINE_ACTIVATION_SIGMOID, NULL, logits, NULL, scores, n);
        return;
    }
    if (step->function == ENGINE_ROUTE_SQRT_SOFTPLUS) {
        kernels->activate(ENGINE_ACTIVATION_SOFTPLUS, NULL, logits, NULL, scores, n);
        for (size_t i = 0; i < n; i++) scores[i] = sqrtf(scores[i]);
        return;
    }
    memcpy(scores, logits, n * sizeof *scores);
    for (size_t i = n; i < padded(n); i++) scores[i] = -INFINITY;
    *sum = kernels->softmax(scores, padded(n), max);
    kernels->mul_number(scores, 1 / *sum, scores, n);
}

/* Inserts number i by its score among the *n_chosen chosen ones, of at most `most`, the best first; of equal
 * ones the lower number wins. If scores are NaN, the choice is arbitrary but valid. */
static void offer(const float *scores, int32_t i, int32_t *chosen, size_t *n_chosen, size_t most)
{
    size_t at = *n_chosen;
    for (; at > 0; at--) {
        int32_t ahead = chosen[at - 1];
        bool tied = scores[i] == scores[ahead];
        if (!(scores[i] > scores[ahead] || (tied && i < ahead))) break;
    }
    if (at == most) return;
    if (*n_chosen < most) ++*n_chosen;
    memmove(chosen + at + 1, chosen + at, (*n_chosen - at - 1) * sizeof *chosen);
    chosen[at] = i;
}

static float group_score(const float *scores, size_t n, uint32_t kind)
{
    float first = -INFINITY, second = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        if (scores[i] > first)
            second = first, first = scores[i];
        else if (scores[i] > second)
            second = scores[i];
    }
    return kind == ENGINE_ROUTE_GROUP_TOP2 ? first + second : first;
}

/* The experts of the largest scores, of the groups of the largest ones. */
static void choose(const struct route_step *step, const struct route_scratch *scratch, int32_t *ids)
{
    size_t n_used = step->ids.ne[0], n_chosen = 0, n_groups_chosen = 0;
    size_t n_groups = step->n_groups, group_size = step->logits.ne[0] / n_groups;
    for (size_t g = 0; g < n_groups; g++) {
        scratch->group_scores[g] =
            group_score(scratch->scores + g * group_size, group_size, step->group_score);
        offer(scratch->group_scores, (int32_t)g, scratch->groups, &n_groups_chosen, step->n_groups_used);
    }
    for (size_t g = 0; g < n_groups_chosen; g++) {
        size_t first = (size_t)scratch->groups[g] * group_size;
        for (size_t i = first; i < first + group_size; i++)
            offer(scratch->scores, (int32_t)i, ids, &n_chosen, n_used);
    }
}

static bool is_among(const int32_t *ids, size_t n, int32_t id)
{
    size_t i = 0;
    while (i < n && ids[i] != id) i++;
    return i < n;
}

/* The experts that are given, each once; where one is named again, the lowest number that is not named takes
 * the place. */
static void take_given(const struct route_step *step, const struct work *work, const float *given,
                       int32_t *ids, float *times)
{
    size_t n_used = step->ids.ne[0], n_experts = step->logits.ne[0];
    int32_t unnamed = 0;
    for (size_t s = 0; s < n_used; s++) {
        bool fits = given[s] >= 0 && given[s] < (float)n_experts;
        if (!fits) work_fail(work, "route: a given expert is out of range");
        int32_t id = fits ? (int32_t)given[s] : 0;
        size_t first = 0;
        while (first < s && ids[first] != id) first++;
        ids[s] = first < s ? -1 : id;
        times[s] = first == s;
        if (first < s) times[first]++;
    }
    for (size_t s = 0; s < n_used; s++) {
        if (ids[s] >= 0) continue;
        while (is_among(ids, n_used, unnamed)) unnamed++;
        ids[s] = unnamed;
    }
}

static double probability(const struct route_step *step, double x, double max, double sum)
{
    switch (step->function) {
    case ENGINE_ROUTE_SOFTMAX: return exp(x - max) / sum;
    case ENGINE_ROUTE_SQRT_SOFTPLUS: return sqrt(fmax(x, 0) + log1p(exp(-fabs(x))));
    default: return 1 / (1 + exp(-x));
    }
}

/* The weights of the chosen ones; `times`: how often each counts, NULL: once. Where normalising finds
 * nothing but zeros, beyond double precision, they stay zeros. */
static void weigh(const struct route_step *step, const float *logits, const int32_t *ids, const float *times,
                  float max, float sum, float *weights)
{
    size_t n_used = step->ids.ne[0];
    double total = 0;
    for (int pass = 0; pass < 2; pass++) {
        double factor = step->scale;
        if (step->normalise) factor /= fmax(fmax(total, step->floor), DBL_MIN);
        for (size_t s = 0; s < n_used; s++) {
            double p = probability(step, (double)logits[ids[s]], (double)max, (double)sum);
            if (times) p *= (double)times[s];
            if (pass == 0)
                total += p;
            else
                weights[s] = (float)(p * factor);
        }
    }
}

/* A task: some tokens. */
static void run_route(const void *args, const struct work *work, size_t task)
{
    const struct route_step *step = args;
    struct route_scratch scratch = route_scratch(step, work->own);
    size_t n = step->logits.ne[0];
    for (size_t t = task * step->tasks.rows_per_task; t < row_task_end(step->tasks, task); t++) {
        const float *logits = view_row(&step->logits, t, 0, 0);
        int32_t *ids = view_row(&step->ids, t, 0, 0);
        float max = 0, sum = 1;
        make_scores(step, work->kernels, logits, scratch.scores, &max, &sum);
        if (step->bias) work->kernels->add(scratch.scores, step->bias, scratch.scores, n);
        if (step->chosen.data)
            take_given(step, work, view_row(&step->chosen, t, 0, 0), ids, scratch.times);
        else
            choose(step, &scratch, ids);
        weigh(step, logits, ids, step->chosen.data ? scratch.times : NULL, max, sum,
              view_row(&step->weights, t, 0, 0));
    }
}

/* ---- The operation --------------------------------------------------------------------------------- */

static int check_operands(const struct request *request, const struct engine_op_route *args,
                          struct route_step *step)
{
    int status = view_check(request, args->logits, "logits", VIEW_F32, &step->logits);
    if (!status) status = view_check(request, args->ids, "ids", VIEW_I32, &step->ids);
    if (!status) status = view_check(request, args->weights, "weights", VIEW_F32, &step->weights);
    if (!status) status = values_check(request, args->bias, "bias", &step->bias);
    if (!status && args->chosen)
        status = view_check(request, args->chosen, "chosen", VIEW_F32, &step->chosen);
    if (status || step->logits.ne[0] <= MAX_EXPERTS) return status;
    return refuse(request, ENGINE_ERROR_UNSUPPORTED, "route: %zu experts; the maximum is %d",
                  step->logits.ne[0], MAX_EXPERTS);
}

static int check_groups(const struct request *request, const struct engine_op_route *args, size_t n_experts,
                        size_t n_used)
{
    uint32_t n = args->n_groups, used = args->n_groups_used;
    if (args->group_score > ENGINE_ROUTE_GROUP_TOP2)
        return refuse(request, ENGINE_ERROR_UNSUPPORTED, "route: unknown group score %u", args->group_score);
    if (n <= 1 && used <= n) return ENGINE_OK;
    if (used == 0 || used > n || n_experts % n != 0 || n_used > n_experts / n * used)
        return refuse(request, ENGINE_ERROR_ARGUMENT, "route: %u of %u groups do not suit %zu of %zu experts",
                      used, n, n_used, n_experts);
    if (args->group_score == ENGINE_ROUTE_GROUP_TOP2 && n_experts / n < 2)
        return refuse(request, ENGINE_ERROR_ARGUMENT,
                      "route: groups of one expert have no second largest score");
    return ENGINE_OK;
}

int op_route(const struct request *request, const void *arguments, struct list *list)
{
    const struct engine_op_route *args = arguments;
    struct route_step step = {.function = args->function, .group_score = args->group_score};
    int status = check_operands(request, args, &step);
    if (!status) status = check_groups(request, args, step.logits.ne[0], step.ids.ne[0]);
    if (status) return status;
    if (args->function > ENGINE_ROUTE_SQRT_SOFTPLUS)
        return refuse(request, ENGINE_ERROR_UNSUPPORTED, "route: unknown function %u", args->function);
    if (args->normalise > 1 || args->reserved)
        return refuse(request, ENGINE_ERROR_UNSUPPORTED, "route: the arguments are from a later version");
    if (!(args->floor >= 0) || !isfinite(args->floor) || !isfinite(args->scale))
        return refuse(request, ENGINE_ERROR_ARGUMENT, "route: floor %g, scale %g", (double)args->floor,
                      (double)args->scale);
    if (request->planning) return ENGINE_OK;
    step.n_groups = args->n_groups > 1 ? args->n_groups : 1;
    step.n_groups_used = args->n_groups > 1 ? args->n_groups_used : 1;
    step.normalise = args->normalise;
    step.floor = (double)args->floor;
    step.scale = args->scale == 0 ? 1 : (double)args->scale;
    step.tasks = row_tasks(step.logits.ne[1], step.logits.ne[0] * sizeof(float));
    struct route_step *added = list_add(list, run_route, row_task_count(step.tasks), sizeof *added);
    if (!added) return ENGINE_ERROR_MEMORY;
    *added = step;
    list_reserve_own(list, route_scratch_size(&step));
    list_reads(list, &step.logits);
    if (step.chosen.data) list_reads(list, &step.chosen);
    list_writes(list, &step.ids);
    list_writes(list, &step.weights);
    return ENGINE_OK;
}
