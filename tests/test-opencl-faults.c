/* test-opencl-faults.c: the OpenCL plugin on machines that are not this one, made by a library in front of the real one
 * (opencl-shim.c): GPUs with memory of their own, small allocations, small work-groups, too little memory, devices that are
 * lost; without loader or driver; with binaries that somebody has damaged; killed in the middle of a run; and under
 * oclgrind, which looks for wrong accesses and races. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend-fixture.h"
#include "files.h"
#include "gpu-device.h"
#include "program.h"

#define MODEL    TEST_SHARED_DIR "/models/stories260K-f32.gguf"
#define TINY     TEST_SHARED_DIR "/reference/tiny-llama/tiny-llama-"
#define RUN      "-m", MODEL, "-p", "Once upon a time", "--temp", "0", "-n", "24", "-b", "16"
#define OCLGRIND "/usr/lib/oclgrind/liboclgrind-rt-icd.so"

/* The real library's path, for the shim. */
static void setup(void)
{
    char path[4096] = "";
    gpu_skip_without_device();
    FILE *maps = fopen("/proc/self/maps", "re");
    for (char line[4200]; maps && fgets(line, sizeof line, maps);)
        if (strstr(line, "/libOpenCL.so")) sscanf(line, "%*s %*s %*s %*s %*s %4095s", path);
    if (maps) fclose(maps);
    cr_assert(path[0], "the plugin has opened no libOpenCL.so.1");
    setenv("ENGINE_TEST_OPENCL_LIBRARY", path, 1);
    if (access(MODEL, R_OK) != 0) cr_skip_test("no ../shared here");
}

TestSuite(opencl_faults, .init = setup);

/* From here on programs see this machine. */
static void machine(const char *description)
{
    setenv("LD_LIBRARY_PATH", TEST_SHIM_DIR, 1);
    setenv("ENGINE_TEST_OPENCL", description, 1);
}

static char *text_on_cpu(void)
{
    struct program_result result = PROGRAM(RUN, "--backend", "cpu");
    cr_assert_eq(result.status, 0, "%s", result.err);
    free(result.err);
    return result.out;
}

/* ---- Other machines ------------------------------------------------------------------------------------------------ */

Test(opencl_faults, the_same_text_on_other_devices)
{
    static const char *const machines[] = {"",
                                           "pointers=no",
                                           "discrete",
                                           "discrete group=64",
                                           "discrete group=1 items=1",
                                           "discrete items=64",
                                           "discrete kernel=100",
                                           "discrete kernel=1",
                                           "allocation=70000",
                                           "discrete allocation=70000"},
                             *const offloads[] = {"2", "all"};
    char *expected = text_on_cpu();
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        for (size_t k = 0; k < 2; k++) {
            machine(machines[i]);
            struct program_result result = PROGRAM(RUN, "--backend", "opencl", "--offload", offloads[k]);
            program_expect_text(&result, expected, machines[i]);
            program_free(&result);
        }
    free(expected);
}

Test(opencl_faults, a_gpu_takes_the_model_by_itself)
{
    machine("discrete");
    struct program_result result = PROGRAM("plan", "-m", MODEL);
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert(strstr(result.out, "blk.0.attn_q.weight") && strstr(result.out, "  opencl0.0\n"), "%s",
              result.out);
    program_free(&result);
}

Test(opencl_faults, a_device_is_chosen_by_platform_and_number)
{
    char *expected = text_on_cpu();
    struct program_result chosen = PROGRAM(RUN, "--backend", "opencl:0.0"),
                          missing = PROGRAM(RUN, "--backend", "opencl:7.1");
    program_expect_text(&chosen, expected, "opencl:0.0");
    program_expect_failure(&missing, "no device 7.1");
    program_free(&chosen);
    program_free(&missing);
    free(expected);
}

/* ---- Too little memory, lost devices, compilers that fail ----------------------------------------------------------- */

Test(opencl_faults, less_memory_than_the_device_says_means_a_smaller_offload)
{
    static const char *const machines[] = {"memory=900000", "discrete memory=1200000", "memory=500000",
                                           "memory=10"};
    char *expected = text_on_cpu();
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        machine(machines[i]);
        struct program_result result = PROGRAM(RUN, "--backend", "opencl", "--offload", "all");
        program_expect_text(&result, expected, machines[i]);
        cr_assert(strstr(result.err, "memory"), "%s: %s", machines[i], result.err);
        program_free(&result);
    }
    free(expected);
}

/* A device that has what the plan says takes all that runs, scratch memory for a whole batch too; one that has less shows
 * it while the model is loaded, and takes less. */
Test(opencl_faults, a_plan_holds)
{
    static const unsigned missing[] = {0, 2000, 20000, 48000};
    const char *at;
    char description[64], text[301] = "";
    unsigned long long total = 0;
    setenv("ENGINE_OPENCL_KERNELS", "vectors", 1);
    setenv("ENGINE_OPENCL_INTEGERS", "off", 1);
    for (size_t i = 0; i < sizeof text - 1; i++) text[i] = "ab "[i % 3];
    struct program_result plan = PROGRAM("plan", "--json", "-m", MODEL, "-b", "64", "-c", "256", "--backend",
                                         "opencl", "--offload", "all");
    cr_assert_eq(plan.status, 0, "%s", plan.err);
    cr_assert((at = strstr(plan.out, "\"name\": \"opencl0.0\"")) && (at = strstr(at, "\"total\": ")));
    cr_assert_eq(sscanf(at, "\"total\": %llu", &total), 1);
    program_free(&plan);
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
        snprintf(description, sizeof description, "discrete memory=%llu", total - missing[i]);
        machine(description);
        struct program_result result = PROGRAM("-m", MODEL, "-p", text, "-n", "2", "-b", "64", "-c", "256",
                                               "--backend", "opencl", "--offload", "all");
        cr_assert_eq(result.status, 0, "%u missing: %s", missing[i], result.err);
        cr_assert_eq(strstr(result.err, "out of device memory; offloading less") != NULL, missing[i] > 0,
                     "%u missing: %s", missing[i], result.err);
        program_free(&result);
    }
}

Test(opencl_faults, what_goes_wrong_while_running_is_an_error)
{
    static const char *const machines[][2] = {{"run=0", "out of device memory"},
                                              {"run=70", "out of device memory"},
                                              {"lost=0", "lost"},
                                              {"lost=70", "lost"},
                                              {"discrete lost=70", "lost"},
                                              {"fails=0", ", while it ran: OpenCL error -9999"},
                                              {"discrete fails=70", ", while it ran: OpenCL error -9999"}};
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        machine(machines[i][0]);
        struct program_result result = PROGRAM(RUN, "--backend", "opencl", "--offload", "3");
        program_expect_failure(&result, machines[i][1]);
        program_free(&result);
    }
}

/* ---- Devices that can't be used ------------------------------------------------------------------------------------ */

static void expect_cpu_takes_over(const char *reason)
{
    struct program_result asked = PROGRAM(RUN, "--backend", "opencl"), not_asked = PROGRAM(RUN);
    program_expect_failure(&asked, reason);
    cr_assert_str_eq(asked.out, "");
    cr_assert_eq(not_asked.status, 0, "%s", not_asked.err);
    cr_assert_eq(program_count_lines(not_asked.err, reason), 1, "%s", not_asked.err);
    program_free(&asked);
    program_free(&not_asked);
}

Test(opencl_faults, a_device_that_cant_run_kernels_is_left_out)
{
    machine("profile");
    expect_cpu_takes_over("is not used: it has OpenCL's embedded profile");
    machine("compiler");
    expect_cpu_takes_over("is not used: its driver has no compiler");
}

/* Noticed when the device is opened, with the compiler's words from the first error on. */
Test(opencl_faults, nor_one_whose_compiler_fails)
{
    char *folder = files_folder(); /* no binaries here */
    setenv("XDG_CACHE_HOME", folder, 1);
    machine("discrete build");
    expect_cpu_takes_over(": line 0: Error: no such thing | line 1: Error: no such thing | ");
    expect_cpu_takes_over(" | line 50: Error");
    files_remove(folder);
    free(folder);
}

Test(opencl_faults, a_device_says_where_it_is)
{
    char *folder = files_folder(), config[512];
    snprintf(config, sizeof config, "%s", files_path(folder, "engine.conf"));
    files_write_text(config, "[twin]\npci = 0000:0A:0B.1\n");
    machine("pci");
    struct program_result result = PROGRAM("devices", "--config", config, "--plugin-dir", TWIN_DIR);
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert(strstr(result.out, "the same hardware as twin0\n"), "%s", result.out);
    program_free(&result);
    files_remove(folder);
    free(folder);
}

Test(opencl_faults, no_driver_is_said_in_one_line)
{
    char *folder = files_folder();
    setenv("OCL_ICD_VENDORS", folder, 1);
    expect_cpu_takes_over("no device with an OpenCL 1.2 driver");
    files_write_text(files_path(folder, "missing.icd"), "/nonexistent.so\n");
    expect_cpu_takes_over("no device with an OpenCL 1.2 driver");
    files_remove(folder);
    free(folder);
}

Test(opencl_faults, nor_a_loader)
{
    char *folder = files_folder();
    files_write_text(files_path(folder, "libOpenCL.so.1"), "no library");
    setenv("LD_LIBRARY_PATH", folder, 1);
    expect_cpu_takes_over("no OpenCL loader");
    files_remove(folder);
    free(folder);
}

/* ---- Kept binaries -------------------------------------------------------------------------------------------------- */

static void expect_sound_run(const char *expected, const char *what)
{
    struct program_result result = PROGRAM(RUN, "--backend", "opencl", "--offload", "all");
    program_expect_text(&result, expected, what);
    program_free(&result);
}

Test(opencl_faults, damaged_binaries_are_made_anew)
{
    char *expected = text_on_cpu(), *folder = files_folder(), pattern[512];
    glob_t found = {0};
    uint64_t seed = 3;
    setenv("XDG_CACHE_HOME", folder, 1);
    expect_sound_run(expected, "no binaries");
    snprintf(pattern, sizeof pattern, "%s/*/opencl-*", folder);
    cr_assert(glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc > 2);
    for (int i = 0; i < 3; i++) {
        for (size_t k = 0; k < found.gl_pathc; k++) {
            size_t size;
            char *data = files_read(found.gl_pathv[k], &size);
            cr_assert_gt(size, 40);
            if (i > 1) data[random_bits(&seed) % size] ^= (char)(1 << k % 8);
            files_write(found.gl_pathv[k], data, i == 0 ? 0 : i == 1 ? size - 1 : size);
            free(data);
        }
        expect_sound_run(expected, "damaged binaries");
    }
    globfree(&found);
    files_remove(folder);
    free(folder), free(expected);
}

/* Killed at any moment, the next run is none the worse for it. */
Test(opencl_faults, killed_in_the_middle_of_a_run)
{
    static const char *const moments[] = {"0.05", "0.3", "1"};
    char *expected = text_on_cpu(), *folder = files_folder(), command[1024];
    setenv("XDG_CACHE_HOME", folder, 1);
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        snprintf(command, sizeof command,
                 "timeout -s KILL %s " TEST_ENGINE " -m " MODEL " -p Once -n 400 --backend opencl "
                 "--offload all >/dev/null 2>&1",
                 moments[i]);
        int status = system(command);
        cr_assert(WIFEXITED(status) && (WEXITSTATUS(status) == 137 || WEXITSTATUS(status) == 0), "status %d",
                  status);
    }
    expect_sound_run(expected, "after a kill");
    files_remove(folder);
    free(folder), free(expected);
}

/* ---- Under oclgrind -------------------------------------------------------------------------------------------------- */

/* A few tokens of tiny-llama; whatever oclgrind has to say fails the test. */
Test(opencl_faults, no_wrong_access_and_no_race_under_oclgrind)
{
    static const char *const runs[][3] = {{"Q4_0", "vectors", "off"}, {"Q4_0", "groups", "on"}};
#ifdef __SANITIZE_ADDRESS__
    cr_skip_test("one that looks over memory is enough at a time");
#endif
    if (access(OCLGRIND, R_OK) != 0) cr_skip_test("no oclgrind here");
    char *folder = files_folder(), log[512], out[512];
    snprintf(log, sizeof log, "%s", files_path(folder, "log"));
    snprintf(out, sizeof out, "%s", files_path(folder, "logits.npy"));
    files_write_text(files_path(folder, "oclgrind.icd"), OCLGRIND "\n");
    setenv("OCL_ICD_VENDORS", folder, 1);
    setenv("XDG_CACHE_HOME", folder, 1);
    setenv("OCLGRIND_DATA_RACES", "1", 1);
    setenv("OCLGRIND_CHECK_API", "1", 1);
    setenv("OCLGRIND_LOG", log, 1);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        char model[512];
        size_t size;
        setenv("ENGINE_OPENCL_KERNELS", runs[i][1], 1);
        setenv("ENGINE_OPENCL_INTEGERS", runs[i][2], 1);
        snprintf(model, sizeof model, TINY "%s.gguf", runs[i][0]);
        struct program_result result = PROGRAM("logits", "-m", model, "--tokens", "1 20", "-o", out, "-c",
                                               "32", "--backend", "opencl", "--offload", "all");
        cr_assert_eq(result.status, 0, "%s", result.err);
        char *said = files_read(log, &size);
        cr_assert_str_eq(said, "", "%s in %s: %s", runs[i][0], runs[i][1], said);
        free(said);
        program_free(&result);
    }
    files_remove(folder);
    free(folder);
}
