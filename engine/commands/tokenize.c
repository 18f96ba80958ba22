/* tokenize.c: `engine tokenize`: text to token ids, for people with the pieces of text that they represent,
 * and ids to text. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/commands.h"
#include "common/memory-stream.h"
#include "io/display.h"
#include "io/files.h"
#include "io/json.h"
#include "io/messages.h"
#include "options/open.h"
#include "prompts/prompt.h"

/* ---- --explain: a line for each step ------------------------------------------------------------------- */

#define TEXT_WIDTH  60 /* characters of a text or word that are shown */
#define PART_WIDTH  20 /* of a part of a word */
#define NOTE_COLUMN 44 /* characters before ids, scores and ranks */

struct explaining {
    const struct engine_tokenizer_api *api;
    struct engine_tokenizer *tokenizer;
    const char *text;             /* the whole text */
    json_t *ids, *pieces, *steps; /* `steps` is NULL for a table */
    bool normalized;              /* the last step was NORMALIZED */
    int32_t bos;                  /* added; -1: none */
    bool had_bos;                 /* the text brought its own, which makes one of the two */
    const char *failure;          /* NULL if there was none */
};

static const char *name_of(uint32_t kind)
{
    switch (kind) {
    case ENGINE_EXPLAIN_SPECIAL: return "special";
    case ENGINE_EXPLAIN_TEXT: return "text";
    case ENGINE_EXPLAIN_WORD: return "word";
    case ENGINE_EXPLAIN_MERGE: return "merge";
    case ENGINE_EXPLAIN_CANDIDATE: return "candidate";
    case ENGINE_EXPLAIN_BEST: return "best";
    case ENGINE_EXPLAIN_TOKEN: return "token";
    case ENGINE_EXPLAIN_NORMALIZED: return "normalized";
    }
    return NULL; /* of a later version */
}

/* Whether the step adds a token to the result. */
static bool gives_token(const struct engine_explain_step *step)
{
    return step->id >= 0 && (step->kind == ENGINE_EXPLAIN_TOKEN || step->kind == ENGINE_EXPLAIN_SPECIAL);
}

static bool is_stretch(const struct engine_explain_step *step)
{
    return step->kind == ENGINE_EXPLAIN_TEXT || step->kind == ENGINE_EXPLAIN_NORMALIZED;
}

/* The piece of a token; empty for -1. */
static struct engine_string piece_of(struct explaining *work, int32_t id)
{
    struct engine_string piece = {"", 0};
    if (id >= 0 && work->api->piece(work->tokenizer, id, &piece)) work->failure = engine_error_message();
    return piece;
}

/* Keeps the ids of the result, and with JSON the pieces. */
static void keep_token(struct explaining *work, int32_t id)
{
    json_array_append_new(work->ids, json_integer(id));
    if (!work->pieces) return;
    struct engine_string piece = piece_of(work, id);
    json_array_append_new(work->pieces, json_text(piece.data, piece.length));
}

/* ---- The table ------------------------------------------------------------------------------------- */

/* Prints a text in quotes, its beginning if it has more than `most` characters. Returns its width. */
static size_t print_part(struct engine_string text, size_t most)
{
    size_t length = 0, n = 0;
    while (length < text.length && n++ < most) {
        size_t size = quoted_character((const unsigned char *)text.data + length, text.length - length);
        length += size ? size : 1;
    }
    size_t width = quoted_print((struct engine_string){text.data, length}, stdout);
    return width + (length < text.length ? (size_t)(printf("…") > 0) : 0);
}

static bool same(struct engine_string a, struct engine_string b)
{
    return a.length == b.length && memcmp(a.data, b.data, a.length) == 0;
}

/* The token's id, and its piece if it is spelled otherwise than the text. */
static void print_token(struct explaining *work, const struct engine_explain_step *step)
{
    if (step->id < 0) {
        printf("no token");
        return;
    }
    printf("%d", step->id);
    struct engine_string piece = piece_of(work, step->id);
    if (same(piece, step->text)) return;
    putchar(' ');
    print_part(piece, PART_WIDTH);
}

static void print_notes(struct explaining *work, const struct engine_explain_step *step)
{
    print_token(work, step);
    if (step->rank >= 0) printf("  rank %" PRId64, step->rank);
    if (!isnan(step->score)) printf("  score %.6g", step->score);
    if (!isnan(step->sum)) printf("  sum %.6g", step->sum);
    putchar('\n');
}

/* The two parts of a merge. */
static size_t print_merge(const struct engine_explain_step *step)
{
    size_t size = step->middle - step->start;
    struct engine_string left = {step->text.data, size},
                         right = {step->text.data + size, step->text.length - size};
    size_t width = print_part(left, PART_WIDTH) + 3;
    printf(" + ");
    width += print_part(right, PART_WIDTH) + 3;
    printf(" → ");
    return width;
}

/* What the step NORMALIZED said is not said again: the words show the rest. */
static void print_stretch(struct explaining *work, const struct engine_explain_step *step)
{
    bool said = work->normalized;
    work->normalized = step->kind == ENGINE_EXPLAIN_NORMALIZED;
    if (said) return;
    struct engine_string before = {work->text + step->start, step->end - step->start};
    printf("text        ");
    print_part(before, TEXT_WIDTH);
    if (!same(before, step->text)) {
        printf("\nnormalized  ");
        print_part(step->text, TEXT_WIDTH);
    }
    putchar('\n');
}

static void print_step(struct explaining *work, const struct engine_explain_step *step)
{
    if (is_stretch(step)) {
        print_stretch(work, step);
    } else if (step->kind == ENGINE_EXPLAIN_WORD) {
        printf("word        ");
        print_part(step->text, TEXT_WIDTH);
        putchar('\n');
    } else if (step->kind == ENGINE_EXPLAIN_SPECIAL && step->start == step->end) {
        struct engine_string piece = piece_of(work, step->id);
        printf("added       ");
        size_t width = 12 + print_part(piece, PART_WIDTH);
        printf("%*s%d\n", width < NOTE_COLUMN ? (int)(NOTE_COLUMN - width) : 2, "", step->id);
    } else {
        bool special = step->kind == ENGINE_EXPLAIN_SPECIAL;
        printf(special ? "%-12s" : "  %-10s", name_of(step->kind));
        size_t width = 12;
        if (step->kind == ENGINE_EXPLAIN_MERGE) width += print_merge(step);
        width += print_part(step->text, PART_WIDTH);
        printf("%*s", width + 2 < NOTE_COLUMN ? (int)(NOTE_COLUMN - width) : 2, "");
        print_notes(work, step);
    }
}

static void print_result(const struct explaining *work)
{
    size_t i;
    json_t *id;
    printf("tokens");
    json_array_foreach(work->ids, i, id) printf(i ? " %d" : "      %d", (int)json_integer_value(id));
    putchar('\n');
}

/* ---- JSON ------------------------------------------------------------------------------------------ */

static void set_number(json_t *json, const char *key, double number)
{
    if (!isnan(number)) json_object_set_new(json, key, json_real(number));
}

static void set_id(json_t *json, const char *key, int32_t id)
{
    json_object_set_new(json, key, id >= 0 ? json_integer(id) : json_null());
}

static void add_step(struct explaining *work, const struct engine_explain_step *step)
{
    json_t *json = json_pack("{s:s, s:I, s:I, s:o}", "step", name_of(step->kind), "start",
                             (json_int_t)step->start, "end", (json_int_t)step->end, "text",
                             json_text(step->text.data ? step->text.data : "", step->text.length));
    bool is_merge = step->kind == ENGINE_EXPLAIN_MERGE;
    if (!is_stretch(step) && step->kind != ENGINE_EXPLAIN_WORD) {
        struct engine_string piece = piece_of(work, step->id);
        set_id(json, "id", step->id);
        if (step->id >= 0) json_object_set_new(json, "piece", json_text(piece.data, piece.length));
    }
    if (is_merge) {
        json_object_set_new(json, "middle", json_count(step->middle));
        set_id(json, "left", step->left);
        set_id(json, "right", step->right);
    }
    if (step->rank >= 0) json_object_set_new(json, "rank", json_integer(step->rank));
    set_number(json, "score", step->score);
    set_number(json, "sum", step->sum);
    json_array_append_new(work->steps, json);
}

static int print_steps_json(const struct explaining *work, const char *text, size_t length)
{
    json_t *json = json_pack("{s:o, s:O, s:O, s:O}", "text", json_text(text, length), "ids", work->ids,
                             "pieces", work->pieces, "steps", work->steps);
    if (!json) return command_error(ENGINE_ERROR_MEMORY, "out of memory (JSON)");
    json_dumpf(json, stdout, 0);
    putchar('\n');
    json_decref(json);
    return ENGINE_OK;
}

/* ---- Both ------------------------------------------------------------------------------------------ */

/* The sink of engine_model_explain. */
static int take_step(void *user, const struct engine_explain_step *step)
{
    struct explaining *work = user;
    if (interrupted) return 1;
    if (!name_of(step->kind)) return 0;
    if (work->steps)
        add_step(work, step);
    else
        print_step(work, step);
    bool is_added = step->kind == ENGINE_EXPLAIN_SPECIAL && step->end == 0,
         is_bos = work->bos >= 0 && step->id == work->bos;
    bool is_second = is_bos && step->kind == ENGINE_EXPLAIN_SPECIAL && step->start == 0 && !is_added &&
                     json_array_size(work->ids) == 1;
    if (is_second && json_integer_value(json_array_get(work->ids, 0)) == work->bos)
        work->had_bos = true;
    else if (gives_token(step))
        keep_token(work, step->id);
    return work->failure != NULL;
}

/* Prints the steps (engine_model_explain) to standard output as a table, or as one line of JSON. Stops early
 * if the user interrupts. `flags`: enum engine_encode_flags. *had_bos becomes true if the text brought BOS
 * itself: then it is one token with the one that is added (token_list_drop_bos). */
static int explain_print(struct engine_model *model, const char *text, size_t length, uint32_t flags,
                         bool json, bool *had_bos)
{
    struct explaining work = {.text = text, .ids = json_array(), .bos = -1};
    struct engine_tokenizer_info info = {.struct_size = sizeof info};
    if (json) {
        work.pieces = json_array();
        work.steps = json_array();
    }
    int status = !work.ids || (json && (!work.pieces || !work.steps))
                     ? command_error(ENGINE_ERROR_MEMORY, "out of memory (steps)")
                     : engine_model_tokenizer(model, &work.api, &work.tokenizer);
    if (!status) status = work.api->info(work.tokenizer, &info);
    if (!status && (flags & ENGINE_ENCODE_BOS_EOS) && info.add_bos) work.bos = info.bos;
    if (!status) status = engine_model_explain(model, text, length, flags, take_step, &work);
    if (work.failure) status = command_error(ENGINE_ERROR, "%s", work.failure);
    if (!status && !interrupted) {
        if (json)
            status = print_steps_json(&work, text, length);
        else
            print_result(&work);
    }
    *had_bos |= work.had_bos;
    json_decref(work.ids);
    json_decref(work.pieces);
    json_decref(work.steps);
    return status;
}

/* ---- The command --------------------------------------------------------------------------------------- */

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
static int collect_ids(void *user, const int32_t *ids, size_t count)
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
    if (!status) status = work->api->encode(work->tokenizer, text, length, work->flags, collect_ids, &tokens);
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
