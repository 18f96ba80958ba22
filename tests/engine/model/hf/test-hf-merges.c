/* test-hf-merges.c: merges and words that are taken out of a tokenizer.json's text, and those that stay for
 * Jansson. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "model/hf/tokenizer-parts.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void expect_text(struct engine_string text, const json_t *json, size_t i)
{
    cr_assert_eq(text.length, json_string_length(json), "merge %zu", i);
    cr_assert_eq(memcmp(text.data, json_string_value(json), text.length), 0, "merge %zu", i);
}

Test(hf_merges, pairs_are_those_of_the_json)
{
    static const char text[] = "{\"a\": [{\"merges\": [1, \"}\\\"\"]}, null], \"model\" :\n{\"vocab\": "
                               "{\"]\": 0, \"\\\\\": 1}, \"merges\" : "
                               "[[\"a\", \"b\"] ,[\"\\\"\",\"\\\\\"],\n [\"\xc4\xa0t\", \"\\u0120h\"], "
                               "[\"\\/\", \"\\u007f\\u07ff\\uffe5\"], "
                               "[\"\", \" \"]], \"type\": \"BPE\"}, \"z\": 1.5e3}";
    struct hf_merges merges;
    size_t rest;
    char *without = hf_merges_take(text, sizeof text - 1, &rest, &merges);
    json_t *whole = json_loads(text, 0, NULL), *left = without ? json_loadb(without, rest, 0, NULL) : NULL;
    cr_assert(whole && left && merges.taken);
    json_t *pairs = json_incref(json_object_get(json_object_get(whole, "model"), "merges"));
    cr_assert_eq(merges.n, json_array_size(pairs));
    for (size_t i = 0; i < merges.n; i++)
        for (size_t side = 0; side < 2; side++)
            expect_text(merges.pairs[i][side], json_array_get(json_array_get(pairs, i), side), i);
    json_object_set_new(json_object_get(whole, "model"), "merges", json_array());
    cr_assert(json_equal(whole, left), "%.*s", (int)rest, without);
    json_decref(whole), json_decref(left), json_decref(pairs);
    free(without);
    hf_merges_free(&merges);
}

Test(hf_merges, words_in_one_string)
{
    static const char text[] = "{\"model\":{\"merges\":[\"a b\",\"\\u0120\\u0074 he\"]}}";
    struct hf_merges merges;
    size_t rest;
    char *without = hf_merges_take(text, sizeof text - 1, &rest, &merges);
    cr_assert(without && merges.n == 2);
    cr_assert_eq(rest, strlen("{\"model\":{\"merges\":[]}}"));
    cr_assert_eq(memcmp(without, "{\"model\":{\"merges\":[]}}", rest), 0);
    cr_assert_eq(merges.pairs[1][0].length, 3);
    cr_assert_eq(memcmp(merges.pairs[1][0].data, "\xc4\xa0t", 3), 0);
    cr_assert_eq(memcmp(merges.pairs[1][1].data, "he", 2), 0);
    free(without);
    hf_merges_free(&merges);
}

/* Not plainly merges, or not JSON; and any of them, cut anywhere. */
Test(hf_merges, others_stay)
{
    static const char *const texts[] = {
        "[]",
        "{\"merges\":[]}",
        "{\"model\":{\"merges\":{}}}",
        "{\"model\":{\"merges\":[\"ab\"]}}",
        "{\"model\":{\"merges\":[\"a b c\"]}}",
        "{\"model\":{\"merges\":[[\"a\"]]}}",
        "{\"model\":{\"merges\":[[\"a\",\"b\",\"c\"]]}}",
        "{\"model\":{\"merges\":[[\"a\",1]]}}",
        "{\"model\":{\"merges\":[\"a b\",]}}",
        "{\"model\":{\"merges\":[\"a b\" \"c d\"]}}",
        "{\"model\":{\"merges\":[\"\\ud83d\\ude00 b\"]}}",
        "{\"model\":{\"merges\":[\"\\u0000 b\"]}}",
        "{\"model\":{\"merges\":[\"\\x b\"]}}",
        "{\"model\":{\"merges\":[\"a\nb c\"]}}",
        "{\"model\":[{\"merges\":[\"a b\"]}]}",
        "{\"m\":{\"model\":{\"merges\":[\"a b\"]}}}",
        "{\"model\":{\"merges\":[\"a b\"]",
        "{\"model\":{\"x\":\"\\",
    };
    struct hf_merges merges;
    size_t rest;
    for (size_t i = 0; i < COUNT(texts); i++)
        for (size_t size = 0; size <= strlen(texts[i]); size++) {
            char *exact = malloc(size + 1); /* so that AddressSanitizer sees its end */
            memcpy(exact, texts[i], size);
            char *without = hf_merges_take(exact, size, &rest, &merges);
            bool ends = strstr(texts[i], "[\"a b\"]") && strncmp(texts[i], "{\"model\":{\"merges\"", 17) == 0;
            cr_assert(!without || ends, "%zu: %.*s", i, (int)size, exact);
            json_t *json = without ? json_loadb(without, rest, 0, NULL) : NULL;
            cr_assert(!json, "%zu: %.*s", i, (int)size, exact);
            free(without);
            free(exact);
            hf_merges_free(&merges);
        }
}

/* ---- Words of the vocabulary ---- */

static void expect_words(const struct hf_words *words, json_t *vocabulary)
{
    const char *text;
    size_t length, i = 0;
    json_t *id;
    cr_assert_eq(words->n, json_object_size(vocabulary));
    json_object_keylen_foreach(vocabulary, text, length, id)
    {
        cr_assert_eq(words->items[i].id, json_integer_value(id), "word %zu", i);
        cr_assert_eq(words->items[i].text.length, length, "word %zu", i);
        cr_assert_eq(memcmp(words->items[i].text.data, text, length), 0, "word %zu", i);
        cr_assert_eq(hf_words_find(words, text, length), json_integer_value(id), "word %zu", i);
        cr_assert_eq(hf_words_find(words, text, length + 1), -1, "word %zu", i); /* the NUL behind it */
        i++;
    }
}

Test(hf_merges, words_are_those_of_the_json)
{
    static const char text[] =
        "{\"model\" : {\"vocab\" :\t{\"a\":0 ,\n\"\\\"\\\\\\/\\b\\f\\n\\r\\t\" :\r1, "
        "\"\\u0120t\": 4194303,\"\": 20,\"\xf0\x9f\x98\x80 and more than eight\" : 3 } "
        ", \"type\": \"BPE\"}, \"z\": 1.5e3}";
    struct hf_words words, listed;
    size_t rest;
    char *without = hf_words_take(text, sizeof text - 1, &rest, &words);
    json_t *whole = json_loads(text, 0, NULL), *left = without ? json_loadb(without, rest, 0, NULL) : NULL;
    cr_assert(whole && left && words.taken);
    json_t *vocabulary = json_incref(json_object_get(json_object_get(whole, "model"), "vocab"));
    expect_words(&words, vocabulary);
    cr_assert(hf_words_list(vocabulary, &listed));
    cr_assert(!listed.taken);
    expect_words(&listed, vocabulary);
    json_object_set_new(json_object_get(whole, "model"), "vocab", json_object());
    cr_assert(json_equal(whole, left), "%.*s", (int)rest, without);
    json_decref(whole), json_decref(left), json_decref(vocabulary);
    free(without);
    hf_words_free(&words);
    hf_words_free(&listed);
}

/* Unigram's may be there several times. */
Test(hf_merges, words_of_an_array)
{
    json_t *vocabulary = json_loads("[[\"a\", 0], [\"b\", -1], [\"a\", -2], [3, 4], 5]", 0, NULL);
    struct hf_words words;
    cr_assert(vocabulary && hf_words_list(vocabulary, &words));
    cr_assert_eq(hf_words_find(&words, "a", 1), 2);
    cr_assert_eq(hf_words_find(&words, "b", 1), 1);
    cr_assert_eq(hf_words_find(&words, "c", 1), -1);
    hf_words_free(&words);
    json_decref(vocabulary);
}

/* Not plainly words and ids, or not JSON; and any of them, cut anywhere. */
Test(hf_merges, other_words_stay)
{
    static const char *const texts[] = {
        "{\"vocab\":{\"a\":1}}",
        "{\"model\":{\"vocab\":{}}}",
        "{\"model\":{\"vocab\":[\"a\",0]}}",
        "{\"model\":{\"vocab\":{\"a\":1,\"a\":2}}}",
        "{\"model\":{\"vocab\":{\"a\":1,\"\\u0061\":2}}}",
        "{\"model\":{\"vocab\":{\"a\":-1}}}",
        "{\"model\":{\"vocab\":{\"a\":01}}}",
        "{\"model\":{\"vocab\":{\"a\":1.0}}}",
        "{\"model\":{\"vocab\":{\"a\":1e1}}}",
        "{\"model\":{\"vocab\":{\"a\":4194304}}}",
        "{\"model\":{\"vocab\":{\"a\":99999999999999999999999}}}",
        "{\"model\":{\"vocab\":{\"a\":\"1\"}}}",
        "{\"model\":{\"vocab\":{\"a\":1,}}}",
        "{\"model\":{\"vocab\":{\"a\":}}}",
        "{\"model\":{\"vocab\":{\"\\u0000\":1}}}",
        "{\"model\":{\"vocab\":{\"\\ud83d\\ude00\":1}}}",
        "{\"model\":{\"vocab\":{\"\xc0\x80\":1}}}",
        "{\"model\":{\"vocab\":{\"\xed\xa0\x80\":1}}}",
        "{\"model\":{\"vocab\":{\"\xc4\":1}}}",
        "{\"model\":{\"vocab\":{\"a\nb\":1}}}",
    };
    struct hf_words words;
    size_t rest;
    for (size_t i = 0; i < COUNT(texts); i++)
        for (size_t size = 0; size <= strlen(texts[i]); size++) {
            char *exact = malloc(size + 1);
            memcpy(exact, texts[i], size);
            cr_assert(!hf_words_take(exact, size, &rest, &words), "%zu: %.*s", i, (int)size, exact);
            cr_assert(!words.items && !words.slots && !words.text);
            free(exact);
        }
}
