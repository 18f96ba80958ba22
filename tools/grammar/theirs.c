/* theirs.c: whether llama.cpp's grammar takes texts: `theirs VOCABULARY.gguf <LINES`. Input: lines of
 * tests/engine/grammar/grammar-texts.c as TAB-separated hexadecimal: grammar, text, and 1 if the text has
 * ended. Output: a line "ok" or what is wrong for each. For tools/grammar/compare; compiled in the peers. */
#include <llama.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t unhex(char *text)
{
    size_t length = strlen(text) / 2;
    for (size_t i = 0; i < length; i++) {
        unsigned byte;
        sscanf(text + 2 * i, "%2x", &byte);
        text[i] = (char)byte;
    }
    text[length] = '\0';
    return length;
}

static bool allows(struct llama_sampler *sampler, llama_token token)
{
    llama_token_data data = {token, 0, 0};
    llama_token_data_array one = {&data, 1, -1, false};
    llama_sampler_apply(sampler, &one);
    return isfinite(data.logit);
}

static const char *judge(const struct llama_vocab *vocab, const char *grammar, const char *text,
                         size_t length, bool ended)
{
    static llama_token tokens[1 << 16];
    int n = llama_tokenize(vocab, text, (int)length, tokens, 1 << 16, false, false);
    struct llama_sampler *sampler = llama_sampler_init_grammar(vocab, grammar, "root");
    const char *verdict = sampler ? "ok" : "grammar refused";
    for (int i = 0; i < n && sampler && !strcmp(verdict, "ok"); i++) {
        if (!allows(sampler, tokens[i]))
            verdict = "text refused";
        else
            llama_sampler_accept(sampler, tokens[i]);
    }
    if (sampler && ended && !strcmp(verdict, "ok") && !allows(sampler, llama_vocab_eos(vocab)))
        verdict = "end refused";
    if (sampler) llama_sampler_free(sampler);
    return verdict;
}

int main(int argc, char **argv)
{
    static char line[1 << 20];
    struct llama_model_params params = llama_model_default_params();
    params.vocab_only = true;
    struct llama_model *model = argc == 2 ? llama_model_load_from_file(argv[1], params) : NULL;
    if (!model) return 1;
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        char *text = strchr(line, '\t'), *ended = text ? strchr(text + 1, '\t') : NULL;
        if (!ended) return 1;
        *text++ = *ended++ = '\0';
        unhex(line);
        size_t length = unhex(text);
        puts(judge(llama_model_get_vocab(model), line, text, length, *ended == '1'));
    }
    llama_model_free(model);
    return 0;
}
