/* normalize.c: see normalize.h. */
#include "hf/normalize.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "common/memory.h"
#include "hf/bytes.h"

/* ---- From JSON ---- */

static int copy_content(struct normalizer_step *step, const struct json_at *json, const char *name)
{
    return json_copy_member(json, name, NULL, &step->content, &step->content_length);
}

static int read_bert(struct normalizer_step *step, const struct json_at *json)
{
    int status = json_boolean_member(json, "clean_text", true, &step->clean);
    if (!status) status = json_boolean_member(json, "handle_chinese_chars", true, &step->space_chinese);
    if (!status) status = json_boolean_member(json, "lowercase", true, &step->lowercase);
    return status ? status
                  : json_boolean_member(json, "strip_accents", step->lowercase, &step->strip_accents);
}

static int read_step(struct normalizer *normalizer, struct normalizer_step *step, const struct json_at *json,
                     struct engine_string charsmap)
{
    static const struct {
        const char *type;
        enum normalizer_kind kind;
        enum form form;
    } plain[] = {
        {"NFC", NORMALIZE_FORM, FORM_NFC},         {"NFD", NORMALIZE_FORM, FORM_NFD},
        {"NFKC", NORMALIZE_FORM, FORM_NFKC},       {"NFKD", NORMALIZE_FORM, FORM_NFKD},
        {"Lowercase", NORMALIZE_LOWERCASE, 0},     {"Nmt", NORMALIZE_NMT, 0},
        {"ByteLevel", NORMALIZE_BYTES, 0},         {"StripAccents", NORMALIZE_STRIP_ACCENTS, 0},
        {"BertNormalizer", NORMALIZE_BERT, 0},     {"Strip", NORMALIZE_STRIP, 0},
        {"Precompiled", NORMALIZE_PRECOMPILED, 0}, {"Prepend", NORMALIZE_PREPEND, 0},
        {"Replace", NORMALIZE_REPLACE, 0},
    };
    bool known = false;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        if (!json_is(json, plain[i].type)) continue;
        known = true;
        step->kind = plain[i].kind;
        step->form = plain[i].form;
    }
    if (!known) return json_unknown(json, "normalizer");
    int status;
    switch (step->kind) {
    case NORMALIZE_BERT: return read_bert(step, json);
    case NORMALIZE_STRIP:
        status = json_boolean_member(json, "strip_left", true, &step->left);
        return status ? status : json_boolean_member(json, "strip_right", true, &step->right);
    case NORMALIZE_PREPEND: return copy_content(step, json, "prepend");
    case NORMALIZE_REPLACE:
        status = copy_content(step, json, "content");
        return status ? status : pattern_create(&step->pattern, json);
    case NORMALIZE_PRECOMPILED:
        if (!charsmap.length || normalizer->charsmap.replacements) return ENGINE_OK;
        return charsmap_open(&normalizer->charsmap, charsmap);
    default: return ENGINE_OK;
    }
}

struct reading {
    struct normalizer *normalizer;
    struct engine_string charsmap;
};

static int add_step(void *user, const struct json_at *json)
{
    struct reading *reading = user;
    struct normalizer *normalizer = reading->normalizer;
    if (json_is(json, "Sequence")) return json_each(json, "normalizers", add_step, user);
    if (!ARRAY_RESERVE(normalizer->steps, normalizer->capacity, normalizer->count + 1))
        return fail_memory("tokenizer");
    struct normalizer_step *step = &normalizer->steps[normalizer->count++];
    memset(step, 0, sizeof *step);
    return read_step(normalizer, step, json, reading->charsmap);
}

int normalizer_create(struct normalizer *normalizer, const struct json_at *json,
                      struct engine_string charsmap)
{
    struct reading reading = {normalizer, charsmap};
    if (json_absent(json)) return ENGINE_OK;
    return json_is_object(json->value) ? add_step(&reading, json) : json_wrong(json, "an object");
}

void normalizer_destroy(struct normalizer *normalizer)
{
    for (size_t i = 0; i < normalizer->count; i++) {
        free(normalizer->steps[i].content);
        pattern_destroy(&normalizer->steps[i].pattern);
    }
    free(normalizer->steps);
    charsmap_close(&normalizer->charsmap);
    memset(normalizer, 0, sizeof *normalizer);
}

void normalizer_workspace_free(struct normalizer_workspace *workspace)
{
    text_buffer_free(&workspace->texts[0]);
    text_buffer_free(&workspace->texts[1]);
    forms_workspace_free(&workspace->forms);
}

/* ---- Character by character ---- */

#define REMOVED UINT32_MAX

typedef uint32_t (*map_character)(uint32_t character);

/* Appends what `map` makes of each character; bytes that aren't UTF-8 count as U+FFFD, and stay if that
 * does. */
static int map_characters(struct engine_string text, map_character map, struct normalizer_workspace *work,
                          struct text_buffer *out)
{
    int status = text_reserve(out, text.length);
    for (size_t at = 0, length; !status && at < text.length; at += length) {
        uint32_t character;
        length = unicode_read(text.data + at, text.length - at, &character);
        uint32_t mapped = map(character);
        if (mapped == character)
            status = text_append(out, text.data + at, length);
        else if (mapped != REMOVED)
            status = text_append_character(out, mapped);
        else if (out->size == 0)
            work->cut = true;
    }
    return status;
}

static uint32_t clean(uint32_t character)
{
    if (character == '\t' || character == '\n' || character == '\r') return ' ';
    if (character >= 0x20 && character < 0x7F) return character;
    if (character_in(unclean_characters, n_unclean_characters, character)) return REMOVED;
    return unicode_is_space(character) ? ' ' : character;
}

static uint32_t without_nonspacing(uint32_t character)
{
    if (character < 0x300) return character;
    return character_in(nonspacing_characters, n_nonspacing_characters, character) ? REMOVED : character;
}

static uint32_t without_combining(uint32_t character)
{
    if (character < 0x300) return character;
    return character_in(combining_characters, n_combining_characters, character) ? REMOVED : character;
}

static uint32_t nmt(uint32_t c)
{
    if ((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F)
        return REMOVED;
    if (c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
        c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == UNICODE_REPLACEMENT)
        return ' ';
    return c;
}

static bool is_chinese(uint32_t c)
{
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
           (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) ||
           (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

static int space_chinese(struct engine_string text, struct text_buffer *out)
{
    int status = text_reserve(out, text.length);
    for (size_t at = 0, length; !status && at < text.length; at += length) {
        uint32_t character;
        length = unicode_read(text.data + at, text.length - at, &character);
        bool spaced = is_chinese(character);
        if (spaced) status = text_append(out, " ", 1);
        if (!status) status = text_append(out, text.data + at, length);
        if (!status && spaced) status = text_append(out, " ", 1);
    }
    return status;
}

static int lowercase(struct engine_string text, struct text_buffer *out)
{
    int status = text_reserve(out, text.length);
    for (size_t at = 0, length; !status && at < text.length; at += length) {
        uint32_t character;
        length = unicode_read(text.data + at, text.length - at, &character);
        uint32_t small = character_lower(character);
        if (character == 0x130)
            status = text_append(out, "i\xCC\x87", 3);
        else if (small == character)
            status = text_append(out, text.data + at, length);
        else
            status = text_append_character(out, small);
    }
    return status;
}

/* How many times as long replacements may make a text, and by how many bytes more at any length. */
enum { MAX_GROWTH = 64, FREE_GROWTH = 1 << 16 };

/* ---- Steps ---- */

/* Where white space at the beginning ends, and where that at the end begins. */
static struct engine_string normalize_strip(struct engine_string text, bool left, bool right)
{
    size_t begin = 0, end = text.length;
    uint32_t character;
    while (left && begin < end) {
        size_t length = unicode_read(text.data + begin, end - begin, &character);
        if (!unicode_is_space(character)) break;
        begin += length;
    }
    while (right && end > begin) {
        size_t start = end - 1;
        while (start > begin && end - start < 4 && ((unsigned char)text.data[start] & 0xC0) == 0x80) start--;
        if (unicode_read(text.data + start, end - start, &character) != end - start) break;
        if (!unicode_is_space(character)) break;
        end = start;
    }
    return (struct engine_string){text.data + begin, end - begin};
}

/* Replacements may follow one another, so that each multiplies what the one before has made. */
static int check_growth(const struct normalizer_workspace *work, const struct text_buffer *out, size_t more)
{
    if (out->size <= work->most && more <= work->most - out->size) return ENGINE_OK;
    return host->fail(ENGINE_ERROR_DATA,
                      "the normalizer of tokenizer.json makes a text more than %d times as long", MAX_GROWTH);
}

/* Looks a text up in the character map as the library does: the shortest key that it begins with stands for
 * all of it. */
static bool replace_part(const struct charsmap *map, const struct normalizer_workspace *work,
                         const char *part, size_t length, struct text_buffer *out, int *status)
{
    struct engine_string replacement;
    if (!charsmap_find_shortest(map, part, length, &replacement)) return false;
    *status = check_growth(work, out, replacement.length);
    if (!*status) *status = text_append(out, replacement.data, replacement.length);
    return true;
}

/* A cluster of less than six bytes is looked up as a whole, then each of its characters. */
static int replace_cluster(const struct charsmap *map, const struct normalizer_workspace *work,
                           const char *cluster, size_t length, struct text_buffer *out)
{
    int status = ENGINE_OK;
    if (length < 6 && replace_part(map, work, cluster, length, out, &status)) return status;
    for (size_t at = 0, size; !status && at < length; at += size) {
        uint32_t character;
        size = unicode_read(cluster + at, length - at, &character);
        if (!replace_part(map, work, cluster + at, size, out, &status))
            status = text_append(out, cluster + at, size);
    }
    return status;
}

static int replace_clusters(const struct charsmap *map, const struct normalizer_workspace *work,
                            struct engine_string text, struct text_buffer *out)
{
    int status = text_reserve(out, text.length);
    size_t begin = 0;
    uint32_t last = 0;
    int32_t state = 0;
    for (size_t at = 0, length; !status && at < text.length; at += length) {
        uint32_t character;
        length = unicode_read(text.data + at, text.length - at, &character);
        bool boundary = at > 0 && utf8proc_grapheme_break_stateful((int32_t)last, (int32_t)character, &state);
        if (boundary) {
            status = replace_cluster(map, work, text.data + begin, at - begin, out);
            begin = at;
        }
        last = character;
    }
    if (!status && begin < text.length)
        status = replace_cluster(map, work, text.data + begin, text.length - begin, out);
    return status;
}

struct replacing {
    const struct normalizer_step *step;
    struct normalizer_workspace *work;
    struct engine_string text;
    struct text_buffer *out;
};

static int replace_match(void *user, size_t start, size_t end, bool matched)
{
    struct replacing *replacing = user;
    int status = check_growth(replacing->work, replacing->out,
                              matched ? replacing->step->content_length : end - start);
    if (status) return status;
    if (matched && end > start && !replacing->step->content_length && !replacing->out->size)
        replacing->work->cut = true;
    if (matched)
        return text_append(replacing->out, replacing->step->content, replacing->step->content_length);
    return text_append(replacing->out, replacing->text.data + start, end - start);
}

static int apply_bert(const struct normalizer_step *step, struct normalizer_workspace *work,
                      struct engine_string *text, unsigned *into)
{
    int status = ENGINE_OK;
    struct text_buffer *out;
#define PASS(ON, CALL)                                                                                       \
    if (!status && (ON)) {                                                                                   \
        out = &work->texts[*into];                                                                           \
        out->size = 0;                                                                                       \
        status = (CALL);                                                                                     \
        *text = (struct engine_string){out->data, out->size};                                                \
        *into ^= 1;                                                                                          \
    }
    PASS(step->clean, map_characters(*text, clean, work, out))
    PASS(step->space_chinese, space_chinese(*text, out))
    PASS(step->strip_accents, forms_apply(FORM_NFD, *text, &work->forms, out))
    PASS(step->strip_accents, map_characters(*text, without_nonspacing, work, out))
    PASS(step->lowercase, lowercase(*text, out))
#undef PASS
    return status;
}

static int apply_step(const struct normalizer *normalizer, const struct normalizer_step *step,
                      struct normalizer_workspace *work, struct engine_string text, struct text_buffer *out)
{
    struct replacing replacing = {step, work, text, out};
    int status;
    switch (step->kind) {
    case NORMALIZE_BYTES:
        status = check_growth(work, out, text.length);
        return status ? status : bytes_spell(text, out);
    case NORMALIZE_FORM: return forms_apply(step->form, text, &work->forms, out);
    case NORMALIZE_LOWERCASE: return lowercase(text, out);
    case NORMALIZE_NMT: return map_characters(text, nmt, work, out);
    case NORMALIZE_PRECOMPILED: return replace_clusters(&normalizer->charsmap, work, text, out);
    case NORMALIZE_PREPEND:
        status = check_growth(work, out, step->content_length);
        if (!status && text.length) status = text_append(out, step->content, step->content_length);
        return status ? status : text_append(out, text.data, text.length);
    case NORMALIZE_REPLACE:
        return pattern_visit_all(&step->pattern, work->regex, text, replace_match, &replacing);
    case NORMALIZE_STRIP_ACCENTS: return map_characters(text, without_combining, work, out);
    default: return host->fail(ENGINE_ERROR, "a normalizer without a meaning");
    }
}

int normalizer_apply(const struct normalizer *normalizer, struct normalizer_workspace *work,
                     struct engine_string text, struct engine_string *result)
{
    unsigned into = 0; /* the text that is not in use */
    work->cut = false;
    if (__builtin_mul_overflow(text.length, (size_t)MAX_GROWTH, &work->most) ||
        __builtin_add_overflow(work->most, (size_t)FREE_GROWTH, &work->most))
        work->most = SIZE_MAX;
    int status = ENGINE_OK;
    for (size_t i = 0; !status && i < normalizer->count; i++) {
        const struct normalizer_step *step = &normalizer->steps[i];
        if (step->kind == NORMALIZE_STRIP) {
            const char *begin = text.data;
            text = normalize_strip(text, step->left, step->right);
            work->cut = work->cut || text.data != begin;
            continue;
        }
        if (step->kind == NORMALIZE_BERT) {
            status = apply_bert(step, work, &text, &into);
            continue;
        }
        struct text_buffer *out = &work->texts[into];
        out->size = 0;
        status = apply_step(normalizer, step, work, text, out);
        text = (struct engine_string){out->data, out->size};
        into ^= 1;
    }
    *result = text;
    return status;
}
