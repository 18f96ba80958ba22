/* test-hf-added.c: which of tokenizer.json's added tokens counts where several could. The ids are those of
 * version 0.22 of Hugging Face's library; 0.23 takes any of several tokens that the normalizer makes equal,
 * another one each time. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "harness.h"
#include "hf-directory.h"

static const struct engine_tokenizer_api *api;

static void load(void)
{
    api = load_tokenizers("hf");
}

TestSuite(added_tokens, .init = load, .timeout = 60);

/* The ids of a text with these added tokens, and letters in lower case. */
static void expect_added(const char *tokens, const char *text, const char *ids)
{
    char json[1024];
    snprintf(json, sizeof json,
             "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"AB\":2,\"Ab\":3,\"aB\":4,\" \":5,"
             "\"x\":6},\"merges\":[]},\"normalizer\":{\"type\":\"Lowercase\"},\"added_tokens\":[%s]}",
             tokens);
    const char *directory = hf_test_folder();
    hf_test_write(directory, "tokenizer.json", json);
    struct opened opened = hf_test_open(api, directory);
    expect_ids(api, opened.tokenizer, text, ENGINE_ENCODE_SPECIAL, ids);
    hf_test_close(api, &opened);
    hf_test_remove(directory);
}

#define TOKEN(id, content, flags)                                                                            \
    "{\"id\":" #id ",\"content\":\"" content "\",\"normalized\":true,\"single_word\":false,"                 \
    "\"special\":" flags "}"
#define PLAIN   "false,\"lstrip\":false,\"rstrip\":false"
#define LEFT    "false,\"lstrip\":true,\"rstrip\":false"
#define RIGHT   "false,\"lstrip\":false,\"rstrip\":true"
#define SPECIAL "true,\"lstrip\":false,\"rstrip\":false"

Test(added_tokens, that_the_normalizer_makes_equal)
{
    expect_added(TOKEN(2, "AB", PLAIN) "," TOKEN(3, "Ab", PLAIN) "," TOKEN(4, "aB", PLAIN), "ab", "2");
    expect_added(TOKEN(4, "aB", PLAIN) "," TOKEN(3, "Ab", PLAIN) "," TOKEN(2, "AB", PLAIN), "ab", "4");
    expect_added(TOKEN(2, "AB", PLAIN) "," TOKEN(3, "Ab", PLAIN) "," TOKEN(4, "aB", SPECIAL), "ab", "4");
    expect_added(TOKEN(2, "AB", PLAIN) "," TOKEN(3, "Ab", SPECIAL) "," TOKEN(4, "aB", SPECIAL), "ab", "3");
    expect_added(TOKEN(2, "AB", SPECIAL) "," TOKEN(3, "Ab", SPECIAL) "," TOKEN(4, "aB", PLAIN), "ab", "2");
}

/* The flags of a token that is there twice are those of its last place. */
Test(added_tokens, twice)
{
    expect_added(TOKEN(2, "AB", PLAIN) "," TOKEN(2, "AB", RIGHT), "ab b", "2 1");
    expect_added(TOKEN(2, "AB", RIGHT) "," TOKEN(2, "AB", PLAIN), "ab b", "2 5 1");
}

/* Tokens are found in white space that others have stripped, unless they strip it too. */
Test(added_tokens, in_stripped_white_space)
{
    expect_added(TOKEN(5, " ", PLAIN) "," TOKEN(6, "x", RIGHT), "x b", "6 5 1");
    expect_added(TOKEN(5, " ", PLAIN) "," TOKEN(6, "x", RIGHT), "x  b", "6 5 5 1");
    expect_added(TOKEN(5, " ", LEFT) "," TOKEN(6, "x", RIGHT), "x b", "6 1");
    expect_added(TOKEN(5, " ", LEFT) "," TOKEN(6, "x", PLAIN), "x b", "6 5 1");
}
