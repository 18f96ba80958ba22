/* program-model.c: see program-model.h. */
#include "program-model.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "gguf-writer.h"

char *folder, *model;

void begin_model(void)
{
    folder = files_folder();
    model = strdup(files_path(folder, "model.gguf"));
    cr_assert(write_tiny_llama(model, &(struct tiny_llama){.seed = 3, .type = ENGINE_TYPE_F32}));
}

void end_model(void)
{
    files_remove(folder);
    free(folder);
    free(model);
}
