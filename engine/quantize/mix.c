/* mix.c: see mix.h. The rules are llama-quantize's, so that a mix of a given name is the same whichever
 * program made it: more bits for the output matrix, for the values of attention, for the matrices that write
 * to the residual stream, and for the first and last layers, where errors do most harm. */
#include "quantize/mix.h"

#include <ctype.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "arch/arch.h"
#include "base/error.h"
#include "base/log.h"
#include "model/types.h"
#include "quantize/encode.h"

enum {
    Q2 = ENGINE_TYPE_Q2_K,
    Q3 = ENGINE_TYPE_Q3_K,
    Q4 = ENGINE_TYPE_Q4_K,
    Q5 = ENGINE_TYPE_Q5_K,
    Q6 = ENGINE_TYPE_Q6_K
};

/* Indices into the table. */
enum {
    F32,
    F16,
    BF16,
    Q8_0,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q2_K,
    Q2_K_S,
    Q3_K_S,
    Q3_K_M,
    Q3_K_L,
    Q4_K_S,
    Q4_K_M,
    Q5_K_S,
    Q5_K_M,
    Q6_K,
    IQ4_NL,
    IQ4_XS,
    N_MIXES
};
static const struct mix mixes[N_MIXES] = {
    [F32] = {"F32", ENGINE_TYPE_F32, 0},
    [F16] = {"F16", ENGINE_TYPE_F16, 1},
    [BF16] = {"BF16", ENGINE_TYPE_BF16, 32},
    [Q8_0] = {"Q8_0", ENGINE_TYPE_Q8_0, 7},
    [Q4_0] = {"Q4_0", ENGINE_TYPE_Q4_0, 2},
    [Q4_1] = {"Q4_1", ENGINE_TYPE_Q4_1, 3},
    [Q5_0] = {"Q5_0", ENGINE_TYPE_Q5_0, 8},
    [Q5_1] = {"Q5_1", ENGINE_TYPE_Q5_1, 9},
    [Q2_K] = {"Q2_K", Q2, 10},
    [Q2_K_S] = {"Q2_K_S", Q2, 21},
    [Q3_K_S] = {"Q3_K_S", Q3, 11},
    [Q3_K_M] = {"Q3_K_M", Q3, 12},
    [Q3_K_L] = {"Q3_K_L", Q3, 13},
    [Q4_K_S] = {"Q4_K_S", Q4, 14},
    [Q4_K_M] = {"Q4_K_M", Q4, 15},
    [Q5_K_S] = {"Q5_K_S", Q5, 16},
    [Q5_K_M] = {"Q5_K_M", Q5, 17},
    [Q6_K] = {"Q6_K", Q6, 18},
    [IQ4_NL] = {"IQ4_NL", ENGINE_TYPE_IQ4_NL, 25},
    [IQ4_XS] = {"IQ4_XS", ENGINE_TYPE_IQ4_XS, 30},
};

static const struct {
    const char *name;
    int mix;
} other_names[] = {{"Q3_K", Q3_K_M}, {"Q4_K", Q4_K_M}, {"Q5_K", Q5_K_M}};

const struct mix *mix_by_name(const char *name)
{
    for (size_t i = 0; i < N_MIXES; i++)
        if (strcasecmp(name, mixes[i].name) == 0) return &mixes[i];
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        if (strcasecmp(name, other_names[i].name) == 0) return &mixes[other_names[i].mix];
    return NULL;
}

const char *mix_names(void)
{
    return "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q2_K_S, Q3_K_S, Q3_K_M, Q3_K_L, Q4_K_S, "
           "Q4_K_M, "
           "Q5_K_S, Q5_K_M, Q6_K, IQ4_NL, IQ4_XS";
}

/* ---- Tensors by name ---- */

static bool mix_holds(const char *name, const char *part)
{
    return strstr(name, part) != NULL;
}

/* -1: outside layers. */
static int layer_of(const char *name)
{
    int layer = -1;
    if (strncmp(name, "blk.", 4) != 0 || !isdigit((unsigned char)name[4])) return -1;
    char *end;
    long number = strtol(name + 4, &end, 10);
    if (*end == '.' && number <= INT32_MAX) layer = (int)number;
    return layer;
}

static int mix_compare(const void *a, const void *b)
{
    const char *left = (*(const struct model_tensor *const *)a)->name;
    const char *right = (*(const struct model_tensor *const *)b)->name;
    int left_layer = layer_of(left), right_layer = layer_of(right);
    if (left_layer != right_layer) return left_layer < right_layer ? -1 : 1;
    return strcmp(left, right);
}

void mix_sort(const struct model_tensor **tensors, size_t n)
{
    qsort(tensors, n, sizeof *tensors, mix_compare);
}

bool mix_may_quantize(const struct model_tensor *tensor)
{
    /* Small tables and matrices whose every value matters. */
    static const char *const kept[] = {
        "_norm.weight",
        "ffn_gate_inp.weight",
        "ffn_gate_tid2eid.weight",
        "altup",
        "laurel",
        "per_layer_model_proj",
        "position_embd",
        "ssm_conv1d",
        "attn_rel_b.weight",
        "shortconv.conv.weight",
        "indexer.proj.weight",
        "_compressor_ape.weight",
        "hc_",
        "indexer.k_proj.weight",
        "indexer.q_proj.weight",
        "time_mix_first.weight",
        "time_mix_w0.weight",
        "time_mix_w1.weight",
        "time_mix_w2.weight",
        "time_mix_v0.weight",
        "time_mix_v1.weight",
        "time_mix_v2.weight",
        "time_mix_a0.weight",
        "time_mix_a1.weight",
        "time_mix_a2.weight",
        "time_mix_g1.weight",
        "time_mix_g2.weight",
        "time_mix_decay_w1.weight",
        "time_mix_decay_w2.weight",
        "time_mix_lerp_fused.weight",
        "attn_rel_b.weight",
        "sam.pos_embd",
        "sam.neck.",
        "sam.net_",
        ".rel_pos",
        ".patch_embd",
        ".patch_merger",
        "a.rvq.codebook",
        "mm.a.code_embd",
    };
    const char *name = tensor->name;
    size_t length = strlen(name);
    if (tensor->ne[1] == 1 && tensor->ne[2] == 1 && tensor->ne[3] == 1) return false;
    if (length < 6 || strcmp(name + length - 6, "weight") != 0 || strcmp(name, "token_types.weight") == 0)
        return false;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (mix_holds(name, kept[i])) return false;
    return true;
}

enum part { PART_OUTPUT, PART_EMBEDDING, PART_V, PART_K, PART_ATTENTION_OUTPUT, PART_DOWN, PART_OTHER };

static enum part part_of(const char *name)
{
    if (strcmp(name, "output.weight") == 0) return PART_OUTPUT;
    if (strcmp(name, "token_embd.weight") == 0 || strcmp(name, "per_layer_token_embd.weight") == 0)
        return PART_EMBEDDING;
    if (mix_holds(name, "attn_qkv.weight") || mix_holds(name, "attn_kv_b.weight") ||
        mix_holds(name, "attn_v.weight"))
        return PART_V;
    if (mix_holds(name, "attn_k.weight")) return PART_K;
    if (mix_holds(name, "attn_output.weight")) return PART_ATTENTION_OUTPUT;
    if (mix_holds(name, "ffn_up") || mix_holds(name, "ffn_gate")) return PART_OTHER;
    return mix_holds(name, "ffn_down") ? PART_DOWN : PART_OTHER;
}

/* ---- The rules ---- */

/* The input of the rules. */
struct circumstances {
    ptrdiff_t mix;
    uint32_t type;                  /* the mix's */
    bool as_falcon, is_large, tied; /* tied: the embedding is also the output matrix */
    int64_t n_layers, n_experts, heads_per_kv;
    int64_t n_v, v, down; /* tensors of attention values, in total and so far; ffn_down so far */
};

/* An integer of the architecture's metadata; the first one of an array. */
static int64_t number_of(const struct metadata *metadata, const char *architecture, const char *key,
                         int64_t other)
{
    char full[160];
    snprintf(full, sizeof full, "%s.%s", architecture, key);
    const struct metadata_entry *entry = metadata_find(metadata, full);
    int64_t value;
    return entry && metadata_entry_integer(entry, 0, &value) ? value : other;
}

static struct circumstances look(const struct mix *mix, const struct metadata *metadata,
                                 const struct model_tensor *const *tensors, size_t n)
{
    struct engine_string text = {"", 0};
    char name[64];
    metadata_string(metadata, "general.architecture", &text);
    snprintf(name, sizeof name, "%.*s", (int)(text.length < sizeof name ? text.length : sizeof name - 1),
             text.data);
    struct circumstances c = {.mix = mix - mixes, .type = mix->type, .tied = true};
    int64_t heads = number_of(metadata, name, "attention.head_count", 0);
    int64_t kv_heads = number_of(metadata, name, "attention.head_count_kv", heads);
    c.n_layers = number_of(metadata, name, "block_count", 0);
    if (c.n_layers < 0 || c.n_layers > INT32_MAX) c.n_layers = 0;
    c.n_experts = number_of(metadata, name, "expert_count", 0);
    c.heads_per_kv = kv_heads > 0 ? heads / kv_heads : 0;
    const struct architecture *family = arch_named(name);
    if (family) {
        c.as_falcon = family->quantize.as_falcon;
        c.is_large = c.n_layers > 0 && c.n_layers == family->quantize.n_layers &&
                     (!family->quantize.needs_groups || heads != kv_heads);
    }
    for (size_t i = 0; i < n; i++) {
        if (part_of(tensors[i]->name) == PART_V) c.n_v++;
        if (part_of(tensors[i]->name) == PART_OUTPUT) c.tied = false;
    }
    return c;
}

/* The first and the last eighth of the layers, and every third of the others. */
static bool wants_more_bits(int64_t layer, int64_t n_layers)
{
    return layer < n_layers / 8 || layer >= 7 * n_layers / 8 || (layer - n_layers / 8) % 3 == 2;
}

static uint32_t type_of_output(const struct circumstances *c, const struct model_tensor *tensor)
{
    if (c->as_falcon || tensor->ne[0] % type_info(c->type)->block_length != 0 || c->mix == Q8_0)
        return ENGINE_TYPE_Q8_0;
    return Q6;
}

static uint32_t type_of_v(struct circumstances *c)
{
    int64_t index = c->v++;
    uint32_t type = c->type;
    switch (c->mix) {
    case Q2_K: type = c->heads_per_kv >= 4 ? Q4 : Q3; break;
    case Q2_K_S: type = c->heads_per_kv >= 4 ? Q4 : Q2; break;
    case Q3_K_M: type = index < 2 ? Q5 : Q4; break;
    case Q3_K_L: type = Q5; break;
    case Q4_K_S: type = index < 4 ? Q5 : Q4; break;
    case Q4_K_M:
    case Q5_K_M: type = wants_more_bits(index, c->n_v) ? (uint32_t)Q6 : c->type; break;
    case IQ4_NL:
    case IQ4_XS: type = c->heads_per_kv >= 4 ? (uint32_t)Q5 : c->type; break;
    default: break;
    }
    if (c->is_large && (type == Q3 || type == Q4)) type = Q5;
    return c->n_experts == 8 ? ENGINE_TYPE_Q8_0 : type;
}

static uint32_t type_of_down(struct circumstances *c, const char *name)
{
    int64_t index = c->down++, n = c->n_layers;
    if (c->n_experts > 1) index = layer_of(name); /* there may be several in a layer */
    bool more = wants_more_bits(index, n), early = index < n / 8, first = index < n / 16;
    switch (c->mix) {
    case Q2_K: return Q3;
    case Q2_K_S: return early ? Q4 : Q2;
    case Q3_K_M: return first ? Q5 : !c->as_falcon || more ? Q4 : Q3;
    case Q3_K_L: return c->as_falcon ? Q4 : Q5;
    case Q4_K_S: return early && !c->as_falcon ? Q5 : Q4;
    case Q4_K_M: return !more ? Q4 : !c->as_falcon || first ? Q6 : Q5;
    case Q5_K_M: return more ? Q6 : Q5;
    case IQ4_NL:
    case IQ4_XS: return early ? (uint32_t)Q5 : c->type;
    default: return c->type;
    }
}

static uint32_t type_of_attention_output(const struct circumstances *c)
{
    if (c->as_falcon) return c->mix == Q3_K_L ? (uint32_t)Q4 : c->type;
    if (c->n_experts == 8) {
        switch (c->mix) {
        case Q2_K:
        case Q3_K_S:
        case Q3_K_M:
        case Q4_K_S:
        case Q4_K_M:
        case IQ4_NL:
        case IQ4_XS: return Q5;
        default: return c->type;
        }
    }
    switch (c->mix) {
    case Q2_K: return Q3;
    case Q3_K_M: return Q4;
    case Q3_K_L: return Q5;
    default: return c->type;
    }
}

static uint32_t mixed_type(struct circumstances *c, const struct model_tensor *tensor)
{
    switch (part_of(tensor->name)) {
    case PART_OUTPUT: return type_of_output(c, tensor);
    case PART_EMBEDDING: return c->tied ? type_of_output(c, tensor) : c->type;
    case PART_V: return type_of_v(c);
    case PART_K: return c->n_experts == 8 ? ENGINE_TYPE_Q8_0 : c->type;
    case PART_ATTENTION_OUTPUT: return type_of_attention_output(c);
    case PART_DOWN: return type_of_down(c, tensor->name);
    case PART_OTHER: break;
    }
    return c->type;
}

/* A type whose blocks fit the tensor's rows. */
static uint32_t fitting_type(const struct model_tensor *tensor, uint32_t type)
{
    uint32_t other = ENGINE_TYPE_F16;
    if (tensor->ne[0] % type_info(type)->block_length == 0) return type;
    switch (type) {
    case Q2:
    case Q3: other = ENGINE_TYPE_Q4_0; break;
    case Q4: other = ENGINE_TYPE_Q5_0; break;
    case Q5: other = ENGINE_TYPE_Q5_1; break;
    case Q6: other = ENGINE_TYPE_Q8_0; break;
    case ENGINE_TYPE_IQ4_XS: other = ENGINE_TYPE_IQ4_NL; break;
    default: break;
    }
    if (tensor->ne[0] % type_info(other)->block_length != 0) other = ENGINE_TYPE_F16;
    log_line(ENGINE_LOG_INFO,
             "%s becomes %s: its rows of %" PRIu64 " values are not a multiple of %s's blocks of %u",
             tensor->name, type_info(other)->name, tensor->ne[0], type_info(type)->name,
             type_info(type)->block_length);
    return other;
}

bool mix_matches(const struct mix_wish *wish, const struct model_tensor *tensor)
{
    return fnmatch(wish->pattern, tensor->name, 0) == 0;
}

void mix_choose(const struct mix *mix, bool pure, const struct mix_wish *wishes, size_t n_wishes,
                const struct metadata *metadata, const struct model_tensor *const *tensors, size_t n,
                uint32_t *types)
{
    struct circumstances c = look(mix, metadata, tensors, n);
    bool plain = type_info(mix->type)->block_length == 1;
    size_t n_replaced = 0;
    for (size_t i = 0; i < n; i++) {
        size_t w = 0;
        types[i] = tensors[i]->type;
        if (!mix_may_quantize(tensors[i])) continue;
        while (w < n_wishes && !mix_matches(&wishes[w], tensors[i])) w++;
        if (w < n_wishes)
            types[i] = wishes[w].type;
        else
            types[i] = pure || plain ? mix->type : mixed_type(&c, tensors[i]);
        uint32_t fitting = fitting_type(tensors[i], types[i]);
        n_replaced += fitting != types[i];
        types[i] = fitting;
    }
    if (n_replaced > 0)
        log_line(ENGINE_LOG_WARNING,
                 "%zu %s another type because of rows that are not a multiple of its blocks (--verbose lists "
                 "them)",
                 n_replaced, n_replaced == 1 ? "matrix gets" : "matrices get");
}

/* ---- The selection ------------------------------------------------------------------------------------- */

/* ---- Patterns ---- */

static int read_wish(const char *text, struct mix_wish *wish)
{
    const char *equals = strrchr(text, '=');
    if (!equals || equals == text)
        return error_raise(ENGINE_ERROR_ARGUMENT,
                           "'%s': expected PATTERN=TYPE, such as blk.*.ffn_down.*=Q6_K", text);
    if (!type_by_name(equals + 1, &wish->type) || !quantize_encoder(wish->type))
        return error_raise(ENGINE_ERROR_ARGUMENT,
                           "'%s': cannot write the type %s; choose F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, "
                           "Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL or IQ4_XS",
                           text, equals + 1);
    wish->pattern = strndup(text, (size_t)(equals - text));
    return wish->pattern ? ENGINE_OK : error_memory("patterns");
}

static int read_wishes(struct selection *selection, const char *const *only)
{
    size_t n = 0;
    while (only && only[n]) n++;
    selection->wishes = calloc(n + 1, sizeof *selection->wishes);
    if (!selection->wishes) return error_memory("patterns");
    for (; selection->n_wishes < n; selection->n_wishes++) {
        int status = read_wish(only[selection->n_wishes], &selection->wishes[selection->n_wishes]);
        if (status) return status;
    }
    return ENGINE_OK;
}

/* Whether one of the patterns names the tensor. */
static bool is_wished(const struct selection *selection, const struct model_tensor *tensor)
{
    for (size_t w = 0; w < selection->n_wishes; w++)
        if (mix_matches(&selection->wishes[w], tensor)) return true;
    return false;
}

/* A pattern that changes nothing is a mistake. */
static int check_wishes(const struct selection *selection)
{
    for (size_t w = 0; w < selection->n_wishes; w++) {
        size_t i = 0;
        while (i < selection->n && !(mix_may_quantize(selection->tensors[i]) &&
                                     mix_matches(&selection->wishes[w], selection->tensors[i])))
            i++;
        if (i == selection->n)
            return error_raise(ENGINE_ERROR_ARGUMENT,
                               "'%s' matches no tensor that can be quantised (`engine info` lists the "
                               "tensors; norms and vectors are kept)",
                               selection->wishes[w].pattern);
    }
    return ENGINE_OK;
}

/* ---- Types ---- */

/* A table of other numbers than weights. */
static bool is_number(uint32_t type)
{
    return type == ENGINE_TYPE_F64 || (type >= ENGINE_TYPE_I8 && type <= ENGINE_TYPE_I64);
}

static bool is_plain(uint32_t type)
{
    return type == ENGINE_TYPE_F32 || type == ENGINE_TYPE_F16 || type == ENGINE_TYPE_BF16;
}

/* A matrix that a directory has in blocks, which rounding again would only harm. */
static bool stays(const struct selection *selection, size_t i)
{
    const struct model_tensor *tensor = selection->tensors[i];
    if (is_plain(tensor->type) || is_wished(selection, tensor)) return false;
    return !is_plain(selection->types[i]) || tensor->type == ENGINE_TYPE_MXFP4;
}

/* What only directories need. */
static void adapt_to_directory(struct selection *selection)
{
    size_t n_kept = 0;
    for (size_t i = 0; i < selection->n; i++) {
        const struct model_tensor *tensor = selection->tensors[i];
        if (is_number(tensor->type)) continue;
        if (!mix_may_quantize(tensor) && is_plain(tensor->type)) selection->types[i] = ENGINE_TYPE_F32;
        if (!stays(selection, i)) continue;
        n_kept += selection->types[i] != tensor->type;
        selection->types[i] = tensor->type;
    }
    if (n_kept > 0)
        log_line(ENGINE_LOG_INFO, "%zu matrices stay as they are, because they are quantised already",
                 n_kept);
}

static int check_source(const struct model *model, const struct model_tensor *tensor, uint32_t type)
{
    if (type == tensor->type || is_plain(tensor->type) || (is_plain(type) && quantize_decodes(tensor->type)))
        return ENGINE_OK;
    return error_raise(
        ENGINE_ERROR_UNSUPPORTED,
        "%s: %s is already %s; only F32, F16 and BF16 can be quantised (start from the original model)",
        model_path(model), tensor->name, type_info(tensor->type)->name);
}

static int choose_types(const struct model *model, bool pure, struct selection *selection)
{
    mix_choose(selection->mix, pure, selection->wishes, selection->n_wishes, model_metadata(model),
               selection->tensors, selection->n, selection->types);
    for (size_t i = 0; i < selection->n; i++)
        if (is_number(selection->tensors[i]->type)) selection->types[i] = selection->tensors[i]->type;
    if (model_is_directory(model)) adapt_to_directory(selection);
    int status = ENGINE_OK;
    for (size_t i = 0; i < selection->n && !status; i++)
        status = check_source(model, selection->tensors[i], selection->types[i]);
    return status;
}

int selection_make(const struct model *model, const char *type, const char *const *only, bool pure,
                   struct selection *selection)
{
    *selection = (struct selection){.mix = mix_by_name(type)};
    if (!selection->mix)
        return error_raise(ENGINE_ERROR_ARGUMENT, "cannot write the type %s; choose one of %s", type,
                           mix_names());
    int status = read_wishes(selection, only);
    if (status) return status;
    size_t n = model_tensor_count(model);
    selection->tensors = calloc(n + 1, sizeof *selection->tensors);
    selection->types = calloc(n + 1, sizeof *selection->types);
    if (!selection->tensors || !selection->types) return error_memory("tensors");
    selection->n = n;
    for (size_t i = 0; i < n; i++) selection->tensors[i] = model_tensor_at(model, i);
    mix_sort(selection->tensors, n);
    status = check_wishes(selection);
    return status ? status : choose_types(model, pure, selection);
}

void selection_free(struct selection *selection)
{
    for (size_t w = 0; w < selection->n_wishes; w++) free((char *)(uintptr_t)selection->wishes[w].pattern);
    free(selection->wishes);
    free(selection->tensors);
    free(selection->types);
    *selection = (struct selection){0};
}
