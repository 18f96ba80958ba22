/* plugin-api.h: the interface between the engine and its plugins.
 *
 * A plugin is a shared library that exports one symbol, `engine_plugin_entry`. The engine calls it once,
 * passing the services it offers. The plugin returns a description of itself and a table of functions. There
 * are two kinds of plugin: compute backends (ENGINE_PLUGIN_BACKEND), which run tensor operations on devices,
 * and tokenizers (ENGINE_PLUGIN_TOKENIZER). A plugin needs only this header and the standard library, in C11
 * or C++.
 *
 * General rules
 * -------------
 * Versions.  ENGINE_ABI_MAJOR changes when old binaries no longer work. The engine refuses plugins with a
 *   different major version with a message that names both versions. ENGINE_ABI_MINOR grows with each
 *   addition. A plugin of any minor version works with an engine of any minor version. Additions after 1.0
 *   carry the version that introduced them: [1.1].
 * Growth.  Every struct starts with `struct_size`, which the side that allocates the struct sets to its own
 *   sizeof. New fields are only ever appended. A reader never accesses a field beyond struct_size;
 *   ENGINE_HAS(pointer, field) tests this. A function that fills a caller's struct writes no field beyond the
 *   caller's struct_size, and leaves struct_size unchanged. A missing field means the same as a zero field.
 *   Fields named `reserved` are zero until a later version names them. They occupy what would otherwise be
 *   trailing padding, which older binaries would leave uninitialised. Fields appended to the struct of an
 *   operation may change what is asked. A plugin therefore rejects an operation (in `supports` and `enqueue`)
 *   if a reserved field is not zero, or if any byte after the last field that it knows is not zero. Fields
 *   appended to other structs (engine_tensor, engine_weight_desc, engine_device_options) never change the
 *   meaning of older fields and may be ignored; an operation that depends on one says so in its own struct.
 *   Optional functions may be NULL or missing. Enumerations only grow: a plugin answers an unknown value with
 *   ENGINE_ERROR_UNSUPPORTED, and the engine treats an unknown device kind as ENGINE_DEVICE_ACCELERATOR and
 *   an unknown status as ENGINE_ERROR.
 * Errors.  Functions that can fail return an `enum engine_status` as int, ENGINE_OK (0) on success. On
 *   failure they give the reason through host->fail, which any thread may call, and leave output parameters
 *   unchanged. A plugin never exits, aborts, throws across this interface, or prints.
 * Ownership.  Neither side frees what the other allocated. Pointers passed in are valid for the duration of
 *   the call. Pointers handed out are valid for as long as the function's documentation says.
 * Threads.  Every function has a tag:
 *     [main]    called by one thread at a time, across the whole plugin;
 *     [device]  called by one thread at a time for each open device and everything that belongs to it:
 *               buffers, weights, streams;
 *     [any]     may be called by any thread at any time, even concurrently with other functions on the same
 *               object.
 * Handles.  The plugin defines `struct engine_device` and the other handles as it likes.
 *
 * Tensors and shapes
 * ------------------
 * ne[0..3] are element counts, fastest-varying dimension first: a matrix with `rows` rows of `k` values has
 * ne = {k, rows, 1, 1}. Unused dimensions are 1. nb[0..3] are strides in bytes, so slices and transposes are
 * views. For block types, nb[0] is the size of a block, and the elements of a row are contiguous. Comments
 * write shapes as [ne0, ne1, ...]. Arithmetic is float32 unless an operation says otherwise.
 *
 * Tolerances
 * ----------
 * "Within b" means that each element of the output differs by at most b from the formula's value, computed
 * in exact arithmetic from the operands as stored. `engine plugins check` measures this. A result must not
 * depend on the memory between the rows of an operand or after them. An operation writes only to its outputs,
 * not to that memory, and not to an operand that is not also an output. Unless a device sets
 * ENGINE_DEVICE_BATCH_INVARIANT, repeating an operation may give different bits. Results may also differ in
 * bits between devices.
 *
 * SPDX-License-Identifier: MIT. This header may be copied into any project. */
#ifndef ENGINE_PLUGIN_API_H
#define ENGINE_PLUGIN_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ENGINE_ABI_MAJOR 1
#define ENGINE_ABI_MINOR 5

/* True if `field` is within the part of *pointer that its writer knew. */
#define ENGINE_HAS(pointer, field)                                                                           \
    ((pointer)->struct_size >= (size_t)((const char *)(&(pointer)->field + 1) - (const char *)(pointer)))

#if defined(_WIN32)
#define ENGINE_EXPORT __declspec(dllexport)
#else
#define ENGINE_EXPORT __attribute__((visibility("default")))
#endif

#if defined(__GNUC__)
#define ENGINE_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define ENGINE_PRINTF(text, first)
#endif

enum engine_status {
    ENGINE_OK = 0,
    ENGINE_ERROR = 1,             /* any other failure */
    ENGINE_ERROR_ARGUMENT = 2,    /* the caller broke a rule of this header */
    ENGINE_ERROR_UNSUPPORTED = 3, /* a type, shape or operation that this plugin does not support */
    /* Out of host or device memory. The engine may retry with less on the device, or with fewer tokens. */
    ENGINE_ERROR_MEMORY = 4,
    ENGINE_ERROR_DEVICE = 5,    /* the device failed or was lost */
    ENGINE_ERROR_DATA = 6,      /* a file, vocabulary or weight is malformed */
    ENGINE_ERROR_NOT_FOUND = 7, /* no such key */
    ENGINE_ERROR_BUSY = 8,      /* [1.1] cannot accept this now; see the function */
    /* [1.4] The device was lost and can't be opened again in this process. */
    ENGINE_ERROR_GONE = 9
};

/* --------------------------------------------------------------------------------------------------------
 * Host services and the entry point
 */

enum engine_log_level {
    ENGINE_LOG_ERROR = 0,
    ENGINE_LOG_WARNING = 1,
    ENGINE_LOG_INFO = 2,
    ENGINE_LOG_DEBUG = 3
};

/* The services that the engine offers to a plugin. Valid from the entry call until the plugin is unloaded. */
struct engine_host {
    size_t struct_size;
    uint32_t abi_major, abi_minor; /* the engine's own */

    /* [any] Stores a message that explains a failure for the calling thread, and returns `status`. A plugin
     * can therefore write `return host->fail(ENGINE_ERROR_MEMORY, "no room for %zu bytes", size);`. The
     * message is one line without a newline and without the plugin's name, which the engine adds. */
    int (*fail)(int status, const char *format, ...) ENGINE_PRINTF(2, 3);

    /* [any] Writes a line to the engine's log. Do not log errors that you return. (Only this function takes
     * an enumeration as such; elsewhere enumerations are uint32_t, and statuses are int.) */
    void (*log)(enum engine_log_level level, const char *format, ...) ENGINE_PRINTF(2, 3);

    /* [any] Returns the value of `key` in the section [`plugin`] of engine.conf; pass your own plugin's name.
     * NULL if it is not set. The text is valid until the plugin is unloaded.
     *
     * The engine warns about settings that a plugin has not read: right after loading if the plugin has asked
     * for any setting in its entry call, otherwise when a device is open. A plugin that reads settings in its
     * entry call should therefore read all of them there. */
    const char *(*setting)(const char *plugin, const char *key);

    /* [any] Returns the folder for files that plugins can recreate (compiled kernels), or NULL if there is
     * none. It exists and belongs to the user alone. Name files after your plugin. Valid until the plugin is
     * unloaded. */
    const char *(*cache_folder)(void);
};

enum engine_plugin_kind { ENGINE_PLUGIN_BACKEND = 1, ENGINE_PLUGIN_TOKENIZER = 2 };

/* A plugin's description. Static data of the plugin. The first three fields never move. */
struct engine_plugin {
    size_t struct_size;
    uint32_t abi_major, abi_minor; /* ENGINE_ABI_MAJOR and ENGINE_ABI_MINOR when the plugin was compiled */
    uint32_t kind;                 /* enum engine_plugin_kind */
    /* Unique among loaded plugins: [a-z][a-z0-9_-]*, at most 31 bytes, no digit at the end. */
    const char *name;
    const char *version;                           /* the plugin's own, for people: "1.2.0" */
    const char *license;                           /* SPDX identifier */
    const char *description;                       /* one line */
    const struct engine_backend *backend;          /* for ENGINE_PLUGIN_BACKEND, else NULL */
    const struct engine_tokenizer_api *tokenizers; /* for ENGINE_PLUGIN_TOKENIZER, else NULL */
};

/* [main] The one exported symbol, called once after loading and before anything else. It keeps `host` if it
 * needs the services, and returns the description. If the plugin cannot work at all (a driver library is
 * missing, say), it calls host->fail and returns NULL. With the status ENGINE_ERROR_NOT_FOUND, the reason is
 * shown only to users who list plugins; with any other, every run warns. The call should return quickly: look
 * for devices in device_count. */
ENGINE_EXPORT const struct engine_plugin *engine_plugin_entry(const struct engine_host *host);
#define ENGINE_ENTRY_SYMBOL "engine_plugin_entry"

/* --------------------------------------------------------------------------------------------------------
 * Tensors
 */

/* Element types, numbered as in GGUF files. A backend chooses which ones it supports, see `supports`. */
enum engine_type {
    ENGINE_TYPE_F32 = 0,
    ENGINE_TYPE_F16 = 1,
    ENGINE_TYPE_Q4_0 = 2,
    ENGINE_TYPE_Q4_1 = 3,
    ENGINE_TYPE_Q5_0 = 6,
    ENGINE_TYPE_Q5_1 = 7,
    ENGINE_TYPE_Q8_0 = 8,
    ENGINE_TYPE_Q2_K = 10,
    ENGINE_TYPE_Q3_K = 11,
    ENGINE_TYPE_Q4_K = 12,
    ENGINE_TYPE_Q5_K = 13,
    ENGINE_TYPE_Q6_K = 14,
    ENGINE_TYPE_Q8_K = 15,
    ENGINE_TYPE_IQ2_XXS = 16,
    ENGINE_TYPE_IQ2_XS = 17,
    ENGINE_TYPE_IQ3_XXS = 18,
    ENGINE_TYPE_IQ1_S = 19,
    ENGINE_TYPE_IQ4_NL = 20,
    ENGINE_TYPE_IQ3_S = 21,
    ENGINE_TYPE_IQ2_S = 22,
    ENGINE_TYPE_IQ4_XS = 23,
    ENGINE_TYPE_I8 = 24,
    ENGINE_TYPE_I16 = 25,
    ENGINE_TYPE_I32 = 26,
    ENGINE_TYPE_I64 = 27,
    ENGINE_TYPE_F64 = 28,
    ENGINE_TYPE_IQ1_M = 29,
    ENGINE_TYPE_BF16 = 30,
    ENGINE_TYPE_TQ1_0 = 34,
    ENGINE_TYPE_TQ2_0 = 35,
    ENGINE_TYPE_MXFP4 = 39
};

struct engine_device;    /* an open device */
struct engine_buffer;    /* device memory for activations, caches and inputs */
struct engine_weight;    /* a model tensor, in the backend's own layout */
struct engine_stream;    /* a queue of operations */
struct engine_recording; /* operations kept for replay */

/* An operand. Either its elements start at `offset` in `buffer`, or it is a `weight`; a weight's offset is 0
 * and its nb describes the layout in the file. In calls to `supports`, both pointers are NULL. */
struct engine_tensor {
    size_t struct_size;
    /* enum engine_type. A weight's type may be a number that this header does not list;
     * engine_weight_desc.type_name gives its name. */
    uint32_t type;
    uint64_t ne[4];
    uint64_t nb[4];
    struct engine_buffer *buffer;
    /* Bytes. A multiple of engine_device_info.alignment for whole tensors, of 4 for views. */
    uint64_t offset;
    const struct engine_weight *weight;
};

/* --------------------------------------------------------------------------------------------------------
 * Operations
 *
 * Each operation takes one argument struct. A NULL tensor pointer means that the tensor is absent; tensors
 * not marked "or NULL" are required. An output never overlaps an input unless the operation says that they
 * may be the same tensor.
 *
 * A plugin rejects operands that are missing, have an unlisted type, or have a shape other than those
 * written here (later versions may allow them): `supports` returns 0 and `enqueue` fails. Rows (ne[0]) of
 * activations are contiguous. The other strides are multiples of 4 (of 2 for F16 and Q8_0) and may be larger
 * than what they span. A backend may also reject strides that it does not support.
 *
 * The engine guarantees these ranges for the values it writes:
 *   rows of GET_ROWS are in 0 .. n_rows-1;
 *   experts of MATMUL are in 0 .. n-1 (if ROUTE wrote them, ROUTE guarantees this);
 *   slots are -1 or in 0 .. block_size * n_blocks - 1;
 *   positions are -1 or in 0 .. max_blocks * block_size - 1;
 *   sequences are in 0 .. n_sequences-1, even for skipped tokens;
 *   states [1.3] are -1 or in 0 .. n_states-1, and equal ones are adjacent;
 *   picked positions [1.5] are as ENGINE_OP_PICK writes them (if PICK wrote them, PICK guarantees this);
 *   block numbers are in 0 .. n_blocks-1 for every position that a token sees; entries of a block table past
 *   the last visible position may hold anything and must not be followed. Entries before a window or chunk
 *   are numbers of blocks as well, but may be of any block.
 *
 * A backend may rely on this: other values are undefined behaviour, like a bad pointer. A backend that checks
 * them returns ENGINE_ERROR_ARGUMENT from enqueue or stream_wait.
 *
 * Batches: the `tokens` columns of a batch go through every operation together and may belong to different
 * sequences. Data that changes from run to run (ids, positions, slots, block tables) is in tensors, never in
 * scalar fields of the argument structs, so that a recording stays valid.
 */

enum engine_op {
    ENGINE_OP_MATMUL = 1,
    ENGINE_OP_ATTENTION = 2,
    ENGINE_OP_CACHE_WRITE = 3,
    ENGINE_OP_ROPE = 4,
    ENGINE_OP_NORM = 5,
    ENGINE_OP_GET_ROWS = 6,
    ENGINE_OP_ADD = 7,
    ENGINE_OP_MUL = 8,
    ENGINE_OP_ACTIVATE = 9,
    ENGINE_OP_ROUTE = 10,  /* [1.1] */
    ENGINE_OP_CONCAT = 11, /* [1.1] */
    ENGINE_OP_CONV = 12,   /* [1.3] */
    ENGINE_OP_SCAN = 13,   /* [1.3] */
    ENGINE_OP_PICK = 14,   /* [1.5] */
    ENGINE_OP_MIX = 15,    /* [1.5] */
    ENGINE_OP_HYPER = 16,  /* [1.5] */
    ENGINE_OP_POOL = 17    /* [1.5] */
};

/* Functions of one number x. `limit`, `alpha`, `beta` and `gamma` are fields of engine_op_activate. */
enum engine_activation {
    ENGINE_ACTIVATION_NONE = 0,
    ENGINE_ACTIVATION_SILU = 1, /* x / (1 + exp(-x)) */
    /* 2 to 11 came with [1.1]. */
    ENGINE_ACTIVATION_GELU_ERF = 2,     /* x/2 * (1 + erf(x / sqrt(2))) */
    ENGINE_ACTIVATION_GELU_TANH = 3,    /* x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))) */
    ENGINE_ACTIVATION_RELU = 4,         /* max(x, 0) */
    ENGINE_ACTIVATION_RELU_SQUARED = 5, /* max(x, 0)^2 */
    ENGINE_ACTIVATION_SIGMOID = 6,      /* 1 / (1 + exp(-x)) */
    ENGINE_ACTIVATION_TANH = 7,         /* tanh(x) */
    ENGINE_ACTIVATION_SOFTPLUS = 8,     /* ln(1 + exp(x)); must not overflow for large x */
    ENGINE_ACTIVATION_CLAMP = 9,        /* x, clamped to -limit .. limit */
    ENGINE_ACTIVATION_SOFTCAP = 10,     /* limit * tanh(x / limit) */
    /* Gated unit of gpt-oss: g * sigmoid(alpha * g) * (1 + u), where g = min(x, limit) and u is the factor,
     * clamped to -limit .. limit. The factor is required. */
    ENGINE_ACTIVATION_SWIGLU_CLAMPED = 11,
    ENGINE_ACTIVATION_EXP = 12, /* [1.3] exp(x); not in ENGINE_OP_MATMUL */
    /* 13 and 14 came with [1.5]; not in ENGINE_OP_MATMUL. Gated unit of DeepSeek V4: g * sigmoid(g) * u,
     * where g = min(x, limit) and u is the factor, clamped to -limit .. limit. The factor is required. */
    ENGINE_ACTIVATION_SILU_CLAMPED = 13,
    /* xIELU (arXiv 2411.13010): alpha * x^2 + beta * x for x > 0, else
     * gamma * (exp(min(x, -limit)) - 1 - x) + beta * x. */
    ENGINE_ACTIVATION_XIELU = 14
};

/* ENGINE_OP_MATMUL:  output[m, t] = sum over k of weight[k, m] * input[k, t]
 * then, in this order and each if present: times scale, plus bias[m], activation, plus residual[m, t].
 * With `gate`:
 *   output[m, t] = activation(gate x input)[m, t] * (weight x input)[m, t], plus residual[m, t];
 * scale and bias are then absent. The activation must be one that uses neither `limit` nor `alpha`, and
 * not EXP.
 *
 * [1.1] A weight with three dimensions is n = ne[2] matrices, created for ENGINE_WEIGHT_MATRICES. If
 * `experts` is NULL, each head has its own matrix, and input and output have n heads:
 *   output[m, h, t] = sum over k of weight[k, m, h] * input[k, h, t], times scale; everything else is absent.
 * Otherwise `experts` selects matrices for each token (a mixture of experts, arXiv 2101.03961):
 *   y[m, s, t] = sum over k of weight[k, m, e] * input[k, s, t],  e = experts[s, t].
 * An input with one column per token, [k, 1, tokens], is used for every s. The steps above follow: scale,
 * bias[m, e], activation; or those with a gate, whose matrix e counts. Then output = y, or with `mix`
 *   output[m, t] = sum over s of mix[s, t] * y[m, s, t], plus residual[m, t].
 * A residual is allowed only with `mix`. Only the matrices named by `experts` are read.
 *
 * Rounding: the input may be rounded to int8 if the weight is quantised (in blocks of 32, or in others that
 * stay within the tolerance below), and to float16 or bfloat16 if the weight has that type. Sums are float32
 * or wider.
 *
 * Tolerance: a product is within 1e-6 * S, where S is the sum of |weight[k, m] * input[k, t]|, plus the
 * effect of rounding the input, if it was rounded:
 *   to int8: sum over blocks of 32 of max|input| / 252 * (sum of |weight|), whatever blocks were used (half
 *   a step of max|input| / 127, and almost 1 % more);
 *   to float16: S / 2^11;
 *   to bfloat16: S / 2^8.
 * The steps after the product propagate this error; an activation adds its own bound (see
 * ENGINE_OP_ACTIVATE). The result may differ by another 1e-6 * (|value| + 1), and with `mix` by another
 * 1e-6 * (1 + sum of the absolute values of the terms added). In addition, for an output of 64 elements or
 * more, the root mean square (RMS) error is at most 2 % of the RMS of the exact output if the weight is
 * quantised, otherwise 2e-6 of it, plus 2^-11 of it for float16 or 2^-8 for bfloat16 weights. */
struct engine_op_matmul {
    size_t struct_size;
    const struct engine_tensor *weight; /* weight, [k, rows] or [k, rows, n], any type */
    /* F32 [k, tokens]; heads: [k, n, tokens]; experts: [k, 1 or n_used, tokens] */
    const struct engine_tensor *input;
    /* F32 [rows, tokens]; heads: [rows, n, tokens]; experts without mix: [rows, n_used, tokens]. May be the
     * same tensor as residual. */
    const struct engine_tensor *output;
    const struct engine_tensor *gate;     /* weight, of the shape of `weight`, or NULL */
    const struct engine_tensor *bias;     /* weight, F32 [rows], with experts [rows, n], or NULL */
    const struct engine_tensor *residual; /* F32 [rows, tokens], or NULL */
    uint32_t activation;                  /* enum engine_activation */
    float scale;                          /* 0 means 1 */
    /* [1.1] I32 [n_used, tokens], each in 0 .. n-1, distinct within a token; or NULL */
    const struct engine_tensor *experts;
    const struct engine_tensor *mix; /* [1.1] F32 [n_used, tokens], or NULL; only with experts */
};

/* ENGINE_OP_ATTENTION: causal attention of each token over its sequence's part of a paged cache, with
 * softmax in float32. Token t, of sequence s = sequences[t] and at position p = positions[t], sees the
 * positions j <= p; with a window, those with p - window < j <= p. Position j is at place = j % block_size in
 * block b = block_table[j / block_size, s].
 *   output[:, h, t] = sum over j of softmax_j(scale * q[:, h, t] . k[:, place, h', b]) * v[:, place, h', b],
 *   h' = h / (n_heads / n_kv_heads).
 *
 * [1.1] The score of position j, scale * q . k, goes through these steps in this order, each if present:
 *   score = softcap * tanh(score / softcap);
 *   score = score - slopes[h] * |p - j|  (ALiBi, arXiv 2108.12409).
 * With `chunk`, a token sees only the positions of its own chunk, j >= p - p % chunk. With `sinks`,
 * exp(sinks[h]) is added to the softmax's denominator, as if one more position had that score and a value of
 * zeros. Value rows may have their own length, value_dim. v may be inside k's memory (the first
 * value_dim values of each key, as in multi-head latent attention, arXiv 2405.04434); it then has the
 * strides of k.
 *
 * [1.2] With `weights`, weights[j, h, t] is the weight that position j has in that sum: the softmax, with the
 * sink in its denominator, and 0 for a position that the token does not see. There is a row for each head and
 * token, with n_keys >= p + 1 for every position p of the batch. Programs that show attention weights ask for
 * this output; while they do, the CPU runs the attention of layers whose backend refuses it.
 *
 * [1.3] With `positions` of the shape [tokens, 2], positions[t, 1] is the last position that token t sees,
 * which is p or a later one (an encoder's tokens see their text to its end, or both ways within a window):
 *   j <= positions[t, 1] instead of j <= p.
 * The first position that the token sees still follows from `window` or `chunk`. If p is -1, positions[t, 1]
 * is ignored. n_keys is larger than every positions[t, 1]. With `distance_bias`, a last step follows those of
 * 1.1:
 *   score = score + distance_bias[clamp(j - p, -r, r) + r, h], r = (ne[0] - 1) / 2
 * (relative positions as in T5, arXiv 1910.10683, written out for each distance). Not together with `slopes`.
 *
 * [1.5] With `picked`, a token sees, of the positions that it would see without, only those in its column
 * picked[:, t]: different positions in ascending order, then -1 in all places that are left (sparse attention
 * as in DeepSeek-V3.2, arXiv 2512.02556). The other positions need not be read. A token that sees none gets
 * the output 0, and the weights 0.
 *
 * [1.5] A softmax over several caches is made one attention after the other. With `logsums`,
 *   logsums[h, t] = ln(sum over j of exp(score of j)),
 * the sink not included, and -1e30 if the token sees nothing. With `earlier` and `earlier_logsums`, which
 * other attentions of the same queries over other keys gave without a sink, the softmax covers their
 * positions as well: exp(earlier_logsums[h, t]) is added to its denominator, exp(earlier_logsums[h, t]) *
 * earlier[:, h, t] to its numerator, and ln of their sum is what goes into `logsums`. There are no `weights`
 * beside them. A token at position -1 then sees none of this cache's positions, and its output is that of
 * the earlier ones, or 0 if these saw nothing; so it is for a token that has picked nothing.
 *
 * ENGINE_OP_CACHE_WRITE has already stored the keys and values of the batch's own tokens. A token at position
 * -1 is skipped: its output is 0, and so are its weights. The block table's max_blocks bounds the positions
 * that the batch can reach.
 *
 * Tolerance: within 1e-6 * max(1, M / 8) * the largest |v| in the cache. M is the largest, over the positions
 * that the token sees, of (sum of |scale * q * k|) + slopes[h] * |p - j| + |distance_bias|. Scores may have
 * any size: the implementation must avoid exponentials that overflow float32. Weights are within 1e-6 *
 * max(1, M / 8). Logsums are within 2e-6 * max(1, M). The values of `earlier` count as values, the size of
 * `earlier_logsums` as M. */
struct engine_op_attention {
    size_t struct_size;
    const struct engine_tensor *q; /* F32 [head_dim, n_heads, tokens] */
    const struct engine_tensor *k; /* F32, F16 or Q8_0 [head_dim, block_size, n_kv_heads, n_blocks] */
    const struct engine_tensor *v; /* like k; [1.1] [value_dim, block_size, n_kv_heads, n_blocks] */
    const struct engine_tensor *block_table; /* I32 [max_blocks, n_sequences] */
    const struct engine_tensor *sequences;   /* I32 [tokens], column of block_table */
    const struct engine_tensor *positions;   /* I32 [tokens]; [1.3] or [tokens, 2] */
    const struct engine_tensor *output;      /* F32 [head_dim, n_heads, tokens]; [1.1] [value_dim, …] */
    float scale;
    uint32_t window;                             /* 0: none */
    const struct engine_tensor *slopes;          /* [1.1] weight, F32 [n_heads], each at least 0, or NULL */
    const struct engine_tensor *sinks;           /* [1.1] weight, F32 [n_heads], or NULL */
    float softcap;                               /* [1.1] at least 0; 0: none */
    uint32_t chunk;                              /* [1.1] 0: none; not together with window */
    const struct engine_tensor *weights;         /* [1.2] output: F32 [n_keys, n_heads, tokens], or NULL */
    const struct engine_tensor *distance_bias;   /* [1.3] weight, F32 [2 r + 1, n_heads], or NULL */
    const struct engine_tensor *picked;          /* [1.5] I32 [n_picked, tokens], or NULL */
    const struct engine_tensor *earlier;         /* [1.5] F32, shape of output, or NULL */
    const struct engine_tensor *earlier_logsums; /* [1.5] F32 [n_heads, tokens], or NULL */
    const struct engine_tensor *logsums;         /* [1.5] output: F32 [n_heads, tokens], or NULL */
};

/* ENGINE_OP_CACHE_WRITE: stores keys or values of new tokens in a paged cache, converted to the cache's type.
 *   cache[:, slots[t] % block_size, h, slots[t] / block_size] = input[:, h, t];  skipped if the slot is -1.
 * F16: rounded to nearest, ties to even. Q8_0, as in files: for each 32 values, d = max|x| / 127 in float32
 * is stored as the nearest float16, and x / d is rounded to the nearest integer. An x / d within 1e-4
 * of the midpoint of two integers may become either. */
struct engine_op_cache_write {
    size_t struct_size;
    const struct engine_tensor *input; /* F32 [head_dim, n_kv_heads, tokens] */
    const struct engine_tensor *slots; /* I32 [tokens] */
    const struct engine_tensor *cache; /* output: like k of ENGINE_OP_ATTENTION */
};

/* The pairs that rope rotates: (0,1),(2,3),… or (0,n/2),(1,n/2+1),… */
enum engine_rope_pairs { ENGINE_ROPE_ADJACENT = 0, ENGINE_ROPE_HALVES = 1 };

/* ENGINE_OP_ROPE: rotary position embedding (RoFormer, arXiv 2104.09864) of the first n_dims values of each
 * head; the others are copied. Pair i of a token at position p rotates by the angle
 *   p * position_scale * theta^(-2i / n_dims) / factors[i].
 * Compute it so that sine and cosine are accurate to float32 precision at any position up to 2^20: in
 * float64, say, or from a table made that way. At position -1, the output may hold any values: nothing uses
 * them. A pair (a, b) becomes (a cos - b sin, a sin + b cos), each within 3e-7 * (|a| + |b|). [1.1]
 * `magnitude` then multiplies both (YaRN, arXiv 2309.00071) and their bounds, but not the copied values. */
struct engine_op_rope {
    size_t struct_size;
    const struct engine_tensor *input;     /* F32 [head_dim, n_heads, tokens] */
    const struct engine_tensor *positions; /* I32 [tokens] */
    const struct engine_tensor *output;    /* F32, shape of input; may be the same tensor */
    const struct engine_tensor *factors;   /* weight, F32 [n_dims / 2], or NULL for ones */
    uint32_t n_dims;                       /* even, at most head_dim */
    uint32_t pairs;                        /* enum engine_rope_pairs */
    float theta;
    float position_scale; /* 0 means 1 */
    float magnitude;      /* [1.1] 0 means 1 */
    uint32_t reserved;    /* 0 */
};

enum engine_norm_kind {
    ENGINE_NORM_RMS = 0,
    ENGINE_NORM_LAYER = 1 /* [1.1] */
};

/* ENGINE_OP_NORM, over each row, with means in float32 or wider:
 *   RMS:    output[i, t] = input[i, t] / sqrt(mean over i of input[i, t]^2 + epsilon) * weight[i]
 *           (arXiv 1910.07467). Within 1e-6 * |value|.
 *   LAYER:  output[i, t] = (input[i, t] - m) / d * weight[i], where m is the row's mean and
 *           d = sqrt(mean over i of (input[i, t] - m)^2 + epsilon) (arXiv 1607.06450). Within
 *           1e-6 * (|value| + |weight[i]| * largest |input| of the row / d).
 * [1.1] bias[i], if present, is added last; the bound grows by 1e-6 * (|value| + |bias[i]|). */
struct engine_op_norm {
    size_t struct_size;
    const struct engine_tensor *input;  /* F32 [n, tokens] */
    const struct engine_tensor *output; /* F32 [n, tokens]; may be the same tensor as input */
    const struct engine_tensor *weight; /* weight, F32 [n], or NULL for ones */
    uint32_t kind;                      /* enum engine_norm_kind */
    float epsilon;
    const struct engine_tensor *bias; /* [1.1] weight, F32 [n], or NULL */
};

/* ENGINE_OP_GET_ROWS:  output[:, i] = source[:, rows[i]], converted to float32. It looks up embeddings
 * (source is a weight of any type) and selects the positions whose logits are wanted (source is an F32
 * activation). Exact: the values of the type's blocks, rounded to float32 once, bit for bit. */
struct engine_op_get_rows {
    size_t struct_size;
    const struct engine_tensor *source; /* weight or F32 activation, [n, n_rows] */
    const struct engine_tensor *rows;   /* I32 [count]; each in 0 .. n_rows-1, checked by the engine */
    const struct engine_tensor *output; /* F32 [n, count] */
};

/* ENGINE_OP_ADD, ENGINE_OP_MUL:  output = a + b, output = a * b, element by element. b is an activation of
 * a's shape, or [n] (a weight or an activation), repeated for each row of a, or [1.1] an activation
 * [1, tokens], one number for each row of a. Within 1e-6 * |value|. */
struct engine_op_binary {
    size_t struct_size;
    const struct engine_tensor *a;      /* F32 [n, tokens] */
    const struct engine_tensor *b;      /* F32 [n, tokens], [n] or [1, tokens] */
    const struct engine_tensor *output; /* F32 [n, tokens]; may be the same tensor as a or b */
};

/* ENGINE_OP_ACTIVATE:  output = activation(input), or activation(input) * factor if factor is present.
 * NONE, SILU, RELU, RELU_SQUARED, CLAMP: within 1e-6 * |value|. For the others, activation(x) is within
 *   1e-6 * |x|               GELU_ERF, GELU_TANH
 *   2e-6 * |x|               TANH, SOFTCAP
 *   2e-6 * |g|               SWIGLU_CLAMPED
 *   1e-6                     SIGMOID
 *   1e-6 * (1 + max(x, 0))   SOFTPLUS
 *   2e-6 * |value|           EXP, for x up to 80
 *   2e-6 * |g|               SILU_CLAMPED
 *   1e-6 * |beta * x|, plus for x > 0 |alpha| * x^2, else |gamma| * (1 + |x|), times 1e-6: XIELU
 * times |factor| (|1 + u| for SWIGLU_CLAMPED, |u| for SILU_CLAMPED), plus 1e-6 * |value|. */
struct engine_op_activate {
    size_t struct_size;
    const struct engine_tensor *input;  /* F32 [n, tokens] */
    const struct engine_tensor *factor; /* F32 [n, tokens], or NULL */
    const struct engine_tensor *output; /* F32 [n, tokens]; may be the same tensor as input or factor */
    uint32_t activation;                /* enum engine_activation */
    uint32_t reserved;                  /* 0 */
    float limit; /* [1.1] greater than 0 for CLAMP, SOFTCAP, XIELU and names in _CLAMPED; 0 for all others */
    float alpha; /* [1.1] for SWIGLU_CLAMPED and XIELU; 0 for all others */
    float beta;  /* [1.5] for XIELU; 0 for all others */
    float gamma; /* [1.5] the same */
};

/* How ENGINE_OP_ROUTE turns logits into scores. */
enum engine_route_function {
    ENGINE_ROUTE_SOFTMAX = 0,
    ENGINE_ROUTE_SIGMOID = 1,
    ENGINE_ROUTE_SQRT_SOFTPLUS = 2 /* [1.5] sqrt(ln(1 + exp(logit))) */
};

/* The score of a group of experts: the largest score of its experts, or the sum of the two largest. */
enum engine_route_group { ENGINE_ROUTE_GROUP_MAX = 0, ENGINE_ROUTE_GROUP_TOP2 = 1 };

/* ENGINE_OP_ROUTE [1.1]:  chooses the experts of each token and their weights. For each token:
 *   p = softmax(logits) over all experts, or another function of each logit;
 *   c = p + bias (p if bias is NULL), used for the choice only (DeepSeek-V3, arXiv 2412.19437);
 *   with n_groups > 1, the experts form n_groups consecutive groups of n_experts / n_groups; only the
 *   n_groups_used groups with the largest scores, computed from the c of their experts, remain;
 *   ids = the n_used experts with the largest c, the largest first;
 *   weights[s] = p[ids[s]]; with `normalise`, divided by max(sum of the weights, floor); times scale.
 * If two c (or group scores) differ, but by less than 1e-6, either may count as the larger. If they are
 * equal, the lower id wins. For any logits, even NaN, the ids of a token are in 0 .. n_experts-1 and
 * distinct. Weights are within 1e-5 * |value|. (A softmax over the chosen logits alone equals a softmax
 * with `normalise`.)
 *
 * [1.5] With `chosen`, the experts are given instead, as whole numbers in 0 .. n_experts-1 (a table of token
 * ids says which, in DeepSeek V4): ids[s, t] = chosen[s, t]. Bias and groups are then absent. An expert that
 * occurs again in the row of a token counts each time in the sum of the weights, and in the weight of its
 * first place; at the later ones the lowest numbers that are not in the row stand, with the weight 0. */
struct engine_op_route {
    size_t struct_size;
    const struct engine_tensor *logits;  /* F32 [n_experts, tokens] */
    const struct engine_tensor *bias;    /* weight, F32 [n_experts], or NULL */
    const struct engine_tensor *ids;     /* output: I32 [n_used, tokens], n_used at most n_experts */
    const struct engine_tensor *weights; /* output: F32 [n_used, tokens] */
    uint32_t function;                   /* enum engine_route_function */
    uint32_t n_groups;                   /* divides n_experts; 0: none */
    uint32_t n_groups_used;              /* at most n_groups; together they hold at least n_used experts */
    uint32_t group_score;                /* enum engine_route_group; TOP2 needs groups of two or more */
    uint32_t normalise;                  /* 0 or 1 */
    float floor;                         /* at least 0 */
    float scale;                         /* 0 means 1 */
    uint32_t reserved;                   /* 0 */
    const struct engine_tensor *chosen;  /* [1.5] F32 [n_used, tokens], or NULL */
};

/* ENGINE_OP_CONCAT [1.1]:  joins rows: output[i, h, t] = a[i, h, t] for i < n_a, else b[i - n_a, h, t]. A b
 * with one row per token, [n_b, 1, tokens], is repeated for all h. Exact. */
struct engine_op_concat {
    size_t struct_size;
    const struct engine_tensor *a;      /* F32 [n_a, heads, tokens] */
    const struct engine_tensor *b;      /* F32 [n_b, heads or 1, tokens] */
    const struct engine_tensor *output; /* F32 [n_a + n_b, heads, tokens] */
};

/* States [1.3]. ENGINE_OP_CONV and ENGINE_OP_SCAN keep a state for each sequence: they read it before the
 * sequence's first token of the batch and write it after the last. `states` gives the number of each token's
 * state. Tokens with the same number are adjacent in the batch, in the order of their positions, and no
 * position is left out.
 *   - A token whose predecessor in the batch has the same number continues from the predecessor.
 *   - Any other token begins with the stored state, or with zeros if its position is 0.
 *   - The state after the last token with a number is stored. States without a token keep their bits.
 * Tokens with the number -1 have no state: their output is 0, and they change nothing. The operand `state` is
 * both input and output. */

/* ENGINE_OP_CONV [1.3]:  causal convolution of each channel over a sequence:
 *   output[c, t] = sum over i < taps of weight[i, c] * x[c, t - (taps - 1) + i],
 * where x[c, t] is the input of token t of the sequence, and 0 before the sequence's first token. The state
 * holds the last taps - 1 inputs exactly, the latest last. Within 1e-6 * the sum of |weight * x|, plus
 * 1e-30. */
struct engine_op_conv {
    size_t struct_size;
    const struct engine_tensor *input;     /* F32 [n, tokens] */
    const struct engine_tensor *weight;    /* weight, F32 [taps, n]; taps from 2 to 16 */
    const struct engine_tensor *positions; /* I32 [tokens] */
    const struct engine_tensor *states;    /* I32 [tokens] */
    const struct engine_tensor *state;     /* output too: F32 [n, taps - 1, n_states], dense */
    const struct engine_tensor *output;    /* F32 [n, tokens] */
};

/* ENGINE_OP_SCAN [1.3]:  a linear recurrence over the tokens of a sequence. Each head has a matrix S
 * [value_dim, key_dim], its state; for each token t, with j < value_dim and i < key_dim:
 *   e[j] = erase[h, t] * sum over i of a[i, g, t] * S[j, i]            (0 if a is NULL)
 *   S'[j, i] = w[j, i] * S[j, i] + b[i, g, t] * e[j] + k[i, g, t] * v[j, h, t]
 *   output[j, h, t] = scale * sum over i of q[i, g, t] * S'[j, i], or with bonus
 *   output[j, h, t] = scale * sum over i of q[i, g, t] * (S[j, i] + bonus[i, h] * k[i, g, t] * v[j, h, t])
 * S' is the S of the next token. The n_heads heads share n_groups groups of q, k, a and b: g = h / (n_heads /
 * n_groups). w depends on which of the following are there:
 *   decay [1, n_heads, tokens]                w[j, i] = exp(decay[0, h, t])
 *   decay [key_dim, n_heads, tokens]          w[j, i] = exp(decay[i, h, t])
 *   decay [value_dim, n_heads, tokens], rates w[j, i] = exp(rates[i, j, h] * decay[j, h, t])
 *   decay NULL                                w[j, i] = 1
 * Exponents are at most 0. This includes Mamba (arXiv 2312.00752), Mamba 2 (2405.21060), RWKV 6 (2404.05892),
 * RWKV 7 (2503.14456) and the gated delta rule (2412.06464).
 * Let M be what the formula gives for S' with absolute values of a, b, k, v, erase and of the S at the start,
 * and m what it then gives for the output with those of q and bonus. S' is within 2e-5 * M + 1e-30, the
 * output within 2e-5 * m + 1e-30, if the run of tokens has at most 100. */
struct engine_op_scan {
    size_t struct_size;
    const struct engine_tensor *q;         /* F32 [key_dim, n_groups, tokens]; key_dim up to 256 */
    const struct engine_tensor *k;         /* F32 like q */
    const struct engine_tensor *v;         /* F32 [value_dim, n_heads, tokens] */
    const struct engine_tensor *decay;     /* F32 of one of the three shapes of ENGINE_OP_SCAN, or NULL */
    const struct engine_tensor *rates;     /* weight, F32 [key_dim, value_dim * n_heads], or NULL */
    const struct engine_tensor *a;         /* F32 like q, or NULL; b is then NULL as well */
    const struct engine_tensor *b;         /* F32 like q, or NULL */
    const struct engine_tensor *erase;     /* F32 [1, n_heads, tokens], or NULL: ones */
    const struct engine_tensor *bonus;     /* weight, F32 [key_dim, n_heads], or NULL */
    const struct engine_tensor *positions; /* I32 [tokens] */
    const struct engine_tensor *states;    /* I32 [tokens] */
    const struct engine_tensor *state;  /* output too: F32 [value_dim, key_dim, n_heads, n_states], dense */
    const struct engine_tensor *output; /* F32 [value_dim, n_heads, tokens] */
    float scale;                        /* 0 means 1 */
    uint32_t reserved;                  /* 0 */
};

/* ENGINE_OP_PICK [1.5]:  chooses the positions that a token attends to, by scores of an indexer with keys of
 * its own (DeepSeek-V3.2, arXiv 2512.02556). Token t, of sequence s = sequences[t] and at position p =
 * positions[t], gives each position j <= p of its sequence the score
 *   score[j] = sum over h of weights[h, t] * max(0, q[:, h, t] . k[:, place, 0, b]),
 * where j is at `place` in block b of a paged cache as in ENGINE_OP_ATTENTION. picked[:, t] = the n_picked
 * positions with the largest scores in ascending order; if the token sees no more than n_picked, all of them,
 * and then -1 in all places that are left. A token at position -1 is skipped: all its places are -1. Let B(j)
 * = 1e-6 * sum over h of |weights[h, t]| * (sum over d of |q[d, h, t] * k[d, place, 0, b]|). A position is
 * picked before another if its score is larger by more than the sum of their two B; if it is larger by less,
 * either may be. Of positions for which no product q . k is above 0, and whose scores are therefore equal,
 * the lower is picked first. For any scores, even NaN, positions are in 0 .. p and distinct. */
struct engine_op_pick {
    size_t struct_size;
    const struct engine_tensor *q;           /* F32 [head_dim, n_heads, tokens] */
    const struct engine_tensor *k;           /* F32, F16 or Q8_0 [head_dim, block_size, 1, n_blocks] */
    const struct engine_tensor *weights;     /* F32 [n_heads, tokens] */
    const struct engine_tensor *block_table; /* I32 [max_blocks, n_sequences] */
    const struct engine_tensor *sequences;   /* I32 [tokens], column of block_table */
    const struct engine_tensor *positions;   /* I32 [tokens] */
    const struct engine_tensor *picked;      /* output: I32 [n_picked, tokens] */
};

/* ENGINE_OP_MIX [1.5]:  each of a token's output rows is a sum of its input rows, or one of them, plus a part
 * of one more row (streams of states, as in AltUp, arXiv 2301.13310, and hyper-connections, 2409.19606):
 *   output[i, k, t] = sum over j of weights[j, k, t] * input[i, j, t] + scales[k, t] * addend[i, t],
 * or input[i, k, t] in the place of the first sum if `weights` is NULL; then n_in = n_out. Without an addend
 * the second part is absent. scales is an activation [n_out, tokens], or [n_out] (a weight or an activation),
 * repeated for each token; it is there if the addend is. Within 1e-6 * the sum of the absolute values of the
 * terms, plus 1e-30. */
struct engine_op_mix {
    size_t struct_size;
    const struct engine_tensor *input;   /* F32 [n, n_in, tokens] */
    const struct engine_tensor *weights; /* F32 [n_in, n_out, tokens], or NULL */
    const struct engine_tensor *addend;  /* F32 [n, tokens], or NULL */
    const struct engine_tensor *scales;  /* F32 [n_out, tokens] or [n_out], or NULL */
    const struct engine_tensor *output;  /* F32 [n, n_out, tokens] */
};

/* ENGINE_OP_HYPER [1.5]:  the weights of hyper-connections between n streams whose mixing matrix is doubly
 * stochastic (arXiv 2512.24880), by Sinkhorn's iteration. For each token, with x[i] = input[i, t]:
 *   output[i, t] = sigmoid(scale[0] * x[i] + base[i]) + epsilon                  for i < n;
 * if there are more than n inputs, then n * (n + 2) of them:
 *   output[n + i, t] = 2 * sigmoid(scale[1] * x[n + i] + base[n + i])            for i < n;
 *   output[2 n + k n + j, t] = C[j, k]                                           for j, k < n,
 * where C is, in turn:
 *   C[j, k] = softmax over k of (scale[2] * x[2 n + j n + k] + base[2 n + j n + k]), plus epsilon;
 *   each column divided by (its sum over j, plus epsilon);
 *   n_iterations - 1 times: each row by (its sum over k, plus epsilon), then each column.
 * Let D be the largest |scale * x| + |base| of the token. The output is within 2e-6 * (1 + D). */
struct engine_op_hyper {
    size_t struct_size;
    const struct engine_tensor *input;  /* F32 [n or n (n + 2), tokens]; n from 1 to 16 */
    const struct engine_tensor *scale;  /* weight, F32 [1], or [3] with n (n + 2) inputs */
    const struct engine_tensor *base;   /* weight, F32 [n or n (n + 2)] */
    const struct engine_tensor *output; /* F32, shape of input */
    uint32_t n;
    uint32_t n_iterations; /* at least 1, up to 1000 */
    float epsilon;         /* at least 0 */
    uint32_t reserved;     /* 0 */
};

/* ENGINE_OP_POOL [1.5]: compresses each block of `period` positions of a sequence into one row, by a
 * softmax for each value (DeepSeek V4). A token ends a block if its position p has p % period = period - 1;
 * others, and tokens at position -1, have an output of 0. Position j is in the cache at the place that
 * ENGINE_OP_ATTENTION says; row r of a position is cache[:, j % block_size, r, b]. A cache of 2 rows has
 * values, then scores:
 *   output[i, t] = sum over j of softmax_j(score[j][i] + bias[i, j % period]) * value[j][i]
 * over the positions p - period < j <= p. A cache of 4 rows has values for the block after, values for the
 * own block, and the scores of both; bias is [2 n, period], in that order. The softmax then goes over the
 * own block's positions with the second value and score, and over those of the block before it, if there is
 * one, with the first. ENGINE_OP_CACHE_WRITE has already stored the rows of the batch's own tokens. Within
 * 2e-6 * max(1, M) * the largest |value|, where M is the largest |score| + |bias|. */
struct engine_op_pool {
    size_t struct_size;
    const struct engine_tensor *cache;       /* F32, F16 or Q8_0 [n, block_size, 2 or 4, n_blocks] */
    const struct engine_tensor *bias;        /* weight, F32 [n or 2 n, period] */
    const struct engine_tensor *block_table; /* I32 [max_blocks, n_sequences] */
    const struct engine_tensor *sequences;   /* I32 [tokens] */
    const struct engine_tensor *positions;   /* I32 [tokens] */
    const struct engine_tensor *output;      /* F32 [n, tokens] */
};

/* --------------------------------------------------------------------------------------------------------
 * Backends
 */

/* Devices of other kinds than ENGINE_DEVICE_CPU are used as soon as their plugin is installed, CPUs only if
 * the user names them. */
enum engine_device_kind {
    ENGINE_DEVICE_CPU = 1,            /* runs on the host's processor, natively or through a driver */
    ENGINE_DEVICE_GPU = 2,            /* has its own memory */
    ENGINE_DEVICE_INTEGRATED_GPU = 3, /* shares the host's memory */
    ENGINE_DEVICE_ACCELERATOR = 4     /* anything else */
};

struct engine_device_info {
    size_t struct_size;
    /* Appended to the plugin's name to name the device: "0" -> vulkan0, "0.1" -> opencl0.1, "" -> cpu. Digits
     * and dots; [1.4] after a digit also a-z, _ and -: "1.vulkan0" -> mpi1.vulkan0. */
    char id[16];
    char description[128]; /* for people: the product's name, the driver */
    uint32_t kind;         /* enum engine_device_kind */
    uint64_t memory_free;  /* bytes that the engine could allocate now */
    uint64_t memory_total; /* bytes; 0: unknown */
    /* Largest engine_buffer in bytes, 0: limited only by memory. Does not apply to weights. */
    uint64_t max_buffer;
    uint32_t alignment; /* of tensors in a buffer, in bytes: a power of two; 0 means 64 */
    uint32_t n_threads; /* host threads that the device uses by default; 0: none, or too few to matter */
    /* Identify the hardware, so that the engine does not use it twice through several backends or drivers.
     * Two devices that both have a pci_address are the same hardware if the addresses are equal. Otherwise,
     * two devices that both have a uuid are the same if the uuids are equal. */
    char pci_address[24]; /* "0000:01:00.0", as in lspci -D; "": unknown, or several devices share it */
    uint8_t uuid[16];     /* Vulkan's deviceUUID, OpenCL's CL_DEVICE_UUID_KHR; zeros: unknown */
    /* Among devices that are the same hardware, the engine uses the one with the highest rank; the first wins
     * ties. */
    uint32_t rank;
    uint32_t flags; /* [1.1] bits of enum engine_device_flags */
    /* [1.4] The link to a device on another machine, as measured: the time of a short message one way, in
     * nanoseconds, and the bytes per second of a long one. Local devices leave both 0. */
    uint64_t link_latency;
    uint64_t link_bandwidth;
};

/* [1.1] Bits of engine_device_info.flags. */
enum engine_device_flags {
    /* For each token, an operation gives the same bits every time, for any number and values of the
     * other tokens in the batch. Only then is a text independent of the requests that run alongside it. */
    ENGINE_DEVICE_BATCH_INVARIANT = 1
};

struct engine_device_options {
    size_t struct_size;
    uint32_t n_threads;    /* for devices that run on the host's processor; 0: the plugin decides */
    uint64_t memory_limit; /* bytes counted (see buffer_create) before ENGINE_ERROR_MEMORY; 0: none */
};

/* The purpose of a weight. A backend may keep a different layout for each. */
enum engine_weight_use {
    ENGINE_WEIGHT_MATMUL = 1, /* weight or gate of ENGINE_OP_MATMUL */
    ENGINE_WEIGHT_ROWS = 2,   /* source of ENGINE_OP_GET_ROWS */
    ENGINE_WEIGHT_VALUES = 4, /* norms, biases, rope factors: plain values */
    /* [1.1] weight or gate of ENGINE_OP_MATMUL with three dimensions, [k, rows, n]: one matrix for each
     * expert or head. A weight with this use has no other use. */
    ENGINE_WEIGHT_MATRICES = 8
};

/* A model tensor as stored in the file: dense, row after row, in blocks of its type as GGUF defines them. */
struct engine_weight_desc {
    size_t struct_size;
    const char *name;      /* "blk.0.attn_q.weight"; for messages */
    uint32_t type;         /* enum engine_type */
    const char *type_name; /* "Q4_K"; for messages, even if this header lacks the number */
    uint64_t ne[4];
    uint32_t uses;         /* bits of enum engine_weight_use, at least one */
    uint32_t data_is_kept; /* not 0: data stays valid until weight_destroy, so it need not be copied */
    const void *data;      /* NULL in weight_size */
    uint64_t data_size;    /* bytes */
    /* [1.4] not 0: products should not round their inputs although this weight is quantised, because its
     * blocks are the model's own values and not an approximation. A plugin without such products may ignore
     * this. */
    uint32_t exact_inputs;
    uint32_t reserved; /* 0 */
};

/* [1.4] The size of messages to a device of another process. Commands of the device's streams collect until a
 * stream is flushed. They then form one message, and the data that they read comes back in one answer. A copy
 * to a device of a third process is a message of its own. */
struct engine_traffic {
    size_t struct_size;
    uint32_t peer; /* the number of the process, the same for all its devices */
    /* Overhead in bytes: of a message and an answer beyond their commands, and of each command beyond its
     * data. */
    uint32_t message, answer, write, read, copy, replay, wait;
    /* Overhead of copy_between in bytes: of the command to each of two processes, of the message between
     * them, and of the only command if both devices belong to one process. */
    uint32_t send, between, pass;
    uint32_t reserved;
};

/* [1.4] A device that a process offers through engine_backend.serve. */
struct engine_served_device {
    size_t struct_size;
    const char *name; /* "cpu", "vulkan0" */
    const struct engine_backend *backend;
    uint32_t index; /* the device's index within the backend */
    uint32_t reserved;
};

/* [1.4] The argument of engine_backend.serve, valid until that returns. */
struct engine_service {
    size_t struct_size;
    uint32_t abi_major, abi_minor;                     /* the engine's own */
    const struct engine_served_device *const *devices; /* [n_devices] */
    uint32_t n_devices;
    uint32_t n_threads; /* for engine_device_options; 0: as the other process asks */
    /* [any] The message of the last failure of a backend's function in the calling thread; "" if it gave
     * none. Valid until the thread's next call. */
    const char *(*message)(void);
    /* [any] Finds a tensor, named as in engine_weight_desc, in this process's own copy of the model, so that
     * its bytes need not be sent, and fills type, ne, data and data_size of *desc. They may differ from those
     * of the other process. The data is valid until `serve` returns. ENGINE_ERROR_NOT_FOUND (no message
     * needed): the copy has no such tensor. The pointer is NULL if there is no copy. */
    int (*tensor)(void *context, const char *name, struct engine_weight_desc *desc);
    void *context;        /* first argument of `tensor` */
    uint32_t needs_local; /* not 0: tensors of model files must come from the copy, none are sent */
    uint32_t reserved;
};

struct engine_backend {
    size_t struct_size;

    /* Devices. The first call of device_count fixes the list for as long as the plugin is loaded. */

    /* [main] Counts the devices. 0 with ENGINE_OK is a valid answer. If the machine lacks what the devices
     * need (a driver, say), call host->fail and return ENGINE_ERROR_NOT_FOUND: the engine gives the reason to
     * users who list devices or name this backend. [1.4] A backend that few users need may call
     * host->fail(ENGINE_OK, ...) and answer 0: the reason is then given only to users who name the
     * backend. */
    int (*device_count)(uint32_t *count);
    /* [main] Fills *info for device `index`, within info->struct_size, which the caller sets. memory_free is
     * measured at each call. */
    int (*device_info)(uint32_t index, struct engine_device_info *info);
    /* [main] Opens a device. A device may be opened more than once; the handles are independent. `options`
     * may be NULL for the defaults. */
    int (*device_open)(uint32_t index, const struct engine_device_options *options,
                       struct engine_device **device);
    /* [main] Closes a device. Everything that belonged to it has already been destroyed. The plugin may be
     * unloaded once all devices are closed, so by then no thread may be running its code and every process
     * it started must have ended. */
    void (*device_close)(struct engine_device *device);

    /* Capabilities. */

    /* [any] Returns 1 if an operation with these arguments can run on the device, else 0 (no message).
     * Handles in the tensors are NULL. The answer depends on types, on which tensors are present and on
     * shapes, but not on the number of tokens, output rows, sequences or cache blocks, because these change
     * from run to run. Called while planning, never while running. */
    int (*supports)(struct engine_device *device, uint32_t op, const void *args);
    /* [any] Computes the bytes of device memory that a weight would take; desc->data is NULL. Returns
     * ENGINE_ERROR_UNSUPPORTED (no message needed) for a type or use that the device cannot hold. */
    int (*weight_size)(struct engine_device *device, const struct engine_weight_desc *desc, uint64_t *bytes);

    /* Memory. */

    /* [device] Allocates at least `size` bytes of zeroed memory; size > 0. Returns ENGINE_ERROR_MEMORY if the
     * memory is not available or would exceed options.memory_limit. The limit counts the sizes passed here,
     * those reported by weight_size, and the scratch memory of operations, which is at most what op_memory
     * reports. */
    int (*buffer_create)(struct engine_device *device, uint64_t size, struct engine_buffer **buffer);
    /* [device] Called only when no operation on the buffer is pending. NULL is allowed. */
    void (*buffer_destroy)(struct engine_buffer *buffer);
    /* [any] Returns an address through which the host may read and write the buffer while its streams are
     * idle, or NULL. It is a multiple of engine_device_info.alignment, or of 64 if that is larger. Valid
     * until buffer_destroy. Optional. */
    void *(*buffer_pointer)(struct engine_buffer *buffer);
    /* [device] Creates a weight from a model tensor. It reads desc->data before it returns (unless
     * data_is_kept), though the upload may finish later; operations enqueued afterwards see the whole tensor.
     * May use any number of threads. Returns ENGINE_ERROR_ARGUMENT if data_size is less than the shape
     * requires. */
    int (*weight_create)(struct engine_device *device, const struct engine_weight_desc *desc,
                         struct engine_weight **weight);
    /* [device] Called only when no operation on the weight is pending. NULL is allowed. */
    void (*weight_destroy)(struct engine_weight *weight);

    /* Streams. Commands in one stream take effect in order; different streams are independent. */

    /* [device] Creates a stream. */
    int (*stream_create)(struct engine_device *device, struct engine_stream **stream);
    /* [device] Waits for pending commands and destroys the stream. NULL is allowed. */
    void (*stream_destroy)(struct engine_stream *stream);
    /* [device] Enqueues an operation. `args` is the operation's struct; it and its tensors are copied before
     * this returns. The operation may run at once or later; it is submitted no later than stream_flush.
     * Errors that occur only while it runs are returned by stream_wait. */
    int (*enqueue)(struct engine_stream *stream, uint32_t op, const void *args);
    /* [device] Enqueues a transfer from host memory. `source` may be reused once this returns. In `write`,
     * `read` and `copy`, offsets and sizes may be any number of bytes, including 0. A range beyond the end of
     * the buffer fails with ENGINE_ERROR_ARGUMENT. */
    int (*write)(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset,
                 const void *source, uint64_t size);
    /* [device] Enqueues a transfer to host memory, complete when the next stream_wait returns. */
    int (*read)(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset, void *target,
                uint64_t size);
    /* [device] Enqueues a copy between two buffers of this device. They may be the same buffer if the ranges
     * do not overlap. */
    int (*copy)(struct engine_stream *stream, struct engine_buffer *target, uint64_t target_offset,
                struct engine_buffer *source, uint64_t source_offset, uint64_t size);
    /* [device] Submits everything enqueued, without waiting. */
    int (*stream_flush)(struct engine_stream *stream);
    /* [device] Flushes, waits until everything has run, and returns the first error since the last wait.
     * After an error, later commands in the stream may have been skipped. */
    int (*stream_wait)(struct engine_stream *stream);

    /* Recordings: optional, all four functions or none. Between record_begin and record_end, `enqueue` keeps
     * operations instead of running them; no transfers occur in between. replay enqueues them all, any
     * number of times, in any stream of the same device. The buffers and weights used outlive the
     * recording. */

    /* [device] Begins recording. */
    int (*record_begin)(struct engine_stream *stream);
    /* [device] Ends recording. May fail if an `enqueue` failed while recording. After success, the caller
     * must destroy *recording, even if it is incomplete. */
    int (*record_end)(struct engine_stream *stream, struct engine_recording **recording);
    /* [device] Enqueues all operations of a recording. */
    int (*replay)(struct engine_stream *stream, struct engine_recording *recording);
    /* [device] Called only when no replay of the recording is pending. NULL is allowed. */
    void (*recording_destroy)(struct engine_recording *recording);

    /* Planning, optional. */

    /* [any] Computes the most device memory, in bytes, that an operation takes beyond its operands, for data
     * passed between its kernels. Arguments are as in `supports`, but with the actual numbers of tokens,
     * rows and sequences. A device takes at most the largest of the answers for the operations that it has
     * run. This memory counts towards memory_limit. */
    int (*op_memory)(struct engine_device *device, uint32_t op, const void *args, uint64_t *bytes);

    /* [1.4] Offering devices to another process, optional. */

    /* [main] For backends whose devices belong to other processes: makes this process one of those. Offers
     * the devices of `service`, which belong to other plugins, to the process that uses them, and returns
     * when that process no longer needs them. No other function of this plugin is called before. */
    int (*serve)(const struct engine_service *service);
    /* [any] Fills *traffic, within traffic->struct_size, so that a plan can count the messages to the device.
     * A backend without this function has only devices of this process. */
    int (*traffic)(struct engine_device *device, struct engine_traffic *traffic);

    /* [1.4] Several devices at once, optional. */

    /* [device] Flushes, and sets *done to 1 if everything enqueued has run, so that stream_wait would return
     * at once, else to 0. Does not wait; stream_wait returns the errors. */
    int (*stream_done)(struct engine_stream *stream, int *done);
    /* [device], of both devices. Enqueues a copy between buffers of two open devices of this backend: `from`
     * belongs to the device of the stream `source`, `to` to the device of `target`. The copy is a command of
     * both streams and takes its place in the order of both: it runs after earlier commands and before later
     * ones. The call does not wait, and the host does not see the bytes. Flushing `target` also submits the
     * commands of `source` that the copy needs. Ranges are as in `copy`. stream_wait of `target` returns
     * errors of the copy and of earlier commands in `source`. ENGINE_ERROR_UNSUPPORTED (no message needed):
     * these two devices have no direct way, and the engine copies through host memory. */
    int (*copy_between)(struct engine_stream *source, struct engine_buffer *from, uint64_t from_offset,
                        struct engine_stream *target, struct engine_buffer *to, uint64_t to_offset,
                        uint64_t size);

    /* [1.4] Waiting for a part of a stream, optional, both functions or none. For backends whose streams go
     * on while the host uses earlier results. */

    /* [device] Flushes, and sets *mark to a number that stands for everything enqueued so far. */
    int (*stream_mark)(struct engine_stream *stream, uint64_t *mark);
    /* [device] Waits until everything before a mark of this stream has run, including transfers to host
     * memory, and returns the first error among these commands that has not been returned yet. Later commands
     * go on. The engine waits for marks in the order in which they were set; after stream_wait, no mark is
     * left to wait for. */
    int (*stream_wait_for)(struct engine_stream *stream, uint64_t mark);
};

/* --------------------------------------------------------------------------------------------------------
 * Tokenizers
 */

struct engine_tokenizer; /* a vocabulary, ready for use */
struct engine_decoder;   /* the state of decoding one text */

/* Text of `length` bytes. Not NUL-terminated; may contain NULs. The only struct without struct_size: it never
 * grows. */
struct engine_string {
    const char *data;
    size_t length;
};

/* A model's metadata. Keys are GGUF's names for every file format ("tokenizer.ggml.tokens", …). All
 * getters are [any]. They return ENGINE_ERROR_NOT_FOUND, without a message, if the key is missing or has
 * another kind of value. The text and bytes they return live as long as the tokenizer that is being created
 * from them. */
struct engine_metadata {
    size_t struct_size;
    void *context; /* first argument of every getter */
    int (*get_string)(void *context, const char *key, struct engine_string *value);
    /* Any integer type, if the value fits in int64_t. */
    int (*get_integer)(void *context, const char *key, int64_t *value);
    int (*get_float)(void *context, const char *key, double *value); /* float32 or float64 */
    int (*get_boolean)(void *context, const char *key, int *value);  /* 0 or 1 */
    /* The number of elements of an array. */
    int (*get_count)(void *context, const char *key, size_t *count);
    /* Write elements first … first+count-1 of an array to `values`. ENGINE_ERROR_ARGUMENT past the end. */
    int (*get_strings)(void *context, const char *key, size_t first, size_t count,
                       struct engine_string *values);
    int (*get_integers)(void *context, const char *key, size_t first, size_t count, int64_t *values);
    int (*get_floats)(void *context, const char *key, size_t first, size_t count, float *values);
    /* The raw bytes of an array of (u)int8. */
    int (*get_bytes)(void *context, const char *key, struct engine_string *value);
};

struct engine_tokenizer_info {
    size_t struct_size;
    uint32_t n_tokens;
    /* Ids of special tokens, -1 if the vocabulary has none. */
    int32_t bos, eos, unknown, separator, padding, end_of_turn;
    /* 1 if the model expects this special token around a text (see ENGINE_ENCODE_BOS_EOS). */
    int32_t add_bos, add_eos, add_separator;
};

enum engine_encode_flags {
    /* Add the special tokens that the metadata asks for before and after the text. */
    ENGINE_ENCODE_BOS_EOS = 1,
    /* Encode text that spells a control token ("<|im_end|>") as that token. */
    ENGINE_ENCODE_SPECIAL = 2
};

enum engine_token_attributes {
    ENGINE_TOKEN_CONTROL = 1,      /* has no text of its own: BOS, EOS, chat markers */
    ENGINE_TOKEN_USER_DEFINED = 2, /* matched in the text before any merging */
    ENGINE_TOKEN_UNKNOWN = 4,
    ENGINE_TOKEN_BYTE = 8, /* a single byte */
    ENGINE_TOKEN_UNUSED = 16,
    ENGINE_TOKEN_END = 32 /* generation ends here: EOS, end of turn, and the like */
};

/* Receives ids in order, in one or more pieces, on the thread that called encode. `ids` is valid during the
 * call. Returns 0 to continue; any other value stops encode, which returns it. */
typedef int (*engine_token_sink)(void *user, const int32_t *ids, size_t count);

/* [1.2] The kinds of steps of an explanation (struct engine_explain_step). Ranges are in bytes; an id of -1
 * means no token. Fields that a kind does not mention hold 0, -1, NAN or an empty text.
 *
 * A text consists of special tokens and stretches of text between them. A stretch is normalized and then
 * consists of words (pre-tokens, which no token crosses), and a word of tokens. */
enum engine_explain_kind {
    /* Token `id` is spelled at start … end of the text, including white space that it swallows; or it is
     * added before or after the text, and start = end. */
    ENGINE_EXPLAIN_SPECIAL = 1,
    /* The stretch start … end of the text was normalized to `text`. The steps of its words follow; joined,
     * the words are `text`. An added token that is found in the normalized text is a word. */
    ENGINE_EXPLAIN_TEXT = 2,
    /* The word `text`, at start … end of the normalized stretch. Steps up to the next word are about this
     * one: their ranges count from its first byte, and their `text` is that part of it. The result is the
     * word's ENGINE_EXPLAIN_TOKEN steps, in order and without gaps. */
    ENGINE_EXPLAIN_WORD = 3,
    /* The pair start … middle (token `left`) and middle … end (token `right`) was merged into token `id`,
     * because it was the best pair. Either its rank among the merges or its score is given. Ids are -1 for
     * pieces that are not tokens. */
    ENGINE_EXPLAIN_MERGE = 4,
    /* Token `id` fits at start … end. In a lattice, `score` is the token's score and `sum` the best sum of
     * scores of a path from the word's beginning that ends with it. In a greedy match there is no score, and
     * the longest candidate is taken. */
    ENGINE_EXPLAIN_CANDIDATE = 5,
    /* The candidate at start … end has the best sum of those that end at `end`. */
    ENGINE_EXPLAIN_BEST = 6,
    /* start … end becomes token `id` of the result; -1: no token, because the vocabulary lacks these bytes or
     * the preceding token for unknown characters covers them. In a lattice, `sum` is set. start = end: the
     * token covers no byte of the word, like a prefix that the vocabulary spells and the word does not;
     * merges with such a token are not reported. */
    ENGINE_EXPLAIN_TOKEN = 7,
    /* The normalizer turned the stretch start … end of the text into `text`. Comes just before
     * ENGINE_EXPLAIN_TEXT of the same range, if the words are spelled differently or do not cover all of
     * it. */
    ENGINE_EXPLAIN_NORMALIZED = 8
};

/* [1.2] A step of an explanation; enum engine_explain_kind says which fields it uses. */
struct engine_explain_step {
    size_t struct_size;
    uint32_t kind; /* enum engine_explain_kind */
    int32_t id;
    int32_t left, right;
    size_t start, middle, end;
    struct engine_string text;
    int64_t rank; /* 0 merges first; -1: none */
    double score; /* NAN: none */
    double sum;
};

/* [1.2] Receives the steps in order, on the thread that called explain. `step` and its text are valid during
 * the call. Returns 0 to continue; any other value stops explain, which returns it. */
typedef int (*engine_explain_sink)(void *user, const struct engine_explain_step *step);

struct engine_tokenizer_api {
    size_t struct_size;

    /* The values of tokenizer.ggml.model that this plugin handles, terminated by NULL. */
    const char *const *models;

    /* [any] Builds a tokenizer. `metadata` is valid during the call, the text in it as long as the tokenizer.
     * The vocabulary comes from a file: check it. Return ENGINE_ERROR_DATA and say what is wrong with it. */
    int (*create)(const struct engine_metadata *metadata, struct engine_tokenizer **tokenizer);
    /* [any] Called only when the tokenizer and its text are no longer in use. NULL is allowed. */
    void (*destroy)(struct engine_tokenizer *tokenizer);
    /* [any] Fills *info, within info->struct_size. */
    int (*info)(const struct engine_tokenizer *tokenizer, struct engine_tokenizer_info *info);
    /* [any] Converts text (any bytes, UTF-8 expected) to ids. flags: enum engine_encode_flags. */
    int (*encode)(const struct engine_tokenizer *tokenizer, const char *text, size_t length, uint32_t flags,
                  engine_token_sink sink, void *user);
    /* [any] Returns a token's text as spelled in the vocabulary ("▁Once", "<0x0A>"). It lives as long as the
     * tokenizer. ENGINE_ERROR_ARGUMENT: no such id. */
    int (*piece)(const struct engine_tokenizer *tokenizer, int32_t id, struct engine_string *piece);
    /* [any] Bits of enum engine_token_attributes; 0 for ids that do not exist. */
    uint32_t (*attributes)(const struct engine_tokenizer *tokenizer, int32_t id);

    /* Decoding. A decoder belongs to one text and is used by one thread at a time. It is destroyed before its
     * tokenizer. */

    /* [any] Creates a decoder. `special`: not 0 to write control tokens as spelled instead of omitting
     * them. */
    int (*decoder_create)(const struct engine_tokenizer *tokenizer, int special,
                          struct engine_decoder **decoder);
    /* [any] Destroys a decoder. NULL is allowed. */
    void (*decoder_destroy)(struct engine_decoder *decoder);
    /* [any, one thread at a time for each decoder] Returns the text that token `id` adds, in whole UTF-8
     * characters; an incomplete character waits for the next call. Bytes that cannot form valid UTF-8 are
     * returned as they are. *text is valid until the next call on this decoder. */
    int (*decode)(struct engine_decoder *decoder, int32_t id, struct engine_string *text);
    /* [any, one thread at a time for each decoder] Ends a text: returns the bytes of an incomplete character.
     * The decoder is then ready for a new text. */
    int (*decode_end)(struct engine_decoder *decoder, struct engine_string *text);

    /* [1.2] [any] Reports how `encode` converts the same text with the same flags. The ids of the steps
     * ENGINE_EXPLAIN_SPECIAL and ENGINE_EXPLAIN_TOKEN, in order, are those that encode gives. It may take
     * much longer than encode. Optional. */
    int (*explain)(const struct engine_tokenizer *tokenizer, const char *text, size_t length, uint32_t flags,
                   engine_explain_sink sink, void *user);
};

#ifdef __cplusplus
}
#endif

#endif
