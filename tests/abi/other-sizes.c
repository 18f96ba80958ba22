/* other-sizes.c: the example backend as headers of other versions would have made it: SIZES is SMALLER, its
 * structs end before what it doesn't use, or LARGER, they go on behind what this header knows, and say that
 * they are of a later minor version. */
#define engine_plugin_entry sound_entry
#include "../../examples/backend-minimal/minimal.c"
#undef engine_plugin_entry

#define SMALLER 1
#define LARGER  2

static struct {
    struct engine_backend known;
    void (*later)(void);
} larger_backend;

static struct {
    struct engine_plugin known;
    const void *later[3];
} larger;

static void not_to_be_called(void)
{
    abort();
}

ENGINE_EXPORT const struct engine_plugin *engine_plugin_entry(const struct engine_host *services)
{
    larger.known = *sound_entry(services);
    larger_backend.known = backend;
    larger_backend.later = not_to_be_called;
    larger.later[0] = larger.later;
    larger.known.backend = &larger_backend.known;
    if (SIZES == SMALLER) {
        larger.known.struct_size = offsetof(struct engine_plugin, tokenizers);
        larger_backend.known.struct_size = offsetof(struct engine_backend, record_begin);
        memset(&larger.known.tokenizers, 0x55, sizeof larger.known.tokenizers); /* not to be looked at */
        memset(&larger_backend.known.record_begin, 0x55, 4 * sizeof larger_backend.known.record_begin);
        larger.known.name = "smaller";
    } else {
        larger.known.struct_size = sizeof larger;
        larger_backend.known.struct_size = sizeof larger_backend;
        larger.known.abi_minor = ENGINE_ABI_MINOR + 3;
        larger.known.name = "larger";
    }
    return &larger.known;
}
