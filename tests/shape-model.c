/* shape-model.c: writes a GGUF file of a Llama or Mixtral of any size without its weights, which are a hole
 * in the file: enough for `engine plan`.
 *
 * usage: shape-model OUT.gguf TYPE LAYERS EMBEDDING HEADS KV_HEADS FEED_FORWARD VOCABULARY [EXPERTS USED] */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gguf-writer.h"
#include "model/types.h"

enum { CONTEXT = 8192 };

struct shape {
    uint32_t type;
    uint64_t end; /* of the weights so far */
};

static void add(struct gguf_writer *writer, struct shape *shape, const char *name, uint32_t type, uint64_t k,
                uint64_t rows, uint64_t n)
{
    const struct type_info *info = type_info(type);
    const uint64_t ne[] = {k, rows, n};
    shape->end = (shape->end + 31) / 32 * 32;
    gguf_add_tensor_at(writer, name, type, n > 1 ? 3 : rows > 1 ? 2 : 1, ne, shape->end);
    shape->end += k / info->block_length * info->block_size * rows * n;
}

static void add_layer(struct gguf_writer *writer, struct shape *shape, unsigned layer, const unsigned *size)
{
    const uint64_t embd = size[1], kv = embd / size[2] * size[3], ff = size[4], experts = size[6];
    const struct {
        const char *name;
        uint32_t type;
        uint64_t k, rows, n;
    } tensors[] = {
        {"attn_norm", ENGINE_TYPE_F32, embd, 1, 1},
        {"attn_q", shape->type, embd, embd, 1},
        {"attn_k", shape->type, embd, kv, 1},
        {"attn_v", shape->type, embd, kv, 1},
        {"attn_output", shape->type, embd, embd, 1},
        {"ffn_norm", ENGINE_TYPE_F32, embd, 1, 1},
        {experts ? "ffn_gate_exps" : "ffn_gate", shape->type, embd, ff, experts ? experts : 1},
        {experts ? "ffn_up_exps" : "ffn_up", shape->type, embd, ff, experts ? experts : 1},
        {experts ? "ffn_down_exps" : "ffn_down", shape->type, ff, embd, experts ? experts : 1},
        {"ffn_gate_inp", ENGINE_TYPE_F32, embd, experts, 1},
    };
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors - !experts; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%u.%s.weight", layer, tensors[i].name);
        add(writer, shape, name, tensors[i].type, tensors[i].k, tensors[i].rows, tensors[i].n);
    }
}

int main(int argc, char **argv)
{
    static const char *const keys[] = {"llama.block_count",          "llama.embedding_length",
                                       "llama.attention.head_count", "llama.attention.head_count_kv",
                                       "llama.feed_forward_length",  "llama.vocab_size",
                                       "llama.expert_count",         "llama.expert_used_count"};
    unsigned size[8] = {0};
    struct shape shape = {0};
    struct stat about;
    if ((argc != 9 && argc != 11) || !type_by_name(argv[2], &shape.type)) {
        fprintf(stderr, "usage: shape-model OUT.gguf TYPE LAYERS EMBEDDING HEADS KV_HEADS FEED_FORWARD "
                        "VOCABULARY [EXPERTS USED]\n");
        return 2;
    }
    struct gguf_writer *writer = gguf_create(3);
    gguf_add_string(writer, "general.architecture", "llama");
    gguf_add_u32(writer, "llama.context_length", CONTEXT);
    for (int i = 3; i < argc; i++) {
        size[i - 3] = (unsigned)strtoul(argv[i], NULL, 10);
        gguf_add_u32(writer, keys[i - 3], size[i - 3]);
    }
    if (size[2] == 0) return 2;
    gguf_add_u32(writer, "llama.rope.dimension_count", size[1] / size[2]);
    gguf_add_f32(writer, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    add(writer, &shape, "token_embd.weight", shape.type, size[1], size[5], 1);
    for (unsigned layer = 0; layer < size[0]; layer++) add_layer(writer, &shape, layer, size);
    add(writer, &shape, "output_norm.weight", ENGINE_TYPE_F32, size[1], 1, 1);
    add(writer, &shape, "output.weight", shape.type, size[1], size[5], 1);
    bool written = gguf_save(writer, argv[1]) && stat(argv[1], &about) == 0 &&
                   truncate(argv[1], about.st_size + (off_t)shape.end) == 0;
    gguf_destroy(writer);
    if (!written) perror(argv[1]);
    return !written;
}
