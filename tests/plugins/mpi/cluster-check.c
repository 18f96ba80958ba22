/* cluster-check.c: the conformance suite on a worker's device: rank 0 of `mpirun -n 1 cluster-check PLUGIN
 * DEVICE CACHE GROUP... : -n 1 engine worker`, which leaves these groups out. `engine plugins check` runs
 * each group of checks in a process of its own, and only the one that mpirun has started can speak to
 * workers; so all groups run in this one. Prints what failed; the exit status is 0 if nothing did. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check/suite.h"

struct results {
    int from; /* a pipe */
    FILE *to;
    unsigned passed, failed, unclaimed, done;
};

static void *collect(void *user)
{
    struct results *results = user;
    struct suite_record record;
    for (;;) {
        size_t used = 0;
        while (used < sizeof record) {
            ssize_t got = read(results->from, (char *)&record + used, sizeof record - used);
            if (got <= 0) return NULL;
            used += (size_t)got;
        }
        if (record.moment == SUITE_DONE) results->done++;
        if (record.moment != SUITE_ENDED) continue;
        const struct engine_check_row *row = &record.row;
        if (row->result == ENGINE_CHECK_PASSED) results->passed++;
        if (row->result == ENGINE_CHECK_UNCLAIMED) results->unclaimed++;
        if (row->result != ENGINE_CHECK_FAILED) continue;
        results->failed++;
        fprintf(results->to, "failed: %s %s #%u%s: %s\n", row->area, row->what, row->number, row->tried,
                row->message);
    }
}

static bool is_left_out(const char *group, char *const *left_out)
{
    while (*left_out && strcmp(*left_out, group) != 0) left_out++;
    return *left_out != NULL;
}

int main(int argc, char **argv)
{
    int ends[2];
    struct introduction introduction = {.reason = ""};
    struct engine_checked_plugin plugin = {.struct_size = sizeof plugin};
    struct suite_run run = {.plugin = &plugin};
    struct results results = {0};
    pthread_t thread;
    unsigned groups = 0;
    if (argc < 4 || pipe(ends) != 0) return 2;
    run.path = argv[1];
    run.cache = argv[3];
    results.to = fdopen(dup(STDERR_FILENO), "w"); /* standard output is the suite's */
    child_introduce(&run, ends[1]);
    if (!results.to || read(ends[0], &introduction, sizeof introduction) != (ssize_t)sizeof introduction)
        return 2;
    plugin = introduction.plugin;
    if (introduction.reason[0]) {
        fprintf(results.to, "%s\n", introduction.reason);
        return 1;
    }
    results.from = ends[0];
    if (pthread_create(&thread, NULL, collect, &results) != 0) return 2;
    for (const struct group *group = backend_groups; group->name; group++)
        if (!is_left_out(group->name, argv + 4))
            child_run_group(&run, group, (uint32_t)strtoul(argv[2], NULL, 10), ends[1]), groups++;
    close(ends[1]);
    pthread_join(thread, NULL);
    fprintf(results.to, "%u groups, %u passed, %u failed, %u unclaimed\n", results.done, results.passed,
            results.failed, results.unclaimed);
    return results.failed > 0 || results.done != groups || results.passed < 50;
}
