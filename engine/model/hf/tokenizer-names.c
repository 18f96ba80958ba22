/* tokenizer-names.c: GGUF's names for what tokenizer.json describes, for programs that know a tokenizer by
 * name, and what they need besides. The engine goes by the description. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/hf/tokenizer-parts.h"

#define ENDS     "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES   "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORDS(N) "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" N "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES
#define CASES(E)                                                                                             \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" E            \
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" E "|"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES

/* Steps of pre-tokenizers, as write_step writes them, and tokenizer.ggml.pre. */
static const struct {
    const char *steps, *pre;
} names[] = {
    {"bytes-regex\n", "gpt-2"},
    {"split " ENDS WORDS("\\p{N}{1,3}") "\nbytes\n", "llama-bpe"},
    {"split " ENDS WORDS("\\p{N}") "\nbytes\n", "qwen2"},
    {"split " ENDS
     "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES "\nbytes\n",
     "qwen35"},
    {"split " CASES(ENDS "?") "\\p{N}{1,3}" REST "\nbytes\n", "gpt-4o"},
    {"split " CASES("") "\\p{N}" REST "\nbytes\n", "tekken"},
    {"digits\nbytes-regex\n", "starcoder"},
    {"punctuation\nbytes-regex\ndigit-runs\nsplit [0-9][0-9][0-9]\n", "falcon"},
    {"split  "
     "?[^(\\s|[.,!?\xE2\x80\xA6\xE3\x80\x82\xEF\xBC\x8C\xE3\x80\x81\xE0\xA5\xA4\xDB\x94\xD8\x8C])]+\nbytes\n",
     "bloom"},
    {"split \\p{N}{1,3}\nsplit "
     "[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+\n"
     "split [!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
     "| ?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES "\nbytes\n",
     "deepseek-v3"},
};

#define STEPS_SIZE 2048

static const char *string_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static bool is_type(const json_t *object, const char *type)
{
    return strcmp(string_of(object, "type"), type) == 0;
}

static void names_append(char *steps, const char *text)
{
    size_t used = strlen(steps), length = strlen(text);
    if (length < STEPS_SIZE - used) memcpy(steps + used, text, length + 1);
}

/* Writes the steps of a pre-tokenizer, a line each. */
static void write_step(const json_t *step, char *steps, unsigned depth)
{
    size_t i;
    const json_t *inner;
    json_array_foreach(json_object_get(step, "pretokenizers"), i, inner)
    {
        if (depth < 8) write_step(inner, steps, depth + 1);
    }
    if (is_type(step, "ByteLevel")) {
        const json_t *regex = json_object_get(step, "use_regex");
        names_append(steps, json_is_true(json_object_get(step, "add_prefix_space")) ? "prefixed-" : "");
        names_append(steps, json_is_false(regex) ? "bytes\n" : "bytes-regex\n");
    } else if (is_type(step, "Digits")) {
        names_append(steps,
                     json_is_true(json_object_get(step, "individual_digits")) ? "digits\n" : "digit-runs\n");
    } else if (is_type(step, "Punctuation")) {
        names_append(steps, "punctuation\n");
    } else if (is_type(step, "Split")) {
        names_append(steps, "split ");
        names_append(steps, string_of(json_object_get(step, "pattern"), "Regex"));
        names_append(steps, "\n");
    } else if (!is_type(step, "Sequence")) {
        names_append(steps, "other\n");
    }
}

/* Whether a step, or one of those that it is a sequence of, has a type. */
static const json_t *find_step(const json_t *step, const char *list, const char *type, unsigned depth)
{
    size_t i;
    const json_t *inner;
    if (is_type(step, type)) return step;
    json_array_foreach(json_object_get(step, list), i, inner)
    {
        const json_t *found = depth < 8 ? find_step(inner, list, type, depth + 1) : NULL;
        if (found) return found;
    }
    return NULL;
}

/* Scores by which SentencePiece's way of merging takes the pairs in the order of the merges. */
static void score_merges(struct hf_tokenizer *work)
{
    work->scores = metadata_allocate(work->metadata, work->n_tokens * sizeof *work->scores + 1);
    if (!work->scores) return; /* then llama.cpp takes the tokens for equals */
    for (uint32_t i = 0; i < work->n_tokens; i++) work->scores[i] = 0;
    for (size_t i = work->n_merges; i-- > 0;) work->scores[work->merges[3 * i + 2]] = -(double)i - 1;
}

static void read_spaces(struct hf_tokenizer *work, const json_t *root)
{
    const json_t *normalizer = json_object_get(root, "normalizer");
    const json_t *metaspace =
        find_step(json_object_get(root, "pre_tokenizer"), "pretokenizers", "Metaspace", 0);
    const char *scheme = string_of(metaspace, "prepend_scheme");
    work->add_space_prefix = find_step(normalizer, "normalizers", "Prepend", 0) != NULL;
    if (metaspace)
        work->add_space_prefix =
            strcmp(scheme, "never") != 0 && !json_is_false(json_object_get(metaspace, "add_prefix_space"));
    const json_t *replace = find_step(normalizer, "normalizers", "Replace", 0);
    work->remove_extra_whitespaces =
        strcmp(string_of(json_object_get(replace, "pattern"), "Regex"), " {2,}") == 0;
}

void hf_tokenizer_name(struct hf_tokenizer *work, const json_t *root)
{
    const json_t *model = json_object_get(root, "model"),
                 *pretokenizer = json_object_get(root, "pre_tokenizer");
    char steps[STEPS_SIZE] = "";
    write_step(pretokenizer, steps, 0);
    if (is_type(model, "WordPiece")) {
        const json_t *prefix = json_object_get(model, "continuing_subword_prefix");
        const json_t *normalizer =
            find_step(json_object_get(root, "normalizer"), "normalizers", "BertNormalizer", 0);
        work->marks_words =
            normalizer && (!prefix || strcmp(string_of(model, "continuing_subword_prefix"), "##") == 0);
        work->lowers_case = !json_is_false(json_object_get(normalizer, "lowercase"));
        if (work->marks_words) work->kind = "bert";
    } else if (json_is_array(json_object_get(model, "vocab"))) {
        work->kind = "t5";
        work->pre = "default";
        read_spaces(work, root);
    } else if (find_step(pretokenizer, "pretokenizers", "ByteLevel", 0)) {
        work->kind = "gpt2";
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (strcmp(steps, names[i].steps) == 0) work->pre = names[i].pre;
    } else if (json_is_true(json_object_get(model, "byte_fallback"))) {
        work->kind = "llama";
        work->pre = "default";
        read_spaces(work, root);
        score_merges(work);
    }
}
