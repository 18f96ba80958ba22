/* test-byte-order.c: texts that begin with a byte order mark: UTF-8's is skipped, others are named. The
 * program's options from outside; the files of a model; engine.conf. The server's are in ../serve/http.c. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "model/hf/json.h"
#include "model/hf/tokenizer-parts.h"
#include "program-model.h"
#include "program.h"

#define MARK  "\xEF\xBB\xBF"
#define UTF16 "\xFF\xFEx\0"

static const char *path;

static void begin(void)
{
    begin_model();
}

static void end(void)
{
    end_model();
}

TestSuite(byte_order, .init = begin, .fini = end);

/* The path of a new file. */
static const char *file(const char *name, const char *text)
{
    path = files_path(folder, name);
    files_write_text(path, text);
    return path;
}

static const char *utf16(const char *name)
{
    path = files_path(folder, name);
    files_write(path, UTF16, 4);
    return path;
}

/* Both runs succeed and print the same. */
static void same(struct program_result marked, struct program_result plain)
{
    cr_assert_eq(plain.status, 0, "%s", plain.err);
    cr_assert_eq(marked.status, 0, "%s", marked.err);
    cr_expect_str_eq(marked.out, plain.out);
    program_free(&marked);
    program_free(&plain);
}

#define RUN(...) PROGRAM("-m", model, "--seed", "1", "-n", "8", __VA_ARGS__)

Test(byte_order, of_prompts_and_constraints)
{
    same(RUN("-f", file("marked", MARK "a b")), RUN("-f", file("plain", "a b")));
    same(program_run((const char *const[]){"-m", model, "--seed", "1", "-n", "8", "-p", "-", NULL},
                     MARK "a b", 6),
         RUN("-p", "a b"));
    same(RUN("-p", "a", "--json-schema-file", file("marked", MARK "{\"type\": \"boolean\"}")),
         RUN("-p", "a", "--json-schema-file", file("plain", "{\"type\": \"boolean\"}")));
    same(RUN("-p", "a", "--grammar-file", file("marked", MARK "root ::= \"x\"")),
         RUN("-p", "a", "--grammar-file", file("plain", "root ::= \"x\"")));
    program_fails(RUN("-f", utf16("wide")), 1, "wide is UTF-16, not UTF-8: save it as UTF-8, or convert it");
    program_fails(RUN("-p", "a", "--json-schema-file", utf16("wide")), 1, "is UTF-16, not UTF-8");
    program_fails(RUN("-p", "a", "--grammar-file", utf16("wide")), 1, "is UTF-16, not UTF-8");
    files_write(files_path(folder, "wide"), "\0\0\xFE\xFF\0\0\0a", 8);
    program_fails(RUN("-f", files_path(folder, "wide")), 1, "is UTF-32, not UTF-8");
    files_write(files_path(folder, "wide"), "\xFE\xFF\0a", 4);
    program_fails(RUN("-f", files_path(folder, "wide")), 1, "is UTF-16, not UTF-8");
}

Test(byte_order, of_conversations_and_templates)
{
    static const char messages[] = MARK "[{\"role\": \"user\", \"content\": \"hi\"}]";
    static const char source[] = MARK "{{ messages[0].content }}!";
    char *marked = strdup(file("marked.json", messages)), *plain = strdup(file("plain.json", messages + 3));
    same(PROGRAM("template", "-m", model, "--chat-template", "chatml", "--messages", marked),
         PROGRAM("template", "-m", model, "--chat-template", "chatml", "--messages", plain));
    same(PROGRAM("template", "-m", model, "--messages", plain, "--chat-template", file("a.jinja", source)),
         PROGRAM("template", "-m", model, "--messages", plain, "--chat-template",
                 file("b.jinja", source + 3)));
    program_fails(
        PROGRAM("template", "-m", model, "--chat-template", "chatml", "--messages", utf16("wide.json")), 1,
        "wide.json is UTF-16");
    program_fails(
        PROGRAM("template", "-m", model, "--messages", plain, "--chat-template", utf16("wide.jinja")), 1,
        "wide.jinja is UTF-16");
    free(marked);
    free(plain);
}

Test(byte_order, of_lines)
{
    static const char texts[] = MARK "a b\nc d\n",
                      lines[] = MARK "{\"prompt\": \"a b\", \"answers\": [\"c\"]}\n";
    same(PROGRAM("embed", "-m", model, "--pooling", "mean", "-f", file("marked", texts)),
         PROGRAM("embed", "-m", model, "--pooling", "mean", "-f", file("plain", texts + 3)));
    same(PROGRAM("score", "-m", model, "-f", file("marked.jsonl", lines)),
         PROGRAM("score", "-m", model, "-f", file("plain.jsonl", lines + 3)));
    same(PROGRAM("perplexity", "-m", model, "-c", "8", "-f",
                 file("marked", MARK "a b c d e f g h i j k l m n o p")),
         PROGRAM("perplexity", "-m", model, "-c", "8", "-f",
                 file("plain", "a b c d e f g h i j k l m n o p")));
    program_fails(PROGRAM("embed", "-m", model, "--pooling", "mean", "-f", utf16("wide")), 1, "is UTF-16");
    program_fails(PROGRAM("score", "-m", model, "-f", utf16("wide.jsonl")), 1, "is UTF-16");
    program_fails(PROGRAM("batch", "-m", model, utf16("wide.jsonl")), 1, "is UTF-16");
    const char *const arguments[] = {"chat", "-m",     model, "--chat-template", "chatml", "-n",
                                     "4",    "--seed", "1",   "--temp",          "0",      NULL};
    same(program_run(arguments, MARK "hello\n", 9), program_run(arguments, "hello\n", 6));
    program_fails(program_run(arguments, UTF16, 4), 1, "standard input is UTF-16");
}

Test(byte_order, of_a_models_files)
{
    json_t *json = NULL;
    cr_expect_eq(hf_json_read(file("config.json", MARK "{\"a\": 1}"), 100, &json), ENGINE_OK, "%s",
                 error_message());
    cr_expect_eq(json_integer_value(json_object_get(json, "a")), 1);
    json_decref(json);
    cr_expect_neq(hf_json_read(utf16("config.json"), 100, &json), ENGINE_OK);
    cr_expect(strstr(error_message(), "config.json is UTF-16, not UTF-8"), "%s", error_message());
    cr_expect_neq(hf_json_read(file("config.json", MARK), 100, &json), ENGINE_OK);
    cr_expect(strstr(error_message(), "it is empty"), "%s", error_message());
    file("tokenizer.json", MARK "{\"b\": 2}");
    cr_expect_eq(hf_tokenizer_json(folder, "tokenizer.json", &json), ENGINE_OK, "%s", error_message());
    cr_expect_eq(json_integer_value(json_object_get(json, "b")), 2);
    json_decref(json);
    utf16("tokenizer.json");
    cr_expect_neq(hf_tokenizer_json(folder, "tokenizer.json", &json), ENGINE_OK);
    cr_expect(strstr(error_message(), "tokenizer.json is UTF-16"), "%s", error_message());
}

Test(byte_order, of_the_configuration)
{
    struct config *config = NULL;
    cr_assert_eq(config_open(file("engine.conf", MARK "threads = 3\n"), &config), ENGINE_OK, "%s",
                 error_message());
    cr_expect_str_eq(config_get(config, "", "threads"), "3");
    config_close(config);
    cr_assert_eq(config_open(file("engine.conf", MARK "  [cpu]\nkernels = x\n"), &config), ENGINE_OK, "%s",
                 error_message());
    cr_expect_str_eq(config_get(config, "cpu", "kernels"), "x");
    config_close(config);
    cr_expect_neq(config_open(utf16("engine.conf"), &config), ENGINE_OK);
    cr_expect(strstr(error_message(), "engine.conf is UTF-16, not UTF-8"), "%s", error_message());
}
