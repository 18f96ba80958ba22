/* sets.c: see sets.h. */
#include "hf/sets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "hf/characters.h"

#define LAST (UNICODE_SIZE - 1)

#define BIT(NAME) ((uint32_t)1 << CATEGORY_##NAME)
#define LETTERS   (BIT(LU) | BIT(LL) | BIT(LT) | BIT(LM) | BIT(LO))
#define MARKS     (BIT(MN) | BIT(MC) | BIT(ME))
#define NUMBERS   (BIT(ND) | BIT(NL) | BIT(NO))
#define MARKINGS  (BIT(PC) | BIT(PD) | BIT(PS) | BIT(PE) | BIT(PI) | BIT(PF) | BIT(PO))
#define SYMBOLS   (BIT(SM) | BIT(SC) | BIT(SK) | BIT(SO))
#define SPACES    (BIT(ZS) | BIT(ZL) | BIT(ZP))
#define VISIBLE   (~(SPACES | BIT(CC) | BIT(CS) | BIT(CN)))
#define OTHERS    (BIT(CC) | BIT(CF) | BIT(CS) | BIT(CO) | BIT(CN))

/* Properties that are unions of general categories; names without separators, in small letters. */
static const struct {
    const char *names; /* blanks between and around them */
    uint32_t categories;
} properties[] = {
    {" l letter ", LETTERS},
    {" lu uppercaseletter ", BIT(LU)},
    {" ll lowercaseletter ", BIT(LL)},
    {" lt titlecaseletter ", BIT(LT)},
    {" lc casedletter ", BIT(LU) | BIT(LL) | BIT(LT)},
    {" lm modifierletter ", BIT(LM)},
    {" lo otherletter ", BIT(LO)},
    {" m mark combiningmark ", MARKS},
    {" mn nonspacingmark ", BIT(MN)},
    {" mc spacingmark ", BIT(MC)},
    {" me enclosingmark ", BIT(ME)},
    {" n number ", NUMBERS},
    {" nd decimalnumber digit ", BIT(ND)},
    {" nl letternumber ", BIT(NL)},
    {" no othernumber ", BIT(NO)},
    {" p punctuation punct ", MARKINGS},
    {" punctandsymbol ", MARKINGS | SYMBOLS}, /* [:punct:] */
    {" pc connectorpunctuation ", BIT(PC)},
    {" pd dashpunctuation ", BIT(PD)},
    {" ps openpunctuation ", BIT(PS)},
    {" pe closepunctuation ", BIT(PE)},
    {" pi initialpunctuation ", BIT(PI)},
    {" pf finalpunctuation ", BIT(PF)},
    {" po otherpunctuation ", BIT(PO)},
    {" s symbol ", SYMBOLS},
    {" sm mathsymbol ", BIT(SM)},
    {" sc currencysymbol ", BIT(SC)},
    {" sk modifiersymbol ", BIT(SK)},
    {" so othersymbol ", BIT(SO)},
    {" z separator ", SPACES},
    {" zs spaceseparator ", BIT(ZS)},
    {" zl lineseparator ", BIT(ZL)},
    {" zp paragraphseparator ", BIT(ZP)},
    {" c other ", OTHERS},
    {" cc control cntrl ", BIT(CC)},
    {" cf format ", BIT(CF)},
    {" cn unassigned ", BIT(CN)},
    {" co privateuse ", BIT(CO)},
    {" cs surrogate ", BIT(CS)},
    {" any assigned ", ~(uint32_t)0},
};

/* In the order of tools/hf/unicode-tables. */
static const char *const scripts[] = {
    "arabic",   "armenian", "bengali",  "bopomofo", "cyrillic",  "devanagari", "ethiopic", "georgian",
    "greek",    "gujarati", "gurmukhi", "han",      "hangul",    "hebrew",     "hiragana", "kannada",
    "katakana", "khmer",    "lao",      "latin",    "malayalam", "mongolian",  "myanmar",  "oriya",
    "sinhala",  "tamil",    "telugu",   "thai",     "tibetan",
};

void set_free(struct set *set)
{
    free(set->ranges);
    *set = (struct set){NULL, 0, 0};
}

int set_add(struct set *set, uint32_t first, uint32_t last)
{
    if (!ARRAY_RESERVE(set->ranges, set->capacity, set->count + 1)) return fail_memory("expression");
    set->ranges[set->count++] = (struct set_range){first, last};
    return ENGINE_OK;
}

int set_add_all(struct set *set, const struct set *other, bool negated)
{
    int status = ENGINE_OK;
    if (!negated) {
        for (size_t i = 0; !status && i < other->count; i++)
            status = set_add(set, other->ranges[i].first, other->ranges[i].last);
        return status;
    }
    uint32_t next = 0;
    for (size_t i = 0; !status && i < other->count; i++) {
        if (other->ranges[i].first > next) status = set_add(set, next, other->ranges[i].first - 1);
        next = other->ranges[i].last + 1;
    }
    if (!status && next <= LAST) status = set_add(set, next, LAST);
    return status;
}

static int sets_compare(const void *left, const void *right)
{
    uint32_t a = ((const struct set_range *)left)->first, b = ((const struct set_range *)right)->first;
    return a < b ? -1 : a > b;
}

void set_finish(struct set *set)
{
    if (set->count < 2) return;
    qsort(set->ranges, set->count, sizeof *set->ranges, sets_compare);
    size_t kept = 0;
    for (size_t i = 1; i < set->count; i++) {
        if (set->ranges[i].first <= set->ranges[kept].last + 1) {
            if (set->ranges[i].last > set->ranges[kept].last) set->ranges[kept].last = set->ranges[i].last;
        } else {
            set->ranges[++kept] = set->ranges[i];
        }
    }
    set->count = kept + 1;
}

/* By De Morgan. */
int set_intersect(struct set *set, const struct set *other)
{
    struct set lacking = {NULL, 0, 0}, result = {NULL, 0, 0};
    int status = set_add_all(&lacking, set, true);
    if (!status) status = set_add_all(&lacking, other, true);
    set_finish(&lacking);
    if (!status) status = set_add_all(&result, &lacking, true);
    set_finish(&result);
    set_free(&lacking);
    set_free(set);
    *set = result;
    return status;
}

bool set_has(const struct set *set, uint32_t character)
{
    size_t low = 0, high = set->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (set->ranges[middle].last < character)
            low = middle + 1;
        else
            high = middle;
    }
    return low < set->count && set->ranges[low].first <= character;
}

static int add_categories(struct set *set, uint32_t categories)
{
    int status = ENGINE_OK;
    for (size_t i = 0; !status && i < n_category_runs; i++) {
        if (!(categories >> (category_runs[i] & 31) & 1)) continue;
        uint32_t last = i + 1 < n_category_runs ? (category_runs[i + 1] >> 5) - 1 : LAST;
        status = set_add(set, category_runs[i] >> 5, last);
    }
    return status;
}

static int add_table(struct set *set, const uint32_t *table, size_t n)
{
    int status = ENGINE_OK;
    for (size_t i = 0; !status && i + 1 < n; i += 2) status = set_add(set, table[i], table[i + 1]);
    return status;
}

static int add_spaces(struct set *set)
{
    int status = set_add(set, 0x09, 0x0D);
    if (!status) status = set_add(set, 0x85, 0x85);
    return status ? status : add_categories(set, SPACES);
}

static int add_word(struct set *set, enum set_place place)
{
    static const struct set_range numbers[] = {{0xB2, 0xB3}, {0xB9, 0xB9}, {0xBC, 0xBE}};
    struct set word = {NULL, 0, 0}, others = {NULL, 0, 0};
    int status = add_table(&word, word_characters, n_word_characters);
    for (size_t i = 0; !status && place == SET_IN_BRACKETS && i < sizeof numbers / sizeof *numbers; i++)
        status = set_add(&others, numbers[i].first, numbers[i].last);
    if (!status) status = set_add_all(&others, &word, true);
    set_finish(&others);
    if (!status) status = set_add_all(set, &others, true);
    set_free(&word);
    set_free(&others);
    return status;
}

int set_add_escape(struct set *set, char letter, bool negated, enum set_place place)
{
    struct set positive = {NULL, 0, 0};
    int status = ENGINE_OK;
    if (letter == 'w') status = add_word(&positive, place);
    if (letter == 's') status = add_spaces(&positive);
    if (letter == 'd') status = add_categories(&positive, BIT(ND));
    if (letter == 'h') {
        status = set_add(&positive, '0', '9');
        if (!status) status = set_add(&positive, 'A', 'F');
        if (!status) status = set_add(&positive, 'a', 'f');
    }
    set_finish(&positive);
    if (!status) status = set_add_all(set, &positive, negated);
    set_free(&positive);
    return status;
}

/* The name in small letters without separators, blanks around it. */
static bool plain_name(const char *name, size_t length, char plain[40])
{
    size_t n = 0;
    plain[n++] = ' ';
    for (size_t i = 0; i < length; i++) {
        char c = name[i];
        if (c == '_' || c == ' ' || c == '-') continue;
        if (n >= 38) return false;
        plain[n++] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
    }
    plain[n++] = ' ';
    plain[n] = '\0';
    return n > 2;
}

static int add_script(struct set *set, const char *plain, bool *found)
{
    int status = ENGINE_OK;
    for (size_t script = 0; script < sizeof scripts / sizeof *scripts; script++) {
        size_t length = strlen(scripts[script]);
        if (strncmp(plain + 1, scripts[script], length) != 0 || plain[1 + length] != ' ') continue;
        *found = true;
        for (size_t i = 0; !status && i + 2 < n_script_runs; i += 3)
            if (script_runs[i + 2] == script) status = set_add(set, script_runs[i], script_runs[i + 1]);
    }
    return status;
}

/* Letters with a case, or all, and what else Unicode counts among them. */
static int add_letters(struct set *set, uint32_t categories, const uint32_t *others, size_t n_others)
{
    int status = add_categories(set, categories);
    return status ? status : add_table(set, others, n_others);
}

static int add_alphabetic(struct set *set, uint32_t more)
{
    return add_letters(set, LETTERS | BIT(NL) | more, other_alphabetic, n_other_alphabetic);
}

/* Names with more to them than categories. */
static int add_named(struct set *set, const char *plain, enum set_place place, bool *found)
{
    int status;
    *found = true;
    if (!strcmp(plain, " word ")) return add_word(set, place);
    if (!strcmp(plain, " space ") || !strcmp(plain, " whitespace ")) return add_spaces(set);
    if (!strcmp(plain, " xdigit ")) return set_add_escape(set, 'h', false, place);
    if (!strcmp(plain, " ascii ")) return set_add(set, 0, 0x7F);
    if (!strcmp(plain, " alpha ") || !strcmp(plain, " alphabetic ")) return add_alphabetic(set, 0);
    if (!strcmp(plain, " alnum ")) return add_alphabetic(set, BIT(ND));
    if (!strcmp(plain, " lower ") || !strcmp(plain, " lowercase "))
        return add_letters(set, BIT(LL), other_lowercase, n_other_lowercase);
    if (!strcmp(plain, " upper ") || !strcmp(plain, " uppercase "))
        return add_letters(set, BIT(LU), other_uppercase, n_other_uppercase);
    if (!strcmp(plain, " graph ")) return add_categories(set, VISIBLE);
    if (!strcmp(plain, " print ")) return add_categories(set, VISIBLE | BIT(ZS));
    if (!strcmp(plain, " blank ")) {
        status = set_add(set, '\t', '\t');
        return status ? status : add_categories(set, BIT(ZS));
    }
    *found = false;
    return ENGINE_OK;
}

/* `plain`: see plain_name. */
static int add_property(struct set *set, const char *plain, bool negated, enum set_place place, bool *found)
{
    struct set positive = {NULL, 0, 0};
    int status = ENGINE_OK;
    *found = false;
    for (size_t i = 0; !*found && i < sizeof properties / sizeof *properties; i++) {
        if (!strstr(properties[i].names, plain)) continue;
        *found = true;
        uint32_t categories = properties[i].categories;
        if (!strcmp(plain, " assigned ")) categories = ~BIT(CN);
        status = add_categories(&positive, categories);
    }
    if (!*found) status = add_script(&positive, plain, found);
    if (!*found) status = add_named(&positive, plain, place, found);
    set_finish(&positive);
    if (!status) status = set_add_all(set, &positive, negated);
    set_free(&positive);
    return status;
}

int set_add_property(struct set *set, const char *name, size_t length, bool negated, enum set_place place,
                     bool *found)
{
    char plain[40];
    *found = false;
    return plain_name(name, length, plain) ? add_property(set, plain, negated, place, found) : ENGINE_OK;
}

int set_add_posix(struct set *set, const char *name, size_t length, bool negated, bool *found)
{
    static const char names[] =
        " alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit ";
    char plain[40];
    *found = false;
    if (length > 6) return ENGINE_OK;
    snprintf(plain, sizeof plain, " %.*s ", (int)length, name);
    if (!strstr(names, plain)) return ENGINE_OK;
    /* Symbols, too, unlike \p{Punct}. */
    return add_property(set, strcmp(plain, " punct ") ? plain : " punctandsymbol ", negated, SET_IN_BRACKETS,
                        found);
}

/* Small letters that fold to another one, without being its capital. */
static const uint32_t folds[][2] = {
    {0xB5, 0x3BC},   {0x17F, 0x73},    {0x345, 0x3B9},   {0x3C2, 0x3C3},  {0x3D0, 0x3B2},  {0x3D1, 0x3B8},
    {0x3D5, 0x3C6},  {0x3D6, 0x3C0},   {0x3F0, 0x3BA},   {0x3F1, 0x3C1},  {0x3F5, 0x3B5},  {0x1C80, 0x432},
    {0x1C81, 0x434}, {0x1C82, 0x43E},  {0x1C83, 0x441},  {0x1C84, 0x442}, {0x1C85, 0x442}, {0x1C86, 0x44A},
    {0x1C87, 0x463}, {0x1C88, 0xA64B}, {0x1E9B, 0x1E61}, {0x1FBE, 0x3B9},
};

/* Adds to `more` which of two characters a set lacks, if it has the other. */
static int add_pair(const struct set *set, uint32_t one, uint32_t other, struct set *more)
{
    bool has_one = set_has(set, one), has_other = set_has(set, other);
    if (has_one == has_other) return ENGINE_OK;
    return has_one ? set_add(more, other, other) : set_add(more, one, one);
}

/* All pairs of a letter and its small letter are walked, so that sets of any size cost the same; again while
 * that adds something, because several letters may have the same small one, and that may fold to another. */
int set_add_cases(struct set *set)
{
    int status = ENGINE_OK;
    for (bool grows = true; grows && !status;) {
        struct set more = {NULL, 0, 0};
        for (size_t i = 0; i + 3 < n_lowercase_runs; i += 4) {
            const uint32_t *run = lowercase_runs + i;
            for (uint32_t upper = run[0]; !status && upper <= run[1]; upper += run[2])
                status = add_pair(set, upper, upper + run[3], &more);
        }
        for (size_t i = 0; !status && i < sizeof folds / sizeof *folds; i++)
            status = add_pair(set, folds[i][0], folds[i][1], &more);
        grows = more.count > 0;
        set_finish(&more);
        if (!status) status = set_add_all(set, &more, false);
        set_finish(set);
        set_free(&more);
    }
    return status;
}
