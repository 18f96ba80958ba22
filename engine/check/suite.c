/* suite.c: see suite.h. */
#include "check/suite.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

int suite_parse_only(struct suite_only *only, const char *text)
{
    *only = (struct suite_only){.whole = text ? text : ""};
    const char *sign = text ? strrchr(text, '#') : NULL;
    if (!text) return ENGINE_OK;
    size_t length = strlen(text);
    if (sign) {
        char *end;
        unsigned long number = strtoul(sign + 1, &end, 10);
        length = (size_t)(sign - text);
        if (!isdigit((unsigned char)sign[1]) || *end || number == 0 || number > UINT32_MAX)
            return error_raise(ENGINE_ERROR_ARGUMENT, "'%s' is not a case: a number should follow '#'", text);
        only->number = (uint32_t)number;
    }
    while (length > 0 && text[length - 1] == ' ') length--;
    if (length == 0 || length >= sizeof only->text)
        return error_raise(ENGINE_ERROR_ARGUMENT,
                           "'%s' is not a case: it should be AREA, AREA CHECK or AREA CHECK #NUMBER", text);
    memcpy(only->text, text, length);
    return ENGINE_OK;
}

static bool names_row(const char *text, const char *area, const char *what)
{
    const size_t length = strlen(area);
    if (strncmp(text, area, length) != 0) return false;
    return text[length] == '\0' || (text[length] == ' ' && strcmp(text + length + 1, what) == 0);
}

bool suite_selects(const struct suite_only *only, const char *device, const char *area, const char *what)
{
    const char *text = only ? only->text : "", *rest = strchr(text, ' ');
    if (!text[0] || names_row(text, area, what)) return true;
    size_t length = rest ? (size_t)(rest - text) : strlen(text);
    if (device && (strlen(device) != length || strncmp(text, device, length) != 0)) return false;
    return rest ? names_row(rest + 1, area, what) : true;
}

static void send_row(const struct suite *suite, enum suite_moment moment)
{
    /* Smaller than PIPE_BUF: written whole, unless the parent is gone. */
    _Static_assert(sizeof(struct suite_record) <= 4096, "rows go through a pipe in one piece");
    struct suite_record record = {moment, suite->row};
    if (suite->pipe < 0) return;
    if (write(suite->pipe, &record, sizeof record) != (ssize_t)sizeof record) _exit(1);
}

static void keep_tried(struct suite *suite, const struct fixture *fixture)
{
    snprintf(suite->row.tried, sizeof suite->row.tried, "%s%s%s", fixture->tried,
             fixture->tried[0] && fixture->operands[0] ? "; " : "", fixture->operands);
}

/* Describes the case, in case it never ends. */
static void note_case(struct fixture *fixture)
{
    struct suite *suite = fixture->owner;
    keep_tried(suite, fixture);
    send_row(suite, SUITE_BEGUN);
}

static __attribute__((noreturn)) void come_back(struct fixture *fixture, enum fixture_end end,
                                                const char *message)
{
    struct suite *suite = fixture->owner;
    suite->ended = end;
    /* No strides and offsets for unclaimed cases. */
    if (end == FIXTURE_UNCLAIMED) fixture->operands[0] = '\0';
    keep_tried(suite, fixture);
    snprintf(suite->message, sizeof suite->message, "%s", message);
    longjmp(suite->end, 1);
}

void suite_begin(struct suite *suite, const char *area, const char *format, ...)
{
    struct engine_device_info info = {.struct_size = sizeof info};
    struct engine_check_row *row = &suite->row;
    memset(row, 0, sizeof *row);
    suite->n_tries = suite->n_run = 0;
    if (suite->fixture.api && suite->fixture.api->device_info(suite->device, &info) == ENGINE_OK)
        snprintf(row->device, sizeof row->device, "%.15s%.15s", suite->plugin->name, info.id);
    snprintf(row->area, sizeof row->area, "%s", area);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(row->what, sizeof row->what, format, arguments);
    va_end(arguments);
    const char *device = suite->is_dry ? NULL : row->device;
    snprintf(row->alone, sizeof row->alone, "%s%s%s%s%s", row->device, row->device[0] ? " " : "",
             suite->is_whole ? suite->group : row->area, suite->is_whole ? "" : " ",
             suite->is_whole ? "" : row->what);
    suite->is_selected = suite->is_whole || suite_selects(suite->only, device, row->area, row->what) ||
                         (suite->group && suite_selects(suite->only, device, suite->group, ""));
    suite->has_selected = suite->has_selected || suite->is_selected;
    suite->fixture.stop = come_back;
    suite->fixture.note = note_case;
    suite->fixture.owner = suite;
    suite->fixture.measure = (struct measure){0, 0, 0};
    row->result = CHECK_UNCLAIMED;
    if (suite->is_selected) send_row(suite, SUITE_BEGUN);
}

/* Whether to make the next try of the row. */
static bool is_next(struct suite *suite)
{
    const uint32_t number = ++suite->n_tries,
                   only = suite->only && !suite->is_whole ? suite->only->number : 0;
    if (suite->is_dry || !suite->is_selected || (only && only != number)) return false;
    if (!only && suite->only && suite->only->step > 1 && (number - 1) % suite->only->step != 0) return false;
    suite->n_run++;
    return true;
}

enum check_result suite_try(struct suite *suite, suite_body *body, const void *args)
{
    struct engine_check_row *row = &suite->row;
    if (row->result == CHECK_FAILED) return CHECK_FAILED;
    if (!is_next(suite)) return CHECK_SKIPPED;
    /* Views don't depend on earlier cases: a case that fails does so alone too. */
    if (suite->fixture.views) suite->fixture.views = 1 + suite->n_tries * 0x9e3779b97f4a7c15;
    row->number = suite->is_whole ? 0 : suite->n_tries;
    send_row(suite, SUITE_BEGUN);
    check_host_message();
    if (setjmp(suite->end) == 0) {
        body(suite, args);
        row->result = CHECK_PASSED;
        row->cases++;
        fixture_clear(&suite->fixture);
        row->number = 0;
        row->tried[0] = '\0';
        return CHECK_PASSED;
    }
    if (suite->ended == FIXTURE_UNCLAIMED) {
        fixture_clear(&suite->fixture);
        row->n_unclaimed++;
        send_row(suite, SUITE_UNCLAIMED);
        row->number = 0;
        row->tried[0] = '\0';
        return CHECK_UNCLAIMED;
    }
    /* Nobody knows what the plugin still does with the tensors: they stay. */
    suite->fixture.owned = NULL;
    suite->fixture.tried[0] = suite->fixture.operands[0] = '\0';
    row->result = CHECK_FAILED;
    row->cases++;
    snprintf(row->message, sizeof row->message, "%s", suite->message);
    return CHECK_FAILED;
}

void suite_fail(struct suite *suite, const char *format, ...)
{
    struct engine_check_row *row = &suite->row;
    if (row->result == CHECK_FAILED) return;
    row->result = CHECK_FAILED;
    if (row->cases == 0) row->cases = 1;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(row->message, sizeof row->message, format, arguments);
    va_end(arguments);
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
    if (!suite->is_selected || (suite->only && suite->only->number && !suite->is_whole && suite->n_run == 0))
        return;
    if (row->result == CHECK_PASSED && row->n_unclaimed > 0 && !row->message[0])
        suite_remark(suite, "%u more cases are not claimed", row->n_unclaimed);
    row->error = suite->fixture.measure.error;
    row->share = suite->fixture.measure.share;
    row->measured = suite->fixture.measure.n_values > 0;
    send_row(suite, SUITE_ENDED);
}

void suite_done(struct suite *suite)
{
    send_row(suite, SUITE_DONE);
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
    fixture->note = note_case;
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
