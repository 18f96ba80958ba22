/* cases.h: reads what `make-cases` writes, for the two programs that run it: ours.c on the engine's samplers,
 * theirs.c on llama.cpp's.
 *
 * A file of vectors has, for each: int32 n, float32 [n] logits, int32 m, int32 [m] tokens of the text so far.
 * A file of chains has one in each line, "STEP[:NUMBER…];…", in order:
 *
 *   penalties:LAST_N:REPEAT:FREQUENCY:PRESENCE   dry:MULTIPLIER:BASE:ALLOWED:LAST_N
 *   top_n_sigma:N   top_k:K   typ_p:P   top_p:P   min_p:P   xtc:PROBABILITY:THRESHOLD
 *   temperature:T[:RANGE:EXPONENT]   mirostat:VERSION:TAU:ETA:DRAWS   bias:TOKEN:BIAS
 *
 * Both programs write float32 [n] probabilities for each chain and vector, and for Mirostat for each draw. */
#ifndef TOOLS_SAMPLERS_CASES_H
#define TOOLS_SAMPLERS_CASES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct vector {
    int32_t n, n_history;
    float *logits;    /* [n] */
    int32_t *history; /* [n_history] */
};

struct step {
    char name[32];
    double numbers[4];
};

struct steps {
    struct step items[32];
    int count;
};

static inline void die(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static inline void read_all(FILE *file, void *to, size_t size, size_t count)
{
    if (fread(to, size, count, file) != count) die("a file is too short");
}

/* 0 at the end of the file. */
static inline int read_vector(FILE *file, struct vector *vector)
{
    if (fread(&vector->n, sizeof vector->n, 1, file) != 1) return 0;
    vector->logits = malloc((size_t)vector->n * sizeof *vector->logits);
    read_all(file, vector->logits, sizeof *vector->logits, (size_t)vector->n);
    read_all(file, &vector->n_history, sizeof vector->n_history, 1);
    vector->history = malloc((size_t)vector->n_history * sizeof *vector->history + 1);
    read_all(file, vector->history, sizeof *vector->history, (size_t)vector->n_history);
    return 1;
}

static inline int read_steps(FILE *file, struct steps *steps)
{
    char line[1024];
    if (!fgets(line, sizeof line, file)) return 0;
    *steps = (struct steps){0};
    for (char *word = strtok(line, ";\n"); word; word = strtok(NULL, ";\n")) {
        struct step *step = &steps->items[steps->count++];
        size_t length = strcspn(word, ":");
        memcpy(step->name, word, length);
        for (int i = 0; i < 4 && word[length] == ':'; i++) {
            char *end;
            step->numbers[i] = strtod(word + length + 1, &end);
            length = (size_t)(end - word);
        }
    }
    return 1;
}

#endif
