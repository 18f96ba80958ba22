/* attention.c: `engine attention`: what each token of a text looks at, by layer and head: as a table, as
 * JSON, or in a file: an array, a picture, or a page that needs nothing else. */
#include <errno.h>
#include <math.h>
#include <png.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "commands/commands.h"
#include "io/files.h"
#include "io/json.h"
#include "io/messages.h"
#include "io/npy.h"
#include "io/output.h"
#include "options/open.h"
#include "prompts/attention.h"
#include "prompts/prompt.h"

/* ---- Choices ---- */

enum form { FORM_TABLE, FORM_NPY, FORM_PNG, FORM_HTML };

static int read_form(const struct arguments *arguments, enum form *form)
{
    static const char *const endings[] = {[FORM_NPY] = ".npy", [FORM_PNG] = ".png", [FORM_HTML] = ".html"};
    const char *path = arguments->output;
    *form = FORM_TABLE;
    if (!path) return ENGINE_OK;
    for (int i = FORM_NPY; i <= FORM_HTML; i++)
        if (has_ending(path, endings[i])) *form = (enum form)i;
    if (*form == FORM_TABLE)
        return command_error(ENGINE_ERROR_ARGUMENT, "-o %s: the name must end in .npy, .png or .html", path);
    if (arguments->json) return command_error(ENGINE_ERROR_ARGUMENT, "use either -o or --json");
    if (token_input_chooses(arguments) && *form != FORM_NPY)
        return command_error(ENGINE_ERROR_ARGUMENT,
                             "--token has no effect on a picture or a page, which show all tokens");
    return ENGINE_OK;
}

/* A number that parsing has checked: at most INT32_MAX. */
static uint32_t number_of(const char *text)
{
    return (uint32_t)strtoul(text, NULL, 10);
}

/* Arrays and pages take everything unless told otherwise; tables and pictures one map, the most telling. */
static void read_choices(const struct arguments *arguments, enum form form, struct attention_map *map)
{
    const char *layer = arguments->layer, *head = arguments->head;
    bool whole = form == FORM_NPY || form == FORM_HTML;
    if (layer ? strcmp(layer, "all") != 0 : !whole) {
        map->first_layer = layer ? number_of(layer) : ATTENTION_LAST_LAYER;
        map->n_layers = 1;
    }
    map->choice = whole ? HEAD_ALL : HEAD_MEAN;
    if (!head) return;
    map->choice = strcmp(head, "all") == 0    ? HEAD_ALL
                  : strcmp(head, "mean") == 0 ? HEAD_MEAN
                  : strcmp(head, "max") == 0  ? HEAD_MAX
                                              : HEAD_ONE;
    if (map->choice == HEAD_ONE) map->head = number_of(head);
}

/* The queries to show: all, or for a table one. */
static int choose_queries(const struct arguments *arguments, enum form form, struct attention_map *map)
{
    bool one = form == FORM_TABLE || token_input_chooses(arguments);
    map->n_queries = one ? 1 : map->tokens->count;
    map->first_query = 0;
    return one ? token_input_choose(arguments, map->model, map->tokens, &map->first_query) : ENGINE_OK;
}

/* ---- Running ---- */

static bool is_interrupted(void *user)
{
    (void)user;
    return interrupted;
}

static int run_attention(const struct arguments *arguments, struct attention_map *map)
{
    struct engine_context_options options;
    struct engine_context *context = NULL;
    const struct token_list *tokens = map->tokens;
    int32_t offload;
    context_options(arguments, &options, &offload);
    map->stops = is_interrupted;
    attention_watch(map, &options);
    int status = create_context(arguments, map->model, &options, &context);
    if (status == ENGINE_ERROR_ARGUMENT && arguments->layer) /* which layers there are is known only now */
        status = command_adopt_error(status);
    if (!status) status = check_tokens(arguments, context, tokens->ids, tokens->count);
    if (!status) status = attention_run(map, context);
    engine_context_destroy(context);
    return status;
}

/* ---- A font for pictures: printable ASCII, 5 by 8 dots ---- */

enum { FONT_WIDTH = 5, FONT_HEIGHT = 8, FONT_ADVANCE = 6 /* from one character to the next */ };

/* Capitals and digits are 7 dots high; the lowest row is for what hangs below the line. */
static const uint8_t glyphs[][FONT_HEIGHT] = {
    {0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00}, /* blank */
    {0x04, 0x04, 0x04, 0x04, 0x04, 0x00, 0x04, 0x00}, /* ! */
    {0x0a, 0x0a, 0x0a, 0x00, 0x00, 0x00, 0x00, 0x00}, /* " */
    {0x0a, 0x0a, 0x1f, 0x0a, 0x1f, 0x0a, 0x0a, 0x00}, /* # */
    {0x04, 0x0f, 0x14, 0x0e, 0x05, 0x1e, 0x04, 0x00}, /* $ */
    {0x18, 0x19, 0x02, 0x04, 0x08, 0x13, 0x03, 0x00}, /* % */
    {0x0c, 0x12, 0x14, 0x08, 0x15, 0x12, 0x0d, 0x00}, /* & */
    {0x04, 0x04, 0x04, 0x00, 0x00, 0x00, 0x00, 0x00}, /* ' */
    {0x02, 0x04, 0x08, 0x08, 0x08, 0x04, 0x02, 0x00}, /* ( */
    {0x08, 0x04, 0x02, 0x02, 0x02, 0x04, 0x08, 0x00}, /* ) */
    {0x00, 0x04, 0x15, 0x0e, 0x15, 0x04, 0x00, 0x00}, /* * */
    {0x00, 0x04, 0x04, 0x1f, 0x04, 0x04, 0x00, 0x00}, /* + */
    {0x00, 0x00, 0x00, 0x00, 0x00, 0x0c, 0x04, 0x08}, /* , */
    {0x00, 0x00, 0x00, 0x1f, 0x00, 0x00, 0x00, 0x00}, /* - */
    {0x00, 0x00, 0x00, 0x00, 0x00, 0x0c, 0x0c, 0x00}, /* . */
    {0x01, 0x01, 0x02, 0x04, 0x08, 0x10, 0x10, 0x00}, /* / */
    {0x0e, 0x11, 0x13, 0x15, 0x19, 0x11, 0x0e, 0x00}, /* 0 */
    {0x04, 0x0c, 0x04, 0x04, 0x04, 0x04, 0x0e, 0x00}, /* 1 */
    {0x0e, 0x11, 0x01, 0x06, 0x08, 0x10, 0x1f, 0x00}, /* 2 */
    {0x1f, 0x02, 0x04, 0x06, 0x01, 0x11, 0x0e, 0x00}, /* 3 */
    {0x02, 0x06, 0x0a, 0x12, 0x1f, 0x02, 0x02, 0x00}, /* 4 */
    {0x1f, 0x10, 0x1e, 0x01, 0x01, 0x11, 0x0e, 0x00}, /* 5 */
    {0x06, 0x08, 0x10, 0x1e, 0x11, 0x11, 0x0e, 0x00}, /* 6 */
    {0x1f, 0x01, 0x02, 0x04, 0x08, 0x08, 0x08, 0x00}, /* 7 */
    {0x0e, 0x11, 0x11, 0x0e, 0x11, 0x11, 0x0e, 0x00}, /* 8 */
    {0x0e, 0x11, 0x11, 0x0f, 0x01, 0x02, 0x0c, 0x00}, /* 9 */
    {0x00, 0x0c, 0x0c, 0x00, 0x0c, 0x0c, 0x00, 0x00}, /* : */
    {0x00, 0x0c, 0x0c, 0x00, 0x0c, 0x04, 0x08, 0x00}, /* ; */
    {0x02, 0x04, 0x08, 0x10, 0x08, 0x04, 0x02, 0x00}, /* < */
    {0x00, 0x00, 0x1f, 0x00, 0x1f, 0x00, 0x00, 0x00}, /* = */
    {0x08, 0x04, 0x02, 0x01, 0x02, 0x04, 0x08, 0x00}, /* > */
    {0x0e, 0x11, 0x01, 0x06, 0x04, 0x00, 0x04, 0x00}, /* ? */
    {0x0e, 0x11, 0x17, 0x15, 0x17, 0x10, 0x0f, 0x00}, /* @ */
    {0x04, 0x0a, 0x11, 0x11, 0x1f, 0x11, 0x11, 0x00}, /* A */
    {0x1e, 0x11, 0x11, 0x1e, 0x11, 0x11, 0x1e, 0x00}, /* B */
    {0x0e, 0x11, 0x10, 0x10, 0x10, 0x11, 0x0e, 0x00}, /* C */
    {0x1c, 0x12, 0x11, 0x11, 0x11, 0x12, 0x1c, 0x00}, /* D */
    {0x1f, 0x10, 0x10, 0x1e, 0x10, 0x10, 0x1f, 0x00}, /* E */
    {0x1f, 0x10, 0x10, 0x1e, 0x10, 0x10, 0x10, 0x00}, /* F */
    {0x0e, 0x11, 0x10, 0x17, 0x11, 0x11, 0x0f, 0x00}, /* G */
    {0x11, 0x11, 0x11, 0x1f, 0x11, 0x11, 0x11, 0x00}, /* H */
    {0x0e, 0x04, 0x04, 0x04, 0x04, 0x04, 0x0e, 0x00}, /* I */
    {0x07, 0x02, 0x02, 0x02, 0x02, 0x12, 0x0c, 0x00}, /* J */
    {0x11, 0x12, 0x14, 0x18, 0x14, 0x12, 0x11, 0x00}, /* K */
    {0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x1f, 0x00}, /* L */
    {0x11, 0x1b, 0x15, 0x15, 0x11, 0x11, 0x11, 0x00}, /* M */
    {0x11, 0x19, 0x15, 0x15, 0x13, 0x11, 0x11, 0x00}, /* N */
    {0x0e, 0x11, 0x11, 0x11, 0x11, 0x11, 0x0e, 0x00}, /* O */
    {0x1e, 0x11, 0x11, 0x1e, 0x10, 0x10, 0x10, 0x00}, /* P */
    {0x0e, 0x11, 0x11, 0x11, 0x15, 0x12, 0x0d, 0x00}, /* Q */
    {0x1e, 0x11, 0x11, 0x1e, 0x14, 0x12, 0x11, 0x00}, /* R */
    {0x0f, 0x10, 0x10, 0x0e, 0x01, 0x01, 0x1e, 0x00}, /* S */
    {0x1f, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04, 0x00}, /* T */
    {0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x0e, 0x00}, /* U */
    {0x11, 0x11, 0x11, 0x11, 0x11, 0x0a, 0x04, 0x00}, /* V */
    {0x11, 0x11, 0x11, 0x15, 0x15, 0x15, 0x0a, 0x00}, /* W */
    {0x11, 0x11, 0x0a, 0x04, 0x0a, 0x11, 0x11, 0x00}, /* X */
    {0x11, 0x11, 0x0a, 0x04, 0x04, 0x04, 0x04, 0x00}, /* Y */
    {0x1f, 0x01, 0x02, 0x04, 0x08, 0x10, 0x1f, 0x00}, /* Z */
    {0x0e, 0x08, 0x08, 0x08, 0x08, 0x08, 0x0e, 0x00}, /* [ */
    {0x10, 0x10, 0x08, 0x04, 0x02, 0x01, 0x01, 0x00}, /* backslash */
    {0x0e, 0x02, 0x02, 0x02, 0x02, 0x02, 0x0e, 0x00}, /* ] */
    {0x04, 0x0a, 0x11, 0x00, 0x00, 0x00, 0x00, 0x00}, /* ^ */
    {0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x1f}, /* _ */
    {0x08, 0x04, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00}, /* ` */
    {0x00, 0x00, 0x0e, 0x01, 0x0f, 0x11, 0x0f, 0x00}, /* a */
    {0x10, 0x10, 0x1e, 0x11, 0x11, 0x11, 0x1e, 0x00}, /* b */
    {0x00, 0x00, 0x0e, 0x11, 0x10, 0x11, 0x0e, 0x00}, /* c */
    {0x01, 0x01, 0x0f, 0x11, 0x11, 0x11, 0x0f, 0x00}, /* d */
    {0x00, 0x00, 0x0e, 0x11, 0x1f, 0x10, 0x0e, 0x00}, /* e */
    {0x06, 0x09, 0x08, 0x1c, 0x08, 0x08, 0x08, 0x00}, /* f */
    {0x00, 0x00, 0x0f, 0x11, 0x11, 0x0f, 0x01, 0x0e}, /* g */
    {0x10, 0x10, 0x16, 0x19, 0x11, 0x11, 0x11, 0x00}, /* h */
    {0x04, 0x00, 0x0c, 0x04, 0x04, 0x04, 0x0e, 0x00}, /* i */
    {0x02, 0x00, 0x06, 0x02, 0x02, 0x02, 0x12, 0x0c}, /* j */
    {0x10, 0x10, 0x12, 0x14, 0x18, 0x14, 0x12, 0x00}, /* k */
    {0x0c, 0x04, 0x04, 0x04, 0x04, 0x04, 0x0e, 0x00}, /* l */
    {0x00, 0x00, 0x1a, 0x15, 0x15, 0x15, 0x11, 0x00}, /* m */
    {0x00, 0x00, 0x16, 0x19, 0x11, 0x11, 0x11, 0x00}, /* n */
    {0x00, 0x00, 0x0e, 0x11, 0x11, 0x11, 0x0e, 0x00}, /* o */
    {0x00, 0x00, 0x1e, 0x11, 0x11, 0x1e, 0x10, 0x10}, /* p */
    {0x00, 0x00, 0x0f, 0x11, 0x11, 0x0f, 0x01, 0x01}, /* q */
    {0x00, 0x00, 0x16, 0x19, 0x10, 0x10, 0x10, 0x00}, /* r */
    {0x00, 0x00, 0x0f, 0x10, 0x0e, 0x01, 0x1e, 0x00}, /* s */
    {0x08, 0x08, 0x1c, 0x08, 0x08, 0x09, 0x06, 0x00}, /* t */
    {0x00, 0x00, 0x11, 0x11, 0x11, 0x13, 0x0d, 0x00}, /* u */
    {0x00, 0x00, 0x11, 0x11, 0x11, 0x0a, 0x04, 0x00}, /* v */
    {0x00, 0x00, 0x11, 0x11, 0x15, 0x15, 0x0a, 0x00}, /* w */
    {0x00, 0x00, 0x11, 0x0a, 0x04, 0x0a, 0x11, 0x00}, /* x */
    {0x00, 0x00, 0x11, 0x11, 0x11, 0x0f, 0x01, 0x0e}, /* y */
    {0x00, 0x00, 0x1f, 0x02, 0x04, 0x08, 0x1f, 0x00}, /* z */
    {0x02, 0x04, 0x04, 0x08, 0x04, 0x04, 0x02, 0x00}, /* { */
    {0x04, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04, 0x00}, /* | */
    {0x08, 0x04, 0x04, 0x02, 0x04, 0x04, 0x08, 0x00}, /* } */
    {0x00, 0x00, 0x08, 0x15, 0x02, 0x00, 0x00, 0x00}, /* ~ */
};

/* The rows of a character from the top, bit 4 being the leftmost dot. A box for anything that isn't printable
 * ASCII. */
static const uint8_t *font_glyph(unsigned char character)
{
    static const uint8_t box[FONT_HEIGHT] = {0x1f, 0x11, 0x11, 0x11, 0x11, 0x11, 0x1f, 0x00};
    return character >= ' ' && character <= '~' ? glyphs[character - ' '] : box;
}

/* ---- Pictures: for each layer and head a map with a row for each token that looks, from the first, and a
 * column for each that is looked at. Darker is more. ---- */

enum {
    MAX_CELL = 28,       /* dots of a weight's side at most */
    MAP_SIDE = 1200,     /* dots of a map's side at most, unless a weight gets a single dot */
    LARGEST_SIDE = 2400, /* beyond that, a dot is the largest of several weights */
    LARGE_CELL = 18,     /* letters are twice as large in maps of such cells */
    MARGIN = 12,
    SCALE = 100, /* colours in the title */
    LABEL = 14   /* characters of a token's text at most */
};
#define MAX_DOTS ((double)(1 << 26))

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

static void fill_dots(struct picture *picture, size_t x, size_t y, size_t width, size_t height,
                      struct rgb colour)
{
    for (size_t j = 0; j < height; j++)
        for (size_t i = 0; i < width; i++) put_dot(picture, x + i, y + j, colour);
}

/* The text of a token as characters of the font: escapes for what controls, 0 (a box) for each other
 * character. */
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
                    fill_dots(picture, x + across, y - along - scale, scale, scale, ink);
                else
                    fill_dots(picture, x + along, y + across, scale, scale, ink);
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
    if (layout.cell > MAX_CELL) layout.cell = MAX_CELL;
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
        fill_dots(picture, at + i * layout->letter, top + MARGIN + line, layout->letter,
                  FONT_HEIGHT * layout->letter, colour_of((float)i / (SCALE - 1)));
    at += (SCALE + FONT_ADVANCE) * layout->letter;
    snprintf(title, sizeof title, "%.3f; rows look at columns", (double)most);
    write_line(picture, at, top + MARGIN + line, layout->letter, title);
    for (size_t row = 0; row < cells; row++)
        for (size_t column = 0; column < cells; column++) {
            float weight = weight_at(map, layout, layer, head, row, column);
            struct rgb colour = weight < 0 ? pale : colour_of(most > 0 ? weight / most : 0);
            fill_dots(picture, x + column * layout->cell, y + row * layout->cell, layout->cell, layout->cell,
                      colour);
        }
    draw_labels(picture, map, layout, x, y);
}

static int write_png(const struct attention_map *map, FILE *file)
{
    const struct layout layout = lay_out(map);
    struct picture picture = {layout.width * map->n_heads, layout.height * map->n_layers, NULL};
    if ((double)picture.width * (double)picture.height > MAX_DOTS)
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

/* ---- Showing ---- */

static int write_npy(const struct attention_map *map, FILE *file)
{
    size_t n = map->tokens->count, count = map->n_layers * map->n_heads * map->n_queries * n;
    const size_t shape[] = {map->n_layers, map->n_heads, map->n_queries, n};
    if (npy_write_header_of(file, shape, 4) == 0 &&
        fwrite(map->weights, sizeof *map->weights, count, file) == count)
        return ENGINE_OK;
    return command_error(ENGINE_ERROR, "cannot write the weights: %s", strerror(errno));
}

static int write_file(const struct arguments *arguments, const struct attention_map *map, enum form form)
{
    struct output output;
    int status = output_open(&output, arguments->output);
    if (status) return status;
    status = form == FORM_NPY   ? write_npy(map, output.file)
             : form == FORM_PNG ? write_png(map, output.file)
                                : attention_write_html(map, output.file);
    int closed = output_close(&output, !status && !interrupted);
    return status ? status : closed;
}

int command_attention(const struct arguments *arguments)
{
    struct engine *engine = NULL;
    struct token_list tokens = {0};
    struct attention_map map = {.tokens = &tokens};
    enum form form = FORM_TABLE;
    int exit_status = 0, status = read_form(arguments, &form);
    read_choices(arguments, form, &map);
    if (!status) status = token_input_ids(arguments, &tokens);
    if (!status) status = open_engine(arguments, &engine);
    if (!status && arguments->output) {
        const char *inputs[] = {path_of_model(arguments, engine), arguments->tokenizer,
                                arguments->tokens_file, arguments->prompt_file};
        status = output_check(arguments->output, engine, inputs, sizeof inputs / sizeof *inputs);
        if (!status) status = check_not_adapter(arguments->output, engine, arguments);
    }
    if (!status) status = open_model(arguments, engine, &map.model);
    if (!status) status = refuse_source(map.model, "attention");
    if (!status) status = token_input_text(arguments, map.model, &tokens);
    /* Shows the texts of tokens, unless it writes numbers only. */
    struct vocabulary vocabulary;
    if (!status && form != FORM_NPY) {
        status = vocabulary_open_for_ids(map.model, &vocabulary);
        map.shows_ids = !vocabulary.api;
    }
    if (!status) status = choose_queries(arguments, form, &map);
    if (!status) status = run_attention(arguments, &map);
    if (!status && form != FORM_TABLE) status = write_file(arguments, &map, form);
    if (!status && form == FORM_TABLE)
        exit_status = arguments->json ? json_print(attention_json(&map)) : attention_print_table(&map);
    if (status && !interrupted) exit_status = command_fail();
    engine_model_close(map.model);
    engine_close(engine);
    attention_free(&map);
    free(tokens.ids);
    return exit_status;
}
