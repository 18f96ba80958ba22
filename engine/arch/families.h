/* families.h: every family, one per line. The table in arch.c and the declarations are generated from it;
 * then what families of one maker share. */
#ifndef ENGINE_ARCH_FAMILIES_H
#define ENGINE_ARCH_FAMILIES_H

#include "arch/arch.h"

/* Names as in `const struct architecture arch_NAME`. */
#define FAMILIES(X)                                                                                          \
    X(afmoe)                                                                                                 \
    X(apertus)                                                                                               \
    X(arcee)                                                                                                 \
    X(bert)                                                                                                  \
    X(bitnet)                                                                                                \
    X(bloom)                                                                                                 \
    X(cohere2)                                                                                               \
    X(cohere2moe)                                                                                            \
    X(command_r)                                                                                             \
    X(deepseek2)                                                                                             \
    X(deepseek32)                                                                                            \
    X(deepseek4)                                                                                             \
    X(dots1)                                                                                                 \
    X(ernie4_5)                                                                                              \
    X(ernie4_5_moe)                                                                                          \
    X(eurobert)                                                                                              \
    X(exaone)                                                                                                \
    X(exaone4)                                                                                               \
    X(exaone_moe)                                                                                            \
    X(falcon)                                                                                                \
    X(falcon_h1)                                                                                             \
    X(gemma)                                                                                                 \
    X(gemma2)                                                                                                \
    X(gemma3)                                                                                                \
    X(gemma3n)                                                                                               \
    X(gemma4)                                                                                                \
    X(gemma_embedding)                                                                                       \
    X(glm4)                                                                                                  \
    X(glm4moe)                                                                                               \
    X(glm_dsa)                                                                                               \
    X(gpt2)                                                                                                  \
    X(gpt_oss)                                                                                               \
    X(gptneox)                                                                                               \
    X(granite)                                                                                               \
    X(granitehybrid)                                                                                         \
    X(granitemoe)                                                                                            \
    X(hunyuan_dense)                                                                                         \
    X(hunyuan_moe)                                                                                           \
    X(internlm2)                                                                                             \
    X(jais2)                                                                                                 \
    X(jina_bert_v2)                                                                                          \
    X(jina_bert_v3)                                                                                          \
    X(laguna)                                                                                                \
    X(lfm2)                                                                                                  \
    X(lfm2moe)                                                                                               \
    X(llama)                                                                                                 \
    X(llama4)                                                                                                \
    X(mamba)                                                                                                 \
    X(mamba2)                                                                                                \
    X(minicpm)                                                                                               \
    X(minimax_m2)                                                                                            \
    X(mistral3)                                                                                              \
    X(modern_bert)                                                                                           \
    X(mpt)                                                                                                   \
    X(nemotron)                                                                                              \
    X(nemotron_h)                                                                                            \
    X(nemotron_h_moe)                                                                                        \
    X(nomic_bert)                                                                                            \
    X(nomic_bert_moe)                                                                                        \
    X(olmo2)                                                                                                 \
    X(olmoe)                                                                                                 \
    X(phi2)                                                                                                  \
    X(phi3)                                                                                                  \
    X(phimoe)                                                                                                \
    X(qwen2)                                                                                                 \
    X(qwen2moe)                                                                                              \
    X(qwen2vl)                                                                                               \
    X(qwen3)                                                                                                 \
    X(qwen3moe)                                                                                              \
    X(qwen3next)                                                                                             \
    X(qwen3vl)                                                                                               \
    X(qwen3vlmoe)                                                                                            \
    X(qwen35)                                                                                                \
    X(qwen35moe)                                                                                             \
    X(rwkv6)                                                                                                 \
    X(rwkv7)                                                                                                 \
    X(seed_oss)                                                                                              \
    X(smollm3)                                                                                               \
    X(stablelm)                                                                                              \
    X(starcoder2)                                                                                            \
    X(t5)                                                                                                    \
    X(t5encoder)

/* The eyes of families that see. */
#define EYES(X)                                                                                              \
    X(gemma3_eye)                                                                                            \
    X(idefics3_eye)                                                                                          \
    X(internvl_eye)                                                                                          \
    X(mistral3_eye)                                                                                          \
    X(qwen3_eye)

#define X(name) extern const struct architecture arch_##name;
FAMILIES(X)
EYES(X)
#undef X

/* ---- Shared by families of one maker ------------------------------------------------------------------- */

struct decoder;
struct value;

/* granite.c: the factors shared by Granite's families. */
void granite_read_scales(struct hparams *h, struct decoder *d);
/* Granite 4 without experts has the length of its networks as that of a shared expert. */
void granite_read_lengths(struct hparams *h, struct decoder *d);
/* Whether all layers of a Granite 4 have attention, and whether it has experts. */
bool granite_has_attention_alone(const struct hf_config *config);
bool granite_has_experts(const struct hf_config *config);
/* Granite 4 has no positions unless it says so; earlier ones always have. */
void granite4_read_config(struct hf_config *config);
/* Granite 4 in config.json, where it is one type for three families. */
#define GRANITE4_TYPE                                                                                        \
    .keys = {.layer_types = "layers_block_type|layer_types"}, .width = 4096, .layers = 32, .heads = 32,      \
    .ff = 11008, .context = 2048

#define GRANITE_FACTORS                                                                                      \
    {"attention_multiplier", "attention.scale", HF_FLOAT, 1},                                                \
        {"embedding_multiplier", "embedding_scale", HF_FLOAT, 1},                                            \
        {"residual_multiplier", "residual_scale", HF_FLOAT, 1},                                              \
    {                                                                                                        \
        "logits_scaling", "logit_scale", HF_FLOAT, 1                                                         \
    }
#define GRANITE_EXPERTS                                                                                      \
    {"num_local_experts", "expert_count", HF_COUNT, 8},                                                      \
    {                                                                                                        \
        "num_experts_per_tok", "expert_used_count", HF_COUNT, 2                                              \
    }
#define GRANITE_MODULES                                                                                      \
    {"block_sparse_moe.router.layer", "ffn_gate_inp"},                                                       \
        {"block_sparse_moe.input_linear", "ffn_gate_up_exps"},                                               \
        {"block_sparse_moe.output_linear", "ffn_down_exps"},                                                 \
        {"shared_mlp.input_linear", "ffn_gate_up_shexp"},                                                    \
    {                                                                                                        \
        "shared_mlp.output_linear", "ffn_down_shexp"                                                         \
    }

/* exaone4.c: the layers that slide, which alone have positions. */
void exaone4_read_windows(struct hparams *h, struct decoder *d);

/* qwen3.c: what Qwen 3-VL says beside the text model's numbers. */
void qwen3vl_read_config(struct hf_config *config);

/* gemma2.c: what Gemma 2 and 3 say; query_pre_attn_scalar alone. */
void gemma_read_config(struct hf_config *config);
void gemma_read_query_scale(struct hf_config *config);

/* gemma4.c: n values of each token for each layer, from a table of its own and from its embedding x:
 * [n * n_layers, n_tokens]. */
struct value *gemma_layer_inputs(struct graph *g, const struct decoder *d, uint64_t n, struct value *x);
/* What the current layer makes of its n values and x: [n_embd, columns]. */
struct value *gemma_layer_input(struct graph *g, const struct decoder *d, uint64_t n, struct value *inputs,
                                struct value *x);
/* The names of what these two read. */
#define GEMMA_INPUT_MODULES                                                                                  \
    {"per_layer_input_gate", "inp_gate"}, {"per_layer_projection", "proj"},                                  \
    {                                                                                                        \
        "post_per_layer_input_norm", "post_norm"                                                             \
    }
#define GEMMA_INPUT_OUTER                                                                                    \
    {"embed_tokens_per_layer", "per_layer_token_embd"},                                                      \
        {"per_layer_model_projection", "per_layer_model_proj"},                                              \
    {                                                                                                        \
        "per_layer_projection_norm", "per_layer_proj_norm"                                                   \
    }

/* gptneox.c: also BLOOM's and Falcon's names. */
extern const struct hf_module gptneox_modules[];

/* llama.c: Mixtral's names. */
extern const struct hf_module mixtral_modules[];

/* nomic-bert.c */
extern const struct hf_module nomic_bert_modules[];
void nomic_bert_read_config(struct hf_config *config);

#endif
