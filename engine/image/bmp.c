/* bmp.c: reads Windows and OS/2 bitmaps. See internal.h. No library of Debian reads BMP alone.
 *
 * A file's header (14 bytes) says where the pixels begin; the bitmap's header after it has one of several
 * sizes, and the fields of the shorter ones are the first of the longer ones. A palette or the masks of
 * channels follow. Rows are padded to 4 bytes, and lie from the bottom to the top unless the height is
 * negative. (Microsoft's documentation of BITMAPINFOHEADER, BITMAPV4HEADER and BITMAPV5HEADER.) */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "image/internal.h"

#define FILE_HEADER 14
#define CORE_HEADER 12 /* of OS/2 1: sizes of 16 bits, colours of 3 bytes */
#define INFO_HEADER 40

enum bmp_compression { BMP_PLAIN = 0, BMP_RLE8 = 1, BMP_RLE4 = 2, BMP_MASKS = 3, BMP_ALPHA_MASKS = 6 };

struct bmp_channel {
    uint32_t mask, shift, most; /* value: (pixel & mask) >> shift, at most `most`; 0: not there */
};

struct bmp {
    const struct image_file *file;
    uint32_t header; /* size of the bitmap's */
    uint32_t width, height;
    uint32_t bits; /* of a pixel: 1, 2, 4, 8, 16, 24 or 32 */
    uint32_t compression;
    bool down;     /* rows lie from the top to the bottom */
    size_t pixels; /* where they begin */
    uint8_t colours[256][3];
    struct bmp_channel channels[4]; /* of 16 and 32 bits: red, green, blue, alpha */
};

static uint32_t bmp_integer(const struct bmp *bmp, size_t at, unsigned bytes)
{
    uint32_t value = 0;
    for (unsigned i = bytes; i-- > 0;) value = value << 8 | bmp->file->bytes[at + i];
    return value;
}

static int bmp_damaged(const char *what)
{
    return error_raise(ENGINE_ERROR_DATA, "%s", what);
}

static int bmp_truncated(void)
{
    return bmp_damaged("the file is truncated");
}

static int bmp_read_sizes(struct bmp *bmp)
{
    if (bmp->file->size < FILE_HEADER + 4) return bmp_truncated();
    bmp->header = bmp_integer(bmp, FILE_HEADER, 4);
    if (bmp->header != CORE_HEADER && (bmp->header < INFO_HEADER || bmp->header > 1024))
        return error_raise(ENGINE_ERROR_DATA, "a header of %u bytes is not known", bmp->header);
    if (bmp->file->size - FILE_HEADER < bmp->header) return bmp_truncated();
    bmp->pixels = bmp_integer(bmp, 10, 4);
    if (bmp->header == CORE_HEADER) {
        bmp->width = bmp_integer(bmp, 18, 2);
        bmp->height = bmp_integer(bmp, 20, 2);
        bmp->bits = bmp_integer(bmp, 24, 2);
        return ENGINE_OK;
    }
    bmp->width = bmp_integer(bmp, 18, 4);
    bmp->height = bmp_integer(bmp, 22, 4);
    bmp->bits = bmp_integer(bmp, 28, 2);
    bmp->compression = bmp_integer(bmp, 30, 4);
    bmp->down = bmp->height >> 31;
    if (bmp->down) bmp->height = -bmp->height;
    if (bmp->width > INT32_MAX || bmp->height > INT32_MAX) return bmp_damaged("its size is damaged");
    return ENGINE_OK;
}

/* Whether its pixels can be of this form. */
static int bmp_check_form(const struct bmp *bmp)
{
    const uint32_t bits = bmp->bits;
    bool known = false;
    switch (bmp->compression) {
    case BMP_PLAIN:
        known = bits == 1 || bits == 2 || bits == 4 || bits == 8 || bits == 16 || bits == 24 || bits == 32;
        break;
    case BMP_RLE8: known = bits == 8 && !bmp->down; break;
    case BMP_RLE4: known = bits == 4 && !bmp->down; break;
    case BMP_MASKS:
    case BMP_ALPHA_MASKS: known = bits == 16 || bits == 32; break;
    default: break;
    }
    if (known) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_DATA, "compression %u with %u bits a pixel is not supported",
                       bmp->compression, bits);
}

static int bmp_read_palette(struct bmp *bmp)
{
    const size_t begin = FILE_HEADER + (size_t)bmp->header, size = bmp->header == CORE_HEADER ? 3 : 4;
    size_t count = bmp->header == CORE_HEADER ? 0 : bmp_integer(bmp, 46, 4);
    if (count == 0 || count > (size_t)1 << bmp->bits) count = (size_t)1 << bmp->bits;
    if (bmp->pixels > begin && (bmp->pixels - begin) / size < count) count = (bmp->pixels - begin) / size;
    if ((bmp->file->size - begin) / size < count) return bmp_truncated();
    for (size_t i = 0; i < count; i++)
        for (unsigned c = 0; c < 3; c++) bmp->colours[i][c] = bmp->file->bytes[begin + i * size + 2 - c];
    return ENGINE_OK;
}

static int bmp_read_masks(struct bmp *bmp)
{
    static const uint32_t of_16[] = {0x7c00, 0x3e0, 0x1f, 0}, of_32[] = {0xff0000, 0xff00, 0xff, 0};
    const bool stored = bmp->compression != BMP_PLAIN;
    /* Behind the shortest header; part of the others. Those with 52 bytes have no alpha. */
    const size_t at = FILE_HEADER + INFO_HEADER;
    const bool alpha = stored && (bmp->header >= 56 || bmp->compression == BMP_ALPHA_MASKS);
    if (stored && bmp->file->size < at + (alpha ? 16 : 12)) return bmp_truncated();
    for (unsigned c = 0; c < 4; c++) {
        uint32_t mask = bmp->bits == 16 ? of_16[c] : of_32[c];
        if (stored) mask = c < 3 || alpha ? bmp_integer(bmp, at + (size_t)4 * c, 4) : 0;
        if (bmp->bits == 16) mask &= 0xffff;
        if (mask == 0 && c < 3) return bmp_damaged("a channel has no bits");
        if (mask == 0) continue;
        struct bmp_channel *channel = &bmp->channels[c];
        channel->mask = mask;
        channel->shift = (uint32_t)__builtin_ctz(mask);
        channel->most = mask >> channel->shift;
        if (channel->most & (channel->most + 1)) return bmp_damaged("the bits of a channel have gaps");
    }
    return ENGINE_OK;
}

/* A channel of a pixel in 8 bits, rounded down. */
static uint8_t bmp_channel_of(const struct bmp_channel *channel, uint32_t pixel)
{
    uint64_t value = (pixel & channel->mask) >> channel->shift;
    return (uint8_t)(value * 255 / channel->most);
}

static void bmp_read_row(const struct bmp *bmp, size_t at, uint8_t *to)
{
    const uint8_t *bytes = bmp->file->bytes + at;
    for (size_t x = 0; x < bmp->width; x++, to += 3) {
        if (bmp->bits <= 8) {
            const size_t bit = x * bmp->bits;
            const unsigned index = bytes[bit / 8] >> (8 - bmp->bits - bit % 8) & ((1U << bmp->bits) - 1);
            memcpy(to, bmp->colours[index], 3);
        } else if (bmp->bits == 24) {
            for (unsigned c = 0; c < 3; c++) to[c] = bytes[3 * x + 2 - c];
        } else {
            const uint32_t pixel = bmp_integer(bmp, at + x * (bmp->bits / 8), bmp->bits / 8);
            for (unsigned c = 0; c < 3; c++) to[c] = bmp_channel_of(&bmp->channels[c], pixel);
            if (bmp->channels[3].mask == 0) continue;
            const uint8_t alpha = bmp_channel_of(&bmp->channels[3], pixel);
            for (unsigned c = 0; c < 3; c++) to[c] = on_white(to[c], alpha);
        }
    }
}

static uint8_t *bmp_row_of(const struct bmp *bmp, const struct image *image, size_t y)
{
    return image->pixels + (bmp->down ? y : image->height - 1 - y) * image->width * 3;
}

static int bmp_read_plain(const struct bmp *bmp, struct image *image)
{
    const uint64_t stride = ((uint64_t)bmp->width * bmp->bits + 31) / 32 * 4;
    if (bmp->pixels > bmp->file->size || (bmp->file->size - bmp->pixels) / stride < bmp->height)
        return bmp_truncated();
    for (size_t y = 0; y < bmp->height; y++)
        bmp_read_row(bmp, bmp->pixels + y * (size_t)stride, bmp_row_of(bmp, image, y));
    return ENGINE_OK;
}

/* Runs of equal pixels (a count and a byte), and after a count of 0: the end of the row (0), of the picture
 * (1), a step (2: right, up), or that many pixels as they are, padded to 2 bytes. With 4 bits, a byte has two
 * pixels, which take turns. What is skipped has the first colour; what reaches beyond a row is left out. */
static int bmp_read_runs(const struct bmp *bmp, struct image *image)
{
    if (bmp->pixels > bmp->file->size) return bmp_truncated();
    const uint8_t *at = bmp->file->bytes + bmp->pixels, *end = bmp->file->bytes + bmp->file->size;
    const unsigned shift = bmp->bits == 4 ? 4 : 0, mask = bmp->bits == 4 ? 15 : 255;
    size_t x = 0, y = 0;
    for (size_t i = 0; i < (size_t)image->width * image->height; i++)
        memcpy(image->pixels + 3 * i, bmp->colours[0], 3);
    while (y < bmp->height) {
        if (end - at < 2) return bmp_truncated();
        unsigned count = *at++, value = *at++;
        const bool run = count > 0;
        if (!run && value == 1) break;
        if (!run && value == 0) {
            x = 0, y++;
            continue;
        }
        if (!run && value == 2) {
            if (end - at < 2) return bmp_truncated();
            x += *at++, y += *at++;
            continue;
        }
        if (!run) count = value;
        const size_t bytes = run ? 0 : bmp->bits == 4 ? (count + 1) / 2 : count;
        if ((size_t)(end - at) < bytes) return bmp_truncated();
        uint8_t *to = bmp_row_of(bmp, image, y);
        for (unsigned i = 0; i < count; i++, x++) {
            const unsigned byte = run ? value : bmp->bits == 4 ? at[i / 2] : at[i];
            const unsigned index = (i % 2 == 0 ? byte >> shift : byte) & mask;
            if (x < bmp->width) memcpy(to + 3 * x, bmp->colours[index], 3);
        }
        at += bytes;
        if (bytes % 2 && at < end) at++;
    }
    return ENGINE_OK;
}

int image_read_bmp(const struct image_file *file, struct image *image, unsigned *orientation)
{
    struct bmp bmp = {.file = file};
    (void)orientation; /* BMP has no EXIF data */
    int status = bmp_read_sizes(&bmp);
    if (!status) status = bmp_check_form(&bmp);
    if (!status && bmp.bits <= 8) status = bmp_read_palette(&bmp);
    if (!status && (bmp.bits == 16 || bmp.bits == 32)) status = bmp_read_masks(&bmp);
    if (!status) status = image_begin(file, bmp.width, bmp.height, image);
    if (status) return status;
    const bool runs = bmp.compression == BMP_RLE8 || bmp.compression == BMP_RLE4;
    return runs ? bmp_read_runs(&bmp, image) : bmp_read_plain(&bmp, image);
}
