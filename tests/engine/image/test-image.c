/* test-image.c: pictures decoded, turned, put on white and scaled, beside what Pillow and torchvision make of
 * them (tests/data/images, by tools/pictures/record.py). */
#include <criterion/criterion.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "files.h"
#include "image/image.h"

#define IMAGES TEST_SOURCE_DIR "/data/images/"

/* P6 with one newline after each number, as record.py writes it. */
static void read_ppm(const char *name, struct image *image)
{
    char path[400];
    size_t size;
    int length = 0;
    unsigned width, height;
    snprintf(path, sizeof path, IMAGES "%s", name);
    char *data = files_read(path, &size);
    cr_assert_eq(sscanf(data, "P6\n%u %u\n255%n", &width, &height, &length), 2, "%s", name);
    cr_assert_eq(image_create(width, height, image), ENGINE_OK);
    cr_assert_eq(size, (size_t)length + 1 + (size_t)width * height * 3, "%s", name);
    memcpy(image->pixels, data + length + 1, (size_t)width * height * 3);
    free(data);
}

static void expect_same(const char *name, const struct image *found, const struct image *expected)
{
    cr_assert(found->width == expected->width && found->height == expected->height,
              "%s: %u x %u, not %u x %u", name, found->width, found->height, expected->width,
              expected->height);
    for (size_t i = 0; i < (size_t)found->width * found->height * 3; i++)
        cr_assert_eq(found->pixels[i], expected->pixels[i], "%s: pixel %zu, %zu, channel %zu: %u, not %u",
                     name, i / 3 % found->width, i / 3 / found->width, i % 3, found->pixels[i],
                     expected->pixels[i]);
}

/* Compares each picture of a format with the expected image; returns how many there are. */
static unsigned check_format(const char *format)
{
    unsigned n = 0;
    char path[400];
    snprintf(path, sizeof path, IMAGES "%s", format);
    DIR *folder = opendir(path);
    cr_assert(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char expected_name[300];
        struct image found, expected;
        size_t size;
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, IMAGES "%s/%s", format, entry->d_name);
        snprintf(expected_name, sizeof expected_name, "expected/%s.ppm", entry->d_name);
        char *data = files_read(path, &size);
        int status = image_read(data, size, &IMAGE_LIMITS, &found);
        cr_assert_eq(status, ENGINE_OK, "%s: %s", entry->d_name, error_message());
        read_ppm(expected_name, &expected);
        expect_same(entry->d_name, &found, &expected);
        image_free(&found);
        image_free(&expected);
        free(data);
        n++;
    }
    closedir(folder);
    return n;
}

Test(image, png)
{
    cr_expect_eq(check_format("png"), 21);
}

Test(image, jpeg)
{
    cr_expect_eq(check_format("jpeg"), 17);
}

Test(image, webp)
{
    cr_expect_eq(check_format("webp"), 9);
}

Test(image, gif)
{
    cr_expect_eq(check_format("gif"), 8);
}

Test(image, bmp)
{
    cr_expect_eq(check_format("bmp"), 15);
}

static void check_scaled(const char *filter_name, enum image_filter filter)
{
    static const unsigned sizes[][2] = {{37, 17}, {11, 29}, {8, 6},  {19, 15},
                                        {36, 30}, {61, 40}, {3, 50}, {1, 1}};
    struct image source;
    read_ppm("scale/source.ppm", &source);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int torch = 0; torch < 2; torch++) {
            char name[200];
            struct image found, expected;
            snprintf(name, sizeof name, "scale/%s-%s-%ux%u.ppm", filter_name, torch ? "torch" : "pil",
                     sizes[i][0], sizes[i][1]);
            read_ppm(name, &expected);
            cr_assert_eq(image_scale(&source, sizes[i][0], sizes[i][1], filter,
                                     torch ? IMAGE_AS_TORCH : IMAGE_AS_PIL, &found),
                         ENGINE_OK);
            expect_same(name, &found, &expected);
            image_free(&found);
            image_free(&expected);
        }
    image_free(&source);
}

Test(image, bilinear)
{
    check_scaled("bilinear", IMAGE_BILINEAR);
}

Test(image, bicubic)
{
    check_scaled("bicubic", IMAGE_BICUBIC);
}

Test(image, lanczos)
{
    check_scaled("lanczos", IMAGE_LANCZOS);
}

Test(image, scale_floats)
{
    static const unsigned sizes[][2] = {{5, 4}, {13, 7}, {9, 20}};
    static const char *const filters[] = {[IMAGE_BILINEAR] = "bilinear", [IMAGE_BICUBIC] = "bicubic"};
    size_t size;
    char *source = files_read(IMAGES "scale/floats-source.bin", &size);
    cr_assert_eq(size, 7 * 9 * 2 * sizeof(float));
    for (int filter = 0; filter < 2; filter++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            char path[400];
            const unsigned width = sizes[i][0], height = sizes[i][1];
            float found[20 * 13 * 2];
            snprintf(path, sizeof path, IMAGES "scale/floats-%s-%ux%u.bin", filters[filter], width, height);
            char *expected = files_read(path, &size);
            cr_assert_eq(size, (size_t)width * height * 2 * sizeof(float));
            cr_assert_eq(image_scale_floats((float *)(void *)source, 9, 7, 2, width, height,
                                            (enum image_filter)filter, found),
                         ENGINE_OK);
            for (size_t k = 0; k < size / sizeof(float); k++) {
                float value;
                memcpy(&value, expected + k * sizeof value, sizeof value);
                cr_assert_float_eq(found[k], value, 2e-6f, "%s: %zu: %g, not %g", path, k, (double)found[k],
                                   (double)value);
            }
            free(expected);
        }
    free(source);
}

Test(image, cut)
{
    struct image source, cut;
    cr_assert_eq(image_create(3, 2, &source), ENGINE_OK);
    for (unsigned i = 0; i < 18; i++) source.pixels[i] = (uint8_t)(i + 1);
    static const struct {
        int64_t x, y;
        uint32_t width, height;
        uint8_t reds[12];
    } cases[] = {
        {0, 0, 3, 2, {1, 4, 7, 10, 13, 16}},
        {1, 1, 2, 1, {13, 16}},
        {-1, -1, 3, 2, {0, 0, 0, 0, 1, 4}},
        {2, 1, 2, 2, {16, 0, 0, 0}},
        {-9, 0, 2, 1, {0, 0}},
        {9, 0, 2, 1, {0, 0}},
        {0, -9, 1, 2, {0, 0}},
        {-1, 0, 5, 2, {0, 1, 4, 7, 0, 0, 10, 13, 16, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_eq(image_cut(&source, cases[i].x, cases[i].y, cases[i].width, cases[i].height, &cut),
                     ENGINE_OK);
        for (size_t k = 0; k < (size_t)cut.width * cut.height; k++)
            cr_expect_eq(cut.pixels[3 * k], cases[i].reds[k], "case %zu, pixel %zu", i, k);
        image_free(&cut);
    }
    image_free(&source);
}

Test(image, floats)
{
    struct image image;
    const float mean[] = {0.5f, 0.25f, 0}, std[] = {0.5f, 0.5f, 2};
    float floats[6];
    cr_assert_eq(image_create(2, 1, &image), ENGINE_OK);
    memcpy(image.pixels, (uint8_t[]){255, 0, 51, 0, 255, 102}, 6);
    image_floats(&image, 1 / 255.0f, mean, std, floats);
    const float expected[] = {1, -1, -0.5f, 1.5f, 0.1f, 0.2f};
    for (int i = 0; i < 6; i++) cr_expect_float_eq(floats[i], expected[i], 1e-6f, "%d", i);
    image_floats(&image, 1 / 255.0f, NULL, NULL, floats);
    const float plain[] = {1, 0, 0, 1, 0.2f, 0.4f};
    for (int i = 0; i < 6; i++) cr_expect_float_eq(floats[i], plain[i], 1e-6f, "%d", i);
    image_free(&image);
}

static void expect_refused(const void *bytes, size_t size, const struct image_limits *limits,
                           const char *reason)
{
    struct image image;
    cr_expect_eq(image_read(bytes, size, limits, &image), ENGINE_ERROR_DATA);
    cr_expect(strstr(error_message(), reason), "%s, not %s", error_message(), reason);
    cr_expect_null(image.pixels);
}

Test(image, refused)
{
    static const char *const names[] = {"png/rgb.png",       "png/rgba-interlaced.png",
                                        "jpeg/420.jpg",      "jpeg/progressive.jpg",
                                        "webp/lossy.webp",   "webp/lossless-alpha.webp",
                                        "gif/plain.gif",     "bmp/24.bmp",
                                        "bmp/palette-4.bmp", "bmp/rle8.bmp"};
    expect_refused("", 0, &IMAGE_LIMITS, "not a PNG, JPEG, WebP, GIF or BMP file");
    expect_refused("hello", 5, &IMAGE_LIMITS, "not a PNG, JPEG, WebP, GIF or BMP file");
    size_t wide_size;
    char *wide = files_read(IMAGES "bmp/24.bmp", &wide_size);
    memcpy(wide + 18, (uint8_t[]){0, 0, 1, 0, 1, 0, 0, 0}, 8); /* 65536 x 1 */
    expect_refused(wide, wide_size, &IMAGE_LIMITS, "at most 65535 a side");
    free(wide);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[400];
        size_t size;
        struct image image;
        snprintf(path, sizeof path, IMAGES "%s", names[i]);
        char *data = files_read(path, &size);
        expect_refused(data, size, &(struct image_limits){.pixels = 1 << 20, .bytes = size - 1}, "bytes");
        expect_refused(data, size, &(struct image_limits){.pixels = 20, .bytes = size},
                       "at most 20 are allowed");
        /* Cut anywhere before its end mark, in memory that ends there. */
        for (size_t cut = 0; cut < size - 16; cut += cut < 64 ? 1 : 7) {
            char *part = malloc(cut + 1);
            memcpy(part + 1, data, cut);
            cr_expect_eq(image_read(part + 1, cut, &IMAGE_LIMITS, &image), ENGINE_ERROR_DATA, "%s, %zu bytes",
                         names[i], cut);
            cr_expect_null(image.pixels);
            free(part);
        }
        free(data);
    }
}

/* What follows a picture's end is ignored, as Pillow ignores it. */
Test(image, more_behind)
{
    static const char *const names[] = {"png/rgb.png", "jpeg/420.jpg", "gif/plain.gif", "bmp/24.bmp"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[400];
        size_t size;
        struct image image;
        snprintf(path, sizeof path, IMAGES "%s", names[i]);
        char *data = files_read(path, &size), *longer = malloc(size + 20);
        memcpy(longer, data, size);
        memset(longer + size, 255, 20);
        cr_expect_eq(image_read(longer, size + 20, &IMAGE_LIMITS, &image), ENGINE_OK, "%s: %s", names[i],
                     error_message());
        image_free(&image);
        free(longer);
        free(data);
    }
}
