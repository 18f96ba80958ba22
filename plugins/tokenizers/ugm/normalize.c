/* normalize.c: prepares a text for tokenization: characters are replaced by the map, spaces become U+2581,
 * runs of them are merged if the vocabulary says so, bytes that are no UTF-8 become U+FFFD. */
#include "common/memory.h"
#include "common/unicode.h"
#include "common/utf8.h"
#include "ugm/model.h"

#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

struct normalization {
    const struct ugm_model *model;
    struct ugm_scratch *scratch;
    size_t length;     /* of what has been written */
    bool in_word;      /* the last character was no space */
    bool space_is_due; /* no space has been put before the text yet */
};

/* Makes room for `count` more bytes, each of which may be a space, and a leading space. */
static int reserve(struct normalization *work, size_t count)
{
    struct ugm_scratch *scratch = work->scratch;
    if (count < (scratch->capacity - work->length) / SPACE_MARK_SIZE) return ENGINE_OK;
    if (count > (SIZE_MAX / 2 - work->length) / SPACE_MARK_SIZE - 1 ||
        !ARRAY_RESERVE(scratch->text, scratch->capacity, work->length + (count + 1) * SPACE_MARK_SIZE))
        return fail_memory("text");
    return ENGINE_OK;
}

static void normalize_put(struct normalization *work, const char *text, size_t length)
{
    memcpy(work->scratch->text + work->length, text, length);
    work->length += length;
}

static int put_text(struct normalization *work, const char *text, size_t length)
{
    int status = reserve(work, length);
    if (status) return status;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == ' ') {
            work->in_word = false;
            if (!work->model->merge_spaces) normalize_put(work, SPACE_MARK, SPACE_MARK_SIZE);
            continue;
        }
        if (!work->in_word && (work->space_is_due || work->model->merge_spaces)) {
            normalize_put(work, SPACE_MARK, SPACE_MARK_SIZE);
            work->space_is_due = false;
        }
        work->in_word = true;
        work->scratch->text[work->length++] = text[i];
    }
    return ENGINE_OK;
}

/* How many bytes of the text are also the beginning of a user-defined token. Such bytes are left as they are,
 * even if no whole token follows: llama.cpp does so, though SentencePiece doesn't. */
static size_t user_defined(const struct special_set *set, const char *text, size_t length)
{
    if (!set->count) return 0;
    size_t i = 0;
    for (uint32_t node = TRIE_ROOT; i < length; i++) {
        node = trie_step(&set->trie, node, (unsigned char)text[i]);
        if (node == TRIE_NONE) break;
    }
    return i;
}

/* How many characters from `text` on are ASCII that stays as it is. */
static size_t count_plain(const struct ugm_model *model, const char *text, size_t length)
{
    size_t n = 0;
    while (n < length && (unsigned char)text[n] < 128 && model->plain[(unsigned char)text[n]]) n++;
    /* Of the last one, what follows may make something else. */
    return n && n < length && (unsigned char)text[n] >= 128 ? n - 1 : n;
}

int ugm_normalize(const struct engine_tokenizer *tokenizer, struct engine_string text,
                  struct ugm_scratch *scratch, size_t *length)
{
    const struct ugm_model *model = tokenizer->model;
    struct normalization work = {model, scratch, 0, false, model->add_space};
    int status = ENGINE_OK;
    for (size_t at = 0, size; !status && at < text.length; at += size) {
        const char *from = text.data + at;
        size_t left = text.length - at;
        struct engine_string replacement;
        uint32_t code_point;
        if ((size = count_plain(model, from, left)) ||
            (size = user_defined(&tokenizer->always, from, left))) {
            status = put_text(&work, from, size);
        } else if ((size = charsmap_find(&model->charsmap, from, left, &replacement))) {
            status = put_text(&work, replacement.data, replacement.length);
        } else {
            size = unicode_read(from, left, &code_point);
            bool wrong = size == 1 && (unsigned char)*from >= 0x80;
            status =
                wrong ? put_text(&work, REPLACEMENT, sizeof REPLACEMENT - 1) : put_text(&work, from, size);
        }
    }
    *length = work.length;
    return status;
}
