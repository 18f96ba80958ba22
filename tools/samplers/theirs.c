/* theirs.c: runs the cases (cases.h) on llama.cpp's samplers. compare builds it among the peers.
 *
 *   theirs CHAINS VECTORS PROBABILITIES DRAWN */
#include <llama.h>
#include <math.h>

#include "cases.h"

static struct llama_sampler *make(const struct step *step, const struct vector *vector)
{
    const double *x = step->numbers;
    const char *name = step->name;
    int n = vector->n;
    if (!strcmp(name, "penalties"))
        return llama_sampler_init_penalties(n, (int)x[0], (float)x[1], (float)x[2], (float)x[3]);
    if (!strcmp(name, "dry"))
        return llama_sampler_init_dry(NULL, (float)x[0], (float)x[1], (int)x[2], (int)x[3], NULL, 0);
    if (!strcmp(name, "top_n_sigma")) return llama_sampler_init_top_n_sigma((float)x[0]);
    if (!strcmp(name, "top_k")) return llama_sampler_init_top_k((int)x[0]);
    if (!strcmp(name, "typ_p")) return llama_sampler_init_typical((float)x[0], 0);
    if (!strcmp(name, "top_p")) return llama_sampler_init_top_p((float)x[0], 0);
    if (!strcmp(name, "min_p")) return llama_sampler_init_min_p((float)x[0], 0);
    if (!strcmp(name, "xtc")) return llama_sampler_init_xtc((float)x[0], (float)x[1], 0, 1);
    if (!strcmp(name, "temperature"))
        return llama_sampler_init_temp_ext((float)x[0], (float)x[1], (float)x[2]);
    if (!strcmp(name, "bias")) {
        struct llama_logit_bias bias = {(int)x[0] % n, (float)x[1]};
        return llama_sampler_init_logit_bias(n, 1, &bias);
    }
    if (!strcmp(name, "mirostat") && x[0] == 1)
        return llama_sampler_init_mirostat(n, 7, (float)x[1], (float)x[2], 100);
    if (!strcmp(name, "mirostat")) return llama_sampler_init_mirostat_v2(7, (float)x[1], (float)x[2]);
    die("unknown step");
    return NULL;
}

static void run(struct llama_sampler *chain, const struct vector *vector, FILE *out, FILE *drawn)
{
    size_t n = (size_t)vector->n;
    llama_token_data *data = malloc(n * sizeof *data);
    float *probabilities = calloc(n, sizeof *probabilities);
    for (size_t i = 0; i < n; i++) data[i] = (llama_token_data){(llama_token)i, vector->logits[i], 0};
    llama_token_data_array array = {data, n, -1, 0};
    llama_sampler_apply(chain, &array);
    double highest = -INFINITY, total = 0;
    for (size_t i = 0; i < array.size; i++)
        if ((double)array.data[i].logit > highest) highest = (double)array.data[i].logit;
    for (size_t i = 0; i < array.size; i++) total += exp((double)array.data[i].logit - highest);
    for (size_t i = 0; i < array.size; i++)
        probabilities[array.data[i].id] = (float)(exp((double)array.data[i].logit - highest) / total);
    int32_t token = array.selected < 0 ? -1 : array.data[array.selected].id;
    if (fwrite(probabilities, sizeof *probabilities, n, out) != n ||
        fwrite(&token, sizeof token, 1, drawn) != 1)
        die("writing failed");
    free(data);
    free(probabilities);
}

int main(int argc, char **argv)
{
    struct steps steps;
    struct vector vector;
    if (argc != 5) die("usage: theirs CHAINS VECTORS PROBABILITIES DRAWN");
    FILE *chains = fopen(argv[1], "r"), *out = fopen(argv[3], "wb"), *drawn = fopen(argv[4], "wb");
    if (!chains || !out || !drawn) die("cannot open a file");
    while (read_steps(chains, &steps)) {
        FILE *vectors = fopen(argv[2], "rb");
        while (read_vector(vectors, &vector)) {
            struct llama_sampler *chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
            const struct step *last = &steps.items[steps.count - 1];
            int draws = strcmp(last->name, "mirostat") ? 1 : (int)last->numbers[3];
            for (int i = 0; i < steps.count; i++)
                llama_sampler_chain_add(chain, make(&steps.items[i], &vector));
            for (int i = 0; i < vector.n_history; i++) llama_sampler_accept(chain, vector.history[i]);
            for (int i = 0; i < draws; i++) run(chain, &vector, out, drawn);
            llama_sampler_free(chain);
            free(vector.logits);
            free(vector.history);
        }
        fclose(vectors);
    }
    return fclose(out) || fclose(drawn);
}
