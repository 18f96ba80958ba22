/* arch.h: what a model family is, under all of its names: one struct architecture, at the end of the family's
 * file, which says everything that the engine treats in its own way for the family. Nothing outside this
 * folder compares the name of a family. Members that are zero mean the usual, which is what Llama has.
 *
 * Names that only look like families' stand elsewhere: GGUF's of tokenizers and pre-tokenizers (plugins),
 * llama.cpp's of templates (template/), and ENGINE_REPLY_… of formats (reply/). A format is called like the
 * models that wrote it first, but the template decides which one a model writes: models of any family are
 * tuned to any of them, so their marks belong to no family.
 *
 * Read llama.c first. families.h lists all families, decoder.h has what their graphs share. Readers of
 * this header: the plan (read, build), model/hf/ (hf), adapter/, embedding/ (classifier), quantize/,
 * reply/, vocabulary/ (tokenizer). */
#ifndef ENGINE_ARCH_ARCH_H
#define ENGINE_ARCH_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arch_eye;
struct graph;
struct hf_config;
struct hf_name;
struct hparams;
struct model;

/* ---- In Hugging Face directories ----------------------------------------------------------------------- */

/* A module and the tensor that its weight becomes: "self_attn.q_proj", "attn_q". The name is what follows
 * the layer's number; # stands for an expert's number. Outside the layers it is the last words of a name.
 * A tensor with a dot is the whole name: "exp_probs_b.bias"; one that ends with a dot has no end in GGUF:
 * "ssm_a.". */
struct hf_module {
    const char *name, *tensor; /* NULL: the end of the list */
};

/* What becomes of a stored matrix besides the order of its rows. */
enum hf_form_kind {
    FORM_SAME,
    FORM_HALVES,      /* two tensors: the first half of the rows, the second */
    FORM_INTERLEAVED, /* two tensors: even rows, odd rows */
    FORM_LATENT,      /* two tensors: DeepSeek's keys, transposed, and values */
    FORM_EXPERTS,     /* the experts' matrices, one below the other (Nomic) */
    FORM_QKV,         /* three tensors: from groups, rope's pairs made adjacent (InternLM 2) */
    FORM_QKVZ,        /* two tensors: from groups, queries, keys and values; gates (Qwen 3 Next) */
    /* A delta net's value heads, from those of each key head in a row to the first of each key head, the
     * second of each, and so on: of all rows, of those behind queries and keys, of the columns. */
    FORM_TILED,
    FORM_TILED_VALUES,
    FORM_TILED_COLUMNS,
};

struct hf_form {
    const char *tensor; /* after "blk.N."; NULL: the end of the list */
    enum hf_form_kind kind;
    bool is_transposed; /* stored with the inputs as rows */
    bool is_either;     /* of the experts' matrices: in some directories, which the width tells */
    const char *outputs[3];
};

/* Which layers have the window, if config.json doesn't list them. */
enum hf_windows {
    HF_WINDOWS_NONE,
    HF_WINDOWS_ALL,
    HF_WINDOWS_PERIOD,  /* all but every window_period-th */
    HF_WINDOWS_FIRST,   /* all but the first of every window_period */
    HF_WINDOWS_FROM,    /* those from max_window_layers on */
    HF_WINDOWS_UNTIL,   /* the first and every other one, up to max_window_layers */
    HF_WINDOWS_NO_ROPE, /* those that hf_read_layers_without_rope has found */
};

/* A number that only some families have. */
struct hf_key {
    const char *name,
        *key; /* config.json's, as in struct hf_key_names, and GGUF's; NULL: the end of the list */
    /* null is a missing key; HF_FLOAT_OR_0: it is 0; HF_COUNT_OR_NONE: the metadata doesn't have it */
    enum { HF_COUNT, HF_COUNT_OR_NONE, HF_FLOAT, HF_FLOAT_OR_0, HF_FLAG } kind;
    double fallback; /* as in transformers; HF_ABSENT: the metadata doesn't have it either */
};
#define HF_ABSENT (-1e300)

/* Biases, and norms of queries and keys, that a type has only if a key of config.json says so; if it
 * doesn't, stored ones are not used. */
struct hf_option {
    const char *key; /* NULL: none */
    bool preset;
    const char *tensors; /* after "blk.N.", without ".bias" and ".weight": "attn_q|attn_k" */
};
#define HF_QKV       "attn_q|attn_k|attn_v|attn_qkv"
#define HF_ATTENTION HF_QKV "|attn_output"
#define HF_QK_NORMS  "attn_q_norm|attn_k_norm"
#define HF_MLP       "ffn_gate|ffn_up|ffn_down|ffn_gate_up"
#define HF_ATTENTION_BIAS                                                                                    \
    {                                                                                                        \
        "attention_bias", false, HF_ATTENTION                                                                \
    }
#define HF_MLP_BIAS                                                                                          \
    {                                                                                                        \
        "mlp_bias", false, HF_MLP                                                                            \
    }

/* The names of keys. Alternatives are parted by |, the newest first. NULL: as the comment says. */
#define HF_UNREAD "" /* the type doesn't read such a key */
struct hf_key_names {
    const char *width;       /* hidden_size */
    const char *layers;      /* num_hidden_layers: a number, or a list or text with as many elements */
    const char *heads;       /* num_attention_heads */
    const char *kv_heads;    /* num_key_value_heads */
    const char *head_dim;    /* head_dim */
    const char *ff;          /* intermediate_size */
    const char *context;     /* max_position_embeddings */
    const char *epsilon;     /* rms_norm_eps, or layer_norm_eps */
    const char *activation;  /* hidden_act */
    const char *theta;       /* rope_theta, outside rope_parameters */
    const char *local_theta; /* the same of layers with windows; NULL: one rope for all layers */
    const char *part;        /* partial_rotary_factor, outside rope_parameters */
    const char *magnitude;   /* of longrope: attention_factor, in rope_parameters */
    const char *window;      /* sliding_window; if it is null, no layer has one */
    /* a flag without which there is no window; NULL: none is needed */
    const char *window_switch;
    const char *window_period; /* NULL: not read */
    const char *layer_types;   /* NULL: not read */
};

/* Models of a type that score a query and a document by the logits of two tokens. Their directories look like
 * those of the type's other models. */
struct hf_reranker {
    const char *models;    /* in messages */
    const char *name;      /* part of general.name, in any case */
    const char *title;     /* or part of README.md */
    const char *labels[2]; /* tokens; the head is their rows of the output matrix */
    const char *prompt;    /* as published; {query} and {document} stand for the texts */
};

/* A model_type that runs as the family, with transformers' defaults of what its config.json leaves out. */
struct hf_type {
    const char *name;    /* model_type; NULL: the end of the list */
    const char *refusal; /* what its models are, if directories of them can't be read; NULL: they can */
    /* Of a type of several families: whether a config.json is of this one, and how docs/hugging-face.md
     * says so. */
    bool (*applies)(const struct hf_config *config);
    const char *when;

    struct hf_key_names keys;
    uint32_t width, layers, heads;
    uint32_t kv_heads;      /* 0: as many as heads; so, too, if the key is null */
    uint32_t head_dim;      /* 0: the width by the heads; so, too, if the key is null */
    uint32_t ff;            /* 0: four times the width */
    uint32_t context;       /* of an eye: patch_size, and window: image_size */
    double epsilon;         /* 0: 1e-6 */
    const char *activation; /* NULL: silu; "": the family has one of its own, which isn't in the metadata */
    bool is_tied;           /* tie_word_embeddings */

    bool has_no_rope;
    double rotary;             /* the part of each head that is rotated; 0: all */
    bool keeps_rotary;         /* config.json may say that heads are rotated in part */
    double theta;              /* 0: 1e4 */
    double local_theta;        /* of layers with windows */
    bool scales_local;         /* rope_scaling is for them, too */
    uint32_t original_context; /* original_max_position_embeddings; 0: none */
    const char *rope;          /* rope_parameters, JSON; NULL: none */
    const char *rope_kind;     /* whose scaling of several in rope_parameters is read; NULL: of all layers */

    enum hf_windows windows;
    uint32_t window;        /* 0: none */
    uint32_t window_period; /* of HF_WINDOWS_PERIOD and HF_WINDOWS_FIRST */
    uint32_t window_from;   /* max_window_layers of HF_WINDOWS_FROM and HF_WINDOWS_UNTIL; 0: 28 */

    const struct hf_key *numbers; /* NULL: none */
    struct hf_option options[4];
    void (*read)(struct hf_config *config);            /* what rows can't say; NULL: nothing */
    void (*read_classifier)(struct hf_config *config); /* the same of a classification head */
    bool positions_follow_padding;      /* the first token has the position after pad_token_id's */
    bool has_pooler;                    /* its classifier reads pooler.dense; others may have one left over */
    const struct hf_reranker *reranker; /* NULL: none of its models is one */
};

struct hf_family {
    const struct hf_type *types;     /* NULL: the family is read from GGUF files only */
    const struct hf_module *modules; /* before the usual ones of names.c */
    const struct hf_module *outer;   /* outside the layers, before the usual ones */
    /* Names of its own, in the place of all that; false: unknown. */
    bool (*name)(const char *module, struct hf_name *name);
    const struct hf_form *forms; /* before the usual ones of forms.c */
    const char *const
        *left_out; /* names of stored tensors, or their beginnings if they end with a dot; ends with NULL */
    const char *prefix;    /* of the names of tensors in layers, of an eye: "v."; NULL: none */
    bool pairs_adjacent;   /* GGUF files have the pairs of rope adjacent */
    bool groups_qkv;       /* attn_qkv is stored in groups of some queries, a key and a value */
    bool has_layer_norms;  /* else RMS norms */
    bool norms_add_one;    /* norms add 1 to their weights */
    bool has_no_attention; /* config.json has neither heads nor feed-forward networks */
    /* Stored numbers, one for each layer, that GGUF files have as an array in the metadata, and the whole
     * keys. */
    const struct hf_module *layer_numbers;
    /* ".ffn_up.": all matrices but this are multiplied by factors of config.json. */
    const char *scales_all_but;
    /* What llama.cpp's converter writes besides: rope.scaling.type "none" and the original context of a
     * rope that isn't scaled; YaRN's logarithmic multiplier. */
    bool writes_no_scaling, writes_original_context, writes_yarn_multiplier;
};

/* ---- Families ------------------------------------------------------------------------------------------ */

/* What the host needs to know about a model of any family. */
struct arch_info {
    uint32_t n_vocab;
    uint32_t n_embd; /* numbers of a hidden state */
    uint32_t n_layers;
    uint32_t n_context;    /* the context that the model was trained with */
    uint32_t n_positions;  /* learnt positions end here; 0: any position works */
    bool has_dynamic_rope; /* which changes beyond n_context */
    uint32_t n_short_rope; /* longer contexts turn all positions otherwise (longrope); 0: no length matters */
    uint32_t window; /* the most positions that a token sees in a layer with a window; 0: no such layer */
    /* Of an encoder: positions after its own that a token sees in a layer with a window, see INPUT_REACH. */
    uint32_t n_ahead;
    uint32_t n_types;   /* of tokens, as in BERT; 0: they have none */
    bool is_encoder;    /* tokens see their whole text, and there are no logits */
    bool makes_vectors; /* an encoder, or made for embeddings or labels: the file names a pooling or labels */
    bool has_states;    /* the graph declares states: graph_state */
    /* The positions of a pooled row in some layers, see graph_pooled_cache; 0: none. As many as
     * GRAPH_PERIODS. */
    uint32_t periods[2];
    uint32_t n_sharing; /* layers at the end that read the keys and values of earlier ones */
    /* An encoder reads a source text for each of the decoder's sequences; the family has the graphs of
     * both, see graph_shape.encodes. The decoder's text begins with this token. */
    bool has_source;
    int32_t start_token;
    /* The value of INPUT_QUERY_SCALES for a position; NULL if the graph has no such input. */
    float (*query_scale)(const void *hparams, uint32_t position);
    /* Numbers of a row of INPUT_ROWS: of an eye's patches; of a text model, what a token of a picture has,
     * which is n_embd and as much again for each of the first layers that get more of it. */
    uint32_t row_width;
    uint32_t n_merged; /* of an eye: patches that become one row; the shapes of its graphs have whole ones */
    /* Of a text model: positions of pictures have three dimensions, and a picture takes as many positions as
     * it has rows or columns; tokens of a picture see each other. */
    bool has_axes, sees_spans;
};

/* Something that the logits depend on and GGUF files don't say, for docs/models.md. */
struct arch_missing {
    const char *fact;    /* NULL: the end of the list */
    const char *taken;   /* where the engine takes it from */
    const char *unknown; /* what it does with models that it doesn't know; "": there are none */
};

enum arch_kind { ARCH_DECODER, ARCH_ENCODER, ARCH_ENCODER_DECODER, ARCH_EYE };

struct architecture {
    const char *name;                   /* general.architecture */
    const char *models;                 /* the models that have it, for docs/models.md */
    const struct arch_missing *missing; /* NULL: nothing is */
    enum arch_kind kind;
    /* Of an eye, whose model is a file of its own or a part of a directory: its name, which
     * clip.projector_type has, and what the host needs to know. `name` is "clip". NULL: it is none. */
    const char *projector;
    const struct arch_eye *eye;
    size_t size; /* bytes of its hyper-parameters, initially zero */
    /* Fills its hyper-parameters and *info. *reader keeps the first error. NULL: the engine doesn't run
     * it. */
    void (*read)(struct hparams *reader, void *hparams, struct arch_info *info);
    /* Adds the nodes and sets graph->logits, or in an encoder watches the last states (WATCH_STATES).
     * Errors are in graph->status. */
    void (*build)(struct graph *graph, const void *hparams);

    struct hf_family hf;

    /* A classification head whose file says neither its activation nor which state it reads. */
    struct {
        const char *activation; /* NULL: tanh */
        bool takes_mean;        /* else an encoder's first state, a decoder's last */
    } classifier;
    /* Which special tokens take in the white space beside them, which GGUF files don't say; the keys
     * engine.tokenizer.strip_… of docs/tokenizers.md. NULL: none. */
    struct {
        const char *strip_left, *strip_right_but;
        const char *names[2]; /* only of models whose general.name has one of these; NULL: of all */
    } tokenizer;
    /* A tokenizer that knows no pairs parts two texts by two separators, as RoBERTa's does. */
    bool parts_pairs_twice;

    /* The marks around its reasoning, and around calls in Hermes' or Qwen's form, besides those that all
     * models may write (reply/). NULL: none. */
    struct {
        const char *reasoning[2], *call[2];
        /* What begins its calls, for templates that show tools and don't say how they are called: the first
         * mark of one of the layouts in reply/layout.c. */
        const char *calls;
    } reply;

    /* Where llama-quantize treats the family in its own way. */
    struct {
        bool as_falcon; /* the output matrix is Q8_0, and fewer layers get more bits */
        /* Models of so many layers get more bits for the values of attention; 0: none do. */
        uint32_t n_layers;
        bool needs_groups; /* of those, only models whose heads share keys */
    } quantize;
};

/* The family of a name, also one that the engine doesn't run; NULL: it is unknown. */
const struct architecture *arch_named(const char *name);

/* All of them, the families that run first; NULL after the last. */
const struct architecture *arch_at(size_t index);

/* All eyes; NULL after the last. */
const struct architecture *arch_eye_at(size_t index);

/* The family of a model; NULL with a message if the engine does not run it. */
const struct architecture *arch_of(const struct model *model);

/* Lets the family read the model's metadata into `hparams` [architecture->size] and *info. ENGINE_ERROR_DATA
 * or ENGINE_ERROR_UNSUPPORTED with a message that names the file. */
int arch_read(const struct architecture *architecture, const struct model *model, void *hparams,
              struct arch_info *info);

#endif
