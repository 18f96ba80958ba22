/* families-fixture.h: for tests on the models of ../shared whose answers transformers has given: where they
 * are, a folder with an empty engine.conf, and how far from the answers something is. Compiled with
 * TEST_BACKEND, it also needs the device of that GPU plugin. */
#ifndef TESTS_FAMILIES_FIXTURE_H
#define TESTS_FAMILIES_FIXTURE_H

#include <stddef.h>

#include "engine.h"

/* Set by families_begin. */
struct families {
    char *folder;
    char *config_file; /* an empty engine.conf in it */
    char *model_file;  /* what families_convert writes */
};
extern struct families families;

/* The beginning and the end of a test, for TestSuite. Without ../shared, or without the device, the test is
 * skipped. */
void families_begin(void);
/* The same for tests that need nothing of it. */
void families_begin_without_shared(void);
void families_end(void);

/* Files of a family, or of "tiny-llama". Compiled with TEST_DIRECTORIES, models are directories of Hugging
 * Face. */
struct family_files {
    char model[256], tokens[256], logits[256];
};
struct family_files family_files(const char *name);

/* The data of an .npy file with elements of four bytes, in new memory; *count receives how many. */
void *families_read_npy(const char *path, size_t *count);

/* Writes a model in another type to families.model_file. `pure`: all of its matrices. */
void families_convert(struct engine *engine, const char *path, const char *type, int pure);

/* |x - reference| / |reference|, of n elements. */
double families_error(const float *x, const float *reference, size_t n);

#endif
