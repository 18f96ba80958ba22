/* output.c: see output.h. */
#include "common/output.h"

void output_flush(struct output *output)
{
    if (output->count && !output->stopped)
        output->stopped = output->sink(output->user, output->ids, output->count);
    output->count = 0;
}

int output_drop(void *user, const int32_t *ids, size_t count)
{
    (void)user, (void)ids, (void)count;
    return 0;
}
