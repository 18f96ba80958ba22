/* suite.c: see suite.h. */
#include "check/suite.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void send_row(const struct suite *suite, enum suite_moment moment, const struct engine_check_row *row)
{
    /* Smaller than PIPE_BUF: it is written whole, or the parent is gone. */
    _Static_assert(sizeof(struct suite_record) <= 4096, "rows go through a pipe in one piece");
    struct suite_record record = {moment, *row};
    if (write(suite->pipe, &record, sizeof record) != (ssize_t)sizeof record) _exit(1);
}

static __attribute__((noreturn)) void come_back(struct fixture *fixture, enum fixture_end end,
                                                const char *message)
{
    struct suite *suite = fixture->owner;
    suite->ended = end;
    snprintf(suite->message, sizeof suite->message, "%s", message);
    longjmp(suite->end, 1);
}

void suite_begin(struct suite *suite, const char *area, const char *format, ...)
{
    struct engine_device_info info = {.struct_size = sizeof info};
    struct engine_check_row *row = &suite->row;
    memset(row, 0, sizeof *row);
    suite->n_unclaimed = 0;
    if (suite->fixture.api && suite->fixture.api->device_info(suite->device, &info) == ENGINE_OK)
        snprintf(row->device, sizeof row->device, "%.15s%.15s", suite->plugin->name, info.id);
    snprintf(row->area, sizeof row->area, "%s", area);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(row->what, sizeof row->what, format, arguments);
    va_end(arguments);
    suite->fixture.stop = come_back;
    suite->fixture.owner = suite;
    suite->fixture.measure = (struct measure){0, 0, 0};
    row->result = CHECK_UNCLAIMED;
    send_row(suite, SUITE_BEGUN, row);
}

enum check_result suite_try(struct suite *suite, suite_body *body, const void *args)
{
    struct engine_check_row *row = &suite->row;
    if (row->result == CHECK_FAILED) return CHECK_FAILED;
    check_host_message();
    if (setjmp(suite->end) == 0) {
        body(suite, args);
        row->result = CHECK_PASSED;
        row->cases++;
        fixture_clear(&suite->fixture);
        return CHECK_PASSED;
    }
    if (suite->ended == FIXTURE_UNCLAIMED) {
        fixture_clear(&suite->fixture);
        suite->n_unclaimed++;
        return CHECK_UNCLAIMED;
    }
    /* What the plugin still has to do with the tensors nobody knows: they stay. */
    suite->fixture.owned = NULL;
    row->result = CHECK_FAILED;
    row->cases++;
    snprintf(row->message, sizeof row->message, "%s", suite->message);
    return CHECK_FAILED;
}

void suite_remark(struct suite *suite, const char *format, ...)
{
    struct engine_check_row *row = &suite->row;
    if (row->result == CHECK_FAILED) return;
    size_t used = strlen(row->message);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(row->message + used, sizeof row->message - used, format, arguments);
    va_end(arguments);
}

void suite_end(struct suite *suite)
{
    struct engine_check_row *row = &suite->row;
    if (row->result == CHECK_PASSED && suite->n_unclaimed > 0 && !row->message[0])
        suite_remark(suite, "%u more cases are not claimed", suite->n_unclaimed);
    row->error = suite->fixture.measure.error;
    row->share = suite->fixture.measure.share;
    row->measured = suite->fixture.measure.n_values > 0;
    send_row(suite, SUITE_ENDED, row);
}

void suite_done(struct suite *suite)
{
    send_row(suite, SUITE_DONE, &suite->row);
}

void suite_single(struct suite *suite, const char *area, const char *what, suite_body *body, const void *args)
{
    suite_begin(suite, area, "%s", what);
    suite_try(suite, body, args);
    suite_end(suite);
}

void suite_open(struct suite *suite, struct fixture *fixture, uint32_t n_threads, uint64_t memory_limit)
{
    struct engine_device_options options = {sizeof options, n_threads, memory_limit};
    fixture->plugin = suite->plugin;
    fixture->api = suite->plugin->backend;
    fixture->stop = come_back;
    fixture->owner = suite;
    fixture_must(&suite->fixture, fixture->api->device_open(suite->device, &options, &fixture->device),
                 "device_open");
    fixture_must(&suite->fixture, fixture->api->stream_create(fixture->device, &fixture->stream),
                 "stream_create");
    fixture->lead = suite->alignment;
    fixture->views = 1;
}

void suite_close(struct fixture *fixture)
{
    fixture->api->stream_destroy(fixture->stream);
    fixture_clear(fixture);
    fixture->api->device_close(fixture->device);
    fixture->stream = NULL;
    fixture->device = NULL;
}

void suite_expect_error(struct suite *suite, int status, int wanted, const char *what)
{
    if (status == ENGINE_OK) fixture_fail(&suite->fixture, "%s: ENGINE_OK, but it can't be done", what);
    if (wanted != ENGINE_OK && status != wanted)
        fixture_fail(&suite->fixture, "%s: status %d, not %d (%s)", what, status, wanted,
                     check_host_message());
    const char *message = check_host_message();
    if (!message[0]) fixture_fail(&suite->fixture, "%s: status %d without a message", what, status);
    if (strpbrk(message, "\r\n")) fixture_fail(&suite->fixture, "%s: a message of more than one line", what);
}
