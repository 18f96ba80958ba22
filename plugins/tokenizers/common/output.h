/* output.h: gathers ids for the caller's sink, so that the sink is called rarely. */
#ifndef TOKENIZERS_COMMON_OUTPUT_H
#define TOKENIZERS_COMMON_OUTPUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "plugin-api.h"

#define OUTPUT_SIZE 2048

struct explanation;

struct output {
    engine_token_sink sink;
    void *user;
    struct explanation *explanation; /* what is done is reported here; NULL unless somebody asked */
    int stopped;                     /* what the sink returned to stop, or 0 */
    size_t count;
    int32_t ids[OUTPUT_SIZE];
};

/* Passes the gathered ids on. */
void output_flush(struct output *output);

/* The sink of the ids while their steps are reported. */
int output_drop(void *user, const int32_t *ids, size_t count);

static inline void output_put(struct output *output, int32_t id)
{
    if (output->count == OUTPUT_SIZE) output_flush(output);
    output->ids[output->count++] = id;
}

static inline void output_put_all(struct output *output, const int32_t *ids, size_t count)
{
    while (count) {
        if (output->count == OUTPUT_SIZE) output_flush(output);
        size_t room = OUTPUT_SIZE - output->count, n = count < room ? count : room;
        memcpy(output->ids + output->count, ids, n * sizeof *ids);
        output->count += n;
        ids += n;
        count -= n;
    }
}

#endif
