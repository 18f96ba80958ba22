/* ours.c: runs the cases (cases.h) on the engine's samplers.
 *
 *   sampler-cases CHAINS VECTORS DRAWN PROBABILITIES          writes them
 *   sampler-cases CHAINS VECTORS DRAWN --check PROBABILITIES  compares with llama.cpp's
 *
 * DRAWN has the tokens that llama.cpp drew, from which Mirostat learns here too. Of equal candidates, the
 * programs may keep different ones: what differs is compared again, sorted. */
#include <math.h>

#include "cases.h"
#define TOLERANCE 1e-5
#include "engine.h"
#include "sample/internal.h"

/* What becomes of a line: options, whose texts and tables are beside them. */
struct chain {
    struct engine_sampler_options options;
    char names[512];
    struct engine_logit_bias bias[8];
    int draws;
};

static void add(struct chain *chain, const struct step *step, int32_t n)
{
    struct engine_sampler_options *options = &chain->options;
    const double *x = step->numbers;
    const char *name = step->name;
    float first = (float)x[0];
    if (!strcmp(name, "penalties")) {
        options->penalty_last_n = (uint32_t)x[0];
        options->penalty_repeat = (float)x[1];
        options->penalty_frequency = (float)x[2];
        options->penalty_presence = (float)x[3];
    } else if (!strcmp(name, "dry")) {
        options->dry_multiplier = first;
        options->dry_base = (float)x[1];
        options->dry_allowed_length = (uint32_t)x[2];
        options->dry_penalty_last_n = (uint32_t)x[3];
    } else if (!strcmp(name, "top_n_sigma")) {
        options->top_n_sigma = first;
    } else if (!strcmp(name, "top_k")) {
        options->top_k = (uint32_t)x[0];
    } else if (!strcmp(name, "typ_p")) {
        options->typical_p = first;
    } else if (!strcmp(name, "top_p")) {
        options->top_p = first;
    } else if (!strcmp(name, "min_p")) {
        options->min_p = first;
    } else if (!strcmp(name, "xtc")) {
        options->xtc_probability = first;
        options->xtc_threshold = (float)x[1];
    } else if (!strcmp(name, "temperature")) {
        options->temperature = first;
        options->dynatemp_range = (float)x[1];
        options->dynatemp_exponent = (float)x[2];
    } else if (!strcmp(name, "mirostat")) {
        options->mirostat = (uint32_t)x[0];
        options->mirostat_tau = (float)x[1];
        options->mirostat_eta = (float)x[2];
        chain->draws = (int)x[3];
        return;
    } else if (!strcmp(name, "bias")) {
        chain->bias[options->n_logit_bias++] = (struct engine_logit_bias){(int32_t)x[0] % n, (float)x[1]};
        return;
    } else {
        die("unknown step");
    }
    snprintf(chain->names + strlen(chain->names), sizeof chain->names - strlen(chain->names), "%s;", name);
}

static struct engine_sampler *create(struct chain *chain, const struct steps *steps, int32_t n)
{
    struct engine_sampler *sampler;
    *chain = (struct chain){.options = {.struct_size = sizeof chain->options, .temperature = 1}, .draws = 1};
    for (int i = 0; i < steps->count; i++) add(chain, &steps->items[i], n);
    chain->options.samplers = chain->names;
    chain->options.logit_bias = chain->bias;
    chain->options.dry_breakers = (const struct engine_string[]){{"", 0}}; /* none */
    if (engine_sampler_create(&chain->options, (uint32_t)n, &sampler) != ENGINE_OK)
        die(engine_error_message());
    return sampler;
}

static FILE *out; /* NULL: compare with `theirs` */
static FILE *theirs;
static double worst; /* difference of a chain */

static double difference(const float *a, const float *b, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= most)) most = fabs((double)a[i] - (double)b[i]);
    return most;
}

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void compare(float *probabilities, size_t n)
{
    float *expected = malloc(n * sizeof *expected);
    read_all(theirs, expected, sizeof *expected, n);
    double error = difference(probabilities, expected, n);
    if (!(error <= TOLERANCE)) {
        qsort(probabilities, n, sizeof *probabilities, by_size);
        qsort(expected, n, sizeof *expected, by_size);
        error = difference(probabilities, expected, n);
    }
    if (!(error <= worst)) worst = error;
    free(expected);
}

static void run(struct engine_sampler *sampler, const struct vector *vector, FILE *drawn)
{
    size_t n = (size_t)vector->n;
    float *logits = malloc(n * sizeof *logits), *probabilities = malloc(n * sizeof *probabilities);
    int32_t token;
    memcpy(logits, vector->logits, n * sizeof *logits);
    if (engine_sampler_probabilities(sampler, logits, probabilities) != ENGINE_OK)
        die(engine_error_message());
    if (out && fwrite(probabilities, sizeof *probabilities, n, out) != n) die("writing failed");
    read_all(drawn, &token, sizeof token, 1);
    float probability = sampler->options.mirostat > 0 ? probabilities[token] : 0;
    /* If only some of several equal tokens are left, llama.cpp may have drawn another one. */
    for (size_t i = 0; i < n && sampler->options.mirostat > 0 && probability == 0; i++)
        if (vector->logits[i] == vector->logits[token]) probability = probabilities[i];
    if (probability > 0) mirostat_learn(sampler, (double)probability);
    if (!out) compare(probabilities, n);
    free(logits);
    free(probabilities);
}

int main(int argc, char **argv)
{
    struct steps steps;
    struct vector vector;
    struct chain chain;
    bool check = argc == 6 && !strcmp(argv[4], "--check");
    int failed = 0;
    if (argc != 5 && !check) die("usage: sampler-cases CHAINS VECTORS DRAWN [--check] PROBABILITIES");
    FILE *chains = fopen(argv[1], "r"), *drawn = fopen(argv[3], "rb");
    if (check)
        theirs = fopen(argv[5], "rb");
    else
        out = fopen(argv[4], "wb");
    if (!chains || !drawn || (check ? !theirs : !out)) die("cannot open a file");
    for (int line = 1; read_steps(chains, &steps); line++) {
        worst = 0;
        FILE *vectors = fopen(argv[2], "rb");
        while (vectors && read_vector(vectors, &vector)) {
            struct engine_sampler *sampler = create(&chain, &steps, vector.n);
            for (int i = 0; i < vector.n_history; i++) engine_sampler_accept(sampler, vector.history[i]);
            for (int i = 0; i < chain.draws; i++) run(sampler, &vector, drawn);
            engine_sampler_destroy(sampler);
            free(vector.logits);
            free(vector.history);
        }
        if (vectors) fclose(vectors);
        if (!(worst <= TOLERANCE)) failed += fprintf(stderr, "chain %d differs by %g\n", line, worst) > 0;
    }
    return failed > 0 || (out && fclose(out) != 0);
}
