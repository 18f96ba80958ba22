/* fixture.h: a small host for one device of a backend plugin: makes tensors and weights, runs operations,
 * reads results back, compares. Any failure ends the current case: `stop` doesn't return. In the conformance
 * suite it jumps back to the list of cases; in tests/ it fails the test. */
#ifndef ENGINE_CHECK_FIXTURE_H
#define ENGINE_CHECK_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "check/reference.h"
#include "plugin-api.h"

struct fixture_owned; /* what fixture_clear destroys */

/* How far results were from the reference. */
struct measure {
    double error; /* the largest difference, relative to the size of the whole result */
    double share; /* the largest difference, relative to its tolerance: 1 just passes */
    uint64_t n_values;
};

enum fixture_end {
    FIXTURE_FAILED,
    FIXTURE_UNCLAIMED /* the plugin says that it doesn't do this */
};

struct fixture {
    const struct engine_plugin *plugin;
    const struct engine_backend *api;
    struct engine_device *device;
    struct engine_stream *stream;
    void *library; /* the plugin's, if it was loaded here */
    struct fixture_owned *owned;
    struct measure measure;
    /* What the current case does, and the operation with its operands, for messages; "": not described. */
    char tried[400], operands[620];
    /* If not NULL: called once these are known, before the plugin is called. */
    void (*note)(struct fixture *fixture);
    void *owner;    /* for `stop` */
    uint64_t lead;  /* where tensors begin in their buffers: 0 or a multiple of the device's alignment */
    uint64_t views; /* a seed; not 0: half of the tensors begin some multiple of 4 bytes later */
    /* If not NULL: called by fixture_run before it enqueues. */
    void (*before)(struct fixture *fixture, uint32_t op, const void *args);
    __attribute__((noreturn)) void (*stop)(struct fixture *fixture, enum fixture_end end,
                                           const char *message);
};

/* ---- The host that the plugin sees ---- */

/* Services for a plugin under test. There are no settings. */
const struct engine_host *check_host(void);
/* Sets the folder offered for caches; NULL (the initial value): none. The caller keeps the text. */
void check_host_cache(const char *folder);
/* The last message passed to host->fail in this thread; "" if there was none since the last call. */
const char *check_host_message(void);

/* ---- Ending ---- */

/* Describes the case, until fixture_clear: shapes, types, options. */
void fixture_describe(struct fixture *fixture, const char *format, ...) ENGINE_PRINTF(2, 3);
/* Appends to that description. */
void fixture_describe_more(struct fixture *fixture, const char *format, ...) ENGINE_PRINTF(2, 3);
/* Describes the operation, and its operands' types, shapes, strides and offsets. */
void fixture_describe_operands(struct fixture *fixture, uint32_t op, const void *args);
/* Stops with a printf-style message. */
_Noreturn void fixture_fail(struct fixture *fixture, const char *format, ...) ENGINE_PRINTF(2, 3);
/* Stops if the status isn't ENGINE_OK. `what`: what was done. */
void fixture_must(struct fixture *fixture, int status, const char *what);

/* ---- What belongs to the fixture ---- */

/* Keeps memory from malloc until fixture_clear; stops if it is NULL. Returns it. */
void *fixture_hold(struct fixture *fixture, void *memory);
/* Zeroed room for n elements of `size` bytes, kept in the same way. */
void *fixture_room(struct fixture *fixture, size_t n, size_t size);
/* Gives kept memory to the caller. */
void *fixture_release(struct fixture *fixture, void *memory);
/* Destroys all tensors, weights and memory that were made with the fixture. */
void fixture_clear(struct fixture *fixture);

/* A tensor [ne0, ne1, ne2, ne3] in a buffer of its own, dense, filled with `data` (or zeros). It belongs to
 * the fixture, like all the following. Type: F32, I32, F16 or Q8_0. */
struct engine_tensor *fixture_tensor(struct fixture *fixture, uint32_t type, const uint64_t ne[4],
                                     const void *data);
struct engine_tensor *fixture_f32(struct fixture *fixture, uint64_t ne0, uint64_t ne1, uint64_t ne2,
                                  const float *data);
struct engine_tensor *fixture_i32(struct fixture *fixture, uint64_t ne0, uint64_t ne1, const int32_t *data);
/* Bytes after each row, each plane of ne1 rows, and each ne2 planes that aren't part of a tensor (a view of a
 * larger one). They are filled with NaNs and out-of-range numbers. */
struct fixture_gaps {
    uint32_t row, plane, volume;
};
struct engine_tensor *fixture_view(struct fixture *fixture, uint32_t type, const uint64_t ne[4],
                                   const struct fixture_gaps *gaps, const void *data);
/* A tensor for results: filled with NaNs (I32: with -1), none of which may be left. */
struct engine_tensor *fixture_output(struct fixture *fixture, uint32_t type, const uint64_t ne[4],
                                     const struct fixture_gaps *gaps);
/* A float32 view; without data, like fixture_output. */
struct engine_tensor *fixture_strided(struct fixture *fixture, uint64_t ne0, uint64_t ne1, uint64_t ne2,
                                      const struct fixture_gaps *gaps, const float *data);
/* A weight from data as in files; the caller keeps `data` until the fixture is cleared. Unclaimed if the
 * plugin's weight_size says so. */
struct engine_tensor *fixture_weight(struct fixture *fixture, uint32_t type, uint64_t k, uint64_t rows,
                                     uint32_t uses, bool data_is_kept, const void *data);
/* The same with n matrices, [k, rows, n], for ENGINE_WEIGHT_MATRICES. */
struct engine_tensor *fixture_matrices(struct fixture *fixture, uint32_t type, uint64_t k, uint64_t rows,
                                       uint64_t n, bool data_is_kept, const void *data);
/* Unclaimed if the plugin's weight_size says so of such matrices, [k, rows] if n is 0: asked before a case
 * makes data for them. */
void fixture_claim_matrices(struct fixture *fixture, uint32_t type, uint64_t k, uint64_t rows, uint64_t n);

/* ---- Operations ---- */

/* The address of the pointer to operand `i` in an operation's struct, in the struct's order. NULL: there are
 * fewer operands within its struct_size. */
const struct engine_tensor **fixture_operand(uint32_t op, void *args, size_t i);
/* Whether the backend says that it supports the operation. Handles are hidden from it, as in planning. `args`
 * is the operation's struct. */
bool fixture_supports(struct fixture *fixture, uint32_t op, const void *args);
/* The memory that the operation takes beyond its operands, asked in the same way; 0 if the backend has no
 * op_memory. Stops if that fails, or gives another answer the second time. */
uint64_t fixture_op_memory(struct fixture *fixture, uint32_t op, const void *args);
/* The bytes of all tensors and weights that belong to the fixture, as a limit counts them. */
uint64_t fixture_memory(const struct fixture *fixture);
/* Makes an unused buffer; it belongs to the fixture. */
void fixture_fill(struct fixture *fixture, uint64_t size);
/* Enqueues and waits. Unclaimed if the backend doesn't support it. Operands that are only read must then be
 * unchanged since they were made; those that were an output meanwhile are not checked. */
void fixture_run(struct fixture *fixture, uint32_t op, const void *args);
/* Only enqueues; returns the status. */
int fixture_enqueue(struct fixture *fixture, uint32_t op, const void *args);
/* The elements of an F32 tensor, dense, in new memory. Fails if the bytes around them have changed since the
 * tensor was made. */
float *fixture_read(struct fixture *fixture, const struct engine_tensor *tensor);
/* The rows of a tensor of any type, in the same way. */
uint8_t *fixture_read_rows(struct fixture *fixture, const struct engine_tensor *tensor);

/* Compares n values with the expected ones; stops at the first that is out of tolerance or not a number. */
void fixture_compare(struct fixture *fixture, const char *what, const float *got,
                     const struct expected *expected, size_t n);

#endif
