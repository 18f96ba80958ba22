/* attention-png.c: attention weights as a picture: for each layer and head a map with a row for each token that looks,
 * from the first, and a column for each that is looked at. Darker is more. See attention.h. */
#include <errno.h>
#include <math.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>

#include "commands/attention.h"
#include "commands/common.h"
#include "commands/font.h"

enum {
    MOST_CELL = 28,      /* dots of a weight's side at most */
    MAP_SIDE = 1200,     /* dots of a map's side at most, unless a weight gets a single dot */
    LARGEST_SIDE = 2400, /* beyond that, a dot is the largest of several weights */
    LARGE_CELL = 18,     /* letters are twice as large in maps of such cells */
    MARGIN = 12,
    SCALE = 100, /* colours in the title */
    LABEL = 14   /* characters of a token's text at most */
};
#define MOST_DOTS ((double)(1 << 26))

struct rgb {
    uint8_t r, g, b;
};

static const struct rgb ink = {30, 30, 30}, pale = {238, 238, 238};

struct picture {
    size_t width, height;
    struct rgb *dots; /* [height, width] */
};

/* How the maps are laid out, all alike. */
struct layout {
    size_t n, per_dot; /* weights of a side; of them, those that share a dot */
    size_t cell, side; /* dots */
    size_t letter;     /* dots of a letter's dot */
    size_t label;      /* dots of the labels' length */
    size_t every;      /* so many rows have one label */
    size_t width, height;
};

static void put_dot(struct picture *picture, size_t x, size_t y, struct rgb colour)
{
    if (x < picture->width && y < picture->height) picture->dots[y * picture->width + x] = colour;
}

static void fill(struct picture *picture, size_t x, size_t y, size_t width, size_t height, struct rgb colour)
{
    for (size_t j = 0; j < height; j++)
        for (size_t i = 0; i < width; i++) put_dot(picture, x + i, y + j, colour);
}

/* ---- Texts ---- */

/* The text of a token as characters of the font: escapes for what controls, 0 (a box) for each other character. */
static size_t label_of(const struct attention_map *map, size_t token, unsigned char label[LABEL])
{
    struct id_text room;
    struct engine_string text = attention_token(map, token, &room);
    size_t n = 0;
    for (size_t i = 0; i < text.length && n < LABEL; i++) {
        unsigned char c = (unsigned char)text.data[i];
        unsigned char escape = c == '\n' ? 'n' : c == '\t' ? 't' : c == '\r' ? 'r' : 0;
        if ((c & 0xc0) == 0x80 && i > 0) continue; /* within a character */
        if (escape) label[n++] = '\\';
        if (n < LABEL) label[n++] = escape ? escape : c >= ' ' && c <= '~' ? c : 0;
        if (n == LABEL && i + 1 < text.length) label[n - 1] = label[n - 2] = '.';
    }
    return n;
}

/* A line of text, from left to right or, with `up`, from the bottom upwards. */
static void write_text(struct picture *picture, size_t x, size_t y, size_t scale, bool up,
                       const unsigned char *text, size_t n)
{
    for (size_t c = 0; c < n; c++) {
        const uint8_t *glyph = font_glyph(text[c]);
        for (size_t row = 0; row < FONT_HEIGHT; row++)
            for (size_t column = 0; column < FONT_WIDTH; column++) {
                if (!(glyph[row] >> (FONT_WIDTH - 1 - column) & 1)) continue;
                size_t along = (c * FONT_ADVANCE + column) * scale, across = row * scale;
                if (up)
                    fill(picture, x + across, y - along - scale, scale, scale, ink);
                else
                    fill(picture, x + along, y + across, scale, scale, ink);
            }
    }
}

static void write_line(struct picture *picture, size_t x, size_t y, size_t scale, const char *text)
{
    write_text(picture, x, y, scale, false, (const unsigned char *)text, strlen(text));
}

/* ---- Maps ---- */

static struct layout lay_out(const struct attention_map *map)
{
    struct layout layout = {.n = map->tokens->count, .letter = 1};
    size_t longest = 0;
    layout.per_dot = (layout.n + LARGEST_SIDE - 1) / LARGEST_SIDE;
    layout.cell = MAP_SIDE / layout.n;
    if (layout.cell < 1) layout.cell = 1;
    if (layout.cell > MOST_CELL) layout.cell = MOST_CELL;
    layout.side = (layout.n + layout.per_dot - 1) / layout.per_dot * layout.cell;
    if (layout.cell >= LARGE_CELL) layout.letter = 2;
    for (size_t i = 0; i < layout.n; i++) {
        unsigned char label[LABEL];
        size_t length = label_of(map, i, label);
        if (length > longest) longest = length;
    }
    layout.label = (longest * FONT_ADVANCE + 2) * layout.letter;
    layout.every = 1;
    while (layout.every * layout.cell < (FONT_HEIGHT + 1) * layout.letter * layout.per_dot) layout.every++;
    size_t title = layout.letter * 2 * (FONT_HEIGHT + 4);
    size_t least =
        layout.letter * (SCALE + 34 * FONT_ADVANCE) + 2 * (size_t)MARGIN; /* the second line of the title */
    layout.width = layout.label + layout.side + 2 * (size_t)MARGIN;
    if (layout.width < least) layout.width = least;
    layout.height = title + layout.label + layout.side + 2 * (size_t)MARGIN;
    return layout;
}

/* From white over blue to nearly black. The root makes small weights visible. */
static struct rgb colour_of(float share)
{
    static const float stops[][3] = {{255, 255, 255}, {107, 174, 214}, {8, 48, 107}};
    float at = 2 * sqrtf(fminf(fmaxf(share, 0), 1));
    int i = at < 1 ? 0 : 1;
    float part = at - (float)i;
    uint8_t mixed[3];
    for (int c = 0; c < 3; c++)
        mixed[c] = (uint8_t)(stops[i][c] + part * (stops[i + 1][c] - stops[i][c]) + 0.5f);
    return (struct rgb){mixed[0], mixed[1], mixed[2]};
}

/* The largest weight among those of a dot's rows and columns; -1: no token sees any of them. */
static float weight_at(const struct attention_map *map, const struct layout *layout, size_t layer,
                       size_t head, size_t row, size_t column)
{
    size_t query = row * layout->per_dot, key = column * layout->per_dot;
    float most = -1;
    for (size_t i = query; i < query + layout->per_dot && i < layout->n; i++)
        for (size_t j = key; j < key + layout->per_dot && j < attention_seen(map, i); j++)
            most = fmaxf(most, attention_row(map, layer, head, i)[j]);
    return most;
}

static void draw_labels(struct picture *picture, const struct attention_map *map, const struct layout *layout,
                        size_t x, size_t y)
{
    size_t half = (layout->every == 1 ? layout->cell : 0) / 2, middle = FONT_HEIGHT * layout->letter / 2;
    for (size_t i = 0; i < layout->n; i += layout->every) {
        unsigned char label[LABEL];
        size_t n = label_of(map, i, label),
               at = i / layout->per_dot * layout->cell + (half > middle ? half - middle : 0);
        size_t length = (n * FONT_ADVANCE + 1) * layout->letter;
        write_text(picture, x - length, y + at, layout->letter, false, label, n);
        write_text(picture, x + at, y - layout->letter, layout->letter, true, label, n);
    }
}

static void draw_map(struct picture *picture, const struct attention_map *map, const struct layout *layout,
                     size_t layer, size_t head, size_t left, size_t top)
{
    char title[128], name[HEAD_TEXT_SIZE];
    size_t line = (FONT_HEIGHT + 4) * layout->letter, x = left + MARGIN + layout->label;
    size_t y = top + MARGIN + 2 * line + layout->label, cells = layout->side / layout->cell;
    float most = 0;
    for (size_t query = 0; query < layout->n; query++)
        for (size_t key = 0; key < attention_seen(map, query); key++)
            most = fmaxf(most, attention_row(map, layer, head, query)[key]);
    snprintf(title, sizeof title, "layer %u, %s", map->layers[layer], attention_head_text(map, head, name));
    write_line(picture, left + MARGIN, top + MARGIN, layout->letter, title);
    size_t at = left + MARGIN;
    write_line(picture, at, top + MARGIN + line, layout->letter, "0");
    at += layout->letter * 2 * FONT_ADVANCE;
    for (size_t i = 0; i < SCALE; i++)
        fill(picture, at + i * layout->letter, top + MARGIN + line, layout->letter,
             FONT_HEIGHT * layout->letter, colour_of((float)i / (SCALE - 1)));
    at += (SCALE + FONT_ADVANCE) * layout->letter;
    snprintf(title, sizeof title, "%.3f; rows look at columns", (double)most);
    write_line(picture, at, top + MARGIN + line, layout->letter, title);
    for (size_t row = 0; row < cells; row++)
        for (size_t column = 0; column < cells; column++) {
            float weight = weight_at(map, layout, layer, head, row, column);
            struct rgb colour = weight < 0 ? pale : colour_of(most > 0 ? weight / most : 0);
            fill(picture, x + column * layout->cell, y + row * layout->cell, layout->cell, layout->cell,
                 colour);
        }
    draw_labels(picture, map, layout, x, y);
}

int attention_write_png(const struct attention_map *map, FILE *file)
{
    const struct layout layout = lay_out(map);
    struct picture picture = {layout.width * map->n_heads, layout.height * map->n_layers, NULL};
    if ((double)picture.width * (double)picture.height > MOST_DOTS)
        return command_error(
            ENGINE_ERROR_ARGUMENT,
            "the picture would have %zu x %zu dots; choose one with --layer and --head, or a shorter text",
            picture.width, picture.height);
    picture.dots = malloc(picture.width * picture.height * sizeof *picture.dots);
    if (!picture.dots) return command_error(ENGINE_ERROR_MEMORY, "out of memory (picture)");
    memset(picture.dots, 255, picture.width * picture.height * sizeof *picture.dots);
    for (size_t layer = 0; layer < map->n_layers; layer++)
        for (size_t head = 0; head < map->n_heads; head++)
            draw_map(&picture, map, &layout, layer, head, head * layout.width, layer * layout.height);
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)picture.width,
                       .height = (png_uint_32)picture.height,
                       .format = PNG_FORMAT_RGB};
    int written = png_image_write_to_stdio(&image, file, 0, picture.dots, 0, NULL);
    free(picture.dots);
    return written ? ENGINE_OK : command_error(ENGINE_ERROR, "cannot write the picture: %s", image.message);
}
