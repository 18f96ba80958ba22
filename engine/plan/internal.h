/* internal.h: the steps of making a plan, shared by the files of this folder. Others use plan.h. */
#ifndef ENGINE_PLAN_INTERNAL_H
#define ENGINE_PLAN_INTERNAL_H

#include "plan/plan.h"

/* ---- options.c ----------------------------------------------------------------------------------------- */

/* Positions of a sequence: as asked for, else the model's own length, within the cache if its size was given.
 * Else they are as many as weights are placed with room for (grow.c). */
uint32_t plan_context_length(const struct arch_info *info, const struct engine_context_options *options);

/* Whether neither the context's length nor the cache's size was asked for, so that both grow. */
bool plan_grows(const struct arch_info *info, const struct engine_context_options *options);

/* The length that a context grows to, memory allowing: the trained one, or that beyond which the model turns
 * all positions by other angles. */
uint32_t plan_longest_context(const struct arch_info *info);

/* ENGINE_ERROR_ARGUMENT: the context is shorter than the caller's text. */
int plan_check_needed(const struct engine_plan *plan);

/* Sets the number of blocks of the cache and what follows from it. */
void plan_set_blocks(struct engine_plan *plan, uint32_t n_blocks);

/* Reads sizes, the type of the cache, and the number of layers to offload. Hyper-parameters are already
 * read. */
int plan_read_options(struct engine_plan *plan, const struct engine_context_options *options);

/* Chooses the devices to open: from the caller's options, else from engine.conf. */
struct device_request plan_read_devices(const struct engine *engine,
                                        const struct engine_context_options *options);

/* Reads the rules of --place. Devices are already open. */
int plan_read_rules(struct engine_plan *plan, const char *const *place);

/* Takes the caller's adapters. ENGINE_ERROR_ARGUMENT: one was opened for another model. */
int plan_read_adapters(struct engine_plan *plan, const struct engine_context_options *options);

/* Fails unless each adapter's parts are all used by the graph that was surveyed. */
int plan_check_adapters(const struct engine_plan *plan);

/* ---- assign.c ------------------------------------------------------------------------------------------ */

/* The number of blocks in each row of the block table if every sequence is full. */
uint32_t plan_full_table_width(const struct engine_plan *plan);

/* The graph of a shape, without devices. */
int plan_build_graph(const struct engine_plan *plan, const struct shape_key *key, struct graph **graph);

/* The shape of a batch of n tokens with the widest tables; `encodes`: of source texts. */
struct shape_key plan_full_shape(const struct engine_plan *plan, uint32_t n_tokens, uint32_t n_outputs,
                                 bool encodes);

/* Whether a device of plan `user` can run this operation; a fuse_question. */
bool plan_supports(void *user, uint32_t device, uint32_t op, const union op_args *args);

/* The weight that decides where a node runs: a matrix, norm, bias, embedding; NULL if it has none. */
const struct value *plan_anchor(const struct node *node);

/* The cache or state that decides where a node runs, which may be an earlier layer's; NULL: it uses none. */
const struct plan_cache *plan_cache_of(const struct engine_plan *plan, const struct node *node);

/* ---- plan.c ------------------------------------------------------------------------------------------- */

/* Places what plan_survey has listed. */
int plan_place_listed(struct engine_plan *plan);

/* ---- survey.c ------------------------------------------------------------------------------------------ */

/* Lists the weights and caches, and asks all devices what they can run and how much memory things take. */
int plan_survey(struct engine_plan *plan);

/* Estimates the activations of the largest batch as if everything ran on one device. Placement starts from
 * this. */
int plan_estimate_activations(struct engine_plan *plan);

/* The most memory that any operation of the graph takes on a device beyond its operands: of those that run
 * there, or of `all`. */
uint64_t plan_working_memory(const struct engine_plan *plan, const struct graph *graph, uint32_t device,
                             bool all);

/* Forgets what plan_survey has listed and plan_place has decided. */
void plan_forget(struct engine_plan *plan);

/* ---- report.c ------------------------------------------------------------------------------------------ */

/* Logs one line if fewer layers were offloaded than requested, or if a wish was not met. `named`: the
 * backends were named, so one that gets nothing is reported too. */
void report_plan(const struct engine_plan *plan, bool named);

#endif
