/* delta-net.h: what Qwen 3 Next and Qwen 3.5 share: most layers have a gated delta net (arXiv 2412.06464)
 * instead of attention, and attention has a gate on its output. The families' descriptors are in qwen3next.c
 * and qwen35.c. */
#ifndef ENGINE_ARCH_DELTA_NET_H
#define ENGINE_ARCH_DELTA_NET_H

#include "arch/decoder.h"

struct delta_net {
    struct decoder decoder;
    uint32_t n_conv, key_dim, value_dim, n_key_heads, n_value_heads; /* of the delta net */
    /* Value head h reads key head h mod n_key_heads, as in files of Qwen 3.5; else the value heads of a key
     * head follow each other. */
    bool is_tiled;
};

/* A family's `read` and `build`; a struct delta_net, whose is_tiled the family sets. */
void delta_net_read(struct hparams *h, void *delta_net, struct arch_info *info);
void delta_net_build(struct graph *g, const void *delta_net);

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

/* The sizes of the delta net, and which layers have one. */
void delta_net_read_config(struct hf_config *config);

#define DELTA_NET_NUMBERS                                                                                    \
    {"full_attention_interval", "full_attention_interval", HF_COUNT, 4},                                     \
    {                                                                                                        \
        "linear_conv_kernel_dim", "ssm.conv_kernel", HF_COUNT, 4                                             \
    }

#define DELTA_NET_MODULES                                                                                    \
    {"post_attention_layernorm", "post_attention_norm"}, {"linear_attn.conv1d", "ssm_conv1d"},               \
        {"linear_attn.dt", "ssm_dt"}, /* dt_bias */                                                          \
        {"linear_attn.A_log", "ssm_a."}, {"linear_attn.norm", "ssm_norm"},                                   \
    {                                                                                                        \
        "linear_attn.out_proj", "ssm_out"                                                                    \
    }

#endif
