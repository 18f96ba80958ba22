/* load.c: see host.h. */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/printable.h"
#include "plugins/host.h"

/* ---- A plugin's description ---------------------------------------------------------------------------- */

/* A required member of a vtable. */
struct required {
    size_t offset;
    const char *name;
};

#define BACKEND(name)                                                                                        \
    {                                                                                                        \
        offsetof(struct engine_backend, name), #name                                                         \
    }
#define TOKENIZER(name)                                                                                      \
    {                                                                                                        \
        offsetof(struct engine_tokenizer_api, name), #name                                                   \
    }

static const struct required backend_functions[] = {
    BACKEND(device_count),
    BACKEND(device_info),
    BACKEND(device_open),
    BACKEND(device_close),
    BACKEND(supports),
    BACKEND(weight_size),
    BACKEND(buffer_create),
    BACKEND(buffer_destroy),
    BACKEND(weight_create),
    BACKEND(weight_destroy),
    BACKEND(stream_create),
    BACKEND(stream_destroy),
    BACKEND(enqueue),
    BACKEND(write),
    BACKEND(read),
    BACKEND(copy),
    BACKEND(stream_flush),
    BACKEND(stream_wait),
    {0, NULL},
};

static const struct required tokenizer_functions[] = {
    TOKENIZER(models),          TOKENIZER(create), TOKENIZER(destroy),    TOKENIZER(info),
    TOKENIZER(encode),          TOKENIZER(piece),  TOKENIZER(attributes), TOKENIZER(decoder_create),
    TOKENIZER(decoder_destroy), TOKENIZER(decode), TOKENIZER(decode_end), {0, NULL},
};

/* Whether a struct that begins with its size has a pointer at `offset` that isn't NULL. */
static bool is_set(const void *table, size_t offset)
{
    size_t size;
    const void *member;
    memcpy(&size, table, sizeof size);
    if (size < offset + sizeof member) return false;
    memcpy(&member, (const char *)table + offset, sizeof member);
    return member != NULL;
}

static int check_functions(const void *table, const struct required *required)
{
    for (; required->name; required++) {
        if (!is_set(table, required->offset)) {
            return error_raise(ENGINE_ERROR_DATA, "its table of functions lacks %s", required->name);
        }
    }
    return ENGINE_OK;
}

static int check_backend(const struct engine_plugin *plugin)
{
    if (!ENGINE_HAS(plugin, backend) || !plugin->backend) {
        return error_raise(ENGINE_ERROR_DATA, "it is a backend but has no table of functions");
    }
    const struct engine_backend *backend = plugin->backend;
    int status = check_functions(backend, backend_functions);
    if (status != ENGINE_OK) return status;
    unsigned recording = (unsigned)is_set(backend, offsetof(struct engine_backend, record_begin)) +
                         (unsigned)is_set(backend, offsetof(struct engine_backend, record_end)) +
                         (unsigned)is_set(backend, offsetof(struct engine_backend, replay)) +
                         (unsigned)is_set(backend, offsetof(struct engine_backend, recording_destroy));
    if (recording != 0 && recording != 4) {
        return error_raise(ENGINE_ERROR_DATA,
                           "it has %u of the four functions for recordings; all or none are required",
                           recording);
    }
    return ENGINE_OK;
}

static int check_tokenizer(const struct engine_plugin *plugin)
{
    if (!ENGINE_HAS(plugin, tokenizers) || !plugin->tokenizers) {
        return error_raise(ENGINE_ERROR_DATA, "it is a tokenizer but has no table of functions");
    }
    int status = check_functions(plugin->tokenizers, tokenizer_functions);
    if (status == ENGINE_OK && !plugin->tokenizers->models[0]) {
        status = error_raise(ENGINE_ERROR_DATA, "it handles no tokenizer.ggml.model");
    }
    return status;
}

/* A text of the description, for people: a single line. */
static int check_text(const char *text, const char *what)
{
    if (!text) return error_raise(ENGINE_ERROR_DATA, "its description has no %s", what);
    if (printable_is(text, strlen(text))) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_DATA, "the %s in its description contains a control character", what);
}

static int check_name(const char *name)
{
    int status = check_text(name, "name");
    if (status != ENGINE_OK) return status;
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    bool begins = name[0] >= 'a' && name[0] <= 'z';
    if (name[length] || !begins || length > 31 || (name[length - 1] >= '0' && name[length - 1] <= '9')) {
        return error_raise(ENGINE_ERROR_DATA,
                           "'%.40s' is not a valid plugin name (a-z, then a-z, 0-9, _ or -, no digit at the "
                           "end, at most 31 characters)",
                           name);
    }
    return ENGINE_OK;
}

static int check_description(const struct engine_plugin *plugin)
{
    if (!ENGINE_HAS(plugin, abi_minor)) {
        return error_raise(ENGINE_ERROR_DATA, "its description is malformed (struct_size %zu)",
                           plugin->struct_size);
    }
    if (plugin->abi_major != ENGINE_ABI_MAJOR) {
        return error_raise(
            ENGINE_ERROR_UNSUPPORTED,
            "it was built for plugin ABI %u.%u, but this engine has %d.%d: rebuild it for %d.x",
            plugin->abi_major, plugin->abi_minor, ENGINE_ABI_MAJOR, ENGINE_ABI_MINOR, ENGINE_ABI_MAJOR);
    }
    if (!ENGINE_HAS(plugin, description)) {
        return error_raise(ENGINE_ERROR_DATA, "its description is malformed (struct_size %zu)",
                           plugin->struct_size);
    }
    int status = check_name(plugin->name);
    if (status == ENGINE_OK) status = check_text(plugin->version, "version");
    if (status == ENGINE_OK) status = check_text(plugin->license, "license");
    if (status == ENGINE_OK) status = check_text(plugin->description, "description");
    if (status != ENGINE_OK) return status;
    switch (plugin->kind) {
    case ENGINE_PLUGIN_BACKEND: return check_backend(plugin);
    case ENGINE_PLUGIN_TOKENIZER: return check_tokenizer(plugin);
    default:
        return error_raise(ENGINE_ERROR_UNSUPPORTED, "its kind, %u, is unknown to this engine", plugin->kind);
    }
}

/* ---- Loading ------------------------------------------------------------------------------------------- */

/* dlerror's message, without the path that it usually begins with. `problem`: errno, which the loader leaves
 * where memory ran out; its message may not say so. */
static int fail_dl(const char *path, int problem)
{
    const char *words = dlerror();
    size_t length = strlen(path);
    if (problem == ENOMEM) return error_memory("loading a plugin");
    if (!words) words = "cannot be loaded";
    if (strncmp(words, path, length) == 0 && strncmp(words + length, ": ", 2) == 0) words += length + 2;
    return error_raise(ENGINE_ERROR_DATA, "%s", words);
}

/* Calls the entry of a loaded library. */
static int load_describe(void *library, const struct engine_host *host, const struct engine_plugin **info)
{
    const struct engine_plugin *(*entry)(const struct engine_host *);
    void *symbol = dlsym(library, ENGINE_ENTRY_SYMBOL);
    if (!symbol) {
        return error_raise(ENGINE_ERROR_DATA, "it is not a plugin of this engine (it exports no %s)",
                           ENGINE_ENTRY_SYMBOL);
    }
    memcpy(&entry, &symbol, sizeof entry);
    error_clear();
    const struct engine_plugin *plugin = entry(host);
    if (!plugin) {
        /* Some drivers say that they have no memory where they have no device: that is a plugin's own
         * affair. */
        bool known = host_failure() && host_failure() != ENGINE_ERROR_MEMORY;
        if (error_message()[0]) return known ? host_failure() : ENGINE_ERROR;
        return error_raise(ENGINE_ERROR, "it cannot work here, for a reason that it does not give");
    }
    *info = plugin;
    return ENGINE_OK;
}

int plugin_load(const char *path, const struct engine_host *host, void **library,
                const struct engine_plugin **info)
{
    *library = NULL;
    *info = NULL;
    char *real = NULL;
    int status = trust_file(path, &real);
    if (status == ENGINE_OK) status = elf_check_library(real);
    if (status == ENGINE_OK) {
        errno = 0;
        *library = dlopen(real, RTLD_NOW | RTLD_LOCAL);
        if (!*library) status = fail_dl(real, errno);
    }
    free(real);
    if (status != ENGINE_OK) return status;
    status = load_describe(*library, host, info);
    if (status == ENGINE_OK) status = check_description(*info);
    return status;
}
