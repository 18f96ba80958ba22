/* directory.c: see directory.h. The weights are in model.safetensors, or in several files that
 * model.safetensors.index.json lists: {"weight_map": {TENSOR: FILE, …}}. Links are followed, because the
 * folders of Hugging Face's cache consist of them. */
#include "model/hf/directory.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "common/printable.h"
#include "model/file.h"
#include "model/hf/internal.h"
#include "model/hf/json.h"
#include "model/hf/tokenizer.h"
#include "model/safetensors.h"

#define CONFIG     "config.json"
#define WEIGHTS    "model.safetensors"
#define INDEX      "model.safetensors.index.json"
#define MAX_INDEX  ((uint64_t)64 << 20) /* bytes */
#define MAX_SHARDS 10000

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool hf_is_directory(const char *path)
{
    const char *slash = strrchr(path, '/'), *last = slash ? slash + 1 : path;
    return strcmp(last, CONFIG) == 0 || is_folder(path);
}

bool hf_is_part(const char *path)
{
    static const char *const ends[] = {".safetensors", ".safetensors.index.json", "/tokenizer.json",
                                       "/tokenizer.model", "/generation_config.json"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t length = strlen(path), n = strlen(ends[i]);
        if (length > n && strcmp(path + length - n, ends[i]) == 0) return true;
    }
    return false;
}

/* FOLDER/name in new memory; NULL: out of memory. */
static char *directory_join(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *joined = malloc(size);
    if (joined)
        snprintf(joined, size, "%s/%s", folder, name);
    else
        error_memory("model");
    return joined;
}

char *hf_folder(const char *path)
{
    size_t length = strlen(path), n = strlen(CONFIG);
    if (is_folder(path)) return strdup(path);
    if (length == n) return strdup(".");
    return strndup(path, length - n - 1);
}

static bool directory_exists(const char *folder, const char *name)
{
    struct stat info;
    char *path = directory_join(folder, name);
    bool found = path && lstat(path, &info) == 0;
    free(path);
    return found;
}

/* ---- Shards -------------------------------------------------------------------------------------------- */

/* Names in the index are those of files in the same folder. */
static bool is_file_name(const char *name)
{
    return name && name[0] && name[0] != '.' && strlen(name) <= NAME_MAX && !strchr(name, '/') &&
           printable_is(name, strlen(name));
}

/* Numbers the files of the index: `numbers` receives the number of each by its name. */
static int number_files(const char *path, const json_t *map, json_t *numbers)
{
    const char *tensor;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)map, tensor, value)
    {
        const char *name = json_string_value(value);
        if (!is_file_name(name))
            return error_raise(ENGINE_ERROR_DATA, "%s: the file of %.100s is not one in the same folder",
                               path, printable_is(tensor, strlen(tensor)) ? tensor : "a tensor");
        if (json_object_get(numbers, name)) continue;
        if (json_object_set_new(numbers, name, json_integer((json_int_t)json_object_size(numbers))) != 0)
            return error_memory("index");
    }
    size_t n = json_object_size(numbers);
    if (n == 0 || n > MAX_SHARDS)
        return error_raise(ENGINE_ERROR_DATA, "%s lists %zu files; 1 to %d are possible", path, n,
                           MAX_SHARDS);
    return ENGINE_OK;
}

static int read_index(const char *path, json_t **index, json_t *numbers)
{
    int status = hf_json_read(path, MAX_INDEX, index);
    const json_t *map = json_object_get(*index, "weight_map");
    if (!status && !json_is_object(map))
        status = error_raise(ENGINE_ERROR_DATA, "%s has no weight_map", path);
    return status ? status : number_files(path, map, numbers);
}

/* *names as in hf_list_shards; *index: NULL if there is none. The caller releases both, also after a
 * failure. */
static int list_shards(const char *folder, json_t **names, json_t **index)
{
    *index = NULL;
    *names = json_object();
    if (!*names) return error_memory("index");
    if (directory_exists(folder, WEIGHTS))
        return json_object_set_new(*names, WEIGHTS, json_integer(0)) ? error_memory("index") : ENGINE_OK;
    if (directory_exists(folder, INDEX)) {
        char *path = directory_join(folder, INDEX);
        int status = path ? read_index(path, index, *names) : ENGINE_ERROR_MEMORY;
        free(path);
        return status;
    }
    return hf_no_weights(folder);
}

int hf_list_shards(const char *folder, json_t **names)
{
    json_t *index;
    int status = list_shards(folder, names, &index);
    json_decref(index);
    if (!status) status = hf_list_dense(folder, *names);
    if (!status) return ENGINE_OK;
    json_decref(*names);
    *names = NULL;
    return status;
}

static int open_shard(struct model *model, const char *folder, const char *name)
{
    char *path = directory_join(folder, name);
    if (!path) return ENGINE_ERROR_MEMORY;
    int status = safetensors_open(path, &model->shards[model->n_shards]);
    if (!status) model->size += safetensors_file_size(model->shards[model->n_shards++]);
    free(path);
    return status;
}

/* Every listed tensor is in its file, and every tensor of the files is listed with it. */
static int check_listed(const struct model *model, const char *path, const json_t *map, const json_t *numbers)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)map, name, value)
    {
        const char *file = json_string_value(value);
        json_int_t number = json_integer_value(json_object_get(numbers, file));
        if (!safetensors_find(model->shards[number], name))
            return error_raise(ENGINE_ERROR_DATA, "%s: %s lacks the tensor %.200s", path, file,
                               printable_is(name, strlen(name)) ? name : "(not printable)");
    }
    json_object_foreach((json_t *)(uintptr_t)numbers, name, value)
    {
        if (strchr(name, '/')) continue; /* of a dense step */
        const struct safetensors *shard = model->shards[json_integer_value(value)];
        for (size_t i = 0; i < safetensors_count(shard); i++) {
            const char *tensor = safetensors_at(shard, i)->name;
            const char *file = json_string_value(json_object_get(map, tensor));
            if (!file || strcmp(file, name) != 0)
                return error_raise(ENGINE_ERROR_DATA,
                                   "%s does not list the tensor %.200s of %s: a file of another model?", path,
                                   tensor, name);
        }
    }
    return ENGINE_OK;
}

static int open_all(struct model *model, const char *folder, json_t *names)
{
    const char *name;
    json_t *number;
    model->shards = calloc(json_object_size(names), sizeof(struct safetensors *));
    if (!model->shards) return error_memory("model");
    json_object_foreach(names, name, number)
    {
        int status = open_shard(model, folder, name);
        if (status) return status;
    }
    return ENGINE_OK;
}

static int open_shards(struct model *model, const char *folder)
{
    json_t *names, *index;
    char *path = directory_join(folder, INDEX);
    int status = list_shards(folder, &names, &index);
    if (!path) status = ENGINE_ERROR_MEMORY;
    if (!status) status = hf_list_dense(folder, names);
    if (!status) status = open_all(model, folder, names);
    if (!status && index) status = check_listed(model, path, json_object_get(index, "weight_map"), names);
    json_decref(index);
    json_decref(names);
    free(path);
    return status;
}

/* ---- The directory ------------------------------------------------------------------------------------- */

/* The vocabulary has as many tokens as the embedding has rows. */
static int read_tokenizer(struct model *model, const char *folder)
{
    uint64_t n_tokens = 0;
    bool found;
    for (size_t i = 0; i < model->n_tensors; i++)
        if (strcmp(model->tensors[i].name, "token_embd.weight") == 0) n_tokens = model->tensors[i].ne[1];
    return hf_tokenizer_read(folder, n_tokens, model->metadata, &found);
}

int hf_read_eye(struct model *model)
{
    struct hf_config config = {0};
    char *folder = hf_folder(model->path), *path = folder ? directory_join(folder, CONFIG) : NULL,
         *processor = NULL;
    int status = path ? ENGINE_OK : error_memory("model");
    if (!status && !directory_exists(folder, CONFIG)) status = hf_no_config(folder);
    for (size_t i = 0; i < 2 && !status && !processor; i++) {
        static const char *const names[] = {"processor_config.json", "preprocessor_config.json"};
        /* Of older models, the first has nothing about pictures. */
        bool is_whole = i == 1 || !directory_exists(folder, names[1]);
        if (!is_whole || !directory_exists(folder, names[i])) continue;
        processor = directory_join(folder, names[i]);
        if (!processor) status = ENGINE_ERROR_MEMORY;
    }
    if (!status) status = hf_eye_config_read(path, processor, model->metadata, &config);
    if (!status) status = open_shards(model, folder);
    if (!status) status = hf_list_tensors(model, &config);
    if (!status) status = hf_describe(model, NULL, folder);
    if (!status) status = metadata_finish(model->metadata);
    snprintf(model->format, sizeof model->format, "Hugging Face");
    hf_config_free(&config);
    free(processor);
    free(path);
    free(folder);
    return status;
}

int hf_read(struct model *model)
{
    struct hf_config config = {0};
    char *folder = hf_folder(model->path), *path = folder ? directory_join(folder, CONFIG) : NULL;
    int status = ENGINE_OK;
    if (!path)
        status = error_memory("model");
    else if (!directory_exists(folder, CONFIG))
        status = hf_no_config(folder);
    else
        status = hf_config_read(path, model->metadata, &config);
    if (!status) status = hf_read_pooling(&config, folder);
    if (!status) status = hf_read_sentence(&config, folder);
    if (!status) status = open_shards(model, folder);
    if (!status) status = hf_list_tensors(model, &config);
    if (!status) {
        const char *name = hf_text(&config, config.root, "_name_or_path");
        status = config.status ? config.status : hf_describe(model, name, folder);
    }
    if (!status) status = read_tokenizer(model, folder);
    if (!status) status = hf_add_reranker(model, &config, folder);
    if (!status) status = metadata_finish(model->metadata);
    snprintf(model->format, sizeof model->format, "Hugging Face");
    hf_config_free(&config);
    free(path);
    free(folder);
    return status;
}
