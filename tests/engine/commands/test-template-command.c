/* test-template-command.c: `engine template` from outside: which template, which variables, which tokens. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "gguf-writer.h"
#include "program.h"

static char model[256], messages[256], tools[256], jinja[256];

/* A vocabulary of letters, bytes and five special tokens, with templates; own: NULL for none. */
static void write_model(const char *own, const char *with_tools)
{
    enum { N_SPECIAL = 5, N = N_SPECIAL + 256 + 27 };
    static const char *const special[N_SPECIAL] = {"<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"};
    static char pieces[N][16];
    const char *tokens[N];
    float scores[N];
    int32_t types[N];
    for (int i = 0; i < N; i++) {
        bool is_special = i < N_SPECIAL, is_byte = !is_special && i < N_SPECIAL + 256;
        if (is_byte) snprintf(pieces[i], sizeof pieces[i], "<0x%02X>", (unsigned)(i - N_SPECIAL));
        if (!is_special && !is_byte)
            snprintf(pieces[i], sizeof pieces[i], i == N - 1 ? "▁" : "%c", 'a' + i - N_SPECIAL - 256);
        tokens[i] = is_special ? special[i] : pieces[i];
        scores[i] = is_special || is_byte ? 0 : -1.0f - (float)(i % 32);
        types[i] = i == 0 ? 2 : is_special ? 3 : is_byte ? 6 : 1;
    }
    struct gguf_writer *writer = gguf_create(3);
    gguf_add_string(writer, "general.architecture", "llama");
    gguf_add_string(writer, "tokenizer.ggml.model", "llama");
    gguf_add_strings(writer, "tokenizer.ggml.tokens", tokens, N);
    gguf_add_f32s(writer, "tokenizer.ggml.scores", scores, N);
    gguf_add_i32s(writer, "tokenizer.ggml.token_type", types, N);
    gguf_add_u32(writer, "tokenizer.ggml.bos_token_id", 1);
    gguf_add_u32(writer, "tokenizer.ggml.eos_token_id", 2);
    if (own) gguf_add_string(writer, "tokenizer.chat_template", own);
    if (with_tools) gguf_add_string(writer, "tokenizer.chat_template.tool_use", with_tools);
    cr_assert(gguf_save(writer, model));
    gguf_destroy(writer);
}

static void begin(void)
{
    snprintf(model, sizeof model, "%s/template-%ld.gguf", TEST_BINARY_DIR, (long)getpid());
    snprintf(messages, sizeof messages, "%s/template-%ld.json", TEST_BINARY_DIR, (long)getpid());
    snprintf(tools, sizeof tools, "%s/template-tools-%ld.json", TEST_BINARY_DIR, (long)getpid());
    snprintf(jinja, sizeof jinja, "%s/template-%ld.jinja", TEST_BINARY_DIR, (long)getpid());
    write_model(
        "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ eos_token }}{% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% endif %}{{ extra }}",
        "TOOLS{{ tools | length }}");
    files_write_text(messages, "[{\"role\": \"user\", \"content\": \"hi\"}]");
    files_write_text(tools, "[{\"type\": \"function\"}]");
}

static void end(void)
{
    unlink(model);
    unlink(messages);
    unlink(tools);
    unlink(jinja);
}

TestSuite(template_command, .init = begin, .fini = end);

#define TEMPLATE(...) PROGRAM("template", "-m", model, "--messages", messages, __VA_ARGS__)

static void expect(struct program_result result, const char *text)
{
    cr_expect(result.status == 0, "%s", result.err);
    cr_expect_str_eq(result.out, text);
    program_free(&result);
}

static void expect_error(struct program_result result, const char *word)
{
    cr_expect_str_empty(result.out);
    program_fails(result, 0, word);
}

Test(template_command, prints_the_text_and_nothing_else)
{
    expect(PROGRAM("template", "-m", model, "--messages", messages), "<s>[user]hi</s>[assistant]");
    expect(TEMPLATE("--no-generation-prompt"), "<s>[user]hi</s>");
    expect(TEMPLATE("--template-arg", "extra=[1, \"x\"]"), "<s>[user]hi</s>[assistant][1, 'x']");
    expect(TEMPLATE("--chat-template-kwargs", "{\"extra\": 1, \"eos_token\": \"!\"}"),
           "<s>[user]hi![assistant]1");
    expect(TEMPLATE("--tools", tools), "TOOLS1");
}

Test(template_command, says_which_file_is_wrong)
{
    expect_error(TEMPLATE("--tools", jinja), jinja); /* it doesn't exist */
    files_write_text(jinja, "[{\"type\":\n");
    expect_error(TEMPLATE("--tools", jinja), jinja);
    expect_error(PROGRAM("template", "-m", model, "--messages", jinja), jinja);
    files_write_text(jinja, "[1]");
    expect_error(TEMPLATE("--documents", jinja), jinja);
    expect_error(PROGRAM("template", "-m", model, "--messages", jinja), jinja);
    expect_error(PROGRAM("template", "-m", model, "--messages", "-", "--tools", "-"),
                 "--messages and --tools cannot both read standard input");
    expect_error(PROGRAM("template", "-m", model, "--messages", "-"), "standard input: not JSON");
    /* before the model is opened */
    expect_error(PROGRAM("template", "-m", FILES_ABSENT, "--messages", messages, "--template-arg", "x"),
                 "'x' is not KEY=JSON");
}

Test(template_command, takes_templates_by_name_and_from_files)
{
    /* The vocabulary begins texts with <s>, and so do the named templates. */
    expect(TEMPLATE("--chat-template", "chatml"),
           "<s><|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
    expect(TEMPLATE("--chat-template", "llama2"), "<s>[INST] hi [/INST]");
    expect(TEMPLATE("--chat-template", "tool_use", "--tools", tools), "TOOLS1");
}

/* A mistake in the template for tools is one only for tools. */
Test(template_command, a_broken_template_for_tools)
{
    write_model("{{ messages[0].content }}", "\n{% include 'x' %}");
    expect(PROGRAM("template", "-m", model, "--messages", messages), "hi");
    expect_error(TEMPLATE("--tools", tools),
                 "template tool_use, line 2: the tag 'include' is not supported (--chat-template");
    expect(TEMPLATE("--tools", tools, "--chat-template", "plain"), "<s>User: hi\nAssistant:");
}

/* And one in the other template is one only for conversations without tools. */
Test(template_command, a_broken_template_beside_one_for_tools)
{
    const char *fault = "the model's template, line 1: the tag 'include' is not supported (--chat-template";
    write_model("{% include 'x' %}", "{{ tools | length }}");
    expect(TEMPLATE("--tools", tools), "1");
    expect_error(PROGRAM("template", "-m", model, "--messages", messages), fault);
    write_model("{% include 'x' %}", "{% include 'y' %}");
    expect_error(TEMPLATE("--tools", tools), fault);
}

Test(template_command, a_model_without_a_template_gets_one)
{
    write_model(NULL, NULL);
    expect(PROGRAM("template", "-m", model, "--messages", messages),
           "<s><|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
    files_write_text(jinja, "{{ messages[0].content }}-{{ tools }}-{{ documents }}\n");
    expect(TEMPLATE("--chat-template", jinja), "hi-None-None");
}

Test(template_command, users_do_not_write_special_tokens)
{
    files_write_text(
        jinja,
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}<|im_start|>");
    files_write_text(
        messages, "[{\"role\": \"user\", \"content\": \"a b\"}, {\"role\": \"user\", \"content\": \"c<\"}]");
    struct program_result text = TEMPLATE("--chat-template", jinja);
    struct program_result ids = TEMPLATE("--chat-template", jinja, "--ids");
    struct program_result whole = PROGRAM("tokenize", "-m", model, "--special", "--ids", text.out);
    cr_expect(ids.status == 0 && strncmp(ids.out, "3 ", 2) == 0, "%s%s", ids.out, ids.err);
    cr_expect_str_eq(ids.out, whole.out);
    program_free(&text);
    program_free(&whole);
    program_free(&ids);

    /* What spells tokens is text, also where the template's text and the user's make one together. */
    files_write_text(messages, "[{\"role\": \"user\", \"content\": \"x<|im_end|><s>|\"}, {\"role\": "
                               "\"|im_start|>\", \"content\": \"<|im_end\"}]");
    files_write_text(jinja, "{% for m in messages %}<|im_start|><{{ m.role }}\n{{ m.content }}|><|im_end|>{% "
                            "endfor %}<|im_start|>");
    text = TEMPLATE("--chat-template", jinja);
    ids = TEMPLATE("--chat-template", jinja, "--ids");
    size_t starts = 0, ends = 0, others = 0;
    char *rest = ids.out;
    for (char *word; (word = strtok_r(rest, " \n", &rest));) {
        starts += atoi(word) == 3;
        ends += atoi(word) == 4;
        others += atoi(word) < 3;
    }
    cr_expect(starts == 3 && ends == 2 && others == 0, "%zu, %zu, %zu", starts, ends, others);
    program_free(&ids);
    ids = TEMPLATE("--chat-template", jinja, "--ids");
    struct program_result back = PROGRAM("tokenize", "-m", model, "--decode", "--special", ids.out);
    cr_expect_str_eq(back.out, text.out);
    program_free(&text);
    program_free(&back);
    program_free(&ids);
}

Test(template_command, mistakes_are_one_line)
{
    expect_error(PROGRAM("template", "-m", model), "--messages");
    expect_error(PROGRAM("template", "-m", model, "--messages", FILES_ABSENT ".json"), FILES_ABSENT ".json");
    expect_error(TEMPLATE("--chat-template", "nonesuch"), "nonesuch");
    expect_error(TEMPLATE("--template-arg", "x=y"), "not JSON");
    expect_error(TEMPLATE("--template-arg", "x"), "KEY=JSON");
    expect_error(TEMPLATE("--chat-template-kwargs", "[]"), "object");
    files_write_text(jinja,
                     "\n{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}");
    expect_error(TEMPLATE("--chat-template", jinja), "line 2: it takes more steps");
    files_write_text(jinja, "{{ raise_exception('not\nnow') }}");
    expect_error(TEMPLATE("--chat-template", jinja), "not now");
    files_write_text(messages, "{}");
    expect_error(TEMPLATE("--ids"), "not an array");
    files_write_text(messages, "[");
    expect_error(TEMPLATE("--ids"), "not JSON");
}
