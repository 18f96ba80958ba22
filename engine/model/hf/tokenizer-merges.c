/* tokenizer-merges.c: takes the merges out of the text of a tokenizer.json. They are most of its values, and Jansson spends
 * more time on them than on everything else. What isn't plainly a list of merges stays where it is, so that Jansson
 * judges it: what is taken out is valid JSON in the place of a value, and the text without it is as valid as before. */
#include <stdlib.h>
#include <string.h>

#include "model/hf/tokenizer-parts.h"
#include "model/hf/tokenizer-scan.h"

/* "left right", or ["left", "right"]. */
static bool read_pair(struct scan *c, char **to, struct engine_string pair[2])
{
    if (scan_take(c, '['))
        return scan_string(c, to, &pair[0]) && scan_take(c, ',') && scan_string(c, to, &pair[1]) &&
               scan_take(c, ']');
    struct engine_string *left = &pair[0], *right = &pair[1];
    if (!scan_string(c, to, left)) return false;
    const char *space = memchr(left->data, ' ', left->length), *end = left->data + left->length;
    if (!space || memchr(space + 1, ' ', (size_t)(end - space) - 1)) return false;
    *right = (struct engine_string){space + 1, (size_t)(end - space) - 1};
    left->length = (size_t)(space - left->data);
    return true;
}

static bool read_pairs(struct scan *c, struct hf_merges *merges)
{
    size_t capacity = 0;
    char *to = merges->text;
    if (!scan_take(c, '[')) return false;
    if (scan_take(c, ']')) return true;
    do {
        if (merges->n == capacity) {
            capacity = 2 * capacity + 1024;
            struct engine_string(*pairs)[2] = realloc(merges->pairs, capacity * sizeof *pairs);
            if (!pairs) return false;
            merges->pairs = pairs;
        }
        if (!read_pair(c, &to, merges->pairs[merges->n])) return false;
        merges->n++;
    } while (scan_take(c, ','));
    return scan_take(c, ']');
}

char *hf_merges_take(const char *text, size_t size, size_t *rest, struct hf_merges *merges)
{
    struct scan c = {text, text + size};
    *merges = (struct hf_merges){0};
    if (!scan_enter(&c, "model") || !scan_enter(&c, "merges")) return NULL;
    size_t first = (size_t)(c.at - text);
    merges->text = malloc(size - first + 1);
    char *without = merges->text && read_pairs(&c, merges) ? scan_without(text, first, &c, "[]", rest) : NULL;
    if (without) {
        merges->taken = true;
        return without;
    }
    hf_merges_free(merges);
    return NULL;
}

void hf_merges_free(struct hf_merges *merges)
{
    free(merges->text);
    free(merges->pairs);
    *merges = (struct hf_merges){0};
}
