/* embed.c: a program that uses the engine as a library. It loads a model and continues a prompt, always with
 * the most probable token; with a JSON schema, the most probable one that the schema allows. MIT licence.
 *
 * usage: embed [PROMPT [MODEL [SCHEMA]]]; without MODEL, or with "", the model that `engine` runs by
 * default */
#include <engine.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TOKENS = 64 }; /* to generate */

/* All open objects; engine.h requires closing them in the reverse order. */
struct session {
    struct engine *engine;
    struct engine_model *model;
    struct engine_context *context;
    struct engine_sampler *sampler;
    const struct engine_tokenizer_api *api; /* the tokenizer's functions */
    struct engine_tokenizer *tokenizer;     /* the model's own */
    struct engine_decoder *decoder;
    float *logits; /* [n_vocab] */
    uint32_t n_vocab;
    struct engine_grammar *grammar; /* NULL: any text */
    struct engine_match *match;     /* the state of the text in the grammar */
};

static void print_log(void *user, enum engine_log_level level, const char *line)
{
    (void)user;
    if (level <= ENGINE_LOG_WARNING) fprintf(stderr, "embed: %s\n", line);
}

/* Constrains the text that follows the prompt. */
static int set_schema(struct session *s, const char *schema)
{
    int status =
        engine_grammar_create(s->model, ENGINE_GRAMMAR_JSON_SCHEMA, schema, strlen(schema), &s->grammar);
    return status ? status : engine_match_create(s->grammar, 0, &s->match);
}

static int open_session(struct session *s, const char *path)
{
    struct engine_options options;
    struct engine_context_options context_options;
    struct engine_context_info info;
    struct engine_sampler_options sampler_options;
    int status;

    memset(&options, 0, sizeof options); /* a zeroed option is the default */
    options.struct_size = sizeof options;
    options.log = print_log;
    if ((status = engine_open(&options, &s->engine))) return status;

    if (!path || !*path) path = engine_default_model(s->engine);
    if (!path) {
        fprintf(stderr, "embed: no model: name a GGUF file as the second argument\n");
        return ENGINE_ERROR_NOT_FOUND;
    }
    if ((status = engine_model_open(s->engine, path, NULL, &s->model))) return status;
    if ((status = engine_model_tokenizer(s->model, &s->api, &s->tokenizer))) return status;
    if ((status = s->api->decoder_create(s->tokenizer, 0, &s->decoder))) return status;

    memset(&context_options, 0, sizeof context_options);
    context_options.struct_size = sizeof context_options;
    if ((status = engine_context_create(s->model, &context_options, &s->context))) return status;

    info.struct_size = sizeof info;
    if ((status = engine_context_get_info(s->context, &info))) return status;
    s->n_vocab = info.n_vocab;
    s->logits = (float *)malloc(info.n_vocab * sizeof *s->logits);
    if (!s->logits) return ENGINE_ERROR_MEMORY;

    memset(&sampler_options, 0, sizeof sampler_options); /* temperature 0: the most probable token */
    sampler_options.struct_size = sizeof sampler_options;
    return engine_sampler_create(&sampler_options, info.n_vocab, &s->sampler);
}

static void close_session(struct session *s)
{
    engine_match_destroy(s->match);
    engine_grammar_destroy(s->grammar);
    engine_sampler_destroy(s->sampler);
    engine_context_destroy(s->context);
    if (s->decoder) s->api->decoder_destroy(s->decoder);
    engine_model_close(s->model); /* and its tokenizer */
    engine_close(s->engine);
    free(s->logits);
}

struct ids {
    int32_t *at;
    size_t count;
};

/* Receives the prompt's tokens, in one or more pieces. A result other than 0 ends encode, which returns
 * it. */
static int add_ids(void *user, const int32_t *more, size_t count)
{
    struct ids *ids = (struct ids *)user;
    int32_t *grown = (int32_t *)realloc(ids->at, (ids->count + count) * sizeof *grown);
    if (!grown) return ENGINE_ERROR_MEMORY;
    memcpy(grown + ids->count, more, count * sizeof *more);
    ids->at = grown;
    ids->count += count;
    return 0;
}

/* Runs tokens and samples the next one. The cache keeps the tokens that have run: each call continues from
 * there. */
static int run_tokens(struct session *s, const int32_t *tokens, size_t count, int32_t *next)
{
    struct engine_batch batch;
    int status;
    memset(&batch, 0, sizeof batch);
    batch.struct_size = sizeof batch;
    batch.tokens = tokens;
    batch.n_tokens = count;
    if ((status = engine_decode(s->context, &batch, s->logits))) return status;
    /* Tokens that would break the schema get the logit -infinity, so that they are not sampled. */
    if (s->match && (status = engine_match_apply(s->match, s->logits, s->n_vocab))) return status;
    if ((status = engine_sample(s->sampler, s->logits, next))) return status;
    return s->match ? engine_match_accept(s->match, *next) : ENGINE_OK;
}

static int generate(struct session *s, const char *prompt)
{
    struct ids ids = {NULL, 0};
    struct engine_string text;
    int32_t token;
    int status = s->api->encode(s->tokenizer, prompt, strlen(prompt), ENGINE_ENCODE_BOS_EOS, add_ids, &ids);
    if (!status) status = run_tokens(s, ids.at, ids.count, &token);
    free(ids.at);
    if (status) return status;

    fputs(prompt, stdout);
    for (int i = 0; i < MOST_TOKENS && !(s->api->attributes(s->tokenizer, token) & ENGINE_TOKEN_END); i++) {
        if ((status = s->api->decode(s->decoder, token, &text))) return status;
        fwrite(text.data, 1, text.length, stdout);
        fflush(stdout);
        if (s->match && engine_match_get_state(s->match) == ENGINE_MATCH_FINAL) break; /* the text must end */
        if ((status = run_tokens(s, &token, 1, &token))) return status;
    }
    putchar('\n');
    if (s->match && engine_match_get_state(s->match) == ENGINE_MATCH_INCOMPLETE)
        fprintf(stderr, "embed: the text was cut after %d tokens, before the schema lets it end\n",
                MOST_TOKENS);
    return ENGINE_OK;
}

int main(int argc, char **argv)
{
    struct session session;
    int status;
    memset(&session, 0, sizeof session);
    status = open_session(&session, argc > 2 ? argv[2] : NULL);
    if (!status && argc > 3) status = set_schema(&session, argv[3]);
    if (!status) status = generate(&session, argc > 1 ? argv[1] : "Once upon a time");
    if (status && *engine_error_message()) fprintf(stderr, "embed: %s\n", engine_error_message());
    close_session(&session);
    return status ? 1 : 0;
}
