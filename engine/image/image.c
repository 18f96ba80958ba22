/* image.c: an image, its file's format, and the steps that need no filter. See image.h. */
#include "image/image.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "common/assert.h"
#include "image/internal.h"

/* A format by its first bytes; those where `mask` is '?' may be any. */
static const struct format {
    const char *name;
    image_reader *read;
    const char *begin, *mask;
} formats[] = {
    {"PNG", image_read_png, "\x89PNG\r\n\x1a\n", "........"},
    {"JPEG", image_read_jpeg, "\xff\xd8\xff", "..."},
    {"WebP", image_read_webp, "RIFF    WEBP", "....????...."},
    {"GIF", image_read_gif, "GIF87a", "......"},
    {"GIF", image_read_gif, "GIF89a", "......"},
    {"BMP", image_read_bmp, "BM", ".."},
};

static const struct format *format_of(const uint8_t *bytes, size_t size)
{
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        size_t i = 0, length = strlen(formats[f].mask);
        while (i < length && i < size &&
               (formats[f].mask[i] == '?' || bytes[i] == (uint8_t)formats[f].begin[i]))
            i++;
        if (i == length) return &formats[f];
    }
    return NULL;
}

int image_read(const void *bytes, size_t size, const struct image_limits *limits, struct image *image)
{
    const struct image_file file = {bytes, size, limits->pixels};
    *image = (struct image){0};
    if (size > limits->bytes)
        return error_raise(ENGINE_ERROR_DATA, "the file has %zu bytes; at most %zu are allowed", size,
                           limits->bytes);
    const struct format *format = format_of(bytes, size);
    if (!format) return error_raise(ENGINE_ERROR_DATA, "not a PNG, JPEG, WebP, GIF or BMP file");
    unsigned orientation = 1;
    error_clear();
    int status = format->read(&file, image, &orientation);
    if (status) status = error_wrap(status, "%s", format->name);
    if (!status) status = orientation_apply(image, orientation);
    if (status) image_free(image);
    ENGINE_ASSERT(!status == !!image->pixels);
    return status;
}

int image_begin(const struct image_file *file, uint64_t width, uint64_t height, struct image *image)
{
    uint64_t pixels;
    if (width == 0 || height == 0) return error_raise(ENGINE_ERROR_DATA, "it has no pixels");
    if (width > IMAGE_MAX_SIDE || height > IMAGE_MAX_SIDE)
        return error_raise(ENGINE_ERROR_DATA, "%llu x %llu pixels; at most %d a side are allowed",
                           (unsigned long long)width, (unsigned long long)height, IMAGE_MAX_SIDE);
    if (checked_mul(width, height, &pixels) || pixels > file->most_pixels)
        return error_raise(ENGINE_ERROR_DATA, "%llu x %llu pixels; at most %llu are allowed",
                           (unsigned long long)width, (unsigned long long)height,
                           (unsigned long long)file->most_pixels);
    return image_create((uint32_t)width, (uint32_t)height, image);
}

int image_create(uint32_t width, uint32_t height, struct image *image)
{
    ENGINE_ASSERT(width > 0 && height > 0);
    uint64_t bytes;
    *image = (struct image){0};
    if (checked_mul((uint64_t)width * height, 3, &bytes) || bytes > PTRDIFF_MAX ||
        !(image->pixels = malloc((size_t)bytes)))
        return error_memory("an image's pixels");
    image->width = width;
    image->height = height;
    return ENGINE_OK;
}

void image_free(struct image *image)
{
    free(image->pixels);
    *image = (struct image){0};
}

int image_cut(const struct image *image, int64_t x, int64_t y, uint32_t width, uint32_t height,
              struct image *cut)
{
    int status = image_create(width, height, cut);
    if (status) return status;
    const int64_t begin = x < 0 ? -x : 0; /* columns of `cut` within the image: begin to end */
    const int64_t inside = (int64_t)image->width - x;
    const int64_t end = inside < width ? inside : width;
    for (int64_t row = 0; row < height; row++) {
        uint8_t *to = cut->pixels + (size_t)row * width * 3;
        if (y + row < 0 || y + row >= image->height || begin >= end) {
            memset(to, 0, (size_t)width * 3);
            continue;
        }
        const uint8_t *from = image->pixels + ((size_t)(y + row) * image->width + (size_t)(x + begin)) * 3;
        memset(to, 0, (size_t)begin * 3);
        memcpy(to + begin * 3, from, (size_t)(end - begin) * 3);
        memset(to + end * 3, 0, (size_t)(width - end) * 3);
    }
    return ENGINE_OK;
}

void image_floats(const struct image *image, float rescale, const float *mean, const float *std,
                  float *floats)
{
    const size_t pixels = (size_t)image->width * image->height;
    const float whole = (float)(1.0 / (double)rescale);
    for (unsigned c = 0; c < 3; c++, floats += pixels) {
        const uint8_t *from = image->pixels + c;
        const float middle = mean ? mean[c] * whole : 0, width = std ? std[c] * whole : 0;
        if (mean)
            for (size_t i = 0; i < pixels; i++) floats[i] = ((float)from[3 * i] - middle) / width;
        else
            for (size_t i = 0; i < pixels; i++) floats[i] = (float)from[3 * i] * rescale;
    }
}
