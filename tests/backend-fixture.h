/* backend-fixture.h: opens a backend plugin of the build tree for a test, separately, as the conformance
 * suite does (check/fixture.h). Errors fail the test. */
#ifndef TESTS_BACKEND_FIXTURE_H
#define TESTS_BACKEND_FIXTURE_H

#include "check/cases.h"
#include "check/fixture.h"
#include "check/formats.h"

/* Loads TEST_PLUGIN_DIR/NAME.so and opens its device `index`. */
void fixture_open(struct fixture *fixture, const char *name, uint32_t index, uint32_t n_threads,
                  uint64_t memory_limit);
void fixture_close(struct fixture *fixture);

/* Only loads the plugin: no device, no stream. */
void fixture_load(struct fixture *fixture, const char *name);
/* The same, but returns false if the plugin says that it can't work here. */
bool fixture_try_load(struct fixture *fixture, const char *name);

/* Runs a case if the backend claims it; otherwise clears the fixture and returns NULL. */
float *fixture_run_claimed(struct fixture *fixture, const struct some_case *c);

/* The last message of the plugin through host->fail, "" if there was none since the last call. */
const char *fixture_message(void);

#endif
