/* picture.c: see picture.h. Records are sorted by their numbers, because new ones get the next; those of
 * forgotten pictures stay, since sequences may contain them. */
#include "picture/picture.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/array.h"
#include "common/assert.h"
#include "common/lock.h"

#define MOST_UNUSED ((uint64_t)256 << 20) /* bytes of rows kept for pictures that nobody uses */
#define FIRST       (-2)                  /* -1 stands for no token */

struct pictures {
    pthread_mutex_t lock;   /* protects all that follows */
    struct picture **items; /* [n_items], by falling numbers */
    size_t n_items;
    int64_t next;           /* the number of the next row */
    uint64_t clock, unused; /* bytes of rows without users */
};

struct pictures *pictures_create(void)
{
    struct pictures *pictures = calloc(1, sizeof *pictures);
    if (!pictures) return NULL;
    pictures->next = FIRST;
    if (lock_init(&pictures->lock) == 0) return pictures;
    free(pictures);
    return NULL;
}

void pictures_destroy(struct pictures *pictures)
{
    if (!pictures) return;
    for (size_t i = 0; i < pictures->n_items; i++) {
        free(pictures->items[i]->rows);
        free(pictures->items[i]);
    }
    free(pictures->items);
    pthread_mutex_destroy(&pictures->lock);
    free(pictures);
}

static uint64_t bytes_of(const struct picture *picture)
{
    return (uint64_t)picture->n_rows * picture->width * sizeof *picture->rows;
}

/* Forgets the rows of those without users that were used longest ago, until the others fit. */
static void forget_unused(struct pictures *pictures)
{
    while (pictures->unused > MOST_UNUSED) {
        struct picture *oldest = NULL;
        for (size_t i = 0; i < pictures->n_items; i++) {
            struct picture *item = pictures->items[i];
            if (item->rows && item->n_users == 0 && (!oldest || item->last_used < oldest->last_used))
                oldest = item;
        }
        ENGINE_ASSERT(oldest); /* whose bytes were counted */
        pictures->unused -= bytes_of(oldest);
        free(oldest->rows);
        oldest->rows = NULL;
    }
}

static struct picture *find_hash(struct pictures *pictures, const uint8_t *hash)
{
    for (size_t i = pictures->n_items; i-- > 0;)
        if (pictures->items[i]->rows && memcmp(pictures->items[i]->hash, hash, PICTURE_HASH) == 0)
            return pictures->items[i];
    return NULL;
}

/* The picture that has a row of this number. */
static struct picture *find_row(const struct pictures *pictures, int32_t token)
{
    size_t low = 0, high = pictures->n_items;
    while (low < high) { /* the last one that begins at this number or above */
        size_t middle = low + (high - low) / 2;
        if (pictures->items[middle]->first >= token)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || token > FIRST) return NULL;
    struct picture *picture = pictures->items[low - 1];
    return (uint32_t)(picture->first - token) < picture->n_rows ? picture : NULL;
}

static struct picture *use(struct pictures *pictures, struct picture *picture)
{
    if (picture->n_users++ == 0) pictures->unused -= bytes_of(picture);
    picture->last_used = ++pictures->clock;
    return picture;
}

const struct picture *pictures_find(struct pictures *pictures, const uint8_t hash[PICTURE_HASH])
{
    pthread_mutex_lock(&pictures->lock);
    struct picture *found = find_hash(pictures, hash);
    if (found) use(pictures, found);
    pthread_mutex_unlock(&pictures->lock);
    return found;
}

/* Adds a picture behind the others; NULL without a message: out of memory. */
static struct picture *append(struct pictures *pictures, const struct picture *picture)
{
    struct picture *copy = malloc(sizeof *copy);
    if (!copy || !array_grow(&pictures->items, pictures->n_items, sizeof *pictures->items)) {
        free(copy);
        return NULL;
    }
    *copy = *picture;
    copy->first = (int32_t)pictures->next;
    copy->n_users = 1;
    copy->last_used = ++pictures->clock;
    pictures->next -= picture->n_rows;
    pictures->items[pictures->n_items++] = copy;
    return copy;
}

const struct picture *pictures_add(struct pictures *pictures, const struct picture *picture)
{
    ENGINE_ASSERT(picture->n_rows > 0 && picture->rows);
    pthread_mutex_lock(&pictures->lock);
    struct picture *found = find_hash(pictures, picture->hash);
    bool is_new = !found, has_room = pictures->next - (int64_t)picture->n_rows >= INT32_MIN;
    if (!is_new)
        use(pictures, found);
    else if (has_room)
        found = append(pictures, picture);
    pthread_mutex_unlock(&pictures->lock);
    if (!is_new || !found) free(picture->rows);
    if (!found && has_room) error_memory("picture");
    if (!found && !has_room)
        error_raise(ENGINE_ERROR, "too many pictures were shown to the model: open it again");
    return found;
}

void pictures_release(struct pictures *pictures, const struct picture *picture)
{
    pthread_mutex_lock(&pictures->lock);
    struct picture *own = find_row(pictures, picture->first);
    ENGINE_ASSERT(own == picture && own->n_users > 0);
    if (--own->n_users == 0) pictures->unused += bytes_of(own);
    forget_unused(pictures);
    pthread_mutex_unlock(&pictures->lock);
}

bool pictures_have(struct pictures *pictures, int32_t token)
{
    pthread_mutex_lock(&pictures->lock);
    const struct picture *picture = find_row(pictures, token);
    bool have = picture && picture->rows;
    pthread_mutex_unlock(&pictures->lock);
    return have;
}

bool pictures_row(struct pictures *pictures, int32_t token, float *row, uint32_t width)
{
    pthread_mutex_lock(&pictures->lock);
    const struct picture *picture = find_row(pictures, token);
    bool have = picture && picture->rows;
    if (have) {
        uint32_t n = picture->width < width ? picture->width : width;
        memcpy(row, picture->rows + (size_t)(picture->first - token) * picture->width, n * sizeof *row);
        memset(row + n, 0, (width - n) * sizeof *row);
    }
    pthread_mutex_unlock(&pictures->lock);
    return have;
}

uint32_t pictures_rest(struct pictures *pictures, int32_t token)
{
    pthread_mutex_lock(&pictures->lock);
    const struct picture *picture = find_row(pictures, token);
    uint32_t rest = picture ? picture->n_rows - 1 - (uint32_t)(picture->first - token) : 0;
    pthread_mutex_unlock(&pictures->lock);
    return rest;
}

static void walk_row(const struct picture *picture, struct picture_walk *walk, uint32_t row, int32_t axes[3])
{
    const uint32_t *grid = picture->grid;
    ENGINE_ASSERT((uint64_t)grid[0] * grid[1] == picture->n_rows);
    if (row == 0) walk->base = walk->next;
    axes[0] = (int32_t)walk->base;
    axes[1] = (int32_t)(walk->base + row / grid[1]);
    axes[2] = (int32_t)(walk->base + row % grid[1]);
    walk->next = walk->base + (grid[0] > grid[1] ? grid[0] : grid[1]);
}

void pictures_walk(struct pictures *pictures, struct picture_walk *walk, const int32_t *tokens, size_t n,
                   int32_t axes[3])
{
    ENGINE_ASSERT(n > 0);
    pthread_mutex_lock(&pictures->lock);
    for (size_t i = 0; i < n; i++) {
        const struct picture *picture = tokens[i] < 0 ? find_row(pictures, tokens[i]) : NULL;
        if (picture && picture->grid[0] > 0)
            walk_row(picture, walk, (uint32_t)(picture->first - tokens[i]), axes);
        else
            axes[0] = axes[1] = axes[2] = (int32_t)walk->next++;
    }
    pthread_mutex_unlock(&pictures->lock);
}
