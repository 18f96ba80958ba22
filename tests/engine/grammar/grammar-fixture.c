/* grammar-fixture.c: see grammar-fixture.h. */
#include "grammar-fixture.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/error.h"

const struct grammar_vocab *grammar_bytes(void)
{
    static struct grammar_vocab *vocab;
    static char bytes[256];
    struct engine_string texts[257];
    uint8_t kinds[257] = {0};
    if (vocab) return vocab;
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        texts[i] = (struct engine_string){&bytes[i], 1};
    }
    texts[256] = (struct engine_string){"</s>", 4};
    kinds[256] = GRAMMAR_TOKEN_END;
    cr_assert_eq(grammar_vocab_create(texts, kinds, 257, &vocab), ENGINE_OK);
    return vocab;
}

struct grammar *grammar_of(enum grammar_syntax syntax, const char *text)
{
    struct grammar *grammar;
    cr_assert_eq(grammar_create(grammar_bytes(), syntax, text, strlen(text), &grammar), ENGINE_OK, "%s: %s",
                 text, error_message());
    return grammar;
}

bool grammar_takes(struct grammar *grammar, const char *candidate)
{
    struct grammar_match *match;
    cr_assert_eq(grammar_match_create(grammar, false, &match), ENGINE_OK);
    bool fits = true;
    for (const char *at = candidate; *at && fits; at++)
        fits = grammar_match_accept(match, (unsigned char)*at) == ENGINE_OK;
    fits = fits && grammar_match_complete(match);
    if (fits) cr_assert_eq(grammar_match_accept(match, 256), ENGINE_OK);
    grammar_match_destroy(match);
    return fits;
}

void grammar_expect(enum grammar_syntax syntax, const char *text, const char *candidate,
                    enum grammar_answer answer)
{
    struct grammar *grammar = grammar_of(syntax, text);
    bool fits = grammar_takes(grammar, candidate);
    cr_assert_eq(fits, answer == GRAMMAR_FITS, "%s: \"%s\" %s", text, candidate,
                 fits ? "fits" : "does not fit");
    grammar_destroy(grammar);
}

void schema_fits(const char *schema, const char *const *texts)
{
    for (; *texts; texts++) grammar_expect(GRAMMAR_SCHEMA, schema, *texts, GRAMMAR_FITS);
}

void schema_fails(const char *schema, const char *const *texts)
{
    for (; *texts; texts++) grammar_expect(GRAMMAR_SCHEMA, schema, *texts, GRAMMAR_DOES_NOT_FIT);
}

void grammar_expect_refused(enum grammar_syntax syntax, const char *text, const char *message)
{
    struct grammar *grammar;
    int status = grammar_create(grammar_bytes(), syntax, text, strlen(text), &grammar);
    cr_assert_neq(status, ENGINE_OK, "%s", text);
    cr_assert(strstr(error_message(), message), "%.200s: %s", text, error_message());
    cr_assert_not(strchr(error_message(), '\n'));
}
