/* engine.h: the C library. Runs language models through plugins. The program `engine` is its first user.
 *
 *   struct engine *engine;            plugins and devices                  engine_open, …_close
 *   struct engine_model *model;       a file: metadata, tensors, tokenizer engine_model_open, …_close
 *   struct engine_context *context;   the model on devices, with its cache engine_context_create, …_destroy
 *   struct engine_sampler *sampler;   logits to tokens                     engine_sampler_create, …_destroy
 *   struct engine_queue *queue;       many requests on one context         engine_queue_create, …_destroy
 *   struct engine_template *template; messages to text and tokens          engine_template_create, …_destroy
 *   struct engine_reply *reply;       text to content, reasoning and calls engine_reply_create, …_destroy
 *
 * Functions return ENGINE_OK or another enum engine_status (plugin-api.h). After a failure,
 * engine_error_message() gives the reason in one line, for the calling thread.
 *
 * Set the struct_size of a struct that has one to its sizeof before the call, even if the function fills the
 * struct. Otherwise the call fails with ENGINE_ERROR_ARGUMENT. A zeroed optional field means its default.
 *
 * Pointer arguments must not be NULL unless their function allows it; only structs with a struct_size are
 * checked for it. An array of 0 items may be NULL, and so may an object that is destroyed.
 *
 * Use each object from one thread at a time, except the engine itself, from which several threads may open
 * models, and functions marked [thread-safe]. Different objects may be used concurrently. Destroy objects in
 * the reverse order of their creation: those made from an object go before it. Returned strings and tables
 * live as long as the object they come from. */
#ifndef ENGINE_H
#define ENGINE_H

#include "plugin-api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ENGINE_API __attribute__((visibility("default")))

struct engine;
struct engine_model;
struct engine_adapter;
struct engine_importance;
struct engine_plan;
struct engine_context;
struct engine_eye;
struct engine_picture;
struct engine_grammar;
struct engine_match;
struct engine_sampler;
struct engine_queue;
struct engine_template;
struct engine_rendered;
struct engine_reply;

ENGINE_API const char *engine_version(void); /* "0.1.0" */
/* The message of the last failure in the calling thread; "" if there was none. */
ENGINE_API const char *engine_error_message(void);

/* ---- Plugins and devices --------------------------------------------------------------------------- */

struct engine_options {
    size_t struct_size;
    const char *const *plugin_dirs; /* searched first; terminated by NULL, or NULL */
    const char *config_file;        /* read instead of the standard engine.conf files; NULL: read those */
    /* Receives warnings and notes, each one line without a newline, from any thread. NULL discards them. */
    void (*log)(void *user, enum engine_log_level level, const char *line);
    void *user;
};

/* Reads the configuration, then finds and loads plugins. A plugin that cannot be used is listed with the
 * reason, and logged. `options` may be NULL. Plugins and their settings belong to the process, so only one
 * engine can be open at a time: a second one fails with ENGINE_ERROR_ARGUMENT. ENGINE_ERROR_DATA: a mistake
 * in the configuration. ENGINE_ERROR_NOT_FOUND: one of plugin_dirs does not exist. */
ENGINE_API int engine_open(const struct engine_options *options, struct engine **engine);
ENGINE_API void engine_close(struct engine *engine);

/* A setting of the configuration files, or NULL if it is not set. Section "" has the settings before the
 * first section. */
ENGINE_API const char *engine_setting(const struct engine *engine, const char *section, const char *key);

/* The configuration file that setting number `index` was read from; NULL past the last setting. A file with
 * several settings is returned for each of them. */
ENGINE_API const char *engine_setting_file(const struct engine *engine, size_t index);

/* The path of the model to run if none is named: the setting `model`, else the one installed with libengine;
 * NULL if there is neither. */
ENGINE_API const char *engine_default_model(const struct engine *engine);

struct engine_plugin_entry_info {
    const char *path;
    /* From here to `description`: how the plugin describes itself; NULL if it was refused before it could. */
    const char *name;
    const char *kind; /* "backend", "tokenizer" */
    const char *version;
    const char *license;
    const char *description;
    uint32_t abi_major, abi_minor;
    const char *refused; /* why it cannot be used, in one line; NULL: it is in use */
};
ENGINE_API size_t engine_plugin_count(const struct engine *engine);
ENGINE_API void engine_plugin_at(const struct engine *engine, size_t index,
                                 struct engine_plugin_entry_info *info);

struct engine_device_entry {
    const char *name;               /* "cpu", "vulkan0" */
    const char *plugin;             /* its plugin's name */
    struct engine_device_info info; /* filled by engine_device_at, including its struct_size */
    /* The device that is the same hardware and is used instead, unless this device or its plugin is
     * requested; NULL: none. */
    const char *preferred;
};
/* Asks all backends for their devices. A backend that fails is logged and skipped. */
ENGINE_API int engine_device_count(struct engine *engine, size_t *count);
ENGINE_API int engine_device_at(struct engine *engine, size_t index, struct engine_device_entry *entry);

struct engine_serve_options {
    size_t struct_size;
    /* The devices to offer, as in engine_context_options.backends. NULL: those that a model would use
     * here. */
    const char *backends;
    uint32_t n_threads; /* for each model; 0: as the other process asks, else the plugin decides */
    uint32_t weights;   /* enum engine_serve_weights */
    /* This process's own copy of the model, whose weights need not be sent. It must stay open until
     * engine_serve_devices returns. NULL: none. */
    struct engine_model *model;
};
/* Where the weights on the offered devices come from. */
enum engine_serve_weights {
    /* From engine_serve_options.model where its bytes equal the other process's, which sends the rest. */
    ENGINE_WEIGHTS_SAME = 0,
    ENGINE_WEIGHTS_SENT = 1, /* the other process sends them all */
    ENGINE_WEIGHTS_OWN = 2 /* from engine_serve_options.model; a long tensor that differs there is refused */
};
/* Offers this process's devices to another process, through the first backend that can do so (`serve` in
 * plugin-api.h), and returns when the other process has ended. Until then, nothing else may be done with the
 * engine. ENGINE_ERROR_NOT_FOUND: no backend can offer devices, there is no device, or no process asks for
 * them. `options` may be NULL. */
ENGINE_API int engine_serve_devices(struct engine *engine, const struct engine_serve_options *options);

/* ---- Checking plugins ------------------------------------------------------------------------------ */

/* How a check of the conformance suite ended. */
enum engine_check_result {
    ENGINE_CHECK_PASSED,
    ENGINE_CHECK_FAILED,
    ENGINE_CHECK_UNCLAIMED /* not run: the plugin does not claim the operation */
};

struct engine_check_row {
    size_t struct_size;   /* as libengine knows it */
    char device[32];      /* "vulkan0"; "" for the whole plugin */
    char area[24];        /* "matmul" */
    char what[40];        /* "Q4_0" */
    uint32_t cases;       /* cases tried */
    uint32_t result;      /* enum engine_check_result */
    uint32_t measured;    /* not 0: error and share are set */
    double error;         /* the largest difference, relative to the RMS of the result */
    double share;         /* the largest difference, relative to its tolerance */
    char message[512];    /* why it failed; else a remark or "" */
    uint32_t number;      /* the number of the case that failed or hung, from 1; 0: no single case */
    uint32_t n_unclaimed; /* cases that the plugin does not claim, in addition to `cases` */
    char tried[1024];     /* what case `number` did: types, shapes, strides, options; or "" */
    char alone[128];      /* the value of engine_check_options.only that runs case `number` alone */
};

/* How a plugin that was checked describes itself. */
struct engine_checked_plugin {
    size_t struct_size;
    char name[32], version[64], license[64], description[256];
    uint32_t abi_major, abi_minor;
    uint32_t kind;      /* enum engine_plugin_kind; 0: it ended the process before describing itself */
    uint32_t n_devices; /* a backend's devices; without one, its operations cannot be checked */
};

struct engine_check_options {
    size_t struct_size;
    /* Receives each row as soon as it is known, in the thread that called engine_check_plugin. The row is
     * valid during the call. Required. */
    void (*row)(void *user, const struct engine_check_row *row);
    void *user;
    /* The checks to run: "AREA", "AREA CHECK" or "AREA CHECK #NUMBER", with the names used in rows,
     * optionally preceded by "DEVICE ". NULL: all. ENGINE_ERROR_ARGUMENT if there is no such case. */
    const char *only;
    uint32_t timeout; /* seconds that a case may take before its process is killed; 0: 300 */
    /* Receives each case that the plugin does not claim (`number` and `tried` of the row), before `row` gets
     * the row that counts it. NULL: not called. */
    void (*unclaimed)(void *user, const struct engine_check_row *row);
    /* For a quick look: of each check only the first case and every `sample`-th after it. 0 and 1: all. */
    uint32_t sample;
};
/* The conformance suite: loads a plugin from a file and checks everything it claims against plugin-api.h.
 * Each group of checks runs in its own process, so a crash fails only that group; after a hang, the remaining
 * checks on that device are skipped. Everything that the plugin has started ends with it, even if the caller
 * is killed.
 * Returns ENGINE_OK once the checks have run, even if some failed; *plugin, whose struct_size the caller
 * sets, then holds the plugin's description. ENGINE_ERROR_DATA: no plugin can be loaded from the file.
 * ENGINE_ERROR_ARGUMENT: an engine is open in this process (its plugins would be inherited). The processes
 * are forked, so no other threads should be running in the calling process. */
ENGINE_API int engine_check_plugin(const char *path, const struct engine_check_options *options,
                                   struct engine_checked_plugin *plugin);

/* ---- Models ---------------------------------------------------------------------------------------- */

/* Opens and checks a GGUF file, a Hugging Face directory (or its config.json), or a llama2.c checkpoint.
 * `tokenizer_path`: llama2.c's tokenizer.bin, or NULL. Files stay mapped until the model is closed. Reading a
 * file that has shrunk since raises SIGBUS. The library installs no signal handlers; the program `engine`
 * has one that exits with a message. */
ENGINE_API int engine_model_open(struct engine *engine, const char *path, const char *tokenizer_path,
                                 struct engine_model **model);
ENGINE_API void engine_model_close(struct engine_model *model);

struct engine_model_options {
    size_t struct_size;
    const char *tokenizer_path; /* llama2.c's tokenizer.bin, or NULL */
    /* The type to which matrices are quantised while they are loaded, as in engine_quantize_options.type;
     * NULL: as stored. The values are the same to the bit as in the file that engine_model_quantize writes.
     * Plans count the memory of the new types, and loading needs no more. */
    const char *load_type;
    uint32_t n_threads; /* threads that convert; 0: as configured, else all processors */
    /* Metadata in the place of the file's, or besides it: "KEY=TYPE:VALUE", whose TYPE is int, float, bool
     * (true or false) or str; a key that begins with a dot has general.architecture before it. NULL ends the
     * list; NULL: none. */
    const char *const *overrides;
};
/* Opens a model as engine_model_open does, with options. ENGINE_ERROR_ARGUMENT: `load_type` is no type, or an
 * override has another form. ENGINE_ERROR_UNSUPPORTED: `load_type` is set and matrices are quantised already.
 * A value that the type cannot represent is an error when a context loads the model. */
ENGINE_API int engine_model_open_with(struct engine *engine, const char *path,
                                      const struct engine_model_options *options,
                                      struct engine_model **model);

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

/* The model's tokenizer, created on the first call by the plugin that handles its tokenizer.ggml.model. *api
 * and *tokenizer belong to the model. */
ENGINE_API int engine_model_tokenizer(struct engine_model *model, const struct engine_tokenizer_api **api,
                                      struct engine_tokenizer **tokenizer);

/* The bytes that a token adds in the middle of a text; control tokens as they are spelled. The bytes belong
 * to the model. [thread-safe] once engine_model_tokenizer has returned ENGINE_OK. ENGINE_ERROR_ARGUMENT: the
 * model has no such token. */
ENGINE_API int engine_model_token_text(struct engine_model *model, int32_t token, struct engine_string *text);

/* Reports to `sink` each step by which the model's tokenizer turns a text of `length` bytes into tokens
 * (plugin-api.h, enum engine_explain_kind); `flags` are enum engine_encode_flags. The ids of the steps
 * ENGINE_EXPLAIN_SPECIAL and ENGINE_EXPLAIN_TOKEN are the ids that the tokenizer's `encode` gives. A step and
 * its text are valid during the call of the sink. If the sink returns a value other than 0, the function
 * stops and returns it. ENGINE_ERROR_UNSUPPORTED: the tokenizer's plugin explains nothing. */
ENGINE_API int engine_model_explain(struct engine_model *model, const char *text, size_t length,
                                    uint32_t flags, engine_explain_sink sink, void *user);

struct engine_verify_options {
    size_t struct_size;
    /* Called now and then with the bytes of weights read so far, and in total; returns 0 to continue. NULL:
     * not called. */
    int (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
};
struct engine_verified {
    size_t struct_size;
    size_t n_files;   /* files that match their checksums */
    size_t n_unknown; /* files without weights and without a checksum; a warning in the log names each */
    uint64_t n_bytes; /* bytes of the files that match */
};
/* Compares the files that engine_model_open or engine_adapter_open would read with the checksums beside them:
 * SHA256SUMS, the names of blobs in Hugging Face's cache, and the files in .cache/huggingface/download.
 * `options` and `verified` may be NULL. ENGINE_ERROR_DATA: a file doesn't match its checksum, is missing, or
 * has weights but no checksum. [thread-safe] */
ENGINE_API int engine_model_verify(const char *path, const char *tokenizer_path,
                                   const struct engine_verify_options *options,
                                   struct engine_verified *verified);

struct engine_quantize_options {
    size_t struct_size;
    const char *type; /* "Q8_0", "Q4_K_M", …: llama-quantize's names of types and mixes of types */
    /* Exceptions "PATTERN=TYPE" ("blk.*.ffn_down.*=Q6_K"), terminated by NULL, or NULL. They override the
     * mix; the first match applies. */
    const char *const *only;
    int pure;           /* not 0: all matrices get `type` itself instead of its mix */
    uint32_t n_threads; /* 0: as configured, else all processors */
    /* Receives the GGUF file, from the first byte to the last; returns 0 to continue. Any other value ends
     * the call, which returns it. */
    int (*write)(void *user, const void *data, size_t size);
    /* Called now and then with the bytes of the original tensors done so far, and in total; returns 0 to
     * continue. NULL: not called. */
    int (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
    /* Writes a split model: files of at most this many bytes, except where a single tensor is larger; 0: one
     * file. `begin_part` is called before the first byte of each; `part` counts from 0. */
    uint64_t split_size;
    int (*begin_part)(void *user, uint32_t part, uint32_t n_parts);
    /* An importance matrix, a file in llama-imatrix's format, which weights the errors of each column; NULL:
     * all count the same. Matrices missing from the file are quantised without it, and the log says how many.
     * A file whose matrices have other widths or names is from another model: ENGINE_ERROR_DATA. */
    const char *imatrix;
};
/* Writes the model as a GGUF file with its matrices converted to other types. Norms, biases and small tables
 * are kept, as is the metadata, except for the keys that describe the quantisation. Each matrix must be F32,
 * F16 or BF16, or already have its new type, in which case it is copied; any can be turned into F32, F16 or
 * BF16. If the model is a directory, quantised matrices are copied, and routers become F32. Memory use does
 * not grow with the size of the model. */
ENGINE_API int engine_model_quantize(struct engine_model *model,
                                     const struct engine_quantize_options *options);

/* ---- Chat templates -------------------------------------------------------------------------------- */

/* A template is a program in Jinja's language. It turns a conversation into text of the form that the model
 * was trained on. docs/templates.md lists the supported features. */
struct engine_template_options {
    size_t struct_size;
    /* One of the named templates (engine_template_name_at), or the NAME of one that the model carries as
     * tokenizer.chat_template.NAME. NULL: the model's own. */
    const char *name;
    /* The text of a template to use instead of a named one; data NULL: none. */
    struct engine_string source;
    const char *origin; /* the name of `source` in messages ("chat.jinja") */
};
/* Creates a template for a model. A model without a template gets "chatml" if its vocabulary has
 * <|im_start|>, else "plain". `options` may be NULL. The template belongs to the model and may be used by
 * several threads at once. ENGINE_ERROR_NOT_FOUND: there is no template of that name. ENGINE_ERROR_DATA: a
 * mistake in the template. If the model has a template "tool_use" beside its own, a mistake in one of the two
 * counts only where that one is needed. */
ENGINE_API int engine_template_create(struct engine_model *model,
                                      const struct engine_template_options *options,
                                      struct engine_template **template_);
ENGINE_API void engine_template_destroy(struct engine_template *template_);

/* The name of named template number `index`; NULL past the last. */
ENGINE_API const char *engine_template_name_at(size_t index);
/* Where a template comes from: "the model's template", "the named template chatml", or options.origin. */
ENGINE_API const char *engine_template_origin(const struct engine_template *template_);
/* The mistake in the model's own template, because of which only conversations with tools can be rendered, by
 * its template "tool_use"; NULL: none. */
ENGINE_API const char *engine_template_fault(const struct engine_template *template_);
/* The mistake in the model's template "tool_use", because of which tools can't be given; NULL: none. */
ENGINE_API const char *engine_template_tools_fault(const struct engine_template *template_);
/* The format of a model's replies to this template's prompts, an enum engine_reply_format. To find it, the
 * function renders conversations with a tool call, which takes a tenth of a second at most. *calls, unless
 * `calls` is NULL, receives 1 if the template writes calls. Otherwise it receives 0, tools have no effect,
 * and the format is the one in which the template writes answers. */
ENGINE_API uint32_t engine_template_reply_format(const struct engine_template *template_, int *calls);
/* The text of the template that is used for conversations without tools. */
ENGINE_API struct engine_string engine_template_source(const struct engine_template *template_);

struct engine_template_input {
    size_t struct_size;
    struct engine_string messages;  /* JSON: an array of messages as in OpenAI's API */
    struct engine_string tools;     /* JSON: an array of tools; data NULL: none */
    struct engine_string documents; /* JSON: an array of documents; data NULL: none */
    struct engine_string variables; /* JSON: an object of further variables; data NULL: none */
    int no_generation_prompt;       /* not 0: the text ends with the last message */
    /* The time, for templates that write a date: seconds since 1970; 0: now. */
    int64_t now;
    /* Not 0: the rendered text ends within the last message, which must be the assistant's and have a text,
     * so that the model continues it (transformers' continue_final_message). */
    int continues_last;
};
/* Renders a conversation, as transformers' apply_chat_template does. With tools, the model's template
 * "tool_use" is used if there is one. ENGINE_ERROR_DATA: the input isn't JSON of the expected form, or the
 * template failed on it or exceeded its limits. */
ENGINE_API int engine_template_render(const struct engine_template *template_,
                                      const struct engine_template_input *input,
                                      struct engine_rendered **rendered);
ENGINE_API void engine_rendered_free(struct engine_rendered *rendered);

/* The rendered text, which lives as long as `rendered`. */
ENGINE_API struct engine_string engine_rendered_text(const struct engine_rendered *rendered);
/* For each byte of the rendered text, 1 if it comes from the input, 0 if the template wrote it. */
ENGINE_API const unsigned char *engine_rendered_marks(const struct engine_rendered *rendered);
/* Gives `sink` the tokens of the rendered text from byte `from` on, which must be 0 or where a special token
 * begins. Special tokens are recognised only where the template wrote them; one that is spelled out in a
 * message remains text. No token is added at the beginning or end, because that is up to the template. */
ENGINE_API int engine_rendered_encode(const struct engine_rendered *rendered, size_t from,
                                      engine_token_sink sink, void *user);

/* ---- Adapters --------------------------------------------------------------------------------------
 *
 * Low-rank adapters (LoRA, arXiv 2106.09685) change a model's matrices without touching its weights: y = W x
 * becomes y = W x + scale * B (A x). docs/adapters.md says what is supported. */

/* Opens an adapter for a model: a GGUF file as llama.cpp's converter writes it, or a folder of Hugging Face's
 * PEFT. The adapter belongs to the model; engine_model_close closes adapters that are still open. Whether it
 * fits the model's tensors is checked when a plan or context is created with it. ENGINE_ERROR_DATA: the file
 * is damaged or not an adapter. ENGINE_ERROR_UNSUPPORTED: a part of it cannot be applied; the message names
 * it. */
ENGINE_API int engine_adapter_open(struct engine_model *model, const char *path,
                                   struct engine_adapter **adapter);

/* Opens the adapter that a model's directory has for a task (Jina Embeddings 3): a folder of PEFT, or one
 * that is stored with the matrices. engine_adapter_open opens it, too, by the path DIRECTORY/TASK, and fails
 * with the same errors. ENGINE_ERROR_NOT_FOUND: the model has no adapter for this task. */
ENGINE_API int engine_adapter_open_task(struct engine_model *model, const char *task,
                                        struct engine_adapter **adapter);
/* Closes an adapter that no context or plan uses any more. NULL is allowed. */
ENGINE_API void engine_adapter_close(struct engine_adapter *adapter);

struct engine_adapter_info {
    size_t struct_size;
    const char *path;
    const char *format; /* "GGUF", "PEFT" */
    uint64_t n_tensors; /* tensors of the model that the adapter changes */
    uint64_t size;      /* bytes of the adapter's factors */
    uint64_t rank;      /* the largest rank of its factors */
};
ENGINE_API int engine_adapter_get_info(const struct engine_adapter *adapter,
                                       struct engine_adapter_info *info);

/* ---- Contexts -------------------------------------------------------------------------------------- */

#define ENGINE_OFFLOAD_AUTO (-1) /* as much as fits in the memory that the devices report as free */
#define ENGINE_OFFLOAD_ALL  (-2) /* all layers, the output matrix and the embedding */

/* Values of the graph that a context hands out while engine_decode runs. */
enum engine_watch {
    /* The attention of each layer: [keys, heads, tokens], the softmax's weight of each position for each head
     * and token; 0 for positions that the token doesn't see. keys is at least the largest position of the
     * batch plus one. With a sink, the weights add up to less than 1. Recurrent layers have no attention and
     * are left out; a model that has only such layers is refused (ENGINE_ERROR_UNSUPPORTED). */
    ENGINE_WATCH_ATTENTION = 1,
    /* The hidden states: [n_embd, tokens]. Layer 0 is the embedding that enters the first layer, layer L the
     * output of the L-th; the states of the last layer have gone through the final norm, as in
     * transformers. */
    ENGINE_WATCH_HIDDEN = 2,
    /* The logits that the final norm and the output matrix give after each layer, the "logit lens":
     * [n_vocab, wanted tokens], for layers 0 (the embedding) to one before the last. */
    ENGINE_WATCH_LENS = 4,
    /* The inputs of the model's matrices, just before each product: [k, rows, tokens], where k is the number
     * of the matrix's columns and engine_watched.weight names the matrix. rows is 1 for a tensor of one
     * matrix; if groups of its rows have inputs of their own, it is handed out for each group. For a tensor
     * with a matrix per head, row r is the input of matrix r. For experts, there is one row for all experts
     * that a token uses, or one for each. With this bit, all tokens go through the last layer, but only
     * wanted ones through the output matrix. engine_importance_add takes these values. */
    ENGINE_WATCH_INPUTS = 8
};
struct engine_watched {
    size_t struct_size;
    uint32_t kind; /* enum engine_watch */
    uint32_t layer;
    uint64_t ne[3];    /* the shape that enum engine_watch gives; unused dimensions are 1 */
    const float *data; /* dense, ne[0] varying fastest; valid during the call */
    /* The index of the first token of `data` among the batch's tokens; for ENGINE_WATCH_LENS and the inputs
     * of the output matrix, among its wanted tokens. A batch that runs in parts hands out each part. */
    size_t first;
    /* From here on for ENGINE_WATCH_INPUTS only; otherwise NULL and 0. */
    const char *weight;  /* the tensor's name, as engine_model_tensor_at has it; valid during the call */
    uint64_t n_matrices; /* matrices in the tensor, one per head or expert; usually 1 */
    /* [n_used, tokens] the experts that each token uses; NULL: the tensor has no experts. */
    const int32_t *experts;
    uint32_t n_used; /* experts that a token uses */
};

struct engine_context_options {
    size_t struct_size;
    /* Positions of a sequence; 0: as many as the model was trained with, if the devices have memory for them
     * (engine_plan_get_context says what limits them). Weights are placed with room for 16,384. */
    uint32_t n_context;
    /* Tokens that go through the graph at once; 0: 512, for an encoder at least n_context. */
    uint32_t n_batch;
    uint32_t n_sequences; /* 0: 1 */
    uint32_t n_threads;   /* CPU threads; 0: as configured, else one for each physical core */
    /* The type of the cache: "f16", "f32" or "q8_0". NULL: f32 if the model has an encoder or its file names
     * a pooling or labels, else f16. */
    const char *cache_type;
    /* Backends and devices to use: "vulkan,opencl", "vulkan:1", "cpu". NULL: as configured, else all devices
     * except CPUs that are reached through a driver. */
    const char *backends;
    /* The number of layers to offload, ENGINE_OFFLOAD_AUTO or ENGINE_OFFLOAD_ALL; NULL: as configured, else
     * auto. */
    const int32_t *offload;
    const char *const *memory; /* budgets "DEVICE=SIZE" ("vulkan0=600M"), terminated by NULL, or NULL */
    /* Placements "PATTERN=DEVICE" ("blk.*.ffn_*=cpu"), terminated by NULL, or NULL. The first match
     * applies. */
    const char *const *place;
    /* Called while weights load, with the bytes loaded so far and in total; returns 0 to continue. Any other
     * value ends loading with an error. */
    int (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
    /* Positions that a sequence will need; 0: unknown. If the context is smaller, creation fails before
     * anything is loaded. */
    uint32_t n_needed;
    /* Positions of the cache for all sequences together, rounded up to whole blocks; at least n_context.
     * Sequences take blocks as they grow. 0: n_sequences times n_context; if n_context is 0, too, as much of
     * that as there is memory for. Layers with a window keep less: for each sequence the positions that its
     * next tokens see, as many again for earlier texts, at least 1024, and one batch. Ignored for an encoder,
     * whose cache holds one batch. */
    uint32_t n_cache;
    /* [n_adapters] adapters of the model to apply together. They must stay open as long as the context. */
    struct engine_adapter *const *adapters;
    const float *adapter_scales; /* [n_adapters] the factor of each adapter; NULL: all 1 */
    size_t n_adapters;
    /* Values to hand out, bits of enum engine_watch; 0: none. A layer whose device can't hand out attention
     * runs its attention, with its part of the cache, on the CPU. */
    uint32_t watch;
    /* ENGINE_WATCH_ATTENTION: the first layer and the number of layers to watch; watch_n_layers 0: all from
     * watch_layer on; watch_layer UINT32_MAX: the last layer that has attention. */
    uint32_t watch_layer, watch_n_layers;
    /* Called by engine_decode as soon as a watched value is computed; returns 0 to continue. Any other value
     * ends the batch with an error. */
    int (*watched)(void *user, const struct engine_watched *value);
    void *watch_user;
    /* Not 0: other contexts will use the same devices. A cache whose size isn't given then grows on the CPU
     * only, where it takes memory as it is used; on other devices it has room for 16,384 positions. */
    uint32_t shares_devices;
};

/* The context length, in positions of a sequence, that a context created with these options would have if
 * there is memory for it. */
ENGINE_API int engine_context_length(struct engine_model *model, const struct engine_context_options *options,
                                     uint32_t *n_context);

/* What the model's file says about embeddings of texts. */
struct engine_embedding_info {
    size_t struct_size;
    uint32_t is_encoder; /* not 0: the model reads whole texts, writes none, and has no logits */
    /* The enum engine_pooling that the model was made for; if the file doesn't say, the mean for an encoder,
     * else the last token. */
    uint32_t pooling;
    uint32_t n_embd;       /* numbers of a hidden state */
    uint32_t n_context;    /* tokens that a text may have, as the model was trained */
    uint32_t n_labels;     /* labels of the model's classification head; 0: no head */
    uint32_t label_scores; /* enum engine_label_scores */
    /* Not 0: the model has an encoder and a decoder (engine_context_info.has_source), and no embeddings. */
    uint32_t has_source;
    /* Numbers of a text's embedding: n_embd, unless matrices follow the pooling (dense_2). */
    uint32_t n_values;
};
ENGINE_API int engine_model_embedding_info(struct engine_model *model, struct engine_embedding_info *info);

/* What the scores of a classification head mean, and so how probabilities follow from them. */
enum engine_label_scores {
    ENGINE_LABELS_PLAIN = 0,   /* each score is the result itself (regression) */
    ENGINE_LABELS_SOFTMAX = 1, /* exactly one label applies: softmax over all scores */
    ENGINE_LABELS_SIGMOID = 2  /* any number of labels apply: the sigmoid of each score */
};
/* The name of a label of the model's classification head; *label belongs to the model.
 * ENGINE_ERROR_NOT_FOUND: the file has no name for the label. */
ENGINE_API int engine_model_label(const struct engine_model *model, uint32_t index,
                                  struct engine_string *label);

/* Receives the tokens [count] of a pair of texts and their token types (engine_batch.token_types), both valid
 * during the call. Returns 0; any other value is returned by the function that calls it. */
typedef int (*engine_pair_sink)(void *user, const int32_t *tokens, const int32_t *token_types, size_t count);
/* Gives `sink`, in one call, the tokens of two texts that the model reads together, for example a query and a
 * document. They are joined by the template "rerank" of the model's file if there is one, otherwise as its
 * tokenizer joins them ([CLS] a [SEP] b [SEP]). A special token that is spelled out in a text remains
 * text. */
ENGINE_API int engine_model_encode_pair(struct engine_model *model, struct engine_string first,
                                        struct engine_string second, engine_pair_sink sink, void *user);
/* Gives `sink` the tokens of a pair like engine_model_encode_pair, but at most n_most of them; 0: no limit.
 * Texts lose their ends, special tokens stay. The longer text is cut first, until both are as long, then
 * both, as transformers truncates pairs (longest_first); with a template "rerank", only the second text.
 * ENGINE_ERROR_DATA: even empty texts would need more tokens. */
ENGINE_API int engine_model_encode_pair_within(struct engine_model *model, struct engine_string first,
                                               struct engine_string second, size_t n_most,
                                               engine_pair_sink sink, void *user);

/* Plans which device would hold which tensor and run which layer. Loads nothing. */
ENGINE_API int engine_plan_create(struct engine_model *model, const struct engine_context_options *options,
                                  struct engine_plan **plan);
ENGINE_API void engine_plan_destroy(struct engine_plan *plan);

/* One entry of a plan. A tensor with two roles (an embedding that is also the output matrix) has an entry for
 * each. If both are on the same device, one of them takes 0 bytes. */
struct engine_plan_tensor {
    const char *name;
    const char *type_name;
    const char *device;
    uint64_t bytes; /* on the device, in the backend's layout */
};
struct engine_plan_device {
    const char *name;
    const char *description;
    uint64_t budget;                      /* bytes that may be used; UINT64_MAX: unknown */
    uint64_t weights, cache, activations; /* bytes */
    uint32_t n_layers;                    /* layers whose attention runs on this device */
};
struct engine_plan_totals {
    uint64_t cache; /* bytes, all devices */
    uint32_t n_layers;
    uint32_t copies;     /* activations copied between devices for each decoded token */
    uint64_t copy_bytes; /* bytes of these copies */
    uint64_t read_bytes; /* weight bytes read for each decoded token */
};
ENGINE_API size_t engine_plan_tensor_count(const struct engine_plan *plan);
ENGINE_API void engine_plan_tensor_at(const struct engine_plan *plan, size_t index,
                                      struct engine_plan_tensor *out);
ENGINE_API size_t engine_plan_device_count(const struct engine_plan *plan);
ENGINE_API void engine_plan_device_at(const struct engine_plan *plan, size_t index,
                                      struct engine_plan_device *out);
ENGINE_API void engine_plan_get_totals(const struct engine_plan *plan, struct engine_plan_totals *out);

/* Why a context isn't longer. */
enum engine_context_limit {
    ENGINE_CONTEXT_TRAINED = 0, /* the model was trained with as many positions */
    ENGINE_CONTEXT_ASKED = 1,   /* engine_context_options.n_context */
    ENGINE_CONTEXT_CACHE = 2,   /* engine_context_options.n_cache */
    ENGINE_CONTEXT_MEMORY = 3,  /* a device has no memory for more */
    ENGINE_CONTEXT_ROPE = 4,    /* in longer contexts the model turns all positions by other angles */
    ENGINE_CONTEXT_BATCH = 5    /* texts go through the model at once, which takes memory by their length */
};
struct engine_plan_context {
    size_t struct_size;
    uint32_t n_trained; /* positions that the model was trained with */
    uint32_t n_context; /* positions of a sequence */
    uint32_t n_cache;   /* positions of all sequences together */
    uint32_t limit;     /* enum engine_context_limit */
    const char *device; /* ENGINE_CONTEXT_MEMORY: the device, as long as the plan; else NULL */
    /* Bytes of the CPU's cache that are taken when positions are first used, as far as they are free then. */
    uint64_t growth;
};
ENGINE_API void engine_plan_get_context(const struct engine_plan *plan, struct engine_plan_context *out);

/* Lets the caches of all contexts together take at most so many bytes as they grow (engine_plan_context's
 * growth) and returns how many they have taken, which may be more; UINT64_MAX, as at first: as many as are
 * free. [thread-safe] */
ENGINE_API uint64_t engine_limit_growth(struct engine *engine, uint64_t bytes);

/* Plans as engine_plan_create does, with the devices that the file `cluster` describes (docs/cluster.md).
 * Each is assumed to be able to run everything that this machine's CPU can. `cluster` NULL: with this
 * machine's devices. */
ENGINE_API int engine_plan_create_on(struct engine_model *model, const struct engine_context_options *options,
                                     const char *cluster, struct engine_plan **plan);

/* Predicts the cost of a prompt of n_prompt tokens (0: 512, or fewer if the context is shorter) and of the
 * token after it: messages to other machines, and, unless with_time is 0, seconds. Predicting seconds
 * measures devices that no file describes, which takes some seconds itself. For decoders only. */
ENGINE_API int engine_plan_predict(struct engine_plan *plan, uint32_t n_prompt, uint32_t with_time);

enum engine_phase { ENGINE_DECODE = 0, ENGINE_PREFILL = 1 };
/* A prediction of engine_plan_predict for all devices together. */
struct engine_plan_phase {
    size_t struct_size;
    uint32_t n_tokens; /* tokens computed in this phase */
    uint32_t position; /* position of the first token */
    double seconds;    /* time for all tokens of the phase */
};
/* One device's share of a predicted phase. */
struct engine_plan_share {
    size_t struct_size;
    double reading;         /* seconds of operations that memory limits, which read weights and caches */
    double computing;       /* seconds of operations that arithmetic limits */
    double overhead;        /* seconds of starting operations */
    double messages;        /* seconds that messages are under way */
    uint64_t n_messages;    /* messages to the device and from it */
    uint64_t message_bytes; /* bytes of all messages */
};
/* The last prediction of a phase, an enum engine_phase: in total, and for device number `device` of the
 * plan. */
ENGINE_API int engine_plan_get_phase(const struct engine_plan *plan, uint32_t phase,
                                     struct engine_plan_phase *out);
ENGINE_API int engine_plan_get_share(const struct engine_plan *plan, uint32_t phase, size_t device,
                                     struct engine_plan_share *out);

/* Measures the plan's devices and describes them in a file for engine_plan_create_on. */
ENGINE_API int engine_plan_write_cluster(struct engine_plan *plan, const char *path);

/* Places and loads the model, and allocates its cache. The model must stay open as long as the context. */
ENGINE_API int engine_context_create(struct engine_model *model, const struct engine_context_options *options,
                                     struct engine_context **context);
ENGINE_API void engine_context_destroy(struct engine_context *context);
/* The plan that the context was loaded with. */
ENGINE_API const struct engine_plan *engine_context_plan(const struct engine_context *context);

/* Sets the scales [n_scales] of the context's adapters, in the order of engine_context_options.adapters; 0
 * turns an adapter off. If a scale changes, all sequences are emptied, because text computed with other
 * scales cannot be continued; blocks computed earlier with the same scales are found again
 * (engine_sequence_reuse). With a queue, call this only while the queue has no requests.
 * ENGINE_ERROR_ARGUMENT: n_scales is wrong, or a scale is not finite; nothing has changed. */
ENGINE_API int engine_context_set_adapter_scales(struct engine_context *context, const float *scales,
                                                 size_t n_scales);
/* Adapter number `index` of the context, and its scale; NULL past the last. */
ENGINE_API const struct engine_adapter *engine_context_adapter(const struct engine_context *context,
                                                               size_t index, float *scale);

struct engine_context_info {
    size_t struct_size;
    uint32_t n_vocab, n_context, n_batch, n_sequences, n_threads;
    uint32_t n_cache;     /* positions of the cache for all sequences together */
    uint32_t cache_block; /* positions in a block; sequences grow by blocks */
    uint32_t n_embd;      /* numbers of a hidden state */
    uint32_t is_encoder;  /* not 0: the model reads whole texts, and gives states instead of logits */
    /* Not 0: the model has an encoder and a decoder (T5), so sequences need source texts (engine_encode). */
    uint32_t has_source;
    int32_t start_token; /* with has_source: the token that begins the decoder's text; else -1 */
};
ENGINE_API int engine_context_get_info(const struct engine_context *context,
                                       struct engine_context_info *info);

/* Tokens of one or several sequences. A sequence's positions must continue from those in the cache, without
 * gaps. Any number of tokens is allowed; they are split into batches of n_batch. */
struct engine_batch {
    size_t struct_size;
    size_t n_tokens;
    const int32_t *tokens;    /* [n_tokens]; below 0: rows of pictures */
    const int32_t *positions; /* [n_tokens]; NULL: each sequence continues where it ended */
    const int32_t *sequences; /* [n_tokens], 0 … n_sequences-1; NULL: all 0 */
    const uint8_t *wanted;    /* [n_tokens], not 0 where logits are wanted; NULL: the last token only */
    /* Receives each token's hidden state after the final norm, [n_tokens, n_embd], n_embd varying fastest;
     * NULL: not wanted. After a failure the contents are undefined. */
    float *states;
    /* [n_tokens] rows of the model's table of token types, for models that have one (BERT): 1 for the second
     * of two texts, else 0. NULL: all 0. */
    const int32_t *token_types;
};
/* Runs the batch. `logits` receives one row of n_vocab float32 values for each wanted token, in the order of
 * the tokens; NULL: no logits are wanted.
 *
 * An encoder reads each sequence of the batch as one whole text, whose tokens must be adjacent, and forgets
 * it: sequences are empty before and after. It gives states and no logits.
 *
 * ENGINE_ERROR_ARGUMENT: a token, position or sequence is out of range, or the context is full; nothing has
 * run. ENGINE_ERROR_MEMORY: the cache has no room for the whole batch (see engine_cache_free), so nothing has
 * run, or a device ran out of memory. After a failure in which something has run, sequences are as long as
 * before or shorter; engine_sequence_length returns their lengths. */
ENGINE_API int engine_decode(struct engine_context *context, const struct engine_batch *batch, float *logits);
/* How many of the next n_tokens tokens of a sequence a batch of at most `most` may have, so that it
 * doesn't end within a picture whose rows see each other (Gemma 3): `most`, or fewer; or more, if such a
 * picture is first and alone has more; never more than n_tokens. */
ENGINE_API size_t engine_batch_length(const struct engine_context *context, const int32_t *tokens,
                                      size_t n_tokens, size_t most);

/* Gives sequences their source texts, for models with an encoder and a decoder
 * (engine_context_info.has_source). The encoder reads each sequence of the batch as one whole text, whose
 * tokens must be adjacent; the decoder attends to it until the sequence gets another source. The sequence's
 * own positions are removed. A copy of a sequence has the same source. Only `tokens` and `sequences` of the
 * batch are read. ENGINE_ERROR_UNSUPPORTED: the model takes no source texts. ENGINE_ERROR_ARGUMENT: a token
 * or a sequence is out of range, or a text is longer than the context. After any other failure, sequences may
 * have lost their sources. */
ENGINE_API int engine_encode(struct engine_context *context, const struct engine_batch *batch);
/* The number of tokens of a sequence's source text; 0: it has none. */
ENGINE_API uint32_t engine_sequence_source_length(const struct engine_context *context, uint32_t sequence);

/* An importance matrix says how much each column of a matrix's input matters, as the sum of its squares over
 * a text. It lets engine_model_quantize lose less (engine_quantize_options.imatrix). The file format is that
 * of llama.cpp's llama-imatrix (GGUF), which llama-quantize reads. Use an object from one thread at a
 * time. */
ENGINE_API int engine_importance_create(struct engine_importance **importance);
ENGINE_API void engine_importance_destroy(struct engine_importance *importance);
/* Adds a value of ENGINE_WATCH_INPUTS, as engine_context_options.watched receives it. Each expert's inputs
 * are summed separately. ENGINE_ERROR_DATA: a number is not finite, or a matrix of that name was added with
 * another shape. */
ENGINE_API int engine_importance_add(struct engine_importance *importance,
                                     const struct engine_watched *value);
/* Adds the sums of a file that llama-imatrix or engine_importance_write made. ENGINE_ERROR_DATA: it isn't
 * one, or is from another model. */
ENGINE_API int engine_importance_read(struct engine_importance *importance, const char *path);

struct engine_importance_text {
    size_t struct_size;
    const char *name;    /* the text's name, for the file's metadata; NULL: none */
    uint64_t n_chunks;   /* windows of the text that were added, not counting those of files */
    uint32_t chunk_size; /* tokens of a window */
};
/* Calls `write` once with the whole file, and returns its result if that isn't 0. ENGINE_ERROR_ARGUMENT:
 * nothing was added. */
ENGINE_API int engine_importance_write(const struct engine_importance *importance,
                                       const struct engine_importance_text *text,
                                       int (*write)(void *user, const void *data, size_t size), void *user);

struct engine_importance_info {
    size_t struct_size;
    uint64_t n_matrices;
    uint64_t n_unused; /* experts that no token has used */
};
ENGINE_API int engine_importance_get_info(const struct engine_importance *importance,
                                          struct engine_importance_info *info);

/* The cache consists of blocks of engine_context_info.cache_block positions. A sequence of n positions uses
 * n / cache_block blocks, rounded up. Sequences with a common prefix can share blocks. A sequence that
 * continues within a shared block gets its own copy first, which takes one more block. A block that no
 * sequence uses any more keeps its contents until it is needed. */

/* The number of positions in blocks that no sequence uses. */
ENGINE_API uint32_t engine_cache_free(const struct engine_context *context);

/* Removes the positions of a sequence from `position` on (0: all) from the cache. Sliding-window layers
 * discard positions that have left the window. If positions needed to continue from `position` are gone, the
 * sequence is shortened further, to where it can continue, or emptied. engine_sequence_length returns what is
 * left. */
ENGINE_API int engine_sequence_truncate(struct engine_context *context, uint32_t sequence, uint32_t position);
/* The number of positions of a sequence in the cache. */
ENGINE_API uint32_t engine_sequence_length(const struct engine_context *context, uint32_t sequence);
/* Copies tokens first … first + count - 1 of a sequence. ENGINE_ERROR_ARGUMENT: the sequence is shorter. */
ENGINE_API int engine_sequence_tokens(const struct engine_context *context, uint32_t sequence, uint32_t first,
                                      uint32_t count, int32_t *tokens);
/* Replaces the contents of sequence `to` with the first n_positions of sequence `from` (all if it has fewer).
 * The two share blocks, so this takes no memory and computes nothing. If layers with a window no longer have
 * the positions needed to continue from there, `to` is shortened as in engine_sequence_truncate. */
ENGINE_API int engine_sequence_copy(struct engine_context *context, uint32_t from, uint32_t to,
                                    uint32_t n_positions);
/* Prepares a sequence for a text: keeps or takes over as much of the text's prefix as is still in the cache,
 * so that only the rest has to run. The prefix is found in the sequence itself, or as whole blocks that any
 * sequence uses or used. Everything else is removed from the sequence. *n_found receives the sequence's new
 * length, at most n_tokens - 1, because the last token must run to give logits. Layers with a window keep
 * less, so in models that have some, only prefixes of recent texts are found. */
ENGINE_API int engine_sequence_reuse(struct engine_context *context, uint32_t sequence, const int32_t *tokens,
                                     size_t n_tokens, uint32_t *n_found);
/* Writes a file with a sequence's tokens and its part of the cache, from the first byte to the last. `write`
 * returns 0 to continue; any other value ends the call, which returns it. */
ENGINE_API int engine_sequence_save(struct engine_context *context, uint32_t sequence,
                                    int (*write)(void *user, const void *data, size_t size), void *user);
/* Replaces a sequence with a saved one. The model and the cache type must be those it was saved with; the
 * devices and the placement may differ. ENGINE_ERROR_NOT_FOUND: there is no such file. ENGINE_ERROR_DATA: the
 * file is damaged, truncated, from another model, other adapters or another cache type, longer than the
 * context, or not a saved sequence. ENGINE_ERROR_UNSUPPORTED: it has another version of the format.
 * ENGINE_ERROR_MEMORY: the cache has no room. After a failure, the sequence is empty or unchanged. */
ENGINE_API int engine_sequence_load(struct engine_context *context, uint32_t sequence, const char *path);

/* ---- Pictures --------------------------------------------------------------------------------------
 *
 * A model that sees has an eye: a second model, which makes rows of numbers of a picture. In a text they take
 * the places of tokens. Open the eye before contexts of the model: one that was created before takes no
 * pictures. Close it after them; engine_model_close closes an eye that is still open. Pictures may outlive
 * their eye, but not the model.
 *
 * A prompt is written with the family's mark where a picture belongs (engine_eye_info.mark). Put the
 * picture's own text (engine_picture_info.text) there, make tokens of the whole, special tokens included, and
 * let engine_pictures_fill put the rows in. Tokens below 0 are rows: batches take them like others, caches
 * find them again, and they mean nothing in another process or to another model. A picture must stay until
 * the batches with its rows are done; requests to a queue don't take rows yet. */

/* Opens the eye of a model and loads it. `path`: its file (mmproj-….gguf); NULL: the directory that the model
 * is. `options`: backends, offload, memory and n_threads count; may be NULL. ENGINE_ERROR_UNSUPPORTED: the
 * model has no eye, or one of a kind that the engine doesn't know; ENGINE_ERROR_NOT_FOUND: it is in another
 * file; ENGINE_ERROR_DATA: it is another model's. A model has one eye. */
ENGINE_API int engine_eye_create(struct engine_model *model, const char *path,
                                 const struct engine_context_options *options, struct engine_eye **eye);
ENGINE_API void engine_eye_destroy(struct engine_eye *eye);

struct engine_eye_info {
    size_t struct_size;
    const char *mark;   /* stands for a picture in prompts */
    int32_t mark_token; /* the same as a token; -1: the vocabulary has none */
    int32_t row_token;  /* stands for a row in pictures' texts */
};
ENGINE_API int engine_eye_get_info(const struct engine_eye *eye, struct engine_eye_info *info);

/* A picture: either the bytes of a PNG, JPEG, WebP, GIF or BMP file, or pixels, rows of red, green and blue
 * from the top, a byte each. Not needed after the call. */
struct engine_picture_source {
    size_t struct_size;
    const void *bytes; /* NULL: pixels */
    size_t size;
    const uint8_t *pixels; /* [height, width, 3]; NULL: bytes */
    uint32_t width, height;
};
/* Reads a picture and lets the eye see it, unless it has seen the same pixels before. [thread-safe] for each
 * eye. ENGINE_ERROR_DATA, ENGINE_ERROR_UNSUPPORTED: the file is damaged, too large or of another format; the
 * message doesn't name the picture. ENGINE_ERROR_ARGUMENT: neither or both of bytes and pixels. */
ENGINE_API int engine_picture_create(struct engine_eye *eye, const struct engine_picture_source *source,
                                     struct engine_picture **picture);
ENGINE_API void engine_picture_destroy(struct engine_picture *picture);

struct engine_picture_info {
    size_t struct_size;
    const char *text;  /* takes the place of the mark in a prompt */
    uint32_t n_rows;   /* how many tokens of it are rows */
    uint32_t n_embd;   /* numbers of a row */
    const float *rows; /* [n_rows, n_embd], what the eye makes of the picture */
};
ENGINE_API int engine_picture_get_info(const struct engine_picture *picture,
                                       struct engine_picture_info *info);

/* Puts the rows of pictures, in order, in the places of a prompt's row tokens. ENGINE_ERROR_ARGUMENT:
 * there are more or fewer of these, or a picture was shown to another model. */
ENGINE_API int engine_pictures_fill(const struct engine_eye *eye,
                                    const struct engine_picture *const *pictures, size_t n_pictures,
                                    int32_t *tokens, size_t n_tokens);

/* ---- Sampling -------------------------------------------------------------------------------------- */

/* A number to add to a token's logit; -INFINITY: the token is never sampled. */
struct engine_logit_bias {
    int32_t token;
    float bias;
};

/* A chain of steps, described in docs/sampling.md, and a draw from the tokens they leave. Names are
 * llama.cpp's. */
struct engine_sampler_options {
    size_t struct_size;
    uint32_t penalty_last_n; /* recent tokens that the penalties consider; 0: penalties off */
    float penalty_repeat;    /* 0 or 1: off */
    float penalty_frequency; /* 0: off */
    float penalty_presence;  /* 0: off */
    uint32_t top_k;          /* 0: off */
    float typical_p;         /* 0 or 1: off */
    float top_p;             /* 0 or 1: off */
    float min_p;             /* 0: off */
    float temperature;       /* 0: greedy, unless dynatemp_range is set; the lowest id wins ties */
    uint64_t seed;
    /* The steps in their order, separated by ";"; a step that is not named is skipped. NULL:
     * "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature". The logit bias always comes
     * first. */
    const char *samplers;
    const struct engine_logit_bias *logit_bias; /* [n_logit_bias]; several for one token add up */
    size_t n_logit_bias;
    /* Dynamic temperature: from temperature - range to temperature + range, by the entropy. 0: off */
    float dynatemp_range;
    float dynatemp_exponent; /* usually 1 */
    float top_n_sigma;       /* 0 or less: off */
    float xtc_probability;   /* 0: off */
    float xtc_threshold;     /* usually 0.1; above 0.5: off */
    /* 1 or 2: this version of Mirostat replaces all steps except the logit bias and the temperature. 0:
     * off */
    uint32_t mirostat;
    float mirostat_tau;          /* usually 5 */
    float mirostat_eta;          /* usually 0.1 */
    float dry_multiplier;        /* usually 0.8; 0: DRY is off */
    float dry_base;              /* usually 1.75; below 1: DRY is off */
    uint32_t dry_allowed_length; /* usually 2: longer repetitions are penalized */
    uint32_t dry_penalty_last_n; /* recent tokens that DRY considers; 0: DRY is off */
    /* [n_dry_breakers] texts that DRY's repetitions do not reach across; NULL: "\n", ":", "\"" and "*" */
    const struct engine_string *dry_breakers;
    size_t n_dry_breakers;
    /* [n_ban] texts that never appear: a token that would complete one, given the text so far, is not
     * chosen. */
    const struct engine_string *ban;
    size_t n_ban;
};
/* Creates a sampler without a vocabulary. ENGINE_ERROR_ARGUMENT: an option is out of range or needs a
 * vocabulary, as banned texts do, and DRY unless dry_breakers is not NULL and n_dry_breakers is 0. */
ENGINE_API int engine_sampler_create(const struct engine_sampler_options *options, uint32_t n_vocab,
                                     struct engine_sampler **sampler);
/* Creates a sampler for a model's vocabulary. The model must outlive the sampler. */
ENGINE_API int engine_sampler_create_for(struct engine_model *model,
                                         const struct engine_sampler_options *options, uint32_t n_vocab,
                                         struct engine_sampler **sampler);
ENGINE_API void engine_sampler_destroy(struct engine_sampler *sampler);
/* Samples a token from logits [n_vocab], which the call may overwrite. The same options, seed and logits give
 * the same tokens on every machine. Logits that are not finite count as -infinity. ENGINE_ERROR_DATA: none is
 * finite. */
ENGINE_API int engine_sample(struct engine_sampler *sampler, float *logits, int32_t *token);
/* The probabilities [n_vocab] with which engine_sample would draw each token from logits [n_vocab], which the
 * call may overwrite. Changes nothing in the sampler. ENGINE_ERROR_DATA: no logit is finite. */
ENGINE_API int engine_sampler_probabilities(struct engine_sampler *sampler, float *logits,
                                            float *probabilities);
/* Records a token that is now part of the text (sampled or from the prompt), for penalties and DRY. */
ENGINE_API void engine_sampler_accept(struct engine_sampler *sampler, int32_t token);

/* ---- Grammars --------------------------------------------------------------------------------------
 *
 * A grammar says which texts may be written; docs/grammars.md describes grammars and schemas. A request of
 * the queue takes one (engine_request.grammar). A program with a loop of its own uses a match: it calls
 * engine_match_apply before engine_sample, and engine_match_accept after it. */

enum engine_grammar_kind {
    ENGINE_GRAMMAR_GBNF = 1,        /* llama.cpp's grammars, with schemas as items: docs/grammars.md */
    ENGINE_GRAMMAR_JSON_SCHEMA = 2, /* JSON that follows a schema */
    ENGINE_GRAMMAR_JSON_OBJECT = 3  /* any JSON object; the text may be NULL */
};
/* Reads a grammar of `length` bytes for the vocabulary of a model, which must outlive it. Any number of
 * requests and matches may use a grammar, in any threads. ENGINE_ERROR_DATA: the grammar has a mistake, or no
 * text can satisfy it. ENGINE_ERROR_UNSUPPORTED: it asks for something that is not supported. The message
 * says where. [thread-safe] once engine_model_tokenizer has returned ENGINE_OK. */
ENGINE_API int engine_grammar_create(struct engine_model *model, enum engine_grammar_kind kind,
                                     const char *text, size_t length, struct engine_grammar **grammar);
struct engine_grammar_options {
    size_t struct_size;
    enum engine_grammar_kind kind;
    const char *text; /* [length] */
    size_t length;
    /* Called every few milliseconds in the caller's thread; any value other than 0 ends
     * engine_grammar_create_with with ENGINE_ERROR. NULL: not called. */
    int (*gives_up)(void *user);
    void *user;
};
/* Reads a grammar as engine_grammar_create does, but an untrusted one, whose reading may have to be
 * interrupted. It also ends by itself, with ENGINE_ERROR_UNSUPPORTED, after a number of steps that take about
 * a second. */
ENGINE_API int engine_grammar_create_with(struct engine_model *model,
                                          const struct engine_grammar_options *options,
                                          struct engine_grammar **grammar);
/* Gives up the caller's reference. Requests and matches that use the grammar are not affected. NULL is
 * allowed. [thread-safe] */
ENGINE_API void engine_grammar_destroy(struct engine_grammar *grammar);

enum engine_match_state {
    ENGINE_MATCH_INCOMPLETE = 1, /* the text must go on */
    ENGINE_MATCH_COMPLETE = 2,   /* the text may end here */
    ENGINE_MATCH_FINAL = 3       /* the text must end here */
};
/* Creates a match, which follows a text under a grammar, at first empty. `begins_text`: not 0 if the text has
 * no prompt, or a prompt without text, so that its first token may lose a space. */
ENGINE_API int engine_match_create(struct engine_grammar *grammar, int begins_text,
                                   struct engine_match **match);
/* Creates a match in the state of another one, for a text that continues in two ways. */
ENGINE_API int engine_match_copy(const struct engine_match *match, struct engine_match **copy);
ENGINE_API void engine_match_destroy(struct engine_match *match);
/* Sets the logits [n_vocab] of tokens that would break the grammar to -infinity. ENGINE_ERROR_DATA: no finite
 * logit is left. */
ENGINE_API int engine_match_apply(struct engine_match *match, float *logits, uint32_t n_vocab);
/* Adds a token to the text. ENGINE_ERROR_DATA: the token would break the grammar. */
ENGINE_API int engine_match_accept(struct engine_match *match, int32_t token);
ENGINE_API enum engine_match_state engine_match_get_state(struct engine_match *match);

/* ---- Queue -----------------------------------------------------------------------------------------
 *
 * Requests go in; tokens and text come out. All requests share the context: each step runs one token of every
 * request that is being decoded, together with a chunk of the prompts still to be read (continuous batching,
 * chunked prefill). Requests with a higher priority go first, and older ones before newer ones. When the
 * cache is full, the newest request of the lowest priority gives up its place and resumes later, with the
 * same text. Other requests do not affect a request's logits: bit for bit if all devices of the context have
 * ENGINE_DEVICE_BATCH_INVARIANT; otherwise only within rounding, which can occasionally change a token.
 *
 * Threads. One thread runs the queue (engine_queue_run). Functions marked [thread-safe] may be called by any
 * thread at any time until engine_queue_destroy, including from callbacks; the other functions of the queue
 * must not be called from callbacks. The thread that runs the queue calls the callbacks, without holding a
 * lock. No request makes progress until a callback returns. */

struct engine_queue_options {
    size_t struct_size;
    uint32_t n_waiting; /* requests that may wait their turn before ENGINE_ERROR_BUSY; 0: 1024 */
    /* Prompt tokens in a step while other requests decode; 0: at least 16, and more as long as a step takes
     * less than a quarter of a second. */
    uint32_t n_chunk;
    /* Speculation, with `lookup` or `draft`: tokens are guessed and then checked together in one step where
     * that is faster than computing one after the other. How many are guessed follows from how often guesses
     * came true and how long steps take; where guesses fail, little time is lost. The texts do not change, at
     * any temperature, on devices whose results do not depend on the batch
     * (ENGINE_DEVICE_BATCH_INVARIANT). */
    /* Not 0: guesses the tokens that followed an earlier occurrence of the text's last ones. */
    uint32_t lookup;
    /* The least and the most tokens to guess for a request in a step; 0: 1 and 15, which is the limit. If
     * both are equal and not 0, that many are guessed whether or not it pays, for measurements. */
    uint32_t n_guess_least, n_guess_most;
    /* A context of a smaller model with the same vocabulary, on any device, that makes guesses; NULL: none.
     * It must have as many sequences as the queue's context, all empty, and belongs to the queue as well. */
    struct engine_context *draft;
};
/* Creates a queue for a context, which belongs to it until the queue is destroyed: nothing else may decode
 * with the context or change its sequences. Sequences that are not empty count as kept (ENGINE_REQUEST_KEEP).
 * `options` may be NULL. */
ENGINE_API int engine_queue_create(struct engine_context *context, const struct engine_queue_options *options,
                                   struct engine_queue **queue);
/* Destroys a queue that no other thread uses any more. Remaining requests get their last event
 * (ENGINE_DONE_CANCELLED) during the call. NULL is allowed. */
ENGINE_API void engine_queue_destroy(struct engine_queue *queue);

enum engine_event_kind {
    ENGINE_EVENT_PROMPT = 1, /* a piece of the prompt has been read; only with ENGINE_REQUEST_PROGRESS */
    ENGINE_EVENT_TOKEN = 2,  /* a token was generated, with the text that is now certain */
    ENGINE_EVENT_DONE = 3,   /* the last event of each request, with the rest of its text */
    ENGINE_EVENT_BEAMS = 4,  /* the beams have grown by a token; only with ENGINE_REQUEST_PROGRESS */
    /* A token of the prompt with its probability; only with engine_request.n_score. These events come in the
     * order of the prompt, before the first ENGINE_EVENT_TOKEN. */
    ENGINE_EVENT_SCORE = 5
};

enum engine_done_reason {
    ENGINE_DONE_END = 1,   /* the model ended its text */
    ENGINE_DONE_LIMIT = 2, /* max_tokens have been generated */
    ENGINE_DONE_STOP = 3,  /* a stop text or a stop token was generated */
    /* The context is full, or the sequence needs more cache than the other requests can give up. Where memory
     * for more of the cache isn't free, the request fails with ENGINE_ERROR_MEMORY instead. */
    ENGINE_DONE_CONTEXT = 4,
    ENGINE_DONE_CANCELLED = 5, /* by engine_queue_cancel, engine_queue_stop or engine_queue_destroy */
    ENGINE_DONE_FAILED = 6     /* `status` and `message` say why */
};

struct engine_token_logprob {
    int32_t token;
    float logprob; /* the natural logarithm of its probability */
};

/* A text found by beam search. */
struct engine_beam {
    const int32_t *tokens; /* [n_tokens] without the token that ended the text */
    size_t n_tokens;
    struct engine_string text; /* empty with ENGINE_REQUEST_NO_TEXT */
    double logprob;            /* the sum of the tokens' log-probabilities, including the one that ended it */
    double score;              /* logprob / n ^ length_penalty, n the number of tokens in that sum */
    uint32_t reason;           /* enum engine_done_reason */
};

struct engine_event {
    size_t struct_size; /* as libengine knows it */
    uint64_t request;
    uint32_t kind; /* enum engine_event_kind */
    int32_t token; /* TOKEN, SCORE: the token; else -1 */
    void *user;    /* engine_request.user */
    /* TOKEN, DONE: whole UTF-8 characters, as far as the model's output is UTF-8. Text that may be the
     * beginning of a stop text is held back until that is decided; the stop text itself is never sent. */
    struct engine_string text;
    /* So far: prompt tokens in the cache, how many of these an earlier request left there, and tokens
     * generated. */
    uint32_t n_prompt, n_reused, n_generated;
    uint32_t n_guessed, n_accepted; /* tokens guessed so far, and guesses that came true */
    uint32_t reason;                /* DONE: enum engine_done_reason */
    int32_t stop;                   /* DONE: index of the stop text that was generated; -1: none */
    int status;                     /* DONE with reason FAILED: enum engine_status */
    const char *message;            /* DONE with reason FAILED: one line; else "" */
    /* Seconds so far that the request waited for its turn, read its prompt, and generated. The time to the
     * first token is wait_seconds + prompt_seconds. Time after the request gave up its place counts towards
     * the phase that was interrupted. */
    double wait_seconds, prompt_seconds, text_seconds;
    int32_t sequence; /* DONE: the sequence of the context that is kept (ENGINE_REQUEST_KEEP); else -1 */
    /* DONE: not 0 if the request has a grammar and its text ended before the grammar allowed it. */
    uint32_t incomplete;
    /* SCORE, and TOKEN of a request with n_logprobs: the natural logarithm of the token's probability given
     * the tokens before it, before any sampler, ban or bias; -INFINITY if the probability is 0. */
    float logprob;
    /* With n_logprobs: the n_top most likely tokens, in order, by the same probabilities as `logprob`. */
    uint32_t n_top;
    const struct engine_token_logprob *top; /* [n_top] */
    /* DONE of a request with n_beams, unless it failed: the texts found, the best first. The event's text,
     * reason and n_generated are those of the best. There are fewer than the request's n_beams if the request
     * was cut short or the vocabulary is too small. */
    uint32_t n_beams;
    const struct engine_beam *beams; /* [n_beams] */
    /* DONE of a request with `pooling`, if its reason is LIMIT: [n_rows, n_embd]; else NULL. */
    const float *embedding;
    uint32_t n_embd;
    uint32_t n_rows; /* rows of `embedding`: 1, or n_prompt */
};

enum engine_request_flags {
    ENGINE_REQUEST_PROGRESS = 1,   /* send ENGINE_EVENT_PROMPT and ENGINE_EVENT_BEAMS */
    ENGINE_REQUEST_IGNORE_END = 2, /* tokens that end the text are never sampled */
    ENGINE_REQUEST_NO_TEXT = 4,    /* tokens only: no text, no stop texts; needs no tokenizer */
    ENGINE_REQUEST_SPECIAL = 8,    /* control tokens appear in the text as spelled */
    ENGINE_REQUEST_NO_TOKENS = 16, /* only read the prompt into the cache; ends with ENGINE_DONE_LIMIT */
    /* When the request ends without a failure, its sequence is kept with everything that has been computed:
     * the prompt and the text, usually without the last token. A later request whose prompt begins with all
     * of these tokens continues the sequence and computes only the rest; one that begins with some of them
     * shares those. So a turn of a conversation is a request with this flag and the whole conversation so far
     * as its prompt. Kept sequences give way, the oldest first, to requests that need a sequence or blocks;
     * results never depend on one. While the queue does not run, a kept sequence can be read
     * (engine_sequence_length, engine_sequence_tokens, engine_sequence_save); engine_queue_destroy leaves it
     * in the context. */
    ENGINE_REQUEST_KEEP = 32
};

/* When beam search stops, once it has found as many texts as it has beams. The names are transformers'. */
enum engine_early_stopping {
    /* When the best live beam, at its present length, scores no better than the worst text found. */
    ENGINE_EARLY_STOPPING_FALSE = 0,
    ENGINE_EARLY_STOPPING_TRUE = 1, /* at once */
    /* When no live beam can still become better than the worst text found: as ENGINE_EARLY_STOPPING_FALSE,
     * but with a length_penalty above 0 the beam is scored as if it had the greatest possible length. */
    ENGINE_EARLY_STOPPING_NEVER = 2
};

/* How the states of a prompt's tokens, after the final norm, become an embedding. The numbers are those of
 * GGUF's key pooling_type, except ENGINE_POOLING_TOKENS. */
enum engine_pooling {
    ENGINE_POOLING_MEAN = 1,  /* the mean of all states */
    ENGINE_POOLING_FIRST = 2, /* the first token's state ("cls") */
    ENGINE_POOLING_LAST = 3,  /* the last token's state */
    /* The scores that the model's classification head gives a pooled state: [n_labels], before any
     * softmax. */
    ENGINE_POOLING_RANK = 4,
    ENGINE_POOLING_TOKENS = 5 /* all states: [n_tokens, n_embd] */
};

struct engine_reply_options;

struct engine_request {
    size_t struct_size;
    /* The prompt: [n_tokens], at least one; copied. For a model with an encoder and a decoder
     * (engine_context_info.has_source) it is the source text, which the encoder reads; see decoder_tokens. */
    const int32_t *tokens;
    size_t n_tokens;
    const struct engine_sampler_options *sampler; /* NULL: temperature 0 */
    uint32_t max_tokens;                          /* 0: until the text ends or the context is full */
    uint32_t flags;                               /* bits of enum engine_request_flags */
    int32_t priority;                             /* requests with higher numbers go first */
    const struct engine_string *stop;             /* [n_stop] texts, none empty; copied */
    size_t n_stop;
    /* [n_stop_tokens] tokens that end the text and are not part of it; copied. */
    const int32_t *stop_tokens;
    size_t n_stop_tokens;
    /* Receives the request's events, each valid during the call. NULL: events wait for engine_queue_poll. */
    void (*event)(void *user, const struct engine_event *event);
    void *user;
    /* The grammar that the text must follow; NULL: any text. The text ends as soon as no token can follow.
     * The request keeps a reference to the grammar. */
    struct engine_grammar *grammar;
    uint32_t n_logprobs; /* likely tokens to report with each token, at most 1000; 0: no probabilities */
    /* The number of tokens at the end of the prompt that belong to the text that the grammar describes; 0:
     * that text begins after the prompt. */
    uint32_t n_begun;
    /* The number of beams of a beam search, done as transformers' generate does it; 0 or 1: off. The request
     * takes as many sequences of the context. It sends no ENGINE_EVENT_TOKEN; its last event has the texts.
     * The only sampler options allowed are logit_bias and those without effect at temperature 0. Stop texts,
     * n_logprobs, n_score, ENGINE_REQUEST_KEEP and ENGINE_REQUEST_NO_TOKENS are refused. With a grammar, a
     * beam ends when no token can follow. */
    uint32_t n_beams;
    /* For beam search: -32 to 32, usually 1; above 0 favours long texts, below 0 short. */
    float length_penalty;
    uint32_t early_stopping; /* enum engine_early_stopping */
    /* The number of tokens at the end of the prompt to score, each with an ENGINE_EVENT_SCORE; 0: none. It
     * must be less than n_tokens, because no token predicts the first one. The softmax is over all n_vocab
     * logits. Usually combined with ENGINE_REQUEST_NO_TOKENS. */
    uint32_t n_score;
    /* Asks for an embedding of the prompt instead of a text: an enum engine_pooling; 0: none. The last event
     * has the embedding, not normalised, with ENGINE_DONE_LIMIT. The whole prompt is computed even if some of
     * it is in the cache. Needs ENGINE_REQUEST_NO_TOKENS; beams, n_score and a grammar are refused. */
    uint32_t pooling;
    /* With `pooling`: [n_tokens] token types as in struct engine_batch, copied. NULL: all 0. */
    const int32_t *token_types;
    /* [n_decoder_tokens] the beginning of the decoder's text, for a model with an encoder and a decoder;
     * copied. n_begun counts among these tokens. n_decoder_tokens 0: the text begins with
     * engine_context_info.start_token. With such a model, n_score, pooling and ENGINE_REQUEST_KEEP are
     * refused. */
    uint32_t n_decoder_tokens;
    const int32_t *decoder_tokens;
    /* How the text is read as a reply, to limit its reasoning: its `format`, `template_text`, `tools`,
     * `prompt` and `prompt_marks` count, during engine_queue_submit only. NULL: no limit. It needs
     * ENGINE_REQUEST_SPECIAL; beams are refused. n_begun counts tokens that belong to the reply. */
    const struct engine_reply_options *reply;
    /* With `reply`: tokens inside the reasoning, without its marks. When there are as many, the mark that
     * ends it is written, and the answer follows. 0: the reply begins with the answer. If a grammar doesn't
     * allow the mark, it comes as soon as the grammar does. */
    uint32_t max_reasoning;
};

/* [thread-safe] Adds a request to the queue. *id receives its number, which is never 0; `id` may be NULL.
 * Events may come before the call returns. ENGINE_ERROR_BUSY: too many requests are waiting, or
 * engine_queue_stop has been called. ENGINE_ERROR_ARGUMENT: an option or token is out of range, or the prompt
 * is longer than the context or the cache. */
ENGINE_API int engine_queue_submit(struct engine_queue *queue, const struct engine_request *request,
                                   uint64_t *id);
/* [thread-safe] Ends a request: its last event comes within a step. ENGINE_ERROR_NOT_FOUND: the request has
 * ended already. */
ENGINE_API int engine_queue_cancel(struct engine_queue *queue, uint64_t id);

/* [thread-safe] Takes the next event of request `id`, or with id 0 of any request, that has no callback.
 * Waits at most `milliseconds` (negative: without limit). *event is NULL if none came in time; otherwise,
 * free it with engine_event_free at any time. ENGINE_ERROR_NOT_FOUND: there is no such request, or its last
 * event has been taken; with id 0: no request has events left to take, and the queue is stopped. */
ENGINE_API int engine_queue_poll(struct engine_queue *queue, uint64_t id, int milliseconds,
                                 struct engine_event **event);
ENGINE_API void engine_event_free(struct engine_event *event);

enum engine_queue_until {
    ENGINE_QUEUE_STOPPED = 1, /* until engine_queue_stop; waits when there are no requests */
    ENGINE_QUEUE_IDLE = 2,    /* until no request is left; for single-threaded programs */
    ENGINE_QUEUE_STEP = 3,    /* one step, if there is something to do */
    ENGINE_QUEUE_DONE = 4     /* until one or several requests are done, or none is left */
};
/* Runs the queue, in one thread at a time. A step that fails ends the requests that it contains
 * (ENGINE_DONE_FAILED); all other requests continue. ENGINE_ERROR_ARGUMENT: the queue is running already. */
ENGINE_API int engine_queue_run(struct engine_queue *queue, enum engine_queue_until until);

/* [thread-safe] Stops the queue. It accepts no more requests, and engine_queue_run returns once the remaining
 * ones are done. If `drop` is not 0, these are cancelled, and engine_queue_run returns within a step. */
ENGINE_API void engine_queue_stop(struct engine_queue *queue, int drop);

struct engine_queue_info {
    size_t struct_size;
    uint32_t n_waiting, n_running;   /* requests; one that gave up its place counts as waiting */
    uint32_t n_context, n_sequences; /* as in engine_context_info */
    uint64_t n_cache, n_cached;      /* positions of the cache, and those in use */
    /* From here to n_accepted, the numbers count from the queue's creation. */
    uint64_t n_requests, n_done;              /* requests submitted; requests that ended, for any reason */
    uint64_t n_steps, n_put_back;             /* steps; how often a request gave up its place */
    uint64_t n_prompt, n_reused, n_generated; /* tokens, as in struct engine_event */
    uint64_t n_guessed, n_accepted; /* tokens guessed and guesses that came true, of ended requests */
    uint32_t n_kept;                /* kept sequences, whose positions count as in use */
};
/* [thread-safe] What the queue has done and is doing. */
ENGINE_API int engine_queue_get_info(struct engine_queue *queue, struct engine_queue_info *info);

/* ---- Replies ---------------------------------------------------------------------------------------
 *
 * Splits a model's reply in a conversation into content, reasoning and tool calls, while it is being written.
 * The text must contain control tokens as spelled (ENGINE_REQUEST_SPECIAL), because several families mark
 * calls and reasoning with them. */

enum engine_reply_format {
    ENGINE_REPLY_AUTO = 0,    /* the one in which the template writes calls */
    ENGINE_REPLY_PLAIN = 1,   /* no tool calls */
    ENGINE_REPLY_HERMES = 2,  /* <tool_call>{…}</tool_call>: Hermes, Qwen, Granite 4 */
    ENGINE_REPLY_LLAMA3 = 3,  /* the reply is {"name": …, "parameters": …}; or <|python_tag|> */
    ENGINE_REPLY_MISTRAL = 4, /* [TOOL_CALLS][{…}], [TOOL_CALLS]name[ARGS]{…} */
    ENGINE_REPLY_DEEPSEEK = 5, /* <｜tool▁calls▁begin｜>…<｜tool▁calls▁end｜>: DeepSeek V3, R1, V3.1 */
    ENGINE_REPLY_GPT_OSS = 6, /* channels: analysis, commentary, final */
    ENGINE_REPLY_GLM = 7, /* <tool_call>name<arg_key>…</arg_key><arg_value>…</arg_value></tool_call> */
    ENGINE_REPLY_MINIMAX = 8,    /* <minimax:tool_call> with <invoke name="…"> */
    ENGINE_REPLY_KIMI = 9,       /* <|tool_calls_section_begin|>…<|tool_calls_section_end|> */
    ENGINE_REPLY_GEMMA4 = 10,    /* <|tool_call>call:name{…}<tool_call|> */
    ENGINE_REPLY_LFM2 = 11,      /* <|tool_call_start|>[name(key="value")]<|tool_call_end|> */
    ENGINE_REPLY_COHERE = 12,    /* <|START_ACTION|>[{"tool_name": …, "parameters": …}]<|END_ACTION|> */
    ENGINE_REPLY_COMMAND_R = 13, /* Action: and ENGINE_REPLY_COHERE's array in ```json: Command-R of 2024 */
    ENGINE_REPLY_GRANITE = 14,   /* <|tool_call|>[{…}]: Granite 3, Phi-4-mini */
    ENGINE_REPLY_HUNYUAN = 15,   /* <tool_calls>[{…}]</tool_calls>: Hunyuan, Apriel */
    ENGINE_REPLY_DEEPSEEK_V3_2 = 16, /* <｜DSML｜function_calls> with <｜DSML｜invoke name="…"> */
    ENGINE_REPLY_DEEPSEEK_V4 = 17,   /* <｜DSML｜tool_calls> with <｜DSML｜invoke name="…"> */
    ENGINE_REPLY_TEMPLATE = 18       /* as the template writes them, if it is none of these */
};

enum engine_reply_part {
    ENGINE_REPLY_CONTENT = 1,
    ENGINE_REPLY_REASONING = 2,
    ENGINE_REPLY_CALL = 3 /* a complete call or, with ENGINE_REPLY_CALLS_AS_WRITTEN, a piece of one */
};

/* Bits of engine_reply_piece.flags. A call that comes in one piece has BEGINS and ENDS. */
enum engine_reply_call_flag {
    ENGINE_REPLY_CALL_BEGINS = 1,
    ENGINE_REPLY_CALL_ENDS = 2,
    ENGINE_REPLY_CALL_CUT = 4 /* together with ENDS: the call ended before its arguments were complete */
};

/* Bits of engine_reply_options.flags. */
enum engine_reply_flag {
    /* Calls come in pieces, as they are written: first the name with the arguments so far, then more of the
     * arguments. A call that is cut, or whose JSON has a mistake, still counts as a call. This applies to
     * calls of offered tools whose arguments are written as a JSON object after the name; other calls come
     * whole. */
    ENGINE_REPLY_CALLS_AS_WRITTEN = 1
};

struct engine_reply_piece {
    size_t struct_size; /* as libengine knows it */
    uint32_t part;      /* enum engine_reply_part */
    uint32_t call;      /* CALL: the call's number in the reply, from 0 */
    /* CONTENT, REASONING: more text. CALL: the arguments, a JSON object, or the next piece of them, which may
     * be empty. */
    struct engine_string text;
    const char *name; /* CALL with ENGINE_REPLY_CALL_BEGINS: the function; else NULL */
    /* CALL with ENGINE_REPLY_CALL_BEGINS: the id, if the model has written one; else NULL. */
    const char *id;
    uint32_t flags; /* CALL: bits of enum engine_reply_call_flag */
};

/* How the arguments of a call are written (struct engine_reply_layout). */
enum engine_reply_arguments {
    ENGINE_REPLY_ARGUMENTS_OBJECT = 0, /* {NAME_KEY: name, ARGUMENTS_KEY: {…}} */
    ENGINE_REPLY_ARGUMENTS_JSON = 1,   /* a JSON object after the name */
    ENGINE_REPLY_ARGUMENTS_MARKED = 2, /* keys and values between marks */
    ENGINE_REPLY_ARGUMENTS_GEMMA = 3,  /* {key:<|"|>text<|"|>,key:1} after the name */
    ENGINE_REPLY_ARGUMENTS_PYTHON = 4  /* (key="text", key=1) after the name */
};

/* The marks of a format's calls, for grammars that enforce them. A mark that a format doesn't have is "".
 *
 *     open (begin [ID before_name] NAME after_name ARGUMENTS end)* close
 *
 * where the arguments that are marked are (key KEY after_key [TYPE after_type] value VALUE after_value)*. */
struct engine_reply_layout {
    size_t struct_size;
    uint32_t arguments; /* enum engine_reply_arguments */
    const char *open, *close, *begin, *before_name, *after_name, *end;
    const char *key, *after_key, *after_type, *value, *after_value;
    /* "-" as name_key: the name is the key of the arguments. */
    const char *name_key, *arguments_key;
    uint32_t listed;   /* not 0: between OPEN and CLOSE is an array of calls */
    uint32_t numbered; /* not 0: the name is written functions.NAME:NUMBER */
    /* Around reasoning, if the template has such marks; else "". */
    const char *reasoning_begin, *reasoning_end;
};
/* Describes the calls that a template writes. `layout` receives its marks, which live as long as the
 * template; set its struct_size first. ENGINE_ERROR_UNSUPPORTED: the format is one that such marks don't
 * describe, such as ENGINE_REPLY_LLAMA3; then only the marks around reasoning are set. */
ENGINE_API int engine_template_reply_layout(const struct engine_template *template_,
                                            struct engine_reply_layout *layout);

struct engine_reply_options {
    size_t struct_size;
    uint32_t format;           /* enum engine_reply_format */
    const char *template_text; /* for ENGINE_REPLY_AUTO: the template; NULL: ENGINE_REPLY_PLAIN */
    /* The tools that the model was offered, a JSON array as in OpenAI's API. NULL: the reply has no calls,
     * and text that looks like one is content. */
    const char *tools;
    /* The prompt as the template rendered it, whose end says whether the reply begins within the reasoning.
     * {NULL, 0}: it begins outside. Read during engine_reply_create only. See prompt_marks. */
    struct engine_string prompt;
    /* Receives the pieces during engine_reply_add and engine_reply_end, each valid during the call. */
    void (*piece)(void *user, const struct engine_reply_piece *piece);
    void *user;
    /* [prompt.length] engine_rendered_marks of the prompt, so that a mark of reasoning that a user wrote at
     * its end is ignored. NULL: the template wrote the whole prompt. */
    const unsigned char *prompt_marks;
    uint32_t flags; /* bits of enum engine_reply_flag */
    /* For ENGINE_REPLY_AUTO and ENGINE_REPLY_TEMPLATE, in place of template_text: its format is found once.
     * With other formats it adds the marks that the template has around reasoning. */
    const struct engine_template *chat_template;
};
/* The format that ENGINE_REPLY_AUTO would find for a template's text, an enum engine_reply_format;
 * ENGINE_REPLY_PLAIN for NULL and for a text that can't be parsed. engine_template_reply_format gives the
 * same without parsing the text again. */
ENGINE_API uint32_t engine_reply_format_of(const char *template_text);
/* Creates the reader of one reply. ENGINE_ERROR_ARGUMENT: the format is unknown, `piece` is NULL, or `tools`
 * is not a JSON array. */
ENGINE_API int engine_reply_create(const struct engine_reply_options *options, struct engine_reply **reply);
ENGINE_API void engine_reply_destroy(struct engine_reply *reply);
/* Adds text. Text that may be the beginning of a mark or of a call is held back until that is decided. White
 * space around reasoning and calls belongs to neither the content nor the reasoning, except that contents
 * before and after a call are separated by the white space before the call or, if there is none, after it. */
ENGINE_API int engine_reply_add(struct engine_reply *reply, const char *text, size_t length);
/* Says that a limit cut the reply before the model ended it. Call it before engine_reply_end, which then
 * treats an unfinished call as cut rather than as left so by the model: a call whose arguments have not begun
 * has none ("", not {}), a program may lack its end, and with ENGINE_REPLY_CALLS_AS_WRITTEN text before the
 * arguments of a cut call is dropped. */
ENGINE_API int engine_reply_cut(struct engine_reply *reply);
/* Ends the reply. An unfinished call, or one that is not valid JSON, becomes content as it was written,
 * unless ENGINE_REPLY_CALLS_AS_WRITTEN says otherwise. */
ENGINE_API int engine_reply_end(struct engine_reply *reply);

#ifdef __cplusplus
}
#endif

#endif
