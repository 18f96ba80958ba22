/* help.c: `engine help`: the tables of commands and options as --help, as manual pages, and as completions
 * for shells. The build runs it to make the files to install. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "commands/commands.h"
#include "engine.h"
#include "io/messages.h"
#include "options/options.h"

/* ---- Manual pages (man(7)) ----------------------------------------------------------------------------- */

/* Escapes text so that roff sees no requests or escapes in it. */
static void put_roff(const char *text)
{
    bool line_begins = true;
    for (; *text; text++) {
        if (line_begins && (*text == '.' || *text == '\'')) fputs("\\&", stdout);
        if (*text == '\\') {
            fputs("\\e", stdout);
        } else if (*text == '-') {
            fputs("\\-", stdout);
        } else {
            putchar(*text);
        }
        line_begins = *text == '\n';
    }
}

static void put_upper(const char *text)
{
    for (; *text; text++) {
        if (*text == '-') putchar('\\');
        putchar(toupper((unsigned char)*text));
    }
}

/* Paragraphs, separated by newlines. */
static void put_paragraphs(const char *text)
{
    while (text && *text) {
        size_t length = strcspn(text, "\n");
        char paragraph[2048];
        snprintf(paragraph, sizeof paragraph, "%.*s", (int)length, text);
        fputs(".PP\n", stdout);
        put_roff(paragraph);
        putchar('\n');
        text += length + (text[length] == '\n');
    }
}

static void man_option(const struct option *option)
{
    fputs(".TP\n", stdout);
    if (option->letter) printf("\\fB\\-%c\\fR, ", option->letter);
    fputs("\\fB\\-\\-", stdout);
    put_roff(option->name);
    fputs("\\fR", stdout);
    if (option->value) {
        fputs(" \\fI", stdout);
        put_roff(option->value);
        fputs("\\fR", stdout);
    }
    putchar('\n');
    put_roff(option->help);
    if (option->initial) {
        fputs(" (default: ", stdout);
        put_roff(option->initial);
        putchar(')');
    }
    putchar('\n');
}

static void man_options(const struct command *command)
{
    for (int group = 0; group < GROUP_COUNT; group++) {
        bool titled = false;
        for (const struct option *option = option_next(NULL); option; option = option_next(option)) {
            if ((int)option->group != group || !option_of(option, command)) continue;
            if (!titled) {
                fputs(".SH ", stdout);
                fputs(group == GROUP_MAIN ? "OPTIONS" : "\"OPTIONS: ", stdout);
                if (group != GROUP_MAIN) put_upper(option_group_titles[group]);
                puts(group == GROUP_MAIN ? "" : "\"");
            }
            titled = true;
            man_option(option);
        }
    }
}

static void man_end(const struct command *command)
{
    fputs(".SH EXIT STATUS\n", stdout);
    put_roff("0 for success; 1 for a failure, such as a file that is missing, damaged or too long for the "
             "model; 2 for a mistake on the command line, such as an unknown option, an impossible value or "
             "options that exclude each other.");
    putchar('\n');
    fputs(".SH SEE ALSO\n", stdout);
    if (command) fputs(".BR engine (1),\n", stdout);
    for (const struct command *other = commands; !command && other->name; other++)
        printf(".BR engine\\-%s (1),\n", other->name);
    fputs(".BR engine.conf (5),\n.BR engine\\-plugin (7)\n", stdout);
}

static void man_begin(const char *name, const char *summary)
{
    fputs(".TH ENGINE", stdout);
    if (name) fputs("\\-", stdout);
    if (name) put_upper(name);
    printf(" 1 \"\" \"engine %s\" \"engine\"\n.SH NAME\nengine%s%s \\- ", engine_version(), name ? "\\-" : "",
           name ? name : "");
    put_roff(summary);
    fputs("\n.SH SYNOPSIS\n", stdout);
}

static void man_of_command(const struct command *command)
{
    man_begin(command->name, command->summary);
    printf(".B engine %s\n", command->name);
    put_roff(command->synopsis);
    fputs("\n.SH DESCRIPTION\n", stdout);
    put_roff(command->summary);
    putchar('\n');
    put_paragraphs(command->details);
    man_options(command);
    if (command->examples) {
        fputs(".SH EXAMPLES\n.nf\n", stdout);
        put_roff(command->examples);
        fputs(".fi\n", stdout);
    }
    man_end(command);
}

static void man_of_engine(void)
{
    man_begin(NULL, "runs large language models on this machine");
    fputs(".B engine\n[\\fICOMMAND\\fR] [\\fIOPTION\\fR...]\n.SH DESCRIPTION\n", stdout);
    put_roff(
        "Reads a model (GGUF, a Hugging Face directory, or a llama2.c checkpoint), spreads it over the "
        "devices that it finds, and generates text. Everything that depends on hardware or on a vocabulary "
        "is in plugins. Without a command, engine runs a model. Each command has its own manual page.");
    fputs("\n.SH COMMANDS\n", stdout);
    for (const struct command *command = commands; command->name; command++) {
        printf(".TP\n\\fBengine %s\\fR\n", command->name);
        put_roff(command->summary);
        putchar('\n');
    }
    man_options(NULL);
    fputs(".SH ENVIRONMENT\n.TP\n.B ENGINE_PLUGIN_PATH\n", stdout);
    put_roff("Plugin folders, separated by colons, searched before the engine's own.");
    fputs("\n.SH FILES\n.TP\n.I /etc/engine/engine.conf\n.TQ\n.I ~/.config/engine/engine.conf\n", stdout);
    put_roff("Settings; see engine.conf(5).");
    putchar('\n');
    man_end(NULL);
}

/* ---- Completions --------------------------------------------------------------------------------------- */

/* The description of an option in completions: the first clause of its help. Returns its length. */
static size_t short_help(const struct option *option)
{
    size_t length = strcspn(option->help, ";(");
    while (length > 0 && option->help[length - 1] == ' ') length--;
    return length;
}

/* Text for zsh's single quotes, where no escape ends or makes a quote; puts \ before the characters in
 * `escaped`. */
static void put_zsh(const char *text, size_t length, const char *escaped)
{
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\'') {
            fputs("'\\''", stdout);
        } else {
            if (strchr(escaped, text[i])) putchar('\\');
            putchar(text[i]);
        }
    }
}

/* Text for fish's single quotes. */
static void put_fish(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (strchr("'\\", text[i])) putchar('\\');
        putchar(text[i]);
    }
}

/* The choices that can be typed, separated by blanks; not "N", which is a placeholder for a number. */
static void put_choices(const struct option *option)
{
    const char *choice = option->choices;
    for (bool first = true; *choice;) {
        size_t length = strcspn(choice, "|");
        if (strncmp(choice, "N", length) != 0) {
            printf("%s%.*s", first ? "" : " ", (int)length, choice);
            first = false;
        }
        choice += length + (choice[length] == '|');
    }
}

/* The length of the literal word that a command may begin with: "check" in "check FILE.so"; 0: there is none.
 * After it, and elsewhere, the completion is a file. */
static size_t keyword(const struct command *command)
{
    return command->words && islower((unsigned char)command->words[0]) ? strcspn(command->words, " ") : 0;
}

static void put_command_names(const char *between)
{
    for (const struct command *command = commands; command->name; command++)
        printf("%s%s", command == commands ? "" : between, command->name);
}

static void bash(void)
{
    fputs("# bash completion for engine, made by `engine help --format bash`.\n"
          "_engine()\n{\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=run word "
          "options=\n"
          "    for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
          "        case $word in\n            ",
          stdout);
    put_command_names(" | ");
    fputs(") command=$word && break ;;\n        esac\n    done\n    case $command:$prev in\n", stdout);
    for (const struct command *command = commands; command->name; command++)
        if (keyword(command))
            printf("        %s:%s) [[ $cur == -* ]] || mapfile -t COMPREPLY < <(compgen -W '%.*s' -- "
                   "\"$cur\") ;;\n",
                   command->name, command->name, (int)keyword(command), command->words);
    for (const struct option *option = option_next(NULL); option; option = option_next(option)) {
        if (option->kind != OPTION_CHOICE) continue;
        printf("        *:--%s)\n            mapfile -t COMPREPLY < <(compgen -W '", option->name);
        put_choices(option);
        fputs("' -- \"$cur\")\n            return ;;\n", stdout);
    }
    for (const struct option *option = option_next(NULL); option; option = option_next(option))
        if (option->devices)
            printf("        *:--%s)\n            mapfile -t COMPREPLY < <(compgen -P "
                   "\"${cur%%\"${cur##*,}\"}\" -W "
                   "\"$(\"${COMP_WORDS[0]}\" devices 2>/dev/null | awk 'NR > 1 { print $1 }')\" -- "
                   "\"${cur##*,}\")\n"
                   "            return ;;\n",
                   option->name);
    fputs("    esac\n    case $command in\n", stdout);
    for (const struct command *command = commands; command->name; command++) {
        printf("        %s) options='", command->name);
        for (const struct option *option = option_next(NULL); option; option = option_next(option)) {
            if (!option_of(option, command)) continue;
            printf("--%s ", option->name);
            if (option->letter) printf("-%c ", option->letter);
        }
        fputs("' ;;\n", stdout);
    }
    fputs("    esac\n    if [[ $cur == -* ]]; then\n"
          "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$cur\")\n",
          stdout);
    for (const struct command *command = commands; command->name; command++)
        if (command->choices)
            printf("    elif [ $command:$COMP_CWORD = %s:%u ]; then\n"
                   "        mapfile -t COMPREPLY < <(compgen -W '%s' -- \"$cur\")\n",
                   command->name, command->max_words + 1, command->choices);
    fputs("    elif [ \"$COMP_CWORD\" -eq 1 ]; then\n        mapfile -t COMPREPLY < <(compgen -W '", stdout);
    put_command_names(" ");
    fputs("' -- \"$cur\")\n    fi\n}\ncomplete -o default -F _engine engine\n", stdout);
}

static void zsh_option(const struct option *option)
{
    const char *several = option->kind == OPTION_LIST ? "*" : "";
    fputs("                ", stdout);
    if (option->letter && !several[0]) {
        printf("'(-%c --%s)'{-%c,--%s}'[", option->letter, option->name, option->letter, option->name);
    } else {
        printf("'%s--%s[", several, option->name);
    }
    put_zsh(option->help, short_help(option), "[]\\");
    putchar(']');
    if (option->value) {
        printf(":%s:", option->value);
        if (option->devices) {
            fputs("_engine_devices", stdout);
        } else if (option->kind == OPTION_CHOICE) {
            putchar('(');
            put_choices(option);
            putchar(')');
        } else if (strcmp(option->value, "FILE") == 0) {
            fputs("_files", stdout);
        } else if (strcmp(option->value, "DIR") == 0) {
            fputs("_files -/", stdout);
        }
    }
    fputs("' \\\n", stdout);
}

static void zsh(void)
{
    fputs("#compdef engine\n# zsh completion for engine, made by `engine help --format zsh`.\n"
          "_engine_devices() {\n    local -a names=(${(f)\"$(${words[1]} devices 2>/dev/null | awk 'NR > 1 { "
          "print $1 }')\"})\n"
          "    compset -P '*,'\n    compadd -S '' -- $names\n}\n"
          "_engine() {\n    local command=run word\n    for word in ${words[2,CURRENT-1]}; do\n        case "
          "$word in\n"
          "            ",
          stdout);
    put_command_names("|");
    fputs(") command=$word; break ;;\n        esac\n    done\n    if (( CURRENT == 2 )) && [[ $PREFIX != -* "
          "]]; then\n"
          "        local -a commands=(\n",
          stdout);
    for (const struct command *command = commands; command->name; command++) {
        printf("            '%s:", command->name);
        put_zsh(command->summary, strlen(command->summary), ":\\");
        fputs("'\n", stdout);
    }
    fputs("        )\n        _describe command commands\n        return\n    fi\n    case $command in\n",
          stdout);
    for (const struct command *command = commands; command->name; command++) {
        printf("        %s)\n            _arguments -s \\\n", command->name);
        for (const struct option *option = option_next(NULL); option; option = option_next(option))
            if (option_of(option, command)) zsh_option(option);
        if (keyword(command)) /* the command itself is the first word */
            printf("                '2:word:(%.*s)' \\\n", (int)keyword(command), command->words);
        if (command->choices)
            printf("                '%u:type:(%s)' \\\n", command->max_words + 1, command->choices);
        fputs("                '*:file:_files' ;;\n", stdout);
    }
    fputs("    esac\n}\n_engine \"$@\"\n", stdout);
}

static void fish(void)
{
    fputs("# fish completion for engine, made by `engine help --format fish`.\n", stdout);
    for (const struct command *command = commands; command->name; command++) {
        printf("complete -c engine -n __fish_use_subcommand -a %s -d '", command->name);
        put_fish(command->summary, strlen(command->summary));
        fputs("'\n", stdout);
        if (keyword(command)) /* no files before it */
            printf("complete -c engine -n '__fish_seen_subcommand_from %s; and not "
                   "__fish_seen_subcommand_from %.*s' -f "
                   "-a %.*s\n",
                   command->name, (int)keyword(command), command->words, (int)keyword(command),
                   command->words);
        if (command->choices)
            printf("complete -c engine -n '__fish_seen_subcommand_from %s' -a '%s'\n", command->name,
                   command->choices);
        for (const struct option *option = option_next(NULL); option; option = option_next(option)) {
            if (!option_of(option, command)) continue;
            const char *also = strcmp(command->name, "run") == 0 ? "; or __fish_use_subcommand" : "";
            printf("complete -c engine -n '__fish_seen_subcommand_from %s%s' -l %s", command->name, also,
                   option->name);
            if (option->letter) printf(" -s %c", option->letter);
            if (option->value) fputs(" -r", stdout);
            if (option->devices)
                fputs(" -x -a '(engine devices 2>/dev/null | tail -n +2 | string split -f 1 \" \")'", stdout);
            if (option->kind == OPTION_CHOICE) {
                fputs(" -x -a '", stdout);
                put_choices(option);
                putchar('\'');
            }
            fputs(" -d '", stdout);
            put_fish(option->help, short_help(option));
            fputs("'\n", stdout);
        }
    }
}

/* ---- The command --------------------------------------------------------------------------------------- */

int command_help(const struct arguments *arguments)
{
    const char *name = arguments->words.count ? arguments->words.items[0] : NULL;
    const char *format = arguments->format ? arguments->format : "text";
    const struct command *command = name ? command_find(name) : NULL;
    if (name && !command) return command_usage("help: there is no command '%s'; see engine --help", name);
    if (strcmp(format, "text") == 0) {
        arguments_help(command, stdout);
    } else if (strcmp(format, "man") == 0 && command) {
        man_of_command(command);
    } else if (strcmp(format, "man") == 0) {
        man_of_engine();
    } else if (name) {
        return command_usage("help: completions cover all commands: use engine help --format %s", format);
    } else if (strcmp(format, "bash") == 0) {
        bash();
    } else if (strcmp(format, "zsh") == 0) {
        zsh();
    } else {
        fish();
    }
    return 0;
}
