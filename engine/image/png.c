/* png.c: reads PNG by libpng. See internal.h.
 *
 * libpng reports errors by longjmp: all that decoding changes is in a struct, and so survives
 * the jump. */
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "image/internal.h"

#define MOST_CHUNK  (8 << 20) /* bytes of one chunk of metadata */
#define MOST_CHUNKS 16        /* of texts, which libpng inflates and keeps */

struct png_decoder {
    const struct image_file *file;
    size_t at; /* bytes that were read */
    png_structp png;
    png_infop info;
    struct image *image;
    unsigned *orientation;
    uint8_t *rows; /* of pixels with alpha: all of an interlaced file, otherwise one */
    int status;    /* of a failure that isn't libpng's */
    bool complete; /* all pixels are there: what follows may be damaged */
    char message[200];
};

static void png_decoder_failed(png_structp png, png_const_charp message)
{
    struct png_decoder *decoder = png_get_error_ptr(png);
    snprintf(decoder->message, sizeof decoder->message, "%s", message);
    png_longjmp(png, 1);
}

static void png_decoder_warned(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static void png_decoder_more(png_structp png, png_bytep data, size_t size)
{
    struct png_decoder *decoder = png_get_io_ptr(png);
    if (size > decoder->file->size - decoder->at) png_error(png, "the file is truncated");
    memcpy(data, decoder->file->bytes + decoder->at, size);
    decoder->at += size;
}

static void png_decoder_fail(struct png_decoder *decoder, int status)
{
    decoder->status = status;
    png_longjmp(decoder->png, 1);
}

/* Everything becomes 8 bits of red, green and blue, with alpha where there is any. */
static void png_decoder_convert(struct png_decoder *decoder)
{
    png_structp png = decoder->png;
    png_set_expand(png);
    png_set_strip_16(png); /* as Pillow: the upper byte */
    png_set_gray_to_rgb(png);
}

static void png_decoder_pixels(struct png_decoder *decoder)
{
    struct image *image = decoder->image;
    png_structp png = decoder->png;
    const int passes = png_set_interlace_handling(png);
    png_read_update_info(png, decoder->info);
    const size_t width = image->width, height = image->height;
    const bool alpha = png_get_channels(png, decoder->info) == 4;
    if (png_get_rowbytes(png, decoder->info) != width * (alpha ? 4 : 3))
        png_error(png, "a form of pixels that is not known");
    if (alpha) {
        decoder->rows = malloc(width * 4 * (passes > 1 ? height : 1));
        if (!decoder->rows) png_decoder_fail(decoder, error_memory("a PNG's rows"));
    }
    for (int pass = 0; pass < passes; pass++)
        for (size_t y = 0; y < height; y++) {
            uint8_t *to = image->pixels + y * width * 3;
            uint8_t *row = !alpha ? to : passes > 1 ? decoder->rows + y * width * 4 : decoder->rows;
            png_read_row(png, row, NULL);
            if (alpha && pass == passes - 1) pixels_on_white(row, width, to);
        }
}

static void png_decoder_orientation(struct png_decoder *decoder)
{
    png_uint_32 size = 0;
    png_bytep exif = NULL;
    png_textp texts;
    int n_texts = 0;
    unsigned found = 0;
    if (png_get_eXIf_1(decoder->png, decoder->info, &size, &exif)) found = orientation_in_exif(exif, size);
    png_get_text(decoder->png, decoder->info, &texts, &n_texts);
    for (int i = 0; i < n_texts && !found; i++)
        if (strcmp(texts[i].key, "XML:com.adobe.xmp") == 0)
            found = orientation_in_xmp(texts[i].text, strlen(texts[i].text));
    if (found) *decoder->orientation = found;
}

static void png_decoder_run(struct png_decoder *decoder)
{
    png_structp png = decoder->png;
    if (setjmp(png_jmpbuf(png))) return;
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX); /* image_begin has the limit */
    png_set_chunk_malloc_max(png, MOST_CHUNK);
    png_set_chunk_cache_max(png, MOST_CHUNKS);
    png_set_read_fn(png, decoder, png_decoder_more);
    png_read_info(png, decoder->info);
    int status = image_begin(decoder->file, png_get_image_width(png, decoder->info),
                             png_get_image_height(png, decoder->info), decoder->image);
    if (status) png_decoder_fail(decoder, status);
    png_decoder_convert(decoder);
    png_decoder_pixels(decoder);
    decoder->complete = true;
    png_read_end(png, decoder->info); /* metadata may follow the pixels */
}

/* Whether each chunk lies within the file. libpng allocates the length that a chunk claims before it reads
 * it. */
static bool png_file_is_whole(const struct image_file *file)
{
    for (size_t at = 8; file->size - at >= 8;) {
        const uint8_t *chunk = file->bytes + at;
        const size_t length = (size_t)png_get_uint_32(chunk), rest = file->size - at - 8;
        if (memcmp(chunk + 4, "IEND", 4) == 0) return true; /* anything may follow it */
        if (rest < 4 || length > rest - 4) return false;    /* the checksum has 4 bytes */
        at += 12 + length;
    }
    return true;
}

int image_read_png(const struct image_file *file, struct image *image, unsigned *orientation)
{
    if (!png_file_is_whole(file)) return error_raise(ENGINE_ERROR_DATA, "the file is truncated");
    struct png_decoder decoder = {.file = file, .image = image, .orientation = orientation};
    decoder.png =
        png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder, png_decoder_failed, png_decoder_warned);
    if (decoder.png) decoder.info = png_create_info_struct(decoder.png);
    if (!decoder.info) {
        png_destroy_read_struct(&decoder.png, NULL, NULL);
        return error_memory("a PNG's decoder");
    }
    png_decoder_run(&decoder);
    if (decoder.complete) png_decoder_orientation(&decoder);
    png_destroy_read_struct(&decoder.png, &decoder.info, NULL);
    free(decoder.rows);
    if (decoder.complete) return ENGINE_OK;
    return decoder.status ? decoder.status : error_raise(ENGINE_ERROR_DATA, "%s", decoder.message);
}
