/* arguments.c: parses the command line using the table of options (options.h). See arguments.h. */
#include "options/arguments.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "engine.h"
#include "options/options.h"

static bool ENGINE_PRINTF(2, 3) refuse(struct arguments *arguments, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(arguments->error, sizeof arguments->error, format, args);
    va_end(args);
    return false;
}

const struct command *command_find(const char *name)
{
    for (const struct command *command = commands; command->name; command++) {
        if (strcmp(command->name, name) == 0) return command;
    }
    return NULL;
}

/* ---- Suggestions --------------------------------------------------------------------------------------- */

#define MAX_NAME 64

/* Edits (insertions, deletions, replacements) that turn a into b; Levenshtein distance, row by row. */
static size_t distance(const char *a, size_t a_length, const char *b)
{
    size_t b_length = strlen(b), row[MAX_NAME + 1]; /* [b_length + 1] */
    if (a_length > MAX_NAME || b_length > MAX_NAME) return SIZE_MAX;
    for (size_t j = 0; j <= b_length; j++) row[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            size_t added = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = replaced < added ? replaced : added;
        }
    }
    return row[b_length];
}

/* The name nearest to the typed one, for "did you mean". */
struct nearest {
    const char *typed;
    size_t length;
    const char *name;
    size_t distance;
};

static struct nearest nearest_to(const char *typed, size_t length)
{
    /* A name that differs in more than a third of its letters is another word, not a misspelling. */
    return (struct nearest){.typed = typed, .length = length, .distance = (length + 2) / 3 + 1};
}

static void nearest_try(struct nearest *nearest, const char *name)
{
    size_t d = distance(nearest->typed, nearest->length, name);
    size_t length = strlen(name), shorter = length < nearest->length ? length : nearest->length;
    /* "temperature" for "temp", "thread" for "threads": one begins with the other. */
    if (shorter >= 3 && strncmp(nearest->typed, name, shorter) == 0 && d > 1) d = 1;
    if (d < nearest->distance) {
        nearest->distance = d;
        nearest->name = name;
    }
}

static const char *nearest_command(const char *typed)
{
    struct nearest nearest = nearest_to(typed, strlen(typed));
    for (const struct command *command = commands; command->name; command++) {
        nearest_try(&nearest, command->name);
    }
    return nearest.name;
}

/* ---- Values -------------------------------------------------------------------------------------------- */

/* Digits to a number; sets *too_large if it doesn't fit. */
static bool read_whole(const char *text, uint64_t *value, bool *too_large)
{
    if (!isdigit((unsigned char)text[0])) return false;
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    *too_large = errno == ERANGE;
    return *end == '\0';
}

static bool set_whole(struct arguments *arguments, const struct option *option, const char *text)
{
    uint64_t number;
    bool too_large;
    void *target = (char *)arguments + option->target;
    if (option->endless && strcmp(text, "-1") == 0) {
        *(uint32_t *)target = UINT32_MAX;
        return true;
    }
    if (option->minus_one && strcmp(text, "-1") == 0) text = option->minus_one;
    if (option->kind == OPTION_U64 && strcmp(text, "-1") == 0) {
        *(uint64_t *)target = OPTION_RANDOM;
        return true;
    }
    if (!read_whole(text, &number, &too_large)) {
        uint64_t size;
        bool negative = text[0] == '-' && read_whole(text + 1, &size, &too_large);
        return refuse(arguments, "--%s: '%s' is %s", option->name, text,
                      !negative         ? "not a whole number"
                      : option->endless ? "negative, and only -1 may be: no limit"
                                        : "negative");
    }
    if (option->kind == OPTION_U64) {
        if (too_large) return refuse(arguments, "--%s: %s is too large", option->name, text);
        *(uint64_t *)target = number;
        return true;
    }
    if (too_large || number > (uint64_t)option->maximum || number < (uint64_t)option->minimum) {
        return refuse(arguments, "--%s: %s is out of range (%.0f to %.0f)", option->name, text,
                      option->minimum, option->maximum);
    }
    *(uint32_t *)target = (uint32_t)number;
    return true;
}

static bool set_float(struct arguments *arguments, const struct option *option, const char *text)
{
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end || isspace((unsigned char)text[0]) || isnan(number)) {
        return refuse(arguments, "--%s: '%s' is not a number", option->name, text);
    }
    if (number < option->minimum || number > option->maximum) {
        return refuse(arguments, "--%s: %s is out of range (%g to %g)", option->name, text, option->minimum,
                      option->maximum);
    }
    *(float *)((char *)arguments + option->target) = (float)number;
    return true;
}

static bool set_names(struct arguments *arguments, const struct option *option, const char *text)
{
    if (text[strspn(text, ", ")] == '\0') {
        return refuse(arguments, "--%s: '%s' contains no name; use --%s %s", option->name, text, option->name,
                      option->value);
    }
    *(const char **)((char *)arguments + option->target) = text;
    return true;
}

static bool is_choice(const struct option *option, const char *text)
{
    for (const char *choice = option->choices; choice && *choice;) {
        size_t length = strcspn(choice, "|");
        uint64_t number;
        bool too_large, matches = strlen(text) == length && memcmp(text, choice, length) == 0;
        if (length == 1 && choice[0] == 'N') {
            matches = read_whole(text, &number, &too_large) && !too_large && number <= INT32_MAX;
        }
        if (matches) return true;
        choice += length + (choice[length] == '|');
    }
    return false;
}

static bool set_choice(struct arguments *arguments, const struct option *option, const char *text)
{
    if (is_choice(option, text)) {
        *(const char **)((char *)arguments + option->target) = text;
        return true;
    }
    return refuse(arguments, "--%s: '%s' is not one of %s", option->name, text, option->choices);
}

static bool argument_list_add(struct arguments *arguments, struct argument_list *list, const char *item)
{
    if (!ARRAY_GROW(list->items, list->count + 1)) return refuse(arguments, "out of memory (arguments)");
    list->items[list->count++] = item;
    list->items[list->count] = NULL;
    return true;
}

/* Stores a typed value, or a default. Flags have none. */
static bool set_value(struct arguments *arguments, const struct option *option, const char *text)
{
    void *target = (char *)arguments + option->target;
    switch (option->kind) {
    case OPTION_FLAG: *(bool *)target = true; return true;
    case OPTION_TEXT: *(const char **)target = text; return true;
    case OPTION_NAMES: return set_names(arguments, option, text);
    case OPTION_LIST: return argument_list_add(arguments, target, text);
    case OPTION_U32:
    case OPTION_U64: return set_whole(arguments, option, text);
    case OPTION_FLOAT: return set_float(arguments, option, text);
    case OPTION_CHOICE: return set_choice(arguments, option, text);
    }
    return false;
}

/* ---- Options ------------------------------------------------------------------------------------------- */

/* The command that takes the typed option, for a hint, if the current one doesn't. */
static const char *other_command(const char *name, size_t length, char letter)
{
    for (const struct option *option = option_next(NULL); option; option = option_next(option)) {
        bool same = name ? strlen(option->name) == length && memcmp(option->name, name, length) == 0
                         : option->letter == letter;
        for (const struct command *command = commands; same && command->name; command++) {
            if (option_of(option, command)) return command->name;
        }
    }
    return NULL;
}

static bool refuse_option(struct arguments *arguments, const char *typed, const char *name, size_t length,
                          char letter)
{
    const char *command = arguments->command->name, *other = other_command(name, length, letter);
    if (other) {
        return refuse(arguments, "%s has no option %s (%s has); see engine %s --help", command, typed, other,
                      command);
    }
    struct nearest nearest = nearest_to(name ? name : "", length);
    for (const struct option *option = option_next(NULL); name && option; option = option_next(option)) {
        if (option_of(option, arguments->command)) nearest_try(&nearest, option->name);
    }
    if (nearest.name) {
        return refuse(arguments, "unknown option %s; did you mean --%s?", typed, nearest.name);
    }
    return refuse(arguments, "unknown option %s; see engine %s --help", typed, command);
}

/* Whether an option has this name in other programs, dashes included. */
static bool has_foreign_name(const struct option *option, const char *typed, size_t length)
{
    char word[MAX_NAME];
    if (!option->also || length > sizeof word - 3) return false;
    snprintf(word, sizeof word, " %.*s ", (int)length, typed);
    return strstr(option->also, word) != NULL;
}

static const struct option *find_option(const struct command *command, const char *name, size_t length,
                                        char letter)
{
    for (const struct option *option = option_next(NULL); option; option = option_next(option)) {
        bool same = name ? strlen(option->name) == length && memcmp(option->name, name, length) == 0
                         : option->letter && option->letter == letter;
        if (same && option_of(option, command)) return option;
    }
    return NULL;
}

/* By its name in other programs, dashes included. */
static const struct option *find_foreign(const struct command *command, const char *typed, size_t length)
{
    for (const struct option *option = option_next(NULL); option; option = option_next(option))
        if (has_foreign_name(option, typed, length) && option_of(option, command)) return option;
    return NULL;
}

static bool refuse_with_advice(struct arguments *arguments, const char *typed, size_t length,
                               const char *instead)
{
    const char *command = arguments->command->name;
    return refuse(arguments, "%s has no option %.*s%s%s; see engine %s --help", command, (int)length, typed,
                  instead ? ": " : "", instead ? instead : "", command);
}

/* Refuses name [length], such as "-fa" or "--keep", if it is an option of another command, or of llama.cpp's
 * programs alone. True if it is neither. `known`: a command has an option of this very name. */
static bool check_elsewhere(struct arguments *arguments, const char *typed, size_t length, bool known)
{
    const char *instead = NULL, *command = arguments->command->name;
    if (strcmp(command, "serve") == 0) instead = option_for_requests(typed, length);
    if (instead) return refuse_with_advice(arguments, typed, length, instead);
    if (known) return true;
    for (const struct option *option = option_next(NULL); option; option = option_next(option)) {
        if (!has_foreign_name(option, typed, length)) continue;
        for (const struct command *other = commands; other->name; other++)
            if (option_of(option, other))
                return refuse(arguments, "%s has no option %.*s (%s has); see engine %s --help", command,
                              (int)length, typed, other->name, command);
    }
    if (!option_elsewhere(typed, length, &instead)) return true;
    return refuse_with_advice(arguments, typed, length, instead);
}

/* The same of a word with one dash and several letters: as letters, it would be something else. */
static bool check_word_elsewhere(struct arguments *arguments, const char *typed)
{
    size_t length = 1 + strspn(typed + 1, "abcdefghijklmnopqrstuvwxyz-");
    bool ends = !typed[length] || typed[length] == '=' || isdigit((unsigned char)typed[length]);
    return length < 3 || !ends || check_elsewhere(arguments, typed, length, false);
}

static bool arguments_apply(struct arguments *arguments, const struct option *option, const char *text)
{
    if (option->value && !text) {
        return refuse(arguments, "--%s needs a value: --%s %s", option->name, option->name, option->value);
    }
    if (!set_value(arguments, option, text ? text : "")) return false;
    if (option->given)
        *(bool *)((char *)arguments + option->given) =
            option->kind != OPTION_U64 || !text || strcmp(text, "-1") != 0;
    return true;
}

/* --name, --name value, --name=value. `next` is the next argument, or NULL; *used: whether it was taken. */
static bool parse_long(struct arguments *arguments, const char *typed, const char *next, bool *used)
{
    const char *name = typed + 2, *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const struct option *option = find_option(arguments->command, name, length, 0);
    if (!option) option = find_foreign(arguments->command, typed, length + 2);
    if (!option) {
        char shown[MAX_NAME + 4];
        snprintf(shown, sizeof shown, "%.*s", (int)(length < MAX_NAME ? length : MAX_NAME) + 2, typed);
        bool known = other_command(name, length, 0);
        if (!check_elsewhere(arguments, typed, length + 2, known)) return false;
        return refuse_option(arguments, shown, name, length, 0);
    }
    if (!option->value) {
        if (equals) return refuse(arguments, "--%s takes no value", option->name);
        return arguments_apply(arguments, option, NULL);
    }
    *used = !equals && next;
    return arguments_apply(arguments, option, equals ? equals + 1 : next);
}

/* Other programs' -name value, -name9, -name-1, -name=value and -nameauto. *value: where the value begins;
 * NULL: it is the next word. */
static const struct option *find_foreign_glued(const struct command *command, const char *typed,
                                               const char **value)
{
    for (size_t n = strlen(typed); n >= 2; n--) {
        const char *rest = typed + n;
        const struct option *option = find_foreign(command, typed, n);
        if (!option || (*rest && !option->value)) continue;
        bool number = isdigit((unsigned char)rest[rest[0] == '-']);
        if (*rest && *rest != '=' && !number && !is_choice(option, rest)) continue;
        *value = *rest ? rest + (*rest == '=') : NULL;
        return option;
    }
    return NULL;
}

static bool takes_number(const struct option *option)
{
    return option->kind == OPTION_U32 || option->kind == OPTION_U64 || option->kind == OPTION_FLOAT;
}

/* -x, -x value, -xvalue, -x=value, several flags together (-0v), and other programs' options with one
 * dash. */
static bool parse_short(struct arguments *arguments, const char *typed, const char *next, bool *used)
{
    const char *value = NULL;
    const struct option *foreign = find_foreign_glued(arguments->command, typed, &value);
    if (foreign) {
        *used = foreign->value && !value && next;
        return arguments_apply(arguments, foreign, value || !foreign->value ? value : next);
    }
    if (!check_word_elsewhere(arguments, typed)) return false;
    for (const char *letter = typed + 1; *letter; letter++) {
        const struct option *option = find_option(arguments->command, NULL, 0, *letter);
        if (!option) {
            char shown[3] = {'-', *letter, '\0'};
            /* A character beyond ASCII would be shown in part: then show all of it. */
            bool plain = isgraph((unsigned char)*letter);
            bool known = other_command(NULL, 0, *letter);
            if (!check_elsewhere(arguments, shown, 2, known)) return false;
            return refuse_option(arguments, plain ? shown : typed, NULL, 0, *letter);
        }
        value = letter + 1 + (letter[1] == '=');
        if (option->value && takes_number(option) && isalpha((unsigned char)*value))
            return refuse(arguments, "unknown option %.100s: -%c, --%s, takes a number; see engine %s --help",
                          typed, *letter, option->name, arguments->command->name);
        if (option->value) {
            *used = !letter[1] && next;
            return arguments_apply(arguments, option, letter[1] ? value : next);
        }
        if (letter[1] == '=') return refuse(arguments, "--%s takes no value", option->name);
        if (!arguments_apply(arguments, option, NULL)) return false;
    }
    return true;
}

/* ---- The whole line ------------------------------------------------------------------------------------ */

bool is_model_name(const char *word)
{
    const char *dot = strrchr(word, '.');
    if (!dot || (strcmp(dot, ".gguf") != 0 && strcmp(dot, ".bin") != 0)) return false;
    return !strchr(word, ' ') || access(word, F_OK) == 0; /* a text may end in a file's name */
}

/* Removes the command's name from the start of the line. */
static bool parse_command(int argc, char **argv, struct arguments *arguments, int *next)
{
    *next = 1;
    if (!commands[1].name) {
        arguments->command = &commands[0];
        if (argc > 1 && strcmp(argv[1], commands[0].name) == 0) *next = 2;
        return true;
    }
    if (argc > 1 && argv[1][0] != '-') {
        *next = 2;
        arguments->command = command_find(argv[1]);
        if (arguments->command) return true;
        if (is_model_name(argv[1])) {
            *next = 1; /* the word belongs to run */
            arguments->command = command_find("run");
            return true;
        }
        const char *nearest = nearest_command(argv[1]);
        if (nearest) {
            return refuse(arguments, "unknown command '%.100s'; did you mean %s?", argv[1], nearest);
        }
        return refuse(arguments, "unknown command '%.100s'; see engine --help (for a prompt, use -p)",
                      argv[1]);
    }
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        arguments->help = true;
        return true;
    }
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        arguments->version = true;
        return true;
    }
    arguments->command = command_find("run");
    if (!arguments->command) return refuse(arguments, "no command; see engine --help");
    return true;
}

static bool check_words(struct arguments *arguments, bool command_is_named)
{
    const struct command *command = arguments->command;
    const struct argument_list *words = &arguments->words;
    if (words->count < command->min_words) {
        return refuse(arguments, "%s: %s is missing; see engine %s --help", command->name, command->words,
                      command->name);
    }
    /* Without a command's name it is run, and this word might be a text; more likely it is a command. */
    for (size_t i = command_is_named ? command->max_words : 0; i < words->count; i++) {
        const struct command *meant = command_find(words->items[i]);
        if (meant)
            return refuse(arguments, "put the command first: engine %s …; see engine %s --help", meant->name,
                          meant->name);
    }
    if (words->count > command->max_words)
        return refuse(arguments, "%s: unexpected '%.100s'; see engine %s --help", command->name,
                      words->items[command->max_words], command->name);
    return true;
}

bool arguments_parse(int argc, char **argv, struct arguments *arguments)
{
    int i;
    memset(arguments, 0, sizeof *arguments);
    arguments->typed = argv;
    if (!parse_command(argc, argv, arguments, &i)) return false;
    if (!arguments->command) return true;

    for (const struct option *option = option_next(NULL); option; option = option_next(option)) {
        if (option->initial && option_of(option, arguments->command) &&
            !set_value(arguments, option, option->initial)) {
            return false;
        }
    }
    bool only_words = false, command_is_named = i == 2;
    while (i < argc) {
        char *typed = argv[i++], *next = i < argc ? argv[i] : NULL;
        bool used = false, good;
        if (!only_words && strcmp(typed, "--") == 0) {
            only_words = true;
            good = true;
        } else if (only_words || typed[0] != '-' || typed[1] == '\0') {
            good = argument_list_add(arguments, &arguments->words, typed);
        } else if (typed[1] == '-') {
            good = parse_long(arguments, typed, next, &used);
        } else {
            good = parse_short(arguments, typed, next, &used);
        }
        if (!good) return false;
        i += used;
    }
    return arguments->help || arguments->version || check_words(arguments, command_is_named);
}

bool arguments_set(struct arguments *arguments, const char *name, const char *value)
{
    char foreign[MAX_NAME];
    snprintf(foreign, sizeof foreign, "--%.*s", MAX_NAME - 3, name);
    const struct option *option = find_option(arguments->command, name, strlen(name), 0);
    if (!option) option = find_foreign(arguments->command, foreign, strlen(foreign));
    if (!option || !option->value || option->kind == OPTION_LIST ||
        (option->group != GROUP_SAMPLING && option->target != offsetof(struct arguments, n_predict)))
        return refuse(arguments,
                      "%.40s cannot be set; the options of sampling with one value can, and predict", name);
    return arguments_apply(arguments, option, value);
}

void arguments_free(struct arguments *arguments)
{
    for (const struct option *option = option_next(NULL); option; option = option_next(option)) {
        if (option->kind != OPTION_LIST) continue;
        struct argument_list *list = (void *)((char *)arguments + option->target);
        free(list->items);
        *list = (struct argument_list){0}; /* other entries may have the same target */
    }
    free(arguments->words.items);
}
