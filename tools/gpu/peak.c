/* peak.c: the theoretical bandwidth of an NVIDIA GPU's memory, from its clock and width, which the driver's
 * CUDA library reports; no other part of CUDA is needed. Prints "BYTES-PER-SECOND NAME" of device 0; fails
 * without library or device. */
#include <dlfcn.h>
#include <stdio.h>

enum { MEMORY_CLOCK_KHZ = 36, MEMORY_BUS_BITS = 37 }; /* CUdevice_attribute */

int main(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned), (*get)(int *, int), (*attribute)(int *, int, int), (*name_of)(char *, int, int);
    if (!library) {
        fprintf(stderr, "peak: %s\n", dlerror());
        return 1;
    }
    *(void **)&init = dlsym(library, "cuInit");
    *(void **)&get = dlsym(library, "cuDeviceGet");
    *(void **)&attribute = dlsym(library, "cuDeviceGetAttribute");
    *(void **)&name_of = dlsym(library, "cuDeviceGetName");
    int device = 0, clock = 0, width = 0;
    char name[128] = "";
    if (!init || !get || !attribute || !name_of || init(0) || get(&device, 0) ||
        attribute(&clock, MEMORY_CLOCK_KHZ, device) || attribute(&width, MEMORY_BUS_BITS, device) ||
        name_of(name, sizeof name, device)) {
        fprintf(stderr, "peak: CUDA's library has no device\n");
        return 1;
    }
    printf("%.4g %s\n", 2.0 * 1000 * clock * width / 8, name); /* double data rate */
    return 0;
}
