/* suite.h: what the groups of checks stand on: one row at a time is begun, tried and ended; a try that fails comes back
 * here (fixture.h's `stop`). Runs in the process that has the plugin. */
#ifndef ENGINE_CHECK_SUITE_H
#define ENGINE_CHECK_SUITE_H

#include <setjmp.h>

#include "check/fixture.h"
#include "engine.h"

/* What came of a try, and in the end of its row. */
enum check_result {
    CHECK_PASSED = ENGINE_CHECK_PASSED,
    CHECK_FAILED = ENGINE_CHECK_FAILED,
    CHECK_UNCLAIMED = ENGINE_CHECK_UNCLAIMED
};

struct suite {
    struct fixture fixture; /* the device; none for tokenizers */
    const struct engine_plugin *plugin;
    void *library;   /* that the plugin is in */
    uint32_t device; /* index */
    uint32_t alignment;
    int pipe; /* to the parent: rows */
    jmp_buf end;
    enum fixture_end ended;
    char message[512];
    struct engine_check_row row;
    uint32_t n_unclaimed; /* tries of the row that the plugin doesn't claim */
};

/* A try: does something and returns, or stops. */
typedef void suite_body(struct suite *suite, const void *args);

/* A row, from begin to end; what the suite is at is known to the parent from the beginning, in case that the process
 * ends here. */
void suite_begin(struct suite *suite, const char *area, const char *format, ...) ENGINE_PRINTF(3, 4);
/* Tries; after a failure the rest of the row isn't tried any more. Tensors and weights are destroyed afterwards. */
enum check_result suite_try(struct suite *suite, suite_body *body, const void *args);
/* Adds a remark to the row. */
void suite_remark(struct suite *suite, const char *format, ...) ENGINE_PRINTF(2, 3);
void suite_end(struct suite *suite);

/* One row with one try. */
void suite_single(struct suite *suite, const char *area, const char *what, suite_body *body,
                  const void *args);

/* All rows have been sent and the plugin is unloaded: a process that ends without it was ended by the plugin. */
void suite_done(struct suite *suite);

/* What goes through the pipe: each row as it begins and as it ends. */
enum suite_moment { SUITE_BEGUN, SUITE_ENDED, SUITE_DONE };

struct suite_record {
    enum suite_moment moment;
    struct engine_check_row row;
};

/* Stops the try with a message unless it holds. */
#define SUITE_EXPECT(suite, holds, ...)                                                                      \
    do {                                                                                                     \
        if (!(holds)) fixture_fail(&(suite)->fixture, __VA_ARGS__);                                          \
    } while (0)

/* Opens the suite's device into a fixture; stops if that fails. suite_close destroys what belongs to it. */
void suite_open(struct suite *suite, struct fixture *fixture, uint32_t n_threads, uint64_t memory_limit);
void suite_close(struct fixture *fixture);

/* The status must be an error with a message: `wanted`, or any if that is ENGINE_OK. */
void suite_expect_error(struct suite *suite, int status, int wanted, const char *what);

/* ---- The groups ---- */

struct group {
    const char *name;
    bool by_device;
    void (*run)(struct suite *suite);
};

/* Ended by one without a name. */
extern const struct group backend_groups[];
extern const struct group tokenizer_groups[];

void check_devices(struct suite *suite);
void check_buffers(struct suite *suite);
void check_weights(struct suite *suite);
void check_streams(struct suite *suite);
void check_recordings(struct suite *suite);
void check_arguments(struct suite *suite);
void check_later_arguments(struct suite *suite);
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

#endif
