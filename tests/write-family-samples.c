/* write-family-samples.c: writes the models of family-samples.h to a folder as 0.gguf, 1.gguf, …, for
 * tests/tools/reference-families. */
#include <stdio.h>

#include "family-samples.h"

int main(int argc, char **argv)
{
    if (argc != 2) return fprintf(stderr, "usage: %s FOLDER\n", argv[0]), 2;
    for (size_t i = 0; i < n_family_samples; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%zu.gguf", argv[1], i);
        if (!family_sample_write(&family_samples[i], path)) return perror(path), 1;
        printf("%s\t%s\n", path, family_samples[i].name);
    }
    return 0;
}
