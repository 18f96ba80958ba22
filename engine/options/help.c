/* help.c: `engine --help` and `engine COMMAND --help`, made from the tables of commands and options. */
#include <stdio.h>
#include <string.h>

#include "options/arguments.h"
#include "options/options.h"

#define WIDTH  90
#define INDENT 30 /* column where the description of an option begins */

/* A blank where lines are not broken. */
#define TIGHT '\x1f'

/* Prints text from column `column` on, broken at blanks before WIDTH; continued lines begin at `indent`. */
static void print_wrapped(FILE *out, const char *text, size_t column, size_t indent)
{
    bool first = true;
    while (*text) {
        size_t length = strcspn(text, " ");
        if (!first && column + 1 + length > WIDTH) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!first) {
            fputc(' ', out);
            column++;
        }
        for (size_t i = 0; i < length; i++) fputc(text[i] == TIGHT ? ' ' : text[i], out);
        column += length;
        text += length + (text[length] == ' ');
        first = false;
    }
    fputc('\n', out);
}

static void print_option(FILE *out, const struct option *option)
{
    char left[64], text[512];
    int length = snprintf(left, sizeof left, "  %c%c%s --%s%s%s", option->letter ? '-' : ' ',
                          option->letter ? option->letter : ' ', option->letter ? "," : " ", option->name,
                          option->value ? " " : "", option->value ? option->value : "");
    if (option->initial) {
        snprintf(text, sizeof text, "%s (default:%c%s)", option->help, TIGHT, option->initial);
    } else {
        snprintf(text, sizeof text, "%s", option->help);
    }
    if (length + 2 > INDENT) {
        fprintf(out, "%s\n%*s", left, INDENT, "");
    } else {
        fprintf(out, "%-*s", INDENT, left);
    }
    print_wrapped(out, text, INDENT, INDENT);
}

static void print_options(const struct command *command, FILE *out)
{
    for (int group = 0; group < GROUP_COUNT; group++) {
        bool titled = false;
        for (const struct option *option = option_next(NULL); option; option = option_next(option)) {
            if ((int)option->group != group || !option_of(option, command)) continue;
            if (!titled) fprintf(out, "\n%s:\n", option_group_titles[group]);
            titled = true;
            print_option(out, option);
        }
    }
}

static void print_commands(FILE *out)
{
    fputs("Usage: engine [COMMAND] [OPTION…]\n\nRuns large language models on this machine. Without a "
          "command, engine runs a model.\n\nCommands:\n",
          out);
    for (const struct command *command = commands; command->name; command++) {
        fprintf(out, "  %-12s", command->name);
        print_wrapped(out, command->summary, 14, 14);
    }
    print_options(NULL, out);
    fputs("\nengine COMMAND --help shows a command's options and examples.\n", out);
}

void arguments_help(const struct command *command, FILE *out)
{
    if (!command) {
        print_commands(out);
        return;
    }
    fprintf(out, "Usage: engine %s%s%s\n\n", command->name, command->synopsis[0] ? " " : "",
            command->synopsis);
    print_wrapped(out, command->summary, 0, 0);
    for (const char *line = command->details; line && *line;) {
        /* Paragraphs are separated by newlines. */
        size_t length = strcspn(line, "\n");
        char paragraph[1024];
        snprintf(paragraph, sizeof paragraph, "%.*s", (int)length, line);
        fputc('\n', out);
        print_wrapped(out, paragraph, 0, 0);
        line += length + (line[length] == '\n');
    }
    print_options(command, out);
    if (command->examples) fprintf(out, "\nExamples:\n%s", command->examples);
}
