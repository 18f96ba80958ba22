/* test-opencl-faults.c: the OpenCL plugin on machines that are not this one, made by a library in front of
 * the real one (opencl-shim.c): GPUs with memory of their own, small allocations, small work-groups, too
 * little memory, devices that are lost; without loader or driver; with binaries that somebody has damaged;
 * killed in the middle of a run; and under oclgrind, which looks for wrong accesses and races. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <glob.h>
#include <link.h>
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

/* ---- Other machines ------------------------------------------------------------------------------------ */

Test(opencl_faults, the_same_text_on_other_devices)
{
    static const char *const machines[] = {"",
                                           "pointers=no",
                                           "discrete",
                                           "discrete group=64",
                                           "discrete group=1 items=1",
                                           "discrete items=64",
                                           "discrete kernel=200",
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
    program_fails(missing, 0, "no device 7.1");
    program_free(&chosen);
    free(expected);
}

/* From here on the same for this process, in which no OpenCL library must have been loaded before. */
static void machine_of_this_process(const char *description)
{
    struct link_map *map = NULL;
    void *library = dlopen("libOpenCL.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!library) cr_skip_test("no OpenCL here");
    cr_assert_eq(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
    setenv("ENGINE_TEST_OPENCL_LIBRARY", map->l_name, 1);
    setenv("ENGINE_TEST_OPENCL", description, 1);
    dlclose(library);
    cr_assert(dlopen(TEST_SHIM_DIR "/libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL), "%s", dlerror());
}

/* Matrices of six panels, of which an allocation holds 14: some are cut in two. */
static void multiply_matrices_in_parts(const char *description)
{
    static const uint32_t tokens[] = {1, 7, 12};
    struct fixture fixture;
    machine_of_this_process(description);
    gpu_skip_without_device();
    fixture_open(&fixture, "opencl", 0, 0, 0);
    struct engine_device_info info = {.struct_size = sizeof info};
    cr_assert_eq(fixture.api->device_info(0, &info), ENGINE_OK);
    cr_assert_eq(info.max_buffer, 62000);
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        struct matmul_case c = {ENGINE_TYPE_Q8_0, 96, 170, tokens[i], .n_matrices = 8, .n_used = 2,
                                .one_each = true};
        free(run_matmul_case(&fixture, &c));
        c.gate = c.mix = c.residual = true;
        free(run_matmul_case(&fixture, &c));
        free(run_matmul_case(&fixture, &(struct matmul_case){ENGINE_TYPE_Q8_0, 96, 170, (tokens[i] + 9) / 10,
                                                             .n_matrices = 8}));
    }
    fixture_close(&fixture);
}

Test(opencl_parts, matrices_on_a_processor)
{
    multiply_matrices_in_parts("allocation=62000");
}

Test(opencl_parts, matrices_on_a_gpu)
{
    multiply_matrices_in_parts("discrete allocation=62000");
}

/* ---- A damaged model ----------------------------------------------------------------------------------- */

/* Whatever comes out of a router's matrix, the experts that matmul then reads are there, and each but
 * once. */
Test(opencl_faults, a_router_without_numbers_chooses_experts_all_the_same)
{
    enum { N_EXPERTS = 70, N_USED = 6, TOKENS = 3 };
    static const char *const forms[] = {"vectors", "groups"};
    float logits[N_EXPERTS * TOKENS];
    for (size_t i = 0; i < N_EXPERTS * TOKENS; i++)
        logits[i] = i < N_EXPERTS ? NAN : i < 2 * N_EXPERTS && i % 3 ? -INFINITY : i % 2 ? INFINITY : NAN;
    for (size_t form = 0; form < sizeof forms / sizeof *forms; form++)
        for (uint32_t function = ENGINE_ROUTE_SOFTMAX; function <= ENGINE_ROUTE_SIGMOID; function++) {
            struct fixture fixture;
            const struct fixture_gaps gaps = {0};
            const uint64_t ne[4] = {N_USED, TOKENS, 1, 1};
            setenv("ENGINE_OPENCL_KERNELS", forms[form], 1);
            fixture_open(&fixture, "opencl", 0, 0, 0);
            struct engine_op_route args = {
                .struct_size = sizeof args,
                .logits = fixture_strided(&fixture, N_EXPERTS, TOKENS, 1, &gaps, logits),
                .ids = fixture_output(&fixture, ENGINE_TYPE_I32, ne, &gaps),
                .weights = fixture_output(&fixture, ENGINE_TYPE_F32, ne, &gaps),
                .function = function,
                .n_groups = 7,
                .n_groups_used = 2,
            };
            fixture_run(&fixture, ENGINE_OP_ROUTE, &args);
            int32_t *ids = (void *)fixture_read_rows(&fixture, args.ids);
            for (size_t t = 0; t < TOKENS; t++)
                for (size_t i = 0; i < N_USED; i++) {
                    int32_t id = ids[t * N_USED + i];
                    cr_assert(id >= 0 && id < N_EXPERTS, "%s: id %d", forms[form], id);
                    for (size_t j = 0; j < i; j++)
                        cr_assert_neq(ids[t * N_USED + j], id, "%s: %d twice", forms[form], id);
                }
            free(ids);
            fixture_close(&fixture);
        }
}

/* ---- Too little memory, lost devices, compilers that fail ---------------------------------------------- */

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

/* A device that has what the plan says takes all that runs, scratch memory for a whole batch too; one that
 * has less shows it while the model is loaded, and takes less. */
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
        cr_assert_eq(strstr(result.err, "out of device memory; offloading fewer layers") != NULL,
                     missing[i] > 0, "%u missing: %s", missing[i], result.err);
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
                                              {"fails=0", ", while running: OpenCL error -9999"},
                                              {"discrete fails=70", ", while running: OpenCL error -9999"}};
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        machine(machines[i][0]);
        program_fails(PROGRAM(RUN, "--backend", "opencl", "--offload", "3"), 0, machines[i][1]);
    }
}

/* ---- Devices that can't be used ------------------------------------------------------------------------ */

/* One line where OpenCL was asked for, and where it wasn't as many as are expected. */
static void expect_cpu_takes_over(const char *reason, size_t lines_unasked)
{
    program_fails(PROGRAM(RUN, "--backend", "opencl"), 1, reason);
    struct program_result not_asked = PROGRAM(RUN);
    cr_assert_eq(not_asked.status, 0, "%s", not_asked.err);
    cr_assert_eq(program_count_lines(not_asked.err, reason), lines_unasked, "%s", not_asked.err);
    program_free(&not_asked);
    if (lines_unasked > 0) return;
    struct program_result verbose = PROGRAM(RUN, "-v"), devices = PROGRAM("devices");
    cr_assert(strstr(verbose.err, reason), "%s", verbose.err);
    cr_assert(strstr(devices.err, reason), "%s", devices.err);
    program_free(&verbose);
    program_free(&devices);
}

Test(opencl_faults, a_device_that_cant_run_kernels_is_left_out)
{
    machine("profile");
    expect_cpu_takes_over("is not used: it has only OpenCL's embedded profile", 0);
    machine("compiler");
    expect_cpu_takes_over("is not used: its driver has no compiler", 0);
}

/* Noticed when the device is opened, with the compiler's words from the first error on. */
Test(opencl_faults, nor_one_whose_compiler_fails)
{
    char *folder = files_folder(); /* no binaries here */
    setenv("XDG_CACHE_HOME", folder, 1);
    machine("discrete build");
    expect_cpu_takes_over(": line 0: Error: no such thing | line 1: Error: no such thing | ", 1);
    expect_cpu_takes_over(" | line 50: Error", 1);
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
    cr_assert(strstr(result.out, "same hardware as twin0\n"), "%s", result.out);
    program_free(&result);
    files_remove(folder);
    free(folder);
}

Test(opencl_faults, no_driver_is_said_in_one_line)
{
    char *folder = files_folder();
    setenv("OCL_ICD_VENDORS", folder, 1);
    expect_cpu_takes_over("no device with an OpenCL 1.2 driver", 0);
    files_write_text(files_path(folder, "missing.icd"), FILES_ABSENT ".so\n");
    expect_cpu_takes_over("no device with an OpenCL 1.2 driver", 0);
    files_remove(folder);
    free(folder);
}

Test(opencl_faults, nor_a_loader)
{
    char *folder = files_folder();
    files_write_text(files_path(folder, "libOpenCL.so.1"), "no library");
    setenv("LD_LIBRARY_PATH", folder, 1);
    expect_cpu_takes_over("no OpenCL loader", 0);
    files_remove(folder);
    free(folder);
}

/* ---- Kept binaries ------------------------------------------------------------------------------------- */

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

/* ---- Under oclgrind ------------------------------------------------------------------------------------ */

/* From here on OpenCL is oclgrind, in this process and its children; what it has to say goes to `log`. Skips
 * without it. */
static void go_under_oclgrind(const char *folder, char log[512])
{
    snprintf(log, 512, "%s", files_path(folder, "log"));
    files_write_text(files_path(folder, "oclgrind.icd"), OCLGRIND "\n");
    setenv("OCL_ICD_VENDORS", folder, 1);
    setenv("XDG_CACHE_HOME", folder, 1);
    setenv("OCLGRIND_DATA_RACES", "1", 1);
    setenv("OCLGRIND_CHECK_API", "1", 1);
    setenv("OCLGRIND_LOG", log, 1);
}

static void skip_without_oclgrind(void)
{
#ifdef __SANITIZE_ADDRESS__
    cr_skip_test("one that looks over memory is enough at a time");
#endif
    if (access(OCLGRIND, R_OK) != 0) cr_skip_test("no oclgrind here");
}

static void expect_silence(const char *log, const char *what)
{
    size_t size;
    char *said = files_read(log, &size);
    cr_assert_str_eq(said, "", "%s: %s", what, said);
    free(said);
}

/* A few tokens of tiny-llama; whatever oclgrind has to say fails the test. */
Test(opencl_faults, no_wrong_access_and_no_race_under_oclgrind)
{
    static const char *const runs[][3] = {{"Q4_0", "vectors", "off"}, {"Q4_0", "groups", "on"}};
    skip_without_oclgrind();
    char *folder = files_folder(), log[512], out[512];
    snprintf(out, sizeof out, "%s", files_path(folder, "logits.npy"));
    go_under_oclgrind(folder, log);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        char model[512];
        setenv("ENGINE_OPENCL_KERNELS", runs[i][1], 1);
        setenv("ENGINE_OPENCL_INTEGERS", runs[i][2], 1);
        snprintf(model, sizeof model, TINY "%s.gguf", runs[i][0]);
        struct program_result result = PROGRAM("logits", "-m", model, "--tokens", "1 20", "-o", out, "-c",
                                               "32", "--backend", "opencl", "--offload", "all");
        cr_assert_eq(result.status, 0, "%s", result.err);
        expect_silence(log, runs[i][1]);
        program_free(&result);
    }
    files_remove(folder);
    free(folder);
}

/* What Llama doesn't take: experts, one by one and sorted, the router, attention's additions. (Without the
 * suite's setup, as the loader must not have been here before.) */
Test(opencl_oclgrind, operations_of_other_families)
{
    static const struct matmul_case products[] = {
        {.type = ENGINE_TYPE_F32, .k = 33, .rows = 40, .tokens = 2, .n_matrices = 3},
        {.type = ENGINE_TYPE_Q8_0,
         .k = 64,
         .rows = 33,
         .tokens = 2,
         .n_matrices = 4,
         .n_used = 2,
         .mix = true,
         .residual = true,
         .bias = true},
        {.type = ENGINE_TYPE_Q8_0,
         .k = 64,
         .rows = 33,
         .tokens = 9,
         .n_matrices = 4,
         .n_used = 2,
         .uneven = true,
         .one_each = true,
         .gate = true,
         .activation = ENGINE_ACTIVATION_GELU_ERF},
    };
    static const struct route_case routes[] = {
        {.n_experts = 70, .n_used = 4, .tokens = 2, .bias = true, .normalise = true},
        {.n_experts = 12,
         .n_used = 2,
         .tokens = 2,
         .function = ENGINE_ROUTE_SIGMOID,
         .n_groups = 4,
         .n_groups_used = 2,
         .group_score = ENGINE_ROUTE_GROUP_TOP2},
    };
    static const struct attention_case attentions[] = {
        {ENGINE_TYPE_F16, ENGINE_TYPE_F16, 48, 4, 1, 8, 1, 20, 2, .value_dim = 32, .shared = true},
        {ENGINE_TYPE_F32, ENGINE_TYPE_F32, 20, 4, 2, 8, 1, 80, 2, .slopes = true, .sinks = true, .softcap = 2,
         .chunk = 64},
    };
    static const struct rows_case norm = {.op = ENGINE_OP_NORM,
                                          .n = 70,
                                          .tokens = 2,
                                          .planes = 1,
                                          .second = true,
                                          .bias = true,
                                          .kind = ENGINE_NORM_LAYER,
                                          .epsilon = 1e-5f};
    static const struct concat_case joined = {
        .n_a = 17, .n_b = 5, .n_heads = 3, .tokens = 2, .one_each = true};
    static const char *const forms[] = {"vectors", "groups"};
    skip_without_oclgrind();
    char *folder = files_folder(), log[512];
    go_under_oclgrind(folder, log);
    for (size_t form = 0; form < sizeof forms / sizeof *forms; form++) {
        struct fixture fixture;
        setenv("ENGINE_OPENCL_KERNELS", forms[form], 1);
        fixture_open(&fixture, "opencl", 0, 0, 0);
        for (size_t i = 0; i < sizeof products / sizeof *products; i++)
            free(run_matmul_case(&fixture, &products[i]));
        for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
            free(run_route_case(&fixture, &routes[i]));
        for (size_t i = 0; i < sizeof attentions / sizeof *attentions; i++)
            free(run_attention_case(&fixture, &attentions[i]));
        free(run_rows_case(&fixture, &norm));
        free(run_concat_case(&fixture, &joined));
        fixture_close(&fixture);
        expect_silence(log, forms[form]);
    }
    files_remove(folder);
    free(folder);
}
