/* classify.c: `engine classify`: the labels of texts, with their probabilities. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands/commands.h"
#include "commands/ranking.h"
#include "io/display.h"
#include "io/json.h"
#include "io/messages.h"
#include "prompts/embedding.h"

/* The labels of a text, the most likely first: indices [n]. */
static void sort(const float *scores, uint32_t n, uint32_t *order)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = i;
        while (at > 0 && scores[order[at - 1]] < scores[i]) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
}

static void print_line(const struct ranking *r, const float *scores, const uint32_t *order, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct label_room room;
        struct engine_string name = label_name(r->model, order[i], &room);
        if (i > 0) putchar('\t');
        quoted_print_line(name, stdout);
        printf(" %.6f", (double)scores[order[i]]);
    }
    putchar('\n');
}

static void print_json(const struct ranking *r, size_t index, const float *scores, const uint32_t *order,
                       uint32_t n)
{
    const struct embed_text *text = &r->texts.items[index];
    json_t *labels = json_array();
    for (uint32_t i = 0; i < n; i++) {
        struct label_room room;
        struct engine_string name = label_name(r->model, order[i], &room);
        json_array_append_new(labels, json_pack("{s:o, s:o}", "label", json_text(name.data, name.length),
                                                "score", json_real((double)scores[order[i]])));
    }
    json_t *json = json_pack("{s:o, s:o, s:o}", "index", json_count(index), "tokens",
                             json_count(text->ids.count), "labels", labels);
    if (text->id) json_object_set(json, "id", text->id);
    json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(json);
}

static int print(const struct arguments *arguments, const struct ranking *r)
{
    uint32_t n_labels = r->info.n_labels;
    uint32_t n = arguments->n_top > 0 && arguments->n_top < n_labels ? arguments->n_top : n_labels;
    uint32_t *order = malloc(n_labels * sizeof *order);
    if (!order) return command_error(ENGINE_ERROR_MEMORY, "out of memory (labels)");
    end_text();
    for (size_t i = 0; i < r->texts.count; i++) {
        float *scores = r->scores + i * n_labels;
        if (!arguments->raw_scores) label_probabilities(r->info.label_scores, scores, n_labels);
        sort(scores, n_labels, order);
        if (arguments->json)
            print_json(r, i, scores, order, n);
        else
            print_line(r, scores, order, n);
    }
    free(order);
    if (fflush(stdout) == 0 && !ferror(stdout)) return ENGINE_OK;
    return command_error(ENGINE_ERROR, "cannot write the labels: %s", strerror(errno));
}

int command_classify(const struct arguments *arguments)
{
    struct ranking r;
    int status = ranking_open(arguments, &r);
    if (!status) status = ranking_run(arguments, &r);
    if (!status && !interrupted) status = print(arguments, &r);
    int exit_status = status && !interrupted ? command_fail() : 0;
    ranking_close(&r);
    return exit_status;
}
