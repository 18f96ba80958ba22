/* options-elsewhere.c: options that llama.cpp's llama-cli, llama-server and llama-bench have and this program
 * doesn't, with what to do instead; those that only have another name here are in the table (options.h,
 * `also`). Called by arguments.c for options that a command doesn't know. */
#include <string.h>

#include "options/options.h"

#define CACHE    "--cache-type sets the type of keys and values"
#define CHAT     "engine chat holds a conversation, and engine run continues a text"
#define DEVICES  "--backend, --offload and --place say what runs where"
#define GUESSES  "--lookup guesses from the text itself, and --draft with a smaller model"
#define HUB      "-m ORG/NAME takes a model from Hugging Face's cache, and -m DIRECTORY a download"
#define LOG      "the log is standard error: 2>FILE writes it to a file"
#define MODELS   "-m may be repeated, and models are loaded when they are asked for"
#define NEEDLESS "leave it out"
#define PICTURES "models read texts only"
#define THINKING "--template-arg and --chat-template-kwargs set what the model's template knows of reasoning"
#define THREADS  "-t sets the number of threads"
#define WHOLE    "a text ends where the context is full; -c makes it longer"

/* Without those of one dash, -fa would be -f with the file "a". */
static const struct {
    const char *names; /* with a space around each; "--spec-*" are all that begin so */
    const char *instead;
} elsewhere[] = {
    {" -co -ctxcp -cms -sps -fa -cb -nocb -kvu -no-kvu -dt -nr -rtr -bs -lm -lzm -dio -ndio -mmp -fit "
     "-fitt -fitc --flash-attn --no-flash-attn --cont-batching --no-cont-batching --kv-unified "
     "--no-kv-unified --kv-unified-per-slot --defrag-thold --repack --no-repack --no-host "
     "--backend-sampling --load-mode --lazy-mode --direct-io --no-direct-io --mmap --no-mmap --mlock --fit "
     "--fit-target --fit-ctx --swa-full --perf --no-perf --warmup --no-warmup --poll --poll-batch "
     "--poll-draft --poll-batch-draft --offline --jinja --no-escape --no-context-shift --cache-prompt "
     "--cache-reuse --cache-idle-slots --no-cache-idle-slots --slot-prompt-similarity --ctx-checkpoints "
     "--swa-checkpoints --checkpoint-min-step --checkpoint-every-n-tokens --embedding --embeddings "
     "--rerank --reranking --metrics --props --slots --no-slots --prefill-assistant --show-timings "
     "--no-show-timings --color --simple-io --ui --webui --display-prompt --op-offload "
     "--mtmd-batch-max-tokens ",
     NEEDLESS},
    {" -ctk -ctv -ctkd -ctvd --cache-type-k --cache-type-v --cache-type-k-draft --cache-type-v-draft ",
     CACHE},
    {" -cram --cache-ram ", "--cache-size sets how many tokens the cache keeps"},
    {" -ub --ubatch-size ", "-b sets how many tokens of a prompt run at once"},
    {" -tb -td -tbd --threads-batch --threads-draft --threads-batch-draft ", THREADS},
    {" -C -Cr -Cb -Crb --cpu-mask --cpu-range --cpu-strict --cpu-mask-batch --cpu-range-batch "
     "--cpu-strict-batch --cpu-mask-draft --cpu-range-draft --cpu-strict-draft --cpu-mask-batch-draft "
     "--cpu-strict-batch-draft ",
     "taskset -c chooses the processors, and -t sets the number of threads"},
    {" --prio --prio-batch --prio-draft --prio-batch-draft ", "nice sets the priority of a program"},
    {" --numa ", "numactl says on which nodes a program runs"},
    {" -hf -hfr -hff -hft -hfd -hfrd -hfv -hfrv -hffv -mu -dr -cl --hf-repo --hf-file --hf-token "
     "--hf-repo-draft --model-url --docker-repo --cache-list --fim-* --embd-gemma-default --gpt-oss-* "
     "--vision-* ",
     HUB},
    {" -mg -sm -ts -dev -devd -ot -otd -cmoe -ncmoe -cmoed -ncmoed -ncffn -ngld -kvo -nkvo -nopo "
     "--main-gpu --split-mode --tensor-split --device --device-draft --override-tensor "
     "--override-tensor-draft --cpu-moe --n-cpu-moe --cpu-moe-draft --n-cpu-moe-draft --n-cpu-ffn "
     "--gpu-layers-draft --n-gpu-layers-draft --kv-offload --no-kv-offload --no-op-offload --moe-cache-mib ",
     DEVICES},
    {" --list-devices ", "engine devices lists the devices"},
    {" --rpc ", "engine worker offers the devices of another machine (docs/cluster.md)"},
    {" -cnv -no-cnv -st -ins -if -mli -i --conversation --no-conversation --single-turn --interactive "
     "--interactive-first --instruct --multiline-input --in-prefix --in-suffix --in-prefix-bos "
     "--no-interactive --chatml ",
     CHAT},
    {" -sysf --system-prompt-file ", "engine chat --system takes the text"},
    {" -bf --binary-file ", "-f reads a file"},
    {" -e --escape ", "the shell writes such characters: $'a\\nb'"},
    {" --keep --context-shift ", WHOLE},
    {" -lv --verbosity --log-verbosity ", "-v reports more"},
    {" --verbose-prompt ", "engine tokenize shows the tokens of a text"},
    {" --log-jsonl --no-log-jsonl ", "engine serve --log-format json writes the log as JSON"},
    {" --log-prompts-dir ", "engine serve --log-prompts writes requests to the log"},
    {" --log-disable --log-file --log-colors --log-prefix --no-log-prefix --log-timestamps "
     "--no-log-timestamps ",
     LOG},
    {" --completion-bash ", "engine help --format bash writes the completions"},
    {" -lcs -lcd --lookup-cache-static --lookup-cache-dynamic ", "--lookup guesses from the text itself"},
    {" --spec-* --no-spec-* --draft-p-min --draft-p-split ", GUESSES},
    {" --check-tensors ", "--verify compares the files with their checksums"},
    {" --lora-scaled ", "--lora FILE=SCALE scales an adapter"},
    {" --lora-init-without-apply ", "--lora FILE=0 loads an adapter without applying it"},
    {" -mm -mmu -mmdev -mv --mmproj --mmproj-* --no-mmproj --no-mmproj-* --image --image-* --audio --video "
     "--video-* --media-path ",
     PICTURES},
    {" -rea --reasoning --reasoning-* --no-reasoning-* --think ", THINKING},
    {" --no-jinja ", "templates are always Jinja"},
    {" -a --alias --tags ", "engine serve -m NAME=FILE names a model"},
    {" --models-dir --models-preset --models-autoload --no-models-autoload ", MODELS},
    {" --sleep-idle-seconds ", "engine serve --models-memory limits the memory for models"},
    {" --sse-ping-interval ", "engine serve --ping-interval sets when a quiet stream says something"},
    {" --cors-* --no-cors-* ", "engine serve --cors ORIGIN lets web pages ask"},
    {" --skip-chat-parsing --no-skip-chat-parsing ",
     "reasoning_format none in a request keeps the reply whole"},
    {" -to ", "engine serve --request-timeout and --idle-timeout limit how long clients may take"},
    {" --path --api-prefix ", "a proxy in front of the server can do that"},
    {" --adaptive-target --adaptive-decay ", "--samplers lists the samplers"},
    {" --slot-save-path ", "engine run --prompt-cache keeps a prompt in a file"},
    {" -sp -ptc -cd -ns -gan -gaw -cpent -npp -ntg -npl -pps -tgs -pg -ag -no-ag --server-base "
     "--control-vector --control-vector-* --grp-attn-n --grp-attn-w --spm-infill --reuse-port --no-ui "
     "--no-webui --no-ui-* --no-webui-* --ui-* --webui-* --tools-runtime --mcp-* --agent --no-agent "
     "--no-cache-prompt --no-prefill-assistant ",
     NULL},
};

/* Options of llama-server that other commands have here. */
static const struct {
    const char *names, *instead;
} served[] = {
    {" -n --predict --n-predict ", "--max-tokens limits what requests may have generated"},
    {" -p --prompt -f --file -sys --system-prompt -r --reverse-prompt --stop ", "requests bring their texts"},
    {" -s --seed ", "requests bring their seeds"},
    {" --grammar --grammar-file -j --json-schema -jf --json-schema-file ", "requests bring their grammars"},
    {" --tools ", "requests bring their tools"},
};

/* Whether name [length] is among some names. */
static bool is_among(const char *names, const char *name, size_t length)
{
    for (const char *word = names; *(word += strspn(word, " "));) {
        size_t n = strcspn(word, " ");
        bool begins = word[n - 1] == '*', same = begins ? length >= n && memcmp(word, name, n - 1) == 0
                                                        : length == n && memcmp(word, name, n) == 0;
        if (same) return true;
        word += n;
    }
    return false;
}

bool option_elsewhere(const char *name, size_t length, const char **instead)
{
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++) {
        *instead = elsewhere[i].instead;
        if (is_among(elsewhere[i].names, name, length)) return true;
    }
    return false;
}

const char *option_for_requests(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof served / sizeof *served; i++)
        if (is_among(served[i].names, name, length)) return served[i].instead;
    return NULL;
}
