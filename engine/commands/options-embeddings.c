/* options-embeddings.c: the options of embed, rerank and classify. */
#include "commands/options-table.h"

const struct option options_embeddings[] = {
    {.name = "file",
     .letter = 'f',
     .value = "FILE",
     .kind = OPTION_TEXT,
     .group = GROUP_MAIN,
     .target = AT(prompt_file),
     .commands = " embed rerank classify ",
     .help = "Takes each line of a file; in a file named .jsonl a line is a JSON object with `text`, and "
             "`id` if you like. `-` is standard input"},

    {.name = "tokens-file",
     .value = "FILE",
     .kind = OPTION_TEXT,
     .group = GROUP_MAIN,
     .target = AT(tokens_file),
     .commands = " embed classify ",
     .help = "Reads the token ids of one text from a NumPy file; nothing is added around them"},

    {.name = "tokens-file",
     .value = "FILE",
     .kind = OPTION_TEXT,
     .group = GROUP_MAIN,
     .target = AT(tokens_file),
     .commands = " rerank ",
     .help = "Reads the token ids of query and document together from a NumPy file, as the model gets them, "
             "in place of -q and the documents"},

    {.name = "prompt",
     .letter = 'p',
     .value = "TEXT",
     .kind = OPTION_TEXT,
     .group = GROUP_MAIN,
     .target = AT(prompt),
     .commands = " embed ",
     .help = "Is put before each text; an empty one leaves out the prompt that the model has by default"},

    {.name = "prompt-name",
     .value = "NAME",
     .kind = OPTION_TEXT,
     .group = GROUP_MAIN,
     .target = AT(prompt_name),
     .commands = " embed ",
     .help = "Puts the model's prompt of this name before each text (`prompts` of "
             "config_sentence_transformers.json)"},

    {.name = "truncate",
     .kind = OPTION_FLAG,
     .group = GROUP_MAIN,
     .target = AT(truncate),
     .commands = " embed rerank classify ",
     .help = "Cuts the end off texts that are longer than the model reads, instead of refusing them; of a "
             "query and a "
             "document the longer one first"},

    {.name = "pooling",
     .value = "KIND",
     .kind = OPTION_CHOICE,
     .group = GROUP_MAIN,
     .target = AT(pooling),
     .commands = " embed ",
     .choices = "none|mean|cls|last|rank",
     .help = "What a text's embedding is: the mean of its tokens' states, the state of the first (cls) or "
             "the last; none: the states of all tokens; rank: the scores of the classification head "
             "(default: the model's own; if its file doesn't say, the mean of an encoder, else last)"},

    {.name = "embd-normalize",
     .value = "P",
     .kind = OPTION_FLOAT,
     .group = GROUP_MAIN,
     .target = AT(embd_normalize),
     .given = offsetof(struct arguments, embd_normalize_given),
     .commands = " embed ",
     .initial = "2",
     .minimum = -1,
     .maximum = 100,
     .help = "Divides each embedding by its norm: 2 Euclid's, 1 the sum, P the P-norm, 0 the largest value; "
             "-1 leaves it as it is, which is the default with --pooling none"},

    {.name = "dimensions",
     .value = "N",
     .kind = OPTION_U32,
     .group = GROUP_MAIN,
     .target = AT(n_dimensions),
     .commands = " embed ",
     .minimum = 1,
     .maximum = 1e9,
     .help = "Keeps the first N numbers of each embedding, before it is normalised: for models trained for "
             "it (Matryoshka)"},

    {.name = "output",
     .letter = 'o',
     .value = "FILE",
     .kind = OPTION_TEXT,
     .group = GROUP_MAIN,
     .target = AT(output),
     .commands = " embed ",
     .help = "Writes the embeddings as a NumPy file: float32, [texts, numbers]; with --pooling none [tokens, "
             "numbers] of all texts one after the other"},

    {.name = "parallel",
     .value = "N",
     .kind = OPTION_U32,
     .group = GROUP_MAIN,
     .target = AT(n_parallel),
     .commands = " embed rerank classify ",
     .initial = "32",
     .minimum = 1,
     .maximum = 1024,
     .also = " -np ",
     .help = "Number of texts that are computed at once at most"},

    {.name = "query",
     .letter = 'q',
     .value = "TEXT",
     .kind = OPTION_TEXT,
     .group = GROUP_MAIN,
     .target = AT(query),
     .commands = " rerank ",
     .help = "The query that the documents are ranked for"},

    {.name = "top-n",
     .value = "N",
     .kind = OPTION_U32,
     .group = GROUP_MAIN,
     .target = AT(n_top),
     .commands = " rerank classify ",
     .minimum = 1,
     .maximum = 1e9,
     .help = "Prints the N best only: documents, or labels of each text"},

    {.name = "in-order",
     .kind = OPTION_FLAG,
     .group = GROUP_MAIN,
     .target = AT(in_order),
     .commands = " rerank ",
     .help = "Prints the documents in their order, not the best first"},

    {.name = "raw",
     .kind = OPTION_FLAG,
     .group = GROUP_MAIN,
     .target = AT(raw_scores),
     .commands = " classify ",
     .help =
         "Prints the scores of the head, without the softmax or sigmoid that makes probabilities of them"},
    {.next = options_others},
};
