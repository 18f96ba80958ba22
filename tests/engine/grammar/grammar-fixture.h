/* grammar-fixture.h: what a grammar says to a text, for tests: with a vocabulary of one token for each
 * byte. */
#ifndef TESTS_GRAMMAR_FIXTURE_H
#define TESTS_GRAMMAR_FIXTURE_H

#include "grammar/grammar.h"

enum grammar_answer { GRAMMAR_FITS, GRAMMAR_DOES_NOT_FIT };

/* Tokens 0 to 255 are the bytes, 256 ends the text. Made at the first call. */
const struct grammar_vocab *grammar_bytes(void);

/* To be destroyed by the caller. */
struct grammar *grammar_of(enum grammar_syntax syntax, const char *text);
/* Whether a text fits, whole. */
bool grammar_takes(struct grammar *grammar, const char *candidate);

void grammar_expect(enum grammar_syntax syntax, const char *grammar, const char *text,
                    enum grammar_answer answer);
/* Each of `texts`, which end with NULL, fits a JSON schema; none does. */
void schema_fits(const char *schema, const char *const *texts);
void schema_fails(const char *schema, const char *const *texts);
#define LIST(...)                                                                                            \
    (const char *const[])                                                                                    \
    {                                                                                                        \
        __VA_ARGS__, NULL                                                                                    \
    }

/* Refused with a message of one line that contains `message`. */
void grammar_expect_refused(enum grammar_syntax syntax, const char *grammar, const char *message);

#endif
