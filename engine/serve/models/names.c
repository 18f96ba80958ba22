/* names.c: see names.h. */
#include "serve/models/names.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/common.h"

static int no_memory(void)
{
    return command_error(ENGINE_ERROR_MEMORY, "out of memory (models)");
}

/* "/models/Llama-00001-of-00004.gguf": "Llama"; "/models/Qwen/": "Qwen". */
static char *name_of_path(const char *path)
{
    static const char *const endings[] = {".gguf", ".bin"};
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/') begin--;
    char *name = strndup(path + begin, end - begin);
    if (!name) return NULL;
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t ending = strlen(endings[i]);
        if (length <= ending || strcmp(name + length - ending, endings[i]) != 0) continue;
        length -= ending;
        name[length] = '\0';
    }
    char *part = strstr(name, "-of-");
    if (part && part - name > 6 && strspn(part + 4, "0123456789") == strlen(part + 4) && part[-6] == '-')
        part[-6] = '\0';
    return name;
}

static int check_name(const char *option, const char *typed, const char *name)
{
    for (const unsigned char *byte = (const unsigned char *)name; *byte; byte++)
        if (*byte <= ' ' || *byte == 127)
            return command_error(ENGINE_ERROR_ARGUMENT,
                                 "%s %s: the name '%s' has a blank or a control character", option, typed,
                                 name);
    return *name ? ENGINE_OK
                 : command_error(ENGINE_ERROR_ARGUMENT, "%s %s: the name is empty", option, typed);
}

int model_name_split(const char *typed, char **name, char **path)
{
    const char *equals = strchr(typed, '=');
    /* A path may contain a "=". */
    if (equals && (access(typed, F_OK) == 0 || memchr(typed, '/', (size_t)(equals - typed)))) equals = NULL;
    *name = equals ? strndup(typed, (size_t)(equals - typed)) : name_of_path(typed);
    *path = strdup(equals ? equals + 1 : typed);
    if (!*name || !*path) return no_memory();
    if (equals) return check_name("--model", typed, *name);
    for (char *byte = *name; *byte; byte++)
        if ((unsigned char)*byte <= ' ') *byte = '_';
    return ENGINE_OK;
}

int adapter_name_split(const char *typed, char **model, char **name, char **path, float *scale)
{
    const char *equals = strchr(typed, '=');
    if (!equals)
        return command_error(ENGINE_ERROR_ARGUMENT, "--lora %s: expected NAME=FILE, such as poet=poet.gguf",
                             typed);
    const char *colon = memrchr(typed, ':', (size_t)(equals - typed));
    *model = colon ? strndup(typed, (size_t)(colon - typed)) : NULL;
    const char *begin = colon ? colon + 1 : typed;
    *name = strndup(begin, (size_t)(equals - begin));
    if (!*name || (colon && !*model)) return no_memory();
    int status = check_name("--lora", typed, *name);
    return status ? status : lora_split(equals + 1, path, scale);
}
