/* test-config.c: engine.conf. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config.h"
#include "base/error.h"
#include "files.h"

static char *folder;

static void begin(void)
{
    folder = files_folder();
    setenv("HOME", "/home/somebody", 1);
    setenv("XDG_CONFIG_HOME", folder, 1);
}

static void end(void)
{
    files_remove(folder);
    free(folder);
}

TestSuite(config, .init = begin, .fini = end);

static struct config *open_text(const char *text, size_t size)
{
    struct config *config = NULL;
    const char *path = files_path(folder, "test.conf");
    files_write(path, text, size);
    return config_open(path, &config) == ENGINE_OK ? config : NULL;
}

static void reads(const char *text, const char *section, const char *key, const char *value)
{
    struct config *config = open_text(text, strlen(text));
    cr_assert(config, "%s", error_message());
    const char *found = config_get(config, section, key);
    if (value) {
        cr_assert(found, "%s is not set by %s", key, text);
        cr_assert_str_eq(found, value);
    } else {
        cr_assert_null(found);
    }
    config_close(config);
}

static void refuses(const char *text, const char *message)
{
    char expected[512];
    cr_assert_null(open_text(text, strlen(text)), "accepted: %s", text);
    snprintf(expected, sizeof expected, "%s%s", files_path(folder, "test.conf"), message);
    cr_assert_str_eq(error_message(), expected);
}

Test(config, values)
{
    reads("", "", "model", NULL);
    reads("model = /a/b c.gguf\n", "", "model", "/a/b c.gguf");
    reads("  threads=8", "", "threads", "8");
    reads("# comment\n; comment\n\n\tthreads = 8 ; comment\r\n", "", "threads", "8");
    reads("offload = all", "", "offload", "all");
    reads("offload = 0", "", "offload", "0");
    reads("backend = vulkan,cpu", "", "backend", "vulkan,cpu");
    reads("threads = 8\n[cpu]\nthreads = anything at all\n", "cpu", "threads", "anything at all");
    reads("threads = 8\n[cpu]\nthreads = anything at all\n", "", "threads", "8");
    reads("[vulkan]\nkey = 1\n[opencl]\nkey = 2\n", "vulkan", "key", "1");
    reads("threads =", "", "threads", NULL);
}

Test(config, home)
{
    reads("model = ~/a:~/b.gguf", "", "model", "/home/somebody/a:~/b.gguf");
    reads("plugin_dirs = ~/p:/q:~/r", "", "plugin_dirs", "/home/somebody/p:/q:/home/somebody/r");
    unsetenv("HOME");
    refuses("model = ~/x", ":1: model: cannot expand ~/ because HOME is not set");
    refuses("plugin_dirs = /a:~/x", ":1: plugin_dirs: cannot expand ~/ because HOME is not set");
}

Test(config, mistakes_name_the_line)
{
    refuses("\nthreads = many\n", ":2: threads: 'many' is not a number from 1 to 1024");
    refuses("threads = 0", ":1: threads: '0' is not a number from 1 to 1024");
    refuses("threads = -1", ":1: threads: '-1' is not a number from 1 to 1024");
    refuses("threads = 99999999999999999999",
            ":1: threads: '99999999999999999999' is not a number from 1 to 1024");
    refuses("backend = ,", ":1: backend: ',' is not a list of names separated by commas");
    refuses("offload = most", ":1: offload: 'most' is not a number of layers, auto or all");
    refuses("model = model.gguf", ":1: model: 'model.gguf' is not a path that begins with / or ~/");
    refuses("plugin_dirs = /a:b",
            ":1: plugin_dirs: '/a:b' is not a list of paths that begin with / or ~/, separated by colons");
    static const char *const speeds[] = {"vulkan0",    "vulkan0=",  "vulkan0=fast", "=3",
                                         "vulkan0=3,", "vulkan0=0", "a=3 b=4"};
    for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++) {
        char text[64], problem[160];
        snprintf(text, sizeof text, "speeds = %s", speeds[i]);
        snprintf(problem, sizeof problem,
                 ":1: speeds: '%s' is not a list of devices and speeds, such as vulkan0=300, opencl0.0=40",
                 speeds[i]);
        refuses(text, problem);
    }
    refuses("modle = /x", ":1: unknown setting 'modle' (known: model, backend, offload, threads, speeds, "
                          "plugin_dirs; a plugin's settings belong in a section with its name)");
    refuses("threads = 1\nthreads = 2\n", ":2: threads is already set in line 1");
    refuses("[Bad Name]\nkey = 1\n", ":2: [Bad Name] is not a valid plugin name");
    refuses("threads = 1\nnonsense\n", ":2: expected KEY = VALUE, [SECTION] or a # comment");
    refuses("[open\n", ":1: expected KEY = VALUE, [SECTION] or a # comment");
    refuses("nonsense\nthreads = x\n", ":1: expected KEY = VALUE, [SECTION] or a # comment");
}

Test(config, lines_have_a_limit)
{
    char text[600] = "[x]\nkey = ";
    memset(text + 10, 'v', 186); /* 196 characters in the line */
    struct config *config = open_text(text, 10 + 180);
    cr_assert(config);
    cr_assert_eq(strlen(config_get(config, "x", "key")), 180);
    config_close(config);
    memset(text + 10, 'v', 500);
    cr_assert_null(open_text(text, 510));
    cr_assert(strstr(error_message(), "test.conf:2: the line is too long"), "%s", error_message());
}

Test(config, bytes_that_are_no_text)
{
    cr_assert_null(open_text("threads = 1\n\0\n", 14));
    cr_assert(strstr(error_message(), "test.conf:2: the line is not text"), "%s", error_message());
}

Test(config, files_that_cannot_be_read)
{
    struct config *config;
    cr_assert_neq(config_open(files_path(folder, "absent.conf"), &config), ENGINE_OK);
    cr_assert(strstr(error_message(), "absent.conf: No such file"), "%s", error_message());
    cr_assert_neq(config_open(folder, &config), ENGINE_OK);
    cr_assert(strstr(error_message(), "Is a directory"), "%s", error_message());
}

/* Nothing that might wait for ever, or never end. */
Test(config, what_is_no_file)
{
    alarm(600); /* ends the test; Criterion's own time limits leak memory */
    struct config *config;
    cr_assert_eq(mkfifo(files_path(folder, "fifo.conf"), 0600), 0);
    cr_assert_neq(config_open(files_path(folder, "fifo.conf"), &config), ENGINE_OK);
    cr_assert(strstr(error_message(), "fifo.conf: is a device or pipe, not a regular file"), "%s",
              error_message());
    cr_assert_neq(config_open("/dev/zero", &config), ENGINE_OK);
    cr_assert_eq(config_open("/dev/null", &config), ENGINE_OK, "%s", error_message());
    config_close(config);
}

/* Searched from its beginning for each entry, the list of them would take minutes. */
Test(config, many_entries)
{
    enum { MANY = 300000 };
    char *text, key[32];
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    fprintf(stream, "[many]\n");
    for (int i = 0; i < MANY; i++) fprintf(stream, "key%d = %d\n", i, i);
    fclose(stream);
    struct config *config = open_text(text, size);
    cr_assert(config, "%s", error_message());
    for (int i = 0; i < MANY; i++) {
        snprintf(key, sizeof key, "key%d", i);
        cr_assert_eq(atoi(config_get(config, "many", key)), i);
    }
    cr_assert_eq(config_count(config), MANY);
    cr_assert_eq(config_at(config, 7)->line, 9);
    config_close(config);
    free(text);
}

Test(config, the_users_own)
{
    struct config *config;
    cr_assert_eq(config_open(NULL, &config), ENGINE_OK, "%s", error_message()); /* there is none */
    config_close(config);

    cr_assert_eq(mkdir(files_path(folder, "engine"), 0755), 0);
    files_write_text(files_path(folder, "engine/engine.conf"), "threads = 3\n");
    cr_assert_eq(config_open(NULL, &config), ENGINE_OK, "%s", error_message());
    cr_assert_str_eq(config_get(config, "", "threads"), "3");
    config_close(config);

    setenv("XDG_CONFIG_HOME", "relative", 1); /* counts as not set */
    setenv("HOME", folder, 1);
    cr_assert_eq(mkdir(files_path(folder, ".config"), 0755), 0);
    cr_assert_eq(mkdir(files_path(folder, ".config/engine"), 0755), 0);
    files_write_text(files_path(folder, ".config/engine/engine.conf"), "threads = 4\n");
    cr_assert_eq(config_open(NULL, &config), ENGINE_OK, "%s", error_message());
    cr_assert_str_eq(config_get(config, "", "threads"), "4");
    config_close(config);
}

Test(config, the_file_that_is_installed)
{
    struct config *config;
    cr_assert_eq(config_open(TEST_SOURCE_DIR "/../conf/engine.conf", &config), ENGINE_OK, "%s",
                 error_message());
    cr_assert_null(config_get(config, "", "model")); /* all of it is commented out */

    /* Taken out of the comments, each setting is a proper one. */
    size_t size;
    char *text = files_read(TEST_SOURCE_DIR "/../conf/engine.conf", &size);
    for (char *c = text; *c; c++) {
        if (*c == '#' && c[1] != ' ' && c[1] != '\n') *c = ' ';
    }
    config_close(config);
    config = open_text(text, size);
    free(text);
    cr_assert(config, "%s", error_message());
    static const char *const keys[] = {"model", "backend", "offload", "threads", "plugin_dirs"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        cr_assert(config_get(config, "", keys[i]), "%s", keys[i]);
    config_close(config);
}

/* HOME may be another user's: `docker run --user`, `su -m`. */
Test(config, folders_that_cannot_be_entered)
{
    struct config *config;
    char *home = strdup(files_path(folder, "engine"));
    cr_assert_eq(mkdir(home, 0755), 0);
    files_write_text(files_path(home, "engine.conf"), "threads = 3\n");
    cr_assert_eq(config_open(NULL, &config), ENGINE_OK, "%s", error_message());
    cr_assert_str_eq(config_get(config, "", "threads"), "3");
    cr_assert_null(config_hidden(config));
    config_close(config);

    cr_assert_eq(chmod(home, 0), 0);
    cr_assert_eq(geteuid() == 0 ? seteuid(54321) : 0, 0);
    cr_assert_eq(config_open(NULL, &config), ENGINE_OK, "%s", error_message());
    cr_assert_null(config_get(config, "", "threads"));
    cr_assert_str_eq(config_hidden(config), files_path(home, "engine.conf"));
    config_close(config);
    cr_assert_eq(config_open(files_path(home, "engine.conf"), &config), ENGINE_ERROR_DATA);
    cr_assert(strstr(error_message(), "Permission denied"), "%s", error_message());
    cr_assert_eq(getuid() == 0 ? seteuid(0) : 0, 0);
    cr_assert_eq(chmod(home, 0755), 0);
    free(home);
}

/* A file that is there and can't be read is a mistake. */
Test(config, standard_files_that_cannot_be_read)
{
    struct config *config;
    char *home = strdup(files_path(folder, "engine"));
    cr_assert_eq(mkdir(home, 0755), 0);
    cr_assert_eq(chmod(folder, 0755), 0);
    files_write_text(files_path(home, "engine.conf"), "threads = 3\n");
    cr_assert_eq(chmod(files_path(home, "engine.conf"), 0), 0);
    cr_assert_eq(geteuid() == 0 ? seteuid(54321) : 0, 0);
    cr_assert_eq(config_open(NULL, &config), ENGINE_ERROR_DATA);
    cr_assert(strstr(error_message(), "engine.conf: Permission denied"), "%s", error_message());
    cr_assert_eq(getuid() == 0 ? seteuid(0) : 0, 0);
    free(home);
}
