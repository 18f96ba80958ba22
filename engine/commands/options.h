/* options.h: the table of all options, for arguments.c (parsing) and help.c (--help). */
#ifndef ENGINE_COMMANDS_OPTIONS_H
#define ENGINE_COMMANDS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "commands/arguments.h"

enum option_kind {
    OPTION_FLAG,   /* bool */
    OPTION_TEXT,   /* const char * */
    OPTION_NAMES,  /* const char *, names with commas between them, one at least */
    OPTION_LIST,   /* struct argument_list */
    OPTION_U32,    /* uint32_t between minimum and maximum */
    OPTION_U64,    /* uint64_t */
    OPTION_FLOAT,  /* float between minimum and maximum */
    OPTION_CHOICE, /* const char *, one of `choices`, which may hold "N" for any whole number */
};

/* Headings of --help, in this order. */
enum option_group { GROUP_MAIN, GROUP_TEXT, GROUP_SAMPLING, GROUP_DEVICES, GROUP_GENERAL, GROUP_COUNT };
extern const char *const option_group_titles[GROUP_COUNT];

struct option {
    const char *name;  /* without dashes */
    char letter;       /* 0: none */
    const char *value; /* what --help calls the value; NULL for flags */
    enum option_kind kind;
    enum option_group group;
    size_t target;           /* offset of the value in struct arguments */
    size_t given;            /* offset of a bool that tells that it was given; 0: none */
    const char *commands;    /* names with a blank around each (" run bench "); NULL: all commands */
    const char *initial;     /* the default, as it would be typed; NULL: zero */
    double minimum, maximum; /* of numbers */
    const char *choices;     /* "f16|f32" */
    const char
        *also; /* what other programs call it, as it is typed, with a blank around each; NULL: nothing else */
    bool devices;     /* the value begins with a device's name: shells complete it */
    bool endless;     /* of OPTION_U32: -1 may be typed, for as much as there can be: UINT32_MAX */
    const char *help; /* what it does; wrapped by --help */
};
extern const struct option options[]; /* ended by one without a name */

/* Whether a command takes an option. NULL for a command: whether it stands alone (`engine --version`). */
bool option_of(const struct option *option, const struct command *command);

#endif
