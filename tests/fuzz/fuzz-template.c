/* fuzz-template.c: a template, and optionally after a NUL the JSON of its messages. It renders, or is refused
 * in one line; what it renders is UTF-8 with a mark for each byte. What it writes for a call has some
 * format. */
#include <string.h>

#include "base/error.h"
#include "reply/recognise.h"
#include "template/template.h"
#include "template/value.h"
#include "tokenizers.h"

static const char messages[] = "[{\"role\": \"system\", \"content\": \" Be brief.\\n\"}, {\"role\": "
                               "\"user\", \"content\": \"Hi <|im_end|> \\u00e9\"},"
                               "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"function\": "
                               "{\"name\": \"f\", \"arguments\": {\"x\": 1.5}}}]},"
                               "{\"role\": \"tool\", \"content\": \"ok\"}]";

static void need(int condition)
{
    if (!condition) fuzz_fail("not a line, or not UTF-8");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *split = size ? memchr(text, '\0', size) : NULL;
    size_t length = split ? (size_t)(split - text) : size;
    struct engine_string json = {messages, sizeof messages - 1};
    if (split) json = (struct engine_string){split + 1, size - length - 1};
    const struct template_variable variables[] = {
        {.name = "bos_token", .json = {"<s>", 3}, .what = "vocabulary", .trusted = true},
        {.name = "messages", .json = json, .what = "messages", .is = TEMPLATE_OBJECTS, .word_key = "role"},
        {.name = "add_generation_prompt", .json = {"true", 4}, .what = "prompt"},
    };
    struct template *template = NULL;
    struct template_output *output = NULL;
    int status = template_create("fuzz", text, length, &template);
    if (!status) status = template_render(template, variables, 3, 1753500000, &output);
    if (status) {
        need(error_message()[0] && !strchr(error_message(), '\n'));
    } else {
        struct engine_string rendered = template_output_text(output);
        const unsigned char *marks = template_output_marks(output);
        need(utf8_check(rendered.data, rendered.length) == rendered.length);
        for (size_t i = 0; i < rendered.length; i++) need(marks[i] <= 1);
    }
    if (template) need(reply_recognise(template).format >= 1);
    template_output_free(output);
    template_destroy(template);
    return 0;
}
