/* charsmap.h: makes character maps as SentencePiece compiles them into its models, for tests. See
 * plugins/tokenizers/common/charsmap.h for the format. */
#ifndef TESTS_TOKENIZERS_CHARSMAP_H
#define TESTS_TOKENIZERS_CHARSMAP_H

#include "plugin-api.h"

struct charsmap_writer;

struct charsmap_writer *charsmap_create(void);
void charsmap_destroy(struct charsmap_writer *map);
/* A key, never empty, and its replacement. */
void charsmap_add(struct charsmap_writer *map, const char *key, const char *replacement);
/* The whole map; lives as long as the writer. Called once, at the end. */
struct engine_string charsmap_bytes(struct charsmap_writer *map);

#endif
