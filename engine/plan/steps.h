/* steps.h: the steps of making a plan, which the files of this folder share. Others use plan.h. */
#ifndef ENGINE_PLAN_STEPS_H
#define ENGINE_PLAN_STEPS_H

#include "plan/plan.h"

/* ---- options.c ---------------------------------------------------------------------------------------------------- */

/* Sizes, the type of the cache, how many layers to offload; hyper-parameters are read before. */
int plan_read_options(struct engine_plan *plan, const struct engine_context_options *options);

/* Which devices to open: the caller's wishes, and engine.conf's where he has none. */
struct device_request plan_read_devices(const struct engine *engine,
                                        const struct engine_context_options *options);

/* The rules of --place. Devices are open. */
int plan_read_rules(struct engine_plan *plan, const char *const *place);

/* ---- assign.c ----------------------------------------------------------------------------------------------------- */

/* The blocks in each row of the block table where every sequence is full. */
uint32_t plan_full_table_width(const struct engine_plan *plan);

/* The graph of a shape, without devices. */
int plan_build_graph(const struct engine_plan *plan, uint32_t n_tokens, uint32_t n_outputs, uint32_t width,
                     struct graph **graph);

/* Whether a device of plan `user` runs this operation; a fuse_question. */
bool plan_supports(void *user, uint32_t device, uint32_t op, const union op_args *args);

/* The weight that decides where a node runs: a matrix, norm, bias, embedding; NULL for what has none. */
const struct value *plan_anchor(const struct node *node);

/* Whether a node runs where the cache of its layer is. */
bool plan_touches_cache(const struct node *node);

/* ---- survey.c ----------------------------------------------------------------------------------------------------- */

/* Lists the weights and caches, and asks all devices what they can run and what things take there. */
int plan_survey(struct engine_plan *plan);

/* What the largest batch's activations would take if everything ran on one device: the estimate that placement starts
 * from. */
int plan_estimate_activations(struct engine_plan *plan);

/* The most that an operation of the graph takes on a device beyond its operands: of those that run there, or of `all`. */
uint64_t plan_working_memory(const struct engine_plan *plan, const struct graph *graph, uint32_t device,
                             bool all);

/* ---- report.c ----------------------------------------------------------------------------------------------------- */

/* One line in the log where less was offloaded than was asked for, or where a wish could not be met. `named`: the backends
 * were, so that one which gets nothing is told too. */
void report_plan(const struct engine_plan *plan, bool named);

#endif
