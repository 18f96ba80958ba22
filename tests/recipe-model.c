/* recipe-model.c: writes a small model of random weights as its recipe says (model-recipe.h), which it reads
 * from standard input, for tests from outside.
 *
 * usage: recipe-model OUT.gguf <RECIPE */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model-recipe.h"

int main(int argc, char **argv)
{
    static char recipe[65536];
    size_t size, length = fread(recipe, 1, sizeof recipe, stdin);
    if (argc != 2 || length == sizeof recipe) {
        fprintf(stderr, "usage: recipe-model OUT.gguf <RECIPE\n");
        return 2;
    }
    uint8_t *model = model_recipe_gguf(recipe, length, &size);
    FILE *file = fopen(argv[1], "wb");
    bool good = file && fwrite(model, 1, size, file) == size;
    if (!file || fclose(file) != 0 || !good) {
        fprintf(stderr, "recipe-model: %s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    free(model);
    return 0;
}
