/* engine-template.c: the functions of engine.h on chat templates: which template a model has, or is
 * given by name; which variables it gets, and the tokens of what it writes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "common/array.h"
#include "common/assert.h"
#include "internal.h"
#include "template/template.h"

struct engine_template {
    struct engine_model *model;
    struct template *plain;      /* NULL: it has a mistake, but with_tools has none */
    struct template *with_tools; /* NULL: it is the same, or has a mistake */
    char *fault, *tools_fault;   /* those mistakes; NULL: none */
    struct engine_string source; /* of `plain`; in the model, in a table, or `copy` */
    char *copy;
    char origin[128];
    bool named; /* one of the named templates: it writes BOS only where the tokenizer would add it */
    struct template_notes *notes;
};

struct engine_rendered {
    struct engine_model *model;
    struct template_output *output;
};

/* ---- Finding the template ------------------------------------------------------------------------------ */

static int template_parse_source(const char *origin, struct engine_string source, struct template **parsed)
{
    return template_create(origin, source.data, source.length, parsed);
}

/* The metadata's template: its own for NULL, else one of those with names. */
static bool find_in_model(const struct engine_model *model, const char *name, struct engine_string *source)
{
    char key[256] = "tokenizer.chat_template";
    if (name && snprintf(key, sizeof key, "tokenizer.chat_template.%s", name) >= (int)sizeof key)
        return false;
    return model->getters.get_string(model->getters.context, key, source) == ENGINE_OK;
}

/* Whether the vocabulary has a token. */
static bool has_token(const struct engine_model *model, const char *text)
{
    const struct engine_metadata *metadata = &model->getters;
    struct engine_string pieces[64];
    size_t count = 0, length = strlen(text);
    if (metadata->get_count(metadata->context, "tokenizer.ggml.tokens", &count) != ENGINE_OK) return false;
    for (size_t at = 0; at < count; at += 64) {
        size_t n = count - at < 64 ? count - at : 64;
        if (metadata->get_strings(metadata->context, "tokenizer.ggml.tokens", at, n, pieces) != ENGINE_OK)
            return false;
        for (size_t i = 0; i < n; i++)
            if (pieces[i].length == length && memcmp(pieces[i].data, text, length) == 0) return true;
    }
    return false;
}

static int use_named(struct engine_template *template, const char *name)
{
    const struct named_template *named = named_template_find(name);
    if (!named) return error_raise(ENGINE_ERROR_NOT_FOUND, "no chat template is called '%s'", name);
    snprintf(template->origin, sizeof template->origin, "the named template %s", name);
    template->source = (struct engine_string){named->source, strlen(named->source)};
    template->named = true;
    return template_parse_source(template->origin, template->source, &template->plain);
}

/* Like template_parse_source, but keeps a mistake for later. */
static int parse_or_keep(const char *origin, struct engine_string source, struct template **parsed,
                         char **fault)
{
    int status = template_parse_source(origin, source, parsed);
    if (status != ENGINE_ERROR_DATA) return status;
    *fault = strdup(engine_error_message());
    return *fault ? ENGINE_OK : error_memory("template");
}

/* The model's own template and the one for tools: a mistake stands in the way of what needs that one only. */
static int use_both(struct engine_template *template, struct engine_string with_tools)
{
    int status = parse_or_keep(template->origin, template->source, &template->plain, &template->fault);
    if (!status)
        status = parse_or_keep("the model's template tool_use", with_tools, &template->with_tools,
                               &template->tools_fault);
    if (!status && template->fault && template->tools_fault)
        status = error_raise(ENGINE_ERROR_DATA, "%s", template->fault);
    return status;
}

static int use_model(struct engine_template *template, const char *name)
{
    struct engine_string with_tools;
    bool is_default = !name;
    bool has_tools = is_default && find_in_model(template->model, "tool_use", &with_tools);
    if (is_default && !find_in_model(template->model, NULL, &template->source) &&
        !find_in_model(template->model, "default", &template->source)) {
        if (!has_tools)
            return use_named(template, has_token(template->model, "<|im_start|>") ? "chatml" : "plain");
        template->source = with_tools;
        has_tools = false;
    }
    if (!is_default && !find_in_model(template->model, name, &template->source))
        return use_named(template, name);
    if (is_default)
        snprintf(template->origin, sizeof template->origin, "the model's template");
    else
        snprintf(template->origin, sizeof template->origin, "the model's template %.80s", name);
    return has_tools ? use_both(template, with_tools)
                     : template_parse_source(template->origin, template->source, &template->plain);
}

static int use_source(struct engine_template *template, const struct engine_template_options *options)
{
    snprintf(template->origin, sizeof template->origin, "%.120s",
             options->origin ? options->origin : "the template");
    template->copy = malloc(options->source.length + 1);
    if (!template->copy) return error_memory("template");
    memcpy(template->copy, options->source.data, options->source.length);
    template->source = (struct engine_string){template->copy, options->source.length};
    return template_parse_source(template->origin, template->source, &template->plain);
}

int engine_template_create(struct engine_model *model, const struct engine_template_options *options,
                           struct engine_template **out)
{
    struct engine_template_options known = {0};
    if (options) {
        int status = SIZED_CHECK(options, engine_template_options, origin);
        if (status != ENGINE_OK) return status;
        sized_read(&known, sizeof known, options);
    }
    struct engine_template *template = calloc(1, sizeof *template);
    if (!template) return error_memory("template");
    template->model = model;
    template->notes = calloc(1, sizeof *template->notes);
    if (!template->notes) {
        free(template);
        return error_memory("template");
    }
    pthread_mutex_init(&template->notes->lock, NULL);
    int status = known.source.data ? use_source(template, &known) : use_model(template, known.name);
    if (status != ENGINE_OK) {
        engine_template_destroy(template);
        return status;
    }
    *out = template;
    return ENGINE_OK;
}

void engine_template_destroy(struct engine_template *template)
{
    if (!template) return;
    template_destroy(template->plain);
    template_destroy(template->with_tools);
    free(template->fault);
    free(template->tools_fault);
    pthread_mutex_destroy(&template->notes->lock);
    free(template->notes->kept);
    free(template->notes);
    free(template->copy);
    free(template);
}

const char *engine_template_name_at(size_t index)
{
    const struct named_template *named = named_template_at(index);
    return named ? named->name : NULL;
}

const char *engine_template_origin(const struct engine_template *template)
{
    return template->origin;
}

const char *engine_template_fault(const struct engine_template *template)
{
    return template->fault;
}

const char *engine_template_tools_fault(const struct engine_template *template)
{
    return template->tools_fault;
}

const struct template *template_for_calls(const struct engine_template *template)
{
    return template->with_tools ? template->with_tools : template->plain;
}

const char *template_architecture(const struct engine_template *template)
{
    return template->model->architecture;
}

struct template_notes *template_notes(const struct engine_template *template)
{
    return template->notes;
}

struct engine_string engine_template_source(const struct engine_template *template)
{
    return template->source;
}

/* ---- Variables ----------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *key;
} special_tokens[] = {
    {"bos_token", "tokenizer.ggml.bos_token_id"},     {"eos_token", "tokenizer.ggml.eos_token_id"},
    {"unk_token", "tokenizer.ggml.unknown_token_id"}, {"sep_token", "tokenizer.ggml.seperator_token_id"},
    {"pad_token", "tokenizer.ggml.padding_token_id"}, {"cls_token", "tokenizer.ggml.cls_token_id"},
    {"mask_token", "tokenizer.ggml.mask_token_id"},
};
#define N_SPECIAL (sizeof special_tokens / sizeof *special_tokens)

/* Whether the tokenizer begins texts with BOS: not if there is none. */
static int begins_with_bos(struct engine_model *model, bool *begins)
{
    const struct engine_tokenizer_api *api;
    struct engine_tokenizer *tokenizer;
    struct engine_tokenizer_info info = {.struct_size = sizeof info};
    int status = engine_model_tokenizer(model, &api, &tokenizer);
    if (!status) status = api->info(tokenizer, &info);
    *begins = !status && info.add_bos == 1;
    return status == ENGINE_ERROR_MEMORY ? status : ENGINE_OK;
}

/* Fills variables [N_SPECIAL], *count of them. */
static int read_special_tokens(const struct engine_template *template, struct template_variable *variables,
                               size_t *count)
{
    const struct engine_metadata *metadata = &template->model->getters;
    bool begins = true;
    int status = template->named ? begins_with_bos(template->model, &begins) : ENGINE_OK;
    for (size_t i = 0; i < N_SPECIAL && !status; i++) {
        struct engine_string piece;
        int64_t id;
        if (metadata->get_integer(metadata->context, special_tokens[i].key, &id) != ENGINE_OK || id < 0)
            continue;
        if (metadata->get_strings(metadata->context, "tokenizer.ggml.tokens", (size_t)id, 1, &piece) !=
            ENGINE_OK)
            continue;
        if (i == 0 && !begins) continue;
        variables[(*count)++] = (struct template_variable){
            .name = special_tokens[i].name, .json = piece, .what = "vocabulary", .trusted = true};
    }
    return status;
}

static struct engine_string json_or(struct engine_string json, const char *otherwise)
{
    return json.data ? json : (struct engine_string){otherwise, strlen(otherwise)};
}

int engine_template_render(const struct engine_template *template, const struct engine_template_input *input,
                           struct engine_rendered **out)
{
    int status = SIZED_CHECK(input, engine_template_input, now);
    if (status != ENGINE_OK) return status;
    struct engine_template_input known;
    sized_read(&known, sizeof known, input);
    const char *fault = known.tools.data ? template->tools_fault : template->fault;
    if (fault) return error_raise(ENGINE_ERROR_DATA, "%s", fault);
    bool closed = known.no_generation_prompt || known.continues_last;
    struct template_variable variables[N_SPECIAL + 5];
    size_t count = 0;
    status = read_special_tokens(template, variables, &count);
    if (status) return status;
    if (known.variables.data)
        variables[count++] = (struct template_variable){.json = known.variables, .what = "variables"};
    variables[count++] = (struct template_variable){.name = "messages",
                                                    .json = json_or(known.messages, ""),
                                                    .what = "messages",
                                                    .is = TEMPLATE_OBJECTS,
                                                    .word_key = "role"};
    variables[count++] = (struct template_variable){
        .name = "tools", .json = json_or(known.tools, "null"), .what = "tools", .is = TEMPLATE_OBJECTS};
    variables[count++] = (struct template_variable){.name = "documents",
                                                    .json = json_or(known.documents, "null"),
                                                    .what = "documents",
                                                    .is = TEMPLATE_OBJECTS};
    variables[count++] =
        (struct template_variable){.name = "add_generation_prompt",
                                   .json = json_or((struct engine_string){0}, closed ? "false" : "true"),
                                   .what = "add_generation_prompt"};

    struct engine_rendered *rendered = calloc(1, sizeof *rendered);
    if (!rendered) return error_memory("rendered template");
    rendered->model = template->model;
    const struct template *used =
        known.tools.data && template->with_tools ? template->with_tools : template->plain;
    status = template_render(used, variables, count, known.now ? known.now : (int64_t)time(NULL),
                             &rendered->output);
    if (!status && known.continues_last)
        status = template_output_end_in_last(rendered->output, known.messages);
    if (status != ENGINE_OK) {
        engine_rendered_free(rendered);
        return status;
    }
    *out = rendered;
    return ENGINE_OK;
}

/* ---- Tokens -------------------------------------------------------------------------------------------- */

/* The tokens of a text that is partly the template's and partly the user's. Special tokens count only where
 * the template wrote all of their bytes; text from a user stays text, even if it spells one.
 *
 * Most texts have no such spelling in the user's part, and the tokenizer takes them whole. Otherwise the text
 * is cut at the template's special tokens, and the text between them is encoded as plain text. A tokenizer
 * treats text after a special token as it treats a text's beginning, so both ways give the same tokens. */

/* Tokens that ENGINE_ENCODE_SPECIAL recognises in addition to those that are always recognised. */
#define SPECIAL (ENGINE_TOKEN_CONTROL | ENGINE_TOKEN_UNKNOWN)

struct special {
    struct engine_string piece;
    int32_t id;
    bool swallows_known;
    bool swallows_left, swallows_right; /* the white space next to it */
};

/* A special token in the text. */
struct place {
    size_t from, to;
    struct special *special;
};

struct work {
    const struct engine_tokenizer_api *api;
    const struct engine_tokenizer *tokenizer;
    struct special *specials; /* [count] in the order of their pieces */
    size_t count;
};

static int by_piece(const void *a, const void *b)
{
    const struct special *x = a, *y = b;
    size_t both = x->piece.length < y->piece.length ? x->piece.length : y->piece.length;
    int order = memcmp(x->piece.data, y->piece.data, both);
    if (order) return order;
    if (x->piece.length != y->piece.length) return x->piece.length < y->piece.length ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static int find_specials(struct work *work)
{
    struct engine_tokenizer_info info = {.struct_size = sizeof info};
    int status = work->api->info(work->tokenizer, &info);
    for (int64_t id = 0; !status && id < info.n_tokens; id++) {
        struct special special = {.id = (int32_t)id};
        if (!(work->api->attributes(work->tokenizer, (int32_t)id) & SPECIAL)) continue;
        status = work->api->piece(work->tokenizer, (int32_t)id, &special.piece);
        if (status || !special.piece.length) continue;
        if (!ARRAY_GROW(work->specials, work->count)) return error_memory("special tokens");
        work->specials[work->count++] = special;
    }
    if (work->count) qsort(work->specials, work->count, sizeof *work->specials, by_piece);
    return status;
}

/* The first of specials [from, to), all equal up to byte `depth`, with a byte of at least `byte` there. */
static size_t first_at_least(const struct work *work, size_t from, size_t to, size_t depth, unsigned byte)
{
    ENGINE_ASSERT(from <= to && to <= work->count);
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        const struct engine_string piece = work->specials[middle].piece;
        bool less = piece.length <= depth || (unsigned char)piece.data[depth] < byte;
        if (less)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* The longest special token at the beginning of the text; NULL: none. */
static struct special *longest_at(const struct work *work, const char *text, size_t length)
{
    struct special *found = NULL;
    size_t from = 0, to = work->count;
    for (size_t depth = 0; from < to; depth++) {
        if (work->specials[from].piece.length == depth) found = &work->specials[from];
        if (depth == length) break;
        unsigned byte = (unsigned char)text[depth];
        from = first_at_least(work, from, to, depth, byte);
        to = first_at_least(work, from, to, depth, byte + 1);
    }
    return found;
}

/* The end of the longest run of bytes of mark 0 from `at` on. */
static size_t trusted_end(const unsigned char *marks, size_t at, size_t length)
{
    const unsigned char *user = length > at ? memchr(marks + at, 1, length - at) : NULL;
    return user ? (size_t)(user - marks) : length;
}

/* Whether a special token is spelled with a byte of the user's. */
static bool user_spells_one(const struct work *work, struct engine_string text, const unsigned char *marks)
{
    size_t trusted = trusted_end(marks, 0, text.length);
    for (size_t at = 0; at < text.length; at++) {
        if (at >= trusted && !marks[at]) trusted = trusted_end(marks, at, text.length);
        const struct special *found = longest_at(work, text.data + at, text.length - at);
        if (found && at + found->piece.length > (at < trusted ? trusted : at)) return true;
    }
    return false;
}

/* ---- White space that tokens swallow ------------------------------------------------------------------- */

struct alone {
    int32_t id;
    size_t count;
};

static int count_token(void *user, const int32_t *ids, size_t count)
{
    struct alone *alone = user;
    if (count) alone->id = ids[0];
    alone->count += count;
    return 0;
}

/* Whether the token swallows a space before or after it. */
static bool swallows(const struct work *work, const struct special *special, bool before)
{
    struct alone alone = {0};
    char *text = malloc(special->piece.length + 1);
    if (!text) return false;
    memcpy(text + before, special->piece.data, special->piece.length);
    text[before ? 0 : special->piece.length] = ' ';
    int status = work->api->encode(work->tokenizer, text, special->piece.length + 1, ENGINE_ENCODE_SPECIAL,
                                   count_token, &alone);
    free(text);
    return !status && alone.count == 1 && alone.id == special->id;
}

static void learn(const struct work *work, struct special *special)
{
    if (special->swallows_known) return;
    special->swallows_left = swallows(work, special, true);
    special->swallows_right = swallows(work, special, false);
    special->swallows_known = true;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* ---- Cutting ------------------------------------------------------------------------------------------- */

/* The next special token at or after `from` of which all bytes are the template's. */
static struct place next_place(const struct work *work, struct engine_string text, const unsigned char *marks,
                               size_t from)
{
    size_t trusted = from;
    for (size_t at = from; at < text.length; at++) {
        if (marks[at]) continue;
        if (at >= trusted) trusted = trusted_end(marks, at, text.length);
        struct special *found = longest_at(work, text.data + at, trusted - at);
        if (found) return (struct place){at, at + found->piece.length, found};
    }
    return (struct place){text.length, text.length, NULL};
}

static int encode_cut(const struct work *work, struct engine_string text, const unsigned char *marks,
                      engine_token_sink sink, void *user)
{
    int status = ENGINE_OK;
    for (size_t at = 0; at < text.length && !status;) {
        struct place place = next_place(work, text, marks, at);
        size_t end = place.from;
        if (place.special) learn(work, place.special);
        while (place.special && place.special->swallows_left && end > at && is_space(text.data[end - 1]))
            end--;
        if (end > at) status = work->api->encode(work->tokenizer, text.data + at, end - at, 0, sink, user);
        if (!status && place.special) status = sink(user, &place.special->id, 1);
        ENGINE_ASSERT(place.to > at || place.to == text.length);
        at = place.to;
        while (place.special && place.special->swallows_right && at < text.length && is_space(text.data[at]))
            at++;
    }
    return status;
}

int template_tokens(const struct engine_tokenizer_api *api, const struct engine_tokenizer *tokenizer,
                    struct engine_string text, const unsigned char *marks, engine_token_sink sink, void *user)
{
    struct work work = {.api = api, .tokenizer = tokenizer};
    int status = find_specials(&work);
    if (!status) {
        status = user_spells_one(&work, text, marks)
                     ? encode_cut(&work, text, marks, sink, user)
                     : api->encode(tokenizer, text.data, text.length, ENGINE_ENCODE_SPECIAL, sink, user);
    }
    free(work.specials);
    return status;
}

/* ---- What was rendered --------------------------------------------------------------------------------- */

void engine_rendered_free(struct engine_rendered *rendered)
{
    if (!rendered) return;
    template_output_free(rendered->output);
    free(rendered);
}

struct engine_string engine_rendered_text(const struct engine_rendered *rendered)
{
    return template_output_text(rendered->output);
}

const unsigned char *engine_rendered_marks(const struct engine_rendered *rendered)
{
    return template_output_marks(rendered->output);
}

int engine_rendered_encode(const struct engine_rendered *rendered, size_t from, engine_token_sink sink,
                           void *user)
{
    const struct engine_tokenizer_api *api;
    struct engine_tokenizer *tokenizer;
    struct engine_string text = engine_rendered_text(rendered);
    if (from > text.length)
        return error_raise(ENGINE_ERROR_ARGUMENT, "byte %zu of a text of %zu", from, text.length);
    int status = engine_model_tokenizer(rendered->model, &api, &tokenizer);
    if (status != ENGINE_OK) return status;
    text.data += from;
    text.length -= from;
    return template_tokens(api, tokenizer, text, engine_rendered_marks(rendered) + from, sink, user);
}

/* ---- Named templates ----------------------------------------------------------------------------------- */

/* Those that a model without one can be given by name (template.h). The formats are those that the families
 * of models were trained on, and the names llama.cpp's. bos_token is empty where the tokenizer doesn't begin
 * texts with one. */

/* A message's content: a text, parts with texts, or null. */
#define BEGIN                                                                                                \
    "{%- macro text(message) %}"                                                                             \
    "{%- if message.content is string %}{{ message.content }}"                                               \
    "{%- elif message.content %}{% for part in message.content %}{{ part.text }}{% endfor %}"                \
    "{%- endif %}"                                                                                           \
    "{%- endmacro %}"                                                                                        \
    "{{ bos_token }}"

#define EACH "{%- for message in messages %}"

/* The same for all messages, and what begins the answer. `content` is an expression. */
#define END(prompt) "{%- endfor %}{%- if add_generation_prompt %}{{ '" prompt "' }}{% endif %}"
#define TURNS(before, after, content, end, prompt)                                                           \
    BEGIN EACH "{{- '" before "' ~ message.role ~ '" after "' ~ " content " ~ '" end "' }}" END(prompt)

/* By roles; `content` is an expression, and so is `end`, which ends the assistant's turn. */
#define ROLES_OF(content, system, after_system, user, after_user, assistant, end, prompt)                    \
    BEGIN EACH "{%- if message.role == 'system' %}{{ '" system "' ~ " content " ~ '" after_system "' }}"     \
               "{%- elif message.role == 'assistant' %}{{ '" assistant "' ~ " content " ~ " end " }}"        \
               "{%- else %}{{ '" user "' ~ " content " ~ '" after_user "' }}"                                \
               "{%- endif %}" END(prompt)
#define ROLES(...)   ROLES_OF("text(message)", __VA_ARGS__)
#define TRIMMED(...) ROLES_OF("text(message) | trim", __VA_ARGS__)

/* Mistral's: the system's text before v7 is a part of the next question. */
#define MISTRAL(open, close, answer, trim)                                                                   \
    BEGIN "{%- set ns = namespace(system='') %}" EACH                                                        \
          "{%- if message.role == 'system' %}{% set ns.system = ns.system ~ text(message) ~ '\n\n' %}"       \
          "{%- elif message.role == 'assistant' %}{{ '" answer "' ~ text(message)" trim " ~ eos_token }}"    \
          "{%- else %}{{ '" open "' ~ ns.system ~ text(message) ~ '" close "' }}"                            \
          "{%- set ns.system = '' %}"                                                                        \
          "{%- endif %}{%- endfor %}"

static const struct named_template templates[] = {
    {"alpaca", BEGIN
     "{%- if not messages or messages[0].role != 'system' %}"
     "{{- 'Below is an instruction that describes a task. Write a response that appropriately completes the "
     "request.\n\n' }}"
     "{%- endif %}" EACH "{%- if message.role == 'system' %}{{ text(message) ~ '\n\n' }}"
     "{%- elif message.role == 'assistant' %}{{ '### Response:\n' ~ text(message) ~ eos_token ~ '\n\n' }}"
     "{%- else %}{{ '### Instruction:\n' ~ text(message) ~ '\n\n' }}"
     "{%- endif %}" END("### Response:\n")},
    {"chatglm3", BEGIN "{{- '[gMASK]sop' }}" EACH
                       "{{- '<|' ~ message.role ~ '|>\n ' ~ text(message) }}" END("<|assistant|>")},
    {"chatglm4", BEGIN "{{- '[gMASK]<sop>' }}" EACH
                       "{{- '<|' ~ message.role ~ '|>\n' ~ text(message) }}" END("<|assistant|>\n")},
    {"chatml", TURNS("<|im_start|>", "\n", "text(message)", "<|im_end|>\n", "<|im_start|>assistant\n")},
    {"command-r", TRIMMED("<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>", "<|END_OF_TURN_TOKEN|>",
                          "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>", "<|END_OF_TURN_TOKEN|>",
                          "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", "'<|END_OF_TURN_TOKEN|>'",
                          "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>")},
    {"deepseek",
     ROLES("", "", "### Instruction:\n", "\n", "### Response:\n", "'\n<|EOT|>\n'", "### Response:\n")},
    {"deepseek2", ROLES("", "\n\n", "User: ", "\n\n", "Assistant: ", "eos_token", "Assistant:")},
    {"deepseek3", ROLES("", "\n\n", "<｜User｜>", "", "<｜Assistant｜>", "eos_token", "<｜Assistant｜>")},
    {"exaone3", TRIMMED("[|system|]", "[|endofturn|]\n", "[|user|]", "\n", "[|assistant|]",
                        "'[|endofturn|]\n'", "[|assistant|]")},
    {"falcon3", TURNS("<|", "|>\n", "text(message)", "\n", "<|assistant|>\n")},
    {"gemma",
     BEGIN "{%- set ns = namespace(system='') %}" EACH
           "{%- if message.role == 'system' %}{% set ns.system = text(message) | trim %}"
           "{%- else %}"
           "{{- '<start_of_turn>' ~ ('model' if message.role == 'assistant' else message.role) ~ '\n' }}"
           "{{- (ns.system ~ '\n\n' if ns.system) ~ text(message) | trim ~ '<end_of_turn>\n' }}"
           "{%- set ns.system = '' %}"
           "{%- endif %}" END("<start_of_turn>model\n")},
    {"gpt-oss",
     BEGIN EACH "{{- '<|start|>' ~ message.role ~ '<|channel|>final' * (message.role == 'assistant') ~ "
                "'<|message|>' ~ text(message) ~ '<|end|>' }}" END("<|start|>assistant")},
    {"granite", TURNS("<|start_of_role|>", "<|end_of_role|>", "text(message)", "<|end_of_text|>\n",
                      "<|start_of_role|>assistant<|end_of_role|>")},
    {"kimi-k2", ROLES("<|im_system|>system<|im_middle|>", "<|im_end|>", "<|im_user|>user<|im_middle|>",
                      "<|im_end|>", "<|im_assistant|>assistant<|im_middle|>", "'<|im_end|>'",
                      "<|im_assistant|>assistant<|im_middle|>")},
    /* A BOS before each question, as the model's own chats have it. */
    {"llama2",
     "{%- macro text(message) %}"
     "{%- if message.content is string %}{{ message.content }}"
     "{%- elif message.content %}{% for part in message.content %}{{ part.text }}{% endfor %}"
     "{%- endif %}"
     "{%- endmacro %}"
     "{%- set system = '' %}"
     "{%- if messages and messages[0].role == 'system' %}"
     "{%- set system = '<<SYS>>\n' ~ text(messages[0]) ~ '\n<</SYS>>\n\n' %}"
     "{%- set messages = messages[1:] %}"
     "{%- endif %}" EACH
     "{%- if message.role == 'assistant' %}{{ ' ' ~ text(message) | trim ~ ' ' ~ eos_token }}"
     "{%- else %}"
     "{{- bos_token ~ '[INST] ' ~ (system if loop.first else '') ~ text(message) | trim ~ ' [/INST]' }}"
     "{%- endif %}"
     "{%- endfor %}"},
    {"llama3", TURNS("<|start_header_id|>", "<|end_header_id|>\n\n", "text(message) | trim", "<|eot_id|>",
                     "<|start_header_id|>assistant<|end_header_id|>\n\n")},
    {"llama4", TURNS("<|header_start|>", "<|header_end|>\n\n", "text(message) | trim", "<|eot|>",
                     "<|header_start|>assistant<|header_end|>\n\n")},
    {"minicpm", TRIMMED("", "", "<用户>", "<AI>", "", "''", "")},
    {"mistral", MISTRAL("[INST] ", " [/INST]", " ", " | trim")},
    {"mistral-v1", MISTRAL(" [INST] ", " [/INST]", " ", "")},
    {"mistral-v3", MISTRAL("[INST] ", "[/INST]", " ", " | trim")},
    {"mistral-v3-tekken", MISTRAL("[INST]", "[/INST]", "", "")},
    {"mistral-v7", ROLES("[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]", "[INST] ", "[/INST]", " ", "eos_token", "")},
    {"mistral-v7-tekken",
     ROLES("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[INST]", "[/INST]", "", "eos_token", "")},
    /* The first turn begins with the text's own BOS. */
    {"monarch",
     BEGIN EACH "{{- '<s>' * (not loop.first) ~ message.role ~ '\n' ~ text(message) ~ '</s>\n' }}" END(
         "<s>assistant\n")},
    {"openchat", ROLES("", "<|end_of_turn|>", "GPT4 Correct User: ", "<|end_of_turn|>",
                       "GPT4 Correct Assistant: ", "'<|end_of_turn|>'", "GPT4 Correct Assistant:")},
    {"orion", BEGIN
     "{%- set ns = namespace(system='') %}" EACH
     "{%- if message.role == 'system' %}{% set ns.system = ns.system ~ text(message) %}"
     "{%- elif message.role == 'assistant' %}{{ text(message) ~ '</s>' }}"
     "{%- else %}{{ 'Human: ' ~ (ns.system ~ '\n\n' if ns.system) ~ text(message) ~ '\n\nAssistant: </s>' }}"
     "{%- set ns.system = '' %}"
     "{%- endif %}{%- endfor %}"},
    {"phi3", TURNS("<|", "|>\n", "text(message)", "<|end|>\n", "<|assistant|>\n")},
    {"phi4",
     TURNS("<|im_start|>", "<|im_sep|>", "text(message)", "<|im_end|>", "<|im_start|>assistant<|im_sep|>")},
    {"plain", BEGIN EACH "{%- if message.role == 'system' %}{{ text(message) ~ '\n\n' }}"
                         "{%- else %}{{ message.role | capitalize ~ ': ' ~ text(message) ~ '\n' }}"
                         "{%- endif %}" END("Assistant:")},
    {"redpajama", ROLES("", "\n", "<human>: ", "\n", "<bot>: ", "'\n'", "<bot>:")},
    {"rwkv-world", TRIMMED("System: ", "\n\n", "User: ", "\n\n", "Assistant: ", "'\n\n'", "Assistant:")},
    {"seed_oss",
     TURNS("<seed:bos>", "\n", "(text(message) | trim if message.role == 'assistant' else text(message))",
           "<seed:eos>", "<seed:bos>assistant\n")},
    {"vicuna", ROLES("", "\n\n", "USER: ", "\n", "ASSISTANT: ", "eos_token ~ '\n'", "ASSISTANT:")},
    {"vicuna-orca", ROLES("SYSTEM: ", "\n", "USER: ", "\n", "ASSISTANT: ", "eos_token ~ '\n'", "ASSISTANT:")},
    {"zephyr", BEGIN EACH
     "{{- '<|' ~ message.role ~ '|>\n' ~ text(message) ~ eos_token ~ '\n' }}" END("<|assistant|>\n")},
};

const struct named_template *named_template_at(size_t index)
{
    return index < sizeof templates / sizeof *templates ? &templates[index] : NULL;
}

const struct named_template *named_template_find(const char *name)
{
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++)
        if (strcmp(templates[i].name, name) == 0) return &templates[i];
    return NULL;
}
