/* missing.c: see missing.h. Files that others put into folders tell what these are. */
#include "model/hf/missing.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "common/printable.h"

static bool has(const char *folder, const char *name)
{
    char path[PATH_MAX];
    struct stat info;
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return length > 0 && (size_t)length < sizeof path && lstat(path, &info) == 0;
}

/* The first of the files, by name, that end like this. */
static bool find_ending(const char *folder, const char *end, char name[256])
{
    DIR *opened = opendir(folder);
    bool found = false;
    for (struct dirent *entry; opened && (entry = readdir(opened));) {
        size_t length = strlen(entry->d_name), n = strlen(end);
        if (length <= n || strcmp(entry->d_name + length - n, end) != 0) continue;
        if (!printable_is(entry->d_name, length) || (found && strcmp(entry->d_name, name) > 0)) continue;
        snprintf(name, 256, "%s", entry->d_name);
        found = true;
    }
    if (opened) closedir(opened);
    return found;
}

/* What is no model for other reasons than a missing file. */
static int refuse_kind(const char *folder)
{
    static const struct {
        const char *file, *words;
    } kinds[] = {
        {"adapter_config.json", "an adapter, not a model: apply it with --lora"},
        {"model_index.json", "a pipeline of Diffusers, not a language model"},
        {"consolidated.safetensors", "in Mistral's own layout (consolidated.safetensors); the one with "
                                     "config.json and model.safetensors is read"},
        {"params.json", "in its publisher's own layout (params.json); the one with config.json is read"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (has(folder, kinds[i].file))
            return error_raise(ENGINE_ERROR_UNSUPPORTED, "%s is %s", folder, kinds[i].words);
    return ENGINE_OK;
}

/* `lacks`: "is a folder without a …". */
static int refuse_gguf(const char *folder, const char *lacks)
{
    char name[256];
    if (!find_ending(folder, ".gguf", name)) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_NOT_FOUND, "%s %s, but with GGUF files: name one of them, such as %s/%s",
                       folder, lacks, folder, name);
}

int hf_no_config(const char *folder)
{
    char name[256];
    int status = refuse_kind(folder);
    if (!status) status = refuse_gguf(folder, "is a folder without a config.json");
    if (status) return status;
    if (find_ending(folder, ".safetensors", name))
        return error_raise(ENGINE_ERROR_NOT_FOUND,
                           "%s is a folder without a config.json, but with weights (%s): it is not complete",
                           folder, name);
    return error_raise(ENGINE_ERROR_NOT_FOUND, "%s is a folder without a config.json, so no model", folder);
}

int hf_no_weights(const char *folder)
{
    char name[256];
    if (has(folder, "pytorch_model.bin") || has(folder, "pytorch_model.bin.index.json"))
        return error_raise(ENGINE_ERROR_UNSUPPORTED,
                           "%s: pytorch_model.bin is not supported: save the model as safetensors", folder);
    int status = refuse_kind(folder);
    if (!status) status = refuse_gguf(folder, "is a folder without a model.safetensors");
    if (status) return status;
    if (find_ending(folder, ".safetensors", name))
        return error_raise(ENGINE_ERROR_NOT_FOUND,
                           "%s has %s but no model.safetensors.index.json, which lists the files: it is not "
                           "complete",
                           folder, name);
    return error_raise(ENGINE_ERROR_NOT_FOUND,
                       "%s has neither model.safetensors nor model.safetensors.index.json", folder);
}
