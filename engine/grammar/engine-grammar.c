/* engine-grammar.c: the functions of engine.h on grammars: the texts of a model's tokens for grammar/, and
 * who still needs a grammar. */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/error.h"
#include "common/assert.h"
#include "common/lock.h"
#include "engine/internal.h"
#include "grammar/grammar.h"
#include "vocabulary/token-texts.h"

struct engine_grammar {
    const struct engine_model *model;
    struct grammar *grammar;
    bool strips;        /* the decoder drops a space that begins a text */
    atomic_size_t uses; /* by its creator, and by matches */
};

struct engine_match {
    struct engine_grammar *grammar;
    struct grammar_match *match;
};

/* ---- Vocabularies ---- */

static uint8_t kind_of(uint32_t attributes)
{
    if (attributes & ENGINE_TOKEN_END) return GRAMMAR_TOKEN_END;
    return attributes & (ENGINE_TOKEN_CONTROL | ENGINE_TOKEN_UNKNOWN | ENGINE_TOKEN_UNUSED)
               ? GRAMMAR_TOKEN_MARK
               : GRAMMAR_TOKEN_TEXT;
}

/* Whether a text loses its first space: as the first token with one and more is decoded. */
static int find_strips(const struct token_texts *texts, const uint8_t *kinds, bool *strips)
{
    struct engine_decoder *decoder;
    struct engine_string text, middle = {"", 0};
    uint32_t id = 0;
    *strips = false;
    for (; id < texts->n_tokens; id++) {
        middle = token_text(texts, (int32_t)id);
        if (kinds[id] == GRAMMAR_TOKEN_TEXT && middle.length > 1 && *middle.data == ' ') break;
    }
    if (id == texts->n_tokens) return ENGINE_OK;
    int status = texts->api->decoder_create(texts->tokenizer, 0, &decoder);
    if (status) return status;
    status = texts->api->decode(decoder, (int32_t)id, &text);
    if (!status) *strips = text.length > 0 && *text.data != ' ';
    texts->api->decoder_destroy(decoder);
    return status;
}

static int make_vocabulary(struct engine_model *model)
{
    ENGINE_ASSERT(lock_is_mine(&model->grammar_lock));
    ENGINE_ASSERT(!model->grammar_vocab);
    const struct token_texts *texts;
    int status = model_token_texts(model, &texts);
    if (status) return status;
    struct engine_string *strings = calloc((size_t)texts->n_tokens + 1, sizeof *strings);
    uint8_t *kinds = malloc((size_t)texts->n_tokens + 1);
    if (strings && kinds) {
        for (uint32_t id = 0; id < texts->n_tokens; id++) {
            strings[id] = token_text(texts, (int32_t)id);
            kinds[id] = kind_of(texts->api->attributes(texts->tokenizer, (int32_t)id));
        }
        status = find_strips(texts, kinds, &model->strips_space);
        if (!status) status = grammar_vocab_create(strings, kinds, texts->n_tokens, &model->grammar_vocab);
    } else {
        status = error_memory("texts of tokens");
    }
    free(strings);
    free(kinds);
    return status;
}

/* ---- Grammars ---- */

int engine_grammar_create(struct engine_model *model, enum engine_grammar_kind kind, const char *text,
                          size_t length, struct engine_grammar **out)
{
    const struct engine_grammar_options options = {
        .struct_size = sizeof options, .kind = kind, .text = text, .length = length};
    return engine_grammar_create_with(model, &options, out);
}

int engine_grammar_create_with(struct engine_model *model, const struct engine_grammar_options *given,
                               struct engine_grammar **out)
{
    static const enum grammar_syntax kinds[] = {[ENGINE_GRAMMAR_GBNF] = GRAMMAR_GBNF,
                                                [ENGINE_GRAMMAR_JSON_SCHEMA] = GRAMMAR_SCHEMA,
                                                [ENGINE_GRAMMAR_JSON_OBJECT] = GRAMMAR_JSON_OBJECT};
    struct engine_grammar_options options;
    int status = SIZED_CHECK(given, engine_grammar_options, user);
    if (status) return status;
    sized_read(&options, sizeof options, given);
    if (options.kind < ENGINE_GRAMMAR_GBNF || options.kind > ENGINE_GRAMMAR_JSON_OBJECT)
        return error_raise(ENGINE_ERROR_ARGUMENT, "unknown kind of grammar %d", (int)options.kind);
    if (!options.text && options.kind != ENGINE_GRAMMAR_JSON_OBJECT)
        return error_raise(ENGINE_ERROR_ARGUMENT, "a grammar without a text");
    pthread_mutex_lock(&model->grammar_lock);
    status = model->grammar_vocab ? ENGINE_OK : make_vocabulary(model);
    pthread_mutex_unlock(&model->grammar_lock);
    if (status) return status;
    struct engine_grammar *created = calloc(1, sizeof *created);
    if (!created) return error_memory("grammar");
    created->model = model;
    created->strips = model->strips_space;
    atomic_init(&created->uses, 1);
    struct effort effort = {.gives_up = options.gives_up, .user = options.user};
    status = grammar_create_with(model->grammar_vocab, kinds[options.kind], options.text, options.length,
                                 &effort, &created->grammar);
    if (status)
        free(created);
    else
        *out = created;
    return status;
}

void engine_grammar_destroy(struct engine_grammar *grammar)
{
    if (!grammar || atomic_fetch_sub(&grammar->uses, 1) > 1) return;
    grammar_destroy(grammar->grammar);
    free(grammar);
}

bool grammar_is_for(const struct engine_grammar *grammar, const struct engine_model *model)
{
    return grammar->model == model;
}

/* ---- Matches ---- */

/* Wraps a match, unless making it failed. */
static int grammar_wrap(struct engine_grammar *grammar, int status, struct grammar_match *match,
                        struct engine_match **out)
{
    if (status) return status;
    struct engine_match *created = malloc(sizeof *created);
    if (!created) {
        grammar_match_destroy(match);
        return error_memory("grammar");
    }
    *created = (struct engine_match){grammar, match};
    ENGINE_ASSERT(atomic_load(&grammar->uses) > 0);
    atomic_fetch_add(&grammar->uses, 1);
    *out = created;
    return ENGINE_OK;
}

int engine_match_create(struct engine_grammar *grammar, int begins_text, struct engine_match **out)
{
    struct grammar_match *match = NULL;
    int status = grammar_match_create(grammar->grammar, begins_text && grammar->strips, &match);
    return grammar_wrap(grammar, status, match, out);
}

int engine_match_copy(const struct engine_match *match, struct engine_match **out)
{
    struct grammar_match *copy = NULL;
    int status = grammar_match_copy(match->match, &copy);
    return grammar_wrap(match->grammar, status, copy, out);
}

void engine_match_destroy(struct engine_match *match)
{
    if (!match) return;
    grammar_match_destroy(match->match);
    engine_grammar_destroy(match->grammar);
    free(match);
}

int engine_match_apply(struct engine_match *match, float *logits, uint32_t n_vocab)
{
    return grammar_match_apply(match->match, logits, n_vocab);
}

int engine_match_accept(struct engine_match *match, int32_t token)
{
    return grammar_match_accept(match->match, (uint32_t)token);
}

enum engine_match_state engine_match_get_state(struct engine_match *match)
{
    if (grammar_match_final(match->match)) return ENGINE_MATCH_FINAL;
    return grammar_match_complete(match->match) ? ENGINE_MATCH_COMPLETE : ENGINE_MATCH_INCOMPLETE;
}
