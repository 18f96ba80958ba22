/* test-bos.c: texts that bring their own BOS, such as those of templates: the model gets one, and a warning
 * says so. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "model-recipe.h"
#include "program-json.h"
#include "program.h"

#define MODEL "-m", TEST_SOURCE_DIR "/../models/demo/demo.gguf"
#define WARNS "warning: the prompt begins with BOS"

FILES_FOLDER_OF_TEST

TestSuite(bos, .init = begin, .fini = end, .timeout = 600);

static void expect(struct program_result result, const char *out, bool warns)
{
    cr_expect_eq(result.status, 0, "%s", result.err);
    cr_expect(strstr(result.out, out), "\"%s\" is not in: %s", out, result.out);
    cr_expect_eq(program_count_lines(result.err, WARNS), warns, "%s", result.err);
    program_free(&result);
}

Test(bos, tokens_have_one)
{
    expect(PROGRAM("tokenize", MODEL, "--ids", "--bos", "--special", "<s>Hi"), "1 2522 2497\n", true);
    expect(PROGRAM("tokenize", MODEL, "--ids", "--bos", "--special", "<s>"), "1\n", true);
    expect(PROGRAM("tokenize", MODEL, "--ids", "--bos", "Hi"), "1 2522 2497\n", false);
    expect(PROGRAM("tokenize", MODEL, "--ids", "--special", "<s>Hi"), "1 2522 2497\n", false);
    expect(PROGRAM("tokenize", MODEL, "--ids", "--bos", "--special", "<s><s>Hi"), "1 1 2522 2497\n", true);
    expect(PROGRAM("tokenize", MODEL, "--bos", "--special", "--explain", "<s>Hi"),
           "tokens      1 2522 2497\n", true);
    expect(PROGRAM("tokenize", MODEL, "--json", "--bos", "--special", "<s>Hi"), "[1, 2522, 2497]", true);
}

/* A small encoder whose BOS is its EOS, too; both are put around texts. */
static const char *write_encoder(void)
{
    static const char vocabulary[] = "key tokenizer.ggml.model str bert\n"
                                     "key tokenizer.ggml.tokens str[] [PAD] [UNK] [CLS] \xe2\x96\x81tea\n"
                                     "key tokenizer.ggml.token_type i32[] 3 2 3 1\n"
                                     "key tokenizer.ggml.bos_token_id u32 2\n"
                                     "key tokenizer.ggml.eos_token_id u32 2\n"
                                     "key tokenizer.ggml.unknown_token_id u32 1\n"
                                     "key tokenizer.ggml.add_bos_token bool 1\n"
                                     "key tokenizer.ggml.add_eos_token bool 1\n"
                                     "key tokenizer.ggml.add_sep_token bool 0\n";
    size_t size, n;
    char *recipe = files_read(TEST_SOURCE_DIR "/fuzz/models/bert.txt", &n);
    char *text = malloc(n + sizeof vocabulary);
    memcpy(text, recipe, n);
    strcpy(text + n, vocabulary);
    uint8_t *gguf = model_recipe_gguf(text, strlen(text), &size);
    const char *path = files_path(folder, "encoder.gguf");
    files_write(path, gguf, size);
    free(recipe), free(text), free(gguf);
    return path;
}

Test(bos, an_eos_of_the_same_id_is_no_second_bos)
{
    const char *path = write_encoder();
    expect(PROGRAM("tokenize", "-m", path, "--ids", "--bos", ""), "2 2\n", false);
    expect(PROGRAM("tokenize", "-m", path, "--ids", "--bos", "tea"), "2 3 2\n", false);
    expect(PROGRAM("tokenize", "-m", path, "--ids", "--bos", "--special", "[CLS]"), "2 2\n", true);
    expect(PROGRAM("tokenize", "-m", path, "--bos", "--special", "--explain", ""), "tokens      2 2\n",
           false);
}

Test(bos, texts_to_embed_have_one)
{
    const char *path = write_encoder();
    expect(PROGRAM("embed", "-m", path, "--backend", "cpu", "--json", "--special", "[CLS]tea", "[CLS]tea"),
           "\"tokens\":3", true);
    expect(PROGRAM("embed", "-m", path, "--backend", "cpu", "--json", "--special", "tea"), "\"tokens\":3",
           false);
}

/* `engine template` prints what the model gets, BOS too; `engine run --special` reads it. */
Test(bos, texts_of_templates_are_read_again)
{
    files_write_text(files_path(folder, "template.jinja"), "{{ bos_token }}Hi");
    files_write_text(files_path(folder, "messages.json"), "[]");
    char *template = strdup(files_path(folder, "template.jinja"));
    struct program_result text = PROGRAM("template", MODEL, "--chat-template", template, "--messages",
                                         files_path(folder, "messages.json"));
    cr_assert_eq(text.status, 0, "%s", text.err);
    cr_assert_eq(strncmp(text.out, "<s>Hi", 5), 0, "%s", text.out);
    const char *const run[] = {"run", MODEL, "--special", "-f", "-", "-n", "0", "--json", NULL};
    struct program_result result = program_run(run, text.out, 5);
    expect(result, "\"prompt_tokens\": 3", true);
    program_free(&text);
    free(template);
}

Test(bos, prompts_have_one)
{
    expect(PROGRAM("run", MODEL, "-n", "0", "--json", "--special", "-p", "<s>Hi"), "\"prompt_tokens\": 3",
           true);
    expect(PROGRAM("run", MODEL, "-n", "0", "--json", "-p", "Hi"), "\"prompt_tokens\": 3", false);
    expect(PROGRAM("logits", MODEL, "--special", "--text", "<s>Hi", "--top", "1", "--json"), "", true);
    expect(PROGRAM("score", MODEL, "--special", "-p", "<s>Hi", "--answer", " a", "--answer", " b"), "", true);
}

/* One warning for all lines; token ids are taken as they are. */
Test(bos, lines_of_a_batch_have_one)
{
    const char *in = files_path(folder, "in.jsonl");
    files_write_text(in, "{\"prompt\": \"<s>Hi\"}\n{\"prompt\": \"<s>Hi\"}\n");
    expect(PROGRAM("batch", MODEL, "--special", in, "-n", "1"), "\"prompt_tokens\": 3", true);
    files_write_text(in, "{\"tokens\": [1, 1, 2522, 2497]}\n");
    expect(PROGRAM("batch", MODEL, "--special", in, "-n", "1"), "\"prompt_tokens\": 4", false);
}
