/* test-tokenize.c: the command `engine tokenize` from outside. The vocabulary is that of the tiny model
 * (gguf-writer.h): <unk> <s> </s>, the bytes from id 3 on, "▁", the letters, a few pairs. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files.h"
#include "gguf-writer.h"
#include "program.h"

static char *folder;
static char model[512];

static void make_model(void)
{
    folder = files_folder();
    snprintf(model, sizeof model, "%s/tiny.gguf", folder);
    cr_assert(write_tiny_llama(model, &(struct tiny_llama){.seed = 1}));
}

static void remove_model(void)
{
    files_remove(folder);
    free(folder);
}

TestSuite(tokenize, .init = make_model, .fini = remove_model);

static void expect(struct program_result result, int status, const char *out, size_t size, const char *err)
{
    cr_expect(result.status == status, "status %d: %s", result.status, result.err);
    cr_expect(result.out_size == size && memcmp(result.out, out, size) == 0, "\"%s\" instead of \"%s\"",
              result.out, out);
    cr_expect_str_eq(result.err, err);
    program_free(&result);
}

/* The id of a piece of the tiny model's vocabulary. */
static int id_of(const char *piece)
{
    char text[16];
    for (uint32_t id = 0; id < TINY_LLAMA_MIN_VOCAB; id++) {
        tiny_llama_token(id, text);
        if (strcmp(text, piece) == 0) return (int)id;
    }
    cr_assert_fail("no %s", piece);
    return -1;
}

Test(tokenize, pieces_and_ids)
{
    char expected[256];
    snprintf(expected, sizeof expected, "%7d  \"▁\"\n%7d  \"z\"\n%7d  \"<0x0A>\"\n%7d  \"<0xFF>\"\n",
             id_of("▁"), id_of("z"), 3 + '\n', 3 + 0xFF);
    expect(PROGRAM("tokenize", "-m", model, "z\n\xFF"), 0, expected, strlen(expected), "");
    snprintf(expected, sizeof expected, "%d %d %d\n", id_of("▁"), id_of("z"), 3 + '\n');
    expect(PROGRAM("tokenize", "-m", model, "--ids", "z\n"), 0, expected, strlen(expected), "");
    const char *const from_input[] = {"tokenize", "-m", model, "--ids", NULL};
    expect(program_run(from_input, "z\n", 2), 0, expected, strlen(expected), "");
    expect(program_run(from_input, "", 0), 0, "\n", 1, "");
}

#define FAMILY(architecture, name)                                                                           \
    "--override-kv", "general.architecture=str:" architecture, "--override-kv", "general.name=str:" name

/* Files don't say which tokens take in white space; the descriptor of a family does. */
Test(tokenize, a_family_says_which_special_tokens_take_in_white_space)
{
    char kept[64], taken[64];
    snprintf(kept, sizeof kept, "2 %d %d %d\n", id_of("▁"), id_of("▁"), id_of("z")); /* a prefix, and " z" */
    snprintf(taken, sizeof taken, "2 %d %d\n", id_of("▁"), id_of("z"));
    expect(PROGRAM("tokenize", "-m", model, FAMILY("phi3", "Tiny Phi-3"), "--ids", "--special", "</s> z"), 0,
           taken, strlen(taken), "");
    expect(PROGRAM("tokenize", "-m", model, FAMILY("phi3", "Another"), "--ids", "--special", "</s> z"), 0,
           kept, strlen(kept), "");
}

Test(tokenize, special_tokens_only_if_asked_for)
{
    char expected[256];
    snprintf(expected, sizeof expected, "1 %d %d 2\n", id_of("▁"), id_of("z"));
    expect(PROGRAM("tokenize", "-m", model, "--ids", "--bos", "--special", "z</s>"), 0, expected,
           strlen(expected), "");
    snprintf(expected, sizeof expected, "1 %d %d %d\n", id_of("▁"), id_of("z"), 3 + '<');
    expect(PROGRAM("tokenize", "-m", model, "--ids", "--bos", "z<"), 0, expected, strlen(expected), "");
}

Test(tokenize, many_texts_there_and_back)
{
    static const char texts[] = "one two\0\0  three\n\0\xE2\x82\xAC \xFF\0last"; /* and a NUL */
    const char *const there[] = {"tokenize", "-m", model, "-0", "--ids", NULL};
    struct program_result ids = program_run(there, texts, sizeof texts);
    cr_assert(ids.status == 0, "%s", ids.err);
    size_t n_lines = 0;
    for (size_t i = 0; i < ids.out_size; i++) n_lines += ids.out[i] == '\n';
    cr_expect(n_lines == 5);
    const char *const back[] = {"tokenize", "-m", model, "-0", "--decode", NULL};
    expect(program_run(back, ids.out, ids.out_size), 0, texts, sizeof texts, "");
    /* The last text needs no NUL. */
    struct program_result same = program_run(there, texts, sizeof texts - 1);
    cr_expect_str_eq(same.out, ids.out);
    program_free(&same);
    program_free(&ids);
}

Test(tokenize, decodes)
{
    char ids[64];
    snprintf(ids, sizeof ids, " 1, %d,%d\t2\n", id_of("▁"), id_of("z"));
    expect(PROGRAM("tokenize", "-m", model, "--decode", ids), 0, "z", 1, "");
    expect(PROGRAM("tokenize", "-m", model, "--decode", "--special", ids), 0, "<s>z</s>", 8, "");
    expect(PROGRAM("tokenize", "-m", model, "--decode", ""), 0, "", 0, "");
    expect(PROGRAM("tokenize", "-m", model, "--decode", "226 133"), 0, "\xDF\x82", 2, "");
}

/* Ctrl-C while text is being typed: nothing is said. */
Test(tokenize, interrupted)
{
    const char *errors = files_path(folder, "errors");
    int ends[2], status;
    size_t size;
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        int log = open(errors, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        dup2(ends[0], STDIN_FILENO);
        dup2(log, STDOUT_FILENO);
        dup2(log, STDERR_FILENO);
        close(ends[1]);
        signal(SIGINT, SIG_DFL);
        setenv("XDG_CONFIG_HOME", "/dev/null", 1);
        execl(TEST_ENGINE, "engine", "tokenize", "-m", model, "--ids", NULL);
        _exit(127);
    }
    close(ends[0]);
    cr_assert_eq(write(ends[1], "a", 1), 1);
    for (int left = 1; left > 0; usleep(50000)) cr_assert_eq(ioctl(ends[1], FIONREAD, &left), 0);
    cr_assert_eq(kill(child, SIGINT), 0);
    usleep(50000);
    close(ends[1]);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT, "%x", (unsigned)status);
    char *said = files_read(errors, &size);
    cr_assert_str_eq(said, "");
    free(said);
}

Test(tokenize, explains)
{
    char expected[1024];
    int space = id_of("▁"), z = id_of("z"), newline = 3 + '\n';
    snprintf(expected, sizeof expected,
             "added       \"<s>\"                           1\n"
             "text        \"z\\n\"\n"
             "normalized  \"▁z\\n\"\n"
             "word        \"▁\"\n"
             "  token     \"▁\"                             %d\n"
             "word        \"z\"\n"
             "  token     \"z\"                             %d\n"
             "word        \"\\n\"\n"
             "  token     \"\\n\"                            %d \"<0x0A>\"\n"
             "special     \"</s>\"                          2\n"
             "tokens      1 %d %d %d 2\n",
             space, z, newline, space, z, newline);
    expect(PROGRAM("tokenize", "-m", model, "--explain", "--bos", "--special", "z\n</s>"), 0, expected,
           strlen(expected), "");
    snprintf(
        expected, sizeof expected,
        "{\"text\": \"z\", \"ids\": [%d, %d], \"pieces\": [\"▁\", \"z\"], \"steps\": ["
        "{\"step\": \"text\", \"start\": 0, \"end\": 1, \"text\": \"▁z\"}, "
        "{\"step\": \"word\", \"start\": 0, \"end\": 3, \"text\": \"▁\"}, "
        "{\"step\": \"token\", \"start\": 0, \"end\": 3, \"text\": \"▁\", \"id\": %d, \"piece\": \"▁\"}, "
        "{\"step\": \"word\", \"start\": 3, \"end\": 4, \"text\": \"z\"}, "
        "{\"step\": \"token\", \"start\": 0, \"end\": 1, \"text\": \"z\", \"id\": %d, \"piece\": \"z\"}]}\n",
        space, z, space, z);
    expect(PROGRAM("tokenize", "-m", model, "--explain", "--json", "z"), 0, expected, strlen(expected), "");
    expect(PROGRAM("tokenize", "-m", model, "--explain", ""), 0, "tokens\n", 7, "");
    const char *const several[] = {"tokenize", "-m", model, "--explain", "-0", NULL};
    expect(program_run(several, "\0", 2), 0, "tokens\n\ntokens\n", 15, "");
}

/* What is said of a long text has lines of limited width; only the ids don't. */
Test(tokenize, explains_long_texts_in_short_lines)
{
    char text[3001];
    for (size_t i = 0; i < 3000; i++) text[i] = "a\xC3\xA9"[i % 3];
    text[3000] = '\0';
    struct program_result result = PROGRAM("tokenize", "-m", model, "--explain", text);
    cr_assert_eq(result.status, 0, "%s", result.err);
    for (char *line = result.out; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        cr_expect(strncmp(line, "tokens", 6) == 0 || strcspn(line, "\n") < 250, "%.300s", line);
    cr_expect(strstr(result.out, "\"…\n"));
    program_free(&result);
}

/* The example of docs/tokenizers.md and of --help. */
Test(tokenize, explains_as_documented)
{
    static const char *const demo = TEST_SOURCE_DIR "/../models/demo/demo.gguf";
    size_t size;
    if (access(demo, R_OK) != 0) cr_skip_test("no models/demo/demo.gguf here");
    char *docs = files_read(TEST_SOURCE_DIR "/../docs/tokenizers.md", &size);
    struct program_result help = PROGRAM("help", "tokenize");
    struct program_result result = PROGRAM("tokenize", "-m", demo, "--explain", "a time");
    const char *example = strstr(docs, "$ engine tokenize --explain \"a time\"\n");
    cr_assert(example && strstr(help.out, "  engine tokenize --explain \"a time\"\n"));
    example = strchr(example, '\n') + 1;
    cr_expect(result.status == 0 && strncmp(example, result.out, result.out_size) == 0, "%s", result.out);
    program_free(&result);
    program_free(&help);
    free(docs);
}

/* The ids at the end are those of --ids for every text. */
Test(tokenize, explains_what_it_does)
{
    static const char *const texts[] = {"", " ", "the cat", "\xFF\xC3", "a  b\tc", "<s></s>"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct program_result ids = PROGRAM("tokenize", "-m", model, "--ids", "--special", texts[i]);
        struct program_result steps = PROGRAM("tokenize", "-m", model, "--explain", "--special", texts[i]);
        const char *last = strstr(steps.out, "tokens");
        cr_assert(ids.status == 0 && steps.status == 0 && last, "%s%s", ids.err, steps.err);
        last += strlen("tokens");
        cr_expect_str_eq(last + strspn(last, " "), ids.out);
        program_free(&ids);
        program_free(&steps);
    }
}

/* A plugin without `explain`. */
Test(tokenize, cannot_explain)
{
    struct gguf_writer *writer = gguf_create(3);
    gguf_add_string(writer, "general.architecture", "llama");
    gguf_add_string(writer, "tokenizer.ggml.model", "test-bytes");
    const char *path = files_path(folder, "bytes.gguf");
    cr_assert(gguf_save(writer, path));
    gguf_destroy(writer);
    files_copy(TEST_BINARY_DIR "/fixtures/plugins/built/bytes.so", files_path(folder, "bytes.so"), SIZE_MAX);
    struct program_result result =
        PROGRAM("tokenize", "--plugin-dir", folder, "-m", path, "--explain", "some text");
    cr_expect_eq(result.status, 1);
    cr_expect_str_empty(result.out);
    cr_expect(strstr(result.err, "bytes.gguf: the plugin of its tokenizer cannot explain itself\n"), "%s",
              result.err);
    cr_expect_str_eq(strchr(result.err, '\n'), "\n");
    program_free(&result);
}

Test(tokenize, mistakes)
{
    expect(PROGRAM("tokenize", "-m", model, "--decode", "1 x2 3"), 2, "", 0, "engine: not a token id: x2\n");
    expect(PROGRAM("tokenize", "-m", model, "--decode", "99999999999"), 2, "", 0,
           "engine: not a token id: 99999999999\n");
    expect(PROGRAM("tokenize", "-m", model, "--decode", "320"), 1, "", 0,
           "engine: spm: there is no token 320: the vocabulary ends at 319\n");
    expect(PROGRAM("tokenize", "-m", model, "-0", "text"), 2, "", 0,
           "engine: -0 reads texts from standard input: omit either it or \"text\"\n");
    expect(PROGRAM("tokenize", "-m", model, "--decode", "--bos"), 2, "", 0,
           "engine: --decode turns ids into text: --bos does not apply\n");
    expect(PROGRAM("tokenize", "-m", model, "--explain", "--ids", "a"), 2, "", 0,
           "engine: --explain shows how text becomes tokens: --ids does not apply\n");
    expect(PROGRAM("tokenize", "-m", model, "--explain", "--decode", "1"), 2, "", 0,
           "engine: --explain shows how text becomes tokens: --decode does not apply\n");
}

/* A model without a tokenizer, one with a tokenizer that no plugin serves, and one with a wrong
 * vocabulary. */
Test(tokenize, vocabularies_that_do_not_work)
{
    struct gguf_writer *writer = gguf_create(3);
    gguf_add_string(writer, "general.architecture", "llama");
    const char *path = files_path(folder, "none.gguf");
    cr_assert(gguf_save(writer, path));
    struct program_result result = PROGRAM("tokenize", "-m", path, "x");
    cr_expect(result.status == 1 && strstr(result.err, "has no tokenizer"), "%s", result.err);
    program_free(&result);

    gguf_add_string(writer, "tokenizer.ggml.model", "llama");
    const char *const pieces[] = {"<unk>", "<s>", "</s>", "a", "a"};
    gguf_add_strings(writer, "tokenizer.ggml.tokens", pieces, 5);
    cr_assert(gguf_save(writer, path));
    result = PROGRAM("tokenize", "-m", path, "x");
    cr_expect(result.status == 1 && strstr(result.err, "tokens 3 and 4 have the same spelling: \"a\""), "%s",
              result.err);
    program_free(&result);
    gguf_destroy(writer);
}
