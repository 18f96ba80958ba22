/* internal.h: what the readers of adapters share: PEFT's folders (peft.c, peft-config.c), those that a model
 * has for its tasks (tasks.c), and GGUF files (adapter.c). */
#ifndef ENGINE_ADAPTER_INTERNAL_H
#define ENGINE_ADAPTER_INTERNAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "adapter/adapter.h"

/* Fills adapter->parts, which need not be sorted. */
int adapter_read_peft(const struct model *model, struct adapter *adapter);

/* Whether a path that doesn't exist is DIRECTORY/TASK of a model that is a directory. */
bool adapter_is_task(const struct model *model, const char *path);
/* Fills adapter->parts from what the directory has for the task. ENGINE_ERROR_NOT_FOUND: it has nothing. */
int adapter_read_task(const struct model *model, struct adapter *adapter);

/* A factor of this shape with zeros, in the adapter's memory. */
int adapter_make_tensor(struct adapter *adapter, const char *name, uint32_t type, const uint64_t ne[3],
                        struct model_tensor *tensor);

/* Zeroed memory that lives as long as the adapter; NULL with a message if there is none. */
void *adapter_allocate(struct adapter *adapter, uint64_t size);

/* ---- adapter_config.json of a PEFT folder: peft-config.c ----------------------------------------------- */

struct peft_config {
    char *path;
    json_t *json;
    int64_t rank;
    double alpha;
    bool rank_stabilised; /* use_rslora: the scale is alpha / sqrt(rank) (arXiv 2312.03732) */
};

/* Reads and checks the file. ENGINE_ERROR_UNSUPPORTED names a setting that changes what the weights mean and
 * that is not supported. After a failure, too, peft_config_free is to be called. */
int peft_config_read(const char *path, struct peft_config *config);
void peft_config_free(struct peft_config *config);

/* Whether target_parameters names a parameter, "model.layers.0.mlp.experts.down_proj", or how its name
 * ends. */
bool peft_config_targets(const struct peft_config *config, const char *parameter);

/* The scale of the factors of this rank that a module has, or a parameter with its full name.
 * ENGINE_ERROR_DATA: the configuration gives another rank. */
int peft_config_scale(const struct peft_config *config, const char *module, uint64_t rank, float *scale);

#endif
