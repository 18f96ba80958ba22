/* table.h: template of the table of kernels; included after the other templates. Expects KERNELS, the table's
 * name, and KERNELS_NAME, the instruction set's. */
const struct kernels KERNELS = {
    .name = KERNELS_NAME,
    .f32_tile_tokens = F32_TILE_TOKENS,
    .int8_tile_tokens = INT8_TILE_TOKENS,
    .nibble_tile_tokens = NIBBLE_TILE_TOKENS,
    .int8_few_tokens = INT8_FEW_TOKENS,
    .int8_panels_at_once = INT8_PANELS_AT_ONCE,
    .unpack = {[WEIGHT_F32] = scalar_unpack_f32,
               [WEIGHT_F16] = unpack_f16,
               [WEIGHT_BF16] = unpack_bf16,
#define X(NAME, name) [WEIGHT_##NAME] = unpack_##name,
               PACKED_TYPES(X)
#undef X
#define X(NAME, name) [WEIGHT_##NAME] = scalar_unpack_int8,
                   RAW_TYPES(X)
#undef X
#define X(NAME, name) [WEIGHT_##NAME##_EXACT] = unpack_exact_##name,
                       EXACT_TYPES(X)
#undef X
    },
    .few = {[WEIGHT_F32] = few_f32,
            [WEIGHT_F16] = few_f16,
            [WEIGHT_BF16] = few_bf16,
#define X(NAME, name) [WEIGHT_##NAME] = few_##name,
            PACKED_TYPES(X)
#undef X
#define X(NAME, name) [WEIGHT_##NAME##_EXACT] = few_exact_##name,
                EXACT_TYPES(X)
#undef X
    },
    .f32_tile = f32_tile,
    .int8_tiles = int8_tiles,
    .quantize = {[ROUND_FITTED] = quantize_fitted, [ROUND_Q8_0] = quantize_q8_0},
    .add = add,
    .mul = mul,
    .add_number = add_number,
    .mul_number = mul_number,
    .activate = activate,
    .norm = norm,
    .rope_adjacent = rope_adjacent,
    .rope_halves = rope_halves,
    .f32_to_f16 = row_f32_to_f16,
    .f32_to_q8_0 = scalar_f32_to_q8_0,
    .f32_rows = f32_rows,
    .f16_rows = f16_rows,
    .q8_0_rows = q8_0_rows,
    .attention_scores = attention_scores,
    .attention_scores_f16 = attention_scores_f16,
    .subtract_slope = subtract_slope,
    .sum_positive = sum_positive,
    .softmax = softmax,
    .attention_values = attention_values,
    .attention_values_f16 = attention_values_f16,
    .mix = mix,
    .weighted_rows = weighted_rows,
    .scan = scan,
    .exponentials = exponentials,
    .scale_add = scale_add,
    .sum_rows = sum_rows,
};
