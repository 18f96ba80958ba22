/* describe.c: what is said of a directory: the metadata general.*, which describe a model for people, by
 * the rules of gguf-py's metadata.py and utility.py; and of folders that are no model, or not all of one. */
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "common/printable.h"
#include "model/file.h"
#include "model/hf/internal.h"

/* ---- The metadata general.* ---------------------------------------------------------------------------- */

#define MAX_NAME 200 /* bytes */

/* "v2", "v0.1", "7b": words that keep their case. */
static bool keeps_case(const char *word, size_t length)
{
    size_t i = word[0] == 'v' && length > 1 ? 1 : 0;
    if (!isdigit((unsigned char)word[i])) return false;
    if (i == 0) return true;
    while (i < length && (isdigit((unsigned char)word[i]) || word[i] == '.')) i++;
    return i == length;
}

/* Writes a name's words, which - or spaces separate, with a capital each unless they have one: "tiny-llama
 * v2" becomes "Tiny Llama v2". A letter after one that is none gets a capital, too. */
static void make_title(const char *name, size_t length, char title[MAX_NAME + 1])
{
    size_t n = 0;
    for (size_t i = 0; i < length;) {
        size_t end = i;
        bool is_lower = true;
        while (end < length && name[end] != '-' && name[end] != ' ') end++;
        for (size_t k = i; k < end; k++) is_lower &= !isupper((unsigned char)name[k]);
        if (end > i && n > 0 && n < MAX_NAME) title[n++] = ' ';
        bool changes = end > i && is_lower && !keeps_case(name + i, end - i);
        for (size_t k = i; k < end && n < MAX_NAME; k++) {
            bool first = k == i || !isalpha((unsigned char)name[k - 1]);
            title[n++] = changes && first ? (char)toupper((unsigned char)name[k]) : name[k];
        }
        i = end + 1;
    }
    title[n] = '\0';
}

/* The last part of a path; of one in Hugging Face's cache (models--ORG--NAME/snapshots/HASH) the NAME. */
static const char *last_part(const char *path, size_t *length)
{
    static const char mark[] = "/models--";
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    const char *end = path + n, *start, *cached = NULL;
    for (const char *at = path; (at = strstr(at, mark)); at++) cached = at + sizeof mark - 1;
    if (cached) {
        const char *stop = cached + strcspn(cached, "/");
        for (start = cached; start + 1 < stop; start++)
            if (start[0] == '-' && start[1] == '-') {
                *length = (size_t)(stop - start - 2);
                return start + 2;
            }
    }
    for (start = end; start > path && start[-1] != '/';) start--;
    *length = (size_t)(end - start);
    return start;
}

static int add_name(struct model *model, const char *given, const char *folder)
{
    char title[MAX_NAME + 1], absolute[PATH_MAX];
    const char *slash = given ? strchr(given, '/') : NULL;
    size_t length;
    /* ORG/NAME; other values are the paths of whoever made it */
    if (slash && slash > given && given[0] != '.' && !strchr(slash + 1, '/')) {
        make_title(slash + 1, strlen(slash + 1), title);
    } else {
        const char *name = last_part(realpath(folder, absolute) ? absolute : folder, &length);
        make_title(name, length, title);
    }
    printable_make(title);
    return title[0] ? metadata_add_string(model->metadata, "general.name", title) : ENGINE_OK;
}

/* A count with two digits or more: "7.2B", "152K". */
static void write_count(char *text, size_t size, double count)
{
    static const struct {
        double least, unit;
        char letter;
    } units[] = {{1e12, 1e-12, 'T'}, {1e9, 1e-9, 'B'}, {1e6, 1e-6, 'M'}, {-1, 1e-3, 'K'}};
    size_t u = 0;
    while (count <= units[u].least) u++;
    double scaled = count * units[u].unit, whole = nearbyint(scaled);
    snprintf(text, size, "%.*f%c", whole >= 10 ? 0 : whole >= 1 ? 1 : 2, scaled, units[u].letter);
}

/* Of all parameters, or for a mixture "8x7.2B": those that are not experts', and one expert of each layer. */
static int add_size(struct model *model)
{
    double total = 0;
    uint64_t n_experts = 0, n_tensors = 0; /* experts in total, and tensors of them */
    char count[32], label[64];
    for (size_t i = 0; i < model->n_tensors; i++) {
        const struct model_tensor *tensor = &model->tensors[i];
        double size = (double)tensor->ne[0] * (double)tensor->ne[1] * (double)tensor->ne[2];
        uint64_t n = tensor->ne[2];
        bool is_expert = strstr(tensor->name, "_exps.") && tensor->n_dims > 2; /* not a bias */
        total += is_expert ? floor(size / (double)n) : size;
        n_experts += is_expert ? n : 0;
        n_tensors += is_expert;
    }
    write_count(count, sizeof count, total);
    if (n_tensors > 0)
        snprintf(label, sizeof label, "%llux%s", (unsigned long long)(n_experts / n_tensors), count);
    else
        snprintf(label, sizeof label, "%s", count);
    return metadata_add_string(model->metadata, "general.size_label", label);
}

int hf_describe(struct model *model, const char *given, const char *folder)
{
    int status = metadata_add_string(model->metadata, "general.type", "model");
    if (!status) status = add_name(model, given, folder);
    return status ? status : add_size(model);
}

/* ---- Folders that are no model: files that others put into them tell what these are -------------------- */

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
