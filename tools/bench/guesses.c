/* guesses.c: what speculation gains when the text and the share of right guesses are known. Random models say
 * nothing that could be guessed, so this program puts a script into the engine at two places, by the linker's
 * --wrap. All else is what programs run: both models compute every step, and the queue decides how much to
 * guess.
 *
 *   engine_sample   runs, and then its token is replaced by the script's next one
 *   draft_guess     runs, and then its guesses are replaced: each is right with a given probability
 *
 *   bench-guesses MODEL.gguf OPTION=VALUE…
 *
 *   draft=FILE      guess with this model; otherwise by lookup
 *   chance=P        each guess of the draft model is right with this probability (0.7)
 *   prompt=FILE     the prompt (128 random tokens)
 *   text=FILE       the text that follows it (random; with lookup, random from few tokens, so that a guess is
 *                   always found, and never true)
 *   tokens=N        length of the text (256)
 *   rounds=N        texts without and with guesses, in turns (5)
 *   guesses=N       guess so many in each step, instead of what the queue thinks best
 *
 * Prints medians of tokens per second, their ratio, the median of the ratios of the rounds, and the
 * guesses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine.h"
#include "queue/internal.h"

enum { N_FEW = 8, MAX_ROUNDS = 99 };

static struct {
    const int32_t *prompt; /* [n_prompt] */
    size_t n_prompt;
    int32_t *text; /* [n_text] */
    size_t n_text, n_said;
    bool contrary; /* says what was not guessed */
    double chance;
    uint64_t random;
    const struct guesses *guesses; /* being checked */
    size_t n_checked;
    bool drafting; /* the draft model takes its tokens in the same way */
} script;

static uint64_t next_random(void)
{
    uint64_t x = script.random += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static double next_chance(void)
{
    return (double)(next_random() >> 11) / 9007199254740992.0;
}

static int32_t few_token(void)
{
    return (int32_t)(1000 + next_random() % N_FEW);
}

/* ---- The script's places ---- */

bool __real_guess_check(struct engine_queue *queue, struct request *request, float *logits);
bool __wrap_guess_check(struct engine_queue *queue, struct request *request, float *logits);
int __real_engine_sample(struct engine_sampler *sampler, float *logits, int32_t *token);
int __wrap_engine_sample(struct engine_sampler *sampler, float *logits, int32_t *token);
int __real_draft_guess(struct draft *draft, const struct requests *requests);
int __wrap_draft_guess(struct draft *draft, const struct requests *requests);

bool __wrap_guess_check(struct engine_queue *queue, struct request *request, float *logits)
{
    script.guesses = &request->text.guesses;
    script.n_checked = 0;
    return __real_guess_check(queue, request, logits);
}

int __wrap_engine_sample(struct engine_sampler *sampler, float *logits, int32_t *token)
{
    int status = __real_engine_sample(sampler, logits, token);
    if (status || script.drafting || script.n_said == script.n_text) return status;
    size_t at = script.n_checked++;
    while (script.contrary && at < script.guesses->count &&
           script.text[script.n_said] == script.guesses->tokens[at])
        script.text[script.n_said] = few_token();
    *token = script.text[script.n_said++];
    return ENGINE_OK;
}

int __wrap_draft_guess(struct draft *draft, const struct requests *requests)
{
    script.drafting = true;
    int status = __real_draft_guess(draft, requests);
    script.drafting = false;
    for (size_t i = 0; i < requests->count && !status; i++) {
        struct guesses *guesses = &requests->items[i]->text.guesses;
        for (size_t g = 0; g < guesses->count && guesses->source == PACE_DRAFT; g++) {
            int32_t right = script.n_said + g < script.n_text ? script.text[script.n_said + g] : 0;
            guesses->tokens[g] = next_chance() < script.chance ? right : right == 7 ? 8 : 7;
        }
    }
    return status;
}

/* ---- The program ---- */

struct bench {
    struct engine_model *model;
    struct engine_context *context;
    struct engine_queue_options with;
    uint32_t n_guessed, n_accepted;
    double first, last;
    int failed;
};

static void check(int status)
{
    if (status == ENGINE_OK) return;
    fprintf(stderr, "bench-guesses: %s\n", engine_error_message());
    exit(1);
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void take_event(void *user, const struct engine_event *event)
{
    struct bench *bench = user;
    bench->last = seconds_now();
    if (event->n_generated == 1 && bench->first == 0) bench->first = bench->last;
    bench->n_guessed = event->n_guessed;
    bench->n_accepted = event->n_accepted;
    if (event->kind == ENGINE_EVENT_DONE) bench->failed = event->reason != ENGINE_DONE_LIMIT;
}

/* Tokens per second of one text, in a queue that knows nothing of earlier ones. */
static double run_text(struct bench *bench, const struct engine_queue_options *options)
{
    struct engine_queue *queue;
    struct engine_request request = {.struct_size = sizeof request,
                                     .tokens = script.prompt,
                                     .n_tokens = script.n_prompt,
                                     .max_tokens = (uint32_t)script.n_text,
                                     .flags = ENGINE_REQUEST_IGNORE_END | ENGINE_REQUEST_NO_TEXT,
                                     .event = take_event,
                                     .user = bench};
    bench->first = 0;
    script.n_said = 0;
    script.contrary = script.contrary && options;
    check(engine_queue_create(bench->context, options, &queue));
    check(engine_queue_submit(queue, &request, NULL));
    check(engine_queue_run(queue, ENGINE_QUEUE_IDLE));
    engine_queue_destroy(queue);
    if (bench->failed) {
        fprintf(stderr, "bench-guesses: the text came to no end\n");
        exit(1);
    }
    return (double)(script.n_text - 1) / (bench->last - bench->first);
}

struct tokens {
    int32_t *ids;
    size_t count;
};

static int collect(void *user, const int32_t *ids, size_t count)
{
    struct tokens *tokens = user;
    tokens->ids = realloc(tokens->ids, (tokens->count + count) * sizeof *ids);
    if (!tokens->ids) abort();
    memcpy(tokens->ids + tokens->count, ids, count * sizeof *ids);
    tokens->count += count;
    return ENGINE_OK;
}

static struct tokens read_tokens(struct engine_model *model, const char *path)
{
    static char bytes[1 << 20];
    const struct engine_tokenizer_api *api;
    struct engine_tokenizer *tokenizer;
    struct tokens tokens = {0};
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(1);
    }
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    check(engine_model_tokenizer(model, &api, &tokenizer));
    check(api->encode(tokenizer, bytes, size, 0, collect, &tokens));
    return tokens;
}

static struct tokens draw_tokens(size_t count, bool few)
{
    struct tokens tokens = {0};
    for (size_t i = 0; i < count; i++) {
        int32_t token = few ? few_token() : (int32_t)(1000 + next_random() % 20000);
        collect(&tokens, &token, 1);
    }
    return tokens;
}

static struct engine_context *open_context(struct engine_model *model)
{
    struct engine_context *context;
    struct engine_context_options options = {.struct_size = sizeof options,
                                             .n_context = (uint32_t)(script.n_prompt + script.n_text)};
    check(engine_context_create(model, &options, &context));
    return context;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, compare);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

static void measure(struct bench *bench, size_t n_rounds)
{
    double plain[MAX_ROUNDS], guessed[MAX_ROUNDS], ratios[MAX_ROUNDS];
    bool contrary = script.contrary;
    uint64_t n_guessed = 0, n_accepted = 0;
    run_text(bench, NULL); /* warms up, and leaves the prompt in the cache */
    for (size_t r = 0; r < n_rounds; r++) {
        plain[r] = run_text(bench, NULL);
        script.contrary = contrary;
        guessed[r] = run_text(bench, &bench->with);
        ratios[r] = guessed[r] / plain[r];
        n_guessed += bench->n_guessed;
        n_accepted += bench->n_accepted;
        fprintf(stderr, "%.1f %.1f tokens/s: %.3f\n", plain[r], guessed[r], ratios[r]);
    }
    double ratio = median(guessed, n_rounds) / median(plain, n_rounds);
    printf("%.1f without, %.1f with guesses: %.3f times, median of the rounds %.3f; %.1f guessed, %.1f right "
           "per text of %zu\n",
           median(plain, n_rounds), median(guessed, n_rounds), ratio, median(ratios, n_rounds),
           (double)n_guessed / (double)n_rounds, (double)n_accepted / (double)n_rounds, script.n_text);
}

static const char *option(int argc, char **argv, const char *name, const char *otherwise)
{
    size_t length = strlen(name);
    for (int i = 2; i < argc; i++)
        if (strncmp(argv[i], name, length) == 0 && argv[i][length] == '=') return argv[i] + length + 1;
    return otherwise;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: bench-guesses MODEL.gguf [draft=FILE] [chance=P] [prompt=FILE] [text=FILE] "
                        "[tokens=N] [rounds=N] [guesses=N]\n");
        return 2;
    }
    const char *draft = option(argc, argv, "draft", NULL), *prompt = option(argc, argv, "prompt", NULL),
               *text = option(argc, argv, "text", NULL);
    size_t n_text = strtoul(option(argc, argv, "tokens", "256"), NULL, 10);
    size_t n_rounds = strtoul(option(argc, argv, "rounds", "5"), NULL, 10);
    uint32_t n_guess = (uint32_t)strtoul(option(argc, argv, "guesses", "0"), NULL, 10);
    if (n_text < 2 || n_rounds < 1 || n_rounds > MAX_ROUNDS) {
        fprintf(stderr, "bench-guesses: tokens=2 or more, rounds=1 to %d\n", MAX_ROUNDS);
        return 2;
    }
    struct engine *engine;
    struct engine_model *draft_model = NULL;
    struct engine_context *draft_context = NULL;
    struct bench bench = {0};
    check(engine_open(NULL, &engine));
    check(engine_model_open(engine, argv[1], NULL, &bench.model));
    struct tokens before = prompt ? read_tokens(bench.model, prompt) : draw_tokens(128, !draft);
    struct tokens after = text ? read_tokens(bench.model, text) : draw_tokens(n_text, !draft);
    script.prompt = before.ids;
    script.n_prompt = before.count;
    script.text = after.ids;
    script.n_text = after.count < n_text ? after.count : n_text;
    script.contrary = !draft && !text;
    script.chance = strtod(option(argc, argv, "chance", "0.7"), NULL);
    bench.context = open_context(bench.model);
    if (draft) check(engine_model_open(engine, draft, NULL, &draft_model));
    if (draft) draft_context = open_context(draft_model);
    bench.with = (struct engine_queue_options){.struct_size = sizeof bench.with,
                                               .lookup = !draft,
                                               .draft = draft_context,
                                               .n_guess_least = n_guess,
                                               .n_guess_most = n_guess};
    measure(&bench, n_rounds);
    engine_context_destroy(draft_context);
    engine_model_close(draft_model);
    engine_context_destroy(bench.context);
    engine_model_close(bench.model);
    engine_close(engine);
    free(before.ids);
    free(after.ids);
    return 0;
}
