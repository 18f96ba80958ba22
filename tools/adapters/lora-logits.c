/* lora-logits.c: logits of every position with an adapter, by libllama; for compare-gguf, which compiles it
 * among the peers: lora-logits MODEL.gguf ADAPTER.gguf SCALE TOKENS.i32 OUT.f32. Cache in float32, no flash
 * attention. */
#include <ggml-backend.h>
#include <llama.h>
#include <stdio.h>
#include <stdlib.h>

static void say_nothing(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level >= GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

int main(int argc, char **argv)
{
    static int32_t tokens[4096];
    if (argc != 6) return 64;
    llama_log_set(say_nothing, NULL);
    ggml_backend_load_all();
    struct llama_model_params model_params = llama_model_default_params();
    model_params.n_gpu_layers = 0;
    struct llama_model *model = llama_model_load_from_file(argv[1], model_params);
    if (!model) return 1;
    struct llama_adapter_lora *adapter = llama_adapter_lora_init(model, argv[2]);
    if (!adapter) return 2;
    FILE *file = fopen(argv[4], "rb");
    if (!file) return 3;
    int n = (int)fread(tokens, sizeof *tokens, 4096, file);
    fclose(file);
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = (uint32_t)n + 8;
    params.n_batch = params.n_ubatch = (uint32_t)n;
    params.n_threads = params.n_threads_batch = 2;
    params.type_k = params.type_v = GGML_TYPE_F32;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    struct llama_context *context = llama_init_from_model(model, params);
    float scale = strtof(argv[3], NULL);
    if (!context || llama_set_adapters_lora(context, &adapter, 1, &scale)) return 4;
    struct llama_batch batch = llama_batch_init(n, 0, 1);
    batch.n_tokens = n;
    for (int i = 0; i < n; i++) {
        batch.token[i] = tokens[i];
        batch.pos[i] = i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = 1;
    }
    if (llama_decode(context, batch)) return 5;
    size_t n_vocab = (size_t)llama_vocab_n_tokens(llama_model_get_vocab(model)), count = (size_t)n * n_vocab;
    file = fopen(argv[5], "wb");
    if (!file || fwrite(llama_get_logits(context), sizeof(float), count, file) != count) return 6;
    return fclose(file) ? 6 : 0;
}
