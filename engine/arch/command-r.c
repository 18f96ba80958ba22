/* command-r.c: Command-R and R+: layer norms without biases, blocks that read the same norm of x, logits with a factor. R+ norms
 * each head of queries and keys. */
#include "arch/decoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_LAYER, ENGINE_ROPE_ADJACENT);
    d->logit_scale = hparams_float_above_0(h, "logit_scale", 1);
    *info = decoder_info(d);
}

const struct architecture arch_command_r = {"command-r", sizeof(struct decoder), read,
                                            decoder_build_parallel};
