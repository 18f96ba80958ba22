/* pipeline.c: makes a pipeline of the metadata. See pipeline.h. */
#include "hf/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "common/json-read.h"
#include "common/memory.h"

#define JSON "tokenizer.hf.json"
#define ENDS "tokenizer.hf.eos_token_ids" /* all tokens at which generation ends */

static int append_id(struct id_list *list, int64_t id, uint32_t n_tokens, const struct json_at *place)
{
    if (id < 0 || id >= n_tokens) return json_wrong(place, "a token of the vocabulary");
    if (!ARRAY_RESERVE(list->ids, list->capacity, list->count + 1)) return fail_memory("tokenizer");
    list->ids[list->count++] = (int32_t)id;
    return ENGINE_OK;
}

/* ---- The post-processor ---- */

struct processing {
    struct pipeline *pipeline;
    uint32_t n_tokens;
};

/* Puts `more` before the list. */
static int prepend_ids(struct id_list *list, const struct id_list *more)
{
    if (!ARRAY_RESERVE(list->ids, list->capacity, list->count + more->count)) return fail_memory("tokenizer");
    if (list->count) memmove(list->ids + more->count, list->ids, list->count * sizeof *list->ids);
    if (more->count) memcpy(list->ids, more->ids, more->count * sizeof *more->ids);
    list->count += more->count;
    return ENGINE_OK;
}

static int append_ids(struct id_list *list, const struct id_list *more, uint32_t n_tokens,
                      const struct json_at *place)
{
    int status = ENGINE_OK;
    for (size_t i = 0; !status && i < more->count; i++)
        status = append_id(list, more->ids[i], n_tokens, place);
    return status;
}

/* The ids of a special token of a template. */
static int read_template_token(const struct processing *work, const struct json_at *json,
                               const struct json_at *item, struct id_list *list)
{
    struct json_at tokens = json_member(json, "special_tokens"), special = json_member(item, "SpecialToken");
    struct engine_string name;
    int status = json_string_member(&special, "id", NULL, &name);
    if (status) return status;
    struct json_at token = json_member(&tokens, name.data), ids = json_member(&token, "ids");
    if (!json_is_array(ids.value)) return json_wrong(&ids, "an array");
    for (size_t i = 0; !status && i < json_array_size(ids.value); i++) {
        struct json_at id = json_element(&ids, i);
        status = json_is_integer(id.value)
                     ? append_id(list, json_integer_value(id.value), work->n_tokens, &id)
                     : json_wrong(&id, "an integer");
    }
    return status;
}

static int read_template(const struct processing *work, const struct json_at *json, struct id_list *before,
                         struct id_list *after)
{
    struct json_at single = json_member(json, "single");
    bool text = false;
    int status = ENGINE_OK;
    if (!json_is_array(single.value)) return json_wrong(&single, "an array");
    for (size_t i = 0; !status && i < json_array_size(single.value); i++) {
        struct json_at item = json_element(&single, i);
        if (json_object_get(item.value, "Sequence")) {
            if (text) return json_wrong(&single, "a template with one text");
            text = true;
        } else {
            status = read_template_token(work, json, &item, text ? after : before);
        }
    }
    return status;
}

/* ["[CLS]", 2] */
static int read_pair(const struct processing *work, const struct json_at *json, const char *name,
                     struct id_list *list)
{
    struct json_at pair = json_member(json, name), id = json_element(&pair, 1);
    if (!json_is_integer(id.value)) return json_wrong(&id, "an integer");
    return append_id(list, json_integer_value(id.value), work->n_tokens, &id);
}

static int add_processor(void *user, const struct json_at *json)
{
    const struct processing *work = user;
    struct id_list before = {NULL, 0, 0}, after = {NULL, 0, 0};
    int status;
    if (json_is(json, "Sequence")) return json_each(json, "processors", add_processor, user);
    if (json_is(json, "ByteLevel")) return ENGINE_OK; /* about offsets alone */
    if (json_is(json, "TemplateProcessing")) {
        status = read_template(work, json, &before, &after);
    } else if (json_is(json, "BertProcessing") || json_is(json, "RobertaProcessing")) {
        status = read_pair(work, json, "cls", &before);
        if (!status) status = read_pair(work, json, "sep", &after);
    } else {
        return json_unknown(json, "post-processor");
    }
    if (!status) status = prepend_ids(&work->pipeline->before, &before);
    if (!status) status = append_ids(&work->pipeline->after, &after, work->n_tokens, json);
    free(before.ids);
    free(after.ids);
    return status;
}

/* "add_bos" and "add_eos", which tokenizer_config.json may ask for, count more than the post-processor. */
static int apply_config(struct pipeline *pipeline, const struct vocab *vocab, const struct json_at *root)
{
    struct json_at bos = json_member(root, "add_bos"), eos = json_member(root, "add_eos");
    struct id_list *before = &pipeline->before, *after = &pipeline->after;
    bool has_bos = before->count && before->ids[0] == vocab->bos;
    bool has_eos = after->count && after->ids[after->count - 1] == vocab->eos;
    int status = ENGINE_OK;
    if (json_is_true(bos.value) && !has_bos && vocab->bos >= 0) {
        int32_t id = vocab->bos;
        struct id_list one = {&id, 1, 1};
        status = prepend_ids(before, &one);
    }
    if (json_is_false(bos.value) && has_bos)
        memmove(before->ids, before->ids + 1, --before->count * sizeof *before->ids);
    if (!status && json_is_true(eos.value) && !has_eos && vocab->eos >= 0)
        status = append_id(after, vocab->eos, vocab->n_tokens, &eos);
    if (json_is_false(eos.value) && has_eos) after->count--;
    return status;
}

static void pipeline_describe(const struct pipeline *pipeline, struct vocab *vocab)
{
    vocab->add_bos = pipeline->before.count && pipeline->before.ids[0] == vocab->bos;
    vocab->add_eos = vocab->add_separator = false;
    for (size_t i = 0; i < pipeline->after.count; i++) {
        if (pipeline->after.ids[i] == vocab->separator)
            vocab->add_separator = true;
        else if (pipeline->after.ids[i] == vocab->eos)
            vocab->add_eos = true;
    }
}

/* ---- The vocabulary ---- */

/* Tokens without text have names of their own in common/vocab.c, one after the other. */
static bool is_named_empty(const struct vocab *vocab, uint32_t id)
{
    return vocab->names && vocab->pieces[id].data >= vocab->names && vocab->pieces[id].length > 7 &&
           memcmp(vocab->pieces[id].data, "[EMPTY_", 7) == 0;
}

/* Which tokens the model has, and which were added to it ("outside": it doesn't have them). */
static int mark_tokens(struct pipeline *pipeline, const struct vocab *vocab, const struct json_at *list,
                       uint8_t **outside)
{
    *outside = allocate_zeroed(vocab->n_tokens, 1);
    pipeline->flags = allocate_zeroed(vocab->n_tokens, 1);
    if (!*outside || !pipeline->flags) return fail_memory("vocabulary");
    for (uint32_t id = 0; id < vocab->n_tokens; id++) {
        if (!(vocab->attributes[id] & ENGINE_TOKEN_UNUSED) && !is_named_empty(vocab, id)) continue;
        (*outside)[id] = 1;
        pipeline->flags[id] = TOKEN_NOTHING;
    }
    for (size_t i = 0; i < json_array_size(list->value); i++) {
        const json_t *token = json_array_get(list->value, i);
        const json_t *number = json_object_get(token, "id");
        json_int_t id = json_is_integer(number) ? json_integer_value(number) : -1;
        if (id < 0 || id >= vocab->n_tokens) continue; /* added_create says what is wrong */
        bool special =
            json_is_true(json_object_get(token, "special")) && !(vocab->attributes[id] & ENGINE_TOKEN_BYTE);
        pipeline->flags[id] = (uint8_t)(TOKEN_ADDED | (special ? TOKEN_SPECIAL : 0));
        (*outside)[id] = json_is_true(json_object_get(token, "outside"));
    }
    return ENGINE_OK;
}

static int mark_ends(struct vocab *vocab, const struct engine_metadata *metadata)
{
    size_t count = 0;
    if (metadata->get_count(metadata->context, ENDS, &count)) return ENGINE_OK;
    for (size_t i = 0; i < count; i++) {
        int64_t id;
        if (metadata->get_integers(metadata->context, ENDS, i, 1, &id) || id < 0 || id >= vocab->n_tokens)
            return host->fail(ENGINE_ERROR_DATA, ENDS " names a token that is not in the vocabulary");
        vocab->attributes[id] |= ENGINE_TOKEN_END;
    }
    return ENGINE_OK;
}

static int create_parts(struct pipeline *pipeline, struct vocab *vocab, const struct json_at *root,
                        const struct engine_metadata *metadata)
{
    struct engine_string charsmap = {NULL, 0};
    metadata->get_bytes(metadata->context, "tokenizer.ggml.precompiled_charsmap", &charsmap);
    struct json_at normalizer = json_member(root, "normalizer"), list = json_member(root, "added_tokens");
    struct json_at pretokenizer = json_member(root, "pre_tokenizer"), model = json_member(root, "model");
    struct json_at processor = json_member(root, "post_processor"), decoder = json_member(root, "decoder");
    struct normalizer_workspace workspace = {.regex = NULL};
    struct regex_workspace regex = {0};
    uint8_t *outside = NULL;

    int status = mark_tokens(pipeline, vocab, &list, &outside);
    if (status) {
        free(outside);
        return status;
    }
    status = model_create(&pipeline->model, &model, vocab, outside, metadata);
    if (!status) status = normalizer_create(&pipeline->normalizer, &normalizer, charsmap);
    if (!status) status = pretokenizer_create(&pipeline->pretokenizer, &pretokenizer);
    if (!status) status = regex_workspace_create(&regex);
    workspace.regex = &regex;
    if (!status)
        status = added_create(&pipeline->added, &list, vocab->n_tokens, &pipeline->normalizer, &workspace);
    normalizer_workspace_free(&workspace);
    regex_workspace_destroy(&regex);
    struct processing processing = {pipeline, vocab->n_tokens};
    if (!status && !json_absent(&processor))
        status = json_is_object(processor.value) ? add_processor(&processing, &processor)
                                                 : json_wrong(&processor, "an object");
    if (!status) status = apply_config(pipeline, vocab, root);
    if (!status) status = decoding_create(&pipeline->decoding, &decoder);
    if (!status) status = mark_ends(vocab, metadata);
    if (!status) pipeline_describe(pipeline, vocab);
    return status;
}

int pipeline_create(struct engine_tokenizer *tokenizer, const struct engine_metadata *metadata)
{
    struct engine_string text = {NULL, 0};
    if (metadata->get_string(metadata->context, JSON, &text))
        return host->fail(ENGINE_ERROR_DATA, "the model's tokenizer lacks its description (" JSON ")");
    struct pipeline *pipeline = allocate_zeroed(1, sizeof *pipeline);
    if (!pipeline) return fail_memory("tokenizer");
    tokenizer->model = pipeline;
    json_error_t error;
    json_t *json = json_read(text.data, text.length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!json) return host->fail(ENGINE_ERROR_DATA, JSON ": %s", error.text);
    struct json_spent spent = {0};
    struct json_at root = {json, "tokenizer.json: ", 0, &spent};
    int status = create_parts(pipeline, &tokenizer->vocab, &root, metadata);
    json_decref(json);
    return status;
}

void pipeline_destroy(struct pipeline *pipeline)
{
    if (!pipeline) return;
    added_destroy(&pipeline->added);
    normalizer_destroy(&pipeline->normalizer);
    pretokenizer_destroy(&pipeline->pretokenizer);
    model_destroy(&pipeline->model);
    decoding_destroy(&pipeline->decoding);
    free(pipeline->before.ids);
    free(pipeline->after.ids);
    free(pipeline->flags);
    free(pipeline);
}
