/* test-adapters.c: low-rank adapters on a small Llama, against a copy of it with the changes added to its
 * weights; their scales, what is kept of a context when they change, and what is refused. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "adapter-writer.h"
#include "engine.h"
#include "files.h"
#include "gguf-writer.h"
#include "model/file.h"
#include "program.h"

enum { N_EMBD = 64, N_HEADS = 4, N_KV_HEADS = 2, N_FF = 96, N_VOCAB = 320, N_LAYERS = 2, N_TOKENS = 40 };
enum { KV = N_EMBD / N_HEADS * N_KV_HEADS };

static char *folder;
static const char *model_file, *merged_file, *config_file;
static struct engine *engine;

static void begin(void)
{
    folder = files_folder();
    model_file = strdup(files_path(folder, "model.gguf"));
    merged_file = strdup(files_path(folder, "merged.gguf"));
    config_file = strdup(files_path(folder, "engine.conf"));
    files_write_text(config_file, "");
    cr_assert(write_tiny_llama(model_file, &(struct tiny_llama){.seed = 1}));
    const struct engine_options options = {.struct_size = sizeof options,
                                           .plugin_dirs = (const char *const[]){TEST_PLUGIN_DIR, NULL},
                                           .config_file = config_file};
    cr_assert_eq(engine_open(&options, &engine), ENGINE_OK, "%s", engine_error_message());
}

static void end(void)
{
    engine_close(engine);
    files_remove(folder);
    free(folder);
}

TestSuite(adapters, .init = begin, .fini = end);

/* ---- Adapters ------------------------------------------------------------------------------------------ */

/* A matrix that an adapter changes, by Hugging Face's name and by GGUF's. */
struct target {
    const char *module, *tensor;
    size_t n_in, n_out;
    int n_heads; /* of queries or keys: their rows have another order in the GGUF file; 0: the same */
    int is_rows;
};

static const struct target attention[] = {
    {"model.layers.0.self_attn.q_proj", "blk.0.attn_q", N_EMBD, N_EMBD, N_HEADS, 0},
    {"model.layers.1.self_attn.k_proj", "blk.1.attn_k", N_EMBD, KV, N_KV_HEADS, 0},
    {"model.layers.1.self_attn.v_proj", "blk.1.attn_v", N_EMBD, KV, 0, 0},
    {"model.layers.0.self_attn.o_proj", "blk.0.attn_output", N_EMBD, N_EMBD, 0, 0},
    {NULL, NULL, 0, 0, 0, 0},
};
static const struct target others[] = {
    {"model.layers.0.mlp.gate_proj", "blk.0.ffn_gate", N_EMBD, N_FF, 0, 0},
    {"model.layers.1.mlp.up_proj", "blk.1.ffn_up", N_EMBD, N_FF, 0, 0},
    {"model.layers.1.mlp.down_proj", "blk.1.ffn_down", N_FF, N_EMBD, 0, 0},
    {"model.layers.0.self_attn.q_proj", "blk.0.attn_q", N_EMBD, N_EMBD, N_HEADS, 0},
    {"lm_head", "output", N_EMBD, N_VOCAB, 0, 0},
    {"model.embed_tokens", "token_embd", N_VOCAB, N_EMBD, 0, 1},
    {NULL, NULL, 0, 0, 0, 0},
};

/* Writes a PEFT folder; `config`: what adapter_config.json has besides the type. */
static const char *write_peft(const char *name, const struct target *targets, size_t rank, const char *config)
{
    char text[512];
    const char *path = strdup(files_path(folder, name));
    struct tensor_file *written = tensor_file_create();
    for (; targets->module; targets++)
        tensor_file_add_module(written, targets->module, targets->n_in, targets->n_out, rank,
                               targets->is_rows);
    mkdir(path, 0755);
    tensor_file_save(written, files_path(path, "adapter_model.safetensors"));
    snprintf(text, sizeof text, "{\"peft_type\": \"LORA\", %s}", config);
    files_write_text(files_path(path, "adapter_config.json"), text);
    return path;
}

static float *factor(const struct target *target, char letter, size_t count)
{
    char name[256];
    snprintf(name, sizeof name, "base_model.model.%s.lora_%s%c%s", target->module,
             target->is_rows ? "embedding_" : "", letter, target->is_rows ? "" : ".weight");
    return factor_values(name, count);
}

/* The row of Hugging Face's matrix that is row `row` of the GGUF file's. */
static size_t source_row(const struct target *target, size_t row)
{
    if (!target->n_heads) return row;
    size_t head = target->n_out / (size_t)target->n_heads, i = row % head;
    return row - i + i % 2 * (head / 2) + i / 2;
}

/* Writes an adapter as llama.cpp's converter does, with factors of this type. */
static const char *write_gguf(const char *name, const struct target *targets, size_t rank, float alpha,
                              const char *family)
{
    const char *path = strdup(files_path(folder, name));
    struct gguf_writer *writer = gguf_create(3);
    gguf_add_string(writer, "general.architecture", family);
    gguf_add_string(writer, "general.type", "adapter");
    gguf_add_string(writer, "adapter.type", "lora");
    gguf_add_f32(writer, "adapter.lora.alpha", alpha);
    for (; targets->module; targets++) {
        char full[96];
        float *a = factor(targets, 'A', rank * targets->n_in),
              *b = factor(targets, 'B', targets->n_out * rank);
        float *ordered = malloc((targets->n_in + targets->n_out) * rank * sizeof *ordered);
        uint64_t a_ne[2] = {targets->n_in, rank}, b_ne[2] = {rank, targets->n_out};
        for (size_t row = 0; row < targets->n_out; row++)
            memcpy(ordered + row * rank, b + source_row(targets, row) * rank, rank * sizeof *b);
        snprintf(full, sizeof full, "%s.weight.lora_b", targets->tensor);
        gguf_add_tensor(writer, full, ENGINE_TYPE_F32, 2, b_ne, ordered, targets->n_out * rank * sizeof *b);
        if (targets->is_rows) { /* transposed */
            a_ne[0] = rank, a_ne[1] = targets->n_in;
            for (size_t i = 0; i < targets->n_in * rank; i++)
                ordered[i] = a[i % rank * targets->n_in + i / rank];
        } else {
            memcpy(ordered, a, targets->n_in * rank * sizeof *a);
        }
        snprintf(full, sizeof full, "%s.weight.lora_a", targets->tensor);
        gguf_add_tensor(writer, full, ENGINE_TYPE_F32, 2, a_ne, ordered, targets->n_in * rank * sizeof *a);
        free(a);
        free(b);
        free(ordered);
    }
    cr_assert(gguf_save(writer, path));
    gguf_destroy(writer);
    return path;
}

/* ---- The merged model ---------------------------------------------------------------------------------- */

/* Adds scale * B A to the weights in a copy of the model's file, whose tensors are float32. */
static void merge(char *bytes, const struct model *model, const struct target *targets, size_t rank,
                  double scale)
{
    for (; targets->module; targets++) {
        char full[96];
        snprintf(full, sizeof full, "%s.weight", targets->tensor);
        const struct model_tensor *tensor = model_tensor_find(model, full);
        float *weight = (float *)(void *)(bytes + ((const uint8_t *)tensor->data - model->data));
        float *a = factor(targets, 'A', rank * targets->n_in),
              *b = factor(targets, 'B', targets->n_out * rank);
        for (size_t row = 0; row < targets->n_out; row++)
            for (size_t column = 0; column < targets->n_in; column++) {
                double sum = 0;
                for (size_t k = 0; k < rank; k++)
                    sum += (double)b[source_row(targets, row) * rank + k] * a[k * targets->n_in + column];
                size_t place =
                    targets->is_rows ? column * targets->n_out + row : row * targets->n_in + column;
                weight[place] = (float)(weight[place] + scale * sum);
            }
        free(a);
        free(b);
    }
}

static void write_merged(const struct target *first, size_t first_rank, double first_scale,
                         const struct target *second, size_t second_rank, double second_scale)
{
    struct model *model;
    size_t size;
    char *bytes = files_read(model_file, &size);
    cr_assert_eq(model_open(model_file, NULL, &model), ENGINE_OK);
    merge(bytes, model, first, first_rank, first_scale);
    if (second) merge(bytes, model, second, second_rank, second_scale);
    files_write(merged_file, bytes, size);
    model_close(model);
    free(bytes);
}

/* ---- Running ------------------------------------------------------------------------------------------- */

struct running {
    struct engine_model *model;
    struct engine_context *context;
};

static int start(const char *path, const char *const *adapters, const float *scales, size_t n,
                 struct running *running)
{
    struct engine_adapter *opened[4];
    struct engine_context_options wish = {.struct_size = sizeof wish,
                                          .n_context = 96,
                                          .n_sequences = 2,
                                          .n_threads = 2,
                                          .cache_type = "f32",
                                          .backends = "cpu",
                                          .adapters = opened,
                                          .adapter_scales = scales,
                                          .n_adapters = n};
    *running = (struct running){0};
    int status = engine_model_open(engine, path, NULL, &running->model);
    for (size_t i = 0; i < n && !status; i++)
        status = engine_adapter_open(running->model, adapters[i], &opened[i]);
    return status ? status : engine_context_create(running->model, &wish, &running->context);
}

static void stop(struct running *running)
{
    engine_context_destroy(running->context);
    engine_model_close(running->model);
}

static const int32_t *the_tokens(void)
{
    static int32_t tokens[N_TOKENS];
    for (int i = 0; i < N_TOKENS; i++) tokens[i] = (7 * i + 3) % N_VOCAB;
    return tokens;
}

/* The last token's logits of the tokens from `first` on. */
static void decode(struct engine_context *context, size_t first, float logits[N_VOCAB])
{
    struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = N_TOKENS - first, .tokens = the_tokens() + first};
    cr_assert_eq(engine_decode(context, &batch, logits), ENGINE_OK, "%s", engine_error_message());
}

static void run(const char *path, const char *const *adapters, const float *scales, size_t n,
                float logits[N_VOCAB])
{
    struct running running;
    cr_assert_eq(start(path, adapters, scales, n, &running), ENGINE_OK, "%s", engine_error_message());
    decode(running.context, 0, logits);
    stop(&running);
}

static double relative_error(const float *x, const float *reference)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < N_VOCAB; i++) {
        difference += ((double)x[i] - reference[i]) * ((double)x[i] - reference[i]);
        norm += (double)reference[i] * reference[i];
    }
    return sqrt(difference / norm);
}

static void expect_merged(const char *const *adapters, const float *scales, size_t n, const char *what)
{
    float logits[N_VOCAB], expected[N_VOCAB], plain[N_VOCAB];
    run(model_file, adapters, scales, n, logits);
    run(merged_file, NULL, NULL, 0, expected);
    run(model_file, NULL, NULL, 0, plain);
    cr_expect_leq(relative_error(logits, expected), 1e-5, "%s: %.2e", what, relative_error(logits, expected));
    cr_expect_geq(relative_error(plain, expected), 0.05, "%s changes next to nothing", what);
}

/* ---- Logits -------------------------------------------------------------------------------------------- */

Test(adapters, peft_and_gguf_are_the_merged_model)
{
    const char *peft = write_peft("peft", others, 8, "\"r\": 8, \"lora_alpha\": 12");
    const char *gguf = write_gguf("adapter.gguf", others, 8, 12, "llama");
    write_merged(others, 8, 12.0 / 8, NULL, 0, 0);
    expect_merged(&peft, NULL, 1, "PEFT");
    expect_merged(&gguf, NULL, 1, "GGUF");
}

Test(adapters, two_at_once)
{
    const char *both[] = {write_peft("peft", attention, 5, "\"r\": 5, \"lora_alpha\": 10"),
                          write_gguf("adapter.gguf", others, 8, 12, "llama")};
    write_merged(attention, 5, 2 * 1.5, others, 8, -0.5 * 12 / 8);
    expect_merged(both, (const float[]){1.5f, -0.5f}, 2, "both");
}

/* Without alpha, llama.cpp takes the factors as they are. */
Test(adapters, scales)
{
    const char *stabilised =
        write_peft("rslora", attention, 4, "\"r\": 4, \"lora_alpha\": 3, \"use_rslora\": true");
    write_merged(attention, 4, 3 / sqrt(4), NULL, 0, 0);
    expect_merged(&stabilised, NULL, 1, "rank-stabilised");
    const char *patterns =
        write_peft("patterns", attention, 4,
                   "\"r\": 9, \"lora_alpha\": 7, \"rank_pattern\": {\"self_attn.[qkvo]_proj\": 4}, "
                   "\"alpha_pattern\": {\"proj\": 100, \"layers\\\\.\\\\d+\\\\.self_attn\\\\..*\": 6}");
    write_merged(attention, 4, 6.0 / 4, NULL, 0, 0);
    expect_merged(&patterns, NULL, 1, "patterns");
    const char *plain = write_gguf("plain.gguf", attention, 4, 0, "llama");
    write_merged(attention, 4, 1, NULL, 0, 0);
    expect_merged(&plain, NULL, 1, "no alpha");
}

/* ---- Switching ----------------------------------------------------------------------------------------- */

Test(adapters, scales_change_without_loading)
{
    const char *adapter = write_gguf("adapter.gguf", others, 8, 12, "llama");
    float plain[N_VOCAB], with[N_VOCAB], logits[N_VOCAB], scale;
    struct running running;
    uint32_t n_found;
    run(model_file, NULL, NULL, 0, plain);
    run(model_file, &adapter, NULL, 1, with);
    cr_assert_eq(start(model_file, &adapter, (const float[]){0}, 1, &running), ENGINE_OK);
    decode(running.context, 0, logits);
    cr_expect_arr_eq(logits, plain, sizeof plain, "scale 0 is the model alone");

    cr_assert_eq(engine_context_set_adapter_scales(running.context, (const float[]){1}, 1), ENGINE_OK);
    cr_expect_not_null(engine_context_adapter(running.context, 0, &scale));
    cr_expect_eq(scale, 1);
    cr_expect_null(engine_context_adapter(running.context, 1, &scale));
    cr_expect_eq(engine_sequence_length(running.context, 0), 0);
    engine_sequence_reuse(running.context, 0, the_tokens(), N_TOKENS, &n_found);
    cr_expect_eq(n_found, 0, "blocks of other scales");
    decode(running.context, 0, logits);
    cr_expect_arr_eq(logits, with, sizeof with);

    /* The same scales keep the sequence; those from before find their blocks. */
    cr_assert_eq(engine_context_set_adapter_scales(running.context, (const float[]){1}, 1), ENGINE_OK);
    cr_expect_eq(engine_sequence_length(running.context, 0), N_TOKENS);
    cr_assert_eq(engine_context_set_adapter_scales(running.context, (const float[]){0}, 1), ENGINE_OK);
    engine_sequence_reuse(running.context, 0, the_tokens(), N_TOKENS, &n_found);
    cr_expect_eq(n_found, 32);
    decode(running.context, n_found, logits);
    cr_expect_arr_eq(logits, plain, sizeof plain);

    cr_expect_eq(engine_context_set_adapter_scales(running.context, (const float[]){NAN}, 1),
                 ENGINE_ERROR_ARGUMENT);
    cr_expect_eq(engine_context_set_adapter_scales(running.context, (const float[]){1, 1}, 2),
                 ENGINE_ERROR_ARGUMENT);
    stop(&running);
}

static int keep_bytes(void *user, const void *data, size_t size)
{
    return fwrite(data, 1, size, user) == size ? 0 : 1;
}

/* A sequence goes on only with the adapters and scales that computed it. */
Test(adapters, saved_sequences_belong_to_their_adapters)
{
    const char *adapter = write_gguf("adapter.gguf", others, 8, 12, "llama");
    const char *saved = strdup(files_path(folder, "saved"));
    float logits[N_VOCAB];
    struct running running, other;
    cr_assert_eq(start(model_file, &adapter, NULL, 1, &running), ENGINE_OK);
    decode(running.context, 0, logits);
    FILE *file = fopen(saved, "wb");
    cr_assert_eq(engine_sequence_save(running.context, 0, keep_bytes, file), ENGINE_OK);
    fclose(file);
    cr_expect_eq(engine_sequence_load(running.context, 1, saved), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_context_set_adapter_scales(running.context, (const float[]){0.5f}, 1), ENGINE_OK);
    cr_expect_eq(engine_sequence_load(running.context, 1, saved), ENGINE_ERROR_DATA);
    cr_expect_not_null(strstr(engine_error_message(), "adapter"), "%s", engine_error_message());
    cr_assert_eq(start(model_file, NULL, NULL, 0, &other), ENGINE_OK);
    cr_expect_eq(engine_sequence_load(other.context, 0, saved), ENGINE_ERROR_DATA);

    /* One that is off does not count. */
    decode(other.context, 0, logits);
    file = fopen(saved, "wb");
    cr_assert_eq(engine_sequence_save(other.context, 0, keep_bytes, file), ENGINE_OK);
    fclose(file);
    cr_assert_eq(engine_context_set_adapter_scales(running.context, (const float[]){0}, 1), ENGINE_OK);
    cr_expect_eq(engine_sequence_load(running.context, 0, saved), ENGINE_OK, "%s", engine_error_message());
    stop(&other);
    stop(&running);
}

/* ---- What is refused ----------------------------------------------------------------------------------- */

static void expect_refusal(const char *adapter, const char *word)
{
    struct running running;
    int status = start(model_file, &adapter, NULL, 1, &running);
    cr_expect_neq(status, ENGINE_OK, "not refused: %s", word);
    if (status)
        cr_expect_not_null(strstr(engine_error_message(), word), "%s: %s", word, engine_error_message());
    stop(&running);
}

#define PLAIN "\"r\": 8, \"lora_alpha\": 12"

Test(adapters, refuses_settings_that_change_the_meaning)
{
    static const struct {
        const char *config, *word;
    } settings[] = {
        {PLAIN ", \"use_dora\": true", "use_dora"},
        {PLAIN ", \"bias\": \"lora_only\"", "bias"},
        {PLAIN ", \"lora_bias\": true", "lora_bias"},
        {PLAIN ", \"modules_to_save\": [\"lm_head\"]", "modules_to_save"},
        {PLAIN ", \"target_parameters\": [\"mlp.experts.gate_up_proj_bias\"]", "target_parameters"},
        {PLAIN ", \"target_parameters\": [1]", "target_parameters"},
        {PLAIN ", \"target_parameters\": \"weight\"", "target_parameters should be a list"},
        {PLAIN ", \"kasa_config\": {\"beta\": 1}", "kasa_config"},
        {PLAIN ", \"monteclora_config\": {\"num_samples\": 8}", "monteclora_config"},
        {PLAIN ", \"trainable_token_indices\": [1]", "trainable_token_indices"},
        {PLAIN ", \"layer_replication\": [[0, 1]]", "layer_replication"},
        {PLAIN ", \"alora_invocation_tokens\": [1]", "alora_invocation_tokens"},
        {PLAIN ", \"init_lora_weights\": \"pissa_niter_4\"", "pissa"},
        {PLAIN ", \"init_lora_weights\": \"lora_ga\"", "lora_ga"},
        {PLAIN ", \"peft_type\": \"LOHA\"", "duplicate"},
        {"\"r\": 8", "lora_alpha"},
        {"\"r\": 0, \"lora_alpha\": 1", "r must be"},
        {"\"r\": 7, \"lora_alpha\": 1", "rank 7"},
        {PLAIN ", \"alpha_pattern\": {\"(?:q)_proj\": 1}", "pattern"},
        {PLAIN ", \"alpha_pattern\": {\"q_proj(\": 1}", "pattern"},
        {PLAIN ", \"alpha_pattern\": {\".*\": \"x\"}", "no number"},
        {PLAIN ", \"alpha_pattern\": {\"nowhere\": \"x\"}", "no number"},
        {PLAIN ", \"alpha_pattern\": [1]", "alpha_pattern should be an object"},
        {PLAIN ", \"rank_pattern\": 4", "rank_pattern should be an object"},
        {PLAIN ", \"rank_pattern\": {\"nowhere\": \"x\"}", "no whole number"},
        {PLAIN ", \"rank_pattern\": {\"nowhere\": 0}", "no whole number"},
        {PLAIN ", \"rank_pattern\": {\"nowhere\": 4.5}", "no whole number"},
        {PLAIN ", \"rank_pattern\": {\"(?:nowhere)\": 4}", "pattern"},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        expect_refusal(write_peft("peft", attention, 8, settings[i].config), settings[i].word);
}

/* Adapters of one module each. */
Test(adapters, refuses_what_it_cannot_apply)
{
    static const struct {
        struct target target;
        const char *word;
    } targets[] = {
        {{"model.layers.0.self_attn.q_proj", "blk.0.attn_q", N_EMBD, 2 * N_EMBD, N_HEADS, 0},
         "another model"},
        {{"model.layers.0.self_attn.q_proj", "blk.0.attn_q", 2 * N_EMBD, N_EMBD, N_HEADS, 0},
         "another model"},
        {{"model.layers.7.self_attn.v_proj", "blk.7.attn_v", N_EMBD, KV, 0, 0}, "blk.7.attn_v"},
        {{"model.layers.0.mlp.experts.0.up_proj", "blk.0.ffn_up_exps", N_EMBD, N_FF, 0, 0}, "another model"},
        {{"model.embed_tokens", "token_embd", N_VOCAB + 1, N_EMBD, 0, 1}, "another model"},
    };
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        const struct target one[] = {targets[i].target, {NULL, NULL, 0, 0, 0, 0}};
        expect_refusal(write_peft("peft", one, 8, PLAIN), targets[i].word);
        expect_refusal(write_gguf("adapter.gguf", one, 8, 12, "llama"), targets[i].word);
    }
    const struct target norm[] = {{"x", "blk.0.attn_norm", N_EMBD, 1, 0, 0}, {NULL, NULL, 0, 0, 0, 0}};
    expect_refusal(write_gguf("adapter.gguf", norm, 8, 12, "llama"), "not supported");
    expect_refusal(write_gguf("adapter.gguf", attention, 8, 12, "gpt2"), "gpt2");
    expect_refusal(write_gguf("adapter.gguf", attention + 4, 8, 12, "llama"), "changes nothing");
    expect_refusal(model_file, "not an adapter");
    expect_refusal(folder, "adapter_config.json");
    expect_refusal(FILES_ABSENT, FILES_ABSENT);
}

/* Experts that are a parameter, on a model without experts, and parameters that the configuration lacks. */
Test(adapters, refuses_parameters_that_it_does_not_know)
{
    static const struct {
        const char *module, *config, *word;
    } parameters[] = {
        {"model.layers.0.mlp.experts", ", \"target_parameters\": [\"experts.down_proj\"]", "0 experts"},
        {"model.layers.0.mlp.experts", "", "not a known matrix"},
        {"model.layers.0.mlp.experts.base_layer", ", \"target_parameters\": [\"experts.down_proj\"]",
         "not a known matrix"},
        {"model.layers.0.mlp.experts", ", \"target_parameters\": [\"perts.down_proj\"]",
         "not a known matrix"},
    };
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++) {
        char config[128];
        const struct target one[] = {{parameters[i].module, "", N_EMBD, N_FF, 0, 0},
                                     {NULL, NULL, 0, 0, 0, 0}};
        snprintf(config, sizeof config, PLAIN "%s", parameters[i].config);
        expect_refusal(write_peft("peft", one, 8, config), parameters[i].word);
    }
}

Test(adapters, refuses_other_tensors)
{
    static const struct {
        const char *name, *word;
    } tensors[] = {
        {"base_model.model.model.layers.0.self_attn.q_proj.bias", "trained biases"},
        {"base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector.weight", "DoRA"},
        {"base_model.model.lm_head.modules_to_save.weight", "whole trained modules"},
        {"base_model.model.lm_head.weight", "whole trained modules"},
        {"base_model.model.model.embed_tokens.base_layer.weight", "vocabulary"},
        {"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", "one of its two factors"},
        {"base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight", "one of its two factors"},
        {"base_model.model.model.layers.0.self_attn.w_proj.lora_A.weight", "self_attn.w_proj"},
        {"base_model.model.model.layers.0.self_attn.q_proj.lora_embedding_A", "embedding"},
        {"other.lora_A.weight", "not a factor"},
        {"base_model.model..lora_A.weight", "not a factor"},
        {".lora_A.weight", "not a factor"},
    };
    const float numbers[4] = {0};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        const char *path = write_peft("peft", attention + 4, 8, PLAIN);
        struct tensor_file *written = tensor_file_create();
        tensor_file_add(written, tensors[i].name, 2, 2, numbers);
        tensor_file_save(written, files_path(path, "adapter_model.safetensors"));
        expect_refusal(path, tensors[i].word);
    }
    const char *path = write_peft("infinite", attention + 4, 1, "\"r\": 1, \"lora_alpha\": 1");
    struct tensor_file *infinite = tensor_file_create();
    const float values[2][64] = {{0}, {[63] = INFINITY}};
    tensor_file_add(infinite, "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", 1, 64,
                    values[0]);
    tensor_file_add(infinite, "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight", 64, 1,
                    values[1]);
    tensor_file_save(infinite, files_path(path, "adapter_model.safetensors"));
    expect_refusal(path, "not all finite numbers");
    expect_refusal(files_path(path, "adapter_model.safetensors"), "name the adapter's folder");
    path = write_peft("empty", attention + 4, 8, PLAIN);
    expect_refusal(path, "changes nothing");
    write_safetensors(files_path(path, "adapter_model.safetensors"), "{", 0);
    expect_refusal(path, "adapter_model.safetensors");
    remove(files_path(path, "adapter_model.safetensors"));
    files_write_text(files_path(path, "adapter_model.bin"), "");
    expect_refusal(path, "adapter_model.bin");
    files_write_text(files_path(path, "adapter_config.json"), "[]");
    expect_refusal(path, "not a JSON object");
}

/* Whatever becomes of a file's bytes, the adapter works or is refused with a reason. */
static void damage(const char *adapter, const char *file, uint64_t seed)
{
    size_t size;
    char *bytes = files_read(file, &size), *changed = malloc(size);
    for (int i = 0; i < 150; i++) {
        memcpy(changed, bytes, size);
        /* Mostly where names, shapes and offsets are. */
        size_t span = random_next(&seed) % 4 == 0 || size < 3000 ? size : 3000, cut = size;
        for (uint64_t n = 1 + random_next(&seed) % 3; n > 0; n--)
            changed[random_next(&seed) % span] = (char)random_next(&seed);
        if (random_next(&seed) % 8 == 0) cut = random_next(&seed) % size;
        files_write(file, changed, cut);
        struct running running;
        int status = start(model_file, &adapter, NULL, 1, &running);
        cr_expect(status == ENGINE_OK || engine_error_message()[0], "refused without a reason");
        stop(&running);
    }
    files_write(file, bytes, size);
    free(bytes);
    free(changed);
}

Test(adapters, survives_damaged_files)
{
    const char *gguf = write_gguf("adapter.gguf", others, 8, 12, "llama");
    const char *peft =
        write_peft("peft", others, 8, PLAIN ", \"alpha_pattern\": {\"layers.\\\\d.*q_proj\": 3}");
    damage(gguf, gguf, 1);
    damage(peft, strdup(files_path(peft, "adapter_model.safetensors")), 2);
    damage(peft, strdup(files_path(peft, "adapter_config.json")), 3);
}

/* ---- The program --------------------------------------------------------------------------------------- */

Test(adapters, on_the_command_line)
{
    const char *adapter = write_peft("a=b", others, 8, PLAIN);
    char scaled[512], off[512];
    snprintf(scaled, sizeof scaled, "%s=0.5", adapter);
    snprintf(off, sizeof off, "%s=0", adapter);
#define LOGITS(...)                                                                                          \
    PROGRAM("logits", "-m", model_file, "--tokens", "1 2 3", "--json", "--backend", "cpu", __VA_ARGS__)
    struct program_result plain = LOGITS("-t", "1"), with = LOGITS("--lora", adapter),
                          twice = LOGITS("--lora", scaled, "--lora", scaled), none = LOGITS("--lora", off);
    cr_assert_eq(plain.status, 0, "%s", plain.err);
    cr_assert_eq(with.status, 0, "%s", with.err);
    cr_assert_eq(twice.status, 0, "%s", twice.err);
    cr_expect_str_neq(with.out, plain.out);
    cr_expect_str_eq(none.out, plain.out);
    struct program_result plan = PROGRAM("plan", "-m", model_file, "--backend", "cpu", "--lora", adapter);
    cr_expect_eq(plan.status, 0, "%s", plan.err);
    cr_expect_not_null(strstr(plan.out, "blk.1.ffn_up.weight.lora_a"), "%s", plan.out);
    char weights[600];
    snprintf(weights, sizeof weights, "%s/adapter_model.safetensors", adapter);
    program_fails(LOGITS("--lora", scaled, "-o", weights), 0, "adapter_model.safetensors");
    files_write_text(files_path(folder, "text"), "no model");
    program_fails(LOGITS("--lora", files_path(folder, "text")), 0, "reading an adapter: ");
    program_fails(LOGITS("--lora", FILES_ABSENT), 0, FILES_ABSENT);
    program_fails(LOGITS("--lora", ""), 0, "--lora \"\": there is no file");
    program_fails(LOGITS("--lora", "=2"), 0, "--lora =2: there is no file");
    static const char *const wrong[] = {"nan", "inf", "-inf", "", "1e99", "0,5"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(scaled, sizeof scaled, "%s=%s", adapter, wrong[i]);
        program_fails(LOGITS("--lora", scaled), 0, "the scale after the = should be a finite number");
    }
    struct program_result as_model = PROGRAM("info", "-m", adapter);
    cr_expect_neq(as_model.status, 0);
}

Test(adapters, chat_switches_them)
{
    const char *adapter = write_gguf("adapter.gguf", attention, 8, 12, "llama");
    const char *lines = "/lora\nHello\n/lora 1 0\n/lora 2 1\n/lora x\n/lora 1 1e40\n/lora 1 0.25\nHello\n";
    struct program_result result =
        program_run((const char *const[]){"chat", "-m", model_file, "--chat-template", "plain", "--temp", "0",
                                          "-n", "4", "--backend", "cpu", "--lora", adapter, NULL},
                    lines, strlen(lines));
    cr_expect_not_null(strstr(result.err, "adapter.gguf: scale 1; 4 matrices, rank 8"), "%s", result.err);
    cr_expect_not_null(strstr(result.err, "adapter.gguf: scale 0;"), "%s", result.err);
    cr_expect_not_null(strstr(result.err, "there is no adapter 2"), "%s", result.err);
    cr_expect_not_null(strstr(result.err, "/lora 1 0.5"), "%s", result.err);
    cr_expect_not_null(strstr(result.err, "scale must be a finite number"), "%s", result.err);
    cr_expect_not_null(strstr(result.err, "adapter.gguf: scale 0.25;"), "%s", result.err);
    struct program_result none = program_run(
        (const char *const[]){"chat", "-m", model_file, "--chat-template", "plain", NULL}, "/lora\n", 6);
    cr_expect_not_null(strstr(none.err, "there are no adapters"), "%s", none.err);
}
