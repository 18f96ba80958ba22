/* plan.h: the plan of a context: devices, shapes, and the device of every tensor. survey.c asks the devices
 * what they can run and how much memory tensors take, graph/place.c decides, and assign.c derives the device
 * of each node of a graph. Loading and running follow the plan (context/). */
#ifndef ENGINE_PLAN_PLAN_H
#define ENGINE_PLAN_PLAN_H

#include "arch/arch.h"
#include "devices/limits.h"
#include "devices/open.h"
#include "engine/internal.h"
#include "graph/schedule.h"

struct plan_weight {
    const struct model_tensor *tensor;
    uint32_t uses;          /* bits of enum engine_weight_use */
    uint32_t matrices_read; /* as in struct graph_weight */
    bool is_factor;         /* of an adapter */
};

struct plan_cache {
    size_t entry;      /* of its layer's caches */
    uint64_t size;     /* bytes */
    uint64_t row_size; /* bytes that a head keeps of a position, or of a pooled row */
    uint32_t n_rows;   /* those of a block */
    uint32_t period;   /* positions of a pooled row; 0: a row is a position */
    uint32_t n_blocks; /* of its pool */
    enum graph_pool pool;
    bool windowed;
    bool is_state; /* blocks are whole states */
};

/* The values that engine_decode hands out, see engine_watch in engine.h. */
struct plan_watch {
    uint32_t kinds;           /* bits of enum watch_kind */
    uint32_t layer, n_layers; /* of attention */
    bool last;                /* the last layer that has attention was asked for */
    int (*take)(void *user, const struct engine_watched *value);
    void *user;
};

/* What is done on a device, and what it takes to reach it. */
struct plan_share {
    double reading, computing;  /* seconds of operations that wait for memory, and of those that don't */
    double overhead;            /* seconds of starting operations */
    double messages;            /* seconds */
    uint64_t n_messages, bytes; /* of commands and answers */
};

/* What tokens cost (predict.c). */
struct plan_phase {
    uint32_t n_tokens, position;
    double seconds;
    struct plan_share shares[PLACE_MAX_DEVICES];
};

struct engine_plan {
    struct engine_model *model;
    const struct architecture *architecture;
    void *hparams;         /* of the family */
    struct arch_info info; /* the family's summary of them */
    bool sees;             /* the model had an eye when this was planned: batches may have pictures */
    struct derived *derived;
    /* [n_adapters]. While things are placed, all scales are 1, so that all adapters are used. */
    struct graph_adapter *adapters;
    const struct engine_adapter **adapter_handles; /* the same, as the caller knows them */
    size_t n_adapters;
    uint32_t n_context, n_batch, n_sequences, n_threads;
    uint32_t n_needed;               /* of positions, by the text that is at hand; 0: unknown */
    uint32_t n_trained;              /* positions that the model was trained with */
    enum engine_context_limit limit; /* why n_context isn't greater */
    uint32_t limiting_device;        /* of ENGINE_CONTEXT_MEMORY */
    uint32_t max_outputs;            /* tokens of a batch whose logits are computed together */
    uint32_t cache_type;             /* enum engine_type */
    uint32_t n_blocks;               /* of the cache */
    /* The first of them: weights were placed with room for these. The others are opened as needed. */
    uint32_t n_ready_blocks;
    bool grows;          /* neither the context's length nor the cache's size was asked for */
    bool shares_devices; /* other contexts will use them, too: the cache grows on the CPU only */
    /* Of the caches of layers with a window; 0: no layer has one that is shorter than the context. */
    uint32_t n_window_blocks;
    /* Of sequences and their snapshots; 0: the family keeps none. */
    uint32_t n_states;
    /* Of the encoder's caches while it runs, and of what is kept of source texts; 0: the family has none. */
    uint32_t n_text_blocks, n_source_blocks;
    struct plan_watch watch;

    struct device_set set;
    uint32_t offload; /* layers requested, or PLACE_ALL */
    bool offload_is_auto;
    struct place_rule *rules; /* [n_rules] patterns owned */
    size_t n_rules;

    /* What is placed: the weights of the graph in its order (a tensor with two roles twice), then one entry
     * for the caches of each layer that has any. */
    struct place_tensor *entries; /* [n_entries]; names owned */
    uint32_t *device;             /* [n_entries] */
    size_t n_entries;
    struct plan_weight *weights; /* [n_weights] */
    size_t n_weights;
    struct plan_cache *caches; /* [n_caches], in the graph's order */
    size_t n_caches;
    /* [n_layers]: the entry that a layer's residual sums follow: its caches', else its first weight's */
    size_t *layer_entry;

    uint32_t alignment[PLACE_MAX_DEVICES];
    uint64_t activations[PLACE_MAX_DEVICES]; /* bytes of the arenas for the largest batch */
    uint64_t working[PLACE_MAX_DEVICES];     /* bytes that operations take beyond their operands */
    uint64_t used[PLACE_MAX_DEVICES];        /* weights, caches, activations and working memory */
    uint32_t n_offloaded;                    /* number of layers */
    size_t n_copies;                         /* between devices, for a batch of one token */
    uint64_t copy_bytes;
    struct plan_phase prefill, decode; /* as last predicted */
};

/* The shape of a batch. */
struct shape_key {
    uint32_t n_tokens, n_outputs;
    uint32_t table_width;  /* blocks in each row of the block table */
    uint32_t source_width; /* and of the table of sources, if the model has them */
    uint32_t encodes;      /* not 0: of source texts, by the encoder */
    uint32_t watch;        /* bits of enum watch_kind besides the plan's */
    uint32_t pictures;     /* bits of enum graph_pictures */
    uint32_t chunk;        /* of an eye, see graph_shape.chunk */
};

/* Decides, possibly again, where everything goes, within the budgets of plan->set. If the plan grows, the
 * context then gets the trained length, or as much of it as the devices still have memory for; that moves no
 * weight. */
int plan_place(struct engine_plan *plan);

/* Bytes that a block of the sequences' pool takes on a device, in all layers but those with a window. */
uint64_t plan_block_bytes(const struct engine_plan *plan, uint32_t device);

/* The option that makes the context longer. */
const char *plan_context_option(const struct engine_plan *plan);

/* Logs what each device holds, as notes, and warns of settings that no plugin has read. */
void report_placement(const struct engine_plan *plan);

/* Builds, fuses and schedules the graph of a batch. */
int plan_schedule(const struct engine_plan *plan, const struct shape_key *key, struct schedule **schedule);

/* How many tokens of a batch of n_tokens go through the graph together, at most: fewer than fit if several
 * devices then work at once. */
uint32_t plan_part(const struct engine_plan *plan, size_t n_tokens);

#define PLAN_MAX_GROUPS 8

/* Into how many groups a step of n_tokens, each of another text, is divided, so that the devices compute
 * several groups at once: while one group's next tokens are chosen and it begins anew, the devices have the
 * others. 1: that doesn't pay, or the last device can't be waited for without the groups that came after. */
uint32_t plan_groups(const struct engine_plan *plan, size_t n_tokens);

/* The width of a table for rows of up to n blocks: a power of two, so that growing texts rarely change the
 * shape of the graph. */
uint32_t plan_table_width(const struct engine_plan *plan, uint32_t n_blocks);

/* Checks a scale of an adapter that a caller gives. ENGINE_ERROR_ARGUMENT: it is not finite. */
int plan_check_scale(float scale);

/* Fills a weight's description for its backend. */
struct engine_weight_desc plan_weight_desc(const struct model_tensor *tensor, uint32_t uses);

/* Copies the options within the caller's struct_size and zeroes the others. `given` may be NULL.
 * ENGINE_ERROR_ARGUMENT: no struct_size. */
int plan_read_context_options(const struct engine_context_options *given,
                              struct engine_context_options *known);

#endif
