/* pair.c: the tokens of two texts that a model reads together: [CLS] a [SEP] b [SEP], or what its tokenizer
 * or its template makes of them. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "base/error.h"
#include "common/array.h"
#include "internal.h"
#include "model/model.h"

/* What a pair becomes. */
struct pair {
    int32_t *ids;
    size_t count, capacity;
};

static int collect_tokens(void *user, const int32_t *ids, size_t count)
{
    struct pair *pair = user;
    if (!ARRAY_RESERVE(pair->ids, pair->capacity, pair->count + count)) return error_memory("pair of texts");
    memcpy(pair->ids + pair->count, ids, count * sizeof *ids);
    pair->count += count;
    return ENGINE_OK;
}

/* ---- By a template ------------------------------------------------------------------------------------- */

/* llama.cpp's template "rerank" has {query} and {document}; in Jinja's language those are {{ query }} and
 * {{ document }}. The empty expression at the end keeps a last line break. New memory. */
static char *as_jinja(struct engine_string text, size_t *length)
{
    static const struct {
        const char *from, *to;
    } names[] = {{"{query}", "{{ query }}"}, {"{document}", "{{ document }}"}};
    char *result = malloc(text.length * 2 + 16), *to = result;
    for (size_t i = 0; result && i < text.length;) {
        size_t n = 0;
        while (n < 2 && (text.length - i < strlen(names[n].from) ||
                         memcmp(text.data + i, names[n].from, strlen(names[n].from)) != 0))
            n++;
        if (n == 2) {
            *to++ = text.data[i++];
            continue;
        }
        memcpy(to, names[n].to, strlen(names[n].to));
        to += strlen(names[n].to);
        i += strlen(names[n].from);
    }
    if (!result) return NULL;
    memcpy(to, "{{ '' }}", 8);
    *length = (size_t)(to - result) + 8;
    return result;
}

static int by_template(struct engine_model *model, struct engine_string source, struct engine_string first,
                       struct engine_string second, struct pair *pair)
{
    size_t length = 0;
    char *jinja = as_jinja(source, &length);
    json_t *texts =
        json_pack("{s:s%, s:s%}", "query", first.data, first.length, "document", second.data, second.length);
    char *variables = texts ? json_dumps(texts, JSON_COMPACT) : NULL;
    const struct engine_template_options options = {
        .struct_size = sizeof options, .source = {jinja, length}, .origin = "the model's template rerank"};
    struct engine_template *template = NULL;
    struct engine_rendered *rendered = NULL;
    int status = jinja && texts && variables ? ENGINE_OK
                 : texts || !jinja           ? error_memory("pair of texts")
                                   : error_raise(ENGINE_ERROR_DATA, "a text of the pair is not UTF-8");
    if (!status) status = engine_template_create(model, &options, &template);
    if (!status) {
        const struct engine_template_input input = {
            .struct_size = sizeof input, .messages = {"[]", 2}, .variables = {variables, strlen(variables)}};
        status = engine_template_render(template, &input, &rendered);
    }
    if (!status) status = engine_rendered_encode(rendered, 0, collect_tokens, pair);
    engine_rendered_free(rendered);
    engine_template_destroy(template);
    free(variables);
    json_decref(texts);
    free(jinja);
    return status;
}

/* Whether a place within a text is within a character of UTF-8. */
static bool splits_character(struct engine_string text, size_t at)
{
    return at < text.length && ((unsigned char)text.data[at] & 0xC0) == 0x80;
}

/* The longest beginning of the second text with which the pair fits into n_most tokens; 0: any. */
static int by_template_within(struct engine_model *model, struct engine_string source,
                              struct engine_string first, struct engine_string second, size_t n_most,
                              struct pair *pair)
{
    size_t least = 0,
           most = second.length; /* bytes: those that are known to fit, if any, and the most that may */
    int status = by_template(model, source, first, second, pair);
    if (status || n_most == 0 || pair->count <= n_most) return status;
    while (least < most && !status) {
        size_t length = least + (most - least + 1) / 2;
        pair->count = 0;
        while (length < most && splits_character(second, length)) length++;
        status = by_template(model, source, first, (struct engine_string){second.data, length}, pair);
        if (pair->count <= n_most)
            least = length;
        else
            for (most = length - 1; most > least && splits_character(second, most);) most--;
    }
    pair->count = 0;
    if (!status) status = by_template(model, source, first, (struct engine_string){second.data, least}, pair);
    return !status && pair->count > n_most
               ? error_raise(ENGINE_ERROR_DATA,
                             "a pair of texts does not fit into %zu tokens without the second", n_most)
               : status;
}

/* ---- By the tokenizer ---------------------------------------------------------------------------------- */

/* Whether two special tokens part the texts, </s></s>, as in RoBERTa. WordPiece has one, [SEP]. */
static bool has_two_between(const struct engine_model *model, bool is_wordpiece)
{
    const struct engine_metadata *metadata = &model->getters;
    int flag;
    if (is_wordpiece) return false;
    if (metadata->get_boolean(metadata->context, "tokenizer.ggml.add_sep_token", &flag) == ENGINE_OK)
        return flag != 0;
    const struct architecture *architecture = arch_named(model->architecture);
    return architecture && architecture->parts_pairs_twice;
}

static bool uses_wordpiece(const struct engine_model *model)
{
    const struct engine_metadata *metadata = &model->getters;
    struct engine_string kind;
    return metadata->get_string(metadata->context, "tokenizer.ggml.model", &kind) == ENGINE_OK &&
           kind.length == 4 && memcmp(kind.data, "bert", 4) == 0;
}

/* The type of the second text's tokens: 1 where the model tells two texts apart and its tokenizer says which
 * is which. */
static int32_t second_type(const struct engine_model *model, bool two_between)
{
    const struct model_tensor *types = model_tensor_find(model->model, "token_types.weight");
    return types && types->ne[1] > 1 && !two_between ? 1 : 0;
}

static int refuse_limit(size_t n_most)
{
    return error_raise(ENGINE_ERROR_DATA,
                       "a pair of texts does not fit into %zu tokens, even if both are empty", n_most);
}

/* Shortens two texts to n_most tokens together: the longer one until both are as long, then both. */
static void pair_shorten(size_t *n_first, size_t *n_second, size_t n_most)
{
    if (*n_first + *n_second <= n_most) return;
    size_t shorter = *n_first < *n_second ? *n_first : *n_second, half = n_most / 2;
    if (shorter > half) shorter = half;
    bool is_first = *n_first <= *n_second;
    *n_first = is_first ? shorter : n_most - shorter;
    *n_second = n_most - *n_first;
}

/* begin a end b end, and `end` twice between the two where the model wants that. n_most: as in
 * engine_model_encode_pair_within. */
static int by_tokenizer(struct engine_model *model, struct engine_string first, struct engine_string second,
                        size_t n_most, struct pair *pair, size_t *n_first, bool *two_between)
{
    const struct engine_tokenizer_api *api;
    struct engine_tokenizer *tokenizer;
    struct pair around = {0}, plain = {0}, other = {0};
    int status = engine_model_tokenizer(model, &api, &tokenizer);
    if (status) return status;
    *two_between = has_two_between(model, uses_wordpiece(model));
    status = api->encode(tokenizer, "", 0, ENGINE_ENCODE_BOS_EOS, collect_tokens, &around);
    if (!status) status = api->encode(tokenizer, first.data, first.length, 0, collect_tokens, &plain);
    if (!status)
        status =
            api->encode(tokenizer, first.data, first.length, ENGINE_ENCODE_BOS_EOS, collect_tokens, pair);
    /* What the tokenizer adds after a text: all tokens that are neither the text's nor before it. */
    size_t n_added = pair->count - plain.count, n_before = 0;
    if (!status && pair->count >= plain.count)
        while (n_before < n_added && n_before < around.count && pair->ids[n_before] == around.ids[n_before] &&
               (plain.count == 0 ||
                memcmp(pair->ids + n_before, plain.ids, plain.count * sizeof *plain.ids) != 0))
            n_before++;
    if (!status && (pair->count < plain.count || n_added != around.count))
        status = error_raise(
            ENGINE_ERROR_UNSUPPORTED,
            "the tokenizer does not say how it joins two texts: what it adds depends on the text");
    if (!status && plain.count == 0 && around.count > 1) n_before = 1;
    size_t n_behind = n_added - n_before;
    const int32_t *behind = around.ids + n_before;
    if (!status) status = api->encode(tokenizer, second.data, second.length, 0, collect_tokens, &other);
    size_t n_special = n_added + (*two_between ? n_behind : 0) + n_behind, n_kept = plain.count;
    if (!status && n_most > 0 && n_special > n_most) status = refuse_limit(n_most);
    if (!status && n_most > 0) {
        pair_shorten(&n_kept, &other.count, n_most - n_special);
        size_t end = n_before + plain.count;
        if (n_kept < plain.count)
            memmove(pair->ids + n_before + n_kept, pair->ids + end, n_behind * sizeof *pair->ids);
        pair->count -= plain.count - n_kept;
    }
    if (!status && *two_between && n_behind > 0) status = collect_tokens(pair, behind, n_behind);
    *n_first = pair->count;
    if (!status && other.count > 0) status = collect_tokens(pair, other.ids, other.count);
    if (!status && n_behind > 0) status = collect_tokens(pair, behind, n_behind);
    free(other.ids);
    free(around.ids);
    free(plain.ids);
    return status;
}

int engine_model_encode_pair(struct engine_model *model, struct engine_string first,
                             struct engine_string second, engine_pair_sink sink, void *user)
{
    return engine_model_encode_pair_within(model, first, second, 0, sink, user);
}

int engine_model_encode_pair_within(struct engine_model *model, struct engine_string first,
                                    struct engine_string second, size_t n_most, engine_pair_sink sink,
                                    void *user)
{
    const struct engine_metadata *metadata = &model->getters;
    struct engine_string source;
    struct pair pair = {0};
    size_t n_first = 0;
    bool two_between = false;
    bool has_template =
        metadata->get_string(metadata->context, "tokenizer.chat_template.rerank", &source) == ENGINE_OK;
    int status = has_template ? by_template_within(model, source, first, second, n_most, &pair)
                              : by_tokenizer(model, first, second, n_most, &pair, &n_first, &two_between);
    int32_t *types = status ? NULL : calloc(pair.count + 1, sizeof *types);
    if (!status && !types) status = error_memory("pair of texts");
    int32_t type = has_template ? 0 : second_type(model, two_between);
    for (size_t i = n_first; !status && i < pair.count; i++) types[i] = type;
    if (!status) status = sink(user, pair.ids, types, pair.count);
    free(types);
    free(pair.ids);
    return status;
}
