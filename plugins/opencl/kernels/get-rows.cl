// get-rows.cl: ENGINE_OP_GET_ROWS from a weight of TYPE; writes only rows of the current part. A work-item
// fetches 32 values of a row; if rows are in vectors, it fetches those of 16 rows and keeps one.

struct get_rows_parameters {
    uint n, count;
    uint first_row, end_row; // of the part
    uint rows_offset;
    uint output_offset, output_stride; // in words
};

kernel void get_rows(global const uint *weight, global const int *rows, global float *output,
                     const struct get_rows_parameters p)
{
    uint n_chunks = (p.n + 31) / 32, total = n_chunks * p.count;
    for (uint i = get_global_id(0); i < total; i += get_global_size(0)) {
        uint number = i / n_chunks, chunk = i - number * n_chunks, wanted = rows[p.rows_offset + number];
        if (wanted < p.first_row || wanted >= p.end_row) continue;
        uint row = wanted - p.first_row, in_panel = row % PANEL;
        global const uint *panel = weight + (size_t)(row / PANEL) * ((p.n + BLOCK - 1) / BLOCK) * (BLOCK_WORDS * PANEL);
        F values[32];
        unpack_values(panel + in_panel / LANES * LANES, chunk, values);
        global float *to = output + p.output_offset + (size_t)number * p.output_stride + chunk * 32;
        for (uint j = 0; j < 32 && chunk * 32 + j < p.n; j++) to[j] = ((float *)&values[j])[in_panel % LANES];
    }
}
