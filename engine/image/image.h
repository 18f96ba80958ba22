/* image.h: pictures between a file and the pixels that an eye takes: decoded, scaled, cut, and as floats.
 *
 * An image is always 8 bits of red, green and blue, upright, and opaque. The families' eyes ask for its size,
 * scale and cut it as their processors do, and take its floats. Functions that can fail return an enum
 * engine_status, with a message, and then leave their output empty: image_free may always be called. */
#ifndef ENGINE_IMAGE_IMAGE_H
#define ENGINE_IMAGE_IMAGE_H

#include <stddef.h>
#include <stdint.h>

struct image {
    uint32_t width, height; /* at least 1, unless the image is empty */
    uint8_t *pixels;        /* (height, width, 3): red, green, blue; owned; NULL: empty */
};

/* What a file may have; checked before anything is allocated for its pixels. */
struct image_limits {
    uint64_t pixels; /* width * height */
    size_t bytes;    /* of the file */
};

/* The limits where nothing else is asked for: 64 megapixels (of 2^20), 32 MiB. */
#define IMAGE_LIMITS ((struct image_limits){.pixels = UINT64_C(64) << 20, .bytes = (size_t)32 << 20})

/* Longest side of a picture: scaling takes weights for each of its pixels. */
#define IMAGE_MAX_SIDE 65535

/* The filters as PIL defines them: widened by the factor by which the image shrinks, so antialiased. */
enum image_filter {
    IMAGE_BILINEAR, /* a triangle of support 1 */
    IMAGE_BICUBIC,  /* a = -0.5, support 2 */
    IMAGE_LANCZOS,  /* three lobes, support 3 */
};

/* Whose rounding. Both scale the rows first, round to 8 bits, and then scale the columns. */
enum image_rounding {
    IMAGE_AS_PIL,   /* weights of 22 bits after the point */
    IMAGE_AS_TORCH, /* weights of 16 bits in all: torchvision's resize of uint8 on a CPU, antialias=True */
};

/* Decodes a picture. PNG, JPEG, WebP, GIF and BMP are told apart by their content; of an animation it takes
 * the first frame. The result is upright: turned as its EXIF data, or else its XMP data, says, like in
 * transformers. Transparent pixels are blended with white. A file that ends too early is an error. Messages
 * don't name the picture: the caller does, with error_wrap. `limits` may be IMAGE_LIMITS. */
int image_read(const void *bytes, size_t size, const struct image_limits *limits, struct image *image);

/* An image of this size, its pixels not set. Width and height are at least 1. */
int image_create(uint32_t width, uint32_t height, struct image *image);

/* Empties an image. */
void image_free(struct image *image);

/* The image in another size. Equal sizes give a copy. */
int image_scale(const struct image *image, uint32_t width, uint32_t height, enum image_filter filter,
                enum image_rounding rounding, struct image *scaled);

/* The rectangle from (x, y) of width * height, which may reach beyond the image; what does so is black. */
int image_cut(const struct image *image, int64_t x, int64_t y, uint32_t width, uint32_t height,
              struct image *cut);

/* floats (3, height, width): (value - mean / rescale) / (std / rescale), as transformers' fast processors
 * compute it in float32. NULL for mean and std: value * rescale. */
void image_floats(const struct image *image, float rescale, const float *mean, const float *std,
                  float *floats);

/* A grid of vectors in another size: (height, width, n) from `source` (source_height, source_width, n), all
 * in float32; as torch's interpolate with antialias=True and align_corners=False, for learnt positions.
 * ENGINE_ERROR_MEMORY is its only error. */
int image_scale_floats(const float *source, uint32_t source_width, uint32_t source_height, uint32_t n,
                       uint32_t width, uint32_t height, enum image_filter filter, float *scaled);

#endif
