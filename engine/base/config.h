/* config.h: reads engine.conf, an INI file, from the system's folder and then from the user's, with inih. */
#ifndef ENGINE_BASE_CONFIG_H
#define ENGINE_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

struct config;

/* Reads `path`. If it is NULL, reads the system's engine.conf and then the user's
 * ($XDG_CONFIG_HOME/engine/engine.conf), either of which may be missing, or be in a folder that this user
 * can't enter. ENGINE_ERROR_DATA, naming file and
 * line: a malformed line, or an unknown key outside the plugins' sections. */
int config_open(const char *path, struct config **config);
void config_close(struct config *config);

/* The file that is taken as missing because its folder can't be entered; NULL: there is none. */
const char *config_hidden(const struct config *config);

/* The value of a key, or NULL if it is not set. Section "" has the settings before the first section. */
const char *config_get(const struct config *config, const char *section, const char *key);

/* A setting as written in a file. */
struct config_entry {
    const char *section, *key;
    const char *value; /* "": unset again */
    const char *path;
    unsigned line;
};
size_t config_count(const struct config *config);
const struct config_entry *config_at(const struct config *config, size_t index);
/* Whether config_get has returned it. Thread-safe. */
bool config_was_read(const struct config *config, size_t index);

#endif
