/* jpeg.c: reads JPEG by libjpeg-turbo, with its default settings, which are Pillow's. See internal.h.
 *
 * libjpeg reports errors by a function that doesn't return: all that decoding changes is in a struct, so that
 * it survives the longjmp. */
#include <setjmp.h>
#include <stdio.h> /* before libjpeg's header, which needs it */
#include <stdlib.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

#include "base/error.h"
#include "image/internal.h"

/* Each scan of a progressive file goes over all pixels, and may take a few bytes: a small file could ask for
 * thousands. Encoders write about ten. */
#define MOST_SCANS 200

struct jpeg_decoder {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    struct jpeg_source_mgr source;
    const struct image_file *file;
    struct image *image;
    unsigned *orientation;
    uint8_t *row; /* of pixels in CMYK */
    int status;   /* of the failure */
    jmp_buf failed;
};

static void jpeg_decoder_fail(struct jpeg_decoder *decoder, int status)
{
    decoder->status = status;
    longjmp(decoder->failed, 1);
}

static void jpeg_decoder_failed(j_common_ptr jpeg)
{
    char message[JMSG_LENGTH_MAX];
    int status = jpeg->err->msg_code == JERR_OUT_OF_MEMORY ? ENGINE_ERROR_MEMORY : ENGINE_ERROR_DATA;
    jpeg->err->format_message(jpeg, message);
    jpeg_decoder_fail(jpeg->client_data, error_raise(status, "%s", message));
}

static void jpeg_decoder_warned(j_common_ptr jpeg, int level)
{
    (void)jpeg;
    (void)level;
}

static void jpeg_decoder_progress(j_common_ptr jpeg)
{
    struct jpeg_decoder *decoder = jpeg->client_data;
    if (decoder->jpeg.input_scan_number > MOST_SCANS)
        jpeg_decoder_fail(decoder, error_raise(ENGINE_ERROR_DATA, "more than %d scans", MOST_SCANS));
}

static void jpeg_source_begin(j_decompress_ptr jpeg)
{
    (void)jpeg;
}

static boolean jpeg_source_more(j_decompress_ptr jpeg)
{
    jpeg_decoder_fail(jpeg->client_data, error_raise(ENGINE_ERROR_DATA, "the file is truncated"));
    return FALSE;
}

static void jpeg_source_skip(j_decompress_ptr jpeg, long count)
{
    if (count <= 0) return;
    if ((size_t)count > jpeg->src->bytes_in_buffer) jpeg_source_more(jpeg);
    jpeg->src->next_input_byte += count;
    jpeg->src->bytes_in_buffer -= (size_t)count;
}

/* EXIF data first: XMP data counts only where that says nothing. */
static void jpeg_decoder_orientation(struct jpeg_decoder *decoder)
{
    static const char xmp[] = "http://ns.adobe.com/xap/1.0/"; /* with its NUL */
    unsigned from_exif = 0, from_xmp = 0;
    for (jpeg_saved_marker_ptr marker = decoder->jpeg.marker_list; marker; marker = marker->next) {
        const uint8_t *data = marker->data;
        size_t size = marker->data_length;
        if (!from_exif && size >= 6 && memcmp(data, "Exif\0\0", 6) == 0)
            from_exif = orientation_in_exif(data, size);
        else if (!from_xmp && size >= sizeof xmp && memcmp(data, xmp, sizeof xmp) == 0)
            from_xmp = orientation_in_xmp(data + sizeof xmp, size - sizeof xmp);
    }
    if (from_exif || from_xmp) *decoder->orientation = from_exif ? from_exif : from_xmp;
}

/* Adobe's programs, which write nearly all such files, store the inks inverted: 255 is none. */
static void jpeg_row_from_cmyk(const uint8_t *cmyk, size_t count, uint8_t *rgb)
{
    for (size_t i = 0; i < count; i++, cmyk += 4, rgb += 3)
        for (unsigned c = 0; c < 3; c++)
            rgb[c] = (uint8_t)(cmyk[3] - ((255 - cmyk[c]) * cmyk[3] + 127) / 255);
}

static void jpeg_decoder_pixels(struct jpeg_decoder *decoder)
{
    struct jpeg_decompress_struct *jpeg = &decoder->jpeg;
    struct image *image = decoder->image;
    const bool inks = jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK;
    jpeg->out_color_space = inks ? JCS_CMYK : JCS_RGB;
    if (inks && !(decoder->row = malloc((size_t)image->width * 4)))
        jpeg_decoder_fail(decoder, error_memory("a JPEG's row"));
    jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
        uint8_t *to = image->pixels + (size_t)jpeg->output_scanline * image->width * 3;
        JSAMPROW row = inks ? decoder->row : to;
        jpeg_read_scanlines(jpeg, &row, 1);
        if (inks) jpeg_row_from_cmyk(row, image->width, to);
    }
    jpeg_finish_decompress(jpeg);
}

static void jpeg_decoder_run(struct jpeg_decoder *decoder)
{
    struct jpeg_decompress_struct *jpeg = &decoder->jpeg;
    if (setjmp(decoder->failed)) return;
    jpeg_create_decompress(jpeg); /* which clears all but err and client_data */
    jpeg->src = &decoder->source;
    jpeg->progress = &decoder->progress;
    jpeg_save_markers(jpeg, JPEG_APP0 + 1, 0xffff); /* EXIF and XMP data */
    jpeg_read_header(jpeg, TRUE);
    int status = image_begin(decoder->file, jpeg->image_width, jpeg->image_height, decoder->image);
    if (status) jpeg_decoder_fail(decoder, status);
    jpeg_decoder_orientation(decoder);
    jpeg_decoder_pixels(decoder);
}

int image_read_jpeg(const struct image_file *file, struct image *image, unsigned *orientation)
{
    struct jpeg_decoder decoder = {.file = file, .image = image, .orientation = orientation};
    decoder.jpeg.client_data = &decoder;
    decoder.jpeg.err = jpeg_std_error(&decoder.errors);
    decoder.errors.error_exit = jpeg_decoder_failed;
    decoder.errors.emit_message = jpeg_decoder_warned;
    decoder.progress.progress_monitor = jpeg_decoder_progress;
    decoder.source = (struct jpeg_source_mgr){
        .next_input_byte = file->bytes,
        .bytes_in_buffer = file->size,
        .init_source = jpeg_source_begin,
        .fill_input_buffer = jpeg_source_more,
        .skip_input_data = jpeg_source_skip,
        .resync_to_restart = jpeg_resync_to_restart,
        .term_source = jpeg_source_begin,
    };
    jpeg_decoder_run(&decoder);
    jpeg_destroy_decompress(&decoder.jpeg);
    free(decoder.row);
    return decoder.status;
}
