/* fuzz-hf-directory.c: fuzzing target: Hugging Face directories. Input: config.json, then after a line
 * "----" the header of a safetensors file, whose data are zeros, then after others the index, modules.json,
 * its pooling's config.json, that of a Dense and the header of its weights, sentence_bert_config.json and
 * config_sentence_transformers.json, if there are any; an empty index is none. The directory is refused with
 * a reason, or every tensor can be read, and the family's numbers too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arch/arch.h"
#include "base/error.h"
#include "model/model.h"
#include "tokenizers.h"

#define N_DATA 65536
#define LINE   "\n----\n"

static char folder[] = "/tmp/fuzz-hf-directory-XXXXXX";
static const char *const names[] = {"config.json",
                                    "model.safetensors",
                                    "model.safetensors.index.json",
                                    "modules.json",
                                    "1_Pooling/config.json",
                                    "2_Dense/config.json",
                                    "2_Dense/model.safetensors",
                                    "sentence_bert_config.json",
                                    "config_sentence_transformers.json"};
enum { WEIGHTS = 1, INDEX = 2, DENSE_WEIGHTS = 6, N_NAMES = sizeof names / sizeof *names };

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void remove_folder(void)
{
    for (size_t i = 0; i < N_NAMES; i++) unlink(path_of(names[i]));
    rmdir(path_of("1_Pooling"));
    rmdir(path_of("2_Dense"));
    rmdir(folder);
}

static void write_file(const char *name, const char *data, size_t size, bool is_header)
{
    static const char zeros[N_DATA];
    uint64_t length = size;
    FILE *file = fopen(path_of(name), "wb");
    if (!file) fuzz_fail("no file");
    if (is_header) fwrite(&length, sizeof length, 1, file);
    fwrite(data, 1, size, file);
    if (is_header) fwrite(zeros, 1, sizeof zeros, file);
    fclose(file);
}

static void read_family(const struct model *model)
{
    struct arch_info info;
    const struct architecture *arch = arch_of(model);
    if (!arch) fuzz_fail("no family");
    void *hparams = calloc(1, arch->size);
    int status = arch_read(arch, model, hparams, &info);
    if (status && !error_message()[0]) fuzz_fail("refused without a reason");
    free(hparams);
}

static void read_tensors(const struct model *model)
{
    for (size_t i = 0; i < model_tensor_count(model); i++) {
        const struct model_tensor *tensor = model_tensor_at(model, i);
        const void *bytes;
        void *gathered;
        volatile uint8_t sink = 0; /* so that every byte is read */
        if (model_tensor_gather(tensor, 2, &bytes, &gathered)) fuzz_fail("a tensor cannot be read");
        const uint8_t *data = bytes;
        for (uint64_t k = 0; k < tensor->size; k++) sink = data[k];
        (void)sink;
        free(gathered);
        model_tensor_release(model, tensor);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool made;
    if (!made && (!mkdtemp(folder) || mkdir(path_of("1_Pooling"), 0700) || mkdir(path_of("2_Dense"), 0700) ||
                  atexit(remove_folder)))
        fuzz_fail("no folder");
    made = true;
    char *text = calloc(size + 1, 1), *part = text;
    memcpy(text, data, size);
    /* With an index, the weights have another name. */
    bool has_index = false;
    for (size_t i = 0; i < N_NAMES; i++) unlink(path_of(names[i]));
    for (size_t i = 0; i < N_NAMES && part; i++) {
        char *end = strstr(part, LINE), *next = end ? end + strlen(LINE) : NULL;
        size_t length = end ? (size_t)(end - part) : strlen(part);
        if (i != INDEX || length > 0) write_file(names[i], part, length, i == WEIGHTS || i == DENSE_WEIGHTS);
        has_index |= i == INDEX && length > 0;
        part = next;
    }
    char from[160];
    snprintf(from, sizeof from, "%s", path_of("model.safetensors"));
    if (has_index) rename(from, path_of("a"));
    struct model *model;
    error_clear();
    int status = model_open(folder, NULL, &model);
    if (status && !error_message()[0]) fuzz_fail("refused without a reason");
    if (!status) {
        read_tensors(model);
        read_family(model);
        model_close(model);
    }
    unlink(path_of("a"));
    free(text);
    return 0;
}
