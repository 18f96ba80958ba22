/* check.c: the conformance suite for plugins, as offered by engine.h. The caller's process only receives
 * rows. A keeper (keeper.h) runs a process for each group of checks and device, which loads the plugin,
 * checks it, and sends rows through a pipe (child.c). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "check/keeper.h"
#include "check/suite.h"
#include "plugins/host.h"

enum { TIMEOUT = 300 /* seconds; some drivers run on the CPU, and compile kernels for it */ };

/* ---- The keeper: runs processes, and reports to the caller ------------------------------------------- */

/* Messages from the keeper: a row, an unclaimed case, and at the end the result of the whole check. */
enum news_kind { NEWS_ROW, NEWS_UNCLAIMED, NEWS_END };
struct news {
    enum news_kind kind;
    int status;        /* NEWS_END */
    char message[700]; /* NEWS_END: of an error */
    union {
        struct engine_check_row row;
        struct engine_checked_plugin plugin; /* NEWS_END */
    } of;
};

struct keeping {
    struct keeper keeper;
    struct suite_run run;
    uint32_t n_rows; /* number of selected rows */
};

static void send_news(const struct keeping *keeping, const struct news *news)
{
    /* Smaller than PIPE_BUF: written whole, unless the caller is gone. */
    _Static_assert(sizeof *news <= 4096, "news go through a pipe in one piece");
    if (write(keeping->keeper.out, news, sizeof *news) != (ssize_t)sizeof *news)
        keeper_abandon(&keeping->keeper);
}

static void suite_report(struct keeping *keeping, struct engine_check_row *row)
{
    struct news news = {.kind = NEWS_ROW};
    row->struct_size = sizeof *row;
    news.of.row = *row;
    if (row->number) {
        const size_t used = strlen(row->alone);
        snprintf(news.of.row.alone + used, sizeof row->alone - used, " #%u", row->number);
    }
    keeping->n_rows++;
    send_news(keeping, &news);
}

static void report_unclaimed(const struct keeping *keeping, const struct engine_check_row *row)
{
    struct news news = {.kind = NEWS_UNCLAIMED, .of.row = *row};
    news.of.row.struct_size = sizeof *row;
    send_news(keeping, &news);
}

/* For the row that began and never ended: how the process ended. */
static void report_end(struct keeping *keeping, struct engine_check_row *row, const struct kept *kept)
{
    row->result = CHECK_FAILED;
    if (row->cases < row->number) row->cases = row->number;
    if (row->cases == 0) row->cases = 1;
    if (kept->end == KEEPER_HANGS)
        snprintf(row->message, sizeof row->message,
                 "it hangs: no end after %u s; the process was ended, and nothing else is tried",
                 keeping->keeper.seconds);
    else if (kept->end == KEEPER_BABBLES)
        snprintf(row->message, sizeof row->message, "the plugin wrote to a file that isn't its own");
    else if (WIFSIGNALED(kept->how))
        snprintf(row->message, sizeof row->message, "the plugin crashed: signal %d (%s)", WTERMSIG(kept->how),
                 strsignal(WTERMSIG(kept->how)));
    else
        snprintf(row->message, sizeof row->message, "the plugin has ended the process, with status %d",
                 WEXITSTATUS(kept->how));
    suite_report(keeping, row);
}

static bool ended_well(const struct kept *kept)
{
    return kept->end == KEEPER_ENDED && WIFEXITED(kept->how) && WEXITSTATUS(kept->how) == 0;
}

/* A separate row for problems that show after all others. */
static void report_left(struct keeping *keeping, struct engine_check_row *row, const struct kept *kept)
{
    row->result = CHECK_FAILED;
    row->cases = 1;
    row->number = 0;
    row->tried[0] = '\0';
    snprintf(row->what, sizeof row->what, "the end");
    snprintf(row->message, sizeof row->message,
             "the plugin was unloaded, and %u process%s that it had begun still ran ('%s')", kept->n_left,
             kept->n_left > 1 ? "es" : "", kept->left);
    suite_report(keeping, row);
}

/* Whether it is a record of the suite: a plugin may write to any file descriptor it finds open. */
static bool is_sound(const struct suite_record *record)
{
    const struct engine_check_row *row = &record->row;
    return record->moment <= SUITE_DONE && row->result <= CHECK_UNCLAIMED &&
           memchr(row->device, 0, sizeof row->device) && memchr(row->area, 0, sizeof row->area) &&
           memchr(row->what, 0, sizeof row->what) && memchr(row->message, 0, sizeof row->message) &&
           memchr(row->tried, 0, sizeof row->tried) && memchr(row->alone, 0, sizeof row->alone);
}

/* *hangs: whether the process hung and was killed. */
static int check_group(struct keeping *keeping, const struct group *group, uint32_t device, bool *hangs)
{
    struct suite_record record;
    struct engine_check_row last = {.result = CHECK_FAILED};
    bool begun = false, done = false, sound = true;
    struct kept kept;
    int to;
    int status = keeper_fork(&keeping->keeper, &kept, &to);
    if (status != ENGINE_OK) return status;
    if (kept.pid == 0) {
        child_run_group(&keeping->run, group, device, to);
        exit(0);
    }
    snprintf(last.area, sizeof last.area, "%s", group->name);
    snprintf(last.alone, sizeof last.alone, "%s", group->name);
    while (keeper_read(&keeping->keeper, &kept, &record, sizeof record) && (sound = is_sound(&record))) {
        done = record.moment == SUITE_DONE;
        if (done) continue;
        if (record.moment == SUITE_UNCLAIMED) {
            report_unclaimed(keeping, &record.row);
            continue;
        }
        last = record.row;
        begun = record.moment != SUITE_ENDED;
        if (!begun) suite_report(keeping, &last);
    }
    keeper_end(&keeping->keeper, &kept, sound);
    *hangs = kept.end == KEEPER_HANGS;
    if (!done || !ended_well(&kept)) {
        if (!begun) {
            snprintf(last.what, sizeof last.what, "the end");
            last.cases = last.number = 0;
            last.tried[0] = '\0';
        }
        report_end(keeping, &last, &kept);
    } else if (kept.n_left > 0) {
        report_left(keeping, &last, &kept);
    }
    return ENGINE_OK;
}

static int meet(struct keeping *keeping)
{
    struct suite_run *run = &keeping->run;
    struct introduction introduction = {.reason = ""};
    struct kept kept;
    int to;
    int status = keeper_fork(&keeping->keeper, &kept, &to);
    if (status != ENGINE_OK) return status;
    if (kept.pid == 0) {
        child_introduce(run, to);
        exit(0);
    }
    bool came = keeper_read(&keeping->keeper, &kept, &introduction, sizeof introduction);
    keeper_end(&keeping->keeper, &kept, true);
    if (came) *run->plugin = introduction.plugin;
    run->plugin->struct_size = sizeof *run->plugin;
    run->plugin->name[sizeof run->plugin->name - 1] = '\0'; /* the plugin may have written to the pipe */
    run->plugin->version[sizeof run->plugin->version - 1] = '\0';
    run->plugin->license[sizeof run->plugin->license - 1] = '\0';
    run->plugin->description[sizeof run->plugin->description - 1] = '\0';
    introduction.reason[sizeof introduction.reason - 1] = '\0';
    if (came && introduction.reason[0])
        return error_raise(ENGINE_ERROR_DATA, "%s: %s", run->path, introduction.reason);
    struct engine_check_row row = {.area = "plugin",
                                   .what = "loading and unloading",
                                   .alone = "plugin",
                                   .cases = 1,
                                   .result = CHECK_PASSED};
    if (!came || !ended_well(&kept))
        report_end(keeping, &row, &kept);
    else if (kept.n_left > 0)
        report_left(keeping, &row, &kept);
    else if (suite_selects(&run->only, "", row.area, row.what))
        suite_report(keeping, &row);
    return ENGINE_OK;
}

static int check_groups(struct keeping *keeping)
{
    const struct engine_checked_plugin *plugin = keeping->run.plugin;
    const struct group *groups = plugin->kind == ENGINE_PLUGIN_BACKEND ? backend_groups : tokenizer_groups;
    uint32_t n =
        plugin->kind == ENGINE_PLUGIN_BACKEND ? plugin->n_devices : plugin->kind == ENGINE_PLUGIN_TOKENIZER;
    int status = ENGINE_OK;
    for (uint32_t device = 0; device < n && status == ENGINE_OK; device++) {
        /* Nobody would wait that long for every group, so a device that hangs is not tried again. */
        bool hangs = false;
        for (const struct group *group = groups; group->name && status == ENGINE_OK && !hangs; group++)
            status = check_group(keeping, group, device, &hangs);
    }
    if (status == ENGINE_OK && keeping->n_rows == 0 && n > 0)
        return error_raise(ENGINE_ERROR_ARGUMENT, "there is no case '%s' among the checks of %s",
                           keeping->run.only.whole, plugin->name);
    return status;
}

static _Noreturn void suite_keep(struct keeping *keeping)
{
    struct news end = {.kind = NEWS_END};
    struct engine_checked_plugin plugin = {.struct_size = sizeof plugin};
    char cache[] = "/tmp/engine-check-XXXXXX";
    keeper_become();
    keeping->run.plugin = &plugin;
    keeping->run.cache = keeping->keeper.folder = mkdtemp(cache);
    end.status = meet(keeping);
    if (end.status == ENGINE_OK) end.status = check_groups(keeping);
    keeper_clean(&keeping->keeper);
    if (end.status != ENGINE_OK) snprintf(end.message, sizeof end.message, "%s", error_message());
    end.of.plugin = plugin;
    send_news(keeping, &end);
    _exit(0);
}

/* ---- The caller ------------------------------------------------------------------------------------- */

static bool read_news(int from, struct news *news)
{
    size_t used = 0;
    while (used < sizeof *news) {
        ssize_t got = read(from, (char *)news + used, sizeof *news - used);
        if (got == 0 || (got < 0 && errno != EINTR)) return false;
        if (got > 0) used += (size_t)got;
    }
    return true;
}

/* Passes rows on until the keeper reports the end. */
static int suite_receive(int from, const struct engine_check_options *options,
                         struct engine_checked_plugin *plugin)
{
    struct news news;
    while (read_news(from, &news)) {
        if (news.kind == NEWS_ROW) options->row(options->user, &news.of.row);
        if (news.kind == NEWS_UNCLAIMED && options->unclaimed)
            options->unclaimed(options->user, &news.of.row);
        if (news.kind != NEWS_END) continue;
        *plugin = news.of.plugin;
        return news.status == ENGINE_OK ? ENGINE_OK : error_raise(news.status, "%s", news.message);
    }
    return error_raise(ENGINE_ERROR, "the process that runs the checks was ended");
}

int engine_check_plugin(const char *path, const struct engine_check_options *given,
                        struct engine_checked_plugin *out)
{
    struct engine_check_options options;
    int status = SIZED_CHECK(given, engine_check_options, user);
    if (!status) status = SIZED_CHECK(out, engine_checked_plugin, n_devices);
    if (status != ENGINE_OK) return status;
    sized_read(&options, sizeof options, given);
    if (!options.row)
        return error_raise(ENGINE_ERROR_ARGUMENT, "a check of a plugin needs somebody to receive its rows");
    if (host_has_begun())
        return error_raise(ENGINE_ERROR_ARGUMENT, "no plugin can be checked while an engine is open");
    struct engine_checked_plugin plugin = {.struct_size = sizeof plugin};
    struct keeping keeping = {.keeper.seconds = options.timeout ? options.timeout : TIMEOUT};
    status = suite_parse_only(&keeping.run.only, options.only);
    if (status != ENGINE_OK) return status;
    keeping.run.only.step = options.sample;
    char *real = realpath(path, NULL);
    if (!real) return error_raise(ENGINE_ERROR_DATA, "%s: %s", path, strerror(errno));
    keeping.run.path = real;
    int ends[2] = {-1, -1};
    pid_t keeper = -1;
    if (pipe2(ends, O_CLOEXEC) == 0) {
        fflush(NULL);
        keeper = fork();
    }
    if (keeper == 0) {
        close(ends[0]);
        keeping.keeper.out = ends[1];
        suite_keep(&keeping);
    }
    if (ends[1] >= 0) close(ends[1]);
    status = keeper > 0 ? suite_receive(ends[0], &options, &plugin)
                        : error_raise(ENGINE_ERROR, "no process for the checks: %s", strerror(errno));
    if (ends[0] >= 0) close(ends[0]);
    while (keeper > 0 && waitpid(keeper, NULL, 0) < 0 && errno == EINTR) {
    }
    free(real);
    sized_write(out, &plugin, sizeof plugin);
    return status;
}
