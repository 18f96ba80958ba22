/* plan.h: the plan of a context: devices, shapes, and the device of every tensor. Made by asking devices what they can
 * run and what things take (survey.c), decided by graph/place.c, and brought back into graphs as the device of each node
 * (assign.c). Loading and running follow it (context/). */
#ifndef ENGINE_PLAN_PLAN_H
#define ENGINE_PLAN_PLAN_H

#include "arch/arch.h"
#include "devices/open.h"
#include "graph/schedule.h"
#include "internal.h"

struct plan_weight {
    const struct model_tensor *tensor;
    uint32_t uses;          /* bits of enum engine_weight_use */
    uint32_t matrices_read; /* as in struct graph_weight */
};

struct plan_cache {
    size_t entry;      /* of its layer's caches */
    uint64_t size;     /* bytes */
    uint64_t row_size; /* bytes that a head keeps of a position */
};

struct engine_plan {
    struct engine_model *model;
    const struct architecture *architecture;
    void *hparams;         /* the family's own */
    struct arch_info info; /* what it says of them */
    struct derived *derived;
    uint32_t n_context, n_batch, n_sequences, n_threads;
    uint32_t max_outputs; /* tokens of a batch whose logits are computed at once */
    uint32_t cache_type;  /* enum engine_type */
    uint32_t n_blocks;    /* of the cache */

    struct device_set set;
    uint32_t offload; /* layers wanted, or PLACE_ALL */
    bool offload_is_auto;
    struct place_rule *rules; /* [n_rules] patterns owned */
    size_t n_rules;

    /* What is placed: the weights of the graph in its order (a tensor with two roles stands there twice), then an entry
     * for the caches of each layer that has some. */
    struct place_tensor *entries; /* [n_entries]; names owned */
    uint32_t *device;             /* [n_entries] */
    size_t n_entries;
    struct plan_weight *weights; /* [n_weights] */
    size_t n_weights;
    struct plan_cache *caches; /* [n_caches] in the graph's order */
    size_t n_caches;
    size_t *
        layer_entry; /* [n_layers] the entry that a layer's sums go with: its caches', else its first weight's */

    uint32_t alignment[PLACE_MAX_DEVICES];
    uint64_t activations[PLACE_MAX_DEVICES]; /* bytes of the arenas for the largest batch */
    uint64_t working[PLACE_MAX_DEVICES];     /* bytes that operations take there beyond their operands */
    uint64_t used[PLACE_MAX_DEVICES];        /* weights, caches, activations and working memory */
    uint32_t n_offloaded;                    /* layers */
    size_t n_copies;                         /* between devices, for a batch of one token */
    uint64_t copy_bytes;
};

/* Decides (again) where everything goes, within the budgets of plan->set. */
int plan_place(struct engine_plan *plan);

/* Tells in the log, as notes, what each device holds, and warns of settings that no plugin has read. */
void report_placement(const struct engine_plan *plan);

/* Builds, fuses and schedules the graph of a batch: `width` blocks in each row of the block table. */
int plan_schedule(const struct engine_plan *plan, uint32_t n_tokens, uint32_t n_outputs, uint32_t width,
                  struct schedule **schedule);

/* Fills a weight's description for its backend. */
struct engine_weight_desc plan_weight_desc(const struct model_tensor *tensor, uint32_t uses);

/* The options that the caller's struct_size reaches, zeros for the others; `given` may be NULL. ENGINE_ERROR_ARGUMENT: no
 * struct_size. */
int plan_read_context_options(const struct engine_context_options *given,
                              struct engine_context_options *known);

#endif
