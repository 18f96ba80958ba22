/* attention-html.c: attention weights as a page that needs nothing else: attention-page.html with the data filled in.
 * See attention.h. */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "commands/attention-page.h"
#include "commands/attention.h"
#include "commands/common.h"
#include "commands/json.h"

#define MOST_BYTES                                                                                           \
    ((size_t)64 << 20) /* of weights in a page, before base64: browsers take about as much well */

/* Tokens are text, whatever they spell: JSON in which nothing ends the element or begins another. */
static int write_facts(const struct attention_map *map, FILE *file)
{
    struct engine_model_info info = {.struct_size = sizeof info};
    engine_model_get_info(map->model, &info);
    json_t *tokens = json_array(), *layers = json_array(), *heads = json_array();
    for (size_t i = 0; i < map->tokens->count; i++) {
        struct id_text room = {0};
        struct engine_string text = attention_token(map, i, &room);
        json_array_append_new(tokens, json_text(text.length > 0 ? text.data : "", text.length));
    }
    for (size_t i = 0; i < map->n_layers; i++) json_array_append_new(layers, json_count(map->layers[i]));
    for (size_t i = 0; i < map->n_heads; i++) {
        char text[HEAD_TEXT_SIZE];
        json_array_append_new(heads, json_string(attention_head_text(map, i, text)));
    }
    json_t *facts = json_pack("{s:o, s:o, s:o, s:o, s:b}", "model",
                              json_line(info.name[0] ? info.name : info.architecture), "tokens", tokens,
                              "layers", layers, "heads", heads, "both", map->both_ways);
    char *json = facts ? json_dumps(facts, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    for (const char *at = json; at && *at; at++)
        if (strchr("<>&", *at))
            fprintf(file, "\\u%04x", (unsigned char)*at);
        else
            fputc(*at, file);
    json_decref(facts);
    if (!json) return command_error(ENGINE_ERROR_MEMORY, "out of memory (page)");
    free(json);
    return ENGINE_OK;
}

/* Bytes on their way to base64. */
struct base64 {
    FILE *file;
    uint32_t bits;
    int n; /* bytes in them */
};

static void flush_base64(struct base64 *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (out->n == 0) return;
    uint32_t bits = out->bits << 8 * (3 - out->n);
    for (int i = 0; i < 4; i++) fputc(i <= out->n ? digits[bits >> (18 - 6 * i) & 63] : '=', out->file);
    out->bits = 0;
    out->n = 0;
}

static void put_base64(struct base64 *out, unsigned byte)
{
    out->bits = out->bits << 8 | (byte & 255);
    if (++out->n == 3) flush_base64(out);
}

/* For each layer, head and token: the weights of the tokens that it may see, as 16 bits of their square root, which keeps
 * three digits of all weights above a millionth. */
static void write_weights(const struct attention_map *map, FILE *file)
{
    struct base64 out = {.file = file};
    for (size_t layer = 0; layer < map->n_layers; layer++)
        for (size_t head = 0; head < map->n_heads; head++)
            for (size_t query = 0; query < map->n_queries; query++) {
                const float *row = attention_row(map, layer, head, query);
                for (size_t key = 0; key < attention_seen(map, query); key++) {
                    unsigned root = (unsigned)lrintf(sqrtf(fminf(row[key], 1)) * 65535);
                    put_base64(&out, root);
                    put_base64(&out, root >> 8);
                }
            }
    flush_base64(&out);
}

int attention_write_html(const struct attention_map *map, FILE *file)
{
    static const char facts[] = "@FACTS@", weights[] = "@WEIGHTS@";
    size_t n = map->tokens->count;
    double pairs = (double)n * (map->both_ways ? 2 * (double)n : (double)n + 1) / 2;
    double bytes = (double)(map->n_layers * map->n_heads) * pairs * 2;
    const char *page = attention_page, *at_facts = strstr(page, facts), *at_weights = strstr(page, weights);
    if (bytes > (double)MOST_BYTES)
        return command_error(ENGINE_ERROR_ARGUMENT,
                             "the page would have %.0f MiB of weights, more than %zu; choose one with "
                             "--layer and --head, or a shorter text",
                             bytes / 0x1p20, MOST_BYTES >> 20);
    fwrite(page, 1, (size_t)(at_facts - page), file);
    int status = write_facts(map, file);
    if (status) return status;
    at_facts += strlen(facts);
    fwrite(at_facts, 1, (size_t)(at_weights - at_facts), file);
    write_weights(map, file);
    fputs(at_weights + strlen(weights), file);
    return ferror(file) ? command_error(ENGINE_ERROR, "cannot write the page: %s", strerror(errno))
                        : ENGINE_OK;
}
