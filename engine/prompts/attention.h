/* attention.h: the attention weights that `engine attention` and the server show, collected from a run of a
 * prompt. */
#ifndef ENGINE_PROMPTS_ATTENTION_H
#define ENGINE_PROMPTS_ATTENTION_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "common/assert.h"
#include "prompts/prompt.h"

/* How the heads of a layer are shown. */
enum head_choice { HEAD_ALL, HEAD_ONE, HEAD_MEAN, HEAD_MAX };

struct attention_map {
    struct engine_model *model;
    bool shows_ids;                  /* instead of texts: the vocabulary cannot be read */
    const struct token_list *tokens; /* of the prompt; the keys */
    uint32_t first_layer,
        n_layers;     /* that are wanted; then n_layers is the number of those that have attention */
    uint32_t *layers; /* [n_layers] their numbers */
    bool both_ways;   /* an encoder: tokens see later ones, too */
    enum head_choice choice;
    uint32_t head;                 /* HEAD_ONE: its number */
    size_t n_heads;                /* shown of each layer: 1 unless HEAD_ALL */
    uint32_t heads_of_layer;       /* 0: not known yet */
    size_t first_query, n_queries; /* the tokens whose weights these are */
    float *weights;                /* [n_layers, n_heads, n_queries, n_keys] */
    bool (*stops)(void *user);     /* whether to end the run early; NULL: never */
    void *stops_user;
};

#define ATTENTION_LAST_LAYER UINT32_MAX /* as in engine_context_options.watch_layer */

/* Sets the options with which a context hands the map its weights, once its tokens and choices
 * are known; and runs the tokens in that context. Returns an enum engine_status. */
void attention_watch(struct attention_map *map, struct engine_context_options *options);
int attention_run(struct attention_map *map, struct engine_context *context);

void attention_free(struct attention_map *map);

/* The number of keys that a query may see, from the first one on. */
static inline size_t attention_seen(const struct attention_map *map, size_t query)
{
    ENGINE_ASSERT(map->first_query + query < map->tokens->count);
    return map->both_ways ? map->tokens->count : map->first_query + query + 1;
}

/* The weights of a query over all keys. Numbers count from the first one shown. */
static inline float *attention_row(const struct attention_map *map, size_t layer, size_t head, size_t query)
{
    ENGINE_ASSERT(layer < map->n_layers && head < map->n_heads && query < map->n_queries);
    size_t row = (layer * map->n_heads + head) * map->n_queries + query;
    return map->weights + row * map->tokens->count;
}

/* "head 3", "mean of 8 heads". */
#define HEAD_TEXT_SIZE 40
const char *attention_head_text(const struct attention_map *map, size_t head, char text[HEAD_TEXT_SIZE]);

/* The text of a token; empty if it has none. With shows_ids its id, in `room`. */
struct engine_string attention_token(const struct attention_map *map, size_t token, struct id_text *room);

/* The keys of one query, sorted by weight, as a table on standard output; returns the exit status. Or as
 * JSON; NULL: out of memory. */
int attention_print_table(const struct attention_map *map);
json_t *attention_json(const struct attention_map *map);

/* Writes a page that needs nothing else. Returns an enum engine_status, with command_error's message. */
int attention_write_html(const struct attention_map *map, FILE *file);

#endif
