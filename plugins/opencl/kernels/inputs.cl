// inputs.cl: puts the columns of a matmul into the tiles that matmul.cl describes. A work-item takes 32
// values.

struct inputs_parameters {
    uint k, n_places, n_chunks, tile;    // tile: columns of one
    uint n_slots;                        // a column is number slot + token * n_slots
    uint input_offset, stride1, stride2; // in words: from slot to slot, from token to token
    uint about_offset;                   // in units of 16 bytes
    uint is_sorted, columns_offset;      // which column is where, see experts.cl
};

#define NONE 0xffffffffu

// The column for a place.
uint column_at(const struct inputs_parameters *p, global const uint *columns, uint place)
{
    return p->is_sorted ? columns[p->columns_offset + place] : place;
}

// The source of a chunk.
global const float *chunk_of(const struct inputs_parameters *p, global const float *input, uint column, uint chunk)
{
    uint token = column / p->n_slots, slot = column - token * p->n_slots;
    return input + p->input_offset + (size_t)slot * p->stride1 + (size_t)token * p->stride2 + chunk * 32;
}

// Its destination, in units of chunks.
size_t target_of(const struct inputs_parameters *p, uint place, uint chunk)
{
    return ((size_t)(place / p->tile) * p->n_chunks + chunk) * p->tile + place % p->tile;
}

kernel void tile_floats(global const float *input, global const uint *columns, global float *tiles,
                        const struct inputs_parameters given)
{
    const struct inputs_parameters p = given;
    uint total = p.n_chunks * p.n_places;
    for (uint i = get_global_id(0); i < total; i += get_global_size(0)) {
        uint place = i / p.n_chunks, chunk = i - place * p.n_chunks, column = column_at(&p, columns, place);
        if (column == NONE) continue;
        global const float *from = chunk_of(&p, input, column, chunk);
        global float *to = tiles + target_of(&p, place, chunk) * 32;
        if (chunk * 32 + 32 <= p.k) {
            vstore16(vload16(0, from), 0, to);
            vstore16(vload16(1, from), 1, to);
        } else {
            for (uint j = 0; j < 32; j++) to[j] = chunk * 32 + j < p.k ? from[j] : 0;
        }
    }
}

// Smaller inputs count as zero: their reciprocals would overflow.
#define LEAST 1e-30f

float largest(float16 x)
{
    float8 a = fmax(x.lo, x.hi);
    float4 b = fmax(a.lo, a.hi);
    float2 c = fmax(b.lo, b.hi);
    return fmax(c.x, c.y);
}

float total(float16 x)
{
    float8 a = x.lo + x.hi;
    float4 b = a.lo + a.hi;
    return (b.x + b.y) + (b.z + b.w);
}

// 1.5 * 2^23: added to a small number it leaves the nearest integer in the last bits
#define ROUNDER 12582912.0f

float16 rounded(float16 x)
{
    return (x + ROUNDER) - ROUNDER;
}

char16 bytes(float16 x)
{
    return as_char16(convert_uchar16(as_uint16(x + ROUNDER) & 255));
}

// x = scale * byte, rounded to the nearest. Of several scales, uses the one with the least error: the largest
// value becomes 127 or one of the TRIES - 1 numbers below.
#define TRIES 6
kernel void tile_bytes(global const float *input, global const uint *columns, global char *tiles,
                       global int4 *about, const struct inputs_parameters given)
{
    const struct inputs_parameters p = given;
    uint total_chunks = p.n_chunks * p.n_places;
    for (uint i = get_global_id(0); i < total_chunks; i += get_global_size(0)) {
        uint place = i / p.n_chunks, chunk = i - place * p.n_chunks, column = column_at(&p, columns, place);
        if (column == NONE) continue;
        global const float *from = chunk_of(&p, input, column, chunk);
        size_t target = target_of(&p, place, chunk);
        float16 x = vload16(0, from), y = vload16(1, from);
        float most = largest(fmax(fabs(x), fabs(y))), least_error = INFINITY, inverse = 0, scale = 0;
        for (uint n = 0; n < TRIES && most > LEAST; n++) {
            float top = 127.0f - n, up = top / most, down = most / top;
            float16 error_x = x - rounded(x * up) * down, error_y = y - rounded(y * up) * down;
            float error = total(error_x * error_x + error_y * error_y);
            if (error >= least_error) continue;
            least_error = error;
            inverse = up;
            scale = down;
        }
        vstore16(bytes(x * inverse), 0, tiles + target * 32);
        vstore16(bytes(y * inverse), 1, tiles + target * 32);
        about[p.about_offset + target] = (int4)(as_int(scale), (int)total(rounded(x * inverse)),
                                                (int)total(rounded(y * inverse)), 0);
    }
}
