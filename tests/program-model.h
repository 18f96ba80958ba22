/* program-model.h: a folder with a small random model, for tests of the program's commands. */
#ifndef TESTS_PROGRAM_MODEL_H
#define TESTS_PROGRAM_MODEL_H

#include "files.h"

extern char *folder, *model; /* model: "FOLDER/model.gguf", a tiny_llama in F32 of the seed 3 */

/* For .init and .fini. */
void begin_model(void);
void end_model(void);

#endif
