/* gif.c: reads the first frame of a GIF by giflib. See internal.h. */
#include <stdlib.h>
#include <string.h>

#include <gif_lib.h>

#include "base/error.h"
#include "image/internal.h"

#define NO_INDEX (-1)

struct gif_source {
    const struct image_file *file;
    size_t at; /* bytes that were read */
};

static int gif_source_read(GifFileType *gif, GifByteType *to, int count)
{
    struct gif_source *source = gif->UserData;
    size_t left = source->file->size - source->at, n = (size_t)count < left ? (size_t)count : left;
    memcpy(to, source->file->bytes + source->at, n);
    source->at += n;
    return (int)n;
}

static int gif_failed(int code)
{
    const char *message = GifErrorString(code);
    if (code == D_GIF_ERR_READ_FAILED || code == D_GIF_ERR_EOF_TOO_SOON) message = "the file is truncated";
    return error_raise(code == D_GIF_ERR_NOT_ENOUGH_MEM ? ENGINE_ERROR_MEMORY : ENGINE_ERROR_DATA, "%s",
                       message ? message : "damaged");
}

/* Goes to the first frame; *transparent is the colour that its extension makes so, or NO_INDEX. */
static int gif_find_frame(GifFileType *gif, int *transparent)
{
    GifRecordType type = UNDEFINED_RECORD_TYPE;
    GraphicsControlBlock control;
    GifByteType *data;
    int code;
    *transparent = NO_INDEX;
    while (DGifGetRecordType(gif, &type) == GIF_OK && type != TERMINATE_RECORD_TYPE) {
        if (type == IMAGE_DESC_RECORD_TYPE)
            return DGifGetImageDesc(gif) == GIF_OK ? ENGINE_OK : gif_failed(gif->Error);
        if (type != EXTENSION_RECORD_TYPE) continue;
        if (DGifGetExtension(gif, &code, &data) != GIF_OK) return gif_failed(gif->Error);
        /* giflib puts the size of the block before it */
        if (data && code == GRAPHICS_EXT_FUNC_CODE &&
            DGifExtensionToGCB(data[0], data + 1, &control) == GIF_OK)
            *transparent = control.TransparentColor;
        while (data)
            if (DGifGetExtensionNext(gif, &data) != GIF_OK) return gif_failed(gif->Error);
    }
    return type == TERMINATE_RECORD_TYPE ? error_raise(ENGINE_ERROR_DATA, "it has no frame")
                                         : gif_failed(gif->Error);
}

/* All 256 colours: those of a map, else grey, as Pillow has them; the transparent one is white. */
static void gif_colours(const ColorMapObject *map, int transparent, uint8_t colours[256][3])
{
    for (int i = 0; i < 256; i++) {
        uint8_t *colour = colours[i];
        colour[0] = colour[1] = colour[2] = (uint8_t)i;
        if (map && i < map->ColorCount) {
            colour[0] = map->Colors[i].Red;
            colour[1] = map->Colors[i].Green;
            colour[2] = map->Colors[i].Blue;
        }
        if (i == transparent) memset(colour, 255, 3);
    }
}

static int gif_read_rows(GifFileType *gif, struct image *image, uint8_t colours[256][3], uint8_t *row)
{
    static const struct pass {
        int first, step;
    } passes[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}}, all = {0, 1};
    const GifImageDesc *frame = &gif->Image;
    const struct pass *pass = frame->Interlace ? passes : &all;
    for (int n = frame->Interlace ? 4 : 1; n > 0; n--, pass++)
        for (int y = pass->first; y < frame->Height; y += pass->step) {
            if (DGifGetLine(gif, row, frame->Width) != GIF_OK) return gif_failed(gif->Error);
            uint8_t *to = image->pixels + ((size_t)(frame->Top + y) * image->width + (size_t)frame->Left) * 3;
            for (int x = 0; x < frame->Width; x++, to += 3) memcpy(to, colours[row[x]], 3);
        }
    return ENGINE_OK;
}

/* The frame on its screen, which grows to hold it; around it is the transparent colour or the first. */
static int gif_read_frame(GifFileType *gif, const struct image_file *file, struct image *image)
{
    uint8_t colours[256][3];
    int transparent;
    int status = gif_find_frame(gif, &transparent);
    if (status) return status;
    const GifImageDesc *frame = &gif->Image;
    if (frame->Width < 1 || frame->Height < 1) return error_raise(ENGINE_ERROR_DATA, "its frame is empty");
    const int right = frame->Left + frame->Width, bottom = frame->Top + frame->Height;
    status = image_begin(file, (uint64_t)(right > gif->SWidth ? right : gif->SWidth),
                         (uint64_t)(bottom > gif->SHeight ? bottom : gif->SHeight), image);
    if (status) return status;
    gif_colours(frame->ColorMap ? frame->ColorMap : gif->SColorMap, transparent, colours);
    const uint8_t *around = colours[transparent == NO_INDEX ? 0 : transparent];
    for (size_t i = 0; i < (size_t)image->width * image->height; i++)
        memcpy(image->pixels + 3 * i, around, 3);
    uint8_t *row = malloc((size_t)frame->Width);
    if (!row) return error_memory("a GIF's row");
    status = gif_read_rows(gif, image, colours, row);
    free(row);
    return status;
}

int image_read_gif(const struct image_file *file, struct image *image, unsigned *orientation)
{
    struct gif_source source = {file, 0};
    int code = 0;
    (void)orientation; /* GIF has no EXIF data */
    GifFileType *gif = DGifOpen(&source, gif_source_read, &code);
    if (!gif) return gif_failed(code);
    int status = gif_read_frame(gif, file, image);
    DGifCloseFile(gif, &code);
    return status;
}
