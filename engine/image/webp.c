/* webp.c: reads WebP by libwebp, of an animation the first frame. See internal.h. */
#include <stdlib.h>
#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>

#include "base/error.h"
#include "common/assert.h"
#include "image/internal.h"

static unsigned webp_orientation(const WebPDemuxer *demuxer, const char *name)
{
    WebPChunkIterator chunk;
    if (!WebPDemuxGetChunk(demuxer, name, 1, &chunk)) return 0;
    const uint8_t *bytes = chunk.chunk.bytes;
    unsigned found = strcmp(name, "EXIF") == 0 ? orientation_in_exif(bytes, chunk.chunk.size)
                                               : orientation_in_xmp(bytes, chunk.chunk.size);
    WebPDemuxReleaseChunkIterator(&chunk);
    return found;
}

/* A frame into its place on the canvas. Around it the canvas is transparent, or black if the file has no
 * alpha. */
static int webp_read_frame(const WebPIterator *frame, bool alpha, struct image *image)
{
    const uint32_t width = (uint32_t)frame->width, height = (uint32_t)frame->height;
    const size_t stride = (size_t)width * 4;
    const uint32_t x = (uint32_t)frame->x_offset, y = (uint32_t)frame->y_offset;
    ENGINE_ASSERT(x + width <= image->width && y + height <= image->height);
    uint8_t *rows = malloc(stride * height);
    if (!rows) return error_memory("a WebP's frame");
    if (!WebPDecodeRGBAInto(frame->fragment.bytes, frame->fragment.size, rows, stride * height,
                            (int)stride)) {
        free(rows);
        return error_raise(ENGINE_ERROR_DATA, "the data of its pixels is damaged");
    }
    memset(image->pixels, alpha ? 255 : 0, (size_t)image->width * image->height * 3);
    for (size_t row = 0; row < height; row++)
        pixels_on_white(rows + row * stride, width, image->pixels + ((y + row) * image->width + x) * 3);
    free(rows);
    return ENGINE_OK;
}

static int webp_read_first(const WebPIterator *frame, bool alpha, struct image *image)
{
    const size_t stride = (size_t)image->width * 3;
    if (frame->has_alpha || (uint32_t)frame->width != image->width ||
        (uint32_t)frame->height != image->height)
        return webp_read_frame(frame, alpha, image);
    if (!WebPDecodeRGBInto(frame->fragment.bytes, frame->fragment.size, image->pixels, stride * image->height,
                           (int)stride))
        return error_raise(ENGINE_ERROR_DATA, "the data of its pixels is damaged");
    return ENGINE_OK;
}

int image_read_webp(const struct image_file *file, struct image *image, unsigned *orientation)
{
    const WebPData data = {file->bytes, file->size};
    WebPDemuxState state;
    WebPDemuxer *demuxer = WebPDemuxPartial(&data, &state);
    if (!demuxer || state == WEBP_DEMUX_PARSING_HEADER) {
        WebPDemuxDelete(demuxer);
        return error_raise(ENGINE_ERROR_DATA, "its header is damaged");
    }
    WebPIterator frame;
    int status = image_begin(file, WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_WIDTH),
                             WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_HEIGHT), image);
    if (status) goto cleanup;
    if (state != WEBP_DEMUX_DONE) {
        status = error_raise(ENGINE_ERROR_DATA, "the file is truncated");
        goto cleanup;
    }
    if (!WebPDemuxGetFrame(demuxer, 1, &frame)) {
        status = error_raise(ENGINE_ERROR_DATA, "it has no frame");
        goto cleanup;
    }
    status = webp_read_first(&frame, WebPDemuxGetI(demuxer, WEBP_FF_FORMAT_FLAGS) & ALPHA_FLAG, image);
    WebPDemuxReleaseIterator(&frame);
    unsigned found = webp_orientation(demuxer, "EXIF");
    if (!found) found = webp_orientation(demuxer, "XMP ");
    if (found) *orientation = found;
cleanup:
    WebPDemuxDelete(demuxer);
    return status;
}
