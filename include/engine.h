/* engine.h: the C library. Runs language models through plugins; the program `engine` is its first user.
 *
 *   struct engine *engine;            plugins and devices                       engine_open … engine_close
 *   struct engine_model *model;       a file: metadata, tensors, tokenizer      engine_model_open … _close
 *   struct engine_context *context;   the model on devices, with its cache      engine_context_create …
 * _destroy
 *   struct engine_sampler *sampler;   logits to tokens                          engine_sampler_create …
 * _destroy
 *
 * Functions return ENGINE_OK or another enum engine_status (plugin-api.h); engine_error_message() then says
 * why, in one line, for the calling thread. Structs that start with struct_size need it set to their sizeof before
 * the call, those that a function fills as well; without it the call is refused (ENGINE_ERROR_ARGUMENT). A zeroed
 * option is the default. Objects are used by one thread at a time, different ones by different threads at once; so
 * models of one engine may be opened and run by several threads. What is created from an object is destroyed
 * before it. Strings and tables that are handed out live as long as the object they come from. */
#ifndef ENGINE_H
#define ENGINE_H

#include "plugin-api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ENGINE_API __attribute__((visibility("default")))

struct engine;
struct engine_model;
struct engine_plan;
struct engine_context;
struct engine_sampler;

ENGINE_API const char *engine_version(void); /* "0.1.0" */
ENGINE_API const char *
engine_error_message(void); /* of the last failure in this thread; "" if there was none */

/* ---- Plugins and devices
 * ---------------------------------------------------------------------------------------- */

struct engine_options {
    size_t struct_size;
    const char *const *plugin_dirs; /* searched first; ended by NULL, or NULL */
    const char *config_file;        /* read instead of the user's and the system's engine.conf; NULL: those */
    /* Receives warnings and notes, one line each without newline; NULL: they go nowhere. Any thread may call
     * it. */
    void (*log)(void *user, enum engine_log_level level, const char *line);
    void *user;
};

/* Reads the configuration, finds and loads plugins. A plugin that can't be used is listed with the reason, and
 * logged. `options` may be NULL. Plugins and their settings are the process's: one engine is open in it at a time
 * (ENGINE_ERROR_ARGUMENT otherwise). ENGINE_ERROR_DATA: a mistake in the configuration; ENGINE_ERROR_NOT_FOUND: one of
 * plugin_dirs isn't there. */
ENGINE_API int engine_open(const struct engine_options *options, struct engine **engine);
ENGINE_API void engine_close(struct engine *engine);

/* A setting of the configuration files, section "" for those in front of the first section; NULL if not set.
 * */
ENGINE_API const char *engine_setting(const struct engine *engine, const char *section, const char *key);

/* The path of the model that runs where none is named: the setting `model`, else the one that was installed with
 * libengine; NULL if there is neither. */
ENGINE_API const char *engine_default_model(const struct engine *engine);

struct engine_plugin_entry_info {
    const char *path;
    const char *name; /* NULL if it was refused before it could say */
    const char *kind; /* "backend", "tokenizer"; NULL likewise, as are the next three */
    const char *version;
    const char *license;
    const char *description;
    uint32_t abi_major, abi_minor;
    const char *refused; /* why it can't be used, one line; NULL: it is in use */
};
ENGINE_API size_t engine_plugin_count(const struct engine *engine);
ENGINE_API void engine_plugin_at(const struct engine *engine, size_t index,
                                 struct engine_plugin_entry_info *info);

struct engine_device_entry {
    const char *name;   /* "cpu", "vulkan0" */
    const char *plugin; /* its plugin's name */
    struct engine_device_info info;
    const char *
        preferred; /* the name of the same hardware that is used unless this device or its plugin is asked for;
                            * NULL: there is none */
};
/* Asks all backends for their devices; a backend that fails is logged and passed over. */
ENGINE_API int engine_device_count(struct engine *engine, size_t *count);
ENGINE_API int engine_device_at(struct engine *engine, size_t index, struct engine_device_entry *entry);

/* ---- Checking plugins
 * ------------------------------------------------------------------------------------------ */

/* What came of a check. */
enum engine_check_result {
    ENGINE_CHECK_PASSED,
    ENGINE_CHECK_FAILED,
    ENGINE_CHECK_UNCLAIMED /* the plugin doesn't say that it does this */
};

struct engine_check_row {
    size_t struct_size; /* as libengine knows it */
    char device[32];    /* "vulkan0"; "" for what concerns the whole plugin */
    char area[24];      /* "matmul" */
    char what[40];      /* "Q4_0" */
    uint32_t cases;     /* that were tried */
    uint32_t result;    /* enum engine_check_result */
    uint32_t measured;  /* not 0: error and share have a meaning */
    double error;       /* the largest difference, of the size of the result */
    double share;       /* the largest difference, of what is allowed for it */
    char message[512];  /* why it failed; else a remark or "" */
};

/* What a plugin says of itself. */
struct engine_checked_plugin {
    size_t struct_size;
    char name[32], version[64], license[64], description[256];
    uint32_t abi_major, abi_minor;
    uint32_t kind;      /* enum engine_plugin_kind; 0: it ended the process before it could say */
    uint32_t n_devices; /* of a backend; without one nothing that it does could be checked */
};

struct engine_check_options {
    size_t struct_size;
    /* Receives each row as it becomes known, in this thread; the row is valid during the call. NULL is an error. */
    void (*row)(void *user, const struct engine_check_row *row);
    void *user;
};
/* The conformance suite: loads the plugin of a file as a stranger's and tries all that it claims against plugin-api.h. Each
 * group of checks has a process of its own, so that a plugin that crashes or hangs has only failed. ENGINE_OK once the
 * checks have been made, whatever came of them; what the plugin says of itself is then in *plugin, of which the caller
 * sets struct_size. ENGINE_ERROR_DATA: no plugin can be loaded from the file; ENGINE_ERROR_ARGUMENT: an engine is open in
 * this process (its plugins would come along). Processes are begun with fork: no other threads should be under way. */
ENGINE_API int engine_check_plugin(const char *path, const struct engine_check_options *options,
                                   struct engine_checked_plugin *plugin);

/* ---- Models
 * ----------------------------------------------------------------------------------------------------- */

/* Opens and checks a file: GGUF, or a llama2.c checkpoint. `tokenizer_path`: llama2.c's tokenizer.bin, or
 * NULL. The file stays mapped until the model is closed. If it gets shorter meanwhile, reading it raises SIGBUS: the
 * library installs no signal handlers, the program `engine` has one that ends it with a message. */
ENGINE_API int engine_model_open(struct engine *engine, const char *path, const char *tokenizer_path,
                                 struct engine_model **model);
ENGINE_API void engine_model_close(struct engine_model *model);

ENGINE_API const struct engine_metadata *engine_model_metadata(const struct engine_model *model);

struct engine_metadata_entry {
    const char *key;
    const char *type; /* "u32", "str", "arr[f32]" */
    size_t count;     /* elements of an array, else 1 */
};
ENGINE_API size_t engine_model_metadata_count(const struct engine_model *model);
ENGINE_API void engine_model_metadata_at(const struct engine_model *model, size_t index,
                                         struct engine_metadata_entry *entry);

struct engine_model_tensor {
    const char *name;
    const char *type_name;
    uint32_t type;
    uint32_t n_dims;
    uint64_t ne[4];
    uint64_t size; /* bytes */
};
ENGINE_API size_t engine_model_tensor_count(const struct engine_model *model);
ENGINE_API void engine_model_tensor_at(const struct engine_model *model, size_t index,
                                       struct engine_model_tensor *tensor);

struct engine_model_info {
    size_t struct_size;
    const char *format;       /* "GGUF 3", "llama2.c version 0" */
    const char *architecture; /* "llama" */
    const char *name;         /* general.name, or "" */
    uint64_t file_size;       /* bytes */
    uint64_t n_parameters;
};
ENGINE_API int engine_model_get_info(const struct engine_model *model, struct engine_model_info *info);

/* The model's tokenizer, made by the plugin that serves its tokenizer.ggml.model at the first call. Both
 * belong to the model. */
ENGINE_API int engine_model_tokenizer(struct engine_model *model, const struct engine_tokenizer_api **api,
                                      struct engine_tokenizer **tokenizer);

/* What becomes of a model when it is quantised. */
struct engine_quantize_options {
    size_t struct_size;
    const char *type; /* "Q8_0", "Q4_K_M", … as llama-quantize names types and mixes of types */
    const char *const
        *only;          /* wishes "PATTERN=TYPE" ("blk.*.ffn_down.*=Q6_K"), ended by NULL, or NULL; the first
                                match counts more than the mix */
    int pure;           /* not 0: all matrices in the one type, no mix */
    uint32_t n_threads; /* 0: the configuration's, else all processors */
    /* Takes the GGUF file, from its first byte to its last. Not 0 is an error, which is returned. */
    int (*write)(void *user, const void *data, size_t size);
    /* Called now and then, with bytes of the old tensors; NULL: nobody looks. Returns 0 to go on. */
    int (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
};
/* Writes the model as a GGUF file with its matrices in other types; norms, biases and small tables stay as they are. The
 * metadata stays as well, but for what says how the file is quantised. The matrices have to be F32, F16 or BF16 (those
 * that have their new type already are copied). The memory that this takes doesn't grow with the model. */
ENGINE_API int engine_model_quantize(struct engine_model *model,
                                     const struct engine_quantize_options *options);

/* ---- Contexts
 * --------------------------------------------------------------------------------------------------- */

#define ENGINE_OFFLOAD_AUTO (-1) /* as much as fits in the memory that the devices report free */
#define ENGINE_OFFLOAD_ALL  (-2) /* all layers, the output matrix and the embedding */

struct engine_context_options {
    size_t struct_size;
    uint32_t n_context;     /* positions of a sequence; 0: the model's own, at most 4096 */
    uint32_t n_batch;       /* tokens that go through the graph at once; 0: 512 */
    uint32_t n_sequences;   /* 0: 1 */
    uint32_t n_threads;     /* 0: the configuration's, else one for each physical core */
    const char *cache_type; /* "f16", "f32" or "q8_0"; NULL: f16 */
    const char
        *backends; /* "vulkan,opencl", "vulkan:1", "cpu"; NULL: the configuration's, else all devices but
                                * CPUs that are reached through a driver */
    const int32_t *offload;    /* layers, or ENGINE_OFFLOAD_…; NULL: the configuration's, else auto */
    const char *const *memory; /* budgets "DEVICE=SIZE" ("vulkan0=600M"), ended by NULL, or NULL */
    const char *const
        *place; /* wishes "PATTERN=DEVICE" ("blk.*.ffn_*=cpu"), ended by NULL, or NULL; first match wins */
    /* Called while weights load, with bytes done and in all. Returns 0 to go on; else loading stops with an
     * error. */
    int (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
    uint32_t
        n_needed; /* positions that a sequence will need: where the context is smaller, that is an error before
                        * anything is loaded. 0: not known */
};

/* What would go where: nothing is loaded. */
ENGINE_API int engine_plan_create(struct engine_model *model, const struct engine_context_options *options,
                                  struct engine_plan **plan);
ENGINE_API void engine_plan_destroy(struct engine_plan *plan);

/* A tensor with two roles (an embedding that is the output matrix as well) stands in the plan for each; where both are on
 * one device, one of them takes 0 bytes. */
struct engine_plan_tensor {
    const char *name;
    const char *type_name;
    const char *device;
    uint64_t bytes; /* on the device, in the layout that its backend keeps */
};
struct engine_plan_device {
    const char *name;
    const char *description;
    uint64_t budget;                      /* bytes that may be used; UINT64_MAX: not known */
    uint64_t weights, cache, activations; /* bytes */
    uint32_t n_layers;                    /* layers whose attention runs here */
};
struct engine_plan_totals {
    uint64_t cache; /* bytes, all devices */
    uint32_t n_layers;
    uint32_t copies;     /* activations that cross from device to device for each token decoded */
    uint64_t copy_bytes; /* their bytes */
    uint64_t read_bytes; /* weight bytes read for each token decoded */
};
ENGINE_API size_t engine_plan_tensor_count(const struct engine_plan *plan);
ENGINE_API void engine_plan_tensor_at(const struct engine_plan *plan, size_t index,
                                      struct engine_plan_tensor *out);
ENGINE_API size_t engine_plan_device_count(const struct engine_plan *plan);
ENGINE_API void engine_plan_device_at(const struct engine_plan *plan, size_t index,
                                      struct engine_plan_device *out);
ENGINE_API void engine_plan_get_totals(const struct engine_plan *plan, struct engine_plan_totals *out);

/* Places and loads the model and makes room for its cache. The model must stay open. */
ENGINE_API int engine_context_create(struct engine_model *model, const struct engine_context_options *options,
                                     struct engine_context **context);
ENGINE_API void engine_context_destroy(struct engine_context *context);
/* The plan that it was loaded by. */
ENGINE_API const struct engine_plan *engine_context_plan(const struct engine_context *context);

struct engine_context_info {
    size_t struct_size;
    uint32_t n_vocab, n_context, n_batch, n_sequences, n_threads;
};
ENGINE_API int engine_context_get_info(const struct engine_context *context,
                                       struct engine_context_info *info);

/* Tokens of one or several sequences. Within a sequence positions go on from what is in the cache, without
 * gaps. Any number of tokens; they are cut into batches of n_batch. */
struct engine_batch {
    size_t struct_size;
    size_t n_tokens;
    const int32_t *tokens;    /* [n_tokens] */
    const int32_t *positions; /* [n_tokens]; NULL: each sequence goes on where it ended */
    const int32_t *sequences; /* [n_tokens], 0 … n_sequences-1; NULL: all 0 */
    const uint8_t *wanted;    /* [n_tokens], not 0 where logits are wanted; NULL: of the last token only */
};
/* Runs the batch. `logits` receives [n_wanted, n_vocab] float32 in the order of the tokens, or is NULL for
 * none. ENGINE_ERROR_ARGUMENT (nothing has run): a token, position or sequence out of range, or the context
 * is full. */
ENGINE_API int engine_decode(struct engine_context *context, const struct engine_batch *batch, float *logits);
/* Forgets the positions of a sequence from `position` on (0: all of it). */
ENGINE_API int engine_sequence_truncate(struct engine_context *context, uint32_t sequence, uint32_t position);
/* Positions that a sequence has in the cache. */
ENGINE_API uint32_t engine_sequence_length(const struct engine_context *context, uint32_t sequence);

/* ---- Sampling
 * --------------------------------------------------------------------------------------------------- */

/* The chain, in this order: penalties, top_k, typical, top_p, min_p, temperature, draw. */
struct engine_sampler_options {
    size_t struct_size;
    uint32_t penalty_last_n; /* tokens that the penalties look back on; 0: penalties off */
    float penalty_repeat;    /* 0 or 1: off */
    float penalty_frequency; /* 0: off */
    float penalty_presence;  /* 0: off */
    uint32_t top_k;          /* 0: off */
    float typical_p;         /* 0 or 1: off */
    float top_p;             /* 0 or 1: off */
    float min_p;             /* 0: off */
    float temperature;       /* 0: greedy; the lowest id wins ties */
    uint64_t seed;
};
ENGINE_API int engine_sampler_create(const struct engine_sampler_options *options, uint32_t n_vocab,
                                     struct engine_sampler **sampler);
ENGINE_API void engine_sampler_destroy(struct engine_sampler *sampler);
/* Chooses a token from logits [n_vocab], which it may overwrite. The same options, seed and logits give the
 * same tokens on every machine. Logits that are not finite count as -infinity; if none is left,
 * ENGINE_ERROR_DATA. */
ENGINE_API int engine_sample(struct engine_sampler *sampler, float *logits, int32_t *token);
/* Tells it of a token that is now part of the text (sampled or from the prompt), for the penalties. */
ENGINE_API void engine_sampler_accept(struct engine_sampler *sampler, int32_t token);

#ifdef __cplusplus
}
#endif

#endif
