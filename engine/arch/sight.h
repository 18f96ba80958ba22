/* sight.h: what an eye's family makes of a picture before its graph runs: pieces (the picture, or tiles
 * and a thumbnail), each cut into patches, and the text that stands for the picture in a prompt. The
 * families' files fill it (eye.h has what they share), eye/ has the pieces run and keeps what comes out. */
#ifndef ENGINE_ARCH_SIGHT_H
#define ENGINE_ARCH_SIGHT_H

#include <stdint.h>

#include "image/image.h"

/* What goes through the graph at once. */
struct sight_piece {
    uint32_t n_patches, n_rows; /* rows that come out */
    float *patches;             /* [n_patches, arch_info.row_width] */
    int32_t *places;            /* [n_patches]: rows of the learnt positions; NULL: all 0 */
    int32_t *axes[2];           /* [n_patches]: row and column; NULL: all 0 */
    /* Of eyes some of whose layers see only a part of the picture: the part's first position in layers
     * that do, a multiple of `chunk`, plus the patch's number in the part; and the part's last. NULL: none
     * does. */
    int32_t *positions, *lasts;
    uint32_t chunk;
};

struct sight {
    struct sight_piece *pieces; /* [n_pieces] */
    uint32_t n_pieces;
    uint32_t grid[2]; /* rows and columns of what comes out, for positions with dimensions */
    /* In the place of the mark in a prompt: the family's tokens around the rows, and its token for a row as
     * often as there are rows. Owned. */
    char *text;
};

void sight_free(struct sight *sight);

/* What the host needs to know of an eye's family (struct architecture.eye). */
struct arch_eye {
    const char *mark; /* stands for a picture in prompts, as the family's templates write it */
    const char *row;  /* the token for a row */
    /* Cuts a picture: fills *sight. hparams: as `read` has filled them. Messages don't name the picture. */
    int (*look)(const void *hparams, const struct image *image, struct sight *sight);
};

#endif
