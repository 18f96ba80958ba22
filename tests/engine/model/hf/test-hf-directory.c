/* test-hf-directory.c: Hugging Face directories: how tensors are ordered, and what is refused. Their
 * logits are those of hf-families. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "adapter-writer.h"
#include "arch/arch.h"
#include "base/error.h"
#include "base/log.h"
#include "files.h"
#include "gguf-writer.h"
#include "model/model.h"

FILES_FOLDER_OF_TEST

TestSuite(hf_directory, .init = begin, .fini = end);

#define CONFIG                                                                                               \
    "\"model_type\": \"llama\", \"hidden_size\": 8, \"num_attention_heads\": 2, \"num_key_value_heads\": "   \
    "1, "                                                                                                    \
    "\"intermediate_size\": 4, \"vocab_size\": 3, \"num_hidden_layers\": 1"

static const struct stored {
    const char *name;
    size_t rows, columns;
} stored[] = {
    {"model.embed_tokens.weight", 3, 8},
    {"model.norm.weight", 1, 8},
    {"lm_head.weight", 3, 8},
    {"model.layers.0.input_layernorm.weight", 1, 8},
    {"model.layers.0.post_attention_layernorm.weight", 1, 8},
    {"model.layers.0.self_attn.q_proj.weight", 8, 8},
    {"model.layers.0.self_attn.k_proj.weight", 4, 8},
    {"model.layers.0.self_attn.v_proj.weight", 4, 8},
    {"model.layers.0.self_attn.o_proj.weight", 8, 8},
    {"model.layers.0.mlp.gate_proj.weight", 4, 8},
    {"model.layers.0.mlp.up_proj.weight", 4, 8},
    {"model.layers.0.mlp.down_proj.weight", 8, 4},
};
enum { N_STORED = sizeof stored / sizeof *stored };

/* Writes tensors first … first + n - 1; value k of a tensor is k. */
static void write_shard(const char *name, size_t first, size_t n)
{
    float values[64];
    struct tensor_file *file = tensor_file_create();
    for (size_t i = 0; i < 64; i++) values[i] = (float)i;
    for (size_t i = first; i < first + n; i++)
        tensor_file_add(file, stored[i].name, stored[i].rows, stored[i].columns, values);
    tensor_file_save(file, files_path(folder, name));
}

static void write_config(const char *members)
{
    char text[1024];
    snprintf(text, sizeof text, "{%s}", members);
    files_write_text(files_path(folder, "config.json"), text);
}

/* Opens the folder and reads the family's numbers. */
static int open_folder(const char *path, struct model **model)
{
    *model = NULL;
    int status = model_open(path, NULL, model);
    if (status) return status;
    const struct architecture *arch = arch_of(*model);
    struct arch_info info;
    void *hparams = arch ? calloc(1, arch->size) : NULL;
    status = arch ? arch_read(arch, *model, hparams, &info) : ENGINE_ERROR_UNSUPPORTED;
    free(hparams);
    return status;
}

static void expect_path_refused(const char *path, const char *words)
{
    struct model *model;
    error_clear();
    int status = open_folder(path, &model);
    cr_expect(status != ENGINE_OK, "not refused: %s", words);
    cr_expect(strstr(error_message(), words), "expected \"%s\" in: %s", words, error_message());
    cr_expect_null(strchr(error_message(), '\n'));
    model_close(model);
}

static void expect_refusal(const char *words)
{
    expect_path_refused(folder, words);
}

static void expect_model(const char *path)
{
    struct model *model;
    cr_expect_eq(open_folder(path, &model), ENGINE_OK, "%s", error_message());
    cr_expect(model && model_tensor_count(model) == N_STORED);
    model_close(model);
}

Test(hf_directory, reads_one_file_and_many)
{
    write_config(CONFIG);
    write_shard("model.safetensors", 0, N_STORED);
    expect_model(folder);
    expect_model(files_path(folder, "config.json"));
    unlink(files_path(folder, "model.safetensors"));
    write_shard("a.safetensors", 0, 5);
    write_shard("b.safetensors", 5, N_STORED - 5);
    char index[2048] = "{\"metadata\": {}, \"weight_map\": {";
    for (size_t i = 0; i < N_STORED; i++)
        snprintf(index + strlen(index), sizeof index - strlen(index), "%s\"%s\": \"%c.safetensors\"",
                 i ? ", " : "", stored[i].name, i < 5 ? 'a' : 'b');
    strcat(index, "}}");
    files_write_text(files_path(folder, "model.safetensors.index.json"), index);
    expect_model(folder);
}

/* As in Hugging Face's cache. */
Test(hf_directory, follows_links)
{
    write_config(CONFIG);
    write_shard("blob", 0, N_STORED);
    cr_assert_eq(symlink("blob", files_path(folder, "model.safetensors")), 0);
    expect_model(folder);
}

/* ORG/NAME is the snapshot that refs/main names, else the only one. */
Test(hf_directory, finds_models_in_the_cache)
{
    char snapshot[512];
    const char *model = files_path(folder, "models--org--name");
    cr_assert_eq(mkdir(model, 0755), 0);
    cr_assert_eq(mkdir(files_path(model, "refs"), 0755), 0);
    cr_assert_eq(mkdir(files_path(model, "snapshots"), 0755), 0);
    snprintf(snapshot, sizeof snapshot, "%s", files_path(model, "snapshots/abc1"));
    cr_assert_eq(mkdir(snapshot, 0755), 0);
    write_config(CONFIG);
    write_shard("blob", 0, N_STORED);
    cr_assert_eq(symlink("../../../config.json", files_path(snapshot, "config.json")), 0);
    cr_assert_eq(symlink("../../../blob", files_path(snapshot, "model.safetensors")), 0);
    setenv("HF_HUB_CACHE", folder, 1);
    expect_model("org/name");
    expect_model(model);
    cr_assert_eq(mkdir(files_path(model, "snapshots/abc2"), 0755), 0);
    expect_path_refused("org/name", "2 snapshots and no refs/main");
    expect_path_refused(model, "2 snapshots and no refs/main");
    files_write_text(files_path(model, "refs/main"), "abc1\n");
    expect_model("org/name");
    files_write_text(files_path(model, "refs/main"), "abc3\n");
    expect_path_refused("org/name", "lacks the snapshot abc3, which refs/main names");
    files_write_text(files_path(model, "refs/main"), "../../outside");
    expect_path_refused("org/name", "refs/main does not name a snapshot");
    expect_path_refused("org/other", "there is no file org/other, and no model of that name");
    unsetenv("HF_HUB_CACHE");
}

/* The variables that Hugging Face's programs know, each of which counts more than the next. */
Test(hf_directory, finds_the_cache)
{
    static const struct {
        const char *variable, *value, *cache;
    } places[] = {{"HOME", "", ".cache/huggingface/hub"},
                  {"XDG_CACHE_HOME", "x", "x/huggingface/hub"},
                  {"HF_HOME", "~/h", "h/hub"},
                  {"HUGGINGFACE_HUB_CACHE", "c", "c"},
                  {"HF_HUB_CACHE", "d", "d"}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) unsetenv(places[i].variable);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *value = places[i].value;
        setenv(places[i].variable, !*value ? folder : *value == '~' ? value : files_path(folder, value), 1);
        expect_path_refused("org/name", files_path(folder, places[i].cache));
    }
}

/* A model that also reads pictures; what its text_config lacks has transformers' defaults. */
/* Without a tokenizer, too. */
Test(hf_directory, knows_which_tokens_end_texts)
{
    struct model *model;
    uint32_t ends[2] = {0};
    write_config(CONFIG ", \"eos_token_id\": [2, 1, 9]"); /* the vocabulary has three */
    write_shard("model.safetensors", 0, N_STORED);
    cr_assert_eq(open_folder(folder, &model), ENGINE_OK, "%s", error_message());
    const struct metadata_entry *entry = metadata_find(model_metadata(model), "tokenizer.hf.eos_token_ids");
    cr_assert(entry && entry->count == 2);
    memcpy(ends, entry->values, sizeof ends);
    cr_expect(ends[0] == 2 && ends[1] == 1);
    model_close(model);
}

Test(hf_directory, reads_the_text_model_of_others)
{
    struct model *model;
    int64_t heads = 0, kv_heads = 0;
    write_config("\"model_type\": \"gemma3\", \"vision_config\": {}, \"text_config\": {\"model_type\": "
                 "\"gemma3_text\", \"hidden_size\": 8, \"num_hidden_layers\": 1}");
    write_shard("model.safetensors", 0, N_STORED);
    cr_assert_eq(open_folder(folder, &model), ENGINE_OK, "%s", error_message());
    metadata_integer(model_metadata(model), "gemma3.attention.head_count", &heads);
    metadata_integer(model_metadata(model), "gemma3.attention.head_count_kv", &kv_heads);
    cr_expect_eq(heads, 8);
    cr_expect_eq(kv_heads, 4);
    model_close(model);
}

/* Where the number of layers without experts is not given, it follows from their kinds. */
Test(hf_directory, counts_dense_layers)
{
    static const struct {
        const char *members;
        int64_t n;
    } cases[] = {{", \"mlp_layer_types\": [\"dense\", \"dense\", \"sparse\"]", 2},
                 {", \"first_k_dense_replace\": 3", 1}, /* DeepSeek's key */
                 {"", 1}};
    write_safetensors(
        files_path(folder, "model.safetensors"),
        "{\"model.norm.weight\": {\"dtype\": \"F32\", \"shape\": [8], \"data_offsets\": [0, 32]}}", 32);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model *model;
        int64_t n = -1;
        char members[256];
        snprintf(members, sizeof members,
                 "\"model_type\": \"glm4_moe_lite\", \"hidden_size\": 8, \"num_attention_heads\": 2, "
                 "\"num_hidden_layers\": 3%s",
                 cases[i].members);
        write_config(members);
        cr_assert_eq(model_open(folder, NULL, &model), ENGINE_OK, "%s", error_message());
        metadata_integer(model_metadata(model), "deepseek2.leading_dense_block_count", &n);
        cr_expect_eq(n, cases[i].n, "%d dense layers", (int)n);
        model_close(model);
    }
}

static float number_at(const struct model *model, const char *name, uint64_t row, uint64_t column)
{
    const struct model_tensor *tensor = model_tensor_find(model, name);
    float values[8];
    cr_assert_not_null(tensor, "%s", name);
    model_tensor_read(tensor, row, 1, (uint8_t *)values);
    return values[column];
}

/* Pairs of rope are made adjacent: heads of four rows, of which 0 and 2, and 1 and 3, are pairs. */
Test(hf_directory, orders_rows_as_gguf_files_do)
{
    static const float order[] = {0, 2, 1, 3, 4, 6, 5, 7};
    struct model *model;
    write_config(CONFIG);
    write_shard("model.safetensors", 0, N_STORED);
    cr_assert_eq(open_folder(folder, &model), ENGINE_OK, "%s", error_message());
    for (uint64_t row = 0; row < 8; row++) {
        cr_expect_eq(number_at(model, "blk.0.attn_q.weight", row, 5), 8 * order[row] + 5);
        if (row < 4) cr_expect_eq(number_at(model, "blk.0.attn_k.weight", row, 5), 8 * order[row] + 5);
        if (row < 4) cr_expect_eq(number_at(model, "blk.0.attn_v.weight", row, 5), 8 * (float)row + 5);
    }
    model_close(model);
}

/* Of four value heads of two values the first two share a key head, and then the others; GGUF files have the
 * first of each key head before the second of each. */
Test(hf_directory, tiles_the_value_heads_of_a_delta_net)
{
    static const float order[] = {0, 1, 4, 5, 2, 3, 6, 7};
    float values[12 * 8];
    struct model *model;
    struct tensor_file *file = tensor_file_create();
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) values[i] = (float)i;
    tensor_file_add(file, "model.language_model.layers.0.linear_attn.in_proj_z.weight", 8, 8, values);
    tensor_file_add(file, "model.language_model.layers.0.linear_attn.in_proj_qkv.weight", 12, 8, values);
    tensor_file_add(file, "model.language_model.layers.0.linear_attn.out_proj.weight", 8, 8, values);
    tensor_file_save(file, files_path(folder, "model.safetensors"));
    write_config("\"model_type\": \"qwen3_5\", \"text_config\": {\"model_type\": \"qwen3_5_text\", "
                 "\"hidden_size\": 8, \"num_hidden_layers\": 1, \"linear_num_key_heads\": 2, "
                 "\"linear_num_value_heads\": 4, \"linear_key_head_dim\": 1, \"linear_value_head_dim\": 2}");
    cr_assert_eq(model_open(folder, NULL, &model), ENGINE_OK, "%s", error_message());
    for (uint64_t i = 0; i < 8; i++) {
        cr_expect_eq(number_at(model, "blk.0.attn_gate.weight", i, 5), 8 * order[i] + 5);
        cr_expect_eq(number_at(model, "blk.0.attn_qkv.weight", 4 + i, 5), 8 * (4 + order[i]) + 5);
        cr_expect_eq(number_at(model, "blk.0.ssm_out.weight", 3, i), 24 + order[i]);
        if (i < 4) cr_expect_eq(number_at(model, "blk.0.attn_qkv.weight", i, 5), 8 * (float)i + 5);
    }
    model_close(model);
}

/* Tables that graphs read as numbers are made when the model is opened, in any type of storage. */
Test(hf_directory, makes_the_tables_of_streams)
{
    struct model *model;
    static const char *const names[] = {"blk.0.attn_compressor_ape.weight", "blk.0.hc_attn_base.weight",
                                        "output_hc_scale.weight"};
    write_config("\"model_type\": \"deepseek_v4\", \"hidden_size\": 8, \"num_hidden_layers\": 1");
    write_safetensors(
        files_path(folder, "model.safetensors"),
        "{\"layers.0.self_attn.compressor.position_bias\": {\"dtype\": \"F8_E4M3\", \"shape\": [2, 4], "
        "\"data_offsets\": [0, 8]}, "
        "\"layers.0.attn_hc.base\": {\"dtype\": \"F8_E4M3\", \"shape\": [1, 3], \"data_offsets\": [8, 11]}, "
        "\"hc_head.hc_scale\": {\"dtype\": \"BF16\", \"shape\": [1, 1], \"data_offsets\": [11, 13]}}",
        13);
    cr_assert_eq(model_open(folder, NULL, &model), ENGINE_OK, "%s", error_message());
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct model_tensor *tensor = model_tensor_find(model, names[i]);
        cr_assert(tensor, "%s", names[i]);
        cr_expect(tensor->type == ENGINE_TYPE_F32 && tensor->data, "%s", names[i]);
    }
    model_close(model);
}

/* ---- What is refused ---- */

Test(hf_directory, refuses_configurations)
{
    static const struct {
        const char *members, *words;
    } cases[] = {
        {"", "model_type is missing"},
        {"\"model_type\": 3", "model_type is not a text"},
        {"\"model_type\": \"\\u0007\"", "the model type ' ' is not supported"},
        {"\"model_type\": \"perceiver\"", "'perceiver' is not supported"},
        {"\"model_type\": \"electra\"", "encoders"},
        {"\"model_type\": \"rwkv\"", "recurrent"},
        {"\"model_type\": \"rwkv7\"", "'rwkv7' are supported only as GGUF files"},
        {"\"model_type\": \"mamba\", \"hidden_size\": 1048576, \"num_hidden_layers\": 1, \"expand\": 2049",
         "expand times hidden_size is not a count"},
        {CONFIG ", \"hidden_size\": 8", "duplicate"},
        {CONFIG ", \"head_dim\": NaN", "not valid JSON"},
        {CONFIG ", \"rms_norm_eps\": 1e999", "not valid JSON"},
        {CONFIG ", \"rms_norm_eps\": \"x\"", "is not a number"},
        {CONFIG ", \"head_dim\": 0", "head_dim is 0"},
        {CONFIG ", \"head_dim\": 1000000000", "head_dim is 1000000000"},
        {CONFIG ", \"head_dim\": -4", "head_dim is not a count"},
        {CONFIG ", \"head_dim\": 4.5", "head_dim is not a count"},
        {CONFIG ", \"tie_word_embeddings\": 2", "neither true nor false"},
        {CONFIG ", \"hidden_act\": \"sine\"", "'sine' is not supported"},
        {"\"model_type\": \"qwen2\", \"num_hidden_layers\": 1, \"layer_types\": []", "0 texts for 1 layers"},
        {"\"model_type\": \"qwen2\", \"num_hidden_layers\": 1, \"layer_types\": [\"linear_attention\"]",
         "'linear_attention' is not supported"},
        {"\"model_type\": \"glm4_moe_lite\", \"hidden_size\": 8, \"num_attention_heads\": 2, "
         "\"num_hidden_layers\": 2, "
         "\"mlp_layer_types\": [\"dense\"]",
         "1 texts for 2 layers"},
        {"\"model_type\": \"glm4_moe_lite\", \"hidden_size\": 8, \"num_attention_heads\": 2, "
         "\"num_hidden_layers\": 2, "
         "\"mlp_layer_types\": [\"sparse\", \"dense\"]",
         "a dense layer after a sparse one"},
        {CONFIG ", \"rope_theta\": 0", "impossible"},
        {CONFIG ", \"rope_scaling\": {\"rope_type\": \"spiral\"}", "'spiral' is not supported"},
        {CONFIG ", \"rope_scaling\": {\"type\": \"llama3\", \"factor\": 0, \"low_freq_factor\": 1, "
                "\"high_freq_factor\": 4}",
         "cannot have the factors"},
        {CONFIG ", \"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8}",
         "llama3 lacks its low_freq_factor"},
        {CONFIG ", \"rope_parameters\": []", "rope_parameters is not a JSON object"},
        {CONFIG ", \"rope_scaling\": 5", "rope_scaling is not a JSON object"},
        {CONFIG ", \"rope_theta\": -5", "impossible"},
        {CONFIG ", \"rope_parameters\": {\"rope_theta\": -1}", "impossible"},
        {CONFIG ", \"partial_rotary_factor\": 0.5, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}",
         "partial_rotary_factor 0.5 with rope of the type 'linear'"},
        {CONFIG ", \"text_config\": 5", "text_config is not a JSON object"},
        {CONFIG ", \"architectures\": 5", "architectures is not a list"},
        {"\"model_type\": \"llama\", \"hidden_size\": 8, \"num_attention_heads\": 2, "
         "\"num_key_value_heads\": 1, \"num_hidden_layers\": 1, \"vocab_size\": 2",
         "vocab_size is 2, but the embedding has 3 rows"},
        {CONFIG ", \"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1], "
                "\"original_max_position_embeddings\": 32}",
         "short_factor has 1 numbers for 2 pairs"},
        {CONFIG ", \"partial_rotary_factor\": 2", "impossible"},
        {"\"model_type\": \"deepseek_v4\", \"partial_rotary_factor\": 1e20", "below 0 or above 1"},
        {CONFIG ", \"quantization_config\": {\"quant_method\": \"bitsandbytes\"}",
         "'bitsandbytes' is not supported"},
        {CONFIG ", \"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 3}",
         "3 bits are not supported"},
        {CONFIG ", \"quantization_config\": {\"quant_method\": \"fp8\", \"weight_block_size\": [0, 1]}",
         "not two counts"},
        {"\"model_type\": \"llama\", \"hidden_size\": 0", "hidden_size is 0"},
        {"\"model_type\": \"llama\", \"hidden_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": "
         "2, "
         "\"intermediate_size\": -1",
         "config.json: intermediate_size is not a count"}, /* not another name of it */
        {"\"model_type\": \"llama\", \"hidden_size\": 8, \"num_hidden_layers\": 100000", "at most 1024"},
        {"\"model_type\": \"falcon\", \"hidden_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": "
         "2, "
         "\"alibi\": true",
         "ALiBi is not supported"},
    };
    write_shard("model.safetensors", 0, N_STORED);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_config(cases[i].members);
        expect_refusal(cases[i].words);
    }
}

Test(hf_directory, refuses_files_that_are_no_json)
{
    enum { DEEP = 10000, LARGE = (16 << 20) + 1 };
    const char *path = files_path(folder, "config.json");
    expect_refusal("without a config.json");
    files_write_text(path, "");
    expect_refusal("it is empty");
    files_write_text(path, "[]");
    expect_refusal("not a JSON object");
    files_write_text(path, "{");
    expect_refusal("not valid JSON");
    char *text = malloc(LARGE + 1);
    memset(text, '[', LARGE);
    files_write(path, text, DEEP);
    expect_refusal("not valid JSON");
    memset(text, ' ', LARGE);
    files_write(path, text, LARGE);
    expect_refusal("at most 16777216 are read");
    free(text);
    unlink(path);
    cr_assert_eq(symlink("config.json", path), 0);
    expect_refusal("config.json");
}

/* What a folder is instead, told from the files in it. */
Test(hf_directory, refuses_folders_that_are_no_models)
{
    static const struct {
        const char *file, *words;
        bool with_config;
    } cases[] = {
        {"adapter_config.json", "is an adapter, not a model: apply it with --lora", false},
        {"adapter_config.json", "is an adapter, not a model: apply it with --lora", true},
        {"model_index.json", "is a pipeline of Diffusers", false},
        {"consolidated.safetensors", "is in Mistral's own layout", false},
        {"consolidated.safetensors", "is in Mistral's own layout", true},
        {"params.json", "is in its publisher's own layout", false},
        {"tiny.Q4_K_M.gguf",
         "is a folder without a config.json, but with GGUF files: name one of them, such as", false},
        {"tiny.Q4_K_M.gguf", "without a model.safetensors, but with GGUF files: name one of them, such as",
         true},
        {"model.safetensors", "without a config.json, but with weights (model.safetensors)", false},
        {"model-00001-of-00002.safetensors",
         "has model-00001-of-00002.safetensors but no model.safetensors.index", true},
        {"README.md", "is a folder without a config.json", false},
        {"README.md", "has neither model.safetensors nor", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = files_path(folder, cases[i].file);
        files_write_text(path, "");
        if (cases[i].with_config) write_config(CONFIG);
        expect_refusal(cases[i].words);
        unlink(path);
        unlink(files_path(folder, "config.json"));
    }
    write_shard("model.safetensors", 0, N_STORED);
    expect_path_refused(files_path(folder, "model.safetensors"), "name its folder instead");
}

Test(hf_directory, refuses_weights)
{
    write_config(CONFIG);
    expect_refusal("has neither model.safetensors");
    files_write_text(files_path(folder, "pytorch_model.bin"), "");
    expect_refusal("save the model as safetensors");
    const char *path = files_path(folder, "model.safetensors");
    cr_assert_eq(symlink("model.safetensors", path), 0);
    expect_refusal("model.safetensors");
    unlink(path);
    files_write_text(path, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n");
    expect_refusal("git lfs pull");
    static const struct {
        const char *header, *words;
        size_t size;
    } cases[] = {
        {"{\"model.layers.0.self_attn.q_proj.weight\": {\"dtype\": \"F32\", \"shape\": [3, 1], "
         "\"data_offsets\": [0, 12]}}",
         "do not suit config.json's heads", 12},
        {"{\"model.layers.0.self_attn.q_proj.weight\": {\"dtype\": \"I16\", \"shape\": [3, 1], "
         "\"data_offsets\": [0, 6]}}",
         "has the type I16", 6},
        {"{\"model.layers.0.mlp.up_proj.weight\": {\"dtype\": \"F32\", \"shape\": [1, 1, 1, 1], "
         "\"data_offsets\": [0, 4]}}",
         "4 dimensions", 4},
        {"{\"model.layers.0.mlp.up_proj.weight\": {\"dtype\": \"F32\", \"shape\": [0, 4], \"data_offsets\": "
         "[0, 0]}}",
         "no values", 0},
        {"{\"model.norm.weight\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}, "
         "\"norm.weight\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [4, 8]}}",
         "does not go with", 8},
        {"{\"model.layers.0.mlp.experts.1.up_proj.weight\": {\"dtype\": \"F32\", \"shape\": [1, 1], "
         "\"data_offsets\": [0, 4]}, "
         "\"model.layers.0.mlp.experts.2.up_proj.weight\": {\"dtype\": \"F32\", \"shape\": [1, 1], "
         "\"data_offsets\": [4, 8]}}",
         "does not go with", 8},
        {"{\"x\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}}", "token_embd.weight", 4},
        {"{\"x\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}}",
         "60 bytes follow the last tensor", 64},
        {"{\"__metadata__\": \"x\"}", "__metadata__ is not a JSON object", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_safetensors(path, cases[i].header, cases[i].size);
        expect_refusal(cases[i].words);
    }
}

/* As transformers writes them for no shared expert. */
Test(hf_directory, reads_past_shared_experts_without_values)
{
    struct model *model;
    write_config("\"model_type\": \"afmoe\", \"hidden_size\": 8, \"num_hidden_layers\": 1");
    write_safetensors(
        files_path(folder, "model.safetensors"),
        "{\"model.layers.0.mlp.shared_experts.up_proj.weight\": {\"dtype\": \"F32\", \"shape\": [0, 8], "
        "\"data_offsets\": [0, 0]}, \"model.norm.weight\": {\"dtype\": \"F32\", \"shape\": [8], "
        "\"data_offsets\": [0, 32]}}",
        32);
    cr_expect_eq(model_open(folder, NULL, &model), ENGINE_OK, "%s", error_message());
    cr_expect(model && model_tensor_count(model) == 1);
    model_close(model);
}

static void keep_line(void *user, enum engine_log_level level, const char *line)
{
    if (level == ENGINE_LOG_WARNING) snprintf(user, 512, "%s", line);
}

/* A warning says so, because they take more memory than the files. */
Test(hf_directory, tells_of_matrices_that_become_floats)
{
    static const char header[] =
        "{\"model.layers.0.mlp.up_proj.weight\": {\"dtype\": \"F8_E4M3\", \"shape\": [4, 8], "
        "\"data_offsets\": "
        "[0, 32]}, \"model.layers.0.mlp.up_proj.weight_scale_inv\": {\"dtype\": \"F32\", \"shape\": [1, 1], "
        "\"data_offsets\": [32, 36]}}";
    char line[512] = "";
    struct model *model;
    log_to(keep_line, line);
    write_config(CONFIG ", \"quantization_config\": {\"quant_method\": \"fp8\"}");
    write_safetensors(files_path(folder, "model.safetensors"), header, 36); /* the scale is 0 */
    cr_assert_eq(model_open(folder, NULL, &model), ENGINE_OK, "%s", error_message());
    cr_expect(strstr(line, "1 of 1 quantised matrices fit no type"), "%s", line);
    model_close(model);
    line[0] = '\0';
    write_config(CONFIG);
    write_shard("model.safetensors", 0, N_STORED);
    cr_assert_eq(model_open(folder, NULL, &model), ENGINE_OK, "%s", error_message());
    cr_expect_str_empty(line, "%s", line);
    model_close(model);
    log_to(NULL, NULL);
}

/* A model that also sees is used as text, which one line says. */
Test(hf_directory, tells_of_parts_that_are_not_text)
{
    const float values[8] = {0};
    char line[512] = "";
    struct model *model;
    struct tensor_file *file = tensor_file_create();
    tensor_file_add(file, "model.embed_tokens.weight", 1, 8, values);
    tensor_file_add(file, "model.visual.patch_embed.proj.weight", 1, 8, values);
    tensor_file_save(file, files_path(folder, "model.safetensors"));
    write_config("\"model_type\": \"llama\", \"hidden_size\": 8, \"num_attention_heads\": 2, "
                 "\"num_hidden_layers\": 1");
    log_to(keep_line, line);
    cr_assert_eq(model_open(folder, NULL, &model), ENGINE_OK, "%s", error_message());
    log_to(NULL, NULL);
    cr_expect(strstr(line, "only its text part is used"), "%s", line);
    cr_expect_eq(model_tensor_count(model), 1);
    model_close(model);

    struct gguf_writer *writer = gguf_create(3);
    const char *path = files_path(folder, "model.gguf");
    gguf_add_tensor(writer, "token_embd.weight", ENGINE_TYPE_F32, 1, (const uint64_t[]){8}, values, 32);
    gguf_add_tensor(writer, "v.patch_embd.weight", ENGINE_TYPE_F32, 1, (const uint64_t[]){8}, values, 32);
    cr_assert(gguf_save(writer, path));
    gguf_destroy(writer);
    line[0] = '\0';
    log_to(keep_line, line);
    cr_assert_eq(model_open(path, NULL, &model), ENGINE_OK, "%s", error_message());
    log_to(NULL, NULL);
    cr_expect(strstr(line, "only its text part is used"), "%s", line);
    model_close(model);
}

/* What transformers goes on with, too. */
Test(hf_directory, warns_of_what_does_not_go_together)
{
    static const struct {
        const char *members, *words;
        size_t n_stored;
    } cases[] = {
        {CONFIG ", \"partial_rotary_factor\": 0.5", "partial_rotary_factor is ignored", N_STORED},
        {CONFIG ", \"tie_word_embeddings\": false", "lm_head.weight is missing", 2},
        {CONFIG ", \"tie_word_embeddings\": false", "", N_STORED},
        {CONFIG ", \"tie_word_embeddings\": true", "", 2},
    };
    char line[512];
    struct model *model;
    log_to(keep_line, line);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        line[0] = '\0';
        write_config(cases[i].members);
        write_shard("model.safetensors", 0, cases[i].n_stored);
        cr_assert_eq(model_open(folder, NULL, &model), ENGINE_OK, "%s", error_message());
        cr_expect(cases[i].words[0] ? strstr(line, cases[i].words) != NULL : !line[0], "%s", line);
        model_close(model);
    }
    line[0] = '\0';
    write_safetensors(files_path(folder, "model.safetensors"),
                      "{\"model.layers.2.mlp.up_proj.weight\": {\"dtype\": \"F32\", \"shape\": [4, 8], "
                      "\"data_offsets\": [0, 128]}}",
                      128);
    cr_assert_eq(model_open(folder, NULL, &model), ENGINE_OK, "%s", error_message());
    cr_expect(strstr(line, "3 layers are stored; the first 1"), "%s", line);
    model_close(model);
    log_to(NULL, NULL);
}

/* The embedding and the head where tie_word_embeddings is true: either alone is both; two that differ are
 * two. */
Test(hf_directory, uses_a_stored_head_beside_a_tied_embedding)
{
    static const struct {
        size_t first, n; /* of the embedding, the norm and the head */
        float head;      /* added to the head's values */
        bool has_head, warns;
    } cases[] = {
        {0, 2, 0, false, false}, {1, 2, 5, false, false}, {0, 3, 0, false, false}, {0, 3, 5, true, true}};
    char line[512];
    log_to(keep_line, line);
    write_config(CONFIG ", \"tie_word_embeddings\": true");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model *model;
        struct tensor_file *file = tensor_file_create();
        float values[64];
        *line = '\0';
        for (size_t k = cases[i].first; k < cases[i].first + cases[i].n; k++) {
            for (size_t v = 0; v < 64; v++) values[v] = (float)v + (k == 2 ? cases[i].head : 0);
            tensor_file_add(file, stored[k].name, stored[k].rows, stored[k].columns, values);
        }
        tensor_file_save(file, files_path(folder, "model.safetensors"));
        cr_assert_eq(model_open(folder, NULL, &model), ENGINE_OK, "%s", error_message());
        cr_expect_eq(model_tensor_find(model, "output.weight") != NULL, cases[i].has_head, "case %zu", i);
        cr_expect_eq(number_at(model, "token_embd.weight", 1, 2), 10 + (cases[i].first == 1 ? 5 : 0));
        if (cases[i].has_head) cr_expect_eq(number_at(model, "output.weight", 1, 2), 15);
        cr_expect_eq(strstr(line, "lm_head.weight is not the embedding") != NULL, cases[i].warns, "%s", line);
        model_close(model);
    }
    log_to(NULL, NULL);
}

/* A bias that config.json doesn't give the model is left out, with a warning; where the type has no such key
 * it stays. */
Test(hf_directory, leaves_out_what_config_json_switches_off)
{
    static const struct {
        const char *members, *words;
        bool has_bias;
    } cases[] = {
        {"", "attention_bias is false", false},
        {", \"attention_bias\": true", "", true},
        {", \"model_type\": \"qwen2\"", "", true},
        {", \"model_type\": \"qwen2_moe\", \"qkv_bias\": false", "qkv_bias is false", false},
    };
    char line[512], members[512];
    log_to(keep_line, line);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model *model;
        struct tensor_file *file = tensor_file_create();
        float values[64] = {0};
        bool has_type = strstr(cases[i].members, "model_type") != NULL;
        *line = '\0';
        snprintf(members, sizeof members, "%s%s", has_type ? strchr(CONFIG, ',') + 2 : CONFIG,
                 cases[i].members);
        write_config(members);
        tensor_file_add(file, stored[0].name, 3, 8, values);
        tensor_file_add(file, "model.layers.0.self_attn.q_proj.bias", 1, 8, values);
        tensor_file_save(file, files_path(folder, "model.safetensors"));
        cr_assert_eq(model_open(folder, NULL, &model), ENGINE_OK, "%s", error_message());
        cr_expect_eq(model_tensor_find(model, "blk.0.attn_q.bias") != NULL, cases[i].has_bias, "%s", members);
        cr_expect(cases[i].words[0] ? strstr(line, cases[i].words) != NULL : !line[0], "%s", line);
        model_close(model);
    }
    log_to(NULL, NULL);
}

/* Falcon-H1 multiplies both by numbers of their own. */
Test(hf_directory, makes_two_of_a_tied_embedding_with_factors)
{
    struct model *model;
    write_config("\"model_type\": \"falcon_h1\", \"hidden_size\": 8, \"num_attention_heads\": 2, "
                 "\"num_hidden_layers\": 1, \"vocab_size\": 3, \"tie_word_embeddings\": true, "
                 "\"embedding_multiplier\": 2, \"lm_head_multiplier\": 3");
    write_shard("model.safetensors", 0, 1);
    cr_assert_eq(model_open(folder, NULL, &model), ENGINE_OK, "%s", error_message());
    cr_expect_eq(number_at(model, "token_embd.weight", 1, 2), 20);
    cr_expect_eq(number_at(model, "output.weight", 1, 2), 30);
    model_close(model);
}

/* Rope that depends on the length ends with the context that the model has; Hunyuan's base has no length. */
Test(hf_directory, tells_of_dynamic_rope)
{
    static const struct {
        const char *members;
        bool is_dynamic;
    } cases[] = {{CONFIG, false},
                 {CONFIG ", \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}", true},
                 {CONFIG ", \"rope_scaling\": {\"type\": \"dynamic\", \"alpha\": 1000}", false}};
    write_shard("model.safetensors", 0, N_STORED);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model *model;
        struct arch_info info;
        write_config(cases[i].members);
        cr_assert_eq(model_open(folder, NULL, &model), ENGINE_OK, "%s", error_message());
        const struct architecture *arch = arch_of(model);
        void *hparams = calloc(1, arch->size);
        cr_expect_eq(arch_read(arch, model, hparams, &info), ENGINE_OK, "%s", error_message());
        cr_expect_eq(info.has_dynamic_rope, cases[i].is_dynamic, "%s", cases[i].members);
        free(hparams);
        model_close(model);
    }
}

/* Files beside the weights that are damaged. */
Test(hf_directory, refuses_damaged_settings)
{
    static const struct {
        const char *name, *text, *words;
    } cases[] = {
        {"generation_config.json", "", "generation_config.json is empty"},
        {"tokenizer_config.json", "", "tokenizer_config.json is empty"},
        {"tokenizer.json", "", "tokenizer.json is empty"},
        {"generation_config.json", "{\"temperature\": \"hot\"}", "temperature is not a number"},
        {"generation_config.json", "{\"eos_token_id\": \"x\"}", "eos_token_id is neither"},
        {"generation_config.json", "{\"eos_token_id\": [\"x\"]}", "eos_token_id is neither"},
    };
    write_config(CONFIG);
    write_shard("model.safetensors", 0, N_STORED);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        files_write_text(files_path(folder, cases[i].name), cases[i].text);
        expect_refusal(cases[i].words);
        unlink(files_path(folder, cases[i].name));
    }
    expect_model(folder);
}

Test(hf_directory, refuses_indices)
{
    static const struct {
        const char *index, *words;
    } cases[] = {
        {"[]", "not a JSON object"},
        {"{}", "has no weight_map"},
        {"{\"weight_map\": {}}", "lists 0 files"},
        {"{\"weight_map\": {\"a\": \"../../etc/passwd\"}}", "not one in the same folder"},
        {"{\"weight_map\": {\"a\": \"/etc/passwd\"}}", "not one in the same folder"},
        {"{\"weight_map\": {\"a\": \"..\"}}", "not one in the same folder"},
        {"{\"weight_map\": {\"a\": 1}}", "not one in the same folder"},
        {"{\"weight_map\": {\"a\": \"none.safetensors\"}}", "none.safetensors"},
        {"{\"weight_map\": {\"a\": \"a.safetensors\"}}", "a.safetensors lacks the tensor a"},
        {"{\"weight_map\": {\"model.norm.weight\": \"a.safetensors\"}}",
         "does not list the tensor model.embed_tokens"},
    };
    write_config(CONFIG);
    write_shard("a.safetensors", 0, 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        files_write_text(files_path(folder, "model.safetensors.index.json"), cases[i].index);
        expect_refusal(cases[i].words);
    }
}
