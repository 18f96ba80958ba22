/* config.h: engine.conf, read from the system's folder and the user's, the user's last. INI, by inih. */
#ifndef ENGINE_BASE_CONFIG_H
#define ENGINE_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

struct config;

/* Reads `path`, or, if it is NULL, the system's engine.conf and then the user's
 * ($XDG_CONFIG_HOME/engine/engine.conf); those may be absent. A malformed line or a key that the engine
 * doesn't know outside plugins' sections: ENGINE_ERROR_DATA, naming file and line. */
int config_open(const char *path, struct config **config);
void config_close(struct config *config);

/* The value of a key; section "" for those in front of the first section. NULL if it isn't set. */
const char *config_get(const struct config *config, const char *section, const char *key);

/* A setting as it stands in a file. */
struct config_entry {
    const char *section, *key;
    const char *value; /* "": taken back */
    const char *path;
    unsigned line;
};
size_t config_count(const struct config *config);
const struct config_entry *config_at(const struct config *config, size_t index);
/* Whether config_get has been asked for it. Any thread may. */
bool config_was_read(const struct config *config, size_t index);

#endif
