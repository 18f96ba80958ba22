/* internal.h: what the readers of formats share; image.c calls them. */
#ifndef ENGINE_IMAGE_INTERNAL_H
#define ENGINE_IMAGE_INTERNAL_H

#include <stdbool.h>

#include "image/image.h"

struct image_file {
    const uint8_t *bytes;
    size_t size;
    uint64_t most_pixels;
};

/* A reader fills `image`, as the file stores it: not yet turned. It sets *orientation to that of the file's
 * EXIF or XMP data, 1 to 8 (see orientation.c), and leaves it alone where the file has none. On failure
 * image.c frees the image. */
typedef int image_reader(const struct image_file *file, struct image *image, unsigned *orientation);
image_reader image_read_png, image_read_jpeg, image_read_webp, image_read_gif, image_read_bmp;

/* Checks what a file's header says, before anything is allocated: a reader's first step. Then creates the
 * image. */
int image_begin(const struct image_file *file, uint64_t width, uint64_t height, struct image *image);

/* The orientation in EXIF data (a TIFF header and its first directory), or in XMP data; 0: none is there. */
unsigned orientation_in_exif(const uint8_t *tiff, size_t size);
unsigned orientation_in_xmp(const void *text, size_t size);

/* Turns an image to be upright. */
int orientation_apply(struct image *image, unsigned orientation);

/* A value of alpha 0 to 255 on white, rounded. */
static inline uint8_t on_white(uint8_t value, uint8_t alpha)
{
    return (uint8_t)((value * alpha + 255 * (255 - alpha) + 127) / 255);
}

/* Pixels of red, green, blue and alpha on white. */
static inline void pixels_on_white(const uint8_t *rgba, size_t count, uint8_t *rgb)
{
    for (size_t i = 0; i < count; i++, rgba += 4, rgb += 3)
        for (unsigned c = 0; c < 3; c++) rgb[c] = on_white(rgba[c], rgba[3]);
}

#endif
