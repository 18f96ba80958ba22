/* families.h: every family, one per line. The table in arch.c and the declarations are generated from it. */
#ifndef ENGINE_ARCH_FAMILIES_H
#define ENGINE_ARCH_FAMILIES_H

#include "arch/arch.h"

/* Names as in `const struct architecture arch_NAME`. */
#define FAMILIES(X)                                                                                          \
    X(bert)                                                                                                  \
    X(bloom)                                                                                                 \
    X(cohere2)                                                                                               \
    X(command_r)                                                                                             \
    X(deepseek2)                                                                                             \
    X(ernie4_5)                                                                                              \
    X(ernie4_5_moe)                                                                                          \
    X(exaone)                                                                                                \
    X(exaone4)                                                                                               \
    X(falcon)                                                                                                \
    X(falcon_h1)                                                                                             \
    X(gemma)                                                                                                 \
    X(gemma2)                                                                                                \
    X(gemma3)                                                                                                \
    X(gemma_embedding)                                                                                       \
    X(glm4)                                                                                                  \
    X(glm4moe)                                                                                               \
    X(gpt2)                                                                                                  \
    X(gpt_oss)                                                                                               \
    X(gptneox)                                                                                               \
    X(granite)                                                                                               \
    X(granitehybrid)                                                                                         \
    X(granitemoe)                                                                                            \
    X(hunyuan_dense)                                                                                         \
    X(hunyuan_moe)                                                                                           \
    X(internlm2)                                                                                             \
    X(jina_bert_v2)                                                                                          \
    X(lfm2)                                                                                                  \
    X(llama)                                                                                                 \
    X(llama4)                                                                                                \
    X(mamba)                                                                                                 \
    X(mamba2)                                                                                                \
    X(minicpm)                                                                                               \
    X(modern_bert)                                                                                           \
    X(mpt)                                                                                                   \
    X(nemotron)                                                                                              \
    X(nomic_bert)                                                                                            \
    X(nomic_bert_moe)                                                                                        \
    X(olmo2)                                                                                                 \
    X(phi2)                                                                                                  \
    X(phi3)                                                                                                  \
    X(qwen2)                                                                                                 \
    X(qwen2moe)                                                                                              \
    X(qwen3)                                                                                                 \
    X(qwen3moe)                                                                                              \
    X(qwen3next)                                                                                             \
    X(rwkv6)                                                                                                 \
    X(rwkv7)                                                                                                 \
    X(smollm3)                                                                                               \
    X(stablelm)                                                                                              \
    X(starcoder2)                                                                                            \
    X(t5)                                                                                                    \
    X(t5encoder)

#define X(name) extern const struct architecture arch_##name;
FAMILIES(X)
#undef X

/* granite.c: the factors shared by Granite's families. */
struct decoder;
void granite_read_scales(struct hparams *h, struct decoder *d);
/* Granite 4 without experts has the length of its networks as that of a shared expert. */
void granite_read_lengths(struct hparams *h, struct decoder *d);

#endif
