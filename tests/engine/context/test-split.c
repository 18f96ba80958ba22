/* test-split.c: whole models through the public library: one batch, one by one, several sequences at once;
 * and split between the CPU and a second device that does nothing but matrix products and lies about its
 * memory. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine.h"
#include "gguf-writer.h"
#include "graph/schedule.h"
#include "plan/plan.h"

#define N_TOKENS 48
#define N_VOCAB  320

static char folder[] = "/tmp/engine-split-XXXXXX";
static char model_file[64], config_path[64];
static int32_t tokens[N_TOKENS];
static char log_text[65536];

static void make_files(void)
{
    cr_assert_not_null(mkdtemp(folder));
    snprintf(model_file, sizeof model_file, "%s/model.gguf", folder);
    snprintf(config_path, sizeof config_path, "%s/engine.conf", folder);
    cr_assert(write_bytes(config_path, "", 0));
    for (int i = 0; i < N_TOKENS; i++) tokens[i] = (i * 37 + 11) % N_VOCAB;
}

static void remove_files(void)
{
    remove(model_file);
    remove(config_path);
    rmdir(folder);
}

TestSuite(split, .init = make_files, .fini = remove_files);

static void write_model(uint32_t type, bool tied)
{
    struct tiny_llama config = {.seed = 3, .type = type, .n_layers = 3, .n_vocab = N_VOCAB, .tied = tied};
    cr_assert(write_tiny_llama(model_file, &config));
}

static void keep_log(void *user, enum engine_log_level level, const char *line)
{
    (void)user, (void)level;
    size_t used = strlen(log_text);
    snprintf(log_text + used, sizeof log_text - used, "%s\n", line);
}

/* ---- Running ---- */

struct setting {
    const char *backends;
    int32_t offload;
    const char *const *place, *const *memory;
    const char *cache_type;
    uint32_t n_batch, n_sequences, n_threads;
};

struct run {
    struct engine *engine;
    struct engine_model *model;
    struct engine_context *context;
};

static int open_run(struct run *run, const struct setting *setting)
{
    const char *dirs[] = {TEST_PLUGIN_DIR, TOY_DIR, NULL};
    struct engine_options options = {
        .struct_size = sizeof options, .plugin_dirs = dirs, .config_file = config_path, .log = keep_log};
    struct engine_context_options context = {
        .struct_size = sizeof context,
        .n_batch = setting->n_batch,
        .n_sequences = setting->n_sequences,
        .n_threads = setting->n_threads ? setting->n_threads : 2,
        .cache_type = setting->cache_type ? setting->cache_type : "f32",
        .backends = setting->backends ? setting->backends : "cpu",
        .offload = &setting->offload,
        .memory = setting->memory,
        .place = setting->place,
    };
    log_text[0] = 0;
    *run = (struct run){0};
    int status = engine_open(&options, &run->engine);
    if (!status) status = engine_model_open(run->engine, model_file, NULL, &run->model);
    if (!status) status = engine_context_create(run->model, &context, &run->context);
    return status;
}

static void close_run(struct run *run)
{
    engine_context_destroy(run->context);
    engine_model_close(run->model);
    engine_close(run->engine);
}

/* Logits of all positions in one batch: [N_TOKENS, N_VOCAB]. */
static void run_once(const struct setting *setting, float *logits)
{
    struct run run;
    uint8_t wanted[N_TOKENS];
    memset(wanted, 1, sizeof wanted);
    struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = N_TOKENS, .tokens = tokens, .wanted = wanted};
    cr_assert_eq(open_run(&run, setting), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_decode(run.context, &batch, logits), ENGINE_OK, "%s", engine_error_message());
    close_run(&run);
}

static double relative_error(const float *x, const float *reference, size_t n)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        difference += ((double)x[i] - reference[i]) * ((double)x[i] - reference[i]);
        norm += (double)reference[i] * reference[i];
    }
    return sqrt(difference / norm);
}

static float reference[N_TOKENS * N_VOCAB], logits[N_TOKENS * N_VOCAB];

static void check_logits(double bar, const char *what)
{
    double error = relative_error(logits, reference, N_TOKENS * N_VOCAB);
    cr_assert(error <= bar, "%s: relative error %g", what, error);
}

/* ---- One device ---- */

static const uint32_t types[] = {ENGINE_TYPE_F32, ENGINE_TYPE_F16, ENGINE_TYPE_BF16, ENGINE_TYPE_Q8_0,
                                 ENGINE_TYPE_Q4_0};

Test(split, batches_of_any_size_give_the_same_logits)
{
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        write_model(types[t], false);
        run_once(&(struct setting){.n_batch = N_TOKENS}, reference);
        for (uint32_t n = 1; n < N_TOKENS; n = n * 2 + 1) {
            run_once(&(struct setting){.n_batch = n}, logits);
            cr_assert_arr_eq(logits, reference, sizeof logits, "type %u, batches of %u", types[t], n);
        }
    }
}

/* The last layer goes on with the wanted tokens alone. */
Test(split, logits_are_the_same_whichever_are_wanted)
{
    static const struct setting settings[] = {{0}, {.n_batch = 7}, {.backends = "toy", .offload = 1}};
    static const uint8_t patterns[][5] = {{0}, {1}, {0, 1}, {1, 0, 0, 1}, {0, 0, 1, 1, 1}};
    write_model(ENGINE_TYPE_Q8_0, false);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        run_once(&settings[i], reference);
        for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++) {
            uint8_t wanted[N_TOKENS];
            for (size_t t = 0; t < N_TOKENS; t++) wanted[t] = t + 1 == N_TOKENS || patterns[p][t % 5];
            struct engine_batch batch = {
                .struct_size = sizeof batch, .n_tokens = N_TOKENS, .tokens = tokens, .wanted = wanted};
            struct run run;
            cr_assert_eq(open_run(&run, &settings[i]), ENGINE_OK, "%s", engine_error_message());
            cr_assert_eq(engine_decode(run.context, &batch, logits), ENGINE_OK, "%s", engine_error_message());
            close_run(&run);
            const float *out = logits;
            for (size_t t = 0; t < N_TOKENS; t++) {
                if (!wanted[t]) continue;
                cr_assert_arr_eq(out, reference + t * N_VOCAB, N_VOCAB * sizeof *out,
                                 "setting %zu, pattern %zu, token %zu", i, p, t);
                out += N_VOCAB;
            }
        }
    }
}

/* However many are wanted, the plan has reserved what that takes. */
Test(split, fewer_wanted_logits_take_no_more_memory)
{
    struct tiny_llama config = {.seed = 3, .n_embd = 256, .n_ff = 704, .n_layers = 2, .n_vocab = 4000};
    cr_assert(write_tiny_llama(model_file, &config)); /* logits and the rest take about as much */
    for (uint32_t n_batch = 1; n_batch <= 64; n_batch *= 4) {
        struct run run;
        cr_assert_eq(open_run(&run, &(struct setting){.n_batch = n_batch}), ENGINE_OK);
        const struct engine_plan *plan = engine_context_plan(run.context);
        for (uint32_t n = 1; n <= n_batch; n++) {
            struct schedule *schedule;
            const struct shape_key key = {.n_tokens = n_batch, .n_outputs = n, .table_width = plan->n_blocks};
            cr_assert_eq(plan_schedule(plan, &key, &schedule), ENGINE_OK);
            cr_assert_leq(schedule->arena[0], plan->activations[0], "%u of %u", n, n_batch);
            schedule_destroy(schedule);
        }
        close_run(&run);
    }
}

Test(split, threads_do_not_change_the_logits)
{
    write_model(ENGINE_TYPE_Q8_0, false);
    run_once(&(struct setting){.n_threads = 1}, reference);
    for (uint32_t n = 2; n < 5; n++) {
        run_once(&(struct setting){.n_threads = n}, logits);
        cr_assert_arr_eq(logits, reference, sizeof logits);
    }
}

/* Three sequences of different lengths, their tokens mixed in one batch after another. */
Test(split, sequences_do_not_see_each_other)
{
    write_model(ENGINE_TYPE_F32, false);
    run_once(&(struct setting){.n_batch = 512}, reference);
    struct run run;
    cr_assert_eq(open_run(&run, &(struct setting){.n_batch = 16, .n_sequences = 3}), ENGINE_OK);
    int32_t mixed[3 * N_TOKENS], sequences[3 * N_TOKENS], positions[3 * N_TOKENS];
    uint8_t wanted[3 * N_TOKENS];
    size_t count = 0;
    for (int step = 0; step < 2 * N_TOKENS; step++)
        for (int s = 0; s < 3; s++) {
            int position = step - 7 * s;
            if (position < 0 || position >= N_TOKENS - 5 * s) continue;
            mixed[count] = tokens[position];
            sequences[count] = s;
            positions[count] = position;
            wanted[count++] = 1;
        }
    static float out[3 * N_TOKENS * N_VOCAB];
    struct engine_batch batch = {.struct_size = sizeof batch,
                                 .n_tokens = count,
                                 .tokens = mixed,
                                 .positions = positions,
                                 .sequences = sequences,
                                 .wanted = wanted};
    cr_assert_eq(engine_decode(run.context, &batch, out), ENGINE_OK, "%s", engine_error_message());
    for (size_t i = 0; i < count; i++) {
        double error = relative_error(out + i * N_VOCAB, reference + positions[i] * N_VOCAB, N_VOCAB);
        cr_assert(error < 1e-5, "sequence %d, position %d: %g", sequences[i], positions[i], error);
    }
    cr_assert_eq(engine_sequence_length(run.context, 2), N_TOKENS - 10);

    /* Forgetting the end of a sequence and running it again gives the same. */
    cr_assert_eq(engine_sequence_truncate(run.context, 1, 9), ENGINE_OK);
    struct engine_batch again = {
        .struct_size = sizeof again, .n_tokens = 1, .tokens = &tokens[9], .sequences = (int32_t[]){1}};
    cr_assert_eq(engine_decode(run.context, &again, out), ENGINE_OK);
    cr_assert(relative_error(out, reference + 9 * N_VOCAB, N_VOCAB) < 1e-5);
    close_run(&run);
}

Test(split, cache_types_agree)
{
    struct tiny_llama config = {.seed = 3, .type = ENGINE_TYPE_F32, .n_embd = 128, .n_vocab = N_VOCAB};
    cr_assert(write_tiny_llama(model_file, &config)); /* heads of 32, as Q8_0 wants */
    run_once(&(struct setting){0}, reference);
    run_once(&(struct setting){.cache_type = "f16"}, logits);
    check_logits(2e-3, "f16");
    run_once(&(struct setting){.cache_type = "q8_0"}, logits);
    check_logits(3e-2, "q8_0");
}

Test(split, wrong_batches_are_refused_and_change_nothing)
{
    write_model(ENGINE_TYPE_F32, false);
    struct run run;
    cr_assert_eq(open_run(&run, &(struct setting){0}), ENGINE_OK);
    int32_t bad_token = N_VOCAB, negative = -1, one = 1;
    struct engine_batch batches[] = {
        {.struct_size = sizeof *batches, .n_tokens = 1, .tokens = &bad_token},
        {.struct_size = sizeof *batches, .n_tokens = 1, .tokens = &negative},
        {.struct_size = sizeof *batches, .n_tokens = 1, .tokens = tokens, .positions = &one},
        {.struct_size = sizeof *batches, .n_tokens = 1, .tokens = tokens, .sequences = &one},
        {.struct_size = sizeof *batches, .n_tokens = 1, .tokens = tokens, .sequences = &negative},
    };
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        cr_assert_eq(engine_decode(run.context, &batches[i], logits), ENGINE_ERROR_ARGUMENT);
        cr_assert_eq(engine_sequence_length(run.context, 0), 0);
    }
    static int32_t many[200];
    struct engine_batch too_long = {.struct_size = sizeof too_long, .n_tokens = 129, .tokens = many};
    cr_assert_eq(engine_decode(run.context, &too_long, logits), ENGINE_ERROR_ARGUMENT);
    cr_assert(strstr(engine_error_message(), "is full; enlarge it"), "%s", engine_error_message());
    too_long.n_tokens = 128;
    cr_assert_eq(engine_decode(run.context, &too_long, logits), ENGINE_OK, "%s", engine_error_message());
    close_run(&run);
}

/* ---- Two devices ---- */

Test(split, every_offload_gives_the_logits_of_the_cpu)
{
    for (int tied = 0; tied < 2; tied++) {
        write_model(ENGINE_TYPE_F32, tied);
        run_once(&(struct setting){0}, reference);
        for (int32_t offload = ENGINE_OFFLOAD_ALL; offload <= 3; offload++) {
            run_once(&(struct setting){.backends = "toy", .offload = offload}, logits);
            check_logits(1e-5, "offload");
        }
    }
}

Test(split, quantised_models_split_too)
{
    for (size_t t = 1; t < sizeof types / sizeof *types; t++) {
        write_model(types[t], false);
        run_once(&(struct setting){0}, reference);
        run_once(&(struct setting){.backends = "toy", .offload = 2}, logits);
        check_logits(3e-2, "quantised");
    }
}

Test(split, single_tensors_go_where_they_are_wished)
{
    static const char *const wishes[][4] = {{"blk.*.ffn_*=toy0"},
                                            {"blk.1.attn_[qk].*=toy0", "output.weight=toy0"},
                                            {"*_norm.weight=toy0"}, /* it can't: they stay on the CPU */
                                            {"blk.0.*=cpu", "*.attn_output.*=toy0", "*up*=toy0"}};
    write_model(ENGINE_TYPE_F32, false);
    run_once(&(struct setting){0}, reference);
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++) {
        run_once(&(struct setting){.backends = "toy", .place = wishes[i]}, logits);
        check_logits(1e-5, wishes[i][0]);
    }
}

static uint32_t count_on(const struct engine_plan *plan, const char *device, const char *part)
{
    uint32_t count = 0;
    for (size_t i = 0; i < engine_plan_tensor_count(plan); i++) {
        struct engine_plan_tensor tensor;
        engine_plan_tensor_at(plan, i, &tensor);
        count += strcmp(tensor.device, device) == 0 && strstr(tensor.name, part);
    }
    return count;
}

Test(split, the_plan_shows_the_split)
{
    write_model(ENGINE_TYPE_F32, false);
    struct run run;
    cr_assert_eq(open_run(&run, &(struct setting){.backends = "toy", .offload = 2}), ENGINE_OK);
    const struct engine_plan *plan = engine_context_plan(run.context);
    cr_assert_eq(count_on(plan, "toy0", "blk.0."), 0);
    cr_assert_eq(count_on(plan, "toy0", "blk.1."), 7, "the matrices");
    cr_assert_eq(count_on(plan, "cpu", "blk.1."), 3, "two norms, the cache");
    cr_assert_eq(count_on(plan, "toy0", "output.weight"), 3, "of two layers, and the last");
    cr_assert_eq(count_on(plan, "cpu", "token_embd"), 1);
    struct engine_plan_totals totals;
    engine_plan_get_totals(plan, &totals);
    /* In each of the two layers: the input and three results of q, k, v; in and out of attn_output; the
     * input, gate and up; in and out of ffn_down. Then in and out of the output matrix: the logits are read
     * from there. */
    cr_assert_eq(totals.copies, 2 * (4 + 2 + 3 + 2) + 1, "%u", totals.copies);
    close_run(&run);
}

Test(split, budgets_are_kept_and_change_nothing_else)
{
    write_model(ENGINE_TYPE_F32, false);
    run_once(&(struct setting){0}, reference);
    uint64_t last = 0;
    for (uint64_t budget = 0; budget <= 1200000; budget += 60000) {
        char text[64];
        snprintf(text, sizeof text, "toy0=%llu", (unsigned long long)budget);
        const char *memory[] = {text, NULL};
        struct setting setting = {.backends = "toy", .offload = ENGINE_OFFLOAD_ALL, .memory = memory};
        struct run run;
        cr_assert_eq(open_run(&run, &setting), ENGINE_OK, "%s", engine_error_message());
        struct engine_plan_device device;
        engine_plan_device_at(engine_context_plan(run.context), 1, &device);
        cr_assert_leq(device.weights + device.cache + device.activations, budget);
        cr_assert_geq(device.weights, last);
        last = device.weights;
        close_run(&run);
        run_once(&setting, logits);
        check_logits(1e-5, text);
    }
    cr_assert_gt(last, 0);
}

/* The toy's products take what its setting says: for one token or many, where the most of it runs. */
Test(split, what_operations_take_counts)
{
    struct setting setting = {.backends = "toy", .offload = ENGINE_OFFLOAD_ALL};
    struct engine_plan_device before, after, none;
    struct run run;
    write_model(ENGINE_TYPE_F32, false);
    cr_assert_eq(open_run(&run, &setting), ENGINE_OK, "%s", engine_error_message());
    engine_plan_device_at(engine_context_plan(run.context), 1, &before);
    close_run(&run);
    cr_assert(write_bytes(config_path, "[toy]\nworking = 5000\n", 21));
    cr_assert_eq(open_run(&run, &setting), ENGINE_OK, "%s", engine_error_message());
    engine_plan_device_at(engine_context_plan(run.context), 1, &after);
    close_run(&run);
    cr_assert_gt(before.weights, 0);
    cr_assert_eq(after.weights, before.weights);
    cr_assert_eq(after.activations, before.activations + 5000);

    char text[64]; /* a byte too little for all of it */
    snprintf(text, sizeof text, "toy0=%llu",
             (unsigned long long)(after.weights + after.cache + after.activations - 1));
    const char *memory[] = {text, NULL};
    setting.memory = memory;
    cr_assert_eq(open_run(&run, &setting), ENGINE_OK, "%s", engine_error_message());
    engine_plan_device_at(engine_context_plan(run.context), 1, &none);
    close_run(&run);
    cr_assert_lt(none.weights, before.weights);
}

Test(split, a_device_that_lied_about_its_memory_gets_less)
{
    write_model(ENGINE_TYPE_F32, false);
    run_once(&(struct setting){0}, reference);
    for (int limit = 0; limit < 440000; limit += 73000) {
        char text[64];
        snprintf(text, sizeof text, "[toy]\nmemory = %d\n", limit);
        cr_assert(write_bytes(config_path, text, strlen(text)));
        run_once(&(struct setting){.backends = "toy", .offload = ENGINE_OFFLOAD_ALL}, logits);
        cr_assert(strstr(log_text, "offloading fewer layers"), "%s", log_text);
        check_logits(1e-5, text);
    }
}

Test(split, a_device_that_fails_while_running_is_an_error)
{
    write_model(ENGINE_TYPE_F32, false);
    cr_assert(write_bytes(config_path, "[toy]\nfail = 5\n", 15));
    struct run run;
    cr_assert_eq(open_run(&run, &(struct setting){.backends = "toy", .offload = ENGINE_OFFLOAD_ALL}),
                 ENGINE_OK);
    struct engine_batch batch = {.struct_size = sizeof batch, .n_tokens = N_TOKENS, .tokens = tokens};
    cr_assert_eq(engine_decode(run.context, &batch, logits), ENGINE_ERROR_DEVICE);
    cr_assert_str_eq(engine_error_message(), "toy: the toy broke");
    cr_assert_eq(engine_sequence_length(run.context, 0), 0);
    close_run(&run);
}

Test(split, backends_that_are_not_there_are_errors)
{
    write_model(ENGINE_TYPE_F32, false);
    static const char *const names[] = {"nothing", "toy:3"};
    for (int i = 0; i < 2; i++) {
        struct run run;
        cr_assert_eq(open_run(&run, &(struct setting){.backends = names[i]}), ENGINE_ERROR_NOT_FOUND);
        close_run(&run);
    }
}

Test(split, one_device_of_a_backend_can_be_named)
{
    static const char *const names[] = {"toy:0", "toy0", "cpu,toy0,toy:0"};
    write_model(ENGINE_TYPE_F32, false);
    for (int i = 0; i < 3; i++) {
        struct run run;
        cr_assert_eq(open_run(&run, &(struct setting){.backends = names[i]}), ENGINE_OK, "%s",
                     engine_error_message());
        cr_assert_eq(engine_plan_device_count(engine_context_plan(run.context)), 2, "%s", names[i]);
        close_run(&run);
    }
}

Test(split, wishes_that_do_not_fit_are_an_error)
{
    static const char *const wishes[] = {"*=toy0", NULL};
    write_model(ENGINE_TYPE_F32, false);
    cr_assert(write_bytes(config_path, "[toy]\nmemory = 1000\n", 20));
    struct run run;
    cr_assert_eq(open_run(&run, &(struct setting){.backends = "toy", .place = wishes}), ENGINE_ERROR_MEMORY);
    cr_assert(strstr(engine_error_message(), "only 1000 bytes, in truth"), "%s", engine_error_message());
    close_run(&run);
}

/* More logits than are computed at once, of a batch that holds tokens whose logits nobody wants as well. */
Test(split, any_number_of_logits_can_be_wanted)
{
    enum { MANY = 120 };
    static float all[MANY * N_VOCAB], some[MANY * N_VOCAB];
    int32_t many[MANY];
    uint8_t wanted[MANY];
    size_t n_wanted = 0;
    write_model(ENGINE_TYPE_F32, false);
    for (int i = 0; i < MANY; i++) {
        many[i] = (i * 53 + 7) % N_VOCAB;
        wanted[i] = i % 5 != 0;
    }
    struct run run;
    cr_assert_eq(open_run(&run, &(struct setting){0}), ENGINE_OK);
    struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = MANY, .tokens = many, .wanted = wanted};
    cr_assert_eq(engine_decode(run.context, &batch, some), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_sequence_truncate(run.context, 0, 0), ENGINE_OK);
    for (size_t i = 0; i < MANY; i++) {
        struct engine_batch one = {.struct_size = sizeof one, .n_tokens = 1, .tokens = &many[i]};
        cr_assert_eq(engine_decode(run.context, &one, all + i * N_VOCAB), ENGINE_OK);
        if (!wanted[i]) continue;
        double error = relative_error(some + n_wanted++ * N_VOCAB, all + i * N_VOCAB, N_VOCAB);
        cr_assert(error < 1e-5, "token %zu: %g", i, error);
    }
    close_run(&run);
}
