/* fuzz-batch.c: fuzzing target: a line of `engine batch`'s input. It is refused with a reason
 * of one line, or what comes of it is in range; and a stop text that is cut into pieces stops the text all
 * the same. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands/batch.h"
#include "queue/internal.h"
#include "sample/sampler.h"
#include "tokenizers.h"

static void must(bool good)
{
    if (!good) abort();
}

static void check_line(const struct batch_line *line)
{
    struct sampler_settings known;
    must(!line->prompt != !line->tokens);
    must(!line->tokens || line->n_tokens > 0);
    for (size_t i = 0; i < line->n_tokens; i++) must(line->tokens[i] >= 0);
    must(isfinite(line->options.sampler.temperature) && isfinite(line->options.sampler.penalty_repeat));
    /* refuses what is out of range, and crashes at nothing */
    if (sampler_settings_read(&line->options.sampler, &known) == ENGINE_OK) sampler_settings_free(&known);
}

/* Puts the prompt through the stop texts, byte by byte and as one. */
static void check_stops(const struct batch_line *line)
{
    struct stop_texts whole, bytes;
    struct engine_string text;
    int32_t came, came_so = -1;
    size_t n_whole, n_bytes = 0;
    if (!line->prompt || line->prompt_size > 4096 ||
        stop_texts_create(&whole, line->options.stop, line->options.n_stop) != ENGINE_OK)
        return;
    must(stop_texts_create(&bytes, line->options.stop, line->options.n_stop) == ENGINE_OK);
    must(stop_texts_add(&whole, line->prompt, line->prompt_size, true, &text, &came) == ENGINE_OK);
    n_whole = text.length;
    for (size_t i = 0; i < line->prompt_size && came_so < 0; i++) {
        must(stop_texts_add(&bytes, line->prompt + i, 1, i + 1 == line->prompt_size, &text, &came_so) ==
             ENGINE_OK);
        must(memcmp(line->prompt + n_bytes, text.data, text.length) == 0);
        n_bytes += text.length;
    }
    must(n_whole == n_bytes && (came < 0) == (came_so < 0));
    stop_texts_destroy(&whole);
    stop_texts_destroy(&bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct batch_line line = {
        .options = {.max_tokens = 7, .sampler = {.struct_size = sizeof line.options.sampler}}};
    char error[256] = "";
    bool good = batch_line_read((const char *)data, size, &line, error);
    if (good) {
        check_line(&line);
        check_stops(&line);
    } else {
        must(error[0] && memchr(error, 0, sizeof error));
    }
    batch_line_free(&line);
    return 0;
}
