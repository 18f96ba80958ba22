/* options-table.h: for the files that have a part of the table of options each: how rows name fields and commands, and the
 * parts, in their order, which is that of --help within a group. The last row of each part names the next one. */
#ifndef ENGINE_COMMANDS_OPTIONS_TABLE_H
#define ENGINE_COMMANDS_OPTIONS_TABLE_H

#include "commands/options.h"

extern const struct option options_models[]; /* options.c */
extern const struct option options_text[];
extern const struct option options_measures[];
extern const struct option options_embeddings[];
extern const struct option options_others[]; /* options.c */
extern const struct option options_sampling[];
extern const struct option options_serve[];
extern const struct option options_devices[]; /* options.c */

#define AT(field) offsetof(struct arguments, field)

/* Commands that load a model onto devices, and those that open one. */
#define PLACING                                                                                              \
    " run chat batch serve logits attention score embed rerank classify perplexity imatrix bench plan "
#define RUNNING  " run chat batch logits attention score embed rerank classify perplexity imatrix bench plan "
#define GUESSING " run chat batch serve bench "
#define TALKING  " chat serve template "
#define READING                                                                                              \
    " run chat batch tokenize template logits attention score embed rerank classify perplexity imatrix "     \
    "bench plan "
#define WRITING  " run chat batch "
#define SAMPLING " run chat batch serve "

#endif
