/* activations.h: the list of activations, by the names of plugin-api.h and of the kernels' functions. */
#ifndef CPU_ACTIVATIONS_H
#define CPU_ACTIVATIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "plugin-api.h"

/* X(NAME, function of x, function of the factor): those that can follow a matrix product; all of them. */
#define PLAIN_ACTIVATIONS(X)                                                                                 \
    X(NONE, identity, identity)                                                                              \
    X(SILU, silu, identity)                                                                                  \
    X(GELU_ERF, gelu_erf, identity)                                                                          \
    X(GELU_TANH, gelu_tanh, identity)                                                                        \
    X(RELU, relu, identity)                                                                                  \
    X(RELU_SQUARED, relu_squared, identity)                                                                  \
    X(SIGMOID, sigmoid, identity)                                                                            \
    X(TANH, tanh, identity)                                                                                  \
    X(SOFTPLUS, softplus, identity)
#define ACTIVATIONS(X)                                                                                       \
    PLAIN_ACTIVATIONS(X)                                                                                     \
    X(CLAMP, clamp, identity)                                                                                \
    X(SOFTCAP, softcap, identity)                                                                            \
    X(SWIGLU_CLAMPED, swiglu_clamped, one_and_clamped)                                                       \
    X(EXP, exp_of, identity)                                                                                 \
    X(SILU_CLAMPED, silu_clamped, clamp)                                                                     \
    X(XIELU, xielu, identity)

static inline bool activation_is_known(uint32_t activation)
{
    switch (activation) {
#define X(NAME, function, of_factor) case ENGINE_ACTIVATION_##NAME:
        ACTIVATIONS(X)
#undef X
        return true;
    default: return false;
    }
}

/* Known, and can follow a matrix product. */
static inline bool activation_is_plain(uint32_t activation)
{
    switch (activation) {
#define X(NAME, function, of_factor) case ENGINE_ACTIVATION_##NAME:
        PLAIN_ACTIVATIONS(X)
#undef X
        return true;
    default: return false;
    }
}

#endif
