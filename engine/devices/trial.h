/* trial.h: how long products take on a device. */
#ifndef ENGINE_DEVICES_TRIAL_H
#define ENGINE_DEVICES_TRIAL_H

#include "devices/open.h"

/* A product with weights [k, rows], or with two such matrices, one of which is the gate. */
struct trial_matrix {
    uint64_t k, rows;
    bool has_gate;
};

/* Products with weights of one type, one after the other: with each matrix in turn, all in memory of their
 * own; `columns` of the input. */
struct trial_chain {
    uint32_t type;
    uint64_t columns;
    struct trial_matrix *matrices; /* [n] */
    size_t n;
};

enum { TRIAL_ROUNDS = 15 };

/* Measures in rounds of one or more chains, of `least` seconds at least. *fastest, *typical: seconds that a
 * chain takes in the fastest of 5 rounds, because other programs may use the machine during some, and in the
 * median of TRIAL_ROUNDS, or of those that some seconds suffice for; one of them may be NULL.
 * ENGINE_ERROR_MEMORY: there is too little; ENGINE_ERROR_UNSUPPORTED: no such product. */
int trial_run(const struct open_device *device, const struct trial_chain *chain, double least,
              double *fastest, double *typical);
/* Bytes of the weights of a product. */
uint64_t trial_bytes(uint32_t type, const struct trial_matrix *matrix);

#endif
