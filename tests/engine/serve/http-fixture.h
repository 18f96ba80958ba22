/* http-fixture.h: the server's HTTP layer in this process, with routes of the test's own, and raw connections
 * to it. For plain programs, not Criterion, so that they run under ThreadSanitizer. */
#ifndef TESTS_SERVE_HTTP_FIXTURE_H
#define TESTS_SERVE_HTTP_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>

#include "serve/http/http.h"

struct fixture {
    struct arguments arguments;
    struct server server;
    int port;           /* of the first address; 0: it has none */
    char message[1024]; /* why it did not start */
};

/* Starts a server with these options, ended by NULL, on any free port of 127.0.0.1 unless they say otherwise.
 * False: it did not start. fixture_stop in either case. */
bool fixture_start(struct fixture *fixture, const char *const *options);
/* The same with an engine and models (--model, --plugin-dir). */
bool fixture_start_with_models(struct fixture *fixture, const char *const *options);
void fixture_stop(struct fixture *fixture);

/* A connection; ends the program if there is none. */
int fixture_connect(const struct fixture *fixture);
void fixture_send(int connection, const char *text);
/* What comes until the other side closes, or for so many milliseconds if nothing comes. A text, for the
 * caller to free. */
char *fixture_read(int connection, int milliseconds);
/* Sends a request on a connection of its own, and returns the whole answer. */
char *fixture_ask(const struct fixture *fixture, const char *request);

/* Prints what failed, and counts it. */
#define EXPECT(CONDITION, ...) fixture_expect(CONDITION, __FILE__, __LINE__, __VA_ARGS__)
bool fixture_expect(bool holds, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
extern int fixture_failures;

#endif
