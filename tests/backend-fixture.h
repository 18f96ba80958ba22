/* backend-fixture.h: a small host for tests of one backend plugin: loads the plugin by itself, opens a device,
 * makes tensors and weights, runs operations, reads results back. Failures that no test expects end the test. */
#ifndef TESTS_BACKEND_FIXTURE_H
#define TESTS_BACKEND_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugin-api.h"

struct fixture_owned; /* what the fixture destroys when it closes */

struct fixture {
    void *library;
    const struct engine_plugin *plugin;
    const struct engine_backend *api;
    struct engine_device *device;
    struct engine_stream *stream;
    struct fixture_owned *owned;
};

/* Loads TEST_PLUGIN_DIR/NAME.so and opens its device `index`. */
void fixture_open(struct fixture *fixture, const char *name, uint32_t index, uint32_t n_threads,
                  uint64_t memory_limit);
void fixture_close(struct fixture *fixture);

/* Only loads the plugin: no device, no stream. */
void fixture_load(struct fixture *fixture, const char *name);
/* The same, but false where the plugin says that it can't work here. */
bool fixture_try_load(struct fixture *fixture, const char *name);

/* The last message that the plugin gave through host->fail, "" if there was none since the last call. */
const char *fixture_message(void);

/* A tensor [ne0, ne1, ne2, ne3] in a buffer of its own, dense, filled with `data` (or zeros). It belongs to the
 * fixture, as all that follows. Type: F32, I32, F16 or Q8_0. */
struct engine_tensor *fixture_tensor(struct fixture *fixture, uint32_t type, const uint64_t ne[4],
                                     const void *data);
struct engine_tensor *fixture_f32(struct fixture *fixture, uint64_t ne0, uint64_t ne1, uint64_t ne2,
                                  const float *data);
struct engine_tensor *fixture_i32(struct fixture *fixture, uint64_t ne0, uint64_t ne1, const int32_t *data);
/* The same tensor with a gap of `gap` bytes behind each row (a view of a larger buffer, filled with NaNs). */
struct engine_tensor *fixture_strided(struct fixture *fixture, uint64_t ne0, uint64_t ne1, uint64_t ne2,
                                      uint64_t gap, const float *data);
/* A weight from data as it is in files; `data` is kept by the caller until the fixture closes. */
struct engine_tensor *fixture_weight(struct fixture *fixture, uint32_t type, uint64_t k, uint64_t rows,
                                     uint32_t uses, bool data_is_kept, const void *data);

/* Whether the backend says that it supports the operation, the handles hidden from it as they are while
 * planning. `args` is the operation's struct. */
bool fixture_supports(struct fixture *fixture, uint32_t op, const void *args);
/* Asserts support, enqueues and waits. */
void fixture_run(struct fixture *fixture, uint32_t op, const void *args);
/* Only enqueues; the status. */
int fixture_enqueue(struct fixture *fixture, uint32_t op, const void *args);
/* The elements of an F32 tensor, dense, in new memory. */
float *fixture_read(struct fixture *fixture, const struct engine_tensor *tensor);

/* ---- Numbers --------------------------------------------------------------------------------------- */

/* Bytes of a dense row of n elements. */
uint64_t type_bytes(uint32_t type, uint64_t n);
/* Repeatable random numbers: uniform in 0 … 2^32-1; roughly normal with deviation 1. */
uint32_t random_bits(uint64_t *seed);
float random_normal(uint64_t *seed);
float *random_floats(uint64_t *seed, size_t n);
/* Random weights as in files, in new memory: rows of k elements of a type. Values are of the order of 1. */
void *random_weight(uint64_t *seed, uint32_t type, uint64_t k, uint64_t rows);
/* What such weights (or cache rows) mean: n elements, in new memory. */
double *weight_values(uint32_t type, const void *data, size_t n);
double half_value(uint16_t half);
/* The nearest float16. */
uint16_t half_of(double value);

#endif
