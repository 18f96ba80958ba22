/* queue-requests.c: see queue-requests.h. */
#include "queue-requests.h"

#include <stdlib.h>
#include <string.h>

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

void sample_create(struct sample *sample, uint32_t number, uint32_t n_vocab, uint32_t longest, uint32_t most)
{
    uint32_t state = number * 7919u + 17;
    *sample = (struct sample){0};
    next_random(&state);
    size_t n_tokens = 1 + next_random(&state) % longest;
    for (size_t i = 0; i < n_tokens; i++)
        sample->prompt[i] = (int32_t)(3 + next_random(&state) % (n_vocab - 3));
    sample->sampler = (struct engine_sampler_options){
        .struct_size = sizeof sample->sampler, .penalty_last_n = 16, .penalty_repeat = 1.2f};
    if (number % 2 == 1) {
        sample->sampler.temperature = 1;
        sample->sampler.top_k = 50;
        sample->sampler.seed = number;
    }
    sample->request = (struct engine_request){
        .struct_size = sizeof sample->request,
        .tokens = sample->prompt,
        .n_tokens = n_tokens,
        .sampler = &sample->sampler,
        .max_tokens = 1 + next_random(&state) % most,
        .user = sample,
    };
}

static void add_text(char *all, size_t *size, struct engine_string text)
{
    size_t room = sizeof((struct sample *)NULL)->text - *size, n = text.length < room ? text.length : room;
    if (n > 0) memcpy(all + *size, text.data, n);
    *size += n;
}

/* Samples and decodes token by token. */
static int generate(struct sample *sample, const struct engine_tokenizer_api *api,
                    const struct engine_tokenizer *tokenizer, struct engine_decoder *decoder,
                    struct engine_sampler *sampler, struct engine_context *context, float *logits)
{
    struct engine_context_info info = {.struct_size = sizeof info};
    struct engine_string text;
    int status = engine_context_get_info(context, &info);
    while (!status) {
        int32_t token;
        status = engine_sample(sampler, logits, &token);
        sample->reason = ENGINE_DONE_END;
        if (status || token == 1 || api->attributes(tokenizer, token) & ENGINE_TOKEN_END) return status;
        engine_sampler_accept(sampler, token);
        sample->tokens[sample->n_tokens++] = token;
        status = api->decode(decoder, token, &text);
        if (status) return status;
        add_text(sample->text, &sample->text_size, text);
        sample->reason = ENGINE_DONE_LIMIT;
        if (sample->n_tokens == sample->request.max_tokens) return ENGINE_OK;
        sample->reason = ENGINE_DONE_CONTEXT;
        if (engine_sequence_length(context, 0) == info.n_context) return ENGINE_OK;
        struct engine_batch batch = {.struct_size = sizeof batch, .n_tokens = 1, .tokens = &token};
        status = engine_decode(context, &batch, logits);
    }
    return status;
}

int sample_run_alone(struct sample *sample, struct engine_model *model, struct engine_context *context)
{
    const struct engine_tokenizer_api *api = NULL;
    struct engine_tokenizer *tokenizer = NULL;
    struct engine_decoder *decoder = NULL;
    struct engine_sampler *sampler = NULL;
    struct engine_context_info info = {.struct_size = sizeof info};
    struct engine_string text;
    engine_context_get_info(context, &info);
    float *logits = malloc(info.n_vocab * sizeof *logits);
    int status = logits ? engine_model_tokenizer(model, &api, &tokenizer) : ENGINE_ERROR_MEMORY;
    if (!status) status = api->decoder_create(tokenizer, 0, &decoder);
    if (!status) status = engine_sampler_create(&sample->sampler, info.n_vocab, &sampler);
    for (size_t i = 0; i < sample->request.n_tokens && !status; i++) {
        status = api->decode(decoder, sample->prompt[i], &text);
        engine_sampler_accept(sampler, sample->prompt[i]);
    }
    struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = sample->request.n_tokens, .tokens = sample->prompt};
    if (!status) status = engine_sequence_truncate(context, 0, 0);
    if (!status) status = engine_decode(context, &batch, logits);
    if (!status) status = generate(sample, api, tokenizer, decoder, sampler, context, logits);
    if (!status) status = api->decode_end(decoder, &text);
    if (!status) add_text(sample->text, &sample->text_size, text);
    engine_sampler_destroy(sampler);
    if (decoder) api->decoder_destroy(decoder);
    free(logits);
    return status;
}

void sample_take(void *user, const struct engine_event *event)
{
    struct sample *sample = user;
    add_text(sample->got_text, &sample->got_text_size, event->text);
    if (event->kind == ENGINE_EVENT_TOKEN && sample->n_got_tokens < SAMPLE_TOKENS)
        sample->got_tokens[sample->n_got_tokens++] = event->token;
    if (event->kind != ENGINE_EVENT_DONE) return;
    sample->last = *event;
    sample->n_last++;
}

bool sample_agrees(const struct sample *sample)
{
    bool cancelled = sample->last.reason == ENGINE_DONE_CANCELLED;
    if (sample->n_last != 1 || sample->n_got_tokens != sample->last.n_generated) return false;
    if (!cancelled && (sample->last.reason != sample->reason || sample->n_got_tokens != sample->n_tokens ||
                       sample->got_text_size != sample->text_size))
        return false;
    /* What a cancelled one was cut in may be an incomplete character, which the whole text completes. */
    size_t n = sample->got_text_size;
    if (cancelled && n > 3) n -= 3;
    if (cancelled && n <= 3) n = 0;
    return sample->n_got_tokens <= sample->n_tokens && n <= sample->text_size &&
           memcmp(sample->got_tokens, sample->tokens, sample->n_got_tokens * sizeof(int32_t)) == 0 &&
           memcmp(sample->got_text, sample->text, n) == 0;
}
