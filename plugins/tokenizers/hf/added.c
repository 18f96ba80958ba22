/* added.c: see added.h. Of all tokens at a place the longest counts, and the leftmost place comes first. */
#include "hf/added.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "hf/characters.h"

static int add_to_set(struct added_set *set, struct engine_string content, struct added_token token)
{
    if (!content.length) return ENGINE_OK;
    if (!ARRAY_RESERVE(set->tokens, set->capacity, set->count + 1)) return fail_memory("tokenizer");
    set->tokens[set->count] = token;
    uint32_t index = (uint32_t)set->count++;
    int status = trie_insert(&set->trie, content.data, content.length, false, index, &index);
    /* Of two that the normalizer made equal, the first special one counts, or the first; of two with the same
     * id the last. */
    const struct added_token *first = &set->tokens[index];
    bool counts = first->id == token.id || (token.special && !first->special);
    if (!status && counts) set->tokens[index] = token;
    set->begins[(unsigned char)content.data[0]] = true;
    return status;
}

static int add_spelling(struct added *added, int32_t id, struct engine_string text)
{
    if (!ARRAY_RESERVE(added->spellings, added->spellings_capacity, added->n_spellings + 1))
        return fail_memory("tokenizer");
    char *copy = allocate(text.length, 1);
    if (!copy) return fail_memory("tokenizer");
    if (text.length) memcpy(copy, text.data, text.length);
    added->spellings[added->n_spellings++] = (struct added_spelling){id, copy, text.length};
    return ENGINE_OK;
}

struct engine_string added_spelling(const struct added *added, int32_t id, struct engine_string content)
{
    for (size_t i = added->n_spellings; i-- > 0;)
        if (added->spellings[i].id == id)
            return (struct engine_string){added->spellings[i].text, added->spellings[i].length};
    return content;
}

static int add_token(struct added *added, const struct json_at *json, uint32_t n_tokens,
                     const struct normalizer *normalizer, struct normalizer_workspace *workspace)
{
    struct added_token token = {0};
    struct engine_string content = {NULL, 0};
    bool normalized = false;
    int64_t id = -1;
    struct json_at id_at = json_member(json, "id");
    int status = json_integer_member(json, "id", -1, &id);
    if (!status && (id < 0 || id >= n_tokens)) return json_wrong(&id_at, "a token of the vocabulary");
    token.id = (int32_t)id;
    if (!status) status = json_string_member(json, "content", NULL, &content);
    if (!status) status = json_boolean_member(json, "special", false, &token.special);
    if (!status) status = json_boolean_member(json, "single_word", false, &token.single_word);
    if (!status) status = json_boolean_member(json, "lstrip", false, &token.strip_left);
    if (!status) status = json_boolean_member(json, "rstrip", false, &token.strip_right);
    if (!status) status = json_boolean_member(json, "normalized", !token.special, &normalized);
    if (!status && normalized) {
        struct engine_string given = content;
        status = normalizer_apply(normalizer, workspace, given, &content);
        bool same = content.length == given.length && memcmp(content.data, given.data, given.length) == 0;
        if (!status && !same) status = add_spelling(added, token.id, content);
    }
    return status ? status : add_to_set(&added->sets[normalized], content, token);
}

int added_create(struct added *added, const struct json_at *json, uint32_t n_tokens,
                 const struct normalizer *normalizer, struct normalizer_workspace *workspace)
{
    int status = trie_create(&added->sets[0].trie, 256);
    if (!status) status = trie_create(&added->sets[1].trie, 256);
    if (status || json_absent(json)) return status;
    if (!json_is_array(json->value)) return json_wrong(json, "an array");
    for (size_t i = 0; !status && i < json_array_size(json->value); i++) {
        struct json_at element = json_element(json, i);
        status = json_is_object(element.value) ? add_token(added, &element, n_tokens, normalizer, workspace)
                                               : json_wrong(&element, "an object");
    }
    return status;
}

void added_destroy(struct added *added)
{
    for (int i = 0; i < 2; i++) {
        trie_destroy(&added->sets[i].trie);
        free(added->sets[i].tokens);
    }
    for (size_t i = 0; i < added->n_spellings; i++) free(added->spellings[i].text);
    free(added->spellings);
    memset(added, 0, sizeof *added);
}

/* The longest token at `at`: its index, or TRIE_NONE; *end: where it ends. */
static uint32_t match_at(const struct added_set *set, struct engine_string text, size_t at, size_t *end)
{
    uint32_t node = TRIE_ROOT, found = TRIE_NONE;
    for (size_t i = at; i < text.length; i++) {
        node = trie_step(&set->trie, node, (unsigned char)text.data[i]);
        if (node == TRIE_NONE) break;
        if (set->trie.values[node] == TRIE_NONE) continue;
        found = set->trie.values[node];
        *end = i + 1;
    }
    return found;
}

/* The character that ends before `at`; its length, 0 at the beginning. */
static size_t character_before(struct engine_string text, size_t at, uint32_t *character)
{
    if (at == 0) return 0;
    size_t start = at - 1;
    while (start > 0 && at - start < 4 && ((unsigned char)text.data[start] & 0xC0) == 0x80) start--;
    if (unicode_read(text.data + start, at - start, character) == at - start) return at - start;
    *character = UNICODE_REPLACEMENT;
    return 1;
}

static bool is_single_word(struct engine_string text, size_t start, size_t end)
{
    uint32_t character;
    if (character_before(text, start, &character) && character_is_word(character)) return false;
    if (end == text.length) return true;
    unicode_read(text.data + end, text.length - end, &character);
    return !character_is_word(character);
}

int added_split(const struct added_set *set, struct engine_string text, bool special, added_visit visit,
                void *user)
{
    size_t done = 0;
    int status = ENGINE_OK;
    for (size_t at = 0; !status && set->count && at < text.length;) {
        size_t end = 0;
        if (!set->begins[(unsigned char)text.data[at]]) {
            at++;
            continue;
        }
        uint32_t index = match_at(set, text, at, &end);
        if (index == TRIE_NONE) {
            at++;
            continue;
        }
        size_t start = at;
        const struct added_token *token = &set->tokens[index];
        at = end; /* the search goes on after the token, whether it counts or not */
        if (token->special && !special) continue;
        if (token->single_word && !is_single_word(text, start, end)) continue;
        uint32_t character;
        size_t length;
        while (token->strip_left && start > done &&
               (length = character_before(text, start, &character)) > 0 && unicode_is_space(character))
            start -= length;
        while (token->strip_right && end < text.length &&
               (length = unicode_read(text.data + end, text.length - end, &character)) > 0 &&
               unicode_is_space(character))
            end += length;
        /* The white space that another one has stripped is found again, unless there would be nothing
         * left. */
        if (token->strip_left && start < done) start = done;
        if (start >= end) continue;
        if (start > done) status = visit(user, (struct engine_string){text.data + done, start - done}, -1);
        if (!status) status = visit(user, (struct engine_string){text.data + start, end - start}, token->id);
        done = end;
    }
    if (!status && done < text.length)
        status = visit(user, (struct engine_string){text.data + done, text.length - done}, -1);
    return status;
}
