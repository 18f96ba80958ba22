/* pretokenize.c: see pretokenize.h. */
#include "hf/pretokenize.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "hf/bytes.h"

#define GPT_2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* Each may make a text twice as long; tokenizers have one. */
#define MAX_BYTE_LEVELS 4

/* ---- From JSON ---- */

static int read_behavior(const struct json_at *json, enum behavior preset, bool required,
                         enum behavior *behavior)
{
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                        "Contiguous"};
    struct json_at member = json_member(json, "behavior");
    *behavior = preset;
    if (json_absent(&member) && !required) return ENGINE_OK;
    const char *name = json_string_value(member.value);
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) != 0) continue;
        *behavior = (enum behavior)i;
        return ENGINE_OK;
    }
    return json_wrong(&member, "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

static int read_bytes(struct pretokenizer_step *step, const struct json_at *json)
{
    bool prefix;
    int status = json_boolean_member(json, "add_prefix_space", true, &prefix);
    if (!status) status = json_boolean_member(json, "use_regex", true, &step->use_regex);
    step->prepend = prefix ? PREPEND_ALWAYS : PREPEND_NEVER;
    if (status || !step->use_regex) return status;
    return regex_create(&step->pattern.regex, (struct engine_string){GPT_2, strlen(GPT_2)}, json);
}

static int read_metaspace(struct pretokenizer_step *step, const struct json_at *json)
{
    struct json_at scheme = json_member(json, "prepend_scheme");
    bool prefix;
    int status = json_character_member(json, "replacement", &step->character);
    if (!status) status = json_boolean_member(json, "add_prefix_space", true, &prefix);
    if (!status) status = json_boolean_member(json, "split", true, &step->split);
    if (status) return status;
    const char *name = json_absent(&scheme) ? "always" : json_string_value(scheme.value);
    if (name && strcmp(name, "always") == 0)
        step->prepend = PREPEND_ALWAYS;
    else if (name && strcmp(name, "first") == 0)
        step->prepend = PREPEND_FIRST;
    else if (name && strcmp(name, "never") == 0)
        step->prepend = PREPEND_NEVER;
    else
        return json_wrong(&scheme, "always, first or never");
    if (!prefix) step->prepend = PREPEND_NEVER;
    return ENGINE_OK;
}

static int read_digits(struct pretokenizer_step *step, const struct json_at *json)
{
    bool individual;
    int status = json_boolean_member(json, "individual_digits", false, &individual);
    step->behavior = individual ? BEHAVIOR_ISOLATED : BEHAVIOR_CONTIGUOUS;
    return status;
}

static int read_split(struct pretokenizer_step *step, const struct json_at *json)
{
    int status = read_behavior(json, BEHAVIOR_ISOLATED, true, &step->behavior);
    if (!status) status = json_boolean_member(json, "invert", false, &step->invert);
    return status ? status : pattern_create(&step->pattern, json);
}

static int read_length(struct pretokenizer_step *step, const struct json_at *json)
{
    int64_t length;
    int status = json_integer_member(json, "length", 5, &length);
    if (status) return status;
    struct json_at member = json_member(json, "length");
    step->length = length > 0 ? (size_t)length : 0;
    return length > 0 ? ENGINE_OK : json_wrong(&member, "a length");
}

static struct pretokenizer_step *pretokenize_append(struct pretokenizer *pretokenizer,
                                                    enum pretokenizer_kind kind)
{
    if (!ARRAY_RESERVE(pretokenizer->steps, pretokenizer->capacity, pretokenizer->count + 1)) return NULL;
    struct pretokenizer_step *step = &pretokenizer->steps[pretokenizer->count++];
    memset(step, 0, sizeof *step);
    step->kind = kind;
    return step;
}

static int check_byte_levels(const struct pretokenizer *pretokenizer, const struct json_at *json)
{
    size_t n = 0;
    for (size_t i = 0; i < pretokenizer->count; i++) n += pretokenizer->steps[i].kind == PRETOKENIZE_BYTES;
    if (n <= MAX_BYTE_LEVELS) return ENGINE_OK;
    return host->fail(ENGINE_ERROR_UNSUPPORTED, "%s: more than %d ByteLevel after each other", json->place,
                      MAX_BYTE_LEVELS);
}

static int add_step(void *user, const struct json_at *json)
{
    static const struct {
        const char *type;
        enum pretokenizer_kind kind;
        int (*read)(struct pretokenizer_step *step, const struct json_at *json);
    } kinds[] = {
        {"ByteLevel", PRETOKENIZE_BYTES, read_bytes},
        {"CharDelimiterSplit", PRETOKENIZE_DELIMITER, NULL},
        {"Delimiter", PRETOKENIZE_DELIMITER, NULL},
        {"Digits", PRETOKENIZE_DIGITS, read_digits},
        {"FixedLength", PRETOKENIZE_LENGTH, read_length},
        {"Metaspace", PRETOKENIZE_METASPACE, read_metaspace},
        {"Punctuation", PRETOKENIZE_PUNCTUATION, NULL},
        {"Split", PRETOKENIZE_SPLIT, read_split},
        {"Whitespace", PRETOKENIZE_WHITESPACE, NULL},
        {"WhitespaceSplit", PRETOKENIZE_WHITESPACE_SPLIT, NULL},
    };
    struct pretokenizer *pretokenizer = user;
    struct pretokenizer_step *step = NULL;
    if (json_is(json, "Sequence")) return json_each(json, "pretokenizers", add_step, user);
    if (json_is(json, "BertPreTokenizer")) { /* white space is removed, punctuation isolated */
        step = pretokenize_append(pretokenizer, PRETOKENIZE_WHITESPACE_SPLIT);
        if (step) step = pretokenize_append(pretokenizer, PRETOKENIZE_PUNCTUATION);
        if (step) step->behavior = BEHAVIOR_ISOLATED;
        return step ? ENGINE_OK : fail_memory("tokenizer");
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!json_is(json, kinds[i].type)) continue;
        step = pretokenize_append(pretokenizer, kinds[i].kind);
        if (!step) return fail_memory("tokenizer");
        if (step->kind == PRETOKENIZE_PUNCTUATION)
            return read_behavior(json, BEHAVIOR_ISOLATED, false, &step->behavior);
        if (step->kind == PRETOKENIZE_BYTES && check_byte_levels(pretokenizer, json))
            return ENGINE_ERROR_UNSUPPORTED;
        if (step->kind == PRETOKENIZE_DELIMITER)
            return json_character_member(json, "delimiter", &step->character);
        return kinds[i].read ? kinds[i].read(step, json) : ENGINE_OK;
    }
    return json_unknown(json, "pre-tokenizer");
}

int pretokenizer_create(struct pretokenizer *pretokenizer, const struct json_at *json)
{
    if (json_absent(json)) return ENGINE_OK;
    return json_is_object(json->value) ? add_step(pretokenizer, json) : json_wrong(json, "an object");
}

bool pretokenizer_marks_first(const struct pretokenizer *pretokenizer)
{
    for (size_t i = 0; i < pretokenizer->count; i++)
        if (pretokenizer->steps[i].prepend == PREPEND_FIRST) return true;
    return false;
}

void pretokenizer_destroy(struct pretokenizer *pretokenizer)
{
    for (size_t i = 0; i < pretokenizer->count; i++) pattern_destroy(&pretokenizer->steps[i].pattern);
    free(pretokenizer->steps);
    memset(pretokenizer, 0, sizeof *pretokenizer);
}

/* ---- Rewriting ---- */

/* Begins a new text, to which the pieces are written one after the other. */
static struct text_buffer *begin_text(struct pieces *pieces)
{
    struct text_buffer *out = &pieces->texts[pieces->into];
    pieces->into ^= 1;
    out->size = 0;
    return out;
}

static struct engine_string text_of(const struct pieces *pieces, struct piece piece)
{
    return (struct engine_string){pieces->text.data + piece.start, piece.end - piece.start};
}

/* Puts a space before the pieces that don't begin with one. */
static int prepend_spaces(struct pieces *pieces)
{
    struct text_buffer *out = begin_text(pieces);
    int status = ENGINE_OK;
    for (size_t i = 0; !status && i < pieces->count; i++) {
        struct engine_string text = text_of(pieces, pieces->list[i]);
        pieces->list[i].start = out->size;
        if (text.data[0] != ' ') status = text_append(out, " ", 1);
        if (!status) status = text_append(out, text.data, text.length);
        pieces->list[i].end = out->size;
    }
    pieces->text = (struct engine_string){out->data, out->size};
    return status;
}

static int spell_bytes(struct pieces *pieces)
{
    struct text_buffer *out = begin_text(pieces);
    int status = ENGINE_OK;
    for (size_t i = 0; !status && i < pieces->count; i++) {
        struct engine_string text = text_of(pieces, pieces->list[i]);
        pieces->list[i].start = out->size;
        status = bytes_spell(text, out);
        pieces->list[i].end = out->size;
    }
    pieces->text = (struct engine_string){out->data, out->size};
    return status;
}

/* Writes Metaspace's character for spaces, and before pieces. */
static int mark_spaces(const struct pretokenizer_step *step, struct pieces *pieces)
{
    char mark[4];
    size_t size = character_write(step->character, mark);
    struct text_buffer *out = begin_text(pieces);
    int status = ENGINE_OK;
    for (size_t i = 0; !status && i < pieces->count; i++) {
        struct engine_string text = text_of(pieces, pieces->list[i]);
        bool marked = text.data[0] == ' ' || (text.length >= size && memcmp(text.data, mark, size) == 0);
        bool prepend =
            step->prepend == PREPEND_ALWAYS || (step->prepend == PREPEND_FIRST && pieces->list[i].first);
        pieces->list[i].start = out->size;
        if (prepend && !marked) status = text_append(out, mark, size);
        for (size_t at = 0; !status && at < text.length;) {
            const char *space = memchr(text.data + at, ' ', text.length - at);
            size_t end = space ? (size_t)(space - text.data) : text.length;
            status = text_append(out, text.data + at, end - at);
            if (!status && space) status = text_append(out, mark, size);
            at = end + (space != NULL);
        }
        pieces->list[i].end = out->size;
    }
    pieces->text = (struct engine_string){out->data, out->size};
    return status;
}

/* ---- Cutting ---- */

static bool is_character(uint32_t character, uint32_t user)
{
    return character == user;
}

static bool is_space(uint32_t character, uint32_t user)
{
    (void)user;
    return unicode_is_space(character);
}

static bool is_numeric(uint32_t character, uint32_t user)
{
    (void)user;
    return character_is_numeric(character);
}

static bool is_punctuation(uint32_t character, uint32_t user)
{
    (void)user;
    return character_is_punctuation(character);
}

/* Runs of \w, and of what is neither that nor white space, which is removed. */
static int cut_words(struct cutter *cutter)
{
    const char *text = cutter->pieces->text.data + cutter->piece.start;
    size_t length = cutter->piece.end - cutter->piece.start, start = 0;
    int kind = 0, status = ENGINE_OK; /* 0: white space, 1: \w, 2: others */
    for (size_t at = 0, size; !status && at < length; at += size) {
        uint32_t character;
        size = unicode_read(text + at, length - at, &character);
        int next = character_is_word(character) ? 1 : unicode_is_space(character) ? 0 : 2;
        if (next == kind) continue;
        if (at > start) status = cutter_add(cutter, start, at, kind != 0);
        start = at;
        kind = next;
    }
    return status ? status : cutter_add(cutter, start, length, kind != 0);
}

static int cut_lengths(const struct pretokenizer_step *step, struct cutter *cutter)
{
    const char *text = cutter->pieces->text.data + cutter->piece.start;
    size_t length = cutter->piece.end - cutter->piece.start, start = 0, n = 0;
    int status = ENGINE_OK;
    for (size_t at = 0; !status && at < length;) {
        uint32_t character;
        at += unicode_read(text + at, length - at, &character);
        if (++n < step->length && at < length) continue;
        status = cutter_add(cutter, start, at, true);
        start = at;
        n = 0;
    }
    return status;
}

static int visit_match(void *user, size_t start, size_t end, bool matched)
{
    return cutter_add(user, start, end, matched);
}

static int cut_piece(const struct pretokenizer_step *step, struct cutter *cutter,
                     struct regex_workspace *regex)
{
    struct engine_string text = text_of(cutter->pieces, cutter->piece);
    switch (step->kind) {
    case PRETOKENIZE_BYTES: return regex_visit_all(&step->pattern.regex, regex, text, visit_match, cutter);
    case PRETOKENIZE_SPLIT: return pattern_visit_all(&step->pattern, regex, text, visit_match, cutter);
    case PRETOKENIZE_DELIMITER:
    case PRETOKENIZE_METASPACE: return cutter_split_at(cutter, is_character, step->character);
    case PRETOKENIZE_DIGITS: return cutter_split_at(cutter, is_numeric, 0);
    case PRETOKENIZE_PUNCTUATION: return cutter_split_at(cutter, is_punctuation, 0);
    case PRETOKENIZE_WHITESPACE_SPLIT: return cutter_split_at(cutter, is_space, 0);
    case PRETOKENIZE_LENGTH: return cut_lengths(step, cutter);
    case PRETOKENIZE_WHITESPACE: return cut_words(cutter);
    }
    return host->fail(ENGINE_ERROR, "a pre-tokenizer without a meaning");
}

static enum behavior behavior_of(const struct pretokenizer_step *step)
{
    switch (step->kind) {
    case PRETOKENIZE_BYTES:
    case PRETOKENIZE_LENGTH: return BEHAVIOR_ISOLATED;
    case PRETOKENIZE_METASPACE: return BEHAVIOR_MERGED_WITH_NEXT;
    case PRETOKENIZE_DELIMITER:
    case PRETOKENIZE_WHITESPACE:
    case PRETOKENIZE_WHITESPACE_SPLIT: return BEHAVIOR_REMOVED;
    default: return step->behavior;
    }
}

static int cut_all(const struct pretokenizer_step *step, struct pieces *pieces, struct regex_workspace *regex)
{
    int status = ENGINE_OK;
    bool invert = step->kind == PRETOKENIZE_WHITESPACE || step->invert;
    for (size_t i = 0; !status && i < pieces->count; i++) {
        struct cutter cutter;
        cutter_begin(&cutter, pieces, pieces->list[i], behavior_of(step), invert);
        status = cut_piece(step, &cutter, regex);
        if (!status) status = cutter_end(&cutter);
    }
    pieces_turn(pieces);
    return status;
}

int pretokenizer_apply(const struct pretokenizer *pretokenizer, struct pieces *pieces,
                       struct regex_workspace *regex)
{
    int status = ENGINE_OK;
    for (size_t i = 0; !status && i < pretokenizer->count; i++) {
        const struct pretokenizer_step *step = &pretokenizer->steps[i];
        if (step->kind == PRETOKENIZE_BYTES) {
            if (step->prepend) status = prepend_spaces(pieces);
            if (!status && step->use_regex) status = cut_all(step, pieces, regex);
            if (!status) status = spell_bytes(pieces);
            continue;
        }
        if (step->kind == PRETOKENIZE_METASPACE) {
            status = mark_spaces(step, pieces);
            if (status || !step->split) continue;
        }
        if (!status) status = cut_all(step, pieces, regex);
    }
    return status;
}
