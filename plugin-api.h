/* plugin-api.h: the border between the engine and its plugins.
 *
 * A plugin is a shared library that exports one symbol, `engine_plugin_entry`. The engine calls it once with
 * the services that it offers; the plugin answers with a description of itself and a table of functions. Two
 * kinds exist: compute backends (ENGINE_PLUGIN_BACKEND), which run tensor operations on devices, and
 * tokenizers (ENGINE_PLUGIN_TOKENIZER). This header is all that a plugin needs: C11 or C++, nothing but the C
 * standard library.
 *
 * Rules that hold everywhere
 * --------------------------
 * Versions.  ENGINE_ABI_MAJOR changes when old binaries can no longer work; such plugins are refused with a
 *   message that names both versions. ENGINE_ABI_MINOR grows when something is added; a plugin of any
 *   minor version works with an engine of any.
 * Growth.  Every struct starts with `struct_size`, set by whoever fills it to its own sizeof. Structs are
 *   only ever appended to. A reader looks at no field that lies beyond struct_size, which
 *   ENGINE_HAS(pointer, field) tells. A field that is absent means the same as one that is zero. Fields named
 *   `reserved` are zero until a later version gives them a name: they fill what would be padding at a struct's
 *   end, which older binaries would leave as it happens to be. In what a plugin is asked to do (`supports`,
 *   `enqueue`), reserved fields and bytes of the operation's struct behind the fields that it knows must be
 *   zero, else it answers that it can't. What is appended to other structs (engine_tensor,
 *   engine_weight_desc, engine_device_options) never changes what the older fields mean, so that it may be
 *   passed over: an operation that needs it says so in its own struct. Functions that are optional may be
 *   NULL or absent. Enumerations only grow; a plugin answers a value that it doesn't know with
 *   ENGINE_ERROR_UNSUPPORTED, the engine takes an unknown device kind for ENGINE_DEVICE_ACCELERATOR and an
 *   unknown status for ENGINE_ERROR. What came after 1.0 is marked with the version that brought it: [1.1].
 * Errors.  Functions that can fail return an `enum engine_status` as int, ENGINE_OK (0) for success, and say
 *   why through host->fail, which every thread may call. On failure, output parameters are untouched. A
 *   plugin never exits, aborts, throws across the border, or prints.
 * Ownership.  What one side allocates is never freed by the other. Pointers passed in are valid for the
 *   duration of the call, those handed out for as long as the documentation of the function says.
 * Threads.  Every function carries a tag:
 *     [main]    the engine calls it from one thread at a time, over the whole plugin;
 *     [device]  one thread at a time for each open device and what belongs to it: buffers, weights, streams;
 *     [any]     any thread at any time, also at once with every other function of the same object.
 * Handles.  `struct engine_device` and so on are the plugin's own: it defines these structs as it likes.
 *
 * Tensors and shapes
 * ------------------
 * ne[0..3] are element counts, fastest-moving first (a matrix with `rows` rows of `k` values is ne = {k,
 * rows, 1, 1}); unused dimensions are 1. nb[0..3] are strides in bytes, so that slices and transposes are
 * views. For block types nb[0] is the size of a block, and the elements of a row are contiguous. Comments
 * write shapes as [ne0, ne1, ...]. Arithmetic is that of float32 unless an operation says otherwise.
 *
 * Tolerances
 * ----------
 * "Within b" at an operation: each element of the output differs by at most b from what the formula gives in
 * exact arithmetic on the operands as they are stored. `engine plugins check` measures it. No result may
 * depend on what lies between or behind the rows of an operand. Nothing but the outputs may be written to:
 * neither what lies there nor an operand that isn't an output too. The same operation on the same operands
 * need not give the same bits twice, nor on another device.
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
#define ENGINE_ABI_MINOR 1

/* True where `field` lies within the part of *pointer that its writer knew of. */
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
    ENGINE_ERROR = 1,             /* none of the others */
    ENGINE_ERROR_ARGUMENT = 2,    /* the caller broke a rule of this header */
    ENGINE_ERROR_UNSUPPORTED = 3, /* a type, shape or operation that this plugin does not do */
    ENGINE_ERROR_MEMORY = 4, /* out of host or device memory; the engine may place less there and try again */
    ENGINE_ERROR_DEVICE = 5, /* the device failed or was lost */
    ENGINE_ERROR_DATA = 6,   /* a file, vocabulary or weight is malformed */
    ENGINE_ERROR_NOT_FOUND = 7 /* no such key */
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

/* What the engine offers to a plugin. Valid from the entry call until the plugin is unloaded. */
struct engine_host {
    size_t struct_size;
    uint32_t abi_major, abi_minor; /* the engine's own */

    /* [any] Keeps a message that explains a failure, for the calling thread, and returns `status`, so that a
     * plugin writes `return host->fail(ENGINE_ERROR_MEMORY, "no room for %zu bytes", size);`. One line, no
     * newline, no plugin name in front (the engine adds it). */
    int (*fail)(int status, const char *format, ...) ENGINE_PRINTF(2, 3);

    /* [any] Hands a line to the engine's log. Errors that are returned are not logged as well. (The one place
     * where an enumeration itself is passed: elsewhere they are uint32_t, or int for a status.) */
    void (*log)(enum engine_log_level level, const char *format, ...) ENGINE_PRINTF(2, 3);

    /* [any] A setting from the section of engine.conf that has the plugin's name (`[vulkan]`), or NULL if it
     * isn't set. The text is valid until the plugin is unloaded. */
    const char *(*setting)(const char *plugin, const char *key);

    /* [any] The folder in which plugins keep what they can make again (compiled kernels), or NULL where there
     * is none. It exists and belongs to the user alone; name files after your plugin. Valid until the plugin
     * is unloaded. */
    const char *(*cache_folder)(void);
};

enum engine_plugin_kind { ENGINE_PLUGIN_BACKEND = 1, ENGINE_PLUGIN_TOKENIZER = 2 };

/* What a plugin is. Static data of the plugin; the first three fields never change their place. */
struct engine_plugin {
    size_t struct_size;
    uint32_t abi_major, abi_minor; /* ENGINE_ABI_MAJOR and ENGINE_ABI_MINOR as the plugin was compiled */
    uint32_t kind;                 /* enum engine_plugin_kind */
    const char *name; /* unique among loaded plugins: [a-z][a-z0-9_-]*, at most 31 bytes, ends in no digit */
    const char *version;                           /* the plugin's own, for people: "1.2.0" */
    const char *license;                           /* SPDX identifier */
    const char *description;                       /* one line */
    const struct engine_backend *backend;          /* for ENGINE_PLUGIN_BACKEND, else NULL */
    const struct engine_tokenizer_api *tokenizers; /* for ENGINE_PLUGIN_TOKENIZER, else NULL */
};

/* [main] The one exported symbol. Called once after loading, before anything else. Keeps `host` if it wants
 * the services, and returns the description, or NULL after host->fail if the plugin can't work at all (a
 * driver library is missing, say). It should be quick: devices are looked for in device_count. */
ENGINE_EXPORT const struct engine_plugin *engine_plugin_entry(const struct engine_host *host);
#define ENGINE_ENTRY_SYMBOL "engine_plugin_entry"

/* --------------------------------------------------------------------------------------------------------
 * Tensors
 */

/* Element types. The numbers are those of GGUF files. A backend takes the ones it likes, see `supports`. */
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
struct engine_buffer;    /* memory of a device for activations, caches and inputs */
struct engine_weight;    /* a model tensor, in the backend's own layout */
struct engine_stream;    /* a queue of operations */
struct engine_recording; /* operations kept for replay */

/* An operand. Its elements are in `buffer` from `offset` on, or it is a `weight`, then offset is 0 and nb
 * that of the file's layout. While `supports` is asked, both are NULL. */
struct engine_tensor {
    size_t struct_size;
    uint32_t type; /* enum engine_type; of weights also newer numbers, which engine_weight_desc has named */
    uint64_t ne[4];
    uint64_t nb[4];
    struct engine_buffer *buffer;
    uint64_t offset; /* bytes; a multiple of engine_device_info.alignment for whole tensors, of 4 for views */
    const struct engine_weight *weight;
};

/* --------------------------------------------------------------------------------------------------------
 * Operations
 *
 * Each takes one argument struct. Tensor pointers that are NULL are absent; those not marked "or NULL" must
 * be there. Outputs never overlap inputs unless the operation says that they may be the same tensor.
 * Operands that are missing, of a type that isn't listed, or of other shapes than those written (which later
 * versions may allow) are refused: `supports` says 0 and `enqueue` fails. Rows (ne[0]) of activations are
 * contiguous; the other strides are multiples of 4 (of 2 for F16 and Q8_0) and may be larger than what they
 * span. A backend may say no to strides that it doesn't like, too.
 * What tensors hold is for the engine to check before it puts it there: rows of GET_ROWS in 0 .. n_rows-1;
 * experts of MATMUL in 0 .. n-1 (those that ROUTE writes are);
 * slots -1 or in 0 .. block_size * n_blocks - 1; positions -1 or below max_blocks * block_size; sequences in
 * 0 .. n_sequences-1, also of tokens that are left out; block numbers in 0 .. n_blocks-1 as far as a token
 * sees (what is behind that in a block table is anything and must not be followed). A backend may rely on it:
 * with others the behaviour is undefined, as with a wrong pointer. One that checks returns
 * ENGINE_ERROR_ARGUMENT from enqueue or stream_wait.
 * Batches: `tokens` columns go through every operation together and may belong to different sequences. The
 * data that changes from run to run (ids, positions, slots, block tables) is in tensors, never in arguments,
 * so that a recording stays valid.
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
    ENGINE_OP_ROUTE = 10, /* [1.1] */
    ENGINE_OP_CONCAT = 11 /* [1.1] */
};

/* Functions of one number x; `limit` and `alpha` are fields of engine_op_activate. */
enum engine_activation {
    ENGINE_ACTIVATION_NONE = 0,
    ENGINE_ACTIVATION_SILU = 1, /* x / (1 + exp(-x)) */
    /* [1.1] from here on */
    ENGINE_ACTIVATION_GELU_ERF = 2,     /* x/2 * (1 + erf(x / sqrt(2))) */
    ENGINE_ACTIVATION_GELU_TANH = 3,    /* x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))) */
    ENGINE_ACTIVATION_RELU = 4,         /* max(x, 0) */
    ENGINE_ACTIVATION_RELU_SQUARED = 5, /* max(x, 0)^2 */
    ENGINE_ACTIVATION_SIGMOID = 6,      /* 1 / (1 + exp(-x)) */
    ENGINE_ACTIVATION_TANH = 7,         /* tanh(x) */
    ENGINE_ACTIVATION_SOFTPLUS = 8,     /* ln(1 + exp(x)), at any x */
    ENGINE_ACTIVATION_CLAMP = 9,        /* x, at least -limit and at most limit */
    ENGINE_ACTIVATION_SOFTCAP = 10,     /* limit * tanh(x / limit) */
    /* Gated unit of gpt-oss: g * sigmoid(alpha * g) with g = min(x, limit); the factor u, which has to be
     * there, is clamped too: times (1 + u), u at least -limit and at most limit. */
    ENGINE_ACTIVATION_SWIGLU_CLAMPED = 11
};

/* ENGINE_OP_MATMUL:  output[m, t] = sum over k of weight[k, m] * input[k, t]
 * then, in this order, each where present: times scale, plus bias[m], activation, plus residual[m, t].
 * With `gate`:  output[m, t] = activation(gate x input)[m, t] * (weight x input)[m, t], plus residual[m, t];
 * scale and bias are then absent. The activation is one that takes neither `limit` nor `alpha`.
 *
 * [1.1] A weight of three dimensions is `ne[2]` matrices, made for ENGINE_WEIGHT_MATRICES. Either each head
 * has its own (`experts` is NULL, the heads of input and output are n = ne[2]):
 *   output[m, h, t] = sum over k of weight[k, m, h] * input[k, h, t], times scale; all else is absent.
 * Or `experts` chooses some of them for each token (a mixture of experts, arXiv 2101.03961):
 *   y[m, s, t] = sum over k of weight[k, m, e] * input[k, s, t],  e = experts[s, t],
 * where an input of one column for each token, [k, 1, tokens], serves all s. What follows is as above: scale,
 * bias[m, e], activation, or the gate, of which the same matrix e is taken. Then output = y, or with `mix`
 *   output[m, t] = sum over s of mix[s, t] * y[m, s, t], plus residual[m, t].
 * A residual comes with `mix` only. Only the matrices that `experts` names are read.
 *
 * The input may be rounded to int8 in blocks of 32 (or of the weight's own block length) where the weight is
 * quantised, to float16 or bfloat16 where it is of that type; sums are float32 or wider.
 * A product is within 1e-6 * S, S being the sum of |weight[k, m] * input[k, t]|; plus, where the input was
 * rounded, what this can make: for int8 the sum over blocks of 32 of max|input| / 252 * sum of |weight|, for
 * float16 S / 2^11, for bfloat16 S / 2^8. What follows the product carries that on, an activation with its
 * own bound (ENGINE_OP_ACTIVATE), within 1e-6 of the result's size and of 1; with `mix`, of the sum of the
 * sizes of what is summed up. Besides, an output of 64 elements or more differs as a whole (root mean square,
 * of that of the exact output) by at most 2 % for quantised weights, else by 2e-6 plus the rounding. */
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
    /* [1.1] */
    /* I32 [n_used, tokens], each in 0 .. n-1, no two of a token equal; or NULL */
    const struct engine_tensor *experts;
    const struct engine_tensor *mix; /* F32 [n_used, tokens], or NULL; only with experts */
};

/* ENGINE_OP_ATTENTION: causal attention of each token over its sequence's part of a paged cache, softmax in
 * float32. Token t of sequence s = sequences[t] at position p = positions[t] sees the positions j <= p, with
 * a window those with p - window < j <= p. Position j lives in block b = block_table[j / block_size, s] at
 * slot j % block_size.
 *   output[:, h, t] = sum over j of softmax_j(scale * q[:, h, t] . k[:, slot, h', b]) * v[:, slot, h', b],
 *   h' = h / (n_heads / n_kv_heads).
 * [1.1] The score of position j, scale * q . k, changes in this order, each where present: softcap * tanh(score
 * / softcap); minus slopes[h] * |p - j| (ALiBi, arXiv 2108.12409). With `chunk` only the positions of p's own
 * chunk are seen, j >= p - p % chunk. With `sinks`, exp(sinks[h]) is added to the softmax's denominator, as if
 * a further position of that score had a value of zeros. Values may be of another length than keys,
 * value_dim, and v may lie within k's memory (the first value_dim values of each key, as in multi-head latent
 * attention, arXiv 2405.04434): its strides are then those of k.
 * The keys and values of the batch's own tokens have been put there by ENGINE_OP_CACHE_WRITE. A position of
 * -1 marks a token to be left out: its output is 0. The block table's width bounds how far back any token of
 * the batch sees. Within 1e-6 * the largest |v| of the cache; where the sum of |scale * q * k|, plus
 * slopes[h] * |p - j|, is more than 8 for a position that the token sees, as many times that as the largest
 * such sum is of 8. Scores may be of any size: exponentials that float32 doesn't have must not come up. */
struct engine_op_attention {
    size_t struct_size;
    const struct engine_tensor *q; /* F32 [head_dim, n_heads, tokens] */
    const struct engine_tensor *k; /* F32, F16 or Q8_0 [head_dim, block_size, n_kv_heads, n_blocks] */
    const struct engine_tensor *v; /* like k; [1.1] [value_dim, block_size, n_kv_heads, n_blocks] */
    const struct engine_tensor *block_table; /* I32 [max_blocks, n_sequences]; read up to a sequence's end */
    const struct engine_tensor *sequences;   /* I32 [tokens], column of block_table */
    const struct engine_tensor *positions;   /* I32 [tokens] */
    const struct engine_tensor *output;      /* F32 [head_dim, n_heads, tokens]; [1.1] [value_dim, …] */
    float scale;
    uint32_t window; /* 0: none */
    /* [1.1] */
    const struct engine_tensor *slopes; /* weight, F32 [n_heads], each at least 0, or NULL */
    const struct engine_tensor *sinks;  /* weight, F32 [n_heads], or NULL */
    float softcap;                      /* at least 0; 0: none */
    uint32_t chunk;                     /* 0: none; not together with window */
};

/* ENGINE_OP_CACHE_WRITE: puts keys or values of new tokens into a paged cache, converted to the cache's type.
 *   cache[:, slots[t] % block_size, h, slots[t] / block_size] = input[:, h, t];  a slot of -1 is left out.
 * F16: the nearest, of two the even one. Q8_0 as in files: for each 32 values d = max|x| / 127 in float32,
 * which is kept in float16 (the nearest), and x / d rounded to the nearest; x within 1e-4 of the middle of
 * two steps may become either. */
struct engine_op_cache_write {
    size_t struct_size;
    const struct engine_tensor *input; /* F32 [head_dim, n_kv_heads, tokens] */
    const struct engine_tensor *slots; /* I32 [tokens] */
    const struct engine_tensor *cache; /* output: like k of ENGINE_OP_ATTENTION */
};

/* Which values rope turns together: (0,1),(2,3),… or (0,n/2),(1,n/2+1),… */
enum engine_rope_pairs { ENGINE_ROPE_ADJACENT = 0, ENGINE_ROPE_HALVES = 1 };

/* ENGINE_OP_ROPE: rotary position embedding (RoFormer, arXiv 2104.09864) of the first n_dims values of each
 * head; the others are copied. Pair i of a token at position p turns by the angle
 *   p * position_scale * theta^(-2i / n_dims) / factors[i],
 * which is worked out so that sine and cosine are right to float32 at any position up to 2^20 (in float64,
 * say, or from a table made so). A pair (a, b) becomes (a cos - b sin, a sin + b cos), each of both within
 * 3e-7 * (|a| + |b|). [1.1] Both are then multiplied by `magnitude` (YaRN, arXiv 2309.00071), the bound too;
 * what is copied isn't. */
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
    /* [1.1] */
    float magnitude; /* 0 means 1 */
    uint32_t reserved;
};

enum engine_norm_kind {
    ENGINE_NORM_RMS = 0,
    ENGINE_NORM_LAYER = 1 /* [1.1] */
};

/* ENGINE_OP_NORM, over each row; means in float32 or wider:
 *   RMS:    output[i, t] = input[i, t] / sqrt(mean over i of input[i, t]^2 + epsilon) * weight[i]
 *           (arXiv 1910.07467). Within 1e-6 of the value.
 *   LAYER:  output[i, t] = (input[i, t] - m) / d * weight[i], m the row's mean, d = sqrt(mean over i of
 *           (input[i, t] - m)^2 + epsilon) (arXiv 1607.06450). Within 1e-6 * (|value| + |weight[i]| * largest
 *           |input| of the row / d).
 * [1.1] Then bias[i] is added, where present: within 1e-6 * (|value| + |bias[i]|) more. */
struct engine_op_norm {
    size_t struct_size;
    const struct engine_tensor *input;  /* F32 [n, tokens] */
    const struct engine_tensor *output; /* F32 [n, tokens]; may be the same tensor as input */
    const struct engine_tensor *weight; /* weight, F32 [n], or NULL for ones */
    uint32_t kind;                      /* enum engine_norm_kind */
    float epsilon;
    /* [1.1] */
    const struct engine_tensor *bias; /* weight, F32 [n], or NULL */
};

/* ENGINE_OP_GET_ROWS:  output[:, i] = source[:, rows[i]], converted to float32. The embedding lookup (source
 * is a weight of any type) and the choice of the positions whose logits are wanted (source is an F32
 * activation). Exact: to the bit what the type's blocks mean, rounded to float32 once. */
struct engine_op_get_rows {
    size_t struct_size;
    const struct engine_tensor *source; /* weight or F32 activation, [n, n_rows] */
    const struct engine_tensor *rows;   /* I32 [count]; each in 0 .. n_rows-1, which the engine has checked */
    const struct engine_tensor *output; /* F32 [n, count] */
};

/* ENGINE_OP_ADD, ENGINE_OP_MUL:  output = a + b, output = a * b, element by element. b is an activation of
 * a's shape, or [n] (a weight or an activation), repeated for each of a's rows, or [1.1] an activation [1,
 * tokens], one number for each of a's rows. Within 1e-6 of the value. */
struct engine_op_binary {
    size_t struct_size;
    const struct engine_tensor *a;      /* F32 [n, tokens] */
    const struct engine_tensor *b;      /* F32 [n, tokens], [n] or [1, tokens] */
    const struct engine_tensor *output; /* F32 [n, tokens]; may be the same tensor as a or b */
};

/* ENGINE_OP_ACTIVATE:  output = activation(input), or activation(input) * factor where factor is present.
 * NONE, SILU, RELU, RELU_SQUARED, CLAMP: within 1e-6 of the value. The others: activation(x) is within
 * 1e-6 * |x| for GELU_ERF and GELU_TANH, 2e-6 * |x| for TANH and SOFTCAP, 2e-6 * |g| for SWIGLU_CLAMPED, 1e-6 for
 * SIGMOID, 1e-6 * (1 + max(x, 0)) for SOFTPLUS; that times the factor (1 + u for SWIGLU_CLAMPED), and 1e-6 of
 * the value more. */
struct engine_op_activate {
    size_t struct_size;
    const struct engine_tensor *input;  /* F32 [n, tokens] */
    const struct engine_tensor *factor; /* F32 [n, tokens], or NULL */
    const struct engine_tensor *output; /* F32 [n, tokens]; may be the same tensor as input or factor */
    uint32_t activation;                /* enum engine_activation */
    uint32_t reserved;                  /* 0 */
    /* [1.1]; 0 where the activation doesn't take them */
    float limit; /* more than 0 for CLAMP, SOFTCAP, SWIGLU_CLAMPED */
    float alpha; /* SWIGLU_CLAMPED */
};

/* How ENGINE_OP_ROUTE makes scores of logits. */
enum engine_route_function { ENGINE_ROUTE_SOFTMAX = 0, ENGINE_ROUTE_SIGMOID = 1 };

/* How the score of a group of experts comes from theirs: the largest, or the sum of the two largest. */
enum engine_route_group { ENGINE_ROUTE_GROUP_MAX = 0, ENGINE_ROUTE_GROUP_TOP2 = 1 };

/* ENGINE_OP_ROUTE [1.1]:  which experts a token goes to, and how much each of them counts. For each token:
 *   p = softmax(logits) over all experts, or sigmoid(logits) of each;
 *   c = p + bias (p where bias is NULL): what the choice goes by (DeepSeek-V3, arXiv 2412.19437);
 *   with n_groups > 1: experts are n_groups groups of n_experts / n_groups, one after the other; only those of
 *   the n_groups_used groups with the largest scores stay, which come from the c of their experts;
 *   ids = the n_used experts of the largest c, the largest first;
 *   weights[s] = p[ids[s]]; with `normalise` divided by max(sum of the weights, floor); times scale.
 * Where two c (or scores of groups) differ by less than 1e-6, either may be taken for the larger one. Of equal
 * ones take the lower id. Whatever the logits are, NaN too, the ids of a token are in 0 .. n_experts-1 and
 * differ. Weights are within 1e-5 of their value. (A softmax of the chosen logits alone is a
 * softmax with `normalise`.) */
struct engine_op_route {
    size_t struct_size;
    const struct engine_tensor *logits;  /* F32 [n_experts, tokens] */
    const struct engine_tensor *bias;    /* weight, F32 [n_experts], or NULL */
    const struct engine_tensor *ids;     /* output: I32 [n_used, tokens], n_used at most n_experts */
    const struct engine_tensor *weights; /* output: F32 [n_used, tokens] */
    uint32_t function;                   /* enum engine_route_function */
    uint32_t n_groups;                   /* divides n_experts; 0: none */
    uint32_t n_groups_used;              /* at most n_groups; n_used experts fit in them */
    uint32_t group_score;                /* enum engine_route_group; TOP2 wants groups of two or more */
    uint32_t normalise;                  /* 0 or 1 */
    float floor;                         /* at least 0 */
    float scale;                         /* 0 means 1 */
    uint32_t reserved;                   /* 0 */
};

/* ENGINE_OP_CONCAT [1.1]:  rows put together: output[i, h, t] = a[i, h, t] for i < n_a, else b[i - n_a, h, t].
 * A b of one row for each token, [n_b, 1, tokens], is repeated for all h. Exact. */
struct engine_op_concat {
    size_t struct_size;
    const struct engine_tensor *a;      /* F32 [n_a, heads, tokens] */
    const struct engine_tensor *b;      /* F32 [n_b, heads or 1, tokens] */
    const struct engine_tensor *output; /* F32 [n_a + n_b, heads, tokens] */
};

/* --------------------------------------------------------------------------------------------------------
 * Backends
 */

enum engine_device_kind {
    ENGINE_DEVICE_CPU = 1,            /* runs on the host's processor, native or through a driver */
    ENGINE_DEVICE_GPU = 2,            /* has memory of its own */
    ENGINE_DEVICE_INTEGRATED_GPU = 3, /* shares the host's memory */
    ENGINE_DEVICE_ACCELERATOR = 4     /* anything else */
};

struct engine_device_info {
    size_t struct_size;
    /* Appended to the plugin's name to name the device: "0" -> vulkan0, "0.1" -> opencl0.1, "" -> cpu. */
    char id[16];
    char description[128]; /* for people: the product's name, the driver */
    uint32_t kind;         /* enum engine_device_kind */
    uint64_t memory_free;  /* bytes that the engine could take now */
    uint64_t memory_total; /* bytes; 0: unknown */
    uint64_t max_buffer;   /* bytes of the largest engine_buffer; 0: no limit but memory. Not for weights. */
    uint32_t alignment;    /* bytes, a power of two: where tensors start in a buffer; 0 means 64 */
    uint32_t n_threads;    /* of the host, that it uses unless told otherwise; 0: none to speak of */
    /* Which hardware it is, so that what several backends (or drivers) reach isn't used twice. Two devices
     * are the same if both give an address and these are equal; where one gives none, if both give a uuid and
     * these are equal. */
    char pci_address[24]; /* "0000:01:00.0" as lspci -D has it; "": unknown, or that of several devices */
    uint8_t uuid[16];     /* Vulkan's deviceUUID, OpenCL's CL_DEVICE_UUID_KHR; zeros: unknown */
    uint32_t rank;        /* of devices that are the same, the engine takes the first with the largest */
    uint32_t reserved;    /* 0 */
};

struct engine_device_options {
    size_t struct_size;
    uint32_t n_threads;    /* for devices that run on the host's processor; 0: the plugin decides */
    uint64_t memory_limit; /* bytes, of all that is counted, before ENGINE_ERROR_MEMORY; 0: none */
};

/* What weight_create is to be used for; a backend may keep a layout for each. */
enum engine_weight_use {
    ENGINE_WEIGHT_MATMUL = 1, /* weight or gate of ENGINE_OP_MATMUL */
    ENGINE_WEIGHT_ROWS = 2,   /* source of ENGINE_OP_GET_ROWS */
    ENGINE_WEIGHT_VALUES = 4, /* norms, biases, rope factors: plain values */
    /* [1.1] weight or gate of ENGINE_OP_MATMUL with three dimensions, [k, rows, n]: one matrix for each expert
     * or head. It is the only use of a weight that has it. */
    ENGINE_WEIGHT_MATRICES = 8
};

/* A model tensor as it is in the file: dense, rows one after the other, blocks of its type as GGUF defines
 * them. */
struct engine_weight_desc {
    size_t struct_size;
    const char *name;      /* "blk.0.attn_q.weight"; for messages */
    uint32_t type;         /* enum engine_type */
    const char *type_name; /* "Q4_K": for messages, also where this header lacks the number */
    uint64_t ne[4];
    uint32_t uses;         /* bits of enum engine_weight_use, at least one */
    uint32_t data_is_kept; /* not 0: data stays as it is until weight_destroy, so it need not be copied */
    const void *data;      /* NULL in weight_size */
    uint64_t data_size;    /* bytes */
};

struct engine_backend {
    size_t struct_size;

    /* Devices. The list is made at the first device_count and does not change while the plugin is loaded. */

    /* [main] How many devices there are; 0 with ENGINE_OK is a proper answer. ENGINE_ERROR_NOT_FOUND after
     * host->fail, where what the devices need isn't on this machine (a driver, say): the engine says why. */
    int (*device_count)(uint32_t *count);
    /* [main] Fills *info for device `index`; memory_free is measured anew at each call. info->struct_size is
     * set by the caller and respected. */
    int (*device_info)(uint32_t index, struct engine_device_info *info);
    /* [main] Opens a device. It may be opened more than once; the handles are independent of each other.
     * `options` may be NULL: the defaults. */
    int (*device_open)(uint32_t index, const struct engine_device_options *options,
                       struct engine_device **device);
    /* [main] Closes it. All that belongs to it has been destroyed before. */
    void (*device_close)(struct engine_device *device);

    /* Capabilities. */

    /* [any] 1 if an operation with these arguments can run here, else 0 (no message). Handles in the tensors
     * are NULL: the answer depends on types, on what is present and on shapes, but not on how many tokens,
     * output rows, sequences or cache blocks there are, for these change from run to run. Asked while
     * planning, never while running. */
    int (*supports)(struct engine_device *device, uint32_t op, const void *args);
    /* [any] The device memory in bytes that a weight would take; desc->data is NULL.
     * ENGINE_ERROR_UNSUPPORTED (no message needed): a type or use that can't be kept here. */
    int (*weight_size)(struct engine_device *device, const struct engine_weight_desc *desc, uint64_t *bytes);

    /* Memory. */

    /* [device] Memory of at least `size` bytes, its contents zero. size > 0. ENGINE_ERROR_MEMORY where it
     * can't be had or would exceed options.memory_limit, which counts sizes as given here and by weight_size,
     * and what operations have taken, which is at most what op_memory says. */
    int (*buffer_create)(struct engine_device *device, uint64_t size, struct engine_buffer **buffer);
    /* [device] No operation on it may be pending. NULL is fine. */
    void (*buffer_destroy)(struct engine_buffer *buffer);
    /* [any] Where the host may read and write the buffer itself whenever its streams are idle, or NULL. Valid
     * until buffer_destroy. Optional. */
    void *(*buffer_pointer)(struct engine_buffer *buffer);
    /* [device] Takes over a model tensor. desc->data is read before this returns (unless data_is_kept),
     * though the upload may end later; operations enqueued afterwards see it whole. May use as many threads
     * as it likes. ENGINE_ERROR_ARGUMENT where data_size is less than the shape takes. */
    int (*weight_create)(struct engine_device *device, const struct engine_weight_desc *desc,
                         struct engine_weight **weight);
    /* [device] No operation on it may be pending. NULL is fine. */
    void (*weight_destroy)(struct engine_weight *weight);

    /* Streams. What is enqueued in one stream takes effect in order; different streams are independent. */

    /* [device] */
    int (*stream_create)(struct engine_device *device, struct engine_stream **stream);
    /* [device] Waits for what is pending. NULL is fine. */
    void (*stream_destroy)(struct engine_stream *stream);
    /* [device] Enqueues an operation. `args` is the operation's struct; it and the tensors that it points to
     * are copied before this returns. May run at once or later, at the latest at stream_flush. Errors that
     * turn up only while it runs are returned by stream_wait. */
    int (*enqueue)(struct engine_stream *stream, uint32_t op, const void *args);
    /* [device] Enqueues a transfer from host memory; `source` may be reused once this returns. As with the
     * other two transfers, offset and size are any numbers of bytes, 0 too; ENGINE_ERROR_ARGUMENT beyond the
     * buffer's end. */
    int (*write)(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset,
                 const void *source, uint64_t size);
    /* [device] Enqueues a transfer to host memory, which is complete once the next stream_wait returns. */
    int (*read)(struct engine_stream *stream, struct engine_buffer *buffer, uint64_t offset, void *target,
                uint64_t size);
    /* [device] Enqueues a copy between two buffers of this device, which may be the same if the ranges don't
     * overlap. */
    int (*copy)(struct engine_stream *stream, struct engine_buffer *target, uint64_t target_offset,
                struct engine_buffer *source, uint64_t source_offset, uint64_t size);
    /* [device] Sees to it that all that is enqueued runs, without waiting. */
    int (*stream_flush)(struct engine_stream *stream);
    /* [device] Flushes, waits until all has run, and returns the first error that occurred since the last
     * wait. After an error, what came behind it in the stream may not have run. */
    int (*stream_wait)(struct engine_stream *stream);

    /* Recordings: optional, all four or none. Between record_begin and record_end `enqueue` keeps operations
     * instead of running them (no transfers come in between). replay enqueues them all, any number of times,
     * in any stream of the same device. The buffers and weights in it live longer than the recording. */

    /* [device] */
    int (*record_begin)(struct engine_stream *stream);
    /* [device] Ends recording. After an `enqueue` that failed it may fail too; else *recording is the
     * caller's to destroy, complete or not. */
    int (*record_end)(struct engine_stream *stream, struct engine_recording **recording);
    /* [device] */
    int (*replay)(struct engine_stream *stream, struct engine_recording *recording);
    /* [device] It is not pending. NULL is fine. */
    void (*recording_destroy)(struct engine_recording *recording);

    /* Planning, optional. */

    /* [any] The device memory in bytes that an operation takes at most beyond its operands, for what passes
     * between its kernels; arguments as in `supports`, here with the numbers of tokens, rows and sequences that
     * are meant. What a device takes in all is at most the largest of the answers for the operations that it
     * has run; it counts towards memory_limit. */
    int (*op_memory)(struct engine_device *device, uint32_t op, const void *args, uint64_t *bytes);
};

/* --------------------------------------------------------------------------------------------------------
 * Tokenizers
 */

struct engine_tokenizer; /* a vocabulary, ready for use */
struct engine_decoder;   /* the state of a text that is being put together from tokens */

/* Text of `length` bytes; not ended by a NUL, may hold NULs. The one struct without struct_size: it never
 * grows. */
struct engine_string {
    const char *data;
    size_t length;
};

/* A model's metadata, under GGUF's names whatever the file's format ("tokenizer.ggml.tokens", …). All
 * getters: [any]; ENGINE_ERROR_NOT_FOUND if there is no such key or it is of another kind (no message is
 * set). Text and bytes that are handed out live as long as the tokenizer that is being created from them. */
struct engine_metadata {
    size_t struct_size;
    void *context; /* first argument of every getter */
    int (*get_string)(void *context, const char *key, struct engine_string *value);
    int (*get_integer)(void *context, const char *key, int64_t *value); /* any integer type that fits */
    int (*get_float)(void *context, const char *key, double *value);    /* float32 or float64 */
    int (*get_boolean)(void *context, const char *key, int *value);     /* 0 or 1 */
    /* How many elements an array has. */
    int (*get_count)(void *context, const char *key, size_t *count);
    /* Elements first … first+count-1 of an array go to `values`. ENGINE_ERROR_ARGUMENT past the end. */
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
    /* Ids of special tokens, -1 where the vocabulary has none. */
    int32_t bos, eos, unknown, separator, padding, end_of_turn;
    /* 1 where the model expects them around a text (see ENGINE_ENCODE_BOS_EOS). */
    int32_t add_bos, add_eos, add_separator;
};

enum engine_encode_flags {
    ENGINE_ENCODE_BOS_EOS = 1, /* add the special tokens that the metadata asks for in front and behind */
    ENGINE_ENCODE_SPECIAL =
        2 /* where the text spells a control token ("<|im_end|>"), take it for that token */
};

enum engine_token_attributes {
    ENGINE_TOKEN_CONTROL = 1,      /* has no text of its own: BOS, EOS, chat marks */
    ENGINE_TOKEN_USER_DEFINED = 2, /* found in the text before any merging */
    ENGINE_TOKEN_UNKNOWN = 4,
    ENGINE_TOKEN_BYTE = 8, /* stands for one byte */
    ENGINE_TOKEN_UNUSED = 16,
    ENGINE_TOKEN_END = 32 /* generation ends here: EOS, end of turn, and their like */
};

/* Receives ids in order, in one or more pieces, on the thread that called encode; `ids` is valid during the
 * call. Returns 0 to go on, else encode stops and returns that value. */
typedef int (*engine_token_sink)(void *user, const int32_t *ids, size_t count);

struct engine_tokenizer_api {
    size_t struct_size;

    /* The values of tokenizer.ggml.model that this plugin serves, ended by NULL. */
    const char *const *models;

    /* [any] Builds a tokenizer; `metadata` is valid during the call, the texts in it as long as the
     * tokenizer. The vocabulary comes from a file: check it. ENGINE_ERROR_DATA says what is wrong with it. */
    int (*create)(const struct engine_metadata *metadata, struct engine_tokenizer **tokenizer);
    /* [any] Nothing of it is in use any more. NULL is fine. */
    void (*destroy)(struct engine_tokenizer *tokenizer);
    /* [any] Fills *info as far as info->struct_size reaches. */
    int (*info)(const struct engine_tokenizer *tokenizer, struct engine_tokenizer_info *info);
    /* [any] Text (any bytes; meant as UTF-8) to ids. flags: enum engine_encode_flags. */
    int (*encode)(const struct engine_tokenizer *tokenizer, const char *text, size_t length, uint32_t flags,
                  engine_token_sink sink, void *user);
    /* [any] A token as the vocabulary spells it ("▁Once", "<0x0A>"). Lives as long as the tokenizer.
     * ENGINE_ERROR_ARGUMENT: no such id. */
    int (*piece)(const struct engine_tokenizer *tokenizer, int32_t id, struct engine_string *piece);
    /* [any] Bits of enum engine_token_attributes; 0 for ids that don't exist. */
    uint32_t (*attributes)(const struct engine_tokenizer *tokenizer, int32_t id);

    /* Decoding. A decoder belongs to one text and one thread at a time; it must be destroyed before its
     * tokenizer. */

    /* [any] `special`: not 0 to write control tokens as they are spelled instead of leaving them out. */
    int (*decoder_create)(const struct engine_tokenizer *tokenizer, int special,
                          struct engine_decoder **decoder);
    /* [any] NULL is fine. */
    void (*decoder_destroy)(struct engine_decoder *decoder);
    /* [any, one thread at a time for each decoder] The text that token `id` adds: whole UTF-8 characters
     * only, what is incomplete waits for the next call; bytes that can't be part of UTF-8 any more come out
     * as they are. *text is valid until the next call on this decoder. */
    int (*decode)(struct engine_decoder *decoder, int32_t id, struct engine_string *text);
    /* [any, one thread at a time for each decoder] The bytes that are still waiting; the decoder is then
     * ready for a new text. */
    int (*decode_end)(struct engine_decoder *decoder, struct engine_string *text);
};

#ifdef __cplusplus
}
#endif

#endif
