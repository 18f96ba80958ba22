/* test-verify.c: a model's files against the checksums beside them: SHA256SUMS, Hugging Face's cache, and its
 * downloads. All files have the same three bytes: what is compared is never read as a model. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "files.h"
#include "model/verify.h"
#include "program.h"

/* Of "abc", by sha256sum and by git hash-object. */
#define SHA256 "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define GIT    "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f"

static char *folder;

static void write_model(const char *name)
{
    files_write_text(files_path(folder, name), "abc");
}

static void begin(void)
{
    folder = files_folder();
    write_model("config.json");
    write_model("model.safetensors");
}

static void end(void)
{
    files_remove(folder);
    free(folder);
}

TestSuite(verify, .init = begin, .fini = end);

static void write_sums(const char *text)
{
    files_write_text(files_path(folder, "SHA256SUMS"), text);
}

static void expect_good(const char *path, size_t n_files, size_t n_unknown)
{
    struct verified verified;
    cr_assert_eq(model_verify(path, NULL, NULL, NULL, &verified), ENGINE_OK, "%s", error_message());
    cr_expect_eq(verified.n_files, n_files, "%zu files", verified.n_files);
    cr_expect_eq(verified.n_unknown, n_unknown, "%zu files without a checksum", verified.n_unknown);
    cr_expect_eq(verified.n_bytes, 3 * n_files);
}

static void expect_bad(const char *path, const char *words)
{
    struct verified verified;
    error_clear();
    cr_expect_eq(model_verify(path, NULL, NULL, NULL, &verified), ENGINE_ERROR_DATA, "not refused: %s",
                 words);
    cr_expect(strstr(error_message(), words), "expected \"%s\" in: %s", words, error_message());
    cr_expect_null(strchr(error_message(), '\n'));
}

Test(verify, reads_lists_of_every_form)
{
    static const char *const lists[] = {
        SHA256 "  config.json\n" SHA256 "  model.safetensors\n",
        SHA256 " *config.json\n" SHA256 " *./model.safetensors",
        "# sums\r\n\r\nSHA256 (config.json) = " SHA256 "\r\nSHA256 (model.safetensors) = " SHA256 "\r\n",
        "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD  config.json\n" SHA256
        "  model.safetensors\n" SHA256 "  ../../etc/passwd\n" SHA256 "  pytorch_model.bin\n",
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        write_sums(lists[i]);
        expect_good(folder, 2, 0);
        expect_good(files_path(folder, "config.json"), 2, 0);
    }
}

Test(verify, refuses_lists)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"sums\n", "SHA256SUMS:1 is not a checksum"},
        {SHA256 "  config.json\nba78  model.safetensors\n", "SHA256SUMS:2 is not a checksum"},
        {SHA256 " config.json\n", "SHA256SUMS:1 is not a checksum"},
        {SHA256 "  config.json\n" SHA256 "  config.json\n", "lists config.json twice"},
        {SHA256 "  config.json\n", "model.safetensors has no checksum"},
        {"", "model.safetensors has no checksum"},
        {SHA256 "  model.safetensors\n" SHA256 "  tokenizer.json\n", "tokenizer.json is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_sums(cases[i].text);
        expect_bad(folder, cases[i].words);
    }
    unlink(files_path(folder, "SHA256SUMS"));
    expect_bad(folder, "model.safetensors has no checksum");
}

/* Weights, and each of the other files that the engine reads. */
Test(verify, finds_changed_files)
{
    static const char *const names[] = {
        "model.safetensors",
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer.model",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "chat_template.jinja",
        "additional_chat_templates/tool_use.jinja",
        "chat_template.json",
        "vocab.json",
        "merges.txt",
        "vocab.txt",
        "added_tokens.json",
    };
    enum { N = sizeof names / sizeof *names };
    char text[4096] = "";
    mkdir(files_path(folder, "additional_chat_templates"), 0755);
    for (size_t i = 0; i < N; i++) {
        write_model(names[i]);
        snprintf(text + strlen(text), sizeof text - strlen(text), SHA256 "  %s\n", names[i]);
    }
    write_sums(text);
    expect_good(folder, N, 0);
    for (size_t i = 0; i < N; i++) {
        files_write_text(files_path(folder, names[i]), "abd");
        expect_bad(folder, names[i]);
        cr_expect(strstr(error_message(), SHA256) &&
                      strstr(error_message(), "a52d159f262b2c6ddb724a61840befc3"),
                  "expected and found are missing in: %s", error_message());
        write_model(names[i]);
    }
}

/* A folder of PEFT, whose weights have another name. */
Test(verify, adapters)
{
    static const char *const names[] = {"adapter_model.safetensors", "adapter_config.json"};
    unlink(files_path(folder, "config.json"));
    unlink(files_path(folder, "model.safetensors"));
    for (size_t i = 0; i < 2; i++) write_model(names[i]);
    write_sums(SHA256 "  adapter_config.json\n" SHA256 "  adapter_model.safetensors\n");
    expect_good(folder, 2, 0);
    for (size_t i = 0; i < 2; i++) {
        files_write_text(files_path(folder, names[i]), "other");
        expect_bad(folder, names[i]);
        write_model(names[i]);
    }
    write_sums(SHA256 "  adapter_config.json\n");
    expect_bad(folder, "adapter_model.safetensors has no checksum");
}

Test(verify, counts_files_without_a_checksum)
{
    write_model("tokenizer.json");
    write_sums(SHA256 "  model.safetensors\n");
    expect_good(folder, 1, 2);
}

/* The weights are those that the index lists; one that is damaged is found to be so. */
Test(verify, reads_the_index)
{
    static const char index[] = "{\"weight_map\": {\"a\": \"1.safetensors\", \"b\": \"2.safetensors\"}}";
    unlink(files_path(folder, "model.safetensors"));
    write_model("1.safetensors");
    files_write_text(files_path(folder, "model.safetensors.index.json"), index);
    write_sums(SHA256 "  1.safetensors\n" SHA256 "  config.json\n" SHA256 "  3.safetensors\n");
    expect_bad(folder, "2.safetensors has no checksum");
    write_sums(SHA256 "  1.safetensors\n" SHA256 "  2.safetensors\n" SHA256 "  config.json\n");
    struct verified verified;
    cr_expect_neq(model_verify(folder, NULL, NULL, NULL, &verified), ENGINE_OK);
    cr_expect(strstr(error_message(), "2.safetensors"), "%s", error_message());
    write_model("2.safetensors");
    cr_assert_eq(model_verify(folder, NULL, NULL, NULL, &verified), ENGINE_OK, "%s", error_message());
    cr_expect_eq(verified.n_files, 3);
    files_write_text(files_path(folder, "model.safetensors.index.json"), "abd");
    write_sums(SHA256 "  model.safetensors.index.json\n" SHA256 "  config.json\n");
    expect_bad(folder, "model.safetensors.index.json is damaged");
    write_model("model.safetensors.index.json");
    expect_bad(folder, "model.safetensors.index.json is not valid JSON");
}

/* snapshots/HASH/NAME -> ../../blobs/CHECKSUM, as Hugging Face's programs lay it out. */
static void link_blob(const char *snapshot, const char *name, const char *blob)
{
    char target[256];
    snprintf(target, sizeof target, "../../blobs/%s", blob);
    unlink(files_path(snapshot, name));
    cr_assert_eq(symlink(target, files_path(snapshot, name)), 0);
}

Test(verify, takes_the_names_of_blobs)
{
    static const char *const folders[] = {"models--org--name", "models--org--name/blobs",
                                          "models--org--name/refs", "models--org--name/snapshots",
                                          "models--org--name/snapshots/abc1"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        cr_assert_eq(mkdir(files_path(folder, folders[i]), 0755), 0);
    write_model("models--org--name/blobs/" SHA256);
    write_model("models--org--name/blobs/" GIT);
    files_write_text(files_path(folder, "models--org--name/refs/main"), "abc1");
    const char *snapshot = files_path(folder, folders[4]);
    link_blob(snapshot, "model.safetensors", SHA256);
    link_blob(snapshot, "config.json", GIT);
    link_blob(snapshot, "model.gguf", SHA256);
    setenv("HF_HUB_CACHE", folder, 1);
    expect_good("org/name", 2, 0);
    expect_good(files_path(folder, "models--org--name"), 2, 0);
    expect_good(files_path(snapshot, "model.gguf"), 1, 0);
    link_blob(snapshot, "tokenizer.json", "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b70");
    expect_bad("org/name", "tokenizer.json is missing");
    files_write_text(files_path(folder, "models--org--name/blobs/" GIT), "abd");
    expect_bad("org/name", "d4a5aa562b600d597c542a3610ae0b7b6ae0dbd7");
    unsetenv("HF_HUB_CACHE");
}

Test(verify, takes_what_downloads_keep)
{
    const char *kept = files_path(folder, ".cache/huggingface/download");
    mkdir(files_path(folder, ".cache"), 0755);
    mkdir(files_path(folder, ".cache/huggingface"), 0755);
    cr_assert_eq(mkdir(kept, 0755), 0);
    files_write_text(files_path(kept, "model.safetensors.metadata"), "c0ffee\n" SHA256 "\n1753.25\n");
    files_write_text(files_path(kept, "config.json.metadata"), "c0ffee\n\"" GIT "\"\n1753.25\n");
    expect_good(folder, 2, 0);
    files_write_text(files_path(folder, "config.json"), "abd");
    expect_bad(folder, "SHA-1 as a Git blob is d4a5aa562b600d597c542a3610ae0b7b6ae0dbd7");
    write_model("config.json");
    write_sums("a52d159f262b2c6ddb724a61840befc36eb30c88877a4030b65cbe86298449c9  config.json\n");
    expect_bad(folder, "SHA256SUMS says a52d159f"); /* every one of them counts */
    unlink(files_path(folder, "SHA256SUMS"));
    files_write_text(files_path(kept, "model.safetensors.metadata"), "c0ffee\n");
    expect_bad(folder, "model.safetensors has no checksum");
}

/* Any part stands for all of them. */
Test(verify, verifies_all_parts)
{
    write_model("m-00001-of-00002.gguf");
    write_sums(SHA256 "  m-00001-of-00002.gguf\n" SHA256 "  m-00002-of-00002.gguf\n");
    struct verified verified;
    const char *path = files_path(folder, "m-00001-of-00002.gguf");
    cr_expect_eq(model_verify(path, NULL, NULL, NULL, &verified), ENGINE_ERROR);
    cr_expect(strstr(error_message(), "m-00002-of-00002.gguf"), "%s", error_message());
    write_model("m-00002-of-00002.gguf");
    expect_good(path, 2, 0);
    expect_good(files_path(folder, "m-00002-of-00002.gguf"), 2, 0);
    files_write_text(files_path(folder, "m-00002-of-00002.gguf"), "abd");
    expect_bad(path, "m-00002-of-00002.gguf is damaged");
    static const char *const others[] = {"m-00003-of-00002.gguf", "m-0001-of-00002.gguf",
                                         "m-00001-of-0000x.gguf"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char text[128];
        snprintf(text, sizeof text, SHA256 "  %s\n", others[i]);
        write_model(others[i]);
        write_sums(text);
        expect_good(files_path(folder, others[i]), 1, 0);
    }
}

static int note_progress(void *user, uint64_t done, uint64_t total)
{
    uint64_t *seen = user;
    seen[0] = done;
    seen[1] = total;
    return seen[2] != 0;
}

Test(verify, verifies_single_files_and_can_be_stopped)
{
    struct verified verified;
    uint64_t seen[3] = {0};
    char *path = strdup(files_path(folder, "model.bin"));
    write_model("model.bin");
    write_model("tok.bin");
    write_sums(SHA256 "  model.bin\n");
    expect_good(path, 1, 0);
    cr_expect_eq(model_verify(path, files_path(folder, "tok.bin"), NULL, NULL, &verified), ENGINE_ERROR_DATA);
    cr_expect(strstr(error_message(), "tok.bin has no checksum"), "%s", error_message());
    cr_assert_eq(model_verify(path, NULL, note_progress, seen, &verified), ENGINE_OK);
    cr_expect(seen[0] == 3 && seen[1] == 3);
    seen[2] = 1;
    cr_expect_eq(model_verify(path, NULL, note_progress, seen, &verified), ENGINE_ERROR);
    cr_expect(strstr(error_message(), "interrupted"), "%s", error_message());
    cr_expect_eq(model_verify(files_path(folder, "none"), NULL, NULL, NULL, &verified), ENGINE_ERROR);
    free(path);
}

/* From outside: one line, and no model is opened. */
Test(verify, program)
{
    write_sums(SHA256 "  model.safetensors\n" SHA256 "  config.json\n");
    struct program_result result = PROGRAM("info", "--verify", folder);
    cr_expect(strstr(result.err, ": 2 files verified, 6 B\n"), "%s", result.err);
    program_free(&result);
    files_write_text(files_path(folder, "model.safetensors"), "abd");
    program_fails(PROGRAM("run", "-m", folder, "--verify", "-p", "Hello"), 0, "model.safetensors is damaged");
}
