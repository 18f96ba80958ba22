/* options-text.c: the options of commands that write texts, or turn texts into tokens, and those of sampling,
 * whose names and defaults are llama.cpp's. */
#include "options/options.h"

#include "options/sampling.h"

const struct option options_text[] = {
    {.name = "prompt",
     .letter = 'p',
     .value = "TEXT",
     .kind = OPTION_TEXT,
     .group = GROUP_TEXT,
     .target = AT(prompt),
     .commands = " run ",
     .help = "The text to continue; `-` reads it from standard input"},

    {.name = "file",
     .letter = 'f',
     .value = "FILE",
     .kind = OPTION_TEXT,
     .group = GROUP_TEXT,
     .target = AT(prompt_file),
     .commands = " run bench ",
     .help =
         "Reads the prompt from a file (bench: for --lookup and --draft, whose prompt is otherwise random)"},

    {.name = "predict",
     .letter = 'n',
     .value = "N",
     .kind = OPTION_U32,
     .group = GROUP_TEXT,
     .target = AT(n_predict),
     .given = AT(n_predict_given),
     .commands = " run batch ",
     .maximum = 1e9,
     .endless = true,
     .also = " --n-predict ",
     .help = "Maximum number of tokens to generate; -1: until the text ends or the context is full (default: "
             "enough for 256 tokens with the prompt, but at least 64)"},

    {.name = "predict",
     .letter = 'n',
     .value = "N",
     .kind = OPTION_U32,
     .group = GROUP_TEXT,
     .target = AT(n_predict),
     .given = AT(n_predict_given),
     .commands = " chat ",
     .minimum = 1,
     .maximum = 1e9,
     .endless = true,
     .also = " --n-predict ",
     .help = "Maximum number of tokens in an answer (default: -1, until the model ends it)"},

    {.name = "system",
     .value = "TEXT",
     .kind = OPTION_TEXT,
     .group = GROUP_TEXT,
     .target = AT(system),
     .commands = " chat ",
     .also = " -sys --system-prompt ",
     .help = "Begins the conversation with a system message"},

    {.name = "no-history",
     .kind = OPTION_FLAG,
     .group = GROUP_TEXT,
     .target = AT(no_history),
     .commands = " chat ",
     .help = "Keeps no messages for later chats and recalls none from earlier ones "
             "(docs/chat.md)"},

    {.name = "stop",
     .value = "TEXT",
     .kind = OPTION_LIST,
     .group = GROUP_TEXT,
     .target = AT(stop),
     .commands = WRITING,
     .also = " -r --reverse-prompt ",
     .help = "Ends the text before this one appears; may be repeated"},

    {.name = "grammar",
     .value = "TEXT",
     .kind = OPTION_TEXT,
     .group = GROUP_TEXT,
     .target = AT(grammar),
     .commands = WRITING,
     .help =
         "Writes only what this grammar allows, in llama.cpp's GBNF: --grammar 'root ::= \"yes\" | \"no\"'"},

    {.name = "grammar-file",
     .value = "FILE",
     .kind = OPTION_TEXT,
     .group = GROUP_TEXT,
     .target = AT(grammar_file),
     .commands = WRITING,
     .help = "Reads the grammar from a file"},

    {.name = "json-schema",
     .letter = 'j',
     .value = "TEXT",
     .kind = OPTION_TEXT,
     .group = GROUP_TEXT,
     .target = AT(json_schema),
     .commands = WRITING,
     .help = "Writes only JSON that this schema describes"},

    {.name = "json-schema-file",
     .value = "FILE",
     .kind = OPTION_TEXT,
     .group = GROUP_TEXT,
     .target = AT(json_schema_file),
     .commands = WRITING,
     .also = " -jf ",
     .help = "Reads the JSON schema from a file"},

    {.name = "json-object",
     .kind = OPTION_FLAG,
     .group = GROUP_TEXT,
     .target = AT(json_object),
     .commands = WRITING,
     .help = "Writes only a JSON object"},

    {.name = "logprobs",
     .value = "N",
     .kind = OPTION_U32,
     .group = GROUP_TEXT,
     .target = AT(n_logprobs),
     .commands = " run batch ",
     .maximum = 1000,
     .help = "Reports the probability of each generated token and the N most likely tokens, before any "
             "sampler. run writes lines of JSON to standard output in place of the text, or to "
             "--logprobs-file; batch adds them to the results. 0: off"},

    {.name = "logprobs-file",
     .value = "FILE",
     .kind = OPTION_TEXT,
     .group = GROUP_TEXT,
     .target = AT(logprobs_file),
     .commands = " run ",
     .help = "Writes the lines of --logprobs to this file; the text goes to standard output as usual"},

    {.name = "ignore-eos",
     .kind = OPTION_FLAG,
     .group = GROUP_TEXT,
     .target = AT(ignore_end),
     .commands = WRITING,
     .help = "Never samples tokens that end a text"},

    {.name = "lookup",
     .kind = OPTION_FLAG,
     .group = GROUP_TEXT,
     .target = AT(lookup),
     .commands = GUESSING,
     .help = "Guesses tokens from earlier parts of the text, and checks several in one step where that is "
             "faster; the text stays the same"},

    {.name = "draft",
     .value = "FILE",
     .kind = OPTION_TEXT,
     .group = GROUP_TEXT,
     .target = AT(draft),
     .commands = GUESSING,
     .also = " -md --model-draft --spec-draft-model ",
     .help =
         "Guesses tokens with this smaller model, which has the same vocabulary; the text stays the same"},

    {.name = "draft-max",
     .value = "N",
     .kind = OPTION_U32,
     .group = GROUP_TEXT,
     .target = AT(draft_max),
     .commands = GUESSING,
     .minimum = 1,
     .maximum = 15,
     .also = " --draft-n --spec-draft-n-max ",
     .help =
         "Maximum number of tokens guessed in a step (default: 15); the number adapts to what is fastest"},

    {.name = "draft-min",
     .value = "N",
     .kind = OPTION_U32,
     .group = GROUP_TEXT,
     .target = AT(draft_min),
     .commands = GUESSING,
     .minimum = 1,
     .maximum = 15,
     .also = " --draft-n-min --spec-draft-n-min ",
     .help = "Minimum number of tokens guessed in a step that guesses; if equal to --draft-max, the number "
             "is fixed"},

    {.name = "no-echo",
     .kind = OPTION_FLAG,
     .group = GROUP_TEXT,
     .target = AT(no_echo),
     .also = " --no-display-prompt ",
     .commands = " run ",
     .help = "Prints only the generated text, without the prompt"},

    {.name = "prompt-cache",
     .value = "FILE",
     .kind = OPTION_TEXT,
     .group = GROUP_TEXT,
     .target = AT(prompt_cache),
     .commands = " run ",
     .help = "Keeps the computed prompt in a file; the next run computes its prompt only from where the two "
             "differ"},

    {.name = "prompt-cache-all",
     .kind = OPTION_FLAG,
     .group = GROUP_TEXT,
     .target = AT(prompt_cache_all),
     .commands = " run ",
     .help = "Keeps the generated text in that file too"},

    {.name = "prompt-cache-ro",
     .kind = OPTION_FLAG,
     .group = GROUP_TEXT,
     .target = AT(prompt_cache_ro),
     .commands = " run ",
     .help = "Reads that file, but does not write it"},

    {.name = "messages",
     .value = "FILE",
     .kind = OPTION_TEXT,
     .group = GROUP_TEXT,
     .target = AT(messages),
     .commands = " template ",
     .help = "The conversation: a JSON array of messages, as in OpenAI's API; `-` reads standard input"},

    {.name = "tools",
     .value = "FILE",
     .kind = OPTION_TEXT,
     .group = GROUP_TEXT,
     .target = AT(tools),
     .commands = " template ",
     .help = "A JSON array of tools that the model may call"},

    {.name = "documents",
     .value = "FILE",
     .kind = OPTION_TEXT,
     .group = GROUP_TEXT,
     .target = AT(documents),
     .commands = " template ",
     .help = "A JSON array of documents, for templates that use them"},

    {.name = "chat-template",
     .value = "NAME|FILE",
     .kind = OPTION_TEXT,
     .group = GROUP_TEXT,
     .target = AT(chat_template),
     .commands = TALKING,
     .also = " --chat-template-file ",
     .help = "Uses this template, such as chatml, llama3 or a file, not the model's own (docs/templates.md)"},

    {.name = "template-arg",
     .value = "KEY=JSON",
     .kind = OPTION_LIST,
     .group = GROUP_TEXT,
     .target = AT(template_args),
     .commands = TALKING,
     .help = "Sets a variable of the template, such as `enable_thinking=false`; may be repeated"},

    {.name = "chat-template-kwargs",
     .value = "JSON",
     .kind = OPTION_TEXT,
     .group = GROUP_TEXT,
     .target = AT(template_variables),
     .commands = TALKING,
     .help = "Sets variables of the template: a JSON object"},

    {.name = "reasoning-budget",
     .value = "N",
     .kind = OPTION_U32,
     .group = GROUP_TEXT,
     .target = AT(reasoning_budget),
     .commands = " run batch chat serve ",
     .initial = "-1",
     .maximum = 1e9,
     .endless = true,
     .help = "Most tokens that a reply may spend on reasoning before its answer; 0: none, -1: no limit"},

    {.name = "no-generation-prompt",
     .kind = OPTION_FLAG,
     .group = GROUP_TEXT,
     .target = AT(no_generation_prompt),
     .commands = " template ",
     .help = "Ends with the last message, without the beginning of the model's answer"},

    {.name = "ids",
     .kind = OPTION_FLAG,
     .group = GROUP_TEXT,
     .target = AT(ids),
     .commands = " template tokenize batch ",
     .help = "Prints token ids instead of text, one line per text (batch: adds them to each result)"},

    {.name = "null",
     .letter = '0',
     .kind = OPTION_FLAG,
     .group = GROUP_TEXT,
     .target = AT(nul),
     .commands = " tokenize ",
     .help = "Reads NUL-terminated texts from standard input"},

    {.name = "bos",
     .kind = OPTION_FLAG,
     .group = GROUP_TEXT,
     .target = AT(bos),
     .commands = " tokenize ",
     .help = "Adds the special tokens that the model expects around a text"},

    {.name = "special",
     .kind = OPTION_FLAG,
     .group = GROUP_TEXT,
     .target = AT(special),
     .commands = " run batch logits attention score embed classify perplexity imatrix tokenize ",
     .help = "Recognises special tokens that are spelled out in the text (tokenize --decode: prints them)"},

    {.name = "decode",
     .kind = OPTION_FLAG,
     .group = GROUP_TEXT,
     .target = AT(decode),
     .commands = " tokenize ",
     .help = "Turns token ids, separated by spaces or commas, into text"},

    {.name = "explain",
     .kind = OPTION_FLAG,
     .group = GROUP_TEXT,
     .target = AT(explain),
     .commands = " tokenize ",
     .help = "Shows step by step how the text becomes tokens (docs/tokenizers.md)"},

    {.name = "tokens-file",
     .value = "FILE",
     .kind = OPTION_TEXT,
     .group = GROUP_TEXT,
     .target = AT(tokens_file),
     .commands = " run bench ",
     .help = "Reads the prompt's token ids from a NumPy file instead; nothing is added before them"},

    {.name = "output",
     .letter = 'o',
     .value = "FILE",
     .kind = OPTION_TEXT,
     .group = GROUP_MAIN,
     .target = AT(output),
     .commands = " batch ",
     .help = "Writes the results to a file. If the file has results of the same batch, which was "
             "interrupted, the rest is appended (default: standard output)"},

    {.name = "restart",
     .kind = OPTION_FLAG,
     .group = GROUP_MAIN,
     .target = AT(restart),
     .commands = " batch ",
     .help = "Starts over: discards what the output holds"},

    {.name = "parallel",
     .value = "N",
     .kind = OPTION_U32,
     .group = GROUP_MAIN,
     .target = AT(n_parallel),
     .commands = " batch ",
     .initial = "8",
     .minimum = 1,
     .maximum = 1024,
     .also = " -np ",
     .help = "Number of texts generated at once"},
    {.next = options_measures},
};

/* ---- Sampling ------------------------------------------------------------------------------------------ */

#define SAMPLING_NUMBER(NAME, VALUE, FIELD, INITIAL, LEAST, MOST, ALSO, HELP)                                \
    {                                                                                                        \
        .name = NAME, .value = VALUE, .kind = OPTION_FLOAT, .group = GROUP_SAMPLING, .target = AT(FIELD),    \
        .given = AT(sampling_given.FIELD), .commands = SAMPLING, .initial = INITIAL, .minimum = LEAST,       \
        .maximum = MOST, .also = ALSO, .help = HELP                                                          \
    }

#define SAMPLING_COUNT(NAME, VALUE, FIELD, INITIAL, MOST, MINUS_ONE, ALSO, HELP)                             \
    {                                                                                                        \
        .name = NAME, .value = VALUE, .kind = OPTION_U32, .group = GROUP_SAMPLING, .target = AT(FIELD),      \
        .given = AT(sampling_given.FIELD), .commands = SAMPLING, .initial = INITIAL, .maximum = MOST,        \
        .minus_one = MINUS_ONE, .also = ALSO, .help = HELP                                                   \
    }

#define SAMPLING_TEXT(NAME, LETTER, VALUE, KIND, FIELD, ALSO, HELP)                                          \
    {                                                                                                        \
        .name = NAME, .letter = LETTER, .value = VALUE, .kind = KIND, .group = GROUP_SAMPLING,               \
        .target = AT(FIELD), .commands = SAMPLING, .also = ALSO, .help = HELP                                \
    }

#define SAMPLING_SEED(COMMANDS, HELP)                                                                        \
    {                                                                                                        \
        .name = "seed", .value = "S", .kind = OPTION_U64, .group = GROUP_SAMPLING, .target = AT(seed),       \
        .given = AT(seed_given), .commands = COMMANDS, .also = " -s ", .help = HELP                          \
    }

const struct option options_sampling[] = {
    {.name = "temp",
     .value = "T",
     .kind = OPTION_FLOAT,
     .group = GROUP_SAMPLING,
     .target = AT(temperature),
     .given = AT(temperature_given),
     .commands = SAMPLING,
     .initial = "0.8",
     .maximum = 100,
     .also = " --temperature ",
     .help = "Temperature; 0 always takes the most likely token"},
    SAMPLING_NUMBER("dynatemp-range", "R", dynatemp_range, "0", 0, 100, NULL,
                    "Dynamic temperature: between --temp minus R and --temp plus R, depending on how even "
                    "the probabilities are; 0: off"),
    SAMPLING_NUMBER("dynatemp-exp", "X", dynatemp_exponent, "1", 0, 100, NULL,
                    "Exponent of the dynamic temperature"),
    SAMPLING_COUNT("top-k", "K", top_k, "40", 1e9, "0", NULL,
                   "Samples from the K most likely tokens; 0 or -1: off"),
    SAMPLING_NUMBER("top-p", "P", top_p, "0.95", 0, 1, NULL,
                    "Samples from the most likely tokens whose probabilities add up to P; 1 or 0: off"),
    SAMPLING_NUMBER("min-p", "P", min_p, "0.05", 0, 1, NULL,
                    "Drops tokens less likely than P times the most likely one; 0: off"),
    SAMPLING_NUMBER("typical", "P", typical_p, "1", 0, 1, " --typical-p ",
                    "Samples from the most typical tokens whose probabilities add up to P; 1 or 0: off"),
    SAMPLING_NUMBER(
        "top-n-sigma", "N", top_n_sigma, "-1", -1, 1e6, " --top-nsigma ",
        "Drops tokens whose logits are more than N standard deviations below the highest; 0 or less: off"),
    SAMPLING_NUMBER("xtc-probability", "P", xtc_probability, "0", 0, 1, NULL,
                    "XTC: with this probability, drops all tokens that reach --xtc-threshold, except the "
                    "least likely of them; 0: off"),
    SAMPLING_NUMBER("xtc-threshold", "P", xtc_threshold, "0.1", 0, 1, NULL,
                    "Probability from which on XTC drops tokens; above 0.5: off"),
    SAMPLING_NUMBER("repeat-penalty", "X", repeat_penalty, "1", 0, 100, NULL,
                    "Divides the logits of recent tokens by X, or multiplies negative ones; 1 or 0: off"),
    SAMPLING_NUMBER("frequency-penalty", "X", frequency_penalty, "0", -100, 100, NULL,
                    "Subtracts X from a token's logit for each recent use"),
    SAMPLING_NUMBER("presence-penalty", "X", presence_penalty, "0", -100, 100, NULL,
                    "Subtracts X from a token's logit if it was used recently"),
    SAMPLING_COUNT("penalty-last-n", "N", penalty_last_n, "64", 1e6, "1000000", " --repeat-last-n ",
                   "Number of recent tokens that the penalties consider; 0: none, -1: all"),
    SAMPLING_NUMBER(
        "dry-multiplier", "X", dry_multiplier, "0", 0, 100, NULL,
        "DRY: subtracts X times --dry-base to the power of n from the logit of a token that would repeat a "
        "longer sequence, where n is how much longer it is than --dry-allowed-length; 0: off"),
    SAMPLING_NUMBER("dry-base", "X", dry_base, "1.75", 0, 100, NULL, "Base of DRY's penalty; below 1: off"),
    SAMPLING_COUNT("dry-allowed-length", "N", dry_allowed_length, "2", 1e6, NULL, NULL,
                   "Tokens that may repeat before DRY penalizes the next"),
    SAMPLING_COUNT("dry-penalty-last-n", "N", dry_penalty_last_n, "64", 1e6, "1000000", NULL,
                   "Number of recent tokens that DRY considers; 0: none, -1: all"),
    SAMPLING_TEXT("dry-sequence-breaker", 0, "TEXT", OPTION_LIST, dry_breakers, NULL,
                  "A text that DRY's repetitions do not reach across, in place of \\n, :, \" and *; may be "
                  "repeated; `none`: no such texts"),
    SAMPLING_COUNT("mirostat", "VERSION", mirostat, "0", 2, NULL, NULL,
                   "Mirostat 1 or 2, in place of all other samplers except the temperature; 0: off"),
    SAMPLING_NUMBER("mirostat-lr", "ETA", mirostat_eta, "0.1", 0, 100, NULL, "Mirostat's learning rate"),
    SAMPLING_NUMBER("mirostat-ent", "TAU", mirostat_tau, "5", 0, 1000, NULL,
                    "Surprise that Mirostat aims at, in bits for each token"),
    SAMPLING_TEXT("samplers", 0, "NAMES", OPTION_TEXT, samplers, NULL,
                  "The samplers and their order, separated by `;` (default: "
                  "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature)"),
    SAMPLING_TEXT("sampler-seq", 0, "LETTERS", OPTION_TEXT, sampler_seq, " --sampling-seq ",
                  "The same, with a letter for each sampler (default: edskypmxt)"),
    SAMPLING_TEXT("logit-bias", 'l', "ID+BIAS", OPTION_LIST, logit_bias, NULL,
                  "Adds to the logit of a token: `15043+1`, `15043-1`; `15043-inf` bans it; may be repeated"),
    SAMPLING_TEXT("ban", 0, "TEXT", OPTION_LIST, ban, NULL,
                  "Never writes this text, in any tokenization; may be repeated"),
    SAMPLING_TEXT("ban-token", 0, "ID", OPTION_LIST, ban_tokens, NULL,
                  "Never chooses this token; may be repeated"),
    {.name = "beams",
     .value = "N",
     .kind = OPTION_U32,
     .group = GROUP_SAMPLING,
     .target = AT(n_beams),
     .commands = " run batch ",
     .initial = "1",
     .minimum = 1,
     .maximum = MAX_BEAMS,
     .also = " --num-beams ",
     .help = "Beam search: keeps the N most likely texts side by side and prints the best, then a table of "
             "all N with their scores (docs/beams.md)"},
    {.name = "length-penalty",
     .value = "X",
     .kind = OPTION_FLOAT,
     .group = GROUP_SAMPLING,
     .target = AT(length_penalty),
     .given = AT(length_penalty_given),
     .commands = " run batch ",
     .initial = "1",
     .minimum = -MAX_BEAMS_PENALTY,
     .maximum = MAX_BEAMS_PENALTY,
     .help = "With --beams: the score of a text is its log-probability divided by its length to the power of "
             "X; above 0 favours long texts, below 0 short ones"},
    {.name = "early-stopping",
     .value = "WHEN",
     .kind = OPTION_CHOICE,
     .group = GROUP_SAMPLING,
     .target = AT(early_stopping),
     .choices = "true|false|never",
     .commands = " run batch ",
     .help = "With --beams, when N texts have ended: true stops; false continues while the best beam scores "
             "higher than the worst of them; never continues while it still could (default: false)"},
    SAMPLING_SEED(" chat ", "Seed of the first answer; each further one has the next (default, or -1: a "
                            "random one, which /stats shows)"),
    SAMPLING_SEED(" run ", "Makes the text reproducible (default, or -1: a random seed, printed at the end)"),
    SAMPLING_SEED(" batch ",
                  "Seed of the batch (default: 0; -1: a random one, which is printed). Each line's seed "
                  "follows from it and the line's number, unless the line has its own"),
    {.next = options_serve},
};
