/* explain.c: see explain.h. A step is a line: what is done, with which part of the text, and what the
 * tokenizer knows of it. */
#include "commands/explain.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/display.h"
#include "io/json.h"
#include "io/messages.h"

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

static int print_json(const struct explaining *work, const char *text, size_t length)
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

int explain_print(struct engine_model *model, const char *text, size_t length, uint32_t flags, bool json,
                  bool *had_bos)
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
            status = print_json(&work, text, length);
        else
            print_result(&work);
    }
    *had_bos |= work.had_bos;
    json_decref(work.ids);
    json_decref(work.pieces);
    json_decref(work.steps);
    return status;
}
