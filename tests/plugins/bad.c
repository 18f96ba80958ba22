/* bad.c: plugins that must be refused, one for each macro BAD_…. */
#include "plugin-api.h"

#if defined(BAD_UNDEFINED)
int engine_test_that_nobody_defines(void);
#endif

#if !defined(BAD_NAME)
#define BAD_NAME "bad"
#endif
#if !defined(BAD_KIND)
#define BAD_KIND ENGINE_PLUGIN_TOKENIZER
#endif
#if !defined(BAD_SIZE)
#define BAD_SIZE sizeof(struct engine_plugin)
#endif
#if !defined(BAD_MAJOR)
#define BAD_MAJOR ENGINE_ABI_MAJOR
#endif
#if !defined(BAD_LICENSE)
#define BAD_LICENSE "MIT"
#endif

#if defined(BAD_FUNCTION)
static const char *const models[] = {"bad", NULL};
static const struct engine_tokenizer_api api = {.struct_size = sizeof api, .models = models};
#endif

static const struct engine_plugin plugin = {
    .struct_size = BAD_SIZE,
    .abi_major = BAD_MAJOR,
    .abi_minor = 5,
    .kind = BAD_KIND,
    .name = BAD_NAME,
    .version = "1",
    .license = BAD_LICENSE,
    .description = "Bad",
#if defined(BAD_FUNCTION)
    .tokenizers = &api,
#endif
};

#if defined(BAD_SYMBOL)
#define engine_plugin_entry another_entry
ENGINE_EXPORT const struct engine_plugin *another_entry(const struct engine_host *host);
#endif

const struct engine_plugin *engine_plugin_entry(const struct engine_host *host)
{
#if defined(BAD_UNDEFINED)
    if (engine_test_that_nobody_defines()) return NULL;
#endif
#if defined(BAD_ENTRY)
    host->fail(BAD_ENTRY, "libfoo.so.1 is missing");
#else
    (void)host;
#endif
#if defined(BAD_ENTRY) || defined(BAD_SILENT)
    (void)plugin;
    return NULL;
#else
    return &plugin;
#endif
}
