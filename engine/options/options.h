/* options.h: the table of all options, for arguments.c (parsing), help.c (--help) and `engine help` (pages
 * and completions). */
#ifndef ENGINE_OPTIONS_OPTIONS_H
#define ENGINE_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "options/arguments.h"

enum option_kind {
    OPTION_FLAG,   /* bool */
    OPTION_TEXT,   /* const char * */
    OPTION_NAMES,  /* const char *, one or more names separated by commas */
    OPTION_LIST,   /* struct argument_list */
    OPTION_U32,    /* uint32_t between minimum and maximum */
    OPTION_U64,    /* uint64_t, a seed: with -1 it is OPTION_RANDOM and not given */
    OPTION_FLOAT,  /* float between minimum and maximum */
    OPTION_CHOICE, /* const char *, one of `choices`; "N" among them allows any whole number */
};

#define OPTION_RANDOM UINT64_MAX

/* Headings of --help, in this order. */
enum option_group {
    GROUP_MAIN,
    GROUP_SERVER,
    GROUP_TEXT,
    GROUP_SAMPLING,
    GROUP_DEVICES,
    GROUP_GENERAL,
    GROUP_COUNT
};
extern const char *const option_group_titles[GROUP_COUNT];

struct option {
    const char *name;  /* without dashes */
    char letter;       /* 0: none */
    const char *value; /* the value's name in --help; NULL for flags */
    enum option_kind kind;
    enum option_group group;
    size_t target;           /* offset of the value in struct arguments */
    size_t given;            /* offset of a bool that is set if the option was given; 0: none */
    const char *commands;    /* names with a space around each (" run bench "); NULL: all commands */
    const char *initial;     /* the default, as typed; NULL: zero */
    double minimum, maximum; /* of numbers */
    const char *choices;     /* "f16|f32" */
    const char *also;        /* its names in other programs, as typed, with a space around each; NULL: none */
    bool devices;            /* the value begins with a device name, which shells complete */
    bool endless;            /* for OPTION_U32: accepts -1, which means no limit: UINT32_MAX */
    const char *minus_one;   /* for OPTION_U32: accepts -1, which means this value; NULL: it doesn't */
    const char *help;        /* a description; --help wraps it */
    const struct option *next; /* of a row without a name, which ends a part of the table: the next part */
};

/* The option after this one; the first after NULL; NULL after the last. */
const struct option *option_next(const struct option *option);

/* Whether a command takes an option. NULL for the command: whether the option works on its own (`engine
 * --version`). */
bool option_of(const struct option *option, const struct command *command);

/* Whether name [length], with its dashes, is an option that llama.cpp's programs have and this one doesn't.
 * *instead: what to do, or NULL. */
bool option_elsewhere(const char *name, size_t length, const char **instead);
/* What to do instead of an option of llama-server that `engine serve` doesn't have; NULL: nothing is
 * known. */
const char *option_for_requests(const char *name, size_t length);

/* ---- For the files that have a part of the table each ---- */

/* The parts, in their order, which is that of --help within a group. The last row of each names the next
 * one. */
extern const struct option options_models[];     /* options.c */
extern const struct option options_text[];       /* options-text.c */
extern const struct option options_measures[];   /* options-measures.c */
extern const struct option options_embeddings[]; /* options-measures.c */
extern const struct option options_others[];     /* options.c */
extern const struct option options_sampling[];   /* options-text.c */
extern const struct option options_serve[];      /* options.c */
extern const struct option options_devices[];    /* options.c */

/* How rows name fields and commands. */
#define AT(field) offsetof(struct arguments, field)

/* Commands that load a model onto devices, and those that open one. */
#define PLACING                                                                                              \
    " run chat batch serve logits attention score embed rerank classify perplexity imatrix bench plan "
#define RUNNING  " run chat batch logits attention score embed rerank classify perplexity imatrix bench plan "
#define GUESSING " run chat batch serve bench "
#define TALKING  " chat serve template "
#define READING                                                                                              \
    " run chat batch tokenize template logits attention score embed rerank classify perplexity imatrix "     \
    "bench plan "
#define WRITING  " run chat batch "
#define SAMPLING " run chat batch serve "

#endif
