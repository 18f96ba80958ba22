/* schema-shared.c: what many schemas need: white space, and values without restrictions. Each is a rule, made
 * when it is first asked for. */
#include <string.h>

#include "grammar/schema.h"

/* The rule of a shared text; *is_new: it is still to be defined. */
static uint32_t shared_rule(struct schema_reader *reader, uint32_t *rule, const char *name, bool *is_new)
{
    *is_new = *rule == 0;
    if (*is_new) *rule = expr_rule_new(reader->exprs, name) + 1;
    return *rule - 1;
}

/* At most 20 characters. */
uint32_t schema_space(struct schema_reader *reader)
{
    struct exprs *exprs = reader->exprs;
    bool is_new;
    uint32_t rule = shared_rule(reader, &reader->space, "space", &is_new);
    if (is_new) {
        static const struct char_range blanks[] = {{' ', ' '}, {'\t', '\t'}};
        uint32_t list = expr_alt(exprs);
        expr_add(exprs, list, expr_text(exprs, ""));
        expr_add(exprs, list, expr_text(exprs, " "));
        expr_add(exprs, list,
                 EXPR_SEQ_OF(exprs, expr_text(exprs, "\n"),
                             expr_repeat(exprs, expr_class(exprs, blanks, 2, false), 0, 19)));
        expr_define(exprs, rule, list);
    }
    return expr_rule(exprs, rule);
}

static uint32_t hex_digit(struct exprs *exprs)
{
    static const struct char_range digits[] = {{'0', '9'}, {'a', 'f'}, {'A', 'F'}};
    return expr_class(exprs, digits, 3, false);
}

static uint32_t one_of(struct exprs *exprs, const char *characters)
{
    struct char_range ranges[32];
    size_t count = strlen(characters);
    for (size_t i = 0; i < count; i++)
        ranges[i] = (struct char_range){(unsigned char)characters[i], (unsigned char)characters[i]};
    return expr_class(exprs, ranges, count, false);
}

/* What may follow \u: any character except U+0000, and surrogates in pairs only. */
static uint32_t unicode_escape(struct exprs *exprs)
{
    static const struct char_range not_d[] = {{'1', '9'}, {'a', 'c'}, {'e', 'f'}, {'A', 'C'}, {'E', 'F'}};
    static const struct char_range not_zero[] = {{'1', '9'}, {'a', 'f'}, {'A', 'F'}};
    uint32_t list = expr_alt(exprs);
    expr_add(
        exprs, list,
        EXPR_SEQ_OF(exprs, expr_class(exprs, not_d, 5, false), expr_repeat(exprs, hex_digit(exprs), 3, 3)));
    expr_add(exprs, list,
             EXPR_SEQ_OF(exprs, one_of(exprs, "dD"), expr_char(exprs, '0', '7'),
                         expr_repeat(exprs, hex_digit(exprs), 2, 2)));
    for (unsigned zeros = 1; zeros <= 3; zeros++)
        expr_add(exprs, list,
                 EXPR_SEQ_OF(exprs, expr_literal(exprs, "000", zeros), expr_class(exprs, not_zero, 3, false),
                             expr_repeat(exprs, hex_digit(exprs), 3 - zeros, 3 - zeros)));
    expr_add(exprs, list,
             EXPR_SEQ_OF(exprs, one_of(exprs, "dD"), one_of(exprs, "89abAB"),
                         expr_repeat(exprs, hex_digit(exprs), 2, 2), expr_text(exprs, "\\u"),
                         one_of(exprs, "dD"), one_of(exprs, "cdefCDEF"),
                         expr_repeat(exprs, hex_digit(exprs), 2, 2)));
    return list;
}

uint32_t schema_character(struct schema_reader *reader, bool one_spelling)
{
    static const struct char_range special[] = {{'"', '"'}, {'\\', '\\'}, {0x7f, 0x7f}, {0, 0x1f}};
    struct exprs *exprs = reader->exprs;
    bool is_new;
    uint32_t rule =
        shared_rule(reader, one_spelling ? &reader->key_character : &reader->character, "character", &is_new);
    if (is_new) {
        uint32_t list = expr_alt(exprs), escape = expr_alt(exprs);
        expr_add(exprs, list, expr_class(exprs, special, 4, true));
        expr_add(exprs, escape, one_of(exprs, "\"\\bfnrt"));
        if (!one_spelling)
            expr_add(exprs, escape, EXPR_SEQ_OF(exprs, expr_text(exprs, "u"), unicode_escape(exprs)));
        expr_add(exprs, list, EXPR_SEQ_OF(exprs, expr_text(exprs, "\\"), escape));
        expr_define(exprs, rule, list);
    }
    return expr_rule(exprs, rule);
}

uint32_t schema_any_string(struct schema_reader *reader)
{
    struct exprs *exprs = reader->exprs;
    bool is_new;
    uint32_t rule = shared_rule(reader, &reader->string, "string", &is_new);
    if (is_new)
        expr_define(exprs, rule,
                    EXPR_SEQ_OF(exprs, expr_text(exprs, "\""),
                                expr_repeat(exprs, schema_character(reader, false), 0, EXPR_NO_LIMIT),
                                expr_text(exprs, "\"")));
    return expr_rule(exprs, rule);
}

/* 0, or up to 16 digits. */
static uint32_t whole_number(struct exprs *exprs)
{
    uint32_t list = expr_alt(exprs);
    expr_add(exprs, list, expr_text(exprs, "0"));
    expr_add(exprs, list,
             EXPR_SEQ_OF(exprs, expr_char(exprs, '1', '9'),
                         expr_repeat(exprs, expr_char(exprs, '0', '9'), 0, 15)));
    return EXPR_SEQ_OF(exprs, expr_repeat(exprs, expr_text(exprs, "-"), 0, 1), list);
}

/* Digits are limited as llama.cpp's are, and exponents so that the number fits in a double. */
uint32_t schema_any_number(struct schema_reader *reader, bool integer)
{
    struct exprs *exprs = reader->exprs;
    bool is_new;
    uint32_t rule = shared_rule(reader, integer ? &reader->integer : &reader->number, "number", &is_new);
    if (is_new && integer) expr_define(exprs, rule, whole_number(exprs));
    if (is_new && !integer) {
        uint32_t digits = expr_repeat(exprs, expr_char(exprs, '0', '9'), 1, 16);
        uint32_t fraction = EXPR_SEQ_OF(exprs, expr_text(exprs, "."), digits);
        uint32_t exponent =
            EXPR_SEQ_OF(exprs, one_of(exprs, "eE"), expr_repeat(exprs, one_of(exprs, "+-"), 0, 1),
                        expr_repeat(exprs, expr_char(exprs, '0', '9'), 1, 2));
        expr_define(exprs, rule,
                    EXPR_SEQ_OF(exprs, whole_number(exprs), expr_repeat(exprs, fraction, 0, 1),
                                expr_repeat(exprs, exponent, 0, 1)));
    }
    return expr_rule(exprs, rule);
}

/* `open` [ part { "," part } ] `close`, with white space. */
static uint32_t any_list(struct schema_reader *reader, const char *open, uint32_t part, uint32_t again,
                         const char *close)
{
    struct exprs *exprs = reader->exprs;
    uint32_t more =
        EXPR_SEQ_OF(exprs, expr_text(exprs, ","), schema_space(reader), again, schema_space(reader));
    uint32_t parts =
        EXPR_SEQ_OF(exprs, part, schema_space(reader), expr_repeat(exprs, more, 0, EXPR_NO_LIMIT));
    return EXPR_SEQ_OF(exprs, expr_text(exprs, open), schema_space(reader), expr_repeat(exprs, parts, 0, 1),
                       expr_text(exprs, close));
}

static uint32_t any_pair(struct schema_reader *reader)
{
    struct exprs *exprs = reader->exprs;
    return EXPR_SEQ_OF(exprs, schema_any_string(reader), schema_space(reader), expr_text(exprs, ":"),
                       schema_space(reader), schema_any_value(reader));
}

uint32_t schema_any_members(struct schema_reader *reader)
{
    bool is_new;
    uint32_t rule = shared_rule(reader, &reader->object, "object", &is_new);
    if (is_new)
        expr_define(reader->exprs, rule, any_list(reader, "{", any_pair(reader), any_pair(reader), "}"));
    return expr_rule(reader->exprs, rule);
}

static uint32_t any_array(struct schema_reader *reader)
{
    bool is_new;
    uint32_t rule = shared_rule(reader, &reader->array, "array", &is_new);
    if (is_new)
        expr_define(reader->exprs, rule,
                    any_list(reader, "[", schema_any_value(reader), schema_any_value(reader), "]"));
    return expr_rule(reader->exprs, rule);
}

uint32_t schema_any_value(struct schema_reader *reader)
{
    struct exprs *exprs = reader->exprs;
    bool is_new;
    uint32_t rule = shared_rule(reader, &reader->value, "value", &is_new);
    if (is_new) {
        uint32_t list = expr_alt(exprs);
        expr_add(exprs, list, schema_any_members(reader));
        expr_add(exprs, list, any_array(reader));
        expr_add(exprs, list, schema_any_string(reader));
        expr_add(exprs, list, schema_any_number(reader, false));
        expr_add(exprs, list, expr_text(exprs, "true"));
        expr_add(exprs, list, expr_text(exprs, "false"));
        expr_add(exprs, list, expr_text(exprs, "null"));
        expr_define(exprs, rule, list);
    }
    return expr_rule(exprs, rule);
}
