/* serve.h: the command `serve`, as the tables of two programs have it: `engine`, which executes engine-serve, and
 * engine-serve. */
#ifndef ENGINE_COMMANDS_SERVE_H
#define ENGINE_COMMANDS_SERVE_H

#include "commands/arguments.h"

/* Executes engine-serve with the same arguments. Returns only if that fails. */
int command_serve(const struct arguments *arguments);

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

#endif
