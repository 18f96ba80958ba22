/* test-llama2c-chat.c: a chat with a llama2.c checkpoint feeds the model the tokens that llama2.c's run.c
 * feeds it. tools/llama2c/record has recorded them. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "llama2c-chat.h"
#include "program.h"

#define VOCABULARY TEST_SHARED_DIR "/tokenizers/llama-spm.gguf"
#define RECORDED   TEST_SOURCE_DIR "/data/llama2c-chat.json"

static char *folder, *checkpoint, *tokenizer;

static void begin(void)
{
    if (access(VOCABULARY, R_OK) != 0) cr_skip_test("no ../shared/tokenizers");
    folder = files_folder();
    checkpoint = strdup(files_path(folder, "chat.bin"));
    tokenizer = strdup(files_path(folder, "tokenizer.bin"));
    llama2c_chat_write(VOCABULARY, checkpoint, tokenizer);
}

static void end(void)
{
    files_remove(folder);
    free(folder);
    free(checkpoint);
    free(tokenizer);
}

TestSuite(llama2c_chat, .init = begin, .fini = end);

static json_t *recorded(void)
{
    json_error_t reason;
    json_t *all = json_load_file(RECORDED, 0, &reason);
    cr_assert(json_array_size(all) > 0, "%s: %s", RECORDED, reason.text);
    return all;
}

/* "1 518 25580", as `engine template --ids` prints them. */
static char *ids_text(const json_t *ids)
{
    char *text = malloc(json_array_size(ids) * 12 + 2), *end = text;
    for (size_t i = 0; i < json_array_size(ids); i++)
        end += sprintf(end, i ? " %d" : "%d", (int)json_integer_value(json_array_get(ids, i)));
    strcpy(end, "\n");
    return text;
}

/* A turn alone. Only the first has the system message. */
static void check_prompt(const json_t *system, const json_t *turn, bool first)
{
    const char *path = files_path(folder, "messages.json");
    json_t *messages = json_array();
    if (first && system)
        json_array_append_new(messages, json_pack("{s:s, s:O}", "role", "system", "content", system));
    json_array_append_new(messages,
                          json_pack("{s:s, s:O}", "role", "user", "content", json_object_get(turn, "user")));
    cr_assert_eq(json_dump_file(messages, path, 0), 0);
    json_decref(messages);
    struct program_result result =
        PROGRAM("template", "-m", checkpoint, "--tokenizer", tokenizer, "--messages", path, "--ids");
    char *expected = ids_text(json_object_get(turn, "prompt"));
    program_expect_text(&result, expected, json_string_value(json_object_get(turn, "user")));
    free(expected);
    program_free(&result);
}

Test(llama2c_chat, prompts)
{
    size_t i, j;
    json_t *all = recorded(), *conversation, *turn;
    json_array_foreach(all, i, conversation)
    {
        const json_t *system = json_object_get(conversation, "system");
        if (json_string_length(system) == 0) system = NULL; /* run.c has none then */
        json_array_foreach(json_object_get(conversation, "turns"), j, turn)
            check_prompt(system, turn, j == 0);
    }
    json_decref(all);
}

/* An answer depends on all tokens before it, so equal answers follow from equal tokens. */
static void check_conversation(const json_t *conversation)
{
    size_t i, n_tokens = 0;
    json_t *turns = json_object_get(conversation, "turns"), *turn;
    const char *system = json_string_value(json_object_get(conversation, "system"));
    static char lines[1 << 16], answers[1 << 16];
    char *line = lines, *answer = answers;
    json_array_foreach(turns, i, turn)
    {
        line = stpcpy(stpcpy(line, json_string_value(json_object_get(turn, "user"))), "\n/stats\n");
        answer = stpcpy(stpcpy(answer, json_string_value(json_object_get(turn, "text"))), "\n");
    }
    const char *const arguments[] = {"chat",
                                     "-m",
                                     checkpoint,
                                     "--tokenizer",
                                     tokenizer,
                                     "--temp",
                                     "0",
                                     "-n",
                                     "6",
                                     "-c",
                                     "4096",
                                     "-t",
                                     "1",
                                     "--cache-type",
                                     "f32",
                                     "--system",
                                     system ? system : "",
                                     NULL};
    struct program_result result = program_run(arguments, lines, strlen(lines));
    program_expect_text(&result, answers, lines);
    const char *at = result.err;
    json_array_foreach(turns, i, turn)
    {
        unsigned n_prompt;
        n_tokens += json_array_size(json_object_get(turn, "prompt"));
        cr_assert((at = strstr(at, "prompt: ")), "%s", result.err);
        cr_assert_eq(sscanf(at++, "prompt: %u tokens", &n_prompt), 1);
        cr_assert_eq(n_prompt, n_tokens, "turn %zu: %u tokens, not %zu\n%s", i, n_prompt, n_tokens, lines);
        n_tokens += json_array_size(json_object_get(turn, "answer")) + 1; /* EOS */
    }
    program_free(&result);
}

Test(llama2c_chat, conversations)
{
    size_t i;
    json_t *all = recorded(), *conversation;
    json_array_foreach(all, i, conversation) check_conversation(conversation);
    json_decref(all);
}
