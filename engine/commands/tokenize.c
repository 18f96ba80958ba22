/* tokenize.c: `engine tokenize`: text to token ids, for people with the pieces of text that they represent,
 * and ids to text. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/commands.h"
#include "commands/explain.h"
#include "common/memory-stream.h"
#include "io/display.h"
#include "io/files.h"
#include "io/json.h"
#include "io/messages.h"
#include "options/open.h"
#include "prompts/prompt.h"

struct tokenization {
    struct engine_model *model;
    const struct engine_tokenizer_api *api;
    struct engine_tokenizer *tokenizer;
    uint32_t flags;      /* for encode */
    bool pieces;         /* a line with id and piece for each token; otherwise the ids on one line */
    bool explain;        /* the steps instead */
    bool first;          /* nothing has been printed on the line yet */
    bool had_bos;        /* a text brought the BOS that --bos adds, see token_list_drop_bos */
    const char *failure; /* the error while printing, NULL if there was none */
    json_t *ids,
        *texts; /* with --json: arrays of the ids and pieces, or of the parts of the text; else NULL */
};

/* ---- Text to ids ---- */

static void print_piece(struct tokenization *work, int32_t id)
{
    struct engine_string piece;
    if (work->api->piece(work->tokenizer, id, &piece) != ENGINE_OK) {
        work->failure = engine_error_message();
        return;
    }
    if (work->ids) {
        json_array_append_new(work->texts, json_text(piece.data, piece.length));
        return;
    }
    printf("%7d  ", id);
    quoted_print(piece, stdout);
    putchar('\n');
}

/* " 123": printf would take most of a long text's time. */
static void print_id(struct tokenization *work, int32_t id)
{
    char digits[16], *end = digits + sizeof digits, *at = end;
    for (uint32_t rest = (uint32_t)id; at == end || rest; rest /= 10) *--at = (char)('0' + rest % 10);
    if (!work->first) *--at = ' ';
    work->first = false;
    fwrite(at, 1, (size_t)(end - at), stdout);
}

/* The sink of encode. */
static int collect(void *user, const int32_t *ids, size_t count)
{
    return interrupted ? 1 : token_list_add(user, ids, count);
}

static void print_tokens(struct tokenization *work, const struct token_list *tokens)
{
    for (size_t i = 0; i < tokens->count && !work->failure && !interrupted; i++) {
        int32_t id = tokens->ids[i];
        if (work->ids) json_array_append_new(work->ids, json_integer(id));
        if (work->pieces)
            print_piece(work, id);
        else if (!work->ids)
            print_id(work, id);
    }
}

/* A text's tokens as a line of JSON; empties the arrays. */
static int print_json(struct tokenization *work)
{
    json_t *json = work->pieces ? json_pack("{s:O, s:O}", "ids", work->ids, "pieces", work->texts)
                                : json_pack("{s:O}", "ids", work->ids);
    if (!json) return command_error(ENGINE_ERROR_MEMORY, "out of memory (JSON)");
    json_dumpf(json, stdout, 0);
    putchar('\n');
    json_decref(json);
    json_array_clear(work->ids);
    json_array_clear(work->texts);
    return ENGINE_OK;
}

static int encode_text(struct tokenization *work, const char *text, size_t length)
{
    struct token_list tokens = {0};
    struct engine_tokenizer_info info = {.struct_size = sizeof info};
    work->first = true;
    int status = work->api->info(work->tokenizer, &info);
    if (!status) status = work->api->encode(work->tokenizer, text, length, work->flags, collect, &tokens);
    if (!status && (work->flags & ENGINE_ENCODE_BOS_EOS)) token_list_drop_bos(&info, &tokens, 0);
    work->had_bos |= tokens.had_bos;
    if (!status) print_tokens(work, &tokens);
    free(tokens.ids);
    if (work->failure) return command_error(ENGINE_ERROR, "%s", work->failure);
    if (interrupted) return ENGINE_OK;
    if (work->ids && !status) return print_json(work);
    if (!work->pieces) putchar('\n');
    return status;
}

/* ---- Ids to text ---- */

/* With --json the text is collected, because a character may come in two parts. */
struct decoding {
    struct engine_decoder *decoder;
    FILE *out;
    char *text;
    size_t size;
};

/* Writes the text of the ids in data[0 … length), which are separated by blanks or commas. */
static int print_ids(struct tokenization *work, struct decoding *decoding, const char *data, size_t length)
{
    struct engine_string text;
    for (size_t at = 0; at < length && !interrupted;) {
        if (strchr(" ,\t\r\n", data[at]) && data[at]) {
            at++;
            continue;
        }
        uint64_t id = 0;
        size_t end = at;
        for (; end < length && data[end] >= '0' && data[end] <= '9' && id <= INT32_MAX; end++)
            id = id * 10 + (uint64_t)(data[end] - '0');
        if (end == at || id > INT32_MAX || (end < length && (!data[end] || !strchr(" ,\t\r\n", data[end]))))
            return command_error(ENGINE_ERROR_ARGUMENT, "not a token id: %.*s",
                                 data[at] ? (int)strcspn(data + at, " ,\t\r\n") : 11,
                                 data[at] ? data + at : "a zero byte");
        int status = work->api->decode(decoding->decoder, (int32_t)id, &text);
        if (status) return status;
        fwrite(text.data, 1, text.length, decoding->out);
        at = end;
    }
    int status = work->api->decode_end(decoding->decoder, &text);
    if (!status) fwrite(text.data, 1, text.length, decoding->out);
    return status;
}

/* Prints the text of the ids as a line of JSON. */
static int print_ids_json(struct tokenization *work, struct decoding *decoding, const char *data,
                          size_t length)
{
    decoding->out = open_memstream(&decoding->text, &decoding->size);
    if (!decoding->out) return command_error(ENGINE_ERROR_MEMORY, "out of memory (text)");
    int status = print_ids(work, decoding, data, length);
    bool whole = memory_stream_end(decoding->out, &decoding->text);
    if (!status && !whole) status = command_error(ENGINE_ERROR_MEMORY, "out of memory (text)");
    if (!status) {
        json_t *json = json_pack("{s:o}", "text", json_text(decoding->text, decoding->size));
        json_dumpf(json, stdout, 0);
        putchar('\n');
        json_decref(json);
    }
    free(decoding->text);
    return status;
}

/* With `lines`, each line of ids is a text, ended by a NUL. */
static int decode_all(struct tokenization *work, const char *data, size_t size, bool special, bool lines)
{
    struct decoding decoding = {.out = stdout};
    int status = work->api->decoder_create(work->tokenizer, special, &decoding.decoder);
    if (!status && !lines && work->ids) {
        status = print_ids_json(work, &decoding, data, size);
    } else if (!status && !lines) {
        status = print_ids(work, &decoding, data, size);
        if (!status && isatty(STDOUT_FILENO)) putchar('\n');
    }
    for (size_t at = 0; !status && lines && at < size && !interrupted;) {
        const char *newline = memchr(data + at, '\n', size - at);
        size_t length = newline ? (size_t)(newline - (data + at)) : size - at;
        status = work->ids ? print_ids_json(work, &decoding, data + at, length)
                           : print_ids(work, &decoding, data + at, length);
        if (!status && !work->ids) putchar('\0');
        at += length + 1;
    }
    work->api->decoder_destroy(decoding.decoder);
    return status;
}

/* ---- The command ---- */

static int tokenize_text(struct tokenization *work, const char *text, size_t length)
{
    if (work->explain)
        return explain_print(work->model, text, length, work->flags, work->ids != NULL, &work->had_bos);
    return encode_text(work, text, length);
}

static int encode_all(struct tokenization *work, const char *data, size_t size, bool nul)
{
    if (!nul) return tokenize_text(work, data, size);
    int status = ENGINE_OK;
    for (size_t at = 0; !status && at < size && !interrupted;) {
        size_t length = strlen(data + at); /* there is a NUL after the last byte */
        if (at && work->explain && !work->ids) putchar('\n');
        status = tokenize_text(work, data + at, length);
        at += length + 1;
    }
    return status;
}

static int tokenize(const struct arguments *arguments, struct engine_model *model)
{
    struct tokenization work = {
        .model = model,
        .flags =
            (arguments->bos ? ENGINE_ENCODE_BOS_EOS : 0u) | (arguments->special ? ENGINE_ENCODE_SPECIAL : 0u),
        .pieces = !arguments->ids && (!arguments->nul || arguments->json),
        .explain = arguments->explain,
    };
    int status = engine_model_tokenizer(model, &work.api, &work.tokenizer);
    if (status) return status;
    if (arguments->json) {
        work.ids = json_array();
        work.texts = json_array();
    }

    const char *word = arguments->words.count ? arguments->words.items[0] : NULL;
    char *input = NULL;
    size_t size = word ? strlen(word) : 0;
    if (arguments->json && (!work.ids || !work.texts)) {
        status = command_error(ENGINE_ERROR_MEMORY, "out of memory (JSON)");
        goto cleanup;
    }
    if (!word) {
        status = read_file("-", &input, &size);
        if (status) goto cleanup;
    }
    const char *data = word ? word : input;
    if (arguments->decode)
        status = decode_all(&work, data, size, arguments->special, arguments->nul);
    else
        status = encode_all(&work, data, size, arguments->nul);
    if (work.had_bos) command_warn("%s", PROMPT_HAD_BOS);

cleanup:
    free(input);
    json_decref(work.ids);
    json_decref(work.texts);
    return status;
}

int command_tokenize(const struct arguments *arguments)
{
    struct engine *engine = NULL;
    struct engine_model *model = NULL;
    if (arguments->nul && arguments->words.count)
        return command_usage("-0 reads texts from standard input: omit either it or \"%s\"",
                             arguments->words.items[0]);
    if (arguments->decode && (arguments->ids || arguments->bos))
        return command_usage("--decode turns ids into text: %s does not apply",
                             arguments->ids ? "--ids" : "--bos");
    if (arguments->explain && (arguments->ids || arguments->decode))
        return command_usage("--explain shows how text becomes tokens: %s does not apply",
                             arguments->ids ? "--ids" : "--decode");
    int status = open_engine(arguments, &engine);
    if (!status) status = open_model(arguments, engine, &model);
    if (!status) status = tokenize(arguments, model);
    int exit_status = status && !interrupted ? command_fail() : 0;
    engine_model_close(model);
    engine_close(engine);
    return exit_status;
}
