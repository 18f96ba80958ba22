/* ssm.h: selective state spaces: the blocks of Mamba (arXiv 2312.00752) and Mamba 2 (2405.21060), for
 * families made of them and for hybrids. A block has two states: the last inputs of its convolution, and
 * that of its recurrence. */
#ifndef ENGINE_ARCH_SSM_H
#define ENGINE_ARCH_SSM_H

#include "arch/decoder.h"

struct ssm {
    uint32_t n_inner;  /* values that the block works on */
    uint32_t n_state;  /* keys of the recurrence */
    uint32_t n_conv;   /* taps of the convolution */
    uint32_t n_rank;   /* Mamba: of the matrix that gives time steps; Mamba 2: heads */
    uint32_t n_groups; /* Mamba 2: heads of a group share queries and keys */
    float least_step;  /* Mamba 2: smaller time steps become this one; 0: none do. Not read by ssm_read */
};

/* Reads ssm.* keys. has_heads: Mamba 2. */
void ssm_read(struct hparams *h, struct ssm *ssm, bool has_heads);

/* The blocks, including their output matrices: from x [n_embd, n_tokens] to [n_embd, columns], see
 * decoder_layer_output. */
struct value *ssm_mamba(struct graph *g, const struct decoder *d, const struct ssm *ssm, struct value *x);
struct value *ssm_mamba2(struct graph *g, const struct decoder *d, const struct ssm *ssm, struct value *x);

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

/* hidden_size times a number of config.json. */
uint32_t ssm_expanded(struct hf_config *config, const char *name);
/* Time steps beyond a limit would have to be clamped. */
void ssm_refuse_limit(struct hf_config *config);
/* The block of Mamba 2 in hybrids, of this inner size. */
void ssm_read_config(struct hf_config *config, uint32_t inner);

/* Of the Mamba 2 blocks of hybrids. */
#define SSM_NUMBERS                                                                                          \
    {"mamba_d_conv", "ssm.conv_kernel", HF_COUNT, 4}, {"mamba_d_state", "ssm.state_size", HF_COUNT, 256},    \
    {                                                                                                        \
        "mamba_n_heads", "ssm.time_step_rank", HF_COUNT, 128                                                 \
    }

/* The modules of a block that is called so. */
#define SSM_MODULES(block)                                                                                   \
    {block ".in_proj", "ssm_in"}, {block ".conv1d", "ssm_conv1d"}, {block ".dt", "ssm_dt"}, /* dt_bias */    \
        {block ".A_log", "ssm_a."}, {block ".norm", "ssm_norm"},                                             \
    {                                                                                                        \
        block ".out_proj", "ssm_out"                                                                         \
    }

#endif
