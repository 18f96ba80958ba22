/* test-arguments.c: the command line's parser and --help, over a small table of commands. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options/arguments.h"

static int run_nothing(const struct arguments *arguments)
{
    (void)arguments;
    return 0;
}

const struct command commands[] = {
    {.name = "run",
     .synopsis = "-m MODEL",
     .summary = "Runs.",
     .words = "MODEL.gguf PROMPT",
     .max_words = 2,
     .run = run_nothing},
    {.name = "info",
     .synopsis = "MODEL",
     .summary = "Informs.",
     .words = "MODEL",
     .min_words = 1,
     .max_words = 1,
     .run = run_nothing},
    {.name = "tokenize",
     .synopsis = "[TEXT]",
     .summary = "Tokenizes.",
     .words = "TEXT",
     .max_words = 1,
     .run = run_nothing},
    {.name = "bench",
     .synopsis = "",
     .summary = "Measures.",
     .run = run_nothing,
     .details = "First paragraph.\nSecond paragraph.",
     .examples = "  engine bench -m model.gguf\n"},
    {.name = NULL},
};

static struct arguments parsed;

/* Parses a line of words that are divided by blanks, "engine" left out. */
static bool parse(const char *line)
{
    static char copy[1024];
    static char *argv[64];
    int argc = 0;
    arguments_free(&parsed);
    snprintf(copy, sizeof copy, "%s", line);
    argv[argc++] = (char *)"engine";
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) argv[argc++] = word;
    argv[argc] = NULL;
    return arguments_parse(argc, argv, &parsed);
}

static void good(const char *line)
{
    cr_assert(parse(line), "engine %s: %s", line, parsed.error);
}

static void bad(const char *line, const char *message)
{
    cr_assert_not(parse(line), "engine %s was accepted", line);
    cr_assert_str_eq(parsed.error, message);
}

Test(arguments, spellings_of_values)
{
    static const char *const lines[] = {"run --top-k 7", "run --top-k=7", "--top-k 7"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        good(lines[i]);
        cr_assert_str_eq(parsed.command->name, "run");
        cr_assert_eq(parsed.top_k, 7);
    }
    static const char *const short_lines[] = {"-n 5 -m x", "-n5 -mx", "--predict=5 --model=x"};
    for (size_t i = 0; i < sizeof short_lines / sizeof *short_lines; i++) {
        good(short_lines[i]);
        cr_assert_eq(parsed.n_predict, 5);
        cr_assert(parsed.n_predict_given);
        cr_assert_str_eq(parsed.model, "x");
    }
    good("-p - -m -x");
    cr_assert_str_eq(parsed.prompt, "-");
    cr_assert_str_eq(parsed.model, "-x");
    good("--prompt= -m a=b");
    cr_assert_str_eq(parsed.prompt, "");
    cr_assert_str_eq(parsed.model, "a=b");
}

Test(arguments, defaults)
{
    good("run");
    cr_assert_float_eq(parsed.temperature, 0.8f, 1e-6);
    cr_assert_eq(parsed.top_k, 40);
    cr_assert_float_eq(parsed.top_p, 0.95f, 1e-6);
    cr_assert_float_eq(parsed.repeat_penalty, 1.0f, 1e-6);
    cr_assert_not(parsed.n_predict_given);
    cr_assert_not(parsed.seed_given);
    cr_assert_null(parsed.memory.items);
    good("bench");
    cr_assert_eq(parsed.n_prompt, 512);
    cr_assert_eq(parsed.n_predict, 64);
    cr_assert_eq(parsed.repetitions, 3);
    cr_assert_not(parsed.n_predict_given);
}

/* What people type who come from other programs. */
Test(arguments, habits)
{
    static const char *const offloads[] = {
        "-ngl 12", "--n-gpu-layers 12", "--n-gpu-layers=12", "bench --gpu-layers 12",
        "-ngl12",  "-ngl=12",           "-v -ngl12 text",    "-v -ngl=12 text"};
    for (size_t i = 0; i < sizeof offloads / sizeof *offloads; i++) {
        good(offloads[i]);
        cr_assert_str_eq(parsed.offload, "12");
    }
    bad("-ngl", "--offload needs a value: --offload N|auto|all");
    good("-ngl7 -n5");
    cr_assert_eq(parsed.n_predict, 5);
    good("-nglall -c4096 -b=64 -n=5 -m=x -p=a=b");
    cr_assert_str_eq(parsed.offload, "all");
    cr_assert_eq(parsed.n_context, 4096);
    cr_assert_eq(parsed.n_batch, 64);
    cr_assert_eq(parsed.n_predict, 5);
    cr_assert_str_eq(parsed.model, "x");
    cr_assert_str_eq(parsed.prompt, "a=b");
    bad("-ngl=", "--offload: '' is not one of N|auto|all");
    bad("-ngl-1", "--offload: '-1' is not one of N|auto|all");
    bad("-ngx99", "unknown option -ngx99: -n, --predict, takes a number; see engine run --help");
    bad("-v=1", "--verbose takes no value");
    bad("info x -ngl 12", "info has no option -ngl (run has); see engine info --help");
    bad("info x -ngl12", "info has no option -ngl (run has); see engine info --help");
    bad("info x -n 12", "info has no option -n (run has); see engine info --help");
    bad("-fa on", "run has no option -fa: leave it out; see engine run --help");
    bad("-fa=on", "run has no option -fa: leave it out; see engine run --help");
    bad("-mg0",
        "run has no option -mg: --backend, --offload and --place say what runs where; see engine run --help");
    bad("-ctk q8_0",
        "run has no option -ctk: --cache-type sets the type of keys and values; see engine run --help");
    bad("-hf a/b",
        "run has no option -hf: -m ORG/NAME takes a model from Hugging Face's cache, and -m DIRECTORY "
        "a download; see engine run --help");
    bad("-no-cnv",
        "run has no option -no-cnv: engine chat holds a conversation, and engine run continues a text; "
        "see engine run --help");
    bad("-cnv", "run has no option -cnv: engine chat holds a conversation, and engine run continues a text; "
                "see engine run --help");
    bad("-lm mmap", "run has no option -lm: leave it out; see engine run --help");
    bad("-mmdev none", "run has no option -mmdev: models read texts only; see engine run --help");
    bad("-mmp 0", "run has no option -mmp: leave it out; see engine run --help");
    bad("-ncffn 3", "run has no option -ncffn: --backend, --offload and --place say what runs where; "
                    "see engine run --help");
    bad("info x -r 3", "info has no option -r (bench has); see engine info --help");
    good("-mgpt.gguf -pfa");
    cr_assert_str_eq(parsed.model, "gpt.gguf");
    cr_assert_str_eq(parsed.prompt, "fa");
    static const char *const stops[] = {"-r User:", "-r=User:", "--reverse-prompt User:"};
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        good(stops[i]);
        cr_assert_eq(parsed.stop.count, 1);
        cr_assert_str_eq(parsed.stop.items[0], "User:");
    }
    static const char *const seeds[] = {"-s 42", "-s42", "-s=42", "-v -s 42"};
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        good(seeds[i]);
        cr_assert_eq(parsed.seed, 42);
        cr_assert(parsed.seed_given);
    }
    good("bench -r 5");
    cr_assert_eq(parsed.repetitions, 5);
    good("-n -1");
    cr_assert_eq(parsed.n_predict, UINT32_MAX);
    good("--n-predict=-1");
    cr_assert_eq(parsed.n_predict, UINT32_MAX);
    bad("-n -2", "--predict: '-2' is negative, and only -1 may be: no limit");
    bad("bench -n -1", "--predict: '-1' is negative");
    /* Long options, as llama-cli, llama-server and llama-bench list them. */
    bad("--flash-attn on", "run has no option --flash-attn: leave it out; see engine run --help");
    bad("bench --no-mmap", "bench has no option --no-mmap: leave it out; see engine bench --help");
    bad("bench --cache-type-k=q8_0",
        "bench has no option --cache-type-k: --cache-type sets the type of keys and values; see engine bench "
        "--help");
    bad("--ubatch-size 64",
        "run has no option --ubatch-size: -b sets how many tokens of a prompt run at once; "
        "see engine run --help");
    good("bench --yarn-orig-ctx 4096 --rope-scaling yarn --rope-scale 4 --override-kv a=int:1");
    cr_assert_eq(parsed.yarn_orig_ctx, 4096);
    cr_assert_eq(parsed.rope_scale, 4);
    cr_assert_not(parsed.yarn_ext_factor_given);
    bad("--color on", "run has no option --color: leave it out; see engine run --help");
    bad("--no-webui", "run has no option --no-webui; see engine run --help");
    bad("info x --n-predict 3", "info has no option --n-predict (run has); see engine info --help");
    bad("-i", "run has no option -i: engine chat holds a conversation, and engine run continues a text; see "
              "engine run --help");
    bad("-e -p x", "run has no option -e: the shell writes such characters: $'a\\nb'; see engine run --help");
    good("--no-display-prompt --log-verbose --spec-draft-model x.gguf --spec-draft-n-max 3");
    cr_assert(parsed.no_echo && parsed.verbose);
    cr_assert_str_eq(parsed.draft, "x.gguf");
    cr_assert_eq(parsed.draft_max, 3);
    good("bench --n-prompt 7 --n-gen 5 --n-depth 9");
    cr_assert(parsed.n_prompt == 7 && parsed.n_predict == 5 && parsed.depth == 9);
    good("--ctx-size 64 --batch-size 8");
    cr_assert_eq(parsed.n_context, 64);
    cr_assert_eq(parsed.n_batch, 8);

    good("run text");
    cr_assert_eq(parsed.words.count, 1);
    good("model.gguf -n 3 text");
    cr_assert_str_eq(parsed.command->name, "run");
    cr_assert_eq(parsed.words.count, 2);
    cr_assert_str_eq(parsed.words.items[0], "model.gguf");
    cr_assert(is_model_name("a/b.bin"));
    cr_assert_not(is_model_name("what is model.gguf"));
    cr_assert_not(is_model_name("text"));
}

Test(arguments, the_same_letter_means_what_the_command_says)
{
    good("run -p 12");
    cr_assert_str_eq(parsed.prompt, "12");
    good("bench -p 12");
    cr_assert_eq(parsed.n_prompt, 12);
    cr_assert_null(parsed.prompt);
    bad("bench -p text", "--prompt: 'text' is not a whole number");
}

Test(arguments, flags_lists_and_words)
{
    good("tokenize -0v --ids");
    cr_assert(parsed.nul && parsed.verbose && parsed.ids && !parsed.bos);
    good("run --memory a=1 --memory=b=2 --place x=cpu");
    cr_assert_eq(parsed.memory.count, 2);
    cr_assert_str_eq(parsed.memory.items[0], "a=1");
    cr_assert_str_eq(parsed.memory.items[1], "b=2");
    cr_assert_null(parsed.memory.items[2]);
    cr_assert_eq(parsed.place.count, 1);
    good("tokenize -- --ids");
    cr_assert_not(parsed.ids);
    cr_assert_str_eq(parsed.words.items[0], "--ids");
    good("tokenize -");
    cr_assert_str_eq(parsed.words.items[0], "-");
    good("run --seed 18446744073709551615");
    cr_assert_eq(parsed.seed, UINT64_MAX);
    cr_assert(parsed.seed_given);
    /* As llama.cpp's users type them. */
    good("run --seed 5 --seed -1 --top-k -1 --repeat-last-n -1 --dry-penalty-last-n=-1");
    cr_assert_not(parsed.seed_given);
    cr_assert_eq(parsed.top_k, 0);
    cr_assert_eq(parsed.penalty_last_n, 1000000);
    cr_assert_eq(parsed.dry_penalty_last_n, 1000000);
}

Test(arguments, numbers_are_checked)
{
    bad("--top-k abc", "--top-k: 'abc' is not a whole number");
    bad("--top-k 1.5", "--top-k: '1.5' is not a whole number");
    bad("--top-k -2", "--top-k: '-2' is negative");
    bad("--seed -2", "--seed: '-2' is negative");
    bad("--top-k=", "--top-k: '' is not a whole number");
    bad("--top-k 4294967296", "--top-k: 4294967296 is out of range (0 to 1000000000)");
    bad("--top-k 99999999999999999999999",
        "--top-k: 99999999999999999999999 is out of range (0 to 1000000000)");
    bad("-t 0", "--threads: 0 is out of range (1 to 1024)");
    bad("--temp warm", "--temp: 'warm' is not a number");
    bad("--temp nan", "--temp: 'nan' is not a number");
    bad("--temp inf", "--temp: inf is out of range (0 to 100)");
    bad("--temp -0.1", "--temp: -0.1 is out of range (0 to 100)");
    bad("--top-p 1.5", "--top-p: 1.5 is out of range (0 to 1)");
    bad("--seed 99999999999999999999", "--seed: 99999999999999999999 is too large");
    good("--frequency-penalty -1.5");
    cr_assert_float_eq(parsed.frequency_penalty, -1.5f, 1e-6);
}

Test(arguments, choices_are_checked)
{
    good("--offload auto");
    good("--offload all");
    good("--offload 12");
    cr_assert_str_eq(parsed.offload, "12");
    bad("--offload some", "--offload: 'some' is not one of N|auto|all");
    bad("--offload 1x", "--offload: '1x' is not one of N|auto|all");
    bad("--offload 4294967297", "--offload: '4294967297' is not one of N|auto|all");
    good("--cache-type q8_0");
    bad("--cache-type f64", "--cache-type: 'f64' is not one of f16|f32|q8_0");
    bad("--cache-type f", "--cache-type: 'f' is not one of f16|f32|q8_0");
}

Test(arguments, names_are_at_least_one)
{
    good("--backend cpu,test");
    cr_assert_str_eq(parsed.backend, "cpu,test");
    bad("--backend=", "--backend: '' contains no name; use --backend NAME[,NAME]");
    bad("--backend ,", "--backend: ',' contains no name; use --backend NAME[,NAME]");
}

Test(arguments, mistakes_get_a_suggestion)
{
    bad("--tmp 1", "unknown option --tmp; did you mean --temp?");
    bad("--temprature 1", "unknown option --temprature; did you mean --temp?");
    bad("--topk=3", "unknown option --topk; did you mean --top-k?");
    bad("--thread 3", "unknown option --thread; did you mean --threads?");
    bad("--frobnicate", "unknown option --frobnicate; see engine run --help");
    bad("-Z", "unknown option -Z; see engine run --help");
    bad("--ids", "run has no option --ids (tokenize has); see engine run --help");
    bad("tokenize --top-k 3", "tokenize has no option --top-k (run has); see engine tokenize --help");
    bad("tokenise x", "unknown command 'tokenise'; did you mean tokenize?");
    bad("xyzzy", "unknown command 'xyzzy'; see engine --help (for a prompt, use -p)");
    bad("--model", "--model needs a value: --model FILE");
    bad("-m", "--model needs a value: --model FILE");
    bad("bench --json=1", "--json takes no value");
}

Test(arguments, words_are_counted)
{
    good("info x");
    bad("info", "info: MODEL is missing; see engine info --help");
    bad("info x y", "info: unexpected 'y'; see engine info --help");
    bad("-m x a b c", "run: unexpected 'c'; see engine run --help");
    bad("run a b info", "put the command first: engine info …; see engine info --help");
    bad("-v info", "put the command first: engine info …; see engine info --help");
}

Test(arguments, very_long_words_do_no_harm)
{
    char line[900];
    memset(line, 'x', sizeof line - 1);
    line[sizeof line - 1] = '\0';
    cr_assert_not(parse(line));
    line[0] = line[1] = '-';
    cr_assert_not(parse(line));
    cr_assert_str_eq(strstr(parsed.error, ";"), "; see engine run --help");
    memcpy(line, "--top-k=", 8);
    cr_assert_not(parse(line));
}

static char *help_of(const struct command *command)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    arguments_help(command, out);
    fclose(out);
    return text;
}

Test(arguments, help)
{
    good("--help");
    cr_assert(parsed.help);
    cr_assert_null(parsed.command);
    char *text = help_of(NULL);
    for (const struct command *command = commands; command->name; command++) {
        cr_assert(strstr(text, command->summary));
    }
    cr_assert(strstr(text, "--plugin-dir DIR"));
    cr_assert_null(strstr(text, "--top-k"));
    free(text);

    good("info --help"); /* without MODEL */
    cr_assert(parsed.help);
    text = help_of(command_find("bench"));
    cr_assert(strstr(text, "Usage: engine bench\n"));
    cr_assert(strstr(text, "First paragraph.\n\nSecond paragraph.\n"));
    cr_assert(
        strstr(text, "  -r, --repetitions N         Number of runs; reports the median (default: 3)\n"));
    cr_assert(strstr(text, "Examples:\n  engine bench -m model.gguf\n"));
    cr_assert_null(strstr(text, "--ids"));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        cr_assert_leq(strlen(line), 100, "a long line: %s", line);
    }
    free(text);
}

Test(arguments, version)
{
    good("--version");
    cr_assert(parsed.version);
}
