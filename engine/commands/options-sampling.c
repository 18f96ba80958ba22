/* options-sampling.c: the options of sampling. Names and defaults are llama.cpp's. */
#include "commands/beams.h"
#include "commands/options-table.h"

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
                  "Never writes this text, whatever tokens it is made of; may be repeated"),
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
     .maximum = BEAMS_MOST,
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
     .minimum = -BEAMS_MOST_PENALTY,
     .maximum = BEAMS_MOST_PENALTY,
     .help = "With --beams: the score of a text is its log-probability divided by its length to the power of "
             "X; above 0 favours long texts, below 0 short ones"},
    {.name = "early-stopping",
     .value = "WHEN",
     .kind = OPTION_CHOICE,
     .group = GROUP_SAMPLING,
     .target = AT(early_stopping),
     .choices = "true|false|never",
     .commands = " run batch ",
     .help = "With --beams, once N texts have ended: true stops, false goes on while the best beam is better "
             "than the worst of them, never while it could become so (default: false)"},
    SAMPLING_SEED(" chat ", "Seed of the first answer; each further one has the next (default, or -1: a "
                            "random one, which /stats shows)"),
    SAMPLING_SEED(" run ", "Makes the text reproducible (default, or -1: a random seed, printed at the end)"),
    SAMPLING_SEED(" batch ",
                  "Seed of the batch (default: 0; -1: a random one, which is printed). Each line's seed "
                  "follows from it and the line's number, unless the line has its own"),
    {.next = options_serve},
};
