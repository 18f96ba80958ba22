/* operation-cases.h: the sizes and weight types with which the operations of each of our backends are
 * tested. */
#ifndef TESTS_OPERATION_CASES_H
#define TESTS_OPERATION_CASES_H

#include "backend-fixture.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const uint32_t weight_types[] = {
    ENGINE_TYPE_F32,  ENGINE_TYPE_F16,    ENGINE_TYPE_BF16,   ENGINE_TYPE_Q8_0,
    ENGINE_TYPE_Q4_0, ENGINE_TYPE_Q4_1,   ENGINE_TYPE_Q5_0,   ENGINE_TYPE_Q5_1,
    ENGINE_TYPE_Q2_K, ENGINE_TYPE_Q3_K,   ENGINE_TYPE_Q4_K,   ENGINE_TYPE_Q5_K,
    ENGINE_TYPE_Q6_K, ENGINE_TYPE_IQ4_NL, ENGINE_TYPE_IQ4_XS, ENGINE_TYPE_MXFP4};

static const struct rope_case rope_cases[] = {
    {64, 3, 5, 64, ENGINE_ROPE_ADJACENT, false, true, 10000, 0, 100, .gaps = {0, 0, 0}},
    {64, 3, 40, 64, ENGINE_ROPE_HALVES, true, false, 500000, 0, 200000, .gaps = {8, 0, 0}},
    {8, 2, 33, 8, ENGINE_ROPE_ADJACENT, false, false, 10000, 0.25f, 5000, .gaps = {0, 0, 0}},
    {80, 1, 70, 22, ENGINE_ROPE_HALVES, false, true, 10000, 0, 1000000, .gaps = {4, 0, 0}},
    {80, 2, 1, 22, ENGINE_ROPE_ADJACENT, true, false, 1e6f, 2, 1000, .gaps = {0, 0, 0}},
    {2, 1, 3, 2, ENGINE_ROPE_HALVES, false, false, 10000, 0, 10, .gaps = {0, 0, 0}},
    {130, 5, 9, 130, ENGINE_ROPE_HALVES, false, true, 10000, 0, 2047, .gaps = {0, 0, 0}},
    {130, 5, 9, 102, ENGINE_ROPE_ADJACENT, false, true, 10000, 0, 2047, .gaps = {0, 0, 0}},
};

/* Contexts of many blocks, windows shorter than they are, tokens left out. */
static const struct attention_case long_attention_cases[] = {
    {ENGINE_TYPE_F16, ENGINE_TYPE_F16, 32, 4, 2, 32, 2, 900, 1, .window = 0},
    {ENGINE_TYPE_F32, ENGINE_TYPE_F32, 32, 4, 2, 32, 2, 700, 90, .leave_out = true},
    {ENGINE_TYPE_F32, ENGINE_TYPE_F32, 32, 4, 2, 32, 1, 800, 2, .window = 300},
    {ENGINE_TYPE_F32, ENGINE_TYPE_F16, 32, 4, 1, 32, 2, 600, 100, .window = 17},
    {ENGINE_TYPE_F32, ENGINE_TYPE_F32, 16, 2, 2, 8, 3, 30, 2, .window = 1, .leave_out = true},
    {ENGINE_TYPE_F32, ENGINE_TYPE_F32, 16, 2, 2, 256, 1, 513, 513, .window = 256},
};

#endif
