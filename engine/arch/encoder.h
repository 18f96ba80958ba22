/* encoder.h: what encoders share. An encoder is a struct decoder whose attention sees the whole text
 * (both_ways). Its result is not logits but the states of all tokens after the last layer. */
#ifndef ENGINE_ARCH_ENCODER_H
#define ENGINE_ARCH_ENCODER_H

#include "arch/decoder.h"

/* Reads what decoder_read does, and rows of token types. The norms are layer norms. */
void encoder_read(struct hparams *h, struct decoder *d, uint32_t pairs);

/* As decoder_info. Call it once all layers are read. */
struct arch_info encoder_info(const struct decoder *d);

/* Hands out the states x [n_embd, n_tokens]. Ends every encoder's graph. */
void encoder_build_states(struct graph *g, const struct decoder *d, struct value *x);

/* Builds the layers of BERT, whose norms follow the sums: x = norm(x + attention(x)), x = norm(x +
 * feed-forward(x)), and the states. `decoder`: a struct decoder, or one that begins with it. */
void encoder_build(struct graph *g, const void *decoder);

/* The same of encoders built like decoders: decoder_build_layers and the norm of the output. */
void encoder_build_as_decoder(struct graph *g, const void *decoder);

/* ---- Hugging Face directories -------------------------------------------------------------------------- */

/* BERT's and RoBERTa's modules, DistilBERT's and Jina's; and those outside the layers. */
extern const struct hf_module encoder_modules[], encoder_outer[];

/* What all encoders say. n_types: the rows of token_types if config.json doesn't have their number. */
void encoder_read_config(struct hf_config *config, uint32_t n_types);

#endif
