/* test-attention.c: `engine attention`, `engine logits --hidden` and `--lens` from outside, on the demo
 * model: the forms of the result, that they agree with each other, and how they fail. Whether the numbers are
 * right is for test-attention-families.c. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "families-fixture.h"
#include "files.h"
#include "program.h"

#define TEXT "What is <b>3</b> + 4 & why?\nDo you know?"
enum { LAYERS = 6, HEADS = 6 };

FILES_FOLDER_OF_TEST

TestSuite(attention, .init = begin, .fini = end);

static const char *in_folder(const char *name)
{
    return files_path(folder, name);
}

static json_t *parse(const struct program_result *result)
{
    json_error_t error;
    cr_assert_eq(result->status, 0, "%s", result->err);
    json_t *json = json_loads(result->out, 0, &error);
    cr_assert(json, "%s: %s", error.text, result->out);
    return json;
}

/* The array of a file, which must have this shape. */
static float *read_array(const char *path, const char *shape)
{
    size_t size;
    char *file = files_read(path, &size);
    cr_assert(strstr(file + 10, shape), "%s has the header %.100s", path, file + 10);
    size_t header = 10u + (unsigned char)file[8] + 256u * (unsigned char)file[9];
    memmove(file, file + header, size - header);
    return (float *)(void *)file;
}

static void succeeds(struct program_result result)
{
    cr_assert_eq(result.status, 0, "%s", result.err);
    program_free(&result);
}

Test(attention, the_weights_of_a_token_add_up_and_are_those_of_the_array)
{
    char shape[64];
    struct program_result result = PROGRAM("attention", "-m", DEMO_MODEL, "-p", TEXT, "--json", "--layer",
                                           "2", "--head", "all", "--token", "5");
    json_t *json = parse(&result);
    size_t n = json_array_size(json_object_get(json, "tokens"));
    json_t *heads = json_object_get(json, "attention");
    cr_assert_eq(json_array_size(heads), HEADS);
    cr_assert_eq(json_integer_value(json_object_get(json, "token")), 5);
    succeeds(PROGRAM("attention", "-m", DEMO_MODEL, "-p", TEXT, "-o", in_folder("x.npy")));
    snprintf(shape, sizeof shape, "(%d, %d, %zu, %zu)", LAYERS, HEADS, n, n);
    float *array = read_array(in_folder("x.npy"), shape);
    for (size_t head = 0; head < HEADS; head++) {
        json_t *keys = json_object_get(json_array_get(heads, head), "keys");
        double sum = 0, last = 2;
        for (size_t i = 0; i < json_array_size(keys); i++) {
            json_t *key = json_array_get(keys, i);
            size_t token = (size_t)json_integer_value(json_object_get(key, "token"));
            double weight = json_real_value(json_object_get(key, "weight"));
            cr_assert_leq(weight, last, "not sorted");
            cr_assert_leq(token, 5);
            cr_assert_eq((float)weight, array[((2 * HEADS + head) * n + 5) * n + token]);
            sum += weight, last = weight;
        }
        cr_assert_float_eq(sum, 1, 1e-5);
        for (size_t token = 6; token < n; token++)
            cr_assert_eq(array[((2 * HEADS + head) * n + 5) * n + token], 0, "a later token is seen");
    }
    free(array);
    json_decref(json);
    program_free(&result);
}

Test(attention, batches_change_nothing)
{
    size_t size, other_size;
    succeeds(PROGRAM("attention", "-m", DEMO_MODEL, "-p", TEXT, "-o", in_folder("x.npy")));
    succeeds(PROGRAM("attention", "-m", DEMO_MODEL, "-p", TEXT, "-o", in_folder("y.npy"), "-b", "3"));
    char *whole = files_read(in_folder("x.npy"), &size), *parts = files_read(in_folder("y.npy"), &other_size);
    cr_assert_eq(size, other_size);
    cr_assert_arr_eq(whole, parts, size);
    free(whole), free(parts);
}

Test(attention, mean_and_maximum_are_those_of_the_heads)
{
    succeeds(PROGRAM("attention", "-m", DEMO_MODEL, "--tokens", "1 700 800", "--layer", "3", "-o",
                     in_folder("x.npy")));
    succeeds(PROGRAM("attention", "-m", DEMO_MODEL, "--tokens", "1 700 800", "--layer", "3", "--head", "mean",
                     "-o", in_folder("mean.npy")));
    succeeds(PROGRAM("attention", "-m", DEMO_MODEL, "--tokens", "1 700 800", "--layer", "3", "--head", "max",
                     "-o", in_folder("max.npy")));
    float *all = read_array(in_folder("x.npy"), "(1, 6, 3, 3)");
    float *mean = read_array(in_folder("mean.npy"), "(1, 1, 3, 3)");
    float *max = read_array(in_folder("max.npy"), "(1, 1, 3, 3)");
    for (size_t i = 0; i < 9; i++) {
        float sum = 0, most = 0;
        for (size_t head = 0; head < HEADS; head++)
            sum += all[head * 9 + i], most = fmaxf(most, all[head * 9 + i]);
        cr_assert_float_eq(mean[i], sum / HEADS, 1e-6);
        cr_assert_eq(max[i], most);
    }
    free(all), free(mean), free(max);
}

Test(attention, the_table_names_tokens_by_number_and_text)
{
    struct program_result by_text = PROGRAM("attention", "-m", DEMO_MODEL, "-p", TEXT, "--token", "know");
    struct program_result last = PROGRAM("attention", "-m", DEMO_MODEL, "-p", TEXT);
    cr_assert_eq(by_text.status, 0, "%s", by_text.err);
    cr_assert(strstr(by_text.out, "know\", layer 5, mean of 6 heads\n"), "%s", by_text.out);
    cr_assert(strstr(by_text.out, "  ########################################  "), "%s", by_text.out);
    cr_assert(strstr(last.out, "\"?\", layer 5, mean of 6 heads\n"), "%s", last.out);
    program_free(&by_text), program_free(&last);
    struct program_result digit = PROGRAM("attention", "-m", DEMO_MODEL, "-p", TEXT, "--token-text", "4");
    cr_assert(strstr(digit.out, "4\", layer 5"), "%s", digit.out);
    program_free(&digit);
}

Test(attention, tokens_stay_text_in_the_page)
{
    size_t size;
    succeeds(
        PROGRAM("attention", "-m", DEMO_MODEL, "-p", "a</script><img src=x>&lt;", "-o", in_folder("x.html")));
    char *page = files_read(in_folder("x.html"), &size);
    cr_assert_not(strstr(page, "<img"));
    cr_assert(strstr(page, "\\u003c"));
    cr_assert_not(strstr(page, "@FACTS@"));
    cr_assert_not(strstr(page, "://"), "the page needs the network");
    free(page);
}

Test(attention, pictures_grow_with_the_choice)
{
    size_t one, all;
    succeeds(PROGRAM("attention", "-m", DEMO_MODEL, "-p", TEXT, "-o", in_folder("x.png")));
    succeeds(PROGRAM("attention", "-m", DEMO_MODEL, "-p", TEXT, "--layer", "all", "--head", "all", "-o",
                     in_folder("y.png")));
    unsigned char *x = (unsigned char *)files_read(in_folder("x.png"), &one);
    unsigned char *y = (unsigned char *)files_read(in_folder("y.png"), &all);
    cr_assert_arr_eq(x, "\x89PNG\r\n\x1a\n", 8);
    for (int side = 16; side <= 20; side += 4) { /* width and height, the highest byte first */
        unsigned small = (unsigned)x[side + 2] << 8 | x[side + 3],
                 large = (unsigned)y[side + 2] << 8 | y[side + 3];
        cr_assert_eq(large, (unsigned)(side == 16 ? HEADS : LAYERS) * small);
    }
    free(x), free(y);
}

Test(attention, hidden_states_and_the_lens_end_at_the_logits)
{
    struct program_result result =
        PROGRAM("logits", "-m", DEMO_MODEL, "--text", TEXT, "--lens", "--json", "--top", "2");
    json_t *lens = parse(&result), *layers = json_object_get(lens, "layers");
    cr_assert_eq(json_array_size(layers), LAYERS + 1);
    size_t token = (size_t)json_integer_value(json_object_get(lens, "token")), n = token + 1, best = 0;
    succeeds(PROGRAM("logits", "-m", DEMO_MODEL, "--text", TEXT, "-o", in_folder("x.npy"), "--hidden",
                     in_folder("hidden.npy"), "-b", "4"));
    char shape[64];
    snprintf(shape, sizeof shape, "(%d, %zu, 192)", LAYERS + 1, n);
    float *hidden = read_array(in_folder("hidden.npy"), shape);
    snprintf(shape, sizeof shape, "(%zu, 2560)", n);
    float *logits = read_array(in_folder("x.npy"), shape);
    for (size_t i = 0; i < 2560; i++)
        if (logits[token * 2560 + i] > logits[token * 2560 + best]) best = i;
    json_t *last = json_array_get(json_object_get(json_array_get(layers, LAYERS), "top"), 0);
    cr_assert_eq(json_integer_value(json_object_get(last, "id")), (json_int_t)best);
    for (size_t layer = 0; layer <= LAYERS; layer++) {
        json_t *top = json_object_get(json_array_get(layers, layer), "top");
        cr_assert_eq(json_array_size(top), 2);
        double first = json_real_value(json_object_get(json_array_get(top, 0), "probability"));
        double second = json_real_value(json_object_get(json_array_get(top, 1), "probability"));
        cr_assert(first >= second && second >= 0 && first + second <= 1.000001);
        for (size_t i = 0; i < n * 192; i++) cr_assert(isfinite(hidden[layer * n * 192 + i]));
    }
    free(hidden), free(logits);
    json_decref(lens);
    program_free(&result);
}

Test(attention, mistakes_are_told_in_a_line)
{
    const char *out = in_folder("x.npy");
    program_fails(PROGRAM("attention", "-m", DEMO_MODEL, "-p", TEXT, "--layer", "6"), 0,
                  "no layer 6; the model has 6");
    program_fails(PROGRAM("attention", "-m", DEMO_MODEL, "-p", TEXT, "--layer", "2000000000"), 0,
                  "no layer 2000000000");
    program_fails(PROGRAM("attention", "-m", DEMO_MODEL, "-p", TEXT, "--head", "6"), 0,
                  "no head 6; a layer has 6");
    program_fails(PROGRAM("attention", "-m", DEMO_MODEL, "-p", TEXT, "--head", "median"), 0, "median");
    program_fails(PROGRAM("attention", "-m", DEMO_MODEL, "-p", TEXT, "--token", "sentiment"), 0,
                  "no such text");
    program_fails(PROGRAM("attention", "-m", DEMO_MODEL, "-p", TEXT, "--token", ""), 0, "no such text");
    program_fails(PROGRAM("attention", "-m", DEMO_MODEL, "-p", TEXT, "--token", "999"), 0, "--token 999");
    program_fails(PROGRAM("attention", "-m", DEMO_MODEL, "-p", TEXT, "--token-text", "999"), 0,
                  "no such text");
    program_fails(PROGRAM("attention", "-m", DEMO_MODEL, "-p", TEXT, "--token", "1", "--token-text", "a"), 0,
                  "either");
    program_fails(PROGRAM("logits", "-m", DEMO_MODEL, "--text", TEXT, "--top", "1", "--token", "1"), 0,
                  "--lens");
    program_fails(PROGRAM("attention", "-m", DEMO_MODEL, "-p", TEXT, "-o", in_folder("x.jpg")), 0,
                  ".npy, .png or .html");
    program_fails(PROGRAM("attention", "-m", DEMO_MODEL, "-p", TEXT, "-o", out, "--json"), 0, "-o or --json");
    program_fails(PROGRAM("attention", "-m", DEMO_MODEL, "-p", TEXT, "--tokens", "1"), 0, "one way only");
    program_fails(PROGRAM("attention", "-m", DEMO_MODEL), 0, "no text: name one with -p");
    program_fails(PROGRAM("attention", "-m", DEMO_MODEL, "--tokens", "1 99999"), 0, "99999");
    program_fails(PROGRAM("logits", "-m", DEMO_MODEL, "--text", TEXT), 0, "no output file");
    program_fails(PROGRAM("logits", "-m", DEMO_MODEL, "--text", TEXT, "--lens", "--token", "sentiment"), 0,
                  "no such text");
    program_fails(PROGRAM("logits", "-m", DEMO_MODEL, "--text", TEXT, "--lens", "-o", out), 0, "--lens");
    program_fails(PROGRAM("logits", "-m", DEMO_MODEL, "--text", TEXT, "--hidden", out, "-o", out), 0,
                  "same file");
    program_fails(
        PROGRAM("logits", "-m", DEMO_MODEL, "--text", TEXT, "--hidden", in_folder("./x.npy"), "-o", out), 0,
        "same file");
    cr_assert_neq(access(out, F_OK), 0, "a file was left");
    /* What an option asks for in vain is a mistake on the command line. */
    struct program_result layer = PROGRAM("attention", "-m", DEMO_MODEL, "-p", TEXT, "--layer", "6");
    struct program_result head = PROGRAM("attention", "-m", DEMO_MODEL, "-p", TEXT, "--head", "6");
    cr_expect_eq(layer.status, 2);
    cr_expect_eq(head.status, 2);
    program_free(&layer);
    program_free(&head);
}

/* A model in the repository, its first 16 tokens as --tokens takes them, and what transformers finds. */
static float *recorded(const char *group, const char *name, char tokens[16 * 8], const char *shape)
{
    char path[512];
    snprintf(path, sizeof path, TEST_SOURCE_DIR "/data/%s/%s.tokens.npy", group, name);
    float *read = read_array(path, "(40,)");
    const int32_t *ids = (const int32_t *)(const void *)read;
    int used = 0;
    for (int i = 0; i < 16; i++) used += snprintf(tokens + used, (size_t)(16 * 8 - used), "%d ", ids[i]);
    free(read);
    snprintf(path, sizeof path, TEST_SOURCE_DIR "/data/attention/%s.attention.npy", name);
    return read_array(path, shape);
}

Test(attention, tokens_of_an_encoder_see_later_ones)
{
    static const char model[] = TEST_SOURCE_DIR "/data/encoders/gemma-embedding";
    char tokens[16 * 8];
    size_t size;
    float *expected = recorded("encoders", "gemma-embedding", tokens, "(3, 2, 16, 16)");
    succeeds(PROGRAM("attention", "-m", model, "--tokens", tokens, "--cache-type", "f32", "-o",
                     in_folder("x.npy")));
    float *found = read_array(in_folder("x.npy"), "(3, 2, 16, 16)");
    cr_assert_leq(families_error(found, expected, (size_t)(3 * 2 * 16 * 16)), 1e-5);

    struct program_result table = PROGRAM("attention", "-m", model, "--tokens", tokens, "--cache-type", "f32",
                                          "--layer", "1", "--head", "0", "--token", "2", "--json");
    json_t *json = parse(&table);
    json_t *keys = json_object_get(json_array_get(json_object_get(json, "attention"), 0), "keys");
    cr_assert_gt(json_array_size(keys), 3, "only earlier tokens");
    for (size_t i = 0; i < json_array_size(keys); i++) {
        json_t *key = json_array_get(keys, i);
        float weight = found[(2 * 16 + 2) * 16 + json_integer_value(json_object_get(key, "token"))];
        cr_assert_eq((float)json_real_value(json_object_get(key, "weight")), weight);
    }
    succeeds(PROGRAM("attention", "-m", model, "--tokens", tokens, "-o", in_folder("x.html")));
    succeeds(PROGRAM("attention", "-m", model, "--tokens", tokens, "-o", in_folder("x.png")));
    char *page = files_read(in_folder("x.html"), &size);
    const char *weights = strstr(page, "type=\"text/plain\">");
    cr_assert(weights && strstr(page, "\"both\":true"));
    cr_assert_eq(strcspn(weights + strlen("type=\"text/plain\">"), "<"),
                 (size_t)(3 * 2 * 16 * 16 * 2 * 4 / 3));
    json_decref(json), program_free(&table);
    free(page), free(found), free(expected);
}

Test(attention, layers_without_attention_are_left_out)
{
    static const char model[] = TEST_SOURCE_DIR "/data/recurrent/granitehybrid";
    char tokens[16 * 8];
    float *expected = recorded("recurrent", "granitehybrid", tokens, "(1, 3, 16, 16)");
    succeeds(PROGRAM("attention", "-m", model, "--tokens", tokens, "--cache-type", "f32", "-o",
                     in_folder("x.npy")));
    float *found = read_array(in_folder("x.npy"), "(1, 3, 16, 16)");
    cr_assert_leq(families_error(found, expected, (size_t)(3 * 16 * 16)), 1e-5);
    struct program_result table = PROGRAM("attention", "-m", model, "--tokens", tokens);
    cr_assert(strstr(table.out, ", layer 1, mean of 3 heads\n"), "%s", table.out);
    program_fails(
        PROGRAM("attention", "-m", model, "--tokens", tokens, "--layer", "0", "-o", in_folder("x.npy")), 0,
        "layer 0 has no attention to watch");
    program_free(&table), free(found), free(expected);
}

Test(attention, a_family_without_attention_is_refused)
{
    static const char mamba[] = TEST_SHARED_DIR "/families/gguf/mamba.gguf";
    if (access(mamba, R_OK) != 0) cr_skip_test("no ../shared here");
    program_fails(PROGRAM("attention", "-m", mamba, "--tokens", "1 2"), 0, "mamba models are recurrent");
}
