/* orientation.c: which way up a picture is. See internal.h.
 *
 * EXIF data is a TIFF file: a header with the byte order and the place of the first directory, in which tag
 * 274 says where the stored rows and columns lie when the picture is upright (EXIF 2.32, 4.6.4):
 *
 *     1 as stored        2 mirrored left to right    3 turned by 180°   4 mirrored top to bottom
 *     5 mirrored at the diagonal from the top left   6 to be turned by 90° clockwise
 *     7 mirrored at the other diagonal               8 to be turned by 90° counterclockwise */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/assert.h"
#include "image/internal.h"

#define TAG_ORIENTATION 274
#define TYPE_SHORT      3
#define TYPE_LONG       4
#define ENTRY_SIZE      12

struct tiff {
    const uint8_t *bytes;
    size_t size;
    bool big; /* its integers are big-endian */
};

static uint32_t tiff_integer(const struct tiff *tiff, size_t at, unsigned bytes)
{
    uint32_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value = value << 8 | tiff->bytes[tiff->big ? at + i : at + bytes - 1 - i];
    return value;
}

unsigned orientation_in_exif(const uint8_t *bytes, size_t size)
{
    if (size >= 6 && memcmp(bytes, "Exif\0\0", 6) == 0) bytes += 6, size -= 6;
    if (size < 8 || (memcmp(bytes, "II*\0", 4) != 0 && memcmp(bytes, "MM\0*", 4) != 0)) return 0;
    const struct tiff tiff = {bytes, size, bytes[0] == 'M'};
    const size_t directory = tiff_integer(&tiff, 4, 4);
    if (directory > size - 2) return 0;
    const size_t there = (size - 2 - directory) / ENTRY_SIZE;
    size_t count = tiff_integer(&tiff, directory, 2);
    if (count > there) count = there;
    for (size_t i = 0; i < count; i++) {
        const size_t entry = directory + 2 + i * ENTRY_SIZE;
        if (tiff_integer(&tiff, entry, 2) != TAG_ORIENTATION) continue;
        const uint32_t type = tiff_integer(&tiff, entry + 2, 2);
        if ((type != TYPE_SHORT && type != TYPE_LONG) || tiff_integer(&tiff, entry + 4, 4) != 1) return 0;
        const uint32_t value = tiff_integer(&tiff, entry + 8, type == TYPE_SHORT ? 2 : 4);
        return value >= 1 && value <= 8 ? (unsigned)value : 0;
    }
    return 0;
}

unsigned orientation_in_xmp(const void *text, size_t size)
{
    static const char name[] = "tiff:Orientation";
    const size_t length = sizeof name - 1;
    const char *at = text, *end = at + size;
    while (at < end && (at = memmem(at, (size_t)(end - at), name, length))) {
        at += length; /* ="6" as an attribute, >6 as an element */
        if (end - at >= 2 && at[0] == '>' && at[1] >= '1' && at[1] <= '8') return (unsigned)(at[1] - '0');
        if (end - at >= 3 && at[0] == '=' && at[1] == '"' && at[2] >= '1' && at[2] <= '8')
            return (unsigned)(at[2] - '0');
    }
    return 0;
}

int orientation_apply(struct image *image, unsigned orientation)
{
    ENGINE_ASSERT(orientation >= 1 && orientation <= 8);
    if (orientation == 1) return ENGINE_OK;
    const size_t width = image->width, height = image->height;
    const bool turned = orientation >= 5;
    struct image upright;
    int status =
        image_create(turned ? image->height : image->width, turned ? image->width : image->height, &upright);
    if (status) return status;
    /* Where the upright image begins in the stored one, and the step to its next pixel and row. */
    const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    const bool from_below = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    const ptrdiff_t along = from_right ? -3 : 3;
    const ptrdiff_t down = (from_below ? -3 : 3) * (ptrdiff_t)width;
    const ptrdiff_t next_pixel = turned ? down : along, next_row = turned ? along : down;
    const uint8_t *row =
        image->pixels + ((from_below ? height - 1 : 0) * width + (from_right ? width - 1 : 0)) * 3;
    uint8_t *to = upright.pixels;
    for (uint32_t y = 0; y < upright.height; y++, row += next_row) {
        const uint8_t *from = row;
        for (uint32_t x = 0; x < upright.width; x++, from += next_pixel, to += 3) memcpy(to, from, 3);
    }
    image_free(image);
    *image = upright;
    return ENGINE_OK;
}
