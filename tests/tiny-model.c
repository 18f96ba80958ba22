/* tiny-model.c: writes a Llama of random weights, which is there to be run, not read: its text means nothing.
 * Tests from outside that need no particular model take it.
 *
 * usage: tiny-model OUT.gguf [TYPE [SEED]]     TYPE: F32, F16, BF16, Q8_0 or Q4_0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf-writer.h"
#include "model/types.h"

/* The types that write_tiny_llama takes. */
static bool type_argument(const char *text, uint32_t *type)
{
    if (!type_by_name(text, type)) return false;
    switch (*type) {
    case ENGINE_TYPE_F32:
    case ENGINE_TYPE_F16:
    case ENGINE_TYPE_BF16:
    case ENGINE_TYPE_Q8_0:
    case ENGINE_TYPE_Q4_0: return true;
    default: return false;
    }
}

int main(int argc, char **argv)
{
    struct tiny_llama config = {.seed = 1, .type = ENGINE_TYPE_F32, .n_context = 512};
    char *end = "";
    if (argc > 3) config.seed = strtoull(argv[3], &end, 10);
    if (argc < 2 || argc > 4 || *end != '\0' || (argc > 2 && !type_argument(argv[2], &config.type))) {
        fprintf(stderr, "usage: tiny-model OUT.gguf [F32|F16|BF16|Q8_0|Q4_0 [SEED]]\n");
        return 2;
    }
    if (!write_tiny_llama(argv[1], &config)) {
        fprintf(stderr, "tiny-model: %s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    return 0;
}
