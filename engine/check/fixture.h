/* fixture.h: a small host for one device of a backend plugin: makes tensors and weights, runs operations,
 * reads results back, compares. What goes wrong ends the case that is under way: `stop` doesn't return. The
 * conformance suite jumps back to its list of cases, tests/ fail the test. */
#ifndef ENGINE_CHECK_FIXTURE_H
#define ENGINE_CHECK_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "check/reference.h"
#include "plugin-api.h"

struct fixture_owned; /* what is destroyed by fixture_clear */

/* How far results were from the reference. */
struct measure {
    double error; /* the largest difference from what was expected, of the size of the whole result */
    double share; /* the largest difference, of what is allowed there: 1 is just right */
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
    void *library; /* of those who have loaded the plugin here */
    struct fixture_owned *owned;
    struct measure measure;
    /* What the case that is under way does, for messages, and the operation with its operands; "": nothing is
     * said. */
    char tried[400], operands[620];
    /* Not NULL: called when these are known, before the plugin is called. */
    void (*note)(struct fixture *fixture);
    void *owner;    /* for `stop` */
    uint64_t lead;  /* where tensors begin in their buffers: 0 or a multiple of the device's alignment */
    uint64_t views; /* a seed; not 0: half of the tensors begin some multiple of 4 bytes later */
    /* Not NULL: called by fixture_run before it enqueues. */
    void (*before)(struct fixture *fixture, uint32_t op, const void *args);
    __attribute__((noreturn)) void (*stop)(struct fixture *fixture, enum fixture_end end,
                                           const char *message);
};

/* ---- The host that the plugin sees ---- */

/* Services for a plugin under test. Settings: none. */
const struct engine_host *check_host(void);
/* The folder that it offers for caches; NULL, as at first: none. The text is kept by the caller. */
void check_host_cache(const char *folder);
/* The last message that this thread got through host->fail, "" if there was none since the last call. */
const char *check_host_message(void);

/* ---- Ending ---- */

/* Says what the case does, until fixture_clear: shapes, types, options. */
void fixture_describe(struct fixture *fixture, const char *format, ...) ENGINE_PRINTF(2, 3);
/* The same, behind what has been said. */
void fixture_describe_more(struct fixture *fixture, const char *format, ...) ENGINE_PRINTF(2, 3);
/* Says which operation, and its operands' types, shapes, strides and offsets. */
void fixture_describe_operands(struct fixture *fixture, uint32_t op, const void *args);
/* Stops with a message of printf's kind. */
_Noreturn void fixture_fail(struct fixture *fixture, const char *format, ...) ENGINE_PRINTF(2, 3);
/* Stops if the status isn't ENGINE_OK; `what` was done. */
void fixture_must(struct fixture *fixture, int status, const char *what);

/* ---- What belongs to the fixture ---- */

/* Keeps memory from malloc until fixture_clear; stops if it is NULL. Returns it. */
void *fixture_hold(struct fixture *fixture, void *memory);
/* Room for n elements of a size, zero, held likewise. */
void *fixture_room(struct fixture *fixture, size_t n, size_t size);
/* Gives held memory to the caller. */
void *fixture_release(struct fixture *fixture, void *memory);
/* Destroys all tensors, weights and memory that were made with the fixture. */
void fixture_clear(struct fixture *fixture);

/* A tensor [ne0, ne1, ne2, ne3] in a buffer of its own, dense, filled with `data` (or zeros). It belongs to
 * the fixture, as all that follows. Type: F32, I32, F16 or Q8_0. */
struct engine_tensor *fixture_tensor(struct fixture *fixture, uint32_t type, const uint64_t ne[4],
                                     const void *data);
struct engine_tensor *fixture_f32(struct fixture *fixture, uint64_t ne0, uint64_t ne1, uint64_t ne2,
                                  const float *data);
struct engine_tensor *fixture_i32(struct fixture *fixture, uint64_t ne0, uint64_t ne1, const int32_t *data);
/* Bytes behind each row, each plane of ne1 rows, and each ne2 planes, that aren't part of a tensor (a view of
 * a larger one): they are filled with NaNs, and numbers that are out of range. */
struct fixture_gaps {
    uint32_t row, plane, volume;
};
struct engine_tensor *fixture_view(struct fixture *fixture, uint32_t type, const uint64_t ne[4],
                                   const struct fixture_gaps *gaps, const void *data);
/* One for results: filled with NaNs (I32: with -1), none of which must be left. */
struct engine_tensor *fixture_output(struct fixture *fixture, uint32_t type, const uint64_t ne[4],
                                     const struct fixture_gaps *gaps);
/* A view of float32; without data as of fixture_output. */
struct engine_tensor *fixture_strided(struct fixture *fixture, uint64_t ne0, uint64_t ne1, uint64_t ne2,
                                      const struct fixture_gaps *gaps, const float *data);
/* A weight from data as it is in files; `data` is kept by the caller until the fixture is cleared. Unclaimed
 * if the plugin's weight_size says so. */
struct engine_tensor *fixture_weight(struct fixture *fixture, uint32_t type, uint64_t k, uint64_t rows,
                                     uint32_t uses, bool data_is_kept, const void *data);
/* The same of n matrices, [k, rows, n], for ENGINE_WEIGHT_MATRICES. */
struct engine_tensor *fixture_matrices(struct fixture *fixture, uint32_t type, uint64_t k, uint64_t rows,
                                       uint64_t n, bool data_is_kept, const void *data);

/* ---- Operations ---- */

/* Where the pointer to operand `i` of an operation's struct is, in the struct's order; NULL: there are fewer,
 * as far as the struct reaches. */
const struct engine_tensor **fixture_operand(uint32_t op, void *args, size_t i);
/* Whether the backend says that it supports the operation, the handles hidden from it as they are while
 * planning. `args` is the operation's struct. */
bool fixture_supports(struct fixture *fixture, uint32_t op, const void *args);
/* What the operation takes beyond its operands, asked likewise; 0 where the backend doesn't say. Stops if it
 * can't tell, or tells something else the second time. */
uint64_t fixture_op_memory(struct fixture *fixture, uint32_t op, const void *args);
/* The bytes of all tensors and weights that belong to the fixture, as a limit counts them. */
uint64_t fixture_memory(const struct fixture *fixture);
/* A buffer that nothing lies in; it belongs to the fixture. */
void fixture_fill(struct fixture *fixture, uint64_t size);
/* Enqueues and waits. Unclaimed if the backend doesn't support it. What is only read must then be as it was
 * made; what has been an output since isn't looked at. */
void fixture_run(struct fixture *fixture, uint32_t op, const void *args);
/* Only enqueues; the status. */
int fixture_enqueue(struct fixture *fixture, uint32_t op, const void *args);
/* The elements of an F32 tensor, dense, in new memory. Fails if bytes around them, as the tensor was made,
 * have changed. */
float *fixture_read(struct fixture *fixture, const struct engine_tensor *tensor);
/* The rows of a tensor of any type, likewise. */
uint8_t *fixture_read_rows(struct fixture *fixture, const struct engine_tensor *tensor);

/* Measures n values against what they should be; stops at the first that is farther off than it may be, and
 * at what is no number. */
void fixture_compare(struct fixture *fixture, const char *what, const float *got,
                     const struct expected *expected, size_t n);

#endif
