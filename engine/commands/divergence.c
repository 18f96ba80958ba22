/* divergence.c: see divergence.h. */
#include "commands/divergence.h"

#include <math.h>
#include <stdlib.h>

#include "io/messages.h"

void mean_add(struct mean *mean, double value)
{
    mean->sum += value;
    mean->squares += value * value;
    mean->count++;
}

double mean_value(const struct mean *mean)
{
    return mean->count > 0 ? mean->sum / (double)mean->count : NAN;
}

double mean_error(const struct mean *mean)
{
    if (mean->count < 2) return 0;
    double value = mean_value(mean), variance = mean->squares / (double)mean->count - value * value;
    return variance > 0 ? sqrt(variance / (double)(mean->count - 1)) : 0;
}

int divergence_create(struct divergence *d, uint64_t n)
{
    *d = (struct divergence){.capacity = n};
    d->kl = calloc(n > 0 ? n : 1, sizeof *d->kl);
    return d->kl ? ENGINE_OK : command_error(ENGINE_ERROR_MEMORY, "out of memory (divergences)");
}

void divergence_destroy(struct divergence *d)
{
    free(d->kl);
    *d = (struct divergence){0};
}

void divergence_add(struct divergence *d, const float *reference, const float *model, uint32_t n_vocab,
                    double reference_actual, double model_actual, int same_top)
{
    double kl = 0;
    for (uint32_t i = 0; i < n_vocab; i++)
        kl += exp((double)reference[i]) * ((double)reference[i] - (double)model[i]);
    if (d->n < d->capacity) d->kl[d->n++] = kl;
    mean_add(&d->kl_mean, kl);
    mean_add(&d->same_top, same_top ? 1 : 0);
    mean_add(&d->difference, reference_actual - model_actual);
    mean_add(&d->reference, -reference_actual);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void divergence_sort(struct divergence *d)
{
    if (d->n > 0) qsort(d->kl, d->n, sizeof *d->kl, compare);
}

double divergence_percentile(const struct divergence *d, double share)
{
    if (d->n == 0) return NAN;
    double at = share * (double)(d->n - 1);
    uint64_t below = (uint64_t)at;
    if (below + 1 >= d->n) return d->kl[d->n - 1];
    double rest = at - (double)below;
    return (1 - rest) * d->kl[below] + rest * d->kl[below + 1];
}
