/* tasks.c: the adapters that a model has for its tasks, in its own directory. Some
 * checkpoints store those of all tasks with the matrices: MODULE.parametrizations.weight.0.lora_A
 * [tasks, r, n_in] and .lora_B [tasks, n_out, r], of tables whose rows are looked up [tasks, n_rows, r] and
 * [tasks, r, n_values]; config.json has lora_adaptations, the names of the tasks, and lora_alpha. Others
 * have folders of PEFT, which are called like the tasks, with _ for dots and dashes. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "adapter/internal.h"
#include "arch/arch.h"
#include "base/error.h"
#include "base/half.h"
#include "common/array.h"
#include "common/printable.h"
#include "model/hf/directory.h"
#include "model/hf/json.h"
#include "model/hf/names.h"
#include "model/safetensors.h"

#define MAX_CONFIG ((uint64_t)1 << 20) /* bytes */

struct task_reader {
    const struct model *model;
    struct adapter *adapter;
    const struct hf_family *family;
    char *folder; /* of the model */
    uint64_t index, n_tasks;
    double alpha;
};

/* The part of a path before its last word, without the slash; 0: there is none. */
static size_t parent_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? (size_t)(slash - path) : 0;
}

bool adapter_is_task(const struct model *model, const char *path)
{
    char *folder = model_is_directory(model) ? hf_folder(model_path(model)) : NULL, *parent = NULL;
    struct stat one, other;
    size_t length = parent_length(path);
    bool is_same = false;
    if (folder && length > 0) parent = strndup(path, length);
    if (parent && stat(parent, &one) == 0 && stat(folder, &other) == 0)
        is_same = one.st_dev == other.st_dev && one.st_ino == other.st_ino;
    free(parent);
    free(folder);
    return is_same;
}

/* ---- Folders of PEFT ----------------------------------------------------------------------------------- */

/* Gives the adapter the path of the task's folder, if there is one. */
static bool find_folder(struct adapter *adapter)
{
    struct stat info;
    char *path = strdup(adapter->path);
    size_t parent = parent_length(adapter->path);
    for (char *c = path ? path + parent : NULL; c && *c; c++)
        if (*c == '.' || *c == '-') *c = '_';
    if (!path || stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        free(path);
        return false;
    }
    free(adapter->path);
    adapter->path = path;
    return true;
}

/* ---- With the matrices --------------------------------------------------------------------------------- */

/* Finds the task among those of config.json. */
static int find_task(struct task_reader *reader, const json_t *config)
{
    const json_t *names = json_object_get(config, "lora_adaptations"), *name;
    const char *task = reader->adapter->path + parent_length(reader->adapter->path) + 1;
    char known[512] = "";
    size_t i;
    reader->n_tasks = json_array_size(names);
    reader->index = reader->n_tasks;
    reader->alpha = json_number_value(json_object_get(config, "lora_alpha"));
    json_array_foreach(names, i, name)
    {
        const char *text = json_string_value(name);
        size_t length = strlen(known);
        if (!text || !printable_is(text, strlen(text))) continue;
        if (strcmp(text, task) == 0) reader->index = i;
        snprintf(known + length, sizeof known - length, "%s%s", length ? ", " : "", text);
    }
    if (reader->index < reader->n_tasks) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_NOT_FOUND, "%s: %s", reader->adapter->path,
                       *known ? "the model has no such task" : "no such file, and the model has no tasks");
}

/* Copies the task's part of a stored factor [n_tasks, rows, columns], or its transpose. */
static int copy_factor(const struct task_reader *reader, const struct safetensors_tensor *stored, bool turned,
                       const char *name, struct model_tensor *tensor)
{
    uint64_t n_rows = stored->ne[1], n_columns = stored->ne[2], first = reader->index * n_rows * n_columns;
    int status = adapter_make_tensor(
        reader->adapter, name, ENGINE_TYPE_F32,
        turned ? (uint64_t[3]){n_rows, n_columns, 1} : (uint64_t[3]){n_columns, n_rows, 1}, tensor);
    float *to = (float *)(uintptr_t)tensor->data;
    for (uint64_t i = 0; i < n_rows * n_columns && !status; i++) {
        uint64_t from = turned ? i % n_rows * n_columns + i / n_rows : i;
        to[i] = float_at(stored->type, stored->data, first + from);
    }
    return status;
}

static bool is_factor(const struct task_reader *reader, const struct safetensors_tensor *stored)
{
    return stored && stored->n_dims == 3 && stored->ne[0] == reader->n_tasks && is_float_type(stored->type) &&
           stored->ne[1] > 0 && stored->ne[2] > 0;
}

/* Adds the part of a module whose first factor is `a`, unless the model lacks the module. */
static int add_module(struct task_reader *reader, const struct safetensors *file,
                      const struct safetensors_tensor *a, size_t module_length)
{
    struct adapter *adapter = reader->adapter;
    struct hf_name name;
    char text[512];
    if (strlen(a->name) >= sizeof text) return ENGINE_OK;
    strcpy(text, a->name);
    text[strlen(text) - 1] = 'B';
    const struct safetensors_tensor *b = safetensors_find(file, text);
    text[module_length] = '\0';
    if (!hf_name(reader->family, text, &name) || !model_tensor_find(reader->model, name.tensor))
        return ENGINE_OK;
    if (!is_factor(reader, a) || !is_factor(reader, b))
        return error_raise(ENGINE_ERROR_DATA, "%s: the factors of %s are not those of %llu tasks",
                           adapter->path, text, (unsigned long long)reader->n_tasks);
    char *target = adapter_allocate(adapter, strlen(name.tensor) + 1);
    if (!target) return ENGINE_ERROR_MEMORY;
    strcpy(target, name.tensor);
    uint64_t rank = name.is_embedding ? a->ne[2] : a->ne[1];
    struct adapter_part *part = &adapter->parts[adapter->n_parts++];
    *part = (struct adapter_part){
        .target = target, .is_rows = name.is_embedding, .scale = (float)(reader->alpha / (double)rank)};
    int status = copy_factor(reader, a, false, target, &part->a);
    return status ? status : copy_factor(reader, b, name.is_embedding, target, &part->b);
}

static int read_file(struct task_reader *reader, const char *name)
{
    static const char end[] = ".parametrizations.weight.0.lora_A";
    struct adapter *adapter = reader->adapter;
    struct safetensors *file;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", reader->folder, name);
    int status = safetensors_open(path, &file);
    if (status) return status;
    size_t room = adapter->n_parts;
    if (!ARRAY_FIT(adapter->parts, room, adapter->n_parts + safetensors_count(file) + 1))
        status = error_memory("adapter");
    for (size_t i = 0; i < safetensors_count(file) && !status; i++) {
        const struct safetensors_tensor *a = safetensors_at(file, i);
        size_t length = strlen(a->name), n = sizeof end - 1;
        if (length > n && strcmp(a->name + length - n, end) == 0)
            status = add_module(reader, file, a, length - n);
    }
    safetensors_close(file);
    return status;
}

int adapter_read_task(const struct model *model, struct adapter *adapter)
{
    const struct architecture *architecture = arch_of(model);
    struct task_reader reader = {.model = model, .adapter = adapter};
    json_t *config = NULL, *names = NULL, *number;
    char path[PATH_MAX];
    const char *name;
    if (find_folder(adapter)) return adapter_read_peft(model, adapter);
    if (!architecture) return ENGINE_ERROR_UNSUPPORTED;
    reader.family = &architecture->hf;
    adapter->format = "of a task";
    reader.folder = hf_folder(model_path(model));
    if (!reader.folder) return error_memory("adapter");
    snprintf(path, sizeof path, "%s/config.json", reader.folder);
    int status = hf_json_read(path, MAX_CONFIG, &config);
    if (!status) status = find_task(&reader, config);
    if (!status) status = hf_list_shards(reader.folder, &names);
    json_object_foreach(names, name, number)
    {
        if (!status) status = read_file(&reader, name);
    }
    json_decref(names);
    json_decref(config);
    free(reader.folder);
    return status;
}
