/* test-family-samples.c: logits of families, and of forms of their files, of which ../shared/families has no
 * model, against numbers of transformers (tests/tools/reference-families). */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine.h"
#include "family-samples.h"
#include "files.h"

static char *folder;
static const char *config_file;

static void setup(void)
{
    folder = files_folder();
    config_file = files_path(folder, "engine.conf");
    files_write_text(config_file, "");
}

static void finish(void)
{
    files_remove(folder);
    free(folder);
}

TestSuite(family_samples, .init = setup, .fini = finish);

/* The logits of the last of the sample's tokens, `n_batch` of them at a time. */
static bool run(const char *path, uint32_t n_batch, float logits[SAMPLE_VOCAB])
{
    const char *const plugin_dirs[] = {TEST_PLUGIN_DIR, NULL};
    struct engine_options options = {
        .struct_size = sizeof options, .plugin_dirs = plugin_dirs, .config_file = config_file};
    struct engine_context_options wish = {.struct_size = sizeof wish,
                                          .n_context = SAMPLE_TOKENS,
                                          .n_batch = n_batch,
                                          .n_threads = 2,
                                          .cache_type = "f32",
                                          .backends = "cpu"};
    int32_t tokens[SAMPLE_TOKENS];
    family_sample_tokens(tokens);
    struct engine_batch batch = {.struct_size = sizeof batch, .n_tokens = SAMPLE_TOKENS, .tokens = tokens};
    struct engine *engine = NULL;
    struct engine_model *model = NULL;
    struct engine_context *context = NULL;
    int status = engine_open(&options, &engine);
    if (!status) status = engine_model_open(engine, path, NULL, &model);
    if (!status) status = engine_context_create(model, &wish, &context);
    if (!status) status = engine_decode(context, &batch, logits);
    cr_expect_eq(status, ENGINE_OK, "%s: %s", path, engine_error_message());
    engine_context_destroy(context);
    engine_model_close(model);
    engine_close(engine);
    return status == ENGINE_OK;
}

Test(family_samples, logits_are_those_of_transformers)
{
    const char *path = files_path(folder, "sample.gguf");
    for (size_t i = 0; i < n_family_samples; i++) {
        const struct family_sample *sample = &family_samples[i];
        float logits[SAMPLE_VOCAB], single[SAMPLE_VOCAB];
        cr_assert(family_sample_write(sample, path));
        if (!run(path, SAMPLE_TOKENS, logits) || !run(path, 1, single)) continue;
        double difference = 0, norm = 0;
        for (int j = 0; j < SAMPLE_ANSWERS; j++) {
            double answer = (double)sample->answers[j], logit = (double)logits[j * SAMPLE_STRIDE];
            difference += (logit - answer) * (logit - answer);
            norm += answer * answer;
        }
        cr_expect(sqrt(difference) <= 1e-5 * sqrt(norm), "%s: relative error %.2e", sample->name,
                  sqrt(difference / norm));
        cr_expect_arr_eq(single, logits, sizeof logits, "%s: one token at a time", sample->name);
    }
}
