/* context.h: a model on its devices, shared by the files of this folder. Weights are loaded and caches
 * allocated according to a plan (load.c); batches (batch.c) run through prepared graphs (prepared.c). */
#ifndef ENGINE_CONTEXT_CONTEXT_H
#define ENGINE_CONTEXT_CONTEXT_H

#include "graph/schedule.h"
#include "kv/cache.h"
#include "plan/plan.h"

#define MAX_PREPARED 64 /* graphs kept, of different shapes */

/* This context's part of the engine's claims (room.c). */
struct room {
    uint64_t unwritten, grown; /* bytes, as struct claims has them */
};

/* A model tensor on a device. A tensor's roles on the same device share it. */
struct loaded {
    const struct model_tensor *tensor;
    uint32_t device;
    uint32_t uses;
    struct engine_weight *weight; /* NULL until it is loaded */
};

/* Why an encoder gives no logits, tokens or probabilities. */
#define ENCODER_WRITES_NOTHING                                                                               \
    "the model is an encoder: it has no logits and writes no text; use `engine embed`"

struct cached_graph {
    struct shape_key key;
    struct prepared *prepared;
    uint64_t last_used;
};

/* A batch that is being computed while others are. */
struct flight {
    uint32_t *lengths; /* [n_sequences] before it; UINT32_MAX: of sequences that it doesn't have */
    uint64_t marks[PLACE_MAX_DEVICES];
};

struct engine_context {
    struct engine_plan *plan;
    struct executor executor;
    struct loaded *loaded;
    size_t n_loaded;
    struct kv_cache *kv;
    struct room room;
    struct kv_cache *sources; /* the source texts of sequences; NULL: the model takes none */
    uint64_t arena_size[PLACE_MAX_DEVICES];
    /* Working memory, held free while weights are loaded. */
    struct engine_buffer *reserved[PLACE_MAX_DEVICES];
    struct cached_graph graphs[MAX_PREPARED];
    uint64_t clock;
    uint64_t n_prepared; /* graphs prepared since the context was created */

    /* The inputs of a batch; sizes as graph_input gives them for the largest batch. */
    int32_t *inputs[INPUT_COUNT];
    bool has_rows;              /* INPUT_ROWS has its size, which most contexts don't need */
    uint32_t *lengths, *growth; /* [n_sequences] scratch of engine_decode */
    bool *is_pending;           /* [n_sequences] scratch of context_finish */

    struct flight flights[PLAN_MAX_GROUPS]; /* [n_flights], the oldest first */
    uint32_t n_flights;
};

static inline const struct open_device *device_at(const struct engine_context *context, uint32_t number)
{
    return &context->plan->set.devices[number];
}

/* engine_decode in two halves, so that several batches are computed at once: starts one, see plan_groups;
 * waits for the oldest one. Until then, `logits` must stay, and its sequences as they are: no other batch has
 * one of them. All that are started have no more than n_batch tokens together and ask for no states, and
 * there are fewer than PLAN_MAX_GROUPS before a start. Fails without a change if the batch is refused; any
 * other failure ends all batches that were started, and their sequences are as before them, as far as
 * possible: then n_flights is 0. */
int context_start(struct engine_context *context, const struct engine_batch *batch, float *logits);
int context_finish(struct engine_context *context);

/* Loads according to the plan. If a device turns out to have less memory than it reported, its budget becomes
 * what fitted, everything else is placed again, and loading restarts. This is reported once, at the end. */
int context_load(struct engine_context *context, const struct engine_context_options *options);
void context_unload(struct engine_context *context);

/* Sets the scales of the plan's adapters; NULL: all 1. If one changes, all sequences are emptied.
 * ENGINE_ERROR_ARGUMENT: one is not finite; none has changed. */
int context_set_scales(struct engine_context *context, const float *scales);

/* Claims the memory of a new cache, and gives up what a context has claimed. */
void room_claim(struct engine_context *context);
void room_give_up(struct engine_context *context);
/* How many closed blocks of the cache there is memory for. */
uint32_t room_openable(const struct engine_context *context);
/* Whether growth[s] positions fit behind each sequence s, after blocks have been opened for them. */
bool room_make(struct engine_context *context, const uint32_t *growth);

/* ENGINE_ERROR_ARGUMENT if there is no such sequence. */
int check_sequence(const struct engine_context *context, uint32_t sequence);

/* Makes the copies of states that sequences are waiting for, in the streams of their devices. */
int context_copy_states(struct engine_context *context);

/* Fills up a shape: padding tokens that attend to nothing, that nobody attends to and that are not kept, and
 * extra rows of logits, which are not read. */
void fill_shape(int32_t *const *inputs, uint32_t n_tokens, uint32_t n_wanted, const struct shape_key *key);

/* Identifies the model, as far as the contents of its caches depend on it. */
uint64_t context_fingerprint(const struct engine_context *context);
/* Identifies the adapters that are in use and their scales, as far as caches depend on them; 0: none is. */
uint64_t context_adapters_hash(const struct engine_context *context);
/* A hash of data in pieces; start with 1. Any change to a single word changes it. */
uint64_t hash_add(uint64_t hash, const void *data, size_t size);

/* ---- Pictures (pictures.c) ---- */

/* Checks a token below 0: a row of a picture, whose rest is in the batch if its rows see each other. */
int batch_check_row(const struct engine_context *context, const struct engine_batch *batch, size_t i);
/* How many of the next `count` tokens, which follow each other in a batch, go through the graph together
 * without cutting a picture whose rows see each other. */
uint32_t batch_whole_pictures(const struct engine_context *context, const int32_t *tokens, size_t n_tokens,
                              uint32_t count);
/* Makes room for INPUT_ROWS, once. */
int batch_make_rows(struct engine_context *context);
/* Writes the inputs of pictures, of a part whose tokens are in the cache, and with them the bits of enum
 * graph_pictures that its shape has. */
int batch_write_pictures(struct engine_context *context, const struct engine_batch *batch, size_t first,
                         uint32_t count, uint32_t *bits);
/* INPUT_REACH of a part of a shape for n tokens, with PICTURES_SPANS. */
void batch_write_spans(const struct engine_context *context, const struct engine_batch *batch, size_t first,
                       uint32_t count, uint32_t n);

/* see.c: what an eye's graph makes of a piece of a picture, [n_rows, width] as the piece says; `features`
 * has room for it. `context` is of an eye's model. */
struct sight_piece;
int context_see(struct engine_context *context, const struct sight_piece *piece, float *features);

/* The shape for this many tokens and rows of logits (at least one), rounded up so that batches of all sizes
 * need only few shapes. The width of the block table and `watch` are left 0. */
struct shape_key shape_for(const struct engine_plan *plan, uint32_t n_tokens, uint32_t n_outputs);

/* The prepared graph of a shape: a kept one, or a new one that replaces the least recently used. */
int prepared_for(struct engine_context *context, const struct shape_key *key, struct prepared **prepared);
void prepared_forget(struct engine_context *context);

#endif
