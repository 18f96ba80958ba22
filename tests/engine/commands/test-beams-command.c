/* test-beams-command.c: beam search in `engine run` and in the lines of `engine batch`. What the texts are,
 * test-beam-families.c compares. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "gguf-writer.h"
#include "program-json.h"
#include "program.h"

static char *folder, *model, *in, *kept;

static void begin(void)
{
    folder = files_folder();
    model = strdup(files_path(folder, "model.gguf"));
    in = strdup(files_path(folder, "in"));
    kept = strdup(files_path(folder, "kept"));
    cr_assert(write_tiny_llama(model, &(struct tiny_llama){.seed = 3, .type = ENGINE_TYPE_F32}));
}

static void end(void)
{
    files_remove(folder);
    free(folder);
    free(model);
    free(in);
    free(kept);
}

TestSuite(beams_command, .init = begin, .fini = end);

#define RUN(...) PROGRAM("-m", model, "-p", "a b", "--no-echo", __VA_ARGS__)

static double number(const json_t *json, const char *name)
{
    return json_number_value(json_object_get(json, name));
}

static const char *text(const json_t *json, const char *name)
{
    return json_string_value(json_object_get(json, name));
}

Test(beams_command, all_texts_as_json)
{
    json_t *json = program_json(RUN("--beams", "4", "-n", "6", "--ignore-eos", "--json"));
    const json_t *beams = json_object_get(json, "beams");
    cr_assert_eq(json_array_size(beams), 4);
    for (size_t i = 0; i < 4; i++) {
        const json_t *beam = json_array_get(beams, i);
        cr_assert_eq(json_array_size(json_object_get(beam, "tokens")), 6);
        cr_expect_str_eq(text(beam, "end"), "limit");
        cr_expect_lt(fabs(number(beam, "logprob") / 6 - number(beam, "score")), 1e-12);
        if (i > 0) cr_expect_leq(number(beam, "score"), number(json_array_get(beams, i - 1), "score"));
    }
    cr_expect_str_eq(text(json, "text"), text(json_array_get(beams, 0), "text"));
    cr_expect_eq(number(json, "text_tokens"), 6);
    json_decref(json);
}

/* JSON has U+FFFD for what is not UTF-8. */
static const char *ascii_end(const char *text)
{
    const char *end = text + strlen(text);
    while (end > text && (end[-1] & 0x80) == 0) end--;
    return end;
}

Test(beams_command, the_best_text_is_printed)
{
    json_t *json = program_json(RUN("--beams", "3", "-n", "9", "--length-penalty", "-1", "--json"));
    struct program_result result = RUN("--beams", "3", "-n", "9", "--length-penalty", "-1");
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_expect_str_eq(ascii_end(result.out), ascii_end(text(json, "text")));
    const json_t *beam;
    size_t i;
    json_array_foreach(json_object_get(json, "beams"), i, beam)
    {
        char row[64];
        snprintf(row, sizeof row, "\n   %zu  %.4f  ", i + 1, number(beam, "score"));
        cr_expect(strstr(result.err, row), "no '%s' in: %s", row, result.err);
    }
    cr_expect_eq(i, 3);
    cr_expect_null(json_object_get(json, "seed"));
    cr_expect_not(strstr(result.err, "seed"), "%s", result.err);
    program_free(&result);
    json_decref(json);
}

/* One beam is the greedy text. */
Test(beams_command, one_is_none)
{
    struct program_result one = RUN("--beams", "1", "-n", "9", "--temp", "0");
    struct program_result none = RUN("-n", "9", "--temp", "0");
    cr_assert_eq(one.status, 0, "%s", one.err);
    cr_expect_str_eq(one.out, none.out);
    program_free(&one);
    program_free(&none);
    none = RUN("-n", "0", "--beams", "4");
    cr_expect_eq(none.status, 0, "%s", none.err);
    cr_expect_str_empty(none.out);
    program_free(&none);
}

Test(beams_command, with_a_prompt_cache)
{
    json_t *json = program_json(RUN("--beams", "4", "-n", "6", "--json"));
    for (int i = 0; i < 2; i++) {
        json_t *again = program_json(RUN("--beams", "4", "-n", "6", "--json", "--prompt-cache", kept));
        cr_assert(json_equal(json_object_get(json, "beams"), json_object_get(again, "beams")));
        json_decref(again);
    }
    json_decref(json);
}

Test(beams_command, a_full_cache)
{
    struct program_result result =
        RUN("--beams", "4", "-n", "90", "--ignore-eos", "--cache-size", "128", "-c", "128");
    cr_assert_eq(result.status, 0);
    cr_expect(strstr(result.err, "the beams fill the cache of 128 positions; enlarge it with --cache-size"),
              "%s", result.err);
    program_free(&result);
    result = RUN("--beams", "8", "-n", "-1", "--ignore-eos", "-c", "20"); /* less than a block for each */
    cr_assert_eq(result.status, 0);
    cr_expect(strstr(result.err, "the context of 20 tokens is full; enlarge it with -c"), "%s", result.err);
    program_free(&result);
    result = RUN("--beams", "2", "-n", "-1", "--ignore-eos", "-c", "64");
    cr_assert_eq(result.status, 0);
    cr_expect(strstr(result.err, "the context of 64 tokens is full; enlarge it with -c"), "%s", result.err);
    program_free(&result);
}

Test(beams_command, mistakes)
{
    program_fails(RUN("--length-penalty", "2"), 2, "--length-penalty goes with --beams N");
    program_fails(RUN("--early-stopping", "true"), 2, "--early-stopping goes with --beams N");
    program_fails(RUN("--beams", "4", "--early-stopping", "soon"), 2,
                  "'soon' is not one of true|false|never");
    program_fails(RUN("--beams", "4", "--temp", "0.5"), 2,
                  "--beams and a temperature above 0 cannot be combined");
    program_fails(RUN("--beams", "4", "--stop", "x"), 2, "--beams and --stop cannot be combined");
    program_fails(RUN("--beams", "4", "--logprobs", "2"), 2, "--beams and --logprobs cannot be combined");
    program_fails(RUN("--beams", "4", "--lookup"), 2, "--beams and --lookup cannot be combined");
    program_fails(RUN("--beams", "4", "--prompt-cache", kept, "--prompt-cache-all"), 2,
                  "--beams and --prompt-cache-all cannot be combined");
    program_fails(RUN("--beams", "0"), 2, "--beams: 0 is out of range (1 to 1024)");
    program_fails(RUN("--beams", "4", "--repeat-penalty", "1.5"), 2,
                  "--beams and penalties cannot be combined");
    program_fails(RUN("--beams", "4", "--mirostat", "2"), 2, "--beams and Mirostat cannot be combined");
    program_fails(RUN("--beams", "4", "--dry-multiplier", "0.8"), 2, "--beams and DRY cannot be combined");
    program_fails(RUN("--beams", "4", "--xtc-probability", "0.5"), 2, "--beams and XTC cannot be combined");
    program_fails(RUN("--beams", "4", "--ban", "x"), 2, "--beams and banned texts cannot be combined");
}

/* ---- In a batch ---- */

/* Result number `index` of a batch; drop it. */
static json_t *line_of(const struct program_result *result, size_t index)
{
    const char *line = result->out;
    while (index-- > 0) line = strchr(line, '\n') + 1;
    json_t *json = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL);
    cr_assert_not_null(json, "%s", line);
    return json;
}

Test(beams_command, in_lines_of_a_batch)
{
    files_write_text(in,
                     "{\"prompt\": \"a b\", \"beams\": 4, \"max_tokens\": 6}\n"
                     "{\"prompt\": \"a b\", \"max_tokens\": 6, \"temperature\": 0}\n"
                     "{\"prompt\": \"a b\", \"num_beams\": 3, \"length_penalty\": -1, \"early_stopping\": "
                     "\"never\", \"max_tokens\": 9}\n");
    struct program_result result = PROGRAM("batch", "-m", model, in, "--ids");
    cr_assert_eq(result.status, 0, "%s", result.err);
    json_t *first = line_of(&result, 0), *second = line_of(&result, 1), *third = line_of(&result, 2);
    json_t *run = program_json(RUN("--beams", "4", "-n", "6", "--json"));
    const json_t *theirs = json_object_get(run, "beams"), *ours = json_object_get(first, "beams");
    cr_assert_eq(json_array_size(ours), 4);
    for (size_t i = 0; i < 4; i++) {
        const json_t *a = json_array_get(theirs, i), *b = json_array_get(ours, i);
        cr_expect(json_equal(json_object_get(a, "tokens"), json_object_get(b, "tokens")));
        cr_expect_str_eq(text(a, "text"), text(b, "text"));
        cr_expect_lt(fabs(number(a, "score") - number(b, "score")), 1e-5);
    }
    cr_expect_str_eq(text(first, "text"), text(json_array_get(ours, 0), "text"));
    cr_expect_null(json_object_get(second, "beams"));
    json_decref(run);
    run = program_json(
        RUN("--beams", "3", "-n", "9", "--length-penalty", "-1", "--early-stopping", "never", "--json"));
    cr_expect_str_eq(text(run, "text"), text(third, "text"));
    json_decref(run);
    json_decref(first);
    json_decref(second);
    json_decref(third);
    program_free(&result);
}

Test(beams_command, wrong_lines_of_a_batch)
{
    files_write_text(in, "{\"prompt\": \"a\", \"beams\": 9, \"max_tokens\": 2}\n"
                         "{\"prompt\": \"a\", \"beams\": 2, \"temperature\": 1}\n"
                         "{\"prompt\": \"a\", \"beams\": 2, \"early_stopping\": 1}\n"
                         "{\"prompt\": \"a\", \"beams\": 2, \"length_penalty\": 40}\n"
                         "{\"prompt\": \"a\", \"beams\": -2}\n"
                         "{\"prompt\": \"a\", \"beams\": 0}\n"
                         "{\"prompt\": \"a\", \"num_beams\": 2000}\n"
                         "{\"prompt\": \"a\", \"length_penalty\": 2}\n"
                         "{\"prompt\": \"a\", \"early_stopping\": true, \"beams\": 1}\n");
    struct program_result result = PROGRAM("batch", "-m", model, in);
    static const char *const messages[] = {"9 beams need --parallel 9 or more",
                                           "beams cannot be combined with a temperature above 0",
                                           "\"early_stopping\" should be true, false or \"never\"",
                                           "\"length_penalty\" should be a number from -32 to 32",
                                           "\"beams\" should be a whole number from 1 to 1024",
                                           "\"beams\" should be a whole number from 1 to 1024",
                                           "\"num_beams\" should be a whole number from 1 to 1024",
                                           "\"length_penalty\" goes with \"beams\" of 2 or more",
                                           "\"early_stopping\" goes with \"beams\" of 2 or more"};
    cr_assert_eq(result.status, 1);
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        json_t *json = line_of(&result, i);
        cr_expect(text(json, "error") && strstr(text(json, "error"), messages[i]), "%s", text(json, "error"));
        json_decref(json);
    }
    program_free(&result);
}

/* --beams is for all lines that have no number of their own, and a part of what results depend on. */
Test(beams_command, of_a_whole_batch)
{
    files_write_text(in, "{\"prompt\": \"a b\", \"max_tokens\": 4}\n{\"prompt\": \"a b\", \"beams\": 1}\n");
    struct program_result result = PROGRAM("batch", "-m", model, in, "-np", "2", "--beams", "3", "-o", kept);
    cr_assert_eq(result.status, 0, "%s", result.err);
    program_free(&result);
    size_t size;
    char *written = files_read(kept, &size);
    json_t *json = json_loadb(written, size, JSON_DISABLE_EOF_CHECK, NULL);
    cr_assert_eq(json_array_size(json_object_get(json, "beams")), 3);
    json_decref(json);
    free(written);
    result = PROGRAM("batch", "-m", model, in, "-np", "2", "--beams", "2", "-o", kept);
    cr_assert_eq(result.status, 2);
    cr_expect(strstr(result.err, "with this model and these options"), "%s", result.err);
    program_free(&result);
}
