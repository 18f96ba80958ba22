/* fuzz-cluster.c: fuzzing target: files that describe clusters. Input: a file, as it is. It is refused with a
 * reason, or all that plans divide by is there. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "devices/cluster.h"
#include "devices/measure.h"
#include "tokenizers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct device_set set;
    char path[] = "/tmp/fuzz-cluster-XXXXXX";
    int output = mkstemp(path);
    if (output < 0 || write(output, data, size) != (ssize_t)size) fuzz_fail("no file");
    close(output);
    memset(&set, 0, sizeof set);
    set.n_devices = 1;
    strcpy(set.devices[0].name, "cpu");
    error_clear();
    int status = cluster_read(path, &set);
    unlink(path);
    if (status && !error_message()[0]) fuzz_fail("refused without a reason");
    if (strchr(error_message(), '\n')) fuzz_fail("a reason of several lines");
    for (uint32_t d = 0; d < set.n_devices && !status; d++) {
        const struct open_device *device = &set.devices[d];
        uint32_t there;
        if (!devices_find(&set, device->name, &there) || there != d) fuzz_fail("two devices of one name");
        if (device->budget == 0 || !device->is_described) fuzz_fail("a device without memory");
        if ((device->link.bandwidth > 0) != (device->link.traffic.peer > 0))
            fuzz_fail("a device without a link");
        for (uint32_t type = 0; type < 40; type++) {
            const struct pace_of_type of = pace_for(&device->pace, type);
            if (!(of.bandwidth >= 1) || !(of.computation >= 1) || !(of.preparation >= 0))
                fuzz_fail("a device without a speed");
        }
        if (!(device->pace.overhead >= 0) || !isfinite(device->pace.overhead)) fuzz_fail("no overhead");
    }
    return 0;
}
