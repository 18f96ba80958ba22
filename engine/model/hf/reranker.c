/* reranker.c: see reranker.h. */
#include "model/hf/reranker.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/error.h"
#include "model/file.h"

#define TEMPLATE                                                                                             \
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the "      \
    "Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n"   \
    "<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n"               \
    "<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"

/* Neither the metadata nor the tensors have an index of their names yet. */
static const struct metadata_entry *find_entry(const struct model *model, const char *key)
{
    for (size_t i = 0; i < metadata_count(model->metadata); i++)
        if (strcmp(metadata_at(model->metadata, i)->key, key) == 0) return metadata_at(model->metadata, i);
    return NULL;
}

static const struct model_tensor *find_tensor(const struct model *model, const char *name)
{
    for (size_t i = 0; i < model->n_tensors; i++)
        if (strcmp(model->tensors[i].name, name) == 0) return &model->tensors[i];
    return NULL;
}

/* Whether a text has these words, in any case. */
static bool has_words(const char *text, size_t length, const char *words)
{
    size_t n = strlen(words);
    for (size_t i = 0; i + n <= length; i++)
        if (strncasecmp(text + i, words, n) == 0) return true;
    return false;
}

static bool is_named(const struct model *model)
{
    const struct metadata_entry *entry = find_entry(model, "general.name");
    const struct engine_string *name = entry ? entry->values : NULL;
    return name && has_words(name->data, name->length, "qwen3 reranker");
}

static bool readme_says_so(const char *folder)
{
    char path[PATH_MAX];
    struct stat info;
    const uint8_t *text;
    uint64_t size;
    int length = snprintf(path, sizeof path, "%s/README.md", folder);
    if (length < 0 || (size_t)length >= sizeof path || stat(path, &info) != 0 || !S_ISREG(info.st_mode))
        return false;
    if (model_map_file(path, &text, &size) != ENGINE_OK) {
        error_clear();
        return false;
    }
    bool found = has_words((const char *)text, (size_t)size, "# qwen3-reranker");
    model_unmap_file(text, size);
    return found;
}

static int find_token(const struct model *model, const char *text, uint64_t *id)
{
    const struct metadata_entry *tokens = find_entry(model, "tokenizer.ggml.tokens");
    const struct engine_string *texts = tokens ? tokens->values : NULL;
    for (*id = 0; tokens && *id < tokens->count; ++*id)
        if (texts[*id].length == strlen(text) && memcmp(texts[*id].data, text, texts[*id].length) == 0)
            return ENGINE_OK;
    return error_raise(ENGINE_ERROR_DATA, "%s: a Qwen3-Reranker without the token '%s'", model->path, text);
}

static int add_head(struct model *model)
{
    static const char *const labels[] = {"yes", "no"};
    const struct model_tensor *matrix = find_tensor(model, "output.weight");
    if (!matrix) matrix = find_tensor(model, "token_embd.weight");
    if (!matrix || matrix->ne[1] == 0)
        return error_raise(ENGINE_ERROR_DATA, "%s has no output matrix", model->path);
    uint64_t row = matrix->size / matrix->ne[1];
    uint8_t *rows = metadata_allocate(model->metadata, (size_t)(2 * row));
    if (!rows) return error_memory("classification head");
    for (int i = 0; i < 2; i++) {
        uint64_t id;
        int status = find_token(model, labels[i], &id);
        if (status) return status;
        if (id >= matrix->ne[1])
            return error_raise(ENGINE_ERROR_DATA, "%s: the output matrix has no row for '%s'", model->path,
                               labels[i]);
        model_tensor_read(matrix, id, 1, rows + (uint64_t)i * row);
    }
    model->tensors[model->n_tensors++] = (struct model_tensor){.name = "cls.output.weight",
                                                               .type = matrix->type,
                                                               .n_dims = 2,
                                                               .ne = {matrix->ne[0], 2, 1, 1},
                                                               .data = rows,
                                                               .size = 2 * row};
    return ENGINE_OK;
}

int hf_add_reranker(struct model *model, struct hf_config *config, const char *folder)
{
    static const struct engine_string labels[] = {{"yes", 3}, {"no", 2}};
    bool is_one = config->type.may_rerank && !config->is_classifier &&
                  (is_named(model) || readme_says_so(folder));
    if (!is_one && config->has_logit_score)
        return error_raise(ENGINE_ERROR_UNSUPPORTED,
                           "%s/modules.json: the step 'LogitScore' is supported only for Qwen3-Reranker",
                           folder);
    if (!is_one) return ENGINE_OK;
    struct engine_string *copies = metadata_allocate(model->metadata, sizeof labels);
    if (!copies) return error_memory("metadata");
    memcpy(copies, labels, sizeof labels);
    hf_put_count(config, "pooling_type", 4);
    hf_put_texts(config, "classifier.output_labels", copies, 2);
    int status = config->status;
    if (!status) status = metadata_add_string(model->metadata, "tokenizer.chat_template.rerank", TEMPLATE);
    return status ? status : add_head(model);
}
