/* picture.h: the pictures that a model has been shown. An eye makes rows of numbers of a picture; a text
 * has a token for each, with a number below 0 that stands for the row, so that whatever handles tokens
 * (caches, prefixes that are found again) handles pictures; queues refuse them yet. The same picture has the
 * same numbers as long as it is kept: it is found by a hash of its pixels. Numbers are not used twice.
 *
 * Written by eye/, read by context/. All functions but pictures_destroy may be called on any thread. */
#ifndef ENGINE_PICTURE_PICTURE_H
#define ENGINE_PICTURE_PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pictures;

#define PICTURE_HASH 32 /* bytes */

struct picture {
    int32_t first;   /* the number of the first row; those of the others follow, downwards */
    uint32_t n_rows; /* at least 1 */
    uint32_t width;  /* numbers of a row */
    /* Of a model whose positions have dimensions: rows and columns, whose product is n_rows; else 0. */
    uint32_t grid[2];
    float *rows; /* [n_rows, width]; NULL: forgotten, because nobody used it */
    uint8_t hash[PICTURE_HASH];
    uint32_t n_users;
    uint64_t last_used;
};

struct pictures *pictures_create(void); /* NULL: out of memory */
void pictures_destroy(struct pictures *pictures);

/* The picture with this hash that is kept, with one user more; NULL: there is none. */
const struct picture *pictures_find(struct pictures *pictures, const uint8_t hash[PICTURE_HASH]);
/* Keeps a picture, with one user; takes over `rows`, also on failure. `first` is set here. Another one with
 * the same hash takes its place if it has come meanwhile. NULL: out of memory or numbers, with a message. */
const struct picture *pictures_add(struct pictures *pictures, const struct picture *picture);
/* One user less. Of pictures without users, as many as a limit of memory allows are kept. */
void pictures_release(struct pictures *pictures, const struct picture *picture);

/* Whether a token is a row of a picture that is kept. */
bool pictures_have(struct pictures *pictures, int32_t token);
/* Copies that row [width], padded with zeros or cut. False: there is none. */
bool pictures_row(struct pictures *pictures, int32_t token, float *row, uint32_t width);
/* How many rows of the picture follow the token's; 0: it is the last, or no row. */
uint32_t pictures_rest(struct pictures *pictures, int32_t token);

/* Positions of a text whose pictures have dimensions: a token takes one position; the rows of a picture have
 * the position behind what was before them, plus their row, or column. What follows begins behind the
 * largest. */
struct picture_walk {
    int64_t next, base; /* zero to begin with */
};
/* Walks over n tokens, at least one; `axes` receives the position of the last. */
void pictures_walk(struct pictures *pictures, struct picture_walk *walk, const int32_t *tokens, size_t n,
                   int32_t axes[3]);

#endif
