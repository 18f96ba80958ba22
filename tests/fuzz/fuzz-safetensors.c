/* fuzz-safetensors.c: fuzzing target: safetensors files. Input: a file, as it is. It is refused with a
 * reason, or every tensor's data can be read. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "model/safetensors.h"
#include "tokenizers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[] = "/tmp/fuzz-safetensors-XXXXXX";
    int output = mkstemp(path);
    struct safetensors *file;
    if (output < 0 || write(output, data, size) != (ssize_t)size) fuzz_fail("no file");
    close(output);
    error_clear();
    int status = safetensors_open(path, &file);
    unlink(path);
    if (status && !error_message()[0]) fuzz_fail("refused without a reason");
    if (status) return 0;
    uint64_t total = 0;
    volatile uint8_t sink = 0; /* so that every byte is read */
    for (size_t i = 0; i < safetensors_count(file); i++) {
        const struct safetensors_tensor *tensor = safetensors_at(file, i);
        if (safetensors_find(file, tensor->name) != tensor) fuzz_fail("a tensor is not found by its name");
        for (uint64_t k = 0; k < tensor->size; k++) sink = ((const uint8_t *)tensor->data)[k];
        total += tensor->size;
    }
    (void)sink;
    if (total > size) fuzz_fail("more data than the file has");
    safetensors_close(file);
    return 0;
}
