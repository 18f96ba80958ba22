/* vocabulary.c: see vocabulary.h. */
#include "check/vocabulary.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const vocabulary_words[] = {"the",    "there", "hello", "engine", "running",
                                        "abcabc", "00",    "world", NULL};

/* ---- Tokens ---- */

static struct engine_string vocabulary_keep(struct vocabulary *vocabulary, const char *text, size_t length)
{
    char *copy = vocabulary->bytes + vocabulary->n_bytes;
    if (length > sizeof vocabulary->bytes - vocabulary->n_bytes) length = 0;
    memcpy(copy, text, length);
    vocabulary->n_bytes += length;
    return (struct engine_string){copy, length};
}

static bool has_token(const struct vocabulary *vocabulary, const char *text)
{
    for (size_t i = 0; i < vocabulary->n_tokens; i++)
        if (vocabulary->tokens[i].length == strlen(text) &&
            memcmp(vocabulary->tokens[i].data, text, vocabulary->tokens[i].length) == 0)
            return true;
    return false;
}

/* No two tokens may be equal. */
static void vocabulary_add(struct vocabulary *vocabulary, const char *text, enum token_type type)
{
    size_t id = vocabulary->n_tokens;
    if (id == MAX_TOKENS || has_token(vocabulary, text)) return;
    vocabulary->tokens[id] = vocabulary_keep(vocabulary, text, strlen(text));
    vocabulary->scores[id] = -(float)id;
    vocabulary->types[id] = type;
    vocabulary->n_scores = vocabulary->n_types = vocabulary->n_tokens = id + 1;
}

static void vocabulary_merge(struct vocabulary *vocabulary, const char *left, const char *right)
{
    char text[80];
    int length = snprintf(text, sizeof text, "%s %s", left, right);
    if (vocabulary->n_merges < MAX_TOKENS)
        vocabulary->merges[vocabulary->n_merges++] = vocabulary_keep(vocabulary, text, (size_t)length);
}

/* A character of at most U+07FF in UTF-8. */
static void spell_character(unsigned code, char text[static 4])
{
    if (code < 0x80) {
        snprintf(text, 4, "%c", (char)code);
    } else {
        snprintf(text, 4, "%c%c", (char)(0xc0 | code >> 6), (char)(0x80 | (code & 63)));
    }
}

/* GPT-2's letter for a byte: itself if it is printable, otherwise the next from U+0100 on. */
static void spell_byte(unsigned byte, char text[static 4])
{
    unsigned unseen = 0;
    for (unsigned b = 0; b <= byte; b++) {
        bool seen = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        if (b == byte) spell_character(seen ? b : 0x100 + unseen, text);
        if (!seen) unseen++;
    }
}

static void add_bytes(struct vocabulary *vocabulary)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[8];
        if (vocabulary->spelling == SPELLS_BYTES) {
            spell_byte(byte, text);
            vocabulary_add(vocabulary, text, TOKEN_NORMAL);
        } else if (vocabulary->spelling == SPELLS_ESCAPED) {
            snprintf(text, sizeof text, "\\x%02X", byte);
            vocabulary_add(vocabulary, text, TOKEN_NORMAL);
        } else {
            snprintf(text, sizeof text, "<0x%02X>", byte);
            vocabulary_add(vocabulary, text, TOKEN_BYTE);
        }
    }
}

/* Adds a word letter by letter: each prefix is a token, merged from the previous prefix and the letter. */
static void add_word(struct vocabulary *vocabulary, const char *front, const char *word)
{
    char before[64], text[64], letter[4];
    snprintf(text, sizeof text, "%s", front);
    if (!front[0]) snprintf(text, sizeof text, "%c", *word++);
    if (vocabulary->spelling != SPELLS_ESCAPED || front[0] == ' ')
        vocabulary_add(vocabulary, text, TOKEN_NORMAL);
    for (; *word; word++) {
        snprintf(before, sizeof before, "%s", text);
        snprintf(letter, sizeof letter, "%c", *word);
        size_t length = strlen(text);
        snprintf(text + length, sizeof text - length, "%c", *word);
        if (vocabulary->spelling != SPELLS_ESCAPED) vocabulary_add(vocabulary, letter, TOKEN_NORMAL);
        if (!has_token(vocabulary, text)) vocabulary_merge(vocabulary, before, letter);
        vocabulary_add(vocabulary, text, TOKEN_NORMAL);
    }
}

static enum spelling spelling_of(const char *model)
{
    if (strcmp(model, "gpt2") == 0 || strcmp(model, "hf") == 0) return SPELLS_BYTES;
    if (strcmp(model, "rwkv") == 0) return SPELLS_ESCAPED;
    if (strcmp(model, "bert") == 0) return SPELLS_WORDPIECES;
    return SPELLS_MARKED;
}

bool vocabulary_is_lossless(const struct vocabulary *vocabulary)
{
    return vocabulary->spelling == SPELLS_BYTES || vocabulary->spelling == SPELLS_ESCAPED ||
           strcmp(vocabulary->model, "llama") == 0;
}

void vocabulary_set(struct vocabulary *vocabulary, const char *key, int64_t value)
{
    size_t i = 0;
    while (i < vocabulary->n_values && strcmp(vocabulary->values[i].key, key) != 0) i++;
    if (i == MAX_VALUES) return;
    vocabulary->values[i].key = key;
    vocabulary->values[i].value = value;
    if (i == vocabulary->n_values) vocabulary->n_values++;
}

void vocabulary_make(struct vocabulary *vocabulary, const char *model)
{
    static const char *const fronts[] = {"\xe2\x96\x81", "\xc4\xa0", " ",
                                         "\xe2\x96\x81"}; /* by enum spelling */
    memset(vocabulary, 0, sizeof *vocabulary);
    vocabulary->model = model;
    vocabulary->spelling = spelling_of(model);
    vocabulary_add(vocabulary, "<unk>", TOKEN_UNKNOWN);
    vocabulary_add(vocabulary, "<s>", TOKEN_CONTROL);
    vocabulary_add(vocabulary, "</s>", TOKEN_CONTROL);
    vocabulary_add(vocabulary, "<|mark|>", TOKEN_CONTROL);
    if (vocabulary->spelling != SPELLS_ESCAPED) vocabulary_add(vocabulary, "<|user|>", TOKEN_USER);
    if (vocabulary->spelling != SPELLS_WORDPIECES) add_bytes(vocabulary);
    for (const char *const *word = vocabulary_words; *word; word++) {
        add_word(vocabulary, fronts[vocabulary->spelling], *word);
        add_word(vocabulary, "", *word);
    }
    if (vocabulary->spelling == SPELLS_MARKED) vocabulary_add(vocabulary, "\xe4\xb8\xad", TOKEN_NORMAL);
    vocabulary_set(vocabulary, "tokenizer.ggml.bos_token_id", 1);
    vocabulary_set(vocabulary, "tokenizer.ggml.eos_token_id", 2);
    vocabulary_set(vocabulary, "tokenizer.ggml.unknown_token_id", 0);
    vocabulary_set(vocabulary, "tokenizer.ggml.seperator_token_id", 2); /* sic */
    vocabulary_set(vocabulary, "tokenizer.ggml.add_bos_token", 1);
    vocabulary->values[vocabulary->n_values - 1].is_boolean = true;
}

/* ---- Getters ---- */

/* What tokenizer.json says besides the vocabulary, for the model "hf". */
static const char description[] =
    "{\"model\":{\"type\":\"BPE\",\"ignore_merges\":true},\"added_tokens\":["
    "{\"id\":0,\"content\":\"<unk>\",\"special\":true},{\"id\":1,\"content\":\"<s>\",\"special\":true},"
    "{\"id\":2,\"content\":\"</s>\",\"special\":true},{\"id\":3,\"content\":\"<|mark|>\",\"special\":true},"
    "{\"id\":4,\"content\":\"<|user|>\",\"special\":false}],"
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"decoder\":{\"type\":"
    "\"ByteLevel\"},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},"
    "{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[1]}}}}";

static int get_string(void *context, const char *key, struct engine_string *value)
{
    const struct vocabulary *vocabulary = context;
    if (strcmp(key, "tokenizer.hf.json") == 0 && strcmp(vocabulary->model, "hf") == 0) {
        *value = (struct engine_string){description, sizeof description - 1};
        return ENGINE_OK;
    }
    if (strcmp(key, "tokenizer.ggml.model") != 0) return ENGINE_ERROR_NOT_FOUND;
    *value = (struct engine_string){vocabulary->model, strlen(vocabulary->model)};
    return ENGINE_OK;
}

static int get_number(const struct vocabulary *vocabulary, const char *key, bool is_boolean, int64_t *value)
{
    for (size_t i = 0; i < vocabulary->n_values; i++)
        if (vocabulary->values[i].is_boolean == is_boolean && strcmp(vocabulary->values[i].key, key) == 0) {
            *value = vocabulary->values[i].value;
            return ENGINE_OK;
        }
    return ENGINE_ERROR_NOT_FOUND;
}

static int get_integer(void *context, const char *key, int64_t *value)
{
    return get_number(context, key, false, value);
}

static int get_float(void *context, const char *key, double *value)
{
    (void)context, (void)key, (void)value;
    return ENGINE_ERROR_NOT_FOUND;
}

static int get_boolean(void *context, const char *key, int *value)
{
    int64_t number;
    int status = get_number(context, key, true, &number);
    if (status == ENGINE_OK) *value = number != 0;
    return status;
}

static int get_count(void *context, const char *key, size_t *count)
{
    const struct vocabulary *vocabulary = context;
    size_t found = 0;
    if (strcmp(key, "tokenizer.ggml.tokens") == 0) found = vocabulary->n_tokens;
    if (strcmp(key, "tokenizer.ggml.scores") == 0) found = vocabulary->n_scores;
    if (strcmp(key, "tokenizer.ggml.token_type") == 0) found = vocabulary->n_types;
    if (strcmp(key, "tokenizer.ggml.merges") == 0) found = vocabulary->n_merges;
    if (found == 0) return ENGINE_ERROR_NOT_FOUND;
    *count = found;
    return ENGINE_OK;
}

static int range(size_t first, size_t count, size_t size)
{
    return first > size || count > size - first ? ENGINE_ERROR_ARGUMENT : ENGINE_OK;
}

static int get_strings(void *context, const char *key, size_t first, size_t count,
                       struct engine_string *values)
{
    const struct vocabulary *vocabulary = context;
    bool merges = strcmp(key, "tokenizer.ggml.merges") == 0;
    if (!merges && strcmp(key, "tokenizer.ggml.tokens") != 0) return ENGINE_ERROR_NOT_FOUND;
    int status = range(first, count, merges ? vocabulary->n_merges : vocabulary->n_tokens);
    if (status == ENGINE_OK)
        memcpy(values, (merges ? vocabulary->merges : vocabulary->tokens) + first, count * sizeof *values);
    return status;
}

static int get_integers(void *context, const char *key, size_t first, size_t count, int64_t *values)
{
    const struct vocabulary *vocabulary = context;
    if (strcmp(key, "tokenizer.ggml.token_type") != 0) return ENGINE_ERROR_NOT_FOUND;
    int status = range(first, count, vocabulary->n_types);
    if (status == ENGINE_OK) memcpy(values, vocabulary->types + first, count * sizeof *values);
    return status;
}

static int get_floats(void *context, const char *key, size_t first, size_t count, float *values)
{
    const struct vocabulary *vocabulary = context;
    if (strcmp(key, "tokenizer.ggml.scores") != 0) return ENGINE_ERROR_NOT_FOUND;
    int status = range(first, count, vocabulary->n_scores);
    if (status == ENGINE_OK) memcpy(values, vocabulary->scores + first, count * sizeof *values);
    return status;
}

static int get_bytes(void *context, const char *key, struct engine_string *value)
{
    (void)context, (void)key, (void)value;
    return ENGINE_ERROR_NOT_FOUND;
}

struct engine_metadata vocabulary_metadata(struct vocabulary *vocabulary)
{
    return (struct engine_metadata){
        .struct_size = sizeof(struct engine_metadata),
        .context = vocabulary,
        .get_string = get_string,
        .get_integer = get_integer,
        .get_float = get_float,
        .get_boolean = get_boolean,
        .get_count = get_count,
        .get_strings = get_strings,
        .get_integers = get_integers,
        .get_floats = get_floats,
        .get_bytes = get_bytes,
    };
}
