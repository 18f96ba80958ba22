/* attention-table.c: what one token looks at, as a table for people and as JSON. See attention.h. */
#include <stdlib.h>

#include "commands/attention.h"
#include "commands/common.h"
#include "commands/json.h"
#include "commands/quoted.h"

#define BAR_WIDTH 40

struct key {
    float weight;
    size_t token;
};

/* The larger weight first, of equal ones the nearer token. */
static int compare(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    if (x->weight != y->weight) return x->weight < y->weight ? 1 : -1;
    return x->token < y->token ? 1 : -1;
}

/* The tokens that the query sees, sorted; returns their number. `keys` has room for all of the prompt. Only tokens
 * outside a window or a chunk have a weight of exactly 0, or a share too small to count. */
static size_t sort_keys(const struct attention_map *map, size_t layer, size_t head, struct key *keys)
{
    const float *row = attention_row(map, layer, head, 0);
    size_t n = 0;
    for (size_t i = 0; i < attention_seen(map, 0); i++)
        if (row[i] > 0) keys[n++] = (struct key){row[i], i};
    qsort(keys, n, sizeof *keys, compare);
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

int attention_print_json(const struct attention_map *map)
{
    return json_print(attention_json(map));
}
