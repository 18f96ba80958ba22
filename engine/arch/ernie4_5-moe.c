/* ernie4_5-moe.c: ERNIE 4.5 with experts: Llama with rope on adjacent pairs, dense layers first, then
 * mixtures of experts chosen with a bias, and shared experts. */
#include "arch/decoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    struct experts *e = &d->experts;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_ADJACENT);
    e->floor = 1e-12f;
    /* Files give a length for the shared experts that is derived from other numbers, and fits only by
     * chance. */
    uint64_t n_ff_shared = (uint64_t)hparams_count(h, "expert_shared_count", 0) * e->n_ff;
    if (n_ff_shared <= INT32_MAX) e->n_ff_shared = (uint32_t)n_ff_shared;
    *info = decoder_info(d);
}

const struct architecture arch_ernie4_5_moe = {"ernie4_5-moe", sizeof(struct decoder), read, decoder_build};
