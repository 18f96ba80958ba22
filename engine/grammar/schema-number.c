/* schema-number.c: numbers between bounds, digit by digit.
 *
 * Bounds are digits before and after the point. Digits are compared from the left: as long as those written
 * are the same as a bound's, that bound limits the next one; after that it no longer matters. For
 * "multipleOf", the remainder of the digits so far goes along: what may follow depends on it, and on how many
 * digits are left. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "grammar/schema.h"

#define MAX_FRACTION 16
#define MAX_DIVISOR  256  /* of "multipleOf", without its point */
#define MAX_LISTED   1000 /* numbers, where it is more */

#define MAX_DIGITS  16 /* of a number without bounds, before the point */
#define SURE_DIGITS 15 /* which a double keeps, so that who reads the number as one sees what was written */
#define MAX_WHOLE   20 /* digits of a bound, before the point */
#define LARGEST     "9223372036854775807" /* beside bounds of more than MAX_DIGITS */

struct decimal {
    char whole[MAX_WHOLE + 4];       /* digits without leading zeros; "0" */
    char fraction[MAX_FRACTION + 1]; /* MAX_FRACTION digits */
    bool negative, exclusive;
};

/* What "multipleOf" asks for: a multiple of `divisor` in units of the last of `fraction` digits after the
 * point. */
struct multiple {
    unsigned divisor; /* 1: any */
    /* Rules for what may follow, plus 1, by remainder; 0: not made yet. */
    uint32_t *whole;     /* [MAX_WHOLE + 1, divisor] by how many digits before the point are left */
    uint32_t *fractions; /* [fraction + 1, divisor] by how many digits after the point there are */
};

/* Digits between two bounds with as many digits before the point, or `n` digits without bounds. */
struct digits {
    struct schema_reader *reader;
    struct exprs *exprs;
    const struct decimal *low, *high;
    size_t n;
    unsigned fraction; /* digits after the point, at most */
    bool sure;         /* or as many as a double keeps beside those before the point, if these are more */
    struct multiple *multiple;
};

/* How far digits have been written. */
struct written {
    unsigned at;          /* digits before the point, or after it */
    unsigned rest;        /* the remainder of what they make */
    bool at_low, at_high; /* they are the same as the bound's */
};

/* ---- Bounds ---- */

/* The digits of a number; false: more than fit. */
static bool read_decimal(const json_t *value, struct decimal *decimal)
{
    char text[64];
    *decimal = (struct decimal){.negative = json_number_value(value) < 0};
    memset(decimal->fraction, '0', MAX_FRACTION);
    if (json_is_integer(value)) {
        snprintf(text, sizeof text, "%lld", json_integer_value(value));
        snprintf(decimal->whole, sizeof decimal->whole, "%s", text + decimal->negative);
        return true;
    }
    double number = fabs(json_real_value(value));
    int precision = 0;
    do snprintf(text, sizeof text, "%.*e", precision, number);
    while (strtod(text, NULL) != number && ++precision < 17);
    /* d.ddd e±x, as 0.dddd times a power of ten. */
    const char *exponent = strchr(text, 'e');
    int point = atoi(exponent + 1) + 1;
    char digits[32];
    size_t n_digits = 0;
    for (const char *at = text; at < exponent; at++)
        if (*at != '.') digits[n_digits++] = *at;
    while (n_digits > 0 && digits[n_digits - 1] == '0') n_digits--;
    if (n_digits == 0) point = 1;
    if (point > MAX_WHOLE || (int)n_digits - point > MAX_FRACTION) return false;
    size_t n_whole = 0;
    for (int i = 0; i < point; i++) decimal->whole[n_whole++] = (size_t)i < n_digits ? digits[i] : '0';
    if (n_whole == 0) decimal->whole[n_whole++] = '0';
    for (size_t i = 0; i < n_digits; i++)
        if ((int)i >= point) decimal->fraction[(int)i - point] = digits[i];
    return true;
}

static void set_decimal(struct decimal *decimal, const char *whole, char fraction, bool exclusive)
{
    *decimal = (struct decimal){.exclusive = exclusive};
    snprintf(decimal->whole, sizeof decimal->whole, "%s", whole);
    memset(decimal->fraction, fraction, MAX_FRACTION);
}

/* Of numbers without signs. */
static int compare_decimals(const struct decimal *a, const struct decimal *b)
{
    size_t n_a = strlen(a->whole), n_b = strlen(b->whole);
    if (n_a != n_b) return n_a < n_b ? -1 : 1;
    int order = strcmp(a->whole, b->whole);
    return order ? order : memcmp(a->fraction, b->fraction, MAX_FRACTION);
}

/* ---- Digits ---- */

static uint32_t digit_range(struct exprs *exprs, unsigned low, unsigned high)
{
    return expr_char(exprs, '0' + low, '0' + high);
}

static bool all_zero(const char *digits)
{
    return digits[strspn(digits, "0")] == '\0';
}

typedef uint32_t next_digit(const struct digits *digits, struct written written);

/* The digits from `low` to `high`, and what may follow each. `next` is for the place after it. */
static uint32_t digits_then(const struct digits *digits, unsigned low, unsigned high, struct written written,
                            next_digit *next)
{
    struct exprs *exprs = digits->exprs;
    unsigned divisor = digits->multiple->divisor, rest = written.rest;
    uint32_t list = expr_alt(exprs);
    written.at++;
    if (divisor == 1) return EXPR_SEQ_OF(exprs, digit_range(exprs, low, high), next(digits, written));
    for (unsigned digit = low; digit <= high && !exprs->status; digit++) {
        written.rest = (rest * 10 + digit) % divisor;
        expr_add(exprs, list, EXPR_SEQ_OF(exprs, digit_range(exprs, digit, digit), next(digits, written)));
    }
    return list;
}

/* The same at a place where the first digits may be those of a bound. */
static uint32_t choose_digit(const struct digits *digits, unsigned low, unsigned high, struct written written,
                             next_digit *next)
{
    struct exprs *exprs = digits->exprs;
    uint32_t list = expr_alt(exprs);
    bool at_low = written.at_low, at_high = written.at_high;
    if (low > high) return expr_never(exprs);
    if (at_low && at_high && low == high) return digits_then(digits, low, low, written, next);
    if (at_low) {
        written.at_high = false;
        expr_add(exprs, list, digits_then(digits, low, low, written, next));
        low++;
    }
    if (at_high) {
        written.at_high = true;
        written.at_low = false;
        expr_add(exprs, list, digits_then(digits, high, high, written, next));
        if (high == 0) return list;
        high--;
    }
    written.at_low = written.at_high = false;
    if (low <= high) expr_add(exprs, list, digits_then(digits, low, high, written, next));
    return list;
}

/* Whether the number is a multiple if it ends after `at` digits after the point. */
static bool is_multiple(const struct digits *digits, struct written written)
{
    uint64_t rest = written.rest;
    for (unsigned i = written.at; i < digits->fraction; i++) rest = rest * 10 % digits->multiple->divisor;
    return rest == 0;
}

static next_digit fraction_digits, whole_digits;

/* A rule for digits that no bound limits, which those that get there with the same remainder share. */
static uint32_t shared_digits(const struct digits *digits, uint32_t *rules, size_t row,
                              struct written written, next_digit *make)
{
    uint32_t *rule = &rules[row * digits->multiple->divisor + written.rest];
    if (!*rule) {
        uint32_t made = expr_rule_new(digits->exprs, "multiple");
        *rule = made + 1;
        if (schema_spend(digits->reader, 10)) expr_define(digits->exprs, made, make(digits, written));
    }
    return expr_rule(digits->exprs, *rule - 1);
}

/* What may follow the digits before the point, and some after it. */
static uint32_t fraction_from(const struct digits *digits, struct written written)
{
    bool bounded = written.at_low || written.at_high;
    if (digits->multiple->divisor > 1 && !bounded)
        return shared_digits(digits, digits->multiple->fractions, written.at, written, fraction_digits);
    return fraction_digits(digits, written);
}

static uint32_t fraction_digits(const struct digits *digits, struct written written)
{
    struct exprs *exprs = digits->exprs;
    uint32_t list = expr_alt(exprs);
    unsigned at = written.at;
    bool at_low = written.at_low, at_high = written.at_high;
    if (!at_low && !at_high && at > 0 && digits->multiple->divisor == 1)
        return expr_repeat(exprs, digit_range(exprs, 0, 9), 0, digits->fraction - at);
    bool zeros_low = at_low && all_zero(digits->low->fraction + at);
    bool zeros_high = at_high && all_zero(digits->high->fraction + at);
    bool above = !at_low || (zeros_low && !digits->low->exclusive);
    bool below = !at_high || !zeros_high || !digits->high->exclusive;
    if (above && below && is_multiple(digits, written)) expr_add(exprs, list, expr_text(exprs, ""));
    if (at < digits->fraction) {
        unsigned low = at_low ? (unsigned)(digits->low->fraction[at] - '0') : 0;
        unsigned high = at_high ? (unsigned)(digits->high->fraction[at] - '0') : 9;
        uint32_t more = choose_digit(digits, low, high, written, fraction_from);
        expr_add(exprs, list, at == 0 ? EXPR_SEQ_OF(exprs, expr_text(exprs, "."), more) : more);
    }
    return list;
}

/* What may follow some digits before the point. */
static uint32_t whole_from(const struct digits *digits, struct written written)
{
    struct exprs *exprs = digits->exprs;
    uint32_t left = (uint32_t)(digits->n - written.at);
    if (left == 0) {
        written.at = 0;
        return fraction_from(digits, written);
    }
    if (written.at_low || written.at_high) return whole_digits(digits, written);
    if (digits->multiple->divisor > 1)
        return shared_digits(digits, digits->multiple->whole, left, written, whole_digits);
    return EXPR_SEQ_OF(exprs, expr_repeat(exprs, digit_range(exprs, 0, 9), left, left),
                       fraction_from(digits, (struct written){0}));
}

static uint32_t whole_digits(const struct digits *digits, struct written written)
{
    unsigned least = written.at == 0 && digits->n > 1 ? 1 : 0;
    unsigned low = written.at_low ? (unsigned)(digits->low->whole[written.at] - '0') : least;
    unsigned high = written.at_high ? (unsigned)(digits->high->whole[written.at] - '0') : 9;
    return choose_digit(digits, low, high, written, whole_from);
}

/* Numbers without a sign from low to high. */
static uint32_t digits_between(struct digits digits)
{
    struct exprs *exprs = digits.exprs;
    uint32_t list = expr_alt(exprs);
    if (compare_decimals(digits.low, digits.high) > 0) return list;
    size_t n_low = strlen(digits.low->whole), n_high = strlen(digits.high->whole);
    unsigned fraction = digits.fraction;
    for (digits.n = n_low; digits.n <= n_high; digits.n++) {
        if (digits.sure && digits.n + fraction < SURE_DIGITS)
            digits.fraction = (unsigned)(SURE_DIGITS - digits.n);
        else
            digits.fraction = fraction;
        struct written written = {.at_low = digits.n == n_low, .at_high = digits.n == n_high};
        expr_add(exprs, list, whole_digits(&digits, written));
    }
    return list;
}

/* Numbers with a sign; a bound that is NULL is none. `n_whole`: how many digits before the point they have
 * then. */
static uint32_t number_between(struct digits digits, unsigned n_whole)
{
    struct exprs *exprs = digits.exprs;
    const struct decimal *low = digits.low, *high = digits.high;
    struct decimal zero, most;
    uint32_t list = expr_alt(exprs);
    const char *nines = "9999999999999999";
    set_decimal(&most, n_whole > MAX_DIGITS ? LARGEST : nines + MAX_DIGITS - n_whole, '9', false);
    if (!high || !high->negative) {
        set_decimal(&zero, "0", '0', false);
        digits.low = low && !low->negative ? low : &zero;
        digits.high = high ? high : &most;
        expr_add(exprs, list, digits_between(digits));
    }
    if (!low || low->negative) {
        set_decimal(&zero, "0", '0', true);
        digits.low = high && high->negative ? high : &zero;
        digits.high = low ? low : &most;
        expr_add(exprs, list, EXPR_SEQ_OF(exprs, expr_text(exprs, "-"), digits_between(digits)));
    }
    return list;
}

/* Whether a bound of either sign is above all numbers that are written. */
static bool is_beyond(const struct decimal *bound)
{
    struct decimal most;
    set_decimal(&most, LARGEST, '0', false);
    return compare_decimals(bound, &most) > 0;
}

/* The same as `compare` of numbers with signs. */
static int compare_signed(const struct decimal *a, const struct decimal *b)
{
    if (a->negative != b->negative) return a->negative ? -1 : 1;
    return a->negative ? compare_decimals(b, a) : compare_decimals(a, b);
}

/* The stricter of "minimum" and "exclusiveMinimum" (or of the maximums). False: there is none or, with
 * *beyond, one that no number without an exponent gets to. */
static bool read_bound(struct schema_reader *reader, const json_t *schema, const char *plain,
                       const char *exclusive, bool upper, struct decimal *bound, bool *beyond)
{
    const json_t *a = json_object_get(schema, plain), *b = json_object_get(schema, exclusive);
    bool strict = json_is_true(b); /* draft 4: says how "minimum" is meant */
    if (json_is_boolean(b)) b = NULL;
    if ((a && !json_is_number(a)) || (b && !json_is_number(b))) {
        schema_wrong(reader, "\"%s\" should be a number", a && !json_is_number(a) ? plain : exclusive);
        return false;
    }
    if (!a && !b) return false;
    double x = json_number_value(a), y = json_number_value(b);
    bool second = b && (!a || (upper ? y <= x : y >= x));
    struct decimal other;
    /* Digits tell what doubles can't. */
    if (a && b && read_decimal(a, bound) && read_decimal(b, &other)) {
        int order = compare_signed(&other, bound);
        second = upper ? order <= 0 : order >= 0;
    }
    const json_t *value = second ? b : a;
    if (!read_decimal(value, bound) || is_beyond(bound)) {
        double number = json_number_value(value);
        bool harmless = upper ? number > 1e17 : number < -1e17;
        *beyond |= harmless;
        if (!harmless) schema_refuse(reader, "\"%s\" has too many digits", second ? exclusive : plain);
        return false;
    }
    bound->exclusive = second || strict;
    return true;
}

/* ---- Multiples ---- */

/* Whole multiples between bounds, as a list. */
static uint32_t listed_multiples(struct schema_reader *reader, double low, double high, double divisor)
{
    struct exprs *exprs = reader->exprs;
    uint32_t list = expr_alt(exprs);
    double first = ceil(low / divisor), last = floor(high / divisor);
    if (last - first > MAX_LISTED || fabs(low) > 1e15 || fabs(high) > 1e15)
        return schema_refuse(reader, "\"multipleOf\" beside bounds is supported for up to %d numbers",
                             MAX_LISTED);
    for (double i = first; i <= last; i++) {
        char text[32];
        snprintf(text, sizeof text, "%.0f", i * divisor + 0.0);
        expr_add(exprs, list, expr_text(exprs, text));
    }
    return list;
}

/* Reads 0.25 as 25 and two digits after the point; false: it has too many digits. */
static bool read_divisor(const json_t *value, uint64_t *divisor, unsigned *fraction)
{
    struct decimal decimal;
    if (!read_decimal(value, &decimal) || strlen(decimal.whole) > 9) return false;
    size_t n = MAX_FRACTION;
    while (n > 0 && decimal.fraction[n - 1] == '0') n--;
    if (n > 9) return false;
    *divisor = strtoull(decimal.whole, NULL, 10);
    for (size_t i = 0; i < n; i++) *divisor = *divisor * 10 + (uint64_t)(decimal.fraction[i] - '0');
    *fraction = (unsigned)n;
    return true;
}

/* Integers are multiples of 2.5 if they are of 5. */
static uint64_t whole_divisor(uint64_t divisor, unsigned fraction)
{
    uint64_t power = 1, a, b;
    for (unsigned i = 0; i < fraction; i++) power *= 10;
    for (a = divisor, b = power; b != 0;) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return divisor / a;
}

/* Multiples of a large whole number, if there are few. */
static uint32_t few_multiples(struct schema_reader *reader, const struct digits *digits, double divisor)
{
    double bounds[2];
    const struct decimal *each[2] = {digits->low, digits->high};
    if (!each[0] || !each[1] || digits->fraction > 0)
        return schema_refuse(
            reader,
            "\"multipleOf\" is supported up to %d, not counting the point; larger whole numbers with "
            "a minimum and a maximum",
            MAX_DIVISOR);
    for (int i = 0; i < 2; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s%s.%s", each[i]->negative ? "-" : "", each[i]->whole,
                 each[i]->fraction);
        bounds[i] = strtod(text, NULL);
    }
    if (each[0]->exclusive) bounds[0] = floor(bounds[0]) + 1;
    if (each[1]->exclusive) bounds[1] = ceil(bounds[1]) - 1;
    return listed_multiples(reader, bounds[0], bounds[1], divisor);
}

static uint32_t multiples_between(struct schema_reader *reader, struct digits digits, const json_t *value,
                                  bool integer, unsigned n_whole)
{
    uint64_t divisor;
    if (!json_is_number(value) || json_number_value(value) <= 0)
        return schema_wrong(reader, "\"multipleOf\" should be a number above 0");
    if (!read_divisor(value, &divisor, &digits.fraction))
        return schema_refuse(reader, "\"multipleOf\" has too many digits");
    if (integer) divisor = whole_divisor(divisor, digits.fraction);
    if (integer) digits.fraction = 0;
    if (digits.fraction > 0) n_whole = SURE_DIGITS - digits.fraction;
    if (divisor > MAX_DIVISOR) return few_multiples(reader, &digits, (double)divisor);
    struct multiple multiple = {.divisor = (unsigned)divisor};
    multiple.whole = calloc((MAX_WHOLE + 1) * divisor, sizeof *multiple.whole);
    multiple.fractions = calloc((digits.fraction + 1) * divisor, sizeof *multiple.fractions);
    uint32_t found = 0;
    digits.multiple = &multiple;
    if (multiple.whole && multiple.fractions)
        found = number_between(digits, n_whole);
    else
        reader->exprs->status = error_memory("JSON schema");
    free(multiple.whole);
    free(multiple.fractions);
    return found;
}

/* Digits after the point beside bounds: those that the bounds have, one at least. */
static unsigned fraction_digits_of(const struct decimal *low, const struct decimal *high)
{
    const struct decimal *bounds[] = {low, high};
    size_t most = 1;
    for (int i = 0; i < 2; i++) {
        size_t n = bounds[i] ? MAX_FRACTION : 0;
        while (n > most && bounds[i]->fraction[n - 1] == '0') n--;
        if (n > most) most = n;
    }
    return (unsigned)most;
}

uint32_t schema_number(struct schema_reader *reader, const json_t *schema, bool integer)
{
    struct decimal low, high;
    struct multiple any = {.divisor = 1};
    const json_t *multiple = json_object_get(schema, "multipleOf");
    bool beyond = false;
    bool has_low = read_bound(reader, schema, "minimum", "exclusiveMinimum", false, &low, &beyond);
    bool has_high = read_bound(reader, schema, "maximum", "exclusiveMaximum", true, &high, &beyond);
    if (reader->exprs->status) return 0;
    struct digits digits = {
        .reader = reader,
        .exprs = reader->exprs,
        .low = has_low ? &low : NULL,
        .high = has_high ? &high : NULL,
        .fraction = integer ? 0 : fraction_digits_of(has_low ? &low : NULL, has_high ? &high : NULL),
        .sure = !integer && !multiple,
        .multiple = &any};
    bool large = (has_low && strlen(low.whole) > MAX_DIGITS) || (has_high && strlen(high.whole) > MAX_DIGITS);
    unsigned n_whole = large ? MAX_DIGITS + 1 : MAX_DIGITS;
    if (multiple) return multiples_between(reader, digits, multiple, integer, n_whole);
    if (!has_low && !has_high && !beyond) return schema_any_number(reader, integer);
    return number_between(digits, n_whole);
}
