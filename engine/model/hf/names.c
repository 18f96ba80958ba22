/* names.c: see names.h. The tables have the part of a module's name after the layer's number; # stands for an
 * expert's number. A family's own tables, in its descriptor, come first, then these. */
#include "model/hf/names.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Llama's names, which most families have taken over, and those of mixtures. */
static const struct hf_module usual[] = {
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"mlp.gate_up_proj", "ffn_up"}, /* gate and up in one tensor */
    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.experts.#.gate_proj", "ffn_gate_exps"},
    {"mlp.experts.#.up_proj", "ffn_up_exps"},
    {"mlp.experts.#.down_proj", "ffn_down_exps"},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
    {"mlp.experts.gate_up_proj", "ffn_gate_up_exps"}, /* of all experts */
    {"mlp.experts.down_proj", "ffn_down_exps"},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {0},
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

const char *hf_module_find(const struct hf_module *modules, const char *name, uint32_t *number)
{
    for (; modules && modules->name; modules++)
        if (matches(modules->name, name, number)) return modules->tensor;
    return NULL;
}

/* Finds "layers.N." (or "layer.N.", "h.N.", "blocks.N.") in a module's name. Returns what follows, or
 * NULL. */
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

const char *hf_layer_number_key(const struct hf_family *family, const char *name, uint32_t *layer)
{
    uint32_t unused;
    const char *rest = family->layer_numbers ? after_layer(name, layer) : NULL;
    return rest ? hf_module_find(family->layer_numbers, rest, &unused) : NULL;
}

bool hf_ends_with(const char *name, const char *end)
{
    size_t length = strlen(name), n = strlen(end);
    return length > n && strcmp(name + length - n, end) == 0;
}

/* Whether the last words of a name match a pattern; *number receives the one at #. */
static bool ends_with(const char *pattern, const char *name, uint32_t *number)
{
    for (; name; name = strchr(name, '.') ? strchr(name, '.') + 1 : NULL)
        if (matches(pattern, name, number)) return true;
    return false;
}

static bool find_own_outer(const struct hf_module *modules, const char *module, struct hf_name *name)
{
    for (; modules && modules->name; modules++) {
        if (!ends_with(modules->name, module, &name->expert)) continue;
        snprintf(name->tensor, sizeof name->tensor, "%s.weight", modules->tensor);
        name->is_embedding = strcmp(modules->tensor, "token_embd") == 0 ||
                             strcmp(modules->tensor, "position_embd") == 0 ||
                             strcmp(modules->tensor, "token_types") == 0 ||
                             strcmp(modules->tensor, "per_layer_token_embd") == 0;
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

/* How a matrix's rows are ordered in GGUF files of the family. */
static enum hf_rows rows_of(const struct hf_family *family, const char *tensor)
{
    if (family->groups_qkv && strcmp(tensor, "attn_qkv") == 0) return HF_ROWS_GROUPS;
    if (family->pairs_adjacent && strcmp(tensor, "attn_q") == 0) return HF_ROWS_QUERIES;
    if (family->pairs_adjacent && strcmp(tensor, "attn_k") == 0) return HF_ROWS_KEYS;
    return HF_ROWS_SAME;
}

bool hf_name(const struct hf_family *family, const char *module, struct hf_name *name)
{
    if (family->name) return family->name(module, name);
    *name = (struct hf_name){.layer = HF_NO_NUMBER, .expert = HF_NO_NUMBER};
    const char *rest = after_layer(module, &name->layer);
    if (!rest)
        return find_own_outer(family->outer, module, name) || (!family->prefix && find_outer(module, name));
    const char *tensor = hf_module_find(family->modules, rest, &name->expert);
    if (!tensor && !family->prefix) tensor = hf_module_find(usual, rest, &name->expert);
    if (!tensor) return false;
    bool is_whole = strchr(tensor, '.') != NULL; /* "exp_probs_b.bias", or "ssm_a." without an end */
    snprintf(name->tensor, sizeof name->tensor, "%sblk.%u.%s%s", family->prefix ? family->prefix : "",
             name->layer, tensor, is_whole ? "" : ".weight");
    size_t length = strlen(name->tensor);
    if (name->tensor[length - 1] == '.') name->tensor[length - 1] = '\0';
    name->rows = rows_of(family, tensor);
    return true;
}
