/* attention.c: see attention.h. */
#include "prompts/attention.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "io/display.h"
#include "io/json.h"
#include "io/messages.h"

/* ---- Collecting ---------------------------------------------------------------------------------------- */

#define MAX_BYTES ((uint64_t)1 << 32) /* of weights kept */

struct engine_string attention_token(const struct attention_map *map, size_t token, struct id_text *room)
{
    if (map->shows_ids) return id_string(map->tokens->ids[token], room);
    return token_input_piece(map->model, map->tokens, token);
}

const char *attention_head_text(const struct attention_map *map, size_t head, char text[HEAD_TEXT_SIZE])
{
    unsigned n = map->heads_of_layer;
    if (map->choice == HEAD_MEAN || map->choice == HEAD_MAX)
        snprintf(text, HEAD_TEXT_SIZE, "%s of %u head%s", map->choice == HEAD_MEAN ? "mean" : "maximum", n,
                 n == 1 ? "" : "s");
    else
        snprintf(text, HEAD_TEXT_SIZE, "head %zu", map->choice == HEAD_ONE ? map->head : head);
    return text;
}

/* Makes room once the number of heads is known. */
static int make_room(struct attention_map *map, uint32_t n_heads)
{
    size_t n = map->tokens->count;
    if (map->choice == HEAD_ONE && map->head >= n_heads)
        return command_error(ENGINE_ERROR_ARGUMENT, "there is no head %u; a layer has %u, from 0 to %u",
                             map->head, n_heads, n_heads - 1);
    map->heads_of_layer = n_heads;
    map->n_heads = map->choice == HEAD_ALL ? n_heads : 1;
    double bytes = (double)map->n_layers * (double)map->n_heads * (double)map->n_queries * (double)n * 4;
    if (bytes > (double)MAX_BYTES)
        return command_error(ENGINE_ERROR_MEMORY,
                             "the weights would take %.1f GiB, more than 4; choose one with --layer and "
                             "--head, or a shorter text",
                             bytes / 0x1p30);
    map->weights = calloc(map->n_layers * map->n_heads, map->n_queries * n * sizeof *map->weights);
    map->layers = calloc(map->n_layers, sizeof *map->layers);
    map->n_layers = 0; /* those that have come */
    return map->weights && map->layers ? ENGINE_OK
                                       : command_error(ENGINE_ERROR_MEMORY, "out of memory (weights)");
}

/* The place of a layer among those that have attention. They come in order, each once for each part of the
 * batch. */
static size_t place_of(struct attention_map *map, uint32_t layer)
{
    size_t place = 0;
    while (place < map->n_layers && map->layers[place] != layer) place++;
    if (place == map->n_layers) map->layers[map->n_layers++] = layer;
    return place;
}

/* Adds a head's weights of one token to the map. `layer`: its place. */
static int collect_row(const struct attention_map *map, size_t layer, size_t head, size_t query,
                       const float *from)
{
    size_t n = attention_seen(map, query);
    float *row = attention_row(map, layer, map->choice == HEAD_ALL ? head : 0, query);
    for (size_t j = 0; j < n; j++)
        if (!isfinite(from[j]))
            return command_error(ENGINE_ERROR_DATA,
                                 "the attention weights of layer %u are not all numbers: the model's weights "
                                 "are damaged",
                                 map->layers[layer]);
    for (size_t j = 0; j < n; j++) switch (map->choice) {
        case HEAD_MEAN: row[j] += from[j] / (float)map->heads_of_layer; break;
        case HEAD_MAX: row[j] = fmaxf(row[j], from[j]); break;
        default: row[j] = from[j];
        }
    return ENGINE_OK;
}

/* A context's `watched`. */
static int collect_weights(void *user, const struct engine_watched *value)
{
    struct attention_map *map = user;
    size_t n_keys = value->ne[0], n_heads = value->ne[1];
    if (map->stops && map->stops(map->stops_user)) return 1;
    if (!map->weights && make_room(map, (uint32_t)n_heads)) return 1;
    if (n_heads != map->heads_of_layer) {
        command_error(ENGINE_ERROR_ARGUMENT, "layers have %u and %zu heads; choose one with --layer",
                      map->heads_of_layer, n_heads);
        return 1;
    }
    size_t layer = place_of(map, value->layer);
    for (size_t t = 0; t < value->ne[2]; t++) {
        size_t token = value->first + t;
        if (token < map->first_query || token >= map->first_query + map->n_queries) continue;
        for (size_t head = 0; head < n_heads; head++)
            if ((map->choice != HEAD_ONE || head == map->head) &&
                collect_row(map, layer, head, token - map->first_query,
                            value->data + (t * n_heads + head) * n_keys))
                return 1;
    }
    return 0;
}

void attention_watch(struct attention_map *map, struct engine_context_options *options)
{
    struct engine_embedding_info info = {.struct_size = sizeof info};
    size_t count = map->tokens->count;
    map->both_ways = engine_model_embedding_info(map->model, &info) == ENGINE_OK && info.is_encoder;
    if (options->n_context == 0 && count <= INT32_MAX) options->n_context = (uint32_t)count;
    options->n_needed = count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
    options->watch = ENGINE_WATCH_ATTENTION;
    options->watch_layer = map->first_layer;
    options->watch_n_layers = map->n_layers;
    options->watched = collect_weights;
    options->watch_user = map;
}

int attention_run(struct attention_map *map, struct engine_context *context)
{
    struct engine_plan_totals totals = {0};
    engine_plan_get_totals(engine_context_plan(context), &totals);
    if (map->n_layers == 0) map->n_layers = totals.n_layers;
    const struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = map->tokens->count, .tokens = map->tokens->ids};
    return engine_decode(context, &batch, NULL);
}

void attention_free(struct attention_map *map)
{
    free(map->weights);
    free(map->layers);
    map->weights = NULL;
    map->layers = NULL;
}

/* ---- Showing ------------------------------------------------------------------------------------------- */

#define BAR_WIDTH 40

struct key {
    float weight;
    size_t token;
};

/* The larger weight first, of equal ones the nearer token. */
static int compare_keys(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    if (x->weight != y->weight) return x->weight < y->weight ? 1 : -1;
    return x->token < y->token ? 1 : -1;
}

/* The tokens that the query sees, sorted; returns their number. `keys` has room for all of the prompt. Only
 * tokens outside a window or a chunk have a weight of exactly 0, or a share too small to count. */
static size_t sort_keys(const struct attention_map *map, size_t layer, size_t head, struct key *keys)
{
    const float *row = attention_row(map, layer, head, 0);
    size_t n = 0;
    for (size_t i = 0; i < attention_seen(map, 0); i++)
        if (row[i] > 0) keys[n++] = (struct key){row[i], i};
    qsort(keys, n, sizeof *keys, compare_keys);
    return n;
}

/* In quotes, unless it is an id. */
static void print_token(const struct attention_map *map, size_t token)
{
    struct id_text room;
    struct engine_string text = attention_token(map, token, &room);
    if (map->shows_ids)
        fwrite(text.data, 1, text.length, stdout);
    else
        quoted_print(text, stdout);
}

static void print_head(const struct attention_map *map, size_t layer, size_t head, struct key *keys)
{
    char text[HEAD_TEXT_SIZE];
    size_t n = sort_keys(map, layer, head, keys);
    if (layer + head > 0) putchar('\n');
    printf("token %zu ", map->first_query);
    print_token(map, map->first_query);
    printf(", layer %u, %s\n", map->layers[layer], attention_head_text(map, head, text));
    for (size_t i = 0; i < n; i++) {
        int bar = (int)(keys[i].weight / keys[0].weight * BAR_WIDTH + 0.5f);
        printf("%8.4f  %-*.*s  %5zu ", (double)keys[i].weight, BAR_WIDTH, bar,
               "########################################", keys[i].token);
        print_token(map, keys[i].token);
        putchar('\n');
    }
}

int attention_print_table(const struct attention_map *map)
{
    struct key *keys = malloc(map->tokens->count * sizeof *keys);
    if (!keys) {
        command_error(ENGINE_ERROR_MEMORY, "out of memory (table)");
        return command_fail();
    }
    for (size_t layer = 0; layer < map->n_layers; layer++)
        for (size_t head = 0; head < map->n_heads; head++) print_head(map, layer, head, keys);
    free(keys);
    return 0;
}

/* {"layer": 3, "head": 5, "keys": [{"token": 0, "weight": 0.5}, …]} */
static json_t *head_json(const struct attention_map *map, size_t layer, size_t head, struct key *keys)
{
    json_t *list = json_array(), *which = NULL;
    size_t n = sort_keys(map, layer, head, keys);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:o, s:f}", "token", json_count(keys[i].token), "weight",
                                              (double)keys[i].weight));
    if (map->choice == HEAD_MEAN || map->choice == HEAD_MAX)
        which = json_string(map->choice == HEAD_MEAN ? "mean" : "max");
    else
        which = json_count(map->choice == HEAD_ONE ? map->head : head);
    return json_pack("{s:o, s:o, s:o}", "layer", json_count(map->layers[layer]), "head", which, "keys", list);
}

json_t *attention_json(const struct attention_map *map)
{
    struct key *keys = malloc(map->tokens->count * sizeof *keys);
    json_t *tokens = json_array(), *heads = json_array();
    for (size_t i = 0; i < map->tokens->count; i++) {
        struct id_text room;
        struct engine_string text = attention_token(map, i, &room);
        json_t *shown =
            map->shows_ids ? json_null() : json_text(text.length > 0 ? text.data : "", text.length);
        json_array_append_new(tokens, json_pack("{s:i, s:o}", "id", map->tokens->ids[i], "text", shown));
    }
    for (size_t layer = 0; layer < map->n_layers && keys; layer++)
        for (size_t head = 0; head < map->n_heads; head++)
            json_array_append_new(heads, head_json(map, layer, head, keys));
    json_t *json = keys ? json_pack("{s:o, s:o, s:o}", "tokens", tokens, "token",
                                    json_count(map->first_query), "attention", heads)
                        : NULL;
    free(keys);
    return json;
}

/* ---- Pages: attention-page.html with the data filled in ---- */

/* Of weights in a page, before base64: browsers take about as much well. */
#define MAX_PAGE_BYTES ((size_t)64 << 20)

/* attention-page.html, which the build makes a string of. */
extern const char attention_page[];

/* Tokens are text, even those that spell tags: JSON in which nothing ends the element or begins another. */
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

/* For each layer, head and token: the weights of the tokens that it may see, as 16 bits of their square root,
 * which keeps three digits of all weights above a millionth. */
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
    if (bytes > (double)MAX_PAGE_BYTES)
        return command_error(ENGINE_ERROR_ARGUMENT,
                             "the page would have %.0f MiB of weights, more than %zu; choose one with "
                             "--layer and --head, or a shorter text",
                             bytes / 0x1p20, MAX_PAGE_BYTES >> 20);
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
