/* qwen2moe.c: Qwen 1.5 and 2 with experts: Qwen 2 whose feed-forward networks are mixtures, weighted by the
 * softmax over all experts, with a shared expert that each token weights by a sigmoid. arXiv 2407.10671. */
#include "arch/decoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    struct experts *e = &d->experts;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_HALVES);
    experts_read_router(h, d, ENGINE_ROUTE_SOFTMAX, false);
    /* Early files have only the shared expert's length, which is that of all chosen experts together. */
    if (!hparams_has(h, "expert_feed_forward_length") && e->n_used > 0) {
        e->n_ff_shared = e->n_ff;
        e->n_ff = e->n_ff / e->n_used;
    }
    *info = decoder_info(d);
}

const struct architecture arch_qwen2moe = {"qwen2moe", sizeof(struct decoder), read, decoder_build};
