/* test-recommended.c: sampling settings that a model recommends are the defaults of commands, from
 * outside. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "gguf-writer.h"
#include "program-model.h"
#include "program.h"

static const char *recommended; /* the model of program-model.h with recommendations */

static void begin(void)
{
    begin_model();
    recommended = strdup(files_path(folder, "recommended.gguf"));
}

TestSuite(recommended, .init = begin, .fini = end_model);

static void write_model(float temperature, uint32_t top_k, const char *sequence)
{
    struct gguf_writer *writer = gguf_create(3);
    struct tiny_llama config = {.seed = 3};
    gguf_add_tiny_llama(writer, &config);
    gguf_add_f32(writer, "general.sampling.temp", temperature);
    gguf_add_u32(writer, "general.sampling.top_k", top_k);
    if (sequence) gguf_add_string(writer, "general.sampling.sequence", sequence);
    cr_assert(gguf_save(writer, recommended));
    gguf_destroy(writer);
}

#define RUN(...)                                                                                             \
    PROGRAM("run", "--backend", "cpu", "-p", "a b", "-n", "20", "--seed", "1", "--no-echo", __VA_ARGS__)

/* Whether two runs print the same text. */
static bool same(struct program_result left, struct program_result right)
{
    cr_assert_eq(left.status, 0, "%s", left.err);
    cr_assert_eq(right.status, 0, "%s", right.err);
    bool is_same = strcmp(left.out, right.out) == 0;
    program_free(&left), program_free(&right);
    return is_same;
}

Test(recommended, settings_replace_the_defaults)
{
    write_model(5, 3, NULL);
    cr_expect(same(RUN("-m", recommended), RUN("-m", model, "--temp", "5", "--top-k", "3")));
    cr_expect_not(same(RUN("-m", recommended), RUN("-m", model)), "the settings make no difference");
    write_model(5, 3, "top_k");
    cr_expect(same(RUN("-m", recommended), RUN("-m", model, "--samplers", "top_k", "--top-k", "3")));
}

Test(recommended, options_count_more)
{
    write_model(5, 3, NULL);
    cr_expect(same(RUN("-m", recommended, "--temp", "0.8"), RUN("-m", model, "--top-k", "3")));
    cr_expect(same(RUN("-m", recommended, "--temp", "0.8", "--top-k", "40"), RUN("-m", model)));
    cr_expect(same(RUN("-m", recommended, "--temp", "0"), RUN("-m", model, "--temp", "0")));
}

Test(recommended, impossible_settings_are_refused)
{
    write_model(-3, 3, NULL);
    program_fails(RUN("-m", recommended), 0, "the model recommends settings that are not possible");
    struct program_result result = RUN("-m", recommended, "--temp", "1");
    cr_expect_eq(result.status, 0, "%s", result.err);
    program_free(&result);
    write_model(1, 3, "top_k;nonsense");
    program_fails(RUN("-m", recommended), 0, "nonsense");
}

Test(recommended, beams_take_nothing)
{
    struct gguf_writer *writer = gguf_create(3);
    struct tiny_llama config = {.seed = 3};
    gguf_add_tiny_llama(writer, &config);
    gguf_add_f32(writer, "general.sampling.temp", 0.7F);
    gguf_add_f32(writer, "general.sampling.penalty_repeat", 1.2F);
    cr_assert(gguf_save(writer, recommended));
    gguf_destroy(writer);
    cr_expect(same(RUN("-m", recommended, "--beams", "2"), RUN("-m", model, "--beams", "2")));
    program_fails(RUN("-m", recommended, "--beams", "2", "--repeat-penalty", "1.1"), 0, "penalties");

    const char *lines = files_path(folder, "lines.jsonl");
    files_write_text(lines, "{\"prompt\": \"a b\", \"beams\": 2, \"max_tokens\": 4}\n");
    struct program_result result = PROGRAM("batch", "--backend", "cpu", "-m", recommended, lines);
    cr_expect_eq(result.status, 0, "%s", result.err);
    cr_expect_null(strstr(result.out, "error"), "%s", result.out);
    program_free(&result);
}
