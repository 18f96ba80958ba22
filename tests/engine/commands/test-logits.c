/* test-logits.c: `engine logits`: what --top prints is what it writes as JSON; which settings change it; the
 * file that it writes, and those that it leaves alone. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gguf-writer.h"
#include "model/model.h"
#include "program-json.h"
#include "program-model.h"

enum { N_VOCAB = 320, N_TOP = 4 };

TestSuite(logits, .init = begin_model, .fini = end_model, .timeout = 1200);

#define LOGITS(...) PROGRAM("logits", "-m", model, "--backend", "cpu", "--tokens", "5 6 7", __VA_ARGS__)

/* [cpu] integers: small matrices of Q8_0 are computed in float32 unless it is `all`, as ENGINE_CPU_INTEGERS
 * says too. */
Test(logits, rounding_on_the_cpu_is_a_setting)
{
    static const struct {
        const char *settings;
        bool rounds;
    } cases[] = {{"threads = 1\n", false},
                 {"[cpu]\nintegers = auto\n", false},
                 {"[cpu]\nintegers = all\n", true},
                 {"[cpu]\nintegers = none\n", false},
                 {"[cpu]\nintegers =\n", false}};
    enum { N_CASES = sizeof cases / sizeof *cases };
    const char *config = strdup(files_path(folder, "engine.conf"));
    json_t *logits[N_CASES];
    unsetenv("ENGINE_CPU_INTEGERS");
    cr_assert(write_tiny_llama(model, &(struct tiny_llama){.seed = 3, .type = ENGINE_TYPE_Q8_0}));
    for (int i = 0; i < N_CASES; i++) {
        files_write_text(config, cases[i].settings);
        logits[i] = program_json(LOGITS("--json", "--config", config));
        cr_expect_eq(json_equal(logits[i], logits[0]), !cases[i].rounds, "%s", cases[i].settings);
    }
    setenv("ENGINE_CPU_INTEGERS", "none", 1); /* overrides it */
    files_write_text(config, "[cpu]\nintegers = all\n");
    json_t *exact = program_json(LOGITS("--json", "--config", config));
    cr_expect(json_equal(exact, logits[0]));
    unsetenv("ENGINE_CPU_INTEGERS");
    files_write_text(config, "[cpu]\nintegers = most\n");
    program_fails(LOGITS("--json", "--config", config), 0, "[cpu] integers is 'most'");
    json_decref(exact);
    for (int i = 0; i < N_CASES; i++) json_decref(logits[i]);
    free((void *)(uintptr_t)config);
}

static double logit_at(const json_t *all, size_t position, size_t id)
{
    return json_real_value(json_array_get(json_array_get(json_object_get(all, "logits"), position), id));
}

Test(logits, top)
{
    json_t *all = program_json(LOGITS("--json")), *top = program_json(LOGITS("--json", "--top", "4"));
    cr_assert_eq(json_array_size(json_object_get(top, "top")), 3);
    for (size_t position = 0; position < 3; position++) {
        const json_t *row = json_array_get(json_object_get(top, "top"), position);
        double total = 0, least = 0;
        cr_assert_eq(json_array_size(row), N_TOP);
        for (size_t id = 0; id < N_VOCAB; id++) total += exp(logit_at(all, position, id));
        for (size_t i = 0; i < N_TOP; i++) {
            const json_t *token = json_array_get(row, i);
            double logit = json_real_value(json_object_get(token, "logit"));
            size_t id = (size_t)json_integer_value(json_object_get(token, "id"));
            cr_assert_float_eq(logit, logit_at(all, position, id), 1e-6);
            cr_assert_float_eq(json_real_value(json_object_get(token, "probability")), exp(logit) / total,
                               1e-6);
            cr_assert(i == 0 || logit <= least);
            cr_assert(json_is_string(json_object_get(token, "text")));
            least = logit;
        }
        size_t n_above = 0;
        for (size_t id = 0; id < N_VOCAB; id++) n_above += logit_at(all, position, id) > least + 1e-6;
        cr_assert_eq(n_above, N_TOP - 1);
    }
    struct program_result result = LOGITS("--top", "4");
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert_eq(program_count_lines(result.out, " %"), 3 * N_TOP, "%s", result.out);
    cr_assert_eq(program_count_lines(result.out, "PROBABILITY"), 1);
    program_free(&result);
    json_decref(all);
    json_decref(top);
}

/* Weights that are not numbers give logits that are none: each command that shows them says so. */
Test(logits, damaged_weights)
{
    size_t size;
    char *bytes = files_read(model, &size);
    for (size_t at = size / 2; at + 4 <= size; at += 4) memcpy(bytes + at, &(uint32_t){0x7fc00000}, 4);
    files_write(model, bytes, size);
    free(bytes);
    const char *text = files_path(folder, "text");
    files_write_text(text, "abc cab bca abc cab bca abc cab bca");
    struct program_result results[] = {
        LOGITS("--top", "4"),
        LOGITS("--lens"),
        PROGRAM("attention", "-m", model, "--backend", "cpu", "--tokens", "5 6 7", "--layer", "1"),
        PROGRAM("perplexity", "-m", model, "--backend", "cpu", "-f", text, "-c", "8"),
        PROGRAM("score", "-m", model, "--backend", "cpu", "-p", "ab", "--answer", "c"),
        PROGRAM("run", "-m", model, "--backend", "cpu", "-p", "ab", "--beams", "2"),
        PROGRAM("run", "-m", model, "--backend", "cpu", "-p", "ab"),
    };
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        program_fails(results[i], 0, "the model's weights are damaged");
    }
}

/* Keys that are not numbers are not hidden by the softmax: neither of a few positions, nor of many. */
Test(logits, damaged_keys)
{
    size_t size;
    struct model *opened;
    char *bytes = files_read(model, &size);
    cr_assert_eq(model_open(model, NULL, &opened), ENGINE_OK);
    const struct model_tensor *k = model_tensor_find(opened, "blk.0.attn_k.weight");
    cr_assert(k && k->data);
    char *at = memmem(bytes, size, k->data, (size_t)k->size);
    cr_assert(at);
    for (uint64_t i = 0; i < k->size; i += 4) memcpy(at + i, &(uint32_t){0x7fc00000}, 4);
    model_close(opened);
    files_write(model, bytes, size);
    free(bytes);
    program_fails(LOGITS("--top", "4"), 0, "the model's weights are damaged");
    program_fails(LOGITS("--top", "4", "-b", "1"), 0, "the model's weights are damaged");
}

Test(logits, the_lens_shows_as_many_tokens_as_it_is_asked_for)
{
    struct program_result result = LOGITS("--lens", "--top", "9");
    cr_assert_eq(result.status, 0, "%s", result.err);
    size_t n = 0;
    for (const char *at = result.out; (at = strstr(at, "NEXT")); at++) n++;
    cr_assert_eq(n, 8, "%s", result.out);
    program_free(&result);
    program_fails(LOGITS("--lens", "--top", "32"), 0, "room for 31 tokens");
}

/* The hyper-parameters are read several times. */
Test(logits, a_warning_comes_once)
{
    static const char mistral[] = TEST_SHARED_DIR "/families/gguf/mistral.gguf";
    if (access(mistral, R_OK) != 0) cr_skip_test("no ../shared here");
    struct program_result result = PROGRAM("logits", "-m", mistral, "--tokens", "5 6 7", "--top", "1");
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert_eq(program_count_lines(result.err, "assuming none"), 1, "%s", result.err);
    program_free(&result);
}

Test(logits, mistakes)
{
    program_fails(LOGITS("--top", "0"), 0, "--top");
    program_fails(LOGITS("--hidden", "hidden.txt"), 0, "--hidden hidden.txt: the name must end in .npy");
    program_fails(LOGITS("-v"), 0, "no output file");
}

/* ---- The file ------------------------------------------------------------------------------------------ */

Test(logits, as_an_array)
{
    const char *out = files_path(folder, "logits.npy");
    size_t size;
    program_prints(PROGRAM("logits", "-m", model, "--tokens", "5 6, 7", "-o", out), "");
    char *npy = files_read(out, &size);
    cr_assert(size > 128 && memcmp(npy, "\x93NUMPY", 6) == 0);
    cr_assert(strstr(npy + 10, "'shape': (3, 320)"), "%s", npy + 10);
    cr_assert_eq((size - 3 * 320 * 4) % 64, 0, "the data begin at a multiple of 64");
    free(npy);
    program_fails(PROGRAM("logits", "-m", model, "--tokens", "5 320", "-o", out), 2, "320");
    program_fails(PROGRAM("logits", "-m", model, "--tokens", "5"), 2, "-o");
    program_fails(PROGRAM("logits", "-m", model, "--tokens", "5 x", "-o", out), 2, "'x'");
}

/* The names in the folder that begin with "out", with blanks between them. */
static const char *outputs(void)
{
    static char names[256];
    struct dirent *entry;
    DIR *dir = opendir(folder);
    cr_assert(dir);
    names[0] = '\0';
    while ((entry = readdir(dir))) {
        size_t used = strlen(names);
        if (strncmp(entry->d_name, "out", 3) == 0)
            snprintf(names + used, sizeof names - used, "%.60s ", entry->d_name);
    }
    closedir(dir);
    return names;
}

/* Nothing that was there is lost before there is something better. */
Test(logits, failures_leave_the_file_alone)
{
    const char *out = files_path(folder, "out.npy");
    size_t size;
    files_write_text(out, "precious");
    program_fails(PROGRAM("logits", "-m", model, "--tokens", "5 320", "-o", out), 2,
                  "token 1 of the prompt is 320");
    program_fails(PROGRAM("logits", "-m", model, "--tokens", "5 6 7", "-c", "2", "-o", out), 1,
                  "the context only 2");
    char *text = files_read(out, &size);
    cr_assert_str_eq(text, "precious");
    free(text);
    cr_assert_eq(chmod(out, 0600), 0);
    program_prints(PROGRAM("logits", "-m", model, "--tokens", "5", "-o", out), "");
    struct stat info;
    cr_assert_eq(stat(out, &info), 0);
    cr_assert_gt(info.st_size, 320 * 4);
    cr_assert_eq(info.st_mode & 0777, 0600);
    cr_assert_str_eq(outputs(), "out.npy ");
    program_fails(PROGRAM("logits", "-m", model, "--tokens", "5", "-o", files_path(folder, "no/out.npy")), 1,
                  "no/out.npy: No such file or directory");
    program_fails(PROGRAM("logits", "-m", model, "--tokens", "5", "-o", folder), 1, "Is a directory");
    program_fails(PROGRAM("logits", "-m", model, "--tokens", "5", "-o", ""), 2, "no output file");
}

/* Whatever leads to a file that is read is no place for the output; the file stays as it is. */
Test(logits, never_overwrite_an_input)
{
    static const char *const names[] = {"model.gguf", "tokens.npy", "tokenizer.bin", "engine.conf", "out"};
    static const char npy[] = "\x93NUMPY\1\0\x48\0{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }"
                              "              \n\5\0\0\0";
    char *paths[5], config[256];
    for (int i = 0; i < 5; i++) paths[i] = strdup(files_path(folder, names[i]));
    const char *out = paths[4];
    snprintf(config, sizeof config, "model = %s\n", paths[0]);
    files_write(paths[1], npy, sizeof npy - 1);
    files_write_text(paths[2], "words");
    files_write_text(paths[3], config);
    for (int i = 0; i < 8; i++) {
        const char *input = paths[i / 2];
        size_t size, size_then;
        char *before = files_read(input, &size);
        cr_assert_eq(i % 2 ? link(input, out) : symlink(input, out), 0);
        for (int o = 0; o < 2; o++)
            program_fails(PROGRAM("logits", "--config", paths[3], "--tokens-file", paths[1], "--tokenizer",
                                  paths[2], "-o", o ? out : input),
                          2, "the same file as the input");
        unlink(out);
        char *then = files_read(input, &size_then);
        cr_assert(size_then == size && memcmp(then, before, size) == 0, "%s", input);
        free(before), free(then);
    }
    program_fails(PROGRAM("logits", "-m", model, "--tokens-file", paths[1], "-o", TEST_PLUGIN_DIR "/cpu.so"),
                  2, "the same file as the input");
    /* Tokens that come through standard input are a file there too. */
    struct program_result result = program_run(
        (const char *const[]){"logits", "-m", model, "--tokens-file", "-", "-o", "/dev/stdin", NULL}, npy,
        sizeof npy - 1);
    program_fails(result, 2, "on standard input");
    for (int i = 0; i < 5; i++) free(paths[i]);
}

/* Links, devices and FIFOs are written as they are, and stay. */
Test(logits, go_to_what_is_no_file)
{
    const char *out = files_path(folder, "out");
    struct stat info;
    struct program_result result = PROGRAM("logits", "-m", model, "--tokens", "5 6", "-o", "/dev/stdout");
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert_eq(result.out_size % 64, 0);
    cr_assert_gt(result.out_size, 2 * 320 * 4);
    cr_assert_eq(memcmp(result.out, "\x93NUMPY", 6), 0);
    struct program_result dash = PROGRAM("logits", "-m", model, "--tokens", "5 6", "-o", "-");
    cr_assert_eq(dash.status, 0, "%s", dash.err);
    cr_assert(dash.out_size == result.out_size && memcmp(dash.out, result.out, result.out_size) == 0);
    program_free(&dash);
    program_free(&result);

    cr_assert_eq(symlink("/dev/full", out), 0);
    program_fails(PROGRAM("logits", "-m", model, "--tokens", "5", "-o", out), 1, "No space left on device");
    cr_assert_eq(lstat(out, &info), 0);
    cr_assert(S_ISLNK(info.st_mode));
    cr_assert_eq(stat("/dev/full", &info), 0);

    cr_assert_eq(unlink(out), 0);
    cr_assert_eq(mkfifo(out, 0600), 0);
    int reader = open(out, O_RDONLY | O_NONBLOCK);
    cr_assert(reader >= 0);
    program_prints(PROGRAM("logits", "-m", model, "--tokens", "5", "-o", out), "");
    char magic[6];
    cr_assert_eq(read(reader, magic, sizeof magic), 6);
    cr_assert_eq(memcmp(magic, "\x93NUMPY", 6), 0);
    close(reader);
    cr_assert_eq(stat(out, &info), 0);
    cr_assert(S_ISFIFO(info.st_mode));
    cr_assert_str_eq(outputs(), "out ");
}
