// experts.cl: a mixture of experts except for its products (matmul.cl): ENGINE_OP_ROUTE, sorting columns by
// their matrix, and the sum over a token's experts. Groups have GROUP work-items, with VECTORS one.

#ifdef VECTORS
#define ITEMS 1
#define LANE 0
#define SHARED
#define WAIT(fence)
#else
#define ITEMS GROUP
#define LANE get_local_id(0)
#define SHARED local
#define WAIT(fence) barrier(fence)
#endif

// ---- Route ------------------------------------------------------------------------------------------------

#define MAX_EXPERTS 512
#define SIGMOID 1
#define TOP2 1

struct route_parameters {
    uint n_experts, n_used, n_tokens;
    uint logits_offset, logits_stride, ids_offset, ids_stride, weights_offset, weights_stride; // in words
    uint has_bias, function, n_groups, n_groups_used, group_score, normalise;
    float floor, scale;
};

// A number with the order of `value`, and more than 0, which is the key of values not to be taken. NaN comes
// last, so that for any logits the requested number of different experts is taken.
uint key_of(float value)
{
    uint bits = isnan(value) ? as_uint(-INFINITY) : as_uint(value);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// Shared by a group: the best key that each work-item has found, and its place.
struct found {
    uint key, index;
};

// The index of the largest of n keys, of equal ones the first. All work-items call it together.
uint take_largest(SHARED uint *keys, uint n, SHARED struct found *found)
{
    struct found best = {0, 0};
    for (uint i = LANE; i < n; i += ITEMS)
        if (keys[i] > best.key) best = (struct found){keys[i], i};
    found[LANE] = best;
    WAIT(CLK_LOCAL_MEM_FENCE);
    for (uint i = 0; i < ITEMS; i++)
        if (found[i].key > best.key || (found[i].key == best.key && found[i].index < best.index)) best = found[i];
    WAIT(CLK_LOCAL_MEM_FENCE);
    if (LANE == 0) keys[best.index] = 0;
    WAIT(CLK_LOCAL_MEM_FENCE);
    return best.index;
}

float largest_of(float mine, SHARED float *partial)
{
    partial[LANE] = mine;
    WAIT(CLK_LOCAL_MEM_FENCE);
    for (uint i = 0; i < ITEMS; i++) mine = fmax(mine, partial[i]);
    WAIT(CLK_LOCAL_MEM_FENCE);
    return mine;
}

float sum_of(float mine, SHARED float *partial)
{
    float sum = 0;
    partial[LANE] = mine;
    WAIT(CLK_LOCAL_MEM_FENCE);
    for (uint i = 0; i < ITEMS; i++) sum += partial[i];
    WAIT(CLK_LOCAL_MEM_FENCE);
    return sum;
}

// The score of a group of n experts that begin at `first`.
float group_score(const struct route_parameters *p, SHARED const float *scores, global const float *bias, uint first, uint n)
{
    float most = -INFINITY, next = -INFINITY;
    for (uint i = first; i < first + n; i++) {
        float c = scores[i] + (p->has_bias ? bias[i] : 0);
        next = c > most ? most : fmax(next, c);
        most = fmax(most, c);
    }
    return p->group_score == TOP2 ? most + next : most;
}

// A group takes a token.
kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
route(global const float *logits, global const float *bias, global int *ids, global float *weights,
      const struct route_parameters given)
{
    SHARED float scores[MAX_EXPERTS], partial[ITEMS];
    SHARED uint keys[MAX_EXPERTS], group_keys[MAX_EXPERTS];
    SHARED struct found found[ITEMS];
    const struct route_parameters p = given;
    uint token = get_group_id(0), group_size = p.n_groups > 1 ? p.n_experts / p.n_groups : p.n_experts;
    float most = -INFINITY, sum = 0;
    logits += p.logits_offset + (size_t)token * p.logits_stride;
    ids += p.ids_offset + (size_t)token * p.ids_stride;
    weights += p.weights_offset + (size_t)token * p.weights_stride;
    if (p.function == SIGMOID) {
        for (uint i = LANE; i < p.n_experts; i += ITEMS) scores[i] = 1 / (1 + exp(-logits[i]));
    } else {
        for (uint i = LANE; i < p.n_experts; i += ITEMS) most = fmax(most, logits[i]);
        most = largest_of(most, partial);
        for (uint i = LANE; i < p.n_experts; i += ITEMS) {
            scores[i] = exp(logits[i] - most);
            sum += scores[i];
        }
        sum = sum_of(sum, partial);
        for (uint i = LANE; i < p.n_experts; i += ITEMS) scores[i] /= sum;
    }
    for (uint i = LANE; i < p.n_experts; i += ITEMS) keys[i] = key_of(scores[i] + (p.has_bias ? bias[i] : 0));
    WAIT(CLK_LOCAL_MEM_FENCE);
    if (p.n_groups > 1) {
        for (uint i = LANE; i < p.n_groups; i += ITEMS)
            group_keys[i] = key_of(group_score(&p, scores, bias, i * group_size, group_size));
        WAIT(CLK_LOCAL_MEM_FENCE);
        for (uint i = 0; i < p.n_groups_used; i++) take_largest(group_keys, p.n_groups, found);
        for (uint i = LANE; i < p.n_experts; i += ITEMS)
            if (group_keys[i / group_size] != 0) keys[i] = 0;
        WAIT(CLK_LOCAL_MEM_FENCE);
    }
    sum = 0;
    for (uint s = 0; s < p.n_used; s++) {
        uint expert = take_largest(keys, p.n_experts, found);
        sum += scores[expert];
        if (LANE == 0) ids[s] = expert;
    }
    float factor = (p.normalise ? 1 / fmax(sum, p.floor) : 1) * p.scale;
    if (LANE == 0)
        for (uint s = 0; s < p.n_used; s++) weights[s] = scores[ids[s]] * factor;
}

// ---- Columns by matrix ------------------------------------------------------------------------------------

struct sort_parameters {
    uint n_columns, n_slots; // a column is number slot + token * n_slots
    uint n_matrices, n_tiles, tile;
    uint has_ids, ids_offset, ids_stride;
    uint tiles_offset, columns_offset, counts_offset; // in the table, in words
};

#define NONE 0xffffffffu

uint matrix_of(const struct sort_parameters *p, global const uint *ids, uint column)
{
    uint token = column / p->n_slots, slot = column - token * p->n_slots;
    return p->has_ids ? ids[p->ids_offset + token * p->ids_stride + slot] : slot;
}

// Fills the table of a matmul: for each tile its matrix and its number of columns; for each place in a tile
// its column, or NONE. Columns of a matrix are in any order. Runs in one group.
kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
sort_columns(global const uint *ids, global uint *table, const struct sort_parameters given)
{
    SHARED uint partial[ITEMS];
    const struct sort_parameters p = given;
    global uint *tiles = table + p.tiles_offset, *columns = table + p.columns_offset;
    volatile global uint *counts = table + p.counts_offset;
    uint n_tiles = 0; // so far
    for (uint i = LANE; i < p.n_matrices; i += ITEMS) counts[i] = 0;
    for (uint i = LANE; i < p.n_tiles; i += ITEMS) tiles[2 * i] = tiles[2 * i + 1] = 0;
    for (uint i = LANE; i < p.n_tiles * p.tile; i += ITEMS) columns[i] = NONE;
    WAIT(CLK_GLOBAL_MEM_FENCE);
    for (uint i = LANE; i < p.n_columns; i += ITEMS) atomic_inc(&counts[matrix_of(&p, ids, i)]);
    WAIT(CLK_GLOBAL_MEM_FENCE);
    for (uint first = 0; first < p.n_matrices; first += ITEMS) {
        uint matrix = first + LANE, count = matrix < p.n_matrices ? counts[matrix] : 0, mine = n_tiles;
        partial[LANE] = (count + p.tile - 1) / p.tile;
        WAIT(CLK_LOCAL_MEM_FENCE);
        for (uint i = 0; i < ITEMS; i++) {
            mine += i < LANE ? partial[i] : 0;
            n_tiles += partial[i];
        }
        WAIT(CLK_LOCAL_MEM_FENCE);
        if (matrix < p.n_matrices) counts[matrix] = mine * p.tile; // from here on: where the next column goes
        for (uint done = 0; done < count; done += p.tile, mine++) {
            tiles[2 * mine] = matrix;
            tiles[2 * mine + 1] = min(p.tile, count - done);
        }
    }
    WAIT(CLK_GLOBAL_MEM_FENCE);
    for (uint i = LANE; i < p.n_columns; i += ITEMS) columns[atomic_inc(&counts[matrix_of(&p, ids, i)])] = i;
}

// ---- The sum over a token's experts -----------------------------------------------------------------------

struct mix_parameters {
    uint rows, n_tokens, n_slots;
    uint products_offset, mix_offset, mix_stride, residual_offset, residual_stride, output_offset, output_stride;
    uint has_residual;
};

// products: [rows, n_slots, n_tokens]
kernel void mix_experts(global const float *products, global const float *weights, global const float *residual,
                global float *output, const struct mix_parameters given)
{
    const struct mix_parameters p = given;
    for (uint i = get_global_id(0); i < p.rows * p.n_tokens; i += get_global_size(0)) {
        uint token = i / p.rows, row = i - token * p.rows;
        global const float *from = products + p.products_offset + (size_t)token * p.n_slots * p.rows + row;
        float sum = 0;
        for (uint s = 0; s < p.n_slots; s++)
            sum += weights[p.mix_offset + token * p.mix_stride + s] * from[(size_t)s * p.rows];
        if (p.has_residual) sum += residual[p.residual_offset + (size_t)token * p.residual_stride + row];
        output[p.output_offset + (size_t)token * p.output_stride + row] = sum;
    }
}
