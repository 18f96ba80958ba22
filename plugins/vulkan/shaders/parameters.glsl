// parameters.glsl: what each operation pushes to its shader, 32 words at most. The shaders include it, and
// builder.h does as C. Offsets and strides are in words.
#ifndef PARAMETERS
#define PARAMETERS

struct attention_parameters {
    uint n_heads, n_kv_heads, n_tokens, block_size, table_stride;
    uint q_offset, q_stride1, q_stride2;
    uint k_offset, v_offset, table_offset, sequences_offset, positions_offset;
    uint output_offset, output_stride1, output_stride2;
    float scale;
    uint window, chunk;
    float softcap;
    uint last_step; // from a token's position to the last one that it sees; 0: they are the same
    // from one value of the cache to the next: words, halves of words or bytes, as the type has it
    uint v_step;
    uint n_biases; // in each direction
    uint splits;     // workgroups that share the positions
    uint block_rows; // of a workgroup of attention-rows.comp
};

struct attention_join_parameters {
    uint n_heads, n_tokens, positions_offset;
    uint output_offset, output_stride1, output_stride2;
    uint splits;
};

struct cache_write_parameters {
    uint head_dim, n_heads, n_tokens, block_size;
    uint input_offset, input_stride1, input_stride2;
    uint slots_offset, cache_offset;
};

struct conv_parameters {
    uint n, n_tokens, taps;
    uint input_offset, input_stride1, input_stride2;
    uint output_offset, output_stride1, output_stride2;
    uint positions_offset, states_offset, state_offset;
};

struct get_rows_parameters {
    uint n, count;
    uint first_row, n_rows; // of the part that is bound
    uint source_offset, source_stride; // of an activation
    uint rows_offset;
    uint output_offset, output_stride;
};

struct group_parameters {
    uint n, n_tokens, n_used;
    uint experts_offset, experts_stride;
    uint tile_columns, n_tiles;
};

struct matmul_parameters {
    uint k, rows, tokens;
    uint first_row; // of the part of the weight that is bound
    uint input_offset, input_stride;
    uint output_offset, output_stride;
    uint residual_offset, residual_stride;
    float scale;
    uint n_slots;
    uint head_tiles;    // BY_HEAD: tiles of columns of a head
    uint matrix_panels; // of one matrix
    uint first_panel, n_panels; // of several matrices, that are bound
    uint input_slots, output_slots;  // from one slot of a token to the next; the strides are those of tokens
    uint choice_offset, choice_step; // BY_COLUMN: of the experts; BY_GROUP: of tiles, the list of columns
#if defined(ADDRESS) || defined(PARAMETERS_OF_C)
    uint64_t weight, weight_scales, gate, gate_scales, inputs; // where the bindings begin
#endif
};

struct mix_parameters {
    uint rows, n_tokens, n_used;
    uint mix_offset, mix_stride;
    uint output_offset, output_stride;
    uint residual_offset, residual_stride;
};

struct norm_parameters {
    uint n, n1, n2;
    uint input_offset, input_stride1, input_stride2;
    uint output_offset, output_stride1, output_stride2;
    float epsilon;
};

struct rope_parameters {
    uint head_dim, n_heads, n_tokens, n_dims;
    uint input_offset, input_stride1, input_stride2;
    uint output_offset, output_stride1, output_stride2;
    uint positions_offset;
    float magnitude; // that pairs are multiplied by
};

struct round_parameters {
    uint n_chunks, n1, n2; // of 32 values; columns
    uint input_offset, input_stride1, input_stride2;
};

struct route_parameters {
    uint n, n_tokens, n_used;
    uint n_groups, n_groups_used;
    uint logits_offset, logits_stride;
    uint ids_offset, ids_stride, weights_offset, weights_stride;
    float least, scale;
};

struct rows_parameters {
    uint n, n1, n2; // elements of a row; rows; planes
    uint a_offset, a_stride1, a_stride2;
    uint output_offset, output_stride1, output_stride2;
    uint b_offset, b_stride0, b_stride1, b_stride2; // strides of 0 repeat a value, a row
    uint n_a; // elements of a row of a
    float limit, alpha;
};

struct scan_parameters {
    uint n_tokens, q_offset, q_stride1, q_stride2;
    uint k_offset, k_stride1, k_stride2;
    uint v_offset, v_stride1, v_stride2;
    uint output_offset, output_stride1, output_stride2;
    uint positions_offset, states_offset, state_offset;
    float scale;
    uint decay_offset, decay_stride1, decay_stride2;
    uint a_offset, a_stride1, a_stride2;
    uint b_offset, b_stride1, b_stride2;
    uint erase_offset, erase_stride1, erase_stride2;
};

#endif
