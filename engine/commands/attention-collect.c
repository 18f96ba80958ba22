/* attention-collect.c: the attention weights of a run, for `engine attention` and the server. See attention.h. */
#include <math.h>
#include <stdlib.h>

#include "commands/attention.h"
#include "commands/common.h"
#include "commands/token-input.h"

#define MOST_BYTES ((uint64_t)1 << 32) /* of weights kept */

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
    if (bytes > (double)MOST_BYTES)
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

/* The place of a layer among those that have attention. They come in order, each once for each part of the batch. */
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
static int collect(void *user, const struct engine_watched *value)
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
    options->watched = collect;
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
