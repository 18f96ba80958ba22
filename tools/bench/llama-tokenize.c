/* llama-tokenize.c: how fast libllama makes ids of texts: llama-tokenize MODEL.gguf TEXTS ROUNDS, where TEXTS
 * holds texts that end in a NUL each. Prints the seconds of each round. tools/bench/tokenizers compiles it
 * among the peers. */
#include <llama.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void log_nothing(enum ggml_log_level level, const char *text, void *user)
{
    (void)level, (void)text, (void)user;
}

int main(int argc, char **argv)
{
    if (argc != 4) return 2;
    llama_log_set(log_nothing, NULL);
    struct llama_model_params params = llama_model_default_params();
    params.vocab_only = true;
    struct llama_model *model = llama_model_load_from_file(argv[1], params);
    FILE *file = fopen(argv[2], "rb");
    if (!model || !file) return 1;
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    rewind(file);
    char *data = malloc(size + 1);
    int32_t room = (int32_t)(2 * size + 64), *ids = malloc((size_t)room * sizeof *ids);
    if (!data || !ids || fread(data, 1, size, file) != size) return 1;
    const struct llama_vocab *vocab = llama_model_get_vocab(model);
    for (int round = atoi(argv[3]); round > 0; round--) {
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        for (size_t at = 0, length; at < size; at += length + 1) {
            const char *stop = memchr(data + at, 0, size - at);
            length = stop ? (size_t)(stop - (data + at)) : size - at;
            if (llama_tokenize(vocab, data + at, (int32_t)length, ids, room, false, false) < 0) return 1;
        }
        clock_gettime(CLOCK_MONOTONIC, &end);
        printf("%.6f\n", (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec));
    }
    return 0;
}
