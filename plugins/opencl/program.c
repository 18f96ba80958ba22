/* program.c: programs, built at the first request for one of their kernels, from a binary that an earlier run
 * left in the cache folder or from source. ENGINE_OPENCL_SOURCES names a folder in which each program's text
 * is left when it is built, its options in the first line, for compilers that aren't here (tools/gpu/chips).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache-file.h"
#include "device.h"
#include "sources.h"

#define MAX_PARTS 4

struct program {
    struct program *next;
    enum source source;
    char options[256];
    cl_program handle;
    struct kernel *kernels;
};

static const char *const source_texts[][MAX_PARTS] = {
    [SOURCE_MATMUL] = {source_common, source_activation, source_unpack, source_matmul},
    [SOURCE_INPUTS] = {source_common, source_inputs, "", ""},
    [SOURCE_EXPERTS] = {source_common, source_experts, "", ""},
    [SOURCE_GET_ROWS] = {source_common, source_unpack, source_get_rows, ""},
    [SOURCE_ATTENTION] = {source_common, source_attention, "", ""},
    [SOURCE_ROWS] = {source_common, source_activation, source_rows, ""},
    [SOURCE_STATES] = {source_common, source_states, "", ""},
};

/* ---- The cache ----------------------------------------------------------------------------------------- */

/* Everything that a binary depends on, and its file. */
struct program_key {
    char text[1024];
    char name[64];
};

static struct cache_key make_key(const struct engine_device *device, const struct program *program,
                                 struct program_key *key)
{
    const struct listed_device *listed = device->listed;
    uint64_t sources = 0;
    for (int i = 0; i < MAX_PARTS; i++)
        sources =
            cache_hash(sources, source_texts[program->source][i], strlen(source_texts[program->source][i]));
    memset(key, 0, sizeof *key);
    int length =
        snprintf(key->text, sizeof key->text, "%s\n%s\n%s\n%s\n%s\n%016llx", listed->name, listed->version,
                 listed->platform_version, listed->driver, program->options, (unsigned long long)sources);
    uint64_t hash = cache_hash(0, key->text, (size_t)length);
    snprintf(key->name, sizeof key->name, "opencl-%016llx", (unsigned long long)hash);
    return (struct cache_key){key->name, key->text, (size_t)length};
}

static cl_int load_binary(struct engine_device *device, struct program *program)
{
    struct program_key space;
    struct cache_key key = make_key(device, program, &space);
    size_t size;
    cl_int error, loaded = CL_INVALID_BINARY;
    unsigned char *data = cache_file_read(opencl_host, &key, &size);
    if (!data) return CL_INVALID_BINARY;
    const unsigned char *const_data = data;
    program->handle = cl.clCreateProgramWithBinary(device->context, 1, &device->listed->handle, &size,
                                                   &const_data, &loaded, &error);
    if (error == CL_SUCCESS && loaded == CL_SUCCESS)
        error = cl.clBuildProgram(program->handle, 1, &device->listed->handle, program->options, NULL, NULL);
    else if (error == CL_SUCCESS)
        error = loaded;
    if (error != CL_SUCCESS && program->handle) cl.clReleaseProgram(program->handle);
    if (error != CL_SUCCESS) program->handle = NULL;
    free(data);
    return error;
}

/* Where a driver gives no binary the next run compiles again. It is asked only where the binary can be kept:
 * PoCL compiles every kernel once more to answer. */
static void save_binary(const struct engine_device *device, const struct program *program)
{
    struct program_key space;
    struct cache_key key = make_key(device, program, &space);
    size_t size = 0;
    if (!opencl_host->cache_folder()) return;
    if (cl.clGetProgramInfo(program->handle, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL) !=
            CL_SUCCESS ||
        size == 0)
        return;
    unsigned char *data = malloc(size);
    if (data && cl.clGetProgramInfo(program->handle, CL_PROGRAM_BINARIES, sizeof(unsigned char *), &data,
                                    NULL) == CL_SUCCESS)
        cache_file_write(opencl_host, &key, data, size);
    free(data);
}

/* ---- Building ------------------------------------------------------------------------------------------ */

static const char *sources_folder(void)
{
    const char *folder = getenv("ENGINE_OPENCL_SOURCES");
    return folder && *folder ? folder : NULL;
}

static void write_source(const struct program *program, const char *const *texts)
{
    static const char *const names[] = {
        [SOURCE_MATMUL] = "matmul",     [SOURCE_INPUTS] = "inputs",       [SOURCE_EXPERTS] = "experts",
        [SOURCE_GET_ROWS] = "get-rows", [SOURCE_ATTENTION] = "attention", [SOURCE_ROWS] = "rows",
        [SOURCE_STATES] = "states"};
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s", sources_folder(), names[program->source]);
    if (length >= (int)sizeof path - 8) {
        opencl_host->log(ENGINE_LOG_WARNING, "ENGINE_OPENCL_SOURCES is too long");
        return;
    }
    for (const char *c = program->options; *c && length < (int)sizeof path - 8; c++) {
        if (*c == ' ') continue;
        bool is_defined = c[0] == '-' && c[1] == 'D'; /* -DA=1 -DB=2: -A=1-B=2 */
        path[length++] = *c;
        if (is_defined) c++;
    }
    snprintf(path + length, sizeof path - (size_t)length, ".cl");
    FILE *file = fopen(path, "w");
    if (!file) {
        opencl_host->log(ENGINE_LOG_WARNING, "cannot write %s: %s", path, strerror(errno));
        return;
    }
    fprintf(file, "// %s\n", program->options);
    for (int i = 0; i < MAX_PARTS; i++) fputs(texts[i], file);
    fclose(file);
}

static int build_source(struct engine_device *device, struct program *program)
{
    cl_int error;
    const char **texts = (const char **)(uintptr_t)source_texts[program->source];
    if (sources_folder()) write_source(program, texts);
    program->handle = cl.clCreateProgramWithSource(device->context, MAX_PARTS, texts, NULL, &error);
    if (error != CL_SUCCESS) return opencl_error(error, "program");
    error = cl.clBuildProgram(program->handle, 1, &device->listed->handle, program->options, NULL, NULL);
    if (error == CL_SUCCESS) return ENGINE_OK;
    char log[BUILD_LOG_SIZE];
    build_log(device, program->handle, log);
    cl.clReleaseProgram(program->handle);
    program->handle = NULL;
    return opencl_host->fail(ENGINE_ERROR_DEVICE, "%s cannot compile a kernel (error %d, options %s): %s",
                             device->listed->name, (int)error, program->options, log);
}

static int program_get(struct engine_device *device, enum source source, const char *options,
                       struct program **out)
{
    struct program *program = calloc(1, sizeof *program);
    if (!program) return opencl_host->fail(ENGINE_ERROR_MEMORY, "out of memory (program)");
    program->source = source;
    snprintf(program->options, sizeof program->options, "-cl-std=%s%s%s%s%s%s %s",
             device->listed->has_subgroups || device->listed->has_dot ? "CL3.0" : "CL1.2",
             device->listed->has_subgroups ? " -DSUBGROUPS" : "", device->vectors ? " -DVECTORS" : "",
             device->vnni ? " -DVNNI" : "", device->listed->has_dot ? " -DDOT_PRODUCT" : "",
             device->listed->has_half ? " -DHALF" : "", options);
    for (*out = device->programs; *out; *out = (*out)->next) {
        if ((*out)->source != source || strcmp((*out)->options, program->options) != 0) continue;
        free(program);
        return ENGINE_OK;
    }
    int status = ENGINE_OK;
    if (sources_folder() || load_binary(device, program) != CL_SUCCESS) {
        status = build_source(device, program);
        if (!status) save_binary(device, program);
    }
    if (status) {
        free(program);
        return status;
    }
    program->next = device->programs;
    device->programs = *out = program;
    return ENGINE_OK;
}

int kernel_get(struct engine_device *device, enum source source, const char *options, const char *name,
               size_t group_size, const struct kernel **out)
{
    struct program *program = NULL;
    size_t most = 0;
    cl_int error;
    int status = program_get(device, source, options, &program);
    if (status) return status;
    for (*out = program->kernels; *out; *out = (*out)->next)
        if (strcmp((*out)->name, name) == 0) return ENGINE_OK;
    struct kernel *kernel = calloc(1, sizeof *kernel);
    if (!kernel) return opencl_host->fail(ENGINE_ERROR_MEMORY, "out of memory (kernel)");
    snprintf(kernel->name, sizeof kernel->name, "%s", name);
    kernel->handle = cl.clCreateKernel(program->handle, name, &error);
    if (error != CL_SUCCESS) {
        free(kernel);
        return opencl_error(error, name);
    }
    error = cl.clGetKernelWorkGroupInfo(kernel->handle, device->listed->handle, CL_KERNEL_WORK_GROUP_SIZE,
                                        sizeof most, &most, NULL);
    if (error == CL_SUCCESS && most < group_size) {
        device->groups_are_too_large = true;
        cl.clReleaseKernel(kernel->handle);
        free(kernel);
        return opencl_host->fail(ENGINE_ERROR_UNSUPPORTED,
                                 "%s runs %s in groups of at most %zu, not %zu; try kernels = vectors in the "
                                 "section [opencl] of engine.conf",
                                 device->listed->name, name, most, group_size);
    }
    kernel->next = program->kernels;
    program->kernels = kernel;
    *out = kernel;
    return ENGINE_OK;
}

void programs_release(struct engine_device *device)
{
    for (struct program *next; device->programs; device->programs = next) {
        struct program *program = device->programs;
        next = program->next;
        for (struct kernel *after, *kernel = program->kernels; kernel; kernel = after) {
            after = kernel->next;
            cl.clReleaseKernel(kernel->handle);
            free(kernel);
        }
        cl.clReleaseProgram(program->handle);
        free(program);
    }
}
