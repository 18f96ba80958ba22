/* main.c: the program `engine`: the table of commands, and a check that standard output was written. */
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

#include "commands/commands.h"
#include "engine.h"
#include "io/json.h"
#include "io/messages.h"
#include "io/signals.h"
#include "options/arguments.h"

const struct command commands[] = {
    {.name = "run",
     .synopsis = "[MODEL.gguf] [PROMPT] [OPTION...]",
     .summary = "Continues a prompt. This is the default command.",
     .details =
         "The prompt and the generated text go to standard output as they are produced; everything else goes "
         "to standard error. Without -m, the model in engine.conf runs, else the small one that comes with "
         "the engine, which tells stories. Without a prompt, the model starts a new text.\n"
         "The model and the prompt work without -m and -p: the first argument is a model if it ends in .gguf "
         "or .bin.",
     .examples = "  engine -p \"Once upon a time\"\n"
                 "  engine run \"Once upon a time\"\n"
                 "  engine llama.gguf \"Once upon a time\"\n"
                 "  engine --seed 7\n"
                 "  engine -m llama.gguf -p \"Once upon a time\"\n"
                 "  engine -m llama.gguf -f question.txt -n 200 --temp 0 --no-echo\n"
                 "  engine -m llama.gguf -p \"Once upon a time\" --beams 4 --json\n"
                 "  engine -m stories.bin --tokenizer tokenizer.bin -p \"The dog\" --seed 7\n",
     .words = "MODEL.gguf PROMPT",
     .max_words = 2,
     .run = command_run},
    {.name = "chat",
     .synopsis = "[-m MODEL] [OPTION...]",
     .summary = "Holds a conversation with the model.",
     .details = "On a terminal, lines can be edited; Ctrl-C stops an answer, /help lists the commands, and "
                "Ctrl-D ends the chat. Otherwise each line of standard input is a message, and each answer "
                "goes to standard output. The model's chat template is used, or that of --chat-template.",
     .examples = "  engine chat\n"
                 "  engine chat -m llama.gguf --system \"You are a poet.\" --temp 0.7\n"
                 "  engine chat -m llama2.gguf --chat-template llama2\n"
                 "  echo 'What is 3 + 4?' | engine chat --temp 0\n",
     .run = command_chat},
    {.name = "batch",
     .synopsis = "[-m MODEL] IN.jsonl [-o OUT.jsonl] [OPTION...]",
     .summary = "Continues many prompts, several at once.",
     .details =
         "IN has one JSON object per line: {\"prompt\": TEXT} or {\"tokens\": [IDS]}. Further keys override "
         "the command line: id, max_tokens (or n_predict), temperature, top_k, top_p, min_p, "
         "typical_p, repeat_penalty, frequency_penalty, presence_penalty, repeat_last_n, seed, stop (a text "
         "or several), ignore_eos, priority (higher ones go first). `-` is standard input.\n"
         "Also: samplers, logit_bias, ban, logprobs, dynatemp_range, dynatemp_exponent, top_n_sigma, "
         "xtc_probability, xtc_threshold, mirostat, mirostat_tau, mirostat_eta, dry_multiplier, dry_base, "
         "dry_allowed_length, dry_penalty_last_n, dry_sequence_breakers; and grammar (GBNF), json_schema or "
         "response_format (OpenAI's), which constrain the answer. docs/batch.md describes all of them.\n"
         "Each line of OUT is a result, in the order of IN: index, id, text, finish_reason (stop, length or "
         "context), prompt_tokens, text_tokens, seed, key; or, for a line that cannot be run, index, id and "
         "error, and the exit status is 1 in the end. Results do not depend on --parallel.\n"
         "A batch that was stopped or killed resumes when the same command runs again: nothing that was "
         "written is lost or written twice. `key` tells whether a line of OUT belongs to its line of IN, to "
         "the model and to the options; if one does not, nothing is written.",
     .examples = "  engine batch -m llama.gguf questions.jsonl -o answers.jsonl\n"
                 "  engine batch -m llama.gguf questions.jsonl -o answers.jsonl -np 16 -n 200 --temp 0\n"
                 "  echo '{\"prompt\": \"One day\", \"stop\": [\".\"]}' | engine batch -\n",
     .words = "IN.jsonl",
     .min_words = 1,
     .max_words = 1,
     .run = command_batch},
    SERVE_COMMAND(command_serve),
    {.name = "info",
     .synopsis = "[--json] [MODEL]",
     .summary = "Shows a model file's metadata and tensors.",
     .details = "Without MODEL, shows the default model.\n"
                "Shapes have the row length first, as in GGUF. --json cuts arrays to their first 100 "
                "elements (`count` is the true length); --verbose shows them whole.",
     .examples = "  engine info model.gguf\n"
                 "  engine info --json model.gguf | jq '.metadata[\"llama.block_count\"].value'\n"
                 "  engine info --tokenizer tok512.bin stories260K.bin\n",
     .words = "MODEL",
     .max_words = 1,
     .run = command_info},
    {.name = "logits",
     .synopsis = "[-m MODEL] --text TEXT|--tokens IDS|--tokens-file FILE -o OUT.npy [OPTION...]",
     .summary = "Writes the logits or hidden states at every position of a list of tokens.",
     .details = "The file is in NumPy format: float32, [tokens, vocabulary]. An existing file is replaced "
                "only when the new one is complete; a device, a FIFO or a symbolic link is written directly. "
                "OUT must not be one of the input files.\n"
                "--json writes the numbers as JSON, to standard output without -o. --top N prints the N most "
                "likely next tokens after each position instead.\n"
                "With --hidden or --lens, -o isn't needed.",
     .examples = "  engine logits -m llama.gguf --tokens \"1 15043 3186\" -o logits.npy\n"
                 "  engine logits -m llama.gguf --tokens-file tokens.npy -o logits.npy --cache-type f32\n"
                 "  engine logits -m llama.gguf --text \"The capital of France is\" --top 5\n"
                 "  engine logits -m llama.gguf --text \"The capital of France is\" --lens\n"
                 "  engine logits -m llama.gguf --text \"One day\" --hidden hidden.npy\n",
     .run = command_logits},
    {.name = "score",
     .synopsis = "[-m MODEL] -p PROMPT --answer TEXT [--answer TEXT...] [OPTION...]",
     .summary = "Scores given answers to a prompt by their log-probability.",
     .details =
         "For each answer: PROBABILITY is its share among the answers (a softmax of LOGPROB), LOGPROB the "
         "natural logarithm of the probability that the model writes it after the prompt, and PER TOKEN and "
         "PER BYTE the same divided by its length. A second table has each token. The tokens of an answer "
         "are those of its text by itself, so \" Yes\" and \"Yes\" usually differ.\n"
         "With -f, each line of a file is a JSON object: {\"prompt\": TEXT, \"answers\": [TEXT, ...]}. "
         "Several answers are scored at once, and what prompts share is computed once. With --json, each "
         "line becomes a line of JSON, in the same order.",
     .examples = "  engine score -p \"The opposite of big is\" --answer \" small.\" --answer \" red.\"\n"
                 "  engine score -m llama.gguf -f reviews.jsonl --answer Positive --answer Negative --json\n"
                 "  engine score -m llama.gguf --tokens-file prompt.npy --answer-tokens-file answer.npy\n",
     .run = command_score},
    {.name = "embed",
     .synopsis = "[-m MODEL] TEXT... | -f FILE [-o OUT.npy] [OPTION...]",
     .summary = "Turns texts into vectors whose angles show how similar the texts are.",
     .details = "The model is an encoder (BERT and its relatives) or a decoder trained for embeddings. Each "
                "text becomes a line of numbers, or with --json a line of JSON: index, id, tokens, "
                "embedding. Results do not depend on which texts are computed together.\n"
                "Embeddings have length 1 unless --embd-normalize says otherwise, so that the product of two "
                "is the cosine of their angle.",
     .examples = "  engine embed -m bge-small.gguf \"How old are you?\" \"What is your age?\" --json\n"
                 "  engine embed -m bge-small.gguf -f lines.txt -o embeddings.npy\n"
                 "  engine embed -m nomic-embed.gguf -f texts.jsonl --dimensions 256 --json\n"
                 "  engine embed -m bert/ --tokens-file tokens.npy --pooling none -o states.npy\n",
     .words = "TEXT...",
     .max_words = UINT_MAX,
     .run = command_embed},
    {.name = "rerank",
     .synopsis = "[-m MODEL] -q QUERY DOCUMENT... | -f FILE [--top-n N] [--json] [OPTION...]",
     .summary = "Ranks documents by how well they answer a query.",
     .details =
         "The model is a reranker: an encoder with a classification head of one label that reads the query "
         "and a document together, or qwen3-reranker. Each line is the score, the document's number, counted "
         "from 0, and its text, the best first; with --json a line of JSON: index, id, relevance_score, "
         "tokens, document. Scores are the head's own, as in llama.cpp: they compare documents of one query.",
     .examples =
         "  engine rerank -m bge-reranker.gguf -q \"capital of France\" \"Paris is.\" \"I like tea.\"\n"
         "  engine rerank -m bge-reranker.gguf -q \"capital of France\" -f passages.jsonl --top-n 3\n",
     .words = "DOCUMENT...",
     .max_words = UINT_MAX,
     .run = command_rerank},
    {.name = "classify",
     .synopsis = "[-m MODEL] TEXT... | -f FILE [--top-n N] [--json] [OPTION...]",
     .summary = "Labels texts with a model that has a classification head.",
     .details =
         "Each text becomes a line of its labels and their probabilities, the most likely first; with --json "
         "a line of JSON: index, id, tokens, labels. Probabilities are a softmax if one label applies, a "
         "sigmoid if several may, and for a regression the number itself, as the model's configuration says.",
     .examples = "  engine classify -m sentiment/ \"I liked it.\" \"Never again!\"\n"
                 "  engine classify -m sentiment/ -f reviews.txt --top-n 1 --json\n",
     .words = "TEXT...",
     .max_words = UINT_MAX,
     .run = command_classify},
    {.name = "perplexity",
     .synopsis = "[-m MODEL] -f FILE [--stride N] [--save-logits FILE] [--kl FILE] [OPTION...]",
     .summary =
         "Measures how well a model predicts a text, or how far its predictions are from another model's.",
     .details = "The perplexity is the exponential of the mean negative log-probability of the text's "
                "tokens. The text is cut into windows of -c tokens (default: 512), and the second half of "
                "each window counts, as in llama-perplexity. With --stride, windows overlap and every token "
                "counts once, as in the documentation of transformers.\n"
                "--save-logits keeps the predictions in a file. With --kl, another type of the model, or "
                "another model with the same vocabulary, is compared with them: Kullback-Leibler divergence, "
                "how often both agree on the most likely token, and the ratio of the perplexities.",
     .examples = "  engine perplexity -m llama-F16.gguf -f text.txt\n"
                 "  engine perplexity -m llama-F16.gguf -f text.txt -c 2048 --stride 512 --json\n"
                 "  engine perplexity -m llama-F16.gguf -f text.txt --save-logits f16.logits\n"
                 "  engine perplexity -m llama-Q4_K_M.gguf --kl f16.logits\n",
     .run = command_perplexity},
    {.name = "imatrix",
     .synopsis = "[-m MODEL] -f FILE -o OUT.gguf [--chunks N] [--in-file FILE...] [OPTION...]",
     .summary = "Measures which columns of a model's matrices matter, for `engine quantize --imatrix`.",
     .details = "Runs a text in windows of -c tokens (default: 512) and adds up the squares of each matrix's "
                "inputs; for experts, only of the tokens that use them. The file is in the GGUF format of "
                "llama.cpp's llama-imatrix, and llama-quantize takes it too. The model should be in F16, "
                "BF16 or F32, and the text like what the model will be used for: 100 windows are enough, but "
                "models with experts need more.",
     .examples = "  engine imatrix -m llama-F16.gguf -f text.txt -o llama.imatrix.gguf\n"
                 "  engine quantize llama-F16.gguf llama-Q4_K_M.gguf Q4_K_M --imatrix llama.imatrix.gguf\n"
                 "  engine imatrix -m llama-F16.gguf -f more.txt --in-file llama.imatrix.gguf -o both.gguf\n",
     .run = command_imatrix},
    {.name = "attention",
     .synopsis = "[-m MODEL] -p PROMPT [--layer L|all] [--head H|mean|max|all] [--token T] [-o FILE]",
     .summary = "Shows which tokens the tokens of a text attend to.",
     .details = "Without -o, lists the tokens that one token attends to in a layer, the largest weight "
                "first. Weights are taken after the softmax, so those of a token add up to 1 (less if the "
                "model has sinks). Tokens that it cannot see are left out; in files they are 0.\n"
                "In layers whose device can't return weights, attention runs on the CPU.",
     .examples = "  engine attention -m llama.gguf -p \"The movie was great\"\n"
                 "  engine attention -m llama.gguf -f review.txt --layer 3 --head all --token sentiment\n"
                 "  engine attention -m llama.gguf -f review.txt -o weights.npy\n"
                 "  engine attention -m llama.gguf -f review.txt --layer 3 --head 5 -o map.png\n"
                 "  engine attention -m llama.gguf -f review.txt -o page.html\n",
     .run = command_attention},
    {.name = "bench",
     .synopsis = "[-m MODEL] [OPTION...]",
     .summary = "Measures how fast a model runs here.",
     .details = "With --lookup or --draft, it decodes a text at temperature 0 with and without guesses, in "
                "turns. What guesses gain depends on the text: -f FILE gives one to continue.",
     .examples = "  engine bench -m llama.gguf\n"
                 "  engine bench -m llama.gguf -p 2048 -n 128 -r 5 -t 8 --json\n"
                 "  engine bench -m llama.gguf -d 4096          after a long text\n"
                 "  engine bench -m llama.gguf --sequences 1,2,4,8 -p 128 -n 32\n"
                 "  engine bench -m llama.gguf --lookup -f notes.txt -n 256\n",
     .run = command_bench},
    {.name = "quantize",
     .synopsis = "IN OUT.gguf TYPE [--only PATTERN=TYPE...] [--pure] [-t N]",
     .summary = "Writes a model with its matrices in another type, which makes it smaller and faster.",
     .details =
         "TYPE is F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL, IQ4_XS, or a mix: Q2_K, Q2_K_S, "
         "Q3_K_S, Q3_K_M, Q3_K_L, Q4_K_S, Q4_K_M, Q5_K_S, Q5_K_M, Q6_K (Q3_K, Q4_K and Q5_K mean the mixes "
         "that end in M). A mix assigns types as llama-quantize does: the output matrix and the most "
         "important layers get more bits, unless --pure is given. Norms, vectors and metadata are kept.\n"
         "IN is a GGUF file with matrices in F32, F16 or BF16, a Hugging Face directory, or a llama2.c "
         "checkpoint (--tokenizer adds its vocabulary). An existing OUT is replaced only when the new file "
         "is complete.",
     .examples = "  engine quantize llama-F16.gguf llama-Q4_K_M.gguf Q4_K_M\n"
                 "  engine quantize llama-F16.gguf llama-Q8_0.gguf Q8_0 -t 4\n"
                 "  engine quantize llama-F16.gguf small.gguf Q4_0 --only 'blk.*.ffn_down.*=Q6_K' --only "
                 "'output.weight=Q8_0'\n"
                 "  engine quantize --tokenizer tok512.bin stories260K.bin stories260K.gguf F32\n",
     .words = "IN OUT TYPE",
     .choices = "F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 IQ4_NL IQ4_XS Q2_K Q2_K_S Q3_K_S Q3_K_M Q3_K_L Q4_K_S "
                "Q4_K_M Q5_K_S Q5_K_M Q6_K",
     .min_words = 3,
     .max_words = 3,
     .run = command_quantize},
    {.name = "plan",
     .synopsis = "[-m MODEL] [OPTION...]",
     .summary = "Shows which device would hold which tensor, without loading anything.",
     .details =
         "LAYERS counts the layers whose attention runs on a device. `parts` means that the device holds "
         "weights only of layers whose attention runs elsewhere; `-` means that it holds only other weights, "
         "such as the embedding. With -v, run, logits and bench report what each device holds. MESSAGES and "
         "BYTES count what goes to another machine and back for each token (docs/cluster.md).",
     .examples = "  engine plan -m llama.gguf\n"
                 "  engine plan -m llama.gguf --time\n"
                 "  engine plan -m llama.gguf --cluster machines.json\n"
                 "  engine plan -m llama.gguf -c 8192 --cache-type q8_0 --json\n",
     .run = command_plan},
    {.name = "template",
     .synopsis = "[-m MODEL] --messages FILE [--tools FILE] [--chat-template NAME|FILE] [--ids]",
     .summary = "Renders a conversation with a chat template.",
     .details =
         "Prints the text that a model gets for a conversation, and nothing else; --ids prints its tokens. "
         "The template is the model's own, or the one that --chat-template names; docs/templates.md lists "
         "those that come with the engine. Only the template writes special tokens: one that a message "
         "spells out remains text. A model file with a vocabulary and no weights is sufficient.",
     .examples =
         "  engine template -m model.gguf --messages chat.json\n"
         "  engine template -m model.gguf --messages chat.json --tools tools.json --ids\n"
         "  engine template -m model.gguf --messages - --template-arg enable_thinking=false < chat.json\n"
         "  engine template -m model.gguf --messages chat.json --chat-template chatml\n",
     .run = command_template},
    {.name = "tokenize",
     .synopsis = "[-m MODEL] [TEXT] [--ids] [-0] [--bos] [--special] [--decode] [--explain]",
     .summary = "Turns text into token ids, or ids into text.",
     .details = "Without TEXT, reads the text from standard input. Shows each token with its id and piece; "
                "--ids prints one line of ids. A model file with a vocabulary and no weights is sufficient.\n"
                "-0 reads many NUL-terminated texts from standard input and prints a line of ids for each. "
                "With --decode it does the reverse: each line of ids becomes a NUL-terminated text. With "
                "--json, each text becomes a line of JSON.\n"
                "--explain shows how a text becomes tokens: special tokens, the normalized text, the words "
                "that are tokenized by themselves, and in each word the merges, the lattice or the matches.",
     .examples = "  engine tokenize -m model.gguf \"Once upon a time\"\n"
                 "  engine tokenize --explain \"a time\"\n"
                 "  engine tokenize -m model.gguf --ids < README.md\n"
                 "  engine tokenize -m model.gguf --bos --special --ids \"<|user|>Hello<|end|>\"\n"
                 "  engine tokenize -m model.gguf --decode \"1 9038 2501 263 931\"\n",
     .words = "TEXT",
     .max_words = 1,
     .run = command_tokenize},
    {.name = "plugins",
     .synopsis = "[check FILE.so] [OPTION...]",
     .summary = "Lists the plugins found, and why any of them is not used; or checks one.",
     .details = "The engine looks for plugins in the folders given by --plugin-dir, in those of "
                "ENGINE_PLUGIN_PATH (separated by colons), in `plugin_dirs` of engine.conf, and in its own "
                "folder. The first plugin of each name is used. The engine refuses a file or folder that "
                "belongs to anyone but you and root, or that others may write to (such as /tmp).\n"
                "`check` loads only the plugin FILE.so and tests everything that it claims: for a backend, "
                "each operation over types, shapes and strides against a reference, then buffers, weights, "
                "streams, errors and threads; for a tokenizer, each model kind with a made-up vocabulary. "
                "ERROR is the largest difference, relative to the size of the result; OF ALLOWED is the "
                "largest difference, relative to its tolerance. -v lists every case that is not claimed. The "
                "exit status is 0 only if everything that it claims holds.",
     .examples = "  engine plugins\n  engine plugins --plugin-dir ~/my-plugin/build --json\n"
                 "  engine plugins check ~/my-plugin/build/mine.so\n"
                 "  engine plugins check ~/my-plugin/build/mine.so --case 'matmul Q4_0 #17'\n",
     .words = "check FILE.so",
     .max_words = 2,
     .run = command_plugins},
    {.name = "devices",
     .synopsis = "[--json]",
     .summary = "Lists the devices that models can run on, with their memory.",
     .examples = "  engine devices\n  engine devices --json\n",
     .run = command_devices},
    {.name = "worker",
     .synopsis = "[OPTION...]",
     .summary = "Offers this machine's devices to an engine on another one, through MPI.",
     .details =
         "mpirun or srun starts workers together with the command that uses their devices, which is rank 0. "
         "Devices are named after the worker's rank: mpi1.cpu, mpi2.vulkan0 and so on. A worker ends with "
         "that command. docs/cluster.md says how to start workers and what to expect.",
     .examples = "  engine worker --backend cpu -t 16\n"
                 "  engine worker -m llama.gguf --weights local\n"
                 "  mpirun -n 1 engine run -m llama.gguf -p \"One day\" --backend mpi : -n 2 engine worker\n"
                 "  mpirun -n 1 engine devices : -host node2 -n 1 engine worker --backend cpu -t 16\n",
     .run = command_worker},
    {.name = "help",
     .synopsis = "[COMMAND] [--format text|man|bash|zsh|fish]",
     .summary = "Explains a command; writes manual pages and shell completions.",
     .examples = "  engine help run\n"
                 "  engine help plan --format man | man -l -\n"
                 "  source <(engine help --format bash)\n",
     .words = "COMMAND",
     .max_words = 1,
     .run = command_help},
    {.name = NULL},
};

static int print_version(void)
{
    printf("engine %s\nplugin ABI %d.%d\n", engine_version(), ENGINE_ABI_MAJOR, ENGINE_ABI_MINOR);
    return 0;
}

/* Output must not get lost unnoticed, for example on a full disk. A reader that closes the pipe
 * (`engine … | head`) is not a failure. */
static int end_output(int status)
{
    bool lost = fflush(stdout) != 0 || ferror(stdout);
    if (signals_reader_is_gone()) return 0;
    if (!lost || status != 0) return status;
    fputs("engine: standard output could not be written completely\n", stderr);
    return 1;
}

int main(int argc, char **argv)
{
    struct arguments arguments;
    int status;
    signals_begin();
    json_end_without_memory();
    if (!arguments_parse(argc, argv, &arguments)) {
        status = command_usage("%s", arguments.error);
    } else if (arguments.version) {
        status = print_version();
    } else if (arguments.help) {
        arguments_help(arguments.command, stdout);
        status = 0;
    } else {
        status = arguments.command->run(&arguments);
    }
    arguments_free(&arguments);
    status = end_output(status);
    signals_end();
    return status;
}
