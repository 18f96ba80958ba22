/* bare-engine.c: see bare-engine.h. */
#include "bare-engine.h"

#include <criterion/criterion.h>

#include "files.h"

struct engine *bare_engine(const char *folder, const char *plugin_dir)
{
    struct engine *engine = NULL;
    const char *config_file = files_path(folder, "engine.conf");
    const struct engine_options options = {
        .struct_size = sizeof options,
        .plugin_dirs = (const char *const[]){plugin_dir, NULL},
        .config_file = config_file,
    };
    files_write_text(config_file, "");
    cr_assert_eq(engine_open(&options, &engine), ENGINE_OK, "%s", engine_error_message());
    return engine;
}
