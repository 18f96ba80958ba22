/* vectors.h: several token lists to a vector each, an embedding or scores, as requests of the queue; for the
 * handlers whose answer consists of them. */
#ifndef ENGINE_SERVE_API_VECTORS_H
#define ENGINE_SERVE_API_VECTORS_H

#include "serve/generate/ask.h"
#include "serve/generate/group.h"
#include "serve/models/models.h"

struct vectors;

struct vector_input {
    struct token_list tokens;
    int32_t *types; /* [tokens.count] of a pair of texts; NULL: all 0 */
    float *values;  /* NULL: not known yet */
};

struct vectors {
    struct group group; /* a request for each input; its error is that of the request, too */
    struct served *served;
    const char *model;           /* as the answer names it */
    struct vector_input *inputs; /* [n_inputs] */
    size_t n_inputs;
    uint32_t pooling;         /* enum engine_pooling */
    bool normalises;          /* to length 1 */
    uint32_t n_kept;          /* numbers of a vector that are kept, from the first one on */
    uint32_t n_longest;       /* tokens that a text may have besides what the context takes; 0: no limit */
    const char *what;         /* the field that has the texts, for messages */
    bool cuts;                /* texts that are too long are cut, to n_most tokens */
    uint32_t n_most;          /* set by vectors_read_truncate, or 0 */
    struct token_list around; /* what the tokenizer puts around a text, for cuts */
    json_t *(*answer)(const struct vectors *all); /* a new reference; NULL: out of memory */
};

/* Begins with zeroed memory of `size` bytes, which begins with a struct vectors. NULL: the exchange has been
 * answered. */
void *vectors_create(struct exchange *exchange, size_t size);
/* Reads `truncate` and `truncate_prompt_tokens`, once n_longest is known; without them --truncate counts. */
bool vectors_read_truncate(struct vectors *all, const json_t *body);
/* Makes room for inputs. False: an error. */
bool vectors_room(struct vectors *all, size_t n_inputs);
/* Checks an input's length. */
bool vectors_fits(struct vectors *all, struct vector_input *input);
/* Computes the vectors, unless there is an error, answers the exchange, and frees everything. */
void vectors_start(struct vectors *all);

#endif
