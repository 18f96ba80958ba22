/* test-explain.c: what the tokenizer plugins report of how a text becomes tokens: whole transcripts for small
 * vocabularies, merges against the definition carried out plainly, and, for all texts of
 * ../shared/tokenizers, whether the steps fit together and give encode's ids. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "check/explanation.h"
#include "gguf-writer.h"
#include "harness.h"
#include "steps.h"

TestSuite(explain, .timeout = 300);

/* ---- Transcripts ---- */

Test(explain, merges_by_score)
{
    const struct engine_tokenizer_api *api = load_tokenizers("spm");
    struct fake_vocab vocab = {0};
    fake_add_basics(&vocab);
    fake_piece(&vocab, "▁", -10, NORMAL); /* 259 */
    fake_piece(&vocab, "a", -11, NORMAL);
    fake_piece(&vocab, "b", -12, NORMAL);
    fake_piece(&vocab, "ab", -1, NORMAL);
    fake_piece(&vocab, "ba", -2, NORMAL);
    fake_piece(&vocab, "▁a", -3, NORMAL);
    fake_piece(&vocab, "<user>", 0, USER_DEFINED);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_steps(api, tokenizer, vocab.n_tokens, "", 0, "");
    expect_steps(api, tokenizer, vocab.n_tokens, "aba", ENGINE_ENCODE_BOS_EOS,
                 "special 0-0  =1\n"
                 "text 0-3 ▁aba\n"
                 "word 0-6 ▁aba\n"
                 "merge 3-4-5 ab 260+261 =262 score -1\n"
                 "token 0-3 ▁ =259\n"
                 "token 3-5 ab =262\n"
                 "token 5-6 a =260\n");
    /* User-defined tokens come first; a character that is no token becomes its bytes. */
    expect_steps(api, tokenizer, vocab.n_tokens, "a<user>é</s>", ENGINE_ENCODE_SPECIAL,
                 "text 0-1 ▁a\n"
                 "word 0-4 ▁a\n"
                 "merge 0-3-4 ▁a 259+260 =264 score -3\n"
                 "token 0-4 ▁a =264\n"
                 "special 1-7 <user> =265\n"
                 "text 7-9 ▁é\n"
                 "word 0-3 ▁\n"
                 "token 0-3 ▁ =259\n"
                 "word 3-5 é\n"
                 "token 0-1 \xC3 =198\n"
                 "token 1-2 \xA9 =172\n"
                 "special 9-13 </s> =2\n");
    api->destroy(tokenizer);
    fake_free(&vocab);
}

static struct engine_string string(const char *text)
{
    return (struct engine_string){text, strlen(text)};
}

Test(explain, merges_by_rank)
{
    const struct engine_tokenizer_api *api = load_tokenizers("bpe");
    struct fake_vocab vocab = {0};
    struct engine_string merges[] = {string("b c"), string("Ġ a"), string("a bc"), string("Ġa bc")};
    static const char *const pieces[] = {"a", "b", "c", "Ġ", "bc", "Ġa", "Ġabc", "<|end|>"};
    for (size_t i = 0; i < 8; i++) fake_piece(&vocab, pieces[i], 0, i == 7 ? CONTROL : NORMAL);
    vocab.merges = merges;
    vocab.n_merges = 4;
    fake_string(&vocab, "tokenizer.ggml.pre", "gpt-2");
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    /* "abc" is the symbol of a merge and no token; what has no token is left out. */
    expect_steps(api, tokenizer, vocab.n_tokens, "abc abc!<|end|>", ENGINE_ENCODE_SPECIAL,
                 "text 0-8 abc abc!\n"
                 "word 0-3 abc\n"
                 "merge 1-2-3 bc 1+2 =4 rank 0\n"
                 "merge 0-1-3 abc 0+4 =-1 rank 2\n"
                 "token 0-1 a =0\n"
                 "token 1-2 b =1\n"
                 "token 2-3 c =2\n"
                 "word 3-7  abc\n"
                 "merge 2-3-4 bc 1+2 =4 rank 0\n"
                 "merge 0-1-2  a 3+0 =5 rank 1\n"
                 "merge 0-2-4  abc 5+4 =6 rank 3\n"
                 "token 0-4  abc =6\n"
                 "word 7-8 !\n"
                 "token 0-1 ! =-1\n"
                 "special 8-15 <|end|> =7\n");
    api->destroy(tokenizer);
    fake_free(&vocab);
}

Test(explain, characters_merge_by_rank)
{
    const struct engine_tokenizer_api *api = load_tokenizers("bpe");
    struct fake_vocab vocab = {0};
    struct engine_string merges[] = {string("▁ é"), string("é b")};
    static const char *const pieces[] = {"<pad>", "<eos>", "<bos>", "<unk>", "▁", "é", "b", "▁é", "<0xC3>"};
    for (size_t i = 0; i < 9; i++) fake_piece(&vocab, pieces[i], 0, i < 4 ? CONTROL : i == 8 ? BYTE : NORMAL);
    vocab.merges = merges;
    vocab.n_merges = 2;
    fake_string(&vocab, "tokenizer.ggml.model", "gemma4");
    fake_integer(&vocab, "tokenizer.ggml.bos_token_id", 2);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_steps(api, tokenizer, vocab.n_tokens, "b éb\nü", 0,
                 "text 0-8 b▁éb\nü\n"
                 "word 0-7 b▁éb\n"
                 "merge 1-4-6 ▁é 4+5 =7 rank 0\n"
                 "token 0-1 b =6\n"
                 "token 1-6 ▁é =7\n"
                 "token 6-7 b =6\n"
                 "word 7-8 \n\n"
                 "token 0-1 \n =-1\n"
                 "word 8-10 ü\n"
                 "token 0-1 \xC3 =8\n"
                 "token 1-2 \xBC =-1\n");
    api->destroy(tokenizer);
    fake_free(&vocab);
}

Test(explain, best_path)
{
    const struct engine_tokenizer_api *api = load_tokenizers("ugm");
    struct fake_vocab vocab = {0};
    fake_piece(&vocab, "<pad>", 0, CONTROL);
    fake_piece(&vocab, "</s>", 0, CONTROL);
    fake_piece(&vocab, "<unk>", 0, UNKNOWN);
    fake_piece(&vocab, "▁", -2, NORMAL);
    fake_piece(&vocab, "a", -3, NORMAL);
    fake_piece(&vocab, "b", -3, NORMAL);
    fake_piece(&vocab, "ab", -4, NORMAL);
    fake_boolean(&vocab, "tokenizer.ggml.add_space_prefix", false);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    /* Unknown characters are 10 below the least score; several in a row are one token. */
    expect_steps(api, tokenizer, vocab.n_tokens, "ab xy", ENGINE_ENCODE_BOS_EOS,
                 "text 0-5 ab▁xy\n"
                 "word 0-2 ab\n"
                 "candidate 0-1 a =4 score -3 sum -3\n"
                 "best 0-1 a =4 sum -3\n"
                 "candidate 0-2 ab =6 score -4 sum -4\n"
                 "candidate 1-2 b =5 score -3 sum -6\n"
                 "best 0-2 ab =6 sum -4\n"
                 "token 0-2 ab =6 sum -4\n"
                 "word 2-7 ▁xy\n"
                 "candidate 0-3 ▁ =3 score -2 sum -2\n"
                 "best 0-3 ▁ =3 sum -2\n"
                 "candidate 3-4 x =2 score -14 sum -16\n"
                 "best 3-4 x =2 sum -16\n"
                 "candidate 4-5 y =2 score -14 sum -30\n"
                 "best 4-5 y =2 sum -30\n"
                 "token 0-3 ▁ =3 sum -2\n"
                 "token 3-4 x =2 sum -16\n"
                 "token 4-5 y =-1 sum -30\n"
                 "special 5-5  =1\n");
    api->destroy(tokenizer);
    fake_free(&vocab);
}

Test(explain, longest_matches_in_words)
{
    const struct engine_tokenizer_api *api = load_tokenizers("wpm");
    struct fake_vocab vocab = {0};
    static const char *const pieces[] = {"[UNK]", "▁u", "▁un", "▁unab", "aff", "able", "▁,"};
    for (size_t i = 0; i < 7; i++) fake_piece(&vocab, pieces[i], 0, i ? NORMAL : UNKNOWN);
    fake_integer(&vocab, "tokenizer.ggml.unknown_token_id", 0);
    fake_boolean(&vocab, "tokenizer.ggml.add_bos_token", false);
    fake_boolean(&vocab, "tokenizer.ggml.add_sep_token", false);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_steps(api, tokenizer, vocab.n_tokens, "Ünaffable,  unx", 0,
                 "text 0-16 ▁unaffable▁,▁unx\n"
                 "word 0-12 ▁unaffable\n"
                 "candidate 0-4 ▁u =1\n"
                 "candidate 0-5 ▁un =2\n"
                 "token 0-5 ▁un =2\n"
                 "candidate 5-8 aff =4\n"
                 "token 5-8 aff =4\n"
                 "candidate 8-12 able =5\n"
                 "token 8-12 able =5\n"
                 "word 12-16 ▁,\n"
                 "candidate 0-4 ▁, =6\n"
                 "token 0-4 ▁, =6\n"
                 "word 16-22 ▁unx\n"
                 "candidate 0-4 ▁u =1\n"
                 "candidate 0-5 ▁un =2\n"
                 "candidate 5-6 x =-1\n" /* so the whole word is unknown */
                 "token 0-6 ▁unx =0\n");
    api->destroy(tokenizer);
    fake_free(&vocab);
}

Test(explain, longest_matches_in_the_trie)
{
    const struct engine_tokenizer_api *api = load_tokenizers("rwkv");
    struct fake_vocab vocab = {0};
    static const char *const pieces[] = {"<unk>", "a", "ab", "abcd", "\\n"};
    for (size_t i = 0; i < 5; i++) fake_piece(&vocab, pieces[i], 0, i ? NORMAL : UNKNOWN);
    fake_integer(&vocab, "tokenizer.ggml.unknown_token_id", 0);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    expect_steps(api, tokenizer, vocab.n_tokens, "abc\nabcd", 0,
                 "text 0-8 abc\nabcd\n"
                 "word 0-8 abc\nabcd\n"
                 "candidate 0-1 a =1\n"
                 "candidate 0-2 ab =2\n"
                 "token 0-2 ab =2\n"
                 "candidate 2-3 c =0\n"
                 "token 2-3 c =0\n"
                 "candidate 3-4 \n =4\n"
                 "token 3-4 \n =4\n"
                 "candidate 4-5 a =1\n"
                 "candidate 4-6 ab =2\n"
                 "candidate 4-8 abcd =3\n"
                 "token 4-8 abcd =3\n");
    api->destroy(tokenizer);
    fake_free(&vocab);
}

/* ---- Merges against the definition ---- */

#define LETTERS  "abcd"
#define MAX_WORD 700

struct plain_word {
    size_t ends[MAX_WORD]; /* of the symbols */
    size_t count;
    const char *word;
    const struct fake_vocab *vocab;
    char why[200];
};

/* The token of these bytes, or -1. */
static int32_t find_piece(const struct fake_vocab *vocab, const char *text, size_t length)
{
    for (size_t id = 0; id < vocab->n_tokens; id++)
        if (vocab->pieces[id].length == length && memcmp(vocab->pieces[id].data, text, length) == 0)
            return (int32_t)id;
    return -1;
}

/* Each reported merge must be the one that the definition demands: of all neighbours the best, the
 * leftmost. */
static int follow(void *user, const struct engine_explain_step *step)
{
    struct plain_word *plain = user;
    if (step->kind != ENGINE_EXPLAIN_MERGE && step->kind != ENGINE_EXPLAIN_TOKEN) return 0;
    size_t best = SIZE_MAX, start = 0;
    int32_t best_id = -1;
    for (size_t i = 0; i + 1 < plain->count; i++) {
        size_t from = i ? plain->ends[i - 1] : 0;
        int32_t id = find_piece(plain->vocab, plain->word + from, plain->ends[i + 1] - from);
        if (id < 0 || (best_id >= 0 && plain->vocab->scores[id] <= plain->vocab->scores[best_id])) continue;
        best = i, best_id = id, start = from;
    }
    if (step->kind == ENGINE_EXPLAIN_TOKEN) {
        if (best_id >= 0) snprintf(plain->why, sizeof plain->why, "at %zu nothing more merged", start);
        return best_id >= 0 ? 2 : 77;
    }
    if (best_id != step->id || start != step->start || plain->ends[best] != step->middle ||
        plain->ends[best + 1] != step->end) {
        snprintf(plain->why, sizeof plain->why, "%zu-%zu-%zu =%d instead of %zu =%d", step->start,
                 step->middle, step->end, step->id, start, best_id);
        return 1;
    }
    memmove(plain->ends + best, plain->ends + best + 1, (plain->count - best - 1) * sizeof *plain->ends);
    plain->count--;
    return 0;
}

/* Few different scores, so that many pairs are equally good, and words of all lengths, also those that encode
 * merges in blocks. */
Test(explain, merges_in_the_order_of_the_definition)
{
    const struct engine_tokenizer_api *api = load_tokenizers("spm");
    uint64_t random = 11;
    for (int n = 0; n < 150; n++) {
        struct fake_vocab vocab = {0};
        char word[MAX_WORD];
        size_t n_letters = 1 + random_next(&random) % 4;
        fake_add_basics(&vocab);
        for (size_t i = 0; i < n_letters; i++) fake_add(&vocab, &LETTERS[i], 1, -50, NORMAL);
        for (size_t a = 0; a < n_letters; a++) /* so that no word ends between letters */
            for (size_t b = 0; b < n_letters; b++)
                fake_add(&vocab, (char[]){LETTERS[a], LETTERS[b]}, 2, -(float)(random_next(&random) % 6),
                         NORMAL);
        for (int i = 0; i < 30; i++) {
            size_t length = 3 + random_next(&random) % 6;
            for (size_t j = 0; j < length; j++) word[j] = LETTERS[random_next(&random) % n_letters];
            if (find_piece(&vocab, word, length) < 0)
                fake_add(&vocab, word, length, -(float)(random_next(&random) % 6), NORMAL);
        }
        fake_boolean(&vocab, "tokenizer.ggml.add_space_prefix", false);
        struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
        struct plain_word plain = {.word = word, .vocab = &vocab};
        plain.count = 1 + random_next(&random) % (n % 5 ? 90 : MAX_WORD);
        size_t length = plain.count;
        for (size_t i = 0; i < length; i++) {
            word[i] = LETTERS[random_next(&random) % n_letters];
            plain.ends[i] = i + 1;
        }
        int status = api->explain(tokenizer, word, length, 0, follow, &plain);
        cr_assert_eq(status, 77, "vocabulary %d, %.*s: %s", n, (int)length, word, plain.why);
        api->destroy(tokenizer);
        fake_free(&vocab);
    }
}

/* ---- Texts of ../shared/tokenizers ---- */

static void expect_shared(const char *plugin, const char *const *names)
{
    const struct engine_tokenizer_api *api = load_tokenizers(plugin);
    struct text cases = {0};
    struct id_list ids = {0};
    char why[EXPLANATION_WHY];
    for (; *names; names++) {
        struct model *model;
        struct engine_tokenizer *tokenizer = open_shared(api, *names, &model);
        struct engine_tokenizer_info info = {.struct_size = sizeof info};
        cr_assert_eq(api->info(tokenizer, &info), ENGINE_OK);
        cases.length = 0;
        read_shared("cases.nul", &cases);
        size_t n = 0;
        for (size_t at = 0, length; at < cases.length; at += length + 1, n++) {
            length = strlen(cases.data + at);
            uint32_t flags = (uint32_t)(n % 4);
            struct engine_string text = {cases.data + at, length};
            encode(api, tokenizer, text.data, length, flags, &ids);
            cr_expect(explanation_check(api, tokenizer, text, flags, ids.ids, ids.count, info.n_tokens, why),
                      "%s, text %zu: %s", *names, n, why);
        }
        cr_expect_geq(n, 300u);
        api->destroy(tokenizer);
        model_close(model);
    }
    text_free(&cases);
    id_list_free(&ids);
}

Test(explain, shared_spm)
{
    expect_shared("spm", (const char *const[]){"llama-spm", "phi-3", "spm4k", "baichuan", NULL});
}

Test(explain, shared_bpe)
{
    expect_shared("bpe", (const char *const[]){"gpt-2", "gpt-neox", "starcoder", "refact", "falcon", "mpt",
                                               "deepseek-llm", "deepseek-coder", NULL});
}

Test(explain, shared_ugm)
{
    expect_shared("ugm", (const char *const[]){"ugm4k", NULL});
}

Test(explain, shared_wpm)
{
    expect_shared("wpm", (const char *const[]){"bert-bge", NULL});
}

Test(explain, shared_rwkv)
{
    expect_shared("rwkv", (const char *const[]){"rwkv4k", NULL});
}

/* ---- A sink that stops, flags that there aren't ---- */

static int stop_at_once(void *user, const struct engine_explain_step *step)
{
    (void)step;
    ++*(int *)user;
    return 5;
}

Test(explain, stops_and_refuses)
{
    const struct engine_tokenizer_api *api = load_tokenizers("rwkv");
    struct fake_vocab vocab = {0};
    int calls = 0;
    fake_piece(&vocab, "<unk>", 0, UNKNOWN);
    fake_integer(&vocab, "tokenizer.ggml.unknown_token_id", 0);
    struct engine_tokenizer *tokenizer = fake_open(api, &vocab);
    cr_expect_eq(api->explain(tokenizer, "abc", 3, 0, stop_at_once, &calls), 5);
    cr_expect_eq(calls, 1);
    cr_expect_eq(api->explain(tokenizer, "abc", 3, 8, stop_at_once, &calls), ENGINE_ERROR_UNSUPPORTED);
    cr_expect_eq(calls, 1);
    api->destroy(tokenizer);
    fake_free(&vocab);
}

/* ---- Explanations that are wrong, which the suite must find ---- */

/* What a made-up `explain` reports. */
static const struct engine_explain_step *script;

static int lie(const struct engine_tokenizer *tokenizer, const char *text, size_t length, uint32_t flags,
               engine_explain_sink sink, void *user)
{
    (void)tokenizer, (void)text, (void)length, (void)flags;
    for (const struct engine_explain_step *step = script; step->struct_size; step++) {
        int status = sink(user, step);
        if (status) return status;
    }
    return ENGINE_OK;
}

enum { N_STEPS = 7 };

/* "ab" became " ab" and the tokens 1 (" ") and 2 ("ab"). */
static void make_script(struct engine_explain_step steps[N_STEPS + 1])
{
    static const struct engine_explain_step sound[N_STEPS] = {
        {.kind = ENGINE_EXPLAIN_SPECIAL, .id = 0},
        {.kind = ENGINE_EXPLAIN_TEXT, .id = -1, .end = 2, .text = {" ab", 3}},
        {.kind = ENGINE_EXPLAIN_WORD, .id = -1, .end = 1, .text = {" ", 1}},
        {.kind = ENGINE_EXPLAIN_TOKEN, .id = 1, .end = 1, .text = {" ", 1}},
        {.kind = ENGINE_EXPLAIN_WORD, .id = -1, .start = 1, .end = 3, .text = {"ab", 2}},
        {.kind = ENGINE_EXPLAIN_MERGE, .id = 2, .middle = 1, .end = 2, .text = {"ab", 2}, .score = NAN},
        {.kind = ENGINE_EXPLAIN_TOKEN, .id = 2, .end = 2, .text = {"ab", 2}},
    };
    memcpy(steps, sound, sizeof sound);
    for (size_t i = 0; i < N_STEPS; i++) steps[i].struct_size = sizeof *steps;
    memset(&steps[N_STEPS], 0, sizeof *steps);
}

static void expect_found(const struct engine_explain_step *steps, const char *words)
{
    static const int32_t ids[] = {0, 1, 2};
    const struct engine_tokenizer_api api = {.struct_size = sizeof api, .explain = lie};
    char why[EXPLANATION_WHY];
    script = steps;
    bool good = explanation_check(&api, NULL, (struct engine_string){"ab", 2}, 0, ids, 3, 3, why);
    cr_expect_eq(good, !words, "%s", why);
    if (words) cr_expect(strstr(why, words), "\"%s\" says nothing of \"%s\"", why, words);
}

Test(explain, lies_are_found)
{
    struct engine_explain_step steps[N_STEPS + 1];
    make_script(steps);
    expect_found(steps, NULL);
    static const struct {
        size_t step;
        struct engine_explain_step change; /* what isn't 0 */
        const char *words;
    } lies[] = {
        {0, {.id = 1}, "token 0 is 1, of encode 0"},
        {0, {.id = 3}, "id 3, which there isn't"},
        {1, {.start = 1}, "at 1 to 2 comes after byte 0"},
        {1, {.end = 3}, "at 0 to 3 comes after byte 0 of 2"},
        {1, {.text = {" abc", 4}}, "end after 3"},
        {2, {.end = 2}, "not what the stretch has after byte 0"},
        {3, {.text = {"x", 1}}, "not what the word has there"},
        {4, {.start = 2}, "at 2 to 3"},
        {5, {.middle = 2}, "not of two symbols"},
        {5, {.left = 4}, "ids 4 and 0"},
        {5, {.score = 1}, "a rank or a score"},
        {6, {.start = 1, .text = {"b", 1}}, "a token at byte 1 of a word comes after byte 0"},
        {6, {.id = -1}, "the steps end at byte 2 of 2, token 2 of 3"},
        {6, {.kind = 99}, "the tokens of a word of 2 bytes end after 0"},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        make_script(steps);
        struct engine_explain_step *step = &steps[lies[i].step];
        const struct engine_explain_step *change = &lies[i].change;
        if (change->kind) step->kind = change->kind;
        if (change->id) step->id = change->id;
        if (change->left) step->left = change->left;
        if (change->start) step->start = change->start;
        if (change->middle) step->middle = change->middle;
        if (change->end) step->end = change->end;
        if (change->text.data) step->text = change->text;
        if (change->score != 0) step->score = change->score;
        expect_found(steps, lies[i].words);
    }
    /* Steps that are missing, a merge that comes twice. */
    make_script(steps);
    steps[4].struct_size = 0;
    expect_found(steps, "the words of a stretch of 3 bytes end after 1");
    make_script(steps);
    steps[6] = steps[5];
    expect_found(steps, "not of two symbols");
    /* Merges of no bytes. */
    make_script(steps);
    steps[5].start = steps[5].middle = 2;
    steps[5].text.length = 0;
    expect_found(steps, "not what the word has there");
    /* A normalized stretch without its stretch, or with another one. */
    make_script(steps);
    steps[1].kind = ENGINE_EXPLAIN_NORMALIZED;
    expect_found(steps, "followed by a step of kind 3");
    make_script(steps);
    memmove(steps + 1, steps, (N_STEPS - 1) * sizeof *steps);
    steps[0] = steps[1];
    steps[1] = steps[2];
    steps[1].kind = ENGINE_EXPLAIN_NORMALIZED;
    steps[1].text = (struct engine_string){"", 0};
    steps[1].end = 1;
    expect_found(steps, "a stretch ends at 2, normalized it ended at 1");
    steps[1].end = 2;
    steps[3].struct_size = 0;
    expect_found(steps, "the words of a stretch of 3 bytes end after 0");
}
