/* granitemoe.c: Granite 3 with experts: Granite whose feed-forward networks are mixtures, with a shared expert in some
 * models. */
#include "arch/decoder.h"
#include "arch/families.h"

static void read(struct hparams *h, void *hparams, struct arch_info *info)
{
    struct decoder *d = hparams;
    decoder_read(h, d, ENGINE_NORM_RMS, ENGINE_ROPE_ADJACENT);
    granite_read_scales(h, d);
    *info = decoder_info(d);
}

const struct architecture arch_granitemoe = {"granitemoe", sizeof(struct decoder), read, decoder_build};
