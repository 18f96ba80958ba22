/* matmul.h: shared by the files of ENGINE_OP_MATMUL. op-matmul.c checks the arguments and adds the steps:
 *
 *   matmul-experts.c   if tokens chose experts: sorts (token, slot) pairs by expert, once for all matmuls of
 *                      a choice
 *   matmul-input.c     converts the input to the layout and rounding of the weight's tiles, once for all
 *                      matmuls of that input
 *   matmul-product.c   makes tiles of the weight's panels and multiplies them with the input
 *   matmul-experts.c   mixes the results of a token's experts
 *
 * A weight is one matrix or several. A slot is a head, or the index of an expert among those of its token; a
 * weight of one matrix has one slot. A column is the input of one token and slot, k values, that a matrix is
 * multiplied with. The columns of one matrix form a group and are numbered in the order of tokens. They are
 * stored in sets of at most T (the kernels' tile_tokens) interleaved columns; the group's last set may be
 * smaller. Slot of the prepared input:
 *   TILE_F32    float32 [set][k][T]
 *   TILE_INT8   the arrays of struct int8_activations (kernels.h) in order, each [set]… */
#ifndef CPU_MATMUL_H
#define CPU_MATMUL_H

#include "kernels.h"
#include "list.h"
#include "ops.h"

/* Float32 rows of an operand, one for each token and slot; strides in bytes. */
struct rows {
    uint8_t *data; /* NULL: the operation has no such operand */
    size_t slot_stride, token_stride;
};
static inline float *row_at(const struct rows *rows, size_t slot, size_t token)
{
    return (float *)(void *)(rows->data + slot * rows->slot_stride + token * rows->token_stride);
}

/* The columns, and the matrix of each. */
struct columns {
    size_t n_matrices, n_slots, n_tokens;
    struct view experts; /* I32 [n_slots, n_tokens]; data NULL: slot s meets matrix s */
    bool shared;         /* all slots of a token have the same input */
};

/* Columns of one matrix: all or some of them. */
struct group {
    size_t matrix;            /* of sorted columns; otherwise see group_matrix */
    size_t first, n;          /* columns */
    size_t slot, token;       /* of the first column, the others are of the next tokens; if pairs is NULL */
    const struct pair *pairs; /* of each column */
};
struct pair {
    uint32_t slot, token;
};

static inline size_t n_parts(size_t n, size_t part)
{
    return (n + part - 1) / part;
}

/* Experts of one token need no sorting: each slot is a group. */
static inline bool columns_sorted(const struct columns *columns)
{
    return columns->experts.data && columns->n_tokens > 1;
}
/* Number of columns in a prepared input: the slots of a single token can share one. */
static inline size_t columns_count(const struct columns *columns)
{
    return (columns->shared && columns->n_tokens == 1 ? 1 : columns->n_slots) * columns->n_tokens;
}
/* The largest possible number of groups. */
static inline size_t columns_most_groups(const struct columns *columns)
{
    return columns_sorted(columns) ? smaller(columns->n_matrices, columns->n_slots * columns->n_tokens)
                                   : columns->n_slots;
}
/* Group number i; false if it does not exist. */
bool columns_group(const struct columns *columns, const struct work *work, size_t i, struct group *group);
/* The matrix of a group. Only steps that wait for the choice may call this. */
size_t group_matrix(const struct columns *columns, const struct work *work, const struct group *group);
/* Slot and token of a group's column i. */
static inline void group_row(const struct group *group, size_t i, size_t *slot, size_t *token)
{
    *slot = group->pairs ? group->pairs[i].slot : group->slot;
    *token = group->pairs ? group->pairs[i].token : group->token + i;
}
/* n columns of a group, from number i on. */
static inline struct group group_part(const struct group *group, size_t i, size_t n)
{
    return (struct group){group->matrix, group->first + i, n,
                          group->slot,   group->token + i, group->pairs ? group->pairs + i : NULL};
}

/* ---- matmul-experts.c ---- */

/* Gets the pairs sorted in SLOT_EXPERTS. Like all of these, returns false after host->fail. */
bool matmul_sort(struct list *list, const struct columns *columns);

/* Adds the step that makes output = sum over slots of mix * product, plus the residual. The products are in
 * SLOT_PRODUCTS: float32 [panel][column][PANEL], columns in the order of groups, or of slots for a single
 * token. */
struct mixing {
    struct columns columns;
    size_t n_rows;
    struct view mix, residual, output; /* residual: data NULL if there is none */
};
bool matmul_mix(struct list *list, const struct mixing *mixing);
/* The place of the products of a group's first column and a panel. */
static inline float *product_at(const struct columns *columns, const struct work *work,
                                const struct group *group, size_t panel)
{
    size_t column = columns_sorted(columns) ? group->first : group->slot;
    float *products = (float *)(void *)work->slots[SLOT_PRODUCTS];
    return products + (panel * columns->n_slots * columns->n_tokens + column) * PANEL;
}

/* ---- matmul-input.c ---- */

/* Gets the input ready in a slot for tiles of this type; `used` (or NULL) must not be overwritten. */
bool matmul_prepare(const struct request *request, struct list *list, const struct weight_type *type,
                    const struct columns *columns, const struct view *input, const enum slot *used,
                    enum slot *slot);
/* The parts of a slot that holds int8 activations. */
struct int8_activations int8_slot(uint8_t *slot, size_t k, size_t n_columns);

/* ---- matmul-product.c ---- */

enum { MATRICES = 2 /* the weight and the gate */ };

struct matrix {
    const struct weight_type *type; /* NULL: no gate */
    const uint8_t *panels;
    size_t matrix_size, panel_size, chunk_size;
    enum slot slot;    /* of the prepared input */
    struct rows input; /* one token of TILE_F32: the input itself, no slot */
};

/* Tasks of so many panels each; the last one may have fewer. */
enum { TASK_SIZES = 3 };
struct matmul_tasks {
    size_t n, panels;
};

struct matmul_step {
    struct matrix matrices[MATRICES];
    struct columns columns;
    size_t k, rows;
    struct matmul_tasks tasks[TASK_SIZES]; /* one size after the other */
    size_t tokens_per_task;
    const float *bias;  /* or NULL */
    size_t bias_stride; /* floats from a matrix to the next */
    struct rows residual, output;
    bool mixed; /* the output goes to SLOT_PRODUCTS */
    float scale;
    uint32_t activation;
};
/* Adds the step; the caller declares what it reads and writes. `step` is complete except for its tasks. */
bool matmul_multiply(const struct request *request, struct list *list, const struct matmul_step *step);

#endif
