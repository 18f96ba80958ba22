/* test-demo-model.c: the model that comes with the engine does what its card (models/demo/README.md) says: it
 * answers questions that it was not trained on, wherever its layers are, and its stories differ and come to
 * an end. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "demo-questions.h"
#include "files.h"
#include "sample.h"

#define MODEL     TEST_SOURCE_DIR "/../models/demo/demo.gguf"
#define QUESTIONS TEST_SOURCE_DIR "/data/demo-questions.tsv"
#define WORDS     TEST_SOURCE_DIR "/data/demo-words.txt"
#define N_STORIES 50

static void skip_without_model(void)
{
    if (access(MODEL, R_OK) != 0) cr_skip_test("no models/demo/demo.gguf here");
}

TestSuite(demo_model, .init = skip_without_model);

/* ---- Questions ----------------------------------------------------------------------------------------- */

/* Asks `count` questions, from all over the file, which is sorted by skill; nine in ten must be answered
 * right. */
static void expect_answers(const char *backend, size_t count)
{
    struct demo_model demo;
    struct demo_questions questions;
    size_t right = 0;
    char wrong[4096] = "";
    if (!demo_model_open(&demo, MODEL, TEST_PLUGIN_DIR, backend))
        cr_skip_test("no device of %s here", backend);
    demo_questions_read(QUESTIONS, &questions);
    cr_assert_geq(questions.count, count);
    for (size_t i = 0; i < count; i++) {
        const struct demo_question *question = &questions.items[i * questions.count / count];
        char *said;
        right += demo_model_answers(&demo, question, &said);
        size_t used = strlen(wrong);
        if (said)
            snprintf(wrong + used, sizeof wrong - used, "\n%s: '%s', not '%s'", question->skill, said,
                     question->answer);
        free(said);
    }
    cr_assert_geq(10 * right, 9 * count, "%zu of %zu right on %s:%s", right, count, backend, wrong);
    demo_questions_free(&questions);
    demo_model_close(&demo);
}

Test(demo_model, answers_on_the_cpu)
{
    expect_answers("cpu", all_unless(SANITIZED, 100, 20));
}

Test(demo_model, answers_with_half_of_the_layers_on_vulkan)
{
    expect_answers("vulkan", all_unless(SANITIZED, 20, 5));
}

Test(demo_model, answers_with_half_of_the_layers_on_opencl)
{
    expect_answers("opencl", all_unless(SANITIZED, 20, 5));
}

/* ---- Stories ------------------------------------------------------------------------------------------- */

/* Whether all words are among the grammar's, which a file has, one on a line; the first that isn't in
 * `unknown`. */
static bool words_are_known(const char *story, const char *words, char *unknown, size_t size)
{
    for (const char *word = story; *word;) {
        size_t length = 0;
        while (isalpha((unsigned char)word[length])) length++;
        if (length == 0) {
            word++;
            continue;
        }
        snprintf(unknown, size, "\n%.*s\n", (int)length, word);
        if (!strstr(words, unknown)) return false;
        word += length;
    }
    return true;
}

static size_t count_sentences(const char *story)
{
    size_t count = 0;
    for (const char *c = story; *c; c++)
        count += strchr(".!?", *c) && (c[1] == ' ' || c[1] == '"' || c[1] == '\0');
    return count;
}

static void expect_story(const char *story, bool ended, const char *words)
{
    char unknown[64];
    size_t length = strlen(story);
    cr_expect(ended, "without an end: %s", story);
    cr_assert_gt(length, 100, "%s", story);
    cr_expect(strchr(".!?\"", story[length - 1]), "the last sentence doesn't end: %s", story);
    cr_expect_geq(count_sentences(story), 5, "%s", story);
    cr_expect(words_are_known(story, words, unknown, sizeof unknown), "not a word:%s%s", unknown, story);
}

Test(demo_model, stories_differ_and_end)
{
    struct demo_model demo;
    const size_t n_stories = all_unless(SANITIZED, N_STORIES, 6);
    size_t size;
    char *words = files_read(WORDS, &size), *stories[N_STORIES];
    cr_assert(demo_model_open(&demo, MODEL, TEST_PLUGIN_DIR, "cpu"));
    for (size_t i = 0; i < n_stories; i++) {
        const struct engine_sampler_options sampling = {/* those of `engine run` */
                                                        .struct_size = sizeof sampling,
                                                        .top_k = 40,
                                                        .top_p = 0.95f,
                                                        .min_p = 0.05f,
                                                        .temperature = 0.8f,
                                                        .seed = 1 + i};
        bool ended;
        stories[i] = demo_model_write(&demo, "", 400, &sampling, &ended);
        expect_story(stories[i], ended, words);
        for (size_t j = 0; j < i; j++) cr_expect_str_neq(stories[i], stories[j]);
    }
    for (size_t i = 0; i < n_stories; i++) free(stories[i]);
    free(words);
    demo_model_close(&demo);
}
