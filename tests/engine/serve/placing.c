/* placing.c: messages in other places: each way, and that nothing of them is lost. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/generate/generation.h"

/* "sA uB a- tC": a letter for the role, and the content; - for none, with a call. */
static json_t *messages_of(const char *words)
{
    json_t *messages = json_array();
    char copy[256], *save = NULL;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        const char *role = *word == 's'   ? "system"
                           : *word == 'u' ? "user"
                           : *word == 'a' ? "assistant"
                                          : "tool";
        json_t *message = json_pack("{s:s, s:s}", "role", role, "content", word + 1);
        if (strcmp(word, "a-") == 0) {
            json_object_set_new(message, "content", json_null());
            json_object_set_new(message, "tool_calls", json_pack("[{s:s}]", "id", "1"));
        }
        json_array_append_new(messages, message);
    }
    return messages;
}

/* The same of messages; a + between contents that were joined. */
static void words_of(const json_t *messages, char *words)
{
    size_t i;
    json_t *message;
    json_array_foreach((json_t *)(size_t)messages, i, message)
    {
        const char *content = json_string_value(json_object_get(message, "content"));
        if (i > 0) *words++ = ' ';
        *words++ = json_string_value(json_object_get(message, "role"))[0];
        for (const char *at = content ? content : "-"; *at; at += strncmp(at, "\n\n", 2) == 0 ? 2 : 1)
            *words++ = *at == '\n' ? '+' : *at;
    }
    *words = '\0';
}

static const struct {
    enum placing how;
    const char *from, *to; /* NULL: nothing changes */
} cases[] = {
    {PLACING_SYSTEMS, "sA uB", NULL},
    {PLACING_SYSTEMS, "sA sB sC uD", "sA+B+C uD"},
    {PLACING_SYSTEMS, "sA sB uC sD aE sF", "sA+B uC uD aE uF"},
    {PLACING_SYSTEMS, "uA sB", "uA uB"},
    {PLACING_USERS, "sA uB aC uD", NULL},
    {PLACING_USERS, "uA uB uC aD uE uF", "uA+B+C aD uE+F"},
    {PLACING_RESULTS, "uA a- tB aC uD", NULL},
    {PLACING_RESULTS, "uA a- tB uC uD aE uF", "uA a- tB+C+D aE uF"},
    {PLACING_RESULTS, "uA a- uB tC tD aE", "uA a- tC tD+B aE"},
    {PLACING_RESULTS, "uA a- uB", NULL},
    {PLACING_FIRST, "uA", NULL},
    {PLACING_FIRST, "sA uB aC", "uA+B aC"},
    {PLACING_FIRST, "sA", "uA"},
    {PLACING_FIRST, "sA aB", "uA aB"},
};

Test(placing, ways)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *messages = messages_of(cases[i].from);
        char words[256];
        bool changed;
        cr_assert_eq(placing_apply(&messages, cases[i].how, &changed), ENGINE_OK);
        words_of(messages, words);
        cr_expect_str_eq(words, cases[i].to ? cases[i].to : cases[i].from);
        cr_expect_eq(changed, cases[i].to != NULL, "%s", cases[i].from);
        json_decref(messages);
    }
}

/* Each joined to the one before by itself, they would be copied over and over. */
Test(placing, many, .timeout = 60)
{
    enum { MANY = 100000, SIZE = 200 };
    json_t *messages = json_array();
    char text[SIZE + 1];
    bool changed;
    memset(text, 'x', SIZE);
    text[SIZE] = '\0';
    for (int i = 0; i < MANY; i++)
        json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "user", "content", text));
    cr_assert(placing_apply(&messages, PLACING_USERS, &changed) == ENGINE_OK && changed);
    cr_assert_eq(json_array_size(messages), 1);
    cr_assert_eq(json_string_length(json_object_get(json_array_get(messages, 0), "content")),
                 (size_t)MANY * (SIZE + 2) - 2);
    json_decref(messages);
}

static struct engine_string string_of(const char *text)
{
    return (struct engine_string){text, strlen(text)};
}

Test(placing, what_is_shown)
{
    json_t *messages = messages_of("sone utwo sone sthree");
    cr_assert(placing_has_systems(messages, string_of("[one] two [one] [three]")));
    cr_assert(!placing_has_systems(messages, string_of("[one] two [three]")));
    cr_assert(!placing_has_systems(messages, string_of("")));
    cr_assert_eq(placing_count_systems(messages), 3);
    json_t *marked = placing_marked(messages, "mark-");
    cr_assert_str_eq(json_string_value(json_object_get(json_array_get(marked, 3), "content")),
                     "three mark-2.");
    cr_assert_str_eq(json_string_value(json_object_get(json_array_get(marked, 1), "content")), "two");
    cr_assert_eq(placing_count_marks(messages, "mark-", string_of("mark-2. mark-0. mark-2. mark-7. mark-")),
                 2);
    json_decref(marked);
    json_decref(messages);
    messages = messages_of("uone");
    cr_assert(placing_has_systems(messages, string_of("")));
    json_decref(messages);
}

/* Tools, calls and results as texts, for templates that know none. */
Test(placing, plain_calls)
{
    json_t *messages = json_loads(
        "[{\"role\": \"user\", \"content\": \"Where?\"}, {\"role\": \"assistant\", \"content\": \"I look.\", "
        "\"tool_calls\": [{\"id\": \"1\", \"function\": {\"name\": \"f\", \"arguments\": {\"a\": 1}}}, "
        "{\"id\": \"2\", "
        "\"function\": {\"name\": \"g\", \"arguments\": {}}}]}, {\"role\": \"tool\", \"tool_call_id\": "
        "\"1\", \"content\": "
        "\"x\"}, {\"role\": \"tool\", \"tool_call_id\": \"2\", \"content\": \"y\"}, {\"role\": "
        "\"assistant\", "
        "\"content\": \"So.\"}]",
        0, NULL);
    json_t *tools = json_loads("[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]", 0, NULL);
    cr_assert_eq(plain_calls_write(messages, tools), ENGINE_OK);
    const char *system = json_string_value(json_object_get(json_array_get(messages, 0), "content"));
    cr_expect(strstr(system, "{\"name\":\"f\"}") && strstr(system, "<tool_call>"), "%s", system);
    json_array_remove(messages, 0);
    json_t *expected = json_loads(
        "[{\"role\": \"user\", \"content\": \"Where?\"}, {\"role\": \"assistant\", \"content\": \"I "
        "look.\\n\\n<tool_call>"
        "{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {\\\"a\\\":1}}</tool_call>\\n<tool_call>{\\\"name\\\": "
        "\\\"g\\\", "
        "\\\"arguments\\\": {}}</tool_call>\"}, {\"role\": \"user\", \"content\": "
        "\"<tool_response>\\nx\\n</tool_response>"
        "\\n\\n<tool_response>\\ny\\n</tool_response>\"}, {\"role\": \"assistant\", \"content\": \"So.\"}]",
        0, NULL);
    cr_assert(expected);
    cr_expect(json_equal(messages, expected), "%s", json_dumps(messages, 0));
    cr_expect(plain_calls_fit("{{ messages }}", ENGINE_REPLY_PLAIN));
    cr_expect(!plain_calls_fit("{{ messages }}", ENGINE_REPLY_GPT_OSS));
    cr_expect(!plain_calls_fit("{{ tools }}", ENGINE_REPLY_PLAIN));
    json_decref(messages);
    json_decref(expected);
    json_decref(tools);
}
