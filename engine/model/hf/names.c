/* names.c: see names.h. The tables have the part of a module's name after the layer's number; # stands for an
 * expert's number. A family's own table comes first, then the usual names. */
#include "model/hf/names.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct module {
    const char *name, *tensor; /* "self_attn.q_proj", "attn_q" */
    enum hf_rows rows;
};

/* Llama's names, which most families have taken over, and those of mixtures. */
static const struct module usual[] = {
    {"self_attn.q_proj", "attn_q", HF_ROWS_QUERIES},
    {"self_attn.k_proj", "attn_k", HF_ROWS_KEYS},
    {"self_attn.v_proj", "attn_v", HF_ROWS_SAME},
    {"self_attn.o_proj", "attn_output", HF_ROWS_SAME},
    {"self_attn.qkv_proj", "attn_qkv", HF_ROWS_SAME},
    {"mlp.gate_proj", "ffn_gate", HF_ROWS_SAME},
    {"mlp.up_proj", "ffn_up", HF_ROWS_SAME},
    {"mlp.down_proj", "ffn_down", HF_ROWS_SAME},
    {"mlp.gate_up_proj", "ffn_up", HF_ROWS_SAME}, /* gate and up in one tensor */
    {"mlp.gate", "ffn_gate_inp", HF_ROWS_SAME},
    {"mlp.experts.#.gate_proj", "ffn_gate_exps", HF_ROWS_SAME},
    {"mlp.experts.#.up_proj", "ffn_up_exps", HF_ROWS_SAME},
    {"mlp.experts.#.down_proj", "ffn_down_exps", HF_ROWS_SAME},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp", HF_ROWS_SAME},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp", HF_ROWS_SAME},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp", HF_ROWS_SAME},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp", HF_ROWS_SAME},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp", HF_ROWS_SAME},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp", HF_ROWS_SAME},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp", HF_ROWS_SAME},
    {"mlp.experts.gate_up_proj", "ffn_gate_up_exps", HF_ROWS_SAME}, /* of all experts */
    {"mlp.experts.down_proj", "ffn_down_exps", HF_ROWS_SAME},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias", HF_ROWS_SAME},
    {"input_layernorm", "attn_norm", HF_ROWS_SAME},
    {"post_attention_layernorm", "ffn_norm", HF_ROWS_SAME},
    {"self_attn.q_norm", "attn_q_norm", HF_ROWS_SAME},
    {"self_attn.k_norm", "attn_k_norm", HF_ROWS_SAME},
    {NULL, NULL, HF_ROWS_SAME},
};

/* Families with norms behind blocks, and perhaps before them too. */
static const struct module norms_behind[] = {
    {"post_attention_layernorm", "post_attention_norm", HF_ROWS_SAME},
    {"pre_feedforward_layernorm", "ffn_norm", HF_ROWS_SAME},
    {"post_feedforward_layernorm", "post_ffw_norm", HF_ROWS_SAME},
    {NULL, NULL, HF_ROWS_SAME},
};

static const struct module glm4[] = {
    {"post_self_attn_layernorm", "post_attention_norm", HF_ROWS_SAME},
    {"post_mlp_layernorm", "post_ffw_norm", HF_ROWS_SAME},
    {NULL, NULL, HF_ROWS_SAME},
};

static const struct module glm4moe[] = {
    {"post_attention_layernorm", "post_attention_norm", HF_ROWS_SAME},
    {NULL, NULL, HF_ROWS_SAME},
};

#define GRANITE_NAMES                                                                                        \
    {"block_sparse_moe.router.layer", "ffn_gate_inp", HF_ROWS_SAME},                                         \
        {"block_sparse_moe.input_linear", "ffn_gate_up_exps", HF_ROWS_SAME},                                 \
        {"block_sparse_moe.output_linear", "ffn_down_exps", HF_ROWS_SAME},                                   \
        {"shared_mlp.input_linear", "ffn_gate_up_shexp", HF_ROWS_SAME},                                      \
    {                                                                                                        \
        "shared_mlp.output_linear", "ffn_down_shexp", HF_ROWS_SAME                                           \
    }

static const struct module granite[] = {
    GRANITE_NAMES,
    {NULL, NULL, HF_ROWS_SAME},
};

/* # stands for a head's number. */
static const struct module stablelm[] = {
    {"self_attn.q_layernorm.norms.#", "attn_q_norm", HF_ROWS_SAME},
    {"self_attn.k_layernorm.norms.#", "attn_k_norm", HF_ROWS_SAME},
    {NULL, NULL, HF_ROWS_SAME},
};

static const struct module hunyuan_dense[] = {
    {"self_attn.query_layernorm", "attn_q_norm", HF_ROWS_SAME},
    {"self_attn.key_layernorm", "attn_k_norm", HF_ROWS_SAME},
    {NULL, NULL, HF_ROWS_SAME},
};

static const struct module ernie_moe[] = {
    {"mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias", HF_ROWS_SAME},
    {NULL, NULL, HF_ROWS_SAME},
};

static const struct module mixtral[] = {
    {"block_sparse_moe.gate", "ffn_gate_inp", HF_ROWS_SAME},
    {"block_sparse_moe.experts.#.w1", "ffn_gate_exps", HF_ROWS_SAME},
    {"block_sparse_moe.experts.#.w3", "ffn_up_exps", HF_ROWS_SAME},
    {"block_sparse_moe.experts.#.w2", "ffn_down_exps", HF_ROWS_SAME},
    {"mlp.experts.#.w1", "ffn_gate_exps", HF_ROWS_SAME},
    {"mlp.experts.#.w3", "ffn_up_exps", HF_ROWS_SAME},
    {"mlp.experts.#.w2", "ffn_down_exps", HF_ROWS_SAME},
    {NULL, NULL, HF_ROWS_SAME},
};

static const struct module deepseek[] = {
    {"self_attn.q_a_proj", "attn_q_a", HF_ROWS_SAME},
    {"self_attn.q_b_proj", "attn_q_b", HF_ROWS_SAME},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa", HF_ROWS_SAME},
    {"self_attn.kv_b_proj", "attn_kv_b", HF_ROWS_SAME},
    {"self_attn.q_a_layernorm", "attn_q_a_norm", HF_ROWS_SAME},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm", HF_ROWS_SAME},
    {NULL, NULL, HF_ROWS_SAME},
};

static const struct module gpt2[] = {
    {"attn.c_attn", "attn_qkv", HF_ROWS_SAME},
    {"attn.c_proj", "attn_output", HF_ROWS_SAME},
    {"mlp.c_fc", "ffn_up", HF_ROWS_SAME},
    {"mlp.c_proj", "ffn_down", HF_ROWS_SAME},
    {"ln_1", "attn_norm", HF_ROWS_SAME},
    {"ln_2", "ffn_norm", HF_ROWS_SAME},
    {NULL, NULL, HF_ROWS_SAME},
};

static const struct module neox[] = {
    {"attention.query_key_value", "attn_qkv", HF_ROWS_GROUPS},
    {"attention.dense", "attn_output", HF_ROWS_SAME},
    {"self_attention.query_key_value", "attn_qkv", HF_ROWS_GROUPS},
    {"self_attention.dense", "attn_output", HF_ROWS_SAME},
    {"mlp.dense_h_to_4h", "ffn_up", HF_ROWS_SAME},
    {"mlp.dense_4h_to_h", "ffn_down", HF_ROWS_SAME},
    {"ln_attn", "attn_norm_2", HF_ROWS_SAME},
    {"ln_mlp", "attn_norm", HF_ROWS_SAME},
    {NULL, NULL, HF_ROWS_SAME},
};

static const struct module mpt[] = {
    {"attn.Wqkv", "attn_qkv", HF_ROWS_SAME},
    {"attn.out_proj", "attn_output", HF_ROWS_SAME},
    {"ffn.up_proj", "ffn_up", HF_ROWS_SAME},
    {"ffn.down_proj", "ffn_down", HF_ROWS_SAME},
    {"norm_1", "attn_norm", HF_ROWS_SAME},
    {"norm_2", "ffn_norm", HF_ROWS_SAME},
    {NULL, NULL, HF_ROWS_SAME},
};

static const struct module phi2[] = {
    {"self_attn.dense", "attn_output", HF_ROWS_SAME},
    {"mlp.fc1", "ffn_up", HF_ROWS_SAME},
    {"mlp.fc2", "ffn_down", HF_ROWS_SAME},
    {NULL, NULL, HF_ROWS_SAME},
};

static const struct module starcoder2[] = {
    {"mlp.c_fc", "ffn_up", HF_ROWS_SAME},
    {"mlp.c_proj", "ffn_down", HF_ROWS_SAME},
    {NULL, NULL, HF_ROWS_SAME},
};

static const struct module exaone[] = {
    {"attn.attention.q_proj", "attn_q", HF_ROWS_SAME},
    {"attn.attention.k_proj", "attn_k", HF_ROWS_SAME},
    {"attn.attention.v_proj", "attn_v", HF_ROWS_SAME},
    {"attn.attention.out_proj", "attn_output", HF_ROWS_SAME},
    {"mlp.c_fc_0", "ffn_gate", HF_ROWS_SAME},
    {"mlp.c_fc_1", "ffn_up", HF_ROWS_SAME},
    {"ln_1", "attn_norm", HF_ROWS_SAME},
    {"ln_2", "ffn_norm", HF_ROWS_SAME},
    {"mlp.c_proj", "ffn_down", HF_ROWS_SAME},
    {NULL, NULL, HF_ROWS_SAME},
};

static const struct module internlm2[] = {
    {"attention.wo", "attn_output", HF_ROWS_SAME}, {"attention.wqkv", "attn_qkv", HF_ROWS_GROUPS},
    {"attention_norm", "attn_norm", HF_ROWS_SAME}, {"ffn_norm", "ffn_norm", HF_ROWS_SAME},
    {"feed_forward.w1", "ffn_gate", HF_ROWS_SAME}, {"feed_forward.w3", "ffn_up", HF_ROWS_SAME},
    {"feed_forward.w2", "ffn_down", HF_ROWS_SAME}, {NULL, NULL, HF_ROWS_SAME},
};

static const struct module llama4[] = {
    {"feed_forward.gate_proj", "ffn_gate", HF_ROWS_SAME},
    {"feed_forward.up_proj", "ffn_up", HF_ROWS_SAME},
    {"feed_forward.down_proj", "ffn_down", HF_ROWS_SAME},
    {"feed_forward.router", "ffn_gate_inp", HF_ROWS_SAME},
    {"feed_forward.experts.gate_up_proj", "ffn_gate_up_exps", HF_ROWS_SAME},
    {"feed_forward.experts.down_proj", "ffn_down_exps", HF_ROWS_SAME},
    {"feed_forward.shared_expert.gate_proj", "ffn_gate_shexp", HF_ROWS_SAME},
    {"feed_forward.shared_expert.up_proj", "ffn_up_shexp", HF_ROWS_SAME},
    {"feed_forward.shared_expert.down_proj", "ffn_down_shexp", HF_ROWS_SAME},
    {NULL, NULL, HF_ROWS_SAME},
};

static const struct module hunyuan_moe[] = {
    {"mlp.gate.wg", "ffn_gate_inp", HF_ROWS_SAME},
    {"self_attn.query_layernorm", "attn_q_norm", HF_ROWS_SAME},
    {"self_attn.key_layernorm", "attn_k_norm", HF_ROWS_SAME},
    {"mlp.shared_mlp.gate_proj", "ffn_gate_shexp", HF_ROWS_SAME},
    {"mlp.shared_mlp.up_proj", "ffn_up_shexp", HF_ROWS_SAME},
    {"mlp.shared_mlp.down_proj", "ffn_down_shexp", HF_ROWS_SAME},
    {NULL, NULL, HF_ROWS_SAME},
};

/* Mamba's block, and Mamba 2's. */
#define MAMBA_NAMES(block)                                                                                   \
    {block ".in_proj", "ssm_in", HF_ROWS_SAME}, {block ".conv1d", "ssm_conv1d", HF_ROWS_SAME},               \
        {block ".dt", "ssm_dt", HF_ROWS_SAME}, /* dt_bias */                                                 \
        {block ".A_log", "ssm_a.", HF_ROWS_SAME}, {block ".norm", "ssm_norm", HF_ROWS_SAME},                 \
    {                                                                                                        \
        block ".out_proj", "ssm_out", HF_ROWS_SAME                                                           \
    }

static const struct module mamba[] = {
    {"norm", "attn_norm", HF_ROWS_SAME},       MAMBA_NAMES("mixer"),
    {"mixer.D", "ssm_d.", HF_ROWS_SAME},       {"mixer.x_proj", "ssm_x", HF_ROWS_SAME},
    {"mixer.dt_proj", "ssm_dt", HF_ROWS_SAME}, {NULL, NULL, HF_ROWS_SAME},
};

static const struct module falcon_h1[] = {
    MAMBA_NAMES("mamba"),
    {"mamba.D", "ssm_d.", HF_ROWS_SAME},
    {"feed_forward.gate_proj", "ffn_gate", HF_ROWS_SAME},
    {"feed_forward.up_proj", "ffn_up", HF_ROWS_SAME},
    {"feed_forward.down_proj", "ffn_down", HF_ROWS_SAME},
    {"pre_ff_layernorm", "ffn_norm.", HF_ROWS_SAME}, /* so named by llama.cpp's converter */
    {NULL, NULL, HF_ROWS_SAME},
};

static const struct module granite_hybrid[] = {
    MAMBA_NAMES("mamba"),
    {"mamba.D", "ssm_d.", HF_ROWS_SAME},
    GRANITE_NAMES,
    {NULL, NULL, HF_ROWS_SAME},
};

static const struct module lfm2[] = {
    {"operator_norm", "attn_norm", HF_ROWS_SAME},
    {"ffn_norm", "ffn_norm", HF_ROWS_SAME},
    {"feed_forward.w1", "ffn_gate", HF_ROWS_SAME},
    {"feed_forward.w3", "ffn_up", HF_ROWS_SAME},
    {"feed_forward.w2", "ffn_down", HF_ROWS_SAME},
    {"self_attn.out_proj", "attn_output", HF_ROWS_SAME},
    {"self_attn.q_layernorm", "attn_q_norm", HF_ROWS_SAME},
    {"self_attn.k_layernorm", "attn_k_norm", HF_ROWS_SAME},
    {"conv.conv", "shortconv.conv.weight", HF_ROWS_SAME},
    {"conv.in_proj", "shortconv.in_proj.weight", HF_ROWS_SAME},
    {"conv.out_proj", "shortconv.out_proj.weight", HF_ROWS_SAME},
    {NULL, NULL, HF_ROWS_SAME},
};

static const struct module lfm2_outer[] = {
    {"embedding_norm", "token_embd_norm", HF_ROWS_SAME},
    {NULL, NULL, HF_ROWS_SAME},
};

static const struct module qwen3next[] = {
    {"post_attention_layernorm", "post_attention_norm", HF_ROWS_SAME},
    {"linear_attn.in_proj_qkvz", "attn_qkvz", HF_ROWS_SAME},
    {"linear_attn.in_proj_ba", "ssm_ba", HF_ROWS_SAME},
    {"linear_attn.conv1d", "ssm_conv1d", HF_ROWS_SAME},
    {"linear_attn.dt", "ssm_dt", HF_ROWS_SAME}, /* dt_bias */
    {"linear_attn.A_log", "ssm_a.", HF_ROWS_SAME},
    {"linear_attn.norm", "ssm_norm", HF_ROWS_SAME},
    {"linear_attn.out_proj", "ssm_out", HF_ROWS_SAME},
    {NULL, NULL, HF_ROWS_SAME},
};

static const struct module gpt_oss[] = {
    {"mlp.router", "ffn_gate_inp", HF_ROWS_SAME},
    {"post_attention_layernorm", "post_attention_norm", HF_ROWS_SAME},
    {"self_attn.sinks", "attn_sinks", HF_ROWS_SAME},
    {NULL, NULL, HF_ROWS_SAME},
};

/* BERT and RoBERTa; from attention.q_lin on DistilBERT. */
static const struct module bert[] = {
    {"attention.self.query", "attn_q", HF_ROWS_SAME},
    {"attention.self.key", "attn_k", HF_ROWS_SAME},
    {"attention.self.value", "attn_v", HF_ROWS_SAME},
    {"attention.output.dense", "attn_output", HF_ROWS_SAME},
    {"attention.output.LayerNorm", "attn_output_norm", HF_ROWS_SAME},
    {"intermediate.dense", "ffn_up", HF_ROWS_SAME},
    {"output.dense", "ffn_down", HF_ROWS_SAME},
    {"output.LayerNorm", "layer_output_norm", HF_ROWS_SAME},
    {"attention.q_lin", "attn_q", HF_ROWS_SAME},
    {"attention.k_lin", "attn_k", HF_ROWS_SAME},
    {"attention.v_lin", "attn_v", HF_ROWS_SAME},
    {"attention.out_lin", "attn_output", HF_ROWS_SAME},
    {"sa_layer_norm", "attn_output_norm", HF_ROWS_SAME},
    {"ffn.lin1", "ffn_up", HF_ROWS_SAME},
    {"ffn.lin2", "ffn_down", HF_ROWS_SAME},
    {"output_layer_norm", "layer_output_norm", HF_ROWS_SAME},
    /* Jina's */
    {"attention.self.layer_norm_q", "attn_q_norm", HF_ROWS_SAME},
    {"attention.self.layer_norm_k", "attn_k_norm", HF_ROWS_SAME},
    {"layer_norm_1", "attn_norm_2", HF_ROWS_SAME},
    {"mlp.gated_layers", "ffn_gate_up", HF_ROWS_SAME},
    {"mlp.up_gated_layer", "ffn_up_gate", HF_ROWS_SAME},
    {"mlp.wo", "ffn_down", HF_ROWS_SAME},
    {"mlp.down_layer", "ffn_down", HF_ROWS_SAME},
    {"mlp.layernorm", "layer_output_norm", HF_ROWS_SAME},
    {"layer_norm_2", "layer_output_norm", HF_ROWS_SAME},
    {NULL, NULL, HF_ROWS_SAME},
};

static const struct module nomic_bert[] = {
    {"attn.Wqkv", "attn_qkv", HF_ROWS_SAME},
    {"attn.out_proj", "attn_output", HF_ROWS_SAME},
    {"mlp.fc11", "ffn_up", HF_ROWS_SAME},
    {"mlp.fc12", "ffn_gate", HF_ROWS_SAME},
    {"mlp.fc2", "ffn_down", HF_ROWS_SAME},
    {"norm1", "attn_output_norm", HF_ROWS_SAME},
    {"norm2", "layer_output_norm", HF_ROWS_SAME},
    {"mlp.fc1", "ffn_up", HF_ROWS_SAME},
    {"mlp.router.layer", "ffn_gate_inp", HF_ROWS_SAME},
    {"mlp.experts.mlp.w1", "ffn_up_exps", HF_ROWS_SAME},
    {"mlp.experts.mlp.w2", "ffn_down_exps", HF_ROWS_SAME},
    {"mlp.experts", "ffn_exps", HF_ROWS_SAME}, /* its bias */
    {NULL, NULL, HF_ROWS_SAME},
};

static const struct module modern_bert[] = {
    {"attn.Wqkv", "attn_qkv", HF_ROWS_SAME},
    {"attn.Wo", "attn_output", HF_ROWS_SAME},
    {"mlp.Wi", "ffn_up", HF_ROWS_SAME},
    {"mlp.Wo", "ffn_down", HF_ROWS_SAME},
    {"mlp_norm", "ffn_norm", HF_ROWS_SAME},
    {"attn_norm", "attn_norm", HF_ROWS_SAME},
    {NULL, NULL, HF_ROWS_SAME},
};

static const struct module modern_bert_outer[] = {
    {"embeddings.norm", "token_embd_norm", HF_ROWS_SAME},
    {"final_norm", "output_norm", HF_ROWS_SAME},
    {"head.dense", "cls", HF_ROWS_SAME},
    {"head.norm", "cls.norm", HF_ROWS_SAME},
    {"classifier", "cls.output", HF_ROWS_SAME},
    {NULL, NULL, HF_ROWS_SAME},
};

/* Encoders: the last words of names outside the layers. */
static const struct module bert_outer[] = {
    {"position_embeddings", "position_embd", HF_ROWS_SAME},
    {"token_type_embeddings", "token_types", HF_ROWS_SAME},
    {"embeddings.LayerNorm", "token_embd_norm", HF_ROWS_SAME},
    {"emb_ln", "token_embd_norm", HF_ROWS_SAME},
    {"pooler.dense", "cls", HF_ROWS_SAME},
    {"pre_classifier", "cls", HF_ROWS_SAME},
    {"classifier.dense", "cls", HF_ROWS_SAME},
    {"classifier.out_proj", "cls.output", HF_ROWS_SAME},
    {"classifier", "cls.output", HF_ROWS_SAME},
    {NULL, NULL, HF_ROWS_SAME},
};

/* T5: what follows "encoder.block.N." or "decoder.block.N.". The decoder has cross attention between the two others. */
static const struct module t5[] = {
    {"layer.0.SelfAttention.q", "attn_q", HF_ROWS_SAME},
    {"layer.0.SelfAttention.k", "attn_k", HF_ROWS_SAME},
    {"layer.0.SelfAttention.v", "attn_v", HF_ROWS_SAME},
    {"layer.0.SelfAttention.o", "attn_o", HF_ROWS_SAME},
    {"layer.0.SelfAttention.relative_attention_bias", "attn_rel_b", HF_ROWS_SAME},
    {"layer.0.layer_norm", "attn_norm", HF_ROWS_SAME},
    {"layer.1.EncDecAttention.q", "cross_attn_q", HF_ROWS_SAME},
    {"layer.1.EncDecAttention.k", "cross_attn_k", HF_ROWS_SAME},
    {"layer.1.EncDecAttention.v", "cross_attn_v", HF_ROWS_SAME},
    {"layer.1.EncDecAttention.o", "cross_attn_o", HF_ROWS_SAME},
    {"layer.2.layer_norm", "ffn_norm", HF_ROWS_SAME},
    {"layer.#.DenseReluDense.wi", "ffn_up", HF_ROWS_SAME},
    {"layer.#.DenseReluDense.wi_0", "ffn_gate", HF_ROWS_SAME},
    {"layer.#.DenseReluDense.wi_1", "ffn_up", HF_ROWS_SAME},
    {"layer.#.DenseReluDense.wo", "ffn_down", HF_ROWS_SAME},
    {NULL, NULL, HF_ROWS_SAME},
};

/* Families with names of their own, and those whose GGUF files have the pairs of rope adjacent. */
static const struct family {
    const char *name;
    bool pairs_adjacent;
    const struct module *modules; /* NULL: only the usual ones */
    const struct module *outer;   /* outside the layers, before those of all families; NULL: none */
} families[] = {
    {"llama", true, mixtral, NULL},
    {"granite", true, granite, NULL},
    {"granitemoe", true, granite, NULL},
    {"granitehybrid", true, granite_hybrid, NULL},
    {"falcon-h1", false, falcon_h1, NULL},
    {"lfm2", false, lfm2, lfm2_outer},
    {"qwen3next", false, qwen3next, NULL},
    {"gemma2", false, norms_behind, NULL},
    {"gemma3", false, norms_behind, NULL},
    {"olmo2", false, norms_behind, NULL},
    {"exaone4", false, norms_behind, NULL},
    {"glm4", false, glm4, NULL},
    {"glm4moe", false, glm4moe, NULL},
    {"stablelm", false, stablelm, NULL},
    {"hunyuan-dense", false, hunyuan_dense, NULL},
    {"ernie4_5-moe", false, ernie_moe, NULL},
    {"smollm3", true, NULL, NULL},
    {"minicpm", true, NULL, NULL},
    {"internlm2", true, internlm2, NULL},
    {"deepseek2", false, deepseek, NULL},
    {"gpt2", false, gpt2, NULL},
    {"gptneox", false, neox, NULL},
    {"bloom", false, neox, NULL},
    {"falcon", false, neox, NULL},
    {"mpt", false, mpt, NULL},
    {"phi2", false, phi2, NULL},
    {"starcoder2", false, starcoder2, NULL},
    {"exaone", false, exaone, NULL},
    {"llama4", false, llama4, NULL},
    {"hunyuan-moe", false, hunyuan_moe, NULL},
    {"gpt-oss", false, gpt_oss, NULL},
    {"bert", false, bert, bert_outer},
    {"nomic-bert", false, nomic_bert, bert_outer},
    {"nomic-bert-moe", false, nomic_bert, bert_outer},
    {"jina-bert-v2", false, bert, bert_outer},
    {"gemma-embedding", false, norms_behind, NULL},
    {"modern-bert", false, modern_bert, modern_bert_outer},
    {"mamba", false, mamba, NULL},
    {"mamba2", false, mamba, NULL},
};

/* Modules outside the layers: the last word of their names. */
static const struct {
    const char *name, *tensor;
    bool is_embedding;
} outer[] = {
    {"lm_head", "output", false},
    {"embed_out", "output", false},
    {"embed_tokens", "token_embd", true},
    {"tok_embeddings", "token_embd", true},
    {"word_embeddings", "token_embd", true},
    {"embed_in", "token_embd", true},
    {"embeddings", "token_embd", true},
    {"wte", "token_embd", true},
    {"wpe", "position_embd", true},
    {"word_embeddings_layernorm", "token_embd_norm", false},
    {"norm", "output_norm", false},
    {"ln_f", "output_norm", false},
    {"norm_f", "output_norm", false},
    {"final_layer_norm", "output_norm", false},
    {"final_layernorm", "output_norm", false},
    {"score", "cls.output", false}, /* of decoders that classify */
};

/* Whether a module's name matches a pattern; *expert receives the number at #. */
static bool matches(const char *pattern, const char *name, uint32_t *expert)
{
    for (; *pattern; pattern++) {
        if (*pattern == '#') {
            char *end;
            if (!isdigit((unsigned char)*name)) return false;
            unsigned long long number = strtoull(name, &end, 10);
            if (number > INT32_MAX) return false;
            *expert = (uint32_t)number;
            name = end;
        } else if (*pattern != *name++) {
            return false;
        }
    }
    return !*name;
}

static const struct module *find_module(const struct module *modules, const char *name, uint32_t *expert)
{
    for (; modules && modules->name; modules++)
        if (matches(modules->name, name, expert)) return modules;
    return NULL;
}

/* Finds "layers.N." (or "layer.N.", "h.N.", "blocks.N.") in a module's name. Returns what follows, or NULL. */
static const char *after_layer(const char *module, uint32_t *layer)
{
    static const char *const words[] = {"layers.", "layer.", "h.", "blocks."};
    for (const char *at = module; at; at = strchr(at, '.')) {
        if (*at == '.') at++;
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            size_t length = strlen(words[i]);
            char *end;
            if (strncmp(at, words[i], length) != 0 || !isdigit((unsigned char)at[length])) continue;
            unsigned long long number = strtoull(at + length, &end, 10);
            if (*end != '.' || number > INT32_MAX) continue;
            *layer = (uint32_t)number;
            return end + 1;
        }
    }
    return NULL;
}

bool hf_ends_with(const char *name, const char *end)
{
    size_t length = strlen(name), n = strlen(end);
    return length > n && strcmp(name + length - n, end) == 0;
}

/* Whether a name is, or ends with, these words. */
static bool ends_with_words(const char *name, const char *words)
{
    size_t length = strlen(name), n = strlen(words);
    if (length < n || strcmp(name + length - n, words) != 0) return false;
    return length == n || name[length - n - 1] == '.';
}

static bool find_own_outer(const struct module *modules, const char *module, struct hf_name *name)
{
    for (; modules && modules->name; modules++) {
        if (!ends_with_words(module, modules->name)) continue;
        snprintf(name->tensor, sizeof name->tensor, "%s.weight", modules->tensor);
        name->is_embedding =
            strcmp(modules->tensor, "position_embd") == 0 || strcmp(modules->tensor, "token_types") == 0;
        return true;
    }
    return false;
}

static bool find_outer(const char *module, struct hf_name *name)
{
    const char *dot = strrchr(module, '.'), *last = dot ? dot + 1 : module;
    for (size_t i = 0; i < sizeof outer / sizeof *outer; i++) {
        if (strcmp(last, outer[i].name) != 0) continue;
        snprintf(name->tensor, sizeof name->tensor, "%s.weight", outer[i].tensor);
        name->is_embedding = outer[i].is_embedding;
        return true;
    }
    return false;
}

/* Names of T5. Layers of two parts have numbers of their own, so `name` has none. */
static bool find_t5(const char *module, struct hf_name *name)
{
    bool encodes = strncmp(module, "encoder.", 8) == 0;
    *name = (struct hf_name){.layer = HF_NO_NUMBER, .expert = HF_NO_NUMBER};
    if (!encodes && strncmp(module, "decoder.", 8) != 0) {
        name->is_embedding = strcmp(module, "shared") == 0;
        bool is_known = name->is_embedding || strcmp(module, "lm_head") == 0;
        snprintf(name->tensor, sizeof name->tensor, "%s",
                 name->is_embedding ? "token_embd.weight" : "output.weight");
        return is_known;
    }
    const char *part = encodes ? "enc" : "dec", *block = module + 8;
    uint32_t sublayer;
    char *rest;
    if (strcmp(block, "final_layer_norm") == 0)
        return snprintf(name->tensor, sizeof name->tensor, "%s.output_norm.weight", part) > 0;
    if (strncmp(block, "block.", 6) != 0 || !isdigit((unsigned char)block[6])) return false;
    unsigned long long layer = strtoull(block + 6, &rest, 10);
    if (*rest != '.' || layer > INT32_MAX) return false;
    const struct module *found = find_module(t5, rest + 1, &sublayer);
    const char *tensor = found ? found->tensor : NULL;
    if (strcmp(rest + 1, "layer.1.layer_norm") == 0) tensor = encodes ? "ffn_norm" : "cross_attn_norm";
    if (!tensor) return false;
    snprintf(name->tensor, sizeof name->tensor, "%s.blk.%llu.%s.weight", part, layer, tensor);
    return true;
}

bool hf_name(const char *family, const char *module, struct hf_name *name)
{
    if (strcmp(family, "t5") == 0 || strcmp(family, "t5encoder") == 0) return find_t5(module, name);
    const struct family *own = NULL;
    for (size_t i = 0; i < sizeof families / sizeof *families && !own; i++)
        if (strcmp(families[i].name, family) == 0) own = &families[i];
    *name = (struct hf_name){.layer = HF_NO_NUMBER, .expert = HF_NO_NUMBER};
    const char *rest = after_layer(module, &name->layer);
    if (!rest) return find_own_outer(own ? own->outer : NULL, module, name) || find_outer(module, name);
    const struct module *found = own ? find_module(own->modules, rest, &name->expert) : NULL;
    if (!found) found = find_module(usual, rest, &name->expert);
    if (!found) return false;
    bool is_whole = strchr(found->tensor, '.') != NULL; /* "exp_probs_b.bias", or "ssm_a." without an end */
    snprintf(name->tensor, sizeof name->tensor, "blk.%u.%s%s", name->layer, found->tensor,
             is_whole ? "" : ".weight");
    size_t length = strlen(name->tensor);
    if (name->tensor[length - 1] == '.') name->tensor[length - 1] = '\0';
    name->rows = found->rows;
    bool pairs = found->rows == HF_ROWS_QUERIES || found->rows == HF_ROWS_KEYS;
    if (pairs && !(own && own->pairs_adjacent)) name->rows = HF_ROWS_SAME;
    return true;
}
