/* encoders.c: what config.json says of encoders and of T5, for their rows in families.c. See config.h. */
#include <math.h>
#include <string.h>

#include "model/hf/config.h"

/* llama.cpp takes the rows of token_types from here. `preset`: as in transformers. */
static void read_token_types(struct hf_config *config, uint32_t preset)
{
    uint32_t n = hf_count(config, config->json, "type_vocab_size", preset);
    if (!config->status)
        config->status = metadata_add_u32(config->metadata, "tokenizer.ggml.token_type_count", n);
}

void hf_read_bert(struct hf_config *config)
{
    const char *positions = hf_text(config, config->json, "position_embedding_type");
    bool has_rope = config->family->rotary > 0; /* ModernBERT, which reads neither key */
    /* Until transformers 4; other words mean nothing. */
    hf_refuse(config, !has_rope && positions && strncmp(positions, "relative_key", 12) == 0,
              "a position_embedding_type with relative keys");
    hf_refuse(config, !has_rope && hf_flag(config, config->json, "is_decoder", false),
              "an encoder as a decoder");
    hf_put_flag(config, "attention.causal", false);
    read_token_types(config, strcmp(config->family->type, "distilbert") == 0 ? 1 : 2);
}

void hf_read_jina_bert(struct hf_config *config)
{
    const char *type = hf_text(config, config->json, "feed_forward_type");
    hf_refuse(config, !type || strcmp(type, "geglu") != 0, "a feed_forward_type but geglu");
    hf_refuse(config, hf_flag(config, config->json, "is_decoder", false), "an encoder as a decoder");
    hf_put_flag(config, "attention.causal", false);
    read_token_types(config, 2);
}

void hf_read_nomic_bert(struct hf_config *config)
{
    hf_refuse(config, hf_flag(config, config->json, "prenorm", false), "prenorm");
    hf_refuse(config, hf_flag(config, config->json, "rotary_emb_interleaved", false),
              "rotary_emb_interleaved");
    hf_put_flag(config, "attention.causal", false);
    read_token_types(config, 2);
}

void hf_read_nomic_bert_moe(struct hf_config *config)
{
    config->n_experts = hf_count(config, config->json, "num_experts", 8);
    hf_refuse(config, hf_flag(config, config->json, "moe_normalize_expert_weights", false),
              "moe_normalize_expert_weights");
    hf_refuse(config, hf_count(config, config->json, "num_shared_experts", 0) > 0, "num_shared_experts");
    hf_read_nomic_bert(config);
}

void hf_read_gemma_embedding(struct hf_config *config)
{
    hf_read_query_scale(config);
    hf_refuse(config, hf_get(config->json, "attn_logit_softcapping") != NULL, "attn_logit_softcapping");
    hf_put_flag(config, "attention.causal", false);
}

/* T5 1.0 scales what its output matrix, the embedding, reads. Older files say so by tie_word_embeddings alone, as those
 * of UMT5 do. */
void hf_read_t5(struct hf_config *config)
{
    const json_t *json = config->json;
    bool scales = hf_flag(config, json, "tie_word_embeddings", true);
    if (strcmp(config->family->type, "t5") == 0)
        scales = hf_flag(config, json, "scale_decoder_outputs", scales);
    else if (strcmp(config->family->type, "mt5") == 0)
        scales = false;
    hf_put_count(config, "decoder_block_count",
                 hf_count(config, json, "num_decoder_layers", config->n_layers));
    hf_put_count(config, "decoder_start_token_id", hf_count(config, json, "decoder_start_token_id", 0));
    hf_put_float(config, "logit_scale", scales ? 1 / sqrt(config->n_embd) : 1);
}

void hf_read_t5_encoder(struct hf_config *config)
{
    hf_put_flag(config, "attention.causal", false);
}
