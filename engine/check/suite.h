/* suite.h: the base of the groups of checks. One row at a time is begun, tried and ended; a try that fails
 * returns here (fixture.h's `stop`). Runs in the process that has loaded the plugin. */
#ifndef ENGINE_CHECK_SUITE_H
#define ENGINE_CHECK_SUITE_H

#include <setjmp.h>

#include "check/fixture.h"
#include "engine.h"

/* The result of a try, and finally of its row. */
enum check_result {
    CHECK_PASSED = ENGINE_CHECK_PASSED,
    CHECK_FAILED = ENGINE_CHECK_FAILED,
    CHECK_UNCLAIMED = ENGINE_CHECK_UNCLAIMED,
    CHECK_SKIPPED /* only of a try: it isn't selected */
};

/* What to try; "": everything. */
struct suite_only {
    const char *whole; /* as given */
    char text[160];    /* without the number */
    uint32_t number;   /* of the case; 0: all of the row */
    uint32_t step;     /* from a case to the next that is tried; 0: 1 */
};

/* Parses "AREA CHECK #NUMBER"; NULL selects everything. */
int suite_parse_only(struct suite_only *only, const char *text);
/* Whether a row is selected. A NULL device isn't known yet, and matches any. */
bool suite_selects(const struct suite_only *only, const char *device, const char *area, const char *what);

struct suite {
    struct fixture fixture; /* the device; none for tokenizers */
    const struct engine_plugin *plugin;
    void *library;   /* the plugin's */
    uint32_t device; /* index */
    uint32_t alignment;
    int pipe;                      /* to the parent: rows; -1: nobody receives them */
    const struct suite_only *only; /* NULL: everything is tried */
    const char *group;             /* the group that runs; NULL: none */
    bool is_dry;                   /* tries nothing, only sets has_selected */
    bool has_selected;             /* some row was selected */
    bool is_whole;                 /* concerns all rows: tried for every selection */
    jmp_buf end;
    enum fixture_end ended;
    char message[512];
    struct engine_check_row row;
    bool is_selected; /* the row is */
    uint32_t n_tries; /* of the row, whether they are selected or not */
    uint32_t n_run;   /* those of them that were tried */
};

/* A try: does something and returns, or stops. */
typedef void suite_body(struct suite *suite, const void *args);

/* A row, from begin to end. The parent is told at the beginning, in case the process ends during the row. */
void suite_begin(struct suite *suite, const char *area, const char *format, ...) ENGINE_PRINTF(3, 4);
/* Runs a try, unless one of the row has failed before. Destroys tensors and weights afterwards. */
enum check_result suite_try(struct suite *suite, suite_body *body, const void *args);
/* Makes the row fail because of something that several of its tries have in common. */
void suite_fail(struct suite *suite, const char *format, ...) ENGINE_PRINTF(2, 3);
/* Adds a remark to the row. */
void suite_remark(struct suite *suite, const char *format, ...) ENGINE_PRINTF(2, 3);
void suite_end(struct suite *suite);

/* One row with one try. */
void suite_single(struct suite *suite, const char *area, const char *what, suite_body *body,
                  const void *args);

/* Reports that all rows have been sent and the plugin is unloaded. A process that ends without this was ended
 * by the plugin. */
void suite_done(struct suite *suite);

/* What is sent through the pipe: each row and case when it begins, and each row when it ends. */
enum suite_moment {
    /* The row, or one of its cases: that has a number and, once it is known what it does, `tried`. */
    SUITE_BEGUN,
    SUITE_UNCLAIMED, /* this case isn't claimed */
    SUITE_ENDED,
    SUITE_DONE
};

struct suite_record {
    enum suite_moment moment;
    struct engine_check_row row;
};

/* Stops the try with a message unless the condition holds. */
#define SUITE_EXPECT(suite, holds, ...)                                                                      \
    do {                                                                                                     \
        if (!(holds)) fixture_fail(&(suite)->fixture, __VA_ARGS__);                                          \
    } while (0)

/* Opens the suite's device into a fixture; stops if that fails. suite_close destroys what belongs to it. */
void suite_open(struct suite *suite, struct fixture *fixture, uint32_t n_threads, uint64_t memory_limit);
void suite_close(struct fixture *fixture);

/* The status must be an error with a message: `wanted`, or any error if `wanted` is ENGINE_OK. */
void suite_expect_error(struct suite *suite, int status, int wanted, const char *what);

/* ---- Recordings (check-streams.c) ---- */

/* Unclaimed if the plugin has no recordings. */
void programs_claim_recordings(struct suite *suite);
/* Records some operations; the tensors belong to the fixture. */
void programs_record_and_destroy(struct fixture *fixture);

/* ---- The groups ---- */

struct group {
    const char *name;
    bool by_device;
    void (*run)(struct suite *suite);
};

/* Terminated by a group without a name. */
extern const struct group backend_groups[];
extern const struct group tokenizer_groups[];

void check_devices(struct suite *suite);
void check_buffers(struct suite *suite);
void check_weights(struct suite *suite);
void check_leaks(struct suite *suite);
void check_streams(struct suite *suite);
void check_recordings(struct suite *suite);
void check_arguments(struct suite *suite);
void check_memory_limit(struct suite *suite);
void check_threads(struct suite *suite);
void check_reopening(struct suite *suite);
void check_matmul(struct suite *suite);
void check_get_rows(struct suite *suite);
void check_hashed(struct suite *suite);
void check_rows(struct suite *suite);
void check_rope(struct suite *suite);
void check_cache_write(struct suite *suite);
void check_attention(struct suite *suite);
void check_later_operations(struct suite *suite);
void check_large(struct suite *suite);
void check_batches(struct suite *suite);

/* ---- child.c: the processes that load the plugin ----
 *
 * The first one asks what the plugin is; each of the others runs a group of checks on a device. */

/* What is being checked. */
struct suite_run {
    const char *path, *cache;
    struct engine_checked_plugin *plugin;
    struct suite_only only;
};

/* What the first process finds out. `reason`: why the plugin can't be used; "": it can. */
struct introduction {
    struct engine_checked_plugin plugin;
    char reason[1024];
};

/* Loads the plugin, sends its description through a pipe (a struct introduction), and unloads it. */
void child_introduce(const struct suite_run *run, int to);

/* Runs a group of checks on a device and sends their rows through the pipe (struct suite_record). */
void child_run_group(const struct suite_run *run, const struct group *group, uint32_t device, int to);

#endif
