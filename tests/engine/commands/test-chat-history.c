/* test-chat-history.c: the file of what was typed in chats: its escapes, its size, and many that write at
 * once. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands/chat.h"
#include "files.h"

static char *folder, *path;

static void begin(void)
{
    const char *why;
    folder = files_folder();
    setenv("XDG_STATE_HOME", folder, 1);
    path = chat_history_path(&why);
    cr_assert(path);
}

static void end(void)
{
    files_remove(folder);
    free(folder);
    free(path);
}

TestSuite(chat_history, .init = begin, .fini = end);

struct messages {
    char *last;
    size_t n, bytes;
    unsigned char seen[8][500]; /* of the form "WRITER NUMBER …" */
};

static void take(void *user, const char *text)
{
    struct messages *messages = user;
    unsigned writer, number;
    free(messages->last);
    messages->last = strdup(text);
    messages->n++;
    messages->bytes += strlen(text);
    if (sscanf(text, "%u %u", &writer, &number) == 2 && writer < 8 && number < 500)
        messages->seen[writer][number]++;
}

Test(chat_history, any_text_comes_back)
{
    static const char *const texts[] = {"plain", "two\nlines", "a\\n is no line end",
                                        "\\",    "\n",         "tab\t\xc3\xa9"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct messages messages = {0};
        cr_assert(chat_history_add(path, texts[i]));
        chat_history_read(path, take, &messages);
        cr_expect_eq(messages.n, i + 1);
        cr_expect_str_eq(messages.last, texts[i]);
        free(messages.last);
    }
}

/* A file that grows too large keeps what is newest, in whole lines. */
Test(chat_history, is_bounded)
{
    static char text[30000];
    struct stat info;
    for (int i = 0; i < 200; i++) {
        memset(text, 'a' + i % 26, sizeof text - 1);
        snprintf(text, 16, "%d ", i);
        text[strlen(text)] = 'x';
        cr_assert(chat_history_add(path, text));
        cr_assert_eq(stat(path, &info), 0);
        cr_assert_leq(info.st_size, (1 << 20) + 30000);
    }
    cr_expect_eq(info.st_mode & 0777, 0600);
    struct messages messages = {0};
    chat_history_read(path, take, &messages);
    cr_expect_str_eq(messages.last, text);
    cr_expect(messages.n >= 15 && messages.bytes == messages.n * strlen(text), "%zu", messages.n);
    free(messages.last);
}

/* All messages of many writers are there, whoever shortens the file meanwhile. */
Test(chat_history, loses_nothing_of_others)
{
    enum { WRITERS = 4, EACH = 100 };
    for (int writer = 0; writer < WRITERS; writer++) {
        if (fork() > 0) continue;
        bool good = true;
        for (int i = 0; i < EACH; i++) {
            char text[64];
            snprintf(text, sizeof text, "%d %d message", writer, i);
            good = chat_history_add(path, text) && good;
        }
        _exit(!good);
    }
    for (int writer = 0; writer < WRITERS; writer++) {
        int status;
        cr_assert(wait(&status) > 0 && status == 0);
    }
    static struct messages messages;
    chat_history_read(path, take, &messages);
    for (int writer = 0; writer < WRITERS; writer++)
        for (int i = 0; i < EACH; i++) cr_expect_eq(messages.seen[writer][i], 1, "%d %d", writer, i);
    free(messages.last);
}

/* Only a file and a folder of this user's. */
Test(chat_history, of_nobody_else)
{
    const char *why;
    cr_assert_eq(symlink("/dev/null", path), 0);
    cr_expect_not(chat_history_add(path, "text"));
    unlink(path);
    cr_assert_eq(mkdir(path, 0700), 0);
    cr_expect_not(chat_history_add(path, "text"));
    setenv("XDG_STATE_HOME", "/dev/null", 1);
    cr_expect_null(chat_history_path(&why));
    cr_expect_str_eq(why, strerror(ENOTDIR));
    setenv("XDG_STATE_HOME", "/proc/self", 1);
    cr_expect_null(chat_history_path(&why));
    cr_expect(why);
    if (geteuid() == 0) {
        cr_assert_eq(chown(folder, 12345, 12345), 0);
        setenv("XDG_STATE_HOME", files_path(folder, "x"), 1);
        cr_expect_null(chat_history_path(&why), "in the folder of another user");
        cr_expect_str_eq(why, "its folder belongs to another user");
        cr_assert_eq(chown(folder, 0, 0), 0);
    }
    unsetenv("XDG_STATE_HOME");
    unsetenv("HOME");
    cr_expect_null(chat_history_path(&why));
    cr_expect_null(why);
}
