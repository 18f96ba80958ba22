/* fuzz-image.c: fuzzing targets: pictures, a program for each format. Input: a file, whose first bytes become
 * those that tell the format. It is refused with a reason, or it is an image within the limits, which can be
 * scaled. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "image/image.h"
#include "tokenizers.h"

#define MOST_PIXELS (1 << 16)

static void begin_as(const char *format, uint8_t *bytes, size_t size)
{
    static const struct {
        const char *name, *begin;
        size_t at, length;
    } marks[] = {
        {"image-png", "\x89PNG\r\n\x1a\n", 0, 8},
        {"image-jpeg", "\xff\xd8\xff", 0, 3},
        {"image-webp", "RIFF", 0, 4},
        {"image-webp", "WEBP", 8, 4},
        {"image-gif", "GIF89a", 0, 6},
        {"image-bmp", "BM", 0, 2},
    };
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strcmp(marks[i].name, format) == 0 && size >= marks[i].at + marks[i].length)
            memcpy(bytes + marks[i].at, marks[i].begin, marks[i].length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct image_limits limits = {.pixels = MOST_PIXELS, .bytes = SIZE_MAX};
    struct image image, scaled;
    uint8_t *bytes = malloc(size ? size : 1);
    if (!bytes) return 0;
    if (size) memcpy(bytes, data, size);
    begin_as(FUZZ_NAME, bytes, size);
    error_clear();
    int status = image_read(bytes, size, &limits, &image);
    free(bytes);
    if (status && (!error_message()[0] || image.pixels))
        fuzz_fail("refused without a reason, or with pixels");
    if (status) return 0;
    if (image.width == 0 || image.height == 0 || (uint64_t)image.width * image.height > MOST_PIXELS)
        fuzz_fail("a size beyond the limit");
    if (image_scale(&image, 1 + image.height % 7, 1 + image.width % 5, IMAGE_LANCZOS, IMAGE_AS_TORCH,
                    &scaled) == ENGINE_OK)
        image_free(&scaled);
    image_free(&image);
    return 0;
}
