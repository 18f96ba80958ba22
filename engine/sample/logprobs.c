/* logprobs.c: see logprobs.h. */
#include "sample/logprobs.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "sample/portable.h"

int logprobs_create(struct logprobs *logprobs, uint32_t n_vocab, uint32_t n_top)
{
    *logprobs = (struct logprobs){.n_vocab = n_vocab, .n_top = n_top < n_vocab ? n_top : n_vocab};
    logprobs->logits = calloc(n_vocab, sizeof *logprobs->logits);
    logprobs->top = calloc((size_t)n_top + 1, sizeof *logprobs->top);
    return logprobs->logits && logprobs->top ? ENGINE_OK : error_memory("logprobs");
}

void logprobs_destroy(struct logprobs *logprobs)
{
    free(logprobs->logits);
    free(logprobs->top);
    *logprobs = (struct logprobs){0};
}

/* Puts a token into its place among the most likely ones; of equals, the lower id comes first. */
static void insert(struct logprobs *logprobs, int32_t token, float logit)
{
    uint32_t at = logprobs->n_found < logprobs->n_top ? logprobs->n_found++ : logprobs->n_top - 1;
    for (; at > 0 && logprobs->top[at - 1].logprob < logit; at--) logprobs->top[at] = logprobs->top[at - 1];
    logprobs->top[at] = (struct engine_token_logprob){token, logit};
}

int logprobs_check(const float *logits, uint32_t n_vocab)
{
    bool good = true, any = false;
    for (uint32_t id = 0; id < n_vocab; id++) {
        good = good && logits[id] < INFINITY; /* false for NaN */
        any = any || isfinite(logits[id]);
    }
    if (good && any) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_DATA, "the logits are not all numbers: the model's weights are damaged");
}

double logprobs_log_total(const float *logits, uint32_t n_vocab)
{
    double total = 0;
    float highest = -INFINITY;
    for (uint32_t id = 0; id < n_vocab; id++)
        if (isfinite(logits[id]) && logits[id] > highest) highest = logits[id];
    for (uint32_t id = 0; id < n_vocab; id++)
        if (isfinite(logits[id])) total += portable_exp((double)logits[id] - (double)highest);
    return total > 0 ? (double)highest + portable_log(total) : 0;
}

void logprobs_read(struct logprobs *logprobs, const float *logits)
{
    memcpy(logprobs->logits, logits, logprobs->n_vocab * sizeof *logits);
    logprobs->n_found = 0;
    for (uint32_t id = 0; id < logprobs->n_vocab && logprobs->n_top > 0; id++) {
        bool full = logprobs->n_found == logprobs->n_top;
        if (full && !(logits[id] > logprobs->top[logprobs->n_top - 1].logprob)) continue;
        if (isfinite(logits[id])) insert(logprobs, (int32_t)id, logits[id]);
    }
    logprobs->log_total = logprobs_log_total(logprobs->logits, logprobs->n_vocab);
    for (uint32_t i = 0; i < logprobs->n_found; i++)
        logprobs->top[i].logprob = logprobs_of(logprobs, logprobs->top[i].token);
}

float logprobs_of(const struct logprobs *logprobs, int32_t token)
{
    float logit = logprobs->logits[token];
    return isfinite(logit) ? (float)((double)logit - logprobs->log_total) : -INFINITY;
}
