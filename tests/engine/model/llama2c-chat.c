/* llama2c-chat.c: see llama2c-chat.h. */
#include "llama2c-chat.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "gguf-writer.h"
#include "llama2c-writer.h"
#include "model/model.h"

#define SPACE_MARK "\xe2\x96\x81" /* U+2581 */
#define BOS        1
#define EOS        2

static void must(bool good)
{
    if (!good) abort();
}

static const struct metadata_entry *entry_of(const struct model *model, const char *key)
{
    const struct metadata_entry *entry = metadata_find(model_metadata(model), key);
    must(entry != NULL);
    return entry;
}

/* A space and small letters. */
static bool is_word(struct engine_string token)
{
    size_t mark = strlen(SPACE_MARK);
    if (token.length <= mark || memcmp(token.data, SPACE_MARK, mark) != 0) return false;
    for (size_t i = mark; i < token.length; i++)
        if (!islower((unsigned char)token.data[i])) return false;
    return true;
}

/* As llama2.c's tokenizer.py spells a token: spaces as such, BOS and EOS between newlines. */
static size_t spell(struct engine_string token, size_t id, char *out)
{
    size_t n = 0, mark = strlen(SPACE_MARK);
    bool control = id == BOS || id == EOS;
    if (control) out[n++] = '\n';
    for (size_t i = 0; i < token.length; i++) {
        bool space = token.length - i >= mark && memcmp(token.data + i, SPACE_MARK, mark) == 0;
        out[n++] = space ? ' ' : token.data[i];
        if (space) i += mark - 1;
    }
    if (control) out[n++] = '\n';
    return n;
}

static void write_tokenizer(const struct model *model, const char *path)
{
    const struct metadata_entry *tokens = entry_of(model, "tokenizer.ggml.tokens");
    const struct metadata_entry *scores = entry_of(model, "tokenizer.ggml.scores");
    const struct engine_string *texts = tokens->values;
    size_t capacity = 4, size = 4;
    int32_t longest = 0;
    for (size_t id = 0; id < tokens->count; id++) capacity += 8 + texts[id].length + 2;
    char *bytes = malloc(capacity);
    must(bytes != NULL);
    for (size_t id = 0; id < tokens->count; id++) {
        double value = 0;
        must(metadata_entry_float(scores, id, &value));
        float score = (float)value;
        int32_t length = (int32_t)spell(texts[id], id, bytes + size + 8);
        memcpy(bytes + size, &score, 4);
        memcpy(bytes + size + 4, &length, 4);
        size += 8 + (size_t)length;
        if (length > longest) longest = length;
    }
    memcpy(bytes, &longest, 4);
    must(write_bytes(path, bytes, size));
    free(bytes);
}

/* Only words have rows in the output matrix, and so logits above 0. */
static void write_checkpoint(const struct model *model, const char *path)
{
    const struct metadata_entry *tokens = entry_of(model, "tokenizer.ggml.tokens");
    const struct llama2c_shape shape = {32, 64, 2, 4, 2, (uint32_t)tokens->count, 4096, false};
    float *weights = llama2c_random_weights(&shape, 1);
    float *output = weights + llama2c_weight_count(&shape) - (size_t)shape.n_vocab * shape.dim;
    const struct engine_string *texts = tokens->values;
    size_t size;
    for (size_t id = 0; id < tokens->count; id++)
        if (!is_word(texts[id])) memset(output + id * shape.dim, 0, shape.dim * sizeof *output);
    uint8_t *bytes = llama2c_checkpoint(&shape, weights, 0, 0, &size);
    must(write_bytes(path, bytes, size));
    free(bytes);
    free(weights);
}

void llama2c_chat_write(const char *vocabulary, const char *checkpoint, const char *tokenizer)
{
    struct model *model = NULL;
    must(model_open(vocabulary, NULL, &model) == ENGINE_OK);
    write_tokenizer(model, tokenizer);
    write_checkpoint(model, checkpoint);
    model_close(model);
}
