/* pattern.h: regular expressions of JSON schemas. */
#ifndef ENGINE_GRAMMAR_PATTERN_H
#define ENGINE_GRAMMAR_PATTERN_H

#include "grammar/schema.h"

struct pattern {
    uint32_t expr;        /* the content of a string, without the quotes */
    uint32_t least, most; /* its length in characters; EXPR_NO_LIMIT: any */
    /* If only one part varies in length, and that is a repetition of single characters: its EXPR_REPEAT. */
    uint32_t repeat;
};

/* The strings that a regular expression (ECMA 262) finds something in. */
struct pattern schema_pattern(struct schema_reader *reader, const char *pattern, size_t length);

/* The content of those of them that have `least` to `most` characters, where no single repetition decides on the
 * length. Each length so far gets rules of its own, so there may be too many: ENGINE_ERROR_UNSUPPORTED. */
uint32_t schema_pattern_between(struct schema_reader *reader, const char *pattern, size_t length,
                                uint32_t least, uint32_t most);
/* The strings of a pattern, with a rule for each character, so that every EXPR_RULE is one character. */
struct pattern schema_pattern_of_rules(struct schema_reader *reader, const char *pattern, size_t length);

/* Characters of a class as they stand in a string. With `rare`, also control characters that JSON has no short
 * escape for. */
uint32_t schema_characters(struct schema_reader *reader, const struct char_range *ranges, size_t count,
                           bool negated, bool rare);

#endif
