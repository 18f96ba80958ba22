/* test-chat.c: `engine chat`, through a pseudo-terminal and through pipes, with the demo model, which knows
 * sums and opposites. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "files.h"
#include "program.h"
#include "terminal.h"

static char *folder;

static void begin(void)
{
    folder = files_folder();
    setenv("XDG_STATE_HOME", folder, 1);
}

static void end(void)
{
    files_remove(folder);
    free(folder);
}

TestSuite(chat, .init = begin, .fini = end);

#define START(terminal, ...)                                                                                 \
    terminal_start(terminal, (const char *const[]){"chat", "--temp", "0", __VA_ARGS__, NULL})

/* Through pipes. */
#define TALK(lines, ...)                                                                                     \
    program_run((const char *const[]){"chat", "--temp", "0", __VA_ARGS__, NULL}, lines, strlen(lines))

static struct program_result talk(const char *lines)
{
    return TALK(lines, "-t", "1");
}

/* ---- On a terminal ------------------------------------------------------------------------------------- */

Test(chat, three_turns)
{
    struct terminal t;
    START(&t, "-t", "1");
    terminal_expect(&t, "/help");
    terminal_type(&t, "What is 27 plus 38?\r");
    terminal_expect(&t, "27 + 38 = 65.");
    terminal_type(&t, "What is 40 plus 2?\r");
    terminal_expect(&t, "40 + 2 = 42.");
    /* Through what is typed: back over a word, and Ctrl-A. */
    terminal_type(&t, "is 9 plus 5?x\177\001What \r");
    terminal_expect(&t, "9 + 5 = 14.");
    terminal_type(&t, "/stats\r");
    terminal_expect(&t, "3 turns");
    terminal_expect(&t, "kept from before");
    terminal_expect(&t, "> ");
    terminal_type(&t, "\004");
    terminal_expect_end(&t, 0);
}

Test(chat, history_and_completion)
{
    struct terminal t;
    START(&t, "-t", "1");
    terminal_type(&t, "What is 3 plus 4?\r");
    terminal_expect(&t, "3 + 4 = 7.");
    terminal_type(&t, "\033[A\r"); /* up */
    terminal_expect(&t, "3 + 4 = 7.");
    terminal_type(&t, "/st\t\r");
    terminal_expect(&t, "2 turns");
    terminal_type(&t, "/s\t");
    terminal_expect(&t, "/system /save /stats /set");
    terminal_type(&t, "\025/exit\r"); /* Ctrl-U */
    terminal_expect_end(&t, 0);
}

/* Ctrl-R looks through what was typed, however long it is. */
Test(chat, search)
{
    static char keys[30000];
    struct terminal t;
    files_write_text(files_path(folder, "long.json"), "[]");
    START(&t, "-t", "1", "-n", "9");
    terminal_expect(&t, "> ");
    terminal_type(&t, "What is 3 plus 4?\r");
    terminal_expect(&t, "3 + 4 = 7.");
    /* 20 KB, as one command that fails, pasted in parts that the terminal has room for. */
    terminal_type(&t, "\033[200~/load ");
    for (int i = 0; i < 20; i++) {
        keys[0] = 0;
        for (int k = 0; k < 200; k++) strcat(keys, "word ");
        terminal_type(&t, keys);
        terminal_expect(&t, i == 0 ? "> " : "");
    }
    terminal_type(&t, "\033[201~\r");
    terminal_expect(&t, "engine: ");
    terminal_type(&t, "What is 5 plus 4?\r");
    terminal_expect(&t, "5 + 4 = 9.");
    terminal_expect(&t, "> ");
    terminal_type(&t, "\022is 3");
    terminal_expect(&t, "(search: is 3) ");
    terminal_type(&t, "\r");
    terminal_expect(&t, "3 + 4 = 7.");
    terminal_expect(&t, "> ");
    terminal_type(&t,
                  "\022plus\022\022"); /* past the long one to the first question, which is the last, too */
    terminal_expect(&t, "(search: plus) ");
    terminal_type(&t, "\005\1771?\r"); /* Ctrl-E, Backspace: the line can be edited */
    terminal_expect(&t, "= ");
    terminal_expect(&t, "> ");
    terminal_type(&t, "/help m\022nowhere");
    terminal_expect(&t, "(not found: nowhere) ");
    terminal_type(&t, "\007e\r"); /* Ctrl-G: the line is as before */
    terminal_expect(&t, "/help takes nothing after it");
    terminal_type(&t, "\022x\003");
    terminal_expect(&t, "Ctrl-D or /exit");
    terminal_type(&t, "/exit\r");
    terminal_expect_end(&t, 1);
}

static void expect_history(const char *const *messages, size_t n)
{
    size_t size, at = 0;
    char *text = files_read(files_path(folder, "engine/chat-history"), &size);
    for (size_t i = 0; i < n; i++) {
        cr_assert_eq(strncmp(text + at, messages[i], strlen(messages[i])), 0, "no %s in %s", messages[i],
                     text);
        at += strlen(messages[i]);
        cr_assert_eq(text[at++], '\n', "%s", text);
    }
    cr_assert_eq(at, size, "%s", text);
    free(text);
}

/* What was typed is there in later chats, of all chats at once, and no one else can read it. */
Test(chat, history_is_kept)
{
    struct terminal one, two;
    struct stat info;
    START(&one, "-t", "1");
    terminal_expect(&one, "> ");
    terminal_type(&one, "What is \033\r3 plus 4?\r"); /* two lines */
    terminal_expect(&one, "= ");
    START(&two, "-t", "1");
    terminal_expect(&two, "> ");
    terminal_type(&two, " What is 5 plus 4?\r"); /* begins with a blank */
    terminal_expect(&two, "= ");
    terminal_expect(&two, "> ");
    terminal_type(&two, "/load a\\b\r");
    terminal_expect(&two, "engine: ");
    terminal_type(&one, "What is 6 plus 4?\r");
    terminal_expect(&one, "= 10");
    terminal_expect(&one, "> ");
    terminal_type(&two, "/exit\r");
    terminal_expect_end(&two, 1);
    terminal_type(&one, "\004");
    terminal_expect_end(&one, 0);
    expect_history(
        (const char *const[]){"What is \\n3 plus 4?", "/load a\\\\b", "What is 6 plus 4?", "/exit"}, 4);
    cr_assert_eq(stat(files_path(folder, "engine/chat-history"), &info), 0);
    cr_expect_eq(info.st_mode & 0777, 0600);
    cr_assert_eq(stat(files_path(folder, "engine"), &info), 0);
    cr_expect_eq(info.st_mode & 0777, 0700);

    START(&one, "-t", "1");
    terminal_expect(&one, "> ");
    terminal_type(&one, "\033[A\033[A\r"); /* up, up */
    terminal_expect(&one, "6 + 4 = 10.");
    terminal_expect(&one, "> ");
    terminal_type(&one, "\004");
    terminal_expect_end(&one, 0);

    START(&one, "-t", "1", "--no-history");
    terminal_expect(&one, "> ");
    terminal_type(&one, "\033[AWhat is 7 plus 4?\r");
    terminal_expect(&one, "7 + 4 = 11.");
    terminal_expect(&one, "> ");
    terminal_type(&one, "\004");
    terminal_expect_end(&one, 0);
    expect_history((const char *const[]){"What is \\n3 plus 4?", "/load a\\\\b", "What is 6 plus 4?", "/exit",
                                         "What is 6 plus 4?"},
                   5);
}

/* A history that cannot be kept is a warning. */
Test(chat, history_without_a_folder)
{
    struct terminal t;
    files_write_text(files_path(folder, "file"), "");
    setenv("XDG_STATE_HOME", files_path(folder, "file"), 1);
    START(&t, "-t", "1");
    terminal_expect(&t, "warning: what you type is not kept for the next chat");
    terminal_expect(&t, "> ");
    terminal_type(&t, "\004");
    terminal_expect_end(&t, 0);
}

#define WRITES(text) "--grammar", "root ::= \"" text "\""

/* Lines break between words; of code they don't. */
Test(chat, lines_break_between_words)
{
    struct terminal t;
    START(
        &t, "-t", "1",
        WRITES("one two three four five 1234567890123456789012345 end \xe5\xa5\xbd\xe5\xa5\xbd\xe5\xa5\xbd"));
    terminal_expect(&t, "> ");
    terminal_resize(&t, 20);
    terminal_type(&t, "Hi\r");
    terminal_expect(&t, "one two three four \r\nfive \r\n12345678901234567890");
    terminal_expect(&t, "12345 end \xe5\xa5\xbd\xe5\xa5\xbd\xe5\xa5\xbd\r\n");
    terminal_type(&t, "/exit\r");
    terminal_expect_end(&t, 0);

    START(&t, "-t", "1", WRITES("a\\n```\\nlong = 1 + 22 + 333 + 4444\\n```\\nwords go over the margin"));
    terminal_expect(&t, "> ");
    terminal_resize(&t, 20);
    terminal_type(&t, "Hi\r");
    terminal_expect(&t, "long = 1 + 22 + 333 + 4444\r\n```\r\nwords go over the \r\nmargin\r\n");
    terminal_type(&t, "/exit\r");
    terminal_expect_end(&t, 0);
}

/* What a model writes is no command to the terminal. */
Test(chat, control_characters_are_shown)
{
    struct terminal t;
    START(&t, "-t", "1", "--grammar", "root ::= \"a\\x1b[2Jb\\u009bc\"");
    terminal_expect(&t, "> ");
    terminal_type(&t, "Hi\r");
    terminal_expect(&t, "a\\x1B[2Jb\\x9Bc");
    terminal_type(&t, "/exit\r");
    terminal_expect_end(&t, 0);
}

Test(chat, undo_edit_and_regenerate)
{
    struct terminal t;
    START(&t, "-t", "1");
    terminal_type(&t, "What is 3 plus 4?\r");
    terminal_expect(&t, "3 + 4 = 7.");
    terminal_type(&t, "/regenerate\r");
    terminal_expect(&t, "3 + 4 = 7.");
    terminal_type(&t, "/edit What is 52 plus 14?\r");
    terminal_expect(&t, "52 + 14 = 66.");
    terminal_type(&t, "/edit\r"); /* the message is in the line */
    terminal_expect(&t, "> What is 52 plus 14?");
    terminal_type(&t, "\177\1773?\r");
    terminal_expect(&t, "52 + 13 = 65.");
    terminal_type(&t, "/stats\r");
    terminal_expect(&t, "1 turn;");
    terminal_expect(&t, "> ");
    terminal_type(&t, "/edit\r"); /* and thinks better of it */
    terminal_expect(&t, "> What is 52 plus 13?");
    terminal_type(&t, "\003");
    terminal_expect(&t, "Ctrl-D or /exit");
    terminal_type(&t, "/stats\r");
    terminal_expect(&t, "1 turn;");
    terminal_type(&t, "/undo\r");
    terminal_expect(&t, "(the conversation is empty)");
    terminal_type(&t, "/undo\r");
    terminal_expect(&t, "no message to take back");
    terminal_type(&t, "/nonsense\r");
    terminal_expect(&t, "unknown command /nonsense");
    terminal_type(&t, "/exit\r");
    terminal_expect_end(&t, 1);
}

/* Lines become one message; its lines are kept. */
Test(chat, several_lines)
{
    struct terminal t;
    const char *path = files_path(folder, "chat.json");
    char keys[512];
    json_t *saved;
    START(&t, "-t", "1", "--system", "Be kind.");
    terminal_type(&t, "\033[200~What is\n3 plus 4?\n\033[201~\r");
    terminal_expect(&t, "= ");
    terminal_type(&t, "What is \\\r");
    terminal_expect(&t, ". ");
    terminal_type(&t, "4 plus 4?\r");
    terminal_expect(&t, " = ");
    terminal_type(&t, "What is\033\r5 plus 4?\r");
    terminal_expect(&t, " = ");
    terminal_type(&t, "\"\"\"\r");
    terminal_expect(&t, ". ");
    terminal_type(&t, "What is\r");
    terminal_expect(&t, ". ");
    terminal_type(&t, "6 plus 4?\r");
    terminal_expect(&t, ". ");
    terminal_type(&t, "\"\"\"\r");
    terminal_expect(&t, " = ");
    snprintf(keys, sizeof keys, "/save %s\r", path);
    terminal_type(&t, keys);
    terminal_expect(&t, "9 messages written");
    terminal_type(&t, "/exit\r");
    terminal_expect_end(&t, 0);

    static const char *const asked[] = {"What is\n3 plus 4?", "What is \n4 plus 4?", "What is\n5 plus 4?",
                                        "What is\n6 plus 4?"};
    cr_assert((saved = json_load_file(path, 0, NULL)));
    cr_assert_str_eq(json_string_value(json_object_get(json_array_get(saved, 0), "content")), "Be kind.");
    for (size_t i = 0; i < 4; i++)
        cr_assert_str_eq(json_string_value(json_object_get(json_array_get(saved, 2 * i + 1), "content")),
                         asked[i]);
    json_decref(saved);
}

/* Ctrl-C ends the answer, not the program; at the prompt it discards the line. */
Test(chat, interrupt)
{
    struct terminal t;
    /* The tokens that end an answer are never chosen: it would go on for long. */
    START(&t, "-t", "1", "-c", "100000", "--logit-bias", "2-inf", "--logit-bias", "4-inf");
    terminal_type(&t, "Tell me a story.\r");
    terminal_expect(&t, "Once upon a time");
    terminal_type(&t, "\003");
    terminal_expect(&t, "(stopped)");
    terminal_type(&t, "/stats\r");
    terminal_expect(&t, "1 turn;");
    terminal_expect(&t, "> ");
    terminal_type(&t, "half a line\003");
    terminal_expect(&t, "Ctrl-D or /exit");
    terminal_type(&t, "/set predict 3\r");
    terminal_expect(&t, "(predict is 3 from the next answer on)");
    terminal_type(&t, "What is 3 plus 4?\r");
    terminal_expect(&t, "(cut after 3 tokens");
    terminal_expect(&t, "> ");
    cr_assert_null(strstr(t.text, "^C"), "%s", t.text);
    terminal_type(&t, "\004");
    terminal_expect_end(&t, 0);
}

/* What is typed during an answer is shown after it, as the beginning of the next line. */
Test(chat, typing_during_an_answer)
{
    struct terminal t;
    START(&t, "-t", "1", "-c", "4000", "-n", "1500", "--logit-bias", "2-inf", "--logit-bias", "4-inf");
    terminal_type(&t, "Tell me a story.\r");
    terminal_expect(&t, "Once upon a time");
    terminal_type(&t, "/help me");
    terminal_expect(&t, "(cut after 1500 tokens");
    terminal_expect(&t, "> ");
    terminal_expect(&t, "/help me");
    cr_assert_gt(strstr(t.text, "/help me"), strstr(t.text, "(cut after"), "%s", t.text);
    terminal_type(&t, "\025\004"); /* Ctrl-U, Ctrl-D */
    terminal_expect_end(&t, 0);
}

/* However the program ends, the terminal is as it was. */
Test(chat, leaves_the_terminal_as_it_was)
{
    for (int way = 0; way < 3; way++) {
        struct terminal t;
        struct termios before, after;
        START(&t, "-t", "1", "-c", "100000", "--logit-bias", "2-inf", "--logit-bias", "4-inf");
        cr_assert_eq(tcgetattr(t.fd, &before), 0);
        terminal_expect(&t, "> ");
        terminal_type(&t, way == 0 ? "\004" : way == 1 ? "half" : "Tell me a story.\r");
        if (way > 0) terminal_expect(&t, way == 1 ? "half" : "Once upon a time");
        if (way > 0) kill(t.child, SIGTERM);
        int fd = dup(t.fd); /* terminal_expect_end closes its own */
        terminal_expect_end(&t, way > 0 ? 128 + SIGTERM : 0);
        cr_assert_eq(tcgetattr(fd, &after), 0);
        cr_assert_eq(before.c_lflag, after.c_lflag, "%d: %x %x", way, before.c_lflag, after.c_lflag);
        close(fd);
    }
}

/* A line is drawn anew when the terminal becomes narrower, and can still be edited; letters have several
 * bytes. */
Test(chat, another_size)
{
    struct terminal t;
    const char *path = files_path(folder, "chat.json");
    char keys[512];
    START(&t, "-t", "1");
    terminal_type(&t, "Wie viel ist drei plus f\303\274nf, und wie viel ist sieben plus acht?");
    terminal_expect(&t, "sieben plus acht?");
    terminal_resize(&t, 30);
    terminal_expect(&t, "> Wie viel");
    terminal_expect(&t, "acht?");
    terminal_type(&t, "\001X\005Y\r"); /* Ctrl-A, Ctrl-E */
    terminal_expect(&t, "> ");
    snprintf(keys, sizeof keys, "/save %s\r", path);
    terminal_type(&t, keys);
    terminal_expect(&t, "2 messages written");
    terminal_type(&t, "/exit\r");
    terminal_expect_end(&t, 0);
    json_t *saved = json_load_file(path, 0, NULL);
    cr_assert_str_eq(json_string_value(json_object_get(json_array_get(saved, 0), "content")),
                     "XWie viel ist drei plus f\303\274nf, und wie viel ist sieben plus acht?Y");
    json_decref(saved);
}

/* Reasoning is dim and stands apart, also if it is cut. */
Test(chat, reasoning)
{
    struct terminal t;
    START(&t, "-t", "1", "--grammar", "root ::= \"<think>\\nHm.</think>\\n\\nIt is so.\"");
    terminal_type(&t, "Is it so?\r");
    terminal_expect(&t, "\033[2mHm.\033[0m\r\n\r\nIt is so.");
    terminal_type(&t, "/set predict 8\r");
    terminal_type(&t, "Is it so?\r");
    terminal_expect(&t, "\033[2m");
    terminal_expect(&t, "\033[0m");
    terminal_expect(&t, "(cut after 8 tokens");
    terminal_type(&t, "/exit\r");
    terminal_expect_end(&t, 0);
}

/* A limit ends the reasoning, in each answer. Through pipes that goes to standard error. */
Test(chat, reasoning_budget)
{
    struct program_result result =
        TALK("Is it so?\nIs it?\n", "-t", "1", "--reasoning-budget", "2", "--grammar",
             "root ::= \"<think>\" [b-d]{0,200} \"</think>\" \"It is so.\"");
    program_expect_text(&result, "It is so.\nIt is so.\n", "chat");
    cr_expect_lt(strlen(result.err), 30, "%s", result.err);
    program_free(&result);
}

/* ---- Through pipes ------------------------------------------------------------------------------------- */

Test(chat, lines_in_answers_out)
{
    struct program_result result =
        talk("What is 27 plus 38?\n\nWhat is 40 plus 2?\n/set temp 0.5\n/set temp 0\n"
             "What is 1 plus 1?");
    program_expect_text(&result, "27 + 38 = 65.\n40 + 2 = 42.\n1 + 1 = 2.\n", "chat");
    program_free(&result);
}

Test(chat, save_and_load)
{
    const char *path = files_path(folder, "chat.json");
    char lines[512];
    snprintf(lines, sizeof lines, "What is 3 plus 4?\n/save %s\n/undo\n/load %s\n/regenerate\n/save -f %s\n",
             path, path, path);
    struct program_result result = talk(lines);
    program_expect_text(&result, "3 + 4 = 7.\n3 + 4 = 7.\n", "chat");
    program_free(&result);
    json_t *saved = json_load_file(path, 0, NULL);
    cr_assert_eq(json_array_size(saved), 2);
    cr_assert_str_eq(json_string_value(json_object_get(json_array_get(saved, 1), "role")), "assistant");
    json_decref(saved);
}

/* What is there already stays, unless -f says otherwise. */
Test(chat, saving_over_a_file)
{
    static const char *const none[] = {"/save\n", "/save -f\n", "/save -f \n"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        struct program_result refused = talk(none[i]);
        cr_expect_eq(refused.status, 1);
        cr_expect(strstr(refused.err, "/save needs a file: /save [-f] FILE"), "%s", refused.err);
        program_free(&refused);
    }
    const char *path = files_path(folder, "other.txt");
    char lines[1000], *text;
    size_t size;
    files_write_text(path, "precious");
    snprintf(lines, sizeof lines, "What is 3 plus 4?\n/save %s\n", path);
    struct program_result result = talk(lines);
    cr_assert_eq(result.status, 1, "%s", result.err);
    cr_expect(strstr(result.err, "is there already: /save -f "), "%s", result.err);
    program_free(&result);
    text = files_read(path, &size);
    cr_expect_str_eq(text, "precious");
    free(text);
    snprintf(lines, sizeof lines, "What is 3 plus 4?\n/save -f %s\n/save /dev/null\n", path);
    result = talk(lines);
    cr_assert_eq(result.status, 0, "%s", result.err);
    program_free(&result);
    text = files_read(path, &size);
    cr_expect(strstr(text, "3 + 4 = 7."), "%s", text);
    free(text);
}

/* Only new tokens are computed, those of an answer are not computed again, and a text that spells a special
 * token stays text. */
Test(chat, computes_what_is_new)
{
    struct program_result result =
        talk("What is 3 plus 4?\n/stats\nWhat is 4 plus 4?\n/stats\n<|im_end|> What is 1 plus 1?\n");
    unsigned n_prompt[2], n_kept[2];
    const char *at = result.err;
    for (int i = 0; i < 2; i++) {
        cr_assert((at = strstr(at, "prompt: ")), "%s", result.err);
        cr_assert_eq(sscanf(at, "prompt: %u tokens, %u of them", &n_prompt[i], &n_kept[i]), 2);
        at++;
    }
    cr_assert_eq(n_kept[0], 0);
    /* The kept ones: the first prompt, its answer of 7 tokens except the last, which nobody has needed
     * yet. */
    cr_assert(n_kept[1] > n_prompt[0] && n_kept[1] < n_prompt[1], "%s", result.err);
    cr_assert_eq(program_count_lines(result.out, "= "), 3, "%s", result.out);
    program_free(&result);
}

Test(chat, full_context)
{
    const char *lines = "What is 3 plus 4?\nWhat is 4 plus 4?\nWhat is 5 plus 4?\nWhat is 6 plus 4?\n"
                        "What is 7 plus 4?\nWhat is 8 plus 4?\nWhat is 9 plus 4?\n";
    struct program_result result = TALK(lines, "-c", "160");
    program_expect_text(
        &result, "3 + 4 = 7.\n4 + 4 = 8.\n5 + 4 = 9.\n6 + 4 = 10.\n7 + 4 = 11.\n8 + 4 = 12.\n9 + 4 = 13.\n",
        "chat");
    cr_assert(program_count_lines(result.err, "left out from now on") >= 1, "%s", result.err);
    program_free(&result);
}

/* More than one turn goes at once, so that the next answers find room, and what is kept stays the same. */
Test(chat, full_context_makes_room)
{
    char lines[1000] = "";
    for (int i = 1; i <= 14; i++) sprintf(lines + strlen(lines), "What is %d plus 4?\n", i);
    struct program_result result = TALK(lines, "-c", "160");
    cr_assert_eq(result.status, 0, "%s", result.err);
    size_t n_full = program_count_lines(result.err, "left out from now on");
    cr_assert(n_full >= 2 && n_full <= 6, "%zu of 14 answers\n%s", n_full, result.err);
    program_free(&result);
}

Test(chat, counts)
{
    struct program_result result =
        talk("What is 3 plus 4?\n/stats\nWhat is 40 plus 2?\n/undo\n/stats\n/undo\n/stats\n");
    unsigned before, after;
    const char *at = strstr(result.err, "1 turn; ");
    cr_assert(at && sscanf(at, "1 turn; %u of", &before) == 1, "%s", result.err);
    at = strstr(at + 1, "1 turn; ");
    cr_assert(at && sscanf(at, "1 turn; %u of", &after) == 1, "%s", result.err);
    /* What ends an answer counts, too, once it is known. */
    cr_assert(after >= before && after <= before + 3 && before > 20, "%s", result.err);
    cr_assert(strstr(at, "0 turns; 0 of"), "%s", result.err);
    program_free(&result);
}

/* ---- Grammars ------------------------------------------------------------------------------------------ */

Test(chat, constrained)
{
    struct program_result result = TALK("What is 3 plus 4?\nTell me a story.\n/stats\n/help\n", "--grammar",
                                        "root ::= \"yes\" | \"no\" \"!\"?");
    cr_assert_eq(result.status, 0, "%s", result.err);
    for (char *line = strtok(result.out, "\n"); line; line = strtok(NULL, "\n"))
        cr_assert(strcmp(line, "yes") == 0 || strncmp(line, "no", 2) == 0, "%s", line);
    cr_assert_eq(program_count_lines(result.err, "--grammar constrains each answer"), 2, "%s", result.err);
    program_free(&result);

    result = TALK("Hello\nHello again\n", "-j",
                  "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"boolean\"}},\"required\":[\"a\"]}");
    cr_assert_eq(program_count_lines(result.out, "\"a\""), 2, "%s", result.out);
    program_free(&result);

    program_fails(TALK("/set grammar root\n", "--json-object"), 0, "grammar cannot be set");
    result = TALK("Hello\n", "-n", "3", "--grammar", "root ::= [a-z]{20}");
    cr_assert(strstr(result.err, "(cut before --grammar lets it end)"), "%s", result.err);
    program_free(&result);
}

/* A conversation far longer than the context costs no more than what is kept of it. */
Test(chat, long_conversation)
{
    enum { TURNS = 20000 };
    const char *path = files_path(folder, "long.json");
    FILE *file = fopen(path, "w");
    char lines[512];
    for (int i = 0; i < TURNS; i++)
        fprintf(file,
                "%s{\"role\":\"user\",\"content\":\"What is %d plus 4?\"},"
                "{\"role\":\"assistant\",\"content\":\"It is %d.\"}",
                i ? "," : "[", i % 50, i % 50 + 4);
    fputs("]", file);
    fclose(file);
    snprintf(lines, sizeof lines, "/load %s\nWhat is 3 plus 4?\n/stats\n", path);
    struct program_result result = TALK(lines, "-t", "1", "-c", "256", "-n", "8");
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert_eq(program_count_lines(result.err, "turns are left out from now on"), 1, "%s", result.err);
    const char *stats = strstr(result.err, " of 256 tokens");
    cr_assert_not_null(stats, "%s", result.err);
    program_free(&result);
}

/* The grammar goes on where it was when turns are left out in the middle of an answer. */
Test(chat, constrained_in_a_full_context)
{
    struct program_result result = TALK("What is 3 plus 4?\nWhat is 1 plus 1?\nWhat is 5 plus 1?\n/stats\n",
                                        "-c", "96", "--grammar", "root ::= (\"a\" [b-y]){30} \"z\"");
    cr_assert_eq(result.status, 0, "%s", result.err);
    size_t n = 0;
    for (char *line = strtok(result.out, "\n"); line; line = strtok(NULL, "\n"), n++) {
        cr_assert(strlen(line) == 61 && line[60] == 'z', "%s", line);
        for (size_t i = 0; i < 60; i += 2) cr_assert(line[i] == 'a', "%s", line);
    }
    cr_assert_eq(n, 3);
    /* The last answer was written in two parts, the first of which then was in the prompt. */
    unsigned n_prompt, n_written;
    const char *at = strstr(result.err, "last prompt: ");
    cr_assert(at && sscanf(at, "last prompt: %u tokens", &n_prompt) == 1, "%s", result.err);
    at = strstr(at, "last answer: ");
    cr_assert(at && sscanf(at, "last answer: %u tokens", &n_written) == 1, "%s", result.err);
    cr_assert(n_prompt > n_written && n_written >= 24, "%s", result.err);
    program_free(&result);
}

/* ---- What is refused ----------------------------------------------------------------------------------- */

/* Before anything is typed. */
Test(chat, mistakes_at_the_start)
{
    static const struct {
        const char *option, *value, *word;
    } cases[] = {
        {"--ban-token", "99999", "there is no token 99999"},
        {"--logit-bias", "99999+1", "there is no token 99999"},
        {"--template-arg", "x", "'x' is not KEY=JSON"},
        {"--chat-template-kwargs", "[", "--chat-template-kwargs: not a JSON object"},
        {"--grammar", "root ::= x", "x"},
        {"--grammar-file", FILES_ABSENT, FILES_ABSENT},
        {"--json-schema", "{\"type\":1}", "type"},
        {"--stop", "", "--stop: the text is empty"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        program_fails(TALK("", cases[i].option, cases[i].value), 0, cases[i].word);
    }
    program_fails(TALK("", "--json-object", "--grammar", "root ::= \"a\""), 0, "--grammar and --json-object");
}

/* What is refused, or cannot be answered, changes nothing. */
Test(chat, keeps_the_conversation)
{
    static char lines[40000];
    const char *path = files_path(folder, "chat.json");
    strcpy(lines, "What is 3 plus 4?\nWhat is 4 plus 4?\n");
    for (size_t i = 0; i < 3000; i++) strcat(lines, "word ");
    snprintf(lines + strlen(lines), 1000, "\n/save %s\n", path);
    struct program_result result = talk(lines);
    cr_assert_eq(result.status, 1);
    cr_assert_str_eq(result.out, "3 + 4 = 7.\n4 + 4 = 8.\n");
    cr_assert(strstr(result.err, "4 messages written"), "%s", result.err);
    program_free(&result);
}

/* --samplers and --sampler-seq say the same; the one that is set last counts. */
Test(chat, samplers_in_letters_and_names)
{
    struct program_result result = TALK(
        "/set samplers top_k;temperature\n/set sampler-seq kt\nWhat is 3 plus 4?\n", "--sampler-seq", "t");
    program_expect_text(&result, "3 + 4 = 7.\n", "chat");
    program_free(&result);
}

Test(chat, ignore_eos)
{
    struct program_result result = TALK("What is 3 plus 4?\n", "--ignore-eos", "-n", "20");
    cr_assert(strstr(result.err, "(cut after 20 tokens"), "%s", result.err);
    program_free(&result);
}

Test(chat, files_in_the_home_folder)
{
    setenv("HOME", folder, 1);
    struct program_result result = talk("What is 3 plus 4?\n/save ~/chat.json\n/load ~/chat.json\n");
    program_expect_text(&result, "3 + 4 = 7.\n", "chat");
    program_free(&result);
    json_t *saved = json_load_file(files_path(folder, "chat.json"), 0, NULL);
    cr_assert_eq(json_array_size(saved), 2);
    json_decref(saved);
}

/* An answer without a text is one all the same. */
Test(chat, empty_answers)
{
    const char *path = files_path(folder, "chat.json");
    char lines[1000];
    snprintf(lines, sizeof lines, "What is 30 + 4?\n/save %s\n/load %s\nWhat is 14 plus 4?\n", path, path);
    struct program_result result = TALK(lines, "--stop", "30 +");
    program_expect_text(&result, "\n14 + 4 = 18.\n", "chat");
    program_free(&result);
}

Test(chat, clear_and_seed)
{
    struct program_result result = talk("/set seed 7\nWhat is 14 plus 4?\n/stats\n/set seed 7\n/regenerate\n"
                                        "/stats\n/set seed 9\n/stats\n/clear\n/stats\n");
    cr_assert_eq(program_count_lines(result.err, "seed: 7"), 4, "%s", result.err);
    cr_assert(strstr(result.err, "0 turns; 0 of"), "%s", result.err);
    program_free(&result);
}

Test(chat, refuses)
{
    struct {
        const char *lines, *word;
    } cases[] = {
        {"/load " FILES_ABSENT ".json\n", FILES_ABSENT ".json"},
        {"/load\n", "/load FILE"},
        {"/save\n", "/save [-f] FILE"},
        {"/set temp\n", "/set temp 0.7"},
        {"/set temp hot\n", "not a number"},
        {"/set model x\n", "model cannot be set"},
        {"/regenerate\n", "no message"},
        {"/edit\n", "no message"},
        {"/what\n", "unknown command"},
        {"/help me\n", "takes nothing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct program_result result = talk(cases[i].lines);
        program_fails(result, 0, cases[i].word);
    }
    const char *path = files_path(folder, "bad.json");
    static const char *const bad[] = {
        "{}",
        "[1]",
        "[",
        "[{\"role\":\"user\"}]",
        "[{\"role\":\"x\",\"content\":\"\"}]",
        "[{\"role\":\"user\",\"content\":\"\"},{\"role\":\"system\",\"content\":\"\"}]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char lines[512];
        FILE *file = fopen(path, "w");
        fputs(bad[i], file);
        fclose(file);
        snprintf(lines, sizeof lines, "/load %s\n", path);
        struct program_result result = talk(lines);
        program_fails(result, 0, path);
    }
}
