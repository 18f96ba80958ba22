/* family-samples.h: small random models of families, or of forms of their files, that ../shared/families
 * lacks. Their weights are derived from the tensors' names, so that they are the same everywhere and a test
 * can contain transformers' results, which tests/tools/reference-families prints. */
#ifndef TESTS_FAMILY_SAMPLES_H
#define TESTS_FAMILY_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SAMPLE_VOCAB   290
#define SAMPLE_TOKENS  24
#define SAMPLE_ANSWERS 8 /* logits of the last token, of every SAMPLE_STRIDE-th id */
#define SAMPLE_STRIDE  36

struct family_sample {
    const char *name, *family;
    uint32_t n_layers, n_experts, n_used;
    uint32_t first_mixture, step; /* layers i >= first_mixture with (i + 1) % step == 0 */
    const char *ffn_norm;
    bool has_biases; /* of queries, keys and values */
    bool has_head_norms;
    bool has_choice_bias; /* exp_probs_b */
    bool has_shared;      /* an expert for all tokens */
    bool fuses;           /* attn_qkv, ffn_gate_up_exps */
    bool splits_experts;  /* a tensor for each */
    bool is_latent;       /* DeepSeek's attention, with attn_kv_b */
    bool has_yarn;
    uint32_t window;               /* attention.sliding_window; 0: no such key */
    float answers[SAMPLE_ANSWERS]; /* transformers', in float32 */
};

extern const struct family_sample family_samples[];
extern const size_t n_family_samples;

bool family_sample_write(const struct family_sample *sample, const char *path);
/* Tokens of the text that the answers are for: 5 + (37 * i) % 280. */
void family_sample_tokens(int32_t tokens[SAMPLE_TOKENS]);

#endif
