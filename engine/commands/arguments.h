/* arguments.h: the command line as a struct. One table (options.c) names every option, the commands that take
 * it, its default and its help; parsing, --help, suggestions for misspelt options, manual pages and
 * completions (pages.c) come from it. */
#ifndef ENGINE_COMMANDS_ARGUMENTS_H
#define ENGINE_COMMANDS_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Options that may be given several times. `items` is ended by NULL, or NULL if there are none. */
struct argument_list {
    const char **items;
    size_t count;
};

struct arguments {
    const struct command *command; /* NULL if `help` or `version` was asked for without one */
    bool help, version;

    /* Every command */
    struct argument_list plugin_dirs; /* --plugin-dir */
    const char *config;               /* --config */
    bool json;                        /* --json */
    bool verbose;                     /* -v, --verbose: notes as well as warnings */

    /* The model and where it runs */
    const char *model;           /* -m, --model */
    const char *tokenizer;       /* --tokenizer */
    uint32_t n_context;          /* -c, --context */
    uint32_t n_cache;            /* --cache-size */
    uint32_t n_batch;            /* -b, --batch */
    uint32_t n_threads;          /* -t, --threads; 0: not given */
    const char *cache_type;      /* --cache-type */
    const char *backend;         /* --backend */
    const char *offload;         /* --offload: N, auto or all; NULL: not given */
    struct argument_list memory; /* --memory */
    struct argument_list place;  /* --place */

    /* Text in, text out */
    const char *prompt;      /* -p, --prompt */
    const char *prompt_file; /* -f, --file */
    uint32_t n_predict;      /* -n, --predict */
    bool n_predict_given;
    bool no_echo; /* --no-echo */

    /* Sampling */
    float temperature, top_p, min_p, typical_p;
    uint32_t top_k;
    float repeat_penalty, frequency_penalty, presence_penalty;
    uint32_t penalty_last_n;
    uint64_t seed;
    bool seed_given;

    /* tokenize */
    bool ids, nul, bos, special, decode;

    /* logits */
    const char *tokens, *tokens_file, *output; /* --tokens, --tokens-file, -o, --output */

    const char *format; /* help: --format */

    /* plugins check */
    const char *check_case; /* --case */
    uint32_t timeout;       /* --timeout: seconds */

    /* bench */
    uint32_t n_prompt;    /* -p, --prompt, as a number of tokens */
    uint32_t depth;       /* -d, --depth */
    uint32_t repetitions; /* -r, --repetitions */

    /* quantize */
    struct argument_list only; /* --only */
    bool pure;                 /* --pure */

    struct argument_list words; /* what is no option */

    char error[512]; /* why arguments_parse failed */
};

/* A command. The table of all of them is `commands` (main.c), ended by one without a name. */
struct command {
    const char *name;
    const char *synopsis; /* "-m MODEL -p PROMPT [OPTION…]" */
    const char *summary;  /* one line for `engine --help` */
    const char *details;  /* paragraphs for `engine COMMAND --help`, or NULL */
    const char *examples; /* lines for `engine COMMAND --help`, each ended by a newline */
    const char *words;    /* what stands without an option in front, "MODEL"; NULL: nothing may */
    unsigned min_words, max_words;
    const char *choices; /* of the last of these words, blanks between them; NULL: anything */
    /* Returns the exit status; on failure it has printed why (command_fail). */
    int (*run)(const struct arguments *arguments);
};
extern const struct command commands[];

/* A command by name, or NULL. */
const struct command *command_find(const char *name);

/* Whether a word without an option in front is the name of a model rather than a text. */
bool is_model_name(const char *word);

/* Parses the command line; the strings stay in argv. Without a command name the command is `run`. False if it
 * is wrong: arguments->error then says why, and suggests the nearest option or command. arguments_free frees
 * the lists, also after an error. */
bool arguments_parse(int argc, char **argv, struct arguments *arguments);
void arguments_free(struct arguments *arguments);

/* Prints `engine --help`, or, with a command, that command's. */
void arguments_help(const struct command *command, FILE *out);

#endif
