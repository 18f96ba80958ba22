/* speed.c: how fast texts become tokens, for tools/bench/tokenizers:
 *
 *   tokenizer-speed MODEL.gguf TEXTS ROUNDS    prints the seconds of each round; texts end with a NUL
 *   tokenizer-speed --slow MODEL.gguf TEXT     compares the texts of slow-texts.h with as many bytes of TEXT
 *
 * With --slow, it prints the name of each text that takes much longer than ordinary text, with the ratio, and
 * the worst of all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine.h"
#include "slow-texts.h"

#define SHOWN 2.5 /* times ordinary text */

static const struct engine_tokenizer_api *api;
static struct engine_tokenizer *tokenizer;

static int count_ids(void *count, const int32_t *ids, size_t n)
{
    (void)ids;
    *(size_t *)count += n;
    return 0;
}

/* Seconds for all texts; ends the program if one fails. */
static double encode_all(const char *data, size_t size, uint32_t flags)
{
    struct timespec begin, end;
    size_t count = 0;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (size_t at = 0, length; at < size; at += length + 1) {
        const char *stop = memchr(data + at, 0, size - at);
        length = stop ? (size_t)(stop - (data + at)) : size - at;
        if (api->encode(tokenizer, data + at, length, flags, count_ids, &count)) {
            fprintf(stderr, "tokenizer-speed: %s\n", engine_error_message());
            exit(1);
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    return (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
}

static double best_of(int n, const char *data, size_t size, uint32_t flags)
{
    double best = encode_all(data, size, flags);
    for (int i = 1; i < n; i++) {
        double seconds = encode_all(data, size, flags);
        if (seconds < best) best = seconds;
    }
    return best;
}

static void try_slow_texts(const char *data, size_t size)
{
    const char *worst_name = "none", *name;
    double ordinary = best_of(5, data, size, 0), worst = 0;
    char *text = malloc(size);
    if (!text) return;
    for (size_t i = 0; (name = slow_text(api, tokenizer, i, text, size)); i++) {
        /* Bytes of 0 would end a text: the text counts as one. */
        for (size_t j = 0; j < size; j++)
            if (!text[j]) text[j] = 1;
        for (uint32_t flags = 0; flags <= ENGINE_ENCODE_SPECIAL; flags += ENGINE_ENCODE_SPECIAL) {
            double ratio = encode_all(text, size, flags) / ordinary;
            if (ratio > SHOWN) ratio = best_of(3, text, size, flags) / ordinary;
            if (ratio > SHOWN) printf("  %5.2f  %s%s\n", ratio, name, flags ? " (special)" : "");
            if (ratio > worst) worst = ratio, worst_name = name;
        }
    }
    printf("%.2f MB/s, worst %.2f times: %s\n", (double)size / 1e6 / ordinary, worst, worst_name);
    free(text);
}

static char *read_all(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) return NULL;
    *size = (size_t)ftell(file);
    rewind(file);
    char *data = malloc(*size + 1);
    if (data && fread(data, 1, *size, file) != *size) *size = 0;
    fclose(file);
    return data;
}

int main(int argc, char **argv)
{
    bool slow = argc > 1 && strcmp(argv[1], "--slow") == 0;
    if (argc != 4) return fputs("usage: tokenizer-speed [--slow] MODEL TEXTS [ROUNDS]\n", stderr), 2;
    struct engine *engine = NULL;
    struct engine_model *model = NULL;
    size_t size = 0;
    char *data = read_all(argv[slow ? 3 : 2], &size);
    if (!data || !size) return perror(argv[slow ? 3 : 2]), 1;
    const struct engine_options options = {.struct_size = sizeof options};
    int status = engine_open(&options, &engine);
    if (!status) status = engine_model_open(engine, argv[slow ? 2 : 1], NULL, &model);
    if (!status) status = engine_model_tokenizer(model, &api, &tokenizer);
    if (status) return fprintf(stderr, "tokenizer-speed: %s\n", engine_error_message()), 1;
    if (slow) {
        try_slow_texts(data, size);
    } else {
        for (int round = atoi(argv[3]); round > 0; round--) printf("%.6f\n", encode_all(data, size, 0));
    }
    engine_model_close(model);
    engine_close(engine);
    free(data);
    return 0;
}
