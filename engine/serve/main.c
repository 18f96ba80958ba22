/* main.c: the program engine-serve, which `engine serve` runs. */
#include <stdio.h>

#include "engine.h"
#include "io/messages.h"
#include "io/signals.h"
#include "serve/server.h"

const struct command commands[] = {SERVE_COMMAND(serve), {.name = NULL}};

int main(int argc, char **argv)
{
    struct arguments arguments;
    int status = 0;
    signals_begin();
    if (!arguments_parse(argc, argv, &arguments))
        status = command_usage("%s", arguments.error);
    else if (arguments.help)
        arguments_help(arguments.command, stdout);
    else if (arguments.version)
        printf("engine %s\n", engine_version());
    else
        status = serve(&arguments);
    arguments_free(&arguments);
    return status;
}
