/* options.c: see options.h. The options of models, devices, the server, and the commands that have few;
 * options-text.c and options-measures.c have the others. Names that llama.cpp's programs have too are the
 * same here. */
#include "options/options.h"

#include <stdio.h>
#include <string.h>

const char *const option_group_titles[GROUP_COUNT] = {
    [GROUP_MAIN] = "Options",  [GROUP_TEXT] = "Text",       [GROUP_SAMPLING] = "Sampling",
    [GROUP_SERVER] = "Server", [GROUP_DEVICES] = "Devices", [GROUP_GENERAL] = "General",
};

/* A number of rotary positions; 0: it isn't given. */
#define ROPE_NUMBER(NAME, VALUE, FIELD, LEAST, HELP)                                                         \
    {                                                                                                        \
        .name = NAME, .value = VALUE, .kind = OPTION_FLOAT, .group = GROUP_MAIN, .target = AT(FIELD),        \
        .commands = PLACING, .minimum = LEAST, .maximum = 1e9, .help = HELP                                  \
    }

const struct option options_models[] = {
    {.name = "model",
     .letter = 'm',
     .value = "FILE",
     .kind = OPTION_TEXT,
     .group = GROUP_MAIN,
     .target = AT(model),
     .commands = READING,
     .help = "The model: a GGUF file, a directory with config.json and safetensors, or a llama2.c checkpoint "
             "(default: `model` in engine.conf, else the small model that comes with the engine)"},
    {.name = "model",
     .letter = 'm',
     .value = "FILE",
     .kind = OPTION_TEXT,
     .group = GROUP_MAIN,
     .target = AT(model),
     .commands = " worker ",
     .help = "A copy of the command's model on this machine; weights that are the same in both are not sent"},
    {.name = "weights",
     .value = "send|local",
     .kind = OPTION_CHOICE,
     .group = GROUP_MAIN,
     .target = AT(weights),
     .commands = " worker ",
     .choices = "send|local",
     .help = "Where weights come from. `send`: the command sends all of them; `local`: from -m, and a weight "
             "that differs is an error (default: from -m where they are the same, otherwise sent)"},
    {.name = "load-type",
     .value = "TYPE",
     .kind = OPTION_TEXT,
     .group = GROUP_MAIN,
     .target = AT(load_type),
     .commands = RUNNING "serve ",
     .help = "Quantises the model while it is loaded, to a type of `engine quantize` such as Q4_K_M, so that "
             "it needs memory for that type only"},

    {.name = "override-kv",
     .value = "KEY=TYPE:VALUE",
     .kind = OPTION_LIST,
     .group = GROUP_MAIN,
     .target = AT(override_kv),
     .commands = READING "serve info quantize ",
     .help = "Metadata in the place of the model's, or besides it (engine info shows the keys): TYPE is int, "
             "float, bool (true or false) or str; may be repeated"},
    {.name = "rope-scaling",
     .value = "none|linear|yarn",
     .kind = OPTION_CHOICE,
     .group = GROUP_MAIN,
     .target = AT(rope_scaling),
     .commands = PLACING,
     .choices = "none|linear|yarn",
     .help = "How rotary positions are stretched for a longer context (default: as the model says, else "
             "linear; docs/models.md)"},
    ROPE_NUMBER("rope-scale", "N", rope_scale, 0, "The factor by which the context grows"),
    ROPE_NUMBER("rope-freq-base", "N", rope_freq_base, 0,
                "The base of rotary positions (default: as the model says)"),
    ROPE_NUMBER("rope-freq-scale", "N", rope_freq_scale, 0,
                "The same as --rope-scale, as its reciprocal: the context grows by 1/N"),
    {.name = "yarn-orig-ctx",
     .value = "N",
     .kind = OPTION_U32,
     .group = GROUP_MAIN,
     .target = AT(yarn_orig_ctx),
     .commands = PLACING,
     .maximum = INT32_MAX,
     .help = "YaRN: the context before it is stretched (default: as the model says, else what it was trained "
             "with)"},
    {.name = "yarn-ext-factor",
     .value = "X",
     .kind = OPTION_FLOAT,
     .group = GROUP_MAIN,
     .target = AT(yarn_ext_factor),
     .given = AT(yarn_ext_factor_given),
     .commands = PLACING,
     .minimum = -1,
     .maximum = 1e9,
     .help =
         "YaRN: how much of their own angles fast pairs keep: 0 stretches all, 1 is as published (default: "
         "as the model says, else 1)"},
    ROPE_NUMBER("yarn-attn-factor", "X", yarn_attn_factor, -1,
                "YaRN: a factor of the magnitude of queries and keys, besides YaRN's own (default: as the "
                "model says, else 1)"),
    ROPE_NUMBER("yarn-beta-slow", "X", yarn_beta_slow, -1,
                "YaRN: pairs that make fewer turns in the original context are stretched (default: as the "
                "model says, else 1)"),
    ROPE_NUMBER("yarn-beta-fast", "X", yarn_beta_fast, -1,
                "YaRN: pairs that make more turns keep their angles (default: as the model says, else 32)"),

    {.name = "lora",
     .value = "FILE[=SCALE]",
     .kind = OPTION_LIST,
     .group = GROUP_MAIN,
     .target = AT(lora),
     .commands = RUNNING,
     .help = "Applies a low-rank adapter: a GGUF file or a folder of PEFT (docs/adapters.md), multiplied by "
             "SCALE (default: 1); may be repeated"},

    {.name = "model",
     .letter = 'm',
     .value = "[NAME=]FILE",
     .kind = OPTION_LIST,
     .group = GROUP_MAIN,
     .target = AT(models),
     .commands = " serve ",
     .help = "A model, and the name that requests use (default: the file name without its extension); may be "
             "repeated: the first one is loaded at once and used by requests that name none (default: "
             "`model` in engine.conf, else the small model that comes with the engine)"},

    {.name = "lora",
     .value = "[MODEL:]NAME=FILE[=SCALE]",
     .kind = OPTION_LIST,
     .group = GROUP_MAIN,
     .target = AT(lora),
     .commands = " serve ",
     .help = "A low-rank adapter of the model (default: the first one), for requests whose model is "
             "MODEL:NAME; may be repeated"},

    {.name = "tokenizer",
     .value = "FILE",
     .kind = OPTION_TEXT,
     .group = GROUP_MAIN,
     .target = AT(tokenizer),
     .commands = " run chat batch serve info tokenize template logits attention score embed rerank classify "
                 "perplexity imatrix bench plan quantize ",
     .help = "The tokenizer.bin of a llama2.c checkpoint"},

    {.name = "verify",
     .kind = OPTION_FLAG,
     .group = GROUP_MAIN,
     .target = AT(verify),
     .commands = READING " serve info quantize ",
     .help = "First checks the files of the model and of --lora against SHA256SUMS beside them, or against "
             "the checksums that Hugging Face's programs keep (docs/hugging-face.md)"},
    {.next = options_text},
};

const struct option options_others[] = {
    {.name = "prompt",
     .letter = 'p',
     .value = "N",
     .kind = OPTION_U32,
     .group = GROUP_MAIN,
     .target = AT(n_prompt),
     .commands = " plan ",
     .minimum = 1,
     .maximum = 1e9,
     .help = "Number of prompt tokens, for predictions (default: 512, or fewer if the context is shorter)"},

    {.name = "time",
     .kind = OPTION_FLAG,
     .group = GROUP_MAIN,
     .target = AT(with_time),
     .commands = " plan ",
     .help = "Measures the devices, which takes seconds, and predicts tokens per second"},

    {.name = "cluster",
     .value = "FILE",
     .kind = OPTION_TEXT,
     .group = GROUP_DEVICES,
     .target = AT(cluster),
     .commands = " plan ",
     .help = "Plans for the devices described in a file, with predictions; they need not be present "
             "(docs/cluster.md)"},

    {.name = "describe",
     .value = "FILE",
     .kind = OPTION_TEXT,
     .group = GROUP_DEVICES,
     .target = AT(describe),
     .commands = " plan ",
     .help = "Measures the devices in use, and writes them as a file for --cluster"},

    {.name = "only",
     .value = "PATTERN=TYPE",
     .kind = OPTION_LIST,
     .group = GROUP_MAIN,
     .target = AT(only),
     .commands = " quantize ",
     .help = "Gives matching matrices another type, such as `blk.*.ffn_down.*=Q6_K`; may be repeated, the "
             "first match applies"},

    {.name = "imatrix",
     .value = "FILE",
     .kind = OPTION_TEXT,
     .group = GROUP_MAIN,
     .target = AT(imatrix),
     .commands = " quantize ",
     .help = "An importance matrix of the same model, from `engine imatrix` or llama-imatrix: errors in "
             "columns with larger inputs count more"},

    {.name = "split-size",
     .value = "SIZE",
     .kind = OPTION_TEXT,
     .group = GROUP_MAIN,
     .target = AT(split_size),
     .commands = " quantize ",
     .also = " --split-max-size ",
     .help = "Writes OUT-00001-of-00003.gguf and so on, each at most SIZE, such as 4G or 500M; -m takes any "
             "of them"},

    {.name = "pure",
     .kind = OPTION_FLAG,
     .group = GROUP_MAIN,
     .target = AT(pure),
     .commands = " quantize ",
     .help = "Gives all matrices the same type, instead of more bits to the most important ones"},

    {.name = "case",
     .value = "CASE",
     .kind = OPTION_TEXT,
     .group = GROUP_MAIN,
     .target = AT(check_case),
     .commands = " plugins ",
     .help = "check: tries only an area of the table (`matmul`), one of its checks (`matmul Q4_0`), or a "
             "single case (`matmul Q4_0 #17`, as in a failure's message); with a device's name before it, "
             "only on that device"},

    {.name = "sample",
     .value = "N",
     .kind = OPTION_U32,
     .group = GROUP_MAIN,
     .target = AT(check_sample),
     .commands = " plugins ",
     .initial = "1",
     .minimum = 1,
     .maximum = 1e6,
     .help = "check: tries only the first case of each check and every Nth after it, for a quick look"},

    {.name = "timeout",
     .value = "SECONDS",
     .kind = OPTION_U32,
     .group = GROUP_MAIN,
     .target = AT(timeout),
     .commands = " plugins ",
     .initial = "300",
     .minimum = 1,
     .maximum = 1e6,
     .help = "check: time limit of a case; one that takes longer hangs, and the plugin's process is killed "
             "with all that it has started"},

    {.name = "format",
     .value = "FORMAT",
     .kind = OPTION_CHOICE,
     .group = GROUP_MAIN,
     .target = AT(format),
     .commands = " help ",
     .choices = "text|man|bash|zsh|fish",
     .help = "Output format: text, man (a manual page), or shell completions for bash, zsh or fish (default: "
             "text)"},
    {.next = options_sampling},
};

const struct option options_devices[] = {
    {.name = "backend",
     .value = "NAME[,NAME]",
     .kind = OPTION_NAMES,
     .group = GROUP_DEVICES,
     .target = AT(backend),
     .devices = true,
     .commands = PLACING,
     .help = "Plugins or devices to use, such as `vulkan,cpu` or `vulkan:1` (default: `backend` in "
             "engine.conf, else all except CPUs exposed by drivers; see `engine devices`). The fastest "
             "device gets layers first"},

    {.name = "backend",
     .value = "NAME[,NAME]",
     .kind = OPTION_NAMES,
     .group = GROUP_DEVICES,
     .target = AT(backend),
     .devices = true,
     .commands = " worker ",
     .help = "Plugins or devices to offer, such as `cpu` or `vulkan1` (default: all except CPUs exposed by "
             "drivers)"},

    {.name = "offload",
     .value = "N|auto|all",
     .kind = OPTION_CHOICE,
     .group = GROUP_DEVICES,
     .target = AT(offload),
     .commands = PLACING,
     .choices = "N|auto|all",
     .also = " -ngl --n-gpu-layers --gpu-layers ",
     .help = "Number of layers to move off the CPU, counted from the last (default: `offload` in "
             "engine.conf, else auto: as many as fit)"},

    {.name = "memory",
     .value = "DEVICE=SIZE",
     .kind = OPTION_LIST,
     .group = GROUP_DEVICES,
     .target = AT(memory),
     .devices = true,
     .commands = PLACING,
     .help = "Limits the memory used on a device, such as `vulkan0=600M`; may be repeated"},

    {.name = "place",
     .value = "PATTERN=DEVICE",
     .kind = OPTION_LIST,
     .group = GROUP_DEVICES,
     .target = AT(place),
     .commands = PLACING,
     .help = "Puts matching tensors on a device, such as `blk.*.ffn_*=cpu`; may be repeated, the first match "
             "applies"},

    {.name = "threads",
     .letter = 't',
     .value = "N",
     .kind = OPTION_U32,
     .group = GROUP_DEVICES,
     .target = AT(n_threads),
     .commands = PLACING "quantize worker ",
     .minimum = 1,
     .maximum = 1024,
     .help = "Number of CPU threads (default: `threads` in engine.conf, else one for each physical core; "
             "quantize: each processor; worker: as many as the command that uses it asks for)"},

    {.name = "context",
     .letter = 'c',
     .value = "N",
     .kind = OPTION_U32,
     .group = GROUP_DEVICES,
     .target = AT(n_context),
     .commands = PLACING,
     .minimum = 1,
     .also = " --ctx-size ",
     .maximum = 1e9,
     .help = "Context length in tokens (default: as many as `logits`, `score` and `bench` need; perplexity "
             "and imatrix: 512; else the model's own, as far as there is memory)"},

    {.name = "cache-size",
     .value = "N",
     .kind = OPTION_U32,
     .group = GROUP_DEVICES,
     .target = AT(n_cache),
     .commands = PLACING,
     .minimum = 1,
     .maximum = 1e9,
     .help = "Size of the KV cache in tokens, for all sequences together; a cache larger than the context "
             "keeps earlier texts, so that their beginnings need not be computed again (default: as many as "
             "--context; batch and serve with --context: 2048 for each of --parallel)"},

    {.name = "batch",
     .letter = 'b',
     .value = "N",
     .kind = OPTION_U32,
     .group = GROUP_DEVICES,
     .target = AT(n_batch),
     .commands = PLACING,
     .initial = "512",
     .minimum = 1,
     .also = " --batch-size ",
     .maximum = 65536,
     .help = "Number of prompt tokens processed at once"},

    {.name = "cache-type",
     .value = "TYPE",
     .kind = OPTION_CHOICE,
     .group = GROUP_DEVICES,
     .target = AT(cache_type),
     .commands = PLACING,
     .choices = "f16|f32|q8_0",
     .help =
         "Type of the KV cache: f16, f32 or q8_0 (default: f16; f32 for embeddings, ranks, labels and T5)"},

    {.name = "json",
     .kind = OPTION_FLAG,
     .group = GROUP_GENERAL,
     .target = AT(json),
     .commands = " run info logits attention score embed rerank classify perplexity imatrix bench plan "
                 "tokenize plugins devices ",
     .help = "Prints the result as JSON"},

    {.name = "plugin-dir",
     .value = "DIR",
     .kind = OPTION_LIST,
     .group = GROUP_GENERAL,
     .target = AT(plugin_dirs),
     .help = "Searches this folder for plugins first; may be repeated"},

    {.name = "config",
     .value = "FILE",
     .kind = OPTION_TEXT,
     .group = GROUP_GENERAL,
     .target = AT(config),
     .help = "Reads this file instead of the system's and your own engine.conf"},

    {.name = "verbose",
     .letter = 'v',
     .kind = OPTION_FLAG,
     .group = GROUP_GENERAL,
     .target = AT(verbose),
     .also = " --log-verbose ",
     .help = "Prints notes to standard error, not only warnings"},

    {.name = "help",
     .letter = 'h',
     .kind = OPTION_FLAG,
     .group = GROUP_GENERAL,
     .target = AT(help),
     .also = " --usage ",
     .help = "Shows this help"},

    {.name = "version",
     .kind = OPTION_FLAG,
     .group = GROUP_GENERAL,
     .target = AT(version),
     .help = "Shows the versions of the engine and of its plugin ABI"},
    {.name = NULL},
};

/* ---- Only `engine serve` has these ---- */

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
     .help = "The name or address to listen on; `0.0.0.0` or `::` means all, and needs a key or --insecure"},
    SERVE_NUMBER("port", "N", port, "8080", 0, 65535, NULL, "The port; 0: any free one, which is printed"),
    SERVE_TEXT("unix", "PATH", OPTION_TEXT, unix_path, NULL,
               "Listens on a Unix socket, and on the network only with --host"),
    SERVE_TEXT("api-key", "KEY", OPTION_LIST, api_keys, NULL,
               "A key that requests must present; may be repeated. Other users of this machine can see it in "
               "the process list; --api-key-file hides it"),
    SERVE_TEXT("api-key-file", "FILE", OPTION_TEXT, api_key_file, NULL,
               "Reads keys from a file, one a line; SIGHUP reads it again"),
    SERVE_FLAG("insecure", insecure, "Allows listening beyond this machine without a key"),
    SERVE_TEXT("ssl-cert-file", "FILE", OPTION_TEXT, ssl_cert_file, NULL,
               "Serves with TLS: the certificate and its chain, in PEM; SIGHUP reads it again"),
    SERVE_TEXT("ssl-key-file", "FILE", OPTION_TEXT, ssl_key_file, NULL, "The key of the certificate, in PEM"),
    SERVE_TEXT("cors", "ORIGIN", OPTION_LIST, cors, NULL,
               "Allows requests from web pages of another site, such as `https://example.org`, or `*` for "
               "all; may be repeated"),
    SERVE_NUMBER("models-max", "N", models_max, "0", 0, 10000, NULL,
                 "Maximum number of models loaded at once; 0: no limit"),
    SERVE_NUMBER("models-memory", "MIB", models_memory_mib, "0", 0, 4e9, NULL,
                 "Memory for all loaded models together, on all devices; the least recently used one is "
                 "unloaded to make room; 0: no limit"),
    SERVE_NUMBER("parallel", "N", n_parallel, "8", 1, 1024, " -np ",
                 "Number of texts generated at once by each model"),
    SERVE_NUMBER("queue", "N", n_waiting, "512", 1, 1e6, NULL,
                 "Number of requests that may wait for a model; more are refused with status 429"),
    SERVE_NUMBER("max-tokens", "N", most_tokens, "0", 0, 1e9, NULL,
                 "Maximum number of tokens generated for a request; 0: as many as fit into the context"),
    SERVE_NUMBER("max-body", "MIB", body_mib, "16", 1, 4096, NULL, "Largest body of a request"),
    SERVE_NUMBER("max-header", "KIB", header_kib, "64", 4, 1024, NULL, "Largest header of a request"),
    SERVE_FLAG("strict", strict_requests,
               "Refuses requests with unknown fields instead of ignoring those fields"),
    SERVE_NUMBER(
        "attention-tokens", "N", most_attention, "512", 0, 65536, NULL,
        "The longest conversation, in tokens, for which requests may ask for attention weights; 0: none"),
    SERVE_NUMBER("max-unread", "KIB", pending_kib, "4096", 64, 1e6, NULL,
                 "Unsent bytes per stream before a slow client is dropped"),
    SERVE_NUMBER("connections", "N", n_connections, "1000", 1, 1e5, NULL,
                 "Maximum number of open connections"),
    SERVE_NUMBER("connections-each", "N", n_connections_each, "1000", 1, 1e5, NULL,
                 "Maximum number of open connections from one address"),
    SERVE_NUMBER("threads-http", "N", n_workers, "4", 1, 256, NULL,
                 "Number of threads that read and tokenize requests"),
    SERVE_NUMBER("request-timeout", "SECONDS", request_seconds, "30", 1, 1e6, NULL,
                 "Time limit for a request to arrive; each 4 KiB of its body adds a second"),
    SERVE_NUMBER("idle-timeout", "SECONDS", idle_seconds, "120", 1, 1e6, NULL,
                 "How long a connection may stay open without any data"),
    SERVE_NUMBER("ping-interval", "SECONDS", ping_seconds, "5", 0, 1e6, NULL,
                 "Time without an event after which a streamed answer sends an empty line, so that clients "
                 "and proxies keep waiting; 0: never"),
    SERVE_NUMBER("timeout", "SECONDS", time_limit, "0", 0, 1e8, NULL,
                 "Time limit for a whole request, which is then aborted; 0: no limit"),
    SERVE_NUMBER("grace", "SECONDS", grace_seconds, "30", 0, 1e6, NULL,
                 "How long requests in progress may continue after SIGTERM or Ctrl-C"),
    SERVE_FLAG("truncate", truncate,
               "Cuts texts for embeddings and reranking that are too long for the model instead of refusing "
               "them, unless a request sets `truncate`"),
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

/* ---- Reading the table ---- */

const struct option *option_next(const struct option *option)
{
    option = option ? option + 1 : options_models;
    while (option && !option->name) option = option->next;
    return option;
}

bool option_of(const struct option *option, const struct command *command)
{
    if (!option->commands) return true;
    if (!command) return false;
    char word[64];
    snprintf(word, sizeof word, " %s ", command->name);
    return strstr(option->commands, word) != NULL;
}
