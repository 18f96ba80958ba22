/* likely.c: see likely.h. */
#include "commands/likely.h"

#include <math.h>

#include "commands/common.h"

static void insert(struct likely *likely, int32_t id, float logit)
{
    struct likely_token *top = likely->top;
    uint32_t at = likely->n < likely->n_most ? likely->n++ : likely->n - 1;
    for (; at > 0 && top[at - 1].logit < logit; at--) top[at] = top[at - 1];
    top[at] = (struct likely_token){id, logit};
}

int likely_read(struct likely *likely, const float *logits, uint32_t n_vocab, const char *what, size_t number)
{
    double total = 0;
    bool good = n_vocab > 0;
    likely->n = 0;
    for (uint32_t id = 0; id < n_vocab; id++) {
        good = good && logits[id] < INFINITY; /* false for NaN */
        if (likely->n < likely->n_most || logits[id] > likely->top[likely->n - 1].logit)
            insert(likely, (int32_t)id, logits[id]);
    }
    if (!good || !isfinite(likely->top[0].logit))
        return command_error(ENGINE_ERROR_DATA,
                             "the logits after %s %zu are not all numbers: the model's weights are damaged",
                             what, number);
    double highest = (double)likely->top[0].logit;
    for (uint32_t id = 0; id < n_vocab; id++) total += exp((double)logits[id] - highest);
    likely->log_total = highest + log(total);
    return ENGINE_OK;
}
