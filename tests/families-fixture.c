/* families-fixture.c: see families-fixture.h. */
#include "families-fixture.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#ifdef TEST_BACKEND
#include "gpu-device.h"
#endif

#define FAMILIES TEST_SHARED_DIR "/families/"
#define NEWER    TEST_SHARED_DIR "/families-2026/"
#ifdef TEST_DIRECTORIES
#define MODEL "%s%s"
#else
#define MODEL "%sgguf/%s.gguf"
#endif
#define TINY TEST_SHARED_DIR "/reference/tiny-llama/"

struct families families;

void families_begin(void)
{
    if (access(FAMILIES "facts.md", R_OK) != 0) cr_skip_test("no ../shared here");
    families_begin_without_shared();
}

void families_begin_without_shared(void)
{
#ifdef TEST_BACKEND
    gpu_skip_without_device();
#endif
    families.folder = files_folder();
    families.config_file = strdup(files_path(families.folder, "engine.conf"));
    families.model_file = strdup(files_path(families.folder, "model.gguf"));
    files_write_text(families.config_file, "");
}

void families_end(void)
{
    if (!families.folder) return;
    files_remove(families.folder);
    free(families.folder);
    free(families.config_file);
    free(families.model_file);
    families = (struct families){0};
}

struct family_files family_files(const char *name)
{
    if (strcmp(name, "tiny-llama") == 0)
        return (struct family_files){TINY "tiny-llama-f32.gguf", TINY "tokens.npy",
                                     TINY "tiny-llama-f32.logits.npy"};
    struct family_files files;
    snprintf(files.tokens, sizeof files.tokens, FAMILIES "%s.tokens.npy", name);
    const char *set = access(files.tokens, R_OK) == 0 ? FAMILIES : NEWER;
    snprintf(files.model, sizeof files.model, MODEL, set, name);
    snprintf(files.tokens, sizeof files.tokens, "%s%s.tokens.npy", set, name);
    snprintf(files.logits, sizeof files.logits, "%s%s.logits.npy", set, name);
    return files;
}

void *families_read_npy(const char *path, size_t *count)
{
    size_t size;
    char *file = files_read(path, &size);
    size_t header = 10u + (unsigned char)file[8] + 256u * (unsigned char)file[9];
    *count = (size - header) / 4;
    void *data = malloc(size - header);
    memcpy(data, file + header, size - header);
    free(file);
    return data;
}

static int keep_bytes(void *user, const void *data, size_t size)
{
    return fwrite(data, 1, size, user) == size ? 0 : 1;
}

void families_convert(struct engine *engine, const char *path, const char *type, int pure)
{
    struct engine_model *model = NULL;
    FILE *file = fopen(families.model_file, "wb");
    const struct engine_quantize_options wish = {
        .struct_size = sizeof wish, .type = type, .pure = pure, .write = keep_bytes, .user = file};
    cr_assert_eq(engine_model_open(engine, path, NULL, &model), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_model_quantize(model, &wish), ENGINE_OK, "%s: %s", path, engine_error_message());
    engine_model_close(model);
    fclose(file);
}

double families_error(const float *x, const float *reference, size_t n)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        difference += ((double)x[i] - reference[i]) * ((double)x[i] - reference[i]);
        norm += (double)reference[i] * reference[i];
    }
    return sqrt(difference / norm);
}
