/* arguments.h: the command line as a struct. One table (options.h) lists every option with its commands,
 * default and help. Parsing, --help, suggestions for misspelt options, manual pages and completions
 * (commands/help.c) use it. */
#ifndef ENGINE_OPTIONS_ARGUMENTS_H
#define ENGINE_OPTIONS_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Options that may be repeated. `items` is terminated by NULL, or NULL if there are none. */
struct argument_list {
    const char **items;
    size_t count;
};

struct arguments {
    const struct command *command; /* NULL for `help` or `version` without a command */
    bool help, version;

    /* Every command */
    struct argument_list plugin_dirs; /* --plugin-dir */
    const char *config;               /* --config */
    bool json;                        /* --json */
    bool verbose;                     /* -v, --verbose: notes too, not only warnings */

    /* The model and its devices */
    const char *model;                /* -m, --model */
    const char *tokenizer;            /* --tokenizer */
    bool verify;                      /* --verify */
    const char *load_type;            /* --load-type */
    struct argument_list override_kv; /* --override-kv: KEY=TYPE:VALUE */
    const char *rope_scaling;         /* --rope-scaling; NULL: not given, as 0 of these: */
    float rope_scale, rope_freq_base, rope_freq_scale;
    uint32_t yarn_orig_ctx;
    float yarn_attn_factor, yarn_beta_slow, yarn_beta_fast; /* -1 means 0, too */
    float yarn_ext_factor;                                  /* -1 means that it isn't given */
    bool yarn_ext_factor_given;
    uint32_t n_context;          /* -c, --context */
    uint32_t n_cache;            /* --cache-size */
    uint32_t n_batch;            /* -b, --batch */
    uint32_t n_threads;          /* -t, --threads; 0: not given */
    const char *cache_type;      /* --cache-type */
    const char *weights;         /* --weights; NULL: not given */
    const char *backend;         /* --backend */
    const char *offload;         /* --offload: N, auto or all; NULL: not given */
    struct argument_list memory; /* --memory */
    struct argument_list place;  /* --place */
    struct argument_list lora;   /* --lora: FILE or FILE=SCALE */

    /* Text in, text out */
    const char *prompt;      /* -p, --prompt */
    const char *prompt_file; /* -f, --file */
    const char *prompt_cache;
    bool prompt_cache_all, prompt_cache_ro;
    uint32_t n_predict; /* -n, --predict */
    bool n_predict_given;
    bool no_echo; /* --no-echo */

    /* chat */
    const char *system; /* -sys, --system */
    bool no_history;    /* --no-history */

    /* Guesses */
    bool lookup;                   /* --lookup */
    const char *draft;             /* --draft */
    uint32_t draft_min, draft_max; /* --draft-min, --draft-max; 0: not given */
    bool ignore_end;               /* --ignore-eos */

    /* Constrained output */
    const char *grammar, *grammar_file;         /* --grammar, --grammar-file */
    const char *json_schema, *json_schema_file; /* -j, --json-schema; --json-schema-file */
    bool json_object;                           /* --json-object */

    /* Sampling */
    float temperature, top_p, min_p, typical_p;
    bool temperature_given;
    uint32_t top_k;
    float repeat_penalty, frequency_penalty, presence_penalty;
    uint32_t penalty_last_n;
    float dynatemp_range, dynatemp_exponent, top_n_sigma, xtc_probability, xtc_threshold;
    float dry_multiplier, dry_base;
    uint32_t dry_allowed_length, dry_penalty_last_n;
    struct argument_list dry_breakers; /* --dry-sequence-breaker */
    uint32_t mirostat;
    float mirostat_tau, mirostat_eta;   /* --mirostat-ent, --mirostat-lr */
    const char *samplers, *sampler_seq; /* NULL: not given */
    /* Whether an option was given; the model may have values for those that were not, see sampling_adopt. */
    struct {
        bool top_k, top_p, min_p, typical_p, top_n_sigma, xtc_probability, xtc_threshold;
        bool repeat_penalty, frequency_penalty, presence_penalty, penalty_last_n;
        bool dynatemp_range, dynatemp_exponent;
        bool dry_multiplier, dry_base, dry_allowed_length, dry_penalty_last_n;
        bool mirostat, mirostat_tau, mirostat_eta;
    } sampling_given;
    struct argument_list logit_bias;            /* -l, --logit-bias */
    struct argument_list ban, ban_tokens, stop; /* --ban, --ban-token, --stop */
    uint32_t n_logprobs;                        /* --logprobs */
    const char *logprobs_file;                  /* --logprobs-file */
    uint64_t seed;
    bool seed_given;
    uint32_t n_beams;     /* --beams */
    float length_penalty; /* --length-penalty */
    bool length_penalty_given;
    const char *early_stopping; /* --early-stopping; NULL: not given */

    /* template */
    const char *messages, *tools, *documents; /* --messages, --tools, --documents */
    const char *chat_template;                /* --chat-template */
    struct argument_list template_args;       /* --template-arg */
    const char *template_variables;           /* --chat-template-kwargs */
    uint32_t reasoning_budget;                /* --reasoning-budget; UINT32_MAX: no limit */
    bool no_generation_prompt;                /* --no-generation-prompt */

    /* tokenize */
    bool ids, nul, bos, special, decode, explain;

    /* logits */
    const char *tokens, *tokens_file, *output; /* --tokens, --tokens-file, -o, --output */
    const char *decoder_tokens_file;
    uint32_t n_top; /* --top; 0: not given */

    const char *hidden; /* --hidden */
    bool lens;          /* --lens */

    /* attention */
    const char *layer, *head;       /* --layer, --head */
    const char *token, *token_text; /* --token, --token-text; logits too */

    const char *format; /* help: --format */

    /* plugins check */
    const char *check_case; /* --case */
    uint32_t check_sample;  /* --sample */
    uint32_t timeout;       /* --timeout: seconds */

    /* plan */
    const char *cluster, *describe; /* --cluster, --describe */
    bool with_time;                 /* --time */

    /* bench */
    uint32_t n_prompt;     /* -p, --prompt, as a number of tokens; plan too */
    uint32_t depth;        /* -d, --depth */
    uint32_t repetitions;  /* -r, --repetitions */
    const char *sequences; /* --sequences: "1,2,4" */

    /* batch */
    uint32_t n_parallel; /* -np, --parallel; score too */
    bool restart;        /* --restart */

    /* score */
    struct argument_list answers, answer_files; /* --answer, --answer-tokens-file */

    /* embed */
    const char *pooling;     /* --pooling; NULL: the model's */
    const char *prompt_name; /* --prompt-name */
    const char *task;        /* --task */
    bool truncate;
    uint32_t n_dimensions; /* --dimensions; 0: all */
    float embd_normalize;  /* --embd-normalize */
    bool embd_normalize_given;

    /* rerank, classify: --top-n is n_top */
    const char *query; /* -q, --query */
    bool in_order;     /* --in-order */
    bool raw_scores;   /* --raw */

    /* perplexity */
    uint32_t stride;                   /* --stride; 0: not given */
    const char *save_logits, *kl_file; /* --save-logits, --kl */

    /* imatrix */
    struct argument_list in_files; /* --in-file */
    uint32_t n_chunks;             /* --chunks; 0: all */
    uint32_t output_frequency;     /* --output-frequency; 0: at the end */
    bool process_output;           /* --process-output */

    /* serve */
    struct argument_list models; /* -m, --model: NAME=PATH or PATH */
    const char *host;            /* --host */
    bool host_given;
    uint32_t port;                            /* --port */
    const char *unix_path;                    /* --unix */
    struct argument_list api_keys;            /* --api-key */
    const char *api_key_file;                 /* --api-key-file */
    bool insecure;                            /* --insecure */
    const char *ssl_cert_file, *ssl_key_file; /* --ssl-cert-file, --ssl-key-file */
    struct argument_list cors;                /* --cors */
    uint32_t models_max, models_memory_mib;   /* --models-max, --models-memory; 0: no limit */
    uint32_t n_waiting;                       /* --queue */
    uint32_t most_tokens;                     /* --max-tokens; 0: no limit */
    uint32_t most_attention;                  /* --attention-tokens; 0: off */
    bool strict_requests;                     /* --strict */
    uint32_t body_mib, header_kib;            /* --max-body, --max-header */
    uint32_t pending_kib;                     /* --max-unread */
    uint32_t n_connections, n_connections_each;
    uint32_t n_workers;                                                /* --threads-http */
    uint32_t ping_seconds;                                             /* --ping-interval; 0: none */
    uint32_t request_seconds, idle_seconds, time_limit, grace_seconds; /* time_limit 0: none */
    const char *log_format;                                            /* --log-format */
    bool log_prompts;                                                  /* --log-prompts */

    /* quantize */
    struct argument_list only; /* --only */
    const char *split_size;    /* --split-size */
    const char *imatrix;       /* --imatrix */
    bool pure;                 /* --pure */

    struct argument_list words; /* arguments that are not options */
    char **typed;               /* the whole line, as main has it */

    char error[512]; /* why arguments_parse failed */
};

/* A command. `commands` (main.c) is the table of all commands, terminated by one without a name. */
struct command {
    const char *name;
    const char *synopsis; /* "-m MODEL -p PROMPT [OPTION…]" */
    const char *summary;  /* one line for `engine --help` */
    const char *details;  /* paragraphs for `engine COMMAND --help`, or NULL */
    const char *examples; /* lines for `engine COMMAND --help`, each with a newline */
    const char *words;    /* arguments that are not options, "MODEL"; NULL: none are allowed */
    unsigned min_words, max_words;
    const char *choices; /* allowed values of the last of them, separated by spaces; NULL: any */
    /* Returns the exit status. On failure it has printed the reason (command_fail). */
    int (*run)(const struct arguments *arguments);
};
extern const struct command commands[];

/* The command `serve`, as the tables of two programs have it: `engine`, which executes engine-serve, and
 * engine-serve. */
#define SERVE_COMMAND(RUN)                                                                                   \
    {                                                                                                        \
        .name = "serve", .synopsis = "[-m MODEL...] [OPTION...]",                                            \
        .summary = "Serves models to programs over HTTP, and to people as a page.",                          \
        .details =                                                                                           \
            "Listens on 127.0.0.1:8080 until Ctrl-C or SIGTERM, which lets requests in progress finish. "    \
            "Beyond this machine only with an API key, or --insecure. docs/server.md describes the "         \
            "interface, "                                                                                    \
            "the limits and the service for systemd.\n"                                                      \
            "With several models, each is loaded when a request asks for it. --model NAME=PATH gives one "   \
            "another name than its file has; a request for MODEL:NAME gets the adapter of that name.\n"      \
            "The options of sampling are what a request gets that does not set them.",                       \
        .examples =                                                                                          \
            "  engine serve\n"                                                                               \
            "  engine serve -m llama.gguf --port 9000\n"                                                     \
            "  engine serve -m small=qwen-0.6b.gguf -m large=qwen-8b.gguf --models-memory 12000\n"           \
            "  engine serve -m llama.gguf --host 0.0.0.0 --api-key-file keys --ssl-cert-file cert.pem "      \
            "--ssl-key-file key.pem\n"                                                                       \
            "  curl http://127.0.0.1:8080/v1/models\n",                                                      \
        .run = RUN                                                                                           \
    }

/* The command of this name, or NULL. */
const struct command *command_find(const char *name);

/* Whether an argument without an option is the name of a model rather than a text. */
bool is_model_name(const char *word);

/* Parses the command line; strings stay in argv. Without a command name, the command is `run`. On error,
 * returns false and sets arguments->error, which suggests the nearest option or command. In a program with
 * one command, that is the command, and need not be named. arguments_free frees the lists, even after an
 * error. */
bool arguments_parse(int argc, char **argv, struct arguments *arguments);
void arguments_free(struct arguments *arguments);

/* Sets an option that may change while the command runs, such as those of sampling, as `--NAME VALUE` would.
 * `value` is not copied. On error, returns false and sets arguments->error. */
bool arguments_set(struct arguments *arguments, const char *name, const char *value);

/* Prints `engine --help`, or the help of a command. */
void arguments_help(const struct command *command, FILE *out);

#endif
