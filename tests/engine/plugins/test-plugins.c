/* test-plugins.c: finding, checking and loading plugins; the services that they get; devices. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "engine.h"
#include "files.h"
#include "plugins/host.h"
#include "plugins/plugins.h"

#define BUILT TEST_BINARY_DIR "/fixtures/plugins/built"

static char *folder; /* searched for plugins */
static struct config *config;
static struct plugins *plugins;
static char log_text[65536];

static void keep_log(void *user, enum engine_log_level level, const char *line)
{
    (void)user;
    size_t used = strlen(log_text);
    if (level <= ENGINE_LOG_WARNING) snprintf(log_text + used, sizeof log_text - used, "%s\n", line);
}

static void begin(void)
{
    folder = files_folder();
    unsetenv("ENGINE_PLUGIN_PATH");
    setenv("XDG_CONFIG_HOME", "/dev/null", 1);
}

static void end(void)
{
    if (plugins) plugins_close(plugins);
    host_end();
    if (config) config_close(config);
    files_remove(folder);
    free(folder);
}

TestSuite(plugins, .init = begin, .fini = end);

static void configure(const char *text)
{
    const char *path = files_path(folder, "engine.conf");
    files_write_text(path, text);
    cr_assert_eq(config_open(path, &config), ENGINE_OK, "%s", error_message());
}

static void put(const char *built, const char *name)
{
    char file[128];
    snprintf(file, sizeof file, "%s.so", built);
    files_copy(files_path(BUILT, file), files_path(folder, name), SIZE_MAX);
}

static int open_dirs(const char *const *dirs)
{
    if (!config) configure("");
    cr_assert_eq(host_begin(config), ENGINE_OK, "%s", error_message());
    log_to(keep_log, NULL);
    return plugins_open(dirs, config, &plugins);
}

static void open_folder(void)
{
    cr_assert_eq(open_dirs((const char *const[]){folder, NULL}), ENGINE_OK, "%s", error_message());
}

/* The entry of a file in the folder; NULL if it isn't in the list. */
static const struct plugin *entry(const char *name)
{
    const char *path = files_path(folder, name);
    for (size_t i = 0; i < plugins_count(plugins); i++) {
        if (strcmp(plugins_at(plugins, i)->path, path) == 0) return plugins_at(plugins, i);
    }
    return NULL;
}

/* The file is in the list, refused for a reason that holds `words`, and one warning says the same. */
static void refused(const char *name, const char *words)
{
    char line[1400];
    const struct plugin *plugin = entry(name);
    cr_assert(plugin, "%s is not listed", name);
    cr_assert(plugin->refused, "%s is used", name);
    cr_assert(strstr(plugin->refused, words), "%s: %s", name, plugin->refused);
    cr_assert_null(strchr(plugin->refused, '\n'));
    cr_assert_null(plugin->library);
    cr_assert_null(plugin->info);
    snprintf(line, sizeof line, "%s is not used: %s\n", plugin->path, plugin->refused);
    const char *first = strstr(log_text, line);
    cr_assert(first, "not logged: %s", line);
    cr_assert_null(strstr(first + 1, line));
}

static void used(const char *name)
{
    const struct plugin *plugin = entry(name);
    cr_assert(plugin, "%s is not listed", name);
    cr_assert_null(plugin->refused, "%s: %s", name, plugin->refused);
}

Test(plugins, a_good_one)
{
    put("bytes", "bytes.so");
    open_folder();
    used("bytes.so");
    const struct plugin *plugin = entry("bytes.so");
    cr_assert_str_eq(plugin->name, "test-bytes");
    cr_assert_str_eq(plugin->info->version, "1.2.3");
    cr_assert_eq(plugin->abi_major, ENGINE_ABI_MAJOR);
    cr_assert_eq(plugin->abi_minor, ENGINE_ABI_MINOR);
    cr_assert_eq(plugins_find_tokenizer(plugins, "test-bytes"), plugin);
    cr_assert_null(plugins_find_tokenizer(plugins, "test-bytes-not"));
    cr_assert_null(plugins_find_backend(plugins, "test-bytes"));
    cr_assert_str_empty(log_text);
}

Test(plugins, bad_ones_and_a_good_one)
{
    static const struct {
        const char *built, *words;
    } bad[] = {
        {"bad-symbol", "exports no engine_plugin_entry"},
        {"bad-name-null", "its description has no name"},
        {"bad-name-empty", "'' is not a valid plugin name"},
        {"bad-name-space", "'Bad name' is not a valid plugin name"},
        {"bad-name-digit", "'bad2' is not a valid plugin name"},
        {"bad-name-long", "is not a valid plugin name"},
        {"bad-license", "its description has no license"},
        {"bad-kind", "its kind, 77, is unknown to this engine"},
        {"bad-size", "malformed (struct_size 4)"},
        {"bad-size-short", "malformed (struct_size 24)"},
        {"bad-tokenizer", "is a tokenizer but has no table of functions"},
        {"bad-backend", "is a backend but has no table of functions"},
        {"bad-function", "its table of functions lacks create"},
        {"bad-entry", "libfoo.so.1 is missing"},
        {"bad-silent", "it cannot work here, for a reason that it does not give"},
        {"bad-undefined", "undefined symbol: engine_test_that_nobody_defines"},
    };
    char name[64];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(name, sizeof name, "%s.so", bad[i].built);
        put(bad[i].built, name);
    }
    put("bad-major", "bad-major.so");
    put("bytes", "zz-good.so"); /* comes last */
    files_write_text(files_path(folder, "text.so"), "not a library\n");
    files_write_text(files_path(folder, "empty.so"), "");
    open_folder();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(name, sizeof name, "%s.so", bad[i].built);
        refused(name, bad[i].words);
    }
    char versions[128];
    snprintf(versions, sizeof versions, "built for plugin ABI %d.5, but this engine has %d.%d",
             ENGINE_ABI_MAJOR + 1, ENGINE_ABI_MAJOR, ENGINE_ABI_MINOR);
    refused("bad-major.so", versions);
    cr_assert_eq(entry("bad-major.so")->abi_major, ENGINE_ABI_MAJOR + 1);
    cr_assert_eq(entry("bad-major.so")->abi_minor, 5);
    refused("text.so", "file too short");
    refused("empty.so", "file too short");
    used("zz-good.so");
}

Test(plugins, newer_minor_is_fine)
{
    put("bytes-newer", "bytes.so");
    open_folder();
    used("bytes.so");
    cr_assert_eq(entry("bytes.so")->abi_minor, ENGINE_ABI_MINOR + 1);
}

Test(plugins, the_first_of_a_name_wins)
{
    put("bytes-again", "b.so");
    put("bytes", "a.so");
    open_folder();
    used("a.so");
    char words[1200];
    snprintf(words, sizeof words, "another plugin has the name 'test-bytes': %s/a.so", folder);
    refused("b.so", words);
    cr_assert_str_eq(entry("b.so")->name, "test-bytes");
}

Test(plugins, files_that_others_may_write_to)
{
    static const mode_t modes[] = {0664, 0646, 0666};
    static const char *const names[] = {"g.so", "o.so", "go.so"};
    for (size_t i = 0; i < 3; i++) {
        put("bytes", names[i]);
        cr_assert_eq(chmod(files_path(folder, names[i]), modes[i]), 0);
    }
    open_folder();
    for (size_t i = 0; i < 3; i++) {
        char words[64];
        snprintf(words, sizeof words, "others can write to it (mode %04o); fix it with chmod go-w",
                 (unsigned)modes[i]);
        refused(names[i], words);
    }
}

static void folder_is_refused(mode_t mode)
{
    char words[64];
    cr_assert_eq(chmod(folder, mode), 0);
    open_folder();
    cr_assert_null(entry("bytes.so"));
    const struct plugin *listed = NULL;
    for (size_t i = 0; i < plugins_count(plugins); i++) {
        if (strcmp(plugins_at(plugins, i)->path, folder) == 0) listed = plugins_at(plugins, i);
    }
    cr_assert(listed);
    snprintf(words, sizeof words, "others can write to the folder (mode %04o)", (unsigned)mode);
    cr_assert(strstr(listed->refused, words), "%s", listed->refused);
}

Test(plugins, folders_that_others_may_write_to)
{
    put("bytes", "bytes.so");
    folder_is_refused(0777);
}

/* Others can't touch our files there, but put their own beside them. */
Test(plugins, sticky_folders_that_others_may_write_to)
{
    put("bytes", "bytes.so");
    folder_is_refused(01777);
}

Test(plugins, files_of_somebody_else)
{
    if (geteuid() != 0) cr_skip_test("only root can give files away");
    put("bytes", "bytes.so");
    cr_assert_eq(chown(files_path(folder, "bytes.so"), 54321, 0), 0);
    open_folder();
    refused("bytes.so", "it belongs to user 54321, who is neither root nor you");
}

Test(plugins, links_are_judged_by_where_they_lead)
{
    char *elsewhere = files_folder();
    files_copy(BUILT "/bytes.so", files_path(elsewhere, "bytes.so"), SIZE_MAX);
    cr_assert_eq(symlink(files_path(elsewhere, "bytes.so"), files_path(folder, "link.so")), 0);
    cr_assert_eq(symlink(FILES_ABSENT "/x.so", files_path(folder, "nowhere.so")), 0);
    cr_assert_eq(chmod(elsewhere, 0775), 0);
    open_folder();
    refused("link.so", "others can write to the folder (mode 0775)");
    refused("nowhere.so", "No such file or directory");
    files_remove(elsewhere);
    free(elsewhere);
}

/* ---- The way to a folder ------------------------------------------------------------------------------- */

#define STRANGER 54321 /* the id of another user */

/* The folder "above/plugins" with one plugin, and the refusal of it, NULL if it was used. */
static char *make_below(const char *above, const char *plugin)
{
    cr_assert_eq(mkdir(files_path(folder, above), 0755), 0);
    char name[64], file[128];
    snprintf(name, sizeof name, "%s/plugins", above);
    cr_assert_eq(mkdir(files_path(folder, name), 0755), 0);
    snprintf(name, sizeof name, "%s/plugins/x.so", above);
    snprintf(file, sizeof file, "%s.so", plugin);
    files_copy(files_path(BUILT, file), files_path(folder, name), SIZE_MAX);
    snprintf(name, sizeof name, "%s/plugins", above);
    return strdup(files_path(folder, name));
}

/* Looks for plugins in `path`. The folder is refused because of `words`; NULL: its file is used. */
static void way_is_refused(const char *path, const char *words)
{
    cr_assert_eq(open_dirs((const char *const[]){path, NULL}), ENGINE_OK, "%s", error_message());
    const struct plugin *first = plugins_at(plugins, 0);
    cr_assert_eq(strncmp(first->path, path, strlen(path)), 0);
    if (words) {
        cr_assert_str_eq(first->path, path);
        cr_assert(first->refused, "%s is used", first->path);
        cr_assert(strstr(first->refused, words), "%s", first->refused);
        cr_assert_null(first->library);
    } else {
        cr_assert_null(first->refused, "%s: %s", first->path, first->refused);
    }
}

/* Whoever can rename a folder can put another one in its place, between the check and the loading. */
Test(plugins, folders_above_that_belong_to_somebody_else)
{
    char words[256];
    if (geteuid() != 0) cr_skip_test("only root can give folders away");
    char *path = make_below("above", "bytes");
    cr_assert_eq(chown(files_path(folder, "above"), STRANGER, 0), 0);
    snprintf(words, sizeof words,
             "the folder %s/above, on the way to it, belongs to user 54321, who is "
             "neither root nor you; run the engine as that user, or fix it with chown",
             folder);
    way_is_refused(path, words);
    free(path);
}

Test(plugins, folders_above_that_others_may_write_to)
{
    char words[256];
    char *path = make_below("above", "bytes");
    cr_assert_eq(chmod(files_path(folder, "above"), 0775), 0);
    snprintf(words, sizeof words, "others can write to the folder %s/above, on the way to it (mode 0775)",
             folder);
    way_is_refused(path, words);
    free(path);
}

Test(plugins, sticky_folders_above)
{
    char *path = make_below("above", "bytes");
    cr_assert_eq(chmod(files_path(folder, "above"), 01777), 0);
    way_is_refused(path, NULL);
    free(path);
}

Test(plugins, folders_by_a_path_from_here)
{
    free(make_below("above", "bytes"));
    cr_assert_eq(chdir(files_path(folder, "above")), 0);
    way_is_refused("./../above//plugins/", NULL);
}

Test(plugins, links_to_folders)
{
    char *path = make_below("above", "bytes");
    cr_assert_eq(mkdir(files_path(folder, "links"), 0755), 0);
    cr_assert_eq(symlink("../above", files_path(folder, "links/relative")), 0);
    cr_assert_eq(symlink(files_path(folder, "links/relative/plugins"), files_path(folder, "links/absolute")),
                 0);
    way_is_refused(files_path(folder, "links/absolute"), NULL);
    free(path);
}

/* Others can write to the folder that a link to a link passes through, though both ends are trusted. */
Test(plugins, links_through_folders_that_others_may_write_to)
{
    char words[256];
    char *path = make_below("above", "bytes");
    cr_assert_eq(mkdir(files_path(folder, "open"), 0755), 0);
    cr_assert_eq(symlink(path, files_path(folder, "open/second")), 0);
    cr_assert_eq(symlink("open/second", files_path(folder, "first")), 0);
    cr_assert_eq(chmod(files_path(folder, "open"), 0777), 0);
    snprintf(words, sizeof words, "others can write to the folder %s/open, on the way to it (mode 0777)",
             folder);
    way_is_refused(files_path(folder, "first"), words);
    free(path);
}

/* The sticky bit keeps others from replacing our files, not from having links of their own. */
Test(plugins, links_of_somebody_else)
{
    if (geteuid() != 0) cr_skip_test("only root can give links away");
    char *path = make_below("above", "bytes");
    cr_assert_eq(mkdir(files_path(folder, "open"), 0755), 0);
    cr_assert_eq(chmod(files_path(folder, "open"), 01777), 0);
    cr_assert_eq(symlink(path, files_path(folder, "open/link")), 0);
    cr_assert_eq(lchown(files_path(folder, "open/link"), STRANGER, 0), 0);
    way_is_refused(files_path(folder, "open/link"), "belongs to user 54321, who is neither root nor you");
    free(path);
}

Test(plugins, links_in_a_circle)
{
    cr_assert_eq(symlink("b", files_path(folder, "a")), 0);
    cr_assert_eq(symlink("a", files_path(folder, "b")), 0);
    cr_assert_eq(open_dirs((const char *const[]){files_path(folder, "a"), NULL}), ENGINE_ERROR_NOT_FOUND);
    cr_assert(strstr(error_message(), "Too many levels of symbolic links"), "%s", error_message());
}

/* Exchanges two folders in a folder of its own, as another user, until it is ended. */
static pid_t exchange_for_ever(const char *ours, const char *theirs)
{
    pid_t child = fork();
    if (child != 0) return child;
    if (setgid(STRANGER) != 0 || setuid(STRANGER) != 0) _exit(1);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* if the test fails, nobody else ends it */
    if (getppid() == 1) _exit(1);
    for (;;) renameat2(AT_FDCWD, ours, AT_FDCWD, theirs, RENAME_EXCHANGE);
}

/* The stranger's plugin fails by its own words, so a run of it shows. */
Test(plugins, folders_that_somebody_exchanges_meanwhile)
{
    static const mode_t above[] = {0755, 01777};
    if (geteuid() != 0) cr_skip_test("only root can act as two users");
    put("bytes", "unused.so");
    cr_assert_eq(chmod(folder, 0755), 0);
    for (size_t i = 0; i < 2; i++) {
        char *ours = make_below(i ? "sticky" : "ours", "bytes"),
             *theirs = make_below(i ? "b" : "a", "bad-entry");
        char *parent = strdup(ours);
        *strrchr(parent, '/') = '\0';
        char *there = strdup(files_path(parent, "stranger"));
        cr_assert_eq(rename(theirs, there), 0);
        cr_assert_eq(chown(there, STRANGER, STRANGER), 0);
        cr_assert_eq(chown(files_path(there, "x.so"), STRANGER, STRANGER), 0);
        if (i == 0) cr_assert_eq(chown(parent, STRANGER, STRANGER), 0);
        cr_assert_eq(chmod(parent, above[i]), 0);
        pid_t child = exchange_for_ever(ours, there);
        cr_assert_gt(child, 0);
        for (int n = 0; n < 300; n++) {
            log_text[0] = '\0';
            open_dirs((const char *const[]){ours, NULL});
            if (plugins) plugins_close(plugins);
            plugins = NULL;
            host_end();
            if (strstr(log_text, "libfoo")) break;
        }
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        cr_assert_null(strstr(log_text, "libfoo"), "a plugin of somebody else has run: %s", log_text);
        free(ours);
        free(theirs);
        free(parent);
        free(there);
    }
}

Test(plugins, other_files_are_not_looked_at)
{
    files_write_text(files_path(folder, "readme.txt"), "x");
    files_write_text(files_path(folder, ".hidden.so"), "x");
    files_write_text(files_path(folder, ".so"), "x");
    files_write_text(files_path(folder, "lib.so.1"), "x");
    cr_assert_eq(mkdir(files_path(folder, "folder.so"), 0755), 0);
    cr_assert_eq(mkfifo(files_path(folder, "pipe.so"), 0600), 0);
    put("bytes", "bytes.so");
    cr_assert_eq(symlink("bytes.so", files_path(folder, "same.so")), 0);
    open_folder();
    size_t listed = 0;
    for (size_t i = 0; i < plugins_count(plugins); i++) {
        listed += strncmp(plugins_at(plugins, i)->path, folder, strlen(folder)) == 0;
    }
    cr_assert_eq(listed, 1);
    used("bytes.so");
}

/* Writes 64 copies of which the first 0/64, 1/64, … are right, loads them and expects each to be refused. */
static void damaged_from_anywhere_on(bool zeros)
{
    size_t size;
    char name[32], *data = files_read(BUILT "/bytes.so", &size);
    for (size_t i = 64; i-- > 0;) {
        size_t right = size * i / 64;
        memset(data + right, 0, size - right);
        snprintf(name, sizeof name, "cut%02zu.so", i);
        files_write(files_path(folder, name), data, zeros ? size : right);
    }
    free(data);
    open_folder();
    for (size_t i = 0; i < 64; i++) {
        snprintf(name, sizeof name, "cut%02zu.so", i);
        refused(name, i > 0 ? "damaged or truncated" : zeros ? "invalid ELF header" : "file too short");
    }
}

Test(plugins, cut_off_anywhere)
{
    damaged_from_anywhere_on(false);
}

/* As a download leaves it that has made room for the file and then ended. */
Test(plugins, zeros_from_anywhere_on)
{
    damaged_from_anywhere_on(true);
}

Test(plugins, search_order)
{
    char *second = files_folder(), *third = files_folder();
    char text[1200];
    put("bytes", "first.so");
    files_copy(BUILT "/bytes-again.so", files_path(second, "second.so"), SIZE_MAX);
    files_copy(BUILT "/bytes-newer.so", files_path(second, "newer.so"), SIZE_MAX);
    files_copy(BUILT "/bytes-newer.so", files_path(third, "newer.so"), SIZE_MAX);
    files_copy(BUILT "/idle.so", files_path(third, "idle.so"), SIZE_MAX);
    snprintf(text, sizeof text, "plugin_dirs = %s:" FILES_ABSENT "/configured\n", third);
    configure(text);
    snprintf(text, sizeof text, FILES_ABSENT "/path::%s", second);
    setenv("ENGINE_PLUGIN_PATH", text, 1);
    open_folder();
    cr_assert_str_eq(plugins_find_tokenizer(plugins, "test-bytes")->path, files_path(folder, "first.so"));
    cr_assert_str_eq(plugins_find_tokenizer(plugins, "test-newer")->path, files_path(second, "newer.so"));
    cr_assert_str_eq(plugins_find_backend(plugins, "idle")->path, files_path(third, "idle.so"));
    cr_assert(strstr(log_text, FILES_ABSENT "/path is not used: No such file or directory"));
    cr_assert(strstr(log_text, FILES_ABSENT "/configured is not used: No such file or directory"));
    files_remove(second);
    files_remove(third);
    free(second);
    free(third);
}

Test(plugins, a_folder_that_was_asked_for_must_exist)
{
    cr_assert_eq(open_dirs((const char *const[]){folder, FILES_ABSENT "/dir", NULL}), ENGINE_ERROR_NOT_FOUND);
    cr_assert_str_eq(error_message(), "plugin folder " FILES_ABSENT "/dir: No such file or directory");
}

/* ---- Services ------------------------------------------------------------------------------------------ */

static int get_fail(void *context, const char *key, int64_t *value)
{
    (void)context;
    *value = 42;
    return strcmp(key, "test.fail") == 0 ? ENGINE_OK : ENGINE_ERROR_NOT_FOUND;
}

Test(plugins, messages_carry_the_plugins_name)
{
    put("bytes", "bytes.so");
    open_folder();
    const struct engine_metadata metadata = {.struct_size = sizeof metadata, .get_integer = get_fail};
    struct engine_tokenizer *tokenizer = NULL;
    const struct plugin *plugin = plugins_find_tokenizer(plugins, "test-bytes");
    cr_assert_eq(plugin->info->tokenizers->create(&metadata, &tokenizer), ENGINE_ERROR_DATA);
    cr_assert_str_eq(error_message(), "test-bytes: asked to fail with 42"); /* its newline is a blank */
    cr_assert_str_eq(log_text, "test-bytes: about to fail, 42\n");
    cr_assert_eq(host_services()->fail(ENGINE_ERROR, "%s", "nobody's"), ENGINE_ERROR);
    cr_assert_str_eq(error_message(), "nobody's");
}

Test(plugins, settings)
{
    configure("[test-bytes]\ngreeting = hello\n");
    open_folder();
    cr_assert_str_eq(host_services()->setting("test-bytes", "greeting"), "hello");
    cr_assert_null(host_services()->setting("test-bytes", "other"));
    cr_assert_null(host_services()->setting("other", "greeting"));
    cr_assert_null(host_services()->setting("", "plugin_dirs"));
}

Test(plugins, cache_folder)
{
    struct stat info;
    setenv("XDG_CACHE_HOME", files_path(folder, "deep/cache"), 1);
    open_folder();
    const char *cache = host_services()->cache_folder();
    cr_assert_str_eq(cache, files_path(folder, "deep/cache/engine"));
    cr_assert_eq(stat(cache, &info), 0);
    cr_assert_eq(info.st_mode & 07777, 0700);
    cr_assert_eq(host_services()->cache_folder(), cache);
}

Test(plugins, cache_folder_that_others_may_write_to)
{
    setenv("XDG_CACHE_HOME", folder, 1);
    cr_assert_eq(mkdir(files_path(folder, "engine"), 0700), 0);
    cr_assert_eq(chmod(files_path(folder, "engine"), 0777), 0);
    open_folder();
    cr_assert_null(host_services()->cache_folder());
    cr_assert_null(host_services()->cache_folder());
    cr_assert(strstr(log_text, "no cache folder: "));
}

/* As root with HOME of another user, `sudo -E`: a folder made there would be root's, and of no use to its
 * owner. */
Test(plugins, cache_folder_of_somebody_else)
{
    struct stat info;
    if (geteuid() != 0) cr_skip_test("only root can give folders away");
    cr_assert_eq(mkdir(files_path(folder, "home"), 0755), 0);
    cr_assert_eq(chown(files_path(folder, "home"), STRANGER, 0), 0);
    setenv("XDG_CACHE_HOME", files_path(folder, "home/.cache"), 1);
    open_folder();
    cr_assert_null(host_services()->cache_folder());
    cr_assert_neq(stat(files_path(folder, "home/.cache"), &info), 0);
}

Test(plugins, cache_folder_that_others_may_exchange)
{
    char *cache = make_below("above", "bytes");
    setenv("XDG_CACHE_HOME", cache, 1);
    cr_assert_eq(chmod(files_path(folder, "above"), 0777), 0);
    open_folder();
    cr_assert_null(host_services()->cache_folder());
    cr_assert(strstr(log_text, "no cache folder: "));
    cr_assert(strstr(log_text, "on the way to it (mode 0777)"), "%s", log_text);
    free(cache);
}

/* ---- Behind engine.h ----------------------------------------------------------------------------------- */

static struct engine *engine;

static void open_engine_with(const char *text)
{
    const char *path = files_path(folder, "engine.conf");
    files_write_text(path, text);
    const struct engine_options options = {
        .struct_size = sizeof options,
        .plugin_dirs = (const char *const[]){folder, NULL},
        .config_file = path,
        .log = keep_log,
    };
    cr_assert_eq(engine_open(&options, &engine), ENGINE_OK, "%s", engine_error_message());
}

Test(plugins, one_engine_at_a_time)
{
    struct engine *second;
    open_engine_with("threads = 5\n");
    cr_assert_str_eq(engine_setting(engine, "", "threads"), "5");
    cr_assert_eq(engine_open(NULL, &second), ENGINE_ERROR_ARGUMENT);
    engine_close(engine);
    open_engine_with("");
    cr_assert_null(engine_setting(engine, "", "threads"));
    engine_close(engine);
}

Test(plugins, devices)
{
    struct engine_device_entry device;
    size_t count, n_idle = 0;
    put("idle", "idle.so");
    open_engine_with("");
    cr_assert_eq(engine_device_count(engine, &count), ENGINE_OK);
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(engine_device_at(engine, i, &device), ENGINE_OK);
        if (strcmp(device.plugin, "idle") != 0) continue;
        cr_assert_str_eq(device.name, n_idle == 0 ? "idle0" : "idle1.5");
        cr_assert_str_eq(device.info.description, "Idle device");
        cr_assert_eq(device.info.memory_free, (uint64_t)12 << 30);
        n_idle++;
    }
    cr_assert_eq(n_idle, 2);
    cr_assert(strstr(log_text, "idle: device 2 is not used: its id '0' is also that of another device"));
    cr_assert(strstr(log_text, "idle: device 3 is not used: its id 'x' is not made of digits and dots"));
    cr_assert_eq(engine_device_at(engine, count, &device), ENGINE_ERROR_ARGUMENT);
    engine_close(engine);
}

/* Why a plugin isn't used is kept for those who ask. */
Test(plugins, a_driver_that_is_missing_is_no_warning)
{
    put("absent", "absent.so");
    open_folder();
    cr_assert_str_eq(entry("absent.so")->refused, "libfoo.so.1 is missing");
    cr_assert_null(entry("absent.so")->info);
    cr_assert_str_empty(log_text);
}

Test(plugins, a_backend_that_fails_is_passed_over)
{
    size_t count;
    put("idle", "idle.so");
    open_engine_with("[idle]\nfail = yes\n");
    cr_assert_eq(engine_device_count(engine, &count), ENGINE_OK);
    cr_assert(strstr(log_text, "plugin idle: idle: the driver is on strike") == NULL);
    cr_assert(strstr(log_text, "idle: the driver is on strike"));
    engine_close(engine);
}
