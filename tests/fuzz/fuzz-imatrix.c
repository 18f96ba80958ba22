/* fuzz-imatrix.c: fuzzing target: importance matrices, in GGUF or the older format. Input: a file, as it is.
 * It is refused with a reason, or all of its values are means of squares. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "model/imatrix.h"
#include "tokenizers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[] = "/tmp/fuzz-imatrix-XXXXXX";
    int output = mkstemp(path);
    struct imatrix *imatrix;
    if (output < 0 || write(output, data, size) != (ssize_t)size) fuzz_fail("no file");
    close(output);
    error_clear();
    int status = imatrix_open(path, &imatrix);
    unlink(path);
    if (status && !error_message()[0]) fuzz_fail("refused without a reason");
    if (status) return 0;
    for (size_t e = 0; e < imatrix_count(imatrix); e++) {
        const struct imatrix_entry *entry = imatrix_at(imatrix, e);
        if (imatrix_find(imatrix, entry->name) != entry) fuzz_fail("an entry is not found by its name");
        if (entry->n > size / sizeof(float)) fuzz_fail("more values than the file has");
        for (uint64_t i = 0; i < entry->n; i++)
            if (!(entry->means[i] >= 0) || isinf(entry->means[i]))
                fuzz_fail("a value is not a mean of squares");
    }
    imatrix_close(imatrix);
    return 0;
}
