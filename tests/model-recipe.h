/* model-recipe.h: small models written down as lines, for tests that change a word of them and for fuzzing:
 *
 *   family NAME                    general.architecture; also the prefix of keys
 *   key NAME TYPE VALUE...         u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool str; with [] an array:
 *                                  "u32[] 2 2"
 *   tensor NAME TYPE NE... [= X]   of F32, F16 or BF16: random values, or all of them X; of other types:
 *                                  random bytes.
 *                                  "blk.*." means the first two layers
 *
 * tests/fuzz/models/ has one of each unlike family. Keys that begin with "general." or "tokenizer." get no
 * prefix. Other lines are ignored. */
#ifndef TESTS_MODEL_RECIPE_H
#define TESTS_MODEL_RECIPE_H

#include <stddef.h>
#include <stdint.h>

/* The GGUF file of any text, in new memory. Tensors of more than 1 MiB are listed, and have no data. */
uint8_t *model_recipe_gguf(const char *text, size_t length, size_t *size);

#endif
