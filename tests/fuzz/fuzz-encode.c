/* fuzz-encode.c: fuzzing target: texts to ids and back. Input: a byte for the tokenizer, one for the flags,
 * the text. */
#include "tokenizers.h"

/* A sink that has enough after some ids. */
static int stop(void *left, const int32_t *ids, size_t count)
{
    (void)ids;
    size_t *n = left;
    *n = *n > count ? *n - count : 0;
    return *n ? 0 : 77;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    const struct fuzz_tokenizer *tokenizer = fuzz_tokenizer(data[0]);
    uint32_t flags = data[1] & (ENGINE_ENCODE_BOS_EOS | ENGINE_ENCODE_SPECIAL);
    const char *text = (const char *)data + 2;
    fuzz_there_and_back(tokenizer, text, size - 2, flags);
    if (data[1] & 0x80) {
        size_t left = data[1] & 0x7F;
        int status = tokenizer->api->encode(tokenizer->tokenizer, text, size - 2, flags, stop, &left);
        if (status != 0 && status != 77) fuzz_fail("stopping failed");
    }
    return 0;
}
