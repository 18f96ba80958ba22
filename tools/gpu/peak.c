/* peak.c: what an NVIDIA GPU is, from the driver's CUDA library alone; no other part of CUDA is needed.
 * Prints "BYTES-PER-SECOND NAME" of device 0, its memory's bandwidth by clock and width, then its processors
 * and caches. Without library or device it says which, and fails. */
#include <dlfcn.h>
#include <stdio.h>

/* CUdevice_attribute */
enum {
    CLOCK_KHZ = 13,
    PROCESSORS = 16,
    MEMORY_CLOCK_KHZ = 36,
    MEMORY_BUS_BITS = 37,
    L2_BYTES = 38,
    CAPABILITY_MAJOR = 75,
    CAPABILITY_MINOR = 76,
    SHARED_BYTES = 81 /* of a processor */
};

static int (*attribute)(int *value, int number, int device);

static int value_of(int number, int device)
{
    int value = 0;
    return attribute(&value, number, device) ? 0 : value;
}

int main(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned), (*get)(int *, int), (*name_of)(char *, int, int);
    if (!library) {
        fprintf(stderr, "peak: %s\n", dlerror());
        return 1;
    }
    *(void **)&init = dlsym(library, "cuInit");
    *(void **)&get = dlsym(library, "cuDeviceGet");
    *(void **)&attribute = dlsym(library, "cuDeviceGetAttribute");
    *(void **)&name_of = dlsym(library, "cuDeviceGetName");
    int device = 0, error = -1;
    char name[128] = "";
    if (init && get && attribute && name_of) error = init(0);
    if (!error) error = get(&device, 0);
    if (!error) error = name_of(name, sizeof name, device);
    if (error) {
        fprintf(stderr, "peak: CUDA's library has no device (error %d)\n", error);
        return 1;
    }
    double clock = value_of(MEMORY_CLOCK_KHZ, device), width = value_of(MEMORY_BUS_BITS, device);
    printf("%.4g %s\n", 2.0 * 1000 * clock * width / 8, name); /* double data rate */
    printf("compute capability %d.%d, %d processors at %d MHz, %d KiB of shared memory each, %d KiB of L2\n",
           value_of(CAPABILITY_MAJOR, device), value_of(CAPABILITY_MINOR, device),
           value_of(PROCESSORS, device), value_of(CLOCK_KHZ, device) / 1000,
           value_of(SHARED_BYTES, device) / 1024, value_of(L2_BYTES, device) / 1024);
    return 0;
}
