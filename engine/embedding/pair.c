/* pair.c: the tokens of two texts that a model reads together: [CLS] a [SEP] b [SEP], or what its tokenizer or its
 * template makes of them. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "internal.h"

/* What a pair becomes. */
struct pair {
    int32_t *ids;
    size_t count, room;
};

static int collect(void *user, const int32_t *ids, size_t count)
{
    struct pair *pair = user;
    if (count > pair->room - pair->count) {
        size_t room = pair->room * 2 + count + 16;
        int32_t *grown = realloc(pair->ids, room * sizeof *grown);
        if (!grown) return error_memory("pair of texts");
        pair->ids = grown;
        pair->room = room;
    }
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
    if (!status) status = engine_rendered_encode(rendered, 0, collect, pair);
    engine_rendered_free(rendered);
    engine_template_destroy(template);
    free(variables);
    json_decref(texts);
    free(jinja);
    return status;
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
    return strcmp(model->architecture, "bert") == 0;
}

static bool uses_wordpiece(const struct engine_model *model)
{
    const struct engine_metadata *metadata = &model->getters;
    struct engine_string kind;
    return metadata->get_string(metadata->context, "tokenizer.ggml.model", &kind) == ENGINE_OK &&
           kind.length == 4 && memcmp(kind.data, "bert", 4) == 0;
}

/* The type of the second text's tokens: 1 where the model tells two texts apart and its tokenizer says which is which. */
static int32_t second_type(const struct engine_model *model, bool two_between)
{
    const struct model_tensor *types = model_tensor_find(model->model, "token_types.weight");
    return types && types->ne[1] > 1 && !two_between ? 1 : 0;
}

/* begin a end b end, and `end` twice between the two where the model wants that. */
static int by_tokenizer(struct engine_model *model, struct engine_string first, struct engine_string second,
                        struct pair *pair, size_t *n_first, bool *two_between)
{
    const struct engine_tokenizer_api *api;
    struct engine_tokenizer *tokenizer;
    struct pair around = {0}, plain = {0};
    int status = engine_model_tokenizer(model, &api, &tokenizer);
    if (status) return status;
    *two_between = has_two_between(model, uses_wordpiece(model));
    status = api->encode(tokenizer, "", 0, ENGINE_ENCODE_BOS_EOS, collect, &around);
    if (!status) status = api->encode(tokenizer, first.data, first.length, 0, collect, &plain);
    if (!status)
        status = api->encode(tokenizer, first.data, first.length, ENGINE_ENCODE_BOS_EOS, collect, pair);
    /* What the tokenizer adds behind a text: all that is not the text's and not in front of it. */
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
    if (!status && *two_between && n_behind > 0) status = collect(pair, behind, n_behind);
    *n_first = pair->count;
    if (!status) status = api->encode(tokenizer, second.data, second.length, 0, collect, pair);
    if (!status && n_behind > 0) status = collect(pair, behind, n_behind);
    free(around.ids);
    free(plain.ids);
    return status;
}

int engine_model_encode_pair(struct engine_model *model, struct engine_string first,
                             struct engine_string second, engine_pair_sink sink, void *user)
{
    const struct engine_metadata *metadata = &model->getters;
    struct engine_string source;
    struct pair pair = {0};
    size_t n_first = 0;
    bool two_between = false;
    bool has_template =
        metadata->get_string(metadata->context, "tokenizer.chat_template.rerank", &source) == ENGINE_OK;
    int status = has_template ? by_template(model, source, first, second, &pair)
                              : by_tokenizer(model, first, second, &pair, &n_first, &two_between);
    int32_t *types = status ? NULL : calloc(pair.count + 1, sizeof *types);
    if (!status && !types) status = error_memory("pair of texts");
    int32_t type = has_template ? 0 : second_type(model, two_between);
    for (size_t i = n_first; !status && i < pair.count; i++) types[i] = type;
    if (!status) status = sink(user, pair.ids, types, pair.count);
    free(types);
    free(pair.ids);
    return status;
}
