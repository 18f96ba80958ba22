/* options-serve.c: the options of `engine serve` that no other command has. Names that llama-server has too are the same here. */
#include "commands/options-table.h"

#define SERVE_TEXT(NAME, VALUE, KIND, FIELD, ALSO, HELP)                                                     \
    {                                                                                                        \
        .name = NAME, .value = VALUE, .kind = KIND, .group = GROUP_SERVER, .target = AT(FIELD),              \
        .commands = " serve ", .also = ALSO, .help = HELP                                                    \
    }

#define SERVE_FLAG(NAME, FIELD, HELP)                                                                        \
    {                                                                                                        \
        .name = NAME, .kind = OPTION_FLAG, .group = GROUP_SERVER, .target = AT(FIELD),                       \
        .commands = " serve ", .help = HELP                                                                  \
    }

#define SERVE_NUMBER(NAME, VALUE, FIELD, INITIAL, LEAST, MOST, ALSO, HELP)                                   \
    {                                                                                                        \
        .name = NAME, .value = VALUE, .kind = OPTION_U32, .group = GROUP_SERVER, .target = AT(FIELD),        \
        .commands = " serve ", .initial = INITIAL, .minimum = LEAST, .maximum = MOST, .also = ALSO,          \
        .help = HELP                                                                                         \
    }

const struct option options_serve[] = {
    {.name = "host",
     .value = "NAME",
     .kind = OPTION_TEXT,
     .group = GROUP_SERVER,
     .target = AT(host),
     .given = AT(host_given),
     .commands = " serve ",
     .initial = "127.0.0.1",
     .help =
         "The name or address to listen on; `0.0.0.0` or `::` is every one, which needs a key or --insecure"},
    SERVE_NUMBER("port", "N", port, "8080", 0, 65535, NULL, "The port; 0: any free one, which is printed"),
    SERVE_TEXT("unix", "PATH", OPTION_TEXT, unix_path, NULL,
               "Listens on a Unix socket, and on the network only with --host"),
    SERVE_TEXT("api-key", "KEY", OPTION_LIST, api_keys, NULL,
               "A key that requests have to bring; may be repeated. Others on this machine can see it in the "
               "list of processes; --api-key-file keeps it to itself"),
    SERVE_TEXT("api-key-file", "FILE", OPTION_TEXT, api_key_file, NULL,
               "Reads keys from a file, one a line; SIGHUP reads it again"),
    SERVE_FLAG("insecure", insecure, "Listens beyond this machine without a key"),
    SERVE_TEXT("ssl-cert-file", "FILE", OPTION_TEXT, ssl_cert_file, NULL,
               "Serves with TLS: the certificate and its chain, in PEM; SIGHUP reads it again"),
    SERVE_TEXT("ssl-key-file", "FILE", OPTION_TEXT, ssl_key_file, NULL, "The key of the certificate, in PEM"),
    SERVE_TEXT(
        "cors", "ORIGIN", OPTION_LIST, cors, NULL,
        "Lets web pages of another site ask, such as `https://example.org`, or `*` for all; may be repeated"),
    SERVE_NUMBER("models-max", "N", models_max, "0", 0, 10000, NULL,
                 "Number of models that are loaded at once; 0: no limit"),
    SERVE_NUMBER("models-memory", "MIB", models_memory_mib, "0", 0, 4e9, NULL,
                 "Memory for all loaded models together, on all devices; the least recently used one is "
                 "unloaded to make room; 0: no limit"),
    SERVE_NUMBER("parallel", "N", n_parallel, "8", 1, 1024, " -np ",
                 "Number of texts that a model generates at once"),
    SERVE_NUMBER("queue", "N", n_waiting, "512", 1, 1e6, NULL,
                 "Number of requests that may wait for a model; more are refused with status 429"),
    SERVE_NUMBER("max-tokens", "N", most_tokens, "0", 0, 1e9, NULL,
                 "Most tokens that a request may have generated; 0: as many as the context has room for"),
    SERVE_NUMBER("max-body", "MIB", body_mib, "16", 1, 4096, NULL, "Largest body of a request"),
    SERVE_NUMBER("max-header", "KIB", header_kib, "64", 4, 1024, NULL, "Largest header of a request"),
    SERVE_FLAG("strict", strict_requests,
               "Refuses requests with fields that the server doesn't know, instead of ignoring these"),
    SERVE_NUMBER("attention-tokens", "N", most_attention, "512", 0, 65536, NULL,
                 "The longest conversation whose attention weights can be asked for, in tokens; 0: none"),
    SERVE_NUMBER(
        "max-unread", "KIB", pending_kib, "4096", 64, 1e6, NULL,
        "Most of a streamed answer that may wait for a client that reads slowly, before it is broken off"),
    SERVE_NUMBER("connections", "N", n_connections, "1000", 1, 1e5, NULL, "Number of open connections"),
    SERVE_NUMBER("connections-each", "N", n_connections_each, "1000", 1, 1e5, NULL,
                 "Number of open connections from one address"),
    SERVE_NUMBER("threads-http", "N", n_workers, "4", 1, 256, NULL,
                 "Number of threads that read requests and make tokens of them"),
    SERVE_NUMBER("request-timeout", "SECONDS", request_seconds, "30", 1, 1e6, NULL,
                 "How long a request may take to arrive; its body gets a second more for each 4 KiB"),
    SERVE_NUMBER("idle-timeout", "SECONDS", idle_seconds, "120", 1, 1e6, NULL,
                 "How long a connection may stay open without any data"),
    SERVE_NUMBER("ping-interval", "SECONDS", ping_seconds, "5", 0, 1e6, NULL,
                 "After how long without an event a streamed answer gets a line that says nothing, so that "
                 "clients and proxies keep waiting; 0: never"),
    SERVE_NUMBER("timeout", "SECONDS", time_limit, "0", 0, 1e8, NULL,
                 "How long a request may take altogether before it is broken off; 0: no limit"),
    SERVE_NUMBER("grace", "SECONDS", grace_seconds, "30", 0, 1e6, NULL,
                 "How long requests in progress may go on after SIGTERM or Ctrl-C"),
    SERVE_FLAG("truncate", truncate,
               "Cuts texts for embeddings and reranking that are longer than the model reads, instead of "
               "refusing them, "
               "unless a request says `truncate`"),
    {.name = "log-format",
     .value = "FORMAT",
     .kind = OPTION_CHOICE,
     .group = GROUP_SERVER,
     .target = AT(log_format),
     .commands = " serve ",
     .initial = "text",
     .choices = "text|json",
     .help = "Format of the log, a line for each request on standard error: text or json"},
    SERVE_FLAG("log-prompts", log_prompts, "Writes the bodies of requests to the log as well"),
    {.next = options_devices},
};
