/* test-stop-texts.c: text that is held back while it may be the beginning of a stop text. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "queue/internal.h"

TestSuite(stop_texts);

static struct engine_string text_of(const char *text)
{
    return (struct engine_string){text, strlen(text)};
}

/* Puts pieces in (ended by NULL) and compares what comes out of each, "|" between them. */
static void expect(const char *const *stops, const char *const *pieces, const char *out, int32_t which)
{
    struct stop_texts stop;
    struct engine_string texts[8], certain;
    char got[256] = "";
    int32_t came = -1;
    size_t n = 0;
    for (; stops[n]; n++) texts[n] = text_of(stops[n]);
    cr_assert_eq(stop_texts_create(&stop, texts, n), ENGINE_OK);
    for (size_t i = 0; pieces[i] && came < 0; i++) {
        cr_assert_eq(stop_texts_add(&stop, pieces[i], strlen(pieces[i]), !pieces[i + 1], &certain, &came),
                     ENGINE_OK);
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%.*s", i ? "|" : "", (int)certain.length,
                 certain.data);
    }
    cr_assert_str_eq(got, out);
    cr_assert_eq(came, which);
    stop_texts_destroy(&stop);
}

#define LIST(...)                                                                                            \
    (const char *const[])                                                                                    \
    {                                                                                                        \
        __VA_ARGS__, NULL                                                                                    \
    }

Test(stop_texts, none)
{
    expect((const char *const[]){NULL}, LIST("one", " two", ""), "one| two|", -1);
}

Test(stop_texts, within_a_piece)
{
    expect(LIST("STOP"), LIST("one STOP two"), "one ", 0);
    expect(LIST("STOP", "one"), LIST("two one STOP"), "two ", 1);
}

Test(stop_texts, across_pieces)
{
    expect(LIST("\n\nUser:"), LIST("Hi.\n", "\n", "Us", "er", ": you"), "Hi.||||", 0);
    expect(LIST("\n\nUser:"), LIST("Hi.\n", "\n", "Use", "less", ""), "Hi.|||\n\nUseless|", -1);
    expect(LIST("aab"), LIST("a", "a", "a", "b"), "||a|", 0);
    expect(LIST("abab!"), LIST("aba", "bab", "!"), "|ab|", 0);
}

/* What was held back comes out at the end; a stop text may end there too. */
Test(stop_texts, at_the_end)
{
    expect(LIST("STOP"), LIST("one ST", ""), "one |ST", -1);
    expect(LIST("STOP"), LIST("one ST", "OP"), "one |", 0);
}

/* The one that is complete first ends the text, even within the beginning of another. */
Test(stop_texts, one_within_another)
{
    expect(LIST("abcd", "c"), LIST("xab", "cd"), "x|ab", 1);
    expect(LIST("ab", "abc"), LIST("xabc"), "x", 0);
}

Test(stop_texts, refused)
{
    struct stop_texts stop;
    struct engine_string empty = {"", 0}, none = {NULL, 3}, long_one = {"x", 100000};
    cr_assert_eq(stop_texts_create(&stop, &empty, 1), ENGINE_ERROR_ARGUMENT);
    cr_assert_eq(stop_texts_create(&stop, &none, 1), ENGINE_ERROR_ARGUMENT);
    cr_assert_eq(stop_texts_create(&stop, &long_one, 1), ENGINE_ERROR_ARGUMENT);
    cr_assert_eq(stop_texts_create(&stop, NULL, 1), ENGINE_ERROR_ARGUMENT);
    cr_assert_eq(stop_texts_create(&stop, &empty, 1000), ENGINE_ERROR_ARGUMENT);
}
